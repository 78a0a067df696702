//! Steps are recorded once, and a name means one thing.

use super::*;
use abide_core::{Status, limits};

#[test]
fn a_step_is_recorded_once() {
    let story = begun().does("job", step("charge", &json!({ "id": 1 }))).expect(["step.recorded job"]);
    let op = step("charge", &json!({ "id": 2 }));
    let WorkOutcome::Recorded(first) = story.outcome("job", &op) else { panic!("it is recorded") };
    let story = story.does("job", op.clone()).expect([]);
    assert_eq!(story.outcome("job", &op), WorkOutcome::Recorded(first));
    assert_eq!(story.payload("step.recorded"), r#"{"key":"charge","value":{"id":1}}"#);
}

#[test]
fn a_step_that_is_not_to_be_done_twice_is_recorded_before_it_is_done() {
    begun()
        .does("job", begin("charge"))
        .expect(["step.begun job"])
        .does("job", begin("charge"))
        .expect([])
        .does("job", step("charge", &json!(1)))
        .expect(["step.recorded job"])
        .does("job", begin("charge"))
        .expect([]);
}

#[test]
fn a_step_that_failed_stays_failed_until_the_next_attempt() {
    let failed = WorkOp::Record {
        key: "charge".to_owned(),
        outcome: Err(Failure::new("declined", "the card was declined")),
    };
    let retried =
        work("job").setting("retry", json!({ "maxRetries": 1, "baseDelayMs": 10, "jitter": false }));
    let story = Story::of(&working(retried)).under(known()).start();
    let story = story
        .does("job", step("a", &json!(1)))
        .does("job", failed.clone())
        .does("job", failed.clone())
        .expect([]);
    let WorkOutcome::Recorded(_) = story.outcome("job", &failed) else { panic!("it is recorded") };
    let story = story
        .does("job", trouble(FailureClass::Tool, true, false))
        .expect(["node.retried job"])
        .after(10)
        .fire_timer("retry/1/job")
        .expect(["node.due job", "node.started job"])
        .expect_effects(["drop retry/1/job +10", "offer job/1 attempt 2"]);
    // What was done is done, and what failed is done again.
    let story = story.does("job", step("a", &json!(2))).expect([]);
    story.does("job", step("charge", &json!(3))).expect(["step.recorded job"]);
}

#[test]
fn a_name_means_one_thing() {
    let story = begun().does("job", sleep("x", 5)).does("job", step("y", &json!(1)));
    let story = story.does("job", step("x", &json!(1))).refused_as("code_changed");
    let story = story.does("job", begin("x")).refused_as("code_changed");
    let story = story.does("job", sleep("y", 5)).refused_as("code_changed");
    let story = story.does("job", child("y")).refused_as("code_changed");
    let version = WorkOp::Version { key: "y".to_owned(), version: 1, old: false };
    story.does("job", version).refused_as("code_changed");
}

#[test]
fn a_version_is_chosen_once() {
    let version = |version, old| WorkOp::Version { key: "fees".to_owned(), version, old };
    let told = |story: &Story| story.outcome("job", &version(9, false));
    let story = begun().does("job", version(2, false)).expect(["version.recorded job"]);
    assert_eq!(told(&story), WorkOutcome::Version(2));
    let story = story.does("job", version(3, false)).expect([]);
    assert_eq!(told(&story), WorkOutcome::Version(2));
    let old = begun().does("job", version(2, true));
    assert_eq!(told(&old), WorkOutcome::Version(0));
}

#[test]
fn keys_and_values_have_limits() {
    let long = "k".repeat(limits::STEP_KEY_CHARS_MAX + 1);
    for key in ["", &long, "a\nb"] {
        let story = begun().does("job", step(key, &json!(1)));
        assert!(matches!(story.last_rejection(), Rejection::Invalid { .. }), "{key:?}");
    }
    let large = "x".repeat(limits::STEP_BYTES_MAX);
    begun()
        .does("job", step("large", &json!(large)))
        .refused_as("value_too_large")
        .does("job", complete(&json!({ "large": large })))
        .refused_as("value_too_large")
        .does("job", complete(&json!({})))
        .stands(Status::Completed);
}

#[test]
fn a_node_records_no_more_than_it_may() {
    let mut story = begun();
    // The story compares whole runs after each word, so most of them are said without it.
    let mut run = story.run().clone();
    let fence = story.fence("job");
    for n in 0..limits::STEPS_MAX {
        let op = step(&format!("s{n}"), &json!(n));
        let work = Work { task: task("job"), fence, op };
        run.decide(Command::Work(Box::new(work)), story::BEGIN).unwrap();
    }
    let work = Work { task: task("job"), fence, op: step("one more", &json!(1)) };
    let refused = run.decide(Command::Work(Box::new(work)), story::BEGIN).unwrap_err();
    assert!(matches!(refused, Rejection::Work(failure) if failure.code == "step_limit"));
    story = story.does("job", step("a", &json!(1)));
    assert_eq!(story.run().assignment("job").unwrap().steps, 1);
}

#[test]
fn what_must_not_be_shown_is_not_shown_in_steps() {
    let node = work("job").input("card", workflow::variable("card"));
    let flow = working(node).variable("card", "string").sensitive();
    let story = Story::of(&flow).input("card", &json!("4111")).under(known()).start();
    let story = story.does("job", step("charge", &json!("4111 charged")));
    assert!(story.payload("step.recorded").contains(r#""sensitive":true"#));
}

fn decision() -> WorkOp {
    let decision = json!({ "mode": "defer", "should_ask": true, "rationale": "card 4111", "signals": { "card": "4111" } });
    WorkOp::Decide { decision: Json::of(&decision).parse().expect("it is an object") }
}

#[test]
fn why_an_agent_decided_is_not_told_if_that_must_not_be_shown() {
    let story = begun().does("job", decision());
    assert!(story.payload("engagement.decision").contains("4111"));
    let node = work("job").input("card", workflow::variable("card"));
    let flow = working(node).variable("card", "string").sensitive();
    let story = Story::of(&flow).input("card", &json!("4111")).under(known()).start().does("job", decision());
    assert_eq!(story.payload("engagement.decision"), r#"{"mode":"defer","should_ask":true}"#);
}

#[test]
fn what_a_child_gives_back_and_must_not_be_shown_is_not_shown_in_what_is_made_of_it() {
    let story = begun().does("job", child("sub"));
    let notice = abide_core::Notice {
        outputs: [("total".to_owned(), Json::of(&"4111"))].into(),
        sensitive: vec!["total".to_owned()],
        node: "job".to_owned(),
        ..story::notice(story.spawn().child, 1, abide_core::Lifecycle::Completed)
    };
    let story = story.hear(notice, None).does("job", step("charge", &json!("4111 charged")));
    assert!(story.payload("step.recorded").contains(r#""sensitive":true"#));
    let story = story.does("job", complete(&json!({ "card": "4111" })));
    assert!(story.node("job").hides_something());
}

#[test]
fn what_must_not_be_shown_of_a_node_is_not_shown_in_its_children() {
    let story = Story::of(&working(work("job").with("outputSensitivity", json!({ "card": true }))));
    let story = story.under(known()).start().does("job", child("sub"));
    assert_eq!(story.spawn().sensitive, ["size"]);
}
