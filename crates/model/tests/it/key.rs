//! The key goes where it belongs, and comes back nowhere.

use abide_model::scripted::{Part, ScriptedProvider, Step};
use abide_model::{Endpoint, Protocol, limits};
use reqwest::header::{HeaderMap, HeaderValue};

use crate::{KEY, asked, call, question};

#[tokio::test]
async fn the_key_is_sent_as_each_protocol_has_it() {
    let provider = ScriptedProvider::start();
    for protocol in Protocol::ALL {
        call(provider.endpoint(protocol), Some(&format!(" {KEY}\n")), &question()).await.answer();
        call(provider.endpoint(protocol), None, &question()).await.answer();
    }
    let sent = |ix: usize, name: &str| provider.asked()[ix].headers.get(name).cloned();
    assert_eq!(sent(0, "x-api-key").as_deref(), Some(KEY));
    assert_eq!(sent(0, "anthropic-version").as_deref(), Some("2023-06-01"));
    assert_eq!(sent(2, "authorization"), Some(format!("Bearer {KEY}")));
    assert_eq!(sent(2, "idempotency-key").as_deref(), Some("call-1"));
    let without =
        [sent(1, "x-api-key"), sent(1, "authorization"), sent(3, "x-api-key"), sent(3, "authorization")];
    assert_eq!(without, [None, None, None, None]);
}

#[tokio::test]
async fn headers_of_the_operator_are_sent_and_go_before_what_is_usual() {
    let provider = ScriptedProvider::start();
    let mut headers = HeaderMap::new();
    headers.insert("anthropic-version", HeaderValue::from_static("2099-01-01"));
    headers.insert("x-team", HeaderValue::from_static("a"));
    call(Endpoint { headers, ..provider.endpoint(Protocol::Anthropic) }, None, &question()).await.answer();
    let sent = &provider.asked()[0].headers;
    assert_eq!((sent["anthropic-version"].as_str(), sent["x-team"].as_str()), ("2099-01-01", "a"));
}

#[tokio::test]
async fn an_error_is_told_in_the_providers_own_words() {
    let body = "{\"error\": {\"message\": \"Modèle indisponible\\nwait\",  \"type\": \"x\"}}\n";
    let error = asked(Protocol::OpenAi, Step::status(500, body)).await.error();
    assert_eq!(error.message, format!("HTTP 500: {body}"));
}

#[tokio::test]
async fn the_planted_key_is_in_no_message() {
    let spellings = [KEY.to_owned(), KEY.replace('/', "\\/"), KEY.replace('/', "%2F")];
    for protocol in Protocol::ALL {
        for spelling in &spellings {
            let echo =
                format!("{{\"error\":{{\"type\":\"api_error\",\"message\":\"your key {spelling} is\"}}}}");
            let event = match protocol {
                Protocol::Anthropic => format!("data: {{\"type\":\"error\",\"error\":\"{spelling}\"}}\n\n"),
                Protocol::OpenAi => format!("data: {echo}\n\n"),
            };
            let html = Step::status(200, &echo).with_header("content-type", "text/plain");
            for step in [
                Step::status(401, &echo),
                Step::status(529, &echo),
                Step::stream([event]),
                Step::stream([format!("data: {spelling}\n\n")]),
                Step::stream_then([format!("data: {{\"a\": {spelling}}}\n\n")], Part::Cut),
                html,
            ] {
                let message = asked(protocol, step.clone()).await.error().message;
                assert!(message.contains("[secret]"), "{step:?}: {message}");
                assert!(!message.contains("key-0815"), "{step:?}: {message}");
            }
        }
    }
}

#[tokio::test]
async fn what_looks_like_a_key_is_in_no_message_either() {
    let body = "Incorrect API key provided: sk-proj-aaaabbbbccccddddeeee. Check it.";
    let error = asked(Protocol::OpenAi, Step::status(401, body)).await.error();
    assert_eq!(error.message, "HTTP 401: Incorrect API key provided: [secret]. Check it.");
}

#[tokio::test]
async fn a_message_is_cut_at_four_kibibytes_and_never_within_a_secret() {
    let long = "é".repeat(limits::ERROR_READ_BYTES_MAX);
    let error = asked(Protocol::OpenAi, Step::status(500, &long)).await.error();
    assert_eq!(error.message.len(), limits::MESSAGE_BYTES_MAX);
    let body = format!("{}{KEY} and more", "x ".repeat(limits::MESSAGE_BYTES_MAX / 2 - 8));
    let error = asked(Protocol::OpenAi, Step::status(500, &body)).await.error();
    assert!(error.message.len() <= limits::MESSAGE_BYTES_MAX && !error.message.contains("plant"));
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_refused_and_not_repeated() {
    let provider = ScriptedProvider::start();
    let error = call(provider.endpoint(Protocol::OpenAi), Some("a\u{1}b-key"), &question()).await.error();
    assert_eq!(error.kind, crate::emitted(false));
    assert_eq!(error.message, "the provider's key has characters that can't be sent: set the secret again");
    assert_eq!(provider.count(), 0);
}
