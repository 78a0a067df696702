//! A message to an incoming webhook of Slack: blocks, and words for where blocks can't be shown.
//!
//! What others wrote is escaped as Slack asks, so that no text can call a channel or pass off one address as another. The
//! button is a link: whoever presses it answers on the page.

use serde_json::{Value, json};

use super::{Request, choice_line, context_text, origin};
use crate::limits::{
    NAME_CHARS_MAX, QUESTION_CHARS_MAX, SLACK_FALLBACK_CHARS_MAX, SLACK_HEADER_CHARS_MAX,
    SLACK_TEXT_CHARS_MAX, SLACK_URL_CHARS_MAX,
};
use crate::message::Recipient;
use crate::redact::Redacted;
use crate::text::{lines, one_line};
use crate::wording::{headline, lead, link_label, times};

/// The request that tells Slack.
pub(crate) fn request(message: &Redacted) -> Request {
    let link = message.link.as_deref().unwrap_or_default();
    // Slack refuses the whole message for the sake of a button that is too long.
    let fits = escape(link, usize::MAX).len() <= SLACK_URL_CHARS_MAX;
    let mut body = json!({ "text": fallback(message), "unfurl_links": false, "unfurl_media": false });
    if fits {
        body["blocks"] = Value::Array(blocks(message));
    }
    Request::json(&body)
}

/// The message as one text.
fn fallback(message: &Redacted) -> String {
    let head = escape(&headline(message), SLACK_HEADER_CHARS_MAX * 2);
    let words = [head, escape(&lead(message), SLACK_HEADER_CHARS_MAX * 2)].join("\n");
    let link = message.link.as_deref().map(|link| format!("\n<{}>", address(link)));
    let people = people(message, SLACK_FALLBACK_CHARS_MAX / 2);
    let people = if people.is_empty() { people } else { format!("\n{people}") };
    format!("{words}{people}{}", link.unwrap_or_default())
}

fn blocks(message: &Redacted) -> Vec<Value> {
    let title = escape(&headline(message), SLACK_HEADER_CHARS_MAX);
    let mut blocks = vec![json!({"type": "header", "text": {"type": "plain_text", "text": title}})];
    blocks.push(section(&escape(&lead(message), SLACK_TEXT_CHARS_MAX)));
    let question = message.question.as_deref().map(|text| lines(text, QUESTION_CHARS_MAX));
    blocks.extend(
        question.filter(|text| !text.is_empty()).map(|text| section(&escape(&text, SLACK_TEXT_CHARS_MAX))),
    );
    let choices: Vec<String> =
        message.choices.iter().map(|choice| format!("• {}", choice_line(choice))).collect();
    if !choices.is_empty() {
        blocks.push(section(&escape(&choices.join("\n"), SLACK_TEXT_CHARS_MAX)));
    }
    blocks.extend(message.context.as_ref().map(|context| section(&quoted(&context_text(context)))));
    let people = people(message, SLACK_TEXT_CHARS_MAX);
    if !people.is_empty() {
        blocks.push(section(&people));
    }
    let small: Vec<String> = times(message).into_iter().chain(origin(message)).collect();
    if !small.is_empty() {
        let text = escape(&small.join(" "), SLACK_TEXT_CHARS_MAX);
        blocks.push(json!({"type": "context", "elements": [mrkdwn(&text)]}));
    }
    blocks.extend(message.link.as_deref().map(|link| actions(link, link_label(message))));
    blocks
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": mrkdwn(text)})
}

/// A text in which Slack looks for nothing but what is marked as its own.
fn mrkdwn(text: &str) -> Value {
    json!({"type": "mrkdwn", "text": text, "verbatim": true})
}

fn actions(link: &str, label: &str) -> Value {
    let text = json!({"type": "plain_text", "text": label});
    let button =
        json!({"type": "button", "action_id": "open", "style": "primary", "text": text, "url": link});
    json!({"type": "actions", "elements": [button]})
}

/// In the letters of a machine, without a way out of them.
fn quoted(text: &str) -> String {
    const FENCE: &str = "```";
    let inside = escape(&text.replace('`', "'"), SLACK_TEXT_CHARS_MAX - 2 * FENCE.len());
    format!("{FENCE}{inside}{FENCE}")
}

/// Whom it is for, as far as there is room.
fn people(message: &Redacted, chars_max: usize) -> String {
    let mut named = String::new();
    for mention in message.mentions.iter().map(mention) {
        let gap = usize::from(!named.is_empty());
        if named.chars().count() + gap + mention.chars().count() > chars_max {
            break;
        }
        named.push_str(&" "[..gap]);
        named.push_str(&mention);
    }
    named
}

/// Calls somebody whose id in Slack is known; names everybody else.
fn mention(recipient: &Recipient) -> String {
    match recipient.address.as_deref() {
        Some(id) if is_id(id, &['U', 'W']) => format!("<@{id}>"),
        Some(id) if is_id(id, &['S']) => format!("<!subteam^{id}>"),
        _ => escape(&one_line(recipient.called(), NAME_CHARS_MAX), NAME_CHARS_MAX),
    }
}

fn is_id(text: &str, kinds: &[char]) -> bool {
    let part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    text.starts_with(kinds) && (6..=32).contains(&text.len()) && text.bytes().all(part)
}

/// An address that ends nothing but itself.
fn address(link: &str) -> String {
    link.replace('&', "&amp;").replace('<', "%3C").replace('>', "%3E").replace('|', "%7C")
}

/// Slack's three characters, escaped, and not longer than so much. No escape is cut in two.
fn escape(text: &str, chars_max: usize) -> String {
    let escaped = |char: char| match char {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        other => other.to_string(),
    };
    let whole: usize = text.chars().map(|char| escaped(char).chars().count()).sum();
    if whole <= chars_max {
        return text.chars().map(escaped).collect();
    }
    let mut room = chars_max.saturating_sub(1);
    let fitting = text.chars().map(escaped).take_while(|piece| {
        let left = room.checked_sub(piece.chars().count());
        room = left.unwrap_or(0);
        left.is_some()
    });
    fitting.chain(["…".to_owned()]).collect()
}
