//! What blocks a run, and what lets it go on.

use abide_core::{BondCommand, Command, DependsOn, HandOp, Rejection, Status, Unclaimed};
use serde_json::json;

use crate::story::hours;
use crate::world::{ANN, World};

#[test]
fn a_run_that_begins_after_an_unfinished_one_is_blocked_and_starts_nothing() {
    let mut world = World::new();
    world.begin("first").begin_after("second", &["first"]).settle();
    world.stands("first", Status::Running).stands("second", Status::Blocked);
    assert_eq!(world.history("second"), ["run.started", "run.blocked", "dependency.reported"]);
    let refused = world.by("second", ANN, HandOp::Claim).expect_err("nobody gets it");
    let Rejection::Unclaimed(Unclaimed::Blocked(reason)) = refused else { panic!("{refused}") };
    assert_eq!(reason.name(), "dependency_incomplete");
    let first = world.id("first");
    assert_eq!(
        world.payloads("second", "run.blocked"),
        [json!({ "reason": "dependency_incomplete", "by": [first] })]
    );
    world.fork_all();
}

#[test]
fn a_run_that_begins_after_a_finished_one_is_not_blocked() {
    let mut world = World::new();
    world.begin("first").claim("first").complete("first");
    world.begin_after("second", &["first"]).settle().stands("second", Status::Running);
    world.claim("second").complete("second").settle().stands("second", Status::Completed);
}

#[test]
fn a_run_that_is_under_way_is_blocked_by_a_late_dependency_on_one_that_waits_for_people() {
    let mut world = World::new();
    world.begin("asks").suspend("asks").begin("late").claim("late").settle();
    world.stands("late", Status::Running);
    world.depend("late", "asks").stands("late", Status::Blocked);
    assert_eq!(world.blocked_for("late"), Some("dependency_suspended"));
    // What was under way is not taken from whoever does it.
    assert_eq!(world.settle().holder("late").as_deref(), Some(ANN));
    world.fork_all();
}

#[test]
fn whoever_waits_stays_blocked_when_its_upstream_suspends_and_nothing_is_recorded_of_that_but_what_was_heard()
{
    let mut world = World::new();
    world.begin("asks").begin_after("waits", &["asks"]).settle();
    world.suspend("asks").settle().stands("waits", Status::Blocked);
    assert_eq!(world.blocked_for("waits"), Some("dependency_suspended"));
    let told = ["run.started", "run.blocked", "dependency.reported", "dependency.reported"];
    assert_eq!(world.history("waits"), told);
    let suspended = &world.payloads("waits", "dependency.reported")[1];
    assert_eq!(
        (&suspended["status"], suspended["suspended"]["since"].as_i64()),
        (&json!("waiting-input"), Some(world.now))
    );
}

#[test]
fn an_answer_alone_unblocks_nobody_and_the_completion_behind_it_does_by_itself() {
    let mut world = World::new();
    world.begin("asks").begin_after("waits", &["asks"]).suspend("asks").settle();
    world.later(hours(1)).answer("asks").settle();
    world.stands("asks", Status::Running).stands("waits", Status::Blocked);
    assert_eq!(world.blocked_for("waits"), Some("dependency_incomplete"));
    world.complete("asks").settle().stands("waits", Status::Running);
    assert_eq!(world.history("waits")[5..], ["run.unblocked", "node.started"]);
    assert_eq!(world.run("waits").blocked_since(), None);
    world.claim("waits").complete("waits").settle().stands("waits", Status::Completed);
    world.fork_all();
}

#[test]
fn a_run_that_waits_for_two_goes_on_behind_the_second() {
    let mut world = World::new();
    world.begin("one").begin("two").begin_after("waits", &["one", "two"]).settle();
    world.claim("one").complete("one").settle().stands("waits", Status::Blocked);
    let unmet: Vec<_> = world.run("waits").unmet().map(|(run, _)| run).collect();
    assert_eq!(unmet, [world.id("two")]);
    world.claim("two").complete("two").settle().stands("waits", Status::Running);
    assert_eq!(world.history("waits").iter().filter(|told| **told == "run.unblocked").count(), 1);
}

