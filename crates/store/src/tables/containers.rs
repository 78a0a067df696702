//! Who waits for whom, who watches whom, and who belongs to which group.

use std::collections::BTreeMap;

use abide_core::{Appointment, GROUP_WORKFLOW, Key, MemberRow, Role, RunId, Status, Suspension, TenantId};

use super::Database;
use super::reader::{LISTED, checked, listed, run_id, sent, status};
use crate::containers::{AssignmentRow, Containers, Known};
use crate::db::{self, Connection, Optional, Row, Value};
use crate::store::Answer;
use crate::{Listed, MessageRow};

/// Everything that a run waits for, one step at a time, by what it was told to wait for and by what it started. A limit
/// ends the walk, and not only what is told of it.
const BEFORE: &str = "WITH RECURSIVE waits (id) AS (SELECT CAST(?1 AS BLOB) \
    UNION SELECT d.upstream FROM waits w CROSS JOIN dependencies d WHERE d.tenant = ?2 AND d.run = w.id \
    UNION SELECT c.child FROM waits w CROSS JOIN children c WHERE c.tenant = ?2 AND c.parent = w.id) \
    SELECT id FROM waits LIMIT ?3";

/// Everything that waits for a run.
const BEHIND: &str = "WITH RECURSIVE waits (id) AS (SELECT CAST(?1 AS BLOB) \
    UNION SELECT d.run FROM waits w CROSS JOIN dependencies d WHERE d.tenant = ?2 AND d.upstream = w.id \
    UNION SELECT c.parent FROM waits w CROSS JOIN children c WHERE c.tenant = ?2 AND c.child = w.id) \
    SELECT id FROM waits LIMIT ?3";

/// The same for an engine that takes each step in one piece.
const BEFORE_AT_ONCE: &str = "WITH RECURSIVE waits (id) AS (SELECT CAST(?1 AS BLOB) \
    UNION SELECT n.next FROM waits w CROSS JOIN LATERAL (\
    SELECT d.upstream AS next FROM dependencies d WHERE d.tenant = ?2 AND d.run = w.id UNION ALL \
    SELECT c.child FROM children c WHERE c.tenant = ?2 AND c.parent = w.id) n) \
    SELECT id FROM waits LIMIT ?3";
const BEHIND_AT_ONCE: &str = "WITH RECURSIVE waits (id) AS (SELECT CAST(?1 AS BLOB) \
    UNION SELECT n.next FROM waits w CROSS JOIN LATERAL (\
    SELECT d.run AS next FROM dependencies d WHERE d.tenant = ?2 AND d.upstream = w.id UNION ALL \
    SELECT c.parent FROM children c WHERE c.tenant = ?2 AND c.child = w.id) n) \
    SELECT id FROM waits LIMIT ?3";

/// Runs that are walked to from either end at first, and by how many times more at each further try.
const WALK_MIN: u64 = 256;
const WALK_GROWTH: u64 = 8;

/// The runs that watch a run because they wait for it. A group does not.
const DEPENDENTS: &str = "SELECT w.watcher, a.status FROM watchers w \
    JOIN aggregates a ON a.tenant = w.tenant AND a.id = w.watcher AND a.kind = 1 \
    WHERE w.tenant = $1 AND w.run = $2 AND w.watcher > $3 ORDER BY w.watcher";

/// Whether a run asked for a child, and whether that goes along with it.
const ASKED_FOR: &str = "SELECT cascade FROM children WHERE tenant = $1 AND parent = $2 AND child = $3";

const CHILD_COUNTS: &str = "SELECT a.status, count(*) FROM children c \
    LEFT JOIN aggregates a ON a.tenant = c.tenant AND a.id = c.child \
    WHERE c.tenant = $1 AND c.parent = $2 GROUP BY a.status ORDER BY a.status NULLS FIRST";

