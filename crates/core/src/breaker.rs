//! A breaker: it keeps callers from a downstream that fails, and finds out with one call whether it is back.
//!
//! It only computes: the time is handed in, and whoever holds it keeps what [`Breaker::kept`] gives before acting on what
//! it said. Counts are not kept: they are of the last minute, and a start begins with none.
//!
//! | state | a call | it succeeds | it fails | neither |
//! |---|---|---|---|---|
//! | closed | goes out | is counted | is counted; too many open it | – |
//! | open | is refused until the cool-down is over; then the first is the probe | – | – | – |
//! | half open | is refused while the probe's lease runs; then the next is the probe | closes it | opens it for twice as long | the next call is the probe |
//!
//! A call that began before the last change says nothing any more, whenever it ends.

mod window;

use serde::{Deserialize, Serialize};

use crate::Millis;
use window::Window;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Over how long calls are counted.
    pub window_ms: Millis,
    /// It opens when more than so many of a hundred calls fail: exactly as many don't open it.
    pub threshold_percent: u32,
    /// Fewer calls than these say nothing.
    pub min_calls: u32,
    /// How long it is open the first time.
    pub cooldown_ms: Millis,
    /// How long it is open at the most, however often the probe fails.
    pub cooldown_max_ms: Millis,
    /// How long a probe may take. One that has not ended by then never will, and another call is the probe.
    pub lease_ms: Millis,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            window_ms: 60_000,
            threshold_percent: 50,
            min_calls: 10,
            cooldown_ms: 30_000,
            cooldown_max_ms: 300_000,
            // Somewhat longer than the longest call that anybody makes by default.
            lease_ms: 31 * 60_000,
        }
    }
}

/// What a breaker does with calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum BreakerState {
    /// It lets all of them go out.
    #[default]
    Closed,
    /// It refuses all of them.
    Open {
        /// Since when.
        opened_at: Millis,
        /// Until when.
        until: Millis,
        /// How long that is in all.
        cooldown_ms: Millis,
    },
    /// One call is on its way to see whether the downstream is back.
    HalfOpen {
        /// Since when the downstream was left alone.
        opened_at: Millis,
        /// Until when it was.
        until: Millis,
        /// How long it was left alone this time.
        cooldown_ms: Millis,
        /// Whose the probe is.
        permit: Permit,
    },
}

/// Leave to make the one call that is a probe. It is known by the version of the breaker that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Permit {
    /// Which process has it.
    pub holder: u64,
    /// When it is taken for lost.
    pub expires: Millis,
}

/// What of a breaker is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptBreaker {
    /// Rises by one with every change of the state. 0 is a breaker that never opened.
    pub version: u64,
    /// The state.
    pub state: BreakerState,
}

/// Whether a call may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Free(Ticket),
    /// It may, and it is the only one: what comes of it decides.
    Probe(Ticket),
    /// It may not.
    Refused {
        /// Before then no other may either, unless a probe succeeds.
        until: Millis,
    },
}

/// What a call is known by when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    version: u64,
}

/// What a call says about the downstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is there and answers, if only with a refusal.
    Success,
    /// It is not there, or not able to answer.
    Failure,
    /// Nothing: the call was given up, or never went out.
    Neither,
}

/// A change of the state that an outcome brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Too many calls failed.
    Opened {
        /// How many.
        failures: u32,
        /// Of how many.
        calls: u32,
        /// How long it is open.
        cooldown_ms: Millis,
    },
    /// The probe failed.
    Reopened {
        /// How long it is open this time.
        cooldown_ms: Millis,
    },
    /// The probe succeeded.
    Closed {
        /// How long it was open the last time.
        cooldown_ms: Millis,
    },
    /// The probe said nothing: another call may be one.
    Released,
}

/// A breaker of one caller for one downstream.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    kept: KeptBreaker,
    window: Window,
}

impl Breaker {
    /// The breaker that was kept, with nothing counted yet.
    pub fn new(settings: BreakerSettings, kept: KeptBreaker) -> Self {
        Self { settings, kept, window: Window::new(settings.window_ms) }
    }

    /// What has to be kept of it. It is to be kept before anything is done that rests on it.
    pub fn kept(&self) -> KeptBreaker {
        self.kept
    }

    /// Whether every call goes out.
    pub fn is_closed(&self) -> bool {
        self.kept.state == BreakerState::Closed
    }

    /// How many calls of the last while failed, and how many there were.
    pub fn counts(&self, now: Millis) -> (u32, u32) {
        self.window.counts(now)
    }

