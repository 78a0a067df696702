//! Breakers of providers, one for each tenant and provider: asked before a model is called, and told what came of it.
//!
//! They are in memory, and so is what they count. Every change of a state, and the permit of a probe, is in the store
//! before anybody acts on it: of two engines that want the permit, one gets it. What another engine changed is seen when
//! it matters: a write that comes second is decided again on what is there.

mod line;
mod waker;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use abide_core::breaker::{Admission, Outcome, Ticket, Transition};
use abide_core::{
    Breaker, BreakerSettings, BreakerState, ErrorKind, KeptBreaker, Key, Millis, ModelError, ProviderWait,
    TaskId, TenantId,
};
use abide_store::{BreakerRow, Hint, Store};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::timers::rest;
use crate::{Clock, Error, limits};
use line::Line;
pub(crate) use waker::run;

/// Every breaker that was asked so far.
pub(crate) struct Breakers {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// What the operator says, by provider.
    settings: BTreeMap<String, BreakerSettings>,
    watched: Mutex<BTreeMap<(TenantId, String), Arc<Watched>>>,
    /// Something has happened that turns which wait may have waited for.
    news: Notify,
}

/// A breaker, and the turns that wait for it.
struct Watched {
    tenant: TenantId,
    provider: String,
    /// Read when it is asked for the first time, or when somebody else has changed it.
    breaker: tokio::sync::Mutex<Option<Breaker>>,
    /// Until when nobody else has changed it, as far as is known. On a store of one's own, nobody else can.
    sure_until: Mutex<Option<Instant>>,
    line: Mutex<Line>,
}

/// Whether a model may be called.
pub(crate) enum Admitted {
    /// It may.
    Call(Call),
    /// It may not: the turn is to be postponed.
    Refused,
}

/// A call that goes out. If it is dropped, it counts as given up.
pub(crate) struct Call {
    breakers: Arc<Breakers>,
    watched: Arc<Watched>,
    /// Gone once it is told what came of the call.
    ticket: Option<Ticket>,
    is_probe: bool,
    /// It is the call of a turn that was woken for it.
    was_woken: bool,
}

/// How a provider does, for one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderHealth {
    /// Which provider.
    pub provider: String,
    /// What its breaker does with calls.
    pub state: BreakerState,
    /// Calls of the last while that failed.
    pub failures: u32,
    /// All calls of the last while.
    pub calls: u32,
    /// Turns that wait for their own next try.
    pub retry: u64,
    /// Turns that wait for the breaker.
    pub postponed: u64,
}

