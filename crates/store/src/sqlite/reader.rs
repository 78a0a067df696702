//! Reads, each on one of a few connections, off the async threads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use abide_core::{Hash, Head, Key, Millis, Payload, Record, RunId, Status, Summary, TenantId};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::open::explain;
use crate::rows::hash;
use crate::sealing::{Place, Unopened};
use crate::store::ListQuery;
use crate::{ChildRow, Error, Listed, Loaded, Message, MessageRef, MessageRow, Sealing, TimerRow};

/// Bytes of payload after which a page of events ends, however many were asked for.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Connections that only read, and the right to use one.
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    file: PathBuf,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>, file: PathBuf) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(connections.len()));
        Arc::new(Self { idle: Mutex::new(connections), permits, file })
    }

    pub(super) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        job: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let readers = self.clone();
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let read = tokio::task::spawn_blocking(move || {
            let connection = readers.idle.lock().expect("no thread panics holding this").pop();
            let lent = Lent { readers: &readers, connection, _permit: permit };
            let connection = lent.connection.as_ref().expect("there is a connection for every permit");
            job(connection).map_err(|error| explain(&readers.file, &error))
        });
        read.await.map_err(|error| Error::Failed(format!("a read was cut off: {error}")))?
    }
}

/// A connection in use. It goes back and then the permit, even if whoever asked is gone by then, or the read panics.
struct Lent<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.readers.idle.lock().expect("no thread panics holding this").extend(self.connection.take());
    }
}

