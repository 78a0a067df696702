//! The other servers on the same store: what they tell this one, and what this one looks at in case that it was not told.
//!
//! Nothing of this runs if the store is one server's own. A hint spares waiting and is never relied on: whatever it would
//! have told of is found within about a second.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use abide_core::Key;
use abide_store::{Cluster, Hint, Load};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::{Notify, watch};
use tokio::time::{Interval, MissedTickBehavior};

use crate::shell::Shell;
use crate::{Error, limits};

/// What is to be done because of what others told.
#[derive(Default)]
pub(crate) struct Peers {
    /// The test clock was moved.
    clock: Notify,
}

/// Hears the other servers and looks after what they may have done, for as long as the engine lives.
pub(crate) async fn run(shell: Arc<Shell>) {
    if let Some(cluster) = shell.store.cluster() {
        tokio::join!(
            hear(&shell, cluster.hear()),
            look(&shell, cluster),
            look_at_sessions(&shell),
            follow_clock(&shell),
            note_lapses(&shell, cluster.view()),
        );
    }
}

/// Hints are taken in at once, so that nobody lags behind them: what takes time is done elsewhere.
async fn hear(shell: &Arc<Shell>, mut hints: Receiver<Hint>) {
    loop {
        match hints.recv().await {
            Ok(hint) => shell.heed(hint),
            Err(RecvError::Lagged(_)) => shell.heed(Hint::Everything),
            Err(RecvError::Closed) => return,
        }
    }
}

/// What is looked at every so often, told of or not.
async fn look(shell: &Arc<Shell>, cluster: &dyn Cluster) {
    let mut ticks = ticks(limits::PEERS_LOOK_MS);
    loop {
        ticks.tick().await;
        cluster.say(shell.load_here());
        // Somebody may have left tasks, or may be gone and have left them.
        shell.executor.note_backlog();
        if let Err(error) = shell.look_at_runs(cluster).await {
            tracing::warn!(%error, "it can't be seen how runs stand that somebody follows; trying again");
        }
    }
}

async fn look_at_sessions(shell: &Arc<Shell>) {
    let mut ticks = ticks(limits::PEERS_LOOK_MS);
    loop {
        ticks.tick().await;
        shell.look_at_sessions().await;
    }
}

/// Follows a clock that is moved by hand, for as long as there is one.
async fn follow_clock(shell: &Arc<Shell>) {
    while let Some(catching_up) = shell.clock.catch_up() {
        catching_up.await;
        tokio::select! {
            () = shell.peers.clock.notified() => {}
            () = tokio::time::sleep(Duration::from_millis(limits::CLOCK_LOOK_MS)) => {}
        }
    }
}

/// After a lapse of the lease, others may have taken anything that this server had.
async fn note_lapses(shell: &Arc<Shell>, mut view: watch::Receiver<abide_store::View>) {
    let mut known = view.borrow_and_update().lapses;
    while let Ok(seen) = view.wait_for(|view| view.lapses != known).await {
        known = seen.lapses;
        drop(seen);
        shell.heed(Hint::Everything);
        shell.lease_has_lapsed();
    }
}

/// One every so often. One that comes late delays those after it.
pub(crate) fn ticks(each_ms: u64) -> Interval {
    let mut ticks = tokio::time::interval(Duration::from_millis(each_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Shell {
    /// Tells the other servers, if there may be any.
    pub(crate) fn tell_peers(&self, hint: Hint) {
        if let Some(cluster) = self.store.cluster() {
            cluster.tell(hint);
        }
    }

    /// How much this server has in hand.
    fn load_here(&self) -> Load {
        let overdue_ms = self.timers.overdue_ms(self.clock.now()).max(self.outbox.overdue_ms());
        Load { lag_ms: overdue_ms, tasks: self.executor.busy_places() as u64, sessions: self.sessions_here() }
    }

    /// Another server has told something.
    fn heed(self: &Arc<Self>, hint: Hint) {
        match hint {
            Hint::Run { key, next, ended } => {
                self.run_has_moved(key, next, ended);
                self.heard_of_run(key, next, ended);
            }
            Hint::Forget(key) => {
                self.hot.forget(key);
                self.timers.take_up(key);
            }
            Hint::Record(key) => self.watchers.tell_of_record(key),
            Hint::Timer(_) => self.timers.look(),
            Hint::Outbox => self.outbox.look(),
            Hint::Tasks => self.executor.note_backlog(),
            Hint::Notices(tenant) => {
                self.notices.wake_for_attempt();
                self.notices.wake_for(tenant);
            }
            Hint::Callbacks => self.callbacks.wake(),
            Hint::Breaker(tenant, provider) => self.breakers.note_changed(tenant, &provider),
            Hint::Postponed(tenant, provider) => self.breakers.note_waiting(tenant, &provider),
            Hint::Surroundings(tenant) => self.surroundings.doubt(tenant),
            Hint::Clock => self.peers.clock.notify_one(),
            Hint::Work(tenant, kind) => self.heard_of_work(tenant, &kind),
            Hint::Hook(tenant, agent) => self.heard_of_hook(tenant, agent),
            Hint::Session(tenant, session) => self.heard_of_session(tenant, session),
            Hint::Everything => self.look_at_everything(),
            // The store passes on what webhooks are told, and API keys are the server's.
            Hint::Webhook(_) | Hint::Keys => {}
        }
    }

    /// Hints were missed: whatever they would have told of is looked at.
    fn look_at_everything(self: &Arc<Self>) {
        self.timers.look();
        self.outbox.look();
        self.executor.note_backlog();
        self.notices.wake_for_attempt();
        self.callbacks.wake();
        self.breakers.note_all_changed();
        self.surroundings.doubt_all();
        self.peers.clock.notify_one();
        self.heard_of_everything();
    }

    /// The journal of a run is `next` events long, by what others did. What is known of it here is forgotten if it is older.
    fn run_has_moved(&self, key: Key, next: u64, ended: bool) {
        self.hot.forget_older(key, next);
        self.watchers.tell(key, next, ended);
        self.models.doubt(key);
    }

    /// Looks how the runs stand that somebody follows, or for which a model is called: others may have moved them on.
    async fn look_at_runs(&self, cluster: &dyn Cluster) -> Result<(), Error> {
        let called: BTreeSet<Key> = self.models.runs();
        let mut followed = self.watchers.runs();
        followed.extend(called);
        let followed: Vec<Key> = followed.into_iter().collect();
        for page in followed.chunks(limits::HEADS_PAGE_MAX) {
            for (key, next, ended) in cluster.heads(page.to_vec()).await? {
                if self.hot.is_behind(key, next) {
                    self.models.doubt(key);
                }
                self.hot.forget_older(key, next);
                self.watchers.tell(key, next, ended);
            }
        }
        Ok(())
    }
}
