//! What other servers tell of workers and their tasks, and what is looked at in case that they did not.
//!
//! None of this is called if the store is one server's own. What is called where hints are heard must not wait.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use abide_core::event::HookKind;
use abide_core::{Effect, Key, Millis, TenantId};
use abide_store::{
    Adopted, Cluster, Hint, HookClaim, HookId, HookRow, KindRow, Role, ServerRow, SessionId, SessionRow,
    SessionState,
};

use super::desk::{Agent, Desk, Reservation, Scope, nobodys};
use super::hands::About;
use super::session::{NewSession, Place};
use crate::shell::Shell;
use crate::{Error, limits};

/// For how long a call of an agent is left to the server that makes it, and has not said since that it still does.
const CALL_KEPT_MS: Millis = 30_000;

/// Every so many looks, what rarely changes is looked at too.
const RARELY: u64 = 5;

/// Kinds that something waits for, looked at in one go.
const KINDS_LOOK_MAX: usize = 256;

impl Shell {
    /// Another server has moved a run on, of which workers here may have tasks.
    pub(crate) fn heard_of_run(self: &Arc<Self>, key: Key, _next: u64, _ended: bool) {
        self.workers.with(|desk| desk.run_moved(key));
    }

    /// A task waits for a worker of this kind, and its server has none.
    pub(crate) fn heard_of_work(self: &Arc<Self>, tenant: TenantId, kind: &str) {
        self.workers.with(|desk| desk.heard_of_work(&(tenant, kind.into())));
    }

    /// An agent is to be called, and the server that says so may have no worker of it.
    pub(crate) fn heard_of_hook(self: &Arc<Self>, tenant: TenantId, agent: String) {
        self.workers.with(|desk| desk.call((tenant, agent)));
    }

    /// A session has its home elsewhere now, or has left.
    pub(crate) fn heard_of_session(self: &Arc<Self>, tenant: TenantId, session: SessionId) {
        self.workers.known.forget(tenant);
        if self.workers.with(|desk| desk.is_here((tenant, session))) {
            let shell = self.clone();
            self.runtime.spawn(async move {
                if let Err(error) = shell.look_at_session(tenant, session).await {
                    tracing::debug!(%session, %error, "a worker's session can't be looked at; the next look finds it");
                }
            });
        }
    }

    /// Hints were missed: the next look, which is soon, finds what they would have told of.
    pub(crate) fn heard_of_everything(self: &Arc<Self>) {
        self.workers.known.forget_all();
    }

    /// The lease of this server was over for a while: others may have taken what its workers had.
    pub(crate) fn lease_has_lapsed(self: &Arc<Self>) {}

    /// Looks at what may have happened without a hint, about once a second. A look that takes longer delays the next.
    pub(crate) async fn look_at_sessions(self: &Arc<Self>) {
        let (Some(home), Some(cluster)) = (self.workers.home, self.store.cluster()) else { return };
        if let Err(error) = self.look_around(home, cluster).await {
            tracing::debug!(%error, "what workers have can't be compared with the store; trying again");
        }
    }

    /// How many workers have their session here.
    pub(crate) fn sessions_here(&self) -> u64 {
        self.workers.with(|desk| desk.counts()).0 as u64
    }

    async fn look_around(self: &Arc<Self>, home: u64, cluster: &dyn Cluster) -> Result<(), Error> {
        let lapses = cluster.view().borrow().lapses;
        self.look_at_home(home).await?;
        if self.workers.lapses.swap(lapses, Ordering::Relaxed) != lapses {
            let now = self.clock.now();
            self.workers.with(|desk| desk.forgive(now));
        }
        if self.workers.with(|desk| desk.has_room()) {
            let kinds = self.store.work().kinds_waited_for(KINDS_LOOK_MAX).await?;
            self.workers.with(|desk| {
                kinds.into_iter().for_each(|(tenant, kind)| desk.probe(&(tenant, kind.into())));
            });
        }
        let unsaid = self.workers.with(Desk::unsaid);
        if !unsaid.is_empty() {
            self.store.sessions().say(home, unsaid).await?;
        }
        if self.workers.looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(RARELY) {
            self.keep_calls().await?;
            if cluster.view().borrow().holds(Role::Workers) {
                self.look_after_the_lost(home).await?;
            }
        }
        Ok(())
    }

