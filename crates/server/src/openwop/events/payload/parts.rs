//! What stands in several payloads.

use abide_core::event::ChunkKind;
use abide_core::{Failure, Json, Usage};
use schemars::JsonSchema;
use serde::Serialize;

use crate::shape;

/// How a run was asked for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Transport {
    /// Over this API, by a client or by the node of another run.
    Rest,
}

/// How much an entry of the log matters.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Level {
    /// What the engine did by itself.
    Debug,
    /// What somebody may want to know.
    Info,
}

/// An event that only the journal has a name for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Recorded {
    /// The journal's name for it.
    pub(super) journal_type: String,
    /// What the journal says, masked.
    #[schemars(with = "shape::Object")]
    pub(super) payload: Json,
}

/// Why a node or a run failed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ErrorOf {
    /// Stable, for programs.
    code: String,
    /// For people.
    message: String,
    /// Anything more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Object>")]
    details: Option<Json>,
}

impl From<Failure> for ErrorOf {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message, details: failure.details }
    }
}

/// What a stretch of an answer is, and where it belongs.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChunkMeta {
    /// Which step of the turn, from 0.
    pub(super) step: u32,
    /// Which call of the turn, from 1.
    pub(super) call: u32,
    /// `text` or `reasoning`.
    pub(super) kind: &'static str,
    /// The call broke off: what it said is not the model's answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub(super) broken_off: bool,
    /// Why the model stopped, with the last stretch: `stop`, `length`, `tool_calls`, `content_filter`, or as the
    /// provider says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_reason: Option<String>,
    /// The model, as the provider calls it, with the last stretch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// What the call used, with the last stretch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<ChunkUsage>,
}

/// What a call used, in OpenWOP's words.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChunkUsage {
    /// Tokens that went in.
    prompt_tokens: u64,
    /// Tokens that came out.
    completion_tokens: u64,
    /// Both together.
    total_tokens: u64,
}

impl From<Usage> for ChunkUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: usage.input_tokens.saturating_add(usage.output_tokens),
        }
    }
}

/// Why a model stopped, in OpenWOP's words where it has one.
pub(super) fn finish_reason(said: String) -> String {
    let known = match said.as_str() {
        "end_turn" | "stop_sequence" => "stop",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" | "function_call" => "tool_calls",
        "refusal" => "content_filter",
        _ => return said,
    };
    known.to_owned()
}

/// What a call of a model used.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ModelUsage")]
pub(crate) struct UsageOf {
    /// Tokens that went in, those from a cache included.
    input_tokens: u64,
    /// Tokens that came out, those of reasoning included.
    output_tokens: u64,
    /// Of what went in, what came from a cache.
    cached_tokens: u64,
    /// Of what came out, what was reasoning.
    reasoning_tokens: u64,
}

impl From<Usage> for UsageOf {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
            reasoning_tokens: usage.reasoning_tokens,
        }
    }
}

/// The name of a kind of stretch.
pub(super) fn chunk_kind(kind: ChunkKind) -> &'static str {
    match kind {
        ChunkKind::Text => "text",
        ChunkKind::Reasoning => "reasoning",
    }
}
