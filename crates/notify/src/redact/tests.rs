//! What a channel gets to hear, and what it does not.

use abide_core::{InterruptId, InterruptKind, RunId};
use proptest::prelude::*;
use regex::Regex;
use serde_json::json;

use super::*;
use crate::message::{Purpose, Recipient};

const OUTSIDE: View = View { external: true, full: false };
const OUTSIDE_IN_FULL: View = View { external: true, full: true };
const INSIDE: View = View { external: false, full: true };

/// A token as links have them.
const TOKEN: &str = "eyJydW5JZCI6InJ1bi0wMWExZTEwYiJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg";

fn message(question: &str, context: &Value) -> Message {
    let about = About {
        run: RunId::from_bytes([1; 16]),
        interrupt: InterruptId::from_bytes([2; InterruptId::BYTES]),
        kind: InterruptKind::Clarification,
        node: Some("ask".to_owned()),
        workflow: Some("refunds".to_owned()),
    };
    Message {
        purpose: Purpose::Ask { attempt: 1, max_attempts: 1 },
        about: Some(about),
        title: question.to_owned(),
        question: Some(question.to_owned()),
        context: Some(Json::of(context)),
        choices: vec![Choice { label: question.to_owned(), description: Some(question.to_owned()) }],
        link: Some(format!("https://abide.example.com/answer/{TOKEN}")),
        ..Message::test("key".to_owned(), 0, Recipient::default())
    }
}

fn redactor() -> Redactor {
    Redactor::new(vec![Regex::new(r"\bCASE-\d+\b").unwrap()])
}

/// Everything in a message but its link.
fn words(message: &Message) -> String {
    let choices: Vec<String> =
        message.choices.iter().map(|it| format!("{} {:?}", it.label, it.description)).collect();
    let context = message.context.as_ref().map(|context| context.text().to_owned());
    format!("{} {:?} {context:?} {choices:?} {:?}", message.title, message.question, message.about)
}

#[test]
fn the_outside_gets_title_and_link_only() {
    let asked = message("Refund order 12?", &json!({"customer": "marker"}));
    let told = redactor().redact(&asked, OUTSIDE);
    assert_eq!(told.title, "Refund order 12?");
    assert_eq!(told.link, asked.link);
    assert_eq!((&told.question, &told.context, told.choices.len()), (&None, &None, 0));
    let about = told.about.as_ref().unwrap();
    assert_eq!((&about.node, &about.workflow), (&None, &None));
    assert!(!words(&told).contains("marker"));
}

#[test]
fn no_secret_leaves_by_any_way() {
    let secrets = [
        TOKEN,
        "abk_0123456789ab_0123456789abcdef0123456789abcdef",
        "Bearer s3cr3t-t0ken-0000",
        "whsec_0123456789abcdef0123",
        "AKIAABCDEFGHIJKLMNOP",
        "postgres://bob:hunter2@db/main",
        "https://abide.example.com/answer/eyJydW5JZCI6InJ1bi0xIiwibm9kZUlkIjoibiJ9.c2ln",
        "CASE-4711",
    ];
    for secret in secrets {
        let value = secret.rsplit([' ', '/']).next().unwrap();
        let core =
            secret.split("://").nth(1).and_then(|it| it.split('@').next()).filter(|_| secret.contains('@'));
        let value = core.unwrap_or(value);
        let context = json!({"a": [{"b": secret}], secret: 1, "c": {"d": format!("x {secret} y")}});
        for view in [OUTSIDE, OUTSIDE_IN_FULL, INSIDE] {
            let told = redactor().redact(&message(&format!("Use {secret} now?"), &context), view);
            assert!(!words(&told).contains(value), "{secret} {view:?}: {}", words(&told));
            assert!(words(&told).contains("Use "), "the rest stays");
        }
    }
}

#[test]
fn a_field_whose_name_says_so_is_removed_whatever_is_in_it() {
    let names =
        ["password", "dbPassword", "API_KEY", "client-secret", "accessToken", "Authorization", "userPIN"];
    let names = names.into_iter().chain(["password2", "userpassword", "authtoken", "otp", "cardCVV"]);
    for name in names {
        let told =
            redactor().redact(&message("?", &json!({"x": {name: {"deep": ["marker", 1234]}}})), INSIDE);
        assert!(!words(&told).contains("marker") && !words(&told).contains("1234"), "{name}");
    }
    let context = json!({"maxTokens": 512, "spinning": "yes", "secretary": "Ann", "keys": ["a"]});
    let told = redactor().redact(&message("?", &context), INSIDE);
    assert_eq!(told.context.as_ref().unwrap().parse::<Value>().unwrap(), context);
}

