//! Erasing what an aggregate said, and noting that it was done.
//!
//! The envelopes stay, and of each payload the salted hash that the chain runs over. With the salt gone, that hash
//! tells nothing.

use crate::db::{self, Connection, Optional, Row};
use abide_core::{Key, Payload, Record, Salt, Status};
use serde_json::json;

use super::external::forget_callbacks;
use super::reader::{self, checked, journal};
use super::{annotations, notices, work};
use crate::sql::ENDED;
use crate::{Erased, Erasure, Message, Note, Sealing};

/// Events erased in one transaction, so that those who wait for the writer get their turn, and a long journal takes no
/// more memory than a short one.
const PAGE_EVENTS: usize = 1000;

/// How far an erasure has come.
pub(crate) enum Progress {
    /// What was said from this event on is still there.
    Next(u64),
    Ended(Erased),
}

/// Erases a page of a journal from an event on. The first page takes the salt along: from then on the journal counts as
/// erased, and the salt lies in the note until the last page is done.
pub(crate) fn erase_page(
    transaction: Connection<'_>,
    sealing: &Sealing,
    key: Key,
    erasure: &Erasure,
    from: u64,
) -> db::Result<Progress> {
    match status(transaction, key)? {
        None => return Ok(Progress::Ended(Erased::NotFound)),
        Some(status) if !status.is_terminal() => return Ok(Progress::Ended(Erased::NotEnded)),
        Some(_) => {}
    }
    if let Some(salt) = salt(transaction, key)? {
        begin(transaction, key, erasure, salt)?;
    }
    let Some(salt) = kept_salt(transaction, key)? else { return Ok(Progress::Ended(Erased::Already)) };
    let page = journal(transaction, sealing, key, from, PAGE_EVENTS)?;
    for record in &page {
        erase_payload(transaction, key, &salt, record)?;
    }
    let next = page.last().map_or(from, |last| last.sequence + 1);
    if page.len() == PAGE_EVENTS {
        return Ok(Progress::Next(next));
    }
    transaction.execute(
        "UPDATE notes SET kind = $1, salt = NULL WHERE tenant = $2 AND id = $3 AND kind = $4",
        (Note::ERASED, key.tenant.0, key.id.as_bytes(), Note::ERASING),
    )?;
    Ok(Progress::Ended(Erased::Done { events: next }))
}

fn begin(transaction: Connection<'_>, key: Key, erasure: &Erasure, salt: Salt) -> db::Result<()> {
    // From here on nobody adds a note that says something, or it is seen here and taken away.
    transaction.exclude("notes", key.tenant)?;
    let named = (key.tenant.0, key.id.as_bytes());
    transaction.execute("UPDATE events SET salt = NULL WHERE tenant = $1 AND id = $2 AND seq = 0", named)?;
    transaction.execute(
        "UPDATE aggregates SET snapshot = NULL, snapshot_at = NULL WHERE tenant = $1 AND id = $2",
        named,
    )?;
    erase_messages(transaction, key)?;
    annotations::erase(transaction, key)?;
    forget_callbacks(transaction, key)?;
    notices::forget(transaction, key)?;
    work::forget_hooks(transaction, key)?;
    transaction.execute("DELETE FROM provider_waits WHERE tenant = $1 AND id = $2", named)?;
    note(transaction, key, erasure, salt)
}

/// The salt of a journal whose erasure is under way.
fn kept_salt(connection: Connection<'_>, key: Key) -> db::Result<Option<Salt>> {
    connection
        .prepare_cached("SELECT salt FROM notes WHERE tenant = $1 AND id = $2 AND kind = $3")?
        .query_row((key.tenant.0, key.id.as_bytes(), Note::ERASING), |row| row.get(0))
        .optional()
}

fn status(connection: Connection<'_>, key: Key) -> db::Result<Option<Status>> {
    let code: Option<u8> = connection
        .prepare_cached("SELECT status FROM aggregates WHERE tenant = $1 AND id = $2 /* FOR UPDATE */")?
        .query_row((key.tenant.0, key.id.as_bytes()), |row| row.get(0))
        .optional()?;
    code.map(|code| reader::status(0, code)).transpose()
}

pub(crate) fn salt(connection: Connection<'_>, key: Key) -> db::Result<Option<Salt>> {
    let salt = connection
        .prepare_cached("SELECT salt FROM events WHERE tenant = $1 AND id = $2 AND seq = 0")?
        .query_row((key.tenant.0, key.id.as_bytes()), |row| row.get(0))
        .optional()?;
    checked(0, salt.ok_or_else(|| "the first event is missing".to_owned()))
}

/// Leaves of a payload its salted hash.
fn erase_payload(transaction: Connection<'_>, key: Key, salt: &Salt, record: &Record) -> db::Result<()> {
    if let Payload::Erased(_) = record.payload {
        return Ok(());
    }
    let left = record.digest(Some(salt));
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
/// belong to whoever will hear them; and whoever asks how it stands is still told how it ended.
fn erase_messages(transaction: Connection<'_>, key: Key) -> db::Result<()> {
    let (tenant, id) = (key.tenant.0, key.id.as_bytes());
    transaction.execute(
        "DELETE FROM outbox WHERE tenant = $1 AND receiver = $2 AND type <> $3",
        (tenant, id, Message::WATCH),
    )?;
    let [completed, failed, cancelled] = ENDED.map(Status::code);
    transaction.execute(
        "DELETE FROM outbox WHERE tenant = $1 AND sender = $2 AND receiver IN \
         (SELECT id FROM aggregates WHERE tenant = $1 AND id = outbox.receiver AND status IN ($3, $4, $5))",
        (tenant, id, completed, failed, cancelled),
    )?;
    Ok(())
}

fn note(transaction: Connection<'_>, key: Key, erasure: &Erasure, salt: Salt) -> db::Result<()> {
    let (tenant, id) = (key.tenant.0, key.id.as_bytes());
    let events: u64 = transaction.query_row(
        "SELECT max(seq) + 1 FROM events WHERE tenant = $1 AND id = $2",
        (tenant, id),
        |row| row.get(0),
    )?;
    let body = match &erasure.reason {
        Some(reason) => json!({"events": events, "reason": reason}),
        None => json!({"events": events}),
    };
    transaction.execute(
        "INSERT INTO notes (tenant, id, seq, at, kind, by, body, salt) \
         SELECT $1, $2, coalesce(max(seq) + 1, 0), $3, $4, $5, $6, $7 FROM notes WHERE tenant = $1 AND id = $2",
        (tenant, id, erasure.at, Note::ERASING, &erasure.by, body.to_string().into_bytes(), salt),
    )?;
    Ok(())
}

pub(crate) fn notes(connection: Connection<'_>, key: Key) -> db::Result<Vec<Note>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, by, body FROM notes WHERE tenant = $1 AND id = $2 ORDER BY seq",
    )?;
    statement.query_map((key.tenant.0, key.id.as_bytes()), read_note)?.collect()
}

/// The columns seq, at, kind, by, body.
pub(crate) fn read_note(row: &Row<'_>) -> db::Result<Note> {
    let body: Vec<u8> = row.get(4)?;
    let body = checked(4, serde_json::from_slice(&body).map_err(|error| error.to_string()))?;
    Ok(Note { sequence: row.get(0)?, at: row.get(1)?, kind: row.get(2)?, by: row.get(3)?, body })
}
