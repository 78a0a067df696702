//! The deadline of a group: nobody talks their way out of it, neither by a fallback nor by being heard first.

use abide_core::planning::{
    NewCheckpoint, NewPlan, NewTask, PlanAct, PlanCommand, PlanTask, TaskAct, TaskStatus,
};
use abide_core::{Command, Governance, Json, PhaseStatus, Rejection, Status};
use serde_json::{Value, json};

use crate::phases::flow;
use crate::story::{BEGIN, hours};
use crate::world::{ANN, World, fleeting_question, question, until};

/// Three attempts, so many minutes apart, and then something else takes the place of an answer.
fn lenient(minutes: i64) -> Value {
    json!({
        "fallback_policy": "complete_with_fallback",
        "fallback_value": { "answers": { "answer": "nothing" } },
        "retry_policy": {
            "max_attempts": 3, "interval_seconds": minutes * 60,
            "final_fallback_policy": "use_default_and_continue",
        },
    })
}

/// A run that waits for people, in a group with a deadline so many hours after the beginning.
fn asked(payload: Json, ladder: Option<Value>, deadline_hours: i64) -> World {
    let mut world = World::new();
    world.group("group", until(BEGIN + hours(deadline_hours))).begin("asks").add("group", &["asks"]).settle();
    world.claim("asks").asks_for("asks", payload, ladder).settle();
    world
}

#[track_caller]
fn check_abandoned(world: &mut World, name: &str) {
    world.settle().stands(name, Status::Cancelled);
    assert_eq!(world.run(name).abandonment_reason(), Some("portfolio_deadline_exceeded"));
    let expired = world.payloads(name, "interrupt.expired");
    assert_eq!(expired.len(), 1, "{expired:?}");
    assert_eq!(
        (&expired[0]["reason"], expired[0].get("fallbackPolicy")),
        (&json!("portfolio_deadline"), None)
    );
}

#[test]
fn no_fallback_takes_the_place_of_an_answer_at_the_deadline() {
    let mut world = asked(question(), Some(lenient(60)), 2);
    world.later(hours(2));
    check_abandoned(&mut world, "asks");
    assert!(!world.history("asks").contains(&"clarification.resolved"), "nothing stands for an answer");
    // With a later deadline it would have.
    let mut world = asked(question(), Some(lenient(60)), 4);
    world.later(hours(3)).stands("asks", Status::Running);
    assert_eq!(world.payloads("asks", "interrupt.expired")[0]["fallbackPolicy"], "use_default_and_continue");
}

/// What is due in a run whose name begins so.
fn due(world: &World, name: &str, kind: &str) -> Option<Command> {
    let timer = world.timers(name).into_keys().find(|timer| timer.starts_with(kind))?;
    Some(Command::Fire(timer.parse().expect("it is the name of a timer")))
}

#[test]
fn a_deadline_wins_over_the_end_of_a_question_at_the_same_moment_whichever_is_heard_first() {
    let mut heard = Vec::new();
    for (payload, ladder) in [(question(), Some(lenient(20))), (fleeting_question(), None)] {
        for kind in ["interrupt/", "attempt/", "deadline"] {
            let mut world = asked(payload.clone(), ladder.clone(), 1);
            world.later(hours(1) - 1).stall(1);
            let Some(fires) = due(&world, "asks", kind) else { continue };
            world.accept("asks", fires);
            check_abandoned(&mut world, "asks");
            heard.push(kind);
        }
    }
    assert_eq!(heard, ["attempt/", "deadline", "interrupt/", "deadline"]);
}

#[test]
fn a_deadline_that_has_passed_is_looked_at_before_any_answer_and_any_expiry_however_late_its_timer_is() {
    for late in [hours(0), hours(1), hours(9)] {
        let stalled = || {
            let mut world = asked(question(), Some(lenient(60)), 2);
            world.later(hours(2) - 1).stall(1 + late);
            world
        };
        let mut answered = stalled();
        assert_eq!(answered.try_answer("asks"), Err(Rejection::DeadlineExceeded));
        check_abandoned(&mut answered, "asks");
        let mut expired = stalled();
        let fires = due(&expired, "asks", "attempt/").expect("it would be given up, too");
        expired.accept("asks", fires);
        check_abandoned(&mut expired, "asks");
    }
}

