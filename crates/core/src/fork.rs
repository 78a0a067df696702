//! Forks: a new run that begins with the journal of another one.
//!
//! A **branch** keeps what was recorded before some event and goes on from there by itself. A **replay** decides again
//! what follows from what was recorded: what came from outside is taken from the journal, everything else is worked out
//! anew and held against it. Nothing outside hears of a replay.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Fork`] | here | what is asked for |
//! | `Transcript` | `fork/transcript.rs` | another run's events, in this run's names and at its times |
//! | boundary | `fork/boundary.rs` | where a journal may be cut |
//! | `net` | `fork/net.rs` | what is left to be done of all that the events before the cut brought about |
//! | `Replay` | `fork/replay.rs` | deciding again, beside what was recorded |
//! | [`Recorded`] | `fork/recorded.rs` | what the surroundings said then |
//! | `Places` | `fork/place.rs` | which events of two journals stand for the same thing |

mod boundary;
mod names;
mod net;
mod place;
mod recorded;
mod replay;
mod transcript;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::command::{Draft, start};
use crate::event::{Cancellation, Event, Failure, ForkMode, Forked, RunEvent, Started};
use crate::run::Ending;
use crate::work::Memo;
use crate::{
    Corrupt, Graph, Json, JsonMap, Key, Millis, NodeIx, NodePhase, Payload, Record, Rejection, Run, RunId,
    Salt, Start, Step, Surroundings, Trace, limits,
};

pub(crate) use names::Names;
pub(crate) use place::{Place, Places};
pub use recorded::Recorded;
use replay::Replay;
use transcript::Transcript;

/// What a fork is made of.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The new run's key; its id is drawn by the shell.
    pub key: Key,
    /// The new run's secret, drawn by the shell.
    pub salt: Salt,
    /// The definition that the other run follows.
    pub graph: Arc<Graph>,
    /// What it is for.
    pub mode: ForkMode,
    /// The event of the other run before which the two are the same.
    pub from_seq: u64,
    /// What is other about a branch.
    pub overlay: Overlay,
    /// Who asks for it.
    pub by: Option<String>,
    /// The trace that a branch belongs to.
    pub trace: Option<Trace>,
    /// What a branch finds around it.
    pub defaults: Arc<Surroundings>,
}

/// Options of a run that take the place of those of the run that it is forked off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Options, one by one.
    pub configurable: Option<JsonMap>,
    /// Labels, all of them.
    pub tags: Option<Vec<String>>,
    /// The caller's own data, one by one.
    pub metadata: Option<JsonMap>,
}

impl Overlay {
    /// Whether nothing is other.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A run and its journal, to be forked.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Which run.
    pub key: Key,
    /// Its secret.
    pub salt: Salt,
    /// All its events.
    pub journal: &'a [Record],
}

/// Why there is no fork.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unforked {
    /// The journal has no such event.
    #[error("'fromSeq' is {asked}, and the run has {events} events; use a number from 0 to {events}")]
    Beyond {
        /// What was asked for.
        asked: u64,
        /// How many events there are.
        events: u64,
    },
    /// What would have to be copied is gone.
    #[error("the payloads of the run were erased, so it can't be forked")]
    Erased,
    /// It is too much for one commit.
    #[error(
        "the run has more than {} events or {} bytes, which is as much as can be forked or compared",
        limits::FORK_EVENTS_MAX,
        limits::FORK_BYTES_MAX
    )]
    TooLarge,
    /// The options are not what the workflow takes.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The journal can't be read.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// A fork, and how it came about.
#[derive(Debug)]
pub struct NewFork {
    /// The run as it stands.
    pub run: Run,
    /// Everything that is to be written, in one commit.
    pub step: Step,
    /// How many events were taken from the other run as they were.
    pub copied: u64,
    /// How many executions of nodes were worked out anew.
    pub executed: u64,
    /// How many differences were found.
    pub diverged: u64,
}

/// An event of the other run.
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) at: Millis,
    pub(crate) cause: Option<u64>,
}

