//! Random people: they answer, answer twice, answer nonsense, come late, cancel, and the process dies in between.
//! Whatever they do, each question is asked once and ends once, and what was acknowledged is what the node got.

#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use abide_core::{
    Answerer, Cancellation, Command, Effect, Event, Graph, InterruptId, Json, Lifecycle, Millis, NodeEvent,
    Payload, Record, Rejection, Resolve, Run, RunId, Salt, Start, Step, TenantId, TimerId,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use workflow::{Workflow, delay, identity, noop, of_kind, workflow};

const BEGIN: Millis = 1_700_000_000_000;
const SALT: Salt = [3; 16];

/// What happens next.
#[derive(Clone, Debug)]
enum Move {
    /// Somebody answers the n-th interrupt that was ever asked for.
    Answer {
        which: usize,
        accept: bool,
        sound: bool,
    },
    /// Time goes by, and what is due is heard.
    Wait(Millis),
    /// A timer is heard that was due or not, or was heard before.
    Hear(usize),
    Cancel,
    /// The process dies; the run is read again from its journal, or from its snapshot.
    Crash {
        snapshot: bool,
    },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => (0..8usize, any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(which, accept, sound)| Move::Answer { which, accept, sound }),
        3 => (0..4_000i64).prop_map(Move::Wait),
        2 => (0..6usize).prop_map(Move::Hear),
        1 => Just(Move::Cancel),
        3 => any::<bool>().prop_map(|snapshot| Move::Crash { snapshot }),
    ];
    prop::collection::vec(one, 1..30)
}

/// Gates beside each other, after each other, in a loop, under one key, several at one node, with and without limits.
fn plan() -> Workflow {
    let gate = |id: &str| of_kind(id, "core.approvalGate").config("title", json!(id));
    let custom = |id: &str, key: &str| {
        of_kind(id, "core.interrupt")
            .config("kind", json!("custom"))
            .config("key", json!(key))
            .config("data", json!({ "customKind": "c" }))
    };
    let several = json!([
        { "kind": "custom", "data": { "customKind": "a" }, "timeoutMs": 9_000 },
        { "kind": "custom", "data": { "customKind": "b" } },
    ]);
    workflow([
        identity("draft"),
        gate("review").config("timeoutMs", json!(20_000)),
        noop("done"),
        custom("first", "shared"),
        custom("second", "shared"),
        delay("sleep", 2_000),
        of_kind("several", "core.interrupt").config("interrupts", several),
        noop("mend"),
    ])
    .flow("draft > review")
    .flow("review > draft")
    .when("output.action == 'reject'")
    .flow("review > done")
    .when("output.action == 'accept'")
    .flow("first > second")
    .flow("sleep > several")
    .under("any_failed", "several > mend")
    .settings("maxLoopbackIterations", json!(3))
    .settings("timeout", json!(15_000))
}

/// A run with everything that was ever seen of it.
struct World {
    graph: Arc<Graph>,
    run: Run,
    now: Millis,
    journal: Vec<Record>,
    timers: BTreeMap<TimerId, Millis>,
    heard: Vec<TimerId>,
    open: BTreeSet<InterruptId>,
    asked: Vec<InterruptId>,
    /// What was acknowledged.
    taken: BTreeMap<InterruptId, Value>,
}

impl World {
    fn begin() -> Self {
        let graph = plan().graph();
        let key = RunId::from_bytes([5; 16]).of(TenantId(1));
        let (run, step) = Run::start(Start::of(key, SALT, graph.clone()), BEGIN).expect("the plan is sound");
        let mut world = Self {
            graph,
            run,
            now: BEGIN,
            journal: Vec::new(),
            timers: BTreeMap::new(),
            heard: Vec::new(),
            open: BTreeSet::new(),
            asked: Vec::new(),
            taken: BTreeMap::new(),
        };
        world.take_in(step);
        world
    }

    fn take_in(&mut self, step: Step) {
        for effect in step.effects {
            match effect {
                Effect::ArmTimer { timer, due } => assert_eq!(self.timers.insert(timer, due), None),
                Effect::DropTimer { timer, due } => assert_eq!(self.timers.remove(&timer), Some(due)),
                Effect::OpenInterrupt(open) => {
                    assert!(self.open.insert(open.id) && !self.asked.contains(&open.id), "asked twice");
                    self.asked.push(open.id);
                }
                Effect::CloseInterrupt(closed) => assert!(self.open.remove(&closed.id), "closed twice"),
                other => panic!("nothing else is to be done here: {other:?}"),
            }
        }
        self.journal.extend(step.records);
    }

    fn ask(&mut self, command: Command) -> Result<(), Rejection> {
        let before = self.run.snapshot();
        match self.run.decide(command, self.now) {
            Ok(step) => self.take_in(step),
            Err(rejection) => {
                assert_eq!(self.run.snapshot(), before, "a refused command left a trace");
                return Err(rejection);
            }
        }
        Ok(())
    }

