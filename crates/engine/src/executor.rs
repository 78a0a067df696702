//! Tasks executed in this process, each under a lease and a fencing token like any other worker's.
//!
//! A task is on disk before it begins. One for which there is room begins as soon as its commit is durable;
//! the others wait on disk, unleased, and are claimed in batches when room comes free. After a kill the next
//! start claims what the dead process had leased.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use abide_core::{
    Command, Effect, Failure, HttpRequest, InterruptionClass, Performance, Product, Reached, Report,
    TaskFailure,
};
use abide_store::{Lane, TaskRow};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::confirm::give_way;
use crate::secrets::names_in;
use crate::shell::{Basis, Shell};
use crate::timers::rest;
use crate::trace::{self, Trace};
use crate::{Error, Window, limits};

pub(crate) struct Executor {
    places: Arc<Semaphore>,
    /// Tasks may lie on disk that nobody has leased.
    backlog: AtomicBool,
    wake: Notify,
}

impl Executor {
    /// At a start there may always be something left over.
    pub(crate) fn new() -> Self {
        let places = Arc::new(Semaphore::new(limits::TASKS_IN_FLIGHT_MAX));
        Self { places, backlog: AtomicBool::new(true), wake: Notify::new() }
    }

    /// How many tasks could begin now.
    pub(crate) fn free_places(&self) -> usize {
        self.places.available_permits()
    }

    /// How many tasks are being executed.
    pub(crate) fn busy_places(&self) -> usize {
        limits::TASKS_IN_FLIGHT_MAX - self.free_places()
    }

    /// Places for all tasks that these effects begin, or none.
    pub(crate) fn reserve(&self, effects: &[Effect]) -> Option<OwnedSemaphorePermit> {
        let tasks = effects.iter().filter(|effect| matches!(effect, Effect::Dispatch { .. })).count();
        self.places.clone().try_acquire_many_owned(u32::try_from(tasks).ok()?).ok()
    }

    /// A task was left on disk for want of room.
    pub(crate) fn note_backlog(&self) {
        self.backlog.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Waits until every task that began here is done, and keeps the places: what is dispatched from now on
    /// stays on disk, unleased.
    pub(crate) async fn retire(&self) {
        let all = u32::try_from(limits::TASKS_IN_FLIGHT_MAX).unwrap_or(u32::MAX);
        if let Ok(places) = self.places.acquire_many(all).await {
            places.forget();
        }
    }
}

impl Shell {
    /// Executes a leased task and reports it.
    pub(crate) fn execute(self: &Arc<Self>, row: TaskRow, place: OwnedSemaphorePermit) {
        let shell = self.clone();
        self.runtime.spawn(async move {
            shell.counters.dispatched();
            shell.perform(&row).await;
            drop(place);
            if shell.executor.backlog.load(Ordering::Acquire) {
                shell.executor.wake.notify_one();
            }
        });
    }

    /// Executes a task once, and reports it until that is on disk. A report that can't be written is written again;
    /// what it tells of is not done again.
    async fn perform(self: &Arc<Self>, row: &TaskRow) {
        let mut outcome: Option<Command> = None;
        loop {
            let tried = match &outcome {
                None => self.outcome_of(row).await.map(|found| outcome = Some(found)),
                Some(outcome) => match self.report(row, outcome).await {
                    Ok(()) => return,
                    Err(error) => Err(error),
                },
            };
            match tried {
                Ok(()) => {}
                Err(Error::Rejected(rejection)) => {
                    return tracing::debug!(run = %row.key.id, node = %row.task.node, %rejection, "a report came too late");
                }
                Err(Error::Store(abide_store::Error::Fenced)) => {
                    return tracing::warn!(run = %row.key.id, node = %row.task.node, "the lease was lost before the report");
                }
                Err(Error::Draining | Error::Store(abide_store::Error::Closed)) => return,
                Err(Error::Contended) => give_way(&*self.store, limits::DECIDE_ATTEMPTS_MAX).await,
                Err(error) if error.is_lasting() => {
                    return tracing::error!(run = %row.key.id, node = %row.task.node, %error, "a task can't be executed");
                }
                Err(error) => {
                    tracing::error!(run = %row.key.id, node = %row.task.node, %error, "a task could not be reported; trying again");
                    rest().await;
                }
            }
        }
    }

