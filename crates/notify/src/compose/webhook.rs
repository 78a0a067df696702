//! A message to a webhook: all of it as JSON, signed as events are.

use abide_core::{InterruptId, InterruptKind, Json, Millis, RunId, rfc3339, signature_headers};
use serde::Serialize;

use super::Request;
use crate::limits::{CHOICE_CHARS_MAX, NAME_CHARS_MAX, QUESTION_CHARS_MAX, TITLE_CHARS_MAX};
use crate::message::{Choice, Purpose, Recipient};
use crate::redact::Redacted;
use crate::secret::Secret;
use crate::text::{lines, one_line};
use crate::wording::{headline, lead};

/// What a receiver gets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    /// The same for every attempt.
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    at: String,
    title: String,
    /// The message in a sentence or two, for receivers that only pass it on.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupt: Option<Interrupt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<Closed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    choices: Vec<Offered>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    recipient: Person<'a>,
    mentions: Vec<Person<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Interrupt<'a> {
    interrupt_id: InterruptId,
    run_id: RunId,
    kind: InterruptKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Closed {
    outcome: &'static str,
    by: Option<String>,
    at: String,
}

#[derive(Serialize)]
struct Offered {
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Person<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<&'a str>,
}

/// The request that tells a webhook.
pub(crate) fn request(message: &Redacted, secret: &Secret) -> Request {
    let mut request = Request::json(&body(message));
    request.headers.push(("idempotency-key", message.key()));
    request.headers.push(("x-openwop-delivery-id", message.key()));
    let signature = signature_headers(secret.reveal().as_bytes(), message.at, &request.body);
    request.headers.extend(signature);
    request
}

fn body(message: &Redacted) -> Body<'_> {
    let (attempt, max_attempts) = match message.purpose {
        Purpose::Ask { attempt, max_attempts } => (Some(attempt), Some(max_attempts)),
        _ => (None, None),
    };
    let time = |at: Option<Millis>| at.map(rfc3339);
    Body {
        id: message.key(),
        kind: kind(&message.purpose),
        at: rfc3339(message.at),
        title: one_line(&message.title, TITLE_CHARS_MAX),
        text: sentences(&headline(message), &lead(message)),
        interrupt: interrupt(message),
        attempt,
        max_attempts,
        closed: closed(&message.purpose),
        question: message.question.as_deref().map(|text| lines(text, QUESTION_CHARS_MAX)),
        context: message.context.as_ref(),
        choices: message.choices.iter().map(offered).collect(),
        link: message.link.as_deref(),
        deadline: time(message.deadline),
        next_attempt_at: time(message.next_attempt_at),
        recipient: person(&message.recipient),
        mentions: message.mentions.iter().map(person).collect(),
    }
}

fn sentences(first: &str, second: &str) -> String {
    let gap = if first.ends_with(['.', '?', '!', '…']) { " " } else { ". " };
    format!("{first}{gap}{second}")
}

fn kind(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Ask { .. } => "interrupt.asked",
        Purpose::FollowUp { .. } => "interrupt.closed",
        Purpose::Test => "channel.tested",
    }
}

fn interrupt(message: &Redacted) -> Option<Interrupt<'_>> {
    let about = message.about.as_ref()?;
    Some(Interrupt {
        interrupt_id: about.interrupt,
        run_id: about.run,
        kind: about.kind,
        node_id: about.node.as_deref(),
        workflow_id: about.workflow.as_deref(),
    })
}

fn closed(purpose: &Purpose) -> Option<Closed> {
    let Purpose::FollowUp { outcome, by, at } = purpose else { return None };
    let by = by.as_deref().map(|by| one_line(by, NAME_CHARS_MAX));
    Some(Closed { outcome: outcome.name(), by, at: rfc3339(*at) })
}

fn offered(choice: &Choice) -> Offered {
    let description = choice.description.as_deref().map(|text| one_line(text, CHOICE_CHARS_MAX));
    Offered { label: one_line(&choice.label, CHOICE_CHARS_MAX), description }
}

fn person(recipient: &Recipient) -> Person<'_> {
    Person {
        name: &recipient.name,
        address: recipient.address.as_deref(),
        display_name: recipient.display_name.as_deref(),
    }
}
