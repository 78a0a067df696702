//! The writer: merges what waits into one transaction, syncs once, answers each.
//!
//! Answers are given from a second thread, so that the next batch is being written meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::open::{BUSY_PATIENCE, Stage, StageHook, explain};
use crate::answers::{Answers, Counters};
use crate::db::{self, Fault};
use crate::queue::Queue;
use crate::sealing::Sealing;
use crate::sql::{Otherwise, execute, plan};
use crate::store::Counts;
use crate::tables::deliveries::{self, Wanted};
use crate::{Commit, Done, Error, WebhookKey};

/// How long the writer waits for readers that hold up the end of the log.
const CUT_PATIENCE: Duration = Duration::from_millis(100);

/// One thing for the writer to do.
pub(super) enum Job {
    /// A commit, boxed: the queue moves jobs about.
    Commit(Box<Commit>, Done),
    /// A rare write with a transaction of its own.
    Write(Box<dyn FnOnce(&mut Connection) + Send>),
}

pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue<Job>>,
    pub(super) answers: mpsc::Sender<Answers>,
    pub(super) counters: Arc<Counters>,
    pub(super) wanted: Arc<Wanted>,
    pub(super) file: PathBuf,
    pub(super) sealing: Sealing,
    pub(super) on_stage: Option<StageHook>,
    /// Webhooks that a durable event is now on its way to.
    pub(super) made: Vec<WebhookKey>,
}

/// Why a transaction with several commits can't be kept.
enum Undo {
    /// One of them must drop out, which only shows when the others are apart from it.
    Isolate(Error),
    /// The disk or the engine failed; trying again one by one would fail as well.
    Fail(Error),
}

impl Writer {
    /// Writes until the queue is closed and empty, then folds the log into the file.
    pub(super) fn run(mut self) {
        while let Some(batch) = self.queue.take() {
            self.write(batch);
        }
        // A reader that is held at one moment keeps the log; that is no reason to hold up the shutdown.
        if let Err(error) = cut_log(&self.connection) {
            tracing::warn!(%error, "the log was not folded into the file; the next start will do it");
        }
    }

    /// Commits that follow each other share a transaction; a rare write in between has its own.
    fn write(&mut self, batch: Vec<Job>) {
        let mut commits = Vec::with_capacity(batch.len());
        for job in batch {
            match job {
                Job::Commit(commit, done) => commits.push((commit, done)),
                Job::Write(job) => {
                    self.commit(std::mem::take(&mut commits));
                    job(&mut self.connection);
                }
            }
        }
        self.commit(commits);
    }

    fn commit(&mut self, commits: Vec<(Box<Commit>, Done)>) {
        if commits.is_empty() {
            return;
        }
        let (commits, dones): (Vec<_>, Vec<_>) = commits.into_iter().unzip();
        let results = match self.transact(&commits) {
            Ok(results) => results,
            Err(Undo::Fail(error)) => vec![Err(error); commits.len()],
            Err(Undo::Isolate(_)) => commits.chunks(1).map(|alone| self.transact_alone(alone)).collect(),
        };
        self.stage(Stage::Committed);
        self.wanted.news.tell(std::mem::take(&mut self.made));
        // The answering thread outlives this one; if it is gone, so is everyone who waits.
        let _ = self.answers.send(dones.into_iter().zip(results).collect());
    }

    fn transact_alone(&mut self, commit: &[Box<Commit>]) -> Result<(), Error> {
        match self.transact(commit) {
            Ok(mut results) => results.pop().unwrap_or(Err(Error::Closed)),
            Err(Undo::Isolate(error) | Undo::Fail(error)) => Err(error),
        }
    }

