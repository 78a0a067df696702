//! Where a forked run comes from, and how a replay differs from what it replays.

use serde::{Deserialize, Serialize};

use crate::{Millis, RunId};

/// What a fork is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    /// To see whether what was recorded comes out the same again. Nothing outside hears of it.
    Replay,
    /// To go on otherwise from some event.
    Branch,
}

impl ForkMode {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Branch => "branch",
        }
    }
}

/// Where a run was forked off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forked {
    /// The run.
    pub run: RunId,
    /// The run that this one replays itself, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replays: Option<RunId>,
    /// Its event before which the two are the same.
    pub from_seq: u64,
    /// What for.
    pub mode: ForkMode,
    /// How many of the events are those of the other run: a decision that was begun before `from_seq` is among them to
    /// its end.
    pub history: u64,
    /// By how much later they stand here: what was left of a wait then is left of it now.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub moved_ms: Millis,
    /// How many runs lay above the other one: a fork has no parent, but is not let deeper for that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// Who forked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Who had started the other run, and the ones that it was forked off: what goes on here is still theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starters: Vec<String>,
}

/// How an event of a replay differs from the one that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivergenceKind {
    /// It says something else.
    Output,
    /// It was recorded, and did not happen again.
    Missing,
    /// It was not recorded.
    Extra,
    /// The run ended otherwise.
    TypeMismatch,
}

impl DivergenceKind {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::TypeMismatch => "type-mismatch",
        }
    }
}

/// A replay came out otherwise than what it replays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayDiverged {
    /// The run that is replayed.
    pub source_run_id: RunId,
    /// Where in its journal.
    pub at_sequence: u64,
    /// The recorded event, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_event_id: Option<String>,
    /// How they differ.
    pub divergence_kind: DivergenceKind,
    /// The node that it happened to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

fn is_nothing(ms: &Millis) -> bool {
    *ms == 0
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
