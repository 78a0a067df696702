//! Decide, submit, and carry out what follows once a commit is durable.

mod follow;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use abide_core::{
    BondCommand, Command, Effect, Hash, Key, Millis, Record, Rejection, Run, RunId, Salt, Start, Status,
    Step, Surroundings, TaskId, limits as core_limits,
};
use abide_store::{Commit, Hint, Lane, MessageRef, Store, TaskHolder};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::breakers::Breakers;
use crate::callbacks::Callbacks;
use crate::confirm::give_way;
use crate::containers::Circles;
use crate::executor::Executor;
use crate::external::External;
use crate::graphs::Graphs;
use crate::hot::{Ahead, Cell, Hot};
use crate::models::Models;
use crate::notices::Notices;
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::reply::Reply;
use crate::retention::Keeper;
use crate::stats::Counters;
use crate::surroundings::AllSurroundings;
use crate::timers::Timers;
use crate::trace::{self, OpenSpan, SpanKind, Spans, Teller, Told, Trace};
use crate::watch::Watchers;
use crate::webhooks::Webhooks;
use crate::workers::{Reservation, Workers};
use crate::{Clock, Error, Failpoints, HttpExecutor, Secrets, Window, limits};

/// Everything the parts of the engine share.
pub(crate) struct Shell {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) graphs: Graphs,
    pub(crate) hot: Hot,
    pub(crate) watchers: Arc<Watchers>,
    /// How often an agent was told to work on something, by this server.
    pub(crate) assigned: tokio::sync::watch::Sender<u64>,
    pub(crate) peers: Peers,
    pub(crate) timers: Timers,
    pub(crate) executor: Executor,
    pub(crate) outbox: Outbox,
    pub(crate) circles: Circles,
    pub(crate) members: Circles,
    pub(crate) webhooks: Webhooks,
    pub(crate) external: External,
    pub(crate) callbacks: Callbacks,
    pub(crate) surroundings: AllSurroundings,
    pub(crate) workers: Workers,
    pub(crate) notices: Notices,
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) models: Models,
    pub(crate) http: Result<HttpExecutor, String>,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) keeper: Keeper,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) draining: AtomicBool,
    pub(crate) failpoints: Option<Arc<Failpoints>>,
    pub(crate) spans: Option<Arc<dyn Spans>>,
    pub(crate) teller: Option<Arc<Teller>>,
    pub(crate) counters: Counters,
    pub(crate) runtime: tokio::runtime::Handle,
}

/// What goes into a commit beside the decision.
#[derive(Clone, Default)]
pub(crate) struct Basis {
    /// The lease under which a task was performed.
    pub(crate) fence: Option<u64>,
    /// The worker's task that it is about, if that has to be in the right hands.
    pub(crate) holder: Option<TaskHolder>,
    /// A task that goes on, and the lease under which it is being performed.
    pub(crate) holds: Option<(TaskId, u64)>,
    /// The messages that are being delivered.
    pub(crate) consumed: Vec<MessageRef>,
    /// What is answered to a request that may be repeated.
    pub(crate) reply: Option<Reply>,
    /// Names that turned out to be another run's when this was decided before.
    pub(crate) taken: Arc<BTreeSet<Hash>>,
    /// How often runs of the tenant were made to wait for others when it was looked at whether this closes a circle.
    pub(crate) circle: Option<u64>,
}

/// A commit on its way.
struct Pending {
    cell: Arc<Cell>,
    /// The sequence of its first event.
    first: u64,
    /// The head once it is durable.
    next: u64,
    /// What it arms and sends is this server's to see to, for a while.
    held: bool,
    effects: Vec<Effect>,
    /// How the run has ended with it, if it has.
    ended: Option<Status>,
    /// Its own span, and what it has to tell of the run's.
    span: Option<OpenSpan>,
    told: Option<Told>,
    /// Places at the executor for the tasks that begin with it.
    places: Option<OwnedSemaphorePermit>,
    /// Who gets the tasks for workers that begin with it.
    handed: Reservation,
    answer: oneshot::Sender<Result<(), abide_store::Error>>,
    _permit: OwnedSemaphorePermit,
}

/// A commit's answer, when it comes.
pub(crate) type Answered = oneshot::Receiver<Result<(), abide_store::Error>>;

