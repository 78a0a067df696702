//! Gates that must not be passed by mistake, and what must not be told of them.

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Json, NodePhase, Status, Stop};
use serde_json::{Value, json};
use story::{Story, run_id};
use workflow::{Sketch, Workflow, noop, of_kind, workflow};

fn approval(id: &str) -> Sketch {
    of_kind(id, "core.approvalGate").config("title", json!("Pay?"))
}

/// A question of one's own, by the plain primitive.
fn custom(id: &str) -> Sketch {
    of_kind(id, "core.interrupt")
        .config("kind", json!("custom"))
        .config("data", json!({ "customKind": "any", "payload": {} }))
}

fn accept() -> Value {
    json!({ "action": "accept" })
}

fn reject() -> Value {
    json!({ "action": "reject", "feedback": "too much" })
}

mod passing {
    use super::*;

    /// A gate that somebody decides against, and one way on with this condition.
    fn on(condition: Value) -> Workflow {
        workflow([approval("gate"), noop("pay")])
            .variable("auto", "boolean")
            .or(json!(true))
            .flow("gate > pay")
            .edge("condition", condition)
    }

    #[test]
    fn a_condition_on_something_else_lets_no_rejection_pass() {
        for condition in [
            json!({ "type": "expression", "expression": "variables.auto" }),
            json!({ "type": "expression", "expression": "output.artifactType == 'artifact'" }),
            json!({ "type": "expression", "expression": "status == 'completed'" }),
            json!({ "type": "truthy", "left": "auto" }),
            json!({ "type": "truthy", "left": "output.artifactType" }),
        ] {
            let story = Story::of(&on(condition.clone())).start().answer("gate", &reject());
            assert_eq!(story.run().status(), Status::Failed, "{condition}");
            story.node_is("pay", NodePhase::Pending);
            Story::of(&on(condition)).start().answer("gate", &accept()).stands(Status::Completed);
        }
        for condition in [
            json!({ "type": "expression", "expression": "nodes.gate.outputs.action == 'reject'" }),
            json!({ "type": "equals", "left": "action", "right": "reject" }),
            json!({ "type": "notEquals", "left": "output.action", "right": "accept" }),
        ] {
            let story = Story::of(&on(condition)).start().answer("gate", &reject());
            story.stands(Status::Completed).node_is("pay", NodePhase::Completed);
        }
    }

    /// A gate that asks by the plain primitive, and what it guards.
    fn guarded(key: &str, asked: Value) -> Workflow {
        let mut gate = of_kind("gate", "core.interrupt").config(key, asked);
        if key == "data" {
            gate = gate.config("kind", json!("approval"));
        }
        workflow([gate, noop("pay")]).flow("gate > pay")
    }

    fn letter() -> Value {
        json!({ "artifactId": "a", "artifactType": "letter", "title": "Pay?", "actions": ["accept", "reject"] })
    }

    #[track_caller]
    fn stopped(story: Story) {
        let story = story.stands(Status::Failed).node_is("pay", NodePhase::Pending);
        assert_eq!(story.run().error().expect("it failed").code, "approval_rejected");
    }

    #[test]
    fn a_rejection_stops_what_asked_by_the_plain_primitive_too() {
        let start = || Story::of(&guarded("data", letter())).start();
        stopped(start().answer("gate", &reject()));
        start().answer("gate", &accept()).stands(Status::Completed);
    }

    #[test]
    fn one_rejection_of_several_stops_what_asked() {
        let list = json!([
            { "kind": "custom", "data": { "customKind": "any" } },
            { "kind": "approval", "data": letter() },
        ]);
        let answered = |first: Value, second: Value| {
            let story = Story::of(&guarded("interrupts", list.clone())).start();
            let open = story.open_at("gate");
            story.answer_to(open[0], &first, "bob").answer_to(open[1], &second, "bob")
        };
        stopped(answered(json!(1), reject()));
        // What is no approval may look like a rejection.
        answered(reject(), accept()).stands(Status::Completed);
    }

    #[test]
    fn a_gate_that_can_not_tell_what_to_ask_lets_nothing_pass() {
        for given in [json!("all"), json!({}), json!(7)] {
            let gate = of_kind("gate", "core.interrupt").input("interrupts", workflow::fixed(&given));
            let story = Story::of(&workflow([gate, noop("pay")]).flow("gate > pay")).start();
            let story = story.stands(Status::Failed).node_is("pay", NodePhase::Pending);
            assert_eq!(story.run().error().expect("it failed").code, "invalid_interrupt");
        }
    }
}

mod keeping {
    use super::*;

    #[test]
    fn what_was_said_in_a_rejection_is_withheld_if_answers_are_never_shown() {
        let said = json!({ "action": "reject", "feedback": "marker-1", "reason": "marker-2" });
        for gate in [
            approval("gate").setting("sensitive", json!(true)),
            approval("gate").with("outputSensitivity", json!({ "feedback": true })),
        ] {
            let story = Story::of(&workflow([gate])).start().answer("gate", &said).stands(Status::Failed);
            for event in ["node.failed", "run.failed"] {
                let payload = story.payload(event);
                assert!(payload.contains("approval_rejected") && !payload.contains("marker"), "{payload}");
            }
        }
    }

    #[test]
    fn a_key_made_of_something_sensitive_is_marked_so() {
        let gate =
            custom("gate").config("key", json!("{{ inputs.pin }}")).input("pin", workflow::variable("pin"));
        let flow = workflow([gate]).variable("pin", "string").sensitive();
        let story = Story::of(&flow).input("pin", &json!("1234")).start();
        for event in ["interrupt.requested", "node.suspended"] {
            let payload: Value = serde_json::from_str(&story.payload(event)).unwrap();
            assert_eq!((&payload["key"], &payload["sensitive"]), (&json!("1234"), &json!(true)), "{event}");
        }
    }

    #[test]
    fn a_key_that_stands_for_none_is_shared_with_nobody() {
        let forged = custom("two").config("key", json!(format!("{}:one:1:1", run_id(1))));
        let story = Story::of(&workflow([custom("one"), forged])).start().stands(Status::Failed);
        assert_eq!(story.run().error().expect("it failed").code, "interrupt_key_conflict");
    }

    #[test]
    fn what_is_in_every_snapshot_has_a_bound_schemas_and_questions_of_one_call_included() {
        let story = Story::of(&workflow([noop("only")])).start();
        let all = |count: usize, payload: &Value| {
            let payloads = vec![Json::of(payload); count];
            story.run().context("only").unwrap().all(&payloads).unwrap_err()
        };
        let text = |kib: usize| "x".repeat(kib * 1024);
        let long = json!({ "kind": "custom", "data": { "customKind": "any", "payload": text(900) } });
        let schema = json!({ "type": "string", "description": text(60) });
        let strict = json!({ "kind": "custom", "data": { "customKind": "any" }, "resumeSchema": schema });
        for (payload, few, many) in [(long, 9, 10), (strict, 100, 160)] {
            assert_eq!(all(few, &payload), Stop::Suspended);
            let stop = all(many, &payload);
            assert!(matches!(&stop, Stop::Failed(failure) if failure.code == "interrupt_limit"), "{stop:?}");
        }
    }
}
