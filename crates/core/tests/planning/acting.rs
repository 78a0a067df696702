//! Who does what to a task, and when: nothing begins in a run that is held back, and nobody finishes what another has.

use abide_core::planning::TaskStatus;
use abide_core::{Governance, HoldMode, Unclaimed, limits};
use serde_json::json;

use super::world::World;
use super::*;

#[test]
fn nothing_begins_in_a_run_that_is_held() {
    let held = || Rejection::Unclaimed(Unclaimed::Held);
    let story = begun().post(named("write")).post(named("file")).claim("file", AGENT).hold(HoldMode::Pause);
    let story = story.claim("write", AGENT).refused(&held()).act("file", TaskAct::Start).refused(&held());
    let story = story.act("file", TaskAct::Complete { output: None }).refused(&held());
    let story = story.act_as("write", AGENT, TaskAct::Start).refused(&held());
    story.act("file", TaskAct::Fail { error: failure() }).expect(["task.started", "task.failed"]);
}

/// The task that was posted to a run in a world.
fn try_act(world: &mut World, run: &str, act: TaskAct) -> Result<(), Rejection> {
    let id = world.run(run).tasks_posted().last().expect("a task is posted").id;
    world.ask(run, plan_command(PlanCommand::Task { id, version: None, agent: None, act, by: None }))
}

fn create() -> Command {
    plan_command(PlanCommand::CreateTask { task: Box::new(named("write")), by: None })
}

#[test]
fn nor_in_one_that_waits_for_others_or_is_a_draft() {
    let claim = || TaskAct::Claim { agent: AGENT.to_owned() };
    let mut world = World::new();
    world.begin("first").begin_after("second", &["first"]).draft_after("third", &[]).settle();
    world.accept("second", create()).accept("third", create());
    let refused = try_act(&mut world, "second", claim());
    assert!(matches!(refused, Err(Rejection::Unclaimed(Unclaimed::Blocked(_)))), "{refused:?}");
    assert_eq!(try_act(&mut world, "third", claim()), Err(Rejection::Unclaimed(Unclaimed::Draft)));
    world.claim("first").complete("first").settle();
    assert_eq!(try_act(&mut world, "second", claim()), Ok(()));
    // What was claimed before the run began to wait is not begun either.
    world.begin("fourth").accept("fourth", create());
    try_act(&mut world, "fourth", claim()).expect("it may be claimed");
    world.begin("fifth").depend("fourth", "fifth").settle();
    let refused = try_act(&mut world, "fourth", TaskAct::Start);
    assert!(matches!(refused, Err(Rejection::Unclaimed(Unclaimed::Blocked(_)))), "{refused:?}");
}

#[test]
fn what_was_claimed_is_not_begun_by_being_done_while_its_plan_is_paused() {
    let story = begun().plan_out(of_new([named("write"), named("file")])).activate();
    let story = story.claim("write", AGENT).act_plan(PlanAct::Pause { reason: None });
    let story = story.act("write", TaskAct::Complete { output: None }).refused_for("paused");
    story.act("write", TaskAct::Fail { error: failure() }).expect(["task.started", "task.failed"]);
}

#[test]
fn nobody_finishes_what_was_given_to_another_since() {
    let story = begun().post(named("write")).works_on("write", AGENT);
    let story = story.act_as("write", AGENT, TaskAct::Fail { error: failure() }).act("write", TaskAct::Retry);
    let story = story.works_on("write", OTHER);
    for act in [
        TaskAct::Start,
        TaskAct::Release { reason: None },
        TaskAct::Progress { progress: Json::of(&1) },
        TaskAct::Complete { output: None },
        TaskAct::Fail { error: failure() },
    ] {
        story.clone().act_as("write", AGENT, act).refused_for(&format!("'{OTHER}' has the task"));
    }
    let story = story.act_as("write", OTHER, TaskAct::Complete { output: None }).expect(["task.completed"]);
    story.act_as("write", AGENT, TaskAct::Complete { output: None }).refused_for(OTHER);
}

#[test]
fn an_agent_that_is_named_takes_what_it_begins() {
    let story = begun().post(named("write")).act_as("write", AGENT, TaskAct::Start);
    let story = story.expect(["task.claimed", "task.started"]);
    assert_eq!(story.of_name("write").assigned_agent.as_deref(), Some(AGENT));
    let only = NewTask { agent: Some(OTHER.to_owned()), ..named("write") };
    begun().post(only).act_as("write", AGENT, TaskAct::Start).refused_for("another agent");
}

