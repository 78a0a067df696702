//! Tasks for workers, the kinds that they provide, and the calls that their agents asked for.

use std::sync::Arc;

use crate::db::{self, Connection, Optional, Row, SKIP_LOCKED, Values};
use abide_core::event::HookKind;
use abide_core::{Key, Millis, TaskId, TenantId};

use super::Database;
use super::inbox::interrupt_id;
use super::reader::{checked, key, run_id};
use crate::store::Answer;
use crate::work::{
    HookClaim, HookId, HookRow, KindRow, SessionId, Work, WorkClaim, WorkRow, hook_by_code, hook_code,
};

impl<E: Database> Work for E {
    fn claim(&self, claim: WorkClaim) -> Answer<'_, Vec<WorkRow>> {
        self.write(move |transaction| claimed(transaction, &claim))
    }

    fn unclaim(
        &self,
        session: SessionId,
        home: Option<u64>,
        tasks: Vec<(Key, TaskId, u64)>,
    ) -> Answer<'_, usize> {
        self.write(move |transaction| unclaim(transaction, session, home, &tasks))
    }

    fn left_behind(&self) -> Answer<'_, Vec<WorkRow>> {
        self.read(|connection| {
            let sql = format!(
                "{WORK} WHERE session IS NOT NULL OR called_off = 1 ORDER BY tenant, id, node, execution"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            db::readable(statement.query_map((), work)?, usize::MAX)
        })
    }

    fn of_runs(&self, runs: Vec<Key>) -> Answer<'_, Vec<WorkRow>> {
        self.read(move |connection| {
            let mut found = Vec::new();
            let mut statement =
                connection.prepare_cached(&format!("{WORK} WHERE tenant = $1 AND id = $2"))?;
            for run in &runs {
                let rows = statement.query_map((run.tenant.0, run.id.as_bytes()), work)?;
                found.extend(db::readable(rows, usize::MAX)?);
            }
            Ok(found)
        })
    }

    fn called_off(&self) -> Answer<'_, Vec<WorkRow>> {
        self.read(|connection| {
            let sql = format!("{WORK} WHERE session IS NULL AND called_off = 1");
            let mut statement = connection.prepare_cached(&sql)?;
            db::readable(statement.query_map((), work)?, usize::MAX)
        })
    }

    fn kinds_waited_for(&self, limit: usize) -> Answer<'_, Vec<(TenantId, String)>> {
        self.read(move |connection| {
            let mut found: Vec<(TenantId, String)> = Vec::new();
            let mut statement = connection.prepare_cached(NEXT_KIND)?;
            while found.len() < limit {
                let (tenant, kind) = found.last().map_or((0, ""), |(tenant, kind)| (tenant.0, kind));
                let read = |row: &Row<'_>| Ok((TenantId(row.get(0)?), row.get(1)?));
                match statement.query_row((tenant, kind), read).optional()? {
                    Some(next) => found.push(next),
                    None => break,
                }
            }
            Ok(found)
        })
    }

    fn waiting(&self) -> Answer<'_, Vec<(TenantId, String, u64)>> {
        self.read(|connection| {
            let sql = "SELECT tenant, kind, count(*) FROM work WHERE session IS NULL GROUP BY tenant, kind";
            let mut statement = connection.prepare_cached(sql)?;
            let row = |row: &Row<'_>| Ok((TenantId(row.get(0)?), row.get(1)?, row.get(2)?));
            db::readable(statement.query_map((), row)?, usize::MAX)
        })
    }

    fn put_kinds(&self, kinds: Vec<KindRow>) -> Answer<'_, ()> {
        self.write(move |transaction| kinds.iter().try_for_each(|kind| put_kind(transaction, kind)))
    }

    fn kinds(&self, tenant: TenantId, after: String, limit: usize) -> Answer<'_, Vec<KindRow>> {
        self.read(move |connection| kinds(connection, tenant, &after, limit))
    }

    fn forget_kind(&self, tenant: TenantId, kind: String) -> Answer<'_, bool> {
        self.write(move |transaction| {
            let sql = "DELETE FROM kinds WHERE tenant = $1 AND kind = $2";
            Ok(transaction.execute(sql, (tenant.0, &kind))? > 0)
        })
    }

    fn hooks(
        &self,
        tenant: TenantId,
        agent: String,
        on: Vec<HookKind>,
        limit: usize,
    ) -> Answer<'_, Vec<HookRow>> {
        self.read(move |connection| {
            connection.readable(HOOKS, hooks_of(tenant, &agent, &on), limit, |row| hook(row, tenant, &agent))
        })
    }

    fn claim_hooks(&self, claim: HookClaim) -> Answer<'_, Vec<HookRow>> {
        self.write(move |transaction| claim_hooks(transaction, &claim))
    }

    fn keep_hooks(&self, hooks: Vec<(TenantId, HookId)>, until: Millis) -> Answer<'_, ()> {
        self.write(move |transaction| {
            hooks.iter().try_for_each(|(tenant, hook)| keep_hook(transaction, *tenant, hook, until))
        })
    }

    fn settle_hook(&self, tenant: TenantId, hook: HookId, again: Option<Millis>) -> Answer<'_, bool> {
        self.write(move |transaction| settle_hook(transaction, tenant, &hook, again))
    }
}

