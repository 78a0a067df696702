//! Connections whose first request is not answered yet: so many at a time, and the others wait where they cost nothing.
//!
//! Whoever is being answered for the first time takes many times as much memory as whoever only listens, and what a crowd
//! once took is not given back. So a newcomer counts for as long as the server has something to do for it, and not while
//! the server waits for it, or it for something to happen: nobody is kept out by those who are slow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{NEWCOMER_ANSWER_MAX, NEWCOMER_PATIENCE, NEWCOMERS_MAX};

/// How many there may be.
pub(crate) struct Threshold(Arc<Semaphore>);

impl Threshold {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(NEWCOMERS_MAX)))
    }

    /// One with as many newcomers as there may be.
    #[cfg(test)]
    pub(crate) async fn crowded() -> (Self, Vec<Newcomer>) {
        let threshold = Self::new();
        let newcomers = futures_util::future::join_all((0..NEWCOMERS_MAX).map(|_| threshold.next())).await;
        (threshold, newcomers)
    }

    /// Waits until there may be one more.
    pub(crate) async fn next(&self) -> Newcomer {
        let turn = self.0.clone().acquire_owned().await.ok();
        Newcomer(Arc::new(State { turn: Mutex::new(turn), has_asked: AtomicBool::new(false) }))
    }
}

/// One of them. What does not come from a connection never counts.
#[derive(Clone, Default)]
pub(crate) struct Newcomer(Arc<State>);

#[derive(Default)]
struct State {
    turn: Mutex<Option<OwnedSemaphorePermit>>,
    has_asked: AtomicBool,
}

impl Newcomer {
    /// Its request has come.
    pub(crate) fn asks(&self) {
        self.0.has_asked.store(true, Ordering::Relaxed);
    }

    /// It counts no longer: its request is answered, or it is not the server that the answer waits for.
    pub(crate) fn greet(&self) {
        self.turn().take();
    }

    /// Greets it when it has counted for long enough.
    pub(crate) async fn wait_out(&self) {
        tokio::time::sleep(NEWCOMER_PATIENCE).await;
        if self.0.has_asked.load(Ordering::Relaxed) && self.turn().is_some() {
            tokio::time::sleep(NEWCOMER_ANSWER_MAX).await;
        }
        self.greet();
    }

    fn turn(&self) -> std::sync::MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.0.turn.lock().expect("no thread panics holding this")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::{Duration, Instant};

    use super::*;

    /// How long another one waits.
    async fn waits(asks: impl Fn(&Newcomer)) -> Duration {
        let (threshold, newcomers) = Threshold::crowded().await;
        assert!(threshold.next().now_or_never().is_none());
        let (newcomer, began) = (&newcomers[0], Instant::now());
        asks(newcomer);
        tokio::select! {
            _ = threshold.next() => began.elapsed(),
            () = async { newcomer.wait_out().await; std::future::pending().await } => unreachable!(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_for_nothing_keeps_others_out_for_a_moment() {
        assert!((NEWCOMER_PATIENCE..NEWCOMER_ANSWER_MAX).contains(&waits(|_| ()).await));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_being_answered_counts_until_then_however_busy_the_server_is() {
        assert!(waits(Newcomer::asks).await >= NEWCOMER_ANSWER_MAX);
        let answered = |newcomer: &Newcomer| {
            newcomer.asks();
            newcomer.greet();
        };
        assert_eq!(waits(answered).await, Duration::ZERO);
    }
}
