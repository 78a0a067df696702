//! The store's time, as it is known here.

use std::sync::RwLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The store's time: a sample of it, and the time that has passed here since.
pub(super) struct Clock {
    sample: RwLock<Option<(i64, Instant)>>,
    shown: AtomicI64,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { sample: RwLock::new(None), shown: AtomicI64::new(0) }
    }

    /// Takes a sample, which was made somewhere between two moments.
    pub(super) fn set(&self, millis: i64, from: Instant, until: Instant) {
        let middle = from + (until - from) / 2;
        *self.sample.write().expect("no thread panics holding this") = Some((millis, middle));
    }

    pub(super) fn now(&self) -> i64 {
        let sample = *self.sample.read().expect("no thread panics holding this");
        let now = sample.map_or_else(wall, |(millis, at)| millis + at.elapsed().as_millis() as i64);
        self.shown.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// How far the clock of this machine is ahead of the store's.
    pub(super) fn ahead(&self) -> i64 {
        let sample = *self.sample.read().expect("no thread panics holding this");
        sample.map_or(0, |(millis, at)| wall() - millis - at.elapsed().as_millis() as i64)
    }
}

fn wall() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stores_time_never_goes_back() {
        let clock = Clock::new();
        let moment = Instant::now();
        clock.set(5_000_000, moment, moment);
        let before = clock.now();
        clock.set(1_000_000, moment, moment);
        assert!(clock.now() >= before && before >= 5_000_000);
    }
}
