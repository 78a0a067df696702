//! Questions back: somebody who is to decide wants to know something first. The answer closes nothing.

use serde::{Deserialize, Serialize};

use super::answer::{Answerer, Refused, recorded, refused};
use super::form::{Faults, optional_text, text};
use crate::fields::{Fields, Findings, ROOT};
use crate::limits::{FEEDBACK_CHARS_MAX, PRINCIPAL_CHARS_MAX};
use crate::moment::{moment, rfc3339};
use crate::{Json, JsonMap, Millis};

/// The action that closes nothing.
pub(super) const ASK: &str = "ask";

/// A question back, and what was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// What it is called in its run and node: `ask-1` and so on.
    pub id: String,
    /// What somebody wants to know.
    pub question: String,
    /// Who.
    pub asked_by: String,
    /// When.
    pub asked_at: String,
    /// The answer, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
    /// Who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
}

impl Exchange {
    pub(crate) fn asked(number: u32, question: String, by: String, at: Millis) -> Self {
        Self {
            id: ask_id(number),
            question,
            asked_by: by,
            asked_at: rfc3339(at),
            answer: None,
            answered_by: None,
            answered_at: None,
        }
    }

    pub(crate) fn answer(&mut self, answer: Json, by: String, at: Millis) {
        (self.answer, self.answered_by, self.answered_at) = (Some(answer), Some(by), Some(rfc3339(at)));
    }
}

/// What a question back is called.
pub fn ask_id(number: u32) -> String {
    format!("ask-{number}")
}

/// The number of the question back with this name.
pub fn ask_number(id: &str) -> Option<u32> {
    id.strip_prefix("ask-")?.parse().ok().filter(|number| ask_id(*number) == id)
}

/// The variable that a node's exchanges accumulate in.
pub fn exchanges_variable(node: &str) -> String {
    format!("{EXCHANGES}{node}")
}

/// Whether some node's exchanges accumulate in it.
pub(crate) fn is_of_exchanges(variable: &str) -> bool {
    variable.starts_with(EXCHANGES)
}

const EXCHANGES: &str = "_askExchanges:";

/// A question back on its way to the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedBack {
    pub(crate) question: String,
    pub(crate) by: String,
}

/// Reads a question back; `None` if what was sent is none, or if the gate takes none.
pub(crate) fn read_asked_back(
    data: &Json,
    value: &Json,
    by: &Answerer,
) -> Option<Result<AskedBack, Refused>> {
    let sent: JsonMap = value.parse().ok()?;
    let action: String = sent.get("action")?.parse().ok()?;
    let offered: Vec<String> = data.parse::<JsonMap>().ok()?.get("actions")?.parse().ok()?;
    (action == ASK && offered.contains(&action)).then(|| read(value, by))
}

fn read(value: &Json, by: &Answerer) -> Result<AskedBack, Refused> {
    let mut findings = Findings::about("");
    let mut read = None;
    if let Some(mut fields) = Fields::of(value, ROOT, &mut findings) {
        fields.any("action");
        let question = text(&mut fields, "question", 1..=FEEDBACK_CHARS_MAX);
        let named = ["decidedBy", "voter"]
            .map(|key| optional_text(&mut fields, key, 1..=PRINCIPAL_CHARS_MAX))
            .into_iter()
            .flatten()
            .next();
        if fields.optional_text("decidedAt").is_some_and(|time| moment(&time).is_none()) {
            fields
                .findings()
                .problem("decidedAt", "a time as in 2026-05-01T10:00:00Z is expected; leave it out");
        }
        fields.finish();
        let named = named.filter(|_| by.may_act_for_others);
        read = question.map(|question| (question, named.unwrap_or_else(|| recorded(&by.principal))));
    }
    let mut faults = Faults::default();
    faults.add_findings("", findings);
    faults.none().map_err(Refused::Invalid)?;
    let (question, by) = read.ok_or_else(|| refused("", "'question' is missing; add it"))?;
    if question.trim().is_empty() {
        return Err(refused("/question", "the question is empty; say what you want to know"));
    }
    Ok(AskedBack { question, by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_back_is_named_by_its_number() {
        assert_eq!(ask_number(&ask_id(7)), Some(7));
        for text in ["ask-", "ask-07", "ask-x", "7", "ask--1"] {
            assert_eq!(ask_number(text), None, "{text}");
        }
    }
}
