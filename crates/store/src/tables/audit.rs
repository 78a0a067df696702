//! Reads for `abide verify`: everything there is, next to what should be there.

use crate::db::{self, Connection, Row};
use abide_core::{Key, Status, TaskId};

use super::reader::{LISTED, key, listed, message, run_id};
use super::{containers, conversations, inbox, providers, work};
use crate::sealing::SEALED;
use crate::sql::ENDED;
use crate::{Beside, Expected, Listed, MessageRef, Sealing, Totals};

pub(crate) fn scan(
    connection: Connection<'_>,
    after: Option<Key>,
    limit: usize,
) -> db::Result<Vec<(Key, Result<Listed, String>)>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {LISTED}, tenant, id FROM aggregates \
         WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT $3",
    ))?;
    let (tenant, id) = after.map_or((0, [0; 16]), |key| (key.tenant.0, *key.id.as_bytes()));
    let row = |row: &Row<'_>| Ok((key(row, 10)?, listed(row).map_err(|error| error.to_string())));
    statement.query_map((tenant, id, limit as i64), row)?.collect()
}

pub(crate) fn beside(
    connection: Connection<'_>,
    sealing: &Sealing,
    key: Key,
    expected: Expected,
) -> db::Result<Beside> {
    let named = (key.tenant.0, key.id.as_bytes());
    let mut timer = connection
        .prepare_cached("SELECT 1 FROM timers WHERE due = $1 AND tenant = $2 AND id = $3 AND timer = $4")?;
    let mut timers = Vec::with_capacity(expected.timers.len());
    for row in expected.timers {
        if timer.exists((row.due, named.0, named.1, row.timer.to_string()))? {
            timers.push(row);
        }
    }
    let tasks = connection
        .prepare_cached("SELECT node, execution FROM tasks WHERE tenant = $1 AND id = $2")?
        .query_map(named, |row| task(row, 0))?
        .collect::<Result<_, _>>()?;
    let heard = connection
        .prepare_cached("SELECT sender, seq FROM heard WHERE tenant = $1 AND receiver = $2 ORDER BY sender")?
        .query_map(named, |row| Ok((run_id(row, 0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let sent = connection
        .prepare_cached(
            "SELECT receiver, seq, type, version, message FROM outbox \
             WHERE tenant = $1 AND sender = $2 ORDER BY seq, receiver",
        )?
        .query_map(named, |row| {
            let at = MessageRef { sender: key, sequence: row.get(1)?, receiver: run_id(row, 0)? };
            Ok((at.receiver, message(row, 2, sealing, at)?))
        })?
        .collect::<Result<_, _>>()?;
    let children = connection
        .prepare_cached(
            "SELECT child, node, execution, cascade FROM children \
             WHERE tenant = $1 AND parent = $2 ORDER BY child",
        )?
        .query_map(named, |row| Ok((run_id(row, 0)?, task(row, 1)?, row.get(3)?)))?
        .collect::<Result<_, _>>()?;
    let mut claim = connection.prepare_cached(
        "SELECT 1 FROM claims WHERE tenant = $1 AND workflow = $2 AND scope = $3 AND run = $4",
    )?;
    let claim = match expected.claim {
        Some(held) if claim.exists((named.0, &*held.workflow, &held.scope, named.1))? => Some(held),
        _ => None,
    };
    let interrupts = inbox::of_run(connection, key)?;
    let work = work::of_run(connection, key)?;
    let waits = providers::of_run(connection, key)?;
    let names = conversations::of_run(connection, key)?;
    let containers::Bound { dependencies, watchers, members, assignments } =
        containers::of_run(connection, key)?;
    Ok(Beside {
        timers,
        tasks,
        heard,
        sent,
        children,
        claim,
        interrupts,
        work,
        waits,
        names,
        dependencies,
        watchers,
        members,
        assignments,
    })
}

/// The columns node and execution, from `at` on.
fn task(row: &Row<'_>, at: usize) -> db::Result<TaskId> {
    let node: String = row.get(at)?;
    Ok(TaskId { node: node.into(), execution: row.get(at + 1)? })
}

/// What is sealed stands behind a byte that says so.
pub(crate) fn sealed_kids(connection: Connection<'_>) -> db::Result<Vec<u32>> {
    let sealed = |column: &str, from: &str| {
        format!("SELECT substr({column}, 2, 4) AS kid FROM {from} WHERE substr({column}, 1, 1) = $1")
    };
    let sql = [
        sealed("payload", "events"),
        // Definitions are kept among the blobs too, and are anything that somebody pushed.
        sealed(
            "b.bytes",
            "events e JOIN blobs b ON e.payload IS NULL AND b.tenant = e.tenant AND b.hash = e.chain",
        ),
        sealed("snapshot", "aggregates"),
        sealed("message", "outbox"),
        sealed("payload", "external_events"),
    ];
    let mut statement = connection.prepare_cached(&format!("{} ORDER BY kid", sql.join(" UNION ")))?;
    let kid = |row: &Row<'_>| Ok(u32::from_be_bytes(row.get(0)?));
    statement.query_map([[SEALED]], kid)?.collect()
}

pub(crate) fn totals(connection: Connection<'_>) -> db::Result<Totals> {
    let count = |table: &str| {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get::<u64>(0))
    };
    // What is being removed belongs to no run any more, and is no damage.
    let owned = |table: &str, run: &str| -> db::Result<u64> {
        let sql = format!(
            "SELECT count(*) FROM purging p JOIN {table} t ON t.tenant = p.tenant AND t.{run} = p.id"
        );
        let leaving: u64 = connection.query_row(&sql, (), |row| row.get(0))?;
        Ok(count(table)? - leaving)
    };
    Ok(Totals {
        timers: count("timers")?,
        tasks: count("tasks")?,
        heard: owned("heard", "receiver")?,
        outbox: owned("outbox", "sender")?,
        events: owned("events", "id")?,
        children: owned("children", "parent")?,
        claims: claims(connection)?,
        interrupts: count("interrupts")?,
        work: count("work")?,
        waits: count("provider_waits")?,
        names: owned("conversations", "run")?,
        dependencies: owned("dependencies", "run")?,
        watchers: owned("watchers", "run")?,
        members: owned("members", "grp")?,
        assignments: owned("assignments", "run")?,
        miscounted: miscounted(connection)?,
    })
}

/// How many kinds of interrupts of a tenant are not as many as is said.
fn miscounted(connection: Connection<'_>) -> db::Result<u64> {
    const SAID: &str = "SELECT tenant, kind, open FROM interrupt_counts WHERE open <> 0";
    const THERE: &str = "SELECT tenant, kind, count(*) FROM interrupts GROUP BY tenant, kind";
    let sql = format!(
        "SELECT (SELECT count(*) FROM ({SAID} EXCEPT {THERE}) AS one) + (SELECT count(*) FROM ({THERE} EXCEPT {SAID}) AS other)"
    );
    connection.query_row(&sql, (), |row| row.get(0))
}

fn claims(connection: Connection<'_>) -> db::Result<u64> {
    let sql = "SELECT count(*) FROM claims c WHERE NOT EXISTS (SELECT 1 FROM aggregates a \
         WHERE a.tenant = c.tenant AND a.id = c.run AND a.status IN ($1, $2, $3))";
    connection.query_row(sql, ENDED.map(Status::code), |row| row.get(0))
}
