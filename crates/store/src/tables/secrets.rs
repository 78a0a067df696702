//! Secrets of tenants, sealed by somebody who has the key.

use std::sync::Arc;

use crate::db::{self, Connection, Optional, Row};
use abide_core::TenantId;

use crate::SecretRow;

/// Sets a secret. One that was there keeps the time at which it was made.
pub(crate) fn put(transaction: Connection<'_>, secret: &SecretRow) -> db::Result<()> {
    transaction.execute(
        "INSERT INTO secrets (tenant, name, sealed, created_at, updated_at, updated_by) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, name) DO UPDATE \
         SET sealed = excluded.sealed, updated_at = excluded.updated_at, updated_by = excluded.updated_by",
        (
            secret.tenant.0,
            &secret.name,
            &secret.sealed[..],
            secret.created_at,
            secret.updated_at,
            &secret.updated_by,
        ),
    )?;
    Ok(())
}

pub(crate) fn get(connection: Connection<'_>, tenant: TenantId, name: &str) -> db::Result<Option<SecretRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, name, sealed, created_at, updated_at, updated_by FROM secrets \
         WHERE tenant = $1 AND name = $2",
    )?;
    statement.query_row((tenant.0, name), secret).optional()
}

/// Every secret of a tenant, without its value.
pub(crate) fn list(connection: Connection<'_>, tenant: TenantId) -> db::Result<Vec<SecretRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, name, x'', created_at, updated_at, updated_by FROM secrets \
         WHERE tenant = $1 ORDER BY name",
    )?;
    statement.query_map([tenant.0], secret)?.collect()
}

pub(crate) fn delete(transaction: Connection<'_>, tenant: TenantId, name: &str) -> db::Result<bool> {
    let sql = "DELETE FROM secrets WHERE tenant = $1 AND name = $2";
    Ok(transaction.execute(sql, (tenant.0, name))? > 0)
}

fn secret(row: &Row<'_>) -> db::Result<SecretRow> {
    Ok(SecretRow {
        tenant: TenantId(row.get(0)?),
        name: row.get(1)?,
        sealed: Arc::from(row.get::<Vec<u8>>(2)?),
        created_at: row.get(3)?,
        updated_at: row.get(4)?,
        updated_by: row.get(5)?,
    })
}
