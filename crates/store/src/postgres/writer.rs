//! The writer: merges what waits into one transaction, while other servers write theirs.
//!
//! A batch takes three round trips. The first moves the ends of the journals, in the order of their keys, so that two
//! servers never wait for each other in a circle; a commit that is stale moves nothing and drops out. The second sends all
//! that is left of all the others, in the order in which they came, without waiting in between. The third commits. If the answer to that is lost, the batch
//! is written once more: what was kept shows as stale then, and is known by the hash of its last event.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use tokio_postgres::{Client, Row, RowStream, Statement as Prepared};

use super::events::{APPEND_ALL, Events};
use super::pool::{PATIENCE, Pool, Tries};
use super::session::{BEGIN, Fault, Session};
use crate::answers::{Answers, Counters};
use crate::db::{COMMITS, Connection, Fault as DbFault, Optional, Value};
use crate::queue::Queue;
use crate::sealing::Sealing;
use crate::sql::{APPEND, ARM, Otherwise, SEND, Statement, plan};
use crate::store::Counts;
use crate::tables::deliveries::Wanted;
use crate::{Commit, Done, Error, Stage, StageHook, WebhookKey};

/// A commit, boxed: the queue moves jobs about.
pub(super) type Job = (Box<Commit>, Done);

/// The setting that counts changes of what webhooks want.
pub(super) const WANTED: &str = "wanted";

/// For how long the server that arms a timer, or sends a message, sees to it alone once it is due.
const HELD_MS: i64 = 3_000;

/// Timers that are due within this time are seen to by the server that armed them.
pub(super) const NEAR_MS: i64 = 60_000;

/// How long a batch that may have been kept is looked for. Nothing else can be written meanwhile.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(300);

pub(super) struct Writer {
    pub(super) pool: Arc<Pool>,
    pub(super) session: Option<Session>,
    pub(super) queue: Arc<Queue<Job>>,
    pub(super) answers: mpsc::Sender<Answers>,
    pub(super) counters: Arc<Counters>,
    pub(super) wanted: Arc<Wanted>,
    /// Which count of changes `wanted` is as of.
    pub(super) known: i64,
    pub(super) sealing: Sealing,
    pub(super) on_stage: Option<StageHook>,
}

/// Why a transaction was not kept.
enum Undo {
    /// These must drop out, for these reasons, before the others can be written.
    Drop(Vec<(usize, Error)>),
    /// One of them is at fault, which only shows when the others are apart from it.
    Isolate(Error),
    /// Nothing was kept, and it may go through when it is tried again.
    Again(String),
    /// The answer to the commit was lost.
    Unknown(String),
    /// It won't go through.
    Fail(Error),
}

impl From<Fault> for Undo {
    fn from(error: Fault) -> Self {
        match error {
            Fault::Lost(reason) | Fault::Again(reason) => Self::Again(reason),
            Fault::Own(reason) => Self::Isolate(Error::Failed(reason)),
            Fault::Failed(reason) => Self::Fail(Error::Failed(reason)),
        }
    }
}

impl From<DbFault> for Undo {
    fn from(error: DbFault) -> Self {
        match error {
            DbFault::Postgres(error) => error.into(),
            other => Self::Fail(Error::Failed(other.to_string())),
        }
    }
}

type Results = Vec<Result<(), Error>>;

impl Writer {
    /// Writes until the queue is closed and empty.
    pub(super) fn run(mut self) {
        while let Some(batch) = self.queue.take() {
            let (commits, dones): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let results = self.write(&commits);
            if let Some(hook) = &self.on_stage {
                hook(Stage::Committed);
            }
            // The answering thread outlives this one; if it is gone, so is everyone who waits.
            let _ = self.answers.send(dones.into_iter().zip(results).collect());
        }
    }

    /// Writes a batch, however often that takes.
    fn write(&mut self, commits: &[Box<Commit>]) -> Results {
        let mut results: Vec<Option<Result<(), Error>>> = vec![None; commits.len()];
        self.write_some(commits, (0..commits.len()).collect(), &mut results);
        results.into_iter().map(|result| result.unwrap_or(Err(Error::Closed))).collect()
    }

