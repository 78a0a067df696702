//! Tasks that stand for other runs: they go with those, whoever spoke first and whatever let them begin.

use abide_core::planning::{TaskAct, TaskStatus};
use abide_core::{Command, HandOp, HoldMode, INTENT_SUSPENDED, Json, Run, limits};
use serde_json::json;

use super::story::{BEGIN, hours};
use super::world::World;
use super::*;

fn child(status: Status) -> Command {
    tells(status, Some(BEGIN + hours(9)))
}

/// A child has ended, and gives this.
fn gives(outputs: JsonMap) -> Command {
    let notice = Notice { outputs, ..told_by(9, Status::Completed, None) };
    Command::Hear { notice, heard: None }
}

fn large() -> Json {
    Json::of(&"x".repeat(limits::TASK_JSON_BYTES_MAX))
}

#[test]
fn it_ends_as_that_run_ends_even_if_it_waited() {
    let waiting = || {
        let story = parenting().post(standing_for("review", 9)).ask(child(Status::WaitingApproval));
        story.stands_at("review", TaskStatus::Blocked)
    };
    waiting().ask(child(Status::Failed)).expect(["child.reported", "task.unblocked", "task.failed"]);
    waiting().ask(child(Status::Cancelled)).expect(["child.reported", "task.cancelled"]);
    // The questions of its own run are none of its business.
    waiting().asks(AGENT, 1).expect(["interrupt.requested self", "clarification.requested self"]);
}

