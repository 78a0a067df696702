//! The data of a directory, copied into an empty database: all of it in one transaction, or nothing.
//!
//! Both engines have the same tables under the same names, so that nothing here knows what stands in them. A table that
//! only one engine has says something about that engine alone.

use std::pin::pin;

use rusqlite::types::ValueRef as LiteRef;
use rusqlite::{Connection as Lite, OpenFlags};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Transaction};

use super::connect::Target;
use super::pool::Pool;
use super::session::words;
use super::{Postgres, drive, migrate};
use crate::db::Value;
use crate::{Error, Sqlite};

/// Tables that are not copied: what a backup says of itself, and names that every version writes for itself.
const LEFT_OUT: [&str; 2] = ["backups", "event_types"];

/// Settings that an engine counts for itself.
const OWN_SETTINGS: &str = "name <> 'boot'";

/// Rows that are sent at once, and told of.
const PAGE: usize = 1_000;

/// A table that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedTable {
    /// Its name.
    pub name: String,
    /// How many rows it has.
    pub rows: u64,
}

/// One column, as both engines have it.
struct Column {
    name: String,
    kind: Type,
}

impl Postgres {
    /// Copies the data of a directory, which nobody else can open meanwhile, into a database that holds none. `mark` is
    /// that of the keyring that belongs to it. `progress` hears of each table how far it is.
    ///
    /// If anything goes wrong, the database is as empty as before.
    pub fn import(
        url: &str,
        from: &Sqlite,
        mark: Option<i64>,
        mut progress: impl FnMut(&str, u64) + Send,
    ) -> Result<Vec<ImportedTable>, Error> {
        let target = std::sync::Arc::new(Target::parse(url)?);
        let drive = drive()?;
        let pool = Pool::new(target.clone(), drive.handle().clone(), 1);
        pool.once(|session| migrate::run(session, &target))?;
        pool.close();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let file = from.file().to_owned();
        std::thread::scope(|scope| {
            let copy = scope.spawn(|| {
                let lite = Lite::open_with_flags(&file, flags).map_err(unreadable)?;
                drive.handle().block_on(import(&target, &lite, mark, &mut progress))
            });
            copy.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

#[expect(
    clippy::future_not_send,
    reason = "it is driven where it is made, beside a file that one thread reads"
)]
async fn import(
    target: &Target,
    lite: &Lite,
    mark: Option<i64>,
    progress: &mut (impl FnMut(&str, u64) + Send),
) -> Result<Vec<ImportedTable>, Error> {
    let (mut client, wire) = target.connect().await.map_err(|error| Error::Unavailable(error.to_string()))?;
    tokio::spawn(wire);
    let transaction = client.transaction().await.map_err(|error| failed(target, &error))?;
    // A server that starts meanwhile waits here, and finds everything or nothing.
    run(target, &transaction, "LOCK TABLE servers IN EXCLUSIVE MODE").await?;
    check_empty(target, &transaction).await?;
    run(target, &transaction, "DELETE FROM tenants").await?;
    lite.execute_batch("BEGIN").map_err(unreadable)?;
    let mut tables = Vec::new();
    for name in names(lite)? {
        let rows = copy(target, &transaction, lite, &name, progress).await?;
        tables.push(ImportedTable { name, rows });
    }
    finish(target, &transaction, lite, mark).await?;
    check_counts(target, &transaction, &tables).await?;
    transaction.commit().await.map_err(|error| failed(target, &error))?;
    analyze(&client).await;
    Ok(tables)
}

/// A database that holds anything but what a first start makes is somebody's.
async fn check_empty(target: &Target, transaction: &Transaction<'_>) -> Result<(), Error> {
    let sql = "SELECT name FROM servers WHERE until > extract(epoch FROM clock_timestamp()) * 1000";
    let alive = transaction.query(sql, &[]).await.map_err(|error| failed(target, &error))?;
    if let Some(row) = alive.first() {
        let (shown, name): (_, String) = (target.shown(), row.get(0));
        return Err(Error::Refused(format!(
            "{shown} is in use by {name}; stop every server on it, or choose another database"
        )));
    }
    let holds = "SELECT (SELECT count(*) FROM aggregates) + (SELECT count(*) FROM api_keys) + \
                 (SELECT count(*) FROM workflows) + (SELECT count(*) FROM people) + (SELECT count(*) FROM secrets) + \
                 (SELECT count(*) FROM webhooks) + (SELECT count(*) FROM tenants WHERE id <> 1)";
    let row = transaction.query_one(holds, &[]).await.map_err(|error| failed(target, &error))?;
    if row.get::<_, i64>(0) > 0 {
        return Err(Error::Refused(format!(
            "{} holds Abide data already, and two kinds can't be put together; choose an empty database",
            target.shown()
        )));
    }
    // What a server that was started and stopped has counted for itself.
    run(target, transaction, "DELETE FROM settings").await
}

/// The tables to copy, by name.
fn names(lite: &Lite) -> Result<Vec<String>, Error> {
    let sql =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut statement = lite.prepare(sql).map_err(unreadable)?;
    let names = statement.query_map((), |row| row.get::<_, String>(0)).map_err(unreadable)?;
    let names: Vec<String> = names.collect::<Result<_, _>>().map_err(unreadable)?;
    Ok(names.into_iter().filter(|name| !LEFT_OUT.contains(&name.as_str())).collect())
}

#[expect(clippy::future_not_send, reason = "as above")]
async fn copy(
    target: &Target,
    transaction: &Transaction<'_>,
    lite: &Lite,
    table: &str,
    progress: &mut (impl FnMut(&str, u64) + Send),
) -> Result<u64, Error> {
    let columns = columns(target, transaction, lite, table).await?;
    let list = columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    let kinds: Vec<Type> = columns.iter().map(|column| column.kind.clone()).collect();
    let sink = transaction.copy_in(&format!("COPY {table} ({list}) FROM STDIN BINARY")).await;
    let mut writer = pin!(BinaryCopyInWriter::new(sink.map_err(|error| failed(target, &error))?, &kinds));
    let such = if table == "settings" { OWN_SETTINGS } else { "true" };
    let mut statement =
        lite.prepare(&format!("SELECT {list} FROM {table} WHERE {such}")).map_err(unreadable)?;
    let mut rows = statement.query(()).map_err(unreadable)?;
    let mut copied = 0;
    while let Some(row) = rows.next().map_err(unreadable)? {
        let read = |(ix, column): (usize, &Column)| value(row.get_ref(ix).map_err(unreadable)?, &column.kind);
        let values: Vec<Value<'_>> = columns.iter().enumerate().map(read).collect::<Result<_, Error>>()?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        writer.as_mut().write(&values).await.map_err(|error| failed(target, &error))?;
        copied += 1;
        if copied % PAGE as u64 == 0 {
            progress(table, copied);
        }
    }
    writer.finish().await.map_err(|error| failed(target, &error))?;
    progress(table, copied);
    Ok(copied)
}

/// The columns of a table in the directory. The database has all of them, and fills those that it has more by itself.
#[expect(clippy::future_not_send, reason = "as above")]
async fn columns(
    target: &Target,
    transaction: &Transaction<'_>,
    lite: &Lite,
    table: &str,
) -> Result<Vec<Column>, Error> {
    let there = transaction.prepare(&format!("SELECT * FROM {table}")).await;
    let there = there.map_err(|error| failed(target, &error))?;
    let statement = lite.prepare(&format!("SELECT * FROM {table}")).map_err(unreadable)?;
    let kind = |name: &str| {
        let found = there.columns().iter().find(|column| column.name() == name);
        let kind = found.map(|column| column.type_().clone());
        kind.ok_or_else(|| Error::Failed(format!("{} has no column {table}.{name}", target.shown())))
    };
    let names = statement.column_names().map(str::to_owned);
    names.map(|name| Ok(Column { kind: kind(&name)?, name })).collect()
}

/// A value as the database takes it. SQLite keeps whatever was put in, and text and bytes are the same to it.
fn value<'v>(found: LiteRef<'v>, kind: &Type) -> Result<Value<'v>, Error> {
    let other = |what: &str| Err(Error::Failed(format!("the directory has {what} where {kind} belongs")));
    match (found, kind) {
        (LiteRef::Null, _) => Ok(Value::Null),
        (LiteRef::Integer(number), &Type::INT8) => Ok(Value::Int(number)),
        (LiteRef::Blob(bytes) | LiteRef::Text(bytes), &Type::BYTEA) => Ok(Value::Blob(bytes.into())),
        (LiteRef::Blob(bytes) | LiteRef::Text(bytes), &Type::TEXT) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::Text(text.into())),
            Err(_) => other("bytes that are no text"),
        },
        (LiteRef::Integer(_), _) => other("a number"),
        (LiteRef::Real(_), _) => other("a fraction"),
        (LiteRef::Blob(_) | LiteRef::Text(_), _) => other("bytes"),
    }
}

