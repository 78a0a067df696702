//! The payloads of what happens in a turn.

use serde::{Deserialize, Serialize};

use crate::{Failure, Json, JsonMap, Message, Millis, Mock, Usage};

/// A turn began: everything that fixes what the model is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnBegan {
    /// The conversation: the run.
    pub conversation_id: String,
    /// The turn: one execution of one node.
    pub turn_id: String,
    /// The provider, by the name that the operator gave it.
    pub provider: String,
    /// The model; the provider's usual one if nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model is told first.
    pub messages: Vec<Message>,
    /// At most so many tokens come out of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How freely it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Json>,
    /// Whatever else is sent.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub params: JsonMap,
    /// What a mock of the public fixtures says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mock: Option<Mock>,
    /// Something that is never shown went in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// The model is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelCalled {
    /// Which step of the turn, from 0.
    pub step: u32,
    /// How many retries of the step there were before.
    pub attempt: u32,
}

/// What a stretch of an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChunkKind {
    /// Text.
    #[default]
    Text,
    /// What the model thinks.
    Reasoning,
}

/// A stretch of an answer, as it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageChunk {
    /// Which step of the turn.
    pub step: u32,
    /// Which call of the turn, from 1. A call whose answer broke off may be followed by another of the same step.
    pub call: u32,
    /// What it is.
    #[serde(default)]
    pub kind: ChunkKind,
    /// Its words; none if they are never shown.
    pub chunk: String,
    /// Nothing more comes of this call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
    /// The call broke off: what it said is not the model's answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub broken_off: bool,
    /// How the call ended, with the last stretch of an answer that is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Box<ChunkEnd>>,
}

/// How a call ended whose answer is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChunkEnd {
    /// Why the model stopped, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The model, as the provider calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the call used.
    pub usage: Usage,
}

/// The model has answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelAnswered {
    /// Which step of the turn.
    pub step: u32,
    /// What it said.
    pub message: Message,
    /// Why it stopped, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Something that is never shown went in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

impl ModelAnswered {
    /// Whether the model calls tools.
    pub(crate) fn calls_tools(&self) -> bool {
        matches!(&self.message, Message::Assistant { tool_calls, .. } if !tool_calls.is_empty())
    }
}

/// What a call used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderUsage {
    /// The provider.
    pub provider: String,
    /// The model, as the provider calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Which step of the turn.
    pub step: u32,
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Of what went in, what came from a cache.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Of what came out, what was reasoning.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// What it cost, in millionths of a dollar, if the price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

impl ProviderUsage {
    /// The tokens alone.
    pub fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cached_tokens: self.cached_tokens,
            reasoning_tokens: self.reasoning_tokens,
        }
    }
}

/// The provider can't answer now: it is asked again after a wait. It is no part of what the model is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderRetry {
    /// Always `provider-retry`.
    pub r#type: String,
    /// The conversation.
    pub conversation_id: String,
    /// The turn.
    pub turn_id: String,
    /// Which retry comes, from 0.
    pub attempt: u32,
    /// How long the wait is.
    pub delay_ms: Millis,
    /// The provider's own words, without secrets.
    pub message: String,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl ProviderRetry {
    /// The name of the event, which stands in it too.
    pub const TYPE: &'static str = "provider-retry";
}

/// The provider is known to be away, so it was not even asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderPostponed {
    /// The provider.
    pub provider: String,
    /// Since when the turn has been postponed.
    pub since: Millis,
}

/// A tool has answered, or could not be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolAnswered {
    /// The call that it answers.
    pub tool_call_id: String,
    /// The tool.
    pub name: String,
    /// What the model is told.
    pub content: String,
    /// The tool failed, or may not be used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Something that is never shown is in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnEnd {
    /// The model has said its last.
    Completed,
    /// It can't go on.
    Failed,
    /// The run ended before it.
    Aborted,
}

/// A turn is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnSealed {
    /// The conversation.
    pub conversation_id: String,
    /// The turn.
    pub turn_id: String,
    /// How it ended.
    pub status: TurnEnd,
    /// How many answers the model gave.
    pub steps: u32,
    /// What all calls used.
    pub usage: Usage,
    /// What they cost, as far as prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}
