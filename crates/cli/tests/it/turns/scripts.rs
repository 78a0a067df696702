//! Every way in which a provider can fail a call, and what becomes of the turn.

use std::time::Duration;

use super::*;

const BOTH: [Protocol; 2] = [Protocol::Anthropic, Protocol::OpenAi];

/// The shortest patience that is enough for a provider on loopback.
const IMPATIENT: &str = "first-byte-timeout = \"2s\"\nidle-timeout = \"1s\"\n";

/// Has a first call go wrong, and demands that it is made again after five seconds and then answered.
async fn demand_retried(drill: &Drill, trouble: Step, code: Option<&str>) -> String {
    drill.provider.forget();
    let what = format!("{trouble:?}");
    drill.provider.script([trouble]);
    let run = drill.run("ask").await;
    let wait = drill.await_retry(&run, 0).await;
    assert_eq!((&wait["delayMs"], wait["code"].as_str()), (&json!(5_000), code), "{what}: {wait}");
    drill.later(4_999).await;
    drill.await_asked(1);
    drill.server.advance(1).await;
    drill.demand_completed(&run, "ok").await;
    drill.await_asked(2);
    assert_eq!(drill.recorded(&run, "provider-retry").await.len(), 1, "{what}");
    wait["message"].as_str().unwrap().to_owned()
}