impl Breakers {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: BTreeMap<String, BreakerSettings>,
    ) -> Arc<Self> {
        let (watched, news) = (Mutex::default(), Notify::new());
        Arc::new(Self { store, clock, settings, watched, news })
    }

    /// Whether a turn may call its provider now. A permit to probe is in the store when this returns.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        run: Key,
        task: &TaskId,
        provider: &str,
    ) -> Result<Admitted, Error> {
        let (breakers, watched) = (self.clone(), self.of(run.tenant, provider));
        let task = task.clone();
        // A caller that goes away leaves no permit behind: what it does not take is dropped, and so given back.
        let asking = Handle::current().spawn(async move { breakers.admit_to(&watched, run, task).await });
        asking.await.map_err(|_| Error::Draining)?
    }

    async fn admit_to(
        self: Arc<Self>,
        watched: &Arc<Watched>,
        run: Key,
        task: TaskId,
    ) -> Result<Admitted, Error> {
        let holder = self.store.boot();
        let admission = self.change(watched, |breaker, now| breaker.admit(now, holder)).await?;
        let is_probe = matches!(admission, Admission::Probe(_));
        let is_admitted = !matches!(admission, Admission::Refused { .. });
        let was_woken = watched.line().arrive(&(run, task), is_admitted);
        self.tell_of(watched);
        match admission {
            Admission::Refused { .. } => Ok(Admitted::Refused),
            Admission::Free(ticket) | Admission::Probe(ticket) => {
                let watched = watched.clone();
                let ticket = Some(ticket);
                Ok(Admitted::Call(Call { breakers: self, watched, ticket, is_probe, was_woken }))
            }
        }
    }

    /// A turn has been postponed, durably.
    pub(crate) fn note_postponed(&self, run: Key, wait: &ProviderWait) {
        self.of(run.tenant, &wait.provider).line().join(&(run, wait.task.clone()));
        self.news.notify_one();
        self.tell_peers(Hint::Postponed(run.tenant, wait.provider.clone()));
    }

    /// Another server has postponed a turn.
    pub(crate) fn note_waiting(&self, tenant: TenantId, provider: &str) {
        self.of(tenant, provider).line().lengthen();
        self.news.notify_one();
    }

    /// Another server has changed a breaker.
    pub(crate) fn note_changed(&self, tenant: TenantId, provider: &str) {
        self.of(tenant, provider).doubt();
        self.news.notify_one();
    }

    /// Other servers may have changed all of them.
    pub(crate) fn note_all_changed(&self) {
        self.watched
            .lock()
            .expect("no thread panics holding this")
            .values()
            .for_each(|watched| watched.doubt());
        self.news.notify_one();
    }

    fn tell_peers(&self, hint: Hint) {
        if let Some(cluster) = self.store.cluster() {
            cluster.tell(hint);
        }
    }

    /// Something has changed that those who wait may have waited for, if anybody does.
    fn tell_of(&self, watched: &Watched) {
        if watched.line().is_waited_in() {
            self.news.notify_one();
        }
    }

    /// How a tenant's providers do: those that the operator named, and those that turns wait for.
    pub(crate) async fn health(&self, tenant: TenantId) -> Result<Vec<ProviderHealth>, Error> {
        let waiting = self.store.providers().waiting_turns(tenant).await?;
        let mut waiting: BTreeMap<String, (u64, u64)> =
            waiting.into_iter().map(|count| (count.provider, (count.retry, count.postponed))).collect();
        for provider in self.settings.keys() {
            waiting.entry(provider.clone()).or_default();
        }
        let mut health = Vec::with_capacity(waiting.len());
        for (provider, (retry, postponed)) in waiting {
            let watched = self.of(tenant, &provider);
            let see = |breaker: &mut Breaker, now| (breaker.kept().state, breaker.counts(now));
            let (state, (failures, calls)) = self.change(&watched, see).await?;
            health.push(ProviderHealth { provider, state, failures, calls, retry, postponed });
        }
        Ok(health)
    }

    /// How those stand that were asked so far, with their providers.
    pub(crate) async fn states(&self) -> Vec<(String, BreakerState)> {
        let watched: Vec<Arc<Watched>> =
            self.watched.lock().expect("no thread panics holding this").values().cloned().collect();
        let mut states = Vec::with_capacity(watched.len());
        for one in watched {
            let state = one.breaker.lock().await.as_ref().map(|breaker| breaker.kept().state);
            states.extend(state.map(|state| (one.provider.clone(), state)));
        }
        states
    }

    fn of(&self, tenant: TenantId, provider: &str) -> Arc<Watched> {
        let mut watched = self.watched.lock().expect("no thread panics holding this");
        let place = watched.entry((tenant, provider.to_owned()));
        place.or_insert_with(|| Arc::new(Watched::new(tenant, provider))).clone()
    }

    /// Looks at a breaker or changes it. A change of its state is durable when this returns, or has not happened.
    async fn change<T>(
        &self,
        watched: &Watched,
        decide: impl Fn(&mut Breaker, Millis) -> T,
    ) -> Result<T, Error> {
        let mut held = watched.breaker.lock().await;
        self.catch_up(watched, &mut held).await?;
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            let breaker = match held.take() {
                Some(breaker) => held.insert(breaker),
                None => held.insert(self.load(watched).await?),
            };
            let mut next = breaker.clone();
            let decided = decide(&mut next, self.clock.now());
            let is_same = next.kept().version == breaker.kept().version;
            if is_same || self.put(watched, next.kept()).await? {
                *breaker = next;
                return Ok(decided);
            }
            *held = None;
        }
        Err(Error::Contended)
    }

    /// Takes in what another server has done to a breaker. What was counted here goes with the state that it was counted in.
    async fn catch_up(&self, watched: &Watched, held: &mut Option<Breaker>) -> Result<(), Error> {
        let Some(known) = held.as_ref().filter(|_| self.store.cluster().is_some() && !watched.is_sure())
        else {
            return Ok(());
        };
        let read = self.load(watched).await?;
        if read.kept().version != known.kept().version {
            if read.is_closed() {
                watched.line().begin_anew();
            }
            *held = Some(read);
        }
        Ok(())
    }

    /// The breaker as it was left. The permit of a process that is gone is taken back: on a store of one's own, every one
    /// but this.
    async fn load(&self, watched: &Watched) -> Result<Breaker, Error> {
        let settings = self.settings.get(&watched.provider).copied().unwrap_or_default();
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            watched.trust();
            let row = self.store.providers().breaker(watched.tenant, watched.provider.clone()).await?;
            let kept = row.map_or_else(KeptBreaker::default, |row| row.kept);
            let mut breaker = Breaker::new(settings, kept);
            let is_lost = self.is_lost(breaker.kept()) && breaker.release_lost(self.store.boot()).is_some();
            if !is_lost || self.put(watched, breaker.kept()).await? {
                return Ok(breaker);
            }
        }
        Err(Error::Contended)
    }

    /// Whether the permit to probe is nobody's any more who lives.
    fn is_lost(&self, kept: KeptBreaker) -> bool {
        let Some(cluster) = self.store.cluster() else { return true };
        match kept.state {
            BreakerState::HalfOpen { permit, .. } => !cluster.view().borrow().is_alive(permit.holder),
            _ => false,
        }
    }

    async fn put(&self, watched: &Watched, kept: KeptBreaker) -> Result<bool, Error> {
        let (tenant, downstream) = (watched.tenant, watched.provider.clone());
        let put = self.store.providers().put_breaker(BreakerRow { tenant, downstream, kept }).await?;
        self.tell_peers(Hint::Breaker(watched.tenant, watched.provider.clone()));
        Ok(put)
    }

    /// Writes down what came of a call. That of a probe is tried until it is down: nobody else may tell.
    async fn settle(&self, watched: &Watched, ticket: Ticket, outcome: Outcome, is_probe: bool) {
        loop {
            let reported = self.change(watched, |breaker, now| breaker.report(ticket, outcome, now)).await;
            let (tenant, provider) = (watched.tenant.0, &watched.provider);
            match reported {
                Ok(transition) => return tell(watched, transition),
                Err(Error::Store(abide_store::Error::Closed)) => return,
                Err(error) => tracing::error!(tenant, provider, %error, "a breaker can't be kept"),
            }
            if !is_probe {
                return;
            }
            rest().await;
        }
    }
}