    /// One transaction. A stale commit writes nothing and drops out; anything else that goes wrong undoes all.
    fn transact(&mut self, commits: &[Box<Commit>]) -> Result<Vec<Result<(), Error>>, Undo> {
        let file = &self.file;
        let fail = |error: rusqlite::Error| Undo::Fail(explain(file, error));
        let transaction =
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate).map_err(fail)?;
        let (mut rows, mut matched) = (0, 0);
        let mut made = Vec::new();
        let mut results = Vec::with_capacity(commits.len());
        for commit in commits {
            results.push(match write_one(&transaction, commit, &self.sealing, file)? {
                0 => Err(Error::Stale),
                written => {
                    rows += written;
                    if self.wanted.wants(commit) {
                        let found = deliveries::enqueue(db::Connection::Sqlite(&transaction), commit);
                        let found = found.map_err(|error| undo(file, error))?;
                        (rows, matched) = (rows + found.len() as u64, matched + 1);
                        made.extend(found);
                    }
                    Ok(())
                }
            });
        }
        if let Some(hook) = &self.on_stage {
            hook(Stage::Committing);
        }
        transaction.commit().map_err(fail)?;
        let kept = results.iter().filter(|result| result.is_ok()).count() as u64;
        self.counters.add(Counts { commits: kept, transactions: 1, rows, matched });
        self.made.extend(made);
        Ok(results)
    }

    fn stage(&self, stage: Stage) {
        if let Some(hook) = &self.on_stage {
            hook(stage);
        }
    }
}

/// Writes one commit and counts its rows: none means that it was stale.
fn write_one(
    transaction: &Transaction<'_>,
    commit: &Commit,
    sealing: &Sealing,
    file: &std::path::Path,
) -> Result<u64, Undo> {
    let mut rows = 0;
    for statement in plan(commit, sealing).map_err(Undo::Isolate)? {
        let written =
            execute(db::Connection::Sqlite(transaction), &statement).map_err(|error| undo(file, error))?;
        match (written, statement.otherwise) {
            (0, Otherwise::Stale) => return Ok(0),
            (0, Otherwise::Fenced) => return Err(Undo::Isolate(Error::Fenced)),
            (0, Otherwise::Delivered) => return Err(Undo::Isolate(Error::Delivered)),
            (0, Otherwise::Receipted) => return Err(Undo::Isolate(Error::Receipted)),
            (0, Otherwise::Claimed) => return Err(Undo::Isolate(Error::Claimed)),
            (0, Otherwise::Taken) => return Err(Undo::Isolate(Error::Taken)),
            (0, Otherwise::Raced) => return Err(Undo::Isolate(Error::Raced)),
            _ => rows += written as u64,
        }
    }
    Ok(rows)
}

/// What is one commit's fault alone: a broken constraint, a value that is too big, a page of its run that can't be
/// read. Anything else (a full disk, a failed sync) is everybody's.
fn undo(file: &std::path::Path, error: Fault) -> Undo {
    use rusqlite::ErrorCode::{ConstraintViolation, DatabaseCorrupt, TooBig};
    let code = if let Fault::Sqlite(error) = &error { error.sqlite_error_code() } else { None };
    let explained = explain(file, error);
    let own = matches!(code, Some(ConstraintViolation | DatabaseCorrupt | TooBig));
    if own || matches!(explained, Error::Damaged { .. }) {
        Undo::Isolate(explained)
    } else {
        Undo::Fail(explained)
    }
}

/// Runs `job` in a transaction of its own and commits it.
pub(super) fn in_transaction<T>(
    connection: &mut Connection,
    job: impl FnOnce(db::Connection<'_>) -> db::Result<T>,
) -> db::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let result = job(db::Connection::Sqlite(&transaction))?;
    transaction.commit()?;
    Ok(result)
}

/// Folds the log into the file and leaves nothing of it. `false` if somebody reads what was before: whoever waits
/// for the writer is not kept waiting for that.
pub(super) fn cut_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(CUT_PATIENCE)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(BUSY_PATIENCE)?;
    Ok(!busy?)
}

/// Writes the whole file anew: SQLite overwrites what is deleted, but when it splits a page it may leave copies of
/// the rows that moved between those that stayed. The log has to be cut then.
pub(super) fn compact(connection: &Connection) -> rusqlite::Result<()> {
    // The copy may be larger than the memory.
    connection.pragma_update(None, "temp_store", "FILE")?;
    let vacuumed = connection.execute_batch("VACUUM");
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    vacuumed
}
