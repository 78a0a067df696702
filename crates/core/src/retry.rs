//! When a failed node is tried again, and how long it waits before.
//!
//! The policy only computes. Whether a failure may be retried at all, and the timer, are the caller's.

use crate::fields::{Fields, Findings};
use crate::limits::{AGENT_NAME_CHARS_MAX, RETRIES_MAX, RETRY_DELAY_MS_MAX};
use crate::{Json, Millis, sha256};

/// How a node is retried, as it is written in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How the delay grows from one retry to the next.
    pub strategy: RetryStrategy,
    /// Retries after the first attempt.
    pub max_retries: u32,
    /// The delay that the strategy starts from.
    pub base_delay_ms: Millis,
    /// No delay is longer than this one.
    pub max_delay_ms: Millis,
    /// Whether each delay is shortened by up to a half, so that nodes that failed together come back apart.
    pub jitter: bool,
    /// The agent that takes over when there are no retries left.
    pub fallback_agent: Option<String>,
}

/// How the delay grows from one retry to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryStrategy {
    /// There are no retries.
    None,
    /// Every delay is the base delay.
    Fixed,
    /// The base delay times the number of the retry.
    Linear,
    /// The base delay, doubled with every retry.
    Exponential,
}

impl RetryStrategy {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let name = fields.optional_text("strategy")?;
        let known = [
            ("none", Self::None),
            ("fixed", Self::Fixed),
            ("linear", Self::Linear),
            ("exponential", Self::Exponential),
        ];
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, strategy)| *strategy);
        if found.is_none() {
            let place = fields.place("strategy");
            fields.findings().objection(place, "use none, fixed, linear or exponential");
        }
        found
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            strategy: RetryStrategy::Exponential,
            max_retries: 3,
            base_delay_ms: 1_000,
            max_delay_ms: 60_000,
            jitter: true,
            fallback_agent: None,
        }
    }
}

impl RetryPolicy {
    /// Reads a policy; what is wrong with it is an objection.
    pub(crate) fn read(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut own = Findings::default();
        let policy = Fields::of(json, place, &mut own).map(|mut fields| {
            let usual = Self::default();
            let policy = Self {
                strategy: RetryStrategy::read(&mut fields).unwrap_or(usual.strategy),
                max_retries: fields
                    .optional_whole("maxRetries", 0..=i64::from(RETRIES_MAX))
                    .and_then(|most| u32::try_from(most).ok())
                    .unwrap_or(usual.max_retries),
                base_delay_ms: fields
                    .optional_whole("baseDelayMs", 0..=RETRY_DELAY_MS_MAX)
                    .unwrap_or(usual.base_delay_ms),
                max_delay_ms: fields
                    .optional_whole("maxDelayMs", 0..=RETRY_DELAY_MS_MAX)
                    .unwrap_or(usual.max_delay_ms),
                jitter: fields.optional_flag("jitter").unwrap_or(usual.jitter),
                fallback_agent: crate::definition::names(
                    &mut fields,
                    "fallbackAgent",
                    AGENT_NAME_CHARS_MAX,
                    1,
                )
                .pop(),
            };
            fields.finish();
            policy
        });
        if let Some(policy) = policy.as_ref().filter(|policy| policy.base_delay_ms > policy.max_delay_ms) {
            let message = format!(
                "{} is longer than maxDelayMs ({}); lower it or raise maxDelayMs",
                policy.base_delay_ms, policy.max_delay_ms
            );
            own.objection(format!("{place}.baseDelayMs"), message);
        }
        own.all().into_iter().for_each(|problem| findings.objection(problem.place, problem.message));
        policy
    }

    /// The usual policy with so many retries.
    pub(crate) fn of_retries(max_retries: u32) -> Self {
        Self { max_retries, ..Self::default() }
    }

    /// The wait before a retry, counted from 1. `None` when there is no such retry.
    ///
    /// The same `seed` gives the same wait on every machine, so a replay finds the timers it expects.
    pub fn delay_for(&self, retry: u32, seed: &[u8]) -> Option<Millis> {
        if self.strategy == RetryStrategy::None || retry > self.max_retries {
            return None;
        }
        let full = self.full_delay(retry);
        Some(if self.jitter { jittered(full, retry, seed) } else { full })
    }

    /// The delay before jitter. A policy that was not checked may hold any numbers; none of them overflows.
    fn full_delay(&self, retry: u32) -> Millis {
        let factor = match self.strategy {
            RetryStrategy::None => 0,
            RetryStrategy::Fixed => 1,
            RetryStrategy::Linear => Millis::from(retry),
            RetryStrategy::Exponential => 2_i64.saturating_pow(retry.saturating_sub(1)),
        };
        self.base_delay_ms.max(0).saturating_mul(factor).min(self.max_delay_ms.max(0))
    }
}

