//! Deliveries on their way: made with the events that they carry, found when they are due, and settled.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, RwLock};

use crate::db::{self, Connection, Optional};
use abide_core::{Health, Millis, Record, RunId, TenantId, retry_after};

use super::reader::run_id;
use super::webhooks::{codes, place, row_of, tenant_name};
use crate::Commit;
use crate::sql::ENQUEUE;
use crate::webhooks::{
    Attempted, DEAD_LETTERS_MAX, DeliveryQuery, DeliveryRow, Due, LAST_ERROR_BYTES_MAX, Outcome, Waiting,
    WebhookKey, WebhookNews, WebhookRow,
};

/// Which event types anybody wants to hear of. The writer asks it at every commit, so that events of which nobody wants
/// to hear cost no statement.
#[derive(Default)]
pub(crate) struct Wanted {
    types: RwLock<HashMap<TenantId, Types>>,
    pub(crate) news: Arc<WebhookNews>,
}

/// The event types that a tenant's webhooks want.
enum Types {
    /// These, and whatever happens to these aggregates.
    These(HashSet<u16>, HashSet<RunId>),
    /// They could not be read. The table decides, at the cost of a statement for each commit.
    Unknown,
}

impl Wanted {
    /// Reads anew what a tenant's webhooks want, after that was changed. The change is on disk whether or not it can be
    /// read.
    pub(crate) fn refresh(&self, connection: Connection<'_>, tenant: TenantId) {
        if let Err(error) = self.read(connection, tenant) {
            tracing::error!(tenant = tenant.0, %error, "what webhooks want can't be read; every commit will ask");
            self.types.write().expect("no thread panics holding this").insert(tenant, Types::Unknown);
        }
    }

    /// Reads anew what a tenant's webhooks want.
    pub(crate) fn read(&self, connection: Connection<'_>, tenant: TenantId) -> db::Result<()> {
        let mut statement =
            connection.prepare_cached("SELECT DISTINCT type FROM webhook_types WHERE tenant = $1")?;
        let types: HashSet<u16> =
            statement.query_map([tenant.0], |row| row.get(0))?.collect::<db::Result<_>>()?;
        let mut statement =
            connection.prepare_cached("SELECT DISTINCT run FROM webhook_runs WHERE tenant = $1")?;
        let runs: HashSet<RunId> =
            statement.query_map([tenant.0], |row| run_id(row, 0))?.collect::<db::Result<_>>()?;
        let mut known = self.types.write().expect("no thread panics holding this");
        match types.is_empty() && runs.is_empty() {
            true => known.remove(&tenant),
            false => known.insert(tenant, Types::These(types, runs)),
        };
        Ok(())
    }

    /// Reads anew what the webhooks of all tenants want.
    pub(crate) fn read_all(&self, connection: Connection<'_>) -> db::Result<()> {
        let mut statement = connection
            .prepare_cached("SELECT tenant FROM webhook_types UNION SELECT tenant FROM webhook_runs")?;
        let tenants =
            statement.query_map((), |row| row.get(0).map(TenantId))?.collect::<db::Result<Vec<_>>>()?;
        self.types.write().expect("no thread panics holding this").clear();
        tenants.into_iter().for_each(|tenant| self.refresh(connection, tenant));
        Ok(())
    }

    /// Whether anybody wants to hear of this.
    pub(crate) fn wants(&self, commit: &Commit) -> bool {
        let known = self.types.read().expect("no thread panics holding this");
        match known.get(&commit.key.tenant) {
            None => false,
            Some(Types::These(types, runs)) => {
                let is_wanted = |record: &Record| types.contains(&record.type_code);
                told(commit).next().is_some() && runs.contains(&commit.key.id) || told(commit).any(is_wanted)
            }
            Some(Types::Unknown) => told(commit).next().is_some(),
        }
    }
}

/// The events of a commit that webhooks may hear of.
fn told(commit: &Commit) -> impl Iterator<Item = &Record> {
    commit.records.iter().skip(usize::try_from(commit.untold).unwrap_or(usize::MAX))
}

/// Makes the deliveries of a commit that is being written. The answer is whom there was nothing on its way to from this
/// run before.
pub(crate) fn enqueue(transaction: Connection<'_>, commit: &Commit) -> db::Result<Vec<WebhookKey>> {
    let tenant = commit.key.tenant;
    let mut statement = transaction.prepare_cached(ENQUEUE)?;
    let from = (commit.base.next + commit.untold) as i64;
    let rows = statement.query_map((tenant.0, commit.key.id.as_bytes(), from), |row| row.get(0))?;
    rows.map(|id: db::Result<String>| Ok(WebhookKey { tenant, id: id?.into() })).collect()
}