/// The events of a fork so far, and what they bring about.
pub(crate) struct Log {
    pub(crate) step: Step,
    bytes: usize,
}

impl Log {
    fn new(run: &Run) -> Self {
        Self { step: Step { base: run.head, records: Vec::new(), effects: Vec::new() }, bytes: 0 }
    }

    pub(crate) fn take(&mut self, draft: Draft) -> Result<(), Unforked> {
        self.bytes += draft.bytes;
        self.step.records.extend(draft.step.records);
        self.step.effects.extend(draft.step.effects);
        let full = self.step.records.len() > limits::FORK_EVENTS_MAX || self.bytes > limits::FORK_BYTES_MAX;
        if full { Err(Unforked::TooLarge) } else { Ok(()) }
    }
}

impl Run {
    /// Forks a run at `now`: everything that the new one begins with, to be written at once.
    #[expect(clippy::needless_pass_by_value, reason = "what a fork is made of is used up by making it")]
    pub fn fork(source: Source<'_>, fork: Fork, now: Millis) -> Result<NewFork, Unforked> {
        let told = read(source, fork.from_seq)?;
        let cut = Cut::find(source, &fork, &told)?;
        let moved_ms = match (fork.mode, cut.history.checked_sub(1)) {
            (ForkMode::Branch, Some(last)) => now.saturating_sub(told[last].at).max(0),
            _ => 0,
        };
        let forked = Forked {
            run: source.key.id,
            replays: cut.end.replayed_run(),
            from_seq: fork.from_seq,
            mode: fork.mode,
            history: cut.history as u64,
            moved_ms,
            depth: cut.end.depth(),
            by: fork.by.clone(),
            starters: cut.end.starters(),
        };
        let started = begin(&fork, &told[0].event, forked)?;
        let mut run = Self::empty(fork.key, fork.salt, fork.graph.clone());
        let mut log = Log::new(&run);
        let mut transcript =
            Transcript::new(source.key.id, &run, &cut, moved_ms, fork.mode == ForkMode::Replay);
        for (at, event) in told[..cut.history].iter().enumerate() {
            let mut draft = Draft::new(run.head, event.at.saturating_add(moved_ms), Arc::default());
            let (own, cause) = match at {
                0 => (Event::Run(RunEvent::Started(Box::new(started.clone()))), None),
                _ => (transcript.write(&run, &event.event), event.cause),
            };
            let illegal = |reason| Corrupt { sequence: at as u64, reason };
            draft.try_emit(&mut run, &own, cause).map_err(illegal)?;
            log.take(draft)?;
        }
        match fork.mode {
            ForkMode::Branch => branch(run, log, started, &fork, now),
            ForkMode::Replay => Replay::new(run, log, transcript, &cut, &told).play(started),
        }
    }

    /// Whether it replays another run.
    pub fn is_replay(&self) -> bool {
        self.state.forked.as_ref().is_some_and(|forked| forked.mode == ForkMode::Replay)
    }

    /// The run that it replays, directly or by way of other replays.
    fn replayed_run(&self) -> Option<RunId> {
        let forked = self.state.forked.as_ref().filter(|forked| forked.mode == ForkMode::Replay)?;
        Some(forked.replays.unwrap_or(forked.run))
    }

    /// What expressions take for its id: in a replay what they took for it before, or nothing would come out the same.
    pub(crate) fn spoken_id(&self) -> RunId {
        self.replayed_run().unwrap_or(self.key.id)
    }

    /// The run that it was forked off, and where.
    pub fn forked(&self) -> Option<&Forked> {
        self.state.forked.as_ref()
    }

    /// Nobody will tell how that ended which a replay stopped in the middle of.
    pub(crate) fn stop_replay(&mut self, draft: &mut Draft, asked: &Cancellation) {
        self.give_up_work(draft, Self::lacks_source);
        self.conclude(draft, Some(Ending::cancelled(asked)));
    }

