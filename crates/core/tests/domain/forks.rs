//! What holds of the forks of any run: a replay comes out as it was recorded, and a branch is a run like any other.

use std::sync::Arc;

use abide_core::fork::{Fork, NewFork, Overlay, Source, Unforked};
use abide_core::{
    Answerer, Command, Effect, ForkMode, Graph, Head, Json, Key, Lifecycle, Millis, Payload, Product, Record,
    Report, Resolve, Run, RunId, Salt, Surroundings, diff,
};
use serde_json::json;

use super::{SALT, fire, key, payload_text, type_name};

/// Long after anything that was recorded.
pub(crate) const LATER: Millis = 4_000_000_000_000;

/// A run with its journal.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) key: Key,
    pub(crate) salt: Salt,
    pub(crate) graph: &'a Arc<Graph>,
    pub(crate) journal: &'a [Record],
}

impl Origin<'_> {
    fn fork(&self, mode: ForkMode, from_seq: u64, byte: u8) -> Result<NewFork, Unforked> {
        let fork = Fork {
            key: RunId::from_bytes([byte; 16]).of(self.key.tenant),
            salt: [byte; 16],
            graph: self.graph.clone(),
            mode,
            from_seq,
            overlay: Overlay::default(),
            by: Some("tester".to_owned()),
            trace: None,
            defaults: Arc::new(Surroundings::default()),
        };
        Run::fork(Source { key: self.key, salt: self.salt, journal: self.journal }, fork, LATER)
    }

    /// Replays it from some event on, and checks that nothing is other than it was, and that nobody hears of it.
    pub(crate) fn replay_from(&self, from_seq: u64) -> NewFork {
        let new = self.fork(ForkMode::Replay, from_seq, 0xee).expect("what was recorded can be replayed");
        let id = new.run.key().id;
        let compared = diff((self.key.id, self.journal), (id, &new.step.records)).expect("both can be read");
        assert_eq!(compared.differences, [], "a replay from {from_seq}");
        assert_eq!(new.diverged, 0);
        assert_eq!(new.step.records.len(), self.journal.len());
        assert_eq!(new.step.effects, []);
        assert_eq!((new.run.timers().len(), new.run.tasks().count(), new.run.offers().count()), (0, 0, 0));
        self.folds(&new);
        new
    }

    /// Branches it off before some event, and checks that it begins as it did.
    pub(crate) fn branch_from(&self, from_seq: u64) -> NewFork {
        let new = self.fork(ForkMode::Branch, from_seq, 0xbb).expect("what was recorded can be gone on from");
        let id = new.run.key().id;
        let kept = usize::try_from(new.copied).expect("it is in memory");
        assert!(new.copied >= from_seq, "{} of {from_seq} events were kept", new.copied);
        let compared = diff((self.key.id, &self.journal[..kept]), (id, &new.step.records[..kept]))
            .expect("both can be read");
        assert_eq!(compared.differences, [], "a branch from {from_seq}");
        self.folds(&new);
        let kept: Vec<_> =
            new.step.records.iter().map(|record| (record.type_code, record.node.clone())).collect();
        assert!(
            new.run.is_at_rest(),
            "a branch from {from_seq} goes on, or waits for something: {kept:?} {:?}",
            new.run.why()
        );
        let begins = new.step.effects.iter().find(|effect| begins_something(effect));
        if self.stood(new.copied).lifecycle() == Lifecycle::Cancelling {
            assert_eq!(begins, None, "a branch from {from_seq} is over");
        }
        assert_ne!(
            new.run.lifecycle(),
            Lifecycle::Cancelling,
            "a branch from {from_seq} waits for nobody to end"
        );
        drive(new.run.clone());
        new
    }

    /// The run as it stood before some event.
    fn stood(&self, next: u64) -> Run {
        let mut run = Run::empty(self.key, self.salt, self.graph.clone());
        for record in self.journal.iter().take(usize::try_from(next).expect("it is in memory")) {
            run.apply(record).expect("it was folded before");
        }
        run
    }

    /// What is written gives the same run when it is read back.
    fn folds(&self, new: &NewFork) {
        let mut read = Run::empty(new.run.key(), [new.run.key().id.as_bytes()[0]; 16], self.graph.clone());
        for record in &new.step.records {
            read.apply(record).expect("what was written folds");
        }
        assert_eq!(read.snapshot(), new.run.snapshot());
    }
}

/// Whether somebody outside hears of it, or does something.
fn begins_something(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Dispatch { .. }
            | Effect::Offer(_)
            | Effect::Spawn(_)
            | Effect::AwaitProvider(_)
            | Effect::Notify(_)
            | Effect::Hook(_)
            | Effect::OpenInterrupt(_)
    )
}

/// Commands that a branch is given before it is left alone.
const DRIVEN_MAX: usize = 60;

/// Has a run go on, whatever it waits for, as far as anybody can who knows nothing of it; and checks that something comes
/// of it each time.
pub(crate) fn drive(mut run: Run) -> Run {
    let mut now = LATER;
    for _ in 0..DRIVEN_MAX {
        let Some(command) = next_command(&run, &mut now) else { return run };
        // What it asks for may be something else than what it is given.
        if run.decide(command, now).is_err() {
            return run;
        }
        assert!(run.is_at_rest(), "it is stuck: {:?}", run.why());
    }
    run
}

/// What happens next in a run that people agree to and whose work does well; nothing more if it waits for other runs.
fn next_command(run: &Run, now: &mut Millis) -> Option<Command> {
    if run.lifecycle().is_terminal() {
        return None;
    }
    if let Some(open) = run.interrupts().next() {
        let (id, by) = (open.requested.interrupt_id, Answerer::of("ada"));
        return Some(Command::Resolve(Resolve { id, value: Json::of(&json!({ "action": "accept" })), by }));
    }
    if let Some(task) = run.tasks().next() {
        return Some(Command::Report(Report { task, outcome: Ok(Product::of(None)) }));
    }
    let (timer, due) = run.timers().iter().min_by_key(|(_, due)| **due)?;
    *now = (*now).max(*due);
    Some(fire(timer.clone()))
}

/// A journal in which an event says something else, chained as if it had been so from the start.
pub(crate) fn forged(journal: &[Record], name: &str, from: &str, to: &str) -> Vec<Record> {
    let mut head = Head::new(key());
    let mut before = head.chain;
    let mut forged = Vec::new();
    for record in journal {
        let mut record = record.clone();
        if type_name(&record) == name && payload_text(&record).contains(from) {
            let text = payload_text(&record).replace(from, to);
            record.payload = Payload::Present(text.into_bytes().into());
        }
        record.chain = record.link(&before, Some(&SALT)).expect("its salt is known");
        before = record.chain;
        head.accept(&record, Some(&SALT)).expect("it follows");
        forged.push(record);
    }
    forged
}
