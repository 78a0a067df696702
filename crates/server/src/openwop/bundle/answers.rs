//! What people answered, so that it can be kept out of a bundle: where it was recorded, and wherever it went from there.

use std::collections::HashSet;

use abide_core::{EventType, Key, Payload, Record};
use abide_store::Store;
use serde_json::Value;

use super::redact::{Extent, Reason, Rules};
use crate::error::Result;
use crate::limits;

/// The fields of events that say what somebody answered.
const FIELDS: &[(&str, &str, Extent)] = &[
    ("approval.received", "feedback", Extent::Whole),
    ("approval.received", "reason", Extent::Whole),
    ("approval.received", "refineFeedback", Extent::Whole),
    ("approval.received", "editedArtifactData", Extent::Whole),
    ("clarification.resolved", "answers", Extent::Values),
    ("interrupt.resolved", "resumeValue", Extent::Whole),
    ("interrupt.resolved", "reason", Extent::Whole),
];

/// What an answer says that events say as well: what was decided, by whom and when.
const DECIDED: [&str; 4] = ["action", "decision", "decidedBy", "decidedAt"];

/// An answer of fewer characters, or of one word, counts only where it is all that is said.
const SENTENCE_CHARS_MIN: usize = 8;

/// What was answered in a run.
#[derive(Default)]
pub(super) struct Answers {
    /// The nodes that asked.
    nodes: HashSet<String>,
    texts: HashSet<String>,
}

impl Answers {
    /// What a journal has of them, up to a bound.
    pub(super) async fn of(store: &dyn Store, key: Key) -> Result<Self> {
        let mut answers = Self::default();
        let mut types: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
        types.dedup();
        for kind in types.into_iter().filter_map(EventType::by_name) {
            let most = limits::BUNDLE_ANSWERS_MAX;
            for record in store.events_of_type(key, kind.code, 0, most).await? {
                answers.add(kind.name, &record);
            }
        }
        Ok(answers)
    }

    fn add(&mut self, kind: &str, record: &Record) {
        self.nodes.extend(record.node.as_deref().map(str::to_owned));
        let Payload::Present(bytes) = &record.payload else { return };
        let mut payload: Value = serde_json::from_slice(bytes).unwrap_or_default();
        for (_, field, _) in FIELDS.iter().filter(|(name, ..)| *name == kind) {
            if let Some(answer) = payload[*field].as_object_mut() {
                answer.retain(|key, _| !DECIDED.contains(&key.as_str()));
            }
            texts(&payload[*field], &mut self.texts);
        }
    }

    /// Hides the node that asked from showing its answer again as what it made.
    pub(super) fn hide_outputs(&self, rules: &mut Rules) {
        for node in &self.nodes {
            let path = format!("/run/nodeStates/{}/outputs", pointer(node));
            rules.hidden.insert(path, (Reason::Answer, Extent::Values));
        }
    }

    /// Hides what an event says of an answer, wherever it stands in the bundle.
    pub(super) fn hide_event(&self, path: &str, kind: &str, node: Option<&str>, rules: &mut Rules) {
        for (_, field, extent) in FIELDS.iter().filter(|(name, ..)| *name == kind) {
            rules.hidden.insert(format!("{path}/payload/{field}"), (Reason::Answer, *extent));
        }
        if kind == "node.completed" && node.is_some_and(|node| self.nodes.contains(node)) {
            rules.hidden.insert(format!("{path}/payload/outputs"), (Reason::Answer, Extent::Values));
        }
    }

    /// The answers that are searched for elsewhere: sentences anywhere, and others where they are the whole text. What the
    /// definition says itself, like the choices of a question, is nobody's own word.
    pub(super) fn words(&self, definition: &HashSet<String>) -> (Vec<&str>, HashSet<String>) {
        let own = self.texts.iter().filter(|text| !definition.contains(*text));
        let (long, short): (Vec<&String>, Vec<&String>) = own.partition(|text| is_sentence(text));
        (long.into_iter().map(String::as_str).collect(), short.into_iter().cloned().collect())
    }
}

fn is_sentence(text: &str) -> bool {
    let text = text.trim();
    text.chars().count() >= SENTENCE_CHARS_MIN && text.contains(char::is_whitespace)
}

/// Every text in a value.
pub(super) fn texts(value: &Value, found: &mut HashSet<String>) {
    match value {
        Value::String(text) if !text.is_empty() => {
            found.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// A name as a part of a JSON pointer.
pub(super) fn pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_of_an_event_that_there_is() {
        for (name, ..) in FIELDS {
            assert!(EventType::by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_the_definition_says_is_nobodys_own_word() {
        let mut answers = Answers::default();
        texts(&json!({ "action": "accept", "why": ["because I say so", "Berlin", ""] }), &mut answers.texts);
        let (long, short) = answers.words(&["accept".to_owned()].into());
        assert_eq!((long, short), (vec!["because I say so"], ["Berlin".to_owned()].into()));
    }
}
