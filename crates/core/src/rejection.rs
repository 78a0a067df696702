//! Why a command was refused. A refused command changes nothing.

use crate::{Lifecycle, Millis};

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Nothing has been recorded of the run yet.
    #[error("the run has not started")]
    NotStarted,
    /// The journal has ended.
    #[error("the run has already {}", ended_as(*.0))]
    Ended(Lifecycle),
    /// A cancellation is under way.
    #[error("the run is being cancelled")]
    Cancelling,
    /// The run is paused already.
    #[error("the run is already paused")]
    AlreadyPaused,
    /// Nothing to resume.
    #[error("the run is not paused")]
    NotPaused,
    /// A timer was reported before its time.
    #[error("the timer is not due before {due}")]
    NotDue {
        /// When it is due.
        due: Millis,
    },
    /// A timer was reported that the run does not wait for (any more).
    #[error("the run waits for no such timer")]
    NoSuchTimer,
    /// An outcome was reported for work that is not under way (any more).
    #[error("the node has no such execution under way")]
    NoSuchTask,
    /// The sender has been heard at this sequence or a later one.
    #[error("this notice was heard before")]
    HeardBefore,
    /// Something the caller gave is wrong.
    #[error("{message}")]
    Invalid {
        /// Where in the request.
        field: String,
        /// What to change.
        message: String,
    },
    /// The definition uses a node kind behind a capability that is not offered.
    #[error("node '{node}' is of kind {type_id}, which needs the capability '{capability}'")]
    CapabilityRequired {
        /// The node.
        node: String,
        /// Its kind.
        type_id: String,
        /// What is missing.
        capability: &'static str,
    },
}

impl Rejection {
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }
}

fn ended_as(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Failed => "failed",
        Lifecycle::Cancelled => "been cancelled",
        _ => "completed",
    }
}