pub(crate) fn due(
    connection: Connection<'_>,
    key: &WebhookKey,
    now: Millis,
    limit: usize,
) -> db::Result<Option<Due>> {
    let Some(webhook) = row_of(connection, key)? else { return Ok(None) };
    let tenant = tenant_name(connection, key.tenant)?;
    let mut waiting = Vec::new();
    let mut next: Option<Millis> = None;
    for (table, again) in [("deliveries", false), ("dead_letters", true)] {
        let sql = format!(
            "SELECT run, seq, due FROM {table} WHERE tenant = $1 AND webhook = $2 AND due IS NOT NULL AND due <= $3 \
             ORDER BY due LIMIT $4"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let named = (key.tenant.0, &*key.id, now, limit as i64);
        for row in statement.query_map(named, |row| Ok((place(row, 0)?, row.get::<Millis>(2)?)))? {
            let ((run, sequence), due) = row?;
            waiting.push((due, Waiting { run, sequence, again }));
        }
        let sql = format!(
            "SELECT min(due) FROM {table} WHERE tenant = $1 AND webhook = $2 AND due IS NOT NULL AND due > $3"
        );
        let later: Option<Millis> =
            connection.prepare_cached(&sql)?.query_row((key.tenant.0, &*key.id, now), |row| row.get(0))?;
        next = next.into_iter().chain(later).min();
    }
    waiting.sort_by_key(|(due, _)| *due);
    let waiting = waiting.into_iter().map(|(_, delivery)| delivery).collect();
    Ok(Some(Due { webhook, tenant, waiting, next }))
}

/// Records how attempts ended. The answer is what follows each, and the tenants of webhooks that have failed.
pub(crate) fn settle_all(
    transaction: Connection<'_>,
    attempts: &[Attempted],
) -> db::Result<(Vec<Option<Waiting>>, Vec<TenantId>)> {
    let mut failed = HashSet::new();
    let mut settled = Vec::with_capacity(attempts.len());
    for attempt in attempts {
        let Some(mut webhook) = row_of(transaction, &attempt.webhook)? else {
            settled.push(None);
            continue;
        };
        let was_failed = webhook.health.failed;
        settled.push(settle(transaction, attempt, &mut webhook)?);
        put_health(transaction, &attempt.webhook, webhook.health)?;
        if webhook.health.failed && !was_failed {
            stop_listening(transaction, &attempt.webhook)?;
            failed.insert(attempt.webhook.tenant);
        }
    }
    Ok((settled, failed.into_iter().collect()))
}

fn settle(
    transaction: Connection<'_>,
    attempt: &Attempted,
    webhook: &mut WebhookRow,
) -> db::Result<Option<Waiting>> {
    let health = &mut webhook.health;
    match &attempt.outcome {
        Outcome::Arrived => {
            health.succeed();
            count(transaction, &attempt.webhook, "delivered", 1)?;
            leave(transaction, attempt, webhook)
        }
        Outcome::Unwanted => {
            forget(transaction, attempt)?;
            Ok(None)
        }
        Outcome::Passed => leave(transaction, attempt, webhook),
        Outcome::Unsendable { error } => {
            bury(transaction, attempt, None, error)?;
            leave_dead(transaction, attempt, webhook)
        }
        Outcome::Gone { status } => {
            health.give_up(attempt.at);
            retry(transaction, attempt, webhook, Some(*status), "the receiver is gone")
        }
        Outcome::Failed { status, error } => {
            health.fail(attempt.at);
            retry(transaction, attempt, webhook, *status, error)
        }
    }
}

/// Has a delivery wait for its next attempt, or gives it up.
fn retry(
    transaction: Connection<'_>,
    attempt: &Attempted,
    webhook: &WebhookRow,
    status: Option<u16>,
    error: &str,
) -> db::Result<Option<Waiting>> {
    let Some(attempts) = attempts_of(transaction, attempt)? else { return Ok(None) };
    let Some(wait) = retry_after(attempts + 1, &attempt.delivery.seed(&attempt.webhook)) else {
        bury(transaction, attempt, status, error)?;
        return leave_dead(transaction, attempt, webhook);
    };
    let sql = format!(
        "UPDATE {} SET due = $1, attempts = attempts + 1, last_at = $2, last_status = $3, last_error = $4 \
         WHERE tenant = $5 AND webhook = $6 AND run = $7 AND seq = $8",
        table(&attempt.delivery)
    );
    let (key, delivery) = (&attempt.webhook, &attempt.delivery);
    transaction.prepare_cached(&sql)?.execute((
        attempt.at.saturating_add(wait),
        attempt.at,
        status,
        excerpt(error),
        key.tenant.0,
        &*key.id,
        delivery.run.as_bytes(),
        delivery.sequence,
    ))?;
    Ok(None)
}

fn table(delivery: &Waiting) -> &'static str {
    if delivery.again { "dead_letters" } else { "deliveries" }
}

