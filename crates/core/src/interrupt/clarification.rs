//! Clarifications: questions, and an answer to each.

use std::collections::BTreeSet;

use super::answer::{Answer, Refused, refused};
use super::form::{Faults, optional_text, pointer, schema, text};
use crate::excerpt::excerpt;
use crate::fields::{Entries, Fields, Findings, ROOT, article};
use crate::limits::{
    ASK_NAME_CHARS_MAX, ASK_TEXT_CHARS_MAX, QUESTION_SCHEMAS_SIZE_MAX, QUESTIONS_MAX, SCHEMA_CHECK_COST_MAX,
};
use crate::{Json, JsonMap, Schema};

/// Checks the data of a clarification.
pub(super) fn read_data(mut fields: Fields<'_>) {
    let given = fields.any("questions");
    let place = fields.place("questions");
    optional_text(&mut fields, "contextType", 0..=ASK_NAME_CHARS_MAX);
    match given.map(|given| given.parse::<Vec<Json>>()) {
        Some(Ok(questions)) if (1..=QUESTIONS_MAX).contains(&questions.len()) => {
            read_questions(&questions, &place, fields.findings());
        }
        _ => {
            let message =
                format!("a list of 1 to {QUESTIONS_MAX} questions is expected, each {{id, question}}");
            fields.findings().problem(place, message);
        }
    }
    fields.finish();
}

fn read_questions(questions: &[Json], place: &str, findings: &mut Findings) {
    let mut ids = BTreeSet::new();
    let mut size = 0_usize;
    for (ix, question) in questions.iter().enumerate() {
        let place = format!("{place}[{ix}]");
        let Some(mut fields) = Fields::of(question, place, findings) else { continue };
        let id = text(&mut fields, "id", 1..=ASK_NAME_CHARS_MAX);
        text(&mut fields, "question", 1..=ASK_TEXT_CHARS_MAX);
        size += schema(&mut fields, "schema").map_or(0, |(_, schema)| schema.size());
        let id_place = fields.place("id");
        let schema_place = fields.place("schema");
        fields.finish();
        if let Some(id) = id.filter(|id| !ids.insert(id.clone())) {
            findings.problem(id_place, format!("there is another question '{}'; rename one", excerpt(id)));
        }
        if size > QUESTION_SCHEMAS_SIZE_MAX {
            let message = format!(
                "the schemas of the questions have more than {QUESTION_SCHEMAS_SIZE_MAX} values together: simplify them"
            );
            findings.problem(schema_place, message);
            return;
        }
    }
}

/// The text of the first question.
pub(super) fn first_question(data: &Json) -> Option<String> {
    let data: JsonMap = data.parse().ok()?;
    let questions: Vec<Json> = data.get("questions")?.parse().ok()?;
    questions.first()?.parse::<JsonMap>().ok()?.get("question")?.parse().ok()
}

/// A question as an answer is held against it.
struct Question {
    id: String,
    schema: Option<Json>,
}

fn questions(data: &Json) -> Option<Vec<Question>> {
    let data: JsonMap = data.parse().ok()?;
    let questions: Vec<JsonMap> = data.get("questions")?.parse().ok()?;
    let question = |question: &JsonMap| {
        let schema = question.get("schema").filter(|schema| schema.type_name() != "null");
        Some(Question { id: question.get("id")?.parse().ok()?, schema: schema.cloned() })
    };
    questions.iter().map(question).collect()
}

/// One answer, and where it and its id stand in what was sent.
struct Given {
    id: String,
    answer: Json,
    place: String,
    id_place: String,
}

