//! What other servers tell of workers and their tasks, and what is looked at in case that they did not.
//!
//! None of this is called if the store is one server's own. All but the look are called where hints are heard: they must
//! not wait.

use std::sync::Arc;

use abide_core::{Key, TenantId};
use abide_store::SessionId;

use crate::shell::Shell;

impl Shell {
    /// Another server has moved a run on, of which workers here may have tasks. Its journal is `next` events long.
    pub(crate) fn heard_of_run(self: &Arc<Self>, _key: Key, _next: u64, _ended: bool) {}

    /// A task waits for a worker of this kind, and its server has none.
    pub(crate) fn heard_of_work(self: &Arc<Self>, _tenant: TenantId, _kind: &str) {}

    /// An agent is to be called, and the server that says so has no worker of it.
    pub(crate) fn heard_of_hook(self: &Arc<Self>, _tenant: TenantId, _agent: String) {}

    /// A session has its home elsewhere now, or has left.
    pub(crate) fn heard_of_session(self: &Arc<Self>, _tenant: TenantId, _session: SessionId) {}

    /// Hints were missed: anything of the above may have happened.
    pub(crate) fn heard_of_everything(self: &Arc<Self>) {}

    /// The lease of this server was over for a while: others may have taken what its workers had.
    pub(crate) fn lease_has_lapsed(self: &Arc<Self>) {}

    /// Looks at what may have happened without a hint, about once a second. A look that takes longer delays the next.
    pub(crate) async fn look_at_sessions(self: &Arc<Self>) {}

    /// How many workers have their session here.
    pub(crate) fn sessions_here(&self) -> u64 {
        self.workers.with(|desk| desk.counts()).0 as u64
    }
}
