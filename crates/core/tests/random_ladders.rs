//! Random ladders at three levels, random people, random clocks and crashes, held against a schedule that is worked
//! out here from the protocol's text: never early, never twice, never lost, never after an answer.

#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

#[path = "ladders/oracle.rs"]
mod oracle;

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::event::{InterruptRenotified, Resolution};
use abide_core::{
    Answerer, Cancellation, Command, Effect, Event, Graph, HumanRetryPolicy, InterruptId, Json, Key,
    Lifecycle, Millis, NodeEvent, Notify, Record, Rejection, Resolve, Run, RunId, Salt, Start, Step,
    Surroundings, TenantId, TimerId,
};
use oracle::{Case, End, Schedule};
use proptest::prelude::*;
use serde_json::{Value, json};
use workflow::{Sketch, Workflow, noop, of_kind, workflow};

const BEGIN: Millis = 1_700_000_000_000;
const SALT: Salt = [4; 16];

/// What happens next.
#[derive(Clone, Debug)]
enum Move {
    /// Time goes by, and each timer is heard at its time or a little later.
    Run(Millis),
    /// Time goes by while no server runs; what fell due is heard in this order of the timers.
    Down {
        ms: Millis,
        backwards: bool,
        snapshot: bool,
    },
    /// It is so long after the next instant of a question, or before it, and nothing was heard meanwhile.
    Reach {
        which: usize,
        off: Millis,
    },
    /// Somebody answers one of the questions.
    Answer {
        which: usize,
        sound: bool,
    },
    /// A timer is heard that may not be due, or was heard before.
    Hear(usize),
    /// Somebody may not be told.
    Refuse {
        which: usize,
        attempt: u32,
    },
    /// The process dies; the run is read again from its journal, or from a snapshot of it.
    Crash {
        snapshot: bool,
    },
    /// The clock is set back.
    Back(Millis),
    Cancel,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        8 => (0..25_000i64).prop_map(Move::Run),
        4 => (0..60_000i64, any::<bool>(), any::<bool>())
            .prop_map(|(ms, backwards, snapshot)| Move::Down { ms, backwards, snapshot }),
        4 => (0..2usize, -1..2i64).prop_map(|(which, off)| Move::Reach { which, off }),
        2 => (0..2usize, prop::bool::weighted(0.7)).prop_map(|(which, sound)| Move::Answer { which, sound }),
        3 => (0..8usize).prop_map(Move::Hear),
        1 => (0..2usize, 0..5u32).prop_map(|(which, attempt)| Move::Refuse { which, attempt }),
        3 => any::<bool>().prop_map(|snapshot| Move::Crash { snapshot }),
        1 => (0..30_000i64).prop_map(Move::Back),
    ];
    // Few runs are cancelled, or all would be.
    let cancels = prop::option::weighted(0.1, 0..12usize);
    (prop::collection::vec(one, 1..14), cancels).prop_map(|(mut moves, cancels)| {
        if let Some(at) = cancels {
            moves.insert(at.min(moves.len()), Move::Cancel);
        }
        moves
    })
}

/// Two questions beside each other. Whatever becomes of them, the run goes on to its end.
fn flow(case: &Case) -> Workflow {
    let gates = case.gates.iter().enumerate().map(|(ix, gate)| gate.sketch(ix));
    let mends = (0..case.gates.len()).map(|ix| noop(&format!("mend{ix}")));
    let flow = workflow(gates.chain(mends).collect::<Vec<Sketch>>());
    (0..case.gates.len()).fold(flow, |flow, ix| flow.under("any_failed", &format!("gate{ix} > mend{ix}")))
}

/// A question as somebody outside sees it.
#[derive(Debug)]
struct Asked {
    id: InterruptId,
    schedule: Schedule,
    closed: Option<Resolution>,
    /// Somebody's answer was taken.
    answered: bool,
    /// Attempts as they were recorded.
    made: Vec<(Millis, InterruptRenotified)>,
    /// Attempts that people were told of.
    told: Vec<u32>,
    escalated: Vec<u32>,
    expired: Vec<Millis>,
    /// The last attempt of which a refusal was recorded.
    refused: Option<u32>,
}

