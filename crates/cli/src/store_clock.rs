//! The clock of servers that share a database: the database's, however wrong the machines' own are.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use abide_core::Millis;
use abide_engine::{Clock, SystemClock};
use abide_store::Store;

/// The longest that is slept at once: the store's time is sampled anew meanwhile.
const SLEEP_MS_MAX: Millis = 1_000;

/// Tells the time of a store.
pub(crate) struct StoreClock {
    store: Arc<dyn Store>,
}

impl StoreClock {
    /// The clock of a store; the machine's, if it has none of its own.
    pub(crate) fn of(store: &Arc<dyn Store>) -> Arc<dyn Clock> {
        match store.cluster() {
            Some(_) => Arc::new(Self { store: store.clone() }),
            None => Arc::new(SystemClock),
        }
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Millis {
        self.store.cluster().map_or_else(|| SystemClock.now(), |cluster| cluster.now())
    }

    fn wait_until(&self, due: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let ms = due.saturating_sub(self.now()).clamp(0, SLEEP_MS_MAX);
        Box::pin(tokio::time::sleep(Duration::from_millis(ms.unsigned_abs())))
    }
}