    /// When a call that is refused now could be let out, if no probe succeeds before; `None` if it is not refused.
    ///
    /// If the clock was set back, nothing takes longer from now on than it would have from its beginning.
    pub fn refuses_until(&mut self, now: Millis) -> Option<Millis> {
        let (until, at_most_ms) = match &mut self.kept.state {
            BreakerState::Closed => return None,
            BreakerState::Open { until, cooldown_ms, .. } => (until, *cooldown_ms),
            BreakerState::HalfOpen { permit, .. } => (&mut permit.expires, self.settings.lease_ms),
        };
        *until = (*until).min(now.saturating_add(at_most_ms));
        (now < *until).then_some(*until)
    }

    /// Whether a call may go out now. If it is the probe, `holder` has the permit.
    pub fn admit(&mut self, now: Millis, holder: u64) -> Admission {
        if let Some(until) = self.refuses_until(now) {
            return Admission::Refused { until };
        }
        match self.kept.state {
            BreakerState::Closed => Admission::Free(Ticket { version: self.kept.version }),
            BreakerState::Open { opened_at, until, cooldown_ms }
            | BreakerState::HalfOpen { opened_at, until, cooldown_ms, .. } => {
                let permit = Permit { holder, expires: now.saturating_add(self.settings.lease_ms) };
                self.turn(BreakerState::HalfOpen { opened_at, until, cooldown_ms, permit });
                Admission::Probe(Ticket { version: self.kept.version })
            }
        }
    }

    /// A call has ended. One that began before the last change says nothing any more.
    pub fn report(&mut self, ticket: Ticket, outcome: Outcome, now: Millis) -> Option<Transition> {
        if ticket.version != self.kept.version {
            return None;
        }
        match (self.kept.state, outcome) {
            (BreakerState::Closed, Outcome::Success | Outcome::Failure) => {
                self.window.count(now, outcome == Outcome::Failure);
                self.open_if_failing(now)
            }
            (BreakerState::HalfOpen { cooldown_ms, .. }, Outcome::Success) => {
                self.turn(BreakerState::Closed);
                Some(Transition::Closed { cooldown_ms })
            }
            (BreakerState::HalfOpen { cooldown_ms, .. }, Outcome::Failure) => {
                let cooldown_ms = self.capped(cooldown_ms.saturating_mul(2));
                self.open(now, cooldown_ms);
                Some(Transition::Reopened { cooldown_ms })
            }
            (BreakerState::HalfOpen { .. }, Outcome::Neither) => self.release(),
            (BreakerState::Closed, Outcome::Neither) | (BreakerState::Open { .. }, _) => None,
        }
    }

    /// Takes the permit from a process that is gone: every one but `holder`.
    pub fn release_lost(&mut self, holder: u64) -> Option<Transition> {
        match self.kept.state {
            BreakerState::HalfOpen { permit, .. } if permit.holder != holder => self.release(),
            _ => None,
        }
    }

    /// The cool-down stays over, so the next call is the probe.
    fn release(&mut self) -> Option<Transition> {
        let BreakerState::HalfOpen { opened_at, until, cooldown_ms, .. } = self.kept.state else {
            return None;
        };
        self.turn(BreakerState::Open { opened_at, until, cooldown_ms });
        Some(Transition::Released)
    }

    fn open_if_failing(&mut self, now: Millis) -> Option<Transition> {
        let (failures, calls) = self.window.counts(now);
        let is_over =
            u64::from(failures) * 100 > u64::from(self.settings.threshold_percent) * u64::from(calls);
        if calls < self.settings.min_calls || !is_over {
            return None;
        }
        let cooldown_ms = self.capped(self.settings.cooldown_ms);
        self.open(now, cooldown_ms);
        Some(Transition::Opened { failures, calls, cooldown_ms })
    }

    fn open(&mut self, now: Millis, cooldown_ms: Millis) {
        self.turn(BreakerState::Open { opened_at: now, until: now.saturating_add(cooldown_ms), cooldown_ms });
    }

    fn capped(&self, cooldown_ms: Millis) -> Millis {
        cooldown_ms.min(self.settings.cooldown_max_ms).max(0)
    }

    /// Whatever was counted belongs to the state before.
    fn turn(&mut self, state: BreakerState) {
        self.kept = KeptBreaker { version: self.kept.version + 1, state };
        self.window = Window::new(self.settings.window_ms);
    }
}