    fn play(&mut self, step: &Move) {
        match step {
            Move::Answer { which, accept, sound } => self.answer(*which, *accept, *sound),
            Move::Wait(ms) => {
                self.now += ms;
                while let Some(timer) = self.due() {
                    self.heard.push(timer.clone());
                    self.ask(Command::Fire(timer)).expect("what is due is taken");
                }
            }
            Move::Hear(which) => {
                let known: Vec<TimerId> =
                    self.timers.keys().cloned().chain(self.heard.iter().cloned()).collect();
                if let Some(timer) = known.get(which % known.len().max(1)) {
                    let due = self.timers.get(timer).is_some_and(|due| *due <= self.now);
                    assert_eq!(
                        self.ask(Command::Fire(timer.clone())).is_ok(),
                        due,
                        "never early, never twice"
                    );
                }
            }
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
            Move::Crash { snapshot } => self.crash(*snapshot),
        }
        self.check();
    }

    fn due(&self) -> Option<TimerId> {
        self.timers
            .iter()
            .filter(|(_, due)| **due <= self.now)
            .min_by_key(|(_, due)| **due)
            .map(|(timer, _)| timer.clone())
    }

    fn answer(&mut self, which: usize, accept: bool, sound: bool) {
        let Some(&id) = self.asked.get(which % self.asked.len().max(1)) else { return };
        let action = if accept { "accept" } else { "reject" };
        let approval = self.run.interrupt(id).is_some_and(|open| open.requested.kind.name() == "approval");
        let value = match (approval, sound) {
            (true, true) => json!({ "action": action }),
            (true, false) => json!({ "action": "perhaps" }),
            (false, _) => json!({ "said": self.journal.len() }),
        };
        let open = self.open.contains(&id);
        let late =
            self.run.interrupt(id).and_then(abide_core::Open::deadline).is_some_and(|at| at <= self.now);
        let by = Answerer::of("alice");
        let answered = self.ask(Command::Resolve(Resolve { id, value: Json::of(&value), by }));
        let expected = open && !late && (sound || !approval);
        assert_eq!(answered.is_ok(), expected, "{answered:?}");
        if expected {
            assert!(self.taken.insert(id, value).is_none(), "acknowledged twice");
        }
    }

    fn crash(&mut self, snapshot: bool) {
        let key = self.run.key();
        let mut again = Run::empty(key, SALT, self.graph.clone());
        for record in &self.journal {
            again.apply(record).expect("the journal folds");
        }
        assert_eq!(again.snapshot(), self.run.snapshot());
        self.run = match snapshot {
            true => Run::from_snapshot(key, SALT, self.graph.clone(), &again.snapshot()).expect("it is ours"),
            false => again,
        };
    }

    /// What holds at any time.
    fn check(&self) {
        let (mut keys, mut ended, mut values) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        for record in &self.journal {
            let Ok(Event::Node { event, .. }) = record.event() else { continue };
            match event {
                NodeEvent::InterruptRequested(asked) => {
                    assert!(keys.insert(asked.key.clone()), "'{}' is asked twice", asked.key);
                }
                NodeEvent::InterruptResolved(resolved) => {
                    assert!(ended.insert(resolved.interrupt_id), "it ends twice");
                    values.insert(resolved.interrupt_id, resolved.resume_value);
                }
                NodeEvent::ApprovalReceived(received) => assert!(!received.decided_by.is_empty()),
                _ => {}
            }
        }
        for (id, given) in &self.taken {
            let kept = values.get(id).cloned().flatten().expect("an acknowledged answer is in the journal");
            let kept: Value = kept.parse().expect("it is JSON");
            let same = kept == *given || kept["action"] == given["action"] && given.get("action").is_some();
            assert!(same, "{kept} is not {given}");
        }
        let open: BTreeSet<InterruptId> =
            self.asked.iter().copied().filter(|id| !ended.contains(id)).collect();
        assert_eq!(open, self.open);
        assert_eq!(self.run.timers(), &self.timers);
        if self.run.lifecycle().is_terminal() {
            assert!(self.open.is_empty() && self.timers.is_empty(), "an ended run leaves nothing behind");
            let ends = self.journal.iter().filter(|record| is_end(record)).count();
            assert!(ends == 1 && is_end(self.journal.last().expect("it began")), "it ends once, and last");
        }
        assert!(self.journal.iter().all(|record| matches!(record.payload, Payload::Present(_))));
    }
}

fn is_end(record: &Record) -> bool {
    let name = abide_core::EventType::by_code(record.type_code).expect("it is declared").name;
    ["run.completed", "run.failed", "run.cancelled"].contains(&name)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_question_is_asked_once_and_ends_once(moves in moves()) {
        let mut world = World::begin();
        for step in &moves {
            world.play(step);
        }
        // Whatever happened, nothing hangs: time and one answer to each question end the run.
        for _ in 0..200 {
            if world.run.lifecycle().is_terminal() {
                break;
            }
            let open = world.open.first().and_then(|id| world.asked.iter().position(|asked| asked == id));
            match open {
                Some(which) => world.play(&Move::Answer { which, accept: true, sound: true }),
                None => world.play(&Move::Wait(1_000)),
            }
            world.play(&Move::Wait(1));
        }
        prop_assert!(world.run.lifecycle() != Lifecycle::Running, "{:?}", world.run.why());
    }
}
