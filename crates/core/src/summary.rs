//! What lists and filters need to know of a run: the columns beside its journal.

use serde::{Deserialize, Serialize};

use crate::{Hash, Hold, Lifecycle, Millis, Run, Waiting};

/// A run in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The definition's id.
    pub workflow_id: std::sync::Arc<str>,
    /// The definition's hash.
    pub definition: Hash,
    /// Where the run stands.
    pub status: Status,
    /// When it started.
    pub started_at: Millis,
}

/// Where a run stands, as shown: a terminal state first, then a cancellation, then a hold, then the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Not started.
    Pending,
    /// Under way.
    Running,
    /// Held by an operator.
    Paused,
    /// About to be cancelled.
    Cancelling,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Ended by somebody.
    Cancelled,
    /// Stopped until somebody decides.
    WaitingApproval,
    /// Stopped until somebody answers.
    WaitingInput,
    /// Stopped until something happens elsewhere.
    WaitingExternal,
    /// Kept back until other runs have completed.
    Blocked,
    /// Kept back until somebody activates it.
    Draft,
}

impl Status {
    /// Every status with its number on disk and its name.
    pub const ALL: [(Self, u8, &'static str); 12] = [
        (Self::Pending, 0, "pending"),
        (Self::Running, 1, "running"),
        (Self::Paused, 2, "paused"),
        (Self::Cancelling, 3, "cancelling"),
        (Self::Completed, 4, "completed"),
        (Self::Failed, 5, "failed"),
        (Self::Cancelled, 6, "cancelled"),
        (Self::WaitingApproval, 7, "waiting-approval"),
        (Self::WaitingInput, 8, "waiting-input"),
        (Self::WaitingExternal, 9, "waiting-external"),
        (Self::Blocked, 10, "blocked"),
        (Self::Draft, 11, "draft"),
    ];

    /// The number on disk.
    pub fn code(self) -> u8 {
        self.entry().1
    }

    /// What OpenWOP calls it, which knows nothing of runs that wait for others.
    pub fn openwop_name(self) -> &'static str {
        match self {
            Self::Blocked | Self::Draft => Self::Pending.name(),
            other => other.name(),
        }
    }

    /// The name; in the words of OpenWOP, as far as that has one.
    pub fn name(self) -> &'static str {
        self.entry().2
    }

    /// The status with this number on disk.
    pub fn by_code(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|entry| entry.1 == code).map(|entry| entry.0)
    }

    /// The status with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|entry| entry.2 == name).map(|entry| entry.0)
    }

    /// What OpenIntent calls it: the same state in other words.
    pub fn intent_name(self) -> &'static str {
        match self {
            Self::Pending | Self::Running | Self::Cancelling => "active",
            Self::Paused | Self::Blocked => "blocked",
            Self::Draft => "draft",
            Self::WaitingApproval | Self::WaitingInput | Self::WaitingExternal => "suspended_awaiting_input",
            Self::Completed => "completed",
            Self::Failed | Self::Cancelled => "abandoned",
        }
    }

    /// Whether the journal has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether it stopped until somebody outside says how it goes on.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingApproval | Self::WaitingInput | Self::WaitingExternal)
    }

    fn entry(self) -> (Self, u8, &'static str) {
        Self::ALL[self as usize]
    }
}

impl From<Waiting> for Status {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Approval => Self::WaitingApproval,
            Waiting::Input => Self::WaitingInput,
            Waiting::External => Self::WaitingExternal,
        }
    }
}

impl Run {
    /// Where the run stands, as shown.
    pub fn status(&self) -> Status {
        match (self.lifecycle(), self.hold()) {
            (Lifecycle::Completed, _) => Status::Completed,
            (Lifecycle::Failed, _) => Status::Failed,
            (Lifecycle::Cancelled, _) => Status::Cancelled,
            (Lifecycle::Cancelling, _) => Status::Cancelling,
            (_, Hold::Paused | Hold::Stopped | Hold::Escalated) => Status::Paused,
            (Lifecycle::Pending, _) => Status::Pending,
            (Lifecycle::Running, _) => self.waiting().map_or_else(|| self.unasked(), Status::from),
        }
    }

    /// Where a run stands that goes on, or would.
    fn unasked(&self) -> Status {
        match (self.is_draft(), self.blocked_since()) {
            (true, _) => Status::Draft,
            (false, Some(_)) => Status::Blocked,
            (false, None) => Status::Running,
        }
    }

    /// The run in one row.
    pub fn summary(&self) -> Summary {
        Summary {
            workflow_id: self.graph().workflow_id.clone(),
            definition: self.graph().hash,
            status: self.status(),
            started_at: self.started_at(),
        }
    }
}