pub(super) fn load(connection: &Connection, sealing: &Sealing, key: Key) -> rusqlite::Result<Option<Loaded>> {
    let _moment = one_moment(connection)?;
    let mut columns = connection.prepare_cached(
        "SELECT next, at, status, workflow, definition, started_at, snapshot_at, snapshot, chain \
         FROM aggregates WHERE tenant = $1 AND id = $2",
    )?;
    let found = columns
        .query_row((key.tenant.0, key.id.as_bytes()), |row| {
            let snapshot: Option<Vec<u8>> = row.get(7)?;
            let snapshot = row.get::<_, Option<u64>>(6)?.zip(snapshot);
            let chain = checked(8, hash(&row.get::<_, Vec<u8>>(8)?))?;
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

/// Makes the reads that follow see one moment, unless the connection is held at one already.
pub(super) fn one_moment(connection: &Connection) -> rusqlite::Result<Option<rusqlite::Transaction<'_>>> {
    if connection.is_autocommit() { connection.unchecked_transaction().map(Some) } else { Ok(None) }
}

/// What [`record`] reads.
const RECORD: &str = "e.seq, e.at, e.type, e.version, e.cause, e.node, e.chain, coalesce(e.payload, b.bytes), e.erased \
    FROM events e LEFT JOIN blobs b ON e.payload IS NULL AND b.tenant = e.tenant AND b.hash = e.chain";

pub(super) fn events_of_type(
    connection: &Connection,
    sealing: &Sealing,
    key: Key,
    type_code: u16,
    from: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Record>> {
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

pub(super) fn journal(
    connection: &Connection,
    sealing: &Sealing,
    key: Key,
    from: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Record>> {
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

fn record(row: &Row<'_>, sealing: &Sealing, key: Key) -> rusqlite::Result<Record> {
    let sequence: u64 = row.get(0)?;
    let payload: Option<Vec<u8>> = row.get(7)?;
    let payload = match (payload, row.get::<_, Option<Vec<u8>>>(8)?) {
        (_, Some(erased)) => Payload::Erased(checked(8, hash(&erased))?),
        (Some(bytes), None) => {
            Payload::Present(opened(7, sealing.open(key, &Place::Event(sequence), bytes))?.into())
        }
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
        chain: checked(6, hash(&row.get::<_, Vec<u8>>(6)?))?,
    })
}

/// What [`listed`] reads of `aggregates`. A run has few notes, which lie together under its id.
pub(super) const LISTED: &str = "next, at, status, workflow, definition, started_at, id, EXISTS \
    (SELECT 1 FROM notes n WHERE n.tenant = aggregates.tenant AND n.id = aggregates.id \
    AND n.kind IN ('erasing', 'erased')), child";

pub(super) fn list(connection: &Connection, query: &ListQuery) -> rusqlite::Result<Vec<Listed>> {
    let before = query.before.map_or([0xff; 16], |run| *run.as_bytes());
    let mut wheres = "tenant = ?1 AND kind = 1 AND id < ?2".to_owned();
    let mut values: Vec<Box<dyn rusqlite::ToSql>> = vec![Box::new(query.tenant.0), Box::new(before)];
    if let Some(status) = query.status {
        values.push(Box::new(status.code()));
        wheres += &format!(" AND status = ?{}", values.len());
    }
    if let Some(workflow) = &query.workflow {
        values.push(Box::new(workflow.clone()));
        wheres += &format!(" AND workflow = ?{}", values.len());
    }
    let sql = format!("SELECT {LISTED} FROM aggregates WHERE {wheres} ORDER BY id DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    readable(statement.query_map(rusqlite::params_from_iter(values), listed)?, query.limit)
}

pub(super) fn head(connection: &Connection, key: Key) -> rusqlite::Result<Option<Listed>> {
    let sql = format!("SELECT {LISTED} FROM aggregates WHERE tenant = $1 AND id = $2");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row((key.tenant.0, key.id.as_bytes()), listed).optional()
}

pub(super) fn listed(row: &Row<'_>) -> rusqlite::Result<Listed> {
    Ok(Listed {
        id: run_id(row, 6)?,
        summary: summary(row, 2)?,
        next: row.get(0)?,
        at: row.get(1)?,
        erased: row.get(7)?,
        child: row.get(8)?,
    })
}

/// The columns status, workflow, definition, started_at, from `at` on.
pub(super) fn summary(row: &Row<'_>, at: usize) -> rusqlite::Result<Summary> {
    let workflow: String = row.get(at + 1)?;
    Ok(Summary {
        status: status(at, row.get(at)?)?,
        workflow_id: workflow.into(),
        definition: checked(at + 2, hash(&row.get::<_, Vec<u8>>(at + 2)?))?,
        started_at: row.get(at + 3)?,
    })
}

/// The status with a number that stood in column `at`.
pub(super) fn status(at: usize, code: u8) -> rusqlite::Result<Status> {
    checked(at, Status::by_code(code).ok_or_else(|| format!("{code} is no status")))
}

pub(super) fn children(
    connection: &Connection,
    parent: Key,
    limit: usize,
) -> rusqlite::Result<Vec<ChildRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT c.child, c.node, c.execution, c.cascade, a.status \
         FROM children c LEFT JOIN aggregates a ON a.tenant = c.tenant AND a.id = c.child \
         WHERE c.tenant = $1 AND c.parent = $2 ORDER BY c.child",
    )?;
    let rows = statement.query_map((parent.tenant.0, parent.id.as_bytes()), |row| {
        let node: String = row.get(1)?;
        let code: Option<u8> = row.get(4)?;
        Ok(ChildRow {
            child: run_id(row, 0)?,
            node: node.into(),
            execution: row.get(2)?,
            cascade: row.get(3)?,
            status: code.map(|code| status(4, code)).transpose()?,
        })
    })?;
    readable(rows, limit)
}

pub(super) fn blob(
    connection: &Connection,
    tenant: TenantId,
    hash: &Hash,
) -> rusqlite::Result<Option<Arc<[u8]>>> {
    let mut statement =
        connection.prepare_cached("SELECT bytes FROM blobs WHERE tenant = $1 AND hash = $2")?;
    statement.query_row((tenant.0, hash), |row| Ok(row.get::<_, Vec<u8>>(0)?.into())).optional()
}

pub(super) fn timers(
    connection: &Connection,
    after: Option<&TimerRow>,
    until: Millis,
    limit: usize,
) -> rusqlite::Result<Vec<TimerRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT due, tenant, id, timer FROM timers \
         WHERE (due, tenant, id, timer) > ($1, $2, $3, $4) AND due <= $5 \
         ORDER BY due, tenant, id, timer",
    )?;
    let (due, tenant, id, timer) = match after {
        Some(row) => (row.due, row.key.tenant.0, *row.key.id.as_bytes(), row.timer.to_string()),
        None => (Millis::MIN, 0, [0; 16], String::new()),
    };
    let rows = statement.query_map((due, tenant, id, timer, until), |row| {
        let timer: String = row.get(3)?;
        Ok(TimerRow { due: row.get(0)?, key: key(row, 1)?, timer: checked(3, timer.parse())? })
    })?;
    readable(rows, limit)
}

pub(super) fn outbox(
    connection: &Connection,
    sealing: &Sealing,
    after: Option<MessageRef>,
    limit: usize,
) -> rusqlite::Result<Vec<MessageRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, sender, seq, receiver, type, version, message FROM outbox \
         WHERE (tenant, sender, seq, receiver) > ($1, $2, $3, $4) \
         ORDER BY tenant, sender, seq, receiver",
    )?;
    let (tenant, sender, sequence, receiver) = match after {
        Some(at) => (at.sender.tenant.0, *at.sender.id.as_bytes(), at.sequence, *at.receiver.as_bytes()),
        None => (0, [0; 16], 0, [0; 16]),
    };
    let rows = statement.query_map((tenant, sender, sequence, receiver), |row| {
        let at = MessageRef { sender: key(row, 0)?, sequence: row.get(2)?, receiver: run_id(row, 3)? };
        Ok(MessageRow { at, message: message(row, 4, sealing, at)? })
    })?;
    readable(rows, limit)
}

