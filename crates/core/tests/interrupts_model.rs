//! Random things that happen to a run with questions, held against a small model of what must come of them.
//!
//! The model knows of each question since when it is asked, for how long its times stood still, and how it ended. It
//! works out from that when people are told, when nobody can answer any more, and which timers are armed. Whatever the
//! moves: one end for each question, no answer lost, nobody told twice of one thing, nothing early, nothing started
//! while the run is held. `Story` folds every step again and reads every snapshot back, so each move is a crash, too.
//!
//! To add a command: a `Move`, how often it comes in `moves`, what is asked in `World::play`, and what it changes in the
//! model. The checks in `World::check` stay as they are.

#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::collections::{BTreeMap, BTreeSet};

use abide_core::event::{Held, HoldMode, Released, Resolution};
use abide_core::{
    Answerer, Command, Effect, Hold, InterruptId, Lifecycle, Millis, NodePhase, Rejection, Resolve, TimerId,
    rfc3339,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use story::{BEGIN, Story, cancellation, type_name};
use workflow::{Sketch, Workflow, noop, of_kind, workflow};

/// What happens next.
#[derive(Clone, Debug)]
enum Move {
    /// Time goes by, and each timer is heard at its time.
    Pass(Millis),
    /// Time goes by while no server runs.
    Down(Millis),
    /// What is due is heard, the last first.
    Hear,
    Hold(HoldMode),
    Release,
    /// The protocol's own word for it.
    Resume,
    /// Somebody answers one of the questions, with something that fits or not.
    Answer {
        which: usize,
        sound: bool,
    },
    Cancel,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let mode = prop_oneof![Just(HoldMode::Pause), Just(HoldMode::Stop)];
    let one = prop_oneof![
        8 => (0..30_000i64).prop_map(Move::Pass),
        4 => (0..40_000i64).prop_map(Move::Down),
        4 => Just(Move::Hear),
        6 => mode.prop_map(Move::Hold),
        5 => Just(Move::Release),
        1 => Just(Move::Resume),
        4 => (0..3usize, prop::bool::weighted(0.7)).prop_map(|(which, sound)| Move::Answer { which, sound }),
    ];
    let cancels = prop::option::weighted(0.1, 0..16usize);
    (prop::collection::vec(one, 1..18), cancels).prop_map(|(mut moves, cancels)| {
        if let Some(at) = cancels {
            moves.insert(at.min(moves.len()), Move::Cancel);
        }
        moves
    })
}

/// What one question says of its own time.
#[derive(Clone, Copy, Debug)]
struct Terms {
    attempts: u32,
    /// Between attempts; no ladder without it.
    interval_ms: Option<Millis>,
    timeout_ms: Option<Millis>,
    /// It happens by itself so long after the beginning.
    occasion: Option<Millis>,
}

fn terms() -> impl Strategy<Value = [Terms; 3]> {
    let seconds = |most: i64| (1..most).prop_map(|s| s * 1_000);
    (2..5u32, seconds(40), seconds(90), seconds(90), seconds(120)).prop_map(
        |(attempts, interval, timeout, limit, occasion)| {
            let plain = Terms { attempts: 1, interval_ms: None, timeout_ms: None, occasion: None };
            [
                Terms { attempts, interval_ms: Some(interval), ..plain },
                Terms { timeout_ms: Some(timeout), ..plain },
                Terms { timeout_ms: Some(limit), occasion: Some(occasion), ..plain },
            ]
        },
    )
}

fn gate(ix: usize, terms: &Terms) -> Sketch {
    let id = format!("gate{ix}");
    let sketch = match (terms.interval_ms, terms.occasion) {
        (Some(interval), _) => {
            let policy = json!({
                "max_attempts": terms.attempts, "interval_seconds": interval / 1_000,
                "final_fallback_policy": "fail",
            });
            let config = of_kind(&id, "core.hitl.ask-user").config("question", json!("Well?"));
            config.setting("ladder", json!({ "retry_policy": policy }))
        }
        (None, Some(ms)) => {
            let event_type = format!("scheduled-time:{}", rfc3339(BEGIN + ms));
            of_kind(&id, "core.interrupt")
                .config("kind", json!("external-event"))
                .config("data", json!({ "eventType": event_type, "correlation": {} }))
        }
        (None, None) => of_kind(&id, "core.approvalGate").config("title", json!("Pay?")),
    };
    match terms.timeout_ms {
        Some(ms) => sketch.config("timeoutMs", json!(ms)),
        None => sketch,
    }
}

/// Three questions beside each other. Whatever becomes of them, the run goes on to its end.
fn flow(terms: &[Terms; 3]) -> Workflow {
    let gates = terms.iter().enumerate().map(|(ix, terms)| gate(ix, terms));
    let mends = (0..terms.len()).map(|ix| noop(&format!("mend{ix}")));
    let flow = workflow(gates.chain(mends).collect::<Vec<Sketch>>());
    (0..terms.len()).fold(flow, |flow, ix| flow.under("any_failed", &format!("gate{ix} > mend{ix}")))
}

/// A question as the model knows it.
#[derive(Clone, Debug)]
struct Asked {
    id: InterruptId,
    terms: Terms,
    /// For how long its times stood still, and since when they do.
    shifted: Millis,
    stands: Option<Millis>,
    attempt: u32,
    closed: Option<Resolution>,
    answered: bool,
}

impl Asked {
    /// When a time that is counted from the beginning comes; never while it stands still.
    fn due(&self, ms: Millis) -> Option<Millis> {
        self.stands.is_none().then_some(BEGIN + self.shifted + ms)
    }

    fn limit(&self) -> Option<Millis> {
        self.due(self.terms.timeout_ms?)
    }

    fn occasion(&self) -> Option<Millis> {
        self.terms.occasion.map(|ms| BEGIN + ms)
    }

    fn next(&self) -> Option<Millis> {
        self.due(self.terms.interval_ms? * Millis::from(self.attempt))
    }

    /// From when on nobody can answer.
    fn deadline(&self) -> Option<Millis> {
        let ends = self.terms.interval_ms.and_then(|ms| self.due(ms * Millis::from(self.terms.attempts)));
        self.limit().into_iter().chain(ends).min()
    }

    fn timers(&self) -> impl Iterator<Item = (TimerId, Millis)> {
        let attempt = self.next().map(|due| (TimerId::Attempt(self.id), due));
        let limit = self.limit().map(|due| (TimerId::Interrupt(self.id), due));
        let occasion = self.occasion().map(|due| (TimerId::Occasion(self.id), due));
        attempt.into_iter().chain(limit).chain(occasion)
    }
}

struct World {
    story: Story,
    now: Millis,
    hold: Option<HoldMode>,
    asked: Vec<Asked>,
    told: BTreeSet<(InterruptId, u32)>,
    /// The answers that were taken, by their nodes.
    taken: BTreeMap<usize, Value>,
}

impl World {
    fn begin(terms: [Terms; 3]) -> Self {
        let story = Story::of(&flow(&terms)).start();
        let ids: Vec<InterruptId> =
            story.run().interrupts().map(|open| open.requested.interrupt_id).collect();
        let asked = ids.into_iter().zip(terms).map(|(id, terms)| Asked {
            id,
            terms,
            shifted: 0,
            stands: None,
            attempt: 1,
            closed: None,
            answered: false,
        });
        let asked: Vec<Asked> = asked.collect();
        assert_eq!(asked.len(), 3, "every question is asked");
        let (told, taken) = (BTreeSet::new(), BTreeMap::new());
        let mut world = Self { story, now: BEGIN, hold: None, asked, told, taken };
        world.take_in();
        world.check();
        world
    }

    fn ask(&mut self, command: Command) -> Result<(), Rejection> {
        let elapsed = self.now - BEGIN;
        let lifts = matches!(command, Command::Release(_) | Command::Resume { .. });
        let before = self.story.journal().len();
        self.story = self.story.clone().at(elapsed).ask(command);
        if self.story.journal().len() == before {
            return Err(self.story.last_rejection().clone());
        }
        let started = |record: &&abide_core::Record| {
            ["node.started", "node.resumed", "node.completed"].contains(&type_name(record))
        };
        let started = self.story.journal()[before..].iter().filter(started).count();
        assert!(started == 0 || lifts || self.hold.is_none(), "something starts in a held run");
        self.take_in();
        Ok(())
    }

    fn take_in(&mut self) {
        for effect in self.story.step().effects.clone() {
            match effect {
                Effect::Notify(notify) => {
                    assert!(self.told.insert((notify.id, notify.attempt)), "people are told twice");
                    assert!(self.of(notify.id).stands.is_none(), "somebody is reminded of what stands still");
                }
                Effect::CloseInterrupt(closed) => {
                    let asked = self.of(closed.id);
                    assert_eq!(asked.closed.replace(closed.outcome), None, "closed twice");
                }
                _ => {}
            }
        }
        let run = self.story.run().clone();
        for asked in &mut self.asked {
            asked.attempt = run.interrupt(asked.id).map_or(asked.attempt, |open| open.attempt);
        }
    }

    fn of(&mut self, id: InterruptId) -> &mut Asked {
        self.asked.iter_mut().find(|asked| asked.id == id).expect("it was asked")
    }

    fn play(&mut self, step: &Move) {
        match step {
            Move::Pass(ms) => self.pass(*ms),
            Move::Down(ms) => self.now += ms,
            Move::Hear => self.hear(),
            Move::Hold(mode) => self.held(*mode),
            Move::Release => self.released(Command::Release(Released::default()), &Rejection::NotHeld),
            Move::Resume => {
                self.released(Command::Resume { reason: None, by: None }, &Rejection::NotPaused);
            }
            Move::Answer { which, sound } => self.answer(*which, *sound),
            Move::Cancel => {
                let ended = self.is_over();
                let done = self.ask(Command::Cancel(cancellation(None, None)));
                assert_eq!(done.is_ok(), !ended, "{done:?}");
            }
        }
        self.check();
    }

    fn is_over(&self) -> bool {
        self.story.run().lifecycle() != Lifecycle::Running
    }

    /// Hears each timer at its very time.
    fn pass(&mut self, ms: Millis) {
        let until = self.now + ms;
        self.hear();
        while let Some((timer, due)) = self.due_by(until).into_iter().min_by_key(|(_, due)| *due) {
            self.now = self.now.max(due);
            self.ask(Command::Fire(timer)).expect("a timer that is due is heard");
        }
        self.now = until;
    }

    /// Hears what is due, the last first.
    fn hear(&mut self) {
        while let Some((timer, _)) = self.due_by(self.now).into_iter().max_by_key(|(_, due)| *due) {
            self.ask(Command::Fire(timer)).expect("a timer that is due is heard");
        }
    }

    fn due_by(&self, time: Millis) -> Vec<(TimerId, Millis)> {
        let timers = self.story.run().timers().iter();
        timers.filter(|(_, due)| **due <= time).map(|(timer, due)| (timer.clone(), *due)).collect()
    }

    fn held(&mut self, mode: HoldMode) {
        let expected = !self.is_over() && self.hold != Some(mode);
        let done = self.ask(Command::Hold(Held { mode, reason: None, by: None }));
        assert_eq!(done.is_ok(), expected, "{done:?}");
        if expected {
            self.hold = Some(mode);
            self.stand(mode == HoldMode::Stop);
        }
    }

    fn released(&mut self, command: Command, otherwise: &Rejection) {
        let (over, held) = (self.is_over(), self.hold.is_some());
        let done = self.ask(command);
        assert_eq!(done.is_ok(), held && !over, "{done:?}");
        if !held && !over {
            assert_eq!(done.as_ref(), Err(otherwise));
        }
        if done.is_ok() {
            self.hold = None;
            self.stand(false);
        }
    }

    fn stand(&mut self, still: bool) {
        let now = self.story.run().head().at;
        for asked in self.asked.iter_mut().filter(|asked| asked.closed.is_none()) {
            match (still, asked.stands) {
                (true, None) => asked.stands = Some(now),
                (false, Some(since)) => {
                    asked.shifted += now - since;
                    asked.stands = None;
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, which: usize, sound: bool) {
        let asked = &self.asked[which];
        let late = asked.deadline().is_some_and(|end| end <= self.now.max(self.story.run().head().at));
        let expected = asked.closed.is_none() && !late && sound;
        let (id, value) = (asked.id, answer_to(which, sound));
        let by = Answerer::of("alice");
        let done = self.ask(Command::Resolve(Resolve { id, value: abide_core::Json::of(&value), by }));
        assert_eq!(done.is_ok(), expected, "{done:?}");
        if expected {
            self.asked[which].answered = true;
            self.taken.insert(which, value);
        }
    }

    /// What holds at any time.
    fn check(&self) {
        let run = self.story.run();
        let hold = match self.hold.filter(|_| !self.is_over()) {
            None => Hold::None,
            Some(HoldMode::Pause) => Hold::Paused,
            Some(HoldMode::Stop) => Hold::Stopped,
        };
        assert_eq!(run.hold(), hold);
        let mut armed = BTreeMap::new();
        for asked in &self.asked {
            let open = run.interrupt(asked.id);
            assert_eq!(open.is_some(), asked.closed.is_none(), "it is open until it is closed, once");
            if let Some(open) = open {
                assert_eq!(open.deadline(), asked.deadline());
                armed.extend(asked.timers());
            }
            let by_answer = asked.closed == Some(Resolution::Resolved);
            let happened = asked.terms.occasion.is_some();
            assert!(!asked.answered || by_answer, "an answer that was taken counts");
            assert!(!by_answer || asked.answered || happened, "nobody answered");
        }
        assert_eq!(run.timers(), &armed, "what is waited for is what comes next");
    }

    /// Everything comes to its end, and no answer is lost.
    fn finish(&mut self) {
        if self.hold.is_some() && !self.is_over() {
            self.play(&Move::Release);
        }
        self.play(&Move::Down(10_000_000));
        self.play(&Move::Hear);
        assert!(self.story.run().lifecycle().is_terminal(), "{:?}", self.story.run().why());
        let cancelled = self.story.run().lifecycle() == Lifecycle::Cancelled;
        for which in self.taken.keys().filter(|_| !cancelled) {
            let node = self.story.node(&format!("gate{which}"));
            assert_eq!(node.phase, NodePhase::Completed, "the answer of gate{which} is lost");
        }
    }
}

fn answer_to(which: usize, sound: bool) -> Value {
    match (which, sound) {
        (_, false) => json!(["no", "answer"]),
        (0, _) => json!({ "answers": { "answer": "yes" } }),
        (1, _) => json!({ "action": "accept" }),
        _ => json!({ "eventPayload": {} }),
    }
}

proptest! {
    // Each move folds and forks everything again, so a hundred cases are a minute's work.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn questions_end_once_and_their_times_stand_still_exactly_while_the_run_is_stopped(
        terms in terms(),
        moves in moves(),
    ) {
        let mut world = World::begin(terms);
        moves.iter().for_each(|step| world.play(step));
        world.finish();
    }
}
