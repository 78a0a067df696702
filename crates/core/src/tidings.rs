//! What runs and groups tell each other beside what children tell their parents.
//!
//! Everything here is state and sequence, never a difference: the receiver keeps the highest it has heard.

use serde::{Deserialize, Serialize};

use crate::{JsonMap, Millis, Run, RunId, Status};

/// How a run stands, told to those who watch it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tidings {
    /// The run that speaks.
    pub from: RunId,
    /// The sequence of the event that brought it to this state.
    pub sequence: u64,
    /// Where it stands.
    pub status: Status,
    /// Since when it waits for people, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// What it has produced, if it is through and was done by hand.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub outputs: JsonMap,
    /// Those of the outputs are never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// What its calls of models have cost.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost_micros: u64,
}

/// Since when a run waits for people, and when that is over at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Suspension {
    /// When the first of the questions was asked without whose answers it has not been since.
    pub since: Millis,
    /// When the first of them ends that has an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

/// That somebody wants to hear how a run stands, or does not any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// Who.
    pub from: RunId,
    /// The sequence of their event that brought it about.
    pub sequence: u64,
    /// Whether they want to.
    pub watching: bool,
    /// When they said so. What was said before a deadline counts, however late it is heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
    /// Until when the run may wait for people, if whoever watches is a group that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
}

fn is_nothing(amount: &u64) -> bool {
    *amount == 0
}

impl Tidings {
    /// Whether it holds something that is never shown.
    pub fn hides(&self) -> bool {
        self.sensitive && !self.outputs.is_empty()
    }

    /// What is told of a run that is not there, or not any more: nothing will ever come of it.
    pub fn of_nobody(from: RunId) -> Self {
        Self {
            from,
            sequence: u64::MAX >> 1,
            status: Status::Cancelled,
            suspended: None,
            outputs: JsonMap::new(),
            sensitive: false,
            cost_micros: 0,
        }
    }

    /// What is told of a run of which nothing can be read but its columns.
    pub fn of_columns(from: RunId, sequence: u64, status: Status) -> Self {
        Self { sequence, status, ..Self::of_nobody(from) }
    }
}

/// What those who watch a run see of it. They are told when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    status: Status,
    suspended: Option<Suspension>,
}

/// What a parent sees of a child that it wants to hear of. Whoever shows it as a task shows more than who watches a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mirrored {
    status: Status,
    suspended: Option<Suspension>,
    claimed: bool,
}

impl Run {
    pub(crate) fn mirrored(&self) -> Mirrored {
        Mirrored { status: self.status(), suspended: self.suspension(), claimed: self.is_claimed() }
    }

    pub(crate) fn sight(&self) -> Sight {
        Sight { status: self.status(), suspended: self.suspension() }
    }

    /// Since when it waits for people, if it does. A run that is held because it was interrupted does not.
    pub fn suspension(&self) -> Option<Suspension> {
        if !self.is_suspended() {
            return None;
        }
        let open = || self.awaited_answers();
        let since = self.state.suspended_since.or_else(|| open().map(|open| open.at).min())?;
        Some(Suspension { since, expires_at: open().filter_map(crate::Open::deadline).min() })
    }

    /// How it stands, for those who watch it.
    pub fn tidings(&self) -> Tidings {
        let (outputs, sensitive) = self.handed_over();
        Tidings {
            from: self.key.id,
            sequence: self.head.next.saturating_sub(1),
            status: self.status(),
            suspended: self.suspension(),
            outputs,
            sensitive,
            cost_micros: self.state.usage.cost_micros.unwrap_or(0),
        }
    }
}
