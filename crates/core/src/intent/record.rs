//! What a suspension is about, as OpenIntent writes it into the state of an intent, and the question that it becomes.
//!
//! Keys that are not known are kept and passed over: agents write more than is asked for. What is known is checked before
//! anything is recorded.

use serde_json::json;

use crate::climb::LadderTerms;
use crate::gate::payload_form;
use crate::interrupt::{ANSWER, ResponseType};
use crate::{Ask, Json, JsonMap, LadderCall, Problem, Rejection, limits};

/// What only the run itself writes into a record.
pub(super) const OURS: &[&str] = &["response", "responded_by", "responded_at", "resolution"];

/// The keys of a record that say how it goes on if nobody answers.
const LADDER: &[&str] =
    &["timeout_seconds", "fallback_policy", "fallback_value", "channel_hint", "retry_policy"];

/// What is asked for while nobody has said what it is about.
pub(super) const UNSAID: &str = "intent.provisional";

/// A record as it is read.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// What it is called. The answer to a question of that name is kept for ever.
    pub(super) id: String,
    /// The question.
    pub(super) ask: Ask,
    /// How it goes on if nobody answers.
    pub(super) ladder: LadderCall,
}

impl Record {
    /// Reads a record, or says what to change.
    pub(super) fn read(json: &Json) -> Result<Self, Rejection> {
        let wrong = |key: &str, message: String| Rejection::invalid(format!("_suspension.{key}"), message);
        let fields: JsonMap = json.parse().map_err(|_| {
            Rejection::invalid("_suspension", "'_suspension' is an object, the record of a suspension")
        })?;
        let given = |key: &str| fields.get(key).filter(|value| value.type_name() != "null");
        let text = |key: &str, most: usize| {
            let text = given(key).and_then(|value| value.parse::<String>().ok());
            let fits = |text: &String| (1..=most).contains(&text.chars().count());
            text.filter(fits).ok_or_else(|| {
                let state = if given(key).is_some() { "is a text of" } else { "is missing: a text of" };
                wrong(key, format!("'{key}' {state} 1 to {most} characters"))
            })
        };
        let id = text("id", limits::INTERRUPT_KEY_CHARS_MAX)?;
        let question = text("question", limits::ASK_TEXT_CHARS_MAX)?;
        text("fallback_policy", limits::ASK_NAME_CHARS_MAX)?;
        let kind = match given("response_type") {
            None => ResponseType::Choice,
            Some(kind) => {
                let known = kind.parse::<String>().ok().and_then(|name| ResponseType::by_name(&name));
                let names = ResponseType::ALL.map(ResponseType::name).join(", ");
                known.ok_or_else(|| wrong("response_type", format!("'response_type' is one of {names}")))?
            }
        };
        let confidence = given("confidence_at_suspension").map(|number| number.parse::<f64>().ok());
        if confidence.is_some_and(|number| !number.is_some_and(|number| (0.0..=1.0).contains(&number))) {
            let message = "'confidence_at_suspension' is a number from 0 to 1".to_owned();
            return Err(wrong("confidence_at_suspension", message));
        }
        let context = given("context").filter(|context| context.text() != "{}");
        if context.is_some_and(|context| context.type_name() != "object") {
            return Err(wrong("context", "'context' is an object".to_owned()));
        }
        let choices = given("choices").filter(|choices| choices.text() != "[]");
        let mut asked: JsonMap =
            Json::of(&json!({ "id": ANSWER, "question": question, "responseType": kind.name() }))
                .parse()
                .unwrap_or_default();
        // A text or a form has no choices, and whoever writes some means nothing by it.
        let takes = matches!(kind, ResponseType::Choice | ResponseType::Confirm);
        asked.extend(choices.filter(|_| takes).map(|choices| ("choices".to_owned(), known_choices(choices))));
        let mut data = JsonMap::from([("questions".to_owned(), Json::of(&[asked]))]);
        data.extend(context.map(|context| ("context".to_owned(), context.clone())));
        let payload = json!({ "kind": "clarification", "key": id, "data": data });
        let ask = Ask::read(&Json::of(&payload)).map_err(|problems| told(&problems))?;
        let ladder: JsonMap =
            LADDER.iter().filter_map(|key| Some(((*key).to_owned(), given(key)?.clone()))).collect();
        let ladder = LadderCall::parse(&Json::of(&ladder)).map_err(|problems| told(&problems))?;
        Ok(Self { id, ask, ladder })
    }

    /// Reads a record that nobody can have answered yet.
    pub(super) fn read_fresh(json: &Json) -> Result<Self, Rejection> {
        let fields: JsonMap = json.parse().unwrap_or_default();
        let is_said = |key: &&&str| fields.get(**key).is_some_and(|value| value.type_name() != "null");
        match OURS.iter().find(is_said) {
            Some(key) => Err(not_theirs(key)),
            None => Self::read(json),
        }
    }

