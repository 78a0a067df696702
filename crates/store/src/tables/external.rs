//! Events that others tell of, and who is to be told that something waits.

use std::collections::HashSet;
use std::sync::RwLock;

use crate::db::{self, Connection, Fault, Optional, Row};
use abide_core::{InterruptId, Key, Millis, TenantId};

use super::Database;
use super::inbox::interrupt_id;
use super::reader::{checked, key};
use crate::external::{CallbackRow, Callbacks, EventRow, ExternalEvents, NewEvent, Put, Target};
use crate::rows::hash;
use crate::sealing::{Place, Sealing, owner_of_outside};
use crate::store::Answer;

/// Types of events that may be kept. An interrupt that waits for another need not look.
#[derive(Default)]
pub(crate) struct KeptTypes(RwLock<Option<HashSet<(TenantId, String)>>>);

/// Types that are known by name. Beyond them, every interrupt looks.
const KEPT_TYPES_MAX: usize = 10_000;

impl KeptTypes {
    /// What is on disk. If there is too much of it, or it can't be read, everybody has to look.
    pub(crate) fn read(connection: Connection<'_>) -> Self {
        let types = || {
            let mut statement = connection
                .prepare_cached("SELECT DISTINCT tenant, type FROM external_events WHERE state <> 2")?;
            let types = statement.query_map((), |row| Ok((TenantId(row.get(0)?), row.get(1)?)))?;
            types.collect::<db::Result<HashSet<_>>>()
        };
        let types = types().inspect_err(|error| tracing::error!(%error, "kept events can't be read"));
        Self(RwLock::new(types.ok().filter(|types| types.len() < KEPT_TYPES_MAX)))
    }

    fn add(&self, tenant: TenantId, event_type: &str) {
        let mut types = self.0.write().expect("no thread panics holding this");
        if let Some(known) = types.as_mut() {
            known.insert((tenant, event_type.to_owned()));
            if known.len() >= KEPT_TYPES_MAX {
                *types = None;
            }
        }
    }

    fn has(&self, tenant: TenantId, event_type: &str) -> bool {
        let types = self.0.read().expect("no thread panics holding this");
        types.as_ref().is_none_or(|types| types.contains(&(tenant, event_type.to_owned())))
    }
}

/// Where an event stands.
const KEPT: u8 = 0;
const BEING_GIVEN: u8 = 1;
const GIVEN: u8 = 2;

impl<E: Database> ExternalEvents for E {
    fn put(&self, event: NewEvent, most: usize) -> Answer<'_, Put> {
        self.kept().add(event.tenant, &event.event_type);
        let sealing = self.sealing().clone();
        self.write(move |transaction| put(transaction, &sealing, &event, most))
    }

    fn get(&self, tenant: TenantId, id: String) -> Answer<'_, Option<EventRow>> {
        let sealing = self.sealing().clone();
        self.read(move |connection| get(connection, &sealing, tenant, &id))
    }

    fn may_keep(&self, tenant: TenantId, event_type: &str) -> bool {
        self.kept().has(tenant, event_type)
    }

    fn kept(
        &self,
        tenant: TenantId,
        event_type: String,
        now: Millis,
        after: Option<(Millis, String)>,
        limit: usize,
    ) -> Answer<'_, Vec<EventRow>> {
        let sealing = self.sealing().clone();
        self.read(move |connection| {
            kept(connection, &sealing, (tenant, &event_type), now, after.clone(), limit)
        })
    }

    fn give(&self, tenant: TenantId, id: String, to: Vec<Target>) -> Answer<'_, bool> {
        let boot = self.start_number();
        self.write(move |transaction| {
            let sql = "UPDATE external_events SET state = $1, targets = $2, giver = $3 \
                WHERE tenant = $4 AND id = $5 AND state = $6";
            Ok(transaction.execute(sql, (BEING_GIVEN, texts(&to), boot, tenant.0, &id, KEPT))? > 0)
        })
    }

    fn given(&self, tenant: TenantId, id: String, to: Vec<Target>) -> Answer<'_, ()> {
        let boot = self.start_number();
        self.write(move |transaction| given(transaction, (tenant, &id), boot, &to))
    }

    fn being_given(&self, limit: usize) -> Answer<'_, Vec<EventRow>> {
        let (sealing, boot) = (self.sealing().clone(), self.start_number());
        self.read(move |connection| {
            let sql = format!("{EVENT} WHERE state = 1 AND {} ORDER BY tenant, id", left_to(boot));
            connection.readable(&sql, (), limit, |row| event(row, &sealing))
        })
    }

    fn take_over(&self, tenant: TenantId, id: String) -> Answer<'_, bool> {
        let boot = self.start_number();
        self.write(move |transaction| {
            let sql = format!(
                "UPDATE external_events SET giver = $1 WHERE tenant = $2 AND id = $3 AND state = 1 AND {}",
                left_to(boot)
            );
            Ok(transaction.execute(&sql, (boot, tenant.0, &id))? > 0)
        })
    }

    fn awaited(&self) -> Answer<'_, Vec<(TenantId, String)>> {
        self.read(awaited)
    }

    fn purge(&self, now: Millis, limit: usize) -> Answer<'_, usize> {
        self.write(move |transaction| purge(transaction, now, limit))
    }
}

