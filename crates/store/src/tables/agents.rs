//! What agents ask for by default.

use crate::db::{self, Optional, Row};
use abide_core::TenantId;

use super::Database;
use crate::notices::{AgentRow, Agents};
use crate::store::Answer;

const AGENT: &str = "SELECT tenant, name, policy, updated_at FROM agents";

impl<E: Database> Agents for E {
    fn put(&self, agent: AgentRow) -> Answer<'_, ()> {
        self.write(move |transaction| {
            let set = "INSERT INTO agents (tenant, name, policy, updated_at) VALUES ($1, $2, $3, $4) \
                ON CONFLICT (tenant, name) DO UPDATE SET policy = excluded.policy, updated_at = excluded.updated_at";
            let values = (agent.tenant.0, &agent.name, &agent.policy, agent.updated_at);
            transaction.execute(set, values).map(drop)
        })
    }

    fn get(&self, tenant: TenantId, name: String) -> Answer<'_, Option<AgentRow>> {
        self.read(move |connection| {
            let sql = format!("{AGENT} WHERE tenant = $1 AND name = $2");
            connection.prepare_cached(&sql)?.query_row((tenant.0, &name), agent).optional()
        })
    }

    fn list(&self, tenant: TenantId, after: String, limit: usize) -> Answer<'_, Vec<AgentRow>> {
        self.read(move |connection| {
            let sql = format!("{AGENT} WHERE tenant = $1 AND name > $2 ORDER BY name");
            connection.readable(&sql, (tenant.0, &after), limit, agent)
        })
    }

    fn delete(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        self.write(move |transaction| {
            let sql = "DELETE FROM agents WHERE tenant = $1 AND name = $2";
            Ok(transaction.execute(sql, (tenant.0, &name))? > 0)
        })
    }
}

fn agent(row: &Row<'_>) -> db::Result<AgentRow> {
    Ok(AgentRow {
        tenant: TenantId(row.get(0)?),
        name: row.get(1)?,
        policy: row.get(2)?,
        updated_at: row.get(3)?,
    })
}
