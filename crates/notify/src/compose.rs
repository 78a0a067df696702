//! A message in the form of a channel. These are pure functions of a redacted message.

pub(crate) mod email;
pub(crate) mod pagerduty;
pub(crate) mod slack;
pub(crate) mod webhook;

use abide_core::Json;
use serde_json::Value;

use crate::limits::{CHOICE_CHARS_MAX, CONTEXT_CHARS_MAX};
use crate::message::{Choice, Message};
use crate::text::{clip, lines, one_line};

/// A request to be posted.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    fn json(body: &impl serde::Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("a body is plain data, which serialises");
        Self { headers: vec![("content-type", "application/json".to_owned())], body }
    }
}

/// A choice on one line.
fn choice_line(choice: &Choice) -> String {
    let label = one_line(&choice.label, CHOICE_CHARS_MAX);
    match choice.description.as_deref().map(|text| one_line(text, CHOICE_CHARS_MAX)) {
        Some(description) if !description.is_empty() => format!("{label}: {description}"),
        _ => label,
    }
}

/// The context as people read it.
fn context_text(context: &Json) -> String {
    let value: Option<Value> = context.parse().ok();
    let text = value.map_or_else(String::new, |value| format!("{value:#}"));
    clip(&lines(&text, CONTEXT_CHARS_MAX), CONTEXT_CHARS_MAX)
}

/// Where it comes from, on one line. Nothing if the channel does not get to hear it.
fn origin(message: &Message) -> Option<String> {
    let about = message.about.as_ref()?;
    let node = about.node.as_deref()?;
    let workflow = about.workflow.as_deref().map(|workflow| format!(" of workflow {workflow}"));
    Some(one_line(&format!("Node {node}{}, {}", workflow.unwrap_or_default(), about.run), 400))
}

#[cfg(test)]
pub(crate) mod tests;
