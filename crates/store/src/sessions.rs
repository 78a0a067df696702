//! Which server each worker talks to: its home. Only stores that several servers share have anything here.
//!
//! A session moves when its worker registers elsewhere. Whoever takes something away from a worker says in the same
//! transaction that the session's home is still where it believes it to be.

use abide_core::{Millis, TenantId};

use crate::store::Answer;
use crate::work::{SessionId, WorkRow};

/// Where sessions are found.
pub trait Sessions: Send + Sync {
    /// Durably makes a server the home of a session, whoever was that before, and gives what the session has on disk, as
    /// of the same moment. `None` if it is new and its tenant has `most` already. A session that is draining stays so.
    fn put(&self, session: SessionRow, most: usize) -> Answer<'_, Option<Came>>;

    /// A session.
    fn get(&self, tenant: TenantId, id: SessionId) -> Answer<'_, Option<SessionRow>>;

    /// The sessions of a tenant, by agent and id, and how many tasks each has.
    fn of_tenant(&self, tenant: TenantId) -> Answer<'_, Vec<(SessionRow, u64)>>;

    /// The sessions that have their home at this start of a server, and all the tasks that they have.
    fn at(&self, home: u64) -> Answer<'_, Adopted>;

    /// Durably writes down how sessions stand; those that have another home by now are left alone.
    fn say(&self, home: u64, sessions: Vec<(TenantId, SessionId, SessionState)>) -> Answer<'_, ()>;

    /// Durably forgets a session, if its home is still this one. `false` if it is not.
    fn end(&self, tenant: TenantId, id: SessionId, home: u64) -> Answer<'_, bool>;

    /// The starts of servers that sessions have their home at.
    fn homes(&self) -> Answer<'_, Vec<u64>>;

    /// Durably becomes the home of every session whose home is one of these, and of those that have tasks and no home at
    /// all.
    fn adopt(&self, home: u64, dead: Vec<u64>) -> Answer<'_, Adopted>;
}

/// A worker's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Whose.
    pub tenant: TenantId,
    /// What it calls itself.
    pub id: SessionId,
    /// The start of the server that it talks to.
    pub home: u64,
    /// The agent that it works as.
    pub agent: String,
    /// What it does, as JSON text.
    pub about: String,
    /// When it came.
    pub registered_at: Millis,
    /// How it stands.
    pub state: SessionState,
}

/// How a session stands, as its home last said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// When it was last heard of.
    pub seen_at: Millis,
    /// It waits for something to do.
    pub listening: bool,
    /// Its line broke off, and nothing was heard of it since.
    pub gone: bool,
    /// It gets no more.
    pub draining: bool,
}

/// A session that came to its home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// Where its home was before.
    pub before: Option<u64>,
    /// It gets no more.
    pub draining: bool,
    /// What it has.
    pub tasks: Vec<WorkRow>,
}

/// Sessions and what they have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// The sessions.
    pub sessions: Vec<(TenantId, SessionId)>,
    /// Their tasks.
    pub tasks: Vec<WorkRow>,
}
