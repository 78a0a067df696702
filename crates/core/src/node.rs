//! Where a node of a run stands.

use serde::{Deserialize, Serialize};

use crate::event::{Failure, NodeEvent};
use crate::{Json, Millis};

/// Where one execution of a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodePhase {
    /// Not started; something before it is unfinished, or the run is held.
    Pending,
    /// Handed to an executor under a lease; the outcome is unknown until it reports.
    Running,
    /// Parked on a durable timer.
    Waiting,
    /// Done, with outputs.
    Completed,
    /// Done for, with an error.
    Failed,
    /// Ended with its run, before it was done.
    Cancelled,
}

impl NodePhase {
    /// The phase after `event`, or `None` if the event is illegal here.
    pub fn after(self, event: &NodeEvent) -> Option<Self> {
        use NodePhase::*;
        match (self, event) {
            (Pending, NodeEvent::Started(started)) if started.until.is_some() => Some(Waiting),
            (Pending, NodeEvent::Started(_)) => Some(Running),
            (Running | Waiting, NodeEvent::Completed(_)) => Some(Completed),
            (Running, NodeEvent::Failed(_)) => Some(Failed),
            // A running node is never cancelled under its executor: its outcome is recorded first.
            (Pending | Waiting, NodeEvent::Cancelled(_)) => Some(Cancelled),
            _ => None,
        }
    }

    /// Whether nothing more can happen to this execution.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Every phase, for tables and tests.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Waiting, Self::Completed, Self::Failed, Self::Cancelled];
}

/// A node's state within its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Where the current execution stands.
    pub phase: NodePhase,
    /// Which execution this is: 0 before the first, then 1. A retry or a recovery keeps the number.
    pub execution: u32,
    /// Incoming edges that are not satisfied yet. The node is ready at zero.
    pub unmet: u32,
    /// The execution was handed to an executor. A node whose inputs are missing fails before it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dispatched: bool,
    /// When a waiting node goes on. Kept so that its timer can be named and dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// When the execution began and ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// When the execution ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// What it produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

impl Node {
    /// A node that waits for `unmet` incoming edges.
    pub(crate) fn pending(unmet: u32) -> Self {
        Self {
            phase: NodePhase::Pending,
            execution: 0,
            unmet,
            dispatched: false,
            until: None,
            started_at: None,
            ended_at: None,
            outputs: None,
            error: None,
        }
    }
}
