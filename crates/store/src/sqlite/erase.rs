//! Erasing what an aggregate said, and noting that it was done.
//!
//! The envelopes stay, and of each payload the salted hash that the chain runs over. With the salt gone, that hash
//! tells nothing.

use abide_core::{Key, Payload, Record, Salt, Status};
use rusqlite::{Connection, OptionalExtension, Transaction};
use serde_json::json;

use super::reader::{self, checked, journal};
use crate::sql::ENDED;
use crate::{Erased, Erasure, Note};

/// Events erased at once, so that a long journal takes no more memory than a short one.
const PAGE_EVENTS: usize = 1024;

const KIND: &str = "erased";

pub(super) fn erase(transaction: &Transaction<'_>, key: Key, erasure: &Erasure) -> rusqlite::Result<Erased> {
    match status(transaction, key)? {
        None => return Ok(Erased::NotFound),
        Some(status) if !status.is_terminal() => return Ok(Erased::NotEnded),
        Some(_) => {}
    }
    let salt = salt(transaction, key)?;
    let events = erase_payloads(transaction, key, salt.as_ref())?;
    if salt.is_none() {
        return Ok(Erased::Already);
    }
    let named = (key.tenant.0, key.id.as_bytes());
    transaction.execute("UPDATE events SET salt = NULL WHERE tenant = $1 AND id = $2 AND seq = 0", named)?;
    transaction.execute(
        "UPDATE aggregates SET snapshot = NULL, snapshot_at = NULL WHERE tenant = $1 AND id = $2",
        named,
    )?;
    erase_messages(transaction, key)?;
    note(transaction, key, erasure, events)?;
    Ok(Erased::Done { events })
}

fn status(connection: &Connection, key: Key) -> rusqlite::Result<Option<Status>> {
    let code: Option<u8> = connection
        .prepare_cached("SELECT status FROM aggregates WHERE tenant = $1 AND id = $2")?
        .query_row((key.tenant.0, key.id.as_bytes()), |row| row.get(0))
        .optional()?;
    code.map(|code| reader::status(0, code)).transpose()
}

fn salt(connection: &Connection, key: Key) -> rusqlite::Result<Option<Salt>> {
    let salt = connection
        .prepare_cached("SELECT salt FROM events WHERE tenant = $1 AND id = $2 AND seq = 0")?
        .query_row((key.tenant.0, key.id.as_bytes()), |row| row.get(0))
        .optional()?;
    checked(0, salt.ok_or_else(|| "the first event is missing".to_owned()))
}

/// Leaves of each payload its salted hash, and counts the events.
fn erase_payloads(transaction: &Transaction<'_>, key: Key, salt: Option<&Salt>) -> rusqlite::Result<u64> {
    let mut next = 0;
    loop {
        let page = journal(transaction, key, next, PAGE_EVENTS)?;
        let Some(last) = page.last() else { return Ok(next) };
        next = last.sequence + 1;
        for record in &page {
            erase_payload(transaction, key, salt, record)?;
        }
    }
}

fn erase_payload(
    transaction: &Transaction<'_>,
    key: Key,
    salt: Option<&Salt>,
    record: &Record,
) -> rusqlite::Result<()> {
    if let Payload::Erased(_) = record.payload {
        return Ok(());
    }
    let gone = || "the journal's salt is gone, but its payloads are not".to_owned();
    let left = checked(0, record.digest(salt).ok_or_else(gone))?;
    transaction
        .prepare_cached(
            "UPDATE events SET payload = NULL, erased = $1 WHERE tenant = $2 AND id = $3 AND seq = $4",
        )?
        .execute((left, key.tenant.0, key.id.as_bytes(), record.sequence))?;
    // A large one lies under its record's own link of the chain, which nothing else can be filed under.
    transaction
        .prepare_cached("DELETE FROM blobs WHERE tenant = $1 AND hash = $2")?
        .execute((key.tenant.0, record.chain))?;
    Ok(())
}

/// Messages to the aggregate go with it, and so do those of its own that nobody can hear any more. The others
/// belong to whoever will hear them.
fn erase_messages(transaction: &Transaction<'_>, key: Key) -> rusqlite::Result<()> {
    let (tenant, id) = (key.tenant.0, key.id.as_bytes());
    transaction.execute("DELETE FROM outbox WHERE tenant = $1 AND receiver = $2", (tenant, id))?;
    let [completed, failed, cancelled] = ENDED.map(Status::code);
    transaction.execute(
        "DELETE FROM outbox WHERE tenant = $1 AND sender = $2 AND receiver IN \
         (SELECT id FROM aggregates WHERE tenant = $1 AND id = outbox.receiver AND status IN ($3, $4, $5))",
        (tenant, id, completed, failed, cancelled),
    )?;
    Ok(())
}

fn note(transaction: &Transaction<'_>, key: Key, erasure: &Erasure, events: u64) -> rusqlite::Result<()> {
    let body = match &erasure.reason {
        Some(reason) => json!({"events": events, "reason": reason}),
        None => json!({"events": events}),
    };
    transaction.execute(
        "INSERT INTO notes (tenant, id, seq, at, kind, by, body) \
         SELECT $1, $2, coalesce(max(seq) + 1, 0), $3, $4, $5, $6 FROM notes WHERE tenant = $1 AND id = $2",
        (key.tenant.0, key.id.as_bytes(), erasure.at, KIND, &erasure.by, body.to_string().into_bytes()),
    )?;
    Ok(())
}

pub(super) fn notes(connection: &Connection, key: Key) -> rusqlite::Result<Vec<Note>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, by, body FROM notes WHERE tenant = $1 AND id = $2 ORDER BY seq",
    )?;
    let note = |row: &rusqlite::Row<'_>| {
        let body: Vec<u8> = row.get(4)?;
        let body = checked(4, serde_json::from_slice(&body).map_err(|error| error.to_string()))?;
        Ok(Note { sequence: row.get(0)?, at: row.get(1)?, kind: row.get(2)?, by: row.get(3)?, body })
    };
    statement.query_map((key.tenant.0, key.id.as_bytes()), note)?.collect()
}
