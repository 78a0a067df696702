//! Whether a run in memory is how the run stands, when other servers may have moved it on.
//!
//! A commit finds that out by itself: one that was decided on an old run is refused as stale. What writes nothing has to
//! ask, be it a rejection or a look: it would tell of a state that is no more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_store::Store;

use crate::hot::Cell;
use crate::shell::Shell;
use crate::{Error, limits};

impl Shell {
    /// Waits until the journal is durable up to `next`, which is where a look at the cell saw it end. `false` if that will
    /// never be, or if it was not the end of the journal at any time since `since`: then the cell is of no use.
    pub(crate) async fn confirm(&self, cell: &Arc<Cell>, next: u64, since: Instant) -> Result<bool, Error> {
        let durable = cell.wait_durable(next).await;
        if !durable || self.store.cluster().is_none() || cell.read_at >= since {
            return Ok(durable);
        }
        let Some(tip) = self.store.tip(cell.key).await? else { return Ok(false) };
        Ok(tip.next >= next && cell.accounts_for(tip).await)
    }
}

/// Gets out of the way of whoever else wants the same: for longer the more often that was in vain, and by chance, so that
/// two don't meet again and again. A server that is alone has nobody to get out of the way of.
pub(crate) async fn give_way(store: &dyn Store, tries: usize) {
    if store.cluster().is_none() {
        return tokio::task::yield_now().await;
    }
    let most_ms = (1 << tries.min(8)).min(limits::GIVE_WAY_MS_MAX);
    let chance = uuid::Uuid::new_v4().as_u128() as u64 % (most_ms * 1000);
    tokio::time::sleep(Duration::from_micros(chance)).await;
}
