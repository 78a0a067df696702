//! A turn that waits for its provider: what people are warned of, and what they may do about it.

use abide_core::{Key, Millis, Run};

use super::super::words;
use crate::app::App;
use crate::error::{ApiError, Result};
use crate::time::rfc3339;

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) node: String,
    pub(super) provider: String,
    pub(super) waits: Waits,
    pub(super) since: Millis,
    pub(super) until: Millis,
    /// What the provider said, in its own words.
    pub(super) message: Option<String>,
    /// The HTTP status, if there was one.
    pub(super) code: Option<String>,
}

/// What a turn waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Its own next try, which is this one, from 1.
    Retry(u32),
    /// That the provider answers others again.
    Breaker,
}

impl Notice {
    /// What the wait is for, in a few words.
    pub(super) fn title(&self) -> String {
        match self.waits {
            Waits::Retry(_) => format!("{} waits for its provider", self.node),
            Waits::Breaker => format!("{} is held back: its provider fails for others, too", self.node),
        }
    }

    /// Which attempt comes next, if it is the turn's own.
    pub(super) fn attempt(&self) -> Option<u32> {
        match self.waits {
            Waits::Retry(attempt) => Some(attempt),
            Waits::Breaker => None,
        }
    }

    /// When it is over, for machines and for people.
    pub(super) fn ends(&self) -> (String, String) {
        (rfc3339(self.until), words::moment_exact(self.until))
    }

    /// Since when, for machines and for people.
    pub(super) fn began(&self) -> (String, String) {
        (rfc3339(self.since), words::moment_exact(self.since))
    }

    /// How much is left, for those whose browser does not count.
    pub(super) fn left(&self, now: Millis) -> String {
        words::left(self.until.saturating_sub(now))
    }
}

/// The turns of a run that wait for their provider.
pub(super) fn of(_run: &Run, _now: Millis) -> Vec<Notice> {
    Vec::new()
}

/// Has a turn try again at once.
pub(super) async fn retry(_app: &App, _key: Key, _node: &str, _by: &str) -> Result<()> {
    Err(not_waiting())
}

/// Gives a turn up, for this reason.
pub(super) async fn give_up(
    _app: &App,
    _key: Key,
    _node: &str,
    (_by, _reason): (&str, Option<String>),
) -> Result<()> {
    Err(not_waiting())
}

fn not_waiting() -> ApiError {
    ApiError::new("validation_error", "This turn does not wait for its provider any more.")
}
