//! The payloads of what happens to groups.

use serde::{Deserialize, Serialize};

use super::EventType;
use super::types::{MEMBER_REPORTED, MEMBER_RESUMED, MEMBER_SUSPENDED};
use crate::{Json, Millis, RunId, Status, Suspension};

/// What a group is, from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupSpec {
    /// What it is called.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What holds for its members.
    #[serde(default, skip_serializing_if = "Governance::is_empty")]
    pub governance: Governance,
    /// Whose it is, as whoever made it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The caller's own data, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// What holds for the members of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Governance {
    /// Until when members may wait for people: one that still does then is abandoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// The group may be closed as completed although not every member has completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_partial_completion: bool,
    /// The group completes by itself once this share of its members has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_complete_threshold: Option<f64>,
    /// What the members may cost together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_limit_cents: Option<u64>,
    /// What the owner has agreed on with the members; kept and shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_constraints: Option<Json>,
    /// All of it as it was written, if that was in other words; kept and shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Json>,
}

impl Governance {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a member is to its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the group is about.
    Primary,
    /// One of several.
    #[default]
    Member,
    /// Something that the others need.
    Dependency,
}

impl Role {
    /// Every role with its number on disk and its name.
    pub const ALL: [(Self, u8, &'static str); 3] =
        [(Self::Primary, 0, "primary"), (Self::Member, 1, "member"), (Self::Dependency, 2, "dependency")];

    /// The number on disk.
    pub fn code(self) -> u8 {
        Self::ALL[self as usize].1
    }

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// The role with this number on disk.
    pub fn by_code(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|entry| entry.1 == code).map(|entry| entry.0)
    }

    /// The role with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|entry| entry.2 == name).map(|entry| entry.0)
    }
}

/// A run belongs to the group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberAdded {
    /// Which run.
    pub run: RunId,
    /// What it is to the group.
    pub role: Role,
    /// The higher, the more it matters.
    #[serde(default)]
    pub priority: i32,
    /// How it stood then.
    pub status: Status,
    /// Its sequence then.
    pub sequence: u64,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A run does not belong to the group any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberRemoved {
    /// Which run.
    pub run: RunId,
    /// How it stood, as far as the group had heard.
    pub was: Status,
    /// What it had cost, as far as the group had heard.
    #[serde(default)]
    pub cost_micros: u64,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A member told how it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberReported {
    /// Which run.
    pub run: RunId,
    /// Its sequence at that state.
    pub sequence: u64,
    /// How it stood before, as far as the group had heard.
    pub was: Status,
    /// How it stands.
    pub status: Status,
    /// Since when it waits for people, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// It waited for people before, as far as the group had heard, whether or not somebody held it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_suspended: bool,
    /// What it has cost.
    #[serde(default)]
    pub cost_micros: u64,
    /// What it had cost before.
    #[serde(default)]
    pub cost_was: u64,
}

impl MemberReported {
    /// Waiting for people and going on again have names of their own.
    pub(super) fn event_type(&self) -> EventType {
        let suspended = self.status.is_waiting() || self.suspended.is_some();
        match (self.was.is_waiting() || self.was_suspended, suspended) {
            (false, true) => MEMBER_SUSPENDED,
            (true, false) if !self.status.is_terminal() => MEMBER_RESUMED,
            _ => MEMBER_REPORTED,
        }
    }
}

/// Other things hold for the members from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GovernanceSet {
    /// All of them.
    pub governance: Governance,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The members have cost more than they may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BudgetExceeded {
    /// What they may cost.
    pub limit_cents: u64,
    /// What they have cost.
    pub cost_micros: u64,
}
