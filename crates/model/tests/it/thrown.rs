//! Answers that break off or make no sense.

use std::sync::Arc;

use abide_core::ErrorKind;
use abide_model::scripted::{Part, ScriptedProvider, Speech, Step};
use abide_model::{Client, Protocol, Thrown, Timeouts, limits};

use crate::{SOON, asked, asked_within, question};

/// The events of an answer up to its first word, and with it.
fn until_words(protocol: Protocol) -> (Vec<String>, Vec<String>) {
    let said = Speech::text("half an").events(protocol, "m");
    let words = said.iter().position(|event| event.contains("half an")).unwrap();
    (said[..words].to_vec(), said[..=words].to_vec())
}

#[tokio::test]
async fn an_answer_cut_before_its_first_word_had_no_content() {
    for protocol in Protocol::ALL {
        let outcome = asked(protocol, Step::stream_then(until_words(protocol).0, Part::Cut)).await;
        assert_eq!(outcome.chunks, []);
        let error = outcome.error();
        assert_eq!((error.kind, error.had_content, error.code), (ErrorKind::Thrown, false, None));
        assert!(error.message.contains("broke before the answer was complete"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_connection_that_is_reset_within_an_answer_breaks_it() {
    let provider = ScriptedProvider::start();
    provider.script([Step::Stream(vec![Part::Held, Part::Reset])]);
    let client = Client::new(Arc::new(provider.endpoint(Protocol::OpenAi))).unwrap();
    let mut events = client.open(None, &question()).await;
    // The head is here by now; the reset can't overtake it.
    provider.release();
    let Some(Err(Thrown(message))) = events.next().await else { panic!("it breaks off") };
    assert!(message.contains("broke before the answer was complete"), "{message}");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn an_answer_cut_after_its_first_word_had_content() {
    for protocol in Protocol::ALL {
        let outcome = asked(protocol, Step::stream_then(until_words(protocol).1, Part::Cut)).await;
        assert_eq!(outcome.text(), "half an");
        assert!(outcome.chunks.iter().all(|chunk| !chunk.is_last), "it was not all");
        let error = outcome.error();
        assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, true));
    }
}

#[tokio::test]
async fn an_answer_that_ends_without_its_mark_is_not_complete() {
    for protocol in Protocol::ALL {
        let (before, after) = until_words(protocol);
        for (events, had_content) in [(before, false), (after, true), (Vec::new(), false)] {
            let error = asked(protocol, Step::stream(events)).await.error();
            assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, had_content));
            assert_eq!(error.message, "the provider's answer ended before it was complete");
        }
    }
}

#[tokio::test]
async fn a_gateway_that_leaves_out_the_mark_has_ended_once_the_model_has_stopped() {
    let mut said = Speech::text("all").events(Protocol::OpenAi, "m");
    assert!(said.pop().is_some_and(|mark| mark.contains("[DONE]")));
    assert_eq!(asked(Protocol::OpenAi, Step::stream(said)).await.answer().content, "all");
    let mut said = Speech::text("all").events(Protocol::Anthropic, "m");
    said.pop();
    assert_eq!(asked(Protocol::Anthropic, Step::stream(said)).await.error().kind, ErrorKind::Thrown);
}

#[tokio::test]
async fn events_that_make_no_sense_break_the_answer() {
    let nonsense = ["data: {\"type\":\n\n", "data: hello\n\n", "data: [1]\n\n", "data: \"[DONE]\"\n\n"];
    for protocol in Protocol::ALL {
        for text in nonsense {
            let (mut before, mut after) = until_words(protocol);
            before.push(text.to_owned());
            after.push(text.to_owned());
            for (events, had_content) in [(before, false), (after, true)] {
                let error = asked(protocol, Step::stream(events)).await.error();
                assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, had_content), "{text}");
                assert!(error.message.starts_with("the provider sent what its protocol does not have"));
            }
        }
    }
}

#[tokio::test]
async fn what_came_before_nonsense_counts_even_in_the_same_packet() {
    for protocol in Protocol::ALL {
        let events = until_words(protocol).1.concat() + "data: nonsense\n\n";
        let outcome = asked(protocol, Step::stream([events])).await;
        assert_eq!(outcome.text(), "half an");
        assert!(outcome.error().had_content);
    }
}

#[tokio::test]
async fn a_provider_that_stops_in_the_middle_is_not_waited_for_for_ever() {
    for protocol in Protocol::ALL {
        let timeouts = Timeouts { idle: SOON, ..Timeouts::default() };
        for (events, had_content) in [(until_words(protocol).0, false), (until_words(protocol).1, true)] {
            let outcome = asked_within(protocol, Step::stream_then(events, Part::Hang), timeouts).await;
            let error = outcome.error();
            assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, had_content));
            assert!(error.message.contains("raise its idle-timeout"), "{}", error.message);
        }
    }
}

#[tokio::test]
async fn a_call_ends_when_its_time_is_up_however_busy_the_provider_is() {
    let pings = std::iter::repeat_n([Part::Text(": ping\n\n".to_owned()), Part::Pause(SOON / 10)], 10_000);
    let step = Step::Stream(pings.flatten().collect());
    let timeouts = Timeouts { whole: SOON * 40, idle: SOON * 1000, ..Timeouts::default() };
    let error = asked_within(Protocol::Anthropic, step, timeouts).await.error();
    assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, false));
    assert!(error.message.contains("time was up"), "{}", error.message);
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_told_with_what_it_is() {
    let step = Step::status(200, "<html>Welcome").with_header("content-type", "text/html");
    let error = asked(Protocol::OpenAi, step).await.error();
    assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, false));
    assert_eq!(
        error.message,
        "the provider answered with text/html instead of a stream of events; check its base-url: <html>Welcome"
    );
}

#[tokio::test]
async fn an_answer_larger_than_anybody_reads_is_refused() {
    let piece = "x".repeat(limits::ANSWER_BYTES_MAX / 8 + 1);
    let said = Speech { text: vec![piece; 8], ..Speech::default() };
    for protocol in Protocol::ALL {
        let outcome = asked(protocol, Step::Say(said.clone())).await;
        assert!(outcome.text().len() <= limits::ANSWER_BYTES_MAX);
        assert!(outcome.chunks.iter().all(|chunk| chunk.text.len() <= limits::CHUNK_BYTES_MAX));
        let error = outcome.error();
        assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, true));
        assert!(error.message.starts_with("the answer is longer than 8 MiB"), "{}", error.message);
    }
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let parts = std::iter::repeat_n("x".repeat(1 << 20), 5);
    let error = asked(Protocol::OpenAi, Step::stream(parts)).await.error();
    assert_eq!((error.kind, error.had_content), (ErrorKind::Thrown, false));
    assert_eq!(error.message, "the provider sent an event that is longer than 4 MiB");
}
