//! Annotations: notes that people make about an aggregate, during its life and after.

use crate::db::{self, Connection};
use abide_core::Key;

use super::erase::{read_note, salt};
use super::{reader, receipts};
use crate::{Annotated, Annotations, NewAnnotation, Note};

/// What is left of a body once it was erased: JSON's null.
pub(super) const NOTHING: &[u8] = b"null";

pub(crate) fn add(transaction: Connection<'_>, new: &NewAnnotation) -> db::Result<Annotated> {
    let (tenant, id) = (new.key.tenant.0, new.key.id.as_bytes());
    transaction.exclude("notes", new.key.tenant)?;
    if reader::head(transaction, new.key)?.is_none() {
        return Ok(Annotated::NotFound);
    }
    if salt(transaction, new.key)?.is_none() {
        return Ok(Annotated::Erased);
    }
    if count(transaction, new.key)? >= new.most as u64 {
        return Ok(Annotated::Full);
    }
    if let Some(receipt) = &new.receipt
        && !receipts::put(transaction, receipt)?
    {
        return Ok(Annotated::Receipted);
    }
    let sequence: u64 = transaction
        .prepare_cached("SELECT coalesce(max(seq) + 1, 0) FROM notes WHERE tenant = $1 AND id = $2")?
        .query_row((tenant, id), |row| row.get(0))?;
    transaction
        .prepare_cached(
            "INSERT INTO notes (tenant, id, seq, at, kind, by, body) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )?
        .execute((tenant, id, sequence, new.at, Note::ANNOTATION, &new.by, new.body.text().as_bytes()))?;
    Ok(Annotated::Done { sequence })
}

pub(crate) fn page(
    connection: Connection<'_>,
    key: Key,
    after: Option<u64>,
    limit: usize,
) -> db::Result<Annotations> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, kind, by, body FROM notes \
         WHERE tenant = $1 AND id = $2 AND seq >= $3 AND kind = $4 AND body <> $5 ORDER BY seq LIMIT $6",
    )?;
    // No sequence on disk is beyond what SQLite counts with, so nothing lies behind a place that is.
    let from = after.map_or(0, |after| i64::try_from(after).unwrap_or(i64::MAX).saturating_add(1));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let (tenant, id) = (key.tenant.0, key.id.as_bytes());
    let page = statement
        .query_map((tenant, id, from, Note::ANNOTATION, NOTHING, limit), read_note)?
        .collect::<db::Result<_>>()?;
    Ok(Annotations { page, total: count(connection, key)? })
}

fn count(connection: Connection<'_>, key: Key) -> db::Result<u64> {
    connection
        .prepare_cached(
            "SELECT count(*) FROM notes WHERE tenant = $1 AND id = $2 AND kind = $3 AND body <> $4",
        )?
        .query_row((key.tenant.0, key.id.as_bytes(), Note::ANNOTATION, NOTHING), |row| row.get(0))
}

/// Takes away what annotations and records say, and the receipts that repeat it. That somebody made them stays.
pub(crate) fn erase(transaction: Connection<'_>, key: Key) -> db::Result<()> {
    transaction.execute(
        "UPDATE notes SET body = $1 WHERE tenant = $2 AND id = $3 AND kind NOT IN ($4, $5)",
        (NOTHING, key.tenant.0, key.id.as_bytes(), Note::ERASED, Note::ERASING),
    )?;
    let endpoint = NewAnnotation::endpoint(key.id);
    transaction
        .execute("DELETE FROM receipts WHERE tenant = $1 AND endpoint = $2", (key.tenant.0, endpoint))?;
    Ok(())
}
