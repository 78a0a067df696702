//! Clarifications: questions, and an answer to each.

use std::collections::BTreeSet;

use super::answer::{Answer, Refused, refused};
use super::form::{Faults, optional_text, pointer, schema, text};
use super::response;
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
    fields.any("context");
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
        let own = schema(&mut fields, "schema");
        size += own.as_ref().map_or(0, |(_, schema)| schema.size());
        if response::read(&mut fields).is_some() && own.is_some() {
            let place = fields.place("schema");
            fields
                .findings()
                .problem(place, "'responseType' says what an answer looks like; remove one of the two");
        }
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
        let schema = schema.cloned().or_else(|| response::schema(question));
        Some(Question { id: question.get("id")?.parse().ok()?, schema })
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
            continue;
        }
        moved.push((pointer(&["answers", &id]), place));
        if let Some(twice) = answers.insert(id, answer) {
            faults.add(
                &id_place,
                &format!("it is answered twice, first with {}; remove one", excerpt(twice.text())),
            );
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Answerer, Ask, Checked, InterruptKind, check_answer};
    use super::*;

    fn told(data: &Value) -> String {
        let payload = Json::of(&json!({ "kind": "clarification", "data": data }));
        let problems = Ask::read(&payload).expect_err("the questions are refused");
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    fn answer(data: &Value, schema: Option<&Value>, value: &Value) -> Result<Checked, Refused> {
        let by = Answerer { principal: "ann".to_owned(), may_act_for_others: true, ..Answerer::default() };
        let schema = schema.map(|schema| Json::of(&schema));
        let kind = InterruptKind::Clarification;
        check_answer(kind, &Json::of(data), schema.as_ref(), &Json::of(value), &by, 0)
    }

    #[track_caller]
    fn paths(data: &Value, schema: Option<&Value>, value: &Value) -> Vec<String> {
        match answer(data, schema, value) {
            Err(Refused::Invalid(errors)) => errors.into_iter().map(|error| error.path).collect(),
            other => panic!("{value} gives {other:?}"),
        }
    }

    fn two_questions() -> Value {
        json!({ "questions": [
            { "id": "q1", "question": "Which?", "schema": { "enum": ["red", "blue"] } },
            { "id": "a/b", "question": "How many?" },
        ] })
    }

    #[test]
    fn there_is_a_question_and_each_has_an_id_and_a_text() {
        for (data, part) in [
            (json!({}), "data.questions: a list of 1 to 100 questions"),
            (json!({ "questions": [] }), "data.questions: a list of 1 to 100 questions"),
            (json!({ "questions": {} }), "data.questions: a list of 1 to 100 questions"),
            (json!({ "questions": [1] }), "data.questions[0]: an object is expected here"),
            (json!({ "questions": [{ "question": "Q" }] }), "data.questions[0]: 'id' is missing"),
            (json!({ "questions": [{ "id": "q" }] }), "data.questions[0]: 'question' is missing"),
            (
                json!({ "questions": [{ "id": "", "question": "Q" }] }),
                "data.questions[0].id: 'id' has 1 to 256",
            ),
            (
                json!({ "questions": [{ "id": "q", "question": "Q", "schem": {} }] }),
                "data.questions[0].schem: there is no 'schem' here; did you mean 'schema'?",
            ),
            (
                json!({ "questions": [{ "id": "q", "question": "Q" }, { "id": "q", "question": "R" }] }),
                "data.questions[1].id: there is another question 'q'",
            ),
        ] {
            assert!(told(&data).contains(part), "{part:?} is not in {:?}", told(&data));
        }
        let many: Vec<Value> = (0..101).map(|ix| json!({ "id": ix.to_string(), "question": "Q" })).collect();
        assert!(told(&json!({ "questions": many })).contains("a list of 1 to 100"));
    }

    #[test]
    fn the_schema_of_a_question_is_usable_and_all_of_them_are_bounded() {
        let with = |schema: Value| json!({ "questions": [{ "id": "q", "question": "Q", "schema": schema }] });
        assert!(
            told(&with(json!({ "type": "colour" })))
                .contains("data.questions[0].schema: the schema is not valid")
        );
        assert!(told(&with(json!({ "$ref": "https://example.com/s" }))).contains("leads out of the schema"));
        let large = json!({ "enum": (0..4_000).collect::<Vec<_>>() });
        let questions: Vec<Value> =
            (0..4).map(|ix| json!({ "id": ix.to_string(), "question": "Q", "schema": large })).collect();
        assert!(
            told(&json!({ "questions": questions })).contains("data.questions[2].schema: the schemas of the")
        );
    }

    #[test]
    fn a_context_type_is_kept() {
        let data = json!({ "questions": [{ "id": "q", "question": "Q" }], "contextType": "order" });
        let ask = Ask::read(&Json::of(&json!({ "kind": "clarification", "data": data }))).unwrap();
        assert_eq!(ask.data, Json::of(&data));
        assert!(
            told(&json!({ "questions": [{ "id": "q", "question": "Q" }], "contextType": 1 }))
                .contains("contextType")
        );
    }

    #[test]
    fn answers_in_a_list_reach_the_node_by_id() {
        let value = json!({ "answers": [{ "id": "a/b", "answer": { "n": [null] } }, { "id": "q1", "answer": "red" }] });
        let checked = answer(&two_questions(), None, &value).unwrap();
        assert_eq!(checked.value, Json::of(&json!({ "answers": { "a/b": { "n": [null] }, "q1": "red" } })));
        assert_eq!(checked.by, "ann");
    }

    #[test]
    fn answers_by_id_are_as_good_as_a_list() {
        let listed = json!({ "answers": [{ "id": "q1", "answer": "red" }, { "id": "a/b", "answer": null }] });
        let by_id = json!({ "answers": { "q1": "red", "a/b": null } });
        let (listed, by_id) =
            (answer(&two_questions(), None, &listed), answer(&two_questions(), None, &by_id));
        assert_eq!(listed, by_id);
        let answers = by_id.unwrap().answers.unwrap();
        assert_eq!(answers.keys().collect::<Vec<_>>(), ["a/b", "q1"]);
    }

    #[test]
    fn an_answer_that_its_question_does_not_allow_is_refused_where_it_stands() {
        let listed = json!({ "answers": [{ "id": "a/b", "answer": 1 }, { "id": "q1", "answer": "green" }] });
        assert_eq!(paths(&two_questions(), None, &listed), ["/answers/1/answer"]);
        let by_id = json!({ "answers": { "q1": "green", "a/b": 1 } });
        assert_eq!(paths(&two_questions(), None, &by_id), ["/answers/q1"]);
    }

    #[test]
    fn each_question_has_one_answer_and_there_are_no_others() {
        for (value, expected) in [
            (json!({ "answers": [{ "id": "q1", "answer": "red" }] }), vec!["/answers"]),
            (json!({ "answers": { "a/b": 1 } }), vec!["/answers"]),
            (json!({ "answers": {} }), vec!["/answers", "/answers"]),
            (json!({ "answers": { "q1": "red", "a/b": 1, "c/d": 1 } }), vec!["/answers/c~1d"]),
            (
                json!({ "answers": [{ "id": "q1", "answer": "red" }, { "id": "x", "answer": 1 }] }),
                vec!["/answers/1/id"],
            ),
            (
                json!({ "answers": [{ "id": "q1", "answer": "red" }, { "id": "q1", "answer": "blue" }] }),
                vec!["/answers/1/id"],
            ),
            (json!({ "answers": [{ "id": "q1" }] }), vec!["/answers/0"]),
            (json!({ "answers": [{ "id": "q1", "answer": "red", "colour": 1 }] }), vec!["/answers/0/colour"]),
            (json!({ "answers": ["red", 1] }), vec!["/answers/0", "/answers/1"]),
            (json!({ "answers": "red" }), vec!["/answers"]),
            (json!({ "answers": null }), vec!["/answers"]),
            (json!({ "q1": "red" }), vec!["", "/q1"]),
            (json!(["red"]), vec![""]),
            (json!(null), vec![""]),
        ] {
            assert_eq!(paths(&two_questions(), None, &value), expected, "{value}");
        }
        let twice: Json = serde_json::from_str(r#"{"answers":{"q1":"red","a/b":1,"q1":"blue"}}"#).unwrap();
        let by = Answerer { principal: "ann".to_owned(), may_act_for_others: true, ..Answerer::default() };
        let data = Json::of(&two_questions());
        let refused = check_answer(InterruptKind::Clarification, &data, None, &twice, &by, 0).unwrap_err();
        let Refused::Invalid(errors) = refused else { panic!("{refused:?}") };
        assert_eq!(
            errors[0].to_string(),
            "/answers/q1: it is answered twice, first with \"red\"; remove one"
        );
    }

    #[test]
    fn the_schema_of_the_whole_is_about_the_answers_by_id() {
        let number = json!({ "properties": { "a/b": { "type": "number" } } });
        let schema = json!({ "properties": { "answers": number } });
        let listed = json!({ "answers": [{ "id": "q1", "answer": "red" }, { "id": "a/b", "answer": "1" }] });
        assert_eq!(paths(&two_questions(), Some(&schema), &listed), ["/answers/1/answer"]);
        let by_id = json!({ "answers": { "q1": "red", "a/b": "1" } });
        assert_eq!(paths(&two_questions(), Some(&schema), &by_id), ["/answers/a~1b"]);
        answer(&two_questions(), Some(&schema), &json!({ "answers": { "q1": "red", "a/b": 1 } })).unwrap();
    }
}