    /// Fails every node whose outcome nobody will tell.
    fn give_up_work(&mut self, draft: &mut Draft, why: impl Fn(&Self, NodeIx) -> Failure) {
        let nodes = self.state.nodes.iter().enumerate();
        let running: Vec<NodeIx> =
            nodes.filter(|(_, node)| node.phase == NodePhase::Running).map(|(ix, _)| ix as NodeIx).collect();
        for ix in running {
            let failure = why(self, ix);
            self.give_up(draft, ix, failure);
        }
    }

    /// Why a node of a branch fails whose work was in flight when the run was ending: it is not begun anew for that.
    fn ends_without(&self, ix: NodeIx) -> Failure {
        let message = format!(
            "node '{}' was under way when the run that was forked was ending, and is not begun anew",
            self.graph.at(ix).id
        );
        Failure::new("node_execution_failed", message)
    }

    /// Why a node of a replay fails for which nothing was recorded.
    pub(crate) fn lacks_source(&self, ix: NodeIx) -> Failure {
        let message = format!(
            "the run that is replayed has recorded no outcome of node '{}' for its execution {}",
            self.graph.at(ix).id,
            self.node(ix).execution
        );
        Failure::new("replay_source_missing", message)
    }

    /// The children that somebody waits for. In a run that is ending nothing is begun anew.
    fn awaited(&self) -> BTreeSet<RunId> {
        let mut awaited = BTreeSet::new();
        if self.state.ending.is_some() {
            return awaited;
        }
        for (ix, node) in self.state.nodes.iter().enumerate() {
            match (node.work.as_deref(), node.turn.as_deref()) {
                (Some(work), _) => awaited.extend(work.memos.values().filter_map(|memo| match memo {
                    Memo::Child { run, ended: None } => Some(*run),
                    _ => None,
                })),
                (None, Some(turn)) => awaited.extend(turn.awaited()),
                (None, None) => {
                    let waits = node.phase == NodePhase::Waiting && !self.is_worker_due(ix as NodeIx);
                    awaited.extend(node.child.filter(|_| waits));
                }
            }
        }
        awaited
    }
}

/// A branch goes on by itself.
fn branch(
    mut run: Run,
    mut log: Log,
    started: Started,
    fork: &Fork,
    now: Millis,
) -> Result<NewFork, Unforked> {
    let copied = log.step.records.len() as u64;
    let ends = run.state.ending.is_some();
    if !ends {
        log.step.effects = net::net(&run, std::mem::take(&mut log.step.effects));
    }
    let mut draft = Draft::new(run.head, now, fork.defaults.clone());
    if copied == 0 {
        draft.emit_run(&mut run, RunEvent::Started(Box::new(started)), None);
    }
    if ends {
        run.give_up_work(&mut draft, Run::ends_without);
    }
    if !run.lifecycle().is_terminal() {
        run.advance(&mut draft);
        run.settle_planning(&mut draft);
    }
    log.take(draft)?;
    if ends {
        // It is over with this, so nothing is left to be done, nor to be called off.
        log.step.effects = net::net(&run, std::mem::take(&mut log.step.effects));
    }
    Ok(NewFork { run, step: log.step, copied, executed: 0, diverged: 0 })
}

/// The other run's events.
fn read(source: Source<'_>, from_seq: u64) -> Result<Vec<Told>, Unforked> {
    let events = source.journal.len() as u64;
    if from_seq > events || events == 0 {
        return Err(Unforked::Beyond { asked: from_seq, events });
    }
    if events as usize > limits::FORK_EVENTS_MAX {
        return Err(Unforked::TooLarge);
    }
    let told = |record: &Record| {
        if matches!(record.payload, Payload::Erased(_)) {
            return Err(Unforked::Erased);
        }
        let event = record.event().map_err(|reason| Corrupt { sequence: record.sequence, reason })?;
        Ok(Told { event, at: record.at, cause: record.cause })
    };
    source.journal.iter().map(told).collect()
}

/// Where the other run's journal is cut, and how that run stood there and stands now.
pub(crate) struct Cut {
    /// How many events are kept as they are.
    pub(crate) history: usize,
    /// The children that somebody waited for there.
    pub(crate) awaited: BTreeSet<RunId>,
    /// The run as it stands.
    pub(crate) end: Run,
}

