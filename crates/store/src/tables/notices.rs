//! Who is told that an interrupt waits: attempts are turned into messages, and messages are tried until that ends.

use crate::db::{self, Connection, Optional, Row, ToValue, Value};
use abide_core::{Key, Millis, TenantId};

use super::Database;
use super::inbox::interrupt_id;
use super::reader::{checked, key, run_id};
use crate::notices::{
    Expanded, HowEnded, NOTICES_LOOK_MAX, NewMessage, NoticeDelivery, NoticeEnd, NoticeId, NoticeLine,
    NoticeRow, NoticeState, Notices, NoticesPage, NoticesQuery,
};
use crate::store::Answer;

impl<E: Database> Notices for E {
    fn untold(&self, after: Option<TenantId>, of_tenant: usize, limit: usize) -> Answer<'_, Vec<NoticeRow>> {
        self.read(move |connection| untold(connection, after, of_tenant, limit))
    }

    fn expand(&self, expanded: Vec<Expanded>) -> Answer<'_, Vec<NoticeLine>> {
        self.write(move |transaction| {
            let mut lines = Vec::new();
            for one in &expanded {
                expand(transaction, one, &mut lines)?;
            }
            lines.sort_unstable();
            lines.dedup();
            Ok(lines)
        })
    }

    fn lines(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<NoticeLine>> {
        self.read(move |connection| lines(connection, tenant))
    }

    fn due(
        &self,
        line: NoticeLine,
        now: Millis,
        limit: usize,
    ) -> Answer<'_, (Vec<NoticeDelivery>, Option<Millis>)> {
        self.read(move |connection| due(connection, &line, now, limit))
    }

    fn sent_since(
        &self,
        line: NoticeLine,
        recipient: String,
        since: Millis,
    ) -> Answer<'_, (u64, Option<Millis>)> {
        self.read(move |connection| {
            let sql = "SELECT CAST(coalesce(sum(sent), 0) AS BIGINT), min(at) FROM notice_counts \
                WHERE tenant = $1 AND channel = $2 AND recipient = $3 AND at > $4";
            let values = (line.tenant.0, &line.channel, &recipient, since);
            connection.prepare_cached(sql)?.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    fn settle(&self, ends: Vec<NoticeEnd>, counted: Option<Millis>) -> Answer<'_, ()> {
        self.write(move |transaction| ends.iter().try_for_each(|end| settle(transaction, end, counted)))
    }

    fn list(&self, query: NoticesQuery) -> Answer<'_, NoticesPage> {
        self.read(move |connection| list(connection, &query))
    }

    fn get(&self, tenant: TenantId, id: NoticeId) -> Answer<'_, Option<NoticeDelivery>> {
        self.read(move |connection| {
            let sql = format!("SELECT {MESSAGE} FROM notice_deliveries d WHERE {AT}");
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row(place(tenant, &id), message).optional()
        })
    }

    fn resend(&self, tenant: TenantId, id: NoticeId, now: Millis) -> Answer<'_, bool> {
        self.write(move |transaction| {
            let sql = format!(
                "UPDATE notice_deliveries AS d SET state = 0, due = ?6, tries = 0, reason = NULL \
                 WHERE {AT} AND state = 2 AND EXISTS (SELECT 1 FROM interrupts i \
                 WHERE i.tenant = d.tenant AND i.run = d.run AND i.id = d.interrupt)"
            );
            Ok(update(transaction, &sql, tenant, &id, &[&now])? > 0)
        })
    }
}

/// What [`message`] reads.
const MESSAGE: &str = "d.tenant, d.run, d.interrupt, d.attempt, d.n, d.channel, d.recipient, d.person, d.hint, \
    d.state, d.tries, d.due, d.reason, d.sent_at, d.follow";

/// One message. What else a statement needs comes behind these; a name with `$` counts by its first appearance instead.
const AT: &str = "d.tenant = ?1 AND d.run = ?2 AND d.interrupt = ?3 AND d.attempt = ?4 AND d.n = ?5";

fn untold(
    connection: Connection<'_>,
    after: Option<TenantId>,
    of_tenant: usize,
    limit: usize,
) -> db::Result<Vec<NoticeRow>> {
    let mut next =
        connection.prepare_cached("SELECT tenant FROM notices WHERE tenant > $1 ORDER BY tenant LIMIT 1")?;
    let find = "SELECT tenant, run, interrupt, attempt, at FROM notices WHERE tenant = $1 \
         ORDER BY run, interrupt, attempt";
    let begin = after.map_or(-1, |tenant| i64::from(tenant.0));
    let mut found = Vec::new();
    // Those behind the place, and then those up to it.
    for (from, until) in [(begin, i64::MAX), (-1, begin)] {
        let mut at = from;
        while found.len() < limit {
            let tenant: Option<i64> = next.query_row([at], |row| row.get(0)).optional()?;
            let Some(tenant) = tenant.filter(|tenant| *tenant <= until) else { break };
            at = tenant;
            let room = of_tenant.min(limit - found.len());
            found.extend(connection.readable(find, [tenant], room, notice)?);
        }
    }
    Ok(found)
}

