//! What counts as content when a provider fails after it, with an error that could pass otherwise.

use abide_core::{Json, ModelError, ToolCall, Usage};
use abide_model::Protocol;
use abide_model::scripted::{Speech, Step};

use crate::{asked, emitted};

fn failure(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => {
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"
        }
        Protocol::OpenAi => "data: {\"error\":{\"type\":\"server_error\"}}\n\n",
    }
}

/// A provider that says this up to the event with `last` in it, and then fails.
async fn failing_after(protocol: Protocol, speech: &Speech, last: &str) -> ModelError {
    let mut said = speech.events(protocol, "m");
    let place = said.iter().position(|event| event.contains(last)).expect("it is said");
    said.truncate(place + 1);
    said.push(failure(protocol).to_owned());
    let error = asked(protocol, Step::stream(said)).await.error();
    assert_eq!(error.kind, emitted(true), "it could pass");
    error
}

fn all() -> Speech {
    Speech {
        reasoning: vec!["hm".to_owned()],
        text: vec!["yes".to_owned()],
        tool_calls: vec![ToolCall {
            id: "t1".to_owned(),
            name: "look".to_owned(),
            arguments: Json::of(&[0; 0]),
        }],
        ..Speech::default()
    }
}

#[tokio::test]
async fn words_are_content() {
    for protocol in Protocol::ALL {
        let speech = Speech { reasoning: Vec::new(), ..all() };
        assert!(failing_after(protocol, &speech, "yes").await.had_content);
    }
}

#[tokio::test]
async fn thoughts_are_content() {
    for protocol in Protocol::ALL {
        assert!(failing_after(protocol, &all(), "hm").await.had_content);
    }
}

#[tokio::test]
async fn a_call_of_a_tool_is_content() {
    for protocol in Protocol::ALL {
        let speech = Speech { reasoning: Vec::new(), text: Vec::new(), ..all() };
        assert!(failing_after(protocol, &speech, "look").await.had_content);
    }
}

#[tokio::test]
async fn a_report_of_what_was_used_is_content() {
    for (protocol, report) in [(Protocol::Anthropic, "message_delta"), (Protocol::OpenAi, "prompt_tokens")] {
        assert!(failing_after(protocol, &Speech::default(), report).await.had_content);
    }
}

#[tokio::test]
async fn what_went_in_is_no_content_yet() {
    let error = failing_after(Protocol::Anthropic, &all(), "message_start").await;
    assert!(!error.had_content, "it is told before anything comes out");
    let error = failing_after(Protocol::OpenAi, &all(), "role").await;
    assert!(!error.had_content, "an empty text says nothing");
}

#[tokio::test]
async fn what_was_used_is_counted_alike_for_all_providers() {
    let usage = Usage { input_tokens: 100, output_tokens: 7, cached_tokens: 60, reasoning_tokens: 0 };
    for protocol in Protocol::ALL {
        let speech = Speech { usage: Some(usage), ..Speech::text("yes") };
        assert_eq!(asked(protocol, Step::Say(speech)).await.answer().usage, usage);
    }
    let usage = Usage { reasoning_tokens: 3, ..usage };
    let speech = Speech { usage: Some(usage), ..Speech::text("yes") };
    assert_eq!(asked(Protocol::OpenAi, Step::Say(speech)).await.answer().usage, usage);
}

#[tokio::test]
async fn a_provider_that_does_not_say_what_was_used_still_answers() {
    for protocol in Protocol::ALL {
        let answer = asked(protocol, Step::Say(Speech { usage: None, ..Speech::text("yes") })).await.answer();
        assert_eq!((answer.content.as_str(), answer.usage), ("yes", Usage::default()));
    }
}