impl Cut {
    /// What was decided before an event is kept to the end of the decision.
    fn find(source: Source<'_>, fork: &Fork, told: &[Told]) -> Result<Self, Unforked> {
        let mut run = Run::empty(source.key, source.salt, fork.graph.clone());
        let from = first_to_go(fork, &told[0].event);
        let mut forked = None;
        let mut found = (from == 0).then(|| (0, BTreeSet::new()));
        for (at, record) in source.journal.iter().enumerate() {
            if found.is_none() && at as u64 >= from {
                let clean = boundary::is_between(&run, &told[at - 1], &told[at]);
                found = clean.then(|| (at, run.awaited()));
            }
            run.apply(record)?;
            if at == 0 {
                // A replay arms nothing, but where it may be cut shows in what the run has armed that it replays.
                forked = run.state.forked.take();
            }
        }
        run.state.forked = forked;
        let (history, awaited) = found.unwrap_or_else(|| (told.len(), run.awaited()));
        Ok(Self { history, awaited, end: run })
    }
}

/// The event before which everything is kept. What a run took from another one it did not work out itself: its name, its
/// options and its times were others then. So a replay takes that as it is.
fn first_to_go(fork: &Fork, first: &Event) -> u64 {
    match first {
        Event::Run(RunEvent::Started(first)) if fork.mode == ForkMode::Replay => {
            fork.from_seq.max(first.forked.as_ref().map_or(0, |forked| forked.history))
        }
        _ => fork.from_seq,
    }
}

/// How the fork begins: as the other run did, but for what is other about it.
fn begin(fork: &Fork, first: &Event, mut forked: Forked) -> Result<Started, Unforked> {
    let Event::Run(RunEvent::Started(first)) = first else {
        let reason = "the journal does not begin with a start".to_owned();
        return Err(Corrupt { sequence: 0, reason }.into());
    };
    if first.group.is_some() {
        let message = "a group can't be forked, for its members belong to it alone; fork one of them";
        return Err(Rejection::invalid("runId", message).into());
    }
    // Whoever forks a run has it do what it does from there on, as whoever starts one.
    let by = if fork.mode == ForkMode::Branch { fork.by.clone() } else { first.by.clone() };
    forked.starters.retain(|starter| by.as_ref() != Some(starter));
    // What the other run waited for is of no matter to a fork, and is no part of one that begins with nothing of it.
    let anew = fork.mode == ForkMode::Branch && forked.history == 0;
    let mut started =
        Started { forked: Some(forked), parent: None, exclusive: false, by, ..(**first).clone() };
    if anew {
        (started.depends_on, started.draft) = (Vec::new(), false);
    }
    if fork.mode == ForkMode::Replay {
        started.trace = None;
        return Ok(started);
    }
    started.trace.clone_from(&fork.trace);
    if !fork.overlay.is_empty() {
        lay_over(&mut started, fork)?;
    }
    Ok(started)
}

/// What is other about a branch is held to what a run may be started with.
fn lay_over(started: &mut Started, fork: &Fork) -> Result<(), Rejection> {
    let Overlay { configurable, tags, metadata } = fork.overlay.clone();
    let merged = |before: &Option<Json>, over: Option<JsonMap>| {
        let Some(over) = over else { return before.clone() };
        let mut map: JsonMap = before.as_ref().and_then(|json| json.parse().ok()).unwrap_or_default();
        map.extend(over);
        Some(Json::of(&map))
    };
    started.configurable = merged(&started.configurable, configurable);
    started.metadata = merged(&started.metadata, metadata);
    started.tags = tags.unwrap_or_else(|| started.tags.clone());
    let given = Start {
        inputs: started.inputs.clone(),
        unset: started.unset.clone(),
        tags: started.tags.clone(),
        metadata: started.metadata.clone(),
        configurable: started.configurable.clone(),
        ..Start::of(fork.key, fork.salt, fork.graph.clone())
    };
    start::check(&given)?;
    started.caps = start::caps(&given)?;
    Ok(())
}
