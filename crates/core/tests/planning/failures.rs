//! What becomes of a plan when something of it fails or is cancelled: it never stands still without a word.

use abide_core::planning::{PauseCause, PlanState, TaskAct, TaskStatus};

use super::*;

/// A plan under way.
fn under(on_failure: &str, tasks: impl IntoIterator<Item = NewTask>) -> Story {
    let plan = NewPlan { on_failure: Some(on_failure.to_owned()), ..of_new(tasks) };
    begun().plan_out(plan).activate()
}

/// A task has failed that could be attempted again, as tasks usually can.
fn failing(on_failure: &str) -> Story {
    under(on_failure, [named("one"), named("two"), behind("three", &["two"])]).fails_task("one")
}

/// What keeps the plan from going on, as people are told.
#[track_caller]
fn told_why(story: &Story) -> String {
    let why = story.run().why();
    let reason = why.reasons.into_iter().find(|reason| reason.kind == "plan").expect("it is told");
    format!("{}; {}", reason.what, reason.next)
}

#[test]
fn a_task_that_fails_pauses_its_plan_once() {
    let story = failing("pause_and_escalate").expect(["task.started", "task.failed", "plan.paused"]);
    assert_eq!(story.the_plan().pause, Some(PauseCause::Failure));
    assert_eq!(story.said("plan.paused")["taskId"], serde_json::json!(story.id_of("one")));
    story
        .act_plan(PlanAct::Resume)
        .expect(["plan.resumed"])
        .does_task("two")
        .stands_at("three", TaskStatus::Ready);
}

#[test]
fn or_lets_it_go_on_with_the_rest() {
    let story = failing("notify").expect(["task.started", "task.failed"]).does_task("two").does_task("three");
    assert_eq!(story.the_plan().state, PlanState::Failed, "nothing is left to be done");
}

#[test]
fn or_fails_it_with_all_that_is_left() {
    failing("fail").expect([
        "task.started",
        "task.failed",
        "task.cancelled",
        "task.cancelled",
        "plan.failed",
    ]);
}

#[test]
fn or_is_tried_again_by_itself_first() {
    let plan = of_new([NewTask { max_attempts: Some(2), ..named("one") }]);
    let plan = NewPlan { on_failure: Some("retry".to_owned()), ..plan };
    begun()
        .plan_out(plan)
        .activate()
        .fails_task("one")
        .expect(["task.started", "task.failed", "task.retrying"])
        .fails_task("one")
        .expect(["task.started", "task.failed", "plan.paused"]);
}

#[test]
fn whoever_resumes_it_may_have_the_task_tried_again_and_is_heard_if_that_fails_too() {
    failing("pause_and_escalate")
        .act_plan(PlanAct::Resume)
        .act("one", TaskAct::Retry)
        .expect(["task.retrying"])
        .fails_task("one")
        .expect(["task.started", "task.failed", "plan.paused"]);
}

#[test]
fn what_it_waits_for_then_is_told() {
    let story = failing("pause_and_escalate");
    assert!(told_why(&story).contains("task 'one' failed"), "{}", told_why(&story));
    let story = story.act_plan(PlanAct::Resume);
    assert!(told_why(&story).contains("task 'two'"), "{}", told_why(&story));
    let story = story.does_task("two").does_task("three");
    assert_eq!(story.the_plan().state, PlanState::Active);
    let told = told_why(&story);
    assert!(told.contains("nothing of plan") && told.contains("'one'") && told.contains("retries"), "{told}");
    let story = begun().post(named("before"));
    let other = story.id_of("before").to_string();
    let story = story.plan_out(of_new([behind("after", &[&other])])).activate();
    assert!(told_why(&story).contains("'before'"), "{}", told_why(&story));
}

#[test]
fn one_that_stands_for_a_run_that_failed_is_not_tried_again() {
    let plan = NewPlan { on_failure: Some("retry".to_owned()), ..of_new([standing_for("one", 9)]) };
    let story = parenting().plan_out(plan).activate().ask(tells(Status::Failed, None));
    let story = story.stands_at("one", TaskStatus::Failed);
    assert_eq!(story.the_plan().pause, Some(PauseCause::Failure));
}

