//! A breaker on an injected clock: when it opens, what it refuses, and how it finds out that the downstream is back.

use abide_core::breaker::{Admission, Outcome, Ticket, Transition};
use abide_core::{Breaker, BreakerSettings, BreakerState, KeptBreaker, Millis};
use proptest::prelude::*;

const SECOND: Millis = 1000;
const ME: u64 = 7;

/// A breaker, and the time by its clock.
struct Scene {
    breaker: Breaker,
    now: Millis,
}

impl Scene {
    fn new() -> Self {
        Self::with(BreakerSettings::default())
    }

    fn with(settings: BreakerSettings) -> Self {
        Self { breaker: Breaker::new(settings, KeptBreaker::default()), now: 1_000_000 }
    }

    /// After ten calls that all failed.
    fn opened() -> Self {
        let mut scene = Self::new();
        scene.fail(10);
        assert_eq!(scene.state(), "open");
        scene
    }

    /// With a probe under way.
    fn probed() -> (Self, Ticket) {
        let mut scene = Self::opened();
        scene.wait(30 * SECOND);
        let probe = scene.probe();
        (scene, probe)
    }

    fn wait(&mut self, ms: Millis) {
        self.now += ms;
    }

    fn call(&mut self) -> Admission {
        self.breaker.admit(self.now, ME)
    }

    fn free(&mut self) -> Ticket {
        match self.call() {
            Admission::Free(ticket) => ticket,
            other => panic!("the call does not go out freely: {other:?}"),
        }
    }

    fn probe(&mut self) -> Ticket {
        match self.call() {
            Admission::Probe(ticket) => ticket,
            other => panic!("the call is no probe: {other:?}"),
        }
    }

    fn report(&mut self, ticket: Ticket, outcome: Outcome) -> Option<Transition> {
        self.breaker.report(ticket, outcome, self.now)
    }

    fn succeed(&mut self, calls: usize) {
        for _ in 0..calls {
            let ticket = self.free();
            self.report(ticket, Outcome::Success);
        }
    }

    fn fail(&mut self, calls: usize) {
        for _ in 0..calls {
            let ticket = self.free();
            self.report(ticket, Outcome::Failure);
        }
    }

    fn state(&self) -> &'static str {
        name(self.breaker.kept().state)
    }

    fn cooldown_ms(&self) -> Millis {
        match self.breaker.kept().state {
            BreakerState::Open { cooldown_ms, until, opened_at } => {
                assert_eq!(until - opened_at, cooldown_ms);
                cooldown_ms
            }
            other => panic!("it is not open: {other:?}"),
        }
    }
}

fn name(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open { .. } => "open",
        BreakerState::HalfOpen { .. } => "half open",
    }
}

#[test]
fn exactly_half_failing_leaves_it_closed_and_one_more_opens_it() {
    let mut scene = Scene::new();
    scene.succeed(10);
    scene.fail(10);
    assert_eq!((scene.state(), scene.breaker.counts(scene.now)), ("closed", (10, 20)));
    let ticket = scene.free();
    let opened = scene.report(ticket, Outcome::Failure);
    assert_eq!(opened, Some(Transition::Opened { failures: 11, calls: 21, cooldown_ms: 30 * SECOND }));
}

#[test]
fn fewer_calls_than_the_least_say_nothing() {
    let mut scene = Scene::new();
    scene.fail(9);
    assert_eq!(scene.state(), "closed");
    scene.fail(1);
    assert_eq!(scene.state(), "open");
}

#[test]
fn the_call_that_makes_up_the_number_opens_it_even_if_it_succeeds() {
    let mut scene = Scene::new();
    scene.fail(9);
    scene.succeed(1);
    assert_eq!(scene.state(), "open", "nine of ten failed");
}

#[test]
fn failures_are_forgotten_when_they_are_older_than_the_window() {
    let mut scene = Scene::new();
    scene.fail(9);
    scene.wait(60 * SECOND);
    scene.fail(9);
    assert_eq!((scene.state(), scene.breaker.counts(scene.now)), ("closed", (9, 9)));
    scene.wait(59 * SECOND);
    scene.fail(1);
    assert_eq!(scene.state(), "open", "the nine are still of the last minute");
}

#[test]
fn successes_are_forgotten_like_failures() {
    let mut scene = Scene::new();
    scene.succeed(100);
    scene.wait(30 * SECOND);
    scene.fail(10);
    assert_eq!(scene.state(), "closed");
    scene.wait(30 * SECOND);
    scene.fail(1);
    assert_eq!(scene.state(), "open");
}

