//! Which server each worker talks to.

use abide_core::TenantId;

use super::Database;
use super::work::{WORK, work};
use crate::db::{self, Connection, Optional, Row};
use crate::sessions::{Adopted, Came, SessionRow, SessionState, Sessions};
use crate::store::Answer;
use crate::work::{SessionId, WorkRow};

impl<E: Database> Sessions for E {
    fn put(&self, session: SessionRow, most: usize) -> Answer<'_, Option<Came>> {
        self.write(move |transaction| put(transaction, &session, most))
    }

    fn get(&self, tenant: TenantId, id: SessionId) -> Answer<'_, Option<SessionRow>> {
        self.read(move |connection| {
            let sql = format!("{SESSION} WHERE tenant = $1 AND id = $2");
            connection.query_row(&sql, (tenant.0, id.as_bytes()), session).optional()
        })
    }

    fn of_tenant(&self, tenant: TenantId) -> Answer<'_, Vec<(SessionRow, u64)>> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(OF_TENANT)?;
            let rows = statement.query_map([tenant.0], |row| Ok((session(row)?, row.get(10)?)))?;
            db::readable(rows, usize::MAX)
        })
    }

    fn at(&self, home: u64) -> Answer<'_, Adopted> {
        self.read(move |connection| {
            let _moment = connection.one_moment()?;
            let mut statement =
                connection.prepare_cached("SELECT tenant, id FROM sessions WHERE home = $1")?;
            let sessions = statement.query_map([home], seat)?.collect::<db::Result<_>>()?;
            let mut statement = connection.prepare_cached(HELD_AT)?;
            let tasks = db::readable(statement.query_map([home], work)?, usize::MAX)?;
            Ok(Adopted { sessions, tasks })
        })
    }

    fn say(&self, home: u64, sessions: Vec<(TenantId, SessionId, SessionState)>) -> Answer<'_, ()> {
        self.write(move |transaction| {
            let mut statement = transaction.prepare_cached(
                "UPDATE sessions SET seen_at = $1, listening = $2, gone = $3, draining = $4 \
                 WHERE tenant = $5 AND id = $6 AND home = $7",
            )?;
            for (tenant, id, state) in &sessions {
                let SessionState { seen_at, listening, gone, draining } = *state;
                statement.execute((seen_at, listening, gone, draining, tenant.0, id.as_bytes(), home))?;
            }
            Ok(())
        })
    }

    fn end(&self, tenant: TenantId, id: SessionId, home: u64) -> Answer<'_, bool> {
        self.write(move |transaction| {
            let sql = "DELETE FROM sessions WHERE tenant = $1 AND id = $2 AND home = $3";
            Ok(transaction.execute(sql, (tenant.0, id.as_bytes(), home))? > 0)
        })
    }

    fn homes(&self) -> Answer<'_, Vec<u64>> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT DISTINCT home FROM sessions ORDER BY home")?;
            statement.query_map((), |row| row.get(0))?.collect()
        })
    }

    fn adopt(&self, home: u64, dead: Vec<u64>) -> Answer<'_, Adopted> {
        self.write(move |transaction| adopt(transaction, home, &dead))
    }
}

const SESSION: &str = "SELECT tenant, id, home, agent, about, registered_at, seen_at, listening, gone, draining \
    FROM sessions";

const OF_TENANT: &str = "SELECT s.tenant, s.id, s.home, s.agent, s.about, s.registered_at, s.seen_at, s.listening, \
    s.gone, s.draining, (SELECT count(*) FROM work w WHERE w.tenant = s.tenant AND w.session = s.id) \
    FROM sessions s WHERE s.tenant = $1 ORDER BY s.agent, s.id";

/// What the sessions of a home have.
const HELD_AT: &str = "SELECT w.tenant, w.id, w.node, w.execution, w.kind, w.agent, w.fence, w.attempt, w.timeout_ms, \
    w.queued_at, w.session, w.claimed_at, w.called_off FROM sessions s \
    JOIN work w ON w.tenant = s.tenant AND w.session = s.id WHERE s.home = $1";

