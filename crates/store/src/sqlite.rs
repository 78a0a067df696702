//! The embedded engine: one SQLite file, one writer thread, a few readers.
//!
//! WAL with `synchronous=FULL`: a commit is one append to the log and one fsync, shared by everything that
//! was waiting. Nothing is polled, and readers never block the writer.

mod access;
mod admin;
mod agents;
mod annotations;
mod audit;
mod audit_log;
mod backup;
mod deliveries;
mod erase;
mod external;
mod inbox;
mod migrate;
mod notices;
mod open;
mod providers;
mod queue;
mod reader;
mod receipts;
mod retention;
mod secrets;
mod truncate;
mod webhooks;
mod work;
mod workflows;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_core::{Hash, Key, Millis, Record, RunId, TenantId};
use tokio::sync::oneshot;

pub use backup::{BackupFacts, Held};
pub use open::{SqliteOptions, Stage, StageHook, Synchronous};

use crate::audit_log::AuditLog;
use crate::external::{Callbacks, ExternalEvents};
use crate::inbox::Inbox;
use crate::notices::{Agents, Notices};
use crate::providers::Providers;
use crate::retention::Retention;
use crate::store::{Answer, Counts, ListQuery, Store};
use crate::truncation::{Outline, Truncated, Truncation};
use crate::webhooks::Webhooks;
use crate::work::Work;
use crate::{
    Annotated, Annotations, ApiKey, Beside, ChildRow, Commit, Done, Erased, Erasure, Error, Expected, Lane,
    Listed, Loaded, MessageRef, MessageRow, NewAnnotation, NewWorkflow, Note, Person, Receipt, Sealing,
    SecretRow, TaskRow, TimerRow, Totals, WorkflowVersion,
};
use erase::Progress;
use queue::{Job, Queue};
use reader::Readers;

/// How often an erasure tries again to cut the log, and how long it rests in between.
const CUT_ATTEMPTS_MAX: usize = 10;
const CUT_REST: Duration = Duration::from_millis(100);

/// A data directory with a SQLite file in it.
pub struct Sqlite {
    file: PathBuf,
    boot: u64,
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    counts: Arc<writer::Counters>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// Whether the log may hold what was erased. A process that died may have left it so.
    uncut: Arc<AtomicBool>,
    /// What webhooks want to hear of.
    wanted: Arc<deliveries::Wanted>,
    /// Which events may be kept for somebody.
    kept: external::KeptTypes,
    /// How what is never shown is kept.
    sealing: Sealing,
    /// Held for as long as the directory is ours.
    _lock: Option<std::fs::File>,
}

impl Sqlite {
    /// The database file.
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&rusqlite::Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Answer<'_, T> {
        let readers = self.readers.clone();
        Box::pin(async move { readers.run(job).await })
    }

    /// Runs a rare write in a transaction of its own, in line with the commits.
    fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Answer<'_, T> {
        self.write_in(Lane::Interactive, job)
    }

    /// The same, as urgently as it is.
    fn write_in<T: Send + 'static>(
        &self,
        lane: Lane,
        job: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Answer<'_, T> {
        self.on_writer_in(lane, |connection| writer::in_transaction(connection, job))
    }

    /// Runs a job on the writer's connection, in line with the commits.
    fn on_writer<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut rusqlite::Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Answer<'_, T> {
        self.on_writer_in(Lane::Interactive, job)
    }

    fn on_writer_in<T: Send + 'static>(
        &self,
        lane: Lane,
        job: impl FnOnce(&mut rusqlite::Connection) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Answer<'_, T> {
        let (answer, answered) = oneshot::channel();
        let file = self.file.clone();
        let run = move |connection: &mut rusqlite::Connection| {
            let result = job(connection).map_err(|error| open::explain(&file, &error));
            // A caller that went away does not need the answer.
            let _ = answer.send(result);
        };
        // A closed queue drops the job and with it the sender, which is answered below.
        let _ = self.queue.push(Job::Write(Box::new(run)), lane);
        Box::pin(async move { answered.await.unwrap_or(Err(Error::Closed)) })
    }

    /// Tries again to cut the log, until whoever reads what was before has gone on.
    async fn cut_log(&self) -> Result<(), Error> {
        for _ in 0..CUT_ATTEMPTS_MAX {
            tokio::time::sleep(CUT_REST).await;
            let uncut = self.uncut.clone();
            if self.on_writer(move |connection| cut_once(connection, &uncut)).await? {
                return Ok(());
            }
        }
        tracing::warn!(
            "somebody reads the data as it was before an erasure, so the log still holds what was erased; \
             end that and erase again, or stop the server, which cuts the log"
        );
        Ok(())
    }

    /// Erases one page of a journal, and cuts the log if that was the last. Tells whether the log is cut.
    async fn erase_page(&self, key: Key, erasure: Erasure, from: u64) -> Result<(Progress, bool), Error> {
        let (uncut, sealing) = (self.uncut.clone(), self.sealing.clone());
        let page = self.on_writer(move |connection| {
            let progress = writer::in_transaction(connection, |transaction| {
                erase::erase_page(transaction, &sealing, key, &erasure, from)
            })?;
            let is_cut = match progress {
                Progress::Next(_) | Progress::Ended(Erased::Done { .. }) => {
                    uncut.store(true, Ordering::Relaxed);
                    matches!(progress, Progress::Next(_)) || cut_once(connection, &uncut)?
                }
                Progress::Ended(Erased::Already) => cut_once(connection, &uncut)?,
                Progress::Ended(Erased::NotFound | Erased::NotEnded) => true,
            };
            Ok((progress, is_cut))
        });
        page.await
    }

    /// Takes in no more, and gives the threads that write and answer what is queued.
    fn shut(&self) -> Vec<std::thread::JoinHandle<()>> {
        self.queue.close();
        std::mem::take(&mut *self.threads.lock().expect("no thread panics holding this"))
    }
}

