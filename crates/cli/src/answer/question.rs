//! What is asked: how it is shown to people, and what fits it.

use abide_core::{Answerer, InterruptKind, Json, Refused, SchemaError, check_answer};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::decision;
use crate::draw::words::{escaped, legible};
use crate::exit::{Exit, Failure};
use crate::output::cell;
use crate::when;

/// An open interrupt, as a run shows it.
pub(super) struct Question {
    pub(super) kind: InterruptKind,
    pub(super) data: Value,
    pub(super) resume_schema: Option<Value>,
    run: String,
    node: String,
    requested_at: String,
    deadline: Option<String>,
    /// Who has voted, and what was asked back.
    standing: Vec<String>,
}

impl Question {
    pub(super) fn read(run: &str, entry: &Value) -> anyhow::Result<Self> {
        let kind = entry["kind"].as_str().unwrap_or_default();
        let kind = InterruptKind::by_name(kind).ok_or_else(|| {
            let message =
                format!("this version of abide knows no kind '{}'; take a newer one", legible(kind));
            Failure::new(Exit::Refused, message)
        })?;
        Ok(Self {
            kind,
            data: entry["data"].clone(),
            resume_schema: Some(entry["resumeSchema"].clone()).filter(|schema| !schema.is_null()),
            run: run.to_owned(),
            node: cell(&entry["nodeId"]),
            requested_at: cell(&entry["requestedAt"]),
            deadline: entry["deadline"].as_str().map(str::to_owned),
            standing: decision::shown(entry),
        })
    }

    /// The questions of a clarification: each with its id, its text, and its schema.
    pub(super) fn questions(&self) -> Vec<(String, String, Option<Value>)> {
        let questions = self.data["questions"].as_array().map_or(&[][..], Vec::as_slice);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        questions.iter().map(|asked| (text(&asked["id"]), text(&asked["question"]), schema(asked))).collect()
    }

    /// What there is to choose for one question.
    pub(super) fn choices_of(&self, id: &str) -> Vec<Choice> {
        let questions = self.data["questions"].as_array().map_or(&[][..], Vec::as_slice);
        let asked = questions.iter().find(|asked| asked["id"] == id);
        asked.map(Choice::all).unwrap_or_default()
    }

    /// The schema of the answer to one question.
    pub(super) fn schema_of(&self, id: &str) -> Option<Value> {
        self.questions().into_iter().find(|(known, ..)| known == id)?.2
    }

    /// Whether the server would take this for an answer, or what is wrong with it. Who answers is not ours to judge.
    pub(super) fn check(&self, value: &Value) -> Result<(), Vec<String>> {
        let by = Answerer { may_act_for_others: true, ..Answerer::of("somebody") };
        let schema = self.resume_schema.as_ref().map(Json::of);
        let checked =
            check_answer(self.kind, &Json::of(&self.data), schema.as_ref(), &Json::of(value), &by, 0);
        checked.map(drop).map_err(|refused| {
            let (Refused::Invalid(problems) | Refused::Mismatch(problems)) = refused;
            problems.iter().map(SchemaError::to_string).collect()
        })
    }

    /// The flags that answer it.
    pub(super) fn flags(&self) -> String {
        match self.kind {
            InterruptKind::Approval => decision::flags(self),
            InterruptKind::Clarification => {
                let ids: Vec<String> = self
                    .questions()
                    .iter()
                    .map(|(id, ..)| format!("--answer {}=VALUE", legible(id)))
                    .collect();
                format!("add {}", ids.join(" "))
            }
            _ => "add --value JSON".to_owned(),
        }
    }

    /// Everything that whoever answers has to know, for a terminal.
    pub(super) fn shown(&self, now: Timestamp) -> String {
        let mut lines = vec![format!("{} of {}, node {}", self.kind, legible(&self.run), self.node)];
        let asked = when::told(&self.requested_at, now).unwrap_or_else(|| self.requested_at.clone());
        lines.push(format!("  asked  {asked}"));
        if let Some(deadline) = &self.deadline {
            let told = when::told(deadline, now).unwrap_or_else(|| legible(deadline));
            lines.push(format!("  until  {told}"));
        }
        lines.push(String::new());
        match self.kind {
            InterruptKind::Approval => self.show_approval(&mut lines),
            InterruptKind::Clarification => self.show_questions(&mut lines),
            InterruptKind::ConversationExchange => self.show_turn(&mut lines),
            _ => lines.extend(pretty(&self.data)),
        }
        if let Some(schema) = &self.resume_schema {
            lines.push(format!("the answer fits {}", compact(schema)));
        }
        lines.join("\n")
    }

