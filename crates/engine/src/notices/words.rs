//! What a message says about an interrupt: the title that lists show, and as much of the rest as every kind has.

use abide_core::event::InterruptRequested;
use abide_core::{Ask, Json, JsonMap};
use abide_notify::Choice;
use serde_json::Value;

/// An interrupt in words.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Words {
    pub(super) title: String,
    pub(super) question: Option<String>,
    pub(super) context: Option<Json>,
    pub(super) choices: Vec<Choice>,
}

impl Words {
    /// What is asked. Of what is only for those who answer, nothing but the node that asks is told.
    pub(super) fn of(asked: &InterruptRequested, node: &str) -> Self {
        if asked.sensitive {
            return Self { title: node.to_owned(), ..Self::default() };
        }
        let data = asked.data.clone();
        let ask = Ask { kind: asked.kind, key: None, resume_schema: None, timeout_ms: None, data };
        let mut parts: JsonMap = asked.data.parse().unwrap_or_default();
        let seen: Value = asked.data.parse().unwrap_or_default();
        let context = ["context", "artifactData"].iter().find_map(|name| parts.remove(*name));
        Self {
            title: ask.title(),
            question: question(&seen),
            context: context.filter(|context| context.type_name() != "null"),
            choices: choices(&seen),
        }
    }
}

fn question(data: &Value) -> Option<String> {
    let text = |name: &&str| data[*name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let listed = || {
        let questions: Vec<&str> =
            list(&data["questions"]).iter().filter_map(|one| one["question"].as_str()).collect();
        (!questions.is_empty()).then(|| questions.join("\n"))
    };
    ["description", "prompt", "initialPrompt"].iter().find_map(text).or_else(listed)
}

/// The answers to choose from: the actions of an approval, or those of the only question.
fn choices(data: &Value) -> Vec<Choice> {
    let plain = |label: &str| Choice { label: label.to_owned(), description: None };
    if let [only] = list(&data["questions"]) {
        let offered = [&only["choices"], &only["schema"]["oneOf"]].into_iter().flat_map(list);
        return offered.filter_map(choice).collect();
    }
    list(&data["actions"]).iter().filter_map(Value::as_str).map(plain).collect()
}

fn choice(one: &Value) -> Option<Choice> {
    let name = if one["label"].is_string() { &one["label"] } else { &one["title"] };
    let value = if one["value"].is_null() { &one["const"] } else { &one["value"] };
    let label = match (name, value) {
        (Value::String(name), _) => name.clone(),
        (_, Value::String(value)) => value.clone(),
        (_, Value::Null) => return None,
        (_, value) => value.to_string(),
    };
    Some(Choice { label, description: one["description"].as_str().map(str::to_owned) })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn choices_are_told_by_their_labels_however_a_question_writes_them() {
        let asked = |question: Value| choices(&json!({ "questions": [question] }));
        let expected = [
            Choice { label: "Proceed".to_owned(), description: Some("It goes on.".to_owned()) },
            Choice { label: "stop".to_owned(), description: None },
        ];
        let choices =
            json!([{ "value": "go", "label": "Proceed", "description": "It goes on." }, { "value": "stop" }]);
        assert_eq!(asked(json!({ "responseType": "choice", "choices": choices })), expected);
        let schema = json!({ "oneOf": [
            { "const": "go", "title": "Proceed", "description": "It goes on." }, { "const": "stop" },
        ] });
        assert_eq!(asked(json!({ "schema": schema })), expected);
    }
}
