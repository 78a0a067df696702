//! The end of a ladder: it expires once, and then its fallback takes the answer's place.

use abide_core::event::Resolution;
use abide_core::{NodePhase, Rejection, Status};
use story::{BEGIN, hours};

use super::*;

/// A ladder of one minute, with a fallback.
fn minute(fallback: &str, value: Option<Value>) -> Value {
    let mut ladder = json!({ "timeout_seconds": 60, "fallback_policy": fallback });
    if let Some(value) = value {
        ladder["fallback_value"] = value;
    }
    ladder
}

/// A gate that nobody answers for a minute.
fn expired(gate: Sketch, ladder: Value) -> Story {
    let story = Story::of(&gated(gate.setting("ladder", ladder))).start();
    let id = story.asked();
    story.at(secs(60)).climb(id)
}

/// Gates of every kind, each with an answer that is none in favour of anything.
fn gates() -> Vec<(Sketch, Value)> {
    let questions = json!([{ "id": "colour", "question": "Which?", "schema": { "enum": ["red", "blue"] } }]);
    let event = of_kind("gate", "core.interrupt")
        .config("kind", json!("external-event"))
        .config("data", json!({ "eventType": "paid", "correlation": { "order": 7 } }));
    vec![
        (approval("gate"), json!({ "action": "reject", "feedback": "nobody looked" })),
        (
            of_kind("gate", "core.hitl.approval-request").config("title", json!("T")),
            json!({ "action": "reject" }),
        ),
        (
            of_kind("gate", "core.clarificationGate").config("questions", questions),
            json!({ "answers": { "colour": "red" } }),
        ),
        (
            of_kind("gate", "core.hitl.form-request")
                .config("formSchema", json!({ "n": { "type": "number" } })),
            json!({ "answers": { "n": 1 } }),
        ),
        (question("gate"), json!("no idea")),
        (custom("gate", "k"), json!([1, { "deep": null }])),
        (event, json!({ "eventPayload": { "order": 7, "paid": false } })),
    ]
}

#[test]
fn a_ladder_expires_after_its_last_window_and_not_before() {
    let story = Story::of(&asking(json!({ "retry_policy": example() }))).start();
    let id = story.asked();
    let open = story.run().interrupt(id).expect("it is open");
    assert_eq!(open.deadline(), Some(BEGIN + hours(3)));
    let story = story.at(hours(1)).climb(id).at(hours(2)).climb(id);
    assert_eq!(story.count("interrupt.expired"), 0, "the last attempt has its window");
    let story = story.at(hours(3) - 1).climb(id).refused(&Rejection::NotDue { due: BEGIN + hours(3) });
    let story = story.at(hours(3)).climb(id);
    let expected = json!({ "interruptId": id.to_string(), "attempts": 3, "fallbackPolicy": "fail" });
    assert_eq!(story.all("interrupt.expired"), [expected]);
}

#[test]
fn expiry_is_told_before_what_follows_from_it() {
    let story = expired(question("gate"), minute("complete_with_fallback", Some(json!("no idea")))).expect([
        "interrupt.expired gate",
        "clarification.resolved gate",
        "interrupt.resolved gate",
        "node.resumed gate",
        "node.completed gate",
        "node.started next",
        "node.completed next",
        "run.completed",
    ]);
    drop(story);
    expired(question("gate"), minute("fail", None)).expect([
        "interrupt.expired gate",
        "interrupt.resolved gate",
        "node.resumed gate",
        "node.failed gate",
        "run.failed",
    ]);
}

#[test]
fn the_fallback_fail_fails_every_kind_of_question_with_a_code_of_its_own() {
    for (gate, _) in gates() {
        let story = expired(gate, minute("fail", None)).stands(Status::Failed);
        let error = story.run().error().expect("it failed");
        assert_eq!(error.code, "input_timeout");
        assert!(error.message.contains("InputTimeoutError"), "{}", error.message);
        let resolved = &story.all("interrupt.resolved")[0];
        assert_eq!(
            [&resolved["outcome"], &resolved["reason"], &resolved["resolvedBy"]],
            [&json!("expired"), &json!("expired"), &json!("system:ladder")]
        );
        assert_eq!(resolved.get("resumeValue"), None, "there is no answer");
        assert_eq!(story.count("approval.received") + story.count("clarification.resolved"), 0);
        story.node_is("next", NodePhase::Pending);
    }
}

#[test]
fn complete_with_fallback_takes_the_value_for_the_answer() {
    goes_on_with_the_value("complete_with_fallback");
}

#[test]
fn use_default_and_continue_takes_the_value_for_the_answer() {
    goes_on_with_the_value("use_default_and_continue");
}

