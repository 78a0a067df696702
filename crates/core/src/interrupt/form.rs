//! What the readers of questions and of answers have in common.

use std::ops::RangeInclusive;

use serde_json::Value;

use crate::excerpt::{excerpt, excerpt_of};
use crate::fields::{Fields, Findings, nearest};
use crate::{Json, Schema, SchemaError, limits};

/// Bytes of the path or the message of one error: both may repeat a key of the caller's.
const ERROR_BYTES_MAX: usize = 240;

/// Looks at a value as a whole before anything else does: whatever is read later can be read.
pub(crate) fn readable(json: &Json, bytes_max: usize) -> Result<(), String> {
    if json.text().len() > bytes_max {
        return Err(format!("it is longer than {bytes_max} bytes: shorten it"));
    }
    if json.depth() > limits::ASK_DEPTH_MAX {
        let most = limits::ASK_DEPTH_MAX;
        return Err(format!("it is nested deeper than {most} levels: make it flatter"));
    }
    // Texts and numbers are looked at here: half of a surrogate pair, or a number beyond all bounds, is carried as
    // text without anybody noticing.
    json.parse::<Value>().map(drop).map_err(|error| format!("it can't be read: {error}"))
}

/// A text that must be there, of so many characters.
pub(super) fn text(
    fields: &mut Fields<'_>,
    key: &'static str,
    chars: RangeInclusive<usize>,
) -> Option<String> {
    let text = fields.text(key)?;
    of_length(fields, key, text, chars)
}

/// A text that may be there, of so many characters.
pub(super) fn optional_text(
    fields: &mut Fields<'_>,
    key: &'static str,
    chars: RangeInclusive<usize>,
) -> Option<String> {
    let text = fields.optional_text(key)?;
    of_length(fields, key, text, chars)
}

fn of_length(
    fields: &mut Fields<'_>,
    key: &str,
    text: String,
    chars: RangeInclusive<usize>,
) -> Option<String> {
    if chars.contains(&text.chars().count()) {
        return Some(text);
    }
    let place = fields.place(key);
    let message = format!("'{key}' has {} to {} characters", chars.start(), chars.end());
    fields.findings().problem(place, message);
    None
}

/// A list of texts that may be there.
pub(super) fn texts(
    fields: &mut Fields<'_>,
    key: &'static str,
    items_max: usize,
    chars_max: usize,
) -> Option<Vec<String>> {
    let items = fields.optional_list(key)?;
    let place = fields.place(key);
    if items.len() > items_max {
        fields.findings().problem(place, format!("at most {items_max} entries are read here"));
        return None;
    }
    let short = |text: &String| (1..=chars_max).contains(&text.chars().count());
    let read: Option<Vec<String>> = items.iter().map(|item| item.parse().ok().filter(short)).collect();
    if read.is_none() {
        let message = format!("each entry is a string of 1 to {chars_max} characters");
        fields.findings().problem(place, message);
    }
    read
}

/// One word out of a few. Another one is a problem at `place`.
pub(super) fn known_word(word: &str, known: &[&str], place: String, findings: &mut Findings) {
    if known.contains(&word) {
        return;
    }
    let message = match nearest(word, known, usize::MAX) {
        Some(near) => format!("'{}' is not known here; did you mean '{near}'?", excerpt(word)),
        None => format!("'{}' is not known here; it is one of {}", excerpt(word), known.join(", ")),
    };
    findings.problem(place, message);
}

/// A JSON Schema that may be there, compiled: one that can't be used is refused before anybody is asked.
pub(super) fn schema(fields: &mut Fields<'_>, key: &'static str) -> Option<(Json, Schema)> {
    let json = fields.optional(key)?;
    let place = fields.place(key);
    if json.type_name() != "object" {
        fields.findings().problem(place, "a JSON Schema is expected, which is an object");
        return None;
    }
    match Schema::compile(&json) {
        Ok(schema) => Some((json, schema)),
        Err(message) => {
            fields.findings().problem(place, message);
            None
        }
    }
}

/// Everything that is wrong with an answer, the first ones only.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<SchemaError>);

impl Faults {
    /// One thing is wrong at this place.
    pub(super) fn add(&mut self, path: &str, message: &str) {
        if self.0.len() < limits::SCHEMA_ERRORS_MAX {
            let (path, message) = (excerpt_of(path, ERROR_BYTES_MAX), excerpt_of(message, ERROR_BYTES_MAX));
            self.0.push(SchemaError { path, message });
        }
    }

    /// What a schema found in the part of the answer that stands at this place.
    pub(super) fn add_all(&mut self, path: &str, errors: &[SchemaError]) {
        errors.iter().for_each(|error| self.add(&format!("{path}{}", error.path), &error.message));
    }

    /// What was found in one object that stands at this place.
    pub(super) fn add_findings(&mut self, path: &str, findings: Findings) {
        for problem in findings.all() {
            self.add(&format!("{path}{}", pointer(&[&problem.place])), &problem.message);
        }
    }

    /// What is wrong.
    pub(super) fn list(self) -> Vec<SchemaError> {
        self.0
    }

    /// Nothing, or what is wrong.
    pub(super) fn none(self) -> Result<(), Vec<SchemaError>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// A JSON pointer of these steps. An empty one is the object itself: no key that is read here is empty.
pub(super) fn pointer(steps: &[&str]) -> String {
    let escaped = steps.iter().filter(|step| !step.is_empty()).map(|step| {
        let step = step.replace('~', "~0").replace('/', "~1");
        format!("/{step}")
    });
    escaped.collect()
}
