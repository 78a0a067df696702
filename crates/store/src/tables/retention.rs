//! Removing runs that have ended: gone from all lists at once, and from the disk a page at a time.
//!
//! A run whose removal has begun has no row among the aggregates any more, but one in `purging`. If the server dies in
//! between, the next start goes on from there.

use crate::db::{self, Connection, Optional, Row};
use abide_core::{Json, Key, RunId, TenantId};
use serde_json::json;

use super::external::forget_callbacks;
use super::reader::{key, run_id};
use super::{Database, audit_log, containers, conversations, notices, work};
use crate::retention::{EndedQuery, EndedRun, FamilySize, Purge, PurgeRow, PurgedPage, Retention};
use crate::store::Answer;
use crate::{Lane, NewAnnotation, NewAudit};

/// Events removed in one transaction, so that those who wait for the writer get their turn.
const PAGE_EVENTS: usize = 500;

/// Bytes of payload after which a page ends, however few events it has: what is removed is overwritten.
const PAGE_BYTES_MAX: u64 = 1024 * 1024;

/// Children that are taken along in one transaction.
const PAGE_CHILDREN: usize = 100;

/// Purges are done one at a time, whoever's runs they are about.
const ALL: TenantId = TenantId(0);

/// The statuses in which a run has ended, as the index has them: a query with other words would not find it.
const ROOT_ENDED: &str = "child = 0 AND status IN (4, 5, 6)";

impl<E: Database> Retention for E {
    fn ended_workflows(
        &self,
        after: Option<(TenantId, String)>,
        limit: usize,
    ) -> Answer<'_, Vec<(TenantId, String)>> {
        self.read(move |connection| ended_workflows(connection, after.clone(), limit))
    }

    fn ended(&self, query: EndedQuery) -> Answer<'_, Vec<EndedRun>> {
        self.read(move |connection| ended(connection, &query))
    }

    fn family(&self, root: Key, before: i64) -> Answer<'_, Option<FamilySize>> {
        self.read(move |connection| family(connection, root, before))
    }

    fn begin_purge(&self, tenant: TenantId, roots: Vec<RunId>, purge: Purge) -> Answer<'_, Option<u64>> {
        self.write_in(Lane::Background, move |transaction| begin(transaction, tenant, &roots, &purge))
    }

    fn purge_page(&self) -> Answer<'_, PurgedPage> {
        self.write_in(Lane::Background, page)
    }

    fn purges(&self, tenant: TenantId, before: Option<u64>, limit: usize) -> Answer<'_, Vec<PurgeRow>> {
        self.read(move |connection| purges(connection, tenant, before, limit))
    }

    fn retentions(&self) -> Answer<'_, Vec<(TenantId, String, String)>> {
        self.read(retentions)
    }
}

/// Each step is a jump in the index to the next name, however many runs there are of one.
fn ended_workflows(
    connection: Connection<'_>,
    after: Option<(TenantId, String)>,
    limit: usize,
) -> db::Result<Vec<(TenantId, String)>> {
    let mut next = connection.prepare_cached(&format!(
        "SELECT tenant, workflow FROM aggregates INDEXED BY aggregates_by_end \
         WHERE {ROOT_ENDED} AND (tenant, workflow) > ($1, $2) ORDER BY tenant, workflow LIMIT 1"
    ))?;
    let (mut tenant, mut workflow) = after.map_or((0, String::new()), |(tenant, id)| (tenant.0, id));
    let mut found = Vec::new();
    while found.len() < limit {
        let row = next.query_row((tenant, &workflow), |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some(row) = row else { break };
        (tenant, workflow) = row;
        found.push((TenantId(tenant), workflow.clone()));
    }
    Ok(found)
}

fn ended(connection: Connection<'_>, query: &EndedQuery) -> db::Result<Vec<EndedRun>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT tenant, id, at FROM aggregates INDEXED BY aggregates_by_end \
         WHERE {ROOT_ENDED} AND tenant = $1 AND workflow = $2 AND status = $3 AND (at, id) > ($4, $5) AND at < $6 \
         ORDER BY at, id LIMIT $7"
    ))?;
    let (at, id) = query.after.map_or((i64::MIN, [0; 16]), |(at, run)| (at, *run.as_bytes()));
    let status = query.status.code();
    let values = (query.tenant.0, &query.workflow, status, at, id, query.before, query.limit as i64);
    statement.query_map(values, |row| Ok(EndedRun { key: key(row, 0)?, at: row.get(2)? }))?.collect()
}