#[test]
fn open_refuses_every_call_until_the_cooldown_is_over() {
    let mut scene = Scene::opened();
    let until = scene.now + 30 * SECOND;
    for _ in 0..100 {
        assert_eq!(scene.call(), Admission::Refused { until });
    }
    scene.wait(30 * SECOND - 1);
    assert_eq!(scene.call(), Admission::Refused { until });
    scene.wait(1);
    scene.probe();
}

#[test]
fn after_the_cooldown_one_of_a_hundred_calls_is_the_probe() {
    let mut scene = Scene::opened();
    scene.wait(30 * SECOND);
    let admitted = (0..100).filter(|_| !matches!(scene.call(), Admission::Refused { .. })).count();
    assert_eq!((admitted, scene.state()), (1, "half open"));
}

#[test]
fn a_probe_that_succeeds_closes_it_and_calls_go_out_again() {
    let (mut scene, probe) = Scene::probed();
    assert_eq!(scene.report(probe, Outcome::Success), Some(Transition::Closed { cooldown_ms: 30 * SECOND }));
    assert_eq!(scene.breaker.counts(scene.now), (0, 0), "what was counted before is forgotten");
    scene.fail(9);
    assert_eq!(scene.state(), "closed");
}

#[test]
fn each_probe_that_fails_doubles_the_cooldown_up_to_five_minutes() {
    let mut scene = Scene::opened();
    let mut cooldowns = vec![scene.cooldown_ms()];
    for _ in 0..5 {
        scene.wait(scene.cooldown_ms());
        let probe = scene.probe();
        scene.report(probe, Outcome::Failure);
        cooldowns.push(scene.cooldown_ms());
    }
    assert_eq!(cooldowns, [30, 60, 120, 240, 300, 300].map(|seconds| seconds * SECOND));
}

#[test]
fn the_cooldown_is_back_at_its_base_after_a_close() {
    let (mut scene, probe) = Scene::probed();
    scene.report(probe, Outcome::Failure);
    assert_eq!(scene.cooldown_ms(), 60 * SECOND);
    scene.wait(60 * SECOND);
    let probe = scene.probe();
    scene.report(probe, Outcome::Success);
    scene.fail(10);
    assert_eq!(scene.cooldown_ms(), 30 * SECOND);
}

#[test]
fn a_probe_that_never_ends_is_released_when_its_lease_is_over() {
    let (mut scene, lost) = Scene::probed();
    let lease = BreakerSettings::default().lease_ms;
    scene.wait(lease - 1);
    assert_eq!(scene.call(), Admission::Refused { until: scene.now + 1 });
    scene.wait(1);
    let next = scene.probe();
    assert_eq!(scene.report(lost, Outcome::Failure), None, "it has been given up");
    assert_eq!(scene.state(), "half open");
    scene.report(next, Outcome::Success);
    assert_eq!(scene.state(), "closed");
}

#[test]
fn a_probe_that_is_given_up_leaves_its_permit_to_the_next_call() {
    let (mut scene, probe) = Scene::probed();
    assert_eq!(scene.report(probe, Outcome::Neither), Some(Transition::Released));
    assert_eq!(scene.cooldown_ms(), 30 * SECOND, "it says nothing, so nothing is doubled");
    scene.probe();
}

#[test]
fn the_permit_of_a_process_that_is_gone_is_released_and_that_of_a_living_one_is_not() {
    let (mut scene, probe) = Scene::probed();
    assert_eq!(scene.breaker.release_lost(ME), None);
    assert_eq!(scene.breaker.release_lost(ME + 1), Some(Transition::Released));
    assert_eq!(scene.report(probe, Outcome::Success), None);
    scene.probe();
}

#[test]
fn calls_that_are_given_up_are_not_counted() {
    let mut scene = Scene::new();
    scene.fail(9);
    for _ in 0..20 {
        let ticket = scene.free();
        scene.report(ticket, Outcome::Neither);
    }
    assert_eq!((scene.state(), scene.breaker.counts(scene.now)), ("closed", (9, 9)));
}

#[test]
fn a_success_that_comes_late_does_not_close_it() {
    let mut scene = Scene::new();
    let late = scene.free();
    scene.fail(10);
    let before = scene.breaker.kept();
    assert_eq!(scene.report(late, Outcome::Success), None);
    assert_eq!(scene.breaker.kept(), before);
    scene.wait(30 * SECOND);
    scene.probe();
    assert_eq!(scene.report(late, Outcome::Success), None, "only the probe closes it");
    assert_eq!(scene.state(), "half open");
}

