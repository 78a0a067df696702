//! Checkpoints: a plan that asks people whether it may go on.

use abide_core::planning::{CheckpointStatus, PauseCause, PlanState, TaskStatus};
use abide_core::{InterruptKind, Status};
use serde_json::json;

use super::story::hours;
use super::*;

fn stopped() -> Story {
    begun().plan_out(stopping()).activate().does_task("draft")
}

fn timed(on_timeout: &str) -> NewPlan {
    let mut plan = stopping();
    plan.checkpoints[0].timeout_ms = Some(hours(1));
    plan.checkpoints[0].on_timeout = Some(on_timeout.to_owned());
    plan
}

#[test]
fn oi_079_a_checkpoint_that_needs_approval_asks_people_and_waits_for_them() {
    let story = stopped()
        .expect([
            "task.started",
            "task.completed",
            "plan.checkpoint_reached",
            "plan.paused",
            "interrupt.requested abide:resume",
        ])
        .expect_effects(["open approval abide:resume"])
        .stands(Status::WaitingApproval)
        .stands_at("send", TaskStatus::Pending);
    let open = story.run().interrupts().next().unwrap();
    assert_eq!(open.requested.kind, InterruptKind::Approval);
    assert_eq!(open.requested.respondents, ["alice"]);
    assert_eq!(open.requested.checkpoint.as_ref().unwrap().checkpoint, "review");
    assert_eq!(story.the_plan().pause, Some(PauseCause::Checkpoint));
    let why = story.run().why();
    let reason = why.reasons.iter().find(|reason| reason.kind == "plan").expect("it is told");
    assert!(reason.what.contains("checkpoint 'review'"), "{}", reason.what);
    story
        .at_checkpoint(&accept())
        .expect([
            "approval.received abide:resume",
            "interrupt.resolved abide:resume",
            "plan.checkpoint_approved",
            "plan.resumed",
            "task.ready",
        ])
        .stands(Status::Running)
        .does_task("send")
        .expect(["task.started", "task.completed", "plan.completed"]);
}

#[test]
fn a_rejection_keeps_it_where_it_is_and_who_resumes_it_has_them_asked_again() {
    let story = stopped().at_checkpoint(&reject()).expect([
        "approval.received abide:resume",
        "interrupt.resolved abide:resume",
        "plan.checkpoint_rejected",
    ]);
    assert_eq!(story.the_plan().state, PlanState::Paused);
    assert_eq!(story.said("plan.checkpoint_rejected")["by"], json!("alice"));
    let story = story.stands_at("send", TaskStatus::Pending).stands(Status::Running);
    let story = story
        .act_plan(PlanAct::Resume)
        .expect(["plan.checkpoint_reached", "interrupt.requested abide:resume"]);
    story.at_checkpoint(&accept()).stands_at("send", TaskStatus::Ready);
}

#[test]
fn a_rejection_ends_a_plan_that_says_so_and_leaves_nothing_of_it() {
    let plan = NewPlan { on_failure: Some("fail".to_owned()), ..stopping() };
    let story = begun().plan_out(plan).activate().does_task("draft").at_checkpoint(&reject()).expect([
        "approval.received abide:resume",
        "interrupt.resolved abide:resume",
        "plan.checkpoint_rejected",
        "task.cancelled",
        "plan.failed",
    ]);
    assert_eq!(story.the_plan().state, PlanState::Failed);
    story.stands(Status::Running);
}

#[test]
fn silence_is_a_rejection_if_the_checkpoint_says_so() {
    let story = begun().plan_out(timed("fail")).activate().does_task("draft");
    let timer = format!("interrupt/{}", story.question());
    story.after(hours(1)).fire_timer(&timer).expect([
        "approval.received abide:resume",
        "interrupt.resolved abide:resume",
        "plan.checkpoint_rejected",
        "task.cancelled",
        "plan.failed",
    ]);
}

#[test]
fn silence_has_people_told_again_and_approves_of_nothing() {
    let story =
        Story::of(&driven()).under(reminding(&json!({ "max_attempts": 3, "interval_seconds": 60 }))).start();
    let story = story.plan_out(timed("escalate")).activate().does_task("draft");
    let timer = format!("attempt/{}", story.question());
    let story = story.after(hours(1)).fire_timer(&timer).expect(["interrupt.renotified abide:resume"]);
    let story = story.after(hours(1)).fire_timer(&timer).expect(["interrupt.renotified abide:resume"]);
    assert!(story.run().timers().is_empty(), "it stays open for ever");
    story.after(hours(1_000)).at_checkpoint(&accept()).stands_at("send", TaskStatus::Ready);
}

