//! The events of an answer. What is not known here is passed over: every gateway has something of its own.

use abide_core::Usage;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::event::{ProviderEvent, ReasoningPiece, Thrown, ToolPiece};
use crate::judge::{emitted, nonsense};
use crate::sse::SseEvent;

/// What was said so far, as far as it matters for what comes.
#[derive(Default)]
pub(crate) struct Reader {
    /// Where the call of a tool stands that is being said, for those who do not count them.
    tool: u64,
    /// The model has stopped: only what it used may follow.
    stopped: bool,
}

#[derive(Deserialize)]
struct Chunk {
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Counts>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    content: Option<String>,
    /// What a model says that does not want to answer.
    refusal: Option<String>,
    /// Reasoning has two names, and some gateways send both.
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Default, Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<InDetails>,
    completion_tokens_details: Option<OutDetails>,
}

#[derive(Deserialize)]
struct InDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutDetails {
    reasoning_tokens: Option<u64>,
}

/// What stands at the end of every stream.
const END: &str = "[DONE]";

impl Reader {
    /// What an event says.
    pub(crate) fn read(&mut self, event: &SseEvent) -> Result<Vec<ProviderEvent>, Thrown> {
        if event.data.trim() == END {
            return Ok(vec![ProviderEvent::End]);
        }
        let chunk: Chunk =
            serde_json::from_str(&event.data).map_err(|error| nonsense(&error, &event.data))?;
        if chunk.error.is_some() || event.name == "error" {
            return Ok(vec![ProviderEvent::Error(emitted(&event.data))]);
        }
        let mut said: Vec<ProviderEvent> = chunk.model.map(ProviderEvent::Model).into_iter().collect();
        // Whoever asked for several answers reads the first.
        let choice = chunk.choices.unwrap_or_default().into_iter().find(|choice| choice.index == 0);
        if let Some(choice) = choice {
            self.say(choice.delta.unwrap_or_default(), &mut said);
            self.stopped |= choice.finish_reason.is_some();
            said.extend(choice.finish_reason.map(ProviderEvent::Stop));
        }
        said.extend(chunk.usage.map(|counts| ProviderEvent::Usage(counts.usage())));
        Ok(said)
    }

    /// Whether a stream may end here without its mark: not every gateway sends it.
    pub(crate) fn may_end(&self) -> bool {
        self.stopped
    }

    fn say(&mut self, delta: Delta, said: &mut Vec<ProviderEvent>) {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let reasoning = some(delta.reasoning_content).or(some(delta.reasoning));
        said.extend(
            reasoning
                .map(|text| ProviderEvent::Reasoning(ReasoningPiece { text, ..ReasoningPiece::default() })),
        );
        said.extend(some(delta.content).map(ProviderEvent::Text));
        said.extend(some(delta.refusal).map(ProviderEvent::Text));
        let calls = delta.tool_calls.unwrap_or_default();
        said.extend(calls.into_iter().map(|call| ProviderEvent::ToolCall(self.piece(call))));
    }

    fn piece(&mut self, call: Call) -> ToolPiece {
        let id = call.id.filter(|id| !id.is_empty());
        // Without a number, what has an id begins a call and what has none goes on with the last.
        let uncounted = self.tool + u64::from(id.is_some());
        self.tool = call.index.map_or(uncounted, |index| index.saturating_add(1));
        let Function { name, arguments } = call.function.unwrap_or_default();
        let name = name.filter(|name| !name.is_empty());
        ToolPiece { index: self.tool, id, name, arguments: arguments.unwrap_or_default() }
    }
}

impl Counts {
    fn usage(self) -> Usage {
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let reasoning = self.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        Usage {
            input_tokens: self.prompt_tokens.unwrap_or_default(),
            output_tokens: self.completion_tokens.unwrap_or_default(),
            cached_tokens: cached.unwrap_or_default(),
            reasoning_tokens: reasoning.unwrap_or_default(),
        }
    }
}