/// What [`work`] reads.
pub(super) const WORK: &str = "SELECT tenant, id, node, execution, kind, agent, fence, attempt, timeout_ms, queued_at, session, \
    claimed_at, called_off FROM work";

/// The next kind that something waits for.
const NEXT_KIND: &str = "SELECT tenant, kind FROM work WHERE session IS NULL AND (tenant, kind) > ($1, $2) \
    AND called_off = 0 ORDER BY tenant, kind LIMIT 1";

/// The oldest of one kind that a session may have. What a held or blocked run offers is passed over. One that waits for
/// people beside others does not say that it is blocked, so whom it waits for is looked at, too.
fn waiting() -> String {
    use abide_core::Status::{Blocked, Completed, Paused};
    let (held, blocked, completed) = (Paused.code(), Blocked.code(), Completed.code());
    format!(
        "{WORK} WHERE session IS NULL AND tenant = $1 AND kind = $2 AND (agent IS NULL OR agent = $3) AND called_off = 0 \
         AND NOT EXISTS (SELECT 1 FROM aggregates a WHERE a.tenant = work.tenant AND a.id = work.id AND a.status IN ({held}, {blocked})) \
         AND NOT EXISTS (SELECT 1 FROM dependencies d LEFT JOIN aggregates u ON u.tenant = d.tenant AND u.id = d.upstream \
         WHERE d.tenant = work.tenant AND d.run = work.id AND (u.status IS NULL OR u.status <> {completed})) \
         ORDER BY queued_at, id, node, execution {SKIP_LOCKED}"
    )
}

/// The oldest of all its kinds, each of which comes in its order out of the index.
fn claimed(transaction: Connection<'_>, claim: &WorkClaim) -> db::Result<Vec<WorkRow>> {
    let mut found = Vec::new();
    let waiting = waiting();
    for kind in &claim.kinds {
        let values = (claim.tenant.0, &**kind, &claim.agent);
        found.extend(transaction.readable(&waiting, values, claim.limit, work)?);
    }
    found.sort_by(|one, other| {
        let place = |row: &WorkRow| (row.queued_at, row.key.id, row.task.node.clone(), row.task.execution);
        place(one).cmp(&place(other))
    });
    found.truncate(claim.limit);
    let mut take = transaction.prepare_cached(
        "UPDATE work SET session = $1, claimed_at = $2 \
         WHERE tenant = $3 AND id = $4 AND node = $5 AND execution = $6 AND session IS NULL",
    )?;
    let mut taken = Vec::with_capacity(found.len());
    for row in found {
        let (tenant, id) = (row.key.tenant.0, row.key.id.as_bytes());
        let (session, task) = (claim.session.as_bytes(), &row.task);
        if take.execute((session, claim.now, tenant, id, &*task.node, task.execution))? > 0 {
            taken.push(WorkRow { held: Some((claim.session, claim.now)), ..row });
        }
    }
    Ok(taken)
}

fn unclaim(
    transaction: Connection<'_>,
    session: SessionId,
    home: Option<u64>,
    tasks: &[(Key, TaskId, u64)],
) -> db::Result<usize> {
    let mut taken = 0;
    for (key, task, fence) in tasks {
        let (tenant, id) = (key.tenant.0, key.id.as_bytes());
        if let Some(home) = home
            && is_elsewhere(transaction, tenant, session, home)?
        {
            continue;
        }
        let sql = "UPDATE work SET session = NULL, claimed_at = NULL \
            WHERE tenant = $1 AND id = $2 AND node = $3 AND execution = $4 AND fence = $5 AND session = $6";
        let values = (tenant, id, &*task.node, task.execution, fence, session.as_bytes());
        taken += transaction.execute(sql, values)?;
    }
    Ok(taken)
}

