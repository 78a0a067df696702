//! What one server at a time does for all that share a store.
//!
//! "At a time" is nearly so: a server that was held up may act for a moment although another has its role. What must not
//! happen twice has a condition of its own in the store.

use std::sync::Arc;

use abide_store::{Role, View};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::shell::Shell;

impl Shell {
    /// Whether this server does this for all. One that is alone does everything.
    pub(crate) fn holds(&self, role: Role) -> bool {
        self.store.cluster().is_none_or(|cluster| cluster.view().borrow().holds(role))
    }

    /// Does something for as long as this server has the role, and anew whenever it gets it: as at a start, there may be
    /// something left over then. It is dropped in the middle when the role is lost.
    pub(crate) async fn in_role<F>(self: Arc<Self>, role: Role, work: impl Fn(Arc<Self>) -> F)
    where
        F: Future<Output = ()>,
    {
        let Some(cluster) = self.store.cluster() else { return work(self.clone()).await };
        let mut view = cluster.view();
        while view.wait_for(|view| view.holds(role)).await.is_ok() {
            tracing::debug!(role = role.name(), "this server does this for all from now on");
            tokio::select! {
                () = work(self.clone()) => return,
                () = lost(view.clone(), role) => {}
            }
            tracing::debug!(role = role.name(), "another server does this from now on");
        }
    }
}

/// Waits until the role is not known to be held. A lease that nobody renews ends without a word.
async fn lost(mut view: watch::Receiver<View>, role: Role) {
    loop {
        let (holds, until) = {
            let view = view.borrow_and_update();
            (view.holds(role), view.until)
        };
        if !holds {
            return;
        }
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            () = sleep_until(Instant::from_std(until)) => {}
        }
    }
}
