//! Errors that a provider tells, or that keep a request from it: which of them could pass.

use abide_model::scripted::{Part, ScriptedProvider, Speech, Step};
use abide_model::{Protocol, Timeouts};

use crate::{SOON, asked, asked_within, call, emitted, question};

/// What a status comes to: whether it could pass, and its code.
async fn check_status(status: u16, retryable: bool) {
    for protocol in Protocol::ALL {
        let error = asked(protocol, Step::status(status, "no")).await.error();
        assert_eq!((error.kind, error.had_content), (emitted(retryable), false), "{status}");
        assert_eq!(error.code, Some(status.to_string()));
        assert_eq!(error.message, format!("HTTP {status}: no"));
    }
}

#[tokio::test]
async fn too_many_requests_could_pass() {
    check_status(429, true).await;
}

#[tokio::test]
async fn a_provider_that_is_at_fault_could_recover() {
    for status in [500, 502, 503, 529] {
        check_status(status, true).await;
    }
}

#[tokio::test]
async fn other_statuses_would_be_met_again() {
    for status in [307, 400, 401, 404, 422] {
        check_status(status, false).await;
    }
}

#[tokio::test]
async fn an_overloaded_provider_could_recover() {
    let body = "The service is temporarily overloaded. Please retry.";
    for status in [429, 502] {
        for protocol in Protocol::ALL {
            let error = asked(protocol, Step::overloaded(status)).await.error();
            assert_eq!((error.kind, error.had_content), (emitted(true), false));
            assert!(error.message.contains("overloaded_error") && error.message.contains(body));
        }
    }
}

#[tokio::test]
async fn a_refused_connection_could_come_about_later() {
    let provider = ScriptedProvider::start();
    let (endpoint, port) = (provider.endpoint(Protocol::OpenAi), provider.port());
    drop(provider);
    let error = call(endpoint.clone(), None, &question()).await.error();
    assert_eq!((error.kind, error.had_content, error.code), (emitted(true), false, None));
    assert_eq!(
        error.message,
        format!("127.0.0.1:{port} refused the connection: check the address, and that the provider runs")
    );
    let _back = ScriptedProvider::start_at(port);
    assert_eq!(call(endpoint, None, &question()).await.answer().content, "ok");
}

#[tokio::test]
async fn a_connection_that_breaks_before_an_answer_could_hold_the_next_time() {
    let nonsense = Step::Raw(b"SMTP 220 hello\r\n\r\n".to_vec());
    for step in [Step::Close, Step::Reset, nonsense] {
        for protocol in Protocol::ALL {
            let error = asked(protocol, step.clone()).await.error();
            assert_eq!((error.kind, error.had_content, error.code), (emitted(true), false, None), "{step:?}");
            assert!(error.message.contains("broke before an answer came"), "{}", error.message);
        }
    }
}

#[tokio::test]
async fn a_provider_that_takes_a_request_and_says_nothing_could_answer_later() {
    let timeouts = Timeouts { first_byte: SOON, ..Timeouts::default() };
    let error = asked_within(Protocol::OpenAi, Step::Hang, timeouts).await.error();
    assert_eq!((error.kind, error.had_content, error.code), (emitted(true), false, None));
    assert!(error.message.contains("did not answer in time"), "{}", error.message);
}

/// An error within an answer, as each protocol has it.
fn event(protocol: Protocol, kind: &str) -> (String, String) {
    let error = format!(r#"{{"type":"{kind}","message":"Overloaded"}}"#);
    match protocol {
        Protocol::Anthropic => {
            let data = format!(r#"{{"type":"error","error":{error}}}"#);
            (format!("event: error\ndata: {data}\n\n"), data)
        }
        Protocol::OpenAi => {
            let data = format!(r#"{{"error":{error}}}"#);
            (format!("data: {data}\n\n"), data)
        }
    }
}

#[tokio::test]
async fn an_error_within_an_answer_is_judged_by_its_type() {
    let kinds =
        [("overloaded_error", Some(true)), ("invalid_request_error", Some(false)), ("brand_new_error", None)];
    for (kind, retryable) in kinds {
        for protocol in Protocol::ALL {
            let (text, data) = event(protocol, kind);
            let error = asked(protocol, Step::stream([text])).await.error();
            assert_eq!((error.kind, error.had_content), (emitted(retryable), false), "{kind}");
            assert_eq!((error.message, error.code), (data, None));
        }
    }
}

#[tokio::test]
async fn an_error_after_words_says_that_there_were_words() {
    for protocol in Protocol::ALL {
        let mut said = Speech::text("half an").events(protocol, "m");
        let words = said.iter().position(|event| event.contains("half an")).unwrap();
        said.truncate(words + 1);
        said.push(event(protocol, "overloaded_error").0);
        let outcome = asked(protocol, Step::stream_then(said, Part::Hang)).await;
        assert_eq!(outcome.text(), "half an", "what was said is handed out");
        let error = outcome.error();
        assert_eq!((error.kind, error.had_content), (emitted(true), true));
    }
}

#[tokio::test]
async fn an_error_in_the_wrapping_of_a_success_is_an_error() {
    let body = r#"{"error":{"code":503,"message":"upstream is away"}}"#;
    let step = Step::status(200, body).with_header("content-type", "application/json; charset=utf-8");
    let error = asked(Protocol::OpenAi, step).await.error();
    assert_eq!((error.kind, error.message.as_str(), error.code), (emitted(true), body, None));
}

#[tokio::test]
async fn a_provider_says_how_long_it_wants_to_be_left_alone() {
    for (name, value, ms) in [
        ("retry-after", "7", Some(7_000)),
        ("retry-after-ms", "250", Some(250)),
        ("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT", Some(0)),
        ("retry-after", "later", None),
        ("x-other", "7", None),
    ] {
        let error = asked(Protocol::Anthropic, Step::overloaded(529).with_header(name, value)).await.error();
        assert_eq!(error.retry_after_ms, ms, "{name}: {value}");
    }
    let step = Step::status(503, "")
        .with_header("date", "Fri, 31 Dec 1999 23:59:00 GMT")
        .with_header("retry-after", "Fri, 31 Dec 1999 23:59:30 GMT");
    let error = asked(Protocol::OpenAi, step).await.error();
    assert_eq!((error.retry_after_ms, error.message.as_str()), (Some(30_000), "HTTP 503"));
}

#[tokio::test]
async fn the_code_is_the_status_and_without_a_status_there_is_none() {
    let error = asked(Protocol::Anthropic, Step::overloaded(429)).await.error();
    assert_eq!(error.code.as_deref(), Some("429"));
    assert_eq!(asked(Protocol::Anthropic, Step::Reset).await.error().code, None);
}
