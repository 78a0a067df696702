//! Puts the pieces of an answer together, and says how it ended.

use abide_core::{ErrorKind, Json, ModelAnswer, ModelError, Reasoning, ToolCall};
use serde_json::{Map, Value};

use crate::event::{ProviderError, ProviderEvent, ReasoningPiece, Thrown, ToolPiece};
use crate::limits::{ANSWER_BYTES_MAX, JSON_DEPTH_MAX, REASONING_MAX, TOOL_CALLS_MAX};
use abide_core::ChunkKind;

/// An answer so far.
#[derive(Default)]
pub(crate) struct Fold {
    answer: ModelAnswer,
    /// Which stretch of reasoning is the last, in the provider's count.
    reasoning_index: Option<u64>,
    calls: Vec<OpenCall>,
    /// Bytes that were said.
    bytes: usize,
    had_content: bool,
}

/// A call of a tool whose arguments are still coming.
struct OpenCall {
    index: u64,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// What an event came to.
pub(crate) enum Folded {
    /// Words that can be handed out.
    Words(ChunkKind, String),
    /// Nothing to hand out.
    Kept,
    /// The answer is complete.
    Complete,
}

impl Fold {
    /// Takes one more event.
    pub(crate) fn take(&mut self, event: ProviderEvent) -> Result<Folded, ModelError> {
        self.had_content |= event.is_content();
        let folded = match event {
            ProviderEvent::Text(text) => self.text(text),
            ProviderEvent::Reasoning(piece) => self.reasoning(piece),
            ProviderEvent::ToolCall(piece) => self.tool(piece),
            ProviderEvent::Error(error) => return Err(self.emitted(error)),
            ProviderEvent::End => Ok(Folded::Complete),
            ProviderEvent::Usage(usage) => {
                self.answer.usage = usage;
                Ok(Folded::Kept)
            }
            ProviderEvent::Model(model) => {
                self.answer.model = Some(model);
                Ok(Folded::Kept)
            }
            ProviderEvent::Stop(reason) => {
                self.answer.stop_reason = Some(reason);
                Ok(Folded::Kept)
            }
        };
        folded.map_err(|thrown| self.thrown(thrown))
    }

    /// The whole answer.
    pub(crate) fn answer(self) -> ModelAnswer {
        let tool_calls = self.calls.into_iter().enumerate().map(|(ix, call)| call.close(ix)).collect();
        ModelAnswer { tool_calls, ..self.answer }
    }

    /// The provider said that it failed.
    pub(crate) fn emitted(&self, error: ProviderError) -> ModelError {
        let ProviderError { message, code, retryable, retry_after_ms } = error;
        let kind = ErrorKind::Emitted { retryable };
        ModelError { message, code, kind, had_content: self.had_content, retry_after_ms }
    }

    /// The stream broke.
    pub(crate) fn thrown(&self, Thrown(message): Thrown) -> ModelError {
        self.ended(ErrorKind::Thrown, message)
    }

    /// Nobody wants to hear the rest.
    pub(crate) fn aborted(&self) -> ModelError {
        self.ended(ErrorKind::Aborted, "the call was given up while the model answered".to_owned())
    }

    fn ended(&self, kind: ErrorKind, message: String) -> ModelError {
        ModelError { message, code: None, kind, had_content: self.had_content, retry_after_ms: None }
    }

    fn text(&mut self, text: String) -> Result<Folded, Thrown> {
        self.count(text.len())?;
        self.answer.content.push_str(&text);
        Ok(Folded::Words(ChunkKind::Text, text))
    }

