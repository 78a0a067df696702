//! Records beside aggregates. They lie among the notes.

use abide_core::{Json, Key, RunId, TenantId};

use super::annotations::NOTHING;
use super::erase::{read_note, salt};
use super::{Database, reader};
use crate::Note;
use crate::db::{self, Connection, Optional};
use crate::records::{NewRecord, Recorded, Records};
use crate::store::Answer;

const COUNT: &str = "SELECT count(*) FROM notes WHERE tenant = $1 AND id = $2 AND kind = $3";

const NEWEST: &str = "SELECT max(seq) FROM notes WHERE tenant = $1 AND id = $2 AND kind = $3";

const ONE: &str = "SELECT seq, at, kind, by, body FROM notes \
    WHERE tenant = $1 AND id = $2 AND seq = $3 AND kind = $4 AND body <> $5";

const AFTER: &str = "SELECT seq, at, kind, by, body FROM notes INDEXED BY notes_by_kind \
    WHERE tenant = $1 AND id = $2 AND kind = $3 AND seq >= $4 AND body <> $5 ORDER BY seq LIMIT $6";

const BEFORE: &str = "SELECT seq, at, kind, by, body FROM notes INDEXED BY notes_by_kind \
    WHERE tenant = $1 AND id = $2 AND kind = $3 AND seq < $4 AND body <> $5 ORDER BY seq DESC LIMIT $6";

const FROM: &str = "SELECT seq, at, kind, by, body FROM notes \
    WHERE tenant = $1 AND id = $2 AND seq >= $3 AND body <> $4 ORDER BY seq LIMIT $5";

const NEXT: &str = "SELECT coalesce(max(seq) + 1, 0) FROM notes WHERE tenant = $1 AND id = $2";

const SUBSCRIPTIONS: &str = "SELECT seq, at, kind, by, body, id FROM notes INDEXED BY notes_of_subscribers \
    WHERE tenant = $1 AND by = $2 AND kind = 'subscription' AND body <> $3 ORDER BY id, seq LIMIT $4";

const REPLACE: &str =
    "UPDATE notes SET body = $1 WHERE tenant = $2 AND id = $3 AND seq = $4 AND kind = $5 AND body = $6";

const REMOVE: &str =
    "UPDATE notes SET body = $1 WHERE tenant = $2 AND id = $3 AND seq = $4 AND kind = $5 AND body <> $1";

impl<E: Database> Records for E {
    fn add(&self, record: NewRecord) -> Answer<'_, Recorded> {
        self.write(move |connection| add(connection, &record))
    }

    fn get(&self, key: Key, kind: String, sequence: u64) -> Answer<'_, Option<Note>> {
        self.read(move |connection| {
            let place = (key.tenant.0, key.id.as_bytes(), sequence, &kind, NOTHING);
            connection.prepare_cached(ONE)?.query_row(place, read_note).optional()
        })
    }

    fn replace(&self, key: Key, kind: String, sequence: u64, seen: Json, body: Json) -> Answer<'_, bool> {
        self.write(move |connection| {
            let (body, seen) = (body.text().as_bytes(), seen.text().as_bytes());
            let values = (body, key.tenant.0, key.id.as_bytes(), sequence, &kind, seen);
            Ok(seen != NOTHING && connection.prepare_cached(REPLACE)?.execute(values)? > 0)
        })
    }

    fn remove(&self, key: Key, kind: String, sequence: u64) -> Answer<'_, bool> {
        self.write(move |connection| {
            let values = (NOTHING, key.tenant.0, key.id.as_bytes(), sequence, &kind);
            Ok(connection.prepare_cached(REMOVE)?.execute(values)? > 0)
        })
    }

    fn count(&self, key: Key, kind: String) -> Answer<'_, u64> {
        self.read(move |connection| {
            let of_kind = (key.tenant.0, key.id.as_bytes(), &kind);
            connection.prepare_cached(COUNT)?.query_row(of_kind, |row| row.get(0))
        })
    }

    fn after(&self, key: Key, kind: String, after: Option<u64>, limit: usize) -> Answer<'_, Vec<Note>> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        self.read(move |connection| page(connection, AFTER, key, &kind, from, limit))
    }

    fn from(&self, key: Key, from: u64, limit: usize) -> Answer<'_, Vec<Note>> {
        let (from, limit) = (counted(from), i64::try_from(limit).unwrap_or(i64::MAX));
        self.read(move |connection| {
            let values = (key.tenant.0, key.id.as_bytes(), from, NOTHING, limit);
            connection.prepare_cached(FROM)?.query_map(values, read_note)?.collect()
        })
    }

    fn next(&self, key: Key) -> Answer<'_, u64> {
        self.read(move |connection| {
            connection.prepare_cached(NEXT)?.query_row((key.tenant.0, key.id.as_bytes()), |row| row.get(0))
        })
    }

    fn subscriptions(&self, tenant: TenantId, by: String, limit: usize) -> Answer<'_, Vec<(RunId, Note)>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |connection| {
            let values = (tenant.0, &by, NOTHING, limit);
            let mut statement = connection.prepare_cached(SUBSCRIPTIONS)?;
            statement.query_map(values, |row| Ok((reader::run_id(row, 5)?, read_note(row)?)))?.collect()
        })
    }

    fn before(&self, key: Key, kind: String, before: Option<u64>, limit: usize) -> Answer<'_, Vec<Note>> {
        let to = before.unwrap_or(u64::MAX);
        self.read(move |connection| page(connection, BEFORE, key, &kind, to, limit))
    }
}