/// A child that was asked for and never came about has no row of its own, and once nothing is on its way to it, it never
/// will.
fn family(connection: Connection<'_>, root: Key, before: i64) -> db::Result<Option<FamilySize>> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE family (id) AS (SELECT CAST($1 AS BLOB) UNION \
           SELECT c.child FROM family f JOIN children c ON c.tenant = $2 AND c.parent = f.id) \
         SELECT count(a.id), CAST(coalesce(sum(a.next), 0) AS BIGINT), coalesce(max(CASE WHEN \
           a.id IS NOT NULL AND (a.status NOT IN (4, 5, 6) OR a.at >= $3) \
           OR EXISTS (SELECT 1 FROM outbox o WHERE o.tenant = $2 AND o.sender = f.id) \
           OR EXISTS (SELECT 1 FROM tasks t WHERE t.tenant = $2 AND t.id = f.id) \
           OR EXISTS (SELECT 1 FROM work w WHERE w.tenant = $2 AND w.id = f.id) THEN 1 ELSE 0 END), 1) \
         FROM family f LEFT JOIN aggregates a ON a.tenant = $2 AND a.id = f.id",
    )?;
    statement.query_row((root.id.as_bytes(), root.tenant.0, before), |row| {
        let size = FamilySize { runs: row.get(0)?, events: row.get(1)? };
        let unsettled: bool = row.get(2)?;
        Ok((size.runs > 0 && !unsettled).then_some(size))
    })
}

fn begin(
    transaction: Connection<'_>,
    tenant: TenantId,
    roots: &[RunId],
    purge: &Purge,
) -> db::Result<Option<u64>> {
    transaction.exclude("purges", ALL)?;
    let number = match purge.number {
        Some(number) => number,
        None => enter(transaction, tenant, purge)?,
    };
    let mut taken = Vec::new();
    for root in roots {
        taken.extend(take(transaction, tenant, *root, number)?.then_some(*root));
    }
    match taken.first() {
        Some(first) => {
            let filter: serde_json::Value = serde_json::from_str(&purge.filter).unwrap_or_default();
            let body = json!({ "purge": number, "by": purge.by, "filter": filter, "runs": taken });
            let new = NewAudit {
                key: first.of(tenant),
                at: purge.at,
                kind: "purge".to_owned(),
                body: Json::of(&body),
            };
            audit_log::append(transaction, &new)?;
            Ok(Some(number))
        }
        // A record of nothing is no record.
        None if purge.number.is_none() => transaction
            .execute("DELETE FROM purges WHERE tenant = $1 AND n = $2", (tenant.0, number))
            .map(|_| None),
        None => Ok(None),
    }
}

/// Begins a record.
fn enter(transaction: Connection<'_>, tenant: TenantId, purge: &Purge) -> db::Result<u64> {
    transaction
        .prepare_cached(
            "INSERT INTO purges (tenant, n, at, by, filter, runs, events) \
             SELECT $1, coalesce(max(n), 0) + 1, $2, $3, $4, 0, 0 FROM purges WHERE tenant = $1 RETURNING n",
        )?
        .query_row((tenant.0, purge.at, &purge.by, &purge.filter), |row| row.get(0))
}