/// What follows from a change for those that wait, and a line in the log.
fn tell(watched: &Watched, transition: Option<Transition>) {
    let (tenant, provider) = (watched.tenant.0, &watched.provider);
    match transition {
        None => {}
        Some(Transition::Opened { failures, calls, cooldown_ms }) => {
            tracing::warn!(
                tenant,
                provider,
                failures,
                calls,
                cooldown_ms,
                "a provider fails; it is left alone"
            );
        }
        Some(Transition::Reopened { cooldown_ms }) => {
            tracing::warn!(tenant, provider, cooldown_ms, "a provider still fails");
        }
        Some(Transition::Released) => tracing::debug!(tenant, provider, "a probe was given up"),
        Some(Transition::Closed { cooldown_ms }) => {
            tracing::info!(tenant, provider, cooldown_ms, "a provider is back");
            watched.line().begin_anew();
        }
    }
}

impl Watched {
    fn new(tenant: TenantId, provider: &str) -> Self {
        let (breaker, line, sure_until) = (tokio::sync::Mutex::default(), Mutex::default(), Mutex::default());
        Self { tenant, provider: provider.to_owned(), breaker, sure_until, line }
    }

    fn is_sure(&self) -> bool {
        self.sure_until
            .lock()
            .expect("no thread panics holding this")
            .is_some_and(|until| Instant::now() < until)
    }

    /// It is read now.
    fn trust(&self) {
        let until = Instant::now() + Duration::from_millis(limits::PEERS_LOOK_MS);
        *self.sure_until.lock().expect("no thread panics holding this") = Some(until);
    }

    /// Somebody else has changed it.
    fn doubt(&self) {
        *self.sure_until.lock().expect("no thread panics holding this") = None;
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("no thread panics holding this")
    }
}

impl Call {
    /// Tells what came of the call. What follows from that is durable when this returns, even if nobody waits for it.
    pub(crate) async fn report(mut self, outcome: Outcome) {
        if let Some(settling) = self.settle(outcome) {
            // It ends badly only if the process does.
            let _ = settling.await;
        }
    }

    fn settle(&mut self, outcome: Outcome) -> Option<tokio::task::JoinHandle<()>> {
        let ticket = self.ticket.take()?;
        let (breakers, watched) = (self.breakers.clone(), self.watched.clone());
        let (is_probe, was_woken) = (self.is_probe, self.was_woken);
        // Without a runtime there is no process any more; the next one takes the permit back.
        let settling = Handle::try_current().ok()?.spawn(async move {
            breakers.settle(&watched, ticket, outcome, is_probe).await;
            if was_woken {
                // What a probe says has been taken into account with the change of the state.
                watched.line().leave(outcome == Outcome::Success && !is_probe);
            }
            breakers.tell_of(&watched);
        });
        Some(settling)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.settle(Outcome::Neither);
    }
}

/// What the end of a call says about its provider. One that refuses a request is there, and does its work.
pub(crate) fn said_of_provider(error: Option<&ModelError>) -> Outcome {
    let Some(error) = error else { return Outcome::Success };
    let status = error.code.as_deref().and_then(|code| code.parse::<u16>().ok());
    match (error.kind, status) {
        (ErrorKind::Aborted | ErrorKind::Crashed, _) => Outcome::Neither,
        (ErrorKind::Thrown, _) | (ErrorKind::Emitted { retryable: Some(true) }, _) => Outcome::Failure,
        (ErrorKind::Emitted { .. }, Some(status)) if status == 429 || status >= 500 => Outcome::Failure,
        (ErrorKind::Emitted { .. }, _) => Outcome::Success,
    }
}