fn add(transaction: Connection<'_>, new: &NewRecord) -> db::Result<Recorded> {
    let (tenant, id) = (new.key.tenant.0, new.key.id.as_bytes());
    transaction.exclude("notes", new.key.tenant)?;
    if reader::head(transaction, new.key)?.is_none() {
        return Ok(Recorded::NotFound);
    }
    if salt(transaction, new.key)?.is_none() {
        return Ok(Recorded::Erased);
    }
    let of_kind = (tenant, id, &new.kind);
    if let Some(behind) = new.behind {
        let newest: Option<u64> = transaction.prepare_cached(NEWEST)?.query_row(of_kind, |row| row.get(0))?;
        if newest != behind {
            return Ok(Recorded::Raced);
        }
    }
    let count: u64 = transaction.prepare_cached(COUNT)?.query_row(of_kind, |row| row.get(0))?;
    if count >= new.most as u64 {
        return Ok(Recorded::Full);
    }
    let sequence: u64 = transaction.prepare_cached(NEXT)?.query_row((tenant, id), |row| row.get(0))?;
    let body = new.body.text().as_bytes();
    transaction
        .prepare_cached(
            "INSERT INTO notes (tenant, id, seq, at, kind, by, body) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )?
        .execute((tenant, id, sequence, new.at, &new.kind, &new.by, body))?;
    Ok(Recorded::Done { sequence })
}

/// No sequence on disk is beyond what SQLite counts with, so a place that is stands for the last.
fn counted(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

fn page(
    connection: Connection<'_>,
    sql: &str,
    key: Key,
    kind: &str,
    place: u64,
    limit: usize,
) -> db::Result<Vec<Note>> {
    let place = counted(place);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values = (key.tenant.0, key.id.as_bytes(), kind, place, NOTHING, limit);
    connection.prepare_cached(sql)?.query_map(values, read_note)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::migrate::plan;

    #[test]
    fn records_of_a_kind_are_found_without_passing_those_of_others() {
        for (sql, values, index) in [
            (COUNT, 3, "COVERING INDEX notes_by_kind (tenant=? AND id=? AND kind=?)"),
            (NEWEST, 3, "COVERING INDEX notes_by_kind (tenant=? AND id=? AND kind=?)"),
            (AFTER, 6, "INDEX notes_by_kind (tenant=? AND id=? AND kind=? AND seq>?)"),
            (BEFORE, 6, "INDEX notes_by_kind (tenant=? AND id=? AND kind=? AND seq<?)"),
            (FROM, 5, "PRIMARY KEY (tenant=? AND id=? AND seq>?)"),
            (NEXT, 2, "PRIMARY KEY (tenant=? AND id=?)"),
            (SUBSCRIPTIONS, 4, "INDEX notes_of_subscribers (tenant=? AND by=?)"),
        ] {
            let plan = plan(sql, values);
            assert!(plan.contains(index), "{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
