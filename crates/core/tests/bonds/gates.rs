//! What counts as done: nothing that waits for what is not, and nothing with children that are not.

use abide_core::{HandOp, HoldMode, Rejection, Status, TimerId, Unclaimed};
use serde_json::json;

use crate::story::{BEGIN, Story, hours, run_id};
use crate::workflow::{delay, noop, task, workflow};
use crate::world::{ANN, World};

impl Story {
    /// It is told to wait for another run.
    #[track_caller]
    fn after_all(self, on: u8) -> Self {
        let on = abide_core::DependsOn::on(run_id(on));
        self.ask(abide_core::Command::Bond(Box::new(abide_core::BondCommand::Depend {
            on,
            by: None,
            driver: None,
        })))
    }

    /// Another run tells how it stands.
    #[track_caller]
    fn hears(self, from: u8, sequence: u64, status: Status) -> Self {
        let tidings = abide_core::Tidings::of_columns(run_id(from), sequence, status);
        let heard = abide_core::BondCommand::Hear { tidings, known: None };
        self.ask(abide_core::Command::Bond(Box::new(heard)))
    }
}

#[test]
fn a_run_with_nothing_left_to_do_does_not_count_as_done_before_those_it_waits_for() {
    Story::of(&workflow([task("last")]))
        .start()
        .after_all(9)
        .expect(["dependency.added", "run.blocked"])
        .report("last")
        .expect(["node.completed last"])
        .stands(Status::Blocked)
        .hears(9, 4, Status::WaitingInput)
        .expect(["dependency.reported"])
        .stands(Status::Blocked)
        .hears(9, 7, Status::Completed)
        .expect(["dependency.reported", "run.unblocked", "run.completed"])
        .stands(Status::Completed);
}

#[test]
fn whoever_has_a_blocked_run_can_not_say_that_it_is_done() {
    let mut world = World::new();
    world.begin("asks").suspend("asks").begin("waits").claim("waits").depend("waits", "asks").settle();
    let refused = world.by("waits", ANN, HandOp::Complete { outputs: None }).expect_err("it is not done");
    let Rejection::Unclaimed(Unclaimed::Blocked(reason)) = refused else { panic!("{refused}") };
    assert_eq!(reason.name(), "dependency_suspended");
    world.answer("asks").complete("asks").settle();
    world.complete("waits").settle().stands("waits", Status::Completed);
}

#[test]
fn a_parent_can_not_complete_while_a_child_waits_for_people_and_shows_nothing_of_that_itself() {
    let mut world = World::new();
    world.begin("parent").claim("parent").adopt("parent", "child", &[]).expect("it gets a child");
    world.settle().suspend("child").settle();
    world.stands("child", Status::WaitingInput).stands("parent", Status::Running);
    let complete = HandOp::Complete { outputs: None };
    assert_eq!(world.by("parent", ANN, complete), Err(Rejection::ChildrenUnfinished { unfinished: 1 }));
    world.answer("child").complete("child").settle().complete("parent").settle();
    world.stands("parent", Status::Completed);
    let of_itself = |told: &&str| told.starts_with("run.");
    let own: Vec<_> = world.history("parent").into_iter().filter(of_itself).collect();
    assert_eq!(own, ["run.started", "run.completed"], "a parent's own status never changed");
}

#[test]
fn a_parent_that_waits_for_its_own_child_hears_of_its_end_once() {
    let mut world = World::new();
    world.begin("parent").adopt("parent", "child", &[]).expect("it gets a child");
    world.settle().depend("parent", "child").settle().stands("parent", Status::Blocked);
    world.suspend("child").settle();
    assert_eq!(world.blocked_for("parent"), Some("dependency_suspended"));
    world.answer("child").complete("child").settle().stands("parent", Status::Running);
    world.claim("parent").complete("parent").settle().stands("parent", Status::Completed);
}

#[test]
fn what_is_under_way_goes_on_in_a_blocked_run_and_nothing_follows_it() {
    let flow = workflow([task("work"), delay("wait", hours(1)), noop("next")]);
    Story::of(&flow.flow("work > next").flow("wait > next"))
        .start()
        .after_all(9)
        .stands(Status::Blocked)
        .report("work")
        .expect(["node.completed work"])
        .after(hours(1))
        .fire("wait")
        .expect(["node.completed wait"])
        .stands(Status::Blocked)
        .hears(9, 1, Status::Completed)
        .expect([
            "dependency.reported",
            "run.unblocked",
            "node.started next",
            "node.completed next",
            "run.completed",
        ]);
}

#[test]
fn what_fails_in_a_blocked_run_fails_it() {
    Story::of(&workflow([task("work"), noop("next")]).flow("work > next"))
        .start()
        .after_all(9)
        .report_failure("work", "no paper")
        .stands(Status::Failed);
}

#[test]
fn an_answer_in_a_blocked_run_is_taken_and_its_node_goes_on_when_the_run_does() {
    let gate = crate::workflow::of_kind("gate", "core.approvalGate").config("title", json!("Pay?"));
    Story::of(&workflow([gate]))
        .start()
        .after_all(9)
        .stands(Status::WaitingApproval)
        .answer("gate", &json!({ "action": "accept" }))
        .stands(Status::Blocked)
        .hears(9, 3, Status::Completed)
        .stands(Status::Completed);
}

#[test]
fn the_time_of_a_blocked_run_stands_still() {
    let story = Story::of(&workflow([delay("wait", hours(9)), noop("next")]).flow("wait > next"))
        .configurable(&json!({ "runTimeoutMs": hours(2) }))
        .start()
        .after(hours(1))
        .after_all(9)
        .after(hours(5));
    assert_eq!(story.run().timers().get(&TimerId::RunTimeout), None);
    let story = story.hears(9, 2, Status::Completed);
    let due = story.run().timers().get(&TimerId::RunTimeout).copied();
    assert_eq!(due, Some(BEGIN + hours(7)), "an hour was left of it");
}

#[test]
fn a_run_that_is_held_and_blocked_goes_on_only_when_nothing_keeps_it() {
    Story::of(&workflow([task("work"), noop("next")]).flow("work > next"))
        .start()
        .after_all(9)
        .hold(HoldMode::Pause)
        .stands(Status::Paused)
        .report("work")
        .hears(9, 2, Status::Completed)
        .expect(["dependency.reported", "run.unblocked"])
        .stands(Status::Paused)
        .release()
        .expect(["run.released", "node.started next", "node.completed next", "run.completed"]);
}

#[test]
fn whoever_drives_a_run_as_a_whole_has_it_wait_only_if_they_have_seen_it_as_it_is() {
    let mut world = World::new();
    world.begin("first").begin("second");
    let on = abide_core::DependsOn::on(world.id("first"));
    let actor = abide_core::Actor { agent: ANN.to_owned(), principal: None };
    let depend = |expected| {
        let driver = Some(abide_core::Driver { actor: actor.clone(), expected });
        abide_core::Command::Bond(Box::new(abide_core::BondCommand::Depend {
            on: on.clone(),
            by: None,
            driver,
        }))
    };
    let seen = world.run("second").intent_version();
    let refused = world.ask("second", depend(seen + 1)).expect_err("they have seen another");
    assert_eq!(refused, Rejection::VersionConflict { expected: seen + 1, found: seen });
    world.accept("second", depend(seen));
    assert!(world.run("second").intent_version() > seen, "what it waits for is part of what they see");
    assert!(world.run("second").is_kept_waiting() && world.run("first").is_ready());
}
