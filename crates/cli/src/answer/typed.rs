//! What is typed on a terminal or in a flag, read as the answer that it is meant to be.

use std::io::{BufRead, Read};

use abide_core::{InterruptKind, Json, Schema, SchemaError};
use serde_json::{Map, Value, json};

use super::decision;
use super::question::{Choice, Question, hint};
use crate::args::json_or_text;
use crate::draw::words::legible;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::terminal;

/// Bytes of a typed line. A longer answer comes from a file.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Asks for an answer until it fits.
pub(super) fn ask(question: &Question) -> anyhow::Result<Value> {
    loop {
        let value = match question.kind {
            InterruptKind::Approval => ask_decision(question)?,
            InterruptKind::Clarification => ask_questions(question)?,
            InterruptKind::ExternalEvent => {
                json!({ "eventPayload": json_or_text(&line("what happened (JSON)? ")?) })
            }
            _ => ask_value(question)?,
        };
        match question.check(&value) {
            _ if decision::asks_back(&value) => return Ok(value),
            Ok(()) => return Ok(value),
            Err(problems) => complain(&problems),
        }
    }
}

fn ask_decision(question: &Question) -> anyhow::Result<Value> {
    let offered: Vec<&str> =
        question.data["actions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let action = loop {
        let said = line(&format!(
            "{}? ",
            offered.iter().map(|action| legible(action)).collect::<Vec<_>>().join(" or ")
        ))?;
        let meant = offered.iter().find(|action| !said.is_empty() && action.starts_with(said.as_str()));
        match meant {
            Some(action) => break *action,
            None => output::say("write one of them, or how it begins"),
        }
    };
    match action {
        "refine" => {
            let feedback = json!({ "scope": "whole", "text": line("what to make better? ")? });
            return Ok(json!({ "action": action, "refineFeedback": decision::said(feedback)? }));
        }
        "ask" => return Ok(json!({ "action": action, "question": line("what do you want to know? ")? })),
        "edit-accept" => {
            let message = "an edited artifact comes from a file: abide answer RUN NODE --edit FILE";
            return Err(Failure::new(Exit::Refused, message).into());
        }
        _ => {}
    }
    let feedback = line("anything to say about it? ")?;
    let mut decision = json!({ "action": action });
    if !feedback.is_empty() {
        decision["feedback"] = json!(feedback);
    }
    Ok(decision)
}

fn ask_questions(question: &Question) -> anyhow::Result<Value> {
    let mut answers = Map::new();
    for (id, text, schema) in question.questions() {
        let fits = schema.as_ref().map(|schema| format!(" ({})", hint(schema))).unwrap_or_default();
        let choices = question.choices_of(&id);
        let prompt = format!("{}{fits} ", legible(&text));
        let answer = loop {
            match choose(&line(&prompt)?, &choices, schema.as_ref()) {
                Ok(answer) => break answer,
                Err(problems) => complain(&problems),
            }
        };
        answers.insert(id, answer);
    }
    Ok(json!({ "answers": answers }))
}

fn ask_value(question: &Question) -> anyhow::Result<Value> {
    loop {
        match read(&line("answer (JSON, or text)? ")?, question.resume_schema.as_ref()) {
            Ok(value) => return Ok(value),
            Err(problems) => complain(&problems),
        }
    }
}

fn complain(problems: &[String]) {
    output::say("that does not fit:");
    problems.iter().for_each(|problem| output::say(&format!("  {}", legible(problem))));
}

/// A line from the terminal, without the spaces around it.
fn line(prompt: &str) -> anyhow::Result<String> {
    terminal::prompt(prompt)?;
    let mut line = String::new();
    std::io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line)?;
    if line.is_empty() {
        return Err(Failure::new(Exit::Refused, "nothing was answered").into());
    }
    Ok(line.trim().to_owned())
}

/// The value that a text means: a choice by its value or its label, or what it is read as.
pub(super) fn choose(text: &str, choices: &[Choice], schema: Option<&Value>) -> Result<Value, Vec<String>> {
    let chosen = choices.iter().find(|choice| choice.is(text)).map(|choice| choice.value.clone());
    chosen.map_or_else(|| read(text, schema), Ok)
}

/// The value that a text means: JSON if it can be read as such and fits, yes or no where that fits, or the text.
fn read(text: &str, schema: Option<&Value>) -> Result<Value, Vec<String>> {
    let first = json_or_text(text);
    let Some(schema) = schema else { return Ok(first) };
    let schema = Schema::compile(&Json::of(schema)).map_err(|problem| vec![problem])?;
    let check = |value: &Value| schema.check(&Json::of(value));
    let problems = match check(&first) {
        Ok(()) => return Ok(first),
        Err(problems) => problems,
    };
    let flag = match text.to_lowercase().as_str() {
        "y" | "yes" => Some(json!(true)),
        "n" | "no" => Some(json!(false)),
        _ => None,
    };
    let others = flag.into_iter().chain([json!(text)]);
    let fitting = { others }.find(|value| check(value).is_ok());
    fitting.ok_or_else(|| problems.iter().map(SchemaError::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_what_its_schema_makes_of_it() {
        let text = json!({ "type": "string" });
        let flag = json!({ "type": "boolean" });
        let count = json!({ "type": "integer", "minimum": 1 });
        for (typed, schema, value) in [
            ("42", None, json!(42)),
            ("42", Some(&text), json!("42")),
            ("\"42\"", Some(&text), json!("42")),
            ("red", None, json!("red")),
            ("yes", Some(&flag), json!(true)),
            ("yes", Some(&text), json!("yes")),
            ("N", Some(&flag), json!(false)),
            ("3", Some(&count), json!(3)),
        ] {
            assert_eq!(read(typed, schema), Ok(value), "{typed}");
        }
        assert!(read("0", Some(&count)).unwrap_err()[0].contains('0'));
        assert!(read("maybe", Some(&flag)).is_err());
    }
}