/// A run with everything that was ever seen of it.
struct World {
    graph: Arc<Graph>,
    defaults: Arc<Surroundings>,
    run: Run,
    now: Millis,
    journal: Vec<Record>,
    timers: BTreeMap<TimerId, Millis>,
    heard: Vec<TimerId>,
    asked: Vec<Asked>,
}

fn key() -> Key {
    RunId::from_bytes([6; 16]).of(TenantId(1))
}

impl World {
    /// The run at its beginning. Its questions are asked, if the oracle says that they may be.
    fn begin(case: &Case, graph: Arc<Graph>) -> Option<Self> {
        let defaults = Arc::new(case.defaults());
        let mut start = Start::of(key(), SALT, graph.clone());
        start.defaults = defaults.clone();
        let (run, step) = Run::start(start, BEGIN).expect("the plan is sound");
        let schedules: Result<Vec<Schedule>, &str> =
            case.gates.iter().map(|gate| case.schedule(gate, BEGIN)).collect();
        let Ok(schedules) = schedules else {
            let failed = run.nodes().iter().filter_map(|node| node.error.as_ref());
            assert!(failed.clone().count() > 0, "the oracle refuses {case:?}");
            assert!(failed.into_iter().all(|error| error.code == "invalid_ladder"), "{:?}", run.why());
            return None;
        };
        let ids: Vec<InterruptId> = run.interrupts().map(|open| open.requested.interrupt_id).collect();
        assert_eq!(ids.len(), schedules.len(), "every question is asked: {case:?}");
        let asked = ids.into_iter().zip(schedules).map(|(id, schedule)| Asked {
            id,
            schedule,
            closed: None,
            answered: false,
            made: Vec::new(),
            told: Vec::new(),
            escalated: Vec::new(),
            expired: Vec::new(),
            refused: None,
        });
        let mut world = Self {
            graph,
            defaults,
            run,
            now: BEGIN,
            journal: Vec::new(),
            timers: BTreeMap::new(),
            heard: Vec::new(),
            asked: asked.collect(),
        };
        world.take_in(step);
        world.check();
        Some(world)
    }

    fn take_in(&mut self, step: Step) {
        for record in &step.records {
            assert!(record.at <= self.now.max(step.base.at), "nothing happens in the future");
            self.note(record);
        }
        for effect in step.effects {
            match effect {
                Effect::ArmTimer { timer, due } => assert_eq!(self.timers.insert(timer, due), None),
                Effect::DropTimer { timer, due } => assert_eq!(self.timers.remove(&timer), Some(due)),
                Effect::Notify(Notify { id, attempt, at }) => {
                    assert_eq!(at, step.records[0].at, "people are told of it when it happens");
                    self.of(id).told.push(attempt);
                }
                Effect::CloseInterrupt(closed) => {
                    let asked = self.of(closed.id);
                    assert_eq!(asked.closed.replace(closed.outcome), None, "closed twice");
                    assert_eq!(closed.told, asked.schedule.tells, "whether anybody may have been told");
                }
                Effect::OpenInterrupt(_) => {}
                other => panic!("nothing else is to be done here: {other:?}"),
            }
        }
        self.journal.extend(step.records);
    }

    fn note(&mut self, record: &Record) {
        let Ok(Event::Node { event, .. }) = record.event() else { return };
        match event {
            NodeEvent::InterruptRenotified(again) => {
                let asked = self.of(again.interrupt_id);
                assert!(
                    asked.closed.is_none() && asked.expired.is_empty(),
                    "nobody is reminded after the end"
                );
                asked.made.push((record.at, again));
            }
            NodeEvent::InterruptEscalated(up) => self.of(up.interrupt_id).escalated.push(up.attempt),
            NodeEvent::InterruptExpired(end) => self.of(end.interrupt_id).expired.push(record.at),
            NodeEvent::NoticeRefused(refused) => {
                self.of(refused.interrupt_id).refused = Some(refused.attempt);
            }
            _ => {}
        }
    }