const GROUPS_OF: &str =
    "SELECT grp, role FROM members INDEXED BY members_by_run WHERE tenant = $1 AND run = $2 ORDER BY grp";

/// What one has said to another: few say anything to that many.
const WORDS: &str = "SELECT tenant, sender, seq, receiver, type, version, message FROM outbox \
    WHERE tenant = $1 AND sender = $2 AND receiver = $3 ORDER BY seq";

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
        self.read(move |connection| waits(connection, key, other))
    }

    fn dependents(&self, key: Key, after: Option<RunId>, limit: usize) -> Answer<'_, Vec<(RunId, Status)>> {
        self.read(move |connection| {
            let after = after.map_or([0; 16], |run| *run.as_bytes());
            let values = (key.tenant.0, *key.id.as_bytes(), after);
            connection
                .readable(DEPENDENTS, values, limit, |row| Ok((run_id(row, 0)?, status(1, row.get(1)?)?)))
        })
    }

    fn asked_for(&self, parent: Key, child: RunId) -> Answer<'_, Option<bool>> {
        self.read(move |connection| {
            let values = (parent.tenant.0, parent.id.as_bytes(), child.as_bytes());
            connection.query_row(ASKED_FOR, values, |row| row.get(0)).optional()
        })
    }

    fn child_counts(&self, parent: Key) -> Answer<'_, Vec<(Option<Status>, u64)>> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(CHILD_COUNTS)?;
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
            connection.readable(&groups(), (tenant.0, before), limit, listed)
        })
    }

    fn member(&self, group: Key, run: RunId) -> Answer<'_, Option<MemberRow>> {
        self.read(move |connection| {
            let sql = format!("{MEMBER} WHERE tenant = $1 AND grp = $2 AND run = $3");
            let values = (group.tenant.0, group.id.as_bytes(), run.as_bytes());
            connection.query_row(&sql, values, member_row).optional()
        })
    }

    fn known_of(&self, key: Key, others: Vec<RunId>) -> Answer<'_, BTreeMap<RunId, Known>> {
        self.read(move |connection| {
            let mut known: BTreeMap<RunId, Known> = BTreeMap::new();
            for some in others.chunks(NAMED_AT_ONCE) {
                let heard = "SELECT sender, seq FROM heard WHERE tenant = ?1 AND receiver = ?2 AND sender";
                let mut heard = connection.prepare_cached(&among(heard))?;
                for row in heard.query_map(named(key, some), |row| Ok((run_id(row, 0)?, row.get(1)?)))? {
                    let (sender, sequence) = row?;
                    known.entry(sender).or_default().heard = Some(sequence);
                }
                let mut members = connection
                    .prepare_cached(&among(&format!("{MEMBER} WHERE tenant = ?1 AND grp = ?2 AND run")))?;
                for row in members.query_map(named(key, some), member_row)? {
                    let member = row?;
                    let run = member.run;
                    known.entry(run).or_default().member = Some(member);
                }
            }
            Ok(known)
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
            let values: Vec<Value<'static>> =
                vec![Value::owned(&group.tenant.0), Value::owned(group.id.as_bytes()), Value::owned(&after)];
            connection.readable(&members(&statuses), values, limit, member_row)
        })
    }

    fn assignments(
        &self,
        tenant: TenantId,
        agent: String,
        after: Option<u64>,
        limit: usize,
    ) -> Answer<'_, Vec<AssignmentRow>> {
        self.read(move |connection| {
            // No place on disk is beyond what SQLite counts with, so nothing lies behind one that is.
            let after = after.map_or(0, |after| i64::try_from(after).unwrap_or(i64::MAX));
            connection.readable(ASSIGNED, (tenant.0, &agent, after), limit, |row| {
                Ok(AssignmentRow { place: row.get(0)?, run: run_id(row, 1)? })
            })
        })
    }

    fn last_assignment(&self, tenant: TenantId) -> Answer<'_, u64> {
        self.read(move |connection| {
            let sql = "SELECT last FROM assignment_heads WHERE tenant = $1";
            Ok(connection.query_row(sql, [tenant.0], |row| row.get(0)).optional()?.unwrap_or(0))
        })
    }

    fn words(&self, sender: Key, receiver: RunId) -> Answer<'_, Vec<MessageRow>> {
        let sealing = self.sealing().clone();
        self.read(move |connection| {
            let values = (sender.tenant.0, sender.id.as_bytes(), receiver.as_bytes());
            let mut statement = connection.prepare_cached(WORDS)?;
            statement.query_map(values, |row| sent(row, &sealing))?.collect()
        })
    }

    fn groups_of(&self, run: Key, limit: usize) -> Answer<'_, Vec<(RunId, Role)>> {
        self.read(move |connection| {
            let values = (run.tenant.0, *run.id.as_bytes());
            connection.readable(GROUPS_OF, values, limit, |row| Ok((run_id(row, 0)?, role(1, row.get(1)?)?)))
        })
    }
}

