//! Answers: what somebody sends to go on, held against what was asked before anything changes.

use serde::{Deserialize, Serialize};

use super::form::{Faults, readable};
use super::{InterruptKind, approval, clarification, external};
use crate::limits::ANSWER_BYTES_MAX;
use crate::moment::rfc3339;
use crate::{Json, JsonMap, Millis, Schema, SchemaError};

/// Who answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answerer {
    /// As whom the caller is known.
    pub principal: String,
    /// Whether the caller may say in whose name.
    pub may_act_for_others: bool,
    /// The groups of whoever the answer is of, as the directory has them now.
    pub groups: Vec<String>,
    /// Their roles.
    pub roles: Vec<String>,
    /// What they say beside their answer, where that is kept.
    pub remarks: Option<Json>,
}

impl Answerer {
    /// Somebody of whom nothing but the name is known.
    pub fn of(principal: &str) -> Self {
        Self { principal: principal.to_owned(), ..Self::default() }
    }
}

/// An answer that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What the node receives.
    pub value: Json,
    /// What was decided, if it was asked for a decision.
    pub decision: Option<Decision>,
    /// The answers by the ids of their questions, if there were questions.
    pub answers: Option<JsonMap>,
    /// Who is recorded.
    pub by: String,
    /// What entitles them.
    pub qualified_by: Vec<String>,
}

/// What somebody decided about an artifact.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// What was said about it.
    pub feedback: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// What is to be made better.
    pub refine_feedback: Option<Json>,
    /// The artifact as it was changed.
    pub edited_artifact_data: Option<Json>,
    /// Who decided. Nobody reads anything into it.
    pub decided_by: String,
    /// Whose key it came with, if that is somebody else's.
    pub cast_by: Option<String>,
    /// When it was decided, by our clock: what a client says about its own is not relied on.
    pub decided_at: Millis,
}

/// What to do with an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It is good.
    Accept,
    /// It is not wanted.
    Reject,
    /// It has to be made better.
    Refine,
    /// It is good with these changes.
    EditAccept,
    /// Nobody decided in time, which is a rejection.
    Timeout,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 5] = [Self::Accept, Self::Reject, Self::Refine, Self::EditAccept, Self::Timeout];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Refine => "refine",
            Self::EditAccept => "edit-accept",
            Self::Timeout => "timeout",
        }
    }
}

impl Decision {
    /// The decision as the node receives it.
    pub fn value(&self) -> Json {
        let mut value = JsonMap::new();
        let mut put = |key: &str, json: Option<Json>| json.map(|json| value.insert(key.to_owned(), json));
        put("action", Some(Json::of(self.action.name())));
        put("feedback", self.feedback.as_ref().map(Json::of));
        put("reason", self.reason.as_ref().map(Json::of));
        put("refineFeedback", self.refine_feedback.clone());
        put("editedArtifactData", self.edited_artifact_data.clone());
        put("decidedBy", Some(Json::of(&self.decided_by)));
        put("decidedAt", Some(Json::of(&rfc3339(self.decided_at))));
        Json::of(&value)
    }
}

/// Why an answer is not taken. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not what was asked for. The paths are JSON pointers into the answer.
    Invalid(Vec<SchemaError>),
    /// It is about something else.
    Mismatch(Vec<SchemaError>),
}

/// An answer that fits its kind, and is still to be held against the schema of the question.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) value: Json,
    /// What the schema is about, if that is not the value: nobody has to foresee what the host adds.
    pub(super) submitted: Option<Json>,
    /// Where parts of it stood in what was sent: an error is shown where it can be mended.
    pub(super) moved: Vec<(String, String)>,
    pub(super) decision: Option<Decision>,
    pub(super) answers: Option<JsonMap>,
    /// Who is recorded, if not the caller.
    pub(super) by: Option<String>,
}

impl Answer {
    pub(super) fn of(value: Json) -> Self {
        Self { value, submitted: None, moved: Vec::new(), decision: None, answers: None, by: None }
    }