#[test]
fn to_bring_a_task_where_it_stands_changes_nothing() {
    let stays = |story: Story, act: TaskAct| {
        let status = story.of_name("write").status;
        story.act("write", act).expect([]).stands_at("write", status)
    };
    let (cancel, skip) = (TaskAct::Cancel { reason: None }, TaskAct::Skip { reason: None });
    let claim = || TaskAct::Claim { agent: AGENT.to_owned() };
    let story = stays(begun().post(named("write")), TaskAct::Release { reason: None });
    stays(story.clone().act("write", skip.clone()), skip);
    stays(story.clone().act("write", cancel.clone()), cancel);
    let story = stays(story.act("write", claim()), claim());
    let story = stays(stays(story.act("write", TaskAct::Start), TaskAct::Start), TaskAct::Unblock);
    let block = || TaskAct::Block { reason: "no ink".to_owned() };
    stays(story.clone().act("write", block()), block());
    stays(story.clone().fails_running("write"), TaskAct::Fail { error: failure() });
    let complete = || TaskAct::Complete { output: None };
    stays(story.act("write", complete()), complete());
    begun().post(named("write")).claim("write", AGENT).claim("write", OTHER).refused_for("that is ready");
}

impl Story {
    #[track_caller]
    fn fails_running(self, name: &str) -> Self {
        self.act(name, TaskAct::Fail { error: failure() }).expect(["task.failed"])
    }
}

#[test]
fn what_is_said_of_a_failure_is_bounded_and_counted() {
    let told = |bytes: usize| Failure { details: Some(Json::of(&"x".repeat(bytes))), ..failure() };
    let story = begun().post(named("write")).works_on("write", AGENT);
    let large = TaskAct::Fail { error: told(limits::TASK_JSON_BYTES_MAX) };
    assert_eq!(invalid(&story.act("write", large)), "error.details");
    let each = limits::TASK_JSON_BYTES_MAX - 2;
    let mut run = begun().run().clone();
    let mut fails = |name: String| {
        let task = PlanCommand::CreateTask { task: Box::new(named(&name)), by: None };
        run.decide(plan_command(task), story::BEGIN).expect("it is posted");
        let id = run.tasks_posted().last().unwrap().id;
        let claim = TaskAct::Claim { agent: AGENT.to_owned() };
        let acts = [claim, TaskAct::Start, TaskAct::Fail { error: told(each) }].map(|act| {
            let command = PlanCommand::Task { id, version: None, agent: None, act, by: None };
            run.decide(plan_command(command), story::BEGIN).map(drop)
        });
        acts.into_iter().last().unwrap()
    };
    for at in 0..limits::PLANNING_BYTES_MAX / limits::TASK_JSON_BYTES_MAX - 1 {
        assert_eq!(fails(format!("write {at}")), Ok(()));
    }
    let refused = fails("last".to_owned());
    assert!(matches!(refused, Err(Rejection::Invalid { ref field, .. }) if field == "tasks"), "{refused:?}");
}

#[test]
fn nothing_is_posted_to_a_group() {
    let mut world = World::new();
    world.group("group", Governance::default());
    let refused = world.ask("group", create());
    assert!(matches!(refused, Err(Rejection::Invalid { ref field, .. }) if field == "runId"), "{refused:?}");
    let plan = plan_command(PlanCommand::CreatePlan { plan: Box::default(), by: None });
    assert!(world.ask("group", plan).is_err());
}

#[test]
fn what_is_begun_while_its_agent_waits_for_an_answer_waits_with_it() {
    let story = begun().post(named("write")).post(named("file")).asks(AGENT, 1);
    let id = story.question();
    let story = story.claim("write", AGENT).act("write", TaskAct::Start);
    let story = story.expect(["task.started", "task.blocked"]).stands_at("write", TaskStatus::Blocked);
    let story = story.works_on("file", OTHER);
    story.answer_well(id).stands_at("write", TaskStatus::Running);
}

#[test]
fn whoever_joins_what_another_asked_waits_for_the_same_answer() {
    let both = workflow([of_kind("self", KIND), of_kind("other", KIND)]);
    let story = Story::of(&both).under(around()).start().post(named("write")).post(named("file"));
    let story = story.works_on("write", AGENT).works_on("file", OTHER);
    let ask = |agent: &str| {
        let asked = json!({
            "kind": "clarification", "data": { "questions": [{ "id": "answer", "question": "Well?" }] },
        });
        WorkOp::Ask(Box::new(WorkAsk {
            agent: agent.to_owned(),
            principal: None,
            key: Some("shared".to_owned()),
            call: 1,
            payload: Json::of(&asked),
            ladder: None,
            respondents: None,
            single: true,
            hooks: Vec::new(),
        }))
    };
    let story = story
        .works(ask(AGENT))
        .stands_at("write", TaskStatus::Blocked)
        .stands_at("file", TaskStatus::Running);
    let story =
        story.works_at("other", ask(OTHER)).expect(["task.blocked"]).stands_at("file", TaskStatus::Blocked);
    let story = story.works_at("other", ask(OTHER)).expect([]);
    let id = story.question();
    story.answer_well(id).stands_at("write", TaskStatus::Running).stands_at("file", TaskStatus::Running);
}
