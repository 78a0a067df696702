//! Who waits for whom, who watches whom, and who belongs to which group.

use abide_core::{Key, MemberRow, Role, RunId, Status, Suspension, TenantId};

use super::Database;
use super::reader::{LISTED, checked, listed, run_id, status};
use crate::Listed;
use crate::containers::Containers;
use crate::db::{self, Connection, Optional, Row, Value};
use crate::store::Answer;

/// Everything that a run waits for, one step at a time, by what it was told to wait for and by what it started.
const WAITS_FOR: &str = "WITH RECURSIVE waits (id) AS (SELECT CAST(?1 AS BLOB) \
    UNION SELECT d.upstream FROM waits w JOIN dependencies d ON d.tenant = ?2 AND d.run = w.id \
    UNION SELECT c.child FROM waits w JOIN children c ON c.tenant = ?2 AND c.parent = w.id) \
    SELECT count(*) FROM waits WHERE id = ?3";

/// The same for an engine that takes each step in one piece.
const WAITS_FOR_AT_ONCE: &str = "WITH RECURSIVE waits (id) AS (SELECT CAST(?1 AS BLOB) \
    UNION SELECT n.next FROM waits w CROSS JOIN LATERAL (\
    SELECT d.upstream AS next FROM dependencies d WHERE d.tenant = ?2 AND d.run = w.id UNION ALL \
    SELECT c.child FROM children c WHERE c.tenant = ?2 AND c.parent = w.id) n) \
    SELECT count(*) FROM waits WHERE id = ?3";

/// What [`member_row`] reads.
const MEMBER: &str =
    "SELECT run, role, priority, added_at, status, since, expires_at, cost, heard FROM members";

impl<E: Database> Containers for E {
    fn circle_version(&self, tenant: TenantId) -> Answer<'_, u64> {
        self.read(move |connection| {
            let sql = "SELECT version FROM circles WHERE tenant = $1";
            Ok(connection.query_row(sql, [tenant.0], |row| row.get(0)).optional()?.unwrap_or(0))
        })
    }

    fn waits_for(&self, key: Key, other: RunId) -> Answer<'_, bool> {
        self.read(move |connection| {
            let sql = match connection {
                Connection::Sqlite(_) => WAITS_FOR,
                Connection::Postgres(_) => WAITS_FOR_AT_ONCE,
            };
            let values = (key.id.as_bytes(), key.tenant.0, other.as_bytes());
            connection.query_row(sql, values, |row| row.get::<u64>(0)).map(|found| found > 0)
        })
    }

    fn dependents(&self, key: Key, after: Option<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Status)>> {
        self.read(move |connection| {
            let sql = "SELECT w.watcher, a.status FROM watchers w \
                 JOIN aggregates a ON a.tenant = w.tenant AND a.id = w.watcher AND a.kind = 1 \
                 WHERE w.tenant = $1 AND w.run = $2 AND w.watcher > $3 ORDER BY w.watcher";
            let after = after.map_or([0; 16], |run| *run.as_bytes());
            let values = (key.tenant.0, *key.id.as_bytes(), after);
            connection.readable(sql, values, limit, |row| Ok((run_id(row, 0)?, status(1, row.get(1)?)?)))
        })
    }

    fn child_counts(&self, parent: Key) -> Answer<'_, Vec<(Option<Status>, u64)>> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT a.status, count(*) FROM children c \
                 LEFT JOIN aggregates a ON a.tenant = c.tenant AND a.id = c.child \
                 WHERE c.tenant = $1 AND c.parent = $2 GROUP BY a.status ORDER BY a.status",
            )?;
            let read = |row: &Row<'_>| {
                let code: Option<u8> = row.get(0)?;
                Ok((code.map(|code| status(0, code)).transpose()?, row.get(1)?))
            };
            statement.query_map((parent.tenant.0, parent.id.as_bytes()), read)?.collect()
        })
    }

    fn groups(&self, tenant: TenantId, before: Option<RunId>, limit: usize) -> Answer<'_, Vec<Listed>> {
        self.read(move |connection| {
            let before = before.map_or([0xff; 16], |run| *run.as_bytes());
            let sql = format!(
                "SELECT {LISTED} FROM aggregates WHERE tenant = $1 AND kind = 2 AND id < $2 ORDER BY id DESC"
            );
            connection.readable(&sql, (tenant.0, before), limit, listed)
        })
    }

    fn member(&self, group: Key, run: RunId) -> Answer<'_, Option<MemberRow>> {
        self.read(move |connection| {
            let sql = format!("{MEMBER} WHERE tenant = $1 AND grp = $2 AND run = $3");
            let values = (group.tenant.0, group.id.as_bytes(), run.as_bytes());
            connection.query_row(&sql, values, member_row).optional()
        })
    }

    fn members(
        &self,
        group: Key,
        statuses: Vec<Status>,
        after: Option<RunId>,
        limit: usize,
    ) -> Answer<'_, Vec<MemberRow>> {
        self.read(move |connection| {
            let after = after.map_or([0; 16], |run| *run.as_bytes());
            let mut sql = format!("{MEMBER} WHERE tenant = ?1 AND grp = ?2 AND run > ?3");
            if !statuses.is_empty() {
                let codes: Vec<String> = statuses.iter().map(|status| status.code().to_string()).collect();
                sql += &format!(" AND status IN ({})", codes.join(", "));
            }
            sql += " ORDER BY run";
            let values: Vec<Value<'static>> =
                vec![Value::owned(&group.tenant.0), Value::owned(group.id.as_bytes()), Value::owned(&after)];
            connection.readable(&sql, values, limit, member_row)
        })
    }

    fn groups_of(&self, run: Key, limit: usize) -> Answer<'_, Vec<(RunId, Role)>> {
        self.read(move |connection| {
            let sql = "SELECT grp, role FROM members WHERE tenant = $1 AND run = $2 ORDER BY grp";
            let values = (run.tenant.0, *run.id.as_bytes());
            connection.readable(sql, values, limit, |row| Ok((run_id(row, 0)?, role(1, row.get(1)?)?)))
        })
    }
}

