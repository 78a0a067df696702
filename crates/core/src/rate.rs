//! How often something may happen: so many times in a second or a minute, and so many at once.
//!
//! A bucket is one number, the time up to which its tokens are spent. Nothing runs while nobody asks.

use std::fmt;
use std::str::FromStr;

use crate::Millis;
use crate::limits::{RATE_BURST_MAX, RATE_COUNT_MAX};

/// A rate: how often, and how many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    per: Per,
    burst: u32,
    /// Among how many it is divided.
    among: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Per {
    Second,
    Minute,
}

impl Per {
    fn micros(self) -> i64 {
        match self {
            Self::Second => 1_000_000,
            Self::Minute => 60_000_000,
        }
    }
}

impl Rate {
    /// One of so many equal shares, so that all together keep to the rate. Each lets one come at once at least.
    #[must_use]
    pub fn among(self, shares: u32) -> Self {
        Self { among: shares.max(1), ..self }
    }

    /// How far apart two tokens come, in microseconds.
    fn interval(self) -> i64 {
        self.per.micros() * i64::from(self.among) / i64::from(self.count)
    }

    /// How far ahead of the clock a bucket may be spent, in microseconds.
    fn depth(self) -> i64 {
        self.interval() * i64::from((self.burst / self.among).max(1))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let told = || {
            format!(
                "'{text}' is not a rate; write 50/s or 600/m, or 50/s:100 to let 100 come at once \
                 (at most {RATE_COUNT_MAX}/s, at most {RATE_BURST_MAX} at once)"
            )
        };
        let (pace, burst) = text.split_once(':').map_or((text, None), |(pace, burst)| (pace, Some(burst)));
        let (count, per) = pace.split_once('/').ok_or_else(told)?;
        let per = match per {
            "s" => Per::Second,
            "m" => Per::Minute,
            _ => return Err(told()),
        };
        let within = |text: &str, most: u32| {
            let number: Option<u32> = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
            number.filter(|number| (1..=most).contains(number))
        };
        let count = within(count, RATE_COUNT_MAX).ok_or_else(told)?;
        let burst = match burst {
            Some(burst) => within(burst, RATE_BURST_MAX).ok_or_else(told)?,
            // What comes in one second may come at its beginning.
            None => u32::try_from(i64::from(count) * 1_000_000 / per.micros()).unwrap_or(1).max(1),
        };
        Ok(Self { count, per, burst, among: 1 })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = if self.per == Per::Second { 's' } else { 'm' };
        write!(f, "{}/{per}:{}", self.count, self.burst)
    }
}

/// The tokens of one who asks. Full at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The time in microseconds up to which tokens are spent.
    spent: i64,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { spent: i64::MIN }
    }
}

impl Bucket {
    /// Takes a token, or tells in how many milliseconds there will be one. A refusal takes nothing.
    pub fn take(&mut self, rate: Rate, now: Millis) -> Result<(), Millis> {
        let now = now.saturating_mul(1000);
        // A clock that was put back would leave the bucket spent far into the future; it is empty at the worst.
        self.spent = self.spent.min(now.saturating_add(rate.depth()));
        let after = self.spent.max(now).saturating_add(rate.interval());
        let wait = after.saturating_sub(now.saturating_add(rate.depth()));
        if wait > 0 {
            return Err(wait.div_euclid(1000) + Millis::from(wait.rem_euclid(1000) > 0));
        }
        self.spent = after;
        Ok(())
    }

    /// Gives back a token that was taken for nothing.
    pub fn give_back(&mut self, rate: Rate) {
        self.spent = self.spent.saturating_sub(rate.interval());
    }

    /// Whether it is as full as one that nobody has used.
    pub fn is_full(&self, now: Millis) -> bool {
        self.spent <= now.saturating_mul(1000)
    }
}