    fn of(&mut self, id: InterruptId) -> &mut Asked {
        self.asked.iter_mut().find(|asked| asked.id == id).expect("it was asked")
    }

    fn ask(&mut self, command: Command) -> Result<(), Rejection> {
        let before = self.run.snapshot();
        match self.run.decide_under(command, self.now, &self.defaults) {
            Ok(step) => self.take_in(step),
            Err(rejection) => {
                assert_eq!(self.run.snapshot(), before, "a refused command left a trace");
                return Err(rejection);
            }
        }
        Ok(())
    }

    /// Command time never runs back.
    fn time(&self) -> Millis {
        self.now.max(self.journal.last().map_or(BEGIN, |record| record.at))
    }

    fn play(&mut self, step: &Move) {
        match *step {
            Move::Run(ms) => {
                let until = self.now + ms;
                while let Some((timer, due)) = self.next_timer().filter(|(_, due)| *due <= until) {
                    self.now = self.now.max(due);
                    self.fire(timer);
                    self.check();
                }
                self.now = until;
            }
            Move::Down { ms, backwards, snapshot } => {
                self.now += ms;
                self.crash(snapshot);
                self.catch_up(backwards);
            }
            Move::Reach { which, off } => {
                let asked = &self.asked[which % self.asked.len()];
                let next = asked.timers().into_iter().map(|(_, due)| due).chain(asked.schedule.deadline);
                if let Some(next) = next.filter(|due| *due >= self.now).min() {
                    self.now = next + off;
                }
            }
            Move::Answer { which, sound } => self.answer(which, sound),
            Move::Hear(which) => {
                let known: Vec<TimerId> =
                    self.timers.keys().cloned().chain(self.heard.iter().cloned()).collect();
                if let Some(timer) = known.get(which % known.len().max(1)) {
                    let due = self.timers.get(timer).is_some_and(|due| *due <= self.time());
                    let heard = self.ask(Command::Fire(timer.clone()));
                    assert_eq!(heard.is_ok(), due, "never early, never twice: {timer} {heard:?}");
                }
            }
            Move::Refuse { which, attempt } => self.refuse(which, attempt),
            Move::Crash { snapshot } => self.crash(snapshot),
            Move::Back(ms) => self.now -= ms,
            Move::Cancel => {
                let asked = Cancellation {
                    reason: None,
                    cancelled_by: None,
                    parent_run_id: None,
                    abandonment_reason: None,
                };
                let ended = self.run.lifecycle().is_terminal();
                assert_eq!(self.ask(Command::Cancel(asked)).is_err(), ended);
            }
        }
        self.check();
    }

    fn next_timer(&self) -> Option<(TimerId, Millis)> {
        let next = self.timers.iter().min_by_key(|(_, due)| **due);
        next.map(|(timer, due)| (timer.clone(), *due))
    }

    fn fire(&mut self, timer: TimerId) {
        self.heard.push(timer.clone());
        assert!(self.heard.len() < 100, "there are not so many instants: a timer is heard again and again");
        self.ask(Command::Fire(timer)).expect("what is due is taken");
    }

    /// Everything that fell due is heard, and after that nothing is.
    fn catch_up(&mut self, backwards: bool) {
        loop {
            let mut due: Vec<(Millis, TimerId)> =
                self.timers.iter().map(|(timer, due)| (*due, timer.clone())).collect();
            due.retain(|(due, _)| *due <= self.time());
            due.sort();
            let next = if backwards { due.pop() } else { due.into_iter().next() };
            let Some((_, timer)) = next else { break };
            self.fire(timer);
        }
        let time = self.time();
        for asked in self.asked.iter().filter(|asked| asked.closed.is_none()) {
            assert_eq!(asked.made.len(), asked.schedule.due_by(time) - 1, "no attempt is lost: {asked:?}");
            assert!(asked.schedule.end.is_none_or(|end| time < end.at()), "no end is lost: {asked:?}");
        }
    }

