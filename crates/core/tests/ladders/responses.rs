//! What kind of response a question wants, and who may give it.

use abide_core::{Rejection, Status};

use super::*;

fn of_type(kind: &str, choices: Option<Value>) -> Sketch {
    let gate = question("gate").config("responseType", json!(kind));
    match choices {
        Some(choices) => gate.config("choices", choices),
        None => gate,
    }
}

fn choices(values: &[&str]) -> Value {
    values.iter().map(|value| json!({ "value": value, "label": value.to_uppercase() })).collect()
}

/// Which of these answers are taken.
fn taken(gate: &Sketch, answers: &[Value]) -> Vec<Value> {
    let takes = |answer: &&Value| {
        let story = Story::of(&gated(gate.clone())).start();
        let story = story.answer("gate", &json!({ "answers": { "answer": answer } }));
        let taken = story.run().status() == Status::Completed;
        if taken {
            let outputs = story.node("gate").outputs.clone().expect("it has outputs");
            assert_eq!(parsed(outputs.text())["answer"], **answer, "it is stored unchanged");
        }
        taken
    };
    answers.iter().filter(takes).cloned().collect()
}

#[track_caller]
fn refused(gate: Sketch) -> BTreeMap<String, String> {
    places(&gated(gate).problems())
}

#[test]
fn a_confirmation_is_yes_or_no() {
    let answers =
        [json!("yes"), json!("no"), json!("maybe"), json!("YES"), json!(""), json!(true), json!(null)];
    assert_eq!(taken(&of_type("confirm", None), &answers), answers[..2]);
}

#[test]
fn a_confirmation_with_choices_takes_those_and_no_others() {
    let gate = of_type("confirm", Some(choices(&["go", "stop"])));
    let answers = [json!("go"), json!("stop"), json!("yes"), json!("no"), json!("GO")];
    assert_eq!(taken(&gate, &answers), answers[..2]);
}

#[test]
fn a_text_is_not_empty() {
    let answers =
        [json!("x"), json!(" "), json!(""), json!(7), json!(null), json!(["x"]), json!({ "a": "x" })];
    assert_eq!(taken(&of_type("text", None), &answers), answers[..2]);
}

#[test]
fn a_form_is_anything() {
    let answers = [
        json!({ "deep": { "list": [1, null, { "x": 1.5 }] } }),
        json!([]),
        json!("text"),
        json!(""),
        json!(0),
        json!(false),
        json!(null),
    ];
    assert_eq!(taken(&of_type("form", None), &answers), answers);
}

#[test]
fn a_choice_is_one_of_its_values() {
    let gate = of_type("choice", Some(choices(&["refund", "deny"])));
    let answers =
        [json!("refund"), json!("deny"), json!("REFUND"), json!(["refund"]), json!(""), json!(null)];
    assert_eq!(taken(&gate, &answers), answers[..2]);
}

#[test]
fn an_answer_that_is_refused_says_where_it_is_wrong() {
    let story = Story::of(&gated(of_type("confirm", None))).start();
    let mut run = story.run().clone();
    let by = abide_core::Answerer::of("alice");
    let value = Json::of(&json!({ "answers": { "answer": "maybe" } }));
    let resolve = abide_core::Resolve { id: story.asked(), value, by };
    let Err(Rejection::BadAnswer(errors)) = run.decide(abide_core::Command::Resolve(resolve), story::BEGIN)
    else {
        panic!("it is refused");
    };
    assert_eq!(errors[0].path, "/answers/answer");
    assert!(errors[0].message.contains("yes") && errors[0].message.contains("no"), "{}", errors[0].message);
}

