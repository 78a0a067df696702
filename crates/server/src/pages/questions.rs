//! Questions with JSON Schemas as fields of a form, and fields as JSON answers.
//!
//! The form only offers what a schema allows where that is plain to see. Whether an answer is valid is decided where
//! every answer is checked, by the schema itself.

use abide_core::Json;
use serde_json::{Map, Value};

use super::form::Fields;
use crate::limits::{CHOICES_MAX, CHOICES_SHOWN_MAX};

/// One question of a form.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    /// How the answer refers to it.
    pub(super) id: String,
    /// What its field is called.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) hint: Option<String>,
    pub(super) asks: Asks,
    /// Whether saying nothing means null.
    nullable: bool,
    /// What is proposed.
    default: Option<Value>,
    /// Whether it is all that is asked, and pressing one of its choices answers it.
    is_pressed: bool,
}

/// What kind of field a question gets.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asks {
    /// One of these.
    One(Vec<Choice>),
    /// Any of these.
    Several(Vec<Choice>),
    Number {
        step: &'static str,
        min: Option<String>,
        max: Option<String>,
    },
    /// A line of text, and the type of its field.
    Line {
        kind: &'static str,
        required: bool,
    },
    /// Text of any length.
    Text {
        required: bool,
    },
    /// Anything: JSON, or else a text.
    Free,
    /// What no field fits.
    Json,
}

/// Something to choose.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    label: String,
    value: Value,
    /// What else is to be known about it.
    description: Option<String>,
    style: Style,
}

/// How a choice looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    /// As what is proposed.
    Primary,
    /// As what is hard to undo.
    Danger,
    #[default]
    Plain,
}