    fn answer(&mut self, which: usize, sound: bool) {
        let time = self.time();
        let asked = &self.asked[which % self.asked.len()];
        let (id, open) = (asked.id, asked.closed.is_none());
        let late = asked.schedule.deadline.is_some_and(|deadline| deadline <= time);
        let answer = asked.schedule.answer(sound);
        let by = Answerer::of("alice");
        let answered = self.ask(Command::Resolve(Resolve { id, value: Json::of(&answer), by }));
        assert_eq!(answered.is_ok(), open && !late && sound, "{answered:?}");
        if open && late {
            assert_eq!(answered, Err(Rejection::AlreadyResolved));
        }
        self.of(id).answered |= answered.is_ok();
        self.check();
    }

    fn refuse(&mut self, which: usize, attempt: u32) {
        let asked = &self.asked[which % self.asked.len()];
        let made = (1..=asked.made.len() as u32 + 1).contains(&attempt) && asked.schedule.tells;
        let expected = asked.closed.is_none() && made && asked.refused.is_none_or(|last| last < attempt);
        let (notify_to, reason) = ("eve".to_owned(), "no".to_owned());
        let refused = self.ask(Command::RefuseNotice { id: asked.id, attempt, notify_to, reason });
        assert_eq!(refused.is_ok(), expected, "{refused:?}");
    }

    fn crash(&mut self, snapshot: bool) {
        let mut again = Run::empty(key(), SALT, self.graph.clone());
        for record in &self.journal {
            again.apply(record).expect("the journal folds");
        }
        assert_eq!(again.snapshot(), self.run.snapshot(), "what is folded is what was lived");
        self.run = match snapshot {
            true => {
                Run::from_snapshot(key(), SALT, self.graph.clone(), &again.snapshot()).expect("it is ours")
            }
            false => again,
        };
    }

    /// What holds at any time.
    fn check(&self) {
        let mut armed = BTreeMap::new();
        for asked in &self.asked {
            asked.check(&self.run);
            if asked.closed.is_none() && !self.run.lifecycle().is_terminal() {
                armed.extend(asked.timers());
            }
        }
        assert_eq!(self.timers, armed, "what is waited for is what comes next");
        assert_eq!(self.run.timers(), &self.timers);
        if self.run.lifecycle().is_terminal() {
            assert!(self.asked.iter().all(|asked| asked.closed.is_some()), "nothing is left open");
        }
    }
}

impl Asked {
    fn check(&self, run: &Run) {
        let (schedule, made) = (&self.schedule, self.made.len() as u32);
        let mut told: Vec<u32> = schedule.tells.then_some(1).into_iter().collect();
        for (ix, (at, again)) in self.made.iter().enumerate() {
            let attempt = ix as u32 + 2;
            assert_eq!(again.attempt, attempt, "one after the other");
            let due = schedule.instant(attempt).expect("there is such an attempt");
            assert!(*at >= due, "attempt {attempt} is early");
            let following = schedule.instant(attempt + 1).or(schedule.end.map(End::at));
            let superseded = following.is_some_and(|due| due <= *at);
            assert_eq!(again.superseded, superseded, "attempt {attempt} at {at}, then {following:?}");
            assert_eq!(again.next_attempt_at, schedule.instant(attempt + 1));
            assert_eq!(again.max_attempts, schedule.max_attempts);
            let (channel, to) = schedule.target(attempt);
            assert_eq!((again.channel_hint.as_deref(), again.notify_to.as_deref()), (channel, to));
            told.extend((!superseded).then_some(attempt));
        }
        assert_eq!(self.told, told, "people are told of what is not superseded");
        let rungs: Vec<u32> = (1..=made + 1).filter(|attempt| schedule.rungs.contains_key(attempt)).collect();
        assert_eq!(self.escalated, rungs);
        let open = run.interrupt(self.id);
        assert_eq!(open.is_some(), self.closed.is_none());
        if let Some(open) = open {
            assert_eq!((open.attempt, open.deadline()), (made + 1, schedule.deadline));
            assert_eq!(open.next_attempt_at(), schedule.instant(made + 2));
        }
        let expiry = matches!((self.closed, schedule.end), (Some(Resolution::Expired), Some(End::Expiry(_))));
        assert_eq!(self.expired.len(), usize::from(expiry), "it expires once, if it does");
        let end = schedule.end;
        assert!(self.closed != Some(Resolution::Rejected) || matches!(end, Some(End::Timeout(_))));
        assert!(
            !self.answered || self.closed == Some(Resolution::Resolved),
            "an answer that was taken counts"
        );
        match (self.closed, end) {
            (Some(Resolution::Resolved), end) => {
                assert!(self.answered || matches!(end, Some(End::Occasion(_))), "nobody answered");
            }
            (Some(Resolution::Expired), Some(End::Expiry(due))) => {
                assert!(self.expired[0] >= due, "it expires early");
                assert_eq!(made + 1, schedule.max_attempts, "after all attempts");
            }
            (Some(Resolution::Timeout | Resolution::Expired), end) => {
                let given_up =
                    matches!(end, Some(End::Timeout(_))) && self.closed == Some(Resolution::Timeout);
                assert!(given_up, "{:?} is no end by {end:?}", self.closed);
            }
            _ => {}
        }
    }