/// The only task that was posted to a run.
fn task_of(world: &World, name: &str) -> abide_core::planning::Task {
    world.run(name).tasks_posted().next().expect("one was posted").clone()
}

fn plan(world: &mut World, name: &str, command: PlanCommand) {
    world.accept(name, Command::Plan(Box::new(command)));
}

/// Somebody works on a task that was posted to a run.
fn works(world: &mut World, name: &str) {
    let task = NewTask { name: "write".to_owned(), ..NewTask::default() };
    plan(world, name, PlanCommand::CreateTask { task: Box::new(task), by: None });
    for act in [TaskAct::Claim { agent: ANN.to_owned() }, TaskAct::Start] {
        let id = task_of(world, name).id;
        plan(world, name, PlanCommand::Task { id, version: None, agent: None, act, by: None });
    }
}

#[test]
fn what_mirrors_a_run_that_is_abandoned_at_the_deadline_is_cancelled_with_it() {
    let mut world = flow();
    world.group("group", until(BEGIN + hours(1))).add("group", &["flow/first"]).settle();
    works(&mut world, "flow/first");
    world.suspend("flow/first").settle();
    assert_eq!(task_of(&world, "flow/first").status, TaskStatus::Blocked);
    assert_eq!(crate::phases::phase(&world, "first").task_status, PhaseStatus::Blocked);
    world.later(hours(1));
    check_abandoned(&mut world, "flow/first");
    assert_eq!(task_of(&world, "flow/first").status, TaskStatus::Cancelled);
    let phase = crate::phases::phase(&world, "first");
    assert_eq!((phase.task_status, phase.blocked_reason), (PhaseStatus::Cancelled, None));
}

#[test]
fn what_mirrors_a_run_whose_question_expires_for_good_fails_with_it() {
    let mut world = flow();
    works(&mut world, "flow/first");
    let brief = json!({ "retry_policy": { "max_attempts": 1, "interval_seconds": 60, "final_fallback_policy": "fail" } });
    world.claim("flow/first").asks_for("flow/first", question(), Some(brief)).settle();
    world.later(60_000).stands("flow/first", Status::Failed);
    assert_eq!(task_of(&world, "flow/first").status, TaskStatus::Failed);
    let phase = crate::phases::phase(&world, "first");
    assert_eq!((phase.task_status, phase.blocked_reason), (PhaseStatus::Failed, None));
}

#[test]
fn what_a_plan_asks_ends_at_the_deadline_like_anything_else() {
    let mut world = World::new();
    world.group("group", until(BEGIN + hours(1))).begin("asks").add("group", &["asks"]).settle();
    let task = NewTask { name: "draft".to_owned(), ..NewTask::default() };
    let checkpoint = NewCheckpoint {
        name: "review".to_owned(),
        after: "draft".to_owned(),
        requires_approval: true,
        ..NewCheckpoint::default()
    };
    let posted = NewPlan {
        tasks: vec![PlanTask::New(Box::new(task))],
        checkpoints: vec![checkpoint],
        ..NewPlan::default()
    };
    plan(&mut world, "asks", PlanCommand::CreatePlan { plan: Box::new(posted), by: None });
    let id = world.run("asks").plans().next().expect("one was posted").id;
    plan(&mut world, "asks", PlanCommand::Plan { id, version: None, act: PlanAct::Activate, by: None });
    for act in [TaskAct::Claim { agent: ANN.to_owned() }, TaskAct::Start, TaskAct::Complete { output: None }]
    {
        let id = task_of(&world, "asks").id;
        plan(&mut world, "asks", PlanCommand::Task { id, version: None, agent: None, act, by: None });
    }
    world.stands("asks", Status::WaitingApproval).later(hours(1));
    check_abandoned(&mut world, "asks");
}

