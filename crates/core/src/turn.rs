//! Turns: what a model is asked, what it answers, and what becomes of it when its provider is away.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Message`], [`ModelCall`], [`ModelAnswer`], [`ModelError`] | `turn/message.rs` | what is said, in words that no provider owns |
//! | [`Schedule`] | `turn/schedule.rs` | how long a turn waits before it tries again |

mod message;
mod schedule;

pub use message::{
    ErrorKind, Message, ModelAnswer, ModelCall, ModelError, Reasoning, ToolCall, ToolSpec, Usage,
};
pub use schedule::Schedule;
