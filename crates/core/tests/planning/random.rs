//! Random people and agents, who post, claim, block, ask, answer, give up and wait, in any order. The story checks after
//! each word that a refused command leaves no trace, that the journal folds to the same run, that a snapshot holds all of
//! it, and that it can be forked anywhere.

use std::collections::BTreeSet;

use abide_core::INTENT_SUSPENDED;
use abide_core::planning::{PlanAct, PlanCommand, PlanState, TaskAct, TaskId};
use abide_core::{Hold, HoldMode, InterruptKind, Run, event_types};
use serde_json::json;

use super::seeded::Dice;
use super::story::{BEGIN, fire, type_name};
use super::*;

const AGENTS: [&str; 3] = [AGENT, OTHER, "bot"];

/// What is done with a task: mostly what it takes, or the walks would never come far.
fn task_act(task: &Task, dice: &mut Dice) -> TaskAct {
    let agent = || AGENTS[0].to_owned();
    match (task.status, dice.roll(3)) {
        (TaskStatus::Ready, 0) => return TaskAct::Claim { agent: agent() },
        (TaskStatus::Claimed, 0) => return TaskAct::Start,
        (TaskStatus::Claimed | TaskStatus::Running, 1) if dice.roll(3) > 0 => {
            return TaskAct::Complete { output: None };
        }
        (TaskStatus::Claimed | TaskStatus::Running, 1) => return TaskAct::Fail { error: failure() },
        (TaskStatus::Failed, 0) => return TaskAct::Retry,
        (TaskStatus::Running, 2) if dice.roll(4) == 0 => {
            return TaskAct::Progress { progress: Json::of(&json!({ "n": 2 })) };
        }
        _ => {}
    }
    let some = Json::of(&json!({ "n": 1 }));
    match dice.roll(14) {
        0..=2 => TaskAct::Claim { agent: AGENTS[dice.roll(3) as usize].to_owned() },
        3 | 4 => TaskAct::Start,
        5 | 6 => TaskAct::Complete { output: Some(some) },
        7 => TaskAct::Fail { error: failure() },
        8 => TaskAct::Retry,
        9 => TaskAct::Block { reason: INTENT_SUSPENDED.to_owned() },
        10 => TaskAct::Unblock,
        11 => TaskAct::Progress { progress: some },
        12 => TaskAct::Release { reason: None },
        _ if dice.flip() => TaskAct::Skip { reason: None },
        _ => TaskAct::Cancel { reason: None },
    }
}

fn new_task(story: &Story, dice: &mut Dice) -> NewTask {
    let tasks: Vec<TaskId> = story.run().tasks_posted().map(|task| task.id).collect();
    let others = (0..dice.roll(3)).filter_map(|_| dice.pick(&tasks)).map(|id| id.to_string()).collect();
    let plans: Vec<PlanId> = story.run().plans().map(|plan| plan.id).collect();
    let plan = if dice.flip() { dice.pick(&plans).map(|plan| plan.to_string()) } else { None };
    let run = (dice.roll(4) == 0).then(|| run_id(9 + dice.roll(3) as u8));
    NewTask { depends_on: others, plan, run, max_attempts: Some(1 + dice.roll(2) as u32), ..named("posted") }
}

fn new_plan(dice: &mut Dice) -> NewPlan {
    let mut plan = stopping();
    plan.checkpoints[0].requires_approval = dice.roll(3) > 0;
    plan.checkpoints[0].timeout_ms = dice.flip().then_some(500);
    plan.checkpoints[0].on_timeout =
        dice.pick(&[None, Some("fail".to_owned()), Some("escalate".to_owned())]).flatten();
    plan.on_failure = dice.pick(&["pause_and_escalate", "notify", "fail", "retry"]).map(str::to_owned);
    if dice.flip() {
        plan.conditions.push(condition("send", "tasks.draft.status == 'completed'"));
    }
    plan
}

