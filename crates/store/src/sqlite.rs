//! The embedded engine: one SQLite file, one writer thread, a few readers.
//!
//! WAL with `synchronous=FULL`: a commit is one append to the log and one fsync, shared by everything that
//! was waiting. Nothing is polled, and readers never block the writer.

mod backup;
pub(crate) mod migrate;
mod open;
mod readers;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_core::{Key, TenantId};
use tokio::sync::oneshot;

pub use backup::{BackupFacts, Held};
pub use open::{SqliteOptions, Stage, StageHook, Synchronous};

use crate::answers::{Counters, join};
use crate::db::{self, Connection};
use crate::queue::Queue;
use crate::store::{Answer, Counts};
use crate::tables::Database;
use crate::tables::deliveries::Wanted;
use crate::tables::erase::{self, Progress};
use crate::tables::external::KeptTypes;
use crate::{Commit, Done, Erased, Erasure, Error, Lane, Sealing};
use readers::Readers;
use writer::Job;

/// How often an erasure tries again to cut the log, and how long it rests in between.
const CUT_ATTEMPTS_MAX: usize = 10;
const CUT_REST: Duration = Duration::from_millis(100);

/// A data directory with a SQLite file in it.
pub struct Sqlite {
    file: PathBuf,
    boot: u64,
    queue: Arc<Queue<Job>>,
    readers: Arc<Readers>,
    counts: Arc<Counters>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    /// Whether the log may hold what was erased. A process that died may have left it so.
    uncut: Arc<AtomicBool>,
    /// What webhooks want to hear of.
    wanted: Arc<Wanted>,
    /// Which events may be kept for somebody.
    kept: KeptTypes,
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

    /// Runs a job on the writer's connection, in line with the commits.
    fn on_writer<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut rusqlite::Connection) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        self.on_writer_in(Lane::Interactive, job)
    }

    fn on_writer_in<T: Send + 'static>(
        &self,
        lane: Lane,
        job: impl FnOnce(&mut rusqlite::Connection) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let (answer, answered) = oneshot::channel();
        let file = self.file.clone();
        let run = move |connection: &mut rusqlite::Connection| {
            let result = job(connection).map_err(|error| open::explain(&file, error));
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

    /// Takes in no more, and gives the threads that write and answer what is queued.
    fn shut(&self) -> Vec<std::thread::JoinHandle<()>> {
        self.queue.close();
        std::mem::take(&mut *self.threads.lock().expect("no thread panics holding this"))
    }
}

/// Cuts the log, unless it was cut since the last erasure.
fn cut_once(connection: &rusqlite::Connection, uncut: &AtomicBool) -> db::Result<bool> {
    let is_cut = !uncut.load(Ordering::Relaxed) || writer::cut_log(connection)?;
    uncut.store(!is_cut, Ordering::Relaxed);
    Ok(is_cut)
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        join(self.shut());
    }
}

impl Database for Sqlite {
    fn read<T: Send + 'static>(
        &self,
        job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let readers = self.readers.clone();
        Box::pin(async move { readers.run(job).await })
    }

    fn write_in<T: Send + 'static>(
        &self,
        lane: Lane,
        job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        self.on_writer_in(lane, |connection| writer::in_transaction(connection, job))
    }

    fn write_wanted<T: Send + 'static>(
        &self,
        job: impl FnMut(Connection<'_>) -> db::Result<(T, Vec<TenantId>)> + Send + 'static,
    ) -> Answer<'_, T> {
        let wanted = self.wanted.clone();
        self.on_writer(move |connection| {
            let (changed, tenants) = writer::in_transaction(connection, job)?;
            tenants.into_iter().for_each(|tenant| wanted.refresh(Connection::Sqlite(connection), tenant));
            Ok(changed)
        })
    }

    /// The log is cut with the last page. If somebody holds it up, that is tried a few times more.
    fn erase_page(&self, key: Key, erasure: Erasure, from: u64) -> Answer<'_, Progress> {
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
        Box::pin(async move {
            let (progress, is_cut) = page.await?;
            if !is_cut {
                self.cut_log().await?;
            }
            Ok(progress)
        })
    }

    fn hand_in(&self, commit: Commit, lane: Lane, done: Done) -> Result<(), Done> {
        match self.queue.push(Job::Commit(Box::new(commit), done), lane) {
            Err(Job::Commit(_, done)) => Err(done),
            _ => Ok(()),
        }
    }

    fn write_anew(&self) -> Answer<'_, ()> {
        let uncut = self.uncut.clone();
        let written = self.on_writer(move |connection| {
            uncut.store(true, Ordering::Relaxed);
            writer::compact(connection)?;
            cut_once(connection, &uncut)
        });
        Box::pin(async move { if written.await? { Ok(()) } else { self.cut_log().await } })
    }

    fn shut_down(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let threads = self.shut();
            let joined = tokio::task::spawn_blocking(|| join(threads)).await;
            joined.map_err(|error| Error::Failed(format!("the shutdown was cut off: {error}")))
        })
    }

    fn start_number(&self) -> u64 {
        self.boot
    }

    fn written(&self) -> Counts {
        self.counts.read()
    }

    fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    fn wanted(&self) -> &Arc<Wanted> {
        &self.wanted
    }

    fn kept(&self) -> &KeptTypes {
        &self.kept
    }
}
