//! Tasks for workers, the kinds that they provide, and the calls that their agents asked for.

use std::sync::Arc;

use crate::db::{self, Connection, Row};
use abide_core::event::HookKind;
use abide_core::{Key, Millis, TaskId, TenantId};

use super::Database;
use super::inbox::interrupt_id;
use super::reader::{checked, key, run_id};
use crate::store::Answer;
use crate::work::{HookId, HookRow, KindRow, SessionId, Work, WorkClaim, WorkRow, hook_by_code, hook_code};

impl<E: Database> Work for E {
    fn claim(&self, claim: WorkClaim) -> Answer<'_, Vec<WorkRow>> {
        self.write(move |transaction| claimed(transaction, &claim))
    }

    fn unclaim(&self, session: SessionId, tasks: Vec<(Key, TaskId, u64)>) -> Answer<'_, usize> {
        self.write(move |transaction| {
            let mut taken = 0;
            let mut statement = transaction.prepare_cached(
                "UPDATE work SET session = NULL, claimed_at = NULL \
                 WHERE tenant = $1 AND id = $2 AND node = $3 AND execution = $4 AND fence = $5 AND session = $6",
            )?;
            for (key, task, fence) in &tasks {
                let (tenant, id) = (key.tenant.0, key.id.as_bytes());
                taken += statement.execute((
                    tenant,
                    id,
                    &*task.node,
                    task.execution,
                    fence,
                    session.as_bytes(),
                ))?;
            }
            Ok(taken)
        })
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
        self.read(move |connection| hooks(connection, tenant, &agent, &on, limit))
    }

    fn settle_hook(&self, tenant: TenantId, hook: HookId, again: Option<Millis>) -> Answer<'_, bool> {
        self.write(move |transaction| settle_hook(transaction, tenant, &hook, again))
    }
}

/// What [`work`] reads.
const WORK: &str = "SELECT tenant, id, node, execution, kind, agent, fence, attempt, timeout_ms, queued_at, session, \
    claimed_at, called_off FROM work";

/// The oldest of one kind that a session may have.
const WAITING: &str = "SELECT tenant, id, node, execution, kind, agent, fence, attempt, timeout_ms, queued_at, session, \
    claimed_at, called_off FROM work WHERE session IS NULL AND tenant = $1 AND kind = $2 \
    AND (agent IS NULL OR agent = $3) AND called_off = 0 ORDER BY queued_at, id, node, execution";

/// The oldest of all its kinds, each of which comes in its order out of the index.
fn claimed(transaction: Connection<'_>, claim: &WorkClaim) -> db::Result<Vec<WorkRow>> {
    let mut found = Vec::new();
    for kind in &claim.kinds {
        let values = (claim.tenant.0, &**kind, &claim.agent);
        found.extend(transaction.readable(WAITING, values, claim.limit, work)?);
    }
    found.sort_by(|one, other| {
        let place = |row: &WorkRow| (row.queued_at, row.key.id, row.task.node.clone(), row.task.execution);
        place(one).cmp(&place(other))
    });
    found.truncate(claim.limit);
    let mut take = transaction.prepare_cached(
        "UPDATE work SET session = $1, claimed_at = $2 WHERE tenant = $3 AND id = $4 AND node = $5 AND execution = $6",
    )?;
    for row in &mut found {
        let (tenant, id) = (row.key.tenant.0, row.key.id.as_bytes());
        let task = &row.task;
        take.execute((claim.session.as_bytes(), claim.now, tenant, id, &*task.node, task.execution))?;
        row.held = Some((claim.session, claim.now));
    }
    Ok(found)
}

fn work(row: &Row<'_>) -> db::Result<WorkRow> {
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

fn hooks(
    connection: Connection<'_>,
    tenant: TenantId,
    agent: &str,
    on: &[HookKind],
    limit: usize,
) -> db::Result<Vec<HookRow>> {
    let sql = "SELECT run, interrupt, hook, attempt, queued_at, due, tries FROM hooks \
         WHERE tenant = $1 AND agent = $2 AND hook IN ($3, $4, $5) ORDER BY due, run, interrupt, hook, attempt";
    let [one, two, three] = HookKind::ALL.map(|kind| on.contains(&kind).then(|| hook_code(kind)));
    connection.readable(sql, (tenant.0, agent, one, two, three), limit, |row| {
        let id = HookId {
            run: run_id(row, 0)?,
            interrupt: interrupt_id(row, 1)?,
            hook: checked(2, hook_by_code(row.get(2)?))?,
            attempt: row.get(3)?,
        };
        let (queued_at, due, tries) = (row.get(4)?, row.get(5)?, row.get(6)?);
        Ok(HookRow { tenant, id, agent: agent.to_owned(), queued_at, due, tries })
    })
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
            &format!("UPDATE hooks SET due = ?6, tries = tries + 1 WHERE {AT}"),
            (tenant.0, run, interrupt, code, attempt, due),
        ),
        None => transaction
            .execute(&format!("DELETE FROM hooks WHERE {AT}"), (tenant.0, run, interrupt, code, attempt)),
    };
    Ok(written? > 0)
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
        let plan = plan(WAITING, 3);
        assert!(plan.contains("USING INDEX work_waiting (tenant=? AND kind=?)"), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
    }
}
