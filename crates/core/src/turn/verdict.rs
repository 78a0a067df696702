//! Whether a call that failed is made again.

use std::collections::BTreeMap;

use crate::turn::{ErrorKind, ModelError, Schedule, Usage};
use crate::{Millis, limits};

/// What the operator says about a provider, as far as runs have to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderTerms {
    /// When calls that failed are made again; `None` if never.
    pub retry: Option<Schedule>,
    /// A provider may ask to be left alone for so long at most.
    pub retry_after_cap_ms: Millis,
    /// What models cost, by their names.
    pub prices: BTreeMap<String, Price>,
    /// The model that is called if nobody says.
    pub model: Option<String>,
}

impl Default for ProviderTerms {
    fn default() -> Self {
        Self {
            retry: Some(Schedule::default()),
            retry_after_cap_ms: limits::RETRY_AFTER_CAP_MS_USUAL,
            prices: BTreeMap::new(),
            model: None,
        }
    }
}

/// What a model costs, in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// What goes in.
    pub input: u64,
    /// What comes out.
    pub output: u64,
    /// What goes in and comes from a cache; as what goes in if it is not said.
    pub cached: Option<u64>,
}

impl Price {
    /// What this use costs, in millionths of a dollar, rounded to the nearest.
    pub fn of(&self, usage: Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let parts = [
            (usage.input_tokens - cached, self.input),
            (cached, self.cached.unwrap_or(self.input)),
            (usage.output_tokens, self.output),
        ];
        let costs = parts.iter().map(|&(tokens, price)| u128::from(tokens) * u128::from(price));
        let sum = costs.fold(500_000, u128::saturating_add);
        u64::try_from(sum / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// What becomes of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is made again after a wait.
    Retry { delay_ms: Millis },
    /// It would be made again, but has been often enough.
    Exhausted,
    /// It would not help.
    Final,
    /// Something was said before it failed, so it is not for the schedule to repeat it.
    BrokenOff,
}

impl ProviderTerms {
    /// Whether a call is made again after so many retries.
    ///
    /// What a provider asks for makes a wait longer, but is no part of the budget: that counts what was scheduled.
    pub(crate) fn verdict(&self, error: &ModelError, attempt: u32) -> Verdict {
        let may_pass = match error.kind {
            ErrorKind::Emitted { retryable } => retryable == Some(true),
            ErrorKind::Thrown | ErrorKind::Crashed => true,
            ErrorKind::Aborted => false,
        };
        if !may_pass {
            return Verdict::Final;
        }
        if error.had_content {
            return Verdict::BrokenOff;
        }
        let Some(schedule) = &self.retry else { return Verdict::Final };
        match schedule.delay_for(attempt) {
            Some(delay) => {
                let asked = error.retry_after_ms.unwrap_or(0).min(self.retry_after_cap_ms);
                Verdict::Retry { delay_ms: delay.max(asked) }
            }
            None => Verdict::Exhausted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind, had_content: bool) -> ModelError {
        ModelError { message: "overloaded".to_owned(), code: None, kind, had_content, retry_after_ms: None }
    }

    const OVERLOADED: ErrorKind = ErrorKind::Emitted { retryable: Some(true) };

    fn usual(error: &ModelError, attempt: u32) -> Verdict {
        ProviderTerms::default().verdict(error, attempt)
    }

    #[test]
    fn an_emitted_error_is_retried_if_it_says_so() {
        assert_eq!(usual(&error(OVERLOADED, false), 0), Verdict::Retry { delay_ms: 5_000 });
        for retryable in [Some(false), None] {
            assert_eq!(usual(&error(ErrorKind::Emitted { retryable }, false), 0), Verdict::Final);
        }
    }

    #[test]
    fn a_thrown_error_is_retried_before_content() {
        assert_eq!(usual(&error(ErrorKind::Thrown, false), 1), Verdict::Retry { delay_ms: 10_000 });
    }

    #[test]
    fn nothing_is_retried_after_content() {
        for kind in [OVERLOADED, ErrorKind::Thrown, ErrorKind::Crashed] {
            assert_eq!(usual(&error(kind, true), 0), Verdict::BrokenOff);
        }
    }

    #[test]
    fn without_a_strategy_there_is_no_retry_at_all() {
        let terms = ProviderTerms { retry: None, ..ProviderTerms::default() };
        assert_eq!(terms.verdict(&error(OVERLOADED, false), 0), Verdict::Final);
    }

    #[test]
    fn a_strategy_that_gives_nothing_at_all_ends_it_at_once() {
        let never = Schedule { budget_ms: 0, ..Schedule::default() };
        let terms = ProviderTerms { retry: Some(never), ..ProviderTerms::default() };
        assert_eq!(terms.verdict(&error(OVERLOADED, false), 0), Verdict::Exhausted);
    }

    #[test]
    fn the_budget_ends_it() {
        assert_eq!(usual(&error(OVERLOADED, false), 20), Verdict::Retry { delay_ms: 1_800_000 });
        assert_eq!(usual(&error(OVERLOADED, false), 21), Verdict::Exhausted);
    }

    #[test]
    fn a_provider_may_ask_for_a_longer_wait_but_not_for_any() {
        let asks = |ms| ModelError { retry_after_ms: Some(ms), ..error(OVERLOADED, false) };
        assert_eq!(usual(&asks(1_000), 0), Verdict::Retry { delay_ms: 5_000 });
        assert_eq!(usual(&asks(90_000), 0), Verdict::Retry { delay_ms: 90_000 });
        assert_eq!(usual(&asks(Millis::MAX), 0), Verdict::Retry { delay_ms: 3_600_000 });
    }

    #[test]
    fn prices_are_exact_to_the_millionth_of_a_dollar() {
        let price = Price { input: 3_000_000, output: 15_000_000, cached: Some(300_000) };
        let usage = Usage { input_tokens: 1_000, output_tokens: 200, cached_tokens: 400, ..Usage::default() };
        assert_eq!(price.of(usage), 1_800 + 120 + 3_000);
        let all = Usage { input_tokens: u64::MAX, output_tokens: u64::MAX, ..Usage::default() };
        assert_eq!(Price { input: u64::MAX, output: u64::MAX, cached: None }.of(all), u64::MAX);
        assert_eq!(price.of(Usage { cached_tokens: 9, ..Usage::default() }), 0, "no more than went in");
    }
}