    fn reasoning(&mut self, piece: ReasoningPiece) -> Result<Folded, Thrown> {
        let ReasoningPiece { index, text, signature, redacted } = piece;
        let lengths = [&signature, &redacted].map(|text| text.as_ref().map_or(0, String::len));
        self.count(text.len() + lengths.into_iter().sum::<usize>())?;
        if self.reasoning_index.replace(index) != Some(index) {
            within(self.answer.reasoning.len(), REASONING_MAX, "stretches of reasoning")?;
            self.answer.reasoning.push(Reasoning::default());
        }
        let last = self.answer.reasoning.last_mut().expect("there is one of this index");
        last.text.push_str(&text);
        signature.into_iter().for_each(|more| last.signature.get_or_insert_default().push_str(&more));
        redacted.into_iter().for_each(|more| last.redacted.get_or_insert_default().push_str(&more));
        let said = !text.is_empty();
        Ok(if said { Folded::Words(ChunkKind::Reasoning, text) } else { Folded::Kept })
    }

    fn tool(&mut self, piece: ToolPiece) -> Result<Folded, Thrown> {
        let ToolPiece { index, id, name, arguments } = piece;
        let lengths = [&id, &name].map(|text| text.as_ref().map_or(0, String::len));
        self.count(arguments.len() + lengths.into_iter().sum::<usize>())?;
        // Not every gateway counts: a piece that names a tool and has another id begins another call.
        let is_it = |call: &OpenCall| call.index == index && !call.is_apart_from(id.as_ref(), name.as_ref());
        let found = self.calls.iter().rposition(is_it);
        let ix = found.map_or_else(|| self.open(index), Ok)?;
        let call = &mut self.calls[ix];
        call.id = call.id.take().or(id);
        if call.name.is_empty() {
            call.name = name.unwrap_or_default();
        }
        call.arguments.push_str(&arguments);
        Ok(Folded::Kept)
    }

    fn open(&mut self, index: u64) -> Result<usize, Thrown> {
        within(self.calls.len(), TOOL_CALLS_MAX, "calls of tools")?;
        self.calls.push(OpenCall { index, id: None, name: String::new(), arguments: String::new() });
        Ok(self.calls.len() - 1)
    }

    fn count(&mut self, bytes: usize) -> Result<(), Thrown> {
        self.bytes += bytes;
        if self.bytes <= ANSWER_BYTES_MAX {
            return Ok(());
        }
        let most = ANSWER_BYTES_MAX >> 20;
        Err(Thrown(format!("the answer is longer than {most} MiB: let the model say less, or in parts")))
    }
}

/// Whether one more fits.
fn within(count: usize, most: usize, what: &str) -> Result<(), Thrown> {
    if count < most {
        return Ok(());
    }
    Err(Thrown(format!("the answer has more than {most} {what}: let the model do less at once")))
}

impl OpenCall {
    /// Whether a piece with this id and name belongs to another call.
    fn is_apart_from(&self, id: Option<&String>, name: Option<&String>) -> bool {
        let names_both = name.is_some() && !self.name.is_empty();
        names_both && id.is_some() && self.id.is_some() && self.id.as_ref() != id
    }

    fn close(self, ix: usize) -> ToolCall {
        let Self { id, name, arguments, .. } = self;
        // Some gateways give none; within one answer the place will do.
        let id = id.unwrap_or_else(|| format!("call_{ix}"));
        ToolCall { id, name, arguments: read(&arguments) }
    }
}

/// Arguments as the model wrote them, if they are an object; otherwise as a text, so that the model can be told.
fn read(text: &str) -> Json {
    if text.trim().is_empty() {
        return Json::of(&Map::new());
    }
    let is_object = serde_json::from_str::<Map<String, Value>>(text).is_ok();
    let object =
        serde_json::from_str::<Json>(text).ok().filter(|json| is_object && json.depth() <= JSON_DEPTH_MAX);
    object.unwrap_or_else(|| Json::of(text))
}

#[cfg(test)]
mod tests {
    use abide_core::Usage;

    use super::*;

    fn folded(events: impl IntoIterator<Item = ProviderEvent>) -> Result<ModelAnswer, ModelError> {
        let mut fold = Fold::default();
        for event in events {
            fold.take(event)?;
        }
        Ok(fold.answer())
    }

    /// Whether something counts as content when a provider fails after it.
    fn counts(event: ProviderEvent) -> bool {
        let failed = ProviderError { retryable: Some(true), ..ProviderError::default() };
        let error = folded([event, ProviderEvent::Error(failed)]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Emitted { retryable: Some(true) });
        error.had_content
    }

