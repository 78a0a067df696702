//! Every scenario, with the worker, the server or both killed at every point of it.
//!
//! `ABIDE_SCENARIOS=large` also kills where a program passes a point for the second time, and plays everything in
//! functions that are not async as well.

use super::judge::{Case, demand_asked_once};
use super::play::{Stop, Victim, World};
use super::runner::{PYTHON, PYTHON_SYNC, Runner};
use super::scenario::Scenario;
use crate::support::verify;

/// One test for each scenario.
macro_rules! scenarios {
    ($($test:ident $name:literal)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                play($name).await;
            }
        )*
    };
}

scenarios! {
    what_was_done_is_not_done_again "steps"
    what_must_not_be_done_twice_is_done_once_or_reported "once"
    answers_are_kept_wherever_somebody_dies "refund"
    branches_may_ask_at_once "parallel"
    a_sleep_outlives_everybody "sleep"
    children_are_started_once "child"
    a_retry_goes_on_with_what_was_done "retry"
    silence_is_noticed_whoever_dies "silence"
    old_runs_finish_on_old_logic "version"
    code_that_changed_gets_no_wrong_answer "changed"
    a_decision_whether_to_ask_is_made_once "engagement"
}

#[test]
fn every_scenario_is_played() {
    let mut played = NAMES.to_vec();
    played.sort_unstable();
    assert_eq!(Scenario::names(), played);
}

async fn play(name: &str) {
    let scenario = Scenario::read(name);
    let large = std::env::var("ABIDE_SCENARIOS").is_ok_and(|size| size == "large");
    let runners: &[Runner] = if large { &[PYTHON, PYTHON_SYNC] } else { &[PYTHON] };
    for &runner in runners {
        let mut seen = vec![false; scenario.expect.len()];
        for victim in [Victim::Worker, Victim::Server, Victim::Both] {
            for end in play_with(&scenario, runner, victim, large).await {
                seen[end] = true;
            }
        }
        assert!(seen.iter().all(|seen| *seen), "no run ended as {:?}", scenario.expect);
    }
}

/// Plays a scenario once for every point, kills, and gives the ends that the runs came to.
async fn play_with(scenario: &Scenario, runner: Runner, victim: Victim, large: bool) -> Vec<usize> {
    let mut world = World::begin(scenario, runner).await;
    world.start("first", Stop::Nowhere).await;
    world.until_all_end().await;
    let passes_max = if large { 2 } else { 1 };
    let points: Vec<_> = world.points("first").into_iter().filter(|(_, pass)| *pass <= passes_max).collect();
    assert!(points.contains(&("main/0/before".to_owned(), 1)), "{points:?}");
    for (number, (point, pass)) in points.into_iter().enumerate() {
        world.start(&format!("point-{number}"), Stop::Point(point, pass)).await;
    }
    let answered = scenario.people.iter().filter(|(_, answer)| !answer.is_null());
    for (number, (question, _)) in answered.enumerate() {
        world.start(&format!("open-{number}"), Stop::Open(question.clone())).await;
        world.start(&format!("answered-{number}"), Stop::Answered(question.clone())).await;
    }
    world.until_all_stop().await;
    if scenario.waits_for_time() {
        world.put_to_sleep().await;
    }
    let mut world = world.strike(victim).await;
    if scenario.restored && victim != Victim::Server {
        world.restore().await;
    }
    world.until_all_end().await;
    world.start("last", Stop::Nowhere).await;
    world.until_all_end().await;
    let ends = judge(&world, victim).await;
    let (_site, data) = world.end();
    verify(&data);
    ends
}

async fn judge(world: &World<'_>, victim: Victim) -> Vec<usize> {
    let effects = world.effects();
    let mut ends = Vec::new();
    for play in &world.plays {
        let shown = world.shown(play).await;
        ends.extend(Case { scenario: world.scenario, play, victim, shown, effects: &effects }.judge());
        demand_asked_once(world, play).await;
    }
    for worker in world.workers().await {
        assert_eq!(worker["held"], 0, "a slot is taken though everything has ended: {worker}");
    }
    ends
}