    fn write_some(
        &mut self,
        commits: &[Box<Commit>],
        mut left: Vec<usize>,
        results: &mut [Option<Result<(), Error>>],
    ) {
        let (mut tries, mut unknown) = (Tries::begin(PATIENCE), false);
        while !left.is_empty() {
            let batch: Vec<&Commit> = left.iter().map(|ix| &*commits[*ix]).collect();
            match self.transact(&batch, unknown) {
                Ok(written) => {
                    left.drain(..).zip(written).for_each(|(ix, result)| results[ix] = Some(result));
                }
                Err(Undo::Drop(out)) => {
                    for (at, error) in out.into_iter().rev() {
                        results[left.remove(at)] = Some(Err(error));
                    }
                }
                Err(Undo::Isolate(error)) if left.len() == 1 => results[left.remove(0)] = Some(Err(error)),
                Err(Undo::Isolate(_)) => {
                    left.drain(..).for_each(|ix| self.write_some(commits, vec![ix], results));
                }
                Err(Undo::Unknown(reason)) => {
                    tracing::warn!(reason, "the answer to a commit was lost; looking whether it was kept");
                    (tries, unknown) = (Tries::begin(UNKNOWN_PATIENCE), true);
                }
                Err(Undo::Again(_)) if tries.rest() => {}
                Err(Undo::Again(reason)) => {
                    let error = match unknown {
                        true => Error::Failed(format!("nobody can say whether it was kept: {reason}")),
                        false => Error::Unavailable(reason),
                    };
                    left.drain(..).for_each(|ix| results[ix] = Some(Err(error.clone())));
                }
                Err(Undo::Fail(error)) => {
                    left.drain(..).for_each(|ix| results[ix] = Some(Err(error.clone())));
                }
            }
        }
    }

    /// One transaction, on a connection that is made if there is none.
    fn transact(&mut self, commits: &[&Commit], unknown: bool) -> Result<Results, Undo> {
        let session = match self.session.take().filter(Session::is_sound) {
            Some(session) => session,
            None => self.pool.connect().map_err(Undo::from)?,
        };
        let written = self.transact_on(&session, commits, unknown);
        if !matches!(written, Ok(_) | Err(Undo::Unknown(_))) {
            session.roll_back();
        }
        self.session = Some(session);
        written
    }

    fn transact_on(
        &mut self,
        session: &Session,
        commits: &[&Commit],
        unknown: bool,
    ) -> Result<Results, Undo> {
        let plans = commits.iter().map(|commit| self.plan(commit));
        let plans: Vec<Vec<Statement<'_>>> = plans.collect::<Result<_, _>>().map_err(Undo::Isolate)?;
        let moved = self.begin(session, commits, &plans)?;
        let mut results = Vec::with_capacity(commits.len());
        for (commit, moved) in commits.iter().zip(&moved) {
            results.push(if *moved || (unknown && is_kept(session, commit)?) {
                Ok(())
            } else {
                Err(Error::Stale)
            });
        }
        let there = moved.iter().filter(|moved| **moved).count();
        if there == 0 {
            session.roll_back();
            return Ok(results);
        }
        let written = self.finish(session, commits, &plans, &moved)?;
        if let Some(hook) = &self.on_stage {
            hook(Stage::Committing);
        }
        session.commit().map_err(|error| match error {
            Fault::Lost(reason) => Undo::Unknown(reason),
            error => error.into(),
        })?;
        let (rows, matched) = (written.rows + there as u64, written.matched);
        self.counters.add(Counts { commits: there as u64, transactions: 1, rows, matched });
        self.wanted.news.tell(written.made);
        Ok(results)
    }