    /// Who may decide, if not everybody who may answer.
    pub(super) fn deciders(&self) -> Option<String> {
        let named = |key: &str, prefix: &str| -> Vec<String> {
            let list = self.data[key].as_array().into_iter().flatten();
            list.map(|name| format!("{prefix}{}", cell(name))).collect()
        };
        let names = [
            named("approversList", ""),
            named("approverGroupRefs", "group:"),
            named("approverRoleRefs", "role:"),
        ]
        .concat();
        (!names.is_empty()).then(|| format!("to be decided by {}", names.join(" or ")))
    }

    fn show_turn(&self, lines: &mut Vec<String>) {
        lines.extend(self.data["prompt"].as_str().unwrap_or_default().lines().map(legible));
        let (turn, id) = (&self.data["turnIndex"], cell(&self.data["conversationId"]));
        lines.push(format!("  turn {turn} of the conversation {id}"));
        if !self.data["outcomeSchema"].is_null() {
            lines.push(format!("the answer fits {}", compact(&self.data["outcomeSchema"])));
        }
    }

    fn show_approval(&self, lines: &mut Vec<String>) {
        lines.push(cell(&self.data["title"]));
        let description = self.data["description"].as_str().unwrap_or_default();
        lines.extend(description.lines().map(legible));
        lines.extend(self.deciders());
        let (id, what) = (cell(&self.data["artifactId"]), cell(&self.data["artifactType"]));
        lines.push(format!("\n{what} {id}"));
        if !self.data["artifactData"].is_null() {
            lines.extend(pretty(&self.data["artifactData"]));
        }
        lines.extend(self.standing.iter().cloned());
    }

    fn show_questions(&self, lines: &mut Vec<String>) {
        for (id, question, schema) in self.questions() {
            lines.extend(question.lines().map(legible));
            let hint = schema.map(|schema| format!(": {}", hint(&schema))).unwrap_or_default();
            lines.push(format!("  {}{hint}", legible(&id)));
            lines.extend(self.choices_of(&id).iter().map(|choice| format!("    {}", choice.told())));
        }
    }
}

/// What fits the answer to a question: its schema, or what its kind of response stands for.
fn schema(asked: &Value) -> Option<Value> {
    match asked["responseType"].as_str() {
        Some("choice" | "confirm") => {
            let values: Vec<Value> = Choice::all(asked).into_iter().map(|choice| choice.value).collect();
            Some(json!({ "enum": values }))
        }
        Some("text") => Some(json!({ "type": "string", "minLength": 1 })),
        _ => Some(asked["schema"].clone()).filter(|schema| !schema.is_null()),
    }
}

/// Something to choose: what is sent, and what people read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) value: Value,
    pub(super) label: String,
    description: String,
}

impl Choice {
    /// The choices of a question that says what kind of response it wants, or whose schema names them.
    fn all(asked: &Value) -> Vec<Self> {
        let text = |choice: &Value, name: &str| choice[name].as_str().unwrap_or_default().to_owned();
        let read = |choice: &Value, value: &str, label: &str| Self {
            value: choice[value].clone(),
            label: text(choice, label),
            description: text(choice, "description"),
        };
        let listed = |list: &Value| list.as_array().cloned();
        let given = listed(&asked["choices"])
            .map(|all| all.iter().map(|choice| read(choice, "value", "label")).collect());
        let named = || {
            let ways = listed(&asked["schema"]["oneOf"])?;
            let plain = ways.iter().all(|way| !way["const"].is_null());
            plain.then(|| ways.iter().map(|way| read(way, "const", "title")).collect())
        };
        let usual = || {
            let plain = |value: &str| Self {
                value: Value::from(value),
                label: value.to_owned(),
                description: String::new(),
            };
            (asked["responseType"] == "confirm").then(|| ["yes", "no"].map(plain).to_vec())
        };
        given.or_else(named).or_else(usual).unwrap_or_default()
    }

    /// Whether this is what somebody typed: the value, or what they read.
    pub(super) fn is(&self, typed: &str) -> bool {
        self.value == typed || cell(&self.value) == typed || self.label.eq_ignore_ascii_case(typed)
    }