/// The questions of a clarification.
pub(super) fn of(data: &Value) -> Vec<Question> {
    let asked = data["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (none, is_only) = (Map::new(), asked.len() == 1);
    let question = |(ix, asked): (usize, &Value)| {
        let schema = asked["schema"].as_object();
        let text = |name: &str| schema?.get(name)?.as_str().map(str::to_owned);
        let wanted = wanted(asked).map(|asks| (asks, false));
        let (asks, nullable) = wanted.unwrap_or_else(|| Asks::of(schema.unwrap_or(&none)));
        let is_labelled = !asked["responseType"].is_null() || !asked["schema"]["oneOf"].is_null();
        Question {
            is_pressed: is_only && is_labelled && asks.is_short_choice(),
            id: asked["id"].as_str().unwrap_or_default().to_owned(),
            name: field_name(ix),
            text: asked["question"].as_str().unwrap_or_default().to_owned(),
            hint: text("description").or_else(|| text("title")),
            asks,
            nullable,
            default: schema.and_then(|schema| schema.get("default")).cloned(),
        }
    };
    asked.iter().enumerate().map(question).collect()
}

/// The field of a question that says what kind of response it wants.
fn wanted(asked: &Value) -> Option<Asks> {
    let given = asked["choices"].as_array().map(|choices| choices.iter().filter_map(Choice::given).collect());
    match asked["responseType"].as_str()? {
        "choice" => Some(Asks::One(given?)),
        "confirm" => {
            let usual =
                || [("Yes", "yes"), ("No", "no")].map(|(label, value)| Choice::new(label, value)).into();
            Some(Asks::One(given.unwrap_or_else(usual)))
        }
        "text" => Some(Asks::Text { required: true }),
        "form" => Some(Asks::Free),
        _ => None,
    }
}

/// What the field of a question is called.
pub(super) fn field_name(index: usize) -> String {
    format!("q{index}")
}

impl Asks {
    /// Whether it is one of few.
    fn is_short_choice(&self) -> bool {
        matches!(self, Self::One(choices) if choices.len() <= CHOICES_SHOWN_MAX)
    }

    /// The field that fits a schema, and whether saying nothing means null.
    fn of(schema: &Map<String, Value>) -> (Self, bool) {
        if let Some(choices) = choices(schema) {
            return (Self::One(choices), false);
        }
        let (kind, nullable) = match schema.get("type") {
            None if schema.keys().all(|key| is_remark(key)) => ("string", false),
            None => return (Self::Json, false),
            Some(Value::String(kind)) => (kind.as_str(), false),
            Some(Value::Array(kinds)) => match kinds.iter().map(Value::as_str).collect::<Vec<_>>()[..] {
                [Some(kind), Some("null")] | [Some("null"), Some(kind)] => (kind, true),
                _ => return (Self::Json, false),
            },
            Some(_) => return (Self::Json, false),
        };
        (Self::of_type(kind, schema, nullable), nullable)
    }

    fn of_type(kind: &str, schema: &Map<String, Value>, nullable: bool) -> Self {
        let number = |name: &str| schema.get(name).filter(|bound| bound.is_number()).map(Value::to_string);
        let size = |name: &str| schema.get(name).and_then(Value::as_u64);
        match kind {
            "boolean" if !nullable => Self::One(
                [("Yes", true), ("No", false)].map(|(label, value)| Choice::new(label, value)).into(),
            ),
            "integer" | "number" => {
                let step = if kind == "integer" { "1" } else { "any" };
                Self::Number { step, min: number("minimum"), max: number("maximum") }
            }
            "string" => {
                let required = !nullable && size("minLength").is_some_and(|least| least > 0);
                let format = schema.get("format").and_then(Value::as_str);
                match format {
                    Some("email") => Self::Line { kind: "email", required },
                    Some("date") => Self::Line { kind: "date", required },
                    Some("uri") => Self::Line { kind: "url", required },
                    Some(_) => Self::Line { kind: "text", required },
                    None if schema.contains_key("pattern")
                        || size("maxLength").is_some_and(|most| most <= 120) =>
                    {
                        Self::Line { kind: "text", required }
                    }
                    None => Self::Text { required },
                }
            }
            "array" => {
                let items = schema.get("items").and_then(Value::as_object).and_then(choices);
                items.map_or(Self::Json, Self::Several)
            }
            _ => Self::Json,
        }
    }
}

/// Whether a keyword of a schema only says something about the value.
fn is_remark(key: &str) -> bool {
    ["title", "description", "default", "examples", "$comment", "$schema"].contains(&key)
}

/// The values of a schema that only allows some, if they can be offered one by one.
fn choices(schema: &Map<String, Value>) -> Option<Vec<Choice>> {
    let plain = |value: &&Value| !value.is_array() && !value.is_object();
    let listed = |values: &Vec<Value>| values.iter().filter(plain).map(Choice::of).collect::<Vec<_>>();
    let named = |ways: &Vec<Value>| ways.iter().filter_map(Choice::named).collect::<Vec<_>>();
    let enumerated = schema.get("enum").and_then(Value::as_array).map(|all| (listed(all), all.len()));
    let described = || schema.get("oneOf").and_then(Value::as_array).map(|all| (named(all), all.len()));
    let (choices, all) = enumerated.or_else(described)?;
    (choices.len() == all && (1..=CHOICES_MAX).contains(&all)).then_some(choices)
}

impl Choice {
    fn new(label: &str, value: impl Into<Value>) -> Self {
        Self { label: label.to_owned(), value: value.into(), description: None, style: Style::Plain }
    }

    fn of(value: &Value) -> Self {
        let label = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self::new(&label, value.clone())
    }

    /// `{value, label, description, style}`, as those write it who ask.
    fn given(choice: &Value) -> Option<Self> {
        let value = choice.get("value")?;
        let style = match choice["style"].as_str() {
            Some("primary") => Style::Primary,
            Some("danger") => Style::Danger,
            _ => Style::Plain,
        };
        let label = choice["label"].as_str().map_or_else(|| Self::of(value).label, str::to_owned);
        Some(Self { label, value: value.clone(), description: said(choice, "description"), style })
    }

    /// `{const, title, description}`, and nothing else that would matter.
    fn named(way: &Value) -> Option<Self> {
        let way = way.as_object()?;
        let value = way.get("const").filter(|value| !value.is_array() && !value.is_object())?;
        if !way.keys().all(|key| key == "const" || is_remark(key)) {
            return None;
        }
        let title = way.get("title").and_then(Value::as_str);
        let plain = title.map_or_else(|| Self::of(value), |title| Self::new(title, value.clone()));
        let description = way.get("description").and_then(Value::as_str).map(str::to_owned);
        Some(Self { description, ..plain })
    }
}

fn said(object: &Value, name: &str) -> Option<String> {
    object[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

impl Question {
    /// What the form says, as an answer; or what is wrong with it.
    pub(super) fn answer(&self, fields: &Fields) -> Result<Json, String> {
        let text = fields.get(&self.name).unwrap_or_default();
        if self.nullable && text.trim().is_empty() {
            return Ok(Json::of(&()));
        }
        match &self.asks {
            Asks::One(choices) => chosen(choices, text).ok_or_else(|| "Choose one of these.".to_owned()),
            Asks::Several(choices) => {
                let all: Option<Vec<Json>> =
                    fields.all(&self.name).map(|index| chosen(choices, index)).collect();
                all.map(|all| Json::of(&all)).ok_or_else(|| "Choose among these.".to_owned())
            }
            Asks::Number { .. } => {
                number(text).ok_or_else(|| "Write a number, such as 12 or 0.5.".to_owned())
            }
            Asks::Line { .. } => Ok(Json::of(text.trim())),
            Asks::Text { .. } => Ok(Json::of(&text.replace("\r\n", "\n"))),
            Asks::Free if text.trim().is_empty() => Err("Write something.".to_owned()),
            Asks::Free => Ok(json(text).unwrap_or_else(|_| Json::of(&text.replace("\r\n", "\n")))),
            Asks::Json => json(text),
        }
    }

    /// The field as the form shows it: with what was written into it, or what is proposed.
    pub(super) fn field(&self, fields: Option<&Fields>, problem: Option<&str>) -> Field<'_> {
        let choices = match &self.asks {
            Asks::One(choices) | Asks::Several(choices) => choices.as_slice(),
            _ => &[],
        };
        let choices = choices.iter().enumerate();
        let choices = choices
            .map(|(ix, choice)| ShownChoice { choice, is_chosen: self.is_chosen(choice, ix, fields) })
            .collect();
        let (written, problem) = (self.written(fields), problem.map(str::to_owned));
        Field { question: self, written, choices, problem }
    }

    fn written(&self, fields: Option<&Fields>) -> String {
        match (fields, &self.default) {
            (Some(fields), _) => fields.get(&self.name).unwrap_or_default().to_owned(),
            (None, Some(Value::String(text))) if self.asks != Asks::Json => text.clone(),
            (None, Some(value)) if !value.is_null() => value.to_string(),
            (None, _) => String::new(),
        }
    }

    fn is_chosen(&self, choice: &Choice, index: usize, fields: Option<&Fields>) -> bool {
        match (fields, &self.default) {
            (Some(fields), _) => fields.all(&self.name).any(|given| given == index.to_string()),
            (None, Some(Value::Array(all))) => all.contains(&choice.value),
            (None, default) => default.as_ref() == Some(&choice.value),
        }
    }
}

/// A question with what its field shows.
pub(super) struct Field<'a> {
    pub(super) question: &'a Question,
    pub(super) written: String,
    pub(super) choices: Vec<ShownChoice<'a>>,
    pub(super) problem: Option<String>,
}

/// Something to choose, and whether it is chosen.
#[derive(Debug, PartialEq)]
pub(super) struct ShownChoice<'a> {
    choice: &'a Choice,
    pub(super) is_chosen: bool,
}

