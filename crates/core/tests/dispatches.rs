//! Supervisors and dispatches: which workers run, one after the other, and what their ends mean.

#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "commands.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Failure, Lifecycle, Rejection, Status};
use serde_json::{Value, json};
use story::{Story, json as as_json};
use workflow::{Sketch, Workflow, identity, noop, of_kind, task, variable, workflow};

fn supervised(plan: Value, dispatch: Sketch) -> Workflow {
    let lead = of_kind("lead", "core.orchestrator.supervisor").config("mockDispatchPlan", plan);
    workflow([lead, dispatch, noop("after")]).flow("lead > work > lead").flow("work > after").with_mocks()
}

fn work() -> Sketch {
    of_kind("work", "core.dispatch")
}

fn next(workers: &[&str]) -> Value {
    json!({"kind": "next-worker", "nextWorkerIds": workers})
}

#[test]
fn workers_run_one_after_the_other_until_the_supervisor_terminates() {
    let plan = json!([next(&["pick", "pack"]), next(&["ship"]), {"kind": "terminate", "reason": "done"}]);
    let story = Story::of(&supervised(plan, work()))
        .start()
        .expect([
            "run.started",
            "node.started lead",
            "runOrchestrator.decided lead",
            "node.completed lead",
            "node.started work",
            "node.spawned work",
        ])
        .expect_effects(["spawn pick for work"])
        .child_ends("work", Lifecycle::Completed, &json!({}))
        .expect(["child.reported", "node.spawned work"])
        .child_ends("work", Lifecycle::Completed, &json!({}))
        .expect([
            "child.reported",
            "node.completed work",
            "loop.restarted",
            "node.started lead",
            "runOrchestrator.decided lead",
            "node.completed lead",
            "node.started work",
            "node.spawned work",
        ])
        .child_ends("work", Lifecycle::Failed, &json!({}))
        .stands(Status::Completed);
    assert_eq!(story.node("work").execution, 3);
    assert_eq!(
        story.payload_at("node.completed", "work"),
        r#"{"outputs":{"dispatched":0},"untaken":["e1"]}"#
    );
    assert!(story.history().contains(&"node.started after".to_owned()));
}

#[test]
fn a_branch_keeps_what_a_child_gave_back_and_how_it_failed() {
    let plan = json!([next(&["pick", "pack"]), {"kind": "terminate", "reason": "done"}]);
    let dispatch =
        || work().config("inputMapping", json!({})).config("outputMapping", json!({ "count": "n" }));
    let flow = || supervised(plan.clone(), dispatch()).variable("count", "number");
    let story = Story::of(&flow())
        .start()
        .child_ends("work", Lifecycle::Completed, &json!({ "n": 3 }))
        .expect(["child.reported", "variable.changed", "node.spawned work"]);
    let reported = story.journal().len() - 3;
    for at in reported + 1..=story.journal().len() {
        let branch = story.origin().branch_from(at as u64);
        assert_eq!(branch.run.variables().get("count").map(abide_core::Json::text), Some("3"), "at {at}");
    }
    let story = Story::of(&flow()).start().child_ends("work", Lifecycle::Completed, &json!({ "n": "x" }));
    let story = story.stands(Status::Failed);
    for at in reported + 1..=story.journal().len() {
        assert_eq!(story.origin().branch_from(at as u64).run.status(), Status::Failed, "at {at}");
    }
}

#[test]
fn a_run_that_is_held_starts_the_next_worker_when_it_is_resumed() {
    let plan = json!([next(&["pick", "pack"]), {"kind": "terminate", "reason": "done"}]);
    let story = Story::of(&supervised(plan, work()))
        .start()
        .pause()
        .child_ends("work", Lifecycle::Completed, &json!({}))
        .expect(["child.reported"]);
    let kinds: Vec<&str> = story.run().why().reasons.iter().map(|reason| reason.kind).collect();
    assert_eq!(kinds, ["hold"], "the child that it waited for has ended");
    story
        .resume()
        .expect(["run.resumed", "node.spawned work"])
        .expect_effects(["spawn pack for work"])
        .child_ends("work", Lifecycle::Completed, &json!({}))
        .stands(Status::Completed);
}

#[test]
fn a_run_that_is_held_starts_no_worker_after_one_that_was_refused() {
    let plan = json!([next(&["pick", "pack"])]);
    Story::of(&supervised(plan, work()))
        .start()
        .pause()
        .child_refused("work", Failure::new("workflow_not_found", "there is none"))
        .expect(["child.refused"])
        .resume()
        .expect(["run.resumed", "node.spawned work"]);
}

#[test]
fn a_run_that_is_cancelled_while_it_is_held_starts_no_worker() {
    let plan = json!([next(&["pick", "pack"])]);
    Story::of(&supervised(plan, work()))
        .start()
        .pause()
        .child_ends("work", Lifecycle::Completed, &json!({}))
        .cancel()
        .expect(["node.cancelled work", "run.cancelled"]);
}

