//! The payloads of what happens to an interrupt. Each is about the node that asked.

use serde::{Deserialize, Serialize};

use super::Doubt;
use crate::interrupt::{Action, ApprovalRules};
use crate::planning::PlanId;
use crate::{FallbackPolicy, InterruptId, InterruptKind, Json, JsonMap, Ladder, Millis};

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
    /// How it goes on if nobody answers, if anybody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<Ladder>,
    /// Who may answer, by name, group or role; everybody if it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub respondents: Vec<String>,
    /// Who is called when something happens to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Hooks>,
    /// Who asks, by the names that people know: the agent, and whoever works for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_by: Vec<String>,
    /// What the settings of the node say about who may decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<ApprovalRules>,
    /// What the run itself asks about, if that is not whether it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// What is shown is only for those who answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// The answer is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive_answer: bool,
    /// The checkpoint of a plan that waits for the answer, if the run itself asks because of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointRef>,
}

impl InterruptRequested {
    /// Whether its run asks it beside what it does, and goes on without an answer.
    pub fn is_beside(&self) -> bool {
        let topic = self.topic.as_deref();
        topic.is_some_and(|topic| topic == crate::coordinator::TOPIC || crate::intent::is_request(topic))
    }
}

/// A checkpoint of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointRef {
    /// The plan.
    pub plan_id: PlanId,
    /// What the checkpoint is known by in it.
    pub checkpoint: String,
}

/// What an agent wants to be called for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    /// The agent: any of its workers is called.
    pub agent: String,
    /// For what.
    pub on: Vec<HookKind>,
}

/// What an agent may be called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// People are told of a question, for the first time or again.
    InputRequested,
    /// Somebody answered.
    InputReceived,
    /// Nobody did.
    SuspensionExpired,
    /// Somebody who is to decide wants to know something first.
    QuestionAsked,
}

impl HookKind {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::InputRequested, Self::InputReceived, Self::SuspensionExpired, Self::QuestionAsked];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::InputRequested => "input_requested",
            Self::InputReceived => "input_received",
            Self::SuspensionExpired => "suspension_expired",
            Self::QuestionAsked => "question_asked",
        }
    }
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
    /// How unsure the agent is, if that is what it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// The key may repeat something that is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

impl NodeSuspended {
    /// A node stops for this.
    pub(crate) fn of(asked: &InterruptRequested, sensitive: bool) -> Self {
        let mut data: JsonMap = asked.data.parse().unwrap_or_default();
        // What is held back stands in the question alone.
        data.remove("decision");
        let is_doubt = asked.kind == InterruptKind::LowConfidence;
        let doubt = is_doubt.then(|| Json::of(&data).parse().ok()).flatten();
        Self {
            interrupt_id: asked.interrupt_id,
            kind: asked.kind,
            key: asked.key.clone(),
            doubt,
            sensitive: asked.sensitive || sensitive,
        }
    }
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
    /// Whose key it came with, if somebody decided in another's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cast_by: Option<String>,
    /// What entitled them then: their name, or groups and roles that they had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qualified_by: Vec<String>,
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
    /// With no answer at the end of its ladder; the fallback may have given one.
    Expired,
}

impl Resolution {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Rejected => "rejected",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
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
    #[serde(default, deserialize_with = "crate::json::given", skip_serializing_if = "Option::is_none")]
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

/// A node goes on: what it stopped for is resolved, or has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeResumed {
    /// What was resolved last, if it waited for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_id: Option<InterruptId>,
}

/// People are told again of what nobody has answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptRenotified {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// Which attempt this is, from 2.
    pub attempt: u32,
    /// How many there are at the most.
    pub max_attempts: u32,
    /// By which channel they are told.
    pub channel_hint: Option<String>,
    /// Who is told.
    pub notify_to: Option<String>,
    /// When the next attempt is made, if there is one.
    pub next_attempt_at: Option<Millis>,
    /// What follows was due as well, so nobody was told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
}

/// An attempt reached a rung of the ladder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptEscalated {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// Which attempt.
    pub attempt: u32,
    /// Who is told in place of the others, if somebody else is.
    pub escalated_to: Option<String>,
    /// By which channel they are told.
    pub channel_hint: String,
}

/// Nobody answered on the whole ladder. What follows from that follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptExpired {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// How many attempts there were.
    pub attempts: u32,
    /// What takes the answer's place; nothing does if a group waits no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_policy: Option<FallbackPolicy>,
    /// Why it ended before its ladder did: `portfolio_deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Somebody was to be told who may not be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NoticeRefused {
    /// Which interrupt.
    pub interrupt_id: InterruptId,
    /// At which attempt.
    pub attempt: u32,
    /// Who.
    pub notify_to: String,
    /// Why not.
    pub reason: String,
}
