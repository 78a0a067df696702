//! The log of what was decided and done about runs, apart from their journals.

use crate::db::{self, Connection, Optional, Row};
use abide_core::{Key, TenantId};

use super::Database;
use super::reader::{checked, run_id};
use crate::audit_log::{AuditHead, AuditLog, AuditRecord, AuditRow, NewAudit};
use crate::rows::hash;
use crate::store::Answer;

impl<E: Database> AuditLog for E {
    fn append(&self, new: NewAudit) -> Answer<'_, u64> {
        self.write(move |transaction| append(transaction, &new))
    }

    fn about(&self, key: Key, limit: usize) -> Answer<'_, Vec<AuditRecord>> {
        self.read(move |connection| {
            let sql = format!("{RECORD} WHERE tenant = $1 AND run = $2 ORDER BY seq DESC");
            connection.readable(&sql, (key.tenant.0, key.id.as_bytes()), limit, record)
        })
    }

    fn page(&self, tenant: TenantId, from: u64, limit: usize) -> Answer<'_, Vec<AuditRow>> {
        self.read(move |connection| page(connection, tenant, from, limit))
    }

    fn heads(&self) -> Answer<'_, Vec<AuditHead>> {
        self.read(heads)
    }
}

/// What [`record`] reads.
const RECORD: &str = "SELECT seq, at, run, kind, body, chain FROM audit_log";

/// Adds a record as part of a transaction, so that what it tells of and the record are durable together.
pub(crate) fn append(transaction: Connection<'_>, new: &NewAudit) -> db::Result<u64> {
    let tenant = new.key.tenant;
    transaction.exclude("audit", tenant)?;
    let mut head = head(transaction, tenant)?.unwrap_or(AuditHead::new(tenant));
    let record = head.seal(new);
    let values = (
        tenant.0,
        record.sequence,
        record.at,
        record.run.as_bytes(),
        &record.kind,
        &record.body,
        record.chain,
    );
    transaction
        .prepare_cached(
            "INSERT INTO audit_log (tenant, seq, at, run, kind, body, chain) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )?
        .execute(values)?;
    transaction
        .prepare_cached(
            "INSERT INTO audit_heads (tenant, next, chain) VALUES ($1, $2, $3) \
             ON CONFLICT (tenant) DO UPDATE SET next = excluded.next, chain = excluded.chain",
        )?
        .execute((tenant.0, head.next, head.chain))?;
    Ok(record.sequence)
}

fn head(connection: Connection<'_>, tenant: TenantId) -> db::Result<Option<AuditHead>> {
    connection
        .prepare_cached("SELECT tenant, next, chain FROM audit_heads WHERE tenant = $1")?
        .query_row([tenant.0], read_head)
        .optional()
}

fn heads(connection: Connection<'_>) -> db::Result<Vec<AuditHead>> {
    let mut kept =
        connection.prepare_cached("SELECT tenant, next, chain FROM audit_heads ORDER BY tenant")?;
    let mut heads: Vec<AuditHead> = kept.query_map((), read_head)?.collect::<db::Result<_>>()?;
    let mut lost = connection.prepare_cached(
        "SELECT DISTINCT tenant FROM audit_log WHERE tenant NOT IN (SELECT tenant FROM audit_heads)",
    )?;
    for tenant in lost.query_map((), |row| row.get(0))? {
        heads.push(AuditHead::new(TenantId(tenant?)));
    }
    Ok(heads)
}

fn read_head(row: &Row<'_>) -> db::Result<AuditHead> {
    let chain = checked(2, hash(&row.get::<Vec<u8>>(2)?))?;
    Ok(AuditHead { tenant: TenantId(row.get(0)?), next: row.get(1)?, chain })
}

fn page(connection: Connection<'_>, tenant: TenantId, from: u64, limit: usize) -> db::Result<Vec<AuditRow>> {
    let sql = format!("{RECORD} WHERE tenant = $1 AND seq >= $2 ORDER BY seq LIMIT $3");
    let mut statement = connection.prepare_cached(&sql)?;
    // No place on disk is beyond what SQLite counts with, so nothing lies behind one that is.
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map((tenant.0, from, limit), |row| match record(row) {
        Ok(record) => Ok(Ok(record)),
        Err(error) if error.is_conversion() => Ok(Err((row.get(0)?, error.to_string()))),
        Err(error) => Err(error),
    })?;
    rows.collect()
}

fn record(row: &Row<'_>) -> db::Result<AuditRecord> {
    Ok(AuditRecord {
        sequence: row.get(0)?,
        at: row.get(1)?,
        run: run_id(row, 2)?,
        kind: row.get(3)?,
        body: row.get(4)?,
        chain: checked(5, hash(&row.get::<Vec<u8>>(5)?))?,
    })
}
