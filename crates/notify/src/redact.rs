//! Takes out of a message what must not leave: secrets, what the operator said, and, on the way outside, personal data.
//!
//! [`Redacted`] can be made in no other way, and composing takes nothing else. So whatever is sent went through here.
//! The link and the names of who is told stay as they are: they are what the message is for.

use std::ops::Deref;

use abide_core::{Json, mask_secrets};
use regex::{NoExpand, Regex};
use serde_json::{Map, Value};

use crate::limits::{CHOICES_MAX, CONTEXT_BYTES_MAX, MENTIONS_MAX};
use crate::message::{About, Choice, Message, Purpose};
use crate::personal::mask_personal;
use crate::text::seen;

/// What stands in the place of what was taken out.
pub(crate) const INSTEAD: &str = "[removed]";

/// Words that say, in the name of a field, that its value is nobody else's to know.
const SECRET_WORDS: [&str; 22] = [
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "otp",
    "cvv",
    "cvc",
    "jwt",
    "secret",
    "secrets",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "bearer",
    "credential",
    "credentials",
    "cookie",
    "pin",
];

/// Pairs of words that say so together.
const SECRET_PAIRS: [[&str; 2]; 4] =
    [["api", "key"], ["access", "key"], ["private", "key"], ["signing", "key"]];

/// What is taken out of every message.
#[derive(Default)]
pub(crate) struct Redactor {
    patterns: Vec<Regex>,
}

/// How much a channel gets to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// It leaves the organisation.
    pub(crate) external: bool,
    /// Question, choices and context are told, too.
    pub(crate) full: bool,
}

/// A message without what must not leave.
pub(crate) struct Redacted(Message);

impl Deref for Redacted {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.0
    }
}

impl Redactor {
    pub(crate) fn new(patterns: Vec<Regex>) -> Self {
        Self { patterns }
    }

    /// The message as a channel gets it.
    pub(crate) fn redact(&self, message: &Message, view: View) -> Redacted {
        let pass = Pass { patterns: &self.patterns, external: view.external };
        let mentions = message.mentions.iter().take(MENTIONS_MAX).cloned().collect();
        let short = Message {
            title: pass.text(&message.title),
            purpose: pass.purpose(&message.purpose),
            about: message.about.clone().map(|about| About { node: None, workflow: None, ..about }),
            question: None,
            context: None,
            choices: Vec::new(),
            mentions,
            ..message.clone()
        };
        if !view.full {
            return Redacted(short);
        }
        let text = |text: &Option<String>| text.as_deref().map(|text| pass.text(text));
        let about = message.about.as_ref().map(|about| About {
            node: text(&about.node),
            workflow: text(&about.workflow),
            ..about.clone()
        });
        Redacted(Message {
            about,
            question: text(&message.question),
            context: message.context.as_ref().and_then(|context| pass.context(context)),
            choices: message.choices.iter().take(CHOICES_MAX).map(|choice| pass.choice(choice)).collect(),
            ..short
        })
    }

    /// A text that somebody else wrote, as it may be told and kept. Mail servers like to repeat addresses.
    pub(crate) fn told(&self, text: &str) -> String {
        Pass { patterns: &self.patterns, external: true }.text(text)
    }
}

/// One way through a message.
struct Pass<'a> {
    patterns: &'a [Regex],
    external: bool,
}

impl Pass<'_> {
    /// What nobody sees is taken out to look, since it is taken out again to send: it must not hide anything.
    fn text(&self, text: &str) -> String {
        let plain = seen(text);
        let clean = self.clean(&plain);
        if clean == plain { text.to_owned() } else { clean }
    }

    fn clean(&self, text: &str) -> String {
        let mut clean = mask_secrets(text).into_owned();
        for pattern in self.patterns {
            clean = pattern.replace_all(&clean, NoExpand(INSTEAD)).into_owned();
        }
        if self.external { mask_personal(&clean).into_owned() } else { clean }
    }

    /// Whoever answered is named, but need not be among those who are told.
    fn purpose(&self, purpose: &Purpose) -> Purpose {
        match purpose {
            Purpose::FollowUp { outcome, by, at } => {
                let by = by.as_deref().map(|by| self.text(by));
                Purpose::FollowUp { outcome: *outcome, by, at: *at }
            }
            other => other.clone(),
        }
    }

    fn choice(&self, choice: &Choice) -> Choice {
        let description = choice.description.as_deref().map(|text| self.text(text));
        Choice { label: self.text(&choice.label), description }
    }

    /// Nothing if there is too much of it, or if it can't be looked into: what was not seen must not leave.
    fn context(&self, context: &Json) -> Option<Json> {
        let small = context.text().len() <= CONTEXT_BYTES_MAX;
        let value: Value = small.then(|| context.parse().ok()).flatten()?;
        Some(Json::of(&self.value(value)))
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Number(number) => self.number(Value::Number(number)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(self.fields(fields)),
            other @ (Value::Null | Value::Bool(_)) => other,
        }
    }

    /// A number is searched as it is written: the number of a card need not stand in quotes.
    fn number(&self, number: Value) -> Value {
        let written = number.to_string();
        let clean = self.text(&written);
        if clean == written { number } else { Value::String(clean) }
    }

    fn fields(&self, fields: Map<String, Value>) -> Map<String, Value> {
        let clean = |(name, value): (String, Value)| {
            let value = if is_secret(&name) { Value::String(INSTEAD.to_owned()) } else { self.value(value) };
            (self.text(&name), value)
        };
        fields.into_iter().map(clean).collect()
    }
}

/// Whether the name of a field says that its value is a secret: `password`, `dbPassword`, `API_KEY`, `client-secret`.
fn is_secret(name: &str) -> bool {
    let words = words(name);
    let is_pair = |pair: &[String]| SECRET_PAIRS.iter().any(|known| pair == known);
    words.iter().any(|word| is_secret_word(word)) || words.windows(2).any(is_pair)
}

/// Also with a number behind it, or with another word before it: `password2`, `userpassword`.
fn is_secret_word(word: &str) -> bool {
    let word = word.trim_end_matches(|char: char| char.is_numeric());
    SECRET_WORDS.iter().any(|known| word == *known || known.len() >= 5 && word.ends_with(known))
}

/// The words of a name, in small letters, however they are put together.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_was_small = false;
    for char in name.chars() {
        let begins = char.is_uppercase() && before_was_small;
        if begins || !char.is_alphanumeric() {
            words.push(String::new());
        }
        if char.is_alphanumeric() {
            words.last_mut().expect("there is a first word").extend(char.to_lowercase());
        }
        before_was_small = char.is_lowercase() || char.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests;