fn notice(row: &Row<'_>) -> db::Result<NoticeRow> {
    Ok(NoticeRow {
        key: key(row, 0)?,
        interrupt: interrupt_id(row, 2)?,
        attempt: row.get(3)?,
        at: row.get(4)?,
    })
}

fn expand(transaction: Connection<'_>, expanded: &Expanded, lines: &mut Vec<NoticeLine>) -> db::Result<()> {
    let notice = &expanded.notice;
    let (tenant, run) = (notice.key.tenant, notice.key.id);
    let named = (tenant.0, run.as_bytes(), notice.interrupt.as_bytes(), notice.attempt);
    let told = transaction
        .prepare_cached(
            "DELETE FROM notices WHERE tenant = $1 AND run = $2 AND interrupt = $3 AND attempt = $4",
        )?
        .execute(named)?;
    if told == 0 {
        return Ok(());
    }
    // One that may be under way counts as tried, so that whoever gets it hears what becomes of the interrupt.
    let (of, by, about, attempt) = named;
    transaction
        .prepare_cached(
            "UPDATE notice_deliveries SET state = 3, due = NULL, tries = CASE WHEN tries = 0 AND due <= ?5 THEN 1 ELSE tries END \
             WHERE tenant = ?1 AND run = ?2 AND interrupt = ?3 AND attempt < ?4 AND state = 0",
        )?
        .execute((of, by, about, attempt, notice.at))?;
    for (n, message) in (0_u16..).zip(&expanded.messages) {
        let id = NoticeId { run, interrupt: notice.interrupt, attempt: notice.attempt, n };
        insert(transaction, tenant, &id, message)?;
        if message.state == NoticeState::Waiting {
            lines.push(NoticeLine { tenant, channel: message.channel.clone() });
        }
    }
    Ok(())
}

fn insert(
    transaction: Connection<'_>,
    tenant: TenantId,
    id: &NoticeId,
    message: &NewMessage,
) -> db::Result<()> {
    let due = (message.state == NoticeState::Waiting).then_some(message.due);
    let mut values = place(tenant, id);
    values.extend([
        Value::owned(&message.channel.clone()) as Value<'static>,
        Value::owned(&message.recipient.clone()),
        Value::owned(&message.person.clone()),
        Value::owned(&message.hint.clone()),
        Value::owned(&message.state.code()),
        Value::owned(&due),
        Value::owned(&message.reason.clone()),
    ]);
    transaction
        .prepare_cached(
            "INSERT INTO notice_deliveries \
             (tenant, run, interrupt, attempt, n, channel, recipient, person, hint, state, tries, due, reason) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12)",
        )?
        .execute(values)
        .map(drop)
}

/// It takes one step for each line, however much is on it.
fn lines(connection: Connection<'_>, tenant: Option<TenantId>) -> db::Result<Vec<NoticeLine>> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, channel FROM notice_deliveries INDEXED BY notice_deliveries_by_due \
         WHERE due IS NOT NULL AND (tenant, channel) > ($1, $2) ORDER BY tenant, channel LIMIT 1",
    )?;
    let mut found = Vec::new();
    // A line's name is never empty, as nothing is sent over no channel.
    let mut at = NoticeLine { tenant: tenant.unwrap_or(TenantId(0)), channel: String::new() };
    loop {
        let next = statement.query_row((at.tenant.0, &at.channel), |row| {
            Ok(NoticeLine { tenant: TenantId(row.get(0)?), channel: row.get(1)? })
        });
        match next.optional()? {
            Some(line) if tenant.is_none_or(|tenant| line.tenant == tenant) => {
                at = line.clone();
                found.push(line);
            }
            _ => return Ok(found),
        }
    }
}

fn due(
    connection: Connection<'_>,
    line: &NoticeLine,
    now: Millis,
    limit: usize,
) -> db::Result<(Vec<NoticeDelivery>, Option<Millis>)> {
    let sql = format!(
        "SELECT {MESSAGE} FROM notice_deliveries d INDEXED BY notice_deliveries_by_due \
         WHERE d.tenant = $1 AND d.channel = $2 AND d.due <= $3 ORDER BY d.due"
    );
    let values = (line.tenant.0, &line.channel, now);
    let found = connection.readable(&sql, values, limit, message)?;
    let next = connection
        .prepare_cached(
            "SELECT min(due) FROM notice_deliveries INDEXED BY notice_deliveries_by_due \
             WHERE tenant = $1 AND channel = $2 AND due > $3",
        )?
        .query_row(values, |row| row.get(0))?;
    Ok((found, next))
}