#[test]
fn one_that_is_cancelled_with_the_run_that_it_stands_for_counts_as_failed() {
    let cancelled = |on_failure: &str| {
        let plan = NewPlan { on_failure: Some(on_failure.to_owned()), ..of_new([standing_for("one", 9)]) };
        parenting().plan_out(plan).activate().ask(tells(Status::Cancelled, None))
    };
    for on_failure in ["pause_and_escalate", "retry"] {
        let story = cancelled(on_failure).expect(["child.reported", "task.cancelled", "plan.paused"]);
        assert_eq!(story.the_plan().pause, Some(PauseCause::Failure));
    }
    for on_failure in ["fail", "notify"] {
        cancelled(on_failure).expect(["child.reported", "task.cancelled", "plan.failed"]);
    }
}

#[test]
fn a_plan_does_without_what_somebody_cancelled_and_nothing_waits_for() {
    under("pause_and_escalate", [named("one"), named("two")])
        .does_task("one")
        .act("two", TaskAct::Cancel { reason: None })
        .expect(["task.cancelled", "plan.completed"]);
}

#[test]
fn but_not_without_what_something_waits_for() {
    let tasks = || [named("one"), behind("two", &["one"])];
    let cancel = || TaskAct::Cancel { reason: None };
    let story =
        under("pause_and_escalate", tasks()).act("one", cancel()).expect(["task.cancelled", "plan.paused"]);
    assert!(story.the_plan().reason.as_ref().unwrap().contains("others wait for it"));
    // Whoever looks at it says what becomes of those, and it is over.
    let story = story.act("two", cancel()).act_plan(PlanAct::Resume);
    story.expect(["plan.resumed", "plan.completed"]);
    under("fail", tasks()).act("one", cancel()).expect(["task.cancelled", "task.cancelled", "plan.failed"]);
}

#[test]
fn one_that_goes_on_whatever_happens_ends_when_nothing_may_begin_any_more() {
    let tasks = || [named("one"), behind("two", &["one"]), behind("three", &["two"]), named("beside")];
    let story = under("notify", tasks()).fails_task("one").expect(["task.started", "task.failed"]);
    story.does_task("beside").expect([
        "task.started",
        "task.completed",
        "task.cancelled",
        "task.cancelled",
        "plan.failed",
    ]);
    under("notify", [named("one")]).does_task("one").expect([
        "task.started",
        "task.completed",
        "plan.completed",
    ]);
    let story = under("notify", [named("one")]).act("one", TaskAct::Cancel { reason: None });
    story.expect(["task.cancelled", "plan.completed"]);
    let story = begun().post(named("before"));
    let other = story.id_of("before").to_string();
    let plan = NewPlan { on_failure: Some("notify".to_owned()), ..of_new([behind("after", &[&other])]) };
    let story = story.plan_out(plan).activate().fails_task("before");
    story.expect(["task.started", "task.failed", "task.cancelled", "plan.failed"]);
}

#[test]
fn a_plan_that_stopped_at_a_condition_is_paused_again_when_that_task_fails() {
    let when = "tasks.check.output.of == 'check'";
    let plan = NewPlan { conditions: vec![condition("pay", when)], ..of_new([named("pay")]) };
    let story = begun().post(named("check")).plan_out(plan).activate();
    let story = story.expect(["plan.activated", "plan.paused"]).does_task("check");
    let story = story.act_plan(PlanAct::Resume).stands_at("pay", TaskStatus::Ready);
    story.fails_task("pay").expect(["task.started", "task.failed", "plan.paused"]);
}

#[test]
fn it_has_failed_once_nothing_of_it_can_be_done_any_more_and_whoever_was_asked_let_it_go_on() {
    for on_failure in ["pause_and_escalate", "retry"] {
        let once = NewTask { max_attempts: Some(1), ..named("one") };
        let story = under(on_failure, [once, named("two")]).fails_task("one");
        assert_eq!(story.the_plan().state, PlanState::Paused);
        let story = story.act_plan(PlanAct::Resume).does_task("two");
        assert_eq!(story.the_plan().state, PlanState::Failed, "{on_failure}");
    }
    // What may be tried again keeps it open.
    let story = failing("pause_and_escalate").act_plan(PlanAct::Resume).does_task("two").does_task("three");
    assert_eq!(story.the_plan().state, PlanState::Active);
}
