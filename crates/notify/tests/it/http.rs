//! Webhooks, Slack and PagerDuty, over HTTP to receivers that work, fail, hang and talk too much.

use abide_notify::{Failure, Message, Receipt};
use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::support::{AT, Answer, Arrived, LINK, Receiver, answered, ask, channels};

const SECRET: &str = "a secret that signs messages";

fn webhook(url: &str, more: &str) -> String {
    format!(
        "[channels.desk]\ntype = \"webhook\"\nurl = \"{url}/hook/path-of-the-webhook\"\nsecret = \"{SECRET}\"\n{more}"
    )
}

/// Sends one message to a webhook that answers like this.
async fn sent_to(answer: Answer) -> (Result<Receipt, Failure>, Receiver) {
    sent_within("60s", answer).await
}

async fn sent_within(timeout: &str, answer: Answer) -> (Result<Receipt, Failure>, Receiver) {
    let receiver = Receiver::start(answer).await;
    let channels = channels(&webhook(&receiver.url, &format!("timeout = \"{timeout}\"")));
    let sent = channels.send("desk", &ask()).await;
    (sent, receiver)
}

/// What a receiver checks: the MAC over the time, a full stop, and the bytes of the body.
fn demand_signature(arrived: &Arrived) {
    let header = |name: &str| arrived.headers[name].as_str();
    assert_eq!(header("x-openwop-timestamp"), (AT / 1000).to_string());
    assert_eq!(header("x-openwop-signature-algorithm"), "v1");
    let message = [header("x-openwop-timestamp").as_bytes(), b".", &arrived.body].concat();
    let digits = header("x-openwop-signature").strip_prefix("sha256=").unwrap();
    let mac: Vec<u8> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::verify(&key, &message, &mac).expect("the signature is right");
}

#[tokio::test]
async fn a_webhook_gets_the_whole_question_signed() {
    let mut receiver = Receiver::start(Answer::status("204 No Content")).await;
    let channels = channels(&webhook(&receiver.url, "internal = true"));
    let receipt = channels.send("desk", &ask()).await.unwrap();
    assert_eq!(receipt.answer, "204");
    let arrived = receiver.next().await;
    demand_signature(&arrived);
    assert_eq!(arrived.headers["idempotency-key"], "int-02/1/desk/alice");
    assert_eq!(arrived.headers["content-type"], "application/json");
    let expected = json!({
        "id": "int-02/1/desk/alice",
        "type": "interrupt.asked",
        "at": "2026-03-24T10:00:00.000Z",
        "title": "Refund order 12?",
        "text": "Your answer is needed: Refund order 12? A run waits for your answer and goes on with it.",
        "interrupt": {
            "interruptId": ask().about.unwrap().interrupt.to_string(),
            "runId": ask().about.unwrap().run.to_string(),
            "kind": "clarification",
            "nodeId": "review",
            "workflowId": "compliance",
        },
        "attempt": 1,
        "maxAttempts": 3,
        "question": "Order 12 came late.\nRefund it?",
        "context": {"order": {"number": 12}},
        "choices": [{"label": "Yes", "description": "pay it back"}],
        "link": LINK,
        "deadline": "2026-03-24T13:00:00.000Z",
        "nextAttemptAt": "2026-03-24T11:00:00.000Z",
        "recipient": {"name": "alice", "address": "alice@example.com", "displayName": "Alice Lidell"},
        "mentions": [{"name": "alice", "address": "alice@example.com", "displayName": "Alice Lidell"}],
    });
    assert_eq!(arrived.json(), expected);
}

#[tokio::test]
async fn a_webhook_hears_who_answered_and_when() {
    let mut receiver = Receiver::start(Answer::status("200 OK")).await;
    channels(&webhook(&receiver.url, "")).send("desk", &answered()).await.unwrap();
    let told = receiver.next().await.json();
    assert_eq!(told["type"], "interrupt.closed");
    assert_eq!(told["closed"], json!({"outcome": "resolved", "by": "Bob", "at": "2026-03-24T10:00:00.000Z"}));
    assert_eq!(told["text"].as_str().unwrap().matches("Bob").count(), 1);
}

#[tokio::test]
async fn channels_that_leave_the_organisation_get_title_and_link_only() {
    let mut receiver = Receiver::start(Answer::status("200 OK")).await;
    let url = &receiver.url;
    let channels = channels(&format!(
        "{}\n[channels.slack]\ntype = \"slack\"\nurl = \"{url}\"\n\
         [channels.pager]\ntype = \"pagerduty\"\nurl = \"{url}\"\nrouting-key = \"0123456789abcdef0123456789abcdef\"\n\
         [notify]\ndefault = \"desk\"",
        webhook(url, "")
    ));
    let marked = Message { context: Some(abide_core::Json::of(&json!({"x": "marker"}))), ..ask() };
    for channel in ["desk", "slack", "pager"] {
        channels.send(channel, &marked).await.unwrap();
        let told = String::from_utf8(receiver.next().await.body).unwrap();
        assert!(told.contains("Refund order 12?") && told.contains(LINK), "{channel}: {told}");
        for hidden in ["marker", "came late", "pay it back", "review", "compliance"] {
            assert!(!told.contains(hidden), "{channel}: {told}");
        }
    }
}

