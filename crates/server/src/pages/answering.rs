//! How an interrupt is answered in a form, and what a form says as an answer.

use abide_core::{InterruptKind, Json};
use serde::Serialize;
use serde_json::{Value, json};

use super::deciding;
use super::form::Fields;
use super::questions::{self, Question};
use super::view::Asked;
use crate::error::ApiError;
use crate::limits;

/// The field of JSON that is written by hand.
pub(super) const JSON: &str = "json";

/// What is wrong with which field.
pub(super) type Wrong = Vec<(String, String)>;

/// How an interrupt is answered.
pub(super) enum Answering {
    /// A decision; these are its actions.
    Decide(Vec<String>),
    Questions(Vec<Question>),
    /// One turn of a conversation: the answer is what its only field says.
    Turn(Vec<Question>),
    /// What the event said.
    Event,
    /// Anything.
    Json,
}

impl Answering {
    pub(super) fn of(asked: &Asked) -> Self {
        match asked.kind {
            InterruptKind::Approval => {
                let actions = asked.seen["actions"].as_array().map(Vec::as_slice).unwrap_or_default();
                Self::Decide(actions.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            InterruptKind::Clarification => match questions::of(&asked.seen) {
                questions if questions.len() <= limits::FORM_QUESTIONS_MAX => Self::Questions(questions),
                _ => Self::Json,
            },
            InterruptKind::ExternalEvent => Self::Event,
            InterruptKind::ConversationExchange => Self::Turn(turn(&asked.seen)),
            _ => Self::Json,
        }
    }

    /// What a form says, as an answer; or what is wrong with it, by field.
    pub(super) fn read(&self, fields: &Fields) -> Result<Json, Wrong> {
        match self {
            Self::Decide(_) => deciding::read(fields),
            Self::Questions(questions) => answers(questions, fields),
            Self::Turn(questions) => match questions.first() {
                Some(turn) => turn.answer(fields).map_err(|problem| vec![(turn.name.clone(), problem)]),
                None => json_field(fields),
            },
            Self::Event => json_field(fields).map(|event_payload| Json::of(&Event { event_payload })),
            Self::Json => json_field(fields),
        }
    }
}

/// A turn of a conversation, as one question: with what its outcome has to be, or a text.
fn turn(data: &Value) -> Vec<Question> {
    let mut asked = json!({ "id": "turn", "question": data["prompt"] });
    match data["outcomeSchema"].is_null() {
        true => asked["responseType"] = json!("text"),
        false => asked["schema"] = data["outcomeSchema"].clone(),
    }
    questions::of(&json!({ "questions": [asked] }))
}

/// The answer to an external event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    event_payload: Json,
}

/// The answer to a clarification.
#[derive(Serialize)]
struct Answers<'a> {
    answers: Vec<Answer<'a>>,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    answer: Json,
}

fn json_field(fields: &Fields) -> Result<Json, Wrong> {
    let read = questions::json(fields.get(JSON).unwrap_or_default());
    read.map_err(|problem| vec![(JSON.to_owned(), problem)])
}

fn answers(questions: &[Question], fields: &Fields) -> Result<Json, Wrong> {
    let (mut answers, mut problems) = (Vec::new(), Vec::new());
    for question in questions {
        match question.answer(fields) {
            Ok(answer) => answers.push(Answer { id: &question.id, answer }),
            Err(problem) => problems.push((question.name.clone(), problem)),
        }
    }
    if problems.is_empty() { Ok(Json::of(&Answers { answers })) } else { Err(problems) }
}

/// Why an answer was not taken: what is wrong with which field, and the rest.
pub(super) fn reasons(refused: ApiError) -> (Wrong, Vec<String>) {
    let listed = refused.detail("problems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut fields, mut others) = (Vec::new(), Vec::new());
    for problem in listed {
        let text = |name: &str| problem[name].as_str().unwrap_or_default();
        match (field_at(text("path")).or_else(|| deciding::field_at(text("path"))), text("path")) {
            (Some(field), path) if field == deciding::EDITED => {
                let within = path.trim_start_matches("/editedArtifactData");
                let place = if within.is_empty() { String::new() } else { format!("{within}: ") };
                fields.push((field, format!("{place}{}", text("message"))));
            }
            (Some(field), _) => fields.push((field, text("message").to_owned())),
            (None, "") => others.push(text("message").to_owned()),
            (None, path) => others.push(format!("{path}: {}", text("message"))),
        }
    }
    if fields.is_empty() && others.is_empty() {
        others.push(refused.into_words().1);
    }
    (fields, others)
}

/// The field whose answer stands at this place: answers are sent in the order of the questions.
fn field_at(path: &str) -> Option<String> {
    let index = path.strip_prefix("/answers/")?.split('/').next()?;
    index.parse::<usize>().ok().map(questions::field_name)
}
