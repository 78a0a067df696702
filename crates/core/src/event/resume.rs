//! The payloads of what happens when a run is interrupted and resumed.

use serde::{Deserialize, Serialize};

use crate::resume::ReasonCode;
use crate::{Failure, Millis, RunId, rfc3339};

/// The work of a node failed in a way that may pass, or was cut off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeInterrupted {
    /// What interrupted it, by its name: a later version may know more classes.
    pub class: String,
    /// What is known of it.
    pub error: Failure,
    /// How many attempts have failed, this one included.
    pub attempt: u32,
    /// Its effect may or may not have happened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// The steps that were under way and must not be done twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

/// Whether a run is resumed, and why not. The field names are those of the policy's contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeDecided {
    /// Always `resume_decision`.
    pub event: String,
    /// The run.
    pub run_id: String,
    /// What interrupted it.
    pub interruption_class: String,
    /// Whether it is resumed.
    pub eligible: bool,
    /// Why, or why not.
    pub reason_code: ReasonCode,
    /// What is left of the cool-down; 0 if that is not why.
    pub cooldown_seconds_remaining: Millis,
    /// Which attempt this is about, from 1.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// When it was decided, as RFC 3339 has it.
    pub at: String,
    /// `system`, or the operator who asked.
    pub actor: String,
}

impl ResumeDecided {
    /// The name of the event, which stands in it too.
    pub const EVENT: &'static str = "resume_decision";

    /// A refusal about a run of which nothing more can be told.
    pub fn refusal(run: RunId, code: ReasonCode, actor: &str, now: Millis) -> Self {
        Self {
            event: Self::EVENT.to_owned(),
            run_id: run.to_string(),
            interruption_class: "unknown".to_owned(),
            eligible: code == ReasonCode::Allowed,
            reason_code: code,
            cooldown_seconds_remaining: 0,
            attempt: 1,
            max_attempts: crate::ResumePolicy::default().max_attempts,
            at: rfc3339(now),
            actor: actor.to_owned(),
        }
    }
}

/// An operator wants the run to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRequested {
    /// Who.
    pub by: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// They take the responsibility: the limit and the cool-down don't count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// The nodes whose step may be done again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approve: Vec<String>,
    /// The nodes whose step was done after all. What came of it follows in events of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
    /// What interrupted it, in their opinion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption_class: Option<String>,
}

impl ResumeRequested {
    /// What somebody asks for who asks for nothing special.
    pub(crate) fn plain(by: &str) -> Self {
        Self {
            by: by.to_owned(),
            reason: None,
            force: false,
            approve: Vec::new(),
            done: Vec::new(),
            interruption_class: None,
        }
    }
}

/// The run is held until a person decides how it goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeEscalated {
    /// Why it is not resumed. Left out if it could be, but is not by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<ReasonCode>,
    /// What interrupted it.
    pub interruption_class: String,
}

/// An operator says whether the run is resumed by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeSwitched {
    /// Whether it is.
    pub auto: bool,
    /// Who says so.
    pub by: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