    /// The statements of a commit, each with who sees to what it arms and sends.
    fn plan<'a>(&self, commit: &'a Commit) -> Result<Vec<Statement<'a>>, Error> {
        let now = commit.records.last().map_or(0, |record| record.at);
        let mut plan = plan(commit, &self.sealing)?;
        for statement in &mut plan {
            let held = match (statement.sql, statement.values.first()) {
                (ARM, Some(Value::Int(due))) if commit.held && *due < now + NEAR_MS => Some((ARM_HELD, *due)),
                (SEND, _) if commit.held => Some((SEND_HELD, now)),
                _ => None,
            };
            if let Some((sql, from)) = held {
                statement.sql = sql;
                statement.values.push(Value::Int(from + HELD_MS));
            }
        }
        Ok(plan)
    }

    /// Begins a transaction and moves the ends of the journals: the first statement of each plan.
    fn begin(
        &mut self,
        session: &Session,
        commits: &[&Commit],
        plans: &[Vec<Statement<'_>>],
    ) -> Result<Vec<bool>, Undo> {
        let lock = session.prepare("SELECT pg_advisory_xact_lock_shared($1) IS NULL")?;
        let count = session.prepare("SELECT value FROM settings WHERE name = $1")?;
        let mut order: Vec<usize> = (0..commits.len()).collect();
        // Stable, so that those of one run stay in the order in which they were decided.
        order.sort_by_key(|at| commits[*at].key);
        let heads: Vec<&Statement<'_>> = order.iter().filter_map(|at| plans[*at].first()).collect();
        let prepared = prepare(session, &heads)?;
        session.open();
        let client = session.client();
        let (lock_on, named) = ([Value::Int(COMMITS)], [Value::Text(WANTED.into())]);
        let (begun, locked, known, moved) = session.wait(async {
            let all = heads.iter().zip(&prepared);
            let all =
                join_all(all.map(|(statement, prepared)| client.execute_raw(prepared, &statement.values)));
            let (begun, locked, known, moved) = tokio::join!(
                biased;
                client.batch_execute(BEGIN),
                client.execute_raw(&lock, &lock_on),
                client.query_raw(&count, &named),
                all
            );
            Ok((begun, locked, known, moved))
        })?;
        begun.and(locked.map(drop)).map_err(Fault::from)?;
        let known = known.map_err(Fault::from)?;
        let rows = moved.into_iter().collect::<Result<Vec<u64>, _>>().map_err(Fault::from)?;
        self.learn(session, known)?;
        let mut moved = vec![false; commits.len()];
        order.into_iter().zip(rows).for_each(|(at, rows)| moved[at] = rows > 0);
        Ok(moved)
    }

    /// Reads anew what webhooks want, if that has changed on any server.
    fn learn(&mut self, session: &Session, count: RowStream) -> Result<(), Undo> {
        let rows: Vec<Row> = session.wait(count.try_collect())?;
        let count: i64 = rows.first().map_or(0, |row| row.get(0));
        if count != self.known {
            self.wanted.read_all(Connection::Postgres(session))?;
            self.known = count;
        }
        Ok(())
    }

    /// Sends all other statements of those whose journals have moved, and waits for all their answers.
    fn finish(
        &self,
        session: &Session,
        commits: &[&Commit],
        plans: &[Vec<Statement<'_>>],
        moved: &[bool],
    ) -> Result<Written, Undo> {
        let there = || moved.iter().enumerate().filter(|(_, moved)| **moved).map(|(at, _)| at);
        let all: Vec<(usize, &Statement<'_>)> =
            there().flat_map(|at| plans[at].iter().skip(1).map(move |statement| (at, statement))).collect();
        // Events are most of what is written, so all of a batch's go in one statement.
        let (events, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, statement)| statement.sql == APPEND);
        let events = Events::of(events.iter().map(|(_, statement)| &*statement.values));
        let statements: Vec<&Statement<'_>> = rest.iter().map(|(_, statement)| *statement).collect();
        let prepared = prepare(session, &statements)?;
        let (append, enqueue) = (session.prepare(APPEND_ALL)?, session.prepare(ENQUEUE_LOCKED)?);
        let wanted: Vec<&Commit> =
            there().map(|at| commits[at]).filter(|commit| self.wanted.wants(commit)).collect();
        let named: Vec<[Value<'_>; 3]> = wanted.iter().map(|commit| first_of(commit)).collect();
        let client = session.client();
        let columns = events.columns();
        let (appended, written, told) = session.wait(async {
            let all = statements.iter().zip(&prepared);
            let all =
                join_all(all.map(|(statement, prepared)| client.execute_raw(prepared, &statement.values)));
            let told = join_all(named.iter().map(|named| rows(client, &enqueue, named)));
            Ok(tokio::join!(biased; client.execute(&append, &columns), all, told))
        })?;
        let appended = appended.map_err(Fault::from)?;
        let written = written.into_iter().collect::<Result<Vec<u64>, _>>().map_err(Fault::from)?;
        let out = refused(&rest, &written);
        if !out.is_empty() {
            return Err(Undo::Drop(surely(out, commits)));
        }
        let mut made = Vec::new();
        for (commit, told) in wanted.iter().zip(told) {
            let told = told.map_err(Fault::from)?;
            let fresh = told.iter().filter(|row| row.get(1));
            made.extend(
                fresh.map(|row| WebhookKey { tenant: commit.key.tenant, id: row.get::<_, String>(0).into() }),
            );
        }
        let rows = appended + written.iter().sum::<u64>() + made.len() as u64;
        Ok(Written { rows, matched: wanted.len() as u64, made })
    }
}

/// What a batch has written beside the ends of its journals.
struct Written {
    rows: u64,
    /// For how many commits it was looked up who wants to hear of them.
    matched: u64,
    /// Who had nothing on its way before.
    made: Vec<WebhookKey>,
}

/// Which commits were refused, and why: by the first of their statements that wrote nothing and should have.
fn refused(statements: &[(usize, &Statement<'_>)], written: &[u64]) -> Vec<(usize, Error)> {
    let mut out: Vec<(usize, Error)> = Vec::new();
    for ((at, statement), written) in statements.iter().zip(written) {
        if let (0, Some(error)) = (*written, refusal(statement.otherwise))
            && out.last().is_none_or(|(last, _)| last != at)
        {
            out.push((*at, error));
        }
    }
    out
}

/// What must drop out for sure. One may only seem to be refused because of another that drops out itself and got in its
/// way: of the same run, or under the same receipt, scope or name. Such a one shows in the next round.
fn surely(out: Vec<(usize, Error)>, commits: &[&Commit]) -> Vec<(usize, Error)> {
    let mut sure: Vec<(usize, Error)> = Vec::new();
    for (at, error) in out {
        let this = commits[at];
        let by_name = matches!(error, Error::Receipted | Error::Claimed | Error::Taken | Error::Raced);
        let in_its_way = |other: &Commit| {
            other.key == this.key
                || (by_name
                    && other.key.tenant == this.key.tenant
                    && (other.receipt.is_some()
                        || other.claim.is_some()
                        || other.circle.is_some()
                        || takes_names(other)))
        };
        if !sure.iter().any(|(other, _)| in_its_way(commits[*other])) {
            sure.push((at, error));
        }
    }
    sure
}

fn takes_names(commit: &Commit) -> bool {
    commit.effects.iter().any(|effect| matches!(effect, abide_core::Effect::TakeName(_)))
}

/// Arms a timer that this server sees to.
const ARM_HELD: &str = "INSERT INTO timers (due, tenant, id, timer, held_until) VALUES ($1, $2, $3, $4, $5)";

/// Sends a message that this server delivers.
const SEND_HELD: &str = "INSERT INTO outbox (tenant, sender, seq, receiver, type, version, message, held_until) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

/// Like [`ENQUEUE`], but it takes hold of a delivery that is on its way, so that whoever ends that one sees this event, or
/// is waited for. A row that was there is told apart by its having been changed.
const ENQUEUE_LOCKED: &str = "WITH fresh AS \
    (SELECT tenant, id, seq, at, type FROM events WHERE tenant = $1 AND id = $2 AND seq >= $3) \
    INSERT INTO deliveries AS d (tenant, webhook, run, seq, due, attempts) \
    SELECT e.tenant, t.webhook, e.id, min(e.seq), min(e.at), 0 \
    FROM fresh e JOIN webhook_types t ON t.tenant = e.tenant AND t.type = e.type \
    GROUP BY e.tenant, t.webhook, e.id \
    UNION ALL SELECT e.tenant, r.webhook, e.id, min(e.seq), min(e.at), 0 \
    FROM fresh e JOIN webhook_runs r ON r.tenant = e.tenant AND r.run = e.id \
    GROUP BY e.tenant, r.webhook, e.id \
    ON CONFLICT (tenant, webhook, run) DO UPDATE SET due = d.due RETURNING webhook, xmax = 0";

fn first_of(commit: &Commit) -> [Value<'_>; 3] {
    let next = Value::Int((commit.base.next + commit.untold) as i64);
    [Value::Int(commit.key.tenant.0.into()), Value::Blob(commit.key.id.as_bytes()[..].into()), next]
}

async fn rows(
    client: &Client,
    statement: &Prepared,
    values: &[Value<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    client.query_raw(statement, values).await?.try_collect().await
}

fn refusal(otherwise: Otherwise) -> Option<Error> {
    match otherwise {
        Otherwise::Fine => None,
        Otherwise::Stale => Some(Error::Stale),
        Otherwise::Fenced => Some(Error::Fenced),
        Otherwise::Delivered => Some(Error::Delivered),
        Otherwise::Receipted => Some(Error::Receipted),
        Otherwise::Claimed => Some(Error::Claimed),
        Otherwise::Taken => Some(Error::Taken),
        Otherwise::Raced => Some(Error::Raced),
    }
}

/// Prepares what was not, before anything is sent that waits for it.
fn prepare(session: &Session, statements: &[&Statement<'_>]) -> Result<Vec<Prepared>, Undo> {
    let prepared = statements.iter().map(|statement| session.prepare(statement.sql));
    Ok(prepared.collect::<Result<_, _>>()?)
}

/// Whether the last event of a commit stands where it should.
fn is_kept(session: &Session, commit: &Commit) -> Result<bool, Undo> {
    let Some(last) = commit.records.last() else { return Ok(false) };
    let sql = "SELECT 1 FROM events WHERE tenant = $1 AND id = $2 AND seq = $3 AND chain = $4";
    let named = (commit.key.tenant.0, commit.key.id.as_bytes(), last.sequence, last.chain);
    Ok(Connection::Postgres(session).query_row(sql, named, |_| Ok(())).optional()?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::ENQUEUE;

    #[test]
    fn the_statements_of_this_engine_are_the_shared_ones_with_one_thing_more() {
        let columns = |sql: &str| sql.split_once('(').unwrap().1.split_once(')').unwrap().0.to_owned();
        assert_eq!(columns(ARM_HELD), format!("{}, held_until", columns(ARM)));
        assert_eq!(columns(SEND_HELD), format!("{}, held_until", columns(SEND)));
        let shared = ENQUEUE.replace("deliveries (", "deliveries AS d (");
        let until = shared.find("DO NOTHING").unwrap();
        assert!(ENQUEUE_LOCKED.starts_with(&shared[..until]));
    }
}
