//! When a worker was last heard of.
//!
//! A lease runs on the engine's clock. That of a test is moved by hours at once, which says nothing about a worker that
//! is there: so one whose line is open, or was a moment ago, is not given up by the clock alone. On the machine's own
//! clock that makes no difference, because a line's silence is as long on one as on the other.

use std::time::Duration;

use abide_core::Millis;
use tokio::time::Instant;

use crate::limits;

/// How a worker is in touch.
#[derive(Debug)]
pub(super) struct Contact {
    /// When it last asked for something.
    at: Millis,
    /// The same, on the machine's own clock.
    real: Instant,
    /// Polls and streams that are open.
    lines: u32,
    /// Its last line broke off.
    gone: bool,
}

impl Contact {
    pub(super) fn new(now: Millis) -> Self {
        Self { at: now, real: Instant::now(), lines: 0, gone: false }
    }

    /// It asked for something.
    pub(super) fn touch(&mut self, now: Millis) {
        (self.at, self.real, self.gone) = (self.at.max(now), Instant::now(), false);
    }

    /// It could not be heard of, whatever it did.
    pub(super) fn forgive(&mut self, now: Millis) {
        (self.at, self.real) = (self.at.max(now), Instant::now());
    }

    pub(super) fn open_line(&mut self, now: Millis) {
        self.touch(now);
        self.lines += 1;
    }

    /// A line has ended: with an answer, or because the worker is not there any more.
    pub(super) fn close_line(&mut self, now: Millis, answered: bool) {
        self.lines = self.lines.saturating_sub(1);
        if answered {
            self.touch(now);
        } else {
            self.gone = self.lines == 0;
        }
    }

    /// Until when it keeps what it has, as far as the clock goes.
    pub(super) fn lease_end(&self) -> Millis {
        self.at.saturating_add(limits::LEASE_MS)
    }

    /// Until when it counts as there, whatever the clock says.
    pub(super) fn there_until(&self) -> Option<Instant> {
        let ms = if self.lines > 0 {
            limits::LEASE_MS
        } else if self.gone {
            return None;
        } else {
            limits::CONTACT_GAP_MS
        };
        Some(self.real + Duration::from_millis(ms.unsigned_abs()))
    }

    /// When it last asked for something.
    pub(super) fn at(&self) -> Millis {
        self.at
    }

    /// Whether its line broke off and nothing was heard since: it may be dead.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether it listens.
    pub(super) fn is_listening(&self) -> bool {
        self.lines > 0
    }
}