#[test]
fn a_run_that_waits_for_work_before_it_pauses_starts_no_worker_either() {
    let plan = json!([next(&["pick", "pack"])]);
    let lead = of_kind("lead", "core.orchestrator.supervisor").config("mockDispatchPlan", plan);
    let flow = workflow([lead, work(), task("other")]).flow("lead > work").with_mocks();
    Story::of(&flow)
        .start()
        .drain()
        .child_ends("work", Lifecycle::Completed, &json!({}))
        .expect(["child.reported"])
        .report("other")
        .expect(["node.completed other", "run.paused"])
        .resume()
        .expect(["run.resumed", "node.spawned work"]);
}

#[test]
fn a_plan_that_ends_terminates() {
    let story = Story::of(&supervised(json!([]), work())).start().stands(Status::Completed);
    assert_eq!(story.payload("runOrchestrator.decided"), r#"{"kind":"terminate","reason":"plan-exhausted"}"#);
}

#[test]
fn what_workers_give_back_is_mapped() {
    let dispatch = work()
        .config("inputMapping", json!({"order": "id"}))
        .config("outputMapping", json!({"last": "result"}));
    let flow = supervised(json!([next(&["pick"])]), dispatch).variable("id", "number").or(json!(7));
    let story = Story::of(&flow).start();
    assert_eq!(as_json(&json!(story.spawn().inputs)).text(), r#"{"order":7}"#);
    let story = story.child_ends("work", Lifecycle::Completed, &json!({"result": "done"}));
    assert_eq!(story.variable("last"), Some(r#""done""#));
}

#[test]
fn a_policy_may_refuse_several_workers_at_once() {
    let dispatch = work().config("fanOutPolicy", json!("reject"));
    Story::of(&supervised(json!([next(&["pick", "pack"])]), dispatch))
        .start()
        .failed_with("fan_out_unsupported", "node 'work' was given 2 workers, and its policy is reject");
    let dispatch = work().config("fanOutPolicy", json!("reject"));
    Story::of(&supervised(json!([next(&["pick"])]), dispatch)).start().stands(Status::Running);
}

#[test]
fn a_dispatch_may_be_capped() {
    let plan = json!([next(&["pick"]), next(&["pick"]), next(&["pick"])]);
    let story = Story::of(&supervised(plan, work().config("iterationCap", json!(1)))).start().child_ends(
        "work",
        Lifecycle::Completed,
        &json!({}),
    );
    let end = story.history().split_off(story.history().len() - 2);
    assert_eq!(end, ["cap.breached", "run.failed"]);
    assert_eq!(
        story.payload("cap.breached"),
        r#"{"kind":"dispatch-iterations","limit":1,"observed":2,"nodeId":"work"}"#
    );
    story.failed_with(
        "dispatch_limit_exceeded",
        "the dispatch at node 'work' ran 1 times, which is as often as it may",
    );
}

#[test]
fn a_loop_of_dispatches_has_the_usual_limit() {
    let plan: Vec<Value> = (0..20).map(|_| next(&[])).collect();
    Story::of(&supervised(json!(plan), work())).start().failed_with(
        "loop_limit_exceeded",
        "the loop at node 'lead' went back 5 times, which is as often as it may",
    );
}

#[test]
fn a_decision_that_needs_a_person_is_not_provided() {
    let asks = Story::of(&supervised(json!([{"kind": "ask-user"}]), work())).start();
    asks.failed_with(
        "capability_not_provided",
        "node 'work' can't carry out a decision 'ask-user' in this version",
    );
}

#[test]
fn without_mocks_neither_kind_can_be_started() {
    let plan = json!([{"kind": "terminate"}]);
    let lead = of_kind("lead", "core.orchestrator.supervisor").config("mockDispatchPlan", plan);
    let refused = Story::of(&workflow([lead, work()]).flow("lead > work > lead")).refused();
    let expected = Rejection::CapabilityRequired {
        node: "lead".to_owned(),
        type_id: "core.orchestrator.supervisor".to_owned(),
        capability: "orchestrator.supported",
    };
    assert_eq!(refused, expected);
}

#[test]
fn a_repeated_message_is_mocked_only_where_mocks_are_played() {
    let echo = identity("echo").config("emitDuplicateMessageId", json!(true)).input("x", variable("x"));
    let flow =
        workflow([echo]).variable("x", "number").or(json!(1)).channel("talk", json!({"reducer": "message"}));
    let plain = Story::of(&flow).start();
    assert_eq!(plain.channel("talk"), None);
    let played = Story::of(&flow.with_mocks()).start();
    let writes = played.history().iter().filter(|line| *line == "channel.written echo").count();
    assert_eq!(writes, 2);
    assert_eq!(
        played.channel("talk"),
        Some(r#"[{"content":"repeated","messageId":"echo-1","role":"assistant"}]"#)
    );
}