/// What an agent is to work on, behind a place.
const ASSIGNED: &str = "SELECT place, run FROM assignments INDEXED BY assignments_by_agent \
     WHERE tenant = $1 AND agent = $2 AND place > $3 ORDER BY place";

/// All groups follow one definition, by which they are found among the runs.
fn groups() -> String {
    format!(
        "SELECT {LISTED} FROM aggregates INDEXED BY aggregates_by_workflow \
         WHERE tenant = $1 AND workflow = '{GROUP_WORKFLOW}' AND kind = 2 AND id < $2 ORDER BY id DESC"
    )
}

/// The members of a group behind one of them; only those that stand so, if any status is given.
fn members(statuses: &[Status]) -> String {
    let codes: Vec<String> = statuses.iter().map(|status| status.code().to_string()).collect();
    let standing =
        if codes.is_empty() { String::new() } else { format!(" AND status IN ({})", codes.join(", ")) };
    format!("{MEMBER} WHERE tenant = ?1 AND grp = ?2 AND run > ?3{standing} ORDER BY run")
}

/// Whether a run waits for another, directly or by way of others.
pub(super) fn waits(connection: Connection<'_>, key: Key, other: RunId) -> db::Result<bool> {
    let (before, behind) = match connection {
        Connection::Sqlite(_) => (BEFORE, BEHIND),
        Connection::Postgres(_) => (BEFORE_AT_ONCE, BEHIND_AT_ONCE),
    };
    let mut most = WALK_MIN;
    // One end may have a long past, the other a long future: the shorter of both settles it.
    loop {
        let found = match walk(connection, before, key, other, most)? {
            None => walk(connection, behind, other.of(key.tenant), key.id, most)?,
            found => found,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        most = most.saturating_mul(WALK_GROWTH);
    }
}

/// Whether a walk from a run comes by another one; nothing if it was not over after so many runs.
fn walk(
    connection: Connection<'_>,
    sql: &str,
    from: Key,
    other: RunId,
    most: u64,
) -> db::Result<Option<bool>> {
    let mut statement = connection.prepare_cached(sql)?;
    let values = (from.id.as_bytes(), from.tenant.0, most);
    let mut walked = 0;
    for id in statement.query_map(values, |row| run_id(row, 0))? {
        if id? == other {
            return Ok(Some(true));
        }
        walked += 1;
    }
    Ok((walked < most).then_some(false))
}

/// Runs that one statement names. It is the same statement for fewer.
const NAMED_AT_ONCE: usize = 64;

/// A statement that ends with what may be one of the runs that are named.
fn among(sql: &str) -> String {
    let places: Vec<String> = (3..3 + NAMED_AT_ONCE).map(|place| format!("?{place}")).collect();
    format!("{sql} IN ({})", places.join(", "))
}

/// Whose, and the runs that are named; the last of them for the places that are left.
fn named(key: Key, some: &[RunId]) -> Vec<Value<'static>> {
    let mut values = vec![Value::owned(&key.tenant.0), Value::owned(key.id.as_bytes())];
    let rest = some.last().into_iter().cycle().take(NAMED_AT_ONCE - some.len());
    values.extend(some.iter().chain(rest).map(|run| Value::owned(run.as_bytes())));
    values
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
    pub(crate) assignments: Vec<Appointment>,
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
        assignments: connection
            .prepare_cached(
                "SELECT agent, seq, at FROM assignments WHERE tenant = $1 AND run = $2 ORDER BY agent",
            )?
            .query_map(named, |row| {
                Ok(Appointment { agent: row.get(0)?, sequence: row.get(1)?, at: row.get(2)? })
            })?
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
        "DELETE FROM assignments WHERE tenant = $1 AND run = $2",
    ] {
        transaction.prepare_cached(sql)?.execute(named)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::migrate::plan;

    #[test]
    fn whom_a_run_waits_for_is_found_one_step_at_a_time() {
        for (sql, dependency, child) in [
            (BEFORE, "PRIMARY KEY (tenant=? AND run=?)", "PRIMARY KEY (tenant=? AND parent=?)"),
            (
                BEHIND,
                "dependencies_by_upstream (tenant=? AND upstream=?)",
                "children_by_child (tenant=? AND child=?)",
            ),
        ] {
            let plan = plan(sql, 3);
            assert!(plan.contains(dependency) && plan.contains(child), "{plan}");
            assert!(!plan.contains("SCAN d") && !plan.contains("SCAN c"), "{plan}");
        }
    }

    #[test]
    fn what_has_to_do_with_a_run_is_read_in_its_order_and_nothing_else() {
        let group = members(&[Status::Completed, Status::WaitingInput]);
        for (sql, values, index) in [
            (DEPENDENTS, 3, "SEARCH w USING PRIMARY KEY (tenant=? AND run=? AND watcher>?)"),
            (ASKED_FOR, 3, "SEARCH children USING PRIMARY KEY (tenant=? AND parent=? AND child=?)"),
            (WORDS, 3, "SEARCH outbox USING PRIMARY KEY (tenant=? AND sender=?)"),
            (GROUPS_OF, 2, "SEARCH members USING INDEX members_by_run (tenant=? AND run=?)"),
            (ASSIGNED, 3, "INDEX assignments_by_agent (tenant=? AND agent=? AND place>?)"),
            (&group, 3, "SEARCH members USING PRIMARY KEY (tenant=? AND grp=? AND run>?)"),
        ] {
            let plan = plan(sql, values);
            assert!(plan.contains(index), "{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }

    #[test]
    fn children_are_counted_without_looking_at_other_runs() {
        let plan = plan(CHILD_COUNTS, 2);
        assert!(plan.contains("SEARCH c USING PRIMARY KEY (tenant=? AND parent=?)"), "{plan}");
        assert!(plan.contains("SEARCH a USING PRIMARY KEY (tenant=? AND id=?)"), "{plan}");
        assert!(!plan.contains("SCAN"), "{plan}");
    }

    #[test]
    fn groups_are_listed_without_passing_runs() {
        let plan = plan(&groups(), 2);
        assert!(plan.contains("aggregates_by_workflow (tenant=? AND workflow=? AND id<?)"), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
    }

    #[test]
    fn whoever_is_told_is_found_by_who_tells() {
        use crate::sql::containers::{ANNOUNCE, BID_ALL};
        for (sql, index) in [
            (ANNOUNCE, "SEARCH w USING PRIMARY KEY (tenant=? AND run=?)"),
            (BID_ALL, "SEARCH m USING PRIMARY KEY (tenant=? AND grp=?)"),
        ] {
            let plan = plan(sql, 9);
            assert!(plan.contains(index) && !plan.contains("SCAN"), "{plan}");
        }
    }
}
