//! The rare reads and writes: leases, test time, tenants.

use crate::db::{self, Connection, Optional};
use abide_core::{TaskId, TenantId};

use super::{access, reader};
use crate::sql::CONSUME;
use crate::{MessageRef, TaskRow};

pub(crate) const TEST_CLOCK: &str = "test_clock_ms";
const BOOT: &str = "boot";

/// Counts the starts of a server on this data.
pub(crate) fn begin_boot(transaction: Connection<'_>) -> db::Result<u64> {
    let boot = setting(transaction, BOOT)?.unwrap_or(0) + 1;
    raise_setting(transaction, BOOT, boot)?;
    Ok(boot as u64)
}

pub(crate) fn setting(connection: Connection<'_>, name: &str) -> db::Result<Option<i64>> {
    connection.query_row("SELECT value FROM settings WHERE name = $1", [name], |row| row.get(0)).optional()
}

pub(crate) fn raise_setting(transaction: Connection<'_>, name: &str, to: i64) -> db::Result<i64> {
    transaction.query_row(
        "INSERT INTO settings (name, value) VALUES ($1, $2) \
         ON CONFLICT (name) DO UPDATE SET value = CASE WHEN settings.value > excluded.value THEN settings.value ELSE excluded.value END \
         RETURNING value",
        (name, to),
        |row| row.get(0),
    )
}

/// Raises a setting by one; the first time, to 1.
pub(crate) fn count_up(transaction: Connection<'_>, name: &str) -> db::Result<()> {
    let sql = "INSERT INTO settings (name, value) VALUES ($1, 1) \
         ON CONFLICT (name) DO UPDATE SET value = settings.value + 1";
    transaction.execute(sql, [name]).map(drop)
}

pub(crate) fn add_to_setting(transaction: Connection<'_>, name: &str, by: i64) -> db::Result<Option<i64>> {
    let sql = "UPDATE settings SET value = value + $1 WHERE name = $2 RETURNING value";
    transaction.query_row(sql, (by, name), |row| row.get(0)).optional()
}

/// Which tasks no living server has: on a store of one's own, all but this start's.
macro_rules! free_tasks {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM tasks WHERE boot <> $1 /* AND boot NOT IN (SELECT boot FROM servers \
             WHERE until > CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)) */ \
             ORDER BY tenant, id, node, execution LIMIT $2 /* FOR UPDATE SKIP LOCKED */"
        )
    };
}

pub(crate) fn claim_tasks(transaction: Connection<'_>, boot: u64, limit: usize) -> db::Result<Vec<TaskRow>> {
    let mut find =
        transaction.prepare_cached(free_tasks!("tenant, id, node, execution, fence, boot <> 0"))?;
    let mut claim = transaction.prepare_cached(concat!(
        "UPDATE tasks SET boot = $1, fence = fence + 1 WHERE (tenant, id, node, execution) IN (",
        free_tasks!("tenant, id, node, execution"),
        ") RETURNING tenant, id, node, execution, fence, 1"
    ))?;
    let mut claimed = Vec::new();
    // A row that can't be read is claimed and left alone. Others take its place, or the claim would look like the
    // last one there is.
    while claimed.len() < limit {
        let room = (limit - claimed.len()) as i64;
        let found = db::readable(find.query_map((boot, room), task)?, usize::MAX)?;
        let untouched = |row: &TaskRow| {
            found.iter().any(|before| before.task == row.task && before.key == row.key && !before.retaken)
        };
        let rows: Vec<_> = claim.query_map((boot, room), task)?.collect();
        if rows.is_empty() {
            break;
        }
        let mut rows = db::readable(rows.into_iter(), usize::MAX)?;
        rows.iter_mut().for_each(|row| row.retaken = !untouched(row));
        rows.sort_unstable_by(|a, b| (a.key, &a.task).cmp(&(b.key, &b.task)));
        claimed.extend(rows);
    }
    Ok(claimed)
}

/// The columns tenant, id, node, execution and fence, and whether somebody had it.
fn task(row: &db::Row<'_>) -> db::Result<TaskRow> {
    let node: String = row.get(2)?;
    let task = TaskId { node: node.into(), execution: row.get(3)? };
    Ok(TaskRow { key: reader::key(row, 0)?, task, fence: row.get(4)?, retaken: row.get(5)? })
}

pub(crate) fn discard(transaction: Connection<'_>, messages: &[MessageRef]) -> db::Result<()> {
    let mut statement = transaction.prepare_cached(CONSUME)?;
    for message in messages {
        let (sender, receiver) = (message.sender, message.receiver);
        statement.execute((sender.tenant.0, sender.id.as_bytes(), message.sequence, receiver.as_bytes()))?;
    }
    Ok(())
}

pub(crate) fn tenant(connection: Connection<'_>, name: &str) -> db::Result<Option<TenantId>> {
    let id = connection
        .query_row("SELECT id FROM tenants WHERE name = $1", [name], |row| row.get(0))
        .optional()?;
    Ok(id.map(TenantId))
}

pub(crate) fn make_tenant(transaction: Connection<'_>, name: &str) -> db::Result<Option<TenantId>> {
    let made =
        transaction.execute("INSERT INTO tenants (name) VALUES ($1) ON CONFLICT DO NOTHING", [name])? > 0;
    if made {
        access::note_change(transaction)?;
    }
    tenant(transaction, name)
}

/// Every tenant and its name.
pub(crate) fn tenants(connection: Connection<'_>) -> db::Result<Vec<(TenantId, String)>> {
    let mut statement = connection.prepare_cached("SELECT id, name FROM tenants ORDER BY id")?;
    statement.query_map((), |row| Ok((TenantId(row.get(0)?), row.get(1)?)))?.collect()
}