    /// Does what the task asks for.
    async fn outcome_of(self: &Arc<Self>, row: &TaskRow) -> Result<Command, Error> {
        let since = Instant::now();
        let cell = self.cell(row.key).await?;
        // What is sent belongs to the attempt that sends it, whatever trace the commit before it was made in.
        let performed = cell.lock().map(|ahead| {
            let own = trace::of_attempt(&ahead.run, &row.task);
            (ahead.run.perform_task(&row.task), own, ahead.run.head().next)
        });
        let Some((performed, own, next)) = performed else {
            // A commit failed meanwhile; the next try reads the run again.
            self.hot.remove(&cell);
            return Err(Error::Contended);
        };
        // A task that began here moments ago is known here. What is known of others may be old.
        let doubtful = self.store.cluster().is_some() && (performed.is_none() || row.retaken);
        if doubtful && !self.confirm(&cell, next, since).await? {
            self.hot.remove(&cell);
            return Err(Error::Contended);
        }
        let Some(performance) = performed else {
            return Err(abide_core::Rejection::NoSuchTask.into());
        };
        drop(cell);
        let outcome = match performance {
            Performance::Model(call) => return self.call_model(row, &call).await,
            Performance::Done(done) => done.map_err(final_failure),
            // Whether it may be sent again is decided like any other failure: whoever had it may have sent it.
            Performance::Http(_) if row.retaken => Err(outcome_unknown(&row.task.node)),
            Performance::Http(request) => self.request(row, &request, own.as_ref()).await?,
        };
        Ok(Command::Report(Report { task: row.task.clone(), outcome }))
    }

    async fn report(self: &Arc<Self>, row: &TaskRow, command: &Command) -> Result<(), Error> {
        self.pass(Window::EffectReport);
        let basis = Basis { fence: Some(row.fence), ..Basis::default() };
        // After a kill there may be thousands of them, and nobody waits for one.
        let lane = if row.retaken { Lane::Background } else { Lane::Interactive };
        self.decide(row.key, command, lane, basis, |_| ()).await
    }
}

impl Shell {
    /// Sends a node's request, with the values of its secrets.
    async fn request(
        &self,
        row: &TaskRow,
        request: &HttpRequest,
        trace: Option<&Trace>,
    ) -> Result<Result<Product, TaskFailure>, Error> {
        let http = match &self.http {
            Ok(http) => http,
            Err(reason) => {
                let message = format!("this server can't send requests: {reason}");
                return Ok(Err(final_failure(Failure::new("http_unavailable", message))));
            }
        };
        let mut values = HashMap::new();
        for name in names_in(request) {
            if let Some(value) = self.secrets.get(row.key.tenant, &name).await? {
                values.insert(name, value);
            }
        }
        let look_up = |name: &str| values.get(name).cloned();
        let performed = http.perform(request, &look_up, trace);
        Ok(performed.await.map(|outputs| Product::of(Some(outputs))))
    }
}

/// A failure that another attempt would only repeat.
fn final_failure(failure: Failure) -> TaskFailure {
    TaskFailure { failure, retryable: false, reached: Reached::No, class: InterruptionClass::ToolFailure }
}

/// The server that had the task died before it told how it ended.
fn outcome_unknown(node: &str) -> TaskFailure {
    let message = format!(
        "the server stopped while node '{node}' was being executed, so nobody knows whether its request was carried \
         out"
    );
    TaskFailure {
        failure: Failure::new("outcome_unknown", message),
        retryable: true,
        reached: Reached::Maybe,
        class: InterruptionClass::ProcessCrash,
    }
}

/// Claims what lies on disk unleased, for as long as the engine lives.
pub(crate) async fn run(shell: Arc<Shell>) {
    loop {
        if !shell.executor.backlog.swap(false, Ordering::AcqRel) || shell.is_draining() {
            shell.executor.wake.notified().await;
            continue;
        }
        let Ok(mut places) = shell.executor.places.clone().acquire_owned().await else {
            return;
        };
        while places.num_permits() < limits::CLAIM_TASKS_MAX {
            let Ok(more) = shell.executor.places.clone().try_acquire_owned() else {
                break;
            };
            places.merge(more);
        }
        match shell.store.claim_tasks(shell.store.boot(), places.num_permits()).await {
            Ok(rows) => begin(&shell, rows, places),
            Err(error) => {
                tracing::error!(%error, "tasks can't be claimed; trying again");
                shell.executor.backlog.store(true, Ordering::Release);
                rest().await;
            }
        }
    }
}

fn begin(shell: &Arc<Shell>, rows: Vec<TaskRow>, mut places: OwnedSemaphorePermit) {
    if rows.len() == places.num_permits() {
        shell.executor.backlog.store(true, Ordering::Release);
    }
    for row in rows {
        if let Some(place) = places.split(1) {
            shell.execute(row, place);
        }
    }
}