    /// What it waits for.
    fn timers(&self) -> Vec<(TimerId, Millis)> {
        let expiry = match self.schedule.end {
            Some(End::Expiry(due)) => Some(due),
            _ => None,
        };
        let next = self.schedule.instant(self.made.len() as u32 + 2).or(expiry);
        let attempt = next.map(|due| (TimerId::Attempt(self.id), due));
        let limit = self.schedule.limit.map(|due| (TimerId::Interrupt(self.id), due));
        let occasion = self.schedule.occasion.map(|due| (TimerId::Occasion(self.id), due));
        attempt.into_iter().chain(limit).chain(occasion).collect()
    }
}

/// What the value of an expired question was.
fn resumed(world: &World, id: InterruptId) -> Option<Value> {
    let values = world.journal.iter().filter_map(|record| match record.event() {
        Ok(Event::Node { event: NodeEvent::InterruptResolved(resolved), .. }) => Some(resolved),
        _ => None,
    });
    let found = values.into_iter().find(|resolved| resolved.interrupt_id == id)?;
    let mut value: Value = found.resume_value?.parse().expect("it is JSON");
    if let Some(decision) = value.as_object_mut() {
        // Who decided, and when, is added to a decision.
        decision.retain(|key, _| !key.starts_with("decided"));
    }
    Some(value)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn attempts_follow_the_schedule_whatever_happens(case in oracle::cases(), moves in moves()) {
        let admitted = Graph::admit(flow(&case).text().as_bytes());
        let sound = case.gates.iter().all(|gate| gate.is_sound().is_ok());
        prop_assert_eq!(admitted.is_ok(), sound, "{:?}", admitted.err());
        let Ok(graph) = Graph::admit(flow(&case).text().as_bytes()) else { return Ok(()) };
        let Some(mut world) = World::begin(&case, Arc::new(graph)) else { return Ok(()) };
        for step in &moves {
            world.play(step);
        }
        // In the end everything that has an end has come to it, and the rest waits for an answer.
        world.play(&Move::Down { ms: 10_000_000, backwards: true, snapshot: false });
        for which in 0..world.asked.len() {
            let asked = &world.asked[which];
            if asked.closed.is_none() {
                prop_assert!(asked.schedule.end.is_none());
                world.play(&Move::Answer { which, sound: true });
            } else if asked.closed == Some(Resolution::Expired) {
                prop_assert_eq!(resumed(&world, asked.id), asked.schedule.fallback.clone());
            }
        }
        prop_assert!(world.run.lifecycle() != Lifecycle::Running, "{:?}", world.run.why());
        prop_assert!(world.timers.is_empty());
    }
}