/// What [`event`] reads.
const EVENT: &str =
    "SELECT tenant, id, type, digest, payload, sender, received_at, state, targets FROM external_events";

fn put(transaction: Connection<'_>, sealing: &Sealing, new: &NewEvent, most: usize) -> db::Result<Put> {
    transaction.exclude("external events", new.tenant)?;
    // One whose time is over is as good as forgotten.
    transaction
        .prepare_cached(
            "DELETE FROM external_events WHERE tenant = $1 AND id = $2 AND expires_at <= $3 AND state <> 1",
        )?
        .execute((new.tenant.0, &new.id, new.at))?;
    if let Some(known) = get(transaction, sealing, new.tenant, &new.id)? {
        return Ok(Put::Known(known));
    }
    let kept: usize = transaction
        .prepare_cached("SELECT count(*) FROM external_events WHERE tenant = $1 AND state = 0")?
        .query_row([new.tenant.0], |row| row.get(0))?;
    if kept >= most {
        return Ok(Put::Full);
    }
    let owner = owner_of_outside(new.tenant, &new.id);
    let payload = sealing.seal(owner, &Place::Outside, new.payload.text().as_bytes());
    let payload = payload.map_err(|error| Fault::Sealed(error.to_string()))?;
    transaction
        .prepare_cached(
            "INSERT INTO external_events \
             (tenant, id, type, digest, payload, sender, received_at, expires_at, state, targets) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '[]')",
        )?
        .execute((
            new.tenant.0,
            &new.id,
            &new.event_type,
            new.digest,
            &*payload,
            &new.sender,
            new.at,
            new.expires_at,
            KEPT,
        ))?;
    Ok(Put::New)
}

fn get(
    connection: Connection<'_>,
    sealing: &Sealing,
    tenant: TenantId,
    id: &str,
) -> db::Result<Option<EventRow>> {
    let sql = format!("{EVENT} WHERE tenant = $1 AND id = $2");
    connection.prepare_cached(&sql)?.query_row((tenant.0, id), |row| event(row, sealing)).optional()
}

fn kept(
    connection: Connection<'_>,
    sealing: &Sealing,
    (tenant, event_type): (TenantId, &str),
    now: Millis,
    after: Option<(Millis, String)>,
    limit: usize,
) -> db::Result<Vec<EventRow>> {
    let sql = format!(
        "{EVENT} WHERE state = 0 AND tenant = $1 AND type = $2 AND (received_at, id) > ($3, $4) \
         AND expires_at > $5 ORDER BY received_at, id"
    );
    let (at, id) = after.unwrap_or((Millis::MIN, String::new()));
    connection.readable(&sql, (tenant.0, event_type, at, id, now), limit, |row| event(row, sealing))
}

/// What no other living server gives: on a store of one's own, all of them.
fn left_to(boot: u64) -> String {
    format!(
        "1 = 1 /* AND (giver = {boot} OR giver NOT IN (SELECT boot FROM servers \
         WHERE until > CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT))) */"
    )
}

