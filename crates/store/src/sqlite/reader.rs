//! Reads, each on one of a few connections, off the async threads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use abide_core::{Hash, Key, Millis, Payload, Record, RunId, Status, Summary, TenantId};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use tokio::sync::Semaphore;

use super::open::explain;
use crate::rows::hash;
use crate::store::ListQuery;
use crate::{Error, Listed, Loaded, MessageRef, MessageRow, TimerRow};

/// Connections that only read, and the right to use one.
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    file: PathBuf,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>, file: PathBuf) -> Arc<Self> {
        let permits = Semaphore::new(connections.len());
        Arc::new(Self { idle: Mutex::new(connections), permits, file })
    }

    pub(super) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        job: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let readers = self.clone();
        let _permit = self.permits.acquire().await.map_err(|_| Error::Closed)?;
        let read = tokio::task::spawn_blocking(move || {
            let connection = readers.idle.lock().expect("no thread panics holding this").pop();
            let connection = connection.expect("there is a connection for every permit");
            let result = job(&connection).map_err(|error| explain(&readers.file, &error));
            readers.idle.lock().expect("no thread panics holding this").push(connection);
            result
        });
        read.await.map_err(|error| Error::Failed(format!("a read was cut off: {error}")))?
    }
}

pub(super) fn load(connection: &Connection, key: Key) -> rusqlite::Result<Option<Loaded>> {
    let _moment = one_moment(connection)?;
    let mut head = connection.prepare_cached(
        "SELECT next, at, status, workflow, definition, started_at, snapshot_at, snapshot \
         FROM aggregates WHERE tenant = $1 AND id = $2",
    )?;
    let found = head
        .query_row((key.tenant.0, key.id.as_bytes()), |row| {
            let snapshot: Option<Vec<u8>> = row.get(7)?;
            let snapshot = row.get::<_, Option<u64>>(6)?.zip(snapshot);
            Ok((row.get(0)?, row.get(1)?, summary(row, 2)?, snapshot))
        })
        .optional()?;
    let Some((next, at, summary, snapshot)) = found else {
        return Ok(None);
    };
    let from = snapshot.as_ref().map_or(0, |(folded, _)| *folded);
    let tail = journal(connection, key, from, usize::MAX)?;
    let salt = connection
        .prepare_cached("SELECT salt FROM events WHERE tenant = $1 AND id = $2 AND seq = 0")?
        .query_row((key.tenant.0, key.id.as_bytes()), |row| row.get(0))
        .optional()?;
    let salt = checked(0, salt.ok_or_else(|| "the first event is missing".to_owned()))?;
    Ok(Some(Loaded { summary, next, at, salt, snapshot, tail }))
}

/// Makes the reads that follow see one moment, unless the connection is held at one already.
fn one_moment(connection: &Connection) -> rusqlite::Result<Option<rusqlite::Transaction<'_>>> {
    if connection.is_autocommit() { connection.unchecked_transaction().map(Some) } else { Ok(None) }
}

