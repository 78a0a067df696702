//! Nodes that stop for an answer: what is asked, what is answered, and what becomes of it.

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{
    Command, Hold, InterruptKind, Json, JsonMap, NodePhase, Rejection, Resolve, Run, Status, Stop, TimerId,
    Waiting,
};
use serde_json::{Value, json};
use story::{BEGIN, Story, hours, run_id};
use workflow::{Sketch, Workflow, delay, fail, identity, noop, of_kind, output, workflow};

fn approval(id: &str) -> Sketch {
    of_kind(id, "core.approvalGate").config("title", json!("Pay?"))
}

fn questions(id: &str) -> Sketch {
    let colour = json!([{ "id": "colour", "question": "Which?", "schema": { "enum": ["red", "blue"] } }]);
    of_kind(id, "core.clarificationGate").config("questions", colour)
}

fn event(id: &str, event_type: &str) -> Sketch {
    of_kind(id, "core.interrupt")
        .config("kind", json!("external-event"))
        .config("data", json!({ "eventType": event_type, "correlation": { "order": 7 } }))
}

fn custom(id: &str, key: &str) -> Sketch {
    of_kind(id, "core.interrupt")
        .config("kind", json!("custom"))
        .config("key", json!(key))
        .config("data", json!({ "customKind": "any", "payload": {} }))
}

fn gated() -> Workflow {
    workflow([approval("gate"), noop("next")]).flow("gate > next")
}

fn accept() -> Value {
    json!({ "action": "accept" })
}

fn reject() -> Value {
    json!({ "action": "reject", "feedback": "too much" })
}

mod asking {
    use super::*;

    #[test]
    fn a_gate_stops_its_run_and_an_answer_lets_it_go_on() {
        let story = Story::of(&gated())
            .start()
            .expect(["run.started", "node.started gate", "interrupt.requested gate", "node.suspended gate"])
            .expect_effects(["open approval gate"])
            .stands(Status::WaitingApproval)
            .node_is("gate", NodePhase::Suspended);
        assert!(story.run().is_parked());
        let story = story
            .after(hours(9_000))
            .answer("gate", &accept())
            .expect([
                "approval.received gate",
                "interrupt.resolved gate",
                "node.resumed gate",
                "node.completed gate",
                "node.started next",
                "node.completed next",
                "run.completed",
            ])
            .stands(Status::Completed);
        let outputs: Value =
            serde_json::from_str(story.node("gate").outputs.as_ref().unwrap().text()).unwrap();
        assert_eq!((&outputs["action"], &outputs["decidedBy"]), (&json!("accept"), &json!("alice")));
    }

    #[test]
    fn what_another_node_made_is_what_is_decided_about() {
        let draft = json!({ "amount": 120, "deep": { "list": [1, null, "x"] } });
        let made = identity("made").input("draft", workflow::fixed(&draft));
        let gate = approval("gate").input("artifact", output("made", "draft"));
        let story = Story::of(&workflow([made, gate]).flow("made > gate")).start();
        let asked: Value = serde_json::from_str(&story.payload("interrupt.requested")).unwrap();
        assert_eq!(asked["data"]["artifactData"], draft);
        let story = story.answer("gate", &accept());
        let outputs: Value =
            serde_json::from_str(story.node("gate").outputs.as_ref().unwrap().text()).unwrap();
        assert_eq!(outputs["artifactData"], draft);
    }