/// The columns type, version and message, from `at` on.
pub(super) fn message(
    row: &Row<'_>,
    at: usize,
    sealing: &Sealing,
    sent: MessageRef,
) -> rusqlite::Result<Message> {
    let (kind, bytes) = (row.get(at)?, row.get(at + 2)?);
    let place = Place::Message { sequence: sent.sequence, receiver: sent.receiver, kind };
    let bytes = opened(at + 2, sealing.open(sent.sender, &place, bytes))?;
    checked(at, Message::decode(kind, row.get(at + 1)?, &bytes))
}

pub(super) fn heard(connection: &Connection, receiver: Key, sender: RunId) -> rusqlite::Result<Option<u64>> {
    let mut statement = connection
        .prepare_cached("SELECT seq FROM heard WHERE tenant = $1 AND receiver = $2 AND sender = $3")?;
    statement
        .query_row((receiver.tenant.0, receiver.id.as_bytes(), sender.as_bytes()), |row| row.get(0))
        .optional()
}

/// The first so many rows that can be read. The others are logged: in a queue or a list, one bad row must not
/// hide the rest, nor make a page look like the last.
pub(super) fn readable<T>(
    rows: impl Iterator<Item = rusqlite::Result<T>>,
    limit: usize,
) -> rusqlite::Result<Vec<T>> {
    let mut read = Vec::new();
    for row in rows {
        if read.len() == limit {
            break;
        }
        match row {
            Ok(row) => read.push(row),
            Err(error) if is_conversion(&error) => {
                tracing::error!(%error, "a row can't be read and is left out; run `abide verify`");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

pub(super) fn is_conversion(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(
        error,
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
    )
}

/// The columns tenant and id, from `at` on.
pub(super) fn key(row: &Row<'_>, at: usize) -> rusqlite::Result<Key> {
    Ok(run_id(row, at + 1)?.of(TenantId(row.get(at)?)))
}

pub(super) fn run_id(row: &Row<'_>, at: usize) -> rusqlite::Result<RunId> {
    Ok(RunId::from_bytes(row.get(at)?))
}

pub(super) fn opened(column: usize, opened: Result<Vec<u8>, Unopened>) -> rusqlite::Result<Vec<u8>> {
    opened.map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error)))
}

/// A value that does not parse means a damaged file.
pub(super) fn checked<T>(column: usize, value: Result<T, String>) -> rusqlite::Result<T> {
    value.map_err(|reason| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, reason.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_read_that_panics_gives_its_connection_back() {
        let readers = Readers::new(vec![Connection::open_in_memory().unwrap()], PathBuf::new());
        let broken: Result<(), Error> = readers.clone().run(|_| panic!("a bug")).await;
        assert!(matches!(broken, Err(Error::Failed(_))));
        let answer: i64 = readers.run(|db| db.query_row("SELECT 7", [], |row| row.get(0))).await.unwrap();
        assert_eq!(answer, 7);
    }
}
