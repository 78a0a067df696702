//! The ladder: how a question goes on that nobody answers.
//!
//! People are told at once, reminded at fixed intervals, others are told at the rungs, and when the last interval has
//! passed a fallback takes the answer's place. Everything here only computes: the same question asked at the same time
//! has the same instants whatever was down meanwhile.
//!
//! The names on the wire and on disk are those of OpenIntent's RFC-0025 and RFC-0026, wherever a ladder is written down.

mod cascade;
mod read;

use serde::{Deserialize, Serialize};

pub(crate) use cascade::INTERVAL;
pub use cascade::{Unfit, cascade};

use crate::{Json, Millis};

/// What happens when nobody has answered in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackPolicy {
    /// The node fails.
    Fail,
    /// The fallback value is taken for the answer.
    CompleteWithFallback,
    /// The fallback value is taken for the answer.
    UseDefaultAndContinue,
}

impl FallbackPolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Fail, Self::CompleteWithFallback, Self::UseDefaultAndContinue];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::CompleteWithFallback => "complete_with_fallback",
            Self::UseDefaultAndContinue => "use_default_and_continue",
        }
    }

    /// Whether it takes a value for the answer.
    pub fn needs_value(self) -> bool {
        self != Self::Fail
    }
}

/// How the instants of the attempts follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// One interval after the other.
    #[default]
    Fixed,
}

/// Who is told at one attempt in place of those who usually are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rung {
    /// At which attempt, from 1.
    pub attempt: u32,
    /// By which channel.
    pub channel_hint: String,
    /// Whom; nobody else than usual if it is missing.
    #[serde(default)]
    pub notify_to: Option<String>,
}

/// What one level says about unanswered questions. What it does not say comes from the level above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HumanRetryPolicy {
    /// How often people are told, the first time included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The time between two attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u32>,
    /// How the attempts follow each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Who else is told, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation_ladder: Option<Vec<Rung>>,
    /// What happens in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_fallback_policy: Option<FallbackPolicy>,
}

/// What a question itself says about being unanswered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LadderCall {
    /// The window of an attempt.
    pub timeout_seconds: Option<u32>,
    /// What happens in the end.
    pub fallback_policy: Option<FallbackPolicy>,
    /// What is taken for the answer then.
    pub fallback_value: Option<Json>,
    /// By which channel people are told.
    pub channel_hint: Option<String>,
    /// Whom is told.
    pub notify_to: Option<String>,
    /// The policy of this question.
    pub retry_policy: Option<HumanRetryPolicy>,
}

/// Where a field of a ladder comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nobody said anything.
    #[default]
    Default,
    /// The server's operator.
    Platform,
    /// The agent that asks.
    Agent,
    /// The question itself.
    Call,
}

/// Where each field of a ladder comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levels {
    /// Of `max_attempts`.
    pub max_attempts: Level,
    /// Of `interval_seconds`.
    pub interval_seconds: Level,
    /// Of `strategy`.
    pub strategy: Level,
    /// Of `escalation_ladder`.
    pub escalation_ladder: Level,
    /// Of `final_fallback_policy`.
    pub final_fallback_policy: Level,
}

/// The ladder of one question, with nothing left open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// How often people are told, the first time included.
    pub max_attempts: u32,
    /// The time between two attempts, and after the last; for ever if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u32>,
    /// How the attempts follow each other.
    pub strategy: Strategy,
    /// Who else is told, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalation_ladder: Vec<Rung>,
    /// What happens in the end.
    pub final_fallback_policy: FallbackPolicy,
    /// What is taken for the answer then, as the node receives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_value: Option<Json>,
    /// The window of an attempt, as the question gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// By which channel people are usually told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_hint: Option<String>,
    /// Who is usually told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_to: Option<String>,
    /// Where each field comes from.
    pub levels: Levels,
}

/// Who is told at one attempt, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LadderTarget<'a> {
    /// By which channel; the usual one if it is missing.
    pub channel_hint: Option<&'a str>,
    /// Whom; those who are asked if it is missing.
    pub notify_to: Option<&'a str>,
}

/// What comes next on a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// People are told again.
    Attempt(u32),
    /// Nobody has answered.
    Expiry,
}

impl Ladder {
    /// When an attempt is made, for a question of this time. Attempts beyond the last are never made.
    pub fn due(&self, asked: Millis, attempt: u32) -> Option<Millis> {
        match attempt {
            1 => Some(asked),
            2.. if attempt <= self.max_attempts => self.after(asked, attempt - 1),
            _ => None,
        }
    }

    /// When nobody has answered.
    pub fn expires_at(&self, asked: Millis) -> Option<Millis> {
        self.after(asked, self.max_attempts)
    }

    /// What follows this attempt, and when.
    pub fn next(&self, asked: Millis, attempt: u32) -> Option<(Next, Millis)> {
        match self.due(asked, attempt.saturating_add(1)) {
            Some(due) => Some((Next::Attempt(attempt + 1), due)),
            None => self.expires_at(asked).map(|due| (Next::Expiry, due)),
        }
    }

    /// The rung that an attempt reaches.
    pub fn rung(&self, attempt: u32) -> Option<&Rung> {
        self.escalation_ladder.iter().find(|rung| rung.attempt == attempt)
    }

    /// Who is told at an attempt, and how.
    pub fn target(&self, attempt: u32) -> LadderTarget<'_> {
        let rung = self.rung(attempt);
        let channel_hint = rung.map(|rung| rung.channel_hint.as_str()).or(self.channel_hint.as_deref());
        let notify_to = rung.and_then(|rung| rung.notify_to.as_deref()).or(self.notify_to.as_deref());
        LadderTarget { channel_hint, notify_to }
    }

    /// About how many bytes of it are kept.
    pub(crate) fn bytes(&self) -> usize {
        let rungs = self.escalation_ladder.iter();
        let rungs =
            rungs.map(|rung| rung.channel_hint.len() + rung.notify_to.as_ref().map_or(0, String::len));
        rungs.sum::<usize>() + self.fallback_value.as_ref().map_or(0, |value| value.text().len())
    }

    fn after(&self, asked: Millis, intervals: u32) -> Option<Millis> {
        let interval = Millis::from(self.interval_seconds?) * 1_000;
        Some(asked.saturating_add(interval.saturating_mul(Millis::from(intervals))))
    }
}