    #[test]
    fn the_answers_of_people_reach_the_node_by_question() {
        let story = Story::of(&workflow([questions("ask")])).start().stands(Status::WaitingInput);
        let story =
            story.answer("ask", &json!({ "answers": [{ "id": "colour", "answer": "red" }] })).expect([
                "clarification.resolved ask",
                "interrupt.resolved ask",
                "node.resumed ask",
                "node.completed ask",
                "run.completed",
            ]);
        let told: Value = serde_json::from_str(&story.payload("clarification.resolved")).unwrap();
        assert_eq!(told["answers"], json!({ "colour": "red" }));
        story.outputs("ask", Some(r#"{"answers":{"colour":"red"}}"#));
        let by_id = Story::of(&workflow([questions("ask")])).start();
        let by_id = by_id.answer("ask", &json!({ "answers": { "colour": "red" } }));
        let again: Value = serde_json::from_str(&by_id.payload("clarification.resolved")).unwrap();
        assert_eq!(again["answers"], told["answers"], "either form is told the same");
    }

    #[test]
    fn one_kind_after_the_other_shows_what_is_most_urgent() {
        let story =
            Story::of(&workflow([event("event", "paid"), questions("ask"), approval("gate")])).start();
        let story =
            story.stands(Status::WaitingApproval).answer("gate", &accept()).stands(Status::WaitingInput);
        let story = story.answer("ask", &json!({ "answers": { "colour": "blue" } }));
        let story = story.stands(Status::WaitingExternal);
        story.answer("event", &json!({ "eventPayload": { "order": 7 } })).stands(Status::Completed);
    }

    #[test]
    fn keys_are_of_an_execution_unless_they_are_given() {
        let both = json!([
            { "kind": "custom", "data": { "customKind": "a" } },
            { "kind": "custom", "data": { "customKind": "b" } },
        ]);
        let story =
            Story::of(&workflow([of_kind("two", "core.interrupt").config("interrupts", both)])).start();
        let open = story.open_at("two");
        let keys: Vec<&str> =
            open.iter().map(|id| story.run().interrupt(*id).unwrap().requested.key.as_str()).collect();
        let run = run_id(1);
        assert_eq!(keys, [format!("{run}:two:1:1"), format!("{run}:two:1:2")]);
        assert_eq!(story.run().interrupt_of("two"), Err(Rejection::SeveralOpen(open.clone())));
        let story = story.answer_to(open[1], &json!("second"), "bob").expect(["interrupt.resolved two"]);
        let story = story.stands(Status::WaitingInput).answer("two", &json!("first"));
        story.outputs("two", Some(r#"{"resumeValues":["first","second"]}"#)).stands(Status::Completed);
    }

    #[test]
    fn a_key_that_is_answered_is_not_asked_again() {
        let flow = workflow([custom("one", "k"), custom("two", "k")]).flow("one > two");
        let story = Story::of(&flow).start().answer("one", &json!([1, { "deep": true }])).expect([
            "interrupt.resolved one",
            "node.resumed one",
            "node.completed one",
            "node.started two",
            "node.completed two",
            "run.completed",
        ]);
        story.outputs("two", Some(r#"{"resumeValue":[1,{"deep":true}]}"#));
    }

    #[test]
    fn a_key_that_is_being_asked_is_joined() {
        let story = Story::of(&workflow([custom("one", "k"), custom("two", "k")])).start();
        let asked = story.history().iter().filter(|line| line.starts_with("interrupt.requested")).count();
        assert_eq!((asked, story.open_at("one")), (1, story.open_at("two")));
        story
            .answer("two", &json!("both"))
            .outputs("one", Some(r#"{"resumeValue":"both"}"#))
            .stands(Status::Completed);
    }

    #[test]
    fn a_key_for_something_else_is_an_error_that_says_so() {
        let other = of_kind("two", "core.interrupt")
            .config("kind", json!("clarification"))
            .config("key", json!("k"))
            .config("data", json!({ "questions": [{ "id": "q", "question": "?" }] }));
        let story = Story::of(&workflow([custom("one", "k"), other]).flow("one > two")).start();
        let story = story.answer("one", &json!(1));
        let told = "the key 'k' was used in this run for another kind; use another key";
        story.failed_with("interrupt_key_conflict", told);
    }

    #[test]
    fn a_loop_asks_again_under_a_key_of_its_own() {
        let flow = workflow([identity("draft"), approval("gate"), noop("done")])
            .flow("draft > gate")
            .flow("gate > draft")
            .when("output.action == 'reject'")
            .flow("gate > done")
            .when("output.action == 'accept'");
        let story = Story::of(&flow).start();
        let first = story.open_at("gate");
        let story = story.answer("gate", &reject()).stands(Status::WaitingApproval);
        assert_ne!(story.open_at("gate"), first);
        let asked: Value = serde_json::from_str(&story.payload("interrupt.requested")).unwrap();
        assert_eq!(asked["key"], format!("{}:gate:2:1", run_id(1)));
        story.answer("gate", &accept()).stands(Status::Completed);
    }
}

mod deciding {
    use super::*;

    #[test]
    fn a_rejection_that_nothing_routes_fails_the_run() {
        let story = Story::of(&gated()).start().answer("gate", &reject());
        let story = story.stands(Status::Failed).node_is("next", NodePhase::Pending);
        let error = story.run().error().unwrap();
        assert_eq!(error.code, "approval_rejected");
        assert!(error.message.contains("alice") && error.message.contains("too much"), "{}", error.message);
        let details: Value = serde_json::from_str(error.details.as_ref().unwrap().text()).unwrap();
        assert_eq!(details["action"], "reject");
    }

    #[test]
    fn a_rejection_follows_the_edges_that_ask_for_it_and_no_other() {
        let flow = workflow([approval("gate"), noop("pay"), noop("tell")])
            .flow("gate > pay")
            .flow("gate > tell")
            .when("output.action == 'reject'");
        let rejected = Story::of(&flow).start().answer("gate", &reject()).stands(Status::Completed);
        let rejected = rejected.node_is("pay", NodePhase::Skipped).node_is("tell", NodePhase::Completed);
        drop(rejected);
        let accepted = Story::of(&flow).start().answer("gate", &accept()).stands(Status::Completed);
        accepted.node_is("pay", NodePhase::Completed).node_is("tell", NodePhase::Skipped);
    }

    #[test]
    fn a_rejection_may_be_taken_over_from_like_any_failure() {
        let flow = workflow([approval("gate"), noop("mend")]).under("any_failed", "gate > mend");
        let story = Story::of(&flow).start().answer("gate", &reject()).stands(Status::Completed);
        story.node_is("gate", NodePhase::Failed).node_is("mend", NodePhase::Completed);
    }

    #[test]
    fn one_answer_is_taken() {
        let story = Story::of(&gated()).start();
        let id = story.open_at("gate")[0];
        let story = story.answer_to(id, &accept(), "alice");
        let story = story.answer_to(id, &reject(), "bob").refused(&Rejection::AlreadyResolved);
        story.stands(Status::Completed);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let story = Story::of(&workflow([questions("ask")])).start();
        let id = story.open_at("ask")[0];
        let answer = json!({ "answers": { "colour": "green" } });
        let by = abide_core::Answerer::of("alice");
        let resolve = Command::Resolve(Resolve { id, value: Json::of(&answer), by });
        let mut run = story.run().clone();
        let Err(Rejection::BadAnswer(errors)) = run.decide(resolve, BEGIN) else { panic!("it is refused") };
        assert!(errors[0].path.contains("colour"), "{errors:?}");
        let story = story.answer("ask", &json!({ "answers": { "colour": "red" } }));
        story.stands(Status::Completed);
    }

    #[test]
    fn an_id_that_was_never_given_out_is_unknown() {
        let story = Story::of(&gated()).start();
        let other = Story::of(&workflow([noop("x"), approval("gate")]).flow("x > gate")).start();
        let foreign = other.open_at("gate")[0];
        story.answer_to(foreign, &accept(), "mallory").refused(&Rejection::NoSuchInterrupt);
        assert_eq!(other.run().interrupt_of("x"), Err(Rejection::NoSuchInterrupt));
        assert_eq!(other.run().interrupt_of("nobody"), Err(Rejection::NoSuchInterrupt));
    }
}

mod time {
    use super::*;

    fn limited(ms: i64) -> Workflow {
        workflow([approval("gate").config("timeoutMs", json!(ms)), noop("next")]).flow("gate > next")
    }

    #[test]
    fn an_approval_that_nobody_gave_in_time_is_rejected() {
        let story = Story::of(&limited(60_000)).start();
        let id = story.open_at("gate")[0];
        let timer = TimerId::Interrupt(id).to_string();
        let story = story.expect_effects([&format!("arm {timer} +60000"), "open approval gate"]);
        let story =
            story.after(59_999).fire_timer(&timer).refused(&Rejection::NotDue { due: BEGIN + 60_000 });
        let story = story.after(1).fire_timer(&timer).expect([
            "approval.received gate",
            "interrupt.resolved gate",
            "node.resumed gate",
            "node.failed gate",
            "run.failed",
        ]);
        let received: Value = serde_json::from_str(&story.payload("approval.received")).unwrap();
        assert_eq!(
            (&received["action"], &received["decidedBy"]),
            (&json!("timeout"), &json!("system:timeout"))
        );
        let resolved: Value = serde_json::from_str(&story.payload("interrupt.resolved")).unwrap();
        assert_eq!((&resolved["outcome"], &resolved["reason"]), (&json!("rejected"), &json!("timeout")));
        assert_eq!(story.run().error().unwrap().code, "approval_timeout");
        story.answer_to(id, &accept(), "late").refused(&Rejection::AlreadyResolved);
    }

    #[test]
    fn an_answer_after_the_deadline_is_late_even_before_the_timer_is_heard() {
        let story = Story::of(&limited(60_000)).start();
        let id = story.open_at("gate")[0];
        story.after(60_000).answer_to(id, &accept(), "late").refused(&Rejection::AlreadyResolved);
    }

    #[test]
    fn no_limit_is_no_timer() {
        for flow in [gated(), limited(0)] {
            let story = Story::of(&flow).start().expect_effects(["open approval gate"]);
            story.after(366 * hours(24)).answer("gate", &accept()).stands(Status::Completed);
        }
    }

    #[test]
    fn what_waits_for_a_time_is_resolved_by_it() {
        let flow = workflow([event("wait", "scheduled-time:2023-11-14T23:13:20Z")]);
        let story = Story::of(&flow).start().stands(Status::WaitingExternal);
        let timer = TimerId::Occasion(story.open_at("wait")[0]).to_string();
        let story = story.after(hours(1)).fire_timer(&timer).stands(Status::Completed);
        let resolved: Value = serde_json::from_str(&story.payload("interrupt.resolved")).unwrap();
        assert_eq!(
            (&resolved["outcome"], &resolved["resolvedBy"]),
            (&json!("resolved"), &json!("system:schedule"))
        );
    }

    #[test]
    fn a_runs_time_stands_still_while_nothing_but_an_answer_is_waited_for() {
        let flow = workflow([approval("gate"), delay("sleep", 1_000)])
            .flow("gate > sleep")
            .settings("timeout", json!(1_500));
        let story = Story::of(&flow).start();
        assert!(!story.run().timers().contains_key(&TimerId::RunTimeout));
        let story = story.after(hours(48)).answer("gate", &accept());
        let due = story.run().timers()[&TimerId::RunTimeout];
        assert_eq!(due, BEGIN + hours(48) + 1_500);
        story.after(1_000).fire("sleep").stands(Status::Completed);
    }

    #[test]
    fn a_delay_beside_an_answer_is_machine_time() {
        let flow = workflow([approval("gate"), delay("sleep", 5_000)]).settings("timeout", json!(1_500));
        let story = Story::of(&flow).start().after(1_500).fire_timer("run-timeout");
        assert_eq!(story.run().error().unwrap().code, "run_timeout");
    }
}

mod ending {
    use super::*;

    #[test]
    fn what_nobody_answers_in_time_fails_its_call() {
        let limited = custom("one", "k").config("timeoutMs", json!(5));
        let story =
            Story::of(&workflow([limited, custom("two", "k")]).under("any_failed", "one > two")).start();
        let timer = TimerId::Interrupt(story.open_at("one")[0]).to_string();
        let story = story.after(5).fire_timer(&timer).expect([
            "interrupt.resolved one",
            "node.resumed one",
            "node.failed one",
            "node.started two",
            "node.failed two",
            "run.failed",
        ]);
        for node in ["one", "two"] {
            let error = story.node(node).error.clone().unwrap();
            assert_eq!(error.code, "interrupt_timeout");
            assert!(error.message.contains("InterruptTimeoutError"));
        }
    }

    #[test]
    fn a_decision_is_never_tried_again() {
        let flow = workflow([approval("gate")]).settings("maxRetries", json!(3));
        let story = Story::of(&flow).start().answer("gate", &reject()).stands(Status::Failed);
        let begun = story.history().iter().filter(|line| *line == "node.started gate").count();
        assert_eq!((begun, story.node("gate").attempt), (1, 0));
    }

    #[test]
    fn a_cancelled_run_leaves_nothing_open() {
        let story = Story::of(&gated()).start();
        let id = story.open_at("gate")[0];
        let story = story
            .cancel()
            .expect(["interrupt.resolved gate", "node.cancelled gate", "run.cancelled"])
            .expect_effects(["close approval"]);
        let resolved: Value = serde_json::from_str(&story.payload("interrupt.resolved")).unwrap();
        assert_eq!(
            (&resolved["outcome"], &resolved["reason"]),
            (&json!("cancelled"), &json!("run-cancelled"))
        );
        story.answer_to(id, &accept(), "late").refused(&Rejection::InterruptCancelled);
    }

    #[test]
    fn a_run_that_goes_with_its_parent_says_that_the_interrupt_is_gone() {
        let story = Story::of(&gated()).child_of(run_id(9), "child").start();
        let id = story.open_at("gate")[0];
        let cancelled = abide_core::Cancellation {
            reason: Some("parent-cancelled".to_owned()),
            cancelled_by: None,
            parent_run_id: Some(run_id(9)),
            abandonment_reason: None,
        };
        let story = story.ask(Command::Cancel(cancelled));
        story.answer_to(id, &accept(), "late").refused(&Rejection::InterruptGone);
    }

    #[test]
    fn a_run_that_fails_elsewhere_closes_what_is_open() {
        let story =
            Story::of(&workflow([approval("gate"), delay("sleep", 10), fail("boom")]).flow("sleep > boom"))
                .start();
        let id = story.open_at("gate")[0];
        let story =
            story.after(10).fire("sleep").stands(Status::Failed).node_is("gate", NodePhase::Cancelled);
        story.answer_to(id, &accept(), "late").refused(&Rejection::AlreadyResolved);
    }

    #[test]
    fn the_call_of_a_cancelled_node_fails_so() {
        let story = Story::of(&workflow([custom("one", "k")])).start().cancel();
        let payload = json!({ "kind": "custom", "key": "k", "data": { "customKind": "any", "payload": {} } });
        let stop = story.run().context("one").unwrap().interrupt(&Json::of(&payload)).unwrap_err();
        let Stop::Failed(failure) = stop else { panic!("it does not wait") };
        assert_eq!(failure.code, "interrupt_cancelled");
        assert!(failure.message.contains("InterruptCancelledError"));
    }

    #[test]
    fn what_waits_for_an_answer_is_not_paused() {
        let story = Story::of(&gated()).start().pause().refused(&Rejection::Waiting(Waiting::Approval));
        assert_eq!(story.run().hold(), Hold::None);
        story.answer("gate", &accept()).stands(Status::Completed);
    }
}

mod context {
    use super::*;

    #[test]
    fn an_attempt_that_is_made_again_gets_the_stored_answer() {
        let payload = json!({ "kind": "custom", "data": { "customKind": "any", "payload": {} } });
        let both = json!([payload, { "kind": "custom", "data": { "customKind": "other" } }]);
        let story =
            Story::of(&workflow([of_kind("gate", "core.interrupt").config("interrupts", both)])).start();
        let first = story.open_at("gate")[0];
        let story = story.answer_to(first, &json!("kept"), "alice");
        // The execution is begun again from the top, as after a crash or a failed attempt: the first call knows its answer.
        for _ in 0..2 {
            assert_eq!(call(story.run(), &payload), Ok(Json::of("kept")));
        }
    }

    #[test]
    fn every_node_that_stops_for_the_outside_has_an_interrupt() {
        let request = of_kind("request", "core.hitl.approval-request").config("title", json!("T"));
        let form = of_kind("form", "core.hitl.form-request")
            .config("formSchema", json!({ "name": { "type": "string", "title": "Your name?" } }));
        let ask = of_kind("user", "core.hitl.ask-user").config("question", json!("Well?"));
        let nodes = [
            approval("gate"),
            questions("ask"),
            event("event", "paid"),
            custom("own", "k"),
            request,
            form,
            ask,
        ];
        let story = Story::of(&workflow(nodes)).start();
        let suspended = story.run().nodes().iter().filter(|node| node.phase == NodePhase::Suspended).count();
        assert_eq!((suspended, story.run().interrupts().count()), (7, 7));
        let story = story.answer("form", &json!({ "answers": { "name": "Ada" } }));
        let story = story.outputs("form", Some(r#"{"values":{"name":"Ada"}}"#)).answer("request", &accept());
        let outputs: Value =
            serde_json::from_str(story.node("request").outputs.as_ref().unwrap().text()).unwrap();
        assert_eq!((&outputs["decision"], &outputs["decidedBy"]), (&json!("approved"), &json!("alice")));
    }

    fn call(run: &Run, payload: &Value) -> Result<Json, Stop> {
        run.context("gate").expect("there is such a node").interrupt(&Json::of(payload))
    }

    #[test]
    fn all_eight_kinds_are_read_and_a_ninth_is_not() {
        let story = Story::of(&gated()).start();
        let data = |kind: InterruptKind| match kind {
            InterruptKind::Approval => {
                json!({ "artifactId": "a", "artifactType": "t", "title": "T", "actions": ["accept"] })
            }
            InterruptKind::Clarification => json!({ "questions": [{ "id": "q", "question": "?" }] }),
            InterruptKind::ExternalEvent => json!({ "eventType": "e", "correlation": {} }),
            InterruptKind::Custom => json!({ "customKind": "c", "payload": 1 }),
            InterruptKind::ConversationStart => json!({ "conversationId": "c" }),
            InterruptKind::ConversationExchange => json!({ "conversationId": "c", "prompt": "p" }),
            InterruptKind::ConversationClose => json!({ "conversationId": "c" }),
            InterruptKind::LowConfidence => json!({ "agentId": "agent", "threshold": 0.7, "observed": 0.5 }),
        };
        for kind in InterruptKind::ALL {
            let payload = json!({ "kind": kind.name(), "key": kind.name(), "data": data(kind) });
            assert!(abide_core::Ask::read(&Json::of(&payload)).is_ok(), "{kind}");
        }
        let ninth = json!({ "kind": "credential", "data": {} });
        assert!(
            matches!(call(story.run(), &ninth), Err(Stop::Failed(failure)) if failure.code == "invalid_interrupt")
        );
    }

    #[test]
    fn a_call_that_contradicts_itself_asks_nothing() {
        let story = Story::of(&gated()).start();
        let data = json!({ "customKind": "c" });
        let payload = json!({ "kind": "custom", "reason": "clarification", "data": data });
        let stop = story.run().context("gate").unwrap().suspend(&Json::of(&payload)).unwrap_err();
        let Stop::Failed(failure) = stop else { panic!("it is refused") };
        assert_eq!(failure.code, "invalid_interrupt");
        assert!(
            failure.message.contains("kind") && failure.message.contains("reason"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn both_names_share_their_keys() {
        let request =
            of_kind("one", "core.hitl.ask-user").config("question", json!("Name?")).config("key", json!("k"));
        let ask = of_kind("two", "core.clarificationGate")
            .config("key", json!("k"))
            .config("questions", json!([{ "id": "answer", "question": "Name?" }]));
        let story = Story::of(&workflow([request, ask]).flow("one > two")).start();
        let asked: JsonMap = serde_json::from_str(&story.payload("interrupt.requested")).unwrap();
        assert!(asked.contains_key("kind") && asked.contains_key("key") && !asked.contains_key("reason"));
        let story = story.answer("one", &json!({ "answers": { "answer": "Ada" } })).stands(Status::Completed);
        let story = story.outputs("one", Some(r#"{"answer":"Ada"}"#));
        story.outputs("two", Some(r#"{"answers":{"answer":"Ada"}}"#));
    }
}
