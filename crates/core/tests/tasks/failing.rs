//! Attempts that fail, those that follow, and who takes over.

use super::*;
use abide_core::{NodePhase, Status, limits};

fn retried(retry: Value) -> Sketch {
    work("job").setting("retry", retry)
}

fn story(node: Sketch) -> Story {
    Story::of(&working(node)).under(known()).start()
}

#[test]
fn a_failure_that_may_pass_is_tried_again_on_the_runs_timers() {
    let fixed =
        || retried(json!({ "strategy": "fixed", "maxRetries": 2, "baseDelayMs": 10, "jitter": false }));
    let story = story(fixed())
        .does("job", trouble(FailureClass::Tool, true, false))
        .expect(["node.retried job"])
        .expect_effects(["withdraw job/1", "arm retry/1/job +10"])
        .after(10)
        .fire_timer("retry/1/job");
    let story =
        story.does("job", trouble(FailureClass::Timeout, true, false)).after(10).fire_timer("retry/1/job");
    assert_eq!(story.offered().attempt, 3);
    story.does("job", trouble(FailureClass::Reset, true, false)).given_up().stands(Status::Failed);
}

#[test]
fn a_failure_that_is_final_is_not_tried_again() {
    let usual = || story(retried(json!({ "maxRetries": 5 })));
    for class in [FailureClass::Validation, FailureClass::Capability, FailureClass::Cap, FailureClass::Child]
    {
        usual().does("job", trouble(class, true, false)).stands(Status::Failed);
    }
    let story = usual().does("job", trouble(FailureClass::Tool, false, false)).stands(Status::Failed);
    assert_eq!(story.run().error().unwrap().code, "no_paper");
}

#[test]
fn what_may_have_had_an_effect_is_tried_again_only_if_twice_is_as_good_as_once() {
    let maybe = || trouble(FailureClass::Tool, true, true);
    story(retried(json!({ "maxRetries": 5 }))).does("job", maybe()).given_up().stands(Status::Failed);
    let twice = retried(json!({ "maxRetries": 5 })).setting("idempotent", json!(true));
    story(twice).does("job", maybe()).expect(["node.retried job"]);
    // A step under way may have had one, whatever the worker says.
    let begun = story(retried(json!({ "maxRetries": 5 }))).does("job", begin("charge"));
    begun.does("job", trouble(FailureClass::Tool, true, false)).given_up().stands(Status::Failed);
}

#[test]
fn another_agent_takes_over_when_the_first_has_failed_as_often_as_it_may() {
    let node =
        retried(json!({ "maxRetries": 1, "baseDelayMs": 10, "jitter": false, "fallbackAgent": "clerk" }))
            .setting("agent", json!(AGENT));
    let trouble = || trouble(FailureClass::Tool, true, false);
    let story = story(node)
        .does("job", step("a", &json!(1)))
        .does("job", trouble())
        .after(10)
        .fire_timer("retry/1/job");
    assert_eq!(story.offered().agent.as_deref(), Some(AGENT));
    let story = story.does("job", trouble()).expect(["node.retried job"]);
    assert!(story.payload("node.retried").contains(r#""agent":"clerk""#));
    let story = story.fire_timer("retry/1/job");
    assert_eq!((story.offered().agent.as_deref(), story.offered().attempt), (Some("clerk"), 3));
    // It has what the first recorded, and as many attempts.
    let story = story.does("job", step("a", &json!(2))).expect([]).does("job", trouble()).after(10);
    let story = story.fire_timer("retry/1/job").node_is("job", NodePhase::Running);
    story.does("job", trouble()).given_up().stands(Status::Failed);
}

#[test]
fn the_nodes_own_policy_goes_before_that_of_the_workflow() {
    let flow = |node: Sketch| working(node).settings("maxRetries", json!(1));
    let inherits = Story::of(&flow(work("job"))).under(known()).start();
    inherits.does("job", trouble(FailureClass::Tool, true, false)).expect(["node.retried job"]);
    let own = Story::of(&flow(retried(json!({ "maxRetries": 0 })))).under(known()).start();
    own.does("job", trouble(FailureClass::Tool, true, false)).given_up().stands(Status::Failed);
}

#[test]
fn a_worker_may_ask_for_time_before_the_next_attempt() {
    let failure = Failure::new("busy", "the other side is busy");
    let failed = WorkFailure {
        failure,
        class: FailureClass::Tool,
        retryable: true,
        possible_effect: false,
        retry_after_ms: Some(5_000),
    };
    let story = story(retried(json!({ "maxRetries": 1, "baseDelayMs": 10, "jitter": false })));
    let story = story.does("job", WorkOp::Fail(failed.clone()));
    let told = story.outcome("job", &WorkOp::Fail(failed));
    assert_eq!(told, WorkOutcome::Failed { retry_at: Some(story::BEGIN + 5_000) });
}

#[test]
fn a_step_under_way_is_not_done_again_though_the_rest_of_its_node_may_be() {
    let twice = retried(json!({ "maxRetries": 5 })).setting("idempotent", json!(true));
    let story = story(twice).does("job", begin("charge"));
    let story = story.does("job", trouble(FailureClass::Tool, true, true)).given_up().stands(Status::Failed);
    assert_eq!(story.run().error().unwrap().code, "no_paper");
}

#[test]
fn code_that_does_not_fit_waits_for_code_that_does() {
    let story = story(work("job")).does("job", step("a", &json!(1)));
    let unfit = || trouble(FailureClass::CodeChanged, true, false);
    let story = story.does("job", unfit()).expect(["sleep.started job", "node.parked job"]);
    let retry_at = story::BEGIN + limits::UNFIT_DELAY_MS;
    assert_eq!(story.outcome("job", &unfit()), WorkOutcome::Failed { retry_at: Some(retry_at) });
    let why = story.run().why();
    assert_eq!(why.reasons.len(), 1, "{why:?}");
    assert!(why.reasons[0].what.contains("waits for a worker whose code fits: the printer has no paper"));
    assert_eq!((why.reasons[0].kind, why.reasons[0].until), ("worker", Some(retry_at)));
    // It is asked for again, less and less often, and uses no attempt.
    let story = story.at(limits::UNFIT_DELAY_MS).fire_timer("sleep/1/3/job");
    assert_eq!(story.offered().attempt, 1);
    let story = story.does("job", unfit());
    let longer = story::BEGIN + limits::UNFIT_DELAY_MS * 3;
    assert_eq!(story.outcome("job", &unfit()), WorkOutcome::Failed { retry_at: Some(longer) });
    let story = story.at(limits::UNFIT_DELAY_MS * 3).fire_timer("sleep/1/7/job");
    // What was recorded is there for the code that fits, and nothing of the waits is.
    let story = story.does("job", step("a", &json!(2))).expect([]);
    assert_eq!(story.run().assignment("job").unwrap().steps, 1);
    story.does("job", complete(&json!({}))).stands(Status::Completed);
}

#[test]
fn code_that_does_not_fit_in_the_middle_of_a_step_does_not_wait() {
    let story = story(work("job")).does("job", begin("charge"));
    story.does("job", trouble(FailureClass::CodeChanged, true, false)).given_up().stands(Status::Failed);
}

#[test]
fn the_servers_own_names_are_not_for_workers() {
    let story = story(work("job")).does("job", sleep("abide:unfit/1", 5));
    assert!(matches!(story.last_rejection(), Rejection::Invalid { .. }));
}