    /// Whether people are asked the same by another, and in the same way.
    pub(super) fn asks_same(&self, other: &Self) -> bool {
        let without_value = |ladder: &LadderCall| LadderCall { fallback_value: None, ..ladder.clone() };
        let same_value = match (&self.ladder.fallback_value, &other.ladder.fallback_value) {
            (Some(own), Some(other)) => own.says_same(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.id == other.id
            && self.ask.data.says_same(&other.ask.data)
            && without_value(&self.ladder) == without_value(&other.ladder)
            && same_value
    }

    /// How its fallback becomes an answer, beside what it says itself.
    pub(super) fn terms<'a>(&'a self, agent: Option<&'a str>) -> LadderTerms<'a> {
        LadderTerms { call: Some(&self.ladder), agent, form: payload_form(true) }
    }
}

/// Why nobody but the run writes a key.
pub(super) fn not_theirs(key: &str) -> Rejection {
    let message = format!("'{key}' is written by the server alone, when somebody answers; leave it out");
    Rejection::invalid(format!("_suspension.{key}"), message)
}

/// The choices without what nobody reads, as a question takes them.
fn known_choices(choices: &Json) -> Json {
    const KNOWN: &[&str] = &["value", "label", "description", "style", "metadata"];
    let Ok(list) = choices.parse::<Vec<Json>>() else { return choices.clone() };
    let known = |choice: Json| match choice.parse::<JsonMap>() {
        Ok(fields) => {
            let is_said = |value: &Json| !matches!(value.text(), "null" | "\"\"" | "{}");
            let kept =
                fields.into_iter().filter(|(key, value)| KNOWN.contains(&key.as_str()) && is_said(value));
            Json::of(&kept.collect::<JsonMap>())
        }
        Err(_) => choice,
    };
    Json::of(&list.into_iter().map(known).collect::<Vec<_>>())
}

/// What is wrong with a record, where it stands in that.
fn told(problems: &[Problem]) -> Rejection {
    let place = |place: &str| {
        let rest = place.strip_prefix("data.questions[0].").or_else(|| place.strip_prefix("data."));
        let rest = rest.or_else(|| place.strip_prefix("ladder.")).unwrap_or(place);
        rest.replace("responseType", "response_type")
    };
    let first = problems.first().map_or_else(String::new, |problem| place(&problem.place));
    let all: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", place(&problem.place), problem.message)).collect();
    Rejection::invalid(format!("_suspension.{first}"), all.join("; "))
}

/// The question that stands for one of which nobody has said yet what it is about.
pub(super) fn unsaid(question: &str) -> Ask {
    let payload = json!({
        "kind": "clarification",
        "data": { "contextType": UNSAID, "questions": [{ "id": ANSWER, "question": question }] },
    });
    Ask::read(&Json::of(&payload)).expect("the question is written here")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn record(change: &Value) -> Value {
        let mut record = json!({
            "id": "s1", "question": "Sign off?", "response_type": "choice", "fallback_policy": "fail",
            "choices": [{ "value": "yes", "label": "Yes" }, { "value": "no", "label": "No", "style": "danger" }],
        });
        for (key, value) in change.as_object().unwrap() {
            record[key] = value.clone();
        }
        record
    }

    fn refused(change: &Value, field: &str) {
        let refused = Record::read(&Json::of(&record(change))).expect_err(field);
        let Rejection::Invalid { field: found, .. } = &refused else { panic!("{refused:?}") };
        assert!(found.contains(field), "{field}: {found}");
    }

    #[test]
    fn a_record_has_an_id_a_question_and_a_fallback() {
        for key in ["id", "question", "fallback_policy"] {
            refused(&json!({ key: null }), key);
            refused(&json!({ key: "" }), key);
            refused(&json!({ key: 7 }), key);
        }
        let read =
            Record::read(&Json::of(&record(&json!({ "unknown": [1], "suspended_at": "2026" })))).unwrap();
        assert_eq!((read.id.as_str(), read.ask.key.as_deref()), ("s1", Some("s1")));
    }

    #[test]
    fn there_are_four_types_of_response_and_choice_is_what_is_meant_without_one() {
        for kind in ["choice", "confirm", "text", "form"] {
            Record::read(&Json::of(&record(&json!({ "response_type": kind })))).unwrap();
        }
        refused(&json!({ "response_type": "date" }), "response_type");
        let read = Record::read(&Json::of(&record(&json!({ "response_type": null })))).unwrap();
        assert!(read.ask.data.text().contains(r#""responseType":"choice""#), "{:?}", read.ask.data);
    }

    #[test]
    fn a_choice_has_choices_and_each_of_them_a_value_and_a_label() {
        refused(&json!({ "choices": [] }), "choices");
        refused(&json!({ "choices": null }), "choices");
        refused(&json!({ "choices": [{ "value": "yes" }] }), "choices");
        refused(&json!({ "choices": [{ "label": "Yes" }] }), "choices");
        refused(&json!({ "choices": [{ "value": "y", "label": "Y", "style": "loud" }] }), "choices");
        let full = json!([{ "value": "y", "label": "Y", "description": "Go", "style": "primary", "metadata": { "a": 1 },
                            "more": 1 }]);
        Record::read(&Json::of(&record(&json!({ "choices": full })))).unwrap();
    }

    #[test]
    fn what_happens_without_an_answer_is_one_of_three_things() {
        for policy in ["fail", "complete_with_fallback", "use_default_and_continue"] {
            let change = json!({ "fallback_policy": policy, "fallback_value": "no" });
            Record::read(&Json::of(&record(&change))).unwrap();
        }
        refused(&json!({ "fallback_policy": "deny" }), "fallback_policy");
        refused(&json!({ "retry_policy": { "max_attempts": 0 } }), "retry_policy");
        refused(&json!({ "retry_policy": { "typo": 1 } }), "retry_policy");
        refused(&json!({ "timeout_seconds": -1 }), "timeout_seconds");
    }

    #[test]
    fn how_sure_the_agent_was_is_a_share() {
        for fits in [json!(0), json!(1), json!(0.5), Value::Null] {
            Record::read(&Json::of(&record(&json!({ "confidence_at_suspension": fits })))).unwrap();
        }
        for odd in [json!(1.2), json!(-0.1), json!("high")] {
            refused(&json!({ "confidence_at_suspension": odd }), "confidence_at_suspension");
        }
        refused(&json!({ "context": [1] }), "context");
    }
}