#[track_caller]
fn goes_on_with_the_value(fallback: &str) {
    for (gate, value) in gates() {
        let story = expired(gate, minute(fallback, Some(value.clone())));
        let resolved = &story.all("interrupt.resolved")[0];
        assert_eq!(
            (&resolved["outcome"], &resolved["resolvedBy"]),
            (&json!("expired"), &json!("system:ladder")),
            "{value}"
        );
        assert_eq!(story.all("interrupt.expired")[0]["fallbackPolicy"], fallback);
        if value.get("action").is_some() {
            assert_eq!(resolved["resumeValue"]["action"], "reject");
            let story = story.stands(Status::Failed).node_is("next", NodePhase::Pending);
            assert_eq!(story.run().error().expect("it failed").code, "approval_rejected");
            assert_eq!(story.all("approval.received")[0]["decidedBy"], "system:ladder");
        } else {
            let kept = if value == "no idea" { json!({ "answers": { "answer": value } }) } else { value };
            assert_eq!(resolved["resumeValue"], kept);
            story.stands(Status::Completed).node_is("next", NodePhase::Completed);
        }
    }
}

#[test]
fn a_rejection_by_fallback_is_routed_like_any_other() {
    let gate = approval("gate")
        .setting("ladder", minute("complete_with_fallback", Some(json!({ "action": "reject" }))));
    let flow = workflow([gate, noop("pay"), noop("tell")])
        .flow("gate > pay")
        .flow("gate > tell")
        .when("output.action == 'reject'");
    let story = Story::of(&flow).start();
    let id = story.asked();
    let story = story.at(secs(60)).climb(id).stands(Status::Completed);
    story.node_is("pay", NodePhase::Skipped).node_is("tell", NodePhase::Completed);
}

#[test]
fn silence_is_no_approval() {
    let primitive = of_kind("gate", "core.interrupt").config("kind", json!("approval")).config(
        "data",
        json!({ "artifactId": "a", "artifactType": "t", "title": "T", "actions": ["accept", "reject"] }),
    );
    let list = json!([{ "kind": "approval", "data": {
        "artifactId": "a", "artifactType": "t", "title": "T", "actions": ["accept", "reject"],
    }}]);
    let several = of_kind("gate", "core.interrupt").config("interrupts", list);
    let request = of_kind("gate", "core.hitl.approval-request").config("title", json!("T"));
    for gate in [approval("gate"), primitive, several, request] {
        for value in [accept(), json!({ "decision": "approve" }), json!({ "decision": "approved" })] {
            for fallback in ["complete_with_fallback", "use_default_and_continue", "fail"] {
                let ladder = minute(fallback, Some(value.clone()));
                let told = places(&gated(gate.clone().setting("ladder", ladder)).problems());
                let place = "nodes['gate'].settings.abide.ladder.fallback_value";
                assert_eq!(told.keys().collect::<Vec<_>>(), [place], "{value}");
            }
        }
    }
}

#[test]
fn an_approval_by_fallback_is_refused_when_it_is_asked_for_too() {
    // What is asked is known only then, since a port gives it.
    let title = workflow::fixed(&json!("Pay?"));
    let ladder = minute("complete_with_fallback", Some(accept()));
    let by_port =
        of_kind("gate", "core.approvalGate").input("title", title).setting("ladder", ladder.clone());
    let by_template = of_kind("gate", "core.approvalGate")
        .config("title", json!("Pay {{ inputs.n }}?"))
        .input("n", workflow::fixed(&json!(7)))
        .setting("ladder", ladder);
    // The policy that takes the value may come from elsewhere.
    let inherited = of_kind("gate", "core.approvalGate")
        .input("title", workflow::fixed(&json!("Pay?")))
        .setting("ladder", json!({ "fallback_value": accept() }));
    let platform = json!({ "interval_seconds": 60, "final_fallback_policy": "use_default_and_continue" });
    for gate in [by_port, by_template, inherited] {
        let story = Story::of(&gated(gate)).under(said(Some(&platform), None)).start();
        let story = story.expect(["run.started", "node.started gate", "node.failed gate", "run.failed"]);
        let error = story.run().error().expect("it failed");
        assert_eq!(error.code, "invalid_ladder");
        assert!(error.message.starts_with("settings.abide.ladder.fallback_value: "), "{}", error.message);
    }
}