impl ShownChoice<'_> {
    pub(super) fn label(&self) -> &str {
        &self.choice.label
    }

    pub(super) fn description(&self) -> Option<&str> {
        self.choice.description.as_deref()
    }

    /// The class of its button.
    pub(super) fn class(&self) -> &'static str {
        match self.choice.style {
            Style::Primary => "primary",
            Style::Danger => "danger",
            Style::Plain => "quiet",
        }
    }
}

impl Field<'_> {
    /// Whether it is several fields, one below the other. Too many to choose one from are in a list that opens.
    pub(super) fn is_group(&self) -> bool {
        match &self.question.asks {
            Asks::One(choices) => choices.len() <= CHOICES_SHOWN_MAX,
            asks => matches!(asks, Asks::Several(_)),
        }
    }

    /// Whether each of its choices is a button that answers.
    pub(super) fn is_pressed(&self) -> bool {
        self.question.is_pressed
    }

    /// The type of each field of a group.
    pub(super) fn kind(&self) -> &'static str {
        if matches!(self.question.asks, Asks::One(_)) { "radio" } else { "checkbox" }
    }

    /// Whether the browser lets nobody pass without it.
    pub(super) fn is_required(&self) -> bool {
        match &self.question.asks {
            Asks::One(_) | Asks::Json | Asks::Free => true,
            Asks::Line { required, .. } | Asks::Text { required } => *required,
            Asks::Several(_) | Asks::Number { .. } => false,
        }
    }
}

