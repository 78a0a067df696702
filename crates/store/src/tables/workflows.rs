//! Workflows as users pushed them: numbered versions, and the bytes in blobs.

use std::sync::Arc;

use crate::db::{self, Connection, Optional, Row};
use abide_core::TenantId;

use super::reader::checked;
use crate::rows::hash;
use crate::sql::PUT_BLOB;
use crate::{NewWorkflow, WorkflowVersion};

/// Makes a new version, unless the latest one has the same bytes.
pub(crate) fn put(transaction: Connection<'_>, new: NewWorkflow) -> db::Result<WorkflowVersion> {
    transaction.exclude("workflows", new.tenant)?;
    let latest = versions(transaction, new.tenant, &new.id, 1)?.pop();
    let next = match latest {
        Some(latest) if latest.hash == new.hash => return Ok(latest),
        Some(latest) => latest.version + 1,
        None => 1,
    };
    transaction.execute(PUT_BLOB, (new.tenant.0, new.hash, &new.source[..]))?;
    transaction.execute(
        "INSERT INTO workflows (tenant, id, version, hash, name, created_at, created_by, retention) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        (new.tenant.0, &new.id, next, new.hash, &new.name, new.at, &new.by, &new.retention),
    )?;
    let NewWorkflow { id, name, hash, at, by, .. } = new;
    Ok(WorkflowVersion { id, version: next, name, hash, created_at: at, created_by: by, created: true })
}

/// One version with its bytes: the latest, if none is named.
pub(crate) fn get(
    connection: Connection<'_>,
    tenant: TenantId,
    id: &str,
    version: Option<u32>,
) -> db::Result<Option<(WorkflowVersion, Arc<[u8]>)>> {
    let mut statement = connection.prepare_cached(
        "SELECT w.id, w.version, w.hash, w.name, w.created_at, w.created_by, b.bytes \
         FROM workflows w LEFT JOIN blobs b ON b.tenant = w.tenant AND b.hash = w.hash \
         WHERE w.tenant = $1 AND w.id = $2 AND w.version = coalesce($3, w.version) \
         ORDER BY w.version DESC LIMIT 1",
    )?;
    let found = statement.query_row((tenant.0, id, version), |row| {
        let bytes: Option<Vec<u8>> = row.get(6)?;
        let bytes = checked(6, bytes.ok_or_else(|| format!("the bytes of workflow '{id}' are missing")))?;
        Ok((workflow(row)?, bytes.into()))
    });
    found.optional()
}

/// The latest version of each workflow, by id.
pub(crate) fn latest(connection: Connection<'_>, tenant: TenantId) -> db::Result<Vec<WorkflowVersion>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, version, hash, name, created_at, created_by FROM workflows w \
         WHERE tenant = $1 AND version = \
         (SELECT max(version) FROM workflows v WHERE v.tenant = w.tenant AND v.id = w.id) ORDER BY id",
    )?;
    statement.query_map([tenant.0], workflow)?.collect()
}

/// The versions of one workflow, newest first.
pub(crate) fn versions(
    connection: Connection<'_>,
    tenant: TenantId,
    id: &str,
    limit: i64,
) -> db::Result<Vec<WorkflowVersion>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, version, hash, name, created_at, created_by FROM workflows \
         WHERE tenant = $1 AND id = $2 ORDER BY version DESC LIMIT $3",
    )?;
    statement.query_map((tenant.0, id, limit), workflow)?.collect()
}

fn workflow(row: &Row<'_>) -> db::Result<WorkflowVersion> {
    Ok(WorkflowVersion {
        id: row.get(0)?,
        version: row.get(1)?,
        hash: checked(2, hash(&row.get::<Vec<u8>>(2)?))?,
        name: row.get(3)?,
        created_at: row.get(4)?,
        created_by: row.get(5)?,
        created: false,
    })
}
