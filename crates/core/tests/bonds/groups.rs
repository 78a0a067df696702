//! Groups: what is counted of members, and that a group takes over nothing of what becomes of them.

use abide_core::{Aggregate, BondCommand, Command, Governance, Rejection, Status, Tidings};
use serde_json::json;

use crate::story::{BEGIN, hours};
use crate::world::{World, until};

/// A group of these, each a run that is done by hand.
fn group_of(members: &[&str]) -> World {
    let mut world = World::new();
    world.group("group", Governance::default());
    for member in members {
        world.begin(member);
    }
    world.add("group", members).settle();
    world
}

fn aggregate(world: &mut World) -> Aggregate {
    world.settle().run("group").group().expect("it is a group").aggregate()
}

#[test]
fn a_group_is_as_active_as_before_while_members_wait_for_people() {
    let mut world = group_of(&["asks", "works"]);
    world.suspend("asks").settle().stands("asks", Status::WaitingInput).stands("group", Status::Running);
    assert_eq!(world.run("group").status().intent_name(), "active");
    world.answer("asks").settle().stands("group", Status::Running);
    let of_itself = world.history("group").into_iter().filter(|told| told.starts_with("run."));
    assert_eq!(of_itself.collect::<Vec<_>>(), ["run.started"], "its own status never changed");
}

#[test]
fn the_journal_of_a_group_tells_which_member_waits_for_people() {
    let mut world = group_of(&["asks", "works"]);
    world.claim("works").suspend("asks").settle();
    let told = world.payloads("group", "portfolio.member_suspended");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["run"], &told[0]["suspended"]["since"]),
        (&json!(world.id("asks")), &json!(world.now))
    );
    assert!(!world.history("group").contains(&"portfolio.member_resumed"));
}

#[test]
fn the_journal_of_a_group_tells_which_member_goes_on() {
    let mut world = group_of(&["asks", "works"]);
    world.suspend("works").suspend("asks").settle().answer("asks").settle();
    let told = world.payloads("group", "portfolio.member_resumed");
    let runs: Vec<_> = told.iter().map(|told| told["run"].clone()).collect();
    assert_eq!(runs, [json!(world.id("asks"))]);
    world.complete("asks").settle();
    assert_eq!(world.payloads("group", "portfolio.member_resumed").len(), 1, "its end is no second time");
}

#[test]
fn a_group_is_through_when_every_member_is_and_there_is_one() {
    let mut empty = group_of(&[]);
    assert_eq!(aggregate(&mut empty), Aggregate::InProgress, "nothing of it is done");
    let mut world = group_of(&["one", "two"]);
    world.claim("one").complete("one");
    assert_eq!(aggregate(&mut world), Aggregate::InProgress);
    world.claim("two").complete("two");
    assert_eq!(aggregate(&mut world), Aggregate::Completed);
}

#[test]
fn one_member_that_failed_or_was_abandoned_is_enough_also_beside_one_that_waits_for_people() {
    let mut failed = group_of(&["fails", "asks", "done"]);
    failed.claim("done").complete("done").suspend("asks").claim("fails").fail("fails");
    assert_eq!(aggregate(&mut failed), Aggregate::Failed);
    let mut abandoned = group_of(&["given up", "asks"]);
    abandoned.suspend("asks").cancel("given up");
    assert_eq!(aggregate(&mut abandoned), Aggregate::Failed);
    abandoned.answer("asks").complete("asks");
    assert_eq!(aggregate(&mut abandoned), Aggregate::Failed);
}

#[test]
fn a_group_is_in_progress_in_every_other_case() {
    let mut world = group_of(&["done", "asks"]);
    world.claim("done").complete("done").suspend("asks");
    assert_eq!(aggregate(&mut world), Aggregate::InProgress, "done beside one that waits for people");
    world.begin_after("blocked", &["asks"]).draft_after("draft", &[]).add("group", &["blocked", "draft"]);
    assert_eq!(aggregate(&mut world), Aggregate::InProgress, "and one that is blocked, and a draft");
    world.answer("asks").complete("asks");
    assert_eq!(aggregate(&mut world), Aggregate::InProgress, "and none that waits for people");
}

#[test]
fn a_member_that_has_ended_stays_so_also_when_nobody_knows_it_any_more() {
    let mut world = group_of(&["a", "b"]);
    world.claim("a").complete("a").settle();
    let known = world.member("group", "a").cloned();
    assert_eq!(known.as_ref().map(|known| known.status), Some(Status::Completed));
    let tidings = Tidings::of_nobody(world.id("a"));
    let refused = world.ask("group", Command::Bond(Box::new(BondCommand::Hear { tidings, known })));
    assert_eq!(refused, Err(Rejection::HeardBefore));
}

#[test]
fn a_deadline_lies_ahead_unless_it_stays_as_it_was() {
    let mut world = group_of(&["a"]);
    let refused = |told: Result<(), Rejection>| matches!(told, Err(Rejection::Invalid { field, .. }) if field == "governance.deadline");
    assert!(refused(world.try_govern("group", until(world.now))));
    world.govern("group", until(world.now + 1)).later(hours(1));
    let same = Governance { allow_partial_completion: true, ..until(BEGIN + 1) };
    assert_eq!(world.try_govern("group", same), Ok(()), "it holds already");
    assert!(refused(world.try_govern("group", until(world.now - 1))));
}

#[test]
fn a_group_is_not_over_its_budget_without_the_member_that_was_dear() {
    let mut world = group_of(&["cheap", "dear"]);
    world.govern("group", Governance { budget_limit_cents: Some(1), ..Governance::default() }).settle();
    let known = world.member("group", "dear").cloned();
    let tidings = Tidings { cost_micros: 20_000, sequence: 90, ..world.run("dear").tidings() };
    world.accept("group", Command::Bond(Box::new(BondCommand::Hear { tidings, known })));
    let over = |world: &World| world.run("group").group().expect("it is a group").over_budget;
    assert!(over(&world));
    world.try_remove("group", "dear").expect("it is a member");
    assert!(!over(&world));
    world.settle();
}
