//! What holds for any question and any answer, however they are written.

use abide_core::{
    Answerer, Ask, InterruptKind, Json, Refused, check_answer, correlates, limits, scheduled_time,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON. The keys and texts are often those that mean something here.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

/// Words of questions and answers.
fn word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "kind",
        "key",
        "data",
        "resumeSchema",
        "timeoutMs",
        "reason",
        "resumeKey",
        "answerSchema",
        "approval",
        "clarification",
        "external-event",
        "custom",
        "actions",
        "accept",
        "reject",
        "refine",
        "edit",
        "action",
        "decision",
        "rejected",
        "cancelled",
        "feedback",
        "refineFeedback",
        "scope",
        "whole",
        "items",
        "itemIds",
        "decidedBy",
        "voter",
        "questions",
        "answers",
        "id",
        "question",
        "answer",
        "schema",
        "type",
        "$ref",
        "eventType",
        "eventPayload",
        "correlation",
        "scheduled-time:2026-05-01T10:00Z",
        "customKind",
        "payload",
        "requiredApprovals",
        "audience",
        "",
        "q1",
        "a/b~c",
    ];
    prop::sample::select(WORDS).prop_map(str::to_owned)
}

fn kind() -> impl Strategy<Value = InterruptKind> {
    prop::sample::select(&InterruptKind::ALL[..])
}

/// A kind with data: that of its own, or anything.
fn kind_and_data() -> impl Strategy<Value = (InterruptKind, Value)> {
    let sound = [
        (
            InterruptKind::Approval,
            json!({ "artifactId": "a", "artifactType": "t", "title": "T", "actions": ["accept", "edit"] }),
        ),
        (
            InterruptKind::Clarification,
            json!({ "questions": [{ "id": "q", "question": "Q", "schema": {} }] }),
        ),
        (InterruptKind::ExternalEvent, json!({ "eventType": "e", "correlation": { "a": 1 } })),
        (InterruptKind::Custom, json!({ "customKind": "x" })),
    ];
    prop_oneof![prop::sample::select(sound.to_vec()), (kind(), anything())]
}

fn schema() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({})), Just(json!({ "type": "string" })), anything()]
}

fn somebody() -> Answerer {
    Answerer { principal: "somebody".to_owned(), may_act_for_others: true, ..Answerer::default() }
}

proptest! {
    #[test]
    fn any_question_is_read_or_refused((kind, data) in kind_and_data(), mut rest in anything()) {
        if let Some(rest) = rest.as_object_mut() {
            rest.insert("kind".to_owned(), json!(kind));
            rest.insert("data".to_owned(), data);
        }
        let payload = Json::of(&rest);
        for read in [Ask::read(&payload), Ask::read_alias(&payload)] {
            match read {
                Ok(ask) => {
                    prop_assert!(ask.title().chars().count() <= limits::INBOX_TITLE_CHARS_MAX);
                    prop_assert!(ask.same_question(ask.kind, ask.resume_schema.as_ref()));
                    prop_assert!(scheduled_time(&ask.data).is_ok());
                    let again = json!({ "kind": ask.kind, "data": ask.data.parse::<Value>().unwrap() });
                    let again = Ask::read(&Json::of(&again)).unwrap();
                    prop_assert_eq!(again.data.parse::<Value>().unwrap(), ask.data.parse::<Value>().unwrap());
                }
                Err(problems) => prop_assert!((1..=limits::PROBLEMS_MAX + 1).contains(&problems.len())),
            }
        }
    }

    #[test]
    fn any_answer_is_taken_or_refused((kind, data) in kind_and_data(), schema in schema(), value in anything()) {
        let (data, schema, value) = (Json::of(&data), Json::of(&schema), Json::of(&value));
        for schema in [None, Some(&schema)] {
            match check_answer(kind, &data, schema, &value, &somebody(), 1) {
                Ok(checked) => {
                    prop_assert!(checked.value.parse::<Value>().is_ok());
                    prop_assert!(!checked.by.is_empty());
                }
                Err(Refused::Invalid(errors) | Refused::Mismatch(errors)) => prop_assert!(!errors.is_empty()),
            }
        }
        prop_assert!(!correlates(&data, &value) || data.parse::<Value>().unwrap()["correlation"].is_object());
    }

    #[test]
    fn answers_in_a_list_are_the_same_as_by_id(
        answers in prop::collection::btree_map("\\PC{1,6}", anything(), 1..6),
        order in any::<prop::sample::Index>(),
    ) {
        let questions: Vec<Value> = answers.keys().map(|id| json!({ "id": id, "question": "Q" })).collect();
        let data = Json::of(&json!({ "questions": questions }));
        let mut listed: Vec<Value> = answers.iter().map(|(id, answer)| json!({ "id": id, "answer": answer })).collect();
        listed.rotate_left(order.index(answers.len()));
        let check = |value: Value| {
            check_answer(InterruptKind::Clarification, &data, None, &Json::of(&value), &somebody(), 1)
        };
        let by_id = check(json!({ "answers": answers }));
        prop_assert_eq!(&check(json!({ "answers": listed })), &by_id);
        let received: Value = by_id.unwrap().value.parse().unwrap();
        prop_assert_eq!(received, json!({ "answers": answers }));
    }

    #[test]
    fn other_names_say_the_same(
        (kind, data) in kind_and_data(), key in "\\PC{0,4}", schema in schema(), renamed: [bool; 3],
    ) {
        let pairs = [("kind", "reason", json!(kind)), ("key", "resumeKey", json!(key)),
            ("resumeSchema", "answerSchema", schema)];
        let payload = |names: [bool; 3]| {
            let mut payload = Map::from_iter([("data".to_owned(), data.clone())]);
            for ((canonical, alias, value), renamed) in pairs.iter().zip(names) {
                let name = if renamed { alias } else { canonical };
                payload.insert((*name).to_owned(), value.clone());
            }
            Json::of(&payload)
        };
        let canonical = Ask::read(&payload([false; 3])).ok();
        prop_assert_eq!(Ask::read_alias(&payload(renamed)).ok(), canonical);
    }
}

#[test]
fn an_answer_that_is_too_large_or_too_deep_is_refused_for_every_kind() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let long = format!("\"{}\"", "x".repeat(limits::ANSWER_BYTES_MAX));
    for (text, part) in [
        (deep(101), "nested deeper than 100 levels"),
        (deep(300_000), "nested deeper than 100 levels"),
        (long, "longer than 1048576 bytes"),
        ("\"\\udfff\"".to_owned(), "it can't be read"),
        ("-1e400".to_owned(), "it can't be read"),
    ] {
        let value: Json = serde_json::from_str(&text).unwrap();
        for kind in InterruptKind::ALL {
            let refused =
                check_answer(kind, &Json::of(&json!({})), None, &value, &somebody(), 1).unwrap_err();
            let Refused::Invalid(errors) = refused else { panic!("{refused:?}") };
            assert!(errors[0].path.is_empty() && errors[0].message.contains(part), "{errors:?}");
        }
    }
    let value: Json = serde_json::from_str(&deep(100)).unwrap();
    check_answer(InterruptKind::Custom, &Json::of(&json!({})), None, &value, &somebody(), 1).unwrap();
}