fn settle(
    transaction: Connection<'_>,
    NoticeEnd { tenant, id, how }: &NoticeEnd,
    counted: Option<Millis>,
) -> db::Result<()> {
    let set = |sets: &str, only: &str, values: &[&dyn ToValue]| {
        let sql = format!("UPDATE notice_deliveries AS d SET {sets} WHERE {AT} AND {only}");
        update(transaction, &sql, *tenant, id, values)
    };
    let (waits, follows) = ("state = 0", "follow IS NOT NULL");
    let written = match how {
        HowEnded::Sent { at } => {
            // While it was under way, a later attempt may have begun, or the interrupt may have been closed.
            let sets = "state = 1, sent_at = ?6, tries = tries + 1, reason = NULL, \
                due = CASE WHEN follow IS NULL THEN NULL ELSE due END";
            let sent = set(sets, "state IN (0, 3, 5)", &[at])?;
            if let Some(counted) = counted.filter(|_| sent > 0) {
                count(transaction, *tenant, id, *at, counted)?;
            }
            sent
        }
        HowEnded::Again { due, reason } => {
            set("tries = tries + 1, due = ?6, reason = ?7", waits, &[due, reason])?
        }
        HowEnded::PutOff { due, reason } => set("due = ?6, reason = ?7", waits, &[due, reason])?,
        HowEnded::Dead { reason } => {
            set("state = 2, tries = tries + 1, due = NULL, reason = ?6", waits, &[reason])?
        }
        HowEnded::Withdrawn => set("state = 5, due = NULL", waits, &[])?,
        HowEnded::Followed => set("follow = NULL, due = NULL", follows, &[])?,
        HowEnded::FollowAgain { due, reason } => {
            set("tries = tries + 1, due = ?6, reason = ?7", follows, &[due, reason])?
        }
        HowEnded::Unfollowed { reason } => set("follow = NULL, due = NULL, reason = ?6", follows, &[reason])?,
    };
    if written == 0 {
        tracing::debug!(?id, ?how, "a try ended that nobody waits for any more");
    }
    Ok(())
}

/// Counts a message towards its recipient's limit, and forgets those that are too old to count.
fn count(
    transaction: Connection<'_>,
    tenant: TenantId,
    id: &NoticeId,
    at: Millis,
    counted: Millis,
) -> db::Result<()> {
    let old = format!(
        "DELETE FROM notice_counts WHERE (tenant, channel, recipient) = \
         (SELECT d.tenant, d.channel, d.recipient FROM notice_deliveries d WHERE {AT}) AND at <= ?6"
    );
    update(transaction, &old, tenant, id, &[&at.saturating_sub(counted)])?;
    let new = format!(
        "INSERT INTO notice_counts (tenant, channel, recipient, at, sent) \
         SELECT d.tenant, d.channel, d.recipient, ?6, 1 FROM notice_deliveries d WHERE {AT} AND d.recipient <> '' \
         ON CONFLICT (tenant, channel, recipient, at) DO UPDATE SET sent = notice_counts.sent + 1"
    );
    update(transaction, &new, tenant, id, &[&at]).map(drop)
}

fn update(
    transaction: Connection<'_>,
    sql: &str,
    tenant: TenantId,
    id: &NoticeId,
    values: &[&dyn ToValue],
) -> db::Result<usize> {
    let values = values.iter().map(|value| value.to_value());
    transaction.prepare_cached(sql)?.execute(place(tenant, id).into_iter().chain(values).collect::<Vec<_>>())
}

/// The values of [`AT`].
fn place(tenant: TenantId, id: &NoticeId) -> Vec<Value<'static>> {
    vec![
        Value::owned(&tenant.0),
        Value::owned(id.run.as_bytes()),
        Value::owned(id.interrupt.as_bytes()),
        Value::owned(&id.attempt),
        Value::owned(&id.n),
    ]
}

