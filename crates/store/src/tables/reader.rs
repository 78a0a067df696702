//! Reads, each on one of a few connections, off the async threads.

use std::sync::Arc;

use crate::db::{self, Connection, Fault, Optional, Row, Value};
use abide_core::{Hash, Head, Key, Millis, Payload, Record, RunId, Status, Summary, TenantId};

use crate::rows::hash;
use crate::sealing::Place;
use crate::store::ListQuery;
use crate::{ChildRow, Listed, Loaded, Message, MessageRef, MessageRow, Sealing, TimerRow};

/// Bytes of payload after which a page of events ends, however many were asked for.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(crate) fn load(connection: Connection<'_>, sealing: &Sealing, key: Key) -> db::Result<Option<Loaded>> {
    let _moment = connection.one_moment()?;
    let mut columns = connection.prepare_cached(
        "SELECT next, at, status, workflow, definition, started_at, snapshot_at, snapshot, chain \
         FROM aggregates WHERE tenant = $1 AND id = $2",
    )?;
    let found = columns
        .query_row((key.tenant.0, key.id.as_bytes()), |row| {
            let snapshot: Option<Vec<u8>> = row.get(7)?;
            let snapshot = row.get::<Option<u64>>(6)?.zip(snapshot);
            let chain = checked(8, hash(&row.get::<Vec<u8>>(8)?))?;
            Ok((Head { next: row.get(0)?, chain, at: row.get(1)? }, summary(row, 2)?, snapshot))
        })
        .optional()?;
    let Some((head, summary, snapshot)) = found else {
        return Ok(None);
    };
    // One that can't be opened is like one that was damaged: whoever reads it sees that, and folds the journal.
    let snapshot = snapshot.map(|(folded, kept)| {
        let opened = sealing.open(key, &Place::Snapshot(folded), kept);
        (folded, opened.unwrap_or_default())
    });
    let from = snapshot.as_ref().map_or(0, |(folded, _)| *folded);
    let tail = journal(connection, sealing, key, from, usize::MAX)?;
    let salt = connection
        .prepare_cached("SELECT salt FROM events WHERE tenant = $1 AND id = $2 AND seq = 0")?
        .query_row((key.tenant.0, key.id.as_bytes()), |row| row.get(0))
        .optional()?;
    let salt = checked(0, salt.ok_or_else(|| "the first event is missing".to_owned()))?;
    Ok(Some(Loaded { summary, head, salt, snapshot, tail }))
}

/// What [`record`] reads.
const RECORD: &str = "e.seq, e.at, e.type, e.version, e.cause, e.node, e.chain, coalesce(e.payload, b.bytes), e.erased \
    FROM events e LEFT JOIN blobs b ON e.payload IS NULL AND b.tenant = e.tenant AND b.hash = e.chain";

pub(crate) fn events_of_type(
    connection: Connection<'_>,
    sealing: &Sealing,
    key: Key,
    type_code: u16,
    from: u64,
    limit: usize,
) -> db::Result<Vec<Record>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RECORD} WHERE e.tenant = $1 AND e.id = $2 AND e.seq >= $3 AND e.type = $4 \
         ORDER BY e.seq LIMIT $5"
    ))?;
    // No sequence on disk is beyond what SQLite counts with, so nothing lies behind a place that is.
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let place = (key.tenant.0, key.id.as_bytes(), from, type_code, limit);
    statement.query_map(place, |row| record(row, sealing, key))?.collect()
}

pub(crate) fn journal(
    connection: Connection<'_>,
    sealing: &Sealing,
    key: Key,
    from: u64,
    limit: usize,
) -> db::Result<Vec<Record>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RECORD} WHERE e.tenant = $1 AND e.id = $2 AND e.seq >= $3 ORDER BY e.seq LIMIT $4"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut records = Vec::new();
    let mut bytes = 0;
    let place = (key.tenant.0, key.id.as_bytes(), from, limit);
    for record in statement.query_map(place, |row| record(row, sealing, key))? {
        let record = record?;
        bytes += record.payload.len();
        records.push(record);
        if bytes > PAGE_BYTES_MAX && limit < i64::MAX {
            break;
        }
    }
    Ok(records)
}

fn record(row: &Row<'_>, sealing: &Sealing, key: Key) -> db::Result<Record> {
    let sequence: u64 = row.get(0)?;
    let payload: Option<Vec<u8>> = row.get(7)?;
    let payload = match (payload, row.get::<Option<Vec<u8>>>(8)?) {
        (_, Some(erased)) => Payload::Erased(checked(8, hash(&erased))?),
        (Some(bytes), None) => Payload::Present(sealing.open(key, &Place::Event(sequence), bytes)?.into()),
        (None, None) => return checked(7, Err("the payload is missing".to_owned())),
    };
    let node: Option<String> = row.get(5)?;
    Ok(Record {
        sequence,
        at: row.get(1)?,
        type_code: row.get(2)?,
        version: row.get(3)?,
        node: node.map(Into::into),
        cause: row.get(4)?,
        payload,
        chain: checked(6, hash(&row.get::<Vec<u8>>(6)?))?,
    })
}