pub(super) fn journal(
    connection: &Connection,
    key: Key,
    from: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Record>> {
    let mut statement = connection.prepare_cached(
        "SELECT e.seq, e.at, e.type, e.version, e.cause, e.node, e.chain, coalesce(e.payload, b.bytes), e.erased \
         FROM events e LEFT JOIN blobs b ON e.blob IS NOT NULL AND b.tenant = e.tenant AND b.hash = e.blob \
         WHERE e.tenant = $1 AND e.id = $2 AND e.seq >= $3 ORDER BY e.seq LIMIT $4",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    statement.query_map((key.tenant.0, key.id.as_bytes(), from, limit), record)?.collect()
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let payload: Option<Vec<u8>> = row.get(7)?;
    let payload = match (payload, row.get::<_, Option<Vec<u8>>>(8)?) {
        (_, Some(erased)) => Payload::Erased(checked(8, hash(&erased))?),
        (Some(bytes), None) => Payload::Present(bytes.into()),
        (None, None) => return checked(7, Err("the payload is missing".to_owned())),
    };
    let node: Option<String> = row.get(5)?;
    Ok(Record {
        sequence: row.get(0)?,
        at: row.get(1)?,
        type_code: row.get(2)?,
        version: row.get(3)?,
        node: node.map(Into::into),
        cause: row.get(4)?,
        payload,
        chain: checked(6, hash(&row.get::<_, Vec<u8>>(6)?))?,
    })
}

pub(super) fn list(connection: &Connection, query: &ListQuery) -> rusqlite::Result<Vec<Listed>> {
    let mut statement = connection.prepare_cached(
        "SELECT next, at, status, workflow, definition, started_at, id FROM aggregates \
         WHERE tenant = $1 AND id < $2 AND ($3 IS NULL OR status = $3) ORDER BY id DESC LIMIT $4",
    )?;
    let before = query.before.map_or([0xff; 16], |run| *run.as_bytes());
    let status = query.status.map(Status::code);
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    readable(statement.query_map((query.tenant.0, before, status, limit), listed)?)
}

pub(super) fn head(connection: &Connection, key: Key) -> rusqlite::Result<Option<Listed>> {
    let mut statement = connection.prepare_cached(
        "SELECT next, at, status, workflow, definition, started_at, id FROM aggregates \
         WHERE tenant = $1 AND id = $2",
    )?;
    statement.query_row((key.tenant.0, key.id.as_bytes()), listed).optional()
}

pub(super) fn listed(row: &Row<'_>) -> rusqlite::Result<Listed> {
    Ok(Listed { id: run_id(row, 6)?, summary: summary(row, 2)?, next: row.get(0)?, at: row.get(1)? })
}

/// The columns status, workflow, definition, started_at, from `at` on.
fn summary(row: &Row<'_>, at: usize) -> rusqlite::Result<Summary> {
    let code: u8 = row.get(at)?;
    let workflow: String = row.get(at + 1)?;
    Ok(Summary {
        status: checked(at, Status::by_code(code).ok_or_else(|| format!("{code} is no status")))?,
        workflow_id: workflow.into(),
        definition: checked(at + 2, hash(&row.get::<_, Vec<u8>>(at + 2)?))?,
        started_at: row.get(at + 3)?,
    })
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
         ORDER BY due, tenant, id, timer LIMIT $6",
    )?;
    let (due, tenant, id, timer) = match after {
        Some(row) => (row.due, row.key.tenant.0, *row.key.id.as_bytes(), row.timer.to_string()),
        None => (Millis::MIN, 0, [0; 16], String::new()),
    };
    let rows = statement.query_map((due, tenant, id, timer, until, limit as i64), |row| {
        let timer: String = row.get(3)?;
        Ok(TimerRow { due: row.get(0)?, key: key(row, 1)?, timer: checked(3, timer.parse())? })
    })?;
    readable(rows)
}

pub(super) fn outbox(
    connection: &Connection,
    after: Option<MessageRef>,
    limit: usize,
) -> rusqlite::Result<Vec<MessageRow>> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, sender, seq, receiver, message FROM outbox \
         WHERE (tenant, sender, seq, receiver) > ($1, $2, $3, $4) \
         ORDER BY tenant, sender, seq, receiver LIMIT $5",
    )?;
    let (tenant, sender, sequence, receiver) = match after {
        Some(at) => (at.sender.tenant.0, *at.sender.id.as_bytes(), at.sequence, *at.receiver.as_bytes()),
        None => (0, [0; 16], 0, [0; 16]),
    };
    let rows = statement.query_map((tenant, sender, sequence, receiver, limit as i64), |row| {
        let at = MessageRef { sender: key(row, 0)?, sequence: row.get(2)?, receiver: run_id(row, 3)? };
        let message: Vec<u8> = row.get(4)?;
        let notice = serde_json::from_slice(&message).map_err(|error| error.to_string());
        Ok(MessageRow { at, notice: checked(4, notice)? })
    })?;
    readable(rows)
}

pub(super) fn heard(connection: &Connection, receiver: Key, sender: RunId) -> rusqlite::Result<Option<u64>> {
    let mut statement = connection
        .prepare_cached("SELECT seq FROM heard WHERE tenant = $1 AND receiver = $2 AND sender = $3")?;
    statement
        .query_row((receiver.tenant.0, receiver.id.as_bytes(), sender.as_bytes()), |row| row.get(0))
        .optional()
}

/// The rows that can be read. The others are logged: in a queue or a list, one bad row must not hide the rest.
fn readable<T>(rows: impl Iterator<Item = rusqlite::Result<T>>) -> rusqlite::Result<Vec<T>> {
    let mut read = Vec::new();
    for row in rows {
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

fn is_conversion(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..))
}

/// The columns tenant and id, from `at` on.
pub(super) fn key(row: &Row<'_>, at: usize) -> rusqlite::Result<Key> {
    Ok(run_id(row, at + 1)?.of(TenantId(row.get(at)?)))
}

pub(super) fn run_id(row: &Row<'_>, at: usize) -> rusqlite::Result<RunId> {
    Ok(RunId::from_bytes(row.get(at)?))
}

/// A value that does not parse means a damaged file.
fn checked<T>(column: usize, value: Result<T, String>) -> rusqlite::Result<T> {
    value.map_err(|reason| rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, reason.into()))
}
