//! Random worlds: runs that wait for others, early and late, are asked, answered, given up and grouped, while what they
//! tell each other comes late, out of order and twice. What holds of all of them is checked whenever nothing is left to
//! be told; in the end everything that can complete does.

use std::collections::BTreeSet;

use abide_core::{Governance, HandOp, HoldMode, Lifecycle, Rejection, Status, event_types};
use serde_json::json;

use crate::seeded::Dice;
use crate::story::{BEGIN, hours};
use crate::world::{ANN, World, fleeting_question, question, until};

/// How many worlds there are, and how much happens in each.
const SEEDS: u64 = 60;
const MOVES: usize = 90;

const RUNS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const GROUPS: [&str; 2] = ["north", "south"];

/// Runs are in an order, and each waits only for those before it, so that no circle closes.
fn begin(world: &mut World, dice: &mut Dice) {
    for (at, name) in RUNS.iter().enumerate() {
        let before: Vec<&str> = RUNS[..at].iter().copied().filter(|_| dice.roll(4) == 0).collect();
        match dice.roll(6) {
            0 => world.draft_after(name, &before),
            _ => world.begin_after(name, &before),
        };
        world.a_while(dice.roll(4) as usize);
    }
    for group in GROUPS {
        let deadline = dice.flip().then(|| BEGIN + hours(1 + dice.roll(9) as i64));
        world.group(group, Governance { deadline, ..Governance::default() });
    }
}

/// One thing that somebody does. Much of it is refused.
fn act(world: &mut World, dice: &mut Dice) {
    let name = dice.pick(&RUNS).expect("there are some");
    let group = dice.pick(&GROUPS).expect("there are some");
    let at = RUNS.iter().position(|known| *known == name).expect("it is one of them");
    match dice.roll(26) {
        0..=3 => drop(world.by(name, ANN, HandOp::Claim)),
        4..=7 => ask(world, dice, name),
        8..=10 => answer(world, name),
        11..=13 => drop(world.by(name, ANN, HandOp::Complete { outputs: None })),
        14 if dice.roll(3) == 0 => {
            let failure = abide_core::Failure::new("no_paper", "the printer has no paper");
            drop(world.by(name, ANN, HandOp::Fail(failure)));
        }
        15 if dice.roll(4) == 0 => drop(world.ask(name, abide_core::Command::Cancel(Default::default()))),
        16 | 17 => {
            if let Some(on) = dice.pick(&RUNS[..at]) {
                drop(world.try_depend(name, on));
            }
        }
        18 => {
            if let Some(on) = dice.pick(&RUNS[..at]) {
                drop(world.independ(name, on));
            }
        }
        19 => drop(world.activate(name)),
        20 => drop(world.try_add(group, name)),
        21 if dice.flip() => drop(world.try_remove(group, name)),
        22 => {
            let deadline = BEGIN + hours(dice.roll(30) as i64);
            let governance = if dice.roll(4) == 0 { Governance::default() } else { until(deadline) };
            drop(world.try_govern(group, governance));
        }
        23 => hold(world, dice, name),
        24 => drop(world.stall(dice.roll(40) as i64 * 60_000)),
        _ => drop(world.by(name, ANN, HandOp::Release)),
    }
}

fn hold(world: &mut World, dice: &mut Dice, name: &str) {
    let mode = if dice.flip() { HoldMode::Stop } else { HoldMode::Pause };
    let held = abide_core::event::Held { mode, reason: None, by: None };
    if world.ask(name, abide_core::Command::Hold(held)).is_err() {
        drop(world.ask(name, abide_core::Command::Release(Default::default())));
    }
}

fn ask(world: &mut World, dice: &mut Dice, name: &str) {
    let payload = if dice.flip() { question() } else { fleeting_question() };
    let ladder = dice.flip().then(|| {
        abide_core::Json::of(&json!({
            "retry_policy": { "max_attempts": 2, "interval_seconds": 1200, "final_fallback_policy": "use_default_and_continue" },
            "fallback_value": { "answers": { "answer": "nothing" } },
        }))
    });
    let asked = abide_core::HandAsk { payload, ladder, respondents: None };
    drop(world.by(name, ANN, HandOp::Ask(Box::new(asked))));
}

/// An answer is refused behind the deadline of a group that the run has heard of, whatever else is late.
fn answer(world: &mut World, name: &str) {
    let Some(open) = world.run(name).interrupts().next() else { return };
    let id = open.requested.interrupt_id;
    let late = world.run(name).group_deadline().is_some_and(|(deadline, _)| deadline <= world.now);
    let told = world.try_answer_to(name, id);
    if late {
        assert_eq!(told, Err(Rejection::DeadlineExceeded), "an answer to {name} came too late");
    }
}

/// Everything that can be done is, in the order of the runs.
fn finish(world: &mut World) {
    for _ in 0..3 * RUNS.len() {
        for name in RUNS {
            drop(world.ask(name, abide_core::Command::Release(Default::default())));
            drop(world.activate(name));
            if world.run(name).is_suspended() {
                answer(world, name);
            }
            world.settle();
            drop(world.by(name, ANN, HandOp::Claim));
            drop(world.by(name, ANN, HandOp::Complete { outputs: None }));
            world.settle();
        }
    }
}

/// What is not over waits for what will never complete.
fn check_end(world: &World) {
    for name in RUNS {
        let run = world.run(name);
        if run.lifecycle().is_terminal() {
            continue;
        }
        assert_eq!(run.status(), Status::Blocked, "of {name}: {:?}", run.why());
        let stuck = |on: &str| {
            let on = world.run(on);
            matches!(on.lifecycle(), Lifecycle::Failed | Lifecycle::Cancelled | Lifecycle::Running)
        };
        assert!(run.unmet().all(|(on, _)| stuck(world.name_of(on))), "{name} waits in vain");
    }
}

#[test]
fn everybody_comes_to_stand_right_whatever_is_heard_when_and_how_often() {
    let mut happened = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut dice = Dice::of(seed);
        let mut world = World::shuffled(seed + 1_000);
        begin(&mut world, &mut dice);
        for _ in 0..MOVES {
            act(&mut world, &mut dice);
            match dice.roll(10) {
                0 => drop(world.settle()),
                1 => drop(world.later(dice.roll(90) as i64 * 60_000)),
                _ => world.a_while(dice.roll(4) as usize),
            }
        }
        world.later(hours(40));
        finish(&mut world);
        check_end(&world);
        if seed % 10 == 0 {
            world.fork_all();
        }
        for name in world.names() {
            happened.extend(world.history(&name));
        }
    }
    let ours = |name: &str| {
        ["dependency.", "portfolio.", "run.b", "run.un", "run.act", "run.watched"]
            .iter()
            .any(|of| name.starts_with(of))
    };
    let all = event_types().iter().map(|kind| kind.name).filter(|name| ours(name));
    let missed: Vec<&str> = all.filter(|name| !happened.contains(name)).collect();
    assert_eq!(
        missed,
        ["portfolio.budget_exceeded"],
        "the worlds come everywhere, but nothing costs anything here"
    );
    assert!(happened.contains("interrupt.expired"), "some are abandoned");
}
