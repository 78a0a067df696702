//! The payloads of what happens to a node whose work is done by a worker.

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::{InterruptId, Json, JsonMap, Millis};

/// What holds for one execution of a node that workers do: what they said of its kind, unless the definition said
/// otherwise. It is recorded, so that a worker that comes later with other words changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Offered {
    /// The only agent whose workers may do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Doing it twice is as good as once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// What it does can be undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reversible: bool,
    /// Somebody said that what it does can't be undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub irreversible: bool,
    /// How long a worker may take from one hand-out to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
}

/// A step is about to be done that must not be done twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepBegun {
    /// The step.
    pub key: String,
}

/// A step was done. It is never done again in this execution: whoever asks gets this outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepRecorded {
    /// The step.
    pub key: String,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// How it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// The value is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A worker waits for a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SleepStarted {
    /// What it is known by.
    pub key: String,
    /// The time.
    pub until: Millis,
}

/// The time has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SleepEnded {
    /// What it is known by.
    pub key: String,
}

/// Which version of a change this execution follows, for as long as it lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRecorded {
    /// The change.
    pub key: String,
    /// The version; 0 is the code before the change.
    pub version: u32,
}

/// One thing that a parked node waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wait {
    /// An answer.
    Interrupt(InterruptId),
    /// A time.
    Sleep(String),
    /// A child's end.
    Child(String),
}

/// A worker gave a task back until something comes that it waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeParked {
    /// Any of these.
    pub waits: Vec<Wait>,
    /// Why the worker could not go on: its code does not fit what was recorded. Another's may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<Failure>,
}

/// A worker will not tell how its task ended. The task is offered again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskLost {
    /// Why.
    pub reason: Loss,
    /// The worker, in words for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub worker: String,
}

/// Why a worker will not tell how its task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Nothing was heard of it for too long.
    Silent,
    /// It went away.
    Left,
    /// It is there, but does not have it any more.
    Forgotten,
    /// It has not begun, and wants another to do it.
    Released,
    /// It took longer than it may.
    Timeout,
    /// The run is ending, and nobody has the task or whoever has it did not stop.
    CalledOff,
}

/// What a worker says of its progress, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeNoted {
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LogLine>,
    /// The words are never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// So much is done.
    pub done: f64,
    /// Of so much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One line of a worker's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogLine {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// What it says.
    pub message: String,
}

/// An agent decided whether to ask, or to go on by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngagementDecided {
    /// As the agent told it: its mode, whether it asks, why, and what spoke for it.
    pub decision: JsonMap,
}
