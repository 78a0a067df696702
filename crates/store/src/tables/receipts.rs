//! What was answered to requests that may be repeated, and which runs keep others from starting.

use crate::db::{self, Connection, Optional};
use abide_core::{Millis, RunId, TenantId};

use super::reader;
use crate::Receipt;
use crate::sql::{self, ENDED};

pub(crate) fn get(
    connection: Connection<'_>,
    tenant: TenantId,
    endpoint: &str,
    key: &[u8; 32],
) -> db::Result<Option<Receipt>> {
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

pub(crate) fn put(transaction: Connection<'_>, receipt: &Receipt) -> db::Result<bool> {
    Ok(sql::execute(transaction, &sql::receipt(receipt))? > 0)
}

const FORGET: &str = "DELETE FROM receipts WHERE tenant = $1 AND endpoint = $2 AND key = $3";

pub(crate) fn forget(
    transaction: Connection<'_>,
    tenant: TenantId,
    endpoint: &str,
    key: &[u8; 32],
) -> db::Result<()> {
    transaction.prepare_cached(FORGET)?.execute((tenant.0, endpoint, key)).map(drop)
}

pub(crate) fn purge(transaction: Connection<'_>, before: Millis, limit: usize) -> db::Result<usize> {
    let mut oldest = transaction
        .prepare_cached("SELECT tenant, endpoint, key FROM receipts WHERE at < $1 ORDER BY at LIMIT $2")?;
    let read = |row: &db::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let oldest = oldest.query_map((before, limit as i64), read)?;
    let oldest: Vec<(i64, String, Vec<u8>)> = oldest.collect::<db::Result<_>>()?;
    let mut forget = transaction.prepare_cached(FORGET)?;
    for row in &oldest {
        forget.execute((row.0, &row.1, &row.2))?;
    }
    Ok(oldest.len())
}

pub(crate) fn claimant(
    connection: Connection<'_>,
    tenant: TenantId,
    workflow: &str,
    scope: &str,
) -> db::Result<Option<RunId>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.run FROM claims c JOIN aggregates a ON a.tenant = c.tenant AND a.id = c.run \
         WHERE c.tenant = $1 AND c.workflow = $2 AND c.scope = $3 AND a.status NOT IN ($4, $5, $6)",
    )?;
    let [completed, failed, cancelled] = ENDED.map(abide_core::Status::code);
    let named = (tenant.0, workflow, scope, completed, failed, cancelled);
    statement.query_row(named, |row| reader::run_id(row, 0)).optional()
}
