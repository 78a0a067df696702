//! A message as mail: the same words as plain text and as HTML.
//!
//! Everything that is said about one question refers to one id, so that a mail program shows it together.

use std::time::{Duration, SystemTime};

use abide_core::{hex, sha256};
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message as Mail};

use super::{choice_line, context_text, origin};
use crate::address::is_one_word;
use crate::limits::{NAME_CHARS_MAX, QUESTION_CHARS_MAX};
use crate::message::{Message, Purpose, Recipient};
use crate::redact::Redacted;
use crate::text::{lines, one_line};
use crate::wording::{headline, lead, link_label, times};

/// The mail that tells a recipient, or why there can be none.
pub(crate) fn mail(message: &Redacted, from: &Mailbox) -> Result<Mail, String> {
    let domain = from.email.domain();
    let thread = id("thread", &message.thread(), domain);
    let mut builder = Mail::builder()
        .from(from.clone())
        .to(mailbox(&message.recipient)?)
        .subject(headline(message))
        .date(SystemTime::UNIX_EPOCH + Duration::from_millis(message.at.max(0).unsigned_abs()))
        .message_id(Some(id("message", &message.idempotency_key, domain)))
        .references(thread.clone())
        .raw_header(header("Auto-Submitted", "auto-generated"));
    if !is_first(message) {
        builder = builder.in_reply_to(thread);
    }
    let parts = Parts::of(message);
    let body = MultiPart::alternative_plain_html(parts.plain(), parts.html());
    builder.multipart(body).map_err(|error| format!("the mail can't be written: {error}"))
}

fn is_first(message: &Message) -> bool {
    matches!(message.purpose, Purpose::Ask { attempt: 0 | 1, .. } | Purpose::Test)
}

fn mailbox(recipient: &Recipient) -> Result<Mailbox, String> {
    let who = one_line(recipient.called(), NAME_CHARS_MAX);
    let Some(address) = &recipient.address else {
        return Err(format!("'{who}' has no e-mail address; add one in the directory"));
    };
    let address: Option<Address> = is_one_word(address).then(|| address.parse().ok()).flatten();
    let address = address.ok_or_else(|| format!("the e-mail address of '{who}' is not valid; correct it"))?;
    Ok(Mailbox::new(recipient.display_name.as_ref().map(|_| who), address))
}

/// An id as mail has them. It is made of a hash, so whatever a key holds, it is one word.
fn id(kind: &str, of: &str, domain: &str) -> String {
    format!("<{kind}.{}@{domain}>", &hex(&sha256(of.as_bytes()))[..40])
}

fn header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned())
}

/// The parts of a mail, as plain text.
struct Parts<'a> {
    headline: String,
    lead: String,
    question: Option<String>,
    choices: Vec<String>,
    context: Option<String>,
    link: Option<&'a str>,
    link_label: &'static str,
    times: Vec<String>,
    origin: Option<String>,
}

impl<'a> Parts<'a> {
    fn of(message: &'a Message) -> Self {
        let question = message.question.as_deref().map(|text| lines(text, QUESTION_CHARS_MAX));
        Self {
            headline: headline(message),
            lead: lead(message),
            question: question.filter(|text| !text.is_empty()),
            choices: message.choices.iter().map(choice_line).collect(),
            context: message.context.as_ref().map(context_text).filter(|text| !text.is_empty()),
            link: message.link.as_deref(),
            link_label: link_label(message),
            times: times(message),
            origin: origin(message),
        }
    }

    fn plain(&self) -> String {
        let mut blocks = vec![self.headline.clone(), self.lead.clone()];
        blocks.extend(self.question.clone());
        if !self.choices.is_empty() {
            let choices: Vec<String> = self.choices.iter().map(|choice| format!("- {choice}")).collect();
            blocks.push(choices.join("\n"));
        }
        blocks.extend(self.context.clone());
        blocks.extend(self.link.map(|link| format!("{}: {link}", self.link_label)));
        if !self.times.is_empty() {
            blocks.push(self.times.join("\n"));
        }
        blocks.extend(self.origin.clone());
        blocks.join("\n\n") + "\n"
    }

    fn html(&self) -> String {
        let mut body = format!("<h2>{}</h2>\n<p>{}</p>\n", escape(&self.headline), escape(&self.lead));
        if let Some(question) = &self.question {
            body += &format!("<p style=\"white-space: pre-line\">{}</p>\n", escape(question));
        }
        if !self.choices.is_empty() {
            let choices: String =
                self.choices.iter().map(|choice| format!("<li>{}</li>", escape(choice))).collect();
            body += &format!("<ul>{choices}</ul>\n");
        }
        if let Some(context) = &self.context {
            body += &format!("<pre>{}</pre>\n", escape(context));
        }
        if let Some(link) = self.link {
            body += &format!("<p><a href=\"{}\">{}</a></p>\n", escape(link), self.link_label);
        }
        let small: Vec<String> = self.times.iter().chain(&self.origin).map(|line| escape(line)).collect();
        if !small.is_empty() {
            body += &format!("<p><small>{}</small></p>\n", small.join("<br>"));
        }
        format!("<!doctype html>\n<html><head><meta charset=\"utf-8\"></head><body>\n{body}</body></html>\n")
    }
}

/// So that a text stays one within HTML, also within an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
