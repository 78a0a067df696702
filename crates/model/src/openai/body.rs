//! A call as a body. Equal calls give equal bytes: keys stand in a fixed order, and nothing is drawn or looked up.

use std::collections::BTreeMap;

use abide_core::{Json, JsonMap, Message, ModelCall, ToolCall, ToolSpec};
use serde::Serialize;

/// What is sent for a call of this model.
pub(crate) fn body(call: &ModelCall, model: &str) -> JsonMap {
    let mut body = call.params.clone();
    // The newer name for the same thing stands for both: the provider refuses both at once.
    let told = call.max_tokens.filter(|_| !body.contains_key("max_completion_tokens"));
    let mut set = |key: &str, value: Json| drop(body.insert(key.to_owned(), value));
    set("model", Json::of(model));
    set("messages", Json::of(&call.messages.iter().map(Turn::of).collect::<Vec<_>>()));
    set("stream", Json::of(&true));
    set("stream_options", Json::of(&BTreeMap::from([("include_usage", true)])));
    told.into_iter().for_each(|most| set("max_tokens", Json::of(&most)));
    call.temperature.iter().for_each(|temperature| set("temperature", temperature.clone()));
    if !call.tools.is_empty() {
        set("tools", Json::of(&call.tools.iter().map(Tool::of).collect::<Vec<_>>()));
    }
    body
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: &'a Json,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, parameters } = tool;
        Self {
            r#type: "function",
            function: Function { name, description: description.as_deref(), parameters },
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Turn<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// Nothing is said with calls alone.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Given(&'a Json),
    Text(&'a str),
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: String,
}

impl<'a> Turn<'a> {
    /// Reasoning is left out: this protocol has no place for it.
    fn of(message: &'a Message) -> Self {
        match message {
            Message::System { content } => Self::System { content },
            Message::User { content } => Self::User { content: said(content) },
            Message::Assistant { content, tool_calls, .. } => Self::Assistant {
                content: Some(content.as_str()).filter(|text| !text.is_empty() || tool_calls.is_empty()),
                tool_calls: tool_calls.iter().map(Call::of).collect(),
            },
            Message::Tool { tool_call_id, content, .. } => Self::Tool { tool_call_id, content },
        }
    }
}

/// A text or a list goes out as it is; anything else as its text.
fn said(content: &Json) -> Content<'_> {
    match content.type_name() {
        "string" | "array" => Content::Given(content),
        _ => Content::Text(content.text()),
    }
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall) -> Self {
        let ToolCall { id, name, arguments } = call;
        // Arguments that were no JSON are kept as a text, and go back as they came.
        let arguments = arguments.parse::<String>().unwrap_or_else(|_| arguments.text().to_owned());
        Self { id, r#type: "function", function: Called { name, arguments } }
    }
}
