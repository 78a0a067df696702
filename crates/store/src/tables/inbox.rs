//! Open interrupts, read by age, by kind, by run, and by the event that they wait for.

use crate::db::{self, Connection, Optional, Row, Value};
use abide_core::{InterruptId, InterruptKind, Json, Key, Millis, OpenInterrupt, Sought, TenantId};

use super::Database;
use super::reader::{checked, run_id};
use crate::inbox::{
    EVENT_KEYS_MAX, INBOX_LOOK_MAX, Inbox, InboxPage, InboxQuery, InterruptRow, Standing, Waiter,
};
use crate::store::Answer;

impl<E: Database> Inbox for E {
    fn list(&self, query: InboxQuery) -> Answer<'_, InboxPage> {
        self.read(move |connection| list(connection, &query))
    }

    fn get(&self, run: Key, id: InterruptId) -> Answer<'_, Option<InterruptRow>> {
        self.read(move |connection| get(connection, run, id))
    }

    fn counts(&self, tenant: TenantId) -> Answer<'_, Vec<(InterruptKind, u64)>> {
        self.read(move |connection| counts(connection, tenant))
    }

    fn standing(&self) -> Answer<'_, Vec<Standing>> {
        self.read(standing)
    }

    fn waiters(
        &self,
        tenant: TenantId,
        event_type: String,
        payload: Json,
        limit: usize,
    ) -> Answer<'_, Vec<Waiter>> {
        self.read(move |connection| waiters(connection, tenant, &event_type, &payload, limit))
    }
}

/// What [`open`] reads.
const OPEN: &str = "i.id, i.node, i.kind, i.title, i.event_type, i.keys, i.sought, i.custom_kind, i.approvers, \
    i.requested_at, i.deadline, i.headway";

const FROM: &str =
    "i.run, a.workflow FROM interrupts i LEFT JOIN aggregates a ON a.tenant = i.tenant AND a.id = i.run";

/// The text of a query and its values. Rows come in their order out of an index, so that no more of them are read than
/// are looked at.
fn listing(query: &InboxQuery) -> (String, Vec<Value<'static>>) {
    let mut values: Vec<Value<'static>> = vec![Value::owned(&query.tenant.0)];
    let mut wheres = "i.tenant = ?1".to_owned();
    let mut and = |condition: &str, value: Value<'static>| {
        values.push(value);
        wheres += &format!(" AND {}", condition.replace('$', &format!("?{}", values.len())));
    };
    if let Some(run) = query.run {
        // Within a run, the id tells which is older.
        and("i.run = $", Value::owned(run.as_bytes()));
        if let Some(after) = query.after {
            and("i.id > $", Value::owned(after.id.as_bytes()));
        }
        return (format!("SELECT {OPEN}, {FROM} WHERE {wheres} ORDER BY i.id"), values);
    }
    // Left to itself, the planner takes the one by age for a kind and a time, and looks at every other kind.
    let index = if query.kind.is_some() { "interrupts_by_kind" } else { "interrupts_by_age" };
    let from = FROM.replacen("interrupts i", &format!("interrupts i INDEXED BY {index}"), 1);
    if let Some(kind) = query.kind {
        and("i.kind = $", Value::owned(&kind.name()));
    }
    if let Some(until) = query.until {
        and("i.requested_at <= $", Value::owned(&until));
    }
    if let Some(after) = query.after {
        let first = values.len() + 1;
        values.push(Value::owned(&after.at));
        values.push(Value::owned(after.run.as_bytes()));
        values.push(Value::owned(after.id.as_bytes()));
        let places = format!("?{first}, ?{}, ?{}", first + 1, first + 2);
        wheres += &format!(" AND (i.requested_at, i.run, i.id) > ({places})");
    }
    (format!("SELECT {OPEN}, {from} WHERE {wheres} ORDER BY i.requested_at, i.run, i.id"), values)
}

