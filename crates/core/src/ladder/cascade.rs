//! The cascade: what a question says, over what its agent says, over what the server's operator says, field by field.
//!
//! Only what contradicts itself within a level is wrong. What is inherited and does not fit is clamped, cut or without
//! effect, so that nobody's question fails for what somebody else wrote.

use super::{FallbackPolicy, HumanRetryPolicy, Ladder, LadderCall, Level, Levels};
use crate::{Json, Millis};

/// The key of the time between two attempts.
pub(crate) const INTERVAL: &str = "retry_policy.interval_seconds";

/// Why a question can't be asked with its ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Which key of the ladder.
    pub key: &'static str,
    /// What to change.
    pub message: String,
}

/// The ladder of a question that is given up after `timeout_ms`, if that is said.
pub fn cascade(
    platform: Option<&HumanRetryPolicy>,
    agent: Option<&HumanRetryPolicy>,
    call: Option<&LadderCall>,
    timeout_ms: Option<Millis>,
) -> Result<Ladder, Unfit> {
    let none = LadderCall::default();
    let call = call.unwrap_or(&none);
    let own = call.policy(platform.is_some() || agent.is_some());
    let policies = [(Level::Call, own.as_ref()), (Level::Agent, agent), (Level::Platform, platform)];
    let (attempts, attempts_level) = given(&policies, |policy| policy.max_attempts);
    let (interval, interval_level) = given(&policies, |policy| policy.interval_seconds);
    let (strategy, strategy_level) = given(&policies, |policy| policy.strategy);
    let (rungs, rungs_level) = given(&policies, |policy| policy.escalation_ladder.clone());
    let (fallback, fallback_level) = fallback(&policies, call.fallback_value.as_ref());

    // An interval that somebody else chose is no longer than the window of this question.
    let interval = match (interval, call.timeout_seconds) {
        (Some(interval), Some(timeout)) => Some(interval.min(timeout)),
        (interval, timeout) => interval.or(timeout),
    };
    let interval_level = match interval {
        Some(_) if interval_level == Level::Default => Level::Call,
        _ => interval_level,
    };
    let (max_attempts, attempts_level) = match (attempts, interval) {
        (Some(2..), None) if attempts_level == Level::Call => {
            let message = "there is no time between the attempts; add interval_seconds or timeout_seconds";
            return Err(Unfit { key: INTERVAL, message: message.to_owned() });
        }
        (Some(2..), None) => (1, Level::Default),
        (attempts, _) => (attempts.unwrap_or(1), attempts_level),
    };
    let ladder = Ladder {
        max_attempts,
        interval_seconds: interval,
        strategy: strategy.unwrap_or_default(),
        escalation_ladder: rungs.unwrap_or_default(),
        final_fallback_policy: fallback,
        fallback_value: call.fallback_value.clone().filter(|_| fallback.needs_value()),
        timeout_seconds: call.timeout_seconds,
        channel_hint: call.channel_hint.clone(),
        notify_to: call.notify_to.clone(),
        levels: Levels {
            max_attempts: attempts_level,
            interval_seconds: interval_level,
            strategy: strategy_level,
            escalation_ladder: rungs_level,
            final_fallback_policy: fallback_level,
        },
    };
    check_length(&ladder, timeout_ms)?;
    Ok(ladder)
}

impl LadderCall {
    /// Its policy. A fallback by itself is a policy of one attempt if nobody has one; beside another's it is the last
    /// word of that one.
    fn policy(&self, others: bool) -> Option<HumanRetryPolicy> {
        match (&self.retry_policy, self.fallback_policy) {
            (Some(policy), fallback) => Some(HumanRetryPolicy {
                final_fallback_policy: policy.final_fallback_policy.or(fallback),
                ..policy.clone()
            }),
            (None, Some(fallback)) => Some(HumanRetryPolicy {
                max_attempts: (!others).then_some(1),
                final_fallback_policy: Some(fallback),
                ..HumanRetryPolicy::default()
            }),
            (None, None) => None,
        }
    }
}

type Policies<'a> = [(Level, Option<&'a HumanRetryPolicy>); 3];

/// A field as the lowest level that gives it says.
fn given<T>(policies: &Policies<'_>, field: impl Fn(&HumanRetryPolicy) -> Option<T>) -> (Option<T>, Level) {
    let found = policies.iter().find_map(|(level, policy)| Some((field((*policy)?)?, *level)));
    found.map_or((None, Level::Default), |(value, level)| (Some(value), level))
}

/// What happens in the end. One that needs a value is passed over if the question has none: a question that wants it
/// is refused when it is read.
fn fallback(policies: &Policies<'_>, value: Option<&Json>) -> (FallbackPolicy, Level) {
    match given(policies, |policy| policy.final_fallback_policy) {
        (Some(policy), level) if value.is_some() || !policy.needs_value() => (policy, level),
        _ => (FallbackPolicy::Fail, Level::Default),
    }
}

/// A question's own ladder has to end before the question does. An inherited one is cut.
fn check_length(ladder: &Ladder, timeout_ms: Option<Millis>) -> Result<(), Unfit> {
    let levels = &ladder.levels;
    let own =
        levels.interval_seconds == Level::Call && matches!(levels.max_attempts, Level::Call | Level::Default);
    let (Some(timeout), Some(length)) = (timeout_ms, ladder.expires_at(0)) else { return Ok(()) };
    if own && length > timeout {
        let message = format!(
            "the ladder lasts {length} ms, but the question is given up after {timeout} ms (timeoutMs); shorten it"
        );
        return Err(Unfit { key: "retry_policy", message });
    }
    Ok(())
}
