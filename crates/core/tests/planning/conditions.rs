//! Conditions of plans: what they may read, and what they may cost.

use abide_core::limits;
use abide_core::planning::{PlanState, TaskStatus};
use serde_json::json;

use super::*;

fn conditional(when: &str) -> NewPlan {
    let plan = of_new([named("check"), behind("pay", &["check"])]);
    NewPlan { conditions: vec![condition("pay", when)], ..plan }
}

#[test]
fn what_will_never_be_there_is_refused_at_the_door() {
    for (when, told) in [
        ("tasks.chekc.output.of == 'check'", "'chekc', and no task is called so"),
        ("tasks['task-000000000000000000000000000000000000'].status == 'completed'", "no task is called so"),
        ("task.check.status == 'completed'", "there is no 'task' here"),
        ("inputs.amount > 1", "there is no 'inputs' here"),
    ] {
        let story = begun().plan_out(conditional(when)).refused_for(told);
        assert_eq!(invalid(&story), "conditions.when");
        assert_eq!(story.run().plans().count(), 0);
    }
    for when in
        ["tasks.check.status == 'completed'", "tasks.all(id, true)", "run.id != '' && !has(variables.x)"]
    {
        begun().plan_out(conditional(when)).expect(["task.created", "task.created", "plan.created"]);
    }
}

#[test]
fn a_name_that_several_tasks_have_is_none_unless_one_is_the_plans_own() {
    let story = begun().post(named("note")).post(named("note"));
    story.clone().plan_out(conditional("tasks.note.status == 'ready'")).refused_for("read one by its id");
    // What others are called is not the plan's business.
    let story =
        story.post(named("check")).plan_out(conditional("tasks.check.status == 'completed'")).activate();
    let own = story.the_plan().tasks[0];
    let act = |act| PlanCommand::Task { id: own, version: None, agent: None, act, by: None };
    let story = story.ask(plan_command(act(TaskAct::Claim { agent: AGENT.to_owned() })));
    let story = story.ask(plan_command(act(TaskAct::Complete { output: None })));
    story.stands_at("pay", TaskStatus::Ready);
}

/// So many tasks behind one, each under a condition that takes its time.
fn costly(tasks: usize, when: &str) -> NewPlan {
    let names: Vec<String> = (0..tasks).map(|at| format!("after {at}")).collect();
    let after = names.iter().map(|name| behind(name, &["check"]));
    let conditions = names.iter().map(|name| condition(name, when)).collect();
    NewPlan { conditions, ..of_new([named("check")].into_iter().chain(after)) }
}

fn counting(story: Story, to: usize) -> Story {
    let list: Vec<usize> = (0..to).collect();
    let output = Some(Json::of(&json!({ "list": list })));
    story.claim("check", AGENT).act("check", TaskAct::Complete { output })
}

#[test]
fn all_conditions_of_a_decision_share_one_budget_and_the_rest_waits_in_sight() {
    let when = "tasks.check.output.list.all(a, tasks.check.output.list.all(b, a + b >= 0))";
    let story = counting(begun().plan_out(costly(20, when)).activate(), 400);
    let done =
        |story: &Story| story.run().tasks_posted().filter(|task| task.status == TaskStatus::Ready).count();
    let first = done(&story);
    assert!(first > 0 && first < 20, "{first} were evaluated");
    assert_eq!(story.the_plan().state, PlanState::Paused);
    assert!(story.the_plan().reason.as_ref().unwrap().contains("resume the plan, and the rest is evaluated"));
    let story = story.act_plan(PlanAct::Resume);
    assert!(done(&story) > first, "whoever resumes it has the rest evaluated");
    // Nothing has gone wrong with any of them.
    let plan = NewPlan { on_failure: Some("fail".to_owned()), ..costly(20, when) };
    assert_eq!(counting(begun().plan_out(plan).activate(), 400).the_plan().state, PlanState::Paused);
}

#[test]
fn what_one_condition_alone_takes_is_told_as_that() {
    let when = "tasks.check.output.list.all(a, tasks.check.output.list.all(b, a + b >= 0))";
    let story = counting(begun().plan_out(costly(1, when)).activate(), 4_000);
    let told = story.the_plan().reason.clone().expect("it is paused");
    assert!(told.contains("takes more steps than one decision may"), "{told}");
}

#[test]
fn what_is_read_of_the_tasks_is_paid_for() {
    let mut story = begun();
    let output = || Some(Json::of(&"x".repeat(limits::TASK_JSON_BYTES_MAX - 2)));
    for at in 0..20 {
        let name = format!("large {at}");
        story =
            story.post(named(&name)).claim(&name, AGENT).act(&name, TaskAct::Complete { output: output() });
    }
    let plan = costly(20, "tasks.size() > 0");
    let story = story.plan_out(plan).activate().does_task("check");
    let ready = story.run().tasks_posted().filter(|task| task.status == TaskStatus::Ready).count();
    assert!(ready > 0 && ready < 20, "{ready} times all tasks were read");
}
