//! Who has what and who is there, whichever server knows it: from memory, or from the store if several servers share it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use abide_core::{Key, Millis, TenantId};
use abide_store::{ServerRow, SessionId, SessionRow};
use serde::{Deserialize, Serialize};

use super::desk::{Holder, SessionView};
use super::session::{NewSession, Place};
use crate::{Engine, Error};

/// How old what is known of other servers' workers may be.
const KNOWN_FOR: Duration = Duration::from_secs(1);

/// What is kept of a session for the other servers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct About {
    kinds: Vec<Arc<str>>,
    capacity: usize,
    labels: BTreeMap<String, String>,
    code_version: Option<String>,
    sdk: Option<String>,
}

impl About {
    pub(super) fn of(new: &NewSession) -> Self {
        let mut kinds: Vec<Arc<str>> = new.kinds.iter().map(|kind| kind.kind.as_str().into()).collect();
        kinds.sort();
        Self {
            kinds,
            capacity: new.capacity,
            labels: new.labels.clone(),
            code_version: new.code_version.clone(),
            sdk: new.sdk.clone(),
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers serialise")
    }
}

/// What was lately read of the workers of each tenant.
#[derive(Default)]
pub(super) struct Known(Mutex<HashMap<TenantId, (Instant, Sessions)>>);

type Sessions = Arc<Vec<SessionView>>;

impl Known {
    pub(super) fn forget(&self, tenant: TenantId) {
        self.0.lock().expect("no thread panics holding this").remove(&tenant);
    }

    pub(super) fn forget_all(&self) {
        self.0.lock().expect("no thread panics holding this").clear();
    }

    fn get(&self, tenant: TenantId) -> Option<Sessions> {
        let known = self.0.lock().expect("no thread panics holding this");
        known.get(&tenant).filter(|(at, _)| at.elapsed() < KNOWN_FOR).map(|(_, known)| known.clone())
    }

    fn put(&self, tenant: TenantId, sessions: &Sessions) {
        let mut known = self.0.lock().expect("no thread panics holding this");
        known.retain(|_, (at, _)| at.elapsed() < KNOWN_FOR);
        known.insert(tenant, (Instant::now(), sessions.clone()));
    }
}

/// Who has the tasks of a run, and who could have those that nobody has.
pub struct Hands {
    tenant: TenantId,
    of: Of,
}

enum Of {
    /// This server knows all that there is to know.
    Memory(Engine),
    Store {
        tasks: HashMap<Place, (SessionId, Millis)>,
        sessions: Sessions,
    },
}

impl Hands {
    /// Who has a task.
    pub fn holder(&self, place: &Place) -> Option<Holder> {
        let (tasks, sessions) = match &self.of {
            Of::Memory(engine) => {
                return engine.shell.workers.with(|desk| desk.holder(&(self.tenant, place.clone())));
            }
            Of::Store { tasks, sessions } => (tasks, sessions),
        };
        let (session, since) = *tasks.get(place)?;
        let view = sessions.iter().find(|view| view.id == session);
        Some(Holder {
            session,
            agent: view.map(|view| view.agent.clone()),
            labels: view.map(|view| view.labels.clone()).unwrap_or_default(),
            since,
        })
    }

    /// Whether a worker is there that does such tasks.
    pub fn is_provided(&self, kind: &str, agent: Option<&str>) -> bool {
        match &self.of {
            Of::Memory(engine) => engine.shell.workers.with(|desk| desk.provides(self.tenant, kind, agent)),
            Of::Store { sessions, .. } => sessions.iter().any(|view| {
                !view.gone
                    && view.kinds.iter().any(|provided| **provided == *kind)
                    && agent.is_none_or(|agent| view.agent == agent)
            }),
        }
    }
}

impl Engine {
    /// Who has the tasks of a run.
    pub async fn hands(&self, run: Key) -> Result<Hands, Error> {
        let tenant = run.tenant;
        if self.shell.workers.home.is_none() {
            return Ok(Hands { tenant, of: Of::Memory(self.clone()) });
        }
        let rows = self.shell.store.work().of_runs(vec![run]).await?;
        // A run that no worker has to do with costs no more than that.
        let sessions =
            if rows.is_empty() { Sessions::default() } else { self.known_sessions(tenant).await? };
        let held = |row: abide_store::WorkRow| {
            let held = row.held?;
            Some((Place { run: row.key.id, task: row.task }, held))
        };
        let tasks = rows.into_iter().filter_map(held).collect();
        Ok(Hands { tenant, of: Of::Store { tasks, sessions } })
    }

