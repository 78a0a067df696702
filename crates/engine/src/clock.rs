//! The only source of time.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_core::Millis;
use abide_store::{Cluster, Hint, Store};
use tokio::sync::watch;
use uuid::{ContextV7, Timestamp, Uuid};

use crate::limits;

/// Tells the time, and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// The time now. It may jump either way; commands are decided no earlier than their run's last event.
    fn now(&self) -> Millis;

    /// Looks whether another server has moved it, if it is one that is moved by hand.
    fn catch_up(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        None
    }

    /// Returns at `due` or a little before: callers look at the clock again.
    fn wait_until(&self, due: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// A new id that is higher than those before it. Where several servers make them, it is by the clock that they share: lists
/// are in the order of ids.
pub(crate) fn new_id(store: &dyn Store, clock: &dyn Clock) -> Uuid {
    static CONTEXT: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    if store.cluster().is_none() {
        return Uuid::now_v7();
    }
    let now = clock.now().unsigned_abs();
    let nanos = u32::try_from(now % 1000).unwrap_or(0) * 1_000_000;
    Uuid::new_v7(Timestamp::from_unix(&CONTEXT, now / 1000, nanos))
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
    }

    fn wait_until(&self, due: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let ms = due.saturating_sub(self.now()).clamp(0, limits::CLOCK_CHECK_MS);
        Box::pin(tokio::time::sleep(Duration::from_millis(ms.unsigned_abs())))
    }
}

/// The clock of a store that several servers share, however wrong this machine's is.
pub struct StoreClock {
    store: Arc<dyn Store>,
}

impl StoreClock {
    /// The clock of a store; the machine's, if it has none of its own.
    pub fn of(store: &Arc<dyn Store>) -> Arc<dyn Clock> {
        match store.cluster() {
            Some(_) => Arc::new(Self { store: store.clone() }),
            None => Arc::new(SystemClock),
        }
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Millis {
        self.store.cluster().map_or_else(|| SystemClock.now(), Cluster::now)
    }

    fn wait_until(&self, due: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let ms = due.saturating_sub(self.now()).clamp(0, limits::CLOCK_CHECK_MS);
        Box::pin(tokio::time::sleep(Duration::from_millis(ms.unsigned_abs())))
    }
}

/// A clock that stands still until somebody moves it. Its time is a row in the store, so it survives a kill.
pub struct TestClock {
    store: Arc<dyn Store>,
    now: watch::Sender<Millis>,
    /// Steps are taken one after the other, so that none is lost.
    stepping: tokio::sync::Mutex<()>,
}

impl TestClock {
    /// The clock of this data directory; it starts at `first` if there is none yet.
    pub async fn open(store: Arc<dyn Store>, first: Millis) -> Result<Self, abide_store::Error> {
        let now = match store.test_clock().await? {
            Some(now) => now,
            None => store.set_test_clock(first).await?,
        };
        Ok(Self { store, now: watch::Sender::new(now), stepping: tokio::sync::Mutex::new(()) })
    }

    /// Moves the clock forward, durably, and wakes whoever waits for a time that has come.
    pub async fn advance(&self, ms: Millis) -> Result<Millis, abide_store::Error> {
        let _step = self.stepping.lock().await;
        let now = match self.store.advance_test_clock(ms.max(0)).await? {
            Some(now) => now,
            None => self.store.set_test_clock(self.now().saturating_add(ms.max(0))).await?,
        };
        self.show(now);
        if let Some(cluster) = self.store.cluster() {
            cluster.tell(Hint::Clock);
        }
        Ok(self.now())
    }

    fn show(&self, now: Millis) {
        self.now.send_if_modified(|shown| {
            let moved = now > *shown;
            *shown = now.max(*shown);
            moved
        });
    }
}

impl Clock for TestClock {
    fn now(&self) -> Millis {
        *self.now.borrow()
    }

    fn catch_up(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        Some(Box::pin(async {
            match self.store.test_clock().await {
                Ok(now) => now.into_iter().for_each(|now| self.show(now)),
                Err(error) => tracing::debug!(%error, "the test clock can't be read; trying again"),
            }
        }))
    }

    fn wait_until(&self, due: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut shown = self.now.subscribe();
        Box::pin(async move {
            // The sender lives as long as `self`, so this ends only when the time has come.
            let _ = shown.wait_for(|now| *now >= due).await;
        })
    }
}
