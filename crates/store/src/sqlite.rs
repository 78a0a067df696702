//! The embedded engine: one SQLite file, one writer thread, a few readers.
//!
//! WAL with `synchronous=FULL`: a commit is one append to the log and one fsync, shared by everything that
//! was waiting. Nothing is polled, and readers never block the writer.

mod admin;
mod audit;
mod migrate;
mod open;
mod queue;
mod reader;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use abide_core::{Hash, Key, Millis, Record, RunId, TenantId};
use tokio::sync::oneshot;

pub use open::{SqliteOptions, Stage, StageHook, Synchronous};

use crate::store::{Answer, Counts, ListQuery, Store};
use crate::{
    ApiKey, Beside, Commit, Done, Error, Lane, Listed, Loaded, MessageRef, MessageRow, TaskRow, TimerRow,
    Totals,
};
use queue::{Job, Queue};
use reader::Readers;

/// A data directory with a SQLite file in it.
pub struct Sqlite {
    file: PathBuf,
    boot: u64,
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    counts: Arc<writer::Counters>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
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
        let (answer, answered) = oneshot::channel();
        let file = self.file.clone();
        let run = move |connection: &mut rusqlite::Connection| {
            let result =
                writer::in_transaction(connection, job).map_err(|error| open::explain(&file, &error));
            // A caller that went away does not need the answer.
            let _ = answer.send(result);
        };
        // A closed queue drops the job and with it the sender, which is answered below.
        let _ = self.queue.push(Job::Write(Box::new(run)), Lane::Interactive);
        Box::pin(async move { answered.await.unwrap_or(Err(Error::Closed)) })
    }

    /// Takes in no more, and gives the threads that write and answer what is queued.
    fn shut(&self) -> Vec<std::thread::JoinHandle<()>> {
        self.queue.close();
        std::mem::take(&mut *self.threads.lock().expect("no thread panics holding this"))
    }
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
        self.read(move |connection| reader::load(connection, key))
    }

    fn head(&self, key: Key) -> Answer<'_, Option<Listed>> {
        self.read(move |connection| reader::head(connection, key))
    }

    fn journal(&self, key: Key, from: u64, limit: usize) -> Answer<'_, Vec<Record>> {
        self.read(move |connection| reader::journal(connection, key, from, limit))
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Vec<Listed>> {
        self.read(move |connection| reader::list(connection, &query))
    }

    fn scan(&self, after: Option<Key>, limit: usize) -> Answer<'_, Vec<(Key, Result<Listed, String>)>> {
        self.read(move |connection| audit::scan(connection, after, limit))
    }

    fn beside(&self, key: Key, expected: Vec<TimerRow>) -> Answer<'_, Beside> {
        self.read(move |connection| audit::beside(connection, key, expected))
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
        self.read(move |connection| reader::outbox(connection, after, limit))
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

    fn put_api_key(&self, key: ApiKey) -> Answer<'_, ()> {
        self.write(move |transaction| admin::put_api_key(transaction, &key))
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.read(admin::api_keys)
    }

    fn revoke_api_key(&self, id: String, at: Millis) -> Answer<'_, bool> {
        self.write(move |transaction| admin::revoke_api_key(transaction, &id, at))
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