fn attempts_of(transaction: Connection<'_>, attempt: &Attempted) -> db::Result<Option<u32>> {
    let (key, delivery) = (&attempt.webhook, &attempt.delivery);
    let sql = format!(
        "SELECT attempts FROM {} WHERE tenant = $1 AND webhook = $2 AND run = $3 AND seq = $4 /* FOR UPDATE */",
        table(delivery)
    );
    transaction
        .prepare_cached(&sql)?
        .query_row((key.tenant.0, &*key.id, delivery.run.as_bytes(), delivery.sequence), |row| row.get(0))
        .optional()
}

/// Makes a delivery a dead letter; one that was sent once more is one again.
fn bury(
    transaction: Connection<'_>,
    attempt: &Attempted,
    status: Option<u16>,
    error: &str,
) -> db::Result<()> {
    let Some(attempts) = attempts_of(transaction, attempt)? else { return Ok(()) };
    let (key, delivery) = (&attempt.webhook, &attempt.delivery);
    transaction
        .prepare_cached(
            "INSERT INTO dead_letters (tenant, webhook, run, seq, attempts, last_at, last_status, last_error) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, webhook, run, seq) DO UPDATE SET \
             due = NULL, attempts = excluded.attempts, last_at = excluded.last_at, \
             last_status = excluded.last_status, last_error = excluded.last_error",
        )?
        .execute((
            key.tenant.0,
            &*key.id,
            delivery.run.as_bytes(),
            delivery.sequence,
            attempts + 1,
            attempt.at,
            status,
            excerpt(error),
        ))?;
    let dropped = transaction
        .prepare_cached(
            "DELETE FROM dead_letters WHERE tenant = $1 AND webhook = $2 AND (run, seq) IN \
             (SELECT run, seq FROM dead_letters WHERE tenant = $1 AND webhook = $2 \
             ORDER BY last_at DESC, run DESC, seq DESC LIMIT 9223372036854775807 OFFSET $3)",
        )?
        .execute((key.tenant.0, &*key.id, DEAD_LETTERS_MAX as i64))?;
    count(transaction, key, "dropped", dropped)
}

/// What a dead letter leaves behind: its run's other events go on, unless it was apart from them.
fn leave_dead(
    transaction: Connection<'_>,
    attempt: &Attempted,
    webhook: &WebhookRow,
) -> db::Result<Option<Waiting>> {
    if attempt.delivery.again { Ok(None) } else { leave(transaction, attempt, webhook) }
}

/// Ends a delivery. The answer is the run's next event that the webhook wants, which takes its place. It is due from now
/// on and not since it happened: so other runs, which waited longer, come before it.
fn leave(
    transaction: Connection<'_>,
    attempt: &Attempted,
    webhook: &WebhookRow,
) -> db::Result<Option<Waiting>> {
    let (key, delivery) = (&attempt.webhook, &attempt.delivery);
    if delivery.again || attempts_of(transaction, attempt)?.is_none() {
        forget(transaction, attempt)?;
        return Ok(None);
    }
    let types = webhook.about.is_none().then(|| codes(&webhook.types));
    let Some(sequence) = next_wanted(transaction, key, delivery, types.as_deref())? else {
        forget(transaction, attempt)?;
        return Ok(None);
    };
    transaction
        .prepare_cached(
            "UPDATE deliveries SET seq = $1, due = $2, attempts = 0, last_at = NULL, last_status = NULL, \
             last_error = NULL WHERE tenant = $3 AND webhook = $4 AND run = $5",
        )?
        .execute((sequence, attempt.at, key.tenant.0, &*key.id, delivery.run.as_bytes()))?;
    Ok(Some(Waiting { run: delivery.run, sequence, again: false }))
}

fn next_wanted(
    transaction: Connection<'_>,
    key: &WebhookKey,
    delivery: &Waiting,
    types: Option<&[u16]>,
) -> db::Result<Option<u64>> {
    let mut statement = transaction.prepare_cached(
        "SELECT seq, type FROM events WHERE tenant = $1 AND id = $2 AND seq > $3 ORDER BY seq",
    )?;
    let named = (key.tenant.0, delivery.run.as_bytes(), delivery.sequence);
    for row in statement.query_map(named, |row| Ok((row.get(0)?, row.get::<u16>(1)?)))? {
        let (sequence, kind) = row?;
        if types.is_none_or(|types| types.contains(&kind)) {
            return Ok(Some(sequence));
        }
    }
    Ok(None)
}

