//! Webhooks as they are kept: added, shown, enabled, forgotten.

use std::sync::Arc;

use crate::db::{self, Connection, Optional, Row};
use abide_core::{EventType, Health, Millis, RunId, TenantId, event_types};

use super::Database;
use super::deliveries;
use super::reader::{checked, run_id};
use super::receipts;
use crate::Receipt;
use crate::store::Answer;
use crate::webhooks::{
    About, Added, Attempted, DeliveryQuery, DeliveryRow, Due, Shown, Waiting, WebhookKey, WebhookNews,
    WebhookRow, Webhooks,
};

/// Rows that are deleted in one transaction, so that those who wait for the writer get their turn.
const DELETE_PAGE: usize = 2000;

impl<E: Database> Webhooks for E {
    fn put(&self, webhook: WebhookRow, most: usize, receipt: Option<Receipt>) -> Answer<'_, Added> {
        let key = webhook.key.clone();
        changing(self, key, move |transaction| put(transaction, &webhook, most, receipt.as_ref()))
    }

    fn get(&self, key: WebhookKey) -> Answer<'_, Option<Shown>> {
        self.read(move |connection| get(connection, &key))
    }

    fn list(&self, tenant: TenantId) -> Answer<'_, Vec<Shown>> {
        self.read(move |connection| list(connection, tenant))
    }

    fn subscriptions(&self, tenant: TenantId, run: Option<RunId>) -> Answer<'_, Vec<WebhookRow>> {
        self.read(move |connection| subscriptions(connection, tenant, run))
    }

    fn delete(&self, key: WebhookKey) -> Answer<'_, bool> {
        Box::pin(async move {
            let shut = key.clone();
            if !changing(self, key.clone(), move |transaction| shut_out(transaction, &shut)).await? {
                return Ok(false);
            }
            loop {
                let page = key.clone();
                let job = move |transaction: Connection<'_>| delete_page(transaction, &page);
                if changing(self, key.clone(), job).await? {
                    return Ok(true);
                }
            }
        })
    }

    fn enable(&self, key: WebhookKey, now: i64) -> Answer<'_, bool> {
        changing(self, key.clone(), move |transaction| enable(transaction, &key, now))
    }

    fn reseal(&self, key: WebhookKey, sealed: Arc<[u8]>) -> Answer<'_, bool> {
        changing(self, key.clone(), move |transaction| {
            let sql = "UPDATE webhooks SET sealed = $1 WHERE tenant = $2 AND id = $3";
            Ok(transaction.execute(sql, (&sealed[..], key.tenant.0, &*key.id))? > 0)
        })
    }

    fn deliveries(&self, query: DeliveryQuery) -> Answer<'_, Vec<DeliveryRow>> {
        self.read(move |connection| deliveries::list(connection, &query))
    }

    fn resend(&self, key: WebhookKey, which: Option<Vec<(RunId, u64)>>, now: i64) -> Answer<'_, u64> {
        changing(self, key.clone(), move |transaction| {
            deliveries::resend(transaction, &key, which.as_deref(), now)
        })
    }

    fn busy(&self) -> Answer<'_, Vec<WebhookKey>> {
        self.read(busy)
    }

    fn due(&self, key: WebhookKey, now: i64, limit: usize) -> Answer<'_, Option<Due>> {
        self.read(move |connection| deliveries::due(connection, &key, now, limit))
    }

    fn settle(&self, attempts: Vec<Attempted>) -> Answer<'_, Vec<Option<Waiting>>> {
        self.write_wanted(move |transaction| deliveries::settle_all(transaction, &attempts))
    }

    fn news(&self) -> Arc<WebhookNews> {
        self.wanted().news.clone()
    }
}

/// Changes a webhook. Once that is on disk, whoever writes knows what is wanted, and whoever sends has heard.
fn changing<T: Send + 'static>(
    database: &impl Database,
    key: WebhookKey,
    mut job: impl FnMut(Connection<'_>) -> db::Result<T> + Send + 'static,
) -> Answer<'_, T> {
    Box::pin(async move {
        let tenant = key.tenant;
        let changed = database.write_wanted(move |transaction| Ok((job(transaction)?, vec![tenant]))).await?;
        database.wanted().news.tell([key]);
        Ok(changed)
    })
}

