//! The payloads of what happens to an approval before it is closed, and of what a refinement asks for.

use serde::{Deserialize, Serialize};

use crate::interrupt::Action;
use crate::{InterruptId, Json};

/// Somebody voted where one decision is not enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalVoted {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// For what.
    pub action: Action,
    /// Who. Each has one vote.
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
    /// Whose key it came with, if somebody decided in another's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cast_by: Option<String>,
    /// What entitled them then: their name, or groups and roles that they had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qualified_by: Vec<String>,
    /// It takes the place of an earlier vote of theirs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// What was said is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// Somebody wants to know more before deciding. The question stays open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalAsked {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// Which question back of the node's, from 1.
    pub ask: u32,
    /// What they want to know.
    pub question: String,
    /// Who.
    pub asked_by: String,
    /// The question is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A question back is answered. What was asked first stays open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalReplied {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// Which question back.
    pub ask: u32,
    /// The answer.
    pub answer: Json,
    /// Who gave it.
    pub answered_by: String,
    /// The answer is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// Somebody wants what a node made to be made better: its next execution is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeRefined {
    /// The node where that was decided.
    pub gate: String,
    /// What is to be made better.
    pub refine_feedback: Json,
    /// What it had made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_artifact: Option<Json>,
    /// Who wants it.
    pub decided_by: String,
    /// What was said, or made, is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}