fn forget(transaction: Connection<'_>, attempt: &Attempted) -> db::Result<()> {
    let (key, delivery) = (&attempt.webhook, &attempt.delivery);
    let sql = format!(
        "DELETE FROM {} WHERE tenant = $1 AND webhook = $2 AND run = $3 AND seq = $4",
        table(delivery)
    );
    let named = (key.tenant.0, &*key.id, delivery.run.as_bytes(), delivery.sequence);
    transaction.prepare_cached(&sql)?.execute(named).map(drop)
}

/// Raises one of a webhook's counters.
fn count(transaction: Connection<'_>, key: &WebhookKey, counter: &str, by: usize) -> db::Result<()> {
    if by == 0 {
        return Ok(());
    }
    let sql = format!("UPDATE webhooks SET {counter} = {counter} + $1 WHERE tenant = $2 AND id = $3");
    transaction.prepare_cached(&sql)?.execute((by as i64, key.tenant.0, &*key.id)).map(drop)
}

pub(crate) fn put_health(transaction: Connection<'_>, key: &WebhookKey, health: Health) -> db::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE webhooks SET failed = $1, failures = $2, failing_since = $3, openings = $4, open_until = $5 \
             WHERE tenant = $6 AND id = $7",
        )?
        .execute((
            health.failed,
            health.failures,
            health.failing_since,
            health.openings,
            health.open_until,
            key.tenant.0,
            &*key.id,
        ))
        .map(drop)
}

/// Has the writer make no more deliveries to a webhook.
pub(crate) fn stop_listening(transaction: Connection<'_>, key: &WebhookKey) -> db::Result<()> {
    for table in ["webhook_types", "webhook_runs"] {
        let sql = format!("DELETE FROM {table} WHERE tenant = $1 AND webhook = $2");
        transaction.execute(&sql, (key.tenant.0, &*key.id))?;
    }
    Ok(())
}

pub(crate) fn resend(
    transaction: Connection<'_>,
    key: &WebhookKey,
    which: Option<&[(RunId, u64)]>,
    now: Millis,
) -> db::Result<u64> {
    const DUE: &str = "UPDATE dead_letters SET due = $1, attempts = 0 \
        WHERE tenant = $2 AND webhook = $3 AND due IS NULL";
    let Some(which) = which else {
        return Ok(transaction.execute(DUE, (now, key.tenant.0, &*key.id))? as u64);
    };
    let mut resent = 0;
    let mut statement = transaction.prepare_cached(&format!("{DUE} AND run = $4 AND seq = $5"))?;
    for (run, sequence) in which {
        resent += statement.execute((now, key.tenant.0, &*key.id, run.as_bytes(), sequence))? as u64;
    }
    Ok(resent)
}

pub(crate) fn list(connection: Connection<'_>, query: &DeliveryQuery) -> db::Result<Vec<DeliveryRow>> {
    const COLUMNS: &str = "tenant, run, seq, due, attempts, last_at, last_status, last_error";
    const OF: &str = "WHERE tenant = $1 AND webhook = $2";
    let rows = match query.dead {
        true => format!("SELECT {COLUMNS} FROM dead_letters {OF} AND due IS NULL"),
        false => format!(
            "SELECT {COLUMNS} FROM deliveries {OF} UNION ALL \
             SELECT {COLUMNS} FROM dead_letters {OF} AND due IS NOT NULL"
        ),
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT d.run, d.seq, coalesce(e.type, 0), d.due, d.attempts, d.last_at, d.last_status, d.last_error \
         FROM ({rows}) d LEFT JOIN events e ON e.tenant = d.tenant AND e.id = d.run AND e.seq = d.seq \
         WHERE (d.run, d.seq) > ($3, $4) ORDER BY d.run, d.seq LIMIT $5",
    ))?;
    let (run, sequence) =
        query.after.map_or(([0; 16], -1), |(run, sequence)| (*run.as_bytes(), sequence as i64));
    let named = (query.webhook.tenant.0, &*query.webhook.id, run, sequence, query.limit as i64);
    let rows = statement.query_map(named, |row| {
        let (run, sequence) = place(row, 0)?;
        Ok(DeliveryRow {
            run,
            sequence,
            type_code: row.get(2)?,
            due: row.get(3)?,
            attempts: row.get(4)?,
            last_at: row.get(5)?,
            last_status: row.get(6)?,
            last_error: row.get(7)?,
        })
    })?;
    rows.collect()
}

/// As much of an error as is kept.
fn excerpt(error: &str) -> &str {
    &error[..error.floor_char_boundary(LAST_ERROR_BYTES_MAX)]
}
