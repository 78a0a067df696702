//! A message to PagerDuty: an event that opens an incident for the question, and one that closes it again.
//!
//! All that is said about one question has its id as `dedup_key`, so a reminder joins the incident that is there.

use serde_json::{Map, Value, json};

use super::{Request, choice_line};
use crate::limits::{NAME_CHARS_MAX, PAGERDUTY_SUMMARY_CHARS_MAX, QUESTION_CHARS_MAX};
use crate::message::Purpose;
use crate::redact::Redacted;
use crate::secret::Secret;
use crate::text::{clip, lines, one_line};
use crate::wording::{headline, lead, link_label, times};

/// The requests that tell PagerDuty. A test closes what it opens.
pub(crate) fn requests(message: &Redacted, routing_key: &Secret, severity: &str) -> Vec<Request> {
    let resolve = || Request::json(&event(message, routing_key, "resolve"));
    match message.purpose {
        Purpose::Ask { .. } => vec![trigger(message, routing_key, severity)],
        Purpose::FollowUp { .. } => vec![resolve()],
        Purpose::Test => vec![trigger(message, routing_key, "info"), resolve()],
    }
}

fn event(message: &Redacted, routing_key: &Secret, action: &str) -> Value {
    json!({"routing_key": routing_key.reveal(), "event_action": action, "dedup_key": message.thread()})
}

fn trigger(message: &Redacted, routing_key: &Secret, severity: &str) -> Request {
    let mut event = event(message, routing_key, "trigger");
    let mut payload = json!({
        "summary": clip(&headline(message), PAGERDUTY_SUMMARY_CHARS_MAX),
        "source": "abide",
        "severity": severity,
        "timestamp": abide_core::rfc3339(message.at),
        "custom_details": details(message),
    });
    if let Some(about) = &message.about {
        payload["class"] = json!(about.kind);
        for (field, value) in [("component", &about.node), ("group", &about.workflow)] {
            if let Some(value) = value {
                payload[field] = json!(one_line(value, PAGERDUTY_SUMMARY_CHARS_MAX));
            }
        }
    }
    event["payload"] = payload;
    event["client"] = json!("Abide");
    if let Some(link) = &message.link {
        event["client_url"] = json!(link);
        event["links"] = json!([{"href": link, "text": link_label(message)}]);
    }
    Request::json(&event)
}

/// What is shown with the incident.
fn details(message: &Redacted) -> Value {
    let mut details = Map::new();
    let mut add = |name: &str, value: Value| details.insert(name.to_owned(), value);
    add("what to do", json!(lead(message)));
    if let Purpose::Ask { attempt, max_attempts } = message.purpose {
        add("attempt", json!(format!("{attempt} of {max_attempts}")));
    }
    if !times(message).is_empty() {
        add("times", json!(times(message).join(" ")));
    }
    if let Some(about) = &message.about {
        add("run", json!(about.run));
        add("interrupt", json!(about.interrupt));
    }
    let people: Vec<String> =
        message.mentions.iter().map(|person| one_line(person.called(), NAME_CHARS_MAX)).collect();
    if !people.is_empty() {
        add("for", json!(people.join(", ")));
    }
    if let Some(question) = &message.question {
        add("question", json!(lines(question, QUESTION_CHARS_MAX)));
    }
    if !message.choices.is_empty() {
        add("choices", message.choices.iter().map(|choice| Value::String(choice_line(choice))).collect());
    }
    if let Some(context) = message.context.as_ref().and_then(|context| context.parse().ok()) {
        add("context", context);
    }
    Value::Object(details)
}