#[test]
fn a_failure_that_comes_late_doubles_nothing() {
    let mut scene = Scene::new();
    let late = [scene.free(), scene.free()];
    scene.fail(10);
    assert_eq!(scene.report(late[0], Outcome::Failure), None);
    assert_eq!(scene.cooldown_ms(), 30 * SECOND);
    scene.wait(30 * SECOND);
    let probe = scene.probe();
    assert_eq!(scene.report(late[1], Outcome::Failure), None);
    assert_eq!(scene.state(), "half open");
    scene.report(probe, Outcome::Success);
    assert_eq!(scene.report(late[1], Outcome::Failure), None);
    assert_eq!(scene.breaker.counts(scene.now), (0, 0), "it belongs to the time before");
}

#[test]
fn a_clock_that_is_set_back_lengthens_no_cooldown_beyond_itself() {
    let mut scene = Scene::opened();
    scene.wait(-1_000_000_000);
    assert_eq!(scene.call(), Admission::Refused { until: scene.now + 30 * SECOND });
    scene.wait(20 * SECOND);
    assert_eq!(scene.call(), Admission::Refused { until: scene.now + 10 * SECOND });
    scene.wait(10 * SECOND);
    let lost = scene.probe();
    scene.wait(-1_000_000_000);
    assert!(matches!(scene.call(), Admission::Refused { .. }));
    scene.wait(BreakerSettings::default().lease_ms);
    let next = scene.probe();
    assert_ne!(lost, next);
}