/// Takes a run that has ended out of all lists, and counts it.
fn take(transaction: Connection<'_>, tenant: TenantId, run: RunId, number: u64) -> db::Result<bool> {
    let events: Option<u64> = transaction
        .prepare_cached(
            "DELETE FROM aggregates WHERE tenant = $1 AND id = $2 AND status IN (4, 5, 6) RETURNING next",
        )?
        .query_row((tenant.0, run.as_bytes()), |row| row.get(0))
        .optional()?;
    let Some(events) = events else { return Ok(false) };
    transaction.prepare_cached("INSERT INTO purging (tenant, id, n) VALUES ($1, $2, $3)")?.execute((
        tenant.0,
        run.as_bytes(),
        number,
    ))?;
    transaction
        .prepare_cached(
            "UPDATE purges SET runs = runs + 1, events = events + $1 WHERE tenant = $2 AND n = $3",
        )?
        .execute((events, tenant.0, number))?;
    Ok(true)
}

/// A page of what is being removed, run by run: its children are taken along, then its events go, then the rest.
fn page(transaction: Connection<'_>) -> db::Result<PurgedPage> {
    transaction.exclude("purges", ALL)?;
    let mut room = Room { events: PAGE_EVENTS, bytes: PAGE_BYTES_MAX };
    let mut gone = Vec::new();
    while let Some((run, number)) = first(transaction)? {
        if room.events == 0 || room.bytes == 0 {
            return Ok(PurgedPage { gone, more: true });
        }
        let children = take_children(transaction, run, number)?;
        room.events = room.events.saturating_sub(children + 1);
        if children == 0 && remove_events(transaction, run, &mut room)? {
            remove_rest(transaction, run)?;
            gone.push(run);
        }
    }
    Ok(PurgedPage { gone, more: false })
}

/// How much more fits into a page.
struct Room {
    events: usize,
    bytes: u64,
}

/// The first run that is being removed, and the purge that it belongs to.
fn first(transaction: Connection<'_>) -> db::Result<Option<(Key, u64)>> {
    transaction
        .prepare_cached("SELECT tenant, id, n FROM purging ORDER BY tenant, id LIMIT 1")?
        .query_row((), |row| Ok((key(row, 0)?, row.get(2)?)))
        .optional()
}

fn take_children(transaction: Connection<'_>, run: Key, number: u64) -> db::Result<usize> {
    let named = (run.tenant.0, run.id.as_bytes(), PAGE_CHILDREN as i64);
    let children: Vec<RunId> = transaction
        .prepare_cached(
            "SELECT child FROM children WHERE tenant = $1 AND parent = $2 ORDER BY child LIMIT $3",
        )?
        .query_map(named, |row| run_id(row, 0))?
        .collect::<db::Result<_>>()?;
    let mut forget = transaction
        .prepare_cached("DELETE FROM children WHERE tenant = $1 AND parent = $2 AND child = $3")?;
    for child in &children {
        take(transaction, run.tenant, *child, number)?;
        forget.execute((run.tenant.0, run.id.as_bytes(), child.as_bytes()))?;
    }
    Ok(children.len())
}

/// Removes the first events that are left, and the bytes that were filed under them, which no other event can have. Tells
/// whether none is left.
fn remove_events(transaction: Connection<'_>, run: Key, room: &mut Room) -> db::Result<bool> {
    let (tenant, id) = (run.tenant.0, run.id.as_bytes());
    let mut events = transaction.prepare_cached(
        "SELECT e.seq, e.chain, b.hash IS NOT NULL, coalesce(length(e.payload), length(b.bytes), 0) \
         FROM events e LEFT JOIN blobs b ON e.payload IS NULL AND b.tenant = e.tenant AND b.hash = e.chain \
         WHERE e.tenant = $1 AND e.id = $2 ORDER BY e.seq LIMIT $3",
    )?;
    let mut forget = transaction.prepare_cached("DELETE FROM blobs WHERE tenant = $1 AND hash = $2")?;
    let asked = room.events;
    let mut last: Option<i64> = None;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<Vec<u8>>(1)?, row.get(2)?, row.get::<u64>(3)?));
    for row in events.query_map((tenant, id, asked as i64), read)? {
        let (sequence, chain, filed, bytes) = row?;
        last = Some(sequence);
        room.events -= 1;
        room.bytes = room.bytes.saturating_sub(bytes);
        if filed {
            forget.execute((tenant, chain))?;
        }
        if room.bytes == 0 {
            break;
        }
    }
    transaction
        .prepare_cached("DELETE FROM events WHERE tenant = $1 AND id = $2 AND seq <= $3")?
        .execute((tenant, id, last))?;
    Ok(room.events > 0 && room.bytes > 0)
}