fn session(row: &Row<'_>) -> db::Result<SessionRow> {
    let (tenant, id) = seat(row)?;
    let state = SessionState {
        seen_at: row.get(6)?,
        listening: row.get(7)?,
        gone: row.get(8)?,
        draining: row.get(9)?,
    };
    let (home, agent, about, registered_at) = (row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?);
    Ok(SessionRow { tenant, id, home, agent, about, registered_at, state })
}

fn seat(row: &Row<'_>) -> db::Result<(TenantId, SessionId)> {
    Ok((TenantId(row.get(0)?), SessionId::from_bytes(row.get(1)?)))
}

/// The home is written before the tasks are read: whoever takes one away at the same time has found the session at its
/// old home and is waited for, or waits and does not find it there any more.
fn put(transaction: Connection<'_>, session: &SessionRow, most: usize) -> db::Result<Option<Came>> {
    let named = (session.tenant.0, session.id.as_bytes());
    let known = "SELECT home, draining FROM sessions WHERE tenant = $1 AND id = $2";
    let known: Option<(u64, bool)> =
        transaction.query_row(known, named, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if known.is_none() {
        let count = "SELECT count(*) FROM sessions WHERE tenant = $1";
        let count: usize = transaction.query_row(count, [session.tenant.0], |row| row.get(0))?;
        if count >= most {
            return Ok(None);
        }
    }
    let sql = "INSERT INTO sessions (tenant, id, home, agent, about, registered_at, seen_at, listening, gone, draining) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant, id) DO UPDATE SET home = excluded.home, \
        agent = excluded.agent, about = excluded.about, seen_at = excluded.seen_at, listening = excluded.listening, \
        gone = excluded.gone";
    let SessionState { seen_at, listening, gone, draining } = session.state;
    transaction.execute(
        sql,
        (
            session.tenant.0,
            session.id.as_bytes(),
            session.home,
            &session.agent,
            &session.about,
            session.registered_at,
            seen_at,
            listening,
            gone,
            draining,
        ),
    )?;
    let (before, was_draining) = known.unzip();
    let tasks = held_by(transaction, session.tenant, session.id)?;
    Ok(Some(Came { before, draining: was_draining.unwrap_or(draining), tasks }))
}

fn held_by(connection: Connection<'_>, tenant: TenantId, id: SessionId) -> db::Result<Vec<WorkRow>> {
    let sql = format!("{WORK} WHERE tenant = $1 AND session = $2");
    let mut statement = connection.prepare_cached(&sql)?;
    db::readable(statement.query_map((tenant.0, id.as_bytes()), work)?, usize::MAX)
}

fn adopt(transaction: Connection<'_>, home: u64, dead: &[u64]) -> db::Result<Adopted> {
    let mut sessions = Vec::new();
    for dead in dead {
        let sql = "UPDATE sessions SET home = $1 WHERE home = $2 RETURNING tenant, id";
        let mut statement = transaction.prepare_cached(sql)?;
        sessions.extend(statement.query_map((home, dead), seat)?.collect::<db::Result<Vec<_>>>()?);
    }
    let sql = "INSERT INTO sessions (tenant, id, home, agent, about, registered_at, seen_at, listening, gone, draining) \
        SELECT DISTINCT w.tenant, w.session, CAST($1 AS BIGINT), '', '{}', 0, 0, 0, 1, 0 FROM work w \
        WHERE w.session IS NOT NULL AND NOT EXISTS \
        (SELECT 1 FROM sessions s WHERE s.tenant = w.tenant AND s.id = w.session) \
        ON CONFLICT (tenant, id) DO NOTHING RETURNING tenant, id";
    let mut statement = transaction.prepare_cached(sql)?;
    sessions.extend(statement.query_map([home], seat)?.collect::<db::Result<Vec<_>>>()?);
    let mut tasks = Vec::new();
    for (tenant, id) in &sessions {
        tasks.extend(held_by(transaction, *tenant, *id)?);
    }
    Ok(Adopted { sessions, tasks })
}
