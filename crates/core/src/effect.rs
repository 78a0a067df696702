//! What the shell must do once the events it came with are durable.
//!
//! Effects are values. They are produced only by `apply`, so whatever a journal says has happened implies
//! the same timers, tasks and messages when it is folded again.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Lifecycle, Millis, RunId};

/// One thing to do. The store writes it in the transaction that holds its event.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Wake the run at `due`.
    ArmTimer {
        /// Which timer of the run.
        timer: TimerId,
        /// When.
        due: Millis,
    },
    /// Forget a timer that was armed for `due`.
    DropTimer {
        /// Which timer of the run.
        timer: TimerId,
        /// When it would have fired; the store finds it by this.
        due: Millis,
    },
    /// Have a node executed and reported.
    Dispatch {
        /// Which task.
        task: TaskId,
        /// The first fencing token of its lease: higher for every later dispatch of the same run.
        fence: u64,
    },
    /// The node's outcome is recorded: its task is over.
    FinishTask(TaskId),
    /// Tell another run how this one stands.
    Send {
        /// The receiver, in the same tenant.
        to: RunId,
        /// What it is told.
        notice: Notice,
    },
    /// Remember how far a sender has been heard, so that repeats are known.
    Hear {
        /// The sender.
        from: RunId,
        /// The sender's sequence that was heard.
        sequence: u64,
    },
}

/// One execution of a node, as a unit of work with a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    /// The node.
    pub node: std::sync::Arc<str>,
    /// Which execution of it.
    pub execution: u32,
}

/// A timer of one run. Its text form is its key on disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerId {
    /// A `core.delay` ends.
    Delay {
        /// The waiting node.
        node: std::sync::Arc<str>,
        /// Which execution of it.
        execution: u32,
    },
    /// A long stretch of pure nodes goes on after it yielded.
    Stretch,
}

impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay { node, execution } => write!(f, "delay/{execution}/{node}"),
            Self::Stretch => f.write_str("stretch"),
        }
    }
}

impl FromStr for TimerId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "stretch" {
            return Ok(Self::Stretch);
        }
        let parsed = text.strip_prefix("delay/").and_then(|rest| rest.split_once('/')).and_then(
            |(execution, node)| Some(Self::Delay { node: node.into(), execution: execution.parse().ok()? }),
        );
        parsed.ok_or_else(|| format!("'{text}' is no timer of this version"))
    }
}

/// How a run stands, told to another run. It carries state and sequence, never a difference: the receiver
/// keeps the highest it saw, so order and repeats do not matter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notice {
    /// The run that speaks.
    pub from: RunId,
    /// The sequence of the event that brought the sender to this state.
    pub sequence: u64,
    /// The node of the receiver that stands for the sender.
    pub node: String,
    /// How the sender stands.
    pub lifecycle: Lifecycle,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_ids_survive_a_round_trip_through_text() {
        let delay = TimerId::Delay { node: "a/b".into(), execution: 3 };
        for timer in [delay, TimerId::Stretch] {
            assert_eq!(timer.to_string().parse::<TimerId>(), Ok(timer));
        }
        assert!("alarm".parse::<TimerId>().is_err());
    }
}