/// The text of a query and its values. Rows come in their order out of an index, so that no more of them are read than
/// are looked at.
fn listing(query: &NoticesQuery) -> (String, Vec<Value<'static>>) {
    let mut values: Vec<Value<'static>> = vec![Value::owned(&query.tenant.0)];
    let mut wheres = "d.tenant = ?1".to_owned();
    let mut and = |condition: &str, value: Value<'static>| {
        values.push(value);
        wheres += &format!(" AND {}", condition.replace('$', &format!("?{}", values.len())));
    };
    let indexed = query.state.filter(|state| state.is_indexed() && query.run.is_none());
    let from = match indexed {
        Some(_) => "notice_deliveries d INDEXED BY notice_deliveries_failed",
        None => "notice_deliveries d NOT INDEXED",
    };
    if let Some(state) = indexed {
        // The index is known to have them all by its own words.
        and("d.state IN (2, 4, 6) AND d.state = $", Value::owned(&state.code()));
    } else if let Some(run) = query.run {
        and("d.run = $", Value::owned(run.as_bytes()));
        if let Some(interrupt) = query.interrupt {
            and("d.interrupt = $", Value::owned(interrupt.as_bytes()));
        }
    }
    if let Some(after) = query.after {
        let first = values.len() + 1;
        values.extend(place(query.tenant, &after).into_iter().skip(1));
        let places = format!("?{first}, ?{}, ?{}, ?{}", first + 1, first + 2, first + 3);
        wheres += &format!(" AND (d.run, d.interrupt, d.attempt, d.n) < ({places})");
    }
    let order = "ORDER BY d.run DESC, d.interrupt DESC, d.attempt DESC, d.n DESC";
    (format!("SELECT {MESSAGE} FROM {from} WHERE {wheres} {order}"), values)
}

fn list(connection: Connection<'_>, query: &NoticesQuery) -> db::Result<NoticesPage> {
    let (sql, values) = listing(query);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut page = NoticesPage { rows: Vec::new(), next: None };
    let (mut looked, mut last) = (0, query.after);
    for row in statement.query_map(values, message)? {
        if page.rows.len() == query.limit || looked == NOTICES_LOOK_MAX {
            page.next = last;
            break;
        }
        looked += 1;
        match row {
            Ok(row) => {
                last = Some(row.id);
                if query.state.is_none_or(|state| row.state == state) {
                    page.rows.push(row);
                }
            }
            Err(error) if error.is_conversion() => {
                tracing::error!(%error, "a message can't be read and is left out");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(page)
}

/// The columns of [`MESSAGE`].
fn message(row: &Row<'_>) -> db::Result<NoticeDelivery> {
    let follow: Option<String> = row.get(14)?;
    let follow = follow.map(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    Ok(NoticeDelivery {
        tenant: TenantId(row.get(0)?),
        id: NoticeId {
            run: run_id(row, 1)?,
            interrupt: interrupt_id(row, 2)?,
            attempt: row.get(3)?,
            n: row.get(4)?,
        },
        channel: row.get(5)?,
        recipient: row.get(6)?,
        person: row.get(7)?,
        hint: row.get(8)?,
        state: checked(9, NoticeState::by_code(row.get(9)?))?,
        tries: row.get(10)?,
        due: row.get(11)?,
        reason: row.get(12)?,
        sent_at: row.get(13)?,
        follow: checked(14, follow.transpose())?,
    })
}

/// Tells nobody anything of this run any more, and forgets who was told.
pub(crate) fn forget(transaction: Connection<'_>, run: Key) -> db::Result<()> {
    let named = (run.tenant.0, run.id.as_bytes());
    transaction.execute("DELETE FROM notices WHERE tenant = $1 AND run = $2", named)?;
    transaction.execute("DELETE FROM notice_deliveries WHERE tenant = $1 AND run = $2", named).map(drop)
}

#[cfg(test)]
mod tests {
    use abide_core::{InterruptId, RunId};

    use super::*;
    use crate::sqlite::migrate::plan;

    #[test]
    fn no_page_of_messages_reads_more_than_it_looks_at() {
        let run = RunId::from_bytes([1; 16]);
        let interrupt = InterruptId::from_bytes([1; InterruptId::BYTES]);
        let after = Some(NoticeId { run, interrupt, attempt: 1, n: 1 });
        let plain = NoticesQuery {
            tenant: TenantId(1),
            state: None,
            run: None,
            interrupt: None,
            after: None,
            limit: 10,
        };
        for state in NoticeState::ALL {
            let dead = NoticesQuery { state: Some(state), ..plain.clone() };
            let one = NoticesQuery { run: Some(run), interrupt: Some(interrupt), ..dead.clone() };
            for query in [plain.clone(), dead.clone(), one] {
                let index = if query.run.is_none() && query.state.is_some_and(NoticeState::is_indexed) {
                    "INDEX notice_deliveries_failed"
                } else {
                    "PRIMARY KEY"
                };
                for query in [query.clone(), NoticesQuery { after, ..query }] {
                    let (sql, values) = listing(&query);
                    let plan = plan(&sql, values.len());
                    assert!(plan.starts_with(&format!("SEARCH d USING {index}")), "{plan}");
                    assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
                }
            }
        }
    }
}
