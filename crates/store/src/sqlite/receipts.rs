//! What was answered to requests that may be repeated, and which runs keep others from starting.

use abide_core::{Millis, RunId, TenantId};
use rusqlite::{Connection, OptionalExtension, Transaction};

use super::{reader, writer};
use crate::Receipt;
use crate::sql::{self, ENDED};

pub(super) fn get(
    connection: &Connection,
    tenant: TenantId,
    endpoint: &str,
    key: &[u8; 32],
) -> rusqlite::Result<Option<Receipt>> {
    let mut statement = connection.prepare_cached(
        "SELECT digest, status, body, at FROM receipts WHERE tenant = $1 AND endpoint = $2 AND key = $3",
    )?;
    statement
        .query_row((tenant.0, endpoint, key), |row| {
            Ok(Receipt {
                tenant,
                endpoint: endpoint.to_owned(),
                key: *key,
                digest: row.get(0)?,
                status: row.get(1)?,
                body: row.get(2)?,
                at: row.get(3)?,
            })
        })
        .optional()
}

pub(super) fn put(transaction: &Transaction<'_>, receipt: &Receipt) -> rusqlite::Result<bool> {
    Ok(writer::execute(transaction, &sql::receipt(receipt))? > 0)
}

pub(super) fn purge(transaction: &Transaction<'_>, before: Millis, limit: usize) -> rusqlite::Result<usize> {
    let mut oldest = transaction
        .prepare_cached("SELECT tenant, endpoint, key FROM receipts WHERE at < $1 ORDER BY at LIMIT $2")?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let oldest = oldest.query_map((before, limit as i64), read)?;
    let oldest: Vec<(i64, String, Vec<u8>)> = oldest.collect::<rusqlite::Result<_>>()?;
    let mut forget = transaction
        .prepare_cached("DELETE FROM receipts WHERE tenant = $1 AND endpoint = $2 AND key = $3")?;
    for row in &oldest {
        forget.execute((row.0, &row.1, &row.2))?;
    }
    Ok(oldest.len())
}

pub(super) fn claimant(
    connection: &Connection,
    tenant: TenantId,
    workflow: &str,
    scope: &str,
) -> rusqlite::Result<Option<RunId>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.run FROM claims c JOIN aggregates a ON a.tenant = c.tenant AND a.id = c.run \
         WHERE c.tenant = $1 AND c.workflow = $2 AND c.scope = $3 AND a.status NOT IN ($4, $5, $6)",
    )?;
    let [completed, failed, cancelled] = ENDED.map(abide_core::Status::code);
    let named = (tenant.0, workflow, scope, completed, failed, cancelled);
    statement.query_row(named, |row| reader::run_id(row, 0)).optional()
}
