//! Breakers, and turns that wait for their provider.

use crate::db::{self, Connection, Optional, Row};
use abide_core::{KeptBreaker, Key, ProviderWait, TaskId, TenantId};

use super::Database;
use super::reader::{checked, key};
use crate::providers::{BreakerRow, Providers, WaitCounts, WaitRow};
use crate::store::Answer;

impl<E: Database> Providers for E {
    fn breaker(&self, tenant: TenantId, downstream: String) -> Answer<'_, Option<BreakerRow>> {
        self.read(move |connection| find(connection, tenant, &downstream))
    }

    fn put_breaker(&self, row: BreakerRow) -> Answer<'_, bool> {
        self.write(move |transaction| put(transaction, &row))
    }

    fn postponed(&self, tenant: TenantId, provider: String, limit: usize) -> Answer<'_, Vec<WaitRow>> {
        self.read(move |connection| connection.readable(POSTPONED, (tenant.0, &provider), limit, wait))
    }

    fn postponed_for(&self) -> Answer<'_, Vec<(TenantId, String)>> {
        self.read(postponed_for)
    }

    fn waiting_turns(&self, tenant: TenantId) -> Answer<'_, Vec<WaitCounts>> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT provider, count(*) FILTER (WHERE postponed = 0), count(*) FILTER (WHERE postponed = 1) FROM provider_waits \
                 WHERE tenant = $1 GROUP BY provider ORDER BY provider",
            )?;
            let row = |row: &Row<'_>| {
                Ok(WaitCounts { provider: row.get(0)?, retry: row.get(1)?, postponed: row.get(2)? })
            };
            db::readable(statement.query_map([tenant.0], row)?, usize::MAX)
        })
    }
}

/// What [`breaker`] reads.
const BREAKER: &str = "SELECT tenant, downstream, version, state FROM breakers \
    WHERE tenant = $1 AND downstream = $2";

/// What [`wait`] reads, of those that wait for a breaker.
const POSTPONED: &str = "SELECT tenant, id, node, execution, provider, postponed, since, until FROM provider_waits \
    WHERE postponed = 1 AND tenant = $1 AND provider = $2 ORDER BY since, id, node, execution";

/// The next tenant and provider behind one.
const NEXT_POSTPONED: &str = "SELECT tenant, provider FROM provider_waits \
    WHERE postponed = 1 AND (tenant, provider) > ($1, $2) ORDER BY tenant, provider LIMIT 1";

fn breaker(row: &Row<'_>) -> db::Result<BreakerRow> {
    let state: String = row.get(3)?;
    let state = checked(3, serde_json::from_str(&state).map_err(|error| error.to_string()))?;
    let kept = KeptBreaker { version: row.get(2)?, state };
    Ok(BreakerRow { tenant: TenantId(row.get(0)?), downstream: row.get(1)?, kept })
}

fn find(connection: Connection<'_>, tenant: TenantId, downstream: &str) -> db::Result<Option<BreakerRow>> {
    let mut statement = connection.prepare_cached(BREAKER)?;
    let found = statement.query_row((tenant.0, downstream), breaker).optional();
    match found {
        Err(error) if error.is_conversion() => {
            tracing::error!(tenant = tenant.0, downstream, %error, "a breaker can't be read; it counts as closed");
            Ok(None)
        }
        found => found,
    }
}

fn put(transaction: Connection<'_>, row: &BreakerRow) -> db::Result<bool> {
    transaction.exclude("breakers", row.tenant)?;
    let state = serde_json::to_string(&row.kept.state).expect("numbers serialise");
    let (tenant, downstream, version) = (row.tenant.0, &row.downstream, row.kept.version);
    let there = find(transaction, row.tenant, &row.downstream)?.map_or(0, |there| there.kept.version);
    if version != there + 1 {
        return Ok(false);
    }
    let sql = "INSERT INTO breakers (tenant, downstream, version, state) VALUES ($1, $2, $3, $4) \
        ON CONFLICT (tenant, downstream) DO UPDATE SET version = excluded.version, state = excluded.state";
    transaction.prepare_cached(sql)?.execute((tenant, downstream, version, state))?;
    Ok(true)
}

fn wait(row: &Row<'_>) -> db::Result<WaitRow> {
    Ok(WaitRow { key: key(row, 0)?, wait: waited(row, 2)? })
}

/// The columns node, execution, provider, postponed, since and until, from `at` on.
fn waited(row: &Row<'_>, at: usize) -> db::Result<ProviderWait> {
    let node: String = row.get(at)?;
    Ok(ProviderWait {
        task: TaskId { node: node.into(), execution: row.get(at + 1)? },
        provider: row.get(at + 2)?,
        postponed: row.get(at + 3)?,
        since: row.get(at + 4)?,
        until: row.get(at + 5)?,
    })
}

/// Each step is a jump in the index to the next name, however many turns wait for one.
fn postponed_for(connection: Connection<'_>) -> db::Result<Vec<(TenantId, String)>> {
    let mut next = connection.prepare_cached(NEXT_POSTPONED)?;
    let mut found: Vec<(TenantId, String)> = Vec::new();
    loop {
        let (tenant, provider) = found.last().map_or((0, ""), |(tenant, provider)| (tenant.0, &**provider));
        let row = next.query_row((tenant, provider), |row| Ok((TenantId(row.get(0)?), row.get(1)?)));
        match row.optional()? {
            Some(row) => found.push(row),
            None => return Ok(found),
        }
    }
}

/// The waits of a run by node and execution.
pub(crate) fn of_run(connection: Connection<'_>, run: Key) -> db::Result<Vec<ProviderWait>> {
    let mut statement = connection.prepare_cached(
        "SELECT node, execution, provider, postponed, since, until FROM provider_waits \
         WHERE tenant = $1 AND id = $2 ORDER BY node, execution",
    )?;
    let rows = statement.query_map((run.tenant.0, run.id.as_bytes()), |row| waited(row, 0))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::migrate::plan;

    #[test]
    fn those_that_wait_for_a_breaker_are_read_in_their_order_and_nothing_else_is() {
        let plan = plan(POSTPONED, 2);
        assert!(plan.contains("USING INDEX provider_waits_postponed (tenant=? AND provider=?)"), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
    }

    #[test]
    fn which_breakers_are_waited_for_is_found_by_jumps() {
        let plan = plan(NEXT_POSTPONED, 2);
        assert!(plan.contains("SEARCH") && plan.contains("provider_waits_postponed"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
