//! What a provider says while it answers, in words that no provider owns.

use abide_core::{Millis, Usage};

/// One thing that a provider says.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderEvent {
    /// The model that answers, in the provider's words.
    Model(String),
    /// More of the text.
    Text(String),
    /// More of what the model thinks.
    Reasoning(ReasoningPiece),
    /// More of a call of a tool.
    ToolCall(ToolPiece),
    /// What was used so far; a later one takes the place of an earlier one.
    Usage(Usage),
    /// Why the model stopped, in the provider's words.
    Stop(String),
    /// The provider says that it failed. Nothing comes after it.
    Error(ProviderError),
    /// The answer is complete. Nothing comes after it.
    End,
}

impl ProviderEvent {
    /// Whether the call must not be made again once this was seen: somebody may have read it, or pay for it.
    pub fn is_content(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Reasoning(_) | Self::ToolCall(_) | Self::Usage(_))
    }
}

/// A piece of a stretch of reasoning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasoningPiece {
    /// Which stretch, in the provider's count.
    pub index: u64,
    /// More of its words.
    pub text: String,
    /// More of what the provider knows it by.
    pub signature: Option<String>,
    /// What the provider keeps to itself.
    pub redacted: Option<String>,
}

/// A piece of a call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolPiece {
    /// Which call, in the provider's count.
    pub index: u64,
    /// Its id; comes with the first piece.
    pub id: Option<String>,
    /// The tool; comes with the first piece.
    pub name: Option<String>,
    /// More of its arguments, as JSON text.
    pub arguments: String,
}

/// A failure that the provider tells, or the request's way to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderError {
    /// The provider's own words, or a sentence.
    pub message: String,
    /// The HTTP status, if there was one.
    pub code: Option<String>,
    /// Whether another try could help; absent is no.
    pub retryable: Option<bool>,
    /// How long the provider asks to be left alone.
    pub retry_after_ms: Option<Millis>,
}

/// The stream broke off or made no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Thrown(pub String);
