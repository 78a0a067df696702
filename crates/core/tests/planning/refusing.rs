//! What is refused, and that nothing is changed by it. The story checks the latter after each refusal.

use abide_core::planning::{PlanCommand, TaskAct};
use abide_core::{Json, limits};
use serde_json::json;

use super::*;

#[test]
fn what_is_not_there_is_refused_by_its_id() {
    let elsewhere = begun().post(named("one")).post(named("two"));
    let (id, text) = (elsewhere.id_of("two"), elsewhere.id_of("two").to_string());
    let act = TaskAct::Start;
    let story =
        begun().ask(plan_command(PlanCommand::Task { id, version: None, agent: None, act, by: None }));
    let story = story.refused(&Rejection::UnknownTask(text.clone()));
    assert_eq!(invalid(&story.clone().post(behind("x", &[&text]))), "dependsOn");
    assert_eq!(
        invalid(&story.clone().post(NewTask { parent_task: Some(text.clone()), ..named("x") })),
        "parentTaskId"
    );
    let of_plan = NewTask { plan: Some("plan-1".to_owned()), ..named("x") };
    story.post(of_plan).refused(&Rejection::UnknownPlan("plan-1".to_owned()));
}

#[test]
fn tasks_that_wait_for_each_other_or_for_themselves_are_refused() {
    let circle = of_new([behind("a", &["c"]), behind("b", &["a"]), behind("c", &["b"])]);
    begun().plan_out(circle).refused_for("in a circle");
    begun().plan_out(of_new([behind("a", &["a"])])).refused_for("depends on itself");
    let story =
        begun().plan_out(of_new([named("a"), behind("b", &["z"])])).refused_for("'z' is no task of the plan");
    assert_eq!(story.run().tasks_posted().count(), 0);
}

#[test]
fn what_can_not_be_done_now_says_what_could() {
    begun().post(named("a")).act("a", TaskAct::Start).refused_for("only one that is claimed can be started");
    begun().post(named("a")).act("a", TaskAct::Complete { output: None }).refused_for("the task is ready");
    let story = begun().post(named("a")).does_task("a");
    story.act("a", TaskAct::Cancel { reason: None }).refused_for("that is not finished");
    begun()
        .post(named("a"))
        .act("a", TaskAct::Block { reason: "ink".to_owned() })
        .refused_for("that is running");
    let story = begun().plan_out(of_new([named("a")])).act_plan(PlanAct::Pause { reason: None });
    story.refused_for("the plan is draft, and only one that is active can be paused");
}

#[test]
fn words_that_nobody_knows_are_refused_by_name() {
    let with = |change: &dyn Fn(&mut NewPlan)| {
        let mut plan = stopping();
        change(&mut plan);
        begun().plan_out(plan)
    };
    with(&|plan| plan.on_failure = Some("panic".to_owned()))
        .refused_for("use pause_and_escalate, notify, fail, retry");
    with(&|plan| plan.on_complete = Some("complete_intent".to_owned())).refused_for("'complete_intent'");
    with(&|plan| {
        plan.conditions =
            vec![NewCondition { otherwise: Some("fail".to_owned()), ..condition("draft", "true") }];
    })
    .refused_for("'skip'");
    with(&|plan| plan.conditions = vec![condition("draft", "1 +")]);
    with(&|plan| plan.checkpoints[0].after = "nothing".to_owned())
        .refused_for("'nothing' is no task of the plan");
    let twice = with(&|plan| plan.checkpoints.push(plan.checkpoints[0].clone()))
        .refused_for("two checkpoints have the id");
    assert_eq!(twice.run().plans().count(), 0);
    begun()
        .post(NewTask { priority: Some("asap".to_owned()), ..named("a") })
        .refused_for("low, normal, high, urgent");
}

#[test]
fn what_is_too_large_is_refused() {
    let long = "x".repeat(limits::TASK_NAME_CHARS_MAX + 1);
    assert_eq!(invalid(&begun().post(named(&long))), "name");
    assert_eq!(invalid(&begun().post(named(" "))), "name");
    let large = Json::of(&"x".repeat(limits::TASK_JSON_BYTES_MAX));
    assert_eq!(invalid(&begun().post(NewTask { input: Some(large.clone()), ..named("a") })), "input");
    let list = Some(Json::of(&json!([])));
    assert_eq!(invalid(&begun().post(NewTask { metadata: list, ..named("a") })), "metadata");
    let story =
        begun().post(named("a")).works_on("a", AGENT).act("a", TaskAct::Complete { output: Some(large) });
    assert_eq!(invalid(&story), "output");
    assert_eq!(invalid(&begun().post(NewTask { max_attempts: Some(0), ..named("a") })), "maxAttempts");
    let many = (0..=limits::TASKS_POSTED_MAX).map(|_| named("a"));
    assert_eq!(invalid(&begun().plan_out(of_new(many))), "tasks");
}

#[test]
fn a_task_is_in_one_plan_and_not_yet_begun() {
    let story = begun().post(named("a"));
    let id = story.id_of("a").to_string();
    let taking = || NewPlan { tasks: vec![PlanTask::Posted(id.clone())], ..NewPlan::default() };
    let twice = NewPlan {
        tasks: vec![PlanTask::Posted(id.clone()), PlanTask::Posted(id.clone())],
        ..NewPlan::default()
    };
    let story = story.plan_out(twice).refused_for("twice").plan_out(taking()).expect(["plan.created"]);
    story.plan_out(taking()).refused_for("is of plan-");
    let story = begun().post(named("a")).works_on("a", AGENT);
    story.plan_out(taking()).refused_for("only what has not begun");
}