fn list(connection: Connection<'_>, query: &InboxQuery) -> db::Result<InboxPage> {
    let (sql, values) = listing(query);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut page = InboxPage { rows: Vec::new(), next: None };
    let (mut looked, mut last) = (0, query.after);
    for row in statement.query_map(values, interrupt)? {
        if page.rows.len() == query.limit || looked == INBOX_LOOK_MAX {
            page.next = last;
            break;
        }
        looked += 1;
        match row {
            Ok(row) => {
                last = Some(row.cursor());
                if query.wants(&row) {
                    page.rows.push(row);
                }
            }
            Err(error) if error.is_conversion() => {
                tracing::error!(%error, "an interrupt can't be read and is left out; run `abide verify`");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(page)
}

fn get(connection: Connection<'_>, run: Key, id: InterruptId) -> db::Result<Option<InterruptRow>> {
    let sql = format!("SELECT {OPEN}, {FROM} WHERE i.tenant = $1 AND i.run = $2 AND i.id = $3");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row((run.tenant.0, run.id.as_bytes(), id.as_bytes()), interrupt).optional()
}

/// A run's open interrupts, oldest first.
pub(crate) fn of_run(connection: Connection<'_>, run: Key) -> db::Result<Vec<OpenInterrupt>> {
    let sql = format!("SELECT {OPEN} FROM interrupts i WHERE i.tenant = $1 AND i.run = $2 ORDER BY i.id");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map((run.tenant.0, run.id.as_bytes()), open)?.collect()
}

fn counts(connection: Connection<'_>, tenant: TenantId) -> db::Result<Vec<(InterruptKind, u64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT kind, open FROM interrupt_counts WHERE tenant = $1 AND open > 0 ORDER BY kind",
    )?;
    let rows = statement.query_map([tenant.0], |row| Ok((kind(row, 0)?, row.get(1)?)))?;
    db::readable(rows, usize::MAX)
}

fn standing(connection: Connection<'_>) -> db::Result<Vec<Standing>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.tenant, c.kind, c.open, (SELECT i.requested_at FROM interrupts i \
         WHERE i.tenant = c.tenant AND i.kind = c.kind ORDER BY i.requested_at LIMIT 1) \
         FROM interrupt_counts c WHERE c.open > 0",
    )?;
    let rows = statement.query_map((), |row| {
        let (tenant, kind) = (TenantId(row.get(0)?), kind(row, 1)?);
        Ok(Standing { tenant, kind, open: row.get(2)?, oldest: row.get(3)? })
    })?;
    db::readable(rows, usize::MAX)
}

fn waiters(
    connection: Connection<'_>,
    tenant: TenantId,
    event_type: &str,
    payload: &Json,
    limit: usize,
) -> db::Result<Vec<Waiter>> {
    let mut next_keys = connection.prepare_cached(
        "SELECT keys FROM interrupts WHERE tenant = $1 AND event_type = $2 AND keys > $3 ORDER BY keys LIMIT 1",
    )?;
    let mut find = connection.prepare_cached(
        "SELECT run, node, id FROM interrupts \
         WHERE tenant = $1 AND event_type = $2 AND keys = $3 AND sought = $4 ORDER BY requested_at, run, id LIMIT $5",
    )?;
    let mut found = Vec::new();
    let mut keys = String::new();
    for _ in 0..EVENT_KEYS_MAX {
        let next = next_keys.query_row((tenant.0, event_type, &keys), |row| row.get(0)).optional()?;
        let Some(next) = next else { return Ok(found) };
        keys = next;
        let Some(sought) = Sought::by(&keys, payload) else { continue };
        let room = limit.saturating_sub(found.len()) as i64;
        let named = (tenant.0, event_type, &keys, sought.digest, room);
        let rows = find.query_map(named, |row| {
            Ok(Waiter { run: run_id(row, 0)?, node: row.get(1)?, id: interrupt_id(row, 2)? })
        })?;
        found.extend(db::readable(rows, usize::MAX)?);
    }
    tracing::warn!(event_type, "those who wait for it name more sets of keys than are looked up");
    Ok(found)
}

/// The columns of [`OPEN`] and [`FROM`].
fn interrupt(row: &Row<'_>) -> db::Result<InterruptRow> {
    let workflow: Option<String> = row.get(13)?;
    Ok(InterruptRow {
        run: run_id(row, 12)?,
        workflow: workflow.unwrap_or_default().into(),
        open: open(row)?,
    })
}

/// The columns of [`OPEN`].
fn open(row: &Row<'_>) -> db::Result<OpenInterrupt> {
    let node: String = row.get(1)?;
    let keys: Option<String> = row.get(5)?;
    let sought = keys.zip(row.get(6)?).map(|(keys, digest)| Sought { keys, digest });
    let approvers: String = row.get(8)?;
    let headway: Option<String> = row.get(11)?;
    let headway = headway.map(|headway| serde_json::from_str(&headway).map_err(|error| error.to_string()));
    Ok(OpenInterrupt {
        id: interrupt_id(row, 0)?,
        node: node.into(),
        kind: kind(row, 2)?,
        title: row.get(3)?,
        event_type: row.get(4)?,
        sought,
        custom_kind: row.get(7)?,
        approvers: checked(8, serde_json::from_str(&approvers).map_err(|error| error.to_string()))?,
        requested_at: row.get(9)?,
        deadline: row.get::<Option<Millis>>(10)?,
        headway: checked(11, headway.transpose())?,
        callback_url: None,
    })
}

pub(crate) fn interrupt_id(row: &Row<'_>, at: usize) -> db::Result<InterruptId> {
    Ok(InterruptId::from_bytes(row.get(at)?))
}

fn kind(row: &Row<'_>, at: usize) -> db::Result<InterruptKind> {
    let name: String = row.get(at)?;
    checked(at, InterruptKind::by_name(&name).ok_or_else(|| format!("'{name}' is no kind of interrupt")))
}

#[cfg(test)]
mod tests {
    use abide_core::RunId;

    use super::*;
    use crate::inbox::InboxCursor;
    use crate::sqlite::migrate::plan;

    #[test]
    fn no_page_of_the_inbox_reads_more_than_it_looks_at() {
        let after = Some(InboxCursor {
            at: 1,
            run: RunId::from_bytes([1; 16]),
            id: InterruptId::from_bytes([1; InterruptId::BYTES]),
        });
        let plain = InboxQuery::of(TenantId(1), 10);
        let kind = InboxQuery { kind: Some(InterruptKind::Approval), ..plain.clone() };
        let run = InboxQuery { run: Some(RunId::from_bytes([1; 16])), ..plain.clone() };
        for (query, index) in
            [(plain, "INDEX interrupts_by_age"), (kind, "INDEX interrupts_by_kind"), (run, "PRIMARY KEY")]
        {
            for query in [
                query.clone(),
                InboxQuery { after, ..query.clone() },
                InboxQuery { after, until: Some(9), ..query.clone() },
                InboxQuery { title: Some("x".to_owned()), approver: Some(vec!["y".to_owned()]), ..query },
            ] {
                let (sql, values) = listing(&query);
                let plan = plan(&sql, values.len());
                assert!(plan.starts_with(&format!("SEARCH i USING {index}")), "{plan}");
                assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
            }
        }
    }
}