fn chosen(choices: &[Choice], index: &str) -> Option<Json> {
    choices.get(index.parse::<usize>().ok()?).map(|choice| Json::of(&choice.value))
}

/// A number as JSON writes it, or with a decimal comma; all its digits are kept.
fn number(text: &str) -> Option<Json> {
    let read =
        |text: &str| serde_json::from_str::<Json>(text).ok().filter(|read| read.type_name() == "number");
    read(text.trim()).or_else(|| read(&text.trim().replacen(',', ".", 1)))
}

/// JSON that somebody wrote by hand.
pub(super) fn json(text: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|error| match text.trim() {
        "" => "Write a JSON value; null says that there is nothing to say.".to_owned(),
        _ => format!("This is not JSON: {error}. Text stands in double quotes."),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the values are written out where it is called")]
    fn question(schema: Value) -> Question {
        let data = json!({ "questions": [{ "id": "x", "question": "What?", "schema": schema }] });
        of(&data).remove(0)
    }

    fn answer(schema: Value, form: &str) -> Result<String, String> {
        let answer = question(schema).answer(&Fields::read(form.as_bytes()).ok().unwrap());
        answer.map(|answer| answer.text().to_owned())
    }

    #[test]
    fn a_schema_gets_the_field_that_fits_it() {
        let line = |kind| Asks::Line { kind, required: false };
        let cases = [
            (json!(null), Asks::Text { required: false }),
            (json!({ "description": "Anything" }), Asks::Text { required: false }),
            (json!({ "type": "string", "minLength": 1 }), Asks::Text { required: true }),
            (json!({ "type": "string", "maxLength": 40 }), line("text")),
            (json!({ "type": "string", "pattern": "^a" }), line("text")),
            (json!({ "type": "string", "format": "email" }), line("email")),
            (json!({ "type": "string", "format": "date" }), line("date")),
            (json!({ "type": "string", "format": "uri" }), line("url")),
            (json!({ "type": "string", "format": "ipv4" }), line("text")),
            (json!({ "type": "number" }), Asks::Number { step: "any", min: None, max: None }),
            (
                json!({ "type": "integer", "minimum": 1, "maximum": 9 }),
                Asks::Number { step: "1", min: Some("1".to_owned()), max: Some("9".to_owned()) },
            ),
            (json!({ "enum": ["a", 1] }), Asks::One(vec![Choice::new("a", "a"), Choice::new("1", 1)])),
            (
                json!({ "oneOf": [{ "const": "eu", "title": "Europe" }, { "const": "us" }] }),
                Asks::One(vec![Choice::new("Europe", "eu"), Choice::new("us", "us")]),
            ),
            (
                json!({ "type": "array", "items": { "enum": ["a"] } }),
                Asks::Several(vec![Choice::new("a", "a")]),
            ),
            (
                json!({ "type": "boolean" }),
                Asks::One(vec![Choice::new("Yes", true), Choice::new("No", false)]),
            ),
            (json!({ "type": "object" }), Asks::Json),
            (json!({ "type": ["string", "number"] }), Asks::Json),
            (json!({ "enum": [{ "a": 1 }] }), Asks::Json),
            (json!({ "oneOf": [{ "const": 1, "minimum": 2 }] }), Asks::Json),
            (json!({ "allOf": [] }), Asks::Json),
            (json!({ "type": 7 }), Asks::Json),
        ];
        for (schema, expected) in cases {
            assert_eq!(question(schema.clone()).asks, expected, "{schema}");
        }
    }

    #[test]
    fn a_question_that_says_what_it_wants_gets_that() {
        let asked = |question: Value| of(&json!({ "questions": [question] })).remove(0);
        let choices = json!([
            { "value": "go", "label": "Proceed", "description": "At once.", "style": "primary" },
            { "value": "stop", "label": "Stop", "style": "danger" },
        ]);
        let given =
            asked(json!({ "id": "x", "question": "?", "responseType": "choice", "choices": choices }));
        let field = given.field(None, None);
        let shown: Vec<_> =
            field.choices.iter().map(|one| (one.label(), one.description(), one.class())).collect();
        assert_eq!(shown, [("Proceed", Some("At once."), "primary"), ("Stop", None, "danger")]);
        assert!(field.is_pressed());
        let named = question(json!({ "oneOf": [{ "const": 1, "title": "One", "description": "Few." }] }));
        assert_eq!(named.field(None, None).choices[0].description(), Some("Few."));
        assert!(named.is_pressed && !question(json!({ "enum": [1] })).is_pressed);
        let kind = |name: &str| asked(json!({ "id": "x", "question": "?", "responseType": name })).asks;
        assert_eq!(kind("confirm"), Asks::One(vec![Choice::new("Yes", "yes"), Choice::new("No", "no")]));
        assert_eq!((kind("text"), kind("form")), (Asks::Text { required: true }, Asks::Free));
        let two = json!({ "id": "x", "question": "?", "responseType": "confirm" });
        let two = of(&json!({ "questions": [two, two] }));
        assert!(two.iter().all(|one| !one.is_pressed), "several are sent together");
    }

    #[test]
    fn fields_become_json_of_the_type_that_was_asked_for() {
        let cases = [
            (json!({ "enum": ["a", 1] }), "q0=1", json!(1)),
            (json!({ "type": "boolean" }), "q0=0", json!(true)),
            (json!({ "type": "integer" }), "q0=+12+", json!(12)),
            (json!({ "type": "number" }), "q0=0%2C5", json!(0.5)),
            (json!({ "type": "string", "maxLength": 9 }), "q0=+a+", json!("a")),
            (json!({ "type": "string" }), "q0=a%0D%0Ab", json!("a\nb")),
            (json!(null), "q0=12", json!("12")),
            (json!({ "type": ["integer", "null"] }), "q0=", json!(null)),
            (json!({ "type": ["null", "string"] }), "q0=x", json!("x")),
            (
                json!({ "type": "array", "items": { "enum": ["a", "b", "c"] } }),
                "q0=0&q0=2",
                json!(["a", "c"]),
            ),
            (json!({ "type": "array", "items": { "enum": ["a"] } }), "", json!([])),
            (json!({ "type": "object" }), "q0=%7B%22a%22%3A1%7D", json!({ "a": 1 })),
        ];
        for (schema, form, expected) in cases {
            assert_eq!(answer(schema.clone(), form), Ok(expected.to_string()), "{schema} {form}");
        }
    }

    #[test]
    fn what_does_not_fit_the_field_is_told_in_words() {
        for (schema, form) in [
            (json!({ "enum": ["a"] }), ""),
            (json!({ "enum": ["a"] }), "q0=1"),
            (json!({ "enum": ["a"] }), "q0=a"),
            (json!({ "type": "array", "items": { "enum": ["a"] } }), "q0=9"),
            (json!({ "type": "number" }), "q0=much"),
            (json!({ "type": "number" }), "q0=NaN"),
            (json!({ "type": "object" }), "q0=%7B"),
            (json!({ "type": "object" }), "q0="),
        ] {
            let said = answer(schema.clone(), form).unwrap_err();
            assert!(said.ends_with('.'), "{schema} {form}: {said}");
        }
        let digits = "12345678901234567890.10";
        assert_eq!(answer(json!({ "type": "number" }), &format!("q0={digits}")).as_deref(), Ok(digits));
    }

    #[test]
    fn a_form_that_comes_back_has_what_was_written_and_a_new_one_what_is_proposed() {
        let number = question(json!({ "type": "number", "default": 3 }));
        let fields = Fields::read(b"q0=much").ok().unwrap();
        assert_eq!(
            (number.written(None), number.written(Some(&fields))),
            ("3".to_owned(), "much".to_owned())
        );
        let choice = question(json!({ "enum": ["a", "b"], "default": "b" }));
        let chosen = |fields: Option<&Fields>| -> Vec<bool> {
            choice.field(fields, None).choices.iter().map(|choice| choice.is_chosen).collect()
        };
        assert_eq!(chosen(None), [false, true]);
        assert_eq!(chosen(Some(&Fields::read(b"q0=0").ok().unwrap())), [true, false]);
    }
}
