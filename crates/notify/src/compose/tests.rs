//! What is composed is what vendors document, whatever people write.

use std::sync::LazyLock;

use abide_core::{InterruptId, InterruptKind, Json, RunId};
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::limits::*;
use crate::message::{About, Outcome, Purpose, Recipient};
use crate::redact::{Redacted, Redactor, View};
use crate::secret::Secret;

const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";
const LINK: &str = "https://abide.example.com/answer/abc?x=1&y=2";

fn redacted(message: &Message) -> Redacted {
    Redactor::default().redact(message, View { external: false, full: true })
}

fn ask(title: &str, question: &str) -> Message {
    let about = About {
        run: RunId::from_bytes([1; 16]),
        interrupt: InterruptId::from_bytes([2; InterruptId::BYTES]),
        kind: InterruptKind::Approval,
        node: Some("review".to_owned()),
        workflow: Some("compliance".to_owned()),
    };
    Message {
        purpose: Purpose::Ask { attempt: 2, max_attempts: 3 },
        about: Some(about),
        title: title.to_owned(),
        question: Some(question.to_owned()),
        context: Some(Json::of(&json!({"amount": question}))),
        choices: vec![Choice { label: question.to_owned(), description: Some(title.to_owned()) }],
        link: Some(LINK.to_owned()),
        deadline: Some(1_774_346_400_000),
        next_attempt_at: Some(1_774_346_400_000),
        mentions: vec![person("alice", None), person("bob", Some("U012AB3CD"))],
        ..Message::test("key/1".to_owned(), 1_774_346_400_000, person("alice", Some("alice@example.com")))
    }
}

fn person(name: &str, address: Option<&str>) -> Recipient {
    Recipient { name: name.to_owned(), address: address.map(str::to_owned), display_name: None }
}

fn answered(message: Message) -> Message {
    let purpose = Purpose::FollowUp { outcome: Outcome::Resolved, by: Some("Alice".to_owned()), at: 0 };
    Message { purpose, ..message }
}

fn validator(schema: &str) -> Validator {
    let schema: Value = serde_json::from_str(schema).unwrap();
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

static SLACK: LazyLock<Validator> =
    LazyLock::new(|| validator(include_str!("../../tests/schemas/slack.json")));

static PAGERDUTY: LazyLock<Validator> =
    LazyLock::new(|| validator(include_str!("../../tests/schemas/pagerduty.json")));

fn value(request: &Request) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn slack(message: &Message) -> Value {
    value(&slack::request(&redacted(message)))
}

fn pagerduty(message: &Message) -> Vec<Value> {
    let requests = pagerduty::requests(&redacted(message), &Secret::new(ROUTING_KEY), "error");
    requests.iter().map(value).collect()
}

fn demand(validator: &Validator, value: &Value) {
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}\n{value:#}");
}

/// Purposes of every kind.
fn every_kind(message: Message) -> Vec<Message> {
    let test = Message::test("abide-test".to_owned(), 0, Recipient::default());
    vec![message.clone(), answered(message.clone()), Message { link: None, ..message }, test]
}

#[test]
fn messages_to_slack_are_what_slack_documents() {
    for message in every_kind(ask("Refund order 12?", "Order 12 is late.\nRefund it?")) {
        demand(&SLACK, &slack(&message));
    }
    let long = "ü<&>".repeat(20_000);
    let mut message = ask(&long, &long);
    message.mentions = (0..500).map(|_| person(&long, None)).collect();
    demand(&SLACK, &slack(&message));
}

#[test]
fn events_to_pagerduty_are_what_pagerduty_documents() {
    for message in every_kind(ask("Refund order 12?", "Order 12 is late.\nRefund it?")) {
        pagerduty(&message).iter().for_each(|event| demand(&PAGERDUTY, event));
    }
    let long = "ü<&>".repeat(20_000);
    pagerduty(&ask(&long, &long)).iter().for_each(|event| demand(&PAGERDUTY, event));
}

#[test]
fn a_question_is_one_incident_from_its_first_reminder_to_its_answer() {
    let asked = ask("Refund?", "?");
    let [trigger] = &pagerduty(&asked)[..] else { panic!("one event") };
    let [resolve] = &pagerduty(&answered(asked.clone()))[..] else { panic!("one event") };
    assert_eq!(trigger["event_action"], "trigger");
    assert_eq!(trigger["payload"]["summary"], "Reminder 2 of 3: Refund?");
    assert_eq!(trigger["links"][0]["href"], LINK);
    assert_eq!(resolve["event_action"], "resolve");
    let interrupt = asked.about.unwrap().interrupt.to_string();
    assert_eq!((&trigger["dedup_key"], &resolve["dedup_key"]), (&json!(interrupt), &json!(interrupt)));
}

#[test]
fn a_test_leaves_no_incident_open() {
    let events = pagerduty(&Message::test("t".repeat(300), 0, Recipient::default()));
    let actions: Vec<&Value> = events.iter().map(|event| &event["event_action"]).collect();
    assert_eq!(actions, ["trigger", "resolve"]);
    assert_eq!(events[0]["dedup_key"], events[1]["dedup_key"]);
    assert_eq!(events[0]["payload"]["severity"], "info");
}

#[test]
fn nobody_can_call_a_channel_or_disguise_an_address_in_slack() {
    let evil = "<!channel> <@U999999> <http://evil.example|Answer> & ``` `x` <!subteam^S999999>";
    let mut message = ask(evil, evil);
    message.context = Some(Json::of(&json!({evil: evil})));
    message.mentions = vec![
        person("bob", Some("U012AB3CD")),
        person("oncall", Some("S012AB3CD")),
        person(evil, Some("U1> <!channel")),
    ];
    let told = slack(&message).to_string();
    let markup: Vec<&str> =
        told.match_indices('<').map(|(at, _)| &told[at..told[at..].find('>').unwrap() + at + 1]).collect();
    let ours = |it: &&str| {
        matches!(*it, "<@U012AB3CD>" | "<!subteam^S012AB3CD>")
            || it.starts_with("<https://abide.example.com/")
    };
    assert!(markup.iter().all(ours), "{markup:?}");
    assert!(markup.contains(&"<@U012AB3CD>"), "those who are meant are called");
}

#[test]
fn a_link_too_long_for_a_button_is_sent_in_words() {
    let link = format!("https://abide.example.com/answer/{}", "x".repeat(SLACK_URL_CHARS_MAX));
    let told = slack(&Message { link: Some(link.clone()), ..ask("?", "?") });
    demand(&SLACK, &told);
    assert!(told.get("blocks").is_none());
    assert!(told["text"].as_str().unwrap().contains(&link));
}

fn mail(message: &Message) -> String {
    let from = "Abide <abide@example.com>".parse().unwrap();
    String::from_utf8(email::mail(&redacted(message), &from).unwrap().formatted()).unwrap()
}

fn header<'m>(mail: &'m str, name: &str) -> Option<&'m str> {
    let head = mail.split("\r\n\r\n").next().unwrap();
    head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn reminders_and_follow_ups_are_one_thread() {
    let asked = ask("Refund?", "?");
    let first = Message { purpose: Purpose::Ask { attempt: 1, max_attempts: 3 }, ..asked.clone() };
    let reminder = Message { idempotency_key: "key/2".to_owned(), ..asked.clone() };
    let closed = Message { idempotency_key: "key/3".to_owned(), ..answered(asked) };
    let mails = [mail(&first), mail(&reminder), mail(&closed)];
    let all = |name: &str| mails.each_ref().map(|mail| header(mail, name));
    let [a, b, c] = all("References");
    assert!(a.is_some() && a == b && b == c, "{a:?} {b:?} {c:?}");
    assert_eq!(all("In-Reply-To"), [None, a, a]);
    let ids = all("Message-ID");
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);
    assert_eq!(header(&mail(&first), "Message-ID"), ids[0], "the same however often it is sent");
}