/// Cuts the log, unless it was cut since the last erasure.
fn cut_once(connection: &rusqlite::Connection, uncut: &AtomicBool) -> Result<bool, rusqlite::Error> {
    let is_cut = !uncut.load(Ordering::Relaxed) || writer::cut_log(connection)?;
    uncut.store(!is_cut, Ordering::Relaxed);
    Ok(is_cut)
}

/// Waits for the store's threads. One that drops the store itself, in an answer, can't wait for itself.
fn join(threads: Vec<std::thread::JoinHandle<()>>) {
    let this = std::thread::current().id();
    for thread in threads.into_iter().filter(|thread| thread.thread().id() != this) {
        if thread.join().is_err() {
            tracing::error!("a store thread panicked");
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        join(self.shut());
    }
}

impl Store for Sqlite {
    fn submit(&self, commit: Commit, lane: Lane, done: Done) -> Result<(), Done> {
        match self.queue.push(Job::Commit(Box::new(commit), done), lane) {
            Err(Job::Commit(_, done)) => Err(done),
            _ => Ok(()),
        }
    }

    fn load(&self, key: Key) -> Answer<'_, Option<Loaded>> {
        let sealing = self.sealing.clone();
        self.read(move |connection| reader::load(connection, &sealing, key))
    }

    fn head(&self, key: Key) -> Answer<'_, Option<Listed>> {
        self.read(move |connection| reader::head(connection, key))
    }

    fn journal(&self, key: Key, from: u64, limit: usize) -> Answer<'_, Vec<Record>> {
        let sealing = self.sealing.clone();
        self.read(move |connection| reader::journal(connection, &sealing, key, from, limit))
    }

    fn outline(&self, key: Key) -> Answer<'_, Option<Outline>> {
        let sealing = self.sealing.clone();
        self.read(move |connection| truncate::outline(connection, &sealing, key))
    }

    fn truncate(&self, truncation: Truncation) -> Answer<'_, Truncated> {
        let sealing = self.sealing.clone();
        self.write(move |transaction| truncate::truncate(transaction, &sealing, &truncation))
    }

    fn events_of_type(&self, key: Key, type_code: u16, from: u64, limit: usize) -> Answer<'_, Vec<Record>> {
        let sealing = self.sealing.clone();
        self.read(move |connection| reader::events_of_type(connection, &sealing, key, type_code, from, limit))
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Vec<Listed>> {
        self.read(move |connection| reader::list(connection, &query))
    }

    fn scan(&self, after: Option<Key>, limit: usize) -> Answer<'_, Vec<(Key, Result<Listed, String>)>> {
        self.read(move |connection| audit::scan(connection, after, limit))
    }

    fn beside(&self, key: Key, expected: Expected) -> Answer<'_, Beside> {
        let sealing = self.sealing.clone();
        self.read(move |connection| audit::beside(connection, &sealing, key, expected))
    }

    fn totals(&self) -> Answer<'_, Totals> {
        self.read(audit::totals)
    }

    fn blob(&self, tenant: TenantId, hash: Hash) -> Answer<'_, Option<Arc<[u8]>>> {
        self.read(move |connection| reader::blob(connection, tenant, &hash))
    }

    fn timers(&self, after: Option<TimerRow>, until: Millis, limit: usize) -> Answer<'_, Vec<TimerRow>> {
        self.read(move |connection| reader::timers(connection, after.as_ref(), until, limit))
    }

    fn claim_tasks(&self, boot: u64, limit: usize) -> Answer<'_, Vec<TaskRow>> {
        self.write(move |transaction| admin::claim_tasks(transaction, boot, limit))
    }

    fn outbox(&self, after: Option<MessageRef>, limit: usize) -> Answer<'_, Vec<MessageRow>> {
        let sealing = self.sealing.clone();
        self.read(move |connection| reader::outbox(connection, &sealing, after, limit))
    }

    fn discard(&self, messages: Vec<MessageRef>) -> Answer<'_, ()> {
        self.write(move |transaction| admin::discard(transaction, &messages))
    }

    fn heard(&self, receiver: Key, sender: RunId) -> Answer<'_, Option<u64>> {
        self.read(move |connection| reader::heard(connection, receiver, sender))
    }

    fn test_clock(&self) -> Answer<'_, Option<Millis>> {
        self.read(|connection| admin::setting(connection, admin::TEST_CLOCK))
    }

    fn set_test_clock(&self, to: Millis) -> Answer<'_, Millis> {
        self.write(move |transaction| admin::raise_setting(transaction, admin::TEST_CLOCK, to))
    }

    fn tenant(&self, name: String, create: bool) -> Answer<'_, Option<TenantId>> {
        if create {
            self.write(move |transaction| admin::make_tenant(transaction, &name))
        } else {
            self.read(move |connection| admin::tenant(connection, &name))
        }
    }

    fn tenants(&self) -> Answer<'_, Vec<(TenantId, String)>> {
        self.read(admin::tenants)
    }

    fn put_api_keys(&self, keys: Vec<ApiKey>) -> Answer<'_, ()> {
        self.write(move |transaction| access::put_api_keys(transaction, &keys))
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.read(access::api_keys)
    }

    fn revoke_api_key(&self, id: String, at: Millis) -> Answer<'_, bool> {
        self.write(move |transaction| access::revoke_api_key(transaction, &id, at))
    }

    fn forget_api_keys(&self, ids: Vec<String>) -> Answer<'_, ()> {
        self.write(move |transaction| access::forget_api_keys(transaction, &ids))
    }

    fn put_person(&self, person: Person) -> Answer<'_, ()> {
        self.write(move |transaction| access::put_person(transaction, &person))
    }

    fn person(&self, tenant: TenantId, principal: String) -> Answer<'_, Option<Person>> {
        self.read(move |connection| access::get_person(connection, tenant, &principal))
    }

    fn people(&self, tenant: TenantId, after: String, limit: usize) -> Answer<'_, Vec<Person>> {
        self.read(move |connection| access::list_people(connection, tenant, &after, limit))
    }

    fn delete_person(&self, tenant: TenantId, principal: String) -> Answer<'_, bool> {
        self.write(move |transaction| access::delete_person(transaction, tenant, &principal))
    }

    fn children(&self, parent: Key, limit: usize) -> Answer<'_, Vec<ChildRow>> {
        self.read(move |connection| reader::children(connection, parent, limit))
    }

    fn put_workflow(&self, new: NewWorkflow) -> Answer<'_, WorkflowVersion> {
        self.write(move |transaction| workflows::put(transaction, new))
    }

    fn workflow(
        &self,
        tenant: TenantId,
        id: String,
        version: Option<u32>,
    ) -> Answer<'_, Option<(WorkflowVersion, Arc<[u8]>)>> {
        self.read(move |connection| workflows::get(connection, tenant, &id, version))
    }

    fn workflows(&self, tenant: TenantId) -> Answer<'_, Vec<WorkflowVersion>> {
        self.read(move |connection| workflows::latest(connection, tenant))
    }

    fn workflow_versions(&self, tenant: TenantId, id: String) -> Answer<'_, Vec<WorkflowVersion>> {
        self.read(move |connection| workflows::versions(connection, tenant, &id, i64::MAX))
    }

    fn put_secret(&self, secret: SecretRow) -> Answer<'_, ()> {
        self.write(move |transaction| secrets::put(transaction, &secret))
    }

    fn secret(&self, tenant: TenantId, name: String) -> Answer<'_, Option<SecretRow>> {
        self.read(move |connection| secrets::get(connection, tenant, &name))
    }

    fn secrets(&self, tenant: TenantId) -> Answer<'_, Vec<SecretRow>> {
        self.read(move |connection| secrets::list(connection, tenant))
    }

    fn delete_secret(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        self.write(move |transaction| secrets::delete(transaction, tenant, &name))
    }

    fn receipt(&self, tenant: TenantId, endpoint: String, key: [u8; 32]) -> Answer<'_, Option<Receipt>> {
        self.read(move |connection| receipts::get(connection, tenant, &endpoint, &key))
    }

    fn put_receipt(&self, receipt: Receipt) -> Answer<'_, bool> {
        self.write(move |transaction| receipts::put(transaction, &receipt))
    }

    fn purge_receipts(&self, before: Millis, limit: usize) -> Answer<'_, usize> {
        self.write(move |transaction| receipts::purge(transaction, before, limit))
    }

    fn claimant(&self, tenant: TenantId, workflow: String, scope: String) -> Answer<'_, Option<RunId>> {
        self.read(move |connection| receipts::claimant(connection, tenant, &workflow, &scope))
    }

    fn erase(&self, key: Key, erasure: Erasure) -> Answer<'_, Erased> {
        Box::pin(async move {
            let mut from = 0;
            loop {
                match self.erase_page(key, erasure.clone(), from).await? {
                    (Progress::Next(next), _) => from = next,
                    (Progress::Ended(erased), is_cut) => {
                        if !is_cut {
                            self.cut_log().await?;
                        }
                        return Ok(erased);
                    }
                }
            }
        })
    }

    fn compact(&self) -> Answer<'_, ()> {
        let uncut = self.uncut.clone();
        let written = self.on_writer(move |connection| {
            uncut.store(true, Ordering::Relaxed);
            writer::compact(connection)?;
            cut_once(connection, &uncut)
        });
        Box::pin(async move { if written.await? { Ok(()) } else { self.cut_log().await } })
    }

    fn sealed_kids(&self) -> Answer<'_, Vec<u32>> {
        self.read(audit::sealed_kids)
    }

    fn notes(&self, key: Key) -> Answer<'_, Vec<Note>> {
        self.read(move |connection| erase::notes(connection, key))
    }

    fn retention(&self) -> &dyn Retention {
        self
    }

    fn webhooks(&self) -> &dyn Webhooks {
        self
    }

    fn inbox(&self) -> &dyn Inbox {
        self
    }

    fn audit_log(&self) -> &dyn AuditLog {
        self
    }

    fn external_events(&self) -> &dyn ExternalEvents {
        self
    }

    fn callbacks(&self) -> &dyn Callbacks {
        self
    }

    fn notices(&self) -> &dyn Notices {
        self
    }

    fn agents(&self) -> &dyn Agents {
        self
    }

    fn work(&self) -> &dyn Work {
        self
    }

    fn providers(&self) -> &dyn Providers {
        self
    }

    fn annotate(&self, annotation: NewAnnotation) -> Answer<'_, Annotated> {
        self.write(move |transaction| annotations::add(transaction, &annotation))
    }

    fn annotations(&self, key: Key, after: Option<u64>, limit: usize) -> Answer<'_, Annotations> {
        self.read(move |connection| annotations::page(connection, key, after, limit))
    }

    fn boot(&self) -> u64 {
        self.boot
    }

    fn counts(&self) -> Counts {
        self.counts.read()
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let threads = self.shut();
            let joined = tokio::task::spawn_blocking(|| join(threads)).await;
            joined.map_err(|error| Error::Failed(format!("the shutdown was cut off: {error}")))
        })
    }
}
