//! What a model says, in either protocol.

use abide_core::{ToolCall, Usage};
use serde_json::{Value, json};

use crate::endpoint::Protocol;

/// What a model says in one answer.
#[derive(Clone, Debug)]
pub struct Speech {
    /// What it thinks, in pieces.
    pub reasoning: Vec<String>,
    /// What it says, in pieces.
    pub text: Vec<String>,
    /// The tools that it calls.
    pub tool_calls: Vec<ToolCall>,
    /// What it uses; not told if it is `None`.
    pub usage: Option<Usage>,
}

impl Default for Speech {
    fn default() -> Self {
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        Self { reasoning: Vec::new(), text: Vec::new(), tool_calls: Vec::new(), usage: Some(usage) }
    }
}

impl Speech {
    /// One text.
    pub fn text(text: &str) -> Self {
        Self { text: vec![text.to_owned()], ..Self::default() }
    }

    /// Calls of tools alone.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self { tool_calls: calls.into_iter().collect(), ..Self::default() }
    }

    /// The events of the answer, each as the text of a stream. A model of this name says them.
    pub fn events(&self, protocol: Protocol, model: &str) -> Vec<String> {
        match protocol {
            Protocol::Anthropic => self.messages(model).iter().map(named).collect(),
            Protocol::OpenAi => {
                let chunks = self.completions(model);
                chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).chain([done()]).collect()
            }
        }
    }

    fn messages(&self, model: &str) -> Vec<Value> {
        let usage = self.usage.unwrap_or_default();
        let input = usage.input_tokens.saturating_sub(usage.cached_tokens);
        let begun = json!({"input_tokens": input, "cache_read_input_tokens": usage.cached_tokens, "output_tokens": 1});
        let mut events = vec![
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
                   "model": model, "content": [], "stop_reason": null, "usage": begun}}),
            json!({"type": "ping"}),
        ];
        let mut index = 0_u64;
        let mut block = |begin: Value, deltas: Vec<Value>| {
            events.push(json!({"type": "content_block_start", "index": index, "content_block": begin}));
            let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
            events.extend(deltas.into_iter().map(delta));
            events.push(json!({"type": "content_block_stop", "index": index}));
            index += 1;
        };
        if !self.reasoning.is_empty() {
            let thought = |piece: &String| json!({"type": "thinking_delta", "thinking": piece});
            let signed = json!({"type": "signature_delta", "signature": "signed"});
            block(
                json!({"type": "thinking", "thinking": ""}),
                self.reasoning.iter().map(thought).chain([signed]).collect(),
            );
        }
        if !self.text.is_empty() {
            let said = |piece: &String| json!({"type": "text_delta", "text": piece});
            block(json!({"type": "text", "text": ""}), self.text.iter().map(said).collect());
        }
        for ToolCall { id, name, arguments } in &self.tool_calls {
            let more = |piece| json!({"type": "input_json_delta", "partial_json": piece});
            let begin = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            block(begin, halves(arguments.text()).map(more).into());
        }
        let mut last =
            json!({"type": "message_delta", "delta": {"stop_reason": self.stop("tool_use", "end_turn")}});
        if self.usage.is_some() {
            last["usage"] = json!({"output_tokens": usage.output_tokens});
        }
        events.extend([last, json!({"type": "message_stop"})]);
        events
    }

    fn completions(&self, model: &str) -> Vec<Value> {
        let chunk = |choices: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model, "choices": choices});
        let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
        let mut chunks = vec![delta(json!({"role": "assistant", "content": ""}))];
        chunks.extend(self.reasoning.iter().map(|piece| delta(json!({"reasoning_content": piece}))));
        chunks.extend(self.text.iter().map(|piece| delta(json!({"content": piece}))));
        for (index, ToolCall { id, name, arguments }) in self.tool_calls.iter().enumerate() {
            let call = |call: Value| delta(json!({"tool_calls": [call]}));
            let function = json!({"name": name, "arguments": ""});
            chunks.push(call(json!({"index": index, "id": id, "type": "function", "function": function})));
            let more = |piece| call(json!({"index": index, "function": {"arguments": piece}}));
            chunks.extend(halves(arguments.text()).map(more));
        }
        let reason = self.stop("tool_calls", "stop");
        chunks.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}])));
        if let Some(usage) = self.usage {
            let mut last = chunk(json!([]));
            last["usage"] = json!({
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            });
            chunks.push(last);
        }
        chunks
    }

    fn stop(&self, calls: &'static str, end: &'static str) -> &'static str {
        if self.tool_calls.is_empty() { end } else { calls }
    }
}

fn named(event: &Value) -> String {
    let name = event["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {event}\n\n")
}

fn done() -> String {
    "data: [DONE]\n\n".to_owned()
}

/// Arguments come in pieces.
fn halves(text: &str) -> [&str; 2] {
    let (first, second) = text.split_at(text.floor_char_boundary(text.len() / 2));
    [first, second]
}