fn put(
    transaction: Connection<'_>,
    row: &WebhookRow,
    most: usize,
    receipt: Option<&Receipt>,
) -> db::Result<Added> {
    transaction.exclude("webhooks", row.key.tenant)?;
    if count(transaction, row)? >= most {
        forget_expired(transaction, row.key.tenant, row.created_at)?;
        if count(transaction, row)? >= most {
            return Ok(Added::Full);
        }
    }
    if let Some(receipt) = receipt
        && !receipts::put(transaction, receipt)?
    {
        return Ok(Added::Receipted);
    }
    transaction.execute(
        "INSERT INTO webhooks (tenant, id, url, types, tags, sealed, fingerprint, created_at, created_by, \
         failed, failures, openings, delivered, dropped, about, about_group, subscriber, until) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0, 0, 0, 0, $10, $11, $12, $13)",
        (
            row.key.tenant.0,
            &*row.key.id,
            &row.url,
            as_json(&row.types),
            as_json(&row.tags),
            &row.sealed[..],
            &row.fingerprint,
            row.created_at,
            &row.created_by,
            row.about.as_ref().map(|about| &about.run.as_bytes()[..]),
            row.about.as_ref().map(|about| i64::from(about.group)),
            row.about.as_ref().map(|about| &about.subscriber),
            row.about.as_ref().and_then(|about| about.until),
        ),
    )?;
    listen(transaction, &row.key, &row.types, row.about.as_ref())?;
    Ok(Added::Done)
}

fn as_json(texts: &[String]) -> String {
    serde_json::to_string(texts).expect("texts are plain data, which serialises")
}

/// How many webhooks there are of the kind that this one is of: about one aggregate, or not.
fn count(transaction: Connection<'_>, row: &WebhookRow) -> db::Result<usize> {
    let kind = if row.about.is_some() { "NOT NULL" } else { "NULL" };
    let sql = format!("SELECT count(*) FROM webhooks WHERE tenant = $1 AND about IS {kind}");
    transaction.query_row(&sql, [row.key.tenant.0], |row| row.get(0))
}

/// Deletes the webhooks whose time is over. Each is about one aggregate, so little is on its way to them.
fn forget_expired(transaction: Connection<'_>, tenant: TenantId, now: Millis) -> db::Result<()> {
    let mut statement =
        transaction.prepare_cached("SELECT tenant, id FROM webhooks WHERE tenant = $1 AND until <= $2")?;
    let expired = statement.query_map((tenant.0, now), |row| key(row, 0))?.collect::<db::Result<Vec<_>>>()?;
    expired.iter().try_for_each(|key| delete_page(transaction, key).map(drop))
}

