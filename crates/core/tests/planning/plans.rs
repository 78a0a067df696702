//! Plans: which task is next, and what becomes of a plan.

use abide_core::planning::{PauseCause, PlanAct, PlanState, TaskAct, TaskStatus};

use super::*;

#[test]
fn a_plan_is_written_activated_and_done() {
    begun()
        .plan_out(of_new([behind("send", &["draft"]), named("draft")]))
        .expect(["task.created", "task.created", "plan.created"])
        .is_at("draft", TaskStatus::Pending)
        .activate()
        .expect(["plan.activated", "task.ready"])
        .does_task("draft")
        .expect(["task.started", "task.completed", "task.ready"])
        .does_task("send")
        .expect(["task.started", "task.completed", "plan.completed"]);
}

#[test]
fn tasks_that_were_there_before_are_taken_in_and_wait_for_the_plan() {
    let story = begun().post(named("draft")).is_at("draft", TaskStatus::Ready);
    let id = story.id_of("draft").to_string();
    let plan = NewPlan { tasks: vec![PlanTask::Posted(id)], ..NewPlan::default() };
    let story = story.plan_out(plan).expect(["plan.created"]).is_at("draft", TaskStatus::Pending);
    let told = story.run().held_back(story.of_name("draft")).unwrap();
    assert!(told.contains("draft"), "{told}");
    story.claim("draft", AGENT).refused_for("").activate().is_at("draft", TaskStatus::Ready);
}

#[test]
fn more_tasks_may_be_posted_to_it() {
    let story = begun().plan_out(NewPlan::default()).activate().refused_for("no tasks");
    let task = NewTask { plan: Some(story.plan_id().to_string()), ..named("draft") };
    let story = story.post(task).expect(["task.created"]).activate().expect(["plan.activated", "task.ready"]);
    assert_eq!(story.the_plan().tasks, [story.id_of("draft")]);
}

#[test]
fn nothing_of_a_paused_plan_begins_and_what_has_begun_goes_on() {
    let story = begun().plan_out(of_new([named("one"), named("two"), behind("three", &["one"])])).activate();
    let story = story.works_on("one", AGENT).act_plan(PlanAct::Pause { reason: Some("lunch".to_owned()) });
    assert_eq!(story.the_plan().pause, Some(PauseCause::Hand));
    let story = story
        .claim("two", AGENT)
        .refused_for("paused")
        .act("one", TaskAct::Complete { output: None })
        .expect(["task.completed"])
        .is_at("three", TaskStatus::Pending);
    story
        .act_plan(PlanAct::Resume)
        .expect(["plan.resumed", "task.ready"])
        .claim("two", AGENT)
        .expect(["task.claimed"]);
}

fn conditional(when: &str) -> Story {
    let plan = of_new([named("check"), behind("pay", &["check"]), behind("file", &["pay"])]);
    begun().plan_out(NewPlan { conditions: vec![condition("pay", when)], ..plan }).activate()
}

#[test]
fn a_task_whose_condition_does_not_hold_is_skipped_and_those_behind_it_begin() {
    let story = conditional("tasks.check.output.of == 'nothing'").does_task("check").expect([
        "task.started",
        "task.completed",
        "task.skipped",
        "task.ready",
    ]);
    assert_eq!(story.of_name("pay").status, TaskStatus::Skipped);
    conditional("tasks.check.output.of == 'check' && run.id != ''")
        .does_task("check")
        .is_at("pay", TaskStatus::Ready);
}

#[test]
fn a_condition_reads_tasks_by_their_ids_too() {
    let story = begun().post(named("check"));
    let id = story.id_of("check");
    let plan = of_new([named("pay")]);
    let when = format!("tasks['{id}'].status == 'completed'");
    let plan = NewPlan { conditions: vec![condition("pay", &when)], ..plan };
    story.does_task("check").plan_out(plan).activate().is_at("pay", TaskStatus::Ready);
}

#[test]
fn a_condition_that_can_not_be_evaluated_is_not_one_that_does_not_hold() {
    let story = conditional("tasks.nobody.output.of == 1").does_task("check").expect([
        "task.started",
        "task.completed",
        "plan.paused",
    ]);
    assert!(story.the_plan().reason.as_ref().unwrap().contains("condition"));
    story.is_at("pay", TaskStatus::Pending).act_plan(PlanAct::Resume).expect(["plan.resumed", "plan.paused"]);
}

fn failing(on_failure: &str) -> Story {
    let once = |name: &str| NewTask { max_attempts: Some(1), ..named(name) };
    let plan = of_new([once("one"), named("two"), behind("three", &["two"])]);
    let plan = NewPlan { on_failure: Some(on_failure.to_owned()), ..plan };
    begun().plan_out(plan).activate().fails_task("one")
}

#[test]
fn a_task_that_failed_for_good_pauses_its_plan_once() {
    let story = failing("pause_and_escalate").expect(["task.started", "task.failed", "plan.paused"]);
    assert_eq!(story.the_plan().pause, Some(PauseCause::Failure));
    assert_eq!(story.said("plan.paused")["taskId"], serde_json::json!(story.id_of("one")));
    story
        .act_plan(PlanAct::Resume)
        .expect(["plan.resumed"])
        .does_task("two")
        .is_at("three", TaskStatus::Ready);
}

#[test]
fn or_lets_it_go_on_with_the_rest() {
    let story = failing("notify").expect(["task.started", "task.failed"]).does_task("two").does_task("three");
    assert_eq!(story.the_plan().state, PlanState::Active, "it is not done");
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
fn one_that_may_be_tried_again_changes_nothing_yet() {
    let story = begun()
        .plan_out(of_new([named("one")]))
        .activate()
        .fails_task("one")
        .expect(["task.started", "task.failed"]);
    story.act("one", TaskAct::Retry).expect(["task.retrying"]).is_at("one", TaskStatus::Ready);
}

#[test]
fn a_plan_that_is_given_up_takes_its_tasks_along() {
    let story =
        begun().plan_out(of_new([named("one"), behind("two", &["one"])])).activate().works_on("one", AGENT);
    story.act_plan(PlanAct::Cancel { reason: Some("enough".to_owned()) }).expect([
        "task.cancelled",
        "task.cancelled",
        "plan.cancelled",
    ]);
}
