//! A call as a body. Equal calls give equal bytes: keys stand in a fixed order, and nothing is drawn or looked up.

use abide_core::{Json, JsonMap, Message, ModelCall, Reasoning, ToolCall, ToolSpec};
use serde::Serialize;

use crate::limits::TOKENS_USUAL;

/// What is sent for a call of this model.
pub(crate) fn body(call: &ModelCall, model: &str) -> JsonMap {
    let mut body = call.params.clone();
    let mut set = |key: &str, value: Json| drop(body.insert(key.to_owned(), value));
    set("model", Json::of(model));
    set("messages", Json::of(&turns(&call.messages)));
    set("stream", Json::of(&true));
    system(&call.messages).into_iter().for_each(|system| set("system", Json::of(&system)));
    call.max_tokens.into_iter().for_each(|most| set("max_tokens", Json::of(&most)));
    call.temperature.iter().for_each(|temperature| set("temperature", temperature.clone()));
    if !call.tools.is_empty() {
        set("tools", Json::of(&call.tools.iter().map(Tool::of).collect::<Vec<_>>()));
    }
    body.entry("max_tokens".to_owned()).or_insert_with(|| Json::of(&TOKENS_USUAL));
    body
}

/// All that holds for the whole conversation: it stands beside the messages, not among them.
fn system(messages: &[Message]) -> Option<String> {
    let texts = messages.iter().filter_map(|message| match message {
        Message::System { content } => Some(content.as_str()),
        _ => None,
    });
    let texts: Vec<&str> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a Json,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters } = tool;
        Self { name, description: description.as_deref(), input_schema: parameters }
    }
}

/// What one side says.
#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Given(&'a Json),
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Json,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    // The results of one answer's tools belong into one message, or the provider takes the others for missing.
    let mut results_open = false;
    for message in messages {
        let was_open = std::mem::replace(&mut results_open, matches!(message, Message::Tool { .. }));
        match message {
            Message::System { .. } => {}
            Message::User { content } => turns.push(Turn { role: "user", content: said(content) }),
            Message::Assistant { content, reasoning, tool_calls } => {
                let blocks = blocks(content, reasoning, tool_calls);
                // The provider refuses a message that says nothing.
                if !blocks.is_empty() {
                    turns.push(Turn { role: "assistant", content: Content::Blocks(blocks) });
                }
            }
            Message::Tool { tool_call_id, content, is_error, .. } => {
                let result = Block::ToolResult { tool_use_id: tool_call_id, content, is_error: *is_error };
                match turns.last_mut() {
                    Some(Turn { content: Content::Blocks(results), .. }) if was_open => results.push(result),
                    _ => turns.push(Turn { role: "user", content: Content::Blocks(vec![result]) }),
                }
            }
        }
    }
    turns
}

/// A text or a list goes out as it is; anything else as its text.
fn said(content: &Json) -> Content<'_> {
    match content.type_name() {
        "string" | "array" => Content::Given(content),
        _ => Content::Text(content.text()),
    }
}

fn blocks<'a>(text: &'a str, reasoning: &'a [Reasoning], tool_calls: &'a [ToolCall]) -> Vec<Block<'a>> {
    let thoughts = reasoning.iter().filter_map(thought);
    let text = Some(text).filter(|text| !text.is_empty()).map(|text| Block::Text { text });
    let calls = tool_calls.iter().map(|ToolCall { id, name, arguments }| Block::ToolUse {
        id,
        name,
        input: object(arguments),
    });
    thoughts.chain(text).chain(calls).collect()
}

/// Reasoning that the provider does not know as its own is refused by it, so it stays here.
fn thought(reasoning: &Reasoning) -> Option<Block<'_>> {
    let Reasoning { text, signature, redacted } = reasoning;
    match (redacted, signature) {
        (Some(data), _) => Some(Block::RedactedThinking { data }),
        (None, Some(signature)) => Some(Block::Thinking { thinking: text, signature }),
        (None, None) => None,
    }
}

/// Arguments that are no object are put into one: the provider takes nothing else back.
fn object(arguments: &Json) -> Json {
    match arguments.type_name() {
        "object" => arguments.clone(),
        _ => Json::of(&JsonMap::from([("arguments".to_owned(), arguments.clone())])),
    }
}