#[test]
fn what_fails_or_is_cancelled_leaves_those_that_wait_visibly_blocked_for_good() {
    let mut world = World::new();
    world.begin("fails").begin("given up");
    world.begin_after("behind one", &["fails"]).begin_after("behind two", &["given up"]).settle();
    world.claim("fails").fail("fails").cancel("given up").settle();
    world.later(hours(24));
    for name in ["behind one", "behind two"] {
        assert_eq!(
            (world.run(name).status(), world.blocked_for(name)),
            (Status::Blocked, Some("on_dependency_failed"))
        );
        let told = world.run(name).why().reasons[0].what.clone();
        assert!(told.ends_with("(on_dependency_failed)"), "{told}");
    }
    world.independ("behind one", "fails").expect("somebody takes it away");
    world.settle().stands("behind one", Status::Running);
    world.fork_all();
}

#[test]
fn a_failed_upstream_is_told_before_one_that_only_waits() {
    let mut world = World::new();
    world.begin("slow").begin("asks").begin("fails").suspend("asks").claim("fails").fail("fails");
    world.begin_after("waits", &["slow", "asks", "fails"]).settle();
    assert_eq!(world.blocked_for("waits"), Some("on_dependency_failed"));
    world.independ("waits", "fails").expect("it is taken away");
    assert_eq!(world.settle().blocked_for("waits"), Some("dependency_suspended"));
    world.independ("waits", "asks").expect("it is taken away");
    assert_eq!(world.settle().blocked_for("waits"), Some("dependency_incomplete"));
}

#[test]
fn a_draft_waits_for_whoever_activates_it_and_for_the_others_behind_that() {
    let mut world = World::new();
    world.begin("first").draft_after("draft", &["first"]).settle();
    world.stands("draft", Status::Draft).claim("first").complete("first").settle();
    world
        .stands("draft", Status::Draft)
        .draft_after("blocked", &[])
        .begin("second")
        .depend("blocked", "second");
    world.activate("draft").expect("it begins");
    world.activate("blocked").expect("it begins");
    world.settle().stands("draft", Status::Running).stands("blocked", Status::Blocked);
    assert_eq!(world.activate("draft"), Err(Rejection::NotDraft));
    assert_eq!(
        world.history("blocked"),
        ["run.started", "dependency.added", "run.activated", "run.blocked", "dependency.reported"]
    );
    world.claim("second").complete("second").settle().stands("blocked", Status::Running);
    world.fork_all();
}

#[test]
fn nobody_gets_a_draft() {
    let mut world = World::new();
    world.draft_after("draft", &[]);
    assert_eq!(world.by("draft", ANN, HandOp::Claim), Err(Rejection::Unclaimed(Unclaimed::Draft)));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut world = World::new();
    world.begin("one").begin("two").group("group", abide_core::Governance::default());
    let refusal = |told: Result<(), Rejection>| told.expect_err("it is refused").to_string();
    assert_eq!(refusal(world.try_depend("one", "one")), "a run can't wait for itself");
    world.depend("one", "two");
    assert!(refusal(world.try_depend("one", "two")).starts_with("the run waits for run-"));
    assert_eq!(refusal(world.independ("two", "one")), "the run does not wait for that one");
    assert!(refusal(world.try_depend("group", "one")).starts_with("a group waits for nobody"));
    world.cancel("one").settle();
    assert!(refusal(world.try_depend("one", "two")).contains("been cancelled"));
}

#[test]
fn a_run_waits_for_so_many_others_and_no_more() {
    let mut world = World::new();
    world.begin("waits");
    let most = abide_core::limits::DEPENDENCIES_MAX as u32;
    let depend = |world: &mut World, number: u32| {
        let mut bytes = [9; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        let on = DependsOn::on(abide_core::RunId::from_bytes(bytes));
        world.ask("waits", Command::Bond(Box::new(BondCommand::Depend { on, by: None, driver: None })))
    };
    for number in 0..most {
        depend(&mut world, number).expect("there is room");
    }
    let refused = depend(&mut world, most).expect_err("there is none");
    assert_eq!(refused.to_string(), "a run waits for at most 1000 others");
    let told = world.payloads("waits", "run.blocked");
    assert_eq!(told.len(), 1, "the first blocks it");
}