/// What [`listed`] reads of `aggregates`. A run has few notes, which lie together under its id.
pub(crate) const LISTED: &str = "next, at, status, workflow, definition, started_at, id, EXISTS \
    (SELECT 1 FROM notes n WHERE n.tenant = aggregates.tenant AND n.id = aggregates.id \
    AND n.kind IN ('erasing', 'erased')), child, kind";

pub(crate) fn list(connection: Connection<'_>, query: &ListQuery) -> db::Result<Vec<Listed>> {
    let statuses = match query.status {
        // To whoever asks for runs that have not begun, those are among them that wait for others.
        Some(Status::Pending) => vec![Some(Status::Pending), Some(Status::Blocked), Some(Status::Draft)],
        status => vec![status],
    };
    let mut found = Vec::new();
    // Those of each status come in their order out of the index.
    for status in statuses {
        found.extend(list_of(connection, query, status)?);
    }
    found.sort_by_key(|listed| std::cmp::Reverse(listed.id));
    found.truncate(query.limit);
    Ok(found)
}

fn list_of(connection: Connection<'_>, query: &ListQuery, status: Option<Status>) -> db::Result<Vec<Listed>> {
    let before = query.before.map_or([0xff; 16], |run| *run.as_bytes());
    let mut wheres = "tenant = ?1 AND kind = 1 AND id < ?2".to_owned();
    let mut values: Vec<Value<'static>> = vec![Value::owned(&query.tenant.0), Value::owned(&before)];
    if let Some(status) = status {
        values.push(Value::owned(&status.code()));
        wheres += &format!(" AND status = ?{}", values.len());
    }
    if let Some(workflow) = &query.workflow {
        values.push(Value::owned(&workflow.clone()));
        wheres += &format!(" AND workflow = ?{}", values.len());
    }
    let sql = format!("SELECT {LISTED} FROM aggregates WHERE {wheres} ORDER BY id DESC");
    connection.readable(&sql, values, query.limit, listed)
}

pub(crate) fn head(connection: Connection<'_>, key: Key) -> db::Result<Option<Listed>> {
    let sql = format!("SELECT {LISTED} FROM aggregates WHERE tenant = $1 AND id = $2");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row((key.tenant.0, key.id.as_bytes()), listed).optional()
}

/// Where a journal ends.
pub(crate) fn tip(connection: Connection<'_>, key: Key) -> db::Result<Option<Head>> {
    let sql = "SELECT next, chain, at FROM aggregates WHERE tenant = $1 AND id = $2";
    let named = (key.tenant.0, key.id.as_bytes());
    connection
        .query_row(sql, named, |row| Ok(Head { next: row.get(0)?, chain: row.get(1)?, at: row.get(2)? }))
        .optional()
}

pub(crate) fn listed(row: &Row<'_>) -> db::Result<Listed> {
    Ok(Listed {
        id: run_id(row, 6)?,
        summary: summary(row, 2)?,
        next: row.get(0)?,
        at: row.get(1)?,
        erased: row.get(7)?,
        child: row.get(8)?,
        group: row.get::<u8>(9)? == 2,
    })
}

/// The columns status, workflow, definition, started_at, from `at` on.
pub(crate) fn summary(row: &Row<'_>, at: usize) -> db::Result<Summary> {
    let workflow: String = row.get(at + 1)?;
    Ok(Summary {
        status: status(at, row.get(at)?)?,
        workflow_id: workflow.into(),
        definition: checked(at + 2, hash(&row.get::<Vec<u8>>(at + 2)?))?,
        started_at: row.get(at + 3)?,
    })
}

/// The status with a number that stood in column `at`.
pub(crate) fn status(at: usize, code: u8) -> db::Result<Status> {
    checked(at, Status::by_code(code).ok_or_else(|| format!("{code} is no status")))
}

pub(crate) fn children(connection: Connection<'_>, parent: Key, limit: usize) -> db::Result<Vec<ChildRow>> {
    let sql = "SELECT c.child, c.node, c.execution, c.cascade, a.status \
         FROM children c LEFT JOIN aggregates a ON a.tenant = c.tenant AND a.id = c.child \
         WHERE c.tenant = $1 AND c.parent = $2 ORDER BY c.child";
    connection.readable(sql, (parent.tenant.0, parent.id.as_bytes()), limit, |row| {
        let node: String = row.get(1)?;
        let code: Option<u8> = row.get(4)?;
        Ok(ChildRow {
            child: run_id(row, 0)?,
            node: node.into(),
            execution: row.get(2)?,
            cascade: row.get(3)?,
            status: code.map(|code| status(4, code)).transpose()?,
        })
    })
}