fn role(at: usize, code: u8) -> db::Result<Role> {
    checked(at, Role::by_code(code).ok_or_else(|| format!("{code} is no role")))
}

/// The columns of [`MEMBER`].
fn member_row(row: &Row<'_>) -> db::Result<MemberRow> {
    let since: Option<i64> = row.get(5)?;
    let expires_at = row.get(6)?;
    let priority: i64 = row.get(2)?;
    Ok(MemberRow {
        run: run_id(row, 0)?,
        role: role(1, row.get(1)?)?,
        priority: i32::try_from(priority).unwrap_or_default(),
        added_at: row.get(3)?,
        status: status(4, row.get(4)?)?,
        suspended: since.map(|since| Suspension { since, expires_at }),
        cost_micros: row.get(7)?,
        heard: row.get(8)?,
    })
}

/// What a run waits for, who watches it, and who belongs to it.
pub(crate) struct Bound {
    pub(crate) dependencies: Vec<RunId>,
    pub(crate) watchers: Vec<RunId>,
    pub(crate) members: Vec<MemberRow>,
}

pub(crate) fn of_run(connection: Connection<'_>, key: Key) -> db::Result<Bound> {
    let named = (key.tenant.0, key.id.as_bytes());
    let ids = |sql: &str| -> db::Result<Vec<RunId>> {
        connection.prepare_cached(sql)?.query_map(named, |row| run_id(row, 0))?.collect()
    };
    Ok(Bound {
        dependencies: ids(
            "SELECT upstream FROM dependencies WHERE tenant = $1 AND run = $2 ORDER BY upstream",
        )?,
        watchers: ids("SELECT watcher FROM watchers WHERE tenant = $1 AND run = $2 ORDER BY watcher")?,
        members: connection
            .prepare_cached(&format!("{MEMBER} WHERE tenant = $1 AND grp = $2 ORDER BY run"))?
            .query_map(named, member_row)?
            .collect::<db::Result<_>>()?,
    })
}

/// Everything of a run that is removed, or about to be made anew.
pub(crate) fn forget(transaction: Connection<'_>, key: Key) -> db::Result<()> {
    let named = (key.tenant.0, key.id.as_bytes());
    for sql in [
        "DELETE FROM dependencies WHERE tenant = $1 AND run = $2",
        "DELETE FROM watchers WHERE tenant = $1 AND run = $2",
        "DELETE FROM members WHERE tenant = $1 AND grp = $2",
    ] {
        transaction.prepare_cached(sql)?.execute(named)?;
    }
    Ok(())
}
