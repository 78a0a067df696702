//! The events of an answer. What is not known here is passed over: the protocol grows.

use abide_core::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::event::{ProviderEvent, ReasoningPiece, Thrown, ToolPiece};
use crate::judge::{emitted, nonsense};
use crate::sse::SseEvent;

/// What was said so far, as far as it matters for what comes.
#[derive(Default)]
pub(crate) struct Reader {
    /// What was used, told in parts.
    counts: Counts,
    /// The block that is being said is a call of a tool of ours.
    tool: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: Last,
        usage: Option<Counts>,
    },
    MessageStop,
    Error,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    model: Option<String>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Option<Value>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Last {
    stop_reason: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl Reader {
    /// What an event says.
    pub(crate) fn read(&mut self, event: &SseEvent) -> Result<Vec<ProviderEvent>, Thrown> {
        let said = serde_json::from_str(&event.data).map_err(|error| nonsense(&error, &event.data))?;
        Ok(match said {
            Said::MessageStart { message } => {
                // What goes in is counted before anything comes out, so this is no content yet.
                self.counts = self.counts.then(message.usage);
                message.model.map(ProviderEvent::Model).into_iter().collect()
            }
            Said::ContentBlockStart { index, content_block } => self.begin(index, content_block),
            Said::ContentBlockDelta { index, delta } => self.more(index, delta).into_iter().collect(),
            Said::MessageDelta { delta, usage } => {
                let used = usage.is_some();
                self.counts = self.counts.then(usage);
                let usage = used.then(|| ProviderEvent::Usage(self.counts.usage()));
                usage.into_iter().chain(delta.stop_reason.map(ProviderEvent::Stop)).collect()
            }
            Said::MessageStop => vec![ProviderEvent::End],
            Said::Error => vec![ProviderEvent::Error(emitted(&event.data))],
            Said::Other => Vec::new(),
        })
    }

    fn begin(&mut self, index: u64, block: Block) -> Vec<ProviderEvent> {
        self.tool = None;
        match block {
            Block::Text { text } => text_piece(text),
            Block::Thinking { thinking } => thought(index, thinking),
            Block::RedactedThinking { data } => {
                let piece = ReasoningPiece { index, redacted: Some(data), ..ReasoningPiece::default() };
                Some(ProviderEvent::Reasoning(piece))
            }
            Block::ToolUse { id, name, input } => {
                self.tool = Some(index);
                // The arguments follow in pieces, and stand here only where a gateway has them all at once.
                let whole = input.filter(|input| input.as_object().is_some_and(|input| !input.is_empty()));
                let arguments = whole.map(|input| input.to_string()).unwrap_or_default();
                Some(ProviderEvent::ToolCall(ToolPiece { index, id: Some(id), name: Some(name), arguments }))
            }
            Block::Other => None,
        }
        .into_iter()
        .collect()
    }

    fn more(&self, index: u64, delta: Delta) -> Option<ProviderEvent> {
        match delta {
            Delta::Text { text } => text_piece(text),
            Delta::Thinking { thinking } => thought(index, thinking),
            Delta::Signature { signature } => {
                let piece = ReasoningPiece { index, signature: Some(signature), ..ReasoningPiece::default() };
                Some(ProviderEvent::Reasoning(piece))
            }
            Delta::InputJson { partial_json } => (self.tool == Some(index)).then(|| {
                let piece = ToolPiece { index, arguments: partial_json, ..ToolPiece::default() };
                ProviderEvent::ToolCall(piece)
            }),
            Delta::Other => None,
        }
    }
}

fn text_piece(text: String) -> Option<ProviderEvent> {
    (!text.is_empty()).then_some(ProviderEvent::Text(text))
}

fn thought(index: u64, text: String) -> Option<ProviderEvent> {
    let piece = ReasoningPiece { index, text, ..ReasoningPiece::default() };
    (!piece.text.is_empty()).then_some(ProviderEvent::Reasoning(piece))
}

impl Counts {
    /// A later report takes the place of an earlier one, as far as it says something.
    fn then(self, later: Option<Self>) -> Self {
        let later = later.unwrap_or_default();
        Self {
            input_tokens: later.input_tokens.or(self.input_tokens),
            output_tokens: later.output_tokens.or(self.output_tokens),
            cache_read_input_tokens: later.cache_read_input_tokens.or(self.cache_read_input_tokens),
            cache_creation_input_tokens: later
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
        }
    }

    /// This provider counts what a cache had apart from what went in.
    fn usage(self) -> Usage {
        let [input, output, cached, cached_now] = [
            self.input_tokens,
            self.output_tokens,
            self.cache_read_input_tokens,
            self.cache_creation_input_tokens,
        ]
        .map(Option::unwrap_or_default);
        Usage {
            input_tokens: input.saturating_add(cached).saturating_add(cached_now),
            output_tokens: output,
            cached_tokens: cached,
            reasoning_tokens: 0,
        }
    }
}
