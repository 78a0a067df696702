//! Intents driven by dice: whatever is asked of them in whatever order, what holds for every one of them holds.

use abide_core::{Actor, Cancellation, Command, IntentCommand, IntentSent, LeaseAct, Status};
use serde_json::json;

use super::*;
use crate::seeded::Dice;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// What was true of an intent before something was asked of it.
struct Before {
    version: u64,
    ended: bool,
    told: Value,
}

fn before(world: &World, name: &str) -> Before {
    Before {
        version: world.version(name),
        ended: world.run(name).status().is_terminal(),
        told: world.suspension(name),
    }
}

fn check(world: &World, name: &str, was: &Before) {
    assert!(world.version(name) >= was.version, "{name}: a version never falls");
    assert!(!was.ended || world.run(name).status().is_terminal(), "{name}: what has ended stays so");
    assert!(world.run(name).interrupts().count() <= 1, "{name}: one question at a time");
    let told = world.suspension(name);
    let same = told["id"] == was.told["id"] && !was.told["resolution"].is_null();
    assert!(
        !same || told == was.told,
        "{name}: what became of a suspension stays as it is: {} {told}",
        was.told
    );
    let waits = world.run(name).interrupts().next().is_some();
    assert!(!waits || told["resolution"].is_null(), "{name}: what is open has no answer: {told}");
}

/// Asks something of an intent; whether it is granted is its own affair.
fn ask(world: &mut World, name: &str, dice: &mut Dice, at: usize) {
    let expected = if dice.roll(8) == 0 { 1 } else { world.version(name) };
    let actor = Actor::of(["ada", "bob"][dice.roll(2) as usize]);
    let own = world.suspension(name)["id"].as_str().unwrap_or("none").to_owned();
    let send = |to| IntentCommand::Send { expected, to, reason: None, actor: actor.clone() };
    let fresh = record_with(
        &format!("s{at}"),
        &json!({ "timeout_seconds": 600, "fallback_policy": "complete_with_fallback", "fallback_value": "no" }),
    );
    let patches = |path: &str, value: Value| IntentCommand::Patch {
        expected,
        patches: vec![patch(PatchOp::Set, path, Some(value))],
        actor: actor.clone(),
    };
    let granted = match dice.roll(13) {
        0 => world.drive(name, send(IntentSent::Active)),
        1 => world.drive(name, send(IntentSent::Blocked)),
        2 | 3 => world.drive(name, send(IntentSent::Suspended)),
        4 => world.drive(name, send(IntentSent::Completed)),
        5 => world.drive(name, patches("n", json!(at))),
        6 | 7 => world.drive(name, patches("_suspension", fresh)),
        8 => world.drive(name, IntentCommand::Suspend { record: Json::of(&fresh), reason: None, actor }),
        9 => world.respond(name, &own, &json!("yes")),
        10 => world.drive(name, IntentCommand::CancelSuspension { id: own, actor }),
        11 => {
            let act = LeaseAct::Acquire { scope: "all".to_owned(), seconds: 300 };
            world.drive(name, IntentCommand::Lease { act, actor })
        }
        _ if dice.roll(10) == 0 => world.ask(name, Command::Cancel(Cancellation::default())),
        _ => {
            let waited = [1_000, 60_000, 600_000][dice.roll(3) as usize];
            world.later(waited);
            Ok(())
        }
    };
    drop(granted);
    world.settle();
}

fn story(seed: u64) {
    let mut dice = Dice::of(seed);
    let mut world = World::new();
    made(&mut world, "a", &json!({}), dice.flip(), &[]);
    made(&mut world, "b", &json!({}), dice.flip(), &["a"]);
    made(&mut world, "c", &json!({ "n": 0 }), true, &[]);
    for at in 0..40 {
        let name = NAMES[dice.roll(NAMES.len() as u64) as usize];
        let was: Vec<Before> = NAMES.iter().map(|name| before(&world, name)).collect();
        ask(&mut world, name, &mut dice, at);
        NAMES.iter().zip(&was).for_each(|(name, was)| check(&world, name, was));
        let waits = world.run("b").unmet().next().is_some();
        assert!(!waits || world.run("b").status() != Status::Completed, "b is not done before a");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long a test runs is up to whoever runs it")]
fn whatever_is_asked_of_intents_what_holds_for_them_holds() {
    let cases =
        std::env::var("ABIDE_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    (0..cases).for_each(story);
}
