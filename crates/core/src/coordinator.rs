//! Coordinators: agents that look after a run or a group, under an exclusive lease.
//!
//! A coordinator says regularly that it is there. One that misses two heartbeats is unresponsive, and one that misses a
//! third is given up, so that somebody else may take the lease. Coordinators are machines: their clocks go on while the
//! run is held. But a server that was down has heard nobody, so the third interval counts from when the first two were
//! found to be missed.
//!
//! What is done when something suspends that is coordinated is the lease's policy, and whatever has to be done follows
//! from how the run stands: [`Run::settle_coordination`] looks after every decision at what is to be done and is not yet.

mod escalate;
mod fold;
mod lease;
mod settle;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use escalate::TOPIC;
pub use lease::{CoordinatorCommand, Registration};

use crate::{InterruptId, Json, Millis, Run, RunId, Suspension};

/// What is done when something suspends that is coordinated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspensionPolicy {
    /// Nothing.
    #[default]
    Isolate,
    /// The phases after it are held back until it has resumed and completed.
    BlockDependents,
    /// People are asked to look at it.
    Escalate,
}

impl SuspensionPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Isolate, Self::BlockDependents, Self::Escalate];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Isolate => "isolate",
            Self::BlockDependents => "block_dependents",
            Self::Escalate => "escalate",
        }
    }

    /// The policy of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorStatus {
    /// Somebody has it.
    Active,
    /// Somebody has it, and does nothing for now.
    Paused,
    /// Somebody has it who was not heard from.
    Unresponsive,
    /// Whoever had it was given up.
    FailedOver,
    /// Whoever had it is done.
    Completed,
}

impl CoordinatorStatus {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Unresponsive => "unresponsive",
            Self::FailedOver => "failed_over",
            Self::Completed => "completed",
        }
    }

    /// Whether nobody else may have a lease.
    pub fn holds(self) -> bool {
        matches!(self, Self::Active | Self::Paused | Self::Unresponsive)
    }
}

/// A lease of somebody who coordinates a run or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinator {
    /// Who.
    pub agent: String,
    /// Who is to look after it if they are not heard from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<String>,
    /// What is done about what is suspended.
    pub suspension_policy: SuspensionPolicy,
    /// How often they say that they are there.
    pub heartbeat_interval_ms: Millis,
    /// Where it stands.
    pub status: CoordinatorStatus,
    /// When they were heard last, as far as that was recorded.
    pub last_heartbeat: Millis,
    /// Since when they count as unresponsive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unresponsive_since: Option<Millis>,
    /// Since when.
    pub granted_at: Millis,
    /// Until when at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// The caller's own data, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// How often it has changed. That they are there changes nothing.
    pub version: u64,
}

impl Coordinator {
    /// When something becomes of the lease if nobody says anything.
    pub(crate) fn due(&self) -> Option<Millis> {
        let missed = match self.status {
            CoordinatorStatus::Active => Some(self.after(self.last_heartbeat, 2)),
            CoordinatorStatus::Unresponsive => {
                Some(self.after(self.unresponsive_since.unwrap_or(self.last_heartbeat), 1))
            }
            _ => None,
        };
        missed.into_iter().chain(self.expires_at).min().filter(|_| self.status.holds())
    }

    /// Whether its end has come, whoever has heard of that.
    pub(crate) fn has_expired(&self, now: Millis) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    fn after(&self, from: Millis, intervals: Millis) -> Millis {
        from.saturating_add(self.heartbeat_interval_ms.saturating_mul(intervals))
    }

    /// Whether the policy is carried out. Whoever is paused wants nothing done.
    pub(crate) fn acts(&self) -> bool {
        matches!(self.status, CoordinatorStatus::Active | CoordinatorStatus::Unresponsive)
    }
}

/// Who coordinates a run, and what was done because of that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Coordination {
    /// The leases, by their ids: the one that somebody has, and the last that somebody had.
    pub(crate) leases: BTreeMap<String, Coordinator>,
    /// Phases that are held back, by the phase that waits for people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) blocking: BTreeMap<String, Blocking>,
    /// What people were asked to look at.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) escalated: BTreeMap<RunId, Escalated>,
    /// The members of a group that wait for people, as far as they were heard since somebody coordinates it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) members: BTreeMap<RunId, Suspension>,
    /// There were more of them than are kept apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) crowded: bool,
}

/// Phases that are held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Blocking {
    /// By whose policy.
    pub(crate) coordinator: String,
    /// Which phases.
    pub(crate) phases: Vec<String>,
}

/// A suspension that people were asked to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Escalated {
    /// Since when it lasts, which tells it from a later one.
    pub(crate) since: Millis,
    /// What they were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interrupt: Option<InterruptId>,
}

/// What may be read.
impl Run {
    /// The leases of those who coordinate it or did, by their ids.
    pub fn coordinators(&self) -> impl Iterator<Item = (&str, &Coordinator)> {
        let leases = self.state.coordination.iter().flat_map(|coordination| &coordination.leases);
        leases.map(|(id, lease)| (id.as_str(), lease))
    }

    /// One of those leases.
    pub fn coordinator(&self, id: &str) -> Option<&Coordinator> {
        self.state.coordination.as_ref()?.leases.get(id)
    }

    /// The lease that somebody has.
    pub fn held_lease(&self) -> Option<(&str, &Coordinator)> {
        self.coordinators().find(|(_, lease)| lease.status.holds())
    }

    /// The phases that are held back, by the phase that waits for people.
    pub fn held_back_phases(&self) -> impl Iterator<Item = (&str, &[String])> {
        let blocking = self.state.coordination.iter().flat_map(|coordination| &coordination.blocking);
        blocking.map(|(phase, blocking)| (phase.as_str(), blocking.phases.as_slice()))
    }
}
