//! The other servers on the same store: what they tell this one, and what this one looks at in case that it was not told.
//!
//! Nothing of this runs if the store is one server's own. A hint spares waiting and is never relied on: whatever it would
//! have told of is found within about a second.

use std::sync::Arc;
use std::time::Duration;

use abide_store::{Cluster, Hint, Load};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::MissedTickBehavior;

use crate::limits;
use crate::shell::Shell;

/// Hears the other servers and looks after what they may have done, for as long as the engine lives.
pub(crate) async fn run(shell: Arc<Shell>) {
    if let Some(cluster) = shell.store.cluster() {
        tokio::join!(hear(&shell, cluster.hear()), look(&shell, cluster));
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
    let mut ticks = tokio::time::interval(Duration::from_millis(limits::PEERS_LOOK_MS));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        cluster.say(shell.load_here());
        shell.look_at_sessions().await;
    }
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
        let overdue_ms = self.timers.overdue_ms(self.clock.now());
        Load { lag_ms: overdue_ms, tasks: self.executor.busy_places() as u64, sessions: self.sessions_here() }
    }

    /// Another server has told something.
    fn heed(self: &Arc<Self>, hint: Hint) {
        match hint {
            Hint::Run { key, next, ended } => {
                self.hot.forget_older(key, next);
                self.watchers.tell(key, next, ended);
                self.heard_of_run(key, next, ended);
            }
            Hint::Work(tenant, kind) => self.heard_of_work(tenant, &kind),
            Hint::Hook(tenant, agent) => self.heard_of_hook(tenant, agent),
            Hint::Session(tenant, session) => self.heard_of_session(tenant, session),
            Hint::Everything => self.heard_of_everything(),
            Hint::Forget(key) => {
                self.hot.forget(key);
                self.timers.take_up(key);
            }
            Hint::Timer(_)
            | Hint::Outbox
            | Hint::Tasks
            | Hint::Notices(_)
            | Hint::Callbacks
            | Hint::Webhook(_)
            | Hint::Breaker(..)
            | Hint::Postponed(..)
            | Hint::Surroundings(_)
            | Hint::Clock => {}
            // API keys are the server's.
            Hint::Keys => {}
        }
    }
}