    #[test]
    fn text_counts_as_content() {
        assert!(counts(ProviderEvent::Text("a".to_owned())));
    }

    #[test]
    fn reasoning_counts_as_content() {
        assert!(counts(ProviderEvent::Reasoning(ReasoningPiece::default())));
    }

    #[test]
    fn a_tool_call_counts_as_content() {
        assert!(counts(ProviderEvent::ToolCall(ToolPiece::default())));
    }

    #[test]
    fn a_usage_report_counts_as_content() {
        assert!(counts(ProviderEvent::Usage(Usage::default())));
    }

    #[test]
    fn what_says_nothing_yet_does_not_count_as_content() {
        assert!(!counts(ProviderEvent::Model("m".to_owned())));
        assert!(!counts(ProviderEvent::Stop("end".to_owned())));
    }

    #[test]
    fn the_flag_of_an_error_is_passed_on_as_it_is() {
        for retryable in [Some(true), Some(false), None] {
            let failed = ProviderError { retryable, ..ProviderError::default() };
            let error = folded([ProviderEvent::Error(failed)]).unwrap_err();
            assert_eq!((error.kind, error.had_content), (ErrorKind::Emitted { retryable }, false));
        }
    }

    fn arguments(text: &str) -> String {
        let call = |arguments: &str| {
            ProviderEvent::ToolCall(ToolPiece { arguments: arguments.to_owned(), ..ToolPiece::default() })
        };
        let answer = folded([call(&text[..text.len() / 2]), call(&text[text.len() / 2..])]).unwrap();
        answer.tool_calls[0].arguments.text().to_owned()
    }

    #[test]
    fn calls_that_a_gateway_does_not_count_are_told_apart() {
        let piece = |id: Option<&str>, name: Option<&str>, arguments: &str| {
            let (id, name) = (id.map(str::to_owned), name.map(str::to_owned));
            ProviderEvent::ToolCall(ToolPiece { index: 1, id, name, arguments: arguments.to_owned() })
        };
        let answer = folded([
            piece(Some("a"), Some("look"), "{\"x\""),
            piece(Some("other"), None, ":1}"),
            piece(Some("b"), Some("look"), "{\"x\":"),
            piece(None, None, "2}"),
        ]);
        let calls = answer.unwrap().tool_calls;
        let told: Vec<_> = calls.iter().map(|call| (call.id.as_str(), call.arguments.text())).collect();
        assert_eq!(told, [("a", "{\"x\":1}"), ("b", "{\"x\":2}")]);
    }

    #[test]
    fn arguments_are_an_object_or_a_text() {
        assert_eq!(arguments(r#"{"b":1.50,"a":[1]}"#), r#"{"b":1.50,"a":[1]}"#);
        assert_eq!(arguments(""), "{}");
        assert_eq!(arguments(r#"{"a":"#), r#""{\"a\":""#);
        assert_eq!(arguments("[1,2]"), r#""[1,2]""#);
        let deep = format!("{}1{}", r#"{"a":"#.repeat(JSON_DEPTH_MAX + 1), "}".repeat(JSON_DEPTH_MAX + 1));
        assert!(arguments(&deep).starts_with('"'));
    }

    #[test]
    fn an_answer_without_end_is_refused() {
        let large = || ProviderEvent::Text("x".repeat(ANSWER_BYTES_MAX / 2 + 1));
        let error = folded([large(), large()]).unwrap_err();
        assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, true));
        assert_eq!(error.message, "the answer is longer than 8 MiB: let the model say less, or in parts");
        let calls = (0..).map(|index| ProviderEvent::ToolCall(ToolPiece { index, ..ToolPiece::default() }));
        assert!(folded(calls.clone().take(TOOL_CALLS_MAX)).is_ok());
        assert!(folded(calls.take(TOOL_CALLS_MAX + 1)).unwrap_err().message.contains("128 calls of tools"));
    }
}