fn drill_of(protocol: Protocol) -> Drill {
    Drill::with(protocol, &format!("{IMPATIENT}{NO_BREAKER}"), &[asking("ask", json!({}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_says_come_back_later_is_retried() {
    for protocol in BOTH {
        let drill = drill_of(protocol);
        for status in [429, 500, 502, 503, 529] {
            let message = demand_retried(&drill, Step::overloaded(status), Some(&status.to_string())).await;
            assert_eq!(message, OVERLOADED.replace("429", &status.to_string()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_before_content_is_retried() {
    for protocol in BOTH {
        let drill = drill_of(protocol);
        // What a provider says of itself is not yet a part of the answer.
        let head = hello().events(protocol, "small")[0].clone();
        for trouble in [
            Step::Reset,
            Step::Close,
            Step::Hang,
            Step::stream_then([""], Part::Cut),
            Step::stream_then([head.clone()], Part::Cut),
            Step::stream_then([head.clone()], Part::Reset),
            Step::stream_then([head], Part::Hang),
            Step::Raw(b"what is this?".to_vec()),
        ] {
            demand_retried(&drill, trouble, None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_none_are_retried_before_content() {
    for protocol in BOTH {
        let drill = drill_of(protocol);
        for nonsense in ["data: {\"half\n\n", "data: [1,\n\n", "data: \"a text\"\n\n", ""] {
            demand_retried(&drill, Step::stream([nonsense]), None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_says_in_its_stream_that_it_is_overloaded_is_retried() {
    for protocol in BOTH {
        let drill = drill_of(protocol);
        let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let message =
            demand_retried(&drill, Step::stream([format!("event: error\ndata: {error}\n\n")]), None).await;
        assert!(message.contains("Overloaded"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_can_not_be_reached_is_retried() {
    let mut drill = drill_of(Protocol::OpenAi);
    let port = drill.provider.port();
    drop(std::mem::replace(&mut drill.provider, ScriptedProvider::start()));
    let run = drill.run("ask").await;
    let wait = drill.await_retry(&run, 0).await;
    assert_eq!((&wait["delayMs"], &wait["code"]), (&json!(5_000), &Value::Null), "{wait}");
    drill.provider = ScriptedProvider::start_at(port);
    drill.server.advance(5 * SECOND_MS).await;
    drill.demand_completed(&run, "ok").await;
    drill.await_asked(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bytes_are_waited_for() {
    for protocol in BOTH {
        let drill = drill_of(protocol);
        let pause = Part::Pause(Duration::from_millis(20));
        let bytes = hello().events(protocol, "small").concat();
        let pieces = bytes.as_bytes().chunks(40).map(|piece| String::from_utf8(piece.to_vec()).unwrap());
        let parts = pieces.flat_map(|piece| [Part::Text(piece), pause.clone()]).collect();
        drill.provider.script([Step::Stream(parts)]);
        let run = drill.run("ask").await;
        drill.demand_completed(&run, "Hello").await;
        drill.await_asked(1);
        let chunks = drill.recorded(&run, "ai.message.chunk").await;
        assert_eq!(answers(&chunks), [(1, "Hello".to_owned(), false)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_refuses_a_request_is_not_asked_again() {
    for protocol in BOTH {
        let drill = drill_of(protocol);
        for status in [400, 401, 404, 422] {
            drill.provider.forget();
            drill.provider.script([Step::status(status, r#"{"error":{"message":"no"}}"#)]);
            let run = drill.run("ask").await;
            let shown = drill.demand_failed(&run, "provider_error").await;
            let message = shown["error"]["message"].as_str().unwrap();
            assert_eq!(message, format!("HTTP {status}: {{\"error\":{{\"message\":\"no\"}}}}"));
            drill.later(HOUR_MS).await;
            drill.await_asked(1);
            assert!(drill.recorded(&run, "provider-retry").await.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_says_how_long_it_wants_to_be_left_alone() {
    let drill = drill_of(Protocol::Anthropic);
    for (asked, delay_ms) in [("90", 90_000), ("1", 5_000), ("36000", 3_600_000), ("soon", 5_000)] {
        drill.provider.forget();
        drill.provider.script([Step::overloaded(429).with_header("Retry-After", asked)]);
        let run = drill.run("ask").await;
        assert_eq!(drill.await_retry(&run, 0).await["delayMs"], delay_ms, "Retry-After: {asked}");
        drill.later(delay_ms - 1).await;
        drill.await_asked(1);
        drill.server.advance(1).await;
        drill.demand_completed(&run, "ok").await;
        drill.await_asked(2);
        assert_eq!(drill.recorded(&run, "provider-retry").await[0].payload["delayMs"], delay_ms);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_to_be_retried_is_asked_once() {
    let drill = Drill::with(Protocol::OpenAi, "retry = false\n", &[asking("ask", json!({}))]);
    drill.provider.script([Step::overloaded(429)]);
    let run = drill.run("ask").await;
    drill.demand_failed(&run, "provider_error").await;
    drill.later(DAY_MS).await;
    drill.await_asked(1);
}

/// What a model says that stops somewhere, and how that is told in the stream.
fn broken_off(protocol: Protocol) -> Vec<Step> {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n";
    let thinks = Speech { reasoning: vec!["hmm".to_owned()], ..hello() };
    let calls = Speech::calls([call("c1", "look_up", &json!({}))]);
    let used = match protocol {
        Protocol::Anthropic => "message_delta",
        Protocol::OpenAi => "completion_tokens",
    };
    vec![
        stopping(protocol, &hello(), "Hel", Part::Cut),
        stopping(protocol, &hello(), "Hel", Part::Reset),
        stopping(protocol, &hello(), "Hel", Part::Hang),
        stopping(protocol, &hello(), "Hel", Part::Text("data: {\"half\n\n".to_owned())),
        stopping(protocol, &hello(), "Hel", Part::Text(overloaded.to_owned())),
        stopping(protocol, &thinks, "hmm", Part::Cut),
        stopping(protocol, &calls, "look_up", Part::Cut),
        stopping(protocol, &Speech::default(), used, Part::Cut),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_breaks_off_after_content_asks_a_person_and_is_never_retried() {
    for protocol in BOTH {
        let drill = drill_of(protocol);
        for trouble in broken_off(protocol) {
            drill.provider.forget();
            let what = format!("{trouble:?}");
            drill.provider.script([trouble]);
            let run = drill.run("ask").await;
            drill.await_turn(&run, |turn| turn["status"] == "interrupted").await;
            drill.demand_escalated(&run, "tool_failure").await;
            drill.later(DAY_MS).await;
            drill.await_asked(1);
            assert!(drill.recorded(&run, "provider-retry").await.is_empty(), "{what}");
            drill.approve(&run).await;
            drill.demand_completed(&run, "ok").await;
            drill.await_asked(2);
            let asked = drill.provider.asked();
            assert_eq!(asked[0].body, asked[1].body, "the same is asked");
            let chunks = drill.recorded(&run, "ai.message.chunk").await;
            let told = answers(&chunks);
            let (last, before) = told.split_last().unwrap();
            assert_eq!((last.1.as_str(), last.2), ("ok", false), "{what}: {told:?}");
            assert!(before.iter().all(|(_, _, broken)| *broken) && before.len() <= 1, "{what}: {told:?}");
        }
    }
}