fn given(
    transaction: Connection<'_>,
    (tenant, id): (TenantId, &str),
    boot: u64,
    to: &[Target],
) -> db::Result<()> {
    let (state, payload) = if to.is_empty() { (KEPT, "") } else { (GIVEN, ", payload = NULL") };
    let sql = format!(
        "UPDATE external_events SET state = $1, targets = $2{payload} \
         WHERE tenant = $3 AND id = $4 AND state = $5 /* AND giver = {boot} */"
    );
    transaction.execute(&sql, (state, texts(to), tenant.0, id, BEING_GIVEN)).map(drop)
}

fn awaited(connection: Connection<'_>) -> db::Result<Vec<(TenantId, String)>> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT e.tenant, e.type FROM external_events e WHERE e.state = 0 AND EXISTS \
         (SELECT 1 FROM interrupts i WHERE i.tenant = e.tenant AND i.event_type = e.type)",
    )?;
    statement.query_map((), |row| Ok((TenantId(row.get(0)?), row.get(1)?)))?.collect()
}

fn purge(transaction: Connection<'_>, now: Millis, limit: usize) -> db::Result<usize> {
    // One that is being given is over as soon as that is.
    transaction.execute(
        "DELETE FROM external_events WHERE (tenant, id) IN \
         (SELECT tenant, id FROM external_events WHERE expires_at <= $1 AND state <> 1 ORDER BY expires_at LIMIT $2)",
        (now, limit as i64),
    )
}

fn event(row: &Row<'_>, sealing: &Sealing) -> db::Result<EventRow> {
    let (tenant, id): (_, String) = (TenantId(row.get(0)?), row.get(1)?);
    let parse = |bytes: Vec<u8>| {
        let bytes = sealing.open(owner_of_outside(tenant, &id), &Place::Outside, bytes)?;
        checked(4, serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
    };
    let targets: String = row.get(8)?;
    Ok(EventRow {
        payload: row.get::<Option<Vec<u8>>>(4)?.map(parse).transpose()?,
        tenant,
        id,
        event_type: row.get(2)?,
        digest: checked(3, hash(&row.get::<Vec<u8>>(3)?))?,
        sender: row.get(5)?,
        at: row.get(6)?,
        is_kept: row.get::<u8>(7)? == KEPT,
        targets: checked(8, serde_json::from_str(&targets).map_err(|error| error.to_string()))?,
    })
}

fn texts(targets: &[Target]) -> String {
    serde_json::to_string(targets).expect("ids and names serialise")
}

impl<E: Database> Callbacks for E {
    fn due(&self, now: Millis, limit: usize) -> Answer<'_, (Vec<CallbackRow>, Option<Millis>)> {
        self.read(move |connection| due(connection, now, limit))
    }

    fn settle(&self, run: Key, id: InterruptId, again: Option<Millis>) -> Answer<'_, ()> {
        self.write(move |transaction| {
            let (tenant, run, id) = (run.tenant.0, run.id.as_bytes(), id.as_bytes());
            let rows = match again {
                Some(due) => transaction.execute(
                    "UPDATE callbacks SET due = $1, attempts = attempts + 1 \
                     WHERE tenant = $2 AND run = $3 AND id = $4",
                    (due, tenant, run, id),
                ),
                None => transaction.execute(
                    "DELETE FROM callbacks WHERE tenant = $1 AND run = $2 AND id = $3",
                    (tenant, run, id),
                ),
            };
            rows.map(drop)
        })
    }
}

fn due(
    connection: Connection<'_>,
    now: Millis,
    limit: usize,
) -> db::Result<(Vec<CallbackRow>, Option<Millis>)> {
    let sql =
        "SELECT tenant, run, id, url, attempts FROM callbacks WHERE due <= $1 ORDER BY due, tenant, run, id";
    let found = connection.readable(sql, [now], limit, |row| {
        Ok(CallbackRow {
            key: key(row, 0)?,
            id: interrupt_id(row, 2)?,
            url: row.get(3)?,
            attempts: row.get(4)?,
        })
    })?;
    let next = connection
        .prepare_cached("SELECT min(due) FROM callbacks WHERE due > $1")?
        .query_row([now], |row| row.get(0))?;
    Ok((found, next))
}

/// Tells nobody any more that something of this run waits.
pub(crate) fn forget_callbacks(transaction: Connection<'_>, run: Key) -> db::Result<()> {
    let named = (run.tenant.0, run.id.as_bytes());
    transaction.execute("DELETE FROM callbacks WHERE tenant = $1 AND run = $2", named).map(drop)
}