/// A time between half of `full` and `full`, drawn from a hash.
pub(crate) fn jittered(full: Millis, retry: u32, seed: &[u8]) -> Millis {
    let hash = sha256(&[seed, &retry.to_be_bytes()].concat());
    let drawn = hash[..8].iter().fold(0_i128, |drawn, byte| drawn << 8 | i128::from(*byte));
    let half = full - full / 2;
    let share = i128::from(full / 2) * drawn / i128::from(u64::MAX);
    half + Millis::try_from(share).expect("a share of an i64 is an i64")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(text: &str) -> RetryPolicy {
        RetryPolicy::read(&serde_json::from_str(text).unwrap(), "retry", &mut Findings::default()).unwrap()
    }

    fn problems_of(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        RetryPolicy::read(&serde_json::from_str(text).unwrap(), "retry", &mut findings);
        findings.all().iter().map(ToString::to_string).collect()
    }

    fn policies() -> impl Strategy<Value = RetryPolicy> {
        let strategy = prop::sample::select(vec![
            RetryStrategy::Fixed,
            RetryStrategy::Linear,
            RetryStrategy::Exponential,
        ]);
        let delays = 0..=RETRY_DELAY_MS_MAX;
        (strategy, delays.clone(), delays, any::<bool>()).prop_map(|(strategy, one, other, jitter)| {
            RetryPolicy {
                strategy,
                max_retries: u32::MAX,
                base_delay_ms: one.min(other),
                max_delay_ms: one.max(other),
                jitter,
                fallback_agent: None,
            }
        })
    }

    #[test]
    fn an_empty_policy_has_the_defaults() {
        assert_eq!(policy("{}"), RetryPolicy::default());
        assert_eq!(
            policy("{}").delay_for(3, b"run").map(|delay| (2_000..=4_000).contains(&delay)),
            Some(true)
        );
        assert_eq!(policy("{}").delay_for(4, b"run"), None);
    }

    #[test]
    fn unknown_keys_and_strategies_are_refused() {
        for (text, problem) in [
            (r#"{"retries": 3}"#, "retry.retries: there is no 'retries' here; did you mean 'maxRetries'?"),
            (r#"{"maxRetry": 3}"#, "retry.maxRetry: there is no 'maxRetry' here; did you mean 'maxRetries'?"),
            (r#"{"strategy": "random"}"#, "retry.strategy: use none, fixed, linear or exponential"),
            (r#"{"maxRetries": -1}"#, "retry.maxRetries: a whole number from 0 to 100 is expected"),
            (
                r#"{"maxDelayMs": 604800001}"#,
                "retry.maxDelayMs: a whole number from 0 to 604800000 is expected",
            ),
            (
                r#"{"baseDelayMs": 9, "maxDelayMs": 8}"#,
                "retry.baseDelayMs: 9 is longer than maxDelayMs (8); lower it or raise maxDelayMs",
            ),
            ("[]", "retry: an object is expected here, not an array"),
        ] {
            assert_eq!(problems_of(text), [problem], "{text}");
        }
        assert_eq!(problems_of(r#"{"maxRetries": 100, "baseDelayMs": 0, "maxDelayMs": 604800000}"#), [""; 0]);
    }

    #[test]
    fn each_strategy_grows_in_its_own_way() {
        let delays = |strategy: &str| -> Vec<Millis> {
            let text = format!(
                r#"{{"strategy": "{strategy}", "maxRetries": 5, "baseDelayMs": 10, "maxDelayMs": 45, "jitter": false}}"#
            );
            (1..=6).map_while(|retry| policy(&text).delay_for(retry, b"")).collect()
        };
        assert_eq!(delays("fixed"), [10, 10, 10, 10, 10]);
        assert_eq!(delays("linear"), [10, 20, 30, 40, 45]);
        assert_eq!(delays("exponential"), [10, 20, 40, 45, 45]);
        assert_eq!(delays("none"), [] as [Millis; 0]);
    }

    #[test]
    fn jitter_differs_between_seeds_and_between_retries() {
        let fixed = policy(r#"{"strategy": "fixed", "baseDelayMs": 60000}"#);
        assert_ne!(fixed.delay_for(1, b"one"), fixed.delay_for(1, b"other"));
        assert_ne!(fixed.delay_for(1, b"one"), fixed.delay_for(2, b"one"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn without_jitter_delays_never_shrink(policy in policies(), retry in 1..u32::MAX) {
            let policy = RetryPolicy { jitter: false, ..policy };
            prop_assert!(policy.delay_for(retry, b"") <= policy.delay_for(retry + 1, b""));
        }

        #[test]
        fn jitter_keeps_between_half_and_full(policy in policies(), retry: u32, seed: [u8; 8]) {
            let full = RetryPolicy { jitter: false, ..policy.clone() }.delay_for(retry, &seed).unwrap();
            let delay = RetryPolicy { jitter: true, ..policy }.delay_for(retry, &seed).unwrap();
            prop_assert!(delay <= full && delay >= full - full / 2, "{delay} of {full}");
        }

        #[test]
        fn no_delay_is_above_the_cap(policy in policies(), retry: u32, seed: [u8; 8]) {
            prop_assert!(policy.delay_for(retry, &seed).unwrap() <= policy.max_delay_ms);
        }

        #[test]
        fn a_delay_is_the_same_when_asked_again(policy in policies(), retry: u32, seed: [u8; 8]) {
            prop_assert_eq!(policy.delay_for(retry, &seed), policy.clone().delay_for(retry, &seed));
        }

        #[test]
        fn unchecked_numbers_do_not_overflow(policy in policies(), base: i64, max: i64, seed: [u8; 8]) {
            let policy = RetryPolicy { base_delay_ms: base, max_delay_ms: max, ..policy };
            for retry in [0, 1, 64, u32::MAX] {
                let delay = policy.delay_for(retry, &seed).unwrap();
                prop_assert!((0..=max.max(0)).contains(&delay), "{delay}");
            }
        }
    }
}