/// Holds answers against their questions. The node receives them by id, whichever way they were sent.
pub(super) fn check(data: &Json, value: &Json) -> Result<Answer, Refused> {
    let questions = questions(data).ok_or_else(|| refused("", "the questions can't be read"))?;
    let mut faults = Faults::default();
    let given = read_answers(value, &mut faults);
    let mut answers = JsonMap::new();
    let mut moved = Vec::new();
    for Given { id, answer, place, id_place } in given.unwrap_or_default() {
        if !questions.iter().any(|question| question.id == id) {
            faults.add(&id_place, &format!("there is no question '{}'", excerpt(&id)));
        } else if answers.contains_key(&id) {
            faults.add(&id_place, &format!("'{id}' is answered twice; remove one"));
        } else {
            moved.push((pointer(&["answers", &id]), place));
            answers.insert(id, answer);
        }
    }
    faults.none().map_err(Refused::Invalid)?;
    check_each(&questions, &answers, &moved)?;
    let value = JsonMap::from([("answers".to_owned(), Json::of(&answers))]);
    Ok(Answer { moved, answers: Some(answers), ..Answer::of(Json::of(&value)) })
}

/// Every question has an answer, and it fits.
fn check_each(questions: &[Question], answers: &JsonMap, moved: &[(String, String)]) -> Result<(), Refused> {
    let mut faults = Faults::default();
    let mut cost = 0_usize;
    for Question { id, schema } in questions {
        let Some(answer) = answers.get(id) else {
            faults.add("/answers", &format!("the question '{id}' has no answer; add it"));
            continue;
        };
        let Some(schema) = schema else { continue };
        let schema = Schema::compile(schema).map_err(|message| refused("", &message))?;
        let path = pointer(&["answers", id]);
        let place = moved.iter().find(|(to, _)| *to == path).map_or(path.as_str(), |(_, from)| from.as_str());
        // Each check is bounded; so are all of them together.
        cost = cost.saturating_add(schema.size().saturating_mul(answer.text().len()));
        if cost > SCHEMA_CHECK_COST_MAX {
            return Err(refused(place, "the answers are too large for schemas of this size: shorten them"));
        }
        if let Err(errors) = schema.check(answer) {
            faults.add_all(place, &errors);
        }
    }
    faults.none().map_err(Refused::Invalid)
}

/// The answers as a list or by the ids of their questions.
fn read_answers(value: &Json, faults: &mut Faults) -> Option<Vec<Given>> {
    let mut findings = Findings::about("");
    let answers = Fields::of(value, ROOT, &mut findings).and_then(|mut fields| {
        let answers = fields.required("answers");
        fields.finish();
        answers
    });
    faults.add_findings("", findings);
    let answers = answers?;
    match answers.type_name() {
        "array" => Some(listed(&answers.parse::<Vec<Json>>().ok()?, faults)),
        "object" => Some(by_id(answers.parse::<Entries>().ok()?)),
        other => {
            let found = article(other);
            faults.add(
                "/answers",
                &format!("a list of {{id, answer}}, or an object by id, is expected, not {found}"),
            );
            None
        }
    }
}

fn listed(answers: &[Json], faults: &mut Faults) -> Vec<Given> {
    let read = |(ix, answer): (usize, &Json)| {
        let place = format!("/answers/{ix}");
        let mut findings = Findings::about("");
        let read = Fields::of(answer, ROOT, &mut findings).and_then(|mut fields| {
            let (id, answer) = (fields.text("id"), fields.required("answer"));
            fields.finish();
            Some((id?, answer?))
        });
        faults.add_findings(&place, findings);
        let (id, answer) = read?;
        Some(Given { id, answer, id_place: format!("{place}/id"), place: format!("{place}/answer") })
    };
    // One that is too many is enough to be told so.
    answers.iter().enumerate().take(QUESTIONS_MAX + 1).filter_map(read).collect()
}

fn by_id(Entries(answers): Entries) -> Vec<Given> {
    let given = |(id, answer): (String, Json)| {
        let place = pointer(&["answers", &id]);
        Given { id, answer, id_place: place.clone(), place }
    };
    answers.into_iter().take(QUESTIONS_MAX + 1).map(given).collect()
}