/// Has the writer make deliveries to a webhook.
fn listen(
    transaction: Connection<'_>,
    key: &WebhookKey,
    types: &[String],
    about: Option<&About>,
) -> db::Result<()> {
    if let Some(about) = about {
        let sql =
            "INSERT INTO webhook_runs (tenant, run, webhook) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        return transaction
            .prepare_cached(sql)?
            .execute((key.tenant.0, about.run.as_bytes(), &*key.id))
            .map(drop);
    }
    let mut listen = transaction.prepare_cached(
        "INSERT INTO webhook_types (tenant, type, webhook) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    )?;
    for code in codes(types) {
        listen.execute((key.tenant.0, code, &*key.id))?;
    }
    Ok(())
}

/// The event types that are meant. A name that OpenWOP knows and this version never writes has none. What OpenWOP has no
/// name for is an entry of the log there, and sent only to those who ask for the log.
pub(crate) fn codes(types: &[String]) -> Vec<u16> {
    let has = |name: &str| types.iter().any(|known| known == name);
    let (all, log) = (has("*"), has("log.appended"));
    let meant = |kind: &&EventType| match kind.openwop_name() {
        Some(name) => all || has(name),
        None => log,
    };
    event_types().iter().filter(meant).map(|kind| kind.code).collect()
}

/// At a start, webhooks hear of the event types that this version knows and the one before did not. What is left of
/// webhooks that are gone goes, too.
pub(crate) fn begin(transaction: Connection<'_>) -> db::Result<()> {
    let mut statement = transaction
        .prepare_cached("SELECT tenant, id, types FROM webhooks WHERE failed = 0 AND about IS NULL")?;
    let rows = statement.query_map((), |row| Ok((key(row, 0)?, texts(row, 2))))?;
    for (key, types) in rows.collect::<db::Result<Vec<_>>>()? {
        match types {
            Ok(types) => listen(transaction, &key, &types, None)?,
            // It is no reason to keep everything else from running.
            Err(error) => {
                tracing::error!(webhook = %key.id, %error, "a webhook can't be read; remove it");
            }
        }
    }
    forget_orphans(transaction)
}

/// Deletes what was on its way to webhooks that are gone. It goes from one webhook to the next, and reads no more of what
/// is on its way.
fn forget_orphans(transaction: Connection<'_>) -> db::Result<()> {
    const ORPHANS: &str =
        "NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.tenant = o.tenant AND w.id = o.webhook)";
    for table in ["webhook_types", "webhook_runs"] {
        transaction.execute(&format!("DELETE FROM {table} AS o WHERE {ORPHANS}"), ())?;
    }
    for table in ["deliveries", "dead_letters"] {
        let mut next = transaction.prepare_cached(&format!(
            "SELECT tenant, webhook, {ORPHANS} FROM {table} o WHERE (tenant, webhook) > ($1, $2) \
             ORDER BY tenant, webhook LIMIT 1"
        ))?;
        let mut delete =
            transaction.prepare_cached(&format!("DELETE FROM {table} WHERE tenant = $1 AND webhook = $2"))?;
        let mut last = (-1_i64, String::new());
        while let Some((tenant, webhook, orphaned)) =
            next.query_row((last.0, &last.1), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?
        {
            last = (tenant, webhook);
            if orphaned {
                delete.execute((last.0, &last.1))?;
            }
        }
    }
    Ok(())
}

/// Keeps a webhook from hearing anything more.
fn shut_out(transaction: Connection<'_>, key: &WebhookKey) -> db::Result<bool> {
    let named = (key.tenant.0, &*key.id);
    deliveries::stop_listening(transaction, key)?;
    Ok(transaction.execute("UPDATE webhooks SET failed = 1 WHERE tenant = $1 AND id = $2", named)? > 0)
}

/// Deletes some of what is on its way to a webhook, and with the last of it the webhook. It may have been enabled since
/// it was shut out: then it hears nothing more from here on.
fn delete_page(transaction: Connection<'_>, key: &WebhookKey) -> db::Result<bool> {
    let named = (key.tenant.0, &*key.id, DELETE_PAGE as i64);
    let deleted = transaction.execute(
        "DELETE FROM deliveries WHERE tenant = $1 AND webhook = $2 AND run IN \
         (SELECT run FROM deliveries WHERE tenant = $1 AND webhook = $2 LIMIT $3)",
        named,
    )?;
    if deleted == DELETE_PAGE {
        return Ok(false);
    }
    let named = (key.tenant.0, &*key.id);
    deliveries::stop_listening(transaction, key)?;
    transaction.execute("DELETE FROM dead_letters WHERE tenant = $1 AND webhook = $2", named)?;
    transaction.execute("DELETE FROM webhooks WHERE tenant = $1 AND id = $2", named)?;
    Ok(true)
}

fn enable(transaction: Connection<'_>, key: &WebhookKey, now: i64) -> db::Result<bool> {
    let Some(webhook) = row_of(transaction, key)? else { return Ok(false) };
    deliveries::put_health(transaction, key, Health::default())?;
    listen(transaction, key, &webhook.types, webhook.about.as_ref())?;
    // Only what was tried and failed is due later, so these are few.
    transaction.execute(
        "UPDATE deliveries SET due = $1 WHERE tenant = $2 AND webhook = $3 AND due > $1",
        (now, key.tenant.0, &*key.id),
    )?;
    Ok(true)
}

const COLUMNS: &str = "tenant, id, url, types, tags, sealed, fingerprint, created_at, created_by, \
    failed, failures, failing_since, openings, open_until, delivered, dropped, about, about_group, subscriber, until";

/// The webhook alone.
pub(crate) fn row_of(connection: Connection<'_>, key: &WebhookKey) -> db::Result<Option<WebhookRow>> {
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE tenant = $1 AND id = $2");
    connection.prepare_cached(&sql)?.query_row((key.tenant.0, &*key.id), webhook).optional()
}

fn get(connection: Connection<'_>, key: &WebhookKey) -> db::Result<Option<Shown>> {
    let _moment = connection.one_moment()?;
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE tenant = $1 AND id = $2");
    let found = connection.prepare_cached(&sql)?.query_row((key.tenant.0, &*key.id), counted).optional()?;
    found.map(|shown| with_counts(connection, shown)).transpose()
}

fn list(connection: Connection<'_>, tenant: TenantId) -> db::Result<Vec<Shown>> {
    let _moment = connection.one_moment()?;
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE tenant = $1 ORDER BY id");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([tenant.0], counted)?.collect::<db::Result<Vec<_>>>()?;
    rows.into_iter().map(|shown| with_counts(connection, shown)).collect()
}

fn with_counts(connection: Connection<'_>, shown: Shown) -> db::Result<Shown> {
    let key = &shown.webhook.key;
    let count = |rows: &str| {
        let sql = format!("SELECT count(*) FROM {rows} tenant = $1 AND webhook = $2");
        connection.prepare_cached(&sql)?.query_row((key.tenant.0, &*key.id), |row| row.get::<u64>(0))
    };
    let pending = count("deliveries WHERE")? + count("dead_letters WHERE due IS NOT NULL AND")?;
    let dead = count("dead_letters WHERE due IS NULL AND")?;
    Ok(Shown { pending, dead, ..shown })
}

fn subscriptions(
    connection: Connection<'_>,
    tenant: TenantId,
    run: Option<RunId>,
) -> db::Result<Vec<WebhookRow>> {
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE tenant = $1 AND about IS NOT NULL ORDER BY id");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query_map([tenant.0], webhook)?.collect::<db::Result<Vec<_>>>()?;
    rows.retain(|row| run.is_none_or(|run| row.about.as_ref().is_some_and(|about| about.run == run)));
    Ok(rows)
}

pub(crate) fn tenant_name(connection: Connection<'_>, tenant: TenantId) -> db::Result<String> {
    let mut statement = connection.prepare_cached("SELECT name FROM tenants WHERE id = $1")?;
    Ok(statement.query_row([tenant.0], |row| row.get(0)).optional()?.unwrap_or_default())
}

fn busy(connection: Connection<'_>) -> db::Result<Vec<WebhookKey>> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, id FROM webhooks w WHERE failed = 0 AND \
         (EXISTS (SELECT 1 FROM deliveries d WHERE d.tenant = w.tenant AND d.webhook = w.id) OR \
         EXISTS (SELECT 1 FROM dead_letters d WHERE d.tenant = w.tenant AND d.webhook = w.id \
         AND d.due IS NOT NULL))",
    )?;
    statement.query_map((), |row| key(row, 0))?.collect()
}

fn counted(row: &Row<'_>) -> db::Result<Shown> {
    let webhook = webhook(row)?;
    Ok(Shown { webhook, delivered: row.get(14)?, pending: 0, dead: 0, dropped: row.get(15)? })
}

fn webhook(row: &Row<'_>) -> db::Result<WebhookRow> {
    Ok(WebhookRow {
        key: key(row, 0)?,
        url: row.get(2)?,
        types: texts(row, 3)?,
        tags: texts(row, 4)?,
        sealed: Arc::from(row.get::<Vec<u8>>(5)?),
        fingerprint: row.get(6)?,
        created_at: row.get(7)?,
        created_by: row.get(8)?,
        health: Health {
            failed: row.get(9)?,
            failures: row.get(10)?,
            failing_since: row.get(11)?,
            openings: row.get(12)?,
            open_until: row.get(13)?,
        },
        about: about(row)?,
    })
}

fn about(row: &Row<'_>) -> db::Result<Option<About>> {
    let named: Option<Vec<u8>> = row.get(16)?;
    if named.is_none() {
        return Ok(None);
    }
    let subscriber: Option<String> = row.get(18)?;
    let group: Option<i64> = row.get(17)?;
    Ok(Some(About {
        run: run_id(row, 16)?,
        group: group == Some(1),
        subscriber: subscriber.unwrap_or_default(),
        until: row.get(19)?,
    }))
}

/// The columns tenant and id, from `at` on.
fn key(row: &Row<'_>, at: usize) -> db::Result<WebhookKey> {
    let id: String = row.get(at + 1)?;
    Ok(WebhookKey { tenant: TenantId(row.get(at)?), id: id.into() })
}

fn texts(row: &Row<'_>, at: usize) -> db::Result<Vec<String>> {
    let json: String = row.get(at)?;
    checked(at, serde_json::from_str(&json).map_err(|error| error.to_string()))
}

/// The columns run and seq, from `at` on.
pub(crate) fn place(row: &Row<'_>, at: usize) -> db::Result<(RunId, u64)> {
    Ok((run_id(row, at)?, row.get(at + 1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(types: &[&str]) -> Vec<&'static str> {
        let types: Vec<String> = types.iter().map(ToString::to_string).collect();
        codes(&types).into_iter().filter_map(EventType::by_code).map(|kind| kind.name).collect()
    }

    #[test]
    fn a_star_stands_for_what_openwop_has_a_name_for() {
        assert_eq!(names(&["run.failed", "run.started"]), ["run.started", "run.failed"]);
        assert!(names(&["*"]).contains(&"node.completed") && !names(&["*"]).contains(&"run.yielded"));
        assert!(names(&["log.appended"]).contains(&"run.yielded"));
        assert!(!names(&["log.appended"]).contains(&"run.started"));
        assert_eq!(names(&["*", "log.appended"]).len(), event_types().len());
        assert!(names(&["eval.done", "run.yielded"]).is_empty());
    }
}