    /// The place in what was sent.
    fn place(&self, path: &str) -> String {
        let within = |(to, from): &(String, String)| {
            let rest = path.strip_prefix(to.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{from}{rest}"))
        };
        self.moved.iter().find_map(within).unwrap_or_else(|| path.to_owned())
    }
}

/// Holds an answer against the question: its kind, its data, its schema.
pub fn check_answer(
    kind: InterruptKind,
    data: &Json,
    resume_schema: Option<&Json>,
    value: &Json,
    by: &Answerer,
    now: Millis,
) -> Result<Checked, Refused> {
    readable(value, ANSWER_BYTES_MAX).map_err(|message| refused("", &message))?;
    let answer = match kind {
        InterruptKind::Approval => approval::check(data, value, by, now)?,
        InterruptKind::Clarification => clarification::check(data, value)?,
        InterruptKind::ExternalEvent => external::check(data, value)?,
        InterruptKind::ConversationExchange => {
            let data: JsonMap = data.parse().unwrap_or_default();
            let answer = Answer::of(value.clone());
            check_schema(data.get("outcomeSchema"), &answer)?;
            answer
        }
        InterruptKind::Custom
        | InterruptKind::LowConfidence
        | InterruptKind::ConversationStart
        | InterruptKind::ConversationClose => Answer::of(value.clone()),
    };
    check_schema(resume_schema, &answer)?;
    let by = answer.by.clone().unwrap_or_else(|| recorded(&by.principal));
    let Answer { value, decision, answers, .. } = answer;
    Ok(Checked { value, decision, answers, by, qualified_by: Vec::new() })
}

fn check_schema(schema: Option<&Json>, answer: &Answer) -> Result<(), Refused> {
    let Some(schema) = schema.filter(|schema| schema.type_name() != "null") else { return Ok(()) };
    let schema = Schema::compile(schema).map_err(|message| refused("", &message))?;
    let Err(errors) = schema.check(answer.submitted.as_ref().unwrap_or(&answer.value)) else { return Ok(()) };
    let mut faults = Faults::default();
    errors.iter().for_each(|error| faults.add(&answer.place(&error.path), &error.message));
    faults.none().map_err(Refused::Invalid)
}

/// An answer with one thing wrong.
pub(super) fn refused(path: &str, message: &str) -> Refused {
    let mut faults = Faults::default();
    faults.add(path, message);
    Refused::Invalid(faults.list())
}

/// Whoever is recorded has a name.
pub(super) fn recorded(principal: &str) -> String {
    if principal.is_empty() { "system:unnamed".to_owned() } else { principal.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(
        kind: InterruptKind,
        data: &Value,
        schema: Option<&Value>,
        value: &Value,
    ) -> Result<Checked, Refused> {
        let by = Answerer::of("ann");
        let schema = schema.map(|schema| Json::of(&schema));
        check_answer(kind, &Json::of(data), schema.as_ref(), &Json::of(value), &by, 0)
    }

    /// Kinds whose answers are whatever the question's schema allows.
    const OPEN: [InterruptKind; 5] = [
        InterruptKind::Custom,
        InterruptKind::LowConfidence,
        InterruptKind::ConversationStart,
        InterruptKind::ConversationExchange,
        InterruptKind::ConversationClose,
    ];

    #[test]
    fn an_answer_to_a_question_of_ones_own_is_any_json() {
        for kind in OPEN {
            for value in
                [json!(null), json!(1.5), json!([1, "x"]), json!({ "a": {} }), json!("x"), json!(false)]
            {
                let checked = check(kind, &json!({ "customKind": "x" }), None, &value).unwrap();
                assert_eq!((checked.value, checked.by.as_str()), (Json::of(&value), "ann"));
                assert_eq!((checked.decision, checked.answers), (None, None));
            }
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_the_schema_is_refused_with_its_places() {
        let schema = json!({ "properties": { "a/b": { "items": { "type": "number" } } }, "required": ["c"] });
        for kind in OPEN {
            let refused = check(kind, &json!({}), Some(&schema), &json!({ "a/b": [1, "x"] })).unwrap_err();
            let Refused::Invalid(errors) = refused else { panic!("{refused:?}") };
            assert_eq!(errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), ["", "/a~1b/1"]);
            check(kind, &json!({}), Some(&schema), &json!({ "a/b": [1], "c": null })).unwrap();
        }
    }

    #[test]
    fn a_turn_of_a_conversation_fits_its_outcome_as_well() {
        let data = json!({ "conversationId": "c", "prompt": "P", "outcomeSchema": { "type": "string" } });
        let kind = InterruptKind::ConversationExchange;
        check(kind, &data, None, &json!("yes")).unwrap();
        check(kind, &data, None, &json!(1)).unwrap_err();
        check(kind, &data, Some(&json!({ "minLength": 4 })), &json!("yes")).unwrap_err();
    }

    #[test]
    fn every_action_has_one_name() {
        for action in Action::ALL {
            assert_eq!(serde_json::to_value(action).unwrap(), action.name());
        }
    }

    #[test]
    fn a_part_that_was_moved_is_shown_where_it_stood() {
        let mut answer = Answer::of(Json::of("x"));
        answer.moved.push(("/answers/q1".to_owned(), "/answers/0/answer".to_owned()));
        assert_eq!(answer.place("/answers/q1"), "/answers/0/answer");
        assert_eq!(answer.place("/answers/q1/x"), "/answers/0/answer/x");
        assert_eq!(answer.place("/answers/q10"), "/answers/q10");
    }
}
