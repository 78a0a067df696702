//! Pauses that wait for work in flight. Those that don't are in `commands.rs`.

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use abide_core::{Command, Drain, Hold, Lifecycle, Reached, Rejection, Status};
use serde_json::json;
use story::{BEGIN, Story, hours};
use workflow::{Workflow, child, delay, http, noop, task, workflow};

/// Two tasks side by side, and what follows them.
fn two_tasks() -> Workflow {
    workflow([task("left"), task("right"), noop("next")]).flow("left > next").flow("right > next")
}

#[test]
fn it_is_paused_when_the_last_outcome_is_known() {
    let story = Story::of(&two_tasks())
        .start()
        .drain()
        .expect(["run.pausing"])
        .expect_effects([])
        .stands(Status::Running)
        .report("left")
        .expect(["node.completed left"])
        .stands(Status::Running)
        .after(hours(1))
        .report("right")
        .expect(["node.completed right", "run.paused"])
        .stands(Status::Paused);
    assert_eq!(story.run().paused_at(), Some(BEGIN + hours(1)));
    story.resume().expect(["run.resumed", "node.started next", "node.completed next", "run.completed"]);
}

#[test]
fn nothing_in_flight_is_nothing_to_wait_for() {
    let waits = [delay("gate", hours(1)), child("other", "elsewhere")];
    Story::of(&workflow(waits))
        .start()
        .drain()
        .expect(["run.paused"])
        .stands(Status::Paused)
        .after(hours(1))
        .fire("gate")
        .expect(["node.completed gate"])
        .child_ends("other", Lifecycle::Completed, &json!({}))
        .expect(["child.reported", "node.completed other", "run.completed"]);
}

#[test]
fn an_attempt_that_fails_has_ended_and_the_next_one_waits() {
    let call = http("call", "GET")
        .setting("retry", json!({"strategy": "fixed", "maxRetries": 2, "baseDelayMs": 100, "jitter": false}));
    Story::of(&workflow([call]))
        .start()
        .drain()
        .report_trouble("call", "no answer", Reached::No)
        .expect(["node.retried call", "run.paused"])
        .after(100)
        .fire_timer("retry/1/call")
        .expect(["node.due call"])
        .resume()
        .expect(["run.resumed", "node.started call"]);
}

#[test]
fn a_run_that_is_through_completes_or_fails_and_is_not_paused() {
    Story::of(&workflow([task("work")]))
        .start()
        .drain()
        .report("work")
        .expect(["node.completed work", "run.completed"])
        .stands(Status::Completed);
    let failed = Story::of(&two_tasks())
        .start()
        .drain()
        .report_failure("left", "broken")
        .expect(["node.failed left"])
        .report("right")
        .expect(["node.completed right", "run.failed"])
        .stands(Status::Failed);
    assert_eq!((failed.run().hold(), failed.run().paused_at()), (Hold::None, None));
}

#[test]
fn a_resume_withdraws_it() {
    let story = Story::of(&two_tasks()).start().report("left").drain().resume().expect(["run.resumed"]);
    assert_eq!((story.run().hold(), story.run().paused_at()), (Hold::None, None));
    story.report("right").expect([
        "node.completed right",
        "node.started next",
        "node.completed next",
        "run.completed",
    ]);
}

#[test]
fn a_cancellation_goes_first() {
    let story = Story::of(&two_tasks()).start().drain().cancel().expect(["run.cancelling"]);
    assert_eq!(story.run().hold(), Hold::None);
    story
        .report("left")
        .expect(["node.completed left"])
        .report("right")
        .expect(["node.completed right", "run.cancelled"])
        .stands(Status::Cancelled);
}

#[test]
fn who_can_not_wait_may_say_so_and_who_waits_already_may_not() {
    let story = Story::of(&two_tasks())
        .start()
        .ask(Command::Pause { reason: Some("lunch".to_owned()), by: None, drain: Drain::CurrentNode })
        .drain()
        .refused(&Rejection::AlreadyPaused)
        .after(5)
        .pause_because("now", "ann")
        .expect(["run.paused"])
        .stands(Status::Paused)
        .drain()
        .refused(&Rejection::AlreadyPaused)
        .report("left")
        .expect(["node.completed left"]);
    assert_eq!(story.run().paused_at(), Some(BEGIN + 5));
}

#[test]
fn who_and_why_are_told_when_it_takes_effect() {
    let (reason, by) = (Some("lunch".to_owned()), Some("ann".to_owned()));
    let story = Story::of(&two_tasks())
        .start()
        .ask(Command::Pause { reason, by, drain: Drain::CurrentNode })
        .report("left")
        .report("right");
    assert_eq!(story.payload("run.pausing"), r#"{"reason":"lunch","by":"ann"}"#);
    assert_eq!(story.payload("run.paused"), r#"{"reason":"lunch","by":"ann"}"#);
    let story = story.ask(Command::Resume { reason: Some("back".to_owned()), by: Some("bob".to_owned()) });
    assert_eq!(story.payload("run.resumed"), r#"{"by":"bob","reason":"back"}"#);
}

#[test]
fn why_tells_what_the_pause_waits_for() {
    let story = Story::of(&two_tasks()).start().drain();
    let why = story.run().why();
    assert_eq!(why.reasons[0].kind, "pausing");
    assert_eq!(why.reasons[0].since, Some(BEGIN));
    assert!(why.summary.starts_with("it is about to be paused and waits for 2 nodes"), "{}", why.summary);
}

#[test]
fn the_runs_own_time_stands_still_only_once_it_is_paused() {
    let timed = workflow([task("work"), noop("next")]).flow("work > next");
    Story::of(&timed)
        .configurable(&json!({"runTimeoutMs": 1000}))
        .start()
        .drain()
        .after(400)
        .report("work")
        .expect(["node.completed work", "run.paused"])
        .expect_effects(["finish work/1", "drop run-timeout +1000"])
        .after(hours(1))
        .resume()
        .stands(Status::Completed);
}