    fn told(&self) -> String {
        let value = cell(&self.value);
        let label = if self.label.is_empty() || self.label == value {
            String::new()
        } else {
            format!("  {}", legible(&self.label))
        };
        let more = if self.description.is_empty() {
            String::new()
        } else {
            format!(": {}", legible(&self.description))
        };
        format!("{value}{label}{more}")
    }
}

/// What fits a schema, in few words.
pub(super) fn hint(schema: &Value) -> String {
    let one_of = |values: Vec<String>| format!("one of {}", values.join(", "));
    let ways = schema["oneOf"].as_array().filter(|ways| ways.iter().all(|way| !way["const"].is_null()));
    match (schema["enum"].as_array(), ways) {
        (Some(choices), _) => one_of(choices.iter().map(cell).collect()),
        (None, Some(ways)) => one_of(ways.iter().map(|way| cell(&way["const"])).collect()),
        (None, None) => compact(schema),
    }
}

fn compact(value: &Value) -> String {
    legible(&value.to_string())
}

/// A value over several lines, each of them indented.
fn pretty(value: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    escaped(&text).lines().map(|line| format!("  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(entry: &Value) -> String {
        Question::read("run-1", entry).unwrap().shown("2026-01-01T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn an_approval_shows_its_artifact() {
        insta::assert_snapshot!(shown(&json!({
            "kind": "approval", "nodeId": "approve", "requestedAt": "2026-01-01T11:00:00.000Z",
            "deadline": "2026-01-01T14:05:00.000Z",
            "data": {
                "title": "Refund of 1000 EUR\u{1b}[2J", "description": "The customer\nwaits.", "artifactId": "r-17",
                "artifactType": "refund", "artifactData": { "amount": 1000, "to": ["Ada\u{9b}"] },
                "approversList": ["ada", "bob"], "actions": ["accept", "reject"],
            },
        })));
    }

    #[test]
    fn questions_show_what_fits_them() {
        insta::assert_snapshot!(shown(&json!({
            "kind": "clarification", "nodeId": "ask", "requestedAt": "2026-01-01T11:59:00.000Z",
            "resumeSchema": { "type": "object" },
            "data": { "questions": [
                { "id": "colour", "question": "Which colour?", "schema": { "enum": ["red", "blue"] } },
                { "id": "count", "question": "How many?", "schema": { "type": "integer", "minimum": 1 } },
                { "id": "why", "question": "Why?" },
            ] },
        })));
    }

    #[test]
    fn choices_show_what_they_mean_and_are_known_by_value_and_label() {
        let entry = json!({
            "kind": "clarification", "nodeId": "ask", "requestedAt": "2026-01-01T11:59:00.000Z",
            "data": { "questions": [
                { "id": "go", "question": "Proceed?", "responseType": "choice", "choices": [
                    { "value": "yes", "label": "Proceed", "description": "The report is sent\u{1b}[2J" },
                    { "value": "no", "label": "Stop here", "style": "danger" },
                ] },
                { "id": "sure", "question": "Sure?", "responseType": "confirm" },
                { "id": "where", "question": "Where?",
                  "schema": { "oneOf": [{ "const": "eu", "title": "Europe" }, { "const": "us" }] } },
            ] },
        });
        insta::assert_snapshot!(shown(&entry));
        let question = Question::read("run-1", &entry).unwrap();
        let means = |id: &str, typed: &str| {
            question.choices_of(id).into_iter().find(|choice| choice.is(typed)).map(|choice| choice.value)
        };
        assert_eq!(means("go", "yes"), Some(json!("yes")));
        assert_eq!(means("go", "stop HERE"), Some(json!("no")));
        assert_eq!(means("where", "europe"), Some(json!("eu")));
        assert_eq!((means("go", "maybe"), means("sure", "no")), (None, Some(json!("no"))));
    }

    #[test]
    fn other_kinds_show_all_that_there_is() {
        insta::assert_snapshot!(shown(&json!({
            "kind": "external-event", "nodeId": "wait", "requestedAt": "2026-01-01T12:00:00.000Z",
            "data": { "eventType": "order.paid", "correlation": { "orderId": "A1" } },
        })));
        assert!(Question::read("run-1", &json!({ "kind": "guess" })).is_err());
    }
}
