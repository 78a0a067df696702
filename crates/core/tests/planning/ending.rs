//! What becomes of tasks and plans when their run ends, and what the run makes of them: nothing.

use abide_core::planning::{PlanState, TaskStatus};
use abide_core::{Lifecycle, Status};

use super::story::hours;
use super::*;

fn planned(flow: &Workflow) -> Story {
    let plan = of_new([named("one"), named("two"), behind("three", &["two"])]);
    Story::of(flow).under(around()).start().plan_out(plan).activate().works_on("one", AGENT)
}

#[test]
fn a_run_completes_whatever_is_left_to_do() {
    let story = planned(&waiting_run()).after(hours(1)).fire("wait").expect([
        "node.completed wait",
        "node.started next",
        "node.completed next",
        "task.cancelled",
        "task.cancelled",
        "task.cancelled",
        "plan.cancelled",
        "run.completed",
    ]);
    assert_eq!(story.the_plan().state, PlanState::Cancelled);
}

#[test]
fn a_run_that_completes_leaves_no_checkpoint_open() {
    let story = Story::of(&waiting_run()).start().plan_out(stopping()).activate().does_task("draft");
    let id = story.question();
    story
        .after(hours(1))
        .fire("wait")
        .expect([
            "node.completed wait",
            "node.started next",
            "node.completed next",
            "interrupt.resolved abide:resume",
            "task.cancelled",
            "plan.cancelled",
            "run.completed",
        ])
        .stands(Status::Completed)
        .answer_to(id, &accept(), "alice")
        .refused(&Rejection::InterruptGone);
}

#[test]
fn a_run_that_fails_fails_them() {
    let fails = workflow([workflow::delay("wait", hours(1)), workflow::fail("broken")]).flow("wait > broken");
    let story = planned(&fails).after(hours(1)).fire("wait").stands(Status::Failed);
    let statuses: Vec<TaskStatus> = story.run().tasks_posted().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Failed; 3]);
    assert_eq!(story.the_plan().state, PlanState::Failed);
    let code = |failure: &Failure| failure.code.clone();
    assert_eq!(story.of_name("one").error.as_ref().map(code), story.run().error().map(code));
}

#[test]
fn a_run_that_is_cancelled_cancels_them() {
    planned(&waiting_run())
        .cancel()
        .expect([
            "node.cancelled wait",
            "task.cancelled",
            "task.cancelled",
            "task.cancelled",
            "plan.cancelled",
            "run.cancelled",
        ])
        .stands(Status::Cancelled);
}

#[test]
fn they_end_before_work_in_flight_does() {
    let story = planned(&workflow([workflow::task("work")])).cancel().expect([
        "run.cancelling",
        "task.cancelled",
        "task.cancelled",
        "task.cancelled",
        "plan.cancelled",
    ]);
    let story = story.post(named("late")).refused(&Rejection::Cancelling);
    story.report("work").expect(["node.completed work", "run.cancelled"]);
}

#[test]
fn a_run_that_is_about_to_fail_takes_no_more() {
    let two = workflow([workflow::task("left"), workflow::task("right")]);
    let story = planned(&two).report_failure("left", "broken").expect([
        "node.failed left",
        "task.failed",
        "task.failed",
        "task.failed",
        "plan.failed",
    ]);
    assert_eq!(story.run().lifecycle(), Lifecycle::Running);
    story
        .post(named("late"))
        .refused(&Rejection::Ending)
        .report("right")
        .expect(["node.completed right", "run.failed"]);
}

#[test]
fn plans_change_nothing_about_the_run() {
    let story = planned(&waiting_run());
    let story = story.act_plan(PlanAct::Cancel { reason: None }).stands(Status::Running);
    assert_eq!(story.run().lifecycle(), Lifecycle::Running);
}

#[test]
fn a_run_that_has_ended_takes_nothing_more() {
    let story = Story::of(&workflow([noop("only")])).start().stands(Status::Completed).post(named("late"));
    story.refused(&Rejection::Ended(Lifecycle::Completed));
}

#[test]
fn what_is_open_when_a_gate_lets_the_run_complete_is_cancelled() {
    let story = Story::of(&workflow([
        of_kind("gate", "core.approvalGate").config("title", serde_json::json!("Pay?"))
    ]));
    let story = story.start().post(named("one")).works_on("one", AGENT);
    story.answer("gate", &accept()).stands_at("one", TaskStatus::Cancelled).stands(Status::Completed);
}

#[test]
fn a_gate_and_a_checkpoint_are_answered_by_themselves() {
    let story =
        Story::of(&gated()).under(around()).start().plan_out(stopping()).activate().does_task("draft");
    let story =
        story.stands(Status::WaitingApproval).at_checkpoint(&accept()).stands_at("send", TaskStatus::Ready);
    story.answer("gate", &accept()).stands(Status::Running);
}

#[test]
fn a_plan_of_which_nothing_is_left_is_completed_also_if_the_run_completes_with_it() {
    let mut world = world::World::new();
    let flow = abide_core::Graph::admit(
        json!({
            "openintent": "1.0", "info": { "name": "flow" }, "workflow": { "only": { "title": "Only", "assign": "ann" } },
        })
        .to_string()
        .as_bytes(),
    );
    world.begin_with("flow", Arc::new(flow.expect("it is sound")), &[], |start| start).settle();
    let child = NewTask { run: Some(world.id("flow/only")), ..named("only") };
    let posted = PlanCommand::CreatePlan { plan: Box::new(of_new([child])), by: None };
    world.accept("flow", plan_command(posted));
    let id = world.run("flow").plans().next().expect("one was posted").id;
    world.accept(
        "flow",
        plan_command(PlanCommand::Plan { id, version: None, act: PlanAct::Activate, by: None }),
    );
    world.claim("flow/only").complete("flow/only").settle().stands("flow", Status::Completed);
    let plan = world.run("flow").plans().next().expect("one was posted");
    assert_eq!(plan.state, PlanState::Completed);
    world.fork_all();
}