#[test]
fn what_the_child_told_before_the_task_was_posted_is_not_lost() {
    parenting().ask(child(Status::Running)).post(standing_for("review", 9)).expect([
        "task.created",
        "task.ready",
        "task.claimed",
        "task.started",
    ]);
    let story = parenting().ask(child(Status::WaitingInput)).post(standing_for("review", 9));
    let story = story.stands_at("review", TaskStatus::Blocked);
    assert_eq!(story.of_name("review").blocked_reason(), Some(INTENT_SUSPENDED));
    let story = parenting().ask(child(Status::Completed)).post(standing_for("review", 9));
    let story = story.stands_at("review", TaskStatus::Completed);
    assert_eq!(story.of_name("review").output.as_ref().map(Json::text), Some(r#"{"total":7}"#));
    parenting()
        .ask(child(Status::Failed))
        .post(standing_for("review", 9))
        .stands_at("review", TaskStatus::Failed);
    let story = parenting().ask(child(Status::Cancelled)).post(standing_for("review", 9));
    story.stands_at("review", TaskStatus::Cancelled);
}

/// A task that stands for the child, in a plan that lets nothing begin yet.
fn in_draft() -> Story {
    parenting().plan_out(of_new([standing_for("review", 9), behind("send", &["review"])]))
}

#[test]
fn what_the_child_tells_while_the_plan_lets_nothing_begin_counts_when_it_does() {
    let story = in_draft().ask(child(Status::Running)).expect(["child.reported"]);
    let story = story.activate().expect(["plan.activated", "task.ready", "task.claimed", "task.started"]);
    story.claim("review", OTHER).refused_for("stands for").stands_at("review", TaskStatus::Running);
    in_draft()
        .ask(child(Status::Completed))
        .stands_at("review", TaskStatus::Pending)
        .activate()
        .stands_at("review", TaskStatus::Completed)
        .stands_at("send", TaskStatus::Ready);
    let story = in_draft().activate().act_plan(PlanAct::Pause { reason: None });
    let story = story.ask(child(Status::Completed)).stands_at("review", TaskStatus::Ready);
    story
        .act_plan(PlanAct::Resume)
        .stands_at("review", TaskStatus::Completed)
        .stands_at("send", TaskStatus::Ready);
}

#[test]
fn nobody_but_the_child_does_it_by_hand() {
    let story = parenting().post(standing_for("review", 9));
    for act in [
        TaskAct::Claim { agent: AGENT.to_owned() },
        TaskAct::Start,
        TaskAct::Complete { output: None },
        TaskAct::Fail { error: failure() },
        TaskAct::Block { reason: "no ink".to_owned() },
    ] {
        story.clone().act("review", act).refused_for("claim and do that run instead");
    }
    story.act_as("review", AGENT, TaskAct::Start).refused_for(&run_id(9).to_string());
    let story = parenting().post(standing_for("review", 9)).ask(child(Status::Failed));
    story.act("review", TaskAct::Retry).refused_for("stands for");
    parenting()
        .post(standing_for("review", 9))
        .act("review", TaskAct::Cancel { reason: None })
        .expect(["task.cancelled"])
        .ask(child(Status::Completed))
        .expect(["child.reported"]);
}

#[test]
fn a_task_stands_for_a_run_that_this_one_knows_and_alone() {
    let story = parenting().post(standing_for("review", 8)).refused_for("start it below this one");
    assert_eq!(invalid(&story), "run");
    let story = story.post(standing_for("review", 9)).post(standing_for("again", 9));
    assert_eq!(invalid(&story.refused_for("another task stands for")), "run");
    let twice = of_new([standing_for("one", 9), standing_for("two", 9)]);
    assert_eq!(invalid(&parenting().plan_out(twice)), "run");
    let story = parenting().post(standing_for("review", 9)).act("review", TaskAct::Cancel { reason: None });
    story.post(standing_for("again", 9)).stands_at("again", TaskStatus::Ready);
}

#[test]
fn a_child_that_is_held_while_it_waits_for_people_still_waits_for_them() {
    let mut notice = told_by(9, Status::Paused, None);
    notice.suspended = Some(Suspension { since: BEGIN, expires_at: None });
    let held = Command::Hear { notice, heard: None };
    let story = parenting().post(standing_for("review", 9)).ask(child(Status::WaitingInput));
    story.ask(held).stands_at("review", TaskStatus::Blocked);
}

#[test]
fn since_when_and_until_when_it_waits_is_what_the_child_said_last() {
    let waits = |since, expires_at| {
        let mut notice = told_by(9, Status::WaitingInput, None);
        notice.suspended = Some(Suspension { since, expires_at });
        Command::Hear { notice, heard: None }
    };
    let told = |story: &Story| {
        let suspended = story.run().suspension_of(story.of_name("review")).expect("it waits");
        (suspended.suspended_since, suspended.expires_at)
    };
    let story = parenting().post(standing_for("review", 9)).after(hours(1));
    let story = story.ask(waits(BEGIN + 5, Some(BEGIN + hours(2))));
    assert_eq!(told(&story), (BEGIN + 5, Some(BEGIN + hours(2))), "not since this run heard of it");
    let story =
        story.ask(waits(BEGIN + 5, Some(BEGIN + hours(1)))).expect(["child.reported", "task.blocked"]);
    assert_eq!(told(&story), (BEGIN + 5, Some(BEGIN + hours(1))), "it asks a second thing");
    let story = story.ask(waits(BEGIN + 9, None)).expect(["child.reported", "task.blocked"]);
    assert_eq!(told(&story), (BEGIN + 9, None), "the first is answered");
    story.ask(waits(BEGIN + 9, None)).expect(["child.reported"]);
}

#[test]
fn a_child_that_has_not_begun_does_not_begin_its_task() {
    for status in [Status::Draft, Status::Blocked, Status::Paused, Status::Pending] {
        let story = parenting().post(standing_for("review", 9)).ask(child(status)).expect(["child.reported"]);
        story.stands_at("review", TaskStatus::Ready);
    }
    let nobody = Notice { claimed: false, ..told_by(9, Status::Running, None) };
    let story = parenting().post(standing_for("review", 9));
    story.ask(Command::Hear { notice: nobody, heard: None }).stands_at("review", TaskStatus::Ready);
}

#[test]
fn what_is_too_large_or_never_shown_stays_with_the_child_and_is_no_failure() {
    let deep = Json::of(
        &serde_json::from_str::<Value>(&format!("{}1{}", "[".repeat(101), "]".repeat(101))).unwrap(),
    );
    for output in [large(), deep] {
        let outputs = JsonMap::from([("all".to_owned(), output)]);
        let story = parenting().post(standing_for("review", 9)).ask(gives(outputs));
        let task = story.stands_at("review", TaskStatus::Completed).of_name("review").clone();
        assert_eq!(task.output, None);
        assert!(task.reason.unwrap().contains(&run_id(9).to_string()));
    }
    let mut notice = told_by(9, Status::Completed, None);
    notice.sensitive = vec!["total".to_owned()];
    let story = parenting().post(standing_for("review", 9)).ask(Command::Hear { notice, heard: None });
    let task = story.of_name("review");
    assert_eq!((task.status, &task.output), (TaskStatus::Completed, &None));
    assert!(task.reason.as_ref().unwrap().contains(&run_id(9).to_string()));
}

#[test]
fn why_a_child_failed_is_told_in_short() {
    let mut notice = told_by(9, Status::Failed, None);
    let error = Failure::new(&"c".repeat(500), "m".repeat(100_000));
    notice.error = Some(Failure { details: Some(large()), ..error });
    let story = parenting().post(standing_for("review", 9)).ask(Command::Hear { notice, heard: None });
    let error = story.of_name("review").error.as_ref().expect("it failed");
    assert_eq!(error.message.len(), limits::CAUSE_CHARS_MAX);
    assert_eq!(error.code.len(), limits::CODE_CHARS_MAX);
    let details: Value = error.details.as_ref().unwrap().parse().unwrap();
    assert_eq!(details, json!({ "childRunId": run_id(9) }));
}

#[test]
fn a_child_that_never_was_fails_its_task_whenever_that_is_posted() {
    let refused = || Command::RefuseChild { child: run_id(9), node: "hand".to_owned(), error: failure() };
    let story =
        parenting().post(standing_for("review", 9)).ask(refused()).stands_at("review", TaskStatus::Failed);
    assert_eq!(story.of_name("review").error, Some(failure()));
    parenting().ask(refused()).post(standing_for("review", 9)).stands_at("review", TaskStatus::Failed);
}

#[test]
fn what_children_have_produced_is_not_kept_without_bound() {
    let (children, bytes) = (12, limits::CHILDREN_BYTES_MAX / 10);
    let output = Json::of(&"x".repeat(bytes));
    let mut run = parenting().run().clone();
    let decide = |run: &mut Run, command: Command| drop(run.decide(command, BEGIN).expect("it is accepted"));
    for byte in 10..10 + children {
        let outputs = JsonMap::from([("all".to_owned(), output.clone())]);
        let notice = Notice { outputs, ..told_by(byte, Status::Completed, None) };
        decide(&mut run, adopting(byte));
        decide(&mut run, Command::Hear { notice, heard: None });
    }
    assert!(run.snapshot().len() < limits::CHILDREN_BYTES_MAX + 100_000);
    for byte in [10, 9 + children] {
        let task = Box::new(standing_for("review", byte));
        decide(&mut run, plan_command(PlanCommand::CreateTask { task, by: None }));
    }
    let tasks: Vec<&Task> = run.tasks_posted().collect();
    assert!(tasks.iter().all(|task| task.status == TaskStatus::Completed));
    assert_eq!(tasks[0].output, None, "it is with the child");
    assert!(tasks[1].output.is_some());
}

/// A run that is done by hand, with a child of the same kind.
fn family() -> World {
    let mut world = World::new();
    world.begin("parent").adopt("parent", "child", &[]).expect("it gets a child");
    world.settle();
    world
}

fn post(world: &mut World, run: &str, task: NewTask) {
    world.accept(run, plan_command(PlanCommand::CreateTask { task: Box::new(task), by: None })).settle();
}

fn stands(world: &World, run: &str) -> TaskStatus {
    world.run(run).tasks_posted().last().expect("a task is posted").status
}

#[test]
fn from_the_child_s_first_claim_to_its_end_the_task_stands_as_it_does() {
    let mut world = family();
    let run = Some(world.id("child"));
    post(&mut world, "parent", NewTask { run, ..named("review") });
    assert_eq!(stands(&world, "parent"), TaskStatus::Ready, "nobody has the child");
    world.claim("child").settle();
    assert_eq!(stands(&world, "parent"), TaskStatus::Running);
    world.asks("child").settle();
    assert_eq!(stands(&world, "parent"), TaskStatus::Blocked);
    for mode in [HoldMode::Pause, HoldMode::Stop] {
        let held = abide_core::event::Held { mode, reason: None, by: None };
        world.accept("child", Command::Hold(held)).settle();
        assert_eq!(stands(&world, "parent"), TaskStatus::Blocked, "its question is open all the same");
    }
    let released = abide_core::event::Released::default();
    world.accept("child", Command::Release(released)).answer("child").settle();
    assert_eq!(stands(&world, "parent"), TaskStatus::Running);
    world.complete("child").settle();
    assert_eq!(stands(&world, "parent"), TaskStatus::Completed);
}

#[test]
fn it_does_not_matter_when_the_task_is_posted() {
    for posted in 0..4 {
        let mut world = family();
        let run = Some(world.id("child"));
        for step in 0..4 {
            if step == posted {
                post(&mut world, "parent", NewTask { run, ..named("review") });
            }
            _ = match step {
                0 => world.claim("child"),
                1 => world.asks("child"),
                2 => world.answer("child"),
                _ => world.complete("child"),
            };
            world.settle();
        }
        assert_eq!(stands(&world, "parent"), TaskStatus::Completed, "posted before step {posted}");
    }
}

#[test]
fn a_phase_may_have_a_task_that_stands_for_it_too() {
    let definition = json!({
        "openintent": "1.0", "info": { "name": "flow" },
        "workflow": { "only": { "title": "Only", "assign": "ann", "outputs": {} } },
    });
    let graph = abide_core::Graph::admit(definition.to_string().as_bytes()).expect("the definition is sound");
    let mut world = World::new();
    world.begin_with("flow", Arc::new(graph), &[], |start| start);
    let run = world.run("flow").phases()[0].child;
    post(&mut world, "flow", NewTask { run, ..named("review") });
    world.settle().claim("flow/only").settle();
    assert_eq!(stands(&world, "flow"), TaskStatus::Running);
    world.does("flow/only", HandOp::Complete { outputs: None }).settle();
    assert_eq!(world.run("flow").status(), Status::Completed);
    assert_eq!(stands(&world, "flow"), TaskStatus::Completed, "it ended before the run did");
}

#[test]
fn in_a_branch_the_children_of_the_other_run_are_nobody_s() {
    let story = parenting().post(standing_for("review", 9)).ask(child(Status::WaitingInput));
    let new = story.origin().branch_from(story.journal().len() as u64);
    let task = new.run.tasks_posted().last().unwrap();
    assert_eq!(task.status, TaskStatus::Running, "nobody here will hear of the answer");
    let act = TaskAct::Complete { output: None };
    let command = PlanCommand::Task { id: task.id, version: None, agent: None, act, by: None };
    let mut run = new.run.clone();
    run.decide(plan_command(command), story::forks::LATER).expect("anybody may finish it");
}