    /// Compares everything that is known here with what lies on disk.
    async fn look_at_home(self: &Arc<Self>, home: u64) -> Result<(), Error> {
        let look = self.workers.with(Desk::begin_look);
        let found = self.store.sessions().at(home).await;
        self.compare(look, found, |found| (Scope::Home(found.sessions.into_iter().collect()), found.tasks))
    }

    /// Compares what is known of runs that other servers have moved on.
    pub(super) async fn look_at_moved(self: &Arc<Self>) -> Result<(), Error> {
        let (look, runs) = self.workers.with(|desk| (desk.begin_look(), desk.moved_runs()));
        let found = self.store.work().of_runs(runs.iter().copied().collect()).await;
        self.compare(look, found, |found| (Scope::Runs(runs), found))
    }

    fn compare<T>(
        self: &Arc<Self>,
        look: u64,
        found: Result<T, abide_store::Error>,
        scope: impl FnOnce(T) -> (Scope, Vec<abide_store::WorkRow>),
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let compared = found.map(|found| {
            let (scope, rows) = scope(found);
            self.workers.with(|desk| desk.looked(look, &scope, &rows, now))
        });
        self.workers.with(|desk| desk.end_look(look));
        self.see_to(compared?);
        Ok(())
    }

    /// Forgets a session that has its home elsewhere.
    async fn look_at_session(&self, tenant: TenantId, session: SessionId) -> Result<(), Error> {
        let look = self.workers.with(Desk::begin_look);
        let found = self.store.sessions().get(tenant, session).await;
        let home = found.as_ref().ok().and_then(|found| found.as_ref()).map(|row| row.home);
        self.workers.with(|desk| {
            if found.is_ok() && home != self.workers.home {
                desk.moved_away((tenant, session), look);
            }
            desk.end_look(look);
        });
        Ok(found.map(drop)?)
    }

    /// Looks after sessions whose server is gone, and after tasks that are called off and that nobody has. A server has to
    /// be found gone twice: it may have come between two looks at the store.
    async fn look_after_the_lost(self: &Arc<Self>, home: u64) -> Result<(), Error> {
        let homes = self.store.sessions().homes().await?;
        let living = self.living_servers().await?;
        let is_dead = |home: &u64| !living.iter().any(|server| server.boot == *home);
        let dead: HashSet<u64> = homes.into_iter().filter(is_dead).collect();
        let before = self.workers.seen_dead(dead.clone());
        let gone = dead.intersection(&before).copied().collect();
        let Adopted { sessions, tasks } = self.store.sessions().adopt(home, gone).await?;
        let now = self.clock.now();
        self.workers.with(|desk| desk.take_in(&sessions, &tasks, now));
        for row in self.store.work().called_off().await? {
            super::chores::lose_spot(self, nobodys(Place::of(row.key, &row.task), Some(row.fence)));
        }
        Ok(())
    }

    /// The servers that count as alive, as the store has it now.
    pub(super) async fn living_servers(&self) -> Result<Vec<ServerRow>, Error> {
        let Some(cluster) = self.store.cluster() else { return Ok(Vec::new()) };
        let mut servers = cluster.servers().await?;
        servers.retain(|server| server.until > cluster.now());
        Ok(servers)
    }

    /// Calls that are under way here stay here, and agents that others may have given back calls of are called.
    async fn keep_calls(&self) -> Result<(), Error> {
        let (calls, until) =
            (self.workers.with(|desk| desk.calls_under_way()), self.clock.now() + CALL_KEPT_MS);
        if !calls.is_empty() {
            self.store.work().keep_hooks(calls, until).await?;
        }
        self.workers.with(Desk::call_all);
        Ok(())
    }