#[test]
fn a_fallback_value_has_to_be_an_answer() {
    let choice = question("gate")
        .config("responseType", json!("choice"))
        .config("choices", json!([{ "value": "red", "label": "Red" }]));
    let strict = custom("gate", "k").config("resumeSchema", json!({ "type": "number" }));
    let event = of_kind("gate", "core.interrupt")
        .config("kind", json!("external-event"))
        .config("data", json!({ "eventType": "paid", "correlation": { "order": 7 } }));
    for (gate, bad) in [
        (choice, json!("green")),
        (strict, json!("7")),
        (event, json!({ "eventPayload": { "order": 8 } })),
        (approval("gate"), json!("reject")),
        (approval("gate"), json!({ "action": "refine", "refineFeedback": { "scope": "whole" } })),
        (
            of_kind("gate", "core.hitl.form-request").config("formSchema", json!({ "n": {} })),
            json!({ "n": 1 }),
        ),
    ] {
        let ladder = minute("use_default_and_continue", Some(bad.clone()));
        let told = places(&gated(gate.setting("ladder", ladder)).problems());
        let message = &told["nodes['gate'].settings.abide.ladder.fallback_value"];
        assert!(message.contains("no answer to the question"), "{bad}: {message}");
    }
}

#[test]
fn an_expired_question_is_closed_once_and_takes_no_answer() {
    let story = Story::of(&asking(minute("complete_with_fallback", Some(json!("no idea"))))).start();
    let id = story.asked();
    let story = story.at(secs(60)).climb(id);
    let closed: Vec<_> = refold(&story)
        .1
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::CloseInterrupt(closed) => Some(closed),
            _ => None,
        })
        .collect();
    assert_eq!(closed.len(), 1);
    assert_eq!((closed[0].id, closed[0].outcome, closed[0].told), (id, Resolution::Expired, true));
    assert_eq!((closed[0].by.as_str(), closed[0].at), ("system:ladder", BEGIN + secs(60)));
    let story = story.answer_to(id, &well(), "late").refused(&Rejection::AlreadyResolved);
    assert_eq!(story.armed(), None);
    story.outputs("gate", Some(r#"{"answer":"no idea"}"#));
}

#[test]
fn whoever_is_late_is_refused_although_nobody_has_heard_the_timer() {
    let story = Story::of(&asking(minute("fail", None))).start();
    let id = story.asked();
    for late in [0, 1, hours(1)] {
        let story = story.clone().at(secs(60) + late).answer_to(id, &well(), "late");
        let story = story.refused(&Rejection::AlreadyResolved).climb(id).stands(Status::Failed);
        assert_eq!(story.count("interrupt.expired"), 1, "and the end comes as if nobody had come");
    }
    story.at(secs(60) - 1).answer_to(id, &well(), "in time").stands(Status::Completed);
}

#[test]
fn a_late_answer_is_late_before_it_is_anything_else() {
    let gate = question("gate").config("responseType", json!("confirm"));
    let story = Story::of(&gated(gate.setting("ladder", minute("fail", None)))).start();
    let id = story.asked();
    let nonsense = json!({ "answers": { "answer": "perhaps" } });
    let story = story.at(secs(60)).answer_to(id, &nonsense, "late").refused(&Rejection::AlreadyResolved);
    story.climb(id).answer_to(id, &nonsense, "late").refused(&Rejection::AlreadyResolved);
}

#[test]
fn an_expiry_is_a_decision_and_not_tried_again() {
    let gate = question("gate").setting("ladder", minute("fail", None));
    let story = Story::of(&gated(gate).settings("maxRetries", json!(3))).start();
    let id = story.asked();
    let story = story.at(secs(60)).climb(id).stands(Status::Failed);
    let begun = story.history().iter().filter(|line| *line == "node.started gate").count();
    assert_eq!((begun, story.count("interrupt.requested")), (1, 1));
}

#[test]
fn a_failure_by_expiry_may_be_taken_over_from() {
    let gate = question("gate").setting("ladder", minute("fail", None));
    let story = Story::of(&workflow([gate, noop("mend")]).under("any_failed", "gate > mend")).start();
    let id = story.asked();
    let story = story.at(secs(60)).climb(id).stands(Status::Completed);
    story.node_is("gate", NodePhase::Failed).node_is("mend", NodePhase::Completed);
}

#[test]
fn a_question_without_any_time_waits_for_ever() {
    let story = Story::of(&asking(json!({ "fallback_policy": "fail", "channel_hint": "slack" }))).start();
    let id = story.asked();
    assert_eq!((story.run().timers().len(), story.notified()), (0, vec![1]));
    assert_eq!(story.run().interrupt(id).expect("it is open").deadline(), None);
    story.at(hours(90_000)).answer_to(id, &well(), "alice").stands(Status::Completed);
}

#[test]
fn what_stands_for_a_secret_answer_is_kept_as_one() {
    let gate = question("gate").setting("sensitive", json!(true));
    let story = expired(gate, minute("use_default_and_continue", Some(json!("marker"))));
    for name in ["interrupt.resolved", "clarification.resolved"] {
        assert_eq!(story.all(name)[0]["sensitive"], true, "{name}");
    }
}
