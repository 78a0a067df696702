//! How a node comes to workers, and how it ends there.

use super::*;
use abide_core::{NodePhase, Status};

#[test]
fn a_kind_that_workers_provide_is_offered_to_them() {
    let story = begun()
        .expect(["run.started", "node.started job"])
        .expect_effects(["offer job/1 attempt 1"])
        .node_is("job", NodePhase::Running)
        .stands(Status::Running);
    let offer = story.offered();
    assert_eq!((&*offer.kind, offer.agent.as_deref(), offer.timeout_ms), (KIND, None, None));
    story
        .does("job", complete(&json!({ "done": true })))
        .expect(["node.completed job", "node.started next", "node.completed next", "run.completed"])
        .outputs("job", Some(r#"{"done":true}"#))
        .stands(Status::Completed);
}

#[test]
fn a_kind_that_no_worker_ever_provided_fails_the_run() {
    Story::of(&working(work("job"))).start().failed_with(
        "capability_not_provided",
        "node 'job' is of kind acme.work, which neither this server nor any worker provides; check the spelling, or start a worker for it",
    );
}

#[test]
fn what_workers_say_of_a_kind_holds_unless_the_definition_says_otherwise() {
    let said = || provided(Provided { idempotent: true, reversible: Some(true), timeout_ms: Some(1_000) });
    let plain = Story::of(&working(work("job"))).under(said()).start();
    assert_eq!(plain.offered().timeout_ms, Some(1_000));
    assert!(
        plain
            .payload("node.started")
            .contains(r#""offer":{"idempotent":true,"reversible":true,"timeoutMs":1000}"#)
    );
    let own = work("job")
        .setting("idempotent", json!(false))
        .setting("timeoutMs", json!(9))
        .setting("agent", json!("clerk"));
    let told = Story::of(&working(own)).under(said()).start();
    assert_eq!((told.offered().timeout_ms, told.offered().agent.as_deref()), (Some(9), Some("clerk")));
    assert!(
        told.payload("node.started").contains(r#""offer":{"agent":"clerk","reversible":true,"timeoutMs":9}"#)
    );
}

#[test]
fn settings_for_workers_are_refused_where_no_worker_comes() {
    let problems = workflow([
        noop("a").setting("timeoutMs", json!(5)),
        workflow::http("b", "GET").setting("retry", json!({ "fallbackAgent": "clerk" })),
    ])
    .problems();
    assert!(
        problems.contains("only what workers and models do has a timeout of its own; remove it"),
        "{problems}"
    );
    assert!(problems.contains("only what workers do can be taken over by another agent"), "{problems}");
}

#[test]
fn whoever_has_the_task_no_longer_changes_nothing() {
    let story = begun();
    let first = story.fence("job");
    let story = story.does("job", lose(Loss::Silent)).expect(["task.lost job"]);
    assert!(story.fence("job") > first);
    let mut story = story;
    for op in [
        begin("a"),
        step("a", &json!(1)),
        ask(1),
        sleep("s", 5),
        child("c"),
        park([Wait::Sleep("s".to_owned())]),
        complete(&json!({})),
        trouble(FailureClass::Tool, true, false),
        lose(Loss::Left),
    ] {
        story = story.does_under("job", first, op).refused(&Rejection::StaleFence);
    }
    let fence = story.fence("job");
    let ended = story.does("job", complete(&json!({}))).stands(Status::Completed);
    ended.does_under("job", fence, complete(&json!({}))).refused(&Rejection::StaleFence);
}

#[test]
fn a_run_that_is_cancelled_has_its_worker_told() {
    let story = begun()
        .cancel()
        .expect(["run.cancelling"])
        .expect_effects(["call off job/1"])
        .does("job", begin("a"))
        .refused(&Rejection::Cancelling)
        .does("job", ask(1))
        .refused(&Rejection::Cancelling);
    // What it has done already is recorded.
    let story = story.does("job", step("a", &json!(1))).expect(["step.recorded job"]);
    story
        .does("job", trouble(FailureClass::Cancelled, true, false))
        .expect(["node.failed job", "run.cancelled"])
        .expect_effects(["withdraw job/1"])
        .stands(Status::Cancelled);
}

#[test]
fn a_run_that_fails_has_its_other_workers_told() {
    let two = workflow([work("job"), work("other")]);
    Story::of(&two)
        .under(known())
        .start()
        .does("job", trouble(FailureClass::Validation, false, false))
        .expect(["node.failed job"])
        .expect_effects(["withdraw job/1", "call off other/1"])
        .does("other", lose(Loss::CalledOff))
        .expect(["node.failed other", "run.failed"])
        .stands(Status::Failed);
}

#[test]
fn a_pause_waits_until_the_worker_is_done_or_gives_back() {
    begun()
        .does("job", sleep("nap", 50))
        .drain()
        .expect(["run.pausing"])
        .does("job", park([Wait::Sleep("nap".to_owned())]))
        .expect(["node.parked job", "run.paused"])
        .after(50)
        .fire_timer("sleep/1/2/job")
        .expect(["sleep.ended job"])
        .resume()
        .expect(["run.resumed", "node.resumed job"])
        .expect_effects(["offer job/1 attempt 1"]);
}

#[test]
fn what_a_worker_says_of_its_progress_is_kept() {
    let note = |done| WorkOp::Note {
        progress: Some(abide_core::event::Progress { done, total: Some(10.0), message: None }),
        lines: vec![abide_core::event::LogLine { level: "info".to_owned(), message: "on it".to_owned() }],
    };
    let story = begun().does("job", note(1.0)).does("job", note(4.0)).expect(["node.noted job"]);
    let progress = story.run().assignment("job").unwrap().progress.cloned();
    assert_eq!(progress.map(|progress| progress.done), Some(4.0));
    let loud = WorkOp::Note {
        progress: None,
        lines: vec![abide_core::event::LogLine { level: "loud".to_owned(), message: String::new() }],
    };
    let story = story.does("job", loud);
    assert!(matches!(story.last_rejection(), Rejection::Invalid { .. }));
}

#[test]
fn a_decision_whether_to_ask_is_recorded_as_it_was_told() {
    let told = json!({
        "mode": "request_input", "should_ask": true, "rationale": "unsure",
        "signals": { "confidence": 0.4, "risk": 0.3, "reversibility": 0.9, "context": {} },
    });
    let decide = |value: &Value| WorkOp::Decide { decision: Json::of(value).parse().unwrap() };
    let story = begun().does("job", decide(&told)).expect(["engagement.decision job"]);
    assert_eq!(serde_json::from_str::<Value>(&story.payload("engagement.decision")).unwrap(), told);
    let story = story.does("job", decide(&json!({ "mode": "guess", "should_ask": true })));
    assert!(matches!(story.last_rejection(), Rejection::Invalid { .. }));
}

#[test]
fn whoever_made_what_a_gate_is_about_asks_for_it_too() {
    let gate = |rules: Value| {
        let gate = of_kind("gate", "core.approvalGate").config("title", json!("Send it?"));
        gate.input("artifact", workflow::output("job", "letter")).setting("approval", rules)
    };
    let asked_by = |rules: Value| {
        let flow = workflow([work("job"), gate(rules)]).flow("job > gate");
        let story =
            Story::of(&flow).under(known()).start().does("job", complete(&json!({ "letter": "Dear Ada" })));
        let open = story.run().interrupts().next().expect("the gate asks").requested.clone();
        (open.asked_by, story.payload_at("node.completed", "job"))
    };
    let (by, completed) = asked_by(json!({ "notAsker": true }));
    assert_eq!(by, ["scribe", "bot"], "its agent, and whose key its worker has");
    assert!(completed.contains(r#""madeBy":["scribe","bot"]"#), "{completed}");
    let (by, completed) = asked_by(json!({ "notStarter": true }));
    assert!(by.is_empty() && !completed.contains("bot"), "nobody asks who: {completed}");
}

#[test]
fn nobody_gets_what_a_held_run_offers_before_it_goes_on() {
    let story = begun();
    assert!(!story.offered().held);
    let fence = story.offered().fence;
    let story = story.hold(abide_core::event::HoldMode::Stop).does_under("job", fence, lose(Loss::Silent));
    assert!(story.offered().held, "what was lost waits for the release");
    story.release().expect_effects(["offer acme.work again"]);
}