#[tokio::test]
async fn no_secret_leaves_on_any_channel_but_the_link() {
    let mut receiver = Receiver::start(Answer::status("200 OK")).await;
    let url = &receiver.url;
    let channels = channels(&format!(
        "{}\n[channels.slack]\ntype = \"slack\"\nurl = \"{url}\"\ncontent = \"full\"\n\
         [channels.pager]\ntype = \"pagerduty\"\nurl = \"{url}\"\ncontent = \"full\"\nrouting-key = \"k\"\n\
         [notify]\ndefault = \"desk\"\nredact = [\"CASE-[0-9]+\"]",
        webhook(url, "internal = true")
    ));
    let token = LINK.rsplit('/').next().unwrap();
    let words = format!("CASE-4711 with abk_0123456789ab_00112233445566778899 and {token}");
    let context = json!({"note": words, words.clone(): "x", "apiKey": "marker"});
    let message = Message {
        title: words.clone(),
        question: Some(words.clone()),
        context: Some(abide_core::Json::of(&context)),
        ..ask()
    };
    for channel in ["desk", "slack", "pager"] {
        channels.send(channel, &message).await.unwrap();
        let told = String::from_utf8(receiver.next().await.body).unwrap();
        let without_link = told.replace(LINK, "");
        assert!(without_link.len() < told.len(), "the link is there");
        for hidden in ["4711", "abk_", token, "marker"] {
            assert!(!without_link.contains(hidden), "{channel}: {told}");
        }
    }
}

fn demand_schema(schema: &str, value: &Value) {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}\n{value:#}");
}