    /// Who provides which kinds.
    pub async fn providers(&self, tenant: TenantId) -> Result<Hands, Error> {
        let of = match self.shell.workers.home {
            None => Of::Memory(self.clone()),
            Some(_) => Of::Store { tasks: HashMap::new(), sessions: self.known_sessions(tenant).await? },
        };
        Ok(Hands { tenant, of })
    }

    /// The workers of a tenant that are there, at whichever server.
    pub async fn sessions(&self, tenant: TenantId) -> Result<Vec<SessionView>, Error> {
        let here = self.shell.workers.with(|desk| desk.sessions(tenant));
        let Some(cluster) = self.shell.store.cluster() else { return Ok(here) };
        let rows = self.shell.store.sessions().of_tenant(tenant).await?;
        let view = cluster.view();
        let view = view.borrow();
        let seen = |(row, held): (SessionRow, u64)| {
            let known = here.iter().find(|view| view.id == row.id).cloned();
            known.unwrap_or_else(|| seen_from_afar(row, held, |home| view.is_alive(home)))
        };
        Ok(rows.into_iter().map(seen).collect())
    }

    async fn known_sessions(&self, tenant: TenantId) -> Result<Sessions, Error> {
        if let Some(known) = self.shell.workers.known.get(tenant) {
            return Ok(known);
        }
        let sessions = Sessions::new(self.sessions(tenant).await?);
        self.shell.workers.known.put(tenant, &sessions);
        Ok(sessions)
    }

    /// The server that a worker talks to, if it is another one and alive. `None` also if the worker is not known at all.
    pub async fn home_of(&self, tenant: TenantId, id: SessionId) -> Result<Option<Home>, Error> {
        let Some(cluster) = self.shell.store.cluster() else { return Ok(None) };
        let Some(row) = self.shell.store.sessions().get(tenant, id).await? else { return Ok(None) };
        if Some(row.home) == self.shell.workers.home {
            return Ok(None);
        }
        let home = |servers: &[ServerRow]| {
            let home = servers.iter().find(|server| server.boot == row.home)?;
            Some(Home { boot: home.boot, url: home.url.clone() })
        };
        let known = home(&cluster.view().borrow().servers);
        if known.is_some() {
            return Ok(known);
        }
        // It may have come a moment ago.
        let living = self.shell.living_servers().await?;
        Ok(home(&living))
    }

    /// Returns when a server does not count as alive any more.
    pub async fn until_gone(&self, boot: u64) {
        let Some(cluster) = self.shell.store.cluster() else { return };
        let mut view = cluster.view();
        // One that has just come is not there yet. The store lives as long as the engine.
        let _ = view.wait_for(|view| view.is_alive(boot)).await;
        let _ = view.wait_for(|view| !view.is_alive(boot)).await;
    }

    /// The number of this start, if several servers share the store.
    pub fn number_among_servers(&self) -> Option<u64> {
        self.shell.workers.home
    }
}

/// The server that a worker talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The number of its start.
    pub boot: u64,
    /// Where other servers reach it.
    pub url: String,
}

/// A session as its home has written it down.
fn seen_from_afar(row: SessionRow, held: u64, is_alive: impl Fn(u64) -> bool) -> SessionView {
    let about: About = serde_json::from_str(&row.about).unwrap_or_default();
    let is_there = is_alive(row.home);
    SessionView {
        id: row.id,
        agent: row.agent,
        kinds: about.kinds,
        capacity: about.capacity,
        held: usize::try_from(held).unwrap_or(usize::MAX),
        labels: about.labels,
        code_version: about.code_version,
        sdk: about.sdk,
        registered_at: row.registered_at,
        seen_at: row.state.seen_at,
        listening: row.state.listening && is_there,
        gone: row.state.gone || !is_there,
        draining: row.state.draining,
    }
}
