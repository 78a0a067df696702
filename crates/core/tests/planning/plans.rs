//! Plans: which task is next, and what becomes of a plan.

use abide_core::planning::{PauseCause, PlanAct, TaskAct, TaskStatus};

use super::*;

#[test]
fn a_plan_is_written_activated_and_done() {
    begun()
        .plan_out(of_new([behind("send", &["draft"]), named("draft")]))
        .expect(["task.created", "task.created", "plan.created"])
        .stands_at("draft", TaskStatus::Pending)
        .activate()
        .expect(["plan.activated", "task.ready"])
        .does_task("draft")
        .expect(["task.started", "task.completed", "task.ready"])
        .does_task("send")
        .expect(["task.started", "task.completed", "plan.completed"]);
}

#[test]
fn tasks_that_were_there_before_are_taken_in_and_wait_for_the_plan() {
    let story = begun().post(named("draft")).stands_at("draft", TaskStatus::Ready);
    let id = story.id_of("draft").to_string();
    let plan = NewPlan { tasks: vec![PlanTask::Posted(id)], ..NewPlan::default() };
    let story = story.plan_out(plan).expect(["plan.created"]).stands_at("draft", TaskStatus::Pending);
    let told = story.run().held_back(story.of_name("draft")).unwrap();
    assert!(told.contains("draft"), "{told}");
    story.claim("draft", AGENT).refused_for("").activate().stands_at("draft", TaskStatus::Ready);
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
        .stands_at("three", TaskStatus::Pending);
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
        .stands_at("pay", TaskStatus::Ready);
}

#[test]
fn a_condition_reads_tasks_by_their_ids_too() {
    let story = begun().post(named("check"));
    let id = story.id_of("check");
    let plan = of_new([named("pay")]);
    let when = format!("tasks['{id}'].status == 'completed'");
    let plan = NewPlan { conditions: vec![condition("pay", &when)], ..plan };
    story.does_task("check").plan_out(plan).activate().stands_at("pay", TaskStatus::Ready);
}

#[test]
fn a_condition_that_can_not_be_evaluated_is_not_one_that_does_not_hold() {
    let story = conditional("tasks.check.output.nothing == 1").does_task("check").expect([
        "task.started",
        "task.completed",
        "plan.paused",
    ]);
    assert!(story.the_plan().reason.as_ref().unwrap().contains("condition"));
    story
        .stands_at("pay", TaskStatus::Pending)
        .act_plan(PlanAct::Resume)
        .expect(["plan.resumed", "plan.paused"]);
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