    /// The calls that an agent may have to get, taken in hand if other servers might make them too.
    pub(super) async fn hooks_to_call(
        &self,
        agent: &Agent,
        on: Vec<HookKind>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<HookRow>, Error> {
        let (tenant, agent) = agent.clone();
        Ok(match self.workers.home {
            None => self.store.work().hooks(tenant, agent, on, limit).await?,
            Some(_) => {
                let until = now.saturating_add(CALL_KEPT_MS);
                self.store.work().claim_hooks(HookClaim { tenant, agent, on, limit, now, until }).await?
            }
        })
    }

    /// Leaves calls to whichever server has somebody for them.
    pub(super) async fn give_back_hooks(&self, hooks: Vec<(TenantId, HookId)>) {
        if self.workers.home.is_some()
            && !hooks.is_empty()
            && let Err(error) = self.store.work().keep_hooks(hooks, 0).await
        {
            tracing::debug!(%error, "calls can't be given back; they are free in a while");
        }
    }

    /// Tells the others of tasks that nobody here gets, and of agents that are to be called.
    pub(super) fn tell_peers_of_work(&self, key: Key, effects: &[Effect], reservation: &Reservation) {
        for offer in reservation.unheard(effects) {
            self.tell_peers(Hint::Work(key.tenant, offer.kind.to_string()));
        }
        for effect in effects {
            if let Effect::Hook(hook) = effect {
                self.tell_peers(Hint::Hook(key.tenant, hook.agent.clone()));
            }
        }
    }

    /// Makes this server the home of a worker that comes, with all that it has on disk.
    pub(super) async fn take_in_worker(
        self: &Arc<Self>,
        new: NewSession,
        home: u64,
    ) -> Result<Vec<Place>, Error> {
        let seat = (new.tenant, new.id);
        let row = row_of(&new, home, self.clock.now());
        let look = self.workers.with(Desk::begin_look);
        let came = self.store.sessions().put(row, limits::SESSIONS_OF_TENANT_MAX).await;
        let now = self.clock.now();
        let registered = came.map(|came| {
            let came = came.ok_or(Error::WorkersFull)?;
            let registered = self.workers.with(|desk| {
                desk.expect(seat);
                let mut chores = desk.looked(look, &Scope::Session(seat), &came.tasks, now);
                let (lost, more) = desk.register(&new, now).map_err(|_| Error::WorkersFull)?;
                chores.extend(more);
                if came.draining {
                    desk.drain(seat);
                }
                Ok::<_, Error>((lost, chores))
            })?;
            Ok::<_, Error>((registered, came.before))
        });
        self.workers.with(|desk| desk.end_look(look));
        let ((lost, chores), before) = registered??;
        self.see_to(chores);
        self.workers.known.forget(new.tenant);
        if before != Some(home) {
            self.tell_peers(Hint::Session(new.tenant, new.id));
        }
        Ok(lost)
    }

    /// The kinds of a tenant as they lie on disk.
    pub(super) async fn kinds_on_disk(&self, tenant: TenantId) -> Result<BTreeMap<String, KindRow>, Error> {
        let kinds = self.store.work().kinds(tenant, String::new(), limits::KINDS_OF_TENANT_MAX).await?;
        Ok(kinds.into_iter().map(|kind| (kind.kind.clone(), kind)).collect())
    }

    /// Waits until what is known here was compared with the store since this server was last away: whoever was silent for
    /// so long may have gone to another, or could not reach this one.
    pub(super) async fn until_current(&self) {
        let Some(cluster) = self.store.cluster() else { return };
        let mut view = cluster.view();
        loop {
            let (is_current, lapses) = {
                let view = view.borrow_and_update();
                (view.is_current(), view.lapses)
            };
            if is_current && lapses == self.workers.lapses.load(Ordering::Relaxed) {
                return;
            }
            tokio::select! {
                changed = view.changed() => if changed.is_err() { return },
                () = self.workers.leases.notified() => {}
            }
        }
    }
}

fn row_of(new: &NewSession, home: u64, now: Millis) -> SessionRow {
    SessionRow {
        tenant: new.tenant,
        id: new.id,
        home,
        agent: new.agent.clone(),
        about: About::of(new).to_json(),
        registered_at: now,
        state: SessionState { seen_at: now, listening: false, gone: false, draining: false },
    }
}