#[test]
fn whoever_has_no_address_gets_no_mail() {
    let from = "abide@example.com".parse().unwrap();
    for address in [None, Some("nonsense"), Some("a@x.org, b@x.org"), Some("a@x.org\r\nBcc: b@x.org")] {
        let message = Message { recipient: person("alice", address), ..ask("?", "?") };
        let refused = email::mail(&redacted(&message), &from).unwrap_err();
        assert!(refused.contains("'alice'") && !refused.contains("Bcc"), "{refused}");
    }
}

#[test]
fn an_unusual_key_is_sent_as_its_hash() {
    let keys = ["short/key".to_owned(), "jörg/1".to_owned(), "k".repeat(400), "a\r\nb: c".to_owned()];
    for key in keys {
        let message = Message { idempotency_key: key.clone(), ..ask("?", "?") };
        let request = webhook::request(&redacted(&message), &Secret::new("secret"));
        let (_, sent) = request.headers.iter().find(|(name, _)| *name == "idempotency-key").unwrap();
        assert!(sent.len() <= KEY_CHARS_MAX && sent.bytes().all(|byte| byte.is_ascii_graphic()), "{sent}");
        assert_eq!(value(&request)["id"], json!(sent));
        assert_eq!(*sent == key, key == "short/key");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_people_write_vendors_take_it(title in any::<String>(), question in "(?s).{0,4000}", name in any::<String>()) {
        let mut message = ask(&title, &question);
        message.mentions = vec![person(&name, Some(&name))];
        message.recipient.display_name = Some(name);
        demand(&SLACK, &slack(&message));
        pagerduty(&message).iter().for_each(|event| demand(&PAGERDUTY, event));
        let mail = mail(&message);
        let head: Vec<&str> = mail.split("\r\n\r\n").next().unwrap().split("\r\n").collect();
        let known = ["From", "To", "Subject", "Date", "Message-ID", "References", "In-Reply-To", "Auto-Submitted",
            "MIME-Version", "Content-Type"];
        for line in head.iter().filter(|line| !line.starts_with([' ', '\t'])) {
            prop_assert!(known.iter().any(|name| line.starts_with(&format!("{name}: "))), "{line:?}");
        }
    }
}