fn command(story: &Story, dice: &mut Dice, call: &mut u32) -> Option<Story> {
    let (story, run) = (story.clone(), story.run().clone());
    let tasks: Vec<TaskId> = run.tasks_posted().map(|task| task.id).collect();
    let plans: Vec<PlanId> = run.plans().map(|plan| plan.id).collect();
    Some(match dice.roll(20) {
        0..=9 => {
            // What is left to do is done rather than what is not.
            let unfinished: Vec<TaskId> = run
                .tasks_posted()
                .filter(|task| !task.status.is_done() && task.status != TaskStatus::Cancelled)
                .map(|task| task.id)
                .collect();
            let id = if dice.roll(8) == 0 { dice.pick(&tasks)? } else { dice.pick(&unfinished)? };
            let act = task_act(run.posted_task(id).expect("it was picked"), dice);
            // Mostly nobody says in whose name.
            let agent = (dice.roll(3) == 0).then(|| AGENTS[dice.roll(3) as usize].to_owned());
            story.ask(plan_command(PlanCommand::Task { id, version: None, agent, act, by: None }))
        }
        10 => {
            let task = new_task(&story, dice);
            story.post(task)
        }
        11 => story.plan_out(new_plan(dice)),
        12 | 13 => {
            // A plan is paused whenever anything of it fails, and would never come far if nobody resumed it.
            let id = dice.pick(&plans)?;
            let paused = run.plan(id).is_some_and(|plan| plan.state == PlanState::Paused);
            let act = match dice.roll(8) {
                0..=5 if paused => PlanAct::Resume,
                0..=5 => PlanAct::Activate,
                6 => PlanAct::Pause { reason: None },
                _ => PlanAct::Cancel { reason: None },
            };
            story.ask(plan_command(PlanCommand::Plan { id, version: None, act, by: None }))
        }
        14 | 15 => {
            run.offers().next()?;
            *call += 1;
            story.asks(AGENTS[dice.roll(3) as usize], *call)
        }
        16 => {
            let open: Vec<_> =
                run.interrupts().map(|open| (open.requested.interrupt_id, open.requested.kind)).collect();
            let (id, kind) = dice.pick(&open)?;
            match kind {
                InterruptKind::Approval => {
                    story.answer_to(id, &if dice.flip() { accept() } else { reject() }, "alice")
                }
                _ => story.answer_well(id),
            }
        }
        17 => {
            let (timer, due) = run.timers().iter().min_by_key(|(_, due)| **due)?;
            story.at(*due).ask(fire(timer.clone()))
        }
        18 => {
            let ends = [Status::Completed, Status::Failed, Status::Cancelled];
            let stays = [Status::Pending, Status::Running, Status::WaitingInput, Status::Paused];
            let status = if dice.roll(3) == 0 { dice.pick(&ends)? } else { dice.pick(&stays)? };
            let until = dice.flip().then_some(BEGIN + dice.roll(4) as i64);
            let mut notice = told_by(9 + dice.roll(3) as u8, status, until);
            // Whoever waits for people may be held as well.
            if status == Status::Paused && dice.flip() {
                notice.suspended = Some(Suspension { since: BEGIN, expires_at: None });
            }
            story.ask(Command::Hear { notice, heard: None })
        }
        _ if dice.roll(8) == 0 => story.cancel(),
        _ if run.hold() == Hold::None && dice.flip() => {
            story.hold(if dice.flip() { HoldMode::Stop } else { HoldMode::Pause })
        }
        _ => story.release(),
    })
}

/// What holds between any two decisions.
#[track_caller]
fn check(run: &Run) {
    assert!(run.is_at_rest());
    for task in run.tasks_posted() {
        assert_eq!(task.blocked.is_some(), task.status == TaskStatus::Blocked);
        if task.suspended_intent() == Some(run.key().id) {
            let blocked = task.blocked.as_ref().expect("it says what for");
            assert!(!blocked.interrupts.is_empty(), "it waits for nothing");
            assert!(
                blocked.interrupts.iter().all(|id| run.interrupt(*id).is_some()),
                "it waits for an answer"
            );
        }
        if run.lifecycle().is_terminal() {
            assert!(task.status.is_finished(), "nothing is left over");
        }
        if let Some(child) = task.spec.run.filter(|_| !task.status.is_finished()) {
            let alone = run.tasks_posted().filter(|other| other.spec.run == Some(child));
            assert_eq!(alone.filter(|other| !other.status.is_finished()).count(), 1, "one stands for it");
        }
        let begun = [TaskStatus::Ready, TaskStatus::Claimed, TaskStatus::Running].contains(&task.status);
        let done = |id: &TaskId| run.posted_task(*id).is_some_and(|other| other.status.is_done());
        assert!(!begun || task.spec.depends_on.iter().all(done), "it began before its time");
    }
    for plan in run.plans() {
        assert!(!run.lifecycle().is_terminal() || plan.state.is_finished());
        let open = plan.waits_at().and_then(|(_, standing)| run.interrupt(standing.interrupt?));
        assert!(open.is_none() || plan.state == PlanState::Paused, "it waits");
    }
}

/// How many walks there are, and how long each is. Forks are made of the first events alone.
const SEEDS: u64 = 40;
const MOVES: usize = 70;

/// Forks of each whole walk.
const FORKS: usize = 4;

#[test]
fn anything_may_happen_in_any_order() {
    let mut happened = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut dice = Dice::of(seed);
        let mut story = parenting().adopts(10);
        let mut call = 0;
        story = story.plan_out(new_plan(&mut dice)).activate().post(named("first"));
        for _ in 0..MOVES {
            story = command(&story, &mut dice, &mut call).unwrap_or(story);
            check(story.run());
        }
        for _ in 0..FORKS {
            let from = dice.roll(story.journal().len() as u64);
            check(&story.origin().branch_from(from).run);
            story.origin().replay_from(from);
        }
        story = story.cancel();
        check(story.run());
        happened.extend(story.journal().iter().map(type_name));
    }
    let all = event_types().iter().map(|kind| kind.name);
    let missed: Vec<&str> = all
        .filter(|name| name.starts_with("task.") || name.starts_with("plan."))
        .filter(|name| !happened.contains(name))
        .collect();
    assert_eq!(missed, ["task.lost"], "the walks come everywhere, but no worker goes silent");
}