#[test]
fn silence_has_people_told_again_even_if_no_operator_says_so() {
    let story = begun().plan_out(timed("escalate")).activate().does_task("draft");
    let timer = format!("attempt/{}", story.question());
    story.after(hours(1)).fire_timer(&timer).expect(["interrupt.renotified abide:resume"]);
}

#[test]
fn nobody_s_silence_is_an_approval() {
    let story = begun().plan_out(timed("auto_approve")).refused_for("nobody's silence is an approval");
    assert_eq!(invalid(&story), "checkpoints.on_timeout");
    assert_eq!(story.run().plans().count(), 0);
}

#[test]
fn one_that_needs_nobody_is_only_told() {
    let mut plan = stopping();
    plan.checkpoints[0].requires_approval = false;
    let story = begun().plan_out(plan).activate().does_task("draft").expect([
        "task.started",
        "task.completed",
        "plan.checkpoint_reached",
        "task.ready",
    ]);
    assert_eq!(story.the_plan().checkpoints["review"].status, CheckpointStatus::Passed);
}

#[test]
fn nobody_goes_round_it_by_skipping_the_task_before_or_by_resuming_the_plan() {
    let story =
        begun().plan_out(stopping()).activate().act("draft", TaskAct::Skip { reason: None }).expect([
            "task.skipped",
            "plan.checkpoint_reached",
            "plan.paused",
            "interrupt.requested abide:resume",
        ]);
    story.act_plan(PlanAct::Resume).refused_for("waits at a checkpoint");
}

#[test]
fn a_question_about_a_checkpoint_blocks_no_task() {
    let story = begun().post(named("other")).works_on("other", AGENT).plan_out(stopping()).activate();
    story.does_task("draft").stands(Status::WaitingApproval).stands_at("other", TaskStatus::Running);
}

#[test]
fn a_plan_that_is_given_up_asks_nobody_any_more() {
    let story = stopped();
    let id = story.question();
    story
        .act_plan(PlanAct::Cancel { reason: None })
        .expect(["interrupt.resolved abide:resume", "task.cancelled", "plan.cancelled"])
        .stands(Status::Running)
        .answer_to(id, &accept(), "alice")
        .refused(&Rejection::InterruptGone);
}

#[test]
fn a_run_that_is_stopped_has_its_question_stand_still() {
    let story = begun().plan_out(timed("fail")).activate().does_task("draft");
    let story = story.hold(abide_core::HoldMode::Stop).after(hours(5)).release();
    let timer = format!("interrupt/{}", story.question());
    story.after(hours(1)).fire_timer(&timer);
}

#[test]
fn what_was_due_before_a_stop_happens_before_it() {
    let story = begun().plan_out(timed("fail")).activate().does_task("draft").after(hours(2));
    let story = story.hold(abide_core::HoldMode::Stop);
    assert_eq!(story.the_plan().state, PlanState::Failed);
}

#[test]
fn nobody_guesses_which_of_the_run_s_own_questions_is_meant() {
    let paying = workflow([workflow::http("pay", "POST"), noop("next")]).flow("pay > next");
    let story = Story::of(&paying).start().plan_out(stopping()).activate().does_task("draft");
    let checkpoint = story.question();
    let story = story.report_trouble("pay", "it did not answer", abide_core::Reached::Maybe);
    let story = story.fire_timer("resume");
    let resume = story.question();
    assert_ne!(checkpoint, resume, "both are asked");
    let several = Rejection::SeveralOpen(vec![checkpoint, resume]);
    assert_eq!(story.run().interrupt_of(RESUME_NODE), Err(several));
    let story = story.answer_to(checkpoint, &accept(), "alice");
    assert_eq!(story.run().interrupt_of(RESUME_NODE), Ok(resume));
}

#[test]
fn two_checkpoints_are_asked_about_one_after_the_other() {
    let mut plan = stopping();
    let second = NewCheckpoint { name: "law".to_owned(), ..plan.checkpoints[0].clone() };
    plan.checkpoints.push(second);
    let story = begun().plan_out(plan).activate().does_task("draft").at_checkpoint(&accept()).expect([
        "approval.received abide:resume",
        "interrupt.resolved abide:resume",
        "plan.checkpoint_approved",
        "plan.resumed",
        "plan.checkpoint_reached",
        "plan.paused",
        "interrupt.requested abide:resume",
    ]);
    story
        .stands_at("send", TaskStatus::Pending)
        .at_checkpoint(&accept())
        .stands_at("send", TaskStatus::Ready);
}
