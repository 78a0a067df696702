//! What kind of response a question wants: one of some choices, yes or no, a text, or anything.
//!
//! Responses are checked as every answer is: the kind is another way to write a schema.

use serde::{Deserialize, Serialize};

use super::form::{known_word, optional_text, text};
use crate::excerpt::excerpt;
use crate::fields::{Fields, Findings};
use crate::limits::{ASK_NAME_CHARS_MAX, ASK_TEXT_CHARS_MAX, CHOICES_MAX};
use crate::{Json, JsonMap};

/// What kind of response a question wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseType {
    /// One of the choices.
    Choice,
    /// Yes or no, unless there are choices.
    Confirm,
    /// A text that is not empty.
    Text,
    /// Any value.
    Form,
}

impl ResponseType {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Choice, Self::Confirm, Self::Text, Self::Form];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Choice => "choice",
            Self::Confirm => "confirm",
            Self::Text => "text",
            Self::Form => "form",
        }
    }

    /// The kind with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How a choice may look.
const STYLES: [&str; 3] = ["primary", "danger", "default"];

/// Checks the kind of response and the choices of a question, if it has them.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<ResponseType> {
    let kind = optional_text(fields, "responseType", 1..=ASK_NAME_CHARS_MAX);
    let place = fields.place("responseType");
    let names = ResponseType::ALL.map(ResponseType::name);
    let kind = kind.and_then(|name| {
        known_word(&name, &names, place, fields.findings());
        ResponseType::by_name(&name)
    });
    let choices = fields.optional("choices");
    let place = fields.place("choices");
    let list = choices.as_ref().map(|given| given.parse::<Vec<Json>>().unwrap_or_default());
    let takes_choices = matches!(kind, Some(ResponseType::Choice | ResponseType::Confirm));
    match list {
        Some(_) if !takes_choices => {
            let message = "only the response types choice and confirm have choices; remove them";
            fields.findings().problem(place, message);
        }
        Some(list) if (1..=CHOICES_MAX).contains(&list.len()) => {
            read_choices(&list, &place, fields.findings());
        }
        None if kind != Some(ResponseType::Choice) => {}
        _ => {
            let message = format!("a list of 1 to {CHOICES_MAX} choices is expected, each {{value, label}}");
            fields.findings().problem(place, message);
        }
    }
    kind
}

fn read_choices(list: &[Json], place: &str, findings: &mut Findings) {
    let mut values: Vec<String> = Vec::new();
    for (ix, choice) in list.iter().enumerate() {
        let Some(mut fields) = Fields::of(choice, format!("{place}[{ix}]"), findings) else { continue };
        let value = text(&mut fields, "value", 1..=ASK_NAME_CHARS_MAX);
        text(&mut fields, "label", 1..=ASK_NAME_CHARS_MAX);
        optional_text(&mut fields, "description", 0..=ASK_TEXT_CHARS_MAX);
        let style = optional_text(&mut fields, "style", 1..=ASK_NAME_CHARS_MAX);
        if let Some(style) = style {
            let place = fields.place("style");
            known_word(&style, &STYLES, place, fields.findings());
        }
        fields.optional_map("metadata");
        let value_place = fields.place("value");
        fields.finish();
        let Some(value) = value else { continue };
        if values.contains(&value) {
            findings.problem(value_place, format!("there is another '{}'; rename one", excerpt(&value)));
        }
        values.push(value);
    }
}

/// The schema of a response, if the question says what kind it wants.
pub(super) fn schema(question: &JsonMap) -> Option<Json> {
    let name: String = question.get("responseType")?.parse().ok()?;
    let choices = || {
        let list: Vec<JsonMap> = question.get("choices")?.parse().ok()?;
        let values: Vec<Json> = list.iter().filter_map(|choice| choice.get("value").cloned()).collect();
        Some(one_of(&values))
    };
    match ResponseType::by_name(&name)? {
        ResponseType::Choice => choices(),
        ResponseType::Confirm => {
            Some(choices().unwrap_or_else(|| one_of(&[Json::of("yes"), Json::of("no")])))
        }
        ResponseType::Text => Some(Json::of(&serde_json::json!({ "type": "string", "minLength": 1 }))),
        ResponseType::Form => None,
    }
}

fn one_of(values: &[Json]) -> Json {
    Json::of(&JsonMap::from([("enum".to_owned(), Json::of(values))]))
}