impl Shell {
    /// Starts a run and returns once its first commit is durable. The answer is what `see` finds in the run
    /// then.
    ///
    /// Started by a message, it is a child, and nobody waits for it.
    pub(crate) async fn start<T>(
        self: &Arc<Self>,
        start: Start,
        mut basis: Basis,
        see: impl Fn(&Run) -> T,
    ) -> Result<T, Error> {
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            let (started, names) = self.start_once(start.clone(), &basis, &see).await?;
            match started {
                Err(abide_store::Error::Taken) => self.learn_taken(start.key, names, &mut basis).await?,
                other => return Ok(other?),
            }
        }
        Err(Error::Contended)
    }

    /// One try at a start: what became of its commit, and the names that it wants to itself.
    async fn start_once<T>(
        self: &Arc<Self>,
        start: Start,
        basis: &Basis,
        see: &impl Fn(&Run) -> T,
    ) -> Result<(Result<T, abide_store::Error>, Vec<Hash>), Error> {
        let permit = self.permit().await?;
        let (salt, tenant) = (start.salt, start.key.tenant);
        self.see_surroundings(tenant, &start.graph).await?;
        let start = Start { defaults: basis.around(&self.surroundings.of(tenant)), ..start };
        let (run, step) = Run::start(start, self.clock.now())?;
        self.found((run, step, salt), basis, permit, see).await
    }

    /// Writes the first commit of a run: what became of it, and the names that it wants to itself.
    pub(crate) async fn found<T>(
        self: &Arc<Self>,
        (run, step, salt): (Run, Step, Salt),
        basis: &Basis,
        permit: OwnedSemaphorePermit,
        see: impl Fn(&Run) -> T,
    ) -> Result<(Result<T, abide_store::Error>, Vec<Hash>), Error> {
        let (graph, tenant) = (run.graph().clone(), run.key().tenant);
        // What is told is what this commit says: the run may be ahead of the disk again by the time it is told.
        let seen = see(&run);
        let cell = Cell::new(run, 0, 0, Instant::now());
        let names;
        let answered = {
            let ahead = cell.lock().ok_or(Error::Contended)?;
            let mut commit = self.commit_of(&ahead, step, basis);
            names = names_of(&commit.effects);
            commit.salt = Some(salt);
            if !self.graphs.is_stored(tenant, graph.hash) {
                commit.blobs.push((graph.hash, graph.source.clone()));
            }
            if !ahead.run.lifecycle().is_terminal() {
                self.hot.insert(&cell);
            }
            let lane = if !basis.consumed.is_empty() { Lane::Background } else { Lane::Interactive };
            self.submit(&cell, ahead, commit, lane, permit)
        };
        let kept = answered.await.unwrap_or(Err(abide_store::Error::Closed));
        if kept.is_ok() {
            self.graphs.mark_stored(tenant, graph.hash);
        }
        Ok((kept.map(|()| seen), names))
    }

    /// Decides a command and returns once it is durable. The answer is what `see` finds in the run then.
    ///
    /// A rejection, too, is only reported once the state it rests on is durable.
    pub(crate) async fn decide<T>(
        self: &Arc<Self>,
        key: Key,
        command: &Command,
        lane: Lane,
        mut basis: Basis,
        see: impl Fn(&Run) -> T,
    ) -> Result<T, Error> {
        let since = Instant::now();
        let mut heard = false;
        for tries in 0..limits::DECIDE_ATTEMPTS_MAX {
            if tries > 1 {
                give_way(&*self.store, tries).await;
            }
            let permit = self.permit().await?;
            let cell = self.cell_with_surroundings(key).await?;
            let passed = if heard { Vec::new() } else { self.passed_deadlines(&cell, command) };
            if !passed.is_empty() {
                drop(permit);
                self.hear_groups(key, passed).await?;
                heard = true;
                continue;
            }
            match self.attempt(&cell, command, lane, &basis, permit, &see) {
                Attempt::Dead => self.hot.remove(&cell),
                Attempt::Rejected { rejection, next, ended } => {
                    let confirmed = self.confirm(&cell, next, since).await?;
                    // Nothing more comes of one that has ended, and its payloads may be erased.
                    if ended || !confirmed {
                        self.hot.remove(&cell);
                    }
                    if confirmed {
                        if rejection == Rejection::DeadlineExceeded {
                            self.abandon_late(key).await;
                        }
                        return Err(rejection.into());
                    }
                }
                Attempt::Unchanged { seen, next } => {
                    if self.confirm(&cell, next, since).await? {
                        return Ok(seen);
                    }
                    self.hot.remove(&cell);
                }
                Attempt::Submitted(answered, seen, names) => match answered.await {
                    Ok(Ok(())) => return Ok(seen),
                    Ok(Err(abide_store::Error::Stale)) => {}
                    Ok(Err(abide_store::Error::Taken)) => self.learn_taken(key, names, &mut basis).await?,
                    Ok(Err(error)) => return Err(error.into()),
                    Err(_) => return Err(abide_store::Error::Closed.into()),
                },
            }
        }
        Err(Error::Contended)
    }

    /// The deadlines of groups that the run would go by, if it is not one of those groups that speaks.
    fn passed_deadlines(&self, cell: &Cell, command: &Command) -> Vec<(RunId, Millis)> {
        let passed =
            cell.lock().map(|ahead| ahead.run.passed_deadlines(self.clock.now())).unwrap_or_default();
        let speaks = |group: &RunId| match command {
            Command::Bond(bond) => {
                matches!(&**bond, BondCommand::Watch { watch, .. } if watch.from == *group)
            }
            _ => false,
        };
        if passed.iter().any(|(group, _)| speaks(group)) { Vec::new() } else { passed }
    }

    /// A commit was refused because of a name: it is decided again with the knowledge of which are another run's. If none
    /// is, whoever had it in the way has come to nothing.
    pub(crate) async fn learn_taken(
        &self,
        key: Key,
        names: Vec<Hash>,
        basis: &mut Basis,
    ) -> Result<(), Error> {
        let taken = self.store.taken_names(key, names).await?;
        Arc::make_mut(&mut basis.taken).extend(taken);
        Ok(())
    }

    /// One try at a command, on the run as it is in memory.
    pub(crate) fn attempt<T>(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        command: &Command,
        lane: Lane,
        basis: &Basis,
        permit: OwnedSemaphorePermit,
        see: &impl Fn(&Run) -> T,
    ) -> Attempt<T> {
        let Some(mut ahead) = cell.lock() else {
            return Attempt::Dead;
        };
        let expected = ahead.run.head().next;
        let defaults = basis.around(&self.surroundings.of(ahead.run.key().tenant));
        match ahead.run.decide_under(command.clone(), self.clock.now(), &defaults) {
            Err(rejection) => {
                let ended = ahead.run.lifecycle().is_terminal();
                Attempt::Rejected { rejection, next: expected, ended }
            }
            // Nothing is to be written, but what it rests on may not be durable yet.
            Ok(step) if step.records.is_empty() => {
                Attempt::Unchanged { seen: see(&ahead.run), next: expected }
            }
            Ok(step) => {
                let commit = self.commit_of(&ahead, step, basis);
                let seen = see(&ahead.run);
                let names = names_of(&commit.effects);
                Attempt::Submitted(self.submit(cell, ahead, commit, lane, permit), seen, names)
            }
        }
    }

    /// Hands a commit to the store while the run is locked, so that the store sees decisions in order.
    pub(crate) fn submit(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        mut ahead: MutexGuard<'_, Ahead>,
        mut commit: Commit,
        lane: Lane,
        permit: OwnedSemaphorePermit,
    ) -> Answered {
        let next = ahead.run.head().next;
        if commit.snapshot.is_some() {
            ahead.snapshot_at = next;
        }
        if ahead.in_flight == 0 {
            ahead.lane = lane;
        }
        ahead.in_flight += 1;
        // A server that is stopping leaves to others what begins now, if there may be any.
        let leaves = self.is_draining() && self.store.cluster().is_some();
        let places = self.executor.reserve(&commit.effects).filter(|_| !leaves);
        let handed = if self.is_draining() {
            Reservation::default()
        } else {
            self.workers.reserve(cell.key, &commit.effects)
        };
        commit.sessions = handed.sessions();
        commit.boot = if places.is_some() { self.store.boot() } else { 0 };
        // By a clock that is moved by hand, nobody can say for how long.
        commit.held = !leaves && self.store.cluster().is_some() && self.clock.catch_up().is_none();
        let (answer, answered) = oneshot::channel();
        let ended = ahead.run.lifecycle().is_terminal().then(|| ahead.run.status());
        let above = trace::current();
        let span = above.as_ref().and_then(|above| self.trace_commit(above, &commit, lane));
        let teller = self.teller.as_ref().filter(|_| ahead.run.trace().is_some_and(|trace| trace.sampled));
        let told = teller.and_then(|teller| teller.note(cell.key, &commit.records, above));
        let pending = Pending {
            cell: cell.clone(),
            first: commit.base.next,
            next,
            held: commit.held,
            effects: commit.told().cloned().collect(),
            ended,
            span,
            told,
            places,
            handed,
            answer,
            _permit: permit,
        };
        let shell = self.clone();
        let lane = ahead.lane;
        let submitted =
            self.store.submit(commit, lane, Box::new(move |result| shell.answered(pending, result)));
        drop(ahead);
        if let Err(done) = submitted {
            done(Err(abide_store::Error::Closed));
        }
        answered
    }

    /// A commit that somebody waits for is a span below what they do.
    fn trace_commit(&self, above: &Trace, commit: &Commit, lane: Lane) -> Option<OpenSpan> {
        let spans = self.spans.as_ref().filter(|_| above.sampled)?;
        let own = trace::below(above);
        let mut span = OpenSpan::begin(spans, "abide.commit", SpanKind::Internal, &own, Some(above.span_id));
        span.note("abide.run.id", commit.key.id.to_string());
        span.note("abide.tenant.id", commit.key.tenant.0);
        span.note("abide.commit.events", commit.records.len() as u64);
        span.note("abide.commit.lane", if lane == Lane::Interactive { "interactive" } else { "background" });
        Some(span)
    }

    /// A commit was answered: called by the store, in order for each run.
    fn answered(self: &Arc<Self>, mut pending: Pending, result: Result<(), abide_store::Error>) {
        let cell = pending.cell.clone();
        match &result {
            Ok(()) => {
                cell.settle(pending.next);
                if pending.ended.is_some() {
                    self.hot.remove(&cell);
                }
                self.counters.count(pending.first == 0, pending.ended);
                for effect in &pending.effects {
                    if let Effect::AwaitProvider(wait) = effect {
                        self.counters.awaits_provider(wait.postponed);
                    }
                }
                self.watchers.tell(cell.key, pending.next, pending.ended.is_some());
                let ended = pending.ended.is_some();
                self.tell_peers(Hint::Run { key: cell.key, next: pending.next, ended });
                self.tell_workers(cell.key, &pending.effects, &pending.handed);
                if let Some((teller, told)) = self.teller.as_ref().zip(pending.told.take()) {
                    teller.tell(told);
                }
                self.carry_out(cell.key, &mut pending);
            }
            Err(error) => {
                use abide_store::Error::{Claimed, Delivered, Fenced, Raced, Receipted, Stale, Taken};
                if !matches!(error, Stale | Fenced | Delivered | Receipted | Claimed | Taken | Raced) {
                    tracing::error!(run = %cell.key.id, %error, "a commit failed; the run is read again");
                }
                self.workers.give_back(&pending.handed);
                cell.kill();
                self.hot.remove(&cell);
            }
        }
        if let Some(span) = pending.span.take() {
            span.end(result.is_err());
        }
        // Whoever asked may have gone away; what was decided stands all the same.
        let _ = pending.answer.send(result);
    }

    /// The run in memory, read from the store if need be.
    pub(crate) async fn cell(&self, key: Key) -> Result<Arc<Cell>, Error> {
        let load = || async {
            let read_at = Instant::now();
            self.load(key).await.map(|(run, kept)| cell_of(run, kept, read_at))
        };
        self.hot.get(key, load).await
    }

    /// The same, to decide on it: what it finds around it is known.
    pub(crate) async fn cell_with_surroundings(&self, key: Key) -> Result<Arc<Cell>, Error> {
        let cell = self.cell(key).await?;
        self.see_surroundings(key.tenant, &cell.graph).await?;
        Ok(cell)
    }

    /// Looks at a run as it stands on disk.
    pub(crate) async fn read<T>(&self, key: Key, see: impl Fn(&Run) -> T) -> Result<T, Error> {
        let since = Instant::now();
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            let Some(cell) = self.hot.peek(key) else {
                let (run, _) = self.load(key).await?;
                return Ok(see(&run));
            };
            let seen = cell.lock().map(|ahead| (see(&ahead.run), ahead.run.head().next));
            match seen {
                Some((seen, next)) if self.confirm(&cell, next, since).await? => return Ok(seen),
                _ => self.hot.remove(&cell),
            }
        }
        Err(Error::Contended)
    }

    /// Reads a run from the store, and how many events its snapshot has folded.
    pub(crate) async fn load(&self, key: Key) -> Result<(Run, u64), Error> {
        let loaded = self.store.load(key).await?.ok_or(Error::RunNotFound(key.id))?;
        let graph = self.graphs.pinned(&*self.store, key, loaded.summary.definition).await?;
        let damaged = |corrupt| Error::Damaged { run: key.id, corrupt };
        let salt: Salt = loaded.salt.ok_or(Error::Erased(key.id))?;
        let kept = loaded.snapshot.as_ref().map_or(0, |(folded, _)| *folded);
        let snapshot =
            loaded.snapshot.and_then(|(_, bytes)| Run::from_snapshot(key, salt, graph.clone(), &bytes));
        let (mut run, kept, tail) = match snapshot.filter(|run| run.head().next == kept) {
            Some(run) => (run, kept, loaded.tail),
            None if kept == 0 => (Run::empty(key, salt, graph), 0, loaded.tail),
            // The snapshot is damaged or another version's: fold the whole journal instead, as it was then.
            None => {
                let mut journal = self.store.journal(key, 0, usize::MAX).await?;
                journal.retain(|record| record.sequence < loaded.head.next);
                (Run::empty(key, salt, graph), 0, journal)
            }
        };
        let newer = |record: &Record| Error::Newer { run: key.id, sequence: record.sequence };
        for record in &tail {
            run.apply(record)
                .map_err(|corrupt| if record.is_newer() { newer(record) } else { damaged(corrupt) })?;
        }
        if run.head() != loaded.head {
            return Err(damaged(cut_short(run.head().next, loaded.head.next)));
        }
        Ok((run, kept))
    }

    pub(crate) fn commit_of(&self, ahead: &Ahead, step: Step, basis: &Basis) -> Commit {
        let now = self.clock.now();
        Commit {
            snapshot: wants_snapshot(ahead).then(|| ahead.run.snapshot()),
            fence: basis.fence,
            holder: basis.holder.clone(),
            holds: basis.holds.clone(),
            consumed: basis.consumed.clone(),
            circle: basis.circle,
            receipt: basis.reply.as_ref().and_then(|reply| reply.receipt(&ahead.run, now)),
            ..Commit::of(&ahead.run, step)
        }
    }

    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.permits.clone().acquire_owned().await.map_err(|_| Error::Draining)
    }

    pub(crate) fn pass(&self, window: Window) {
        if let Some(failpoints) = &self.failpoints {
            failpoints.pass(window);
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// What became of one try at a command.
pub(crate) enum Attempt<T> {
    /// The cell was given up; fetch a new one.
    Dead,
    /// The core said no, on a state that is durable once the journal is at this sequence.
    Rejected { rejection: Rejection, next: u64, ended: bool },
    /// There is nothing to write. It rests on a state that is durable once the journal is at this sequence.
    Unchanged { seen: T, next: u64 },
    /// It is on its way to the disk, with the names that it wants to itself.
    Submitted(Answered, T, Vec<Hash>),
}

impl Basis {
    /// What a run finds around it, with what was found out since it was decided last.
    pub(crate) fn around(&self, usual: &Arc<Surroundings>) -> Arc<Surroundings> {
        if self.taken.is_empty() {
            return usual.clone();
        }
        Arc::new(Surroundings { taken: self.taken.clone(), ..(**usual).clone() })
    }
}

/// The names that a decision wants to itself.
fn names_of(effects: &[Effect]) -> Vec<Hash> {
    let name = |effect: &Effect| if let Effect::TakeName(name) = effect { Some(*name) } else { None };
    effects.iter().filter_map(name).collect()
}

fn cell_of(run: Run, snapshot_at: u64, read_at: Instant) -> Arc<Cell> {
    let durable = run.head().next;
    Cell::new(run, durable, snapshot_at, read_at)
}

fn cut_short(sequence: u64, counted: u64) -> abide_core::Corrupt {
    let reason = format!("the journal ends before it, and not as its columns say ({counted} events)");
    abide_core::Corrupt { sequence, reason }
}

/// A snapshot is kept when a run comes to rest behind a good many events, and every so often in any case.
fn wants_snapshot(ahead: &Ahead) -> bool {
    let since = ahead.run.head().next - ahead.snapshot_at;
    let rests = ahead.run.is_parked() && !ahead.run.has_yielded() || ahead.run.lifecycle().is_terminal();
    // A snapshot is as large as the graph, so a large one is taken less often: its cost per event stays the same.
    let nodes = ahead.run.graph().len() as u64;
    since >= core_limits::SNAPSHOT_EVENTS_MAX.max(nodes)
        || rests && since >= core_limits::SNAPSHOT_PARK_EVENTS_MIN.max(nodes / 8)
}
