//! How runs hear of each other: state and sequence, so that order and repeats don't matter.

use abide_core::{BondCommand, Command, Effect, Rejection, Status, Tidings, Watch};

use crate::story::{Story, run_id};
use crate::workflow::{noop, task, workflow};
use crate::world::World;

impl Story {
    #[track_caller]
    fn watched_by(self, by: u8, sequence: u64, watching: bool, heard: Option<u64>) -> Self {
        let watch = Watch { from: run_id(by), sequence, watching, at: None, deadline: None };
        self.ask(Command::Bond(Box::new(BondCommand::Watch { watch, heard })))
    }
}

#[test]
fn whoever_watches_is_told_at_once_and_whenever_the_run_looks_different() {
    let story = Story::of(&workflow([task("work"), noop("next")]).flow("work > next"))
        .start()
        .watched_by(9, 3, true, None);
    let watcher = run_id(9);
    let told = [
        format!("heard {watcher} at 3"),
        format!("watched by {watcher}"),
        format!("tell {watcher}: running"),
    ];
    let story = story.expect(["run.watched"]).expect_effects(told.each_ref().map(String::as_str));
    let story = story.report("work").expect_effects(["finish work/1", "announce completed"]);
    let announced = story.step().effects.iter().find_map(|effect| match effect {
        Effect::Announce(tidings) => Some(tidings.clone()),
        _ => None,
    });
    let announced = announced.expect("it is announced");
    assert_eq!((announced.sequence, announced.status), (story.run().head().next - 1, Status::Completed));
}

#[test]
fn an_older_wish_changes_nothing() {
    let story = Story::of(&workflow([task("work")])).start().watched_by(9, 5, false, None);
    let story =
        story.expect(["run.watched"]).watched_by(9, 3, true, Some(5)).refused(&Rejection::HeardBefore);
    story.report("work").expect_effects(["finish work/1"]);
}

#[test]
fn older_tidings_change_nothing_and_nobody_hears_of_whom_they_do_not_wait_for() {
    let mut world = World::new();
    world.begin("first").begin("other").begin_after("waits", &["first"]).settle();
    let tell = |world: &mut World, from: &str, sequence: u64, status: Status| {
        let tidings = Tidings::of_columns(world.id(from), sequence, status);
        world.ask("waits", Command::Bond(Box::new(BondCommand::Hear { tidings, known: None })))
    };
    assert_eq!(tell(&mut world, "first", 9, Status::Completed), Ok(()));
    world.stands("waits", Status::Running);
    for sequence in [1, 9] {
        assert_eq!(tell(&mut world, "first", sequence, Status::Running), Err(Rejection::HeardBefore));
    }
    assert_eq!(tell(&mut world, "other", 40, Status::Failed), Err(Rejection::HeardBefore));
    world.stands("waits", Status::Running);
}

#[test]
fn a_run_that_has_ended_says_so_to_whoever_asks_later() {
    let mut world = World::new();
    world.begin("first").begin_after("waits", &["first"]).claim("first").complete("first");
    // The wish comes behind the end.
    world.stands("waits", Status::Blocked).settle().stands("waits", Status::Running);
}

#[test]
fn a_run_that_is_not_there_never_completes() {
    let mut world = World::new();
    world.begin("waits");
    let nobody = Tidings::of_nobody(run_id(99));
    let on = abide_core::DependsOn::on(run_id(99));
    world.accept("waits", Command::Bond(Box::new(BondCommand::Depend { on, by: None, driver: None })));
    world.accept("waits", Command::Bond(Box::new(BondCommand::Hear { tidings: nobody, known: None })));
    assert_eq!(world.blocked_for("waits"), Some("on_dependency_failed"));
}

#[test]
fn a_dependency_that_is_taken_away_and_named_again_is_heard_again() {
    let mut world = World::new();
    world.begin("first").begin_after("waits", &["first"]).settle();
    world.independ("waits", "first").expect("it is taken away");
    world.settle().stands("waits", Status::Running).depend("waits", "first").settle();
    world.stands("waits", Status::Blocked).claim("first").complete("first").settle();
    world.stands("waits", Status::Running);
    world.fork_all();
}