fn remove_rest(transaction: Connection<'_>, run: Key) -> db::Result<()> {
    let named = (run.tenant.0, run.id.as_bytes());
    forget_callbacks(transaction, run)?;
    notices::forget(transaction, run)?;
    work::forget_hooks(transaction, run)?;
    conversations::forget(transaction, run)?;
    containers::forget(transaction, run)?;
    for sql in [
        "DELETE FROM heard WHERE tenant = $1 AND receiver = $2",
        "DELETE FROM outbox WHERE tenant = $1 AND sender = $2",
        "DELETE FROM notes WHERE tenant = $1 AND id = $2",
        "DELETE FROM provider_waits WHERE tenant = $1 AND id = $2",
        // Both begin with the webhook, of which there are few.
        "DELETE FROM deliveries WHERE tenant = $1 AND run = $2 AND webhook IN (SELECT id FROM webhooks WHERE tenant = $1)",
        "DELETE FROM dead_letters WHERE tenant = $1 AND run = $2 AND webhook IN (SELECT id FROM webhooks WHERE tenant = $1)",
        "DELETE FROM webhook_runs WHERE tenant = $1 AND run = $2",
        "DELETE FROM webhooks WHERE tenant = $1 AND about = $2",
        "DELETE FROM purging WHERE tenant = $1 AND id = $2",
    ] {
        transaction.prepare_cached(sql)?.execute(named)?;
    }
    let endpoint = NewAnnotation::endpoint(run.id);
    transaction
        .prepare_cached("DELETE FROM receipts WHERE tenant = $1 AND endpoint = $2")?
        .execute((run.tenant.0, endpoint))
        .map(drop)
}

fn purges(
    connection: Connection<'_>,
    tenant: TenantId,
    before: Option<u64>,
    limit: usize,
) -> db::Result<Vec<PurgeRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT n, at, by, filter, runs, events FROM purges WHERE tenant = $1 AND n < $2 ORDER BY n DESC LIMIT $3",
    )?;
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let rows = statement.query_map((tenant.0, before, limit as i64), |row| {
        Ok(PurgeRow {
            number: row.get(0)?,
            at: row.get(1)?,
            by: row.get(2)?,
            filter: row.get(3)?,
            runs: row.get(4)?,
            events: row.get(5)?,
        })
    })?;
    rows.collect()
}

fn retentions(connection: Connection<'_>) -> db::Result<Vec<(TenantId, String, String)>> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, id, retention FROM workflows w WHERE retention IS NOT NULL AND version = \
         (SELECT max(version) FROM workflows v WHERE v.tenant = w.tenant AND v.id = w.id) ORDER BY tenant, id",
    )?;
    statement.query_map((), |row| Ok((TenantId(row.get(0)?), row.get(1)?, row.get(2)?)))?.collect()
}

#[cfg(test)]
mod tests {
    use abide_core::Status;

    use super::*;

    #[test]
    fn the_index_knows_every_status_in_which_a_run_has_ended() {
        let codes = crate::sql::ENDED.map(|status: Status| status.code().to_string());
        assert!(ROOT_ENDED.contains(&codes.join(", ")), "{codes:?}");
    }
}