pub(crate) fn blob(
    connection: Connection<'_>,
    tenant: TenantId,
    hash: &Hash,
) -> db::Result<Option<Arc<[u8]>>> {
    let mut statement =
        connection.prepare_cached("SELECT bytes FROM blobs WHERE tenant = $1 AND hash = $2")?;
    statement.query_row((tenant.0, hash), |row| Ok(row.get::<Vec<u8>>(0)?.into())).optional()
}

pub(crate) fn timers(
    connection: Connection<'_>,
    after: Option<&TimerRow>,
    until: Millis,
    limit: usize,
) -> db::Result<Vec<TimerRow>> {
    let sql = "SELECT due, tenant, id, timer FROM timers \
         WHERE (due, tenant, id, timer) > ($1, $2, $3, $4) AND due <= $5 \
         ORDER BY due, tenant, id, timer";
    let (due, tenant, id, name) = match after {
        Some(row) => (row.due, row.key.tenant.0, *row.key.id.as_bytes(), row.timer.to_string()),
        None => (Millis::MIN, 0, [0; 16], String::new()),
    };
    connection.readable(sql, (due, tenant, id, name, until), limit, timer)
}

/// The columns due, tenant, id and timer.
pub(crate) fn timer(row: &Row<'_>) -> db::Result<TimerRow> {
    let timer: String = row.get(3)?;
    Ok(TimerRow { due: row.get(0)?, key: key(row, 1)?, timer: checked(3, timer.parse())? })
}

pub(crate) fn outbox(
    connection: Connection<'_>,
    sealing: &Sealing,
    after: Option<MessageRef>,
    limit: usize,
) -> db::Result<Vec<MessageRow>> {
    let sql = "SELECT tenant, sender, seq, receiver, type, version, message FROM outbox \
         WHERE (tenant, sender, seq, receiver) > ($1, $2, $3, $4) \
         ORDER BY tenant, sender, seq, receiver";
    let (tenant, sender, sequence, receiver) = match after {
        Some(at) => (at.sender.tenant.0, *at.sender.id.as_bytes(), at.sequence, *at.receiver.as_bytes()),
        None => (0, [0; 16], 0, [0; 16]),
    };
    connection.readable(sql, (tenant, sender, sequence, receiver), limit, |row| sent(row, sealing))
}

/// The columns tenant, sender, seq, receiver, type, version and message.
pub(crate) fn sent(row: &Row<'_>, sealing: &Sealing) -> db::Result<MessageRow> {
    let at = MessageRef { sender: key(row, 0)?, sequence: row.get(2)?, receiver: run_id(row, 3)? };
    Ok(MessageRow { at, message: message(row, 4, sealing, at)? })
}

/// The columns type, version and message, from `at` on.
pub(crate) fn message(row: &Row<'_>, at: usize, sealing: &Sealing, sent: MessageRef) -> db::Result<Message> {
    let (kind, bytes) = (row.get(at)?, row.get(at + 2)?);
    // What goes to everybody who watches is sealed once.
    let receiver = if kind == Message::TIDINGS { sent.sender.id } else { sent.receiver };
    let place = Place::Message { sequence: sent.sequence, receiver, kind };
    let bytes = sealing.open(sent.sender, &place, bytes)?;
    checked(at, Message::decode(kind, row.get(at + 1)?, &bytes))
}

pub(crate) fn heard(connection: Connection<'_>, receiver: Key, sender: RunId) -> db::Result<Option<u64>> {
    let mut statement = connection
        .prepare_cached("SELECT seq FROM heard WHERE tenant = $1 AND receiver = $2 AND sender = $3")?;
    statement
        .query_row((receiver.tenant.0, receiver.id.as_bytes(), sender.as_bytes()), |row| row.get(0))
        .optional()
}

/// The columns tenant and id, from `at` on.
pub(crate) fn key(row: &Row<'_>, at: usize) -> db::Result<Key> {
    Ok(run_id(row, at + 1)?.of(TenantId(row.get(at)?)))
}

pub(crate) fn run_id(row: &Row<'_>, at: usize) -> db::Result<RunId> {
    Ok(RunId::from_bytes(row.get(at)?))
}

/// A value that does not parse means a damaged file.
pub(crate) fn checked<T>(column: usize, value: Result<T, String>) -> db::Result<T> {
    value.map_err(|reason| Fault::Unreadable { column, reason })
}
