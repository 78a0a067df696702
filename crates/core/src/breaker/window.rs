//! How many calls there were in the last while, and how many of them failed.
//!
//! Calls are counted together by the part of the window they ended in, so memory does not grow with them. One is
//! forgotten with its part: a sixtieth of the window early at the most.

use std::collections::VecDeque;

use crate::Millis;

/// Parts of a window: a minute's are a second each.
const PARTS: Millis = 60;

/// The parts in which there were calls, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Window {
    part_ms: Millis,
    parts: VecDeque<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    /// Which part of all time.
    number: Millis,
    failures: u32,
    calls: u32,
}

impl Window {
    pub(super) fn new(window_ms: Millis) -> Self {
        let part_ms = (window_ms.saturating_add(PARTS - 1) / PARTS).max(1);
        Self { part_ms, parts: VecDeque::new() }
    }

    pub(super) fn count(&mut self, now: Millis, failed: bool) {
        let number = now.div_euclid(self.part_ms);
        self.follow_clock(number);
        while self.parts.front().is_some_and(|part| is_past(part.number, number)) {
            self.parts.pop_front();
        }
        if self.parts.back().is_none_or(|last| last.number < number) {
            self.parts.push_back(Part { number, failures: 0, calls: 0 });
        }
        if let Some(last) = self.parts.back_mut() {
            last.calls = last.calls.saturating_add(1);
            last.failures = last.failures.saturating_add(u32::from(failed));
        }
    }

    /// Failures and calls.
    pub(super) fn counts(&self, now: Millis) -> (u32, u32) {
        let number = now.div_euclid(self.part_ms);
        let sum = |(failures, calls): (u32, u32), part: &Part| {
            (failures.saturating_add(part.failures), calls.saturating_add(part.calls))
        };
        self.parts.iter().filter(|part| !is_past(part.number, number)).fold((0, 0), sum)
    }

    /// If the clock was set back, what was counted goes along with it: else it would count until the clock has caught up.
    fn follow_clock(&mut self, number: Millis) {
        let ahead = self.parts.back().map_or(0, |last| last.number.saturating_sub(number));
        if ahead > 0 {
            self.parts.iter_mut().for_each(|part| part.number = part.number.saturating_sub(ahead));
        }
    }
}

fn is_past(number: Millis, now: Millis) -> bool {
    now.saturating_sub(number) >= PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_forgotten_a_window_later() {
        let mut window = Window::new(60_000);
        window.count(0, true);
        window.count(30_000, false);
        assert_eq!([0, 59_999, 60_000, 89_999, 90_000].map(|now| window.counts(now).1), [2, 2, 1, 1, 0]);
    }

    #[test]
    fn memory_does_not_grow_with_calls() {
        let mut window = Window::new(60_000);
        (0..100_000).for_each(|now| window.count(now * 7, now % 3 == 0));
        assert!(window.parts.len() <= 60, "{}", window.parts.len());
        assert_eq!(Window::new(Millis::MAX).part_ms, (Millis::MAX) / PARTS);
    }

    #[test]
    fn calls_before_a_clock_was_set_back_are_forgotten_a_window_after_it() {
        let mut window = Window::new(60_000);
        window.count(1_000_000_000, true);
        window.count(5_000, true);
        assert_eq!(window.counts(5_000), (2, 2));
        assert_eq!(window.counts(64_999), (2, 2));
        assert_eq!(window.counts(65_000), (0, 0));
    }
}
