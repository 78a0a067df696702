//! What is sent, byte by byte.

use abide_core::{Json, Message, ModelCall, Reasoning, ToolCall, ToolSpec};
use abide_model::scripted::ScriptedProvider;
use abide_model::{Endpoint, Protocol, limits};
use serde_json::{Value, json};

use crate::{call, emitted, question};

/// The body that a call is sent as.
async fn sent(protocol: Protocol, told: &ModelCall) -> Vec<u8> {
    let provider = ScriptedProvider::start();
    call(provider.endpoint(protocol), None, told).await.answer();
    provider.asked()[0].body.to_vec()
}

async fn sent_json(protocol: Protocol, told: &ModelCall) -> Value {
    serde_json::from_slice(&sent(protocol, told).await).unwrap()
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// A conversation with all that there is.
fn conversation() -> ModelCall {
    let tool_call = |id: &str, arguments: Json| ToolCall { id: text(id), name: text("look"), arguments };
    let result = |id: &str, is_error| Message::Tool {
        tool_call_id: text(id),
        name: text("look"),
        content: format!("{id} said"),
        is_error,
    };
    let thought = |thought: &str, signature: Option<&str>, redacted: Option<&str>| Reasoning {
        text: text(thought),
        signature: signature.map(text),
        redacted: redacted.map(text),
    };
    ModelCall {
        model: Some(text("large")),
        messages: vec![
            Message::System { content: text("be brief") },
            Message::User { content: serde_json::from_str(r#"[{"type":"text","text":"hi"}]"#).unwrap() },
            Message::Assistant {
                content: text("let me see"),
                reasoning: vec![
                    thought("hm", Some("sig"), None),
                    thought("", None, Some("opaque")),
                    thought("foreign", None, None),
                ],
                tool_calls: vec![
                    tool_call("t1", serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap()),
                    tool_call("t2", Json::of("not json")),
                ],
            },
            result("t1", false),
            result("t2", true),
            Message::Assistant { content: String::new(), reasoning: Vec::new(), tool_calls: Vec::new() },
            Message::User { content: Json::of(&json!({"a": 1})) },
        ],
        tools: vec![ToolSpec {
            name: text("look"),
            description: Some(text("looks")),
            parameters: Json::of(&json!({"type": "object"})),
        }],
        max_tokens: Some(100),
        temperature: Some(serde_json::from_str("0.50").unwrap()),
        params: [
            ("top_p", json!(0.9)),
            ("model", json!("other")),
            ("messages", json!([])),
            ("stream", json!(false)),
            ("stream_options", json!({})),
            ("tools", json!([])),
            ("max_tokens", json!(1)),
            ("temperature", json!(2)),
        ]
        .map(|(key, value)| (text(key), Json::of(&value)))
        .into(),
        ..question()
    }
}

#[tokio::test]
async fn a_conversation_is_sent_as_anthropic_has_it() {
    let body = sent_json(Protocol::Anthropic, &conversation()).await;
    let expected = json!({
        "model": "large",
        "stream": true,
        "system": "be brief",
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stream_options": {},
        "tools": [{"name": "look", "description": "looks", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "opaque"},
                {"type": "text", "text": "let me see"},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 2, "b": 1}},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {"arguments": "not json"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "t1 said"},
                {"type": "tool_result", "tool_use_id": "t2", "content": "t2 said", "is_error": true},
            ]},
            {"role": "user", "content": "{\"a\":1}"},
        ],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_conversation_is_sent_as_openai_has_it() {
    let body = sent_json(Protocol::OpenAi, &conversation()).await;
    let function = |arguments: &str| json!({"name": "look", "arguments": arguments});
    let expected = json!({
        "model": "large",
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "tools": [{"type": "function", "function":
            {"name": "look", "description": "looks", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": "let me see", "tool_calls": [
                {"id": "t1", "type": "function", "function": function(r#"{"b":1,"a":2}"#)},
                {"id": "t2", "type": "function", "function": function("not json")},
            ]},
            {"role": "tool", "tool_call_id": "t1", "content": "t1 said"},
            {"role": "tool", "tool_call_id": "t2", "content": "t2 said"},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "{\"a\":1}"},
        ],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn equal_calls_are_sent_as_equal_bytes() {
    for protocol in Protocol::ALL {
        let first = sent(protocol, &conversation()).await;
        for _ in 0..3 {
            assert_eq!(sent(protocol, &conversation()).await, first);
        }
        let text = String::from_utf8(first).unwrap();
        assert!(text.contains(r#""temperature":0.50"#), "numbers go out as they were written: {text}");
    }
}

#[tokio::test]
async fn a_question_needs_no_more_than_its_words() {
    assert_eq!(
        sent(Protocol::Anthropic, &question()).await,
        br#"{"max_tokens":4096,"messages":[{"role":"user","content":"why?"}],"model":"scripted","stream":true}"#
    );
    let expected = concat!(
        r#"{"messages":[{"role":"user","content":"why?"}],"model":"scripted","stream":true,"#,
        r#""stream_options":{"include_usage":true}}"#
    );
    assert_eq!(sent(Protocol::OpenAi, &question()).await, expected.as_bytes());
}

#[tokio::test]
async fn params_say_what_nobody_else_does() {
    let told = |key: &str, value: Value| ModelCall {
        params: [(text(key), Json::of(&value))].into(),
        max_tokens: None,
        ..question()
    };
    let body = sent_json(Protocol::Anthropic, &told("max_tokens", json!(9))).await;
    assert_eq!(body["max_tokens"], 9);
    let limited = ModelCall { max_tokens: Some(5), ..told("max_completion_tokens", json!(9)) };
    let body = sent_json(Protocol::OpenAi, &limited).await;
    assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(9), None));
}

#[tokio::test]
async fn the_model_is_the_nodes_or_the_providers() {
    let provider = ScriptedProvider::start();
    for protocol in Protocol::ALL {
        let unnamed = Endpoint { model: None, ..provider.endpoint(protocol) };
        let error = call(unnamed.clone(), None, &question()).await.error();
        assert_eq!((error.kind, error.had_content), (emitted(false), false), "no other try would help");
        assert_eq!(
            error.message,
            "no model is named: give the node a 'model', or set one in [providers.scripted] of abide.toml"
        );
        assert_eq!(provider.count(), 0, "nothing is sent");
        let named = ModelCall { model: Some(text("large")), ..question() };
        call(unnamed, None, &named).await.answer();
        assert_eq!(provider.asked()[0].json()["model"], "large");
        provider.forget();
    }
}

#[tokio::test]
async fn a_conversation_that_no_provider_takes_is_not_sent() {
    let provider = ScriptedProvider::start();
    let long = Message::User { content: Json::of(&"x".repeat(limits::REQUEST_BYTES_MAX)) };
    let told = ModelCall { messages: vec![long], ..question() };
    let error = call(provider.endpoint(Protocol::Anthropic), None, &told).await.error();
    assert_eq!((error.kind, provider.count()), (emitted(false), 0));
    assert!(error.message.starts_with("the conversation is longer than 32 MiB"), "{}", error.message);
}
