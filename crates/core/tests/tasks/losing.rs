//! Workers that die with a task in hand.

use super::*;
use abide_core::{Artifacts, NodePhase, ResumeNow, Status, limits};

#[test]
fn a_task_that_is_lost_is_offered_again_and_uses_no_attempt() {
    let story = begun().does("job", step("a", &json!(1))).does("job", lose(Loss::Silent));
    let story = story
        .expect(["task.lost job"])
        .expect_effects(["withdraw job/1", "offer job/1 attempt 1"])
        .node_is("job", NodePhase::Running);
    story.does("job", step("a", &json!(2))).expect([]);
}

#[test]
fn a_task_that_is_lost_in_a_step_that_must_not_be_done_twice_is_not_done_again() {
    let story = begun().does("job", begin("charge")).does("job", lose(Loss::Silent));
    let story = story.expect(["node.interrupted job"]).given_up();
    let story = story.expect(["resume_decision", "node.failed job", "run.failed"]);
    assert_eq!(story.run().error().unwrap().code, "outcome_unknown");
    let known = begun().does("job", begin("charge")).does("job", step("charge", &json!(1)));
    known.does("job", lose(Loss::Silent)).expect(["task.lost job"]);
}

#[test]
fn a_step_that_was_done_after_all_is_where_the_function_goes_on() {
    let story = begun().does("job", begin("charge")).does("job", lose(Loss::Silent));
    let done = ResumeNow {
        by: "ops".to_owned(),
        reason: Some("the receipt is there".to_owned()),
        force: true,
        approve: Vec::new(),
        done: [("job".to_owned(), Json::of(&json!(42)))].into(),
        class: None,
        artifacts: Artifacts::READABLE,
    };
    let story = story.ask(Command::ResumeNow(Box::new(done))).expect([
        "resume.requested",
        "resume_decision",
        "step.recorded job",
        "node.due job",
        "node.started job",
    ]);
    // It is told what came of the step, and does not do it.
    story
        .does("job", step("charge", &json!(1)))
        .expect([])
        .does("job", complete(&json!({})))
        .stands(Status::Completed);
}

#[test]
fn whoever_goes_on_with_what_was_cut_off_makes_the_same_attempt() {
    let twice = work("job").setting("idempotent", json!(true));
    let flow = workflow([twice]);
    let lost =
        |reason| Story::of(&flow).under(known()).start().does("job", lose(reason)).fire_timer("resume");
    // What it recorded has to be followed, which is not demanded of an attempt after one that failed.
    assert_eq!(lost(Loss::Silent).offered().attempt, 1);
    assert_eq!(lost(Loss::Timeout).offered().attempt, 2);
}

#[test]
fn retries_do_not_mend_an_unknown_outcome() {
    let retried = work("job").setting("retry", json!({ "maxRetries": 5 }));
    let story = Story::of(&working(retried)).under(known()).start();
    let story =
        story.does("job", begin("charge")).does("job", lose(Loss::Timeout)).given_up().stands(Status::Failed);
    assert_eq!(story.run().error().unwrap().code, "outcome_unknown");
}

#[test]
fn a_task_that_kills_whoever_gets_it_fails_in_the_end() {
    let mut story = begun();
    for _ in 1..limits::LOSSES_MAX {
        story = story.does("job", lose(Loss::Silent)).expect(["task.lost job"]);
    }
    let failed = story.clone().does("job", lose(Loss::Left)).given_up().stands(Status::Failed);
    assert_eq!(failed.run().error().unwrap().code, "worker_lost");
    // Whoever gets anything done begins to count anew, and giving it to another is no death.
    let story = story.does("job", lose(Loss::Released)).expect(["task.lost job"]);
    let story = story.does("job", step("a", &json!(1))).does("job", lose(Loss::Silent));
    story.expect(["task.lost job"]);
}

#[test]
fn a_task_that_takes_too_long_is_a_failed_attempt() {
    let retried =
        work("job").setting("retry", json!({ "maxRetries": 1, "baseDelayMs": 10, "jitter": false }));
    let story = Story::of(&working(retried)).under(known()).start().does("job", lose(Loss::Timeout));
    let story = story.expect(["node.retried job"]).after(10).fire_timer("retry/1/job");
    let story = story.does("job", lose(Loss::Timeout)).given_up().stands(Status::Failed);
    assert_eq!(story.run().error().unwrap().code, "task_timeout");
}

#[test]
fn a_question_outlives_whoever_asked_it() {
    let story = begun().does("job", ask(1)).does("job", lose(Loss::Silent)).answer("job", &well());
    let AskState::Answered { .. } = story.answer_told("job", &ask(1)) else { panic!("it was answered") };
}

#[test]
fn a_task_in_the_middle_of_such_a_step_goes_to_nobody_else() {
    // Whoever gives it to another says that nothing was begun, and the journal knows better.
    let story = begun()
        .does("job", begin("charge"))
        .does("job", lose(Loss::Released))
        .given_up()
        .stands(Status::Failed);
    assert_eq!(story.run().error().unwrap().code, "outcome_unknown");
    // Whoever parks it would have it done again at the next hand-out.
    let story = begun().does("job", begin("charge")).does("job", sleep("nap", 9));
    let nap = || park([Wait::Sleep("nap".to_owned())]);
    let story = story.does("job", nap());
    assert!(matches!(story.last_rejection(), Rejection::Invalid { .. }));
    story.does("job", step("charge", &json!(1))).does("job", nap()).node_is("job", NodePhase::Waiting);
}