#[test]
fn choices_are_told_apart_and_complete() {
    let place = |rest: &str| format!("nodes['gate'].config.questions[0].{rest}");
    let with = |choices: Value| refused(of_type("choice", Some(choices)));
    let twice = with(choices(&["a", "b", "a"]));
    assert_eq!(twice.keys().collect::<Vec<_>>(), [&place("choices[2].value")]);
    assert!(twice.values().all(|message| message.contains("another 'a'")), "{twice:?}");
    for (bad, rest) in [
        (json!([{ "value": "a" }]), "choices[0]"),
        (json!([{ "label": "A" }]), "choices[0]"),
        (json!([{ "value": "", "label": "A" }]), "choices[0].value"),
        (json!([{ "value": 7, "label": "A" }]), "choices[0].value"),
        (json!([{ "value": "a", "label": "" }]), "choices[0].label"),
        (json!([{ "value": "a", "label": "A", "style": "loud" }]), "choices[0].style"),
        (json!([{ "value": "a", "label": "A", "metadata": [] }]), "choices[0].metadata"),
        (json!([{ "value": "a", "label": "A", "colour": "red" }]), "choices[0].colour"),
        (json!(["a"]), "choices[0]"),
        (json!([]), "choices"),
        (json!("a"), "choices"),
        (
            json!((0..101).map(|n| json!({ "value": n.to_string(), "label": "L" })).collect::<Vec<_>>()),
            "choices",
        ),
    ] {
        let told = with(bad.clone());
        assert_eq!(told.keys().collect::<Vec<_>>(), [&place(rest)], "{bad}");
    }
    assert_eq!(refused(of_type("choice", None)).keys().collect::<Vec<_>>(), [&place("choices")]);
    let full = json!([{ "value": "a", "label": "A", "description": "the first", "style": "danger",
        "metadata": { "n": 1 } }]);
    gated(of_type("choice", Some(full))).graph();
}

#[test]
fn choices_belong_to_what_is_chosen_from() {
    let place = |rest: &str| format!("nodes['gate'].config.questions[0].{rest}");
    for kind in ["text", "form"] {
        let told = refused(of_type(kind, Some(choices(&["a"]))));
        assert_eq!(told.keys().collect::<Vec<_>>(), [&place("choices")], "{kind}");
    }
    let untyped = refused(question("gate").config("choices", choices(&["a"])));
    assert_eq!(untyped.keys().collect::<Vec<_>>(), [&place("choices")]);
    let unknown = refused(of_type("rating", None));
    assert_eq!(unknown.keys().collect::<Vec<_>>(), [&place("responseType")]);
    let both = refused(of_type("text", None).config("schema", json!({ "type": "string" })));
    assert_eq!(both.keys().collect::<Vec<_>>(), [&place("schema")]);
}

#[test]
fn each_question_of_several_may_want_something_else() {
    let questions = json!([
        { "id": "sure", "question": "Sure?", "responseType": "confirm" },
        { "id": "why", "question": "Why?", "responseType": "text" },
        { "id": "more", "question": "More?" },
    ]);
    let gate = of_kind("gate", "core.clarificationGate")
        .config("questions", questions)
        .config("context", json!({ "order": 7 }));
    let story = Story::of(&gated(gate)).start();
    let asked = parsed(&story.payload("interrupt.requested"));
    assert_eq!(asked["data"]["context"], json!({ "order": 7 }));
    let id = story.asked();
    let wrong = json!({ "answers": { "sure": "yes", "why": "", "more": [] } });
    let story = story.answer_to(id, &wrong, "alice");
    assert_eq!(story.run().interrupts().count(), 1, "nothing of it is taken");
    let right = json!({ "answers": { "sure": "yes", "why": "because", "more": [] } });
    story.answer_to(id, &right, "alice").stands(Status::Completed);
}

#[test]
fn who_may_answer_stands_in_the_question() {
    let who = json!(["alice", "group:finance", "role:manager"]);
    let story = Story::of(&gated(question("gate").setting("respondents", who.clone()))).start();
    assert_eq!(parsed(&story.payload("interrupt.requested"))["respondents"], who);
    let open = story.run().interrupts().next().expect("it is open");
    assert_eq!(open.requested.respondents, ["alice", "group:finance", "role:manager"]);
    let anybody = Story::of(&gated(question("gate"))).start();
    assert_eq!(parsed(&anybody.payload("interrupt.requested")).get("respondents"), None);
}

#[test]
fn a_question_of_an_agent_has_the_ladder_of_that_agent() {
    let agent = json!({ "max_attempts": 2, "interval_seconds": 60 });
    let gates = [("one", AGENT), ("two", "another")];
    let flow = workflow(gates.map(|(id, agent)| question(id).setting("agent", json!(agent))));
    let story = Story::of(&flow).under(said(None, Some(&agent))).start();
    let ladders: Vec<Option<u32>> = story
        .run()
        .interrupts()
        .map(|open| open.requested.ladder.as_ref().map(|ladder| ladder.max_attempts))
        .collect();
    assert_eq!(ladders, [Some(2), None]);
}
