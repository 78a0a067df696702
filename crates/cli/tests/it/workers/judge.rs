//! What must hold of every run, wherever it was when somebody was killed.

use serde_json::Value;

use super::play::{Effects, Play, Stop, Victim, World};
use super::scenario::{Expected, Scenario, Step};

/// What is known of a run that has ended.
pub(super) struct Case<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) play: &'a Play,
    pub(super) victim: Victim,
    pub(super) shown: Value,
    pub(super) effects: &'a Effects,
}

impl Case<'_> {
    /// Fails unless all of it holds. Gives which of the expected ends it came to.
    pub(super) fn judge(&self) -> Option<usize> {
        self.effects_are_done_once();
        if let Some(step) = self.killed_inside() {
            self.its_outcome_is_unknown(&step);
            return None;
        }
        let ends = &self.scenario.expect;
        let end = ends.iter().position(|expected| self.ended_as(expected));
        let end = end.unwrap_or_else(|| {
            panic!("{}: it should have ended as {ends:#?}: {:#}", self.told(), self.shown)
        });
        self.what_it_gives_was_done();
        Some(end)
    }

    /// The step that a worker was killed in, if it must not be done twice.
    fn killed_inside(&self) -> Option<Step> {
        let Stop::Point(point, _) = &self.play.stop else { return None };
        let (step, _) = self.scenario.step_around(point)?;
        (self.victim != Victim::Server && !step.idempotent).then_some(step)
    }

    fn its_outcome_is_unknown(&self, step: &Step) {
        let (status, code) = (&self.shown["status"], &self.shown["error"]["code"]);
        assert_eq!(
            (status, code),
            (&"failed".into(), &"outcome_unknown".into()),
            "{}: {:#}",
            self.told(),
            self.shown
        );
        let done = self.done("main", &step.name);
        let reached = matches!(&self.play.stop, Stop::Point(point, _) if point.ends_with("/effect"));
        assert_eq!(done, usize::from(reached), "{}: '{}' was done after the crash", self.told(), step.name);
    }

    fn effects_are_done_once(&self) {
        let of_run = self.effects.iter().filter(|((label, ..), _)| *label == self.play.label);
        for ((_, program, name), &done) in of_run {
            let most = self.times_max(program, name);
            assert!(done <= most, "{}: '{name}' of {program} was done {done} times", self.told());
        }
    }

    /// How often a step may be done: once, and again if a crash came between its effect and its record.
    fn times_max(&self, program: &str, name: &str) -> usize {
        // What fails is done again in every attempt, and its failure is recorded with the next thing that is done.
        let fails = self.scenario.steps(program).iter().any(|step| step.name == name && step.fails);
        let attempts = if fails { self.scenario.attempts() } else { 1 };
        // Whoever was answered goes on at once, so the crash may have come anywhere behind the answer.
        let twice = self.scenario.steps(program).iter().any(|step| step.name == name && step.idempotent);
        let anywhere = twice && matches!(&self.play.stop, Stop::Answered(_));
        let again = fails || anywhere || self.was_killed_behind(program, name);
        attempts + usize::from(self.victim != Victim::Server && again)
    }

    /// Whether the worker was killed behind the effect of an idempotent step, and before it was recorded.
    fn was_killed_behind(&self, program: &str, name: &str) -> bool {
        let Stop::Point(point, _) = &self.play.stop else { return false };
        let step = self.scenario.step_around(point).filter(|_| point.starts_with(&format!("{program}/")));
        step.is_some_and(|(step, phase)| step.name == name && phase == "effect" && step.idempotent)
    }

    fn ended_as(&self, expected: &Expected) -> bool {
        let output = expected.output.as_ref().map(|output| Value::Object(output.clone()));
        self.shown["status"] == *expected.status
            && output.is_none_or(|output| self.shown["variables"]["result"] == output)
            && expected.error.as_ref().is_none_or(|code| self.shown["error"]["code"] == **code)
    }

    /// Whatever the output says that a step gave, it was done.
    fn what_it_gives_was_done(&self) {
        for step in self.scenario.steps("main") {
            if self.shown["variables"]["result"].get(&step.name).is_some() {
                assert!(self.done("main", &step.name) > 0, "{}: '{}' was not done", self.told(), step.name);
            }
        }
    }

    fn done(&self, program: &str, name: &str) -> usize {
        let key = (self.play.label.clone(), program.to_owned(), name.to_owned());
        self.effects.get(&key).copied().unwrap_or_default()
    }

    fn told(&self) -> String {
        let Play { label, run, stop } = self.play;
        format!("{label} ({run}), stopped at {stop:?} with {:?} killed", self.victim)
    }
}

/// Fails if a run asked anything twice.
pub(super) async fn demand_asked_once(world: &World<'_>, play: &Play) {
    let mut asked: Vec<String> =
        world.asked(play).await.iter().map(|asked| asked["key"].to_string()).collect();
    let all = asked.len();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), all, "{} asked something twice: {asked:?}", play.run);
}