#[test]
fn personal_data_stays_inside() {
    let context = json!({"who": "ann@example.org", "card": 4_111_111_111_111_111_u64, "iban": "DE89370400440532013000"});
    let asked = message("Call Ann at +49 30 12345678?", &context);
    let outside = words(&redactor().redact(&asked, OUTSIDE_IN_FULL));
    for personal in ["ann@", "4111", "DE89", "12345678"] {
        assert!(!outside.contains(personal), "{personal}: {outside}");
    }
    let inside = words(&redactor().redact(&asked, INSIDE));
    for personal in ["ann@", "4111", "DE89", "12345678"] {
        assert!(inside.contains(personal), "{personal}: {inside}");
    }
}

#[test]
fn what_nobody_sees_hides_nothing() {
    for hidden in ["\u{7}", "\u{200b}", "\u{202e}", "\u{2060}", "\u{ad}", "\u{1b}", "\u{feff}"] {
        let split = |text: &str| text.chars().map(|char| format!("{char}{hidden}")).collect::<String>();
        for (text, rest) in
            [("4111111111111111", "1111"), ("ann@example.org", "ann"), (TOKEN, "c2ln"), ("CASE-4711", "4711")]
        {
            let text = split(text);
            let told = redactor().redact(&message(&text, &json!([text])), OUTSIDE_IN_FULL);
            let seen = crate::text::lines(&words(&told), usize::MAX).replace(hidden, "");
            assert!(!seen.contains(rest), "{hidden:?}: {seen}");
        }
    }
    let persian = "می\u{200c}خواهم";
    assert_eq!(
        redactor().redact(&message(persian, &json!([])), OUTSIDE).title,
        persian,
        "what hides nothing stays"
    );
}

#[test]
fn whoever_answered_is_named_without_their_address_outside() {
    let closed = |by: &str| Message {
        purpose: Purpose::FollowUp { outcome: crate::Outcome::Resolved, by: Some(by.to_owned()), at: 0 },
        ..message("?", &json!({}))
    };
    let by = |by: &str, view| match &redactor().redact(&closed(by), view).purpose {
        Purpose::FollowUp { by, .. } => by.clone().unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(by("ann", OUTSIDE), "ann");
    assert_eq!(by("ann@example.org", OUTSIDE), "[removed]");
    assert_eq!(by("ann@example.org", INSIDE), "ann@example.org");
    assert_eq!(by("CASE-4711", INSIDE), "[removed]");
}

#[test]
fn what_receivers_say_is_kept_without_addresses() {
    let said = redactor().told("mail:25 answered with 550 <ann@example.org>: no such user");
    assert_eq!(said, "mail:25 answered with 550 <[removed]>: no such user");
}

#[test]
fn a_pattern_finds_numbers_as_well_as_texts() {
    let redactor = Redactor::new(vec![Regex::new(r"\b\d{16}\b").unwrap()]);
    let told = redactor.redact(&message("?", &json!({"n": 1234567890123456_u64, "m": 12})), INSIDE);
    assert_eq!(told.context.as_ref().unwrap().parse::<Value>().unwrap(), json!({"n": "[removed]", "m": 12}));
}

#[test]
fn what_is_too_large_to_look_into_does_not_leave() {
    let large = message("?", &json!({"x": "y".repeat(CONTEXT_BYTES_MAX)}));
    assert!(redactor().redact(&large, INSIDE).context.is_none());
}

proptest! {
    #[test]
    fn whatever_stands_around_it_a_token_is_found(before in "[^A-Za-z0-9]{0,8}", after in "[^A-Za-z0-9]{0,8}") {
        let text = format!("{before} {TOKEN} {after}");
        let told = redactor().redact(&message(&text, &json!([text])), INSIDE);
        prop_assert!(!words(&told).contains("c2lnbmF0"));
    }
}
