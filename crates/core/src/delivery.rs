//! Deliveries of events to webhooks: when one is tried again, when it is given up, and when a receiver is left alone.
//!
//! It only computes. What was tried and what came of it is the shell's and the store's to tell.

use crate::Millis;
use crate::limits::{
    DELIVERY_DELAYS_MS, WEBHOOK_BREAKER_FAILURES, WEBHOOK_FAILING_MS_MAX, WEBHOOK_FAILURES_MAX,
    WEBHOOK_OPEN_MS_MAX, WEBHOOK_OPEN_MS_MIN,
};
use crate::retry::jittered;

/// How long a delivery waits after so many attempts that failed, counted from 1. `None` when it is given up.
///
/// The same `seed` gives the same wait. Up to a half is taken off, so that deliveries that failed together come back
/// apart.
pub fn retry_after(attempts: u32, seed: &[u8]) -> Option<Millis> {
    let full = DELIVERY_DELAYS_MS.get(usize::try_from(attempts.checked_sub(1)?).ok()?)?;
    Some(jittered(*full, attempts, seed))
}

/// How the receiver of a webhook does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Failures in a row.
    pub failures: u32,
    /// When the first of them was.
    pub failing_since: Option<Millis>,
    /// How often in a row the breaker opened.
    pub openings: u32,
    /// Until when nothing is tried.
    pub open_until: Option<Millis>,
    /// Whether nothing is tried any more, until somebody enables the webhook.
    pub failed: bool,
}

/// What may be sent to a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Everything.
    Closed,
    /// Nothing until then.
    Open {
        /// When one delivery may try.
        until: Millis,
    },
    /// One delivery at a time, to see whether the receiver is back.
    HalfOpen,
    /// Nothing until somebody enables it.
    Failed,
}

impl Health {
    /// What may be sent now.
    pub fn gate(&self, now: Millis) -> Gate {
        match self.open_until {
            _ if self.failed => Gate::Failed,
            None => Gate::Closed,
            Some(until) if now < until => Gate::Open { until },
            Some(_) => Gate::HalfOpen,
        }
    }

    /// A delivery arrived. One that was under way when the webhook failed does not enable it.
    pub fn succeed(&mut self) {
        *self = Self { failed: self.failed, ..Self::default() };
    }

    /// A delivery did not arrive.
    pub fn fail(&mut self, now: Millis) {
        self.failures = self.failures.saturating_add(1);
        let since = *self.failing_since.get_or_insert(now);
        if self.failures < WEBHOOK_BREAKER_FAILURES {
            return;
        }
        if self.failures >= WEBHOOK_FAILURES_MAX || now.saturating_sub(since) >= WEBHOOK_FAILING_MS_MAX {
            self.failed = true;
        }
        // Others that were under way when it opened say nothing new.
        if !matches!(self.gate(now), Gate::Open { .. }) {
            self.openings = self.openings.saturating_add(1);
            self.open_until = Some(now.saturating_add(open_for(self.openings)));
        }
    }

    /// The receiver said that it is gone for good.
    pub fn give_up(&mut self, now: Millis) {
        self.fail(now);
        self.failed = true;
    }
}

/// How long the breaker stays open, the so-manieth time in a row.
fn open_for(openings: u32) -> Millis {
    let doubled = 2_i64.saturating_pow(openings.saturating_sub(1));
    WEBHOOK_OPEN_MS_MIN.saturating_mul(doubled).min(WEBHOOK_OPEN_MS_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR_MS: Millis = 3_600_000;

    #[test]
    fn a_delivery_is_tried_for_most_of_a_day_and_then_given_up() {
        let total: Millis = DELIVERY_DELAYS_MS.iter().sum();
        assert!((20 * HOUR_MS..24 * HOUR_MS).contains(&total));
        assert!(DELIVERY_DELAYS_MS.is_sorted());
        assert_eq!(retry_after(0, b"x"), None, "nothing has failed yet");
        assert!(retry_after(8, b"x").is_some());
        assert_eq!(retry_after(9, b"x"), None);
        assert_eq!(retry_after(u32::MAX, b"x"), None);
    }

    #[test]
    fn the_fourth_failure_in_a_row_opens_the_breaker_and_a_success_closes_it() {
        let mut health = Health::default();
        (0..3).for_each(|at| health.fail(at));
        assert_eq!(health.gate(3), Gate::Closed);
        health.fail(3);
        assert_eq!(health.gate(3), Gate::Open { until: 60_003 });
        health.fail(4);
        assert_eq!(health.gate(4), Gate::Open { until: 60_003 }, "it was under way before");
        assert_eq!(health.gate(60_003), Gate::HalfOpen);
        health.fail(60_003);
        assert_eq!(health.gate(60_003), Gate::Open { until: 180_003 }, "twice as long");
        health.succeed();
        assert_eq!(health, Health::default());
    }

    #[test]
    fn it_is_left_alone_for_an_hour_at_the_most() {
        let mut health = Health::default();
        let (mut now, mut waited) = (0, 0);
        for _ in 0..WEBHOOK_FAILURES_MAX - 1 {
            health.fail(now);
            assert!(!health.failed);
            waited = health.open_until.map_or(0, |until| until - now);
            now += waited;
        }
        assert_eq!(waited, HOUR_MS);
        health.fail(now);
        assert_eq!(health.gate(now), Gate::Failed);
        assert!((3 * 24 * HOUR_MS..5 * 24 * HOUR_MS).contains(&now), "which takes days: {now}");
    }

    #[test]
    fn it_fails_after_a_week_however_seldom_it_is_tried() {
        let mut health = Health::default();
        for day in 0..7 {
            health.fail(day * 24 * HOUR_MS);
            assert!(!health.failed, "day {day}");
        }
        health.fail(7 * 24 * HOUR_MS);
        assert!(health.failed);
        health.succeed();
        assert!(health.failed, "only somebody who enables it brings it back");
    }

    #[test]
    fn one_that_says_it_is_gone_is_tried_no_more() {
        let mut health = Health::default();
        health.give_up(7);
        assert_eq!(health.gate(i64::MAX), Gate::Failed);
    }

    proptest! {
        #[test]
        fn waits_are_between_half_and_all_of_what_the_schedule_says(attempts in 1_u32..9, seed: [u8; 8]) {
            let full = DELIVERY_DELAYS_MS[attempts as usize - 1];
            let wait = retry_after(attempts, &seed).unwrap();
            prop_assert!((full / 2..=full).contains(&wait), "{wait} of {full}");
            prop_assert_eq!(retry_after(attempts, &seed), Some(wait));
        }

        #[test]
        fn no_story_overflows_or_leaves_a_receiver_alone_for_longer_than_an_hour(
            story in prop::collection::vec((any::<bool>(), 0_i64..1 << 40), 0..300),
        ) {
            let (mut health, mut now) = (Health::default(), 0_i64);
            for (arrived, later) in story {
                now += later;
                if arrived { health.succeed() } else { health.fail(now) }
                if let Gate::Open { until } = health.gate(now) {
                    prop_assert!(until - now <= WEBHOOK_OPEN_MS_MAX);
                    prop_assert!(health.failures >= WEBHOOK_BREAKER_FAILURES);
                }
                prop_assert!(arrived == (health.failures == 0));
            }
        }
    }
}
