//! Schema versions of a database: applied in order, under a lock, each in a transaction.
//!
//! During an upgrade servers of two versions run side by side, so a migration only ever adds what the version before can
//! leave alone. A server that starts on a database that is newer than it refuses.

use abide_core::{event_types, hex, sha256};

use super::connect::Target;
use super::pool::explain;
use super::session::Session;
use crate::Error;
use crate::db::{self, Connection, Optional};

/// Every migration, oldest first. One that was released is never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_tables.sql"),
    include_str!("../../migrations/postgres/0002_approvals_and_conversations.sql"),
    include_str!("../../migrations/postgres/0003_containers.sql"),
    include_str!("../../migrations/postgres/0004_records.sql"),
];

/// What the lock is called that whoever migrates holds.
const LOCK: i64 = 0x6d69_6772;

/// The table that says which migrations were applied.
const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS migrations (version BIGINT PRIMARY KEY, sha256 TEXT NOT NULL)";

/// Brings a database up to this version, or refuses it.
pub(super) fn run(session: &Session, target: &Target) -> Result<(), Error> {
    let explained = |error: db::Fault| explain(target, error);
    let lock =
        |sql: &str| Connection::Postgres(session).query_row(sql, [LOCK], |_| Ok(())).map_err(explained);
    if found(session, target)? == MIGRATIONS.len() {
        return name_event_types(session).map_err(explained);
    }
    session.begin().map_err(|error| explained(error.into()))?;
    let applied = lock("SELECT pg_advisory_xact_lock($1) IS NULL").and_then(|()| apply(session, target));
    match applied {
        Ok(()) => session.commit().map_err(|error| explained(error.into()))?,
        Err(error) => {
            session.roll_back();
            return Err(error);
        }
    }
    name_event_types(session).map_err(explained)
}

/// Refuses a database that is not what this version makes, or a later one that it can use.
pub(super) fn check(session: &Session, target: &Target) -> Result<(), Error> {
    match found(session, target)? {
        0 => {
            let shown = target.shown();
            Err(Error::Refused(format!(
                "{shown} holds no Abide data; start a server on it once, or check --store"
            )))
        }
        known if known < MIGRATIONS.len() => Err(Error::Refused(format!(
            "{}: its schema has version {known}, this abide reads {}; start this version's server on it once",
            target.shown(),
            MIGRATIONS.len()
        ))),
        _ => Ok(()),
    }
}

fn apply(session: &Session, target: &Target) -> Result<(), Error> {
    let explained = |error: db::Fault| explain(target, error);
    for (ix, sql) in MIGRATIONS.iter().enumerate().skip(found(session, target)?) {
        tracing::info!(store = target.shown(), version = ix + 1, "bringing the tables up to date");
        session.batch(TABLE).and_then(|()| session.batch(sql)).map_err(|error| explained(error.into()))?;
        let row = (ix + 1, digest(sql));
        let sql = "INSERT INTO migrations (version, sha256) VALUES ($1, $2)";
        Connection::Postgres(session).execute(sql, row).map_err(explained)?;
    }
    Ok(())
}

/// How many migrations were applied. Their texts are compared, so that nobody works on tables that are not ours.
fn found(session: &Session, target: &Target) -> Result<usize, Error> {
    let applied = applied(Connection::Postgres(session)).map_err(|error| explain(target, error))?;
    let shown = target.shown();
    for (ix, (sql, kept)) in MIGRATIONS.iter().zip(&applied).enumerate() {
        if digest(sql) != *kept {
            let reason = format!("its schema {} is not the one of this abide", ix + 1);
            let way_out = "Use the abide that wrote it, or another database. Nothing was changed".to_owned();
            return Err(Error::Damaged { file: shown.into(), reason, way_out });
        }
    }
    if applied.len() > MIGRATIONS.len() {
        return Err(Error::Refused(format!(
            "{shown} was written by a newer abide (schema {}, this one knows {}); upgrade this abide. Nothing was changed",
            applied.len(),
            MIGRATIONS.len()
        )));
    }
    Ok(applied.len())
}

fn applied(connection: Connection<'_>) -> db::Result<Vec<String>> {
    let there = connection
        .query_row(
            "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migrations'",
            (),
            |_| Ok(()),
        )
        .optional()?;
    if there.is_none() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached("SELECT sha256 FROM migrations ORDER BY version")?;
    statement.query_map((), |row| row.get(0))?.collect()
}

fn digest(sql: &str) -> String {
    hex(&sha256(sql.as_bytes()))
}

/// The names of event types, for people with a SQL prompt.
fn name_event_types(session: &Session) -> db::Result<()> {
    let connection = Connection::Postgres(session);
    let known: usize = connection.query_row("SELECT count(*) FROM event_types", (), |row| row.get(0))?;
    if known >= event_types().len() {
        return Ok(());
    }
    let mut insert = connection
        .prepare_cached("INSERT INTO event_types (code, name) VALUES ($1, $2) ON CONFLICT DO NOTHING")?;
    event_types().iter().try_for_each(|kind| insert.execute((kind.code, kind.name)).map(drop))
}
