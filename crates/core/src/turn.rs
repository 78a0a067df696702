//! Turns: what a model is asked, what it answers, and what becomes of it when its provider is away.
//!
//! A turn is one execution of a node. It is a row of steps, each of which is one answer of the model and then the tools
//! that this calls, which are runs of their own. Between two tries the node waits on a timer and costs nothing.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Message`], [`ModelCall`], [`ModelAnswer`], [`ModelError`] | `turn/message.rs` | what is said, in words that no provider owns |
//! | [`Schedule`] | `turn/schedule.rs` | how long a turn waits before it tries again |
//! | [`ProviderTerms`], [`Verdict`](verdict::Verdict) | `turn/verdict.rs` | whether it tries again |
//! | [`TurnCommand`] | `command/turn.rs` | what may happen to a turn |
//! | begin | `turn/begin.rs` | what the model is told first |
//! | tools | `turn/tools.rs` | the runs that a model's calls become |
//! | fold | `turn/fold.rs` | what a turn's events change |
//! | [`TurnView`] | `turn/view.rs` | a turn as it is shown |

mod begin;
mod fold;
mod message;
mod mock;
mod schedule;
mod tools;
mod verdict;
mod view;

use serde::{Deserialize, Serialize};

pub(crate) use begin::too_long;
pub use message::{
    ErrorKind, Message, ModelAnswer, ModelCall, ModelError, Reasoning, ToolCall, ToolSpec, Usage,
};
pub use mock::{MOCK_PROVIDERS, Mock, MockError};
pub use schedule::Schedule;
pub(crate) use verdict::Verdict;
pub use verdict::{Price, ProviderTerms};
pub use view::{TurnStatus, TurnView, WaitView};

use crate::event::{TurnBegan, TurnEnd};
use crate::{Failure, Millis, RunId};

/// How far a turn has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnState {
    /// What fixes its calls. Its messages are the whole conversation so far.
    pub(crate) began: Box<TurnBegan>,
    /// How many answers the model has given.
    pub(crate) step: u32,
    /// How many retries of this step there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) attempt: u32,
    /// How many retries of any step there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) retries: u32,
    /// How often the provider was called.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) calls: u32,
    /// The event that made the call under way: whoever reports another one comes too late.
    pub(crate) called: u64,
    pub(crate) stage: Stage,
    /// What the provider said last when it could not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) withheld: Option<Withheld>,
    /// Since when the provider was not even asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) postponed_since: Option<Millis>,
    pub(crate) usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost_micros: Option<u64>,
    /// The model, as the provider calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answered_by: Option<String>,
}

/// Where a turn stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// Its model is to be called as soon as it is the node's turn in line.
    Due,
    /// Its model is being called.
    Calling {
        /// Somebody has seen a part of the answer.
        content: bool,
    },
    /// It waits for its next try.
    Retrying { delay_ms: Millis, since: Millis },
    /// It waits for the provider's breaker to close.
    Postponed,
    /// It waits for tools.
    Tools(Vec<Pending>),
    /// An answer broke off: whether the step is done again is decided as for any other work that failed.
    Broken,
    /// It is over.
    Sealed { end: TurnEnd, error: Option<Failure> },
}

/// A call of a tool on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) call: ToolCall,
    /// The run that the call became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) child: Option<RunId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) answered: bool,
}

/// An error that is told only if nothing better comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Withheld {
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
}

impl TurnState {
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self.stage, Stage::Sealed { .. })
    }

    /// Whether it waits for its provider.
    pub(crate) fn awaits_provider(&self) -> bool {
        matches!(self.stage, Stage::Retrying { .. } | Stage::Postponed)
    }

    /// The runs of tools that have not answered.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = RunId> + '_ {
        let pending = match &self.stage {
            Stage::Tools(pending) => pending.as_slice(),
            _ => &[],
        };
        pending.iter().filter(|call| !call.answered).filter_map(|call| call.child)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
