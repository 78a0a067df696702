//! What workers do with their tasks.
//!
//! What one request brings is decided at once: what different tasks do side by side, what one task does in order, each on
//! top of what came before it and without waiting for the disk in between. All of it is told when it is durable, so a
//! request costs one sync however much it brings.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use abide_core::event::{HookKind, Loss};
use abide_core::{
    AskState, ChildState, Command, Event, Failure, Hash, Json, JsonMap, Key, Lifecycle, Millis, Rejection,
    Reply, Run, RunEvent, RunId, TenantId, Work, WorkOp, WorkOutcome,
};
use abide_store::{HookId, Lane, SessionId, TaskHolder};
use futures_util::future::join_all;

use super::session::Holding;
use crate::confirm::give_way;
use crate::hot::Cell;
use crate::shell::{Attempt, Basis, Shell};
use crate::{Engine, Error, limits};

/// What a worker does.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Something with a task.
    Work(Holding, Box<WorkOp>),
    /// It wants another to do a task.
    Release(Holding),
    /// It is done with a call of its agent.
    EndHook {
        /// Which call.
        id: HookId,
        /// Why it failed, if it did.
        error: Option<String>,
        /// What those who decide are told, if they wanted to know something.
        answer: Option<Json>,
    },
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Did {
    /// It is done.
    Done,
    /// A step was begun, or had been.
    Begun {
        /// It had been.
        before: bool,
    },
    /// A step is recorded.
    Step {
        /// With this outcome.
        outcome: Result<Json, Failure>,
        /// It had been.
        repeated: bool,
    },
    /// How a question stands.
    Ask(Box<AskState>),
    /// How a sleep stands.
    Sleep {
        /// When it ends.
        until: Millis,
        /// Whether it has.
        over: bool,
    },
    /// How a child stands.
    Child {
        /// The child.
        run: RunId,
        /// How it ended, if it has.
        end: Option<Box<ChildEnd>>,
    },
    /// The version to follow.
    Version(u32),
    /// Whether the task was given back.
    Parked(bool),
    /// When the task is tried again, if it is.
    Failed {
        /// When.
        retry_at: Option<Millis>,
    },
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildEnd {
    /// How it stands: completed, failed or cancelled.
    pub lifecycle: Lifecycle,
    /// What was asked for of it.
    pub outputs: JsonMap,
    /// Why it failed.
    pub error: Option<Failure>,
}

/// Why something was not done.
#[derive(Clone, Debug)]
pub enum OpFailure {
    /// Something that the same task did before it failed.
    Skipped,
    /// The call is not this worker's, or it is over.
    NoSuchHook,
    /// It failed itself.
    Failed(Error),
}

impl From<Error> for OpFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Engine {
    /// Does what a worker asks for, all of it: the answers are in the same order.
    pub async fn work(
        &self,
        tenant: TenantId,
        session: SessionId,
        ops: Vec<Op>,
    ) -> Result<Vec<Result<Did, OpFailure>>, Error> {
        self.check_open()?;
        let mut groups: Vec<Group> = Vec::new();
        let mut by_task: HashMap<Holding, usize> = HashMap::new();
        let count = ops.len();
        for (at, op) in ops.into_iter().enumerate() {
            let (holding, op) = match op {
                Op::Work(holding, op) => (holding, *op),
                Op::Release(holding) => {
                    let worker = self.shell.workers.with(|desk| desk.words((tenant, session)));
                    (holding, WorkOp::Lose { reason: Loss::Released, worker })
                }
                Op::EndHook { id, error, answer } => {
                    groups.push(Group::Hook { at, id, error, answer });
                    continue;
                }
            };
            let next = groups.len();
            let group = *by_task.entry(holding.clone()).or_insert(next);
            if group == next {
                groups.push(Group::Task { holding, ops: Vec::new() });
            }
            if let Group::Task { ops, .. } = &mut groups[group] {
                ops.push((at, op));
            }
        }
        let done = groups.into_iter().map(|group| self.group(tenant, session, group));
        let mut answers: Vec<Option<Result<Did, OpFailure>>> = vec![None; count];
        for (at, answer) in join_all(done).await.into_iter().flatten() {
            answers[at] = Some(answer);
        }
        // What is not its own here may well be where it has gone in the middle of this: it asks again there.
        let is_shared = self.shell.workers.home.is_some();
        if is_shared && answers.iter().flatten().any(is_stale) && !self.is_here(tenant, session) {
            return Err(Error::WorkerUnknown(session));
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Err(OpFailure::Skipped))).collect())
    }

    async fn group(
        &self,
        tenant: TenantId,
        session: SessionId,
        group: Group,
    ) -> Vec<(usize, Result<Did, OpFailure>)> {
        let (holding, ops) = match group {
            Group::Hook { at, id, error, answer } => {
                return vec![(at, self.end_hook(tenant, session, id, error, answer).await)];
            }
            Group::Task { holding, ops } => (holding, ops),
        };
        // The core knows the fence, and this who speaks: a number can be guessed.
        if !self.shell.workers.with(|desk| desk.has((tenant, session), &holding)) {
            let first = ops.first().map(|(at, _)| (*at, Err(Error::from(Rejection::StaleFence).into())));
            return first.into_iter().collect();
        }
        let key = holding.place.run.of(tenant);
        let ended = self.shell.work_in_order(key, session, &holding, &ops).await;
        let waits = |outcome: &WorkOutcome| {
            matches!(outcome, WorkOutcome::Ask(_) | WorkOutcome::Sleep { .. } | WorkOutcome::Child { .. })
        };
        if self.shell.workers.home.is_some() && ended.iter().flatten().any(|(outcome, _)| waits(outcome)) {
            self.shell.workers.with(|desk| desk.note_wait(&(tenant, holding.place.clone())));
        }
        let mut told = Vec::with_capacity(ended.len());
        for ((at, op), ended) in ops.into_iter().zip(ended) {
            let did = match ended {
                Ok((outcome, changed)) => self.shell.tell_did(key, op, outcome, changed).await,
                Err(error) => Err(error),
            };
            told.push((at, did.map_err(OpFailure::from)));
        }
        told
    }

    async fn end_hook(
        &self,
        tenant: TenantId,
        session: SessionId,
        id: HookId,
        error: Option<String>,
        answer: Option<Json>,
    ) -> Result<Did, OpFailure> {
        let call = self.shell.workers.with(|desk| desk.call_of((tenant, session), id));
        let (agent, tries) = call.ok_or(OpFailure::NoSuchHook)?;
        if let Some(answer) = answer.filter(|_| error.is_none() && id.hook == HookKind::QuestionAsked) {
            self.reply_for(&agent, id, answer).await?;
        }
        self.shell.settle_call(agent, id, error, tries).await?;
        Ok(Did::Done)
    }

    /// Tells those who decide what their question made the agent say. Somebody may have been faster, which is as good.
    async fn reply_for(&self, agent: &(TenantId, String), id: HookId, answer: Json) -> Result<(), OpFailure> {
        let reply = Reply { id: id.interrupt, ask: id.attempt, answer, by: agent.1.clone() };
        let command = Command::Reply(Box::new(reply));
        match self
            .shell
            .decide(id.run.of(agent.0), &command, Lane::Interactive, Basis::default(), |_| ())
            .await
        {
            Ok(()) => Ok(()),
            Err(Error::Rejected(Rejection::BadAnswer(errors))) => {
                Err(OpFailure::Failed(Rejection::BadAnswer(errors).into()))
            }
            Err(Error::Rejected(_) | Error::RunNotFound(_) | Error::Erased(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The agent that a worker works as, and what that wants to be called for.
    pub fn agent_of(&self, tenant: TenantId, session: SessionId) -> Result<(String, Vec<HookKind>), Error> {
        let agent = self.shell.workers.with(|desk| desk.agent((tenant, session)));
        agent.ok_or(Error::WorkerUnknown(session))
    }
}

fn is_stale(answer: &Result<Did, OpFailure>) -> bool {
    matches!(answer, Err(OpFailure::Failed(Error::Rejected(Rejection::StaleFence)) | OpFailure::NoSuchHook))
}

/// What is done in order.
enum Group {
    Task { holding: Holding, ops: Vec<(usize, WorkOp)> },
    Hook { at: usize, id: HookId, error: Option<String>, answer: Option<Json> },
}

/// How an operation was decided: what is told of it, and whether anything was written.
type Decided = Result<(WorkOutcome, bool), Error>;

/// A decision that is not known to be durable.
enum Flying {
    Submitted(crate::shell::Answered, Option<WorkOutcome>, Vec<Hash>),
    Unchanged(u64, Option<WorkOutcome>),
    Rejected(u64, Rejection),
}

impl Shell {
    /// Decides what one task does, in order, until something is refused: what comes after that is not tried.
    async fn work_in_order(
        self: &Arc<Self>,
        key: Key,
        session: SessionId,
        holding: &Holding,
        ops: &[(usize, WorkOp)],
    ) -> Vec<Decided> {
        // With one server on the store, what is in memory says who has a task.
        let holder = self.workers.home.map(|_| TaskHolder {
            task: holding.place.task.clone(),
            fence: holding.fence,
            session,
            home: None,
        });
        let mut basis = Basis { holder, ..Basis::default() };
        let mut done: Vec<Decided> = Vec::with_capacity(ops.len());
        let since = Instant::now();
        for tries in 0..limits::DECIDE_ATTEMPTS_MAX {
            if tries > 1 {
                give_way(&*self.store, tries).await;
            }
            let cell = match self.cell_with_surroundings(key).await {
                Ok(cell) => cell,
                Err(error) => {
                    done.push(Err(error));
                    return done;
                }
            };
            let mut flying = Vec::new();
            for (_, op) in &ops[done.len()..] {
                let Ok(permit) = self.permit().await else {
                    break;
                };
                let task = holding.place.task.clone();
                let see = |run: &Run| run.work_outcome(&task, op);
                let work = Work { task: task.clone(), fence: holding.fence, op: op.clone() };
                let command = Command::Work(Box::new(work));
                match self.attempt(&cell, &command, Lane::Interactive, &basis, permit, &see) {
                    Attempt::Dead => break,
                    Attempt::Rejected { rejection, next, .. } => {
                        flying.push(Flying::Rejected(next, rejection));
                        break;
                    }
                    Attempt::Unchanged { seen, next } => flying.push(Flying::Unchanged(next, seen)),
                    Attempt::Submitted(answered, seen, names) => {
                        flying.push(Flying::Submitted(answered, seen, names));
                    }
                }
            }
            if flying.is_empty() && self.permits.is_closed() {
                done.push(Err(Error::Draining));
                return done;
            }
            for one in flying {
                match self.land(&cell, one, since, &mut basis).await {
                    Some(decided) => done.push(decided),
                    None => break,
                }
            }
            if done.len() == ops.len() || done.last().is_some_and(Result::is_err) {
                return done;
            }
            self.hot.remove(&cell);
        }
        done.push(Err(Error::Contended));
        done
    }

    /// What a worker is told. What it gave itself is not read again.
    async fn tell_did(
        &self,
        key: Key,
        op: WorkOp,
        outcome: WorkOutcome,
        changed: bool,
    ) -> Result<Did, Error> {
        Ok(match outcome {
            WorkOutcome::Done => match op {
                WorkOp::Begin { .. } => Did::Begun { before: !changed },
                _ => Did::Done,
            },
            WorkOutcome::Recorded(sequence) => match op {
                WorkOp::Record { outcome, .. } if changed => Did::Step { outcome, repeated: false },
                _ => Did::Step { outcome: self.recorded(key, sequence).await?, repeated: true },
            },
            WorkOutcome::Ask(state) => Did::Ask(state),
            WorkOutcome::Sleep { until, over } => Did::Sleep { until, over },
            WorkOutcome::Child { run, state: ChildState::Running } => Did::Child { run, end: None },
            WorkOutcome::Child { run, state: ChildState::Ended(sequence) } => {
                Did::Child { run, end: Some(Box::new(self.child_end(key, sequence).await?)) }
            }
            WorkOutcome::Version(version) => Did::Version(version),
            WorkOutcome::Parked(parked) => Did::Parked(parked),
            WorkOutcome::Failed { retry_at } => Did::Failed { retry_at },
        })
    }

    /// The outcome of a step, from the event that recorded it.
    async fn recorded(&self, key: Key, sequence: u64) -> Result<Result<Json, Failure>, Error> {
        match self.event_at(key, sequence).await? {
            Event::Node { event: abide_core::NodeEvent::StepRecorded(recorded), .. } => {
                Ok(match recorded.error {
                    Some(failure) => Err(failure),
                    None => Ok(recorded.value.unwrap_or_else(|| Json::of(&()))),
                })
            }
            other => Err(misplaced(key, sequence, &other)),
        }
    }

    /// The end of a child, from the event that tells of it.
    async fn child_end(&self, key: Key, sequence: u64) -> Result<ChildEnd, Error> {
        match self.event_at(key, sequence).await? {
            Event::Run(RunEvent::ChildReported(reported)) => Ok(ChildEnd {
                lifecycle: reported.lifecycle,
                outputs: reported.outputs,
                error: reported.error,
            }),
            Event::Run(RunEvent::ChildRefused(refused)) => Ok(ChildEnd {
                lifecycle: Lifecycle::Failed,
                outputs: JsonMap::new(),
                error: Some(refused.error),
            }),
            other => Err(misplaced(key, sequence, &other)),
        }
    }

    async fn event_at(&self, key: Key, sequence: u64) -> Result<Event, Error> {
        let records = self.store.journal(key, sequence, 1).await?;
        let record = records.first().ok_or(Error::RunNotFound(key.id))?;
        record.event().map_err(|reason| Error::Damaged {
            run: key.id,
            corrupt: abide_core::Corrupt { sequence, reason },
        })
    }
}

impl Shell {
    /// Waits until a decision is durable. `None` if it came to nothing and is to be made again.
    async fn land(
        &self,
        cell: &Arc<Cell>,
        flying: Flying,
        since: Instant,
        basis: &mut Basis,
    ) -> Option<Decided> {
        let told = |outcome: Option<WorkOutcome>, changed| {
            outcome.map(|outcome| (outcome, changed)).ok_or_else(|| Rejection::StaleFence.into())
        };
        let (next, decided) = match flying {
            Flying::Submitted(answered, seen, names) => {
                return match answered.await {
                    Ok(Ok(())) => Some(told(seen, true)),
                    Ok(Err(abide_store::Error::Stale)) => None,
                    Ok(Err(abide_store::Error::Taken)) => {
                        self.learn_taken(cell.key, names, basis).await.err().map(Err)
                    }
                    Ok(Err(abide_store::Error::Fenced)) => Some(Err(Rejection::StaleFence.into())),
                    Ok(Err(error)) => Some(Err(error.into())),
                    Err(_) => Some(Err(abide_store::Error::Closed.into())),
                };
            }
            Flying::Unchanged(next, seen) => (next, told(seen, false)),
            Flying::Rejected(next, rejection) => (next, Err(rejection.into())),
        };
        match self.confirm(cell, next, since).await {
            Ok(confirmed) => confirmed.then_some(decided),
            Err(error) => Some(Err(error)),
        }
    }
}

fn misplaced(key: Key, sequence: u64, found: &Event) -> Error {
    let reason = format!("a worker's outcome should stand here, and {} does", found.event_type().name);
    Error::Damaged { run: key.id, corrupt: abide_core::Corrupt { sequence, reason } }
}
