//! How long a turn waits for its provider before it tries again.
//!
//! The schedule only computes: the wait itself is a timer of the run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::Millis;

/// The waits before retries, and how long they may be together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The first waits, in order.
    pub steps_ms: Cow<'static, [Millis]>,
    /// Every wait after those.
    pub tail_ms: Millis,
    /// All waits together are at most this long. It counts what was scheduled, not what a clock saw.
    pub budget_ms: Millis,
}

/// 5 s, 10 s, 30 s, 60 s, 5 min, 10 min, 15 min, 30 min.
const STEPS_MS: &[Millis] = &[5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 900_000, 1_800_000];
/// 30 minutes.
const TAIL_MS: Millis = 1_800_000;
/// 8 hours.
const BUDGET_MS: Millis = 8 * 60 * 60 * 1_000;

impl Default for Schedule {
    fn default() -> Self {
        Self { steps_ms: Cow::Borrowed(STEPS_MS), tail_ms: TAIL_MS, budget_ms: BUDGET_MS }
    }
}

impl Schedule {
    /// The wait before a retry, counted from 0; `None` if the budget is spent. Waits that make up exactly the budget
    /// are within it.
    pub fn delay_for(&self, attempt: u32) -> Option<Millis> {
        (self.cumulative_ms(attempt) <= self.budget_ms).then(|| self.step(attempt))
    }

    /// All waits up to and including that of a retry.
    pub fn cumulative_ms(&self, attempt: u32) -> Millis {
        let steps = u32::try_from(self.steps_ms.len()).unwrap_or(u32::MAX);
        let told = self.steps_ms.iter().take(attempt as usize + 1);
        let head = told.fold(0, |sum: Millis, &ms| sum.saturating_add(ms));
        let beyond = (i64::from(attempt) + 1 - i64::from(steps)).max(0);
        head.saturating_add(self.tail_ms.saturating_mul(beyond))
    }

    fn step(&self, attempt: u32) -> Millis {
        self.steps_ms.get(attempt as usize).copied().unwrap_or(self.tail_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(steps: &'static [Millis], tail_ms: Millis, budget_ms: Millis) -> Schedule {
        Schedule { steps_ms: Cow::Borrowed(steps), tail_ms, budget_ms }
    }

    #[test]
    fn the_first_eight_waits_are_stepped() {
        let waits: Vec<Millis> = (0..8).map_while(|attempt| Schedule::default().delay_for(attempt)).collect();
        let seconds = [5, 10, 30, 60, 5 * 60, 10 * 60, 15 * 60, 30 * 60];
        assert_eq!(waits, seconds.map(|s: Millis| s * 1_000));
    }

    #[test]
    fn every_later_wait_is_half_an_hour() {
        let usual = Schedule::default();
        assert_eq!([8, 13, 20].map(|attempt| usual.delay_for(attempt)), [Some(1_800_000); 3]);
    }

    #[test]
    fn waits_are_summed_up_to_and_including_the_attempt() {
        let usual = Schedule::default();
        assert_eq!([0, 1, 7, 8].map(|n| usual.cumulative_ms(n)), [5_000, 15_000, 3_705_000, 5_505_000]);
    }

    #[test]
    fn twenty_one_retries_fit_into_eight_hours() {
        let usual = Schedule::default();
        assert_eq!(usual.budget_ms, 28_800_000);
        let waits: Vec<Millis> = (0..).map_while(|attempt| usual.delay_for(attempt)).collect();
        assert_eq!((waits.len(), waits.iter().sum::<Millis>()), (21, 27_105_000));
        assert_eq!(usual.delay_for(21), None);
    }

    #[test]
    fn waits_that_make_up_exactly_the_budget_are_within_it() {
        assert_eq!(of(&[10, 20], 5, 30).delay_for(1), Some(20));
        assert_eq!(of(&[10, 20], 5, 29).delay_for(1), None);
        assert_eq!(of(&[10, 20], 5, 35).delay_for(2), Some(5));
        assert_eq!(of(&[10, 20], 5, 34).delay_for(2), None);
    }

    #[test]
    fn huge_attempts_give_up_and_nothing_overflows() {
        let usual = Schedule::default();
        assert_eq!([u32::MAX, u32::MAX - 1, 1 << 31].map(|n| usual.delay_for(n)), [None; 3]);
        let endless = of(&[Millis::MAX, Millis::MAX], Millis::MAX, Millis::MAX);
        assert_eq!(endless.delay_for(u32::MAX), Some(Millis::MAX));
        assert_eq!(
            of(&[], 0, 0).delay_for(u32::MAX),
            Some(0),
            "a schedule without waits never spends anything"
        );
    }

    #[test]
    fn the_same_attempt_has_the_same_wait_in_any_order() {
        let usual = Schedule::default();
        let forwards: Vec<_> = (0..40).map(|n| usual.delay_for(n)).collect();
        let backwards: Vec<_> = (0..40).rev().map(|n| usual.delay_for(n)).collect();
        assert_eq!(forwards, backwards.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_schedule_without_budget_never_retries() {
        assert_eq!(of(&[1], 1, 0).delay_for(0), None);
    }
}