#[tokio::test]
async fn slack_gets_blocks_with_a_button_that_is_a_link() {
    let mut receiver =
        Receiver::start(Answer::Bytes("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned())).await;
    let config = format!(
        "[channels.slack]\ntype = \"slack\"\nurl = \"{}/services/x\"\ncontent = \"full\"",
        receiver.url
    );
    let channels = channels(&config);
    assert_eq!(channels.send("slack", &ask()).await.unwrap().answer, "200 ok");
    let told = receiver.next().await;
    assert_eq!(told.path, "/services/x");
    let told = told.json();
    demand_schema(include_str!("../schemas/slack.json"), &told);
    let blocks = told["blocks"].as_array().unwrap();
    assert_eq!(blocks[0]["text"]["text"], "Your answer is needed: Refund order 12?");
    let button = &blocks.last().unwrap()["elements"][0];
    assert_eq!((&button["type"], &button["url"]), (&json!("button"), &json!(LINK)));
    assert!(told.to_string().contains("Refund it?"));
    channels.send("slack", &answered()).await.unwrap();
    let told = receiver.next().await.json();
    assert!(told["text"].as_str().unwrap().contains("It was answered by Bob at 2026-03-24 10:00 UTC."));
}

#[tokio::test]
async fn pagerduty_opens_an_incident_and_closes_it() {
    let mut receiver = Receiver::start(Answer::status("202 Accepted")).await;
    let key = "0123456789abcdef0123456789abcdef";
    let url = &receiver.url;
    let channels = channels(&format!(
        "[channels.pager]\ntype = \"pagerduty\"\nurl = \"{url}/v2/enqueue\"\nrouting-key = \"{key}\"\nseverity = \"critical\""
    ));
    for (message, action) in [(ask(), "trigger"), (answered(), "resolve")] {
        channels.send("pager", &message).await.unwrap();
        let event = receiver.next().await.json();
        demand_schema(include_str!("../schemas/pagerduty.json"), &event);
        assert_eq!((&event["event_action"], &event["routing_key"]), (&json!(action), &json!(key)));
        assert_eq!(event["dedup_key"], ask().about.unwrap().interrupt.to_string());
        if action == "trigger" {
            assert_eq!(event["payload"]["severity"], "critical");
        }
    }
    let test = Message::test("test-1".to_owned(), AT, ask().recipient);
    channels.send("pager", &test).await.unwrap();
    let actions = [receiver.next().await.json(), receiver.next().await.json()];
    assert_eq!(actions.map(|event| event["event_action"].clone()), ["trigger", "resolve"]);
}

#[tokio::test]
async fn a_receiver_that_fails_is_tried_again_and_one_that_refuses_is_not() {
    for (line, again) in [
        ("500 Internal Server Error", true),
        ("502 Bad Gateway", true),
        ("503 Service Unavailable", true),
        ("408 Request Timeout", true),
        ("425 Too Early", true),
        ("429 Too Many Requests", true),
        ("400 Bad Request", false),
        ("401 Unauthorized", false),
        ("404 Not Found", false),
        ("410 Gone", false),
    ] {
        let (sent, _) = sent_to(Answer::status(line)).await;
        let failure = sent.unwrap_err();
        assert_eq!((failure.again, failure.retry_after), (again, None), "{line}");
        assert!(failure.reason.contains(&line[..3]), "{}", failure.reason);
        assert!(!failure.reason.contains("path-of-the-webhook"), "{}", failure.reason);
    }
}

#[tokio::test]
async fn a_receiver_says_how_long_it_wants_to_be_left_alone() {
    let cases = [
        ("120", Some(120_000)),
        ("0", Some(0)),
        ("Tue, 24 Mar 2026 10:00:30 GMT", Some(30_000)),
        ("Tue, 24 Mar 2020 10:00:00 GMT", Some(0)),
        ("99999999999999999999999", Some(86_400_000)),
        ("soon", None),
        ("-5", None),
    ];
    for (value, expected) in cases {
        let line =
            format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n");
        let (sent, _) = sent_to(Answer::Bytes(line)).await;
        let failure = sent.unwrap_err();
        assert_eq!((failure.again, failure.retry_after), (true, expected), "{value}");
    }
}

#[tokio::test]
async fn a_receiver_that_hangs_or_breaks_off_is_tried_again() {
    for answer in [Answer::Stall(String::new()), Answer::Stall("HTTP/1.1 200".to_owned()), Answer::Close] {
        let (sent, _) = sent_within("1s", answer).await;
        let failure = sent.unwrap_err();
        assert!(failure.again, "{}", failure.reason);
    }
    let (sent, receiver) = sent_to(Answer::Close).await;
    assert!(sent.unwrap_err().reason.contains("broke before it answered"));
    assert_eq!(receiver.left(), 1, "nobody tried again on the quiet");
    let nobody = channels(&webhook("http://127.0.0.1:1", ""));
    let failure = nobody.send("desk", &ask()).await.unwrap_err();
    assert!(failure.again && failure.reason.contains("127.0.0.1:1 can't be reached"), "{}", failure.reason);
}

#[tokio::test]
async fn once_the_status_is_told_the_rest_of_an_answer_changes_nothing() {
    let stall = Answer::Stall("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_owned());
    assert!(sent_to(stall).await.0.unwrap().answer.starts_with("200"));
    let flood = Answer::Flood("HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\n".to_owned());
    let answer = sent_to(flood).await.0.unwrap().answer;
    assert!(answer.starts_with("200") && answer.chars().count() < 300, "{answer}");
    let flood =
        Answer::Flood("HTTP/1.1 400 Bad Request\r\ncontent-length: 99999999999999\r\n\r\n".to_owned());
    let failure = sent_to(flood).await.0.unwrap_err();
    assert!(!failure.again && failure.reason.chars().count() < 500, "{}", failure.reason);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Receiver::start(Answer::status("200 OK")).await;
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let line =
            format!("HTTP/1.1 {status}\r\nlocation: {}/stolen\r\ncontent-length: 0\r\n\r\n", elsewhere.url);
        let failure = sent_to(Answer::Bytes(line)).await.0.unwrap_err();
        assert!(
            !failure.again && failure.reason.contains("redirects are not followed"),
            "{}",
            failure.reason
        );
    }
    assert_eq!(elsewhere.left(), 0);
}

#[tokio::test]
async fn what_a_receiver_says_is_told_without_secrets() {
    let echo = format!("no: {SECRET} at /hook/path-of-the-webhook for {LINK}\u{1b}[2J");
    let line = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {}\r\n\r\n{echo}", echo.len());
    let failure = sent_to(Answer::Bytes(line)).await.0.unwrap_err();
    let token = LINK.rsplit('/').next().unwrap();
    for hidden in [SECRET, "path-of-the-webhook", token, "\u{1b}"] {
        assert!(!failure.reason.contains(hidden), "{}", failure.reason);
    }
    assert!(failure.reason.contains("(no: [secret]"), "{}", failure.reason);
}

#[tokio::test]
async fn a_channel_that_there_is_not_is_told_by_name() {
    let failure = channels("").send("desk", &ask()).await.unwrap_err();
    assert_eq!((failure.again, failure.retry_after), (false, None));
    assert!(failure.reason.contains("no channel 'desk'"));
}