/// Whether another server is a session's home. A session that has left has none: what was claimed for it just then goes
/// back, or nobody would ever have it.
fn is_elsewhere(transaction: Connection<'_>, tenant: u32, session: SessionId, home: u64) -> db::Result<bool> {
    let here = transaction.execute(crate::sql::AT_HOME, (tenant, session.as_bytes(), home))? > 0;
    let mut any = transaction.prepare_cached("SELECT 1 FROM sessions WHERE tenant = $1 AND id = $2")?;
    Ok(!here && any.exists((tenant, session.as_bytes()))?)
}

pub(super) fn work(row: &Row<'_>) -> db::Result<WorkRow> {
    let (node, kind): (String, String) = (row.get(2)?, row.get(4)?);
    let session: Option<[u8; 16]> = row.get(10)?;
    let claimed_at: Option<Millis> = row.get(11)?;
    Ok(WorkRow {
        key: key(row, 0)?,
        task: TaskId { node: node.into(), execution: row.get(3)? },
        kind: kind.into(),
        agent: row.get(5)?,
        fence: row.get(6)?,
        attempt: row.get(7)?,
        timeout_ms: row.get(8)?,
        queued_at: row.get(9)?,
        held: session.map(|session| (SessionId::from_bytes(session), claimed_at.unwrap_or_default())),
        called_off: row.get(12)?,
    })
}

/// 0 stands for nothing said, as it did when there was nothing else to be said but that it can be undone.
fn reversible_code(reversible: Option<bool>) -> u8 {
    match reversible {
        None => 0,
        Some(true) => 1,
        Some(false) => 2,
    }
}

fn reversible_by_code(code: u8) -> Result<Option<bool>, String> {
    match code {
        0 => Ok(None),
        1 => Ok(Some(true)),
        2 => Ok(Some(false)),
        other => Err(format!("{other} does not say whether a kind can be undone")),
    }
}

fn put_kind(transaction: Connection<'_>, kind: &KindRow) -> db::Result<()> {
    let sql = "INSERT INTO kinds (tenant, kind, agent, idempotent, reversible, timeout_ms, code_version, registered_at) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, kind) DO UPDATE SET agent = excluded.agent, \
        idempotent = excluded.idempotent, reversible = excluded.reversible, timeout_ms = excluded.timeout_ms, \
        code_version = excluded.code_version, registered_at = excluded.registered_at";
    let values = (
        kind.tenant.0,
        &kind.kind,
        &kind.agent,
        kind.idempotent,
        reversible_code(kind.reversible),
        kind.timeout_ms,
        &kind.code_version,
        kind.registered_at,
    );
    transaction.prepare_cached(sql)?.execute(values).map(drop)
}

fn kinds(
    connection: Connection<'_>,
    tenant: TenantId,
    after: &str,
    limit: usize,
) -> db::Result<Vec<KindRow>> {
    let sql = "SELECT kind, agent, idempotent, reversible, timeout_ms, code_version, registered_at FROM kinds \
         WHERE tenant = $1 AND kind > $2 ORDER BY kind";
    connection.readable(sql, (tenant.0, after), limit, |row| {
        Ok(KindRow {
            tenant,
            kind: row.get(0)?,
            agent: row.get(1)?,
            idempotent: row.get(2)?,
            reversible: checked(3, reversible_by_code(row.get(3)?))?,
            timeout_ms: row.get(4)?,
            code_version: row.get(5)?,
            registered_at: row.get(6)?,
        })
    })
}

/// What [`hook`] reads, and until when somebody has it in hand.
const HOOKS: &str = "SELECT run, interrupt, hook, attempt, queued_at, due, tries, held_until FROM hooks \
    WHERE tenant = $1 AND agent = $2 AND hook IN ($3, $4, $5, $6) ORDER BY due, run, interrupt, hook, attempt";

fn hooks_of<'a>(tenant: TenantId, agent: &'a str, on: &[HookKind]) -> impl Values + use<'a> {
    let [one, two, three, four] = HookKind::ALL.map(|kind| on.contains(&kind).then(|| hook_code(kind)));
    (tenant.0, agent, one, two, three, four)
}

