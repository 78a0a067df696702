//! The payloads of what happens to an interrupt. Each is about the node that asked.

use serde::{Deserialize, Serialize};

use crate::interrupt::Action;
use crate::{InterruptId, InterruptKind, Json, JsonMap, Millis};

/// A node asks for something from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptRequested {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// What it is about.
    pub kind: InterruptKind,
    /// What it is known by within the run, however often it is asked for.
    pub key: String,
    /// Which call of the node's execution this is, from 1.
    pub call: u32,
    /// The node gave no key, so this one is of its execution alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keyless: bool,
    /// What is shown to whoever answers.
    pub data: Json,
    /// What an answer has to look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_schema: Option<Json>,
    /// How long an answer is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// What is shown is only for those who answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// The answer is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive_answer: bool,
}

/// The questions of a clarification, by themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClarificationRequested {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// What is asked.
    pub questions: Json,
    /// The questions are only for those who answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A node stopped until an interrupt is resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSuspended {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// What it is about.
    pub kind: InterruptKind,
    /// What it is known by within the run.
    pub key: String,
    /// The key may repeat something that is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// Somebody decided, or nobody did in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalReceived {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// What was decided.
    pub action: Action,
    /// Who decided. Never empty, and never read for what it might mean.
    pub decided_by: String,
    /// What else they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Why, in a word or a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is to be made better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refine_feedback: Option<Json>,
    /// What was accepted in place of what was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_artifact_data: Option<Json>,
    /// What was said is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// Somebody answered the questions of a clarification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClarificationResolved {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// The answers, by question.
    pub answers: JsonMap,
    /// Who answered.
    pub answered_by: String,
    /// The answers are never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// How an interrupt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// With an answer that the node goes on with.
    Resolved,
    /// With a decision against what was asked for, or with none in time.
    Rejected,
    /// With no answer in time.
    Timeout,
    /// With its run.
    Cancelled,
}

impl Resolution {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Rejected => "rejected",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }
}

/// An interrupt is closed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptResolved {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// What it was about.
    pub kind: InterruptKind,
    /// What the node gets, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_value: Option<Json>,
    /// How it ended.
    pub outcome: Resolution,
    /// Why it ended without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who closed it.
    pub resolved_by: String,
    /// The value is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A node goes on: everything that it stopped for is resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeResumed {
    /// What was resolved last.
    pub interrupt_id: InterruptId,
}
