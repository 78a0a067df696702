//! Everything that the crate offers, against real clusters.
#![expect(clippy::unwrap_used, reason = "the helpers are part of the tests, which clippy can't tell")]

mod clusters;
mod databases;
mod guardian;
mod standbys;
mod tls;

use std::time::{Duration, Instant};

/// Waits for what other processes do, and fails after far more time than it can take.
#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