#[test]
fn what_is_said_of_a_deadline_after_it_has_passed_does_not_undo_it() {
    let longer = || until(BEGIN + hours(9));
    for undo in ["extend", "drop", "remove"] {
        let mut world = asked(question(), None, 1);
        world.later(hours(1) - 1).stall(1);
        match undo {
            "extend" => drop(world.govern("group", longer())),
            "drop" => drop(world.govern("group", Governance::default())),
            _ => world.try_remove("group", "asks").expect("it is a member"),
        }
        // What the group says is heard before the timer is.
        world.deliver_all();
        check_abandoned(&mut world, "asks");
    }
}

#[test]
fn a_question_that_ended_before_the_deadline_ended_by_itself_however_late_either_is_heard() {
    for kind in ["interrupt/", "attempt/", "deadline"] {
        for (payload, ladder) in [(question(), Some(lenient(20))), (fleeting_question(), None)] {
            let mut world = asked(payload, ladder.clone(), 2);
            // The server was down over both.
            world.stall(hours(3));
            let Some(fires) = due(&world, "asks", kind) else { continue };
            world.accept("asks", fires).settle();
            assert_eq!(world.run("asks").abandonment_reason(), None, "{kind}");
            let stands = if ladder.is_some() { Status::Running } else { Status::Failed };
            world.stands("asks", stands);
        }
    }
    let mut world = asked(question(), Some(lenient(20)), 2);
    world.stall(hours(3));
    assert_eq!(world.try_answer("asks"), Err(Rejection::AlreadyResolved), "its own end came first");
}

#[test]
fn what_is_said_of_a_deadline_before_it_has_passed_undoes_it_however_late_it_is_heard() {
    for undo in ["extend", "drop", "remove", "close"] {
        let mut world = asked(question(), None, 1);
        world.later(hours(1) - 1);
        match undo {
            "extend" => drop(world.govern("group", until(BEGIN + hours(9)))),
            "drop" => drop(world.govern("group", Governance::default())),
            "remove" => world.try_remove("group", "asks").expect("it is a member"),
            _ => {
                let partly = Governance { allow_partial_completion: true, ..until(BEGIN + hours(1)) };
                world.govern("group", partly).close("group").expect("it may be closed");
            }
        }
        world.stall(hours(1)).deliver_all();
        world.stands("asks", Status::WaitingInput);
        assert_eq!(world.run("asks").abandonment_reason(), None, "{undo}");
    }
}

#[test]
fn while_work_in_hand_is_waited_for_an_answer_is_told_of_the_deadline() {
    let mut world = World::new();
    let both = json!({
        "id": "both", "name": "Both", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "edges": [],
        "nodes": [
            { "id": "self", "typeId": "core.byHand", "name": "Self", "position": {}, "config": {}, "inputs": {} },
            { "id": "get", "typeId": "core.http.request", "name": "Get", "position": {}, "inputs": {},
              "config": { "url": "https://example.com" } },
        ],
    });
    let graph = abide_core::Graph::admit(both.to_string().as_bytes()).expect("the definition is sound");
    world.group("group", until(BEGIN + hours(1)));
    world.begin_with("asks", std::sync::Arc::new(graph), &[], |start| start).add("group", &["asks"]).settle();
    assert_eq!(world.run("asks").error(), None);
    world.claim("asks").asks("asks").settle();
    let id = world.run("asks").interrupts().next().expect("it asks").requested.interrupt_id;
    world.later(hours(1));
    assert_eq!(world.run("asks").abandonment_reason(), Some("portfolio_deadline_exceeded"));
    assert_eq!(world.run("asks").lifecycle(), abide_core::Lifecycle::Cancelling);
    assert_eq!(world.try_answer_to("asks", id), Err(Rejection::DeadlineExceeded));
}
