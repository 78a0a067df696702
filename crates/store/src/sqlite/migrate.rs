//! Schema versions: applied in order, each in a transaction, and checked at every start.

use std::path::Path;

use abide_core::event_types;
use rusqlite::{Connection, TransactionBehavior};

use super::open::{damaged, explain};
use crate::Error;

/// Marks a file as ours: "ABID".
const APPLICATION_ID: i64 = 0x4142_4944;

/// Every migration, oldest first. One that was released is never edited.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_journal.sql"),
    include_str!("../../migrations/sqlite/0002_graphs.sql"),
    include_str!("../../migrations/sqlite/0003_receipts.sql"),
    include_str!("../../migrations/sqlite/0004_access.sql"),
    include_str!("../../migrations/sqlite/0005_webhooks.sql"),
    include_str!("../../migrations/sqlite/0006_interrupts.sql"),
    include_str!("../../migrations/sqlite/0007_notices.sql"),
    include_str!("../../migrations/sqlite/0008_workers.sql"),
    include_str!("../../migrations/sqlite/0009_resume.sql"),
    include_str!("../../migrations/sqlite/0010_retention.sql"),
    include_str!("../../migrations/sqlite/0011_providers.sql"),
    include_str!("../../migrations/sqlite/0012_sessions.sql"),
    include_str!("../../migrations/sqlite/0013_approvals_and_conversations.sql"),
    include_str!("../../migrations/sqlite/0014_containers.sql"),
    include_str!("../../migrations/sqlite/0015_records.sql"),
];

/// Brings a database up to this version, or refuses it.
pub(super) fn run(connection: &mut Connection, file: &Path) -> Result<(), Error> {
    let explained = |error: rusqlite::Error| explain(file, error);
    let found = version(connection, file)?;
    for (ix, sql) in MIGRATIONS.iter().enumerate().skip(found) {
        apply(connection, ix + 1, sql).map_err(explained)?;
    }
    check(connection, file)?;
    name_event_types(connection).map_err(explained)
}

/// Refuses what can't be brought up to this version, before anything is done to it. Gives its version.
pub(super) fn check_before(connection: &Connection, file: &Path) -> Result<usize, Error> {
    let found = version(connection, file)?;
    check_schema(connection, file, found)?;
    Ok(found)
}

/// Refuses a database that is not exactly what this version makes.
pub(super) fn check(connection: &Connection, file: &Path) -> Result<(), Error> {
    let found = check_before(connection, file)?;
    if found < MIGRATIONS.len() {
        let reason = format!("its schema has version {found}, this abide reads {}", MIGRATIONS.len());
        let way_out = "Start this version's server on it once; that brings it up to date".to_owned();
        return Err(Error::Damaged { file: file.to_owned(), reason, way_out });
    }
    Ok(())
}

/// Refuses a database that is not exactly what a version made.
fn check_schema(connection: &Connection, file: &Path, version: usize) -> Result<(), Error> {
    let schema = schema(connection).map_err(|error| explain(file, error))?;
    let expected = expected_schema(version).map_err(|error| explain(file, error))?;
    match expected.iter().find(|entry| !schema.contains(entry)) {
        None => Ok(()),
        Some((name, _)) => {
            Err(damaged(file, &format!("its schema is incomplete or was changed: look at '{name}'")))
        }
    }
}

fn version(connection: &Connection, file: &Path) -> Result<usize, Error> {
    let read = |pragma| {
        connection
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map_err(|error| explain(file, error))
    };
    let (application, version) = (read("application_id")?, read("user_version")?);
    let tables = schema(connection).map_err(|error| explain(file, error))?.len();
    if application == 0 && version == 0 && tables == 0 {
        return Ok(0);
    }
    if application != APPLICATION_ID {
        return Err(Error::Refused(format!(
            "{} is a SQLite database, but not one of Abide's; choose another --data directory",
            file.display()
        )));
    }
    if version == 0 {
        return Err(damaged(file, "its schema was left half-made"));
    }
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version > MIGRATIONS.len() {
        return Err(Error::Refused(format!(
            "{} was written by a newer abide (schema {version}, this one knows {}); upgrade this abide. Nothing was changed",
            file.display(),
            MIGRATIONS.len()
        )));
    }
    Ok(version)
}

fn apply(connection: &mut Connection, version: usize, sql: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version as i64)?;
    transaction.commit()
}

/// The names of event types, for people who read the file with SQL.
fn name_event_types(connection: &mut Connection) -> rusqlite::Result<()> {
    let known: i64 = connection.query_row("SELECT count(*) FROM event_types", [], |row| row.get(0))?;
    if known == event_types().len() as i64 {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for kind in event_types() {
        transaction.execute(
            "INSERT INTO event_types (code, name) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            (kind.code, kind.name),
        )?;
    }
    transaction.commit()
}

fn schema(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement =
        connection.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn expected_schema(version: usize) -> rusqlite::Result<Vec<(String, String)>> {
    let connection = Connection::open_in_memory()?;
    for sql in &MIGRATIONS[..version] {
        connection.execute_batch(sql)?;
    }
    schema(&connection)
}

/// How the engine goes about a query on the newest schema, in its own words.
#[cfg(test)]
pub(crate) fn plan(sql: &str, values: usize) -> String {
    let connection = Connection::open_in_memory().unwrap();
    for sql in MIGRATIONS {
        connection.execute_batch(sql).unwrap();
    }
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let nothing = vec![rusqlite::types::Null; values];
    let lines =
        statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3)).unwrap();
    lines.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}