#[test]
fn what_is_kept_is_all_that_a_start_needs() {
    let (scene, probe) = Scene::probed();
    let kept = scene.breaker.kept();
    let text = serde_json::to_string(&kept.state).unwrap();
    assert_eq!(
        text,
        r#"{"state":"half_open","openedAt":1000000,"until":1030000,"cooldownMs":30000,"permit":{"holder":7,"expires":2890000}}"#
    );
    let state = serde_json::from_str(&text).unwrap();
    let mut again = Breaker::new(BreakerSettings::default(), KeptBreaker { state, ..kept });
    assert_eq!(
        again.report(probe, Outcome::Failure, scene.now),
        Some(Transition::Reopened { cooldown_ms: 60_000 })
    );
    for (state, text) in [
        (BreakerState::Closed, r#"{"state":"closed"}"#),
        (again.kept().state, r#"{"state":"open","openedAt":1030000,"until":1090000,"cooldownMs":60000}"#),
    ] {
        assert_eq!(serde_json::to_string(&state).unwrap(), text);
        assert_eq!(serde_json::from_str::<BreakerState>(text).unwrap(), state);
    }
}

#[test]
fn every_event_in_every_state() {
    type Beginning = fn() -> (Scene, Option<Ticket>);
    let states: [(&str, Beginning); 6] = [
        ("closed", || with_call(Scene::new())),
        ("closed, about to open", || {
            let mut scene = Scene::new();
            scene.fail(9);
            with_call(scene)
        }),
        ("open", || (Scene::opened(), None)),
        ("open, cooled down", || {
            let mut scene = Scene::opened();
            scene.wait(30 * SECOND);
            (scene, None)
        }),
        ("half open", || {
            let (scene, probe) = Scene::probed();
            (scene, Some(probe))
        }),
        ("half open, lease over", || {
            let (mut scene, probe) = Scene::probed();
            scene.wait(BreakerSettings::default().lease_ms);
            (scene, Some(probe))
        }),
    ];
    let mut table = String::new();
    for (title, state) in states {
        table += &format!("{title}\n");
        let (mut scene, _) = state();
        let admitted = match scene.call() {
            Admission::Free(_) => "goes out".to_owned(),
            Admission::Probe(_) => "is the probe".to_owned(),
            Admission::Refused { until } => format!("is refused for {} s", (until - scene.now) / SECOND),
        };
        table += &format!("  a call: {admitted}; {}\n", scene.state());
        for outcome in [Outcome::Success, Outcome::Failure, Outcome::Neither] {
            for is_late in [false, true] {
                let (mut scene, current) = state();
                let old = Scene::new().free();
                let Some(ticket) = current.filter(|_| !is_late).or(is_late.then_some(old)) else { continue };
                if is_late && scene.breaker.kept().version == 0 {
                    continue;
                }
                let transition = scene.report(ticket, outcome);
                let which = if is_late { "late " } else { "" };
                table += &format!("  {which}{outcome:?}: {}; {transition:?}\n", scene.state());
            }
        }
        let (mut scene, _) = state();
        let released = scene.breaker.release_lost(ME + 1);
        table += &format!("  its process is gone: {}; {released:?}\n", scene.state());
    }
    insta::assert_snapshot!("breaker_by_event", table);
}

fn with_call(mut scene: Scene) -> (Scene, Option<Ticket>) {
    let ticket = scene.free();
    (scene, Some(ticket))
}

#[derive(Clone, Debug)]
enum Move {
    Call,
    Report(usize, Outcome),
    Wait(Millis),
    Restart,
}

fn moves() -> impl Strategy<Value = Move> {
    let outcome = prop_oneof![Just(Outcome::Success), Just(Outcome::Failure), Just(Outcome::Neither)];
    prop_oneof![
        6 => Just(Move::Call),
        6 => (any::<usize>(), outcome).prop_map(|(which, outcome)| Move::Report(which, outcome)),
        2 => (-100 * SECOND..400 * SECOND).prop_map(Move::Wait),
        1 => Just(Move::Wait(2 * 3600 * SECOND)),
        1 => Just(Move::Restart),
    ]
}

proptest! {
    #[test]
    fn there_is_never_a_second_permit_and_open_lets_nothing_out(moves in prop::collection::vec(moves(), 1..300)) {
        let settings = BreakerSettings { min_calls: 3, ..BreakerSettings::default() };
        let mut scene = Scene::with(settings);
        let (mut calls, mut probe): (Vec<Ticket>, Option<(Ticket, Millis)>) = (Vec::new(), None);
        for step in moves {
            let before = scene.breaker.kept();
            match step {
                Move::Wait(ms) => {
                    scene.wait(ms);
                    // However the clock goes, nothing is refused for longer than this.
                    let longest = settings.lease_ms.max(settings.cooldown_max_ms);
                    let until = scene.breaker.refuses_until(scene.now);
                    prop_assert!(until.is_none_or(|until| until <= scene.now + longest));
                    probe = probe.map(|(ticket, lease)| (ticket, lease.min(scene.now + settings.lease_ms)));
                }
                Move::Call => match scene.call() {
                    Admission::Free(ticket) => {
                        prop_assert_eq!(before.state, BreakerState::Closed);
                        calls.push(ticket);
                    }
                    Admission::Probe(ticket) => {
                        let is_held = probe.is_some_and(|(_, lease)| scene.now < lease);
                        prop_assert!(!is_held, "a probe is under way");
                        prop_assert!(scene.breaker.kept().version == before.version + 1);
                        probe = Some((ticket, scene.now + settings.lease_ms));
                        calls.push(ticket);
                    }
                    Admission::Refused { until } => {
                        prop_assert!(before.state != BreakerState::Closed && scene.now < until);
                    }
                },
                Move::Report(which, outcome) if !calls.is_empty() => {
                    let ticket = calls.swap_remove(which % calls.len());
                    let transition = scene.report(ticket, outcome);
                    let is_probe = probe.is_some_and(|(held, _)| held == ticket);
                    if is_probe {
                        probe = None;
                    }
                    if before.state != BreakerState::Closed && !is_probe {
                        prop_assert_eq!(transition, None);
                        prop_assert_eq!(scene.breaker.kept(), before);
                    }
                }
                Move::Report(..) => {}
                Move::Restart => {
                    let state = serde_json::to_string(&before.state).unwrap();
                    let state = serde_json::from_str(&state).unwrap();
                    scene.breaker = Breaker::new(settings, KeptBreaker { state, ..before });
                }
            }
            if let BreakerState::Open { cooldown_ms, .. } | BreakerState::HalfOpen { cooldown_ms, .. } =
                scene.breaker.kept().state
            {
                prop_assert!((settings.cooldown_ms..=settings.cooldown_max_ms).contains(&cooldown_ms));
            }
        }
    }

    #[test]
    fn no_clock_and_no_setting_makes_it_panic(
        times in prop::collection::vec(any::<Millis>(), 1..60),
        numbers in any::<(Millis, u32, u32, Millis, Millis, Millis)>(),
    ) {
        let (window_ms, threshold_percent, min_calls, cooldown_ms, cooldown_max_ms, lease_ms) = numbers;
        let settings = BreakerSettings { window_ms, threshold_percent, min_calls, cooldown_ms, cooldown_max_ms, lease_ms };
        let mut breaker = Breaker::new(settings, KeptBreaker::default());
        for now in times {
            if let Admission::Free(ticket) | Admission::Probe(ticket) = breaker.admit(now, ME) {
                breaker.report(ticket, Outcome::Failure, now);
            }
            let (failures, calls) = breaker.counts(now);
            prop_assert!(failures <= calls);
        }
    }
}
