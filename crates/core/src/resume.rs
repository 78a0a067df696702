//! When an interrupted run may continue by itself, and why not.
//!
//! A run is interrupted when the work of a node failed in a way that may pass, or was cut off, and neither a retry nor
//! the definition itself deals with that. Whether it may be resumed is a function of what is known, of the policy and of
//! the time. What may not be resumed waits for a person, and never silently.

mod escalate;
mod fold;
mod policy;
mod status;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use policy::{Cooldowns, OnRefusal, ResumePolicy, ResumeSettings};
pub use status::{InterruptedStep, ResumeStatus};

use crate::event::{Failure, ResumeDecided, ResumeRequested};
use crate::{InterruptId, Json, Millis, NodeIx};

/// The node that the questions of the run itself are of. No definition has a node of this name.
pub const RESUME_NODE: &str = "abide:resume";

/// Whether a question of this node is one of the run itself. A definition of an earlier release may have a node of that
/// name; then the run's own has an apostrophe more.
pub fn is_run_question(node: &str) -> bool {
    node.trim_end_matches('\'') == RESUME_NODE
}

/// Who decides if nobody asked.
pub(crate) const BY_SYSTEM: &str = "system";

/// What interrupted a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterruptionClass {
    /// Something that was used failed, without taking too long.
    #[default]
    ToolFailure,
    /// Something took longer than it may.
    Timeout,
    /// Whoever had the work has lost what it needs to go on with it.
    ContextReset,
    /// Whoever had the work is gone.
    ProcessCrash,
}

impl InterruptionClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ToolFailure, Self::Timeout, Self::ContextReset, Self::ProcessCrash];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::ToolFailure => "tool_failure",
            Self::Timeout => "timeout",
            Self::ContextReset => "context_reset",
            Self::ProcessCrash => "process_crash",
        }
    }

    /// The class with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// What a decision says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReasonCode {
    /// The run is resumed.
    #[serde(rename = "resume_allowed")]
    Allowed,
    /// There is no place to resume from.
    #[serde(rename = "resume_missing_checkpoint")]
    MissingCheckpoint,
    /// Nobody knows what interrupted it.
    #[serde(rename = "resume_unknown_interruption_class")]
    UnknownClass,
    /// The step must not be done again without somebody's approval.
    #[serde(rename = "resume_non_idempotent_step")]
    NonIdempotentStep,
    /// Something that is needed can't be read.
    #[serde(rename = "resume_missing_runtime_artifacts")]
    MissingArtifacts,
    /// It was resumed as often as it may.
    #[serde(rename = "resume_attempt_limit_reached")]
    AttemptLimit,
    /// It was resumed a moment ago.
    #[serde(rename = "resume_blocked_cooldown")]
    Cooldown,
}

impl ReasonCode {
    /// All of them, in the order in which refusals are looked for.
    pub const ALL: [Self; 7] = [
        Self::MissingCheckpoint,
        Self::UnknownClass,
        Self::NonIdempotentStep,
        Self::MissingArtifacts,
        Self::AttemptLimit,
        Self::Cooldown,
        Self::Allowed,
    ];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allowed => "resume_allowed",
            Self::MissingCheckpoint => "resume_missing_checkpoint",
            Self::UnknownClass => "resume_unknown_interruption_class",
            Self::NonIdempotentStep => "resume_non_idempotent_step",
            Self::MissingArtifacts => "resume_missing_runtime_artifacts",
            Self::AttemptLimit => "resume_attempt_limit_reached",
            Self::Cooldown => "resume_blocked_cooldown",
        }
    }
}

/// How the work stands at the last place of a journal that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointStatus {
    /// It was cut off.
    InProgress,
    /// It is known to have failed.
    Failed,
    /// Nothing is left to do: the run has ended, or was never interrupted.
    Other,
}

impl PointStatus {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Failed => "failed",
            Self::Other => "other",
        }
    }
}

/// What a run needs to go on, and whether it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Artifacts {
    /// The definition that it is pinned to.
    pub plan: bool,
    /// Its folded state.
    pub state: bool,
    /// Its journal: all of it, and its chain holds.
    pub history: bool,
}

impl Artifacts {
    /// Everything can be read.
    pub const READABLE: Self = Self { plan: true, state: true, history: true };

