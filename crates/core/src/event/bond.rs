//! The payloads of what happens between runs: dependencies, and who watches whom.

use serde::{Deserialize, Serialize};

use crate::effect::Order;
use crate::{JsonMap, Millis, RunId, Status, Suspension, Tidings};

/// A run that another one waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependsOn {
    /// Which run.
    pub run: RunId,
    /// What the run that waits calls it, if it takes inputs from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How it stood when it was named, if that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

impl DependsOn {
    /// A run of which nothing is known yet.
    pub fn on(run: RunId) -> Self {
        Self { run, name: None, status: None }
    }
}

/// The run waits for another one, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependencyAdded {
    /// Which.
    pub dependency: DependsOn,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The run does not wait for another one any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependencyRemoved {
    /// Which.
    pub run: RunId,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A run that this one waits for told how it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependencyReported {
    /// Which run.
    pub run: RunId,
    /// Its sequence at that state.
    pub sequence: u64,
    /// How it stands.
    pub status: Status,
    /// Since when it waits for people, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// What it has produced.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub outputs: JsonMap,
    /// The outputs are never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

impl DependencyReported {
    pub(crate) fn of(tidings: &Tidings) -> Self {
        Self {
            run: tidings.from,
            sequence: tidings.sequence,
            status: tidings.status,
            suspended: tidings.suspended,
            outputs: tidings.outputs.clone(),
            sensitive: tidings.sensitive,
        }
    }
}

/// Why no node of a run starts although nobody holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockedReason {
    /// Whoever coordinates what it belongs to holds it back.
    CoordinatorBlocked,
    /// A run that it waits for has not completed.
    DependencyIncomplete,
    /// A run that it waits for waits for people.
    DependencySuspended,
    /// A run that it waits for has failed or was cancelled, so it will never complete.
    OnDependencyFailed,
}

impl BlockedReason {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::CoordinatorBlocked => "coordinator_blocked",
            Self::DependencyIncomplete => "dependency_incomplete",
            Self::DependencySuspended => "dependency_suspended",
            Self::OnDependencyFailed => "on_dependency_failed",
        }
    }
}

/// No node starts until every run that this one waits for has completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunBlocked {
    /// Why.
    pub reason: BlockedReason,
    /// The runs that it waits for, the first of them.
    pub by: Vec<RunId>,
}

/// Every run that this one waits for has completed, or it waits for none any more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunUnblocked {}

/// A draft begins in earnest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunActivated {
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Somebody wants to hear how the run stands, or does not any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunWatched {
    /// The run or the group.
    pub by: RunId,
    /// Their sequence.
    pub sequence: u64,
    /// Whether they want to.
    pub watching: bool,
    /// Until when the run may wait for people, if they are a group that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
}

/// Whoever coordinates another run holds this one back, or does not any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunOrdered {
    /// The run that is coordinated.
    pub by: RunId,
    /// Its sequence.
    pub sequence: u64,
    /// What is to be done.
    pub order: Order,
}
