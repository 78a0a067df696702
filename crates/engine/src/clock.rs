//! The only source of time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_core::Millis;
use abide_store::Store;
use tokio::sync::watch;

use crate::limits;

/// Tells the time, and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// The time now. It may jump either way; commands are decided no earlier than their run's last event.
    fn now(&self) -> Millis;

    /// Returns at `due` or a little before: callers look at the clock again.
    fn wait_until(&self, due: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
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
        let now = self.store.set_test_clock(self.now().saturating_add(ms.max(0))).await?;
        self.now.send_modify(|shown| *shown = now.max(*shown));
        Ok(self.now())
    }
}

impl Clock for TestClock {
    fn now(&self) -> Millis {
        *self.now.borrow()
    }

    fn wait_until(&self, due: Millis) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut shown = self.now.subscribe();
        Box::pin(async move {
            // The sender lives as long as `self`, so this ends only when the time has come.
            let _ = shown.wait_for(|now| *now >= due).await;
        })
    }
}