    /// Whether everything can be read.
    pub fn are_readable(self) -> bool {
        self == Self::READABLE
    }
}

/// Everything about a run that a decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeFacts {
    /// Where it would be resumed, if there is such a place.
    pub point: Option<PointStatus>,
    /// What interrupted it, if that is one of the classes.
    pub class: Option<InterruptionClass>,
    /// Every step that would be done again is idempotent, or was approved.
    pub safe: bool,
    /// What can be read.
    pub artifacts: Artifacts,
    /// How often it was resumed.
    pub attempts: u32,
    /// When it was resumed last.
    pub last_attempt: Option<Millis>,
    /// Somebody takes the responsibility: the limit and the cool-down don't count.
    pub force: bool,
}

/// Whether a run may be resumed, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeVerdict {
    /// Why, or why not.
    pub code: ReasonCode,
    /// How long the cool-down still lasts; 0 unless that is why.
    pub remaining_ms: Millis,
}

impl ResumeVerdict {
    /// Whole seconds, rounded up: never 0 while it is blocked.
    pub fn remaining_seconds(self) -> Millis {
        self.remaining_ms.max(0).div_euclid(1000) + Millis::from(self.remaining_ms.max(0) % 1000 != 0)
    }
}

/// Whether a run may be resumed: the first condition that fails says why not. The limit comes before the cool-down, so
/// that a run which is not resumed any more never says "wait".
pub fn evaluate_resume(facts: &ResumeFacts, policy: &ResumePolicy, now: Millis) -> ResumeVerdict {
    let refused = |code| ResumeVerdict { code, remaining_ms: 0 };
    if !matches!(facts.point, Some(PointStatus::InProgress | PointStatus::Failed)) {
        return refused(ReasonCode::MissingCheckpoint);
    }
    let Some(class) = facts.class else { return refused(ReasonCode::UnknownClass) };
    if !facts.safe {
        return refused(ReasonCode::NonIdempotentStep);
    }
    if !facts.artifacts.are_readable() {
        return refused(ReasonCode::MissingArtifacts);
    }
    if facts.force {
        return refused(ReasonCode::Allowed);
    }
    if facts.attempts >= policy.max_attempts {
        return refused(ReasonCode::AttemptLimit);
    }
    let over = facts.last_attempt.map(|last| last.saturating_add(policy.cooldowns.of(class)));
    match over.map(|over| over.saturating_sub(now)).filter(|&left| left > 0) {
        Some(remaining_ms) => ResumeVerdict { code: ReasonCode::Cooldown, remaining_ms },
        None => refused(ReasonCode::Allowed),
    }
}

/// An operator's wish that a run goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumeNow {
    /// Who asks.
    pub by: String,
    /// Why, in their words.
    pub reason: Option<String>,
    /// They take the responsibility: the limit and the cool-down don't count.
    pub force: bool,
    /// The nodes whose step may be done again although nothing says that this does no harm.
    pub approve: Vec<String>,
    /// The nodes whose step was done after all, with what came of it: they are not done again.
    pub done: BTreeMap<String, Json>,
    /// What interrupted it, in their opinion.
    pub class: Option<String>,
    /// What can be read.
    pub artifacts: Artifacts,
}

/// What is known of a node whose work was interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interruption {
    /// By its name: a later version may know more classes.
    pub(crate) class: String,
    pub(crate) error: Failure,
    /// Its effect may or may not have happened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unknown: bool,
    /// The steps that were under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) steps: Vec<String>,
    pub(crate) at: Millis,
}

/// How far resuming has come in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResumeState {
    /// How often the run was resumed.
    #[serde(default)]
    pub(crate) attempts: u32,
    /// When last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_at: Option<Millis>,
    /// An operator said whether it is resumed by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auto: Option<bool>,
    /// The nodes whose work was interrupted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) interrupted: BTreeMap<NodeIx, Interruption>,
    /// An operator's wish that is not decided yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wish: Option<ResumeRequested>,
    /// The question to people that is open, or was last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<InterruptId>,
    /// The nodes that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) asked_of: Vec<String>,
    /// The last decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<ResumeDecided>,
}

impl ResumeState {
    pub(crate) fn is_untouched(&self) -> bool {
        *self == Self::default()
    }
}
