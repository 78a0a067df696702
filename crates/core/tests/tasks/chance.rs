//! Anything may happen in any order: what holds always holds then too.
//!
//! The story itself checks after each word that a refused command left no trace and that the journal folds to the same
//! run with the same effects.

use super::*;
use crate::seeded::Dice;
use crate::story::fire;
use abide_core::{InterruptId, InterruptKind, Open, Status, TimerId};

/// The tasks that workers could get, kept from effects alone, as the store keeps them.
#[derive(Default)]
struct Desk(BTreeMap<TaskId, u64>);

impl Desk {
    fn obey(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Offer(offer) => {
                    let before = self.0.insert(offer.task.clone(), offer.fence);
                    assert!(before.is_none(), "{:?} is offered twice", offer.task);
                }
                Effect::Withdraw(task) => assert!(self.0.remove(task).is_some(), "{task:?} is not offered"),
                Effect::CallOff(task) | Effect::Wake(task) => {
                    assert!(self.0.contains_key(task), "nobody could have {task:?}");
                }
                _ => {}
            }
        }
    }
}

fn any_op(dice: &mut Dice, story: &Story) -> WorkOp {
    let n = dice.roll(3);
    match dice.roll(13) {
        0 => begin(&format!("s{n}")),
        1 | 2 => step(&format!("s{n}"), &json!(n)),
        3 | 4 => ask(n as u32 + 1),
        5 => sleep(&format!("nap{n}"), 10 + n as i64),
        6 => child(&format!("sub{n}")),
        7 | 8 => {
            let mut waits = story.waits();
            waits.push(Wait::Sleep(format!("nap{n}")));
            let turn = (dice.roll(4) as usize).min(waits.len() - 1);
            waits.rotate_left(turn);
            waits.truncate(1 + dice.roll(3) as usize);
            park(waits)
        }
        9 => trouble(FailureClass::Tool, n > 0, n == 1),
        10 => lose(Loss::Silent),
        11 => WorkOp::Version { key: "v".to_owned(), version: n as u32, old: n == 0 },
        _ if n == 0 => complete(&json!({ "n": n })),
        _ => step("more", &json!(1)),
    }
}

/// Which question it is, and whether the run itself asks it.
fn asked(open: &Open) -> (InterruptId, bool) {
    (open.requested.interrupt_id, open.requested.kind == InterruptKind::Approval)
}

fn answer(own: bool) -> Value {
    if own { json!({ "action": "accept" }) } else { well() }
}

fn any_word(dice: &mut Dice, story: Story, desk: &Desk) -> Story {
    let held: Vec<(TaskId, u64)> = desk.0.iter().map(|(task, fence)| (task.clone(), *fence)).collect();
    match dice.roll(20) {
        0 => story.pause(),
        1 | 2 => story.resume(),
        3 => story.drain(),
        4 if dice.roll(6) == 0 => story.cancel(),
        5 | 6 => {
            let timers: Vec<TimerId> = story.run().timers().keys().cloned().collect();
            if timers.is_empty() {
                return story;
            }
            let timer = &timers[dice.roll(timers.len() as u64) as usize];
            story.after(dice.roll(40) as i64).ask(fire(timer.clone()))
        }
        7..=9 => {
            let open: Vec<_> = story.run().interrupts().map(asked).collect();
            match open.get(dice.roll(3) as usize) {
                Some((id, true)) if dice.roll(3) == 0 => {
                    story.answer_to(*id, &json!({ "action": "reject" }), "alice")
                }
                Some((id, own)) => story.answer_to(*id, &answer(*own), "alice"),
                None => story,
            }
        }
        10 => {
            let node = if dice.roll(2) == 0 { "job" } else { "other" };
            match story.node(node).child {
                Some(_) => story.child_ends(node, abide_core::Lifecycle::Completed, &json!({ "total": 1 })),
                None => story,
            }
        }
        11 => match held.first() {
            // Somebody who was told to go speaks all the same.
            Some((task, fence)) => {
                let op = any_op(dice, &story);
                let node = task.node.to_string();
                story.does_under(&node, fence.saturating_sub(1), op).refused(&Rejection::StaleFence)
            }
            None => story,
        },
        _ => match held.get(dice.roll(2) as usize) {
            Some((task, fence)) => {
                let op = any_op(dice, &story);
                let node = task.node.to_string();
                story.does_under(&node, *fence, op)
            }
            None => story,
        },
    }
}

fn play(seed: u64) -> Status {
    let dice = &mut Dice::of(seed);
    let retry = || json!({ "maxRetries": 2, "baseDelayMs": 5, "fallbackAgent": "clerk" });
    let flow = workflow([work("job").setting("retry", retry()), work("other").setting("retry", retry())]);
    let mut story = Story::of(&flow).under(known()).start();
    let mut desk = Desk::default();
    desk.obey(&story.step().effects);
    for _ in 0..120 {
        let before = story.journal().len();
        story = any_word(dice, story, &desk);
        if story.journal().len() > before {
            desk.obey(&story.step().effects);
        }
        let kept: BTreeMap<TaskId, u64> =
            story.run().offers().map(|offer| (offer.task, offer.fence)).collect();
        assert_eq!(desk.0, kept, "seed {seed}: what is offered is what the run says");
    }
    finish(story, desk, seed)
}

/// Whoever is left does what is left, and the run ends.
fn finish(mut story: Story, mut desk: Desk, seed: u64) -> Status {
    for _ in 0..200 {
        if story.run().lifecycle().is_terminal() {
            break;
        }
        let before = story.journal().len();
        story = story.resume();
        let mut obeyed = before;
        let mut obey = |story: &Story, desk: &mut Desk| {
            if story.journal().len() > obeyed {
                desk.obey(&story.step().effects);
                obeyed = story.journal().len();
            }
        };
        obey(&story, &mut desk);
        if let Some((task, fence)) = desk.0.iter().next().map(|(task, fence)| (task.clone(), *fence)) {
            let node = task.node.to_string();
            story = story.does_under(&node, fence, complete(&json!({})));
            obey(&story, &mut desk);
        }
        for timer in story.run().timers().keys().cloned().collect::<Vec<_>>() {
            story = story.after(60_000).ask(fire(timer));
            obey(&story, &mut desk);
        }
        let open = story.run().interrupts().next().map(asked);
        if let Some((id, own)) = open {
            story = story.answer_to(id, &answer(own), "alice");
            obey(&story, &mut desk);
        }
        for node in ["job", "other"] {
            if story.node(node).child.is_some() && desk.0.is_empty() {
                story = story.child_ends(node, abide_core::Lifecycle::Completed, &json!({}));
                obey(&story, &mut desk);
            }
        }
    }
    let run = story.run();
    assert!(run.lifecycle().is_terminal(), "seed {seed}: {:?}", run.why());
    assert!(desk.0.is_empty(), "seed {seed}: a task is left over");
    assert_eq!((run.interrupts().count(), run.timers().len()), (0, 0), "seed {seed}");
    run.status()
}

#[test]
fn whatever_workers_do_the_run_ends_and_leaves_nothing_behind() {
    let ends: Vec<Status> = (1..=400).map(play).collect();
    for end in [Status::Completed, Status::Failed, Status::Cancelled] {
        assert!(ends.contains(&end), "no story ended as {end:?}, so they tell little");
    }
}