/// Puts what counts behind what was copied: no id and no number of a start is used twice.
#[expect(clippy::future_not_send, reason = "as above")]
async fn finish(
    target: &Target,
    transaction: &Transaction<'_>,
    lite: &Lite,
    mark: Option<i64>,
) -> Result<(), Error> {
    let boot = "SELECT coalesce(max(value), 1) FROM settings WHERE name = 'boot'";
    let boot: i64 = lite.query_row(boot, (), |row| row.get(0)).map_err(unreadable)?;
    let tenants =
        "SELECT setval(pg_get_serial_sequence('tenants', 'id'), (SELECT coalesce(max(id), 1) FROM tenants))";
    let fail = |error: tokio_postgres::Error| failed(target, &error);
    transaction.query_one("SELECT setval('boots', $1)", &[&boot]).await.map_err(fail)?;
    transaction.query_one(tenants, &[]).await.map_err(fail)?;
    if let Some(mark) = mark {
        let sql = "INSERT INTO settings (name, value) VALUES ($1, $2)";
        transaction.execute(sql, &[&crate::tables::access::KEYRING, &mark]).await.map_err(fail)?;
    }
    Ok(())
}

async fn check_counts(
    target: &Target,
    transaction: &Transaction<'_>,
    tables: &[ImportedTable],
) -> Result<(), Error> {
    for ImportedTable { name, rows } in tables.iter().filter(|table| table.name != "settings") {
        let counted = transaction.query_one(&format!("SELECT count(*) FROM {name}"), &[]).await;
        let counted: i64 = counted.map_err(|error| failed(target, &error))?.get(0);
        if u64::try_from(counted) != Ok(*rows) {
            let reason = format!("{name} has {counted} rows after {rows} were copied; nothing was kept");
            return Err(Error::Failed(reason));
        }
    }
    Ok(())
}

/// Lets the database know what it has, or its first plans are bad. It would find out by itself a little later.
async fn analyze(client: &Client) {
    if let Err(error) = client.batch_execute("ANALYZE").await {
        tracing::debug!(%error, "the tables were not analyzed");
    }
}

async fn run(target: &Target, transaction: &Transaction<'_>, sql: &str) -> Result<(), Error> {
    transaction.batch_execute(sql).await.map_err(|error| failed(target, &error))
}

fn failed(target: &Target, error: &tokio_postgres::Error) -> Error {
    Error::Failed(format!("{}: {}; nothing was kept", target.shown(), words(error)))
}

#[expect(clippy::needless_pass_by_value, reason = "it takes what `map_err` gives")]
fn unreadable(error: rusqlite::Error) -> Error {
    Error::Failed(format!("the data directory can't be read: {error}; nothing was kept"))
}
