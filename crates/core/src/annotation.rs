//! Annotations: what people say about a run. They stand beside its journal and change nothing in it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::secret_shape::mask_secrets;
use crate::{Json, Rejection, limits};

/// What an annotation says. The field that its kind names is there, and no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Signal {
    /// What kind of thing is said.
    pub kind: SignalKind,
    /// A mark from 1 (bad) to 5 (good).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<i64>,
    /// A word to find it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What should have come out instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<Json>,
}

/// What kind of thing an annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignalKind {
    /// A mark.
    Rating,
    /// What should have come out instead.
    Correction,
    /// A word to find it by.
    Label,
    /// Somebody should look at it.
    Flag,
}

/// What an annotation is about, within its run. Without either it is about the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// An event of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// A node of its definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

/// An annotation as it is kept, but for who made it and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Annotation {
    /// Its id, drawn by the shell.
    pub id: String,
    /// What it says.
    pub signal: Signal,
    /// What it is about.
    #[serde(default)]
    pub target: Target,
    /// Anything more, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Annotation {
    /// Checks what was sent, and takes out of it what looks like a secret.
    pub fn admit(mut self) -> Result<Self, Rejection> {
        self.signal.check()?;
        check_chars("note", self.note.as_deref(), 1, limits::REASON_CHARS_MAX)?;
        self.note = self.note.map(|note| mask_secrets(&note).into_owned());
        self.signal.label = self.signal.label.map(|label| mask_secrets(&label).into_owned());
        self.signal.correction = self.signal.correction.map(|correction| masked(&correction));
        Ok(self)
    }
}

impl Signal {
    fn check(&self) -> Result<(), Rejection> {
        let fields = [
            (SignalKind::Rating, "rating", self.rating.is_some()),
            (SignalKind::Correction, "correction", self.correction.is_some()),
            (SignalKind::Label, "label", self.label.is_some()),
        ];
        for (kind, field, given) in fields {
            let place = format!("signal.{field}");
            match (self.kind == kind, given) {
                (true, false) => {
                    let message = format!("'{place}' is missing; a signal of kind '{field}' needs it");
                    return Err(Rejection::invalid(place, message));
                }
                (false, true) => {
                    let message = format!("'{place}' is only for a signal of kind '{field}'; leave it out");
                    return Err(Rejection::invalid(place, message));
                }
                _ => {}
            }
        }
        if self.rating.is_some_and(|rating| !(1..=5).contains(&rating)) {
            return Err(Rejection::invalid("signal.rating", "'signal.rating' is a whole number from 1 to 5"));
        }
        let large = |json: &Json| json.text().len() > limits::CORRECTION_BYTES_MAX;
        if self.correction.as_ref().is_some_and(large) {
            let message = format!("'signal.correction' takes at most {} bytes", limits::CORRECTION_BYTES_MAX);
            return Err(Rejection::invalid("signal.correction", message));
        }
        check_chars("signal.label", self.label.as_deref(), 1, limits::TAG_CHARS_MAX)
    }
}

fn check_chars(field: &str, text: Option<&str>, least: usize, most: usize) -> Result<(), Rejection> {
    match text.map(|text| text.chars().count()) {
        Some(chars) if !(least..=most).contains(&chars) => {
            Err(Rejection::invalid(field, format!("'{field}' has {least} to {most} characters")))
        }
        _ => Ok(()),
    }
}

/// A value whose texts don't look like secrets. One without any stays as it was written.
fn masked(json: &Json) -> Json {
    let Ok(mut value) = json.parse::<Value>() else { return json.clone() };
    let before = value.clone();
    mask(&mut value);
    if value == before { json.clone() } else { Json::of(&value) }
}

/// The value is as deep as a request body at most, so this recursion is bounded.
fn mask(value: &mut Value) {
    match value {
        Value::String(text) => *text = mask_secrets(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(entries) => {
            let old = std::mem::take(entries);
            entries.extend(old.into_iter().map(|(name, mut value)| {
                mask(&mut value);
                (mask_secrets(&name).into_owned(), value)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn admit(signal: Value, note: Option<&str>) -> Result<Annotation, String> {
        let signal = serde_json::from_value(signal).map_err(|error| error.to_string())?;
        let annotation = Annotation {
            id: "ann-1".to_owned(),
            signal,
            target: Target::default(),
            note: note.map(str::to_owned),
        };
        annotation.admit().map_err(|rejection| rejection.to_string())
    }

    #[test]
    fn each_kind_has_its_own_field() {
        for good in [
            json!({ "kind": "rating", "rating": 1 }),
            json!({ "kind": "rating", "rating": 5 }),
            json!({ "kind": "correction", "correction": { "total": 12 } }),
            json!({ "kind": "label", "label": "good" }),
            json!({ "kind": "flag" }),
        ] {
            admit(good, None).unwrap();
        }
        for bad in [
            json!({ "kind": "rating" }),
            json!({ "kind": "rating", "rating": 0 }),
            json!({ "kind": "rating", "rating": 6 }),
            json!({ "kind": "rating", "rating": 3, "label": "x" }),
            json!({ "kind": "flag", "rating": 3 }),
            json!({ "kind": "label", "label": "" }),
            json!({ "kind": "correction" }),
            json!({ "kind": "applause" }),
            json!({ "kind": "flag", "colour": "red" }),
        ] {
            admit(bad.clone(), None).expect_err(&bad.to_string());
        }
        admit(json!({ "kind": "flag" }), Some(&"x".repeat(limits::REASON_CHARS_MAX + 1))).unwrap_err();
    }

    #[test]
    fn texts_that_look_like_secrets_are_not_kept() {
        let key = "abk_dev_0123456789abcdef";
        let kept = admit(
            json!({ "kind": "correction", "correction": { key: [key, 1.50, "fine"] } }),
            Some(&format!("I used {key}")),
        )
        .unwrap();
        assert_eq!(kept.note.as_deref(), Some("I used [secret]"));
        let correction = kept.signal.correction.unwrap();
        assert_eq!(correction.text(), r#"{"[secret]":["[secret]",1.5,"fine"]}"#);
        let kept = admit(json!({ "kind": "label", "label": key }), None).unwrap();
        assert_eq!(kept.signal.label.as_deref(), Some("[secret]"));
    }
}