fn hook(row: &Row<'_>, tenant: TenantId, agent: &str) -> db::Result<HookRow> {
    let id = HookId {
        run: run_id(row, 0)?,
        interrupt: interrupt_id(row, 1)?,
        hook: checked(2, hook_by_code(row.get(2)?))?,
        attempt: row.get(3)?,
    };
    let (queued_at, due, tries) = (row.get(4)?, row.get(5)?, row.get(6)?);
    Ok(HookRow { tenant, id, agent: agent.to_owned(), queued_at, due, tries })
}

fn settle_hook(
    transaction: Connection<'_>,
    tenant: TenantId,
    hook: &HookId,
    again: Option<Millis>,
) -> db::Result<bool> {
    const AT: &str = "tenant = ?1 AND run = ?2 AND interrupt = ?3 AND hook = ?4 AND attempt = ?5";
    let (run, interrupt) = (hook.run.as_bytes(), hook.interrupt.as_bytes());
    let (code, attempt) = (hook_code(hook.hook), hook.attempt);
    let written = match again {
        Some(due) => transaction.execute(
            &format!("UPDATE hooks SET due = ?6, tries = tries + 1, held_until = 0 WHERE {AT}"),
            (tenant.0, run, interrupt, code, attempt, due),
        ),
        None => transaction
            .execute(&format!("DELETE FROM hooks WHERE {AT}"), (tenant.0, run, interrupt, code, attempt)),
    };
    Ok(written? > 0)
}

fn claim_hooks(transaction: Connection<'_>, claim: &HookClaim) -> db::Result<Vec<HookRow>> {
    let sql = format!("{HOOKS} {SKIP_LOCKED}");
    let mut found = Vec::new();
    let values = hooks_of(claim.tenant, &claim.agent, &claim.on);
    for (row, held_until) in transaction.readable(&sql, values, claim.limit, |row| {
        Ok((hook(row, claim.tenant, &claim.agent)?, row.get::<Millis>(7)?))
    })? {
        let due = row.due.max(held_until);
        if due <= claim.now {
            keep_hook(transaction, row.tenant, &row.id, claim.until)?;
        }
        found.push(HookRow { due, ..row });
    }
    Ok(found)
}

fn keep_hook(transaction: Connection<'_>, tenant: TenantId, hook: &HookId, until: Millis) -> db::Result<()> {
    let sql = "UPDATE hooks SET held_until = $1 \
        WHERE tenant = $2 AND run = $3 AND interrupt = $4 AND hook = $5 AND attempt = $6";
    let (run, interrupt) = (hook.run.as_bytes(), hook.interrupt.as_bytes());
    let values = (until, tenant.0, run, interrupt, hook_code(hook.hook), hook.attempt);
    transaction.execute(sql, values).map(drop)
}

/// Calls nobody any more about this run.
pub(crate) fn forget_hooks(transaction: Connection<'_>, run: Key) -> db::Result<()> {
    let named = (run.tenant.0, run.id.as_bytes());
    transaction.execute("DELETE FROM hooks WHERE tenant = $1 AND run = $2", named).map(drop)
}

/// The tasks of a run that workers have or get.
pub(crate) fn of_run(connection: Connection<'_>, run: Key) -> db::Result<Vec<(TaskId, u64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT node, execution, fence FROM work WHERE tenant = $1 AND id = $2 ORDER BY node, execution",
    )?;
    let rows = statement.query_map((run.tenant.0, run.id.as_bytes()), |row| {
        let node: String = row.get(0)?;
        let task = TaskId { node: Arc::from(node), execution: row.get(1)? };
        Ok((task, row.get(2)?))
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::migrate::plan;

    #[test]
    fn a_claim_reads_what_waits_in_its_order_and_nothing_else() {
        let plan = plan(&waiting(), 3);
        assert!(plan.contains("USING INDEX work_waiting (tenant=? AND kind=?)"), "{plan}");
        assert!(plan.contains("SEARCH a USING PRIMARY KEY (tenant=? AND id=?)"), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
    }

    #[test]
    fn the_next_kind_that_something_waits_for_is_found_without_passing_what_waits_for_another() {
        let plan = plan(NEXT_KIND, 2);
        assert!(plan.contains("USING INDEX work_waiting ((tenant,kind)>(?,?))"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
