//! Reading what a level says. Every shape is closed, and what contradicts itself within a level is refused.

use std::ops::RangeInclusive;

use super::{FallbackPolicy, HumanRetryPolicy, LadderCall, Rung, Strategy};
use crate::fields::{Fields, Findings, ROOT};
use crate::limits::{CHANNEL_HINT_CHARS_MAX, LADDER_ATTEMPTS_MAX, LADDER_SECONDS_MAX, PRINCIPAL_CHARS_MAX};
use crate::{Json, Problem};

impl HumanRetryPolicy {
    /// Reads a policy that stands by itself. The places of problems are its keys.
    pub fn read(json: &Json) -> Result<Self, Vec<Problem>> {
        let mut findings = Findings::about("retry_policy");
        let policy = Self::read_at(json, ROOT, &mut findings);
        match (policy, findings.all()) {
            (Some(policy), problems) if problems.is_empty() => Ok(policy),
            (_, problems) => Err(problems),
        }
    }

    fn read_at(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut fields = Fields::of(json, place, findings)?;
        let max_attempts = whole(&mut fields, "max_attempts", 1..=i64::from(LADDER_ATTEMPTS_MAX));
        let interval_seconds = whole(&mut fields, "interval_seconds", 1..=i64::from(LADDER_SECONDS_MAX));
        let strategy = word(&mut fields, "strategy", &[("fixed", Strategy::Fixed)]);
        let escalation_ladder = rungs(&mut fields, max_attempts);
        let final_fallback_policy = word(&mut fields, "final_fallback_policy", &fallback_policies());
        fields.finish();
        Some(Self { max_attempts, interval_seconds, strategy, escalation_ladder, final_fallback_policy })
    }
}

impl LadderCall {
    /// Reads what a question says; what is wrong with it is all told at once.
    pub fn parse(json: &Json) -> Result<Self, Vec<Problem>> {
        let mut findings = Findings::default();
        let call = Self::read(json, "ladder", &mut findings);
        let problems = findings.all();
        match call {
            Some(call) if problems.is_empty() => Ok(call),
            _ => Err(problems),
        }
    }

    /// Reads what a question says. Whatever is wrong with it keeps a definition from being admitted.
    pub(crate) fn read(json: &Json, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut own = Findings::default();
        let call = Fields::of(json, place, &mut own).map(|mut fields| {
            let timeout_seconds = whole(&mut fields, "timeout_seconds", 1..=i64::from(LADDER_SECONDS_MAX));
            let fallback_policy = word(&mut fields, "fallback_policy", &fallback_policies());
            let fallback_value = fields.optional("fallback_value");
            let channel_hint = name(&mut fields, "channel_hint", CHANNEL_HINT_CHARS_MAX);
            let notify_to = name(&mut fields, "notify_to", PRINCIPAL_CHARS_MAX);
            let policy = fields.optional("retry_policy");
            let below = fields.place("retry_policy");
            let retry_policy =
                policy.and_then(|json| HumanRetryPolicy::read_at(&json, &below, fields.findings()));
            let call = Self {
                timeout_seconds,
                fallback_policy,
                fallback_value,
                channel_hint,
                notify_to,
                retry_policy,
            };
            call.check(&mut fields);
            fields.finish();
            call
        });
        own.all().into_iter().for_each(|Problem { place, message }| findings.objection(place, message));
        call
    }

    /// What contradicts itself.
    fn check(&self, fields: &mut Fields<'_>) {
        let policy = self.retry_policy.as_ref();
        let interval = policy.and_then(|policy| policy.interval_seconds);
        if let (Some(interval), Some(timeout)) = (interval, self.timeout_seconds)
            && interval > timeout
        {
            let place = fields.place("retry_policy.interval_seconds");
            let message = format!("{interval} is more than timeout_seconds, which is {timeout}; lower it");
            fields.findings().problem(place, message);
        }
        let inner = policy.and_then(|policy| policy.final_fallback_policy);
        let outer = self.fallback_policy.map(|fallback| ("fallback_policy", fallback));
        let last = inner.map(|fallback| ("retry_policy.final_fallback_policy", fallback)).or(outer);
        if let Some((key, fallback)) = last
            && fallback.needs_value()
            && self.fallback_value.is_none()
        {
            let place = fields.place("fallback_value");
            let message = format!("'fallback_value' is missing; {key} {} needs one", fallback.name());
            fields.findings().problem(place, message);
        }
    }
}

fn fallback_policies() -> [(&'static str, FallbackPolicy); 3] {
    FallbackPolicy::ALL.map(|policy| (policy.name(), policy))
}

fn rungs(fields: &mut Fields<'_>, max_attempts: Option<u32>) -> Option<Vec<Rung>> {
    let list = fields.optional_list("escalation_ladder")?;
    let place = fields.place("escalation_ladder");
    if list.len() > LADDER_ATTEMPTS_MAX as usize {
        let message = format!("there are {} entries; {LADDER_ATTEMPTS_MAX} are allowed", list.len());
        fields.findings().problem(place, message);
        return None;
    }
    let mut rungs: Vec<Rung> = Vec::new();
    for (index, json) in list.iter().enumerate() {
        let place = format!("{place}.{index}");
        let Some(rung) = rung(json, &place, fields.findings()) else { continue };
        let at = rung.attempt;
        if rungs.iter().any(|other| other.attempt == at) {
            let message = format!("there is an entry for attempt {at} already; keep one");
            fields.findings().problem(format!("{place}.attempt"), message);
        }
        if let Some(most) = max_attempts.filter(|most| at > *most) {
            let message =
                format!("there is no attempt {at}: max_attempts is {most}; raise it, or lower this");
            fields.findings().problem(format!("{place}.attempt"), message);
        }
        rungs.push(rung);
    }
    Some(rungs)
}

fn rung(json: &Json, place: &str, findings: &mut Findings) -> Option<Rung> {
    let mut fields = Fields::of(json, place, findings)?;
    let given = fields.required("attempt");
    let attempt = given.and_then(|json| {
        let range = 1..=i64::from(LADDER_ATTEMPTS_MAX);
        let number = json.parse::<i64>().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let place = fields.place("attempt");
            let message = format!("a whole number from 1 to {LADDER_ATTEMPTS_MAX} is expected");
            fields.findings().problem(place, message);
        }
        number.and_then(|number| u32::try_from(number).ok())
    });
    let channel_hint = name(&mut fields, "channel_hint", CHANNEL_HINT_CHARS_MAX);
    let notify_to = name(&mut fields, "notify_to", PRINCIPAL_CHARS_MAX);
    if channel_hint.is_none() {
        let place = fields.place("channel_hint");
        fields.findings().problem(place, "'channel_hint' is missing; name a channel, such as email");
    }
    fields.finish();
    Some(Rung { attempt: attempt?, channel_hint: channel_hint?, notify_to })
}

/// A whole number, if it is there.
fn whole(fields: &mut Fields<'_>, key: &'static str, range: RangeInclusive<i64>) -> Option<u32> {
    fields.optional_whole(key, range).and_then(|number| u32::try_from(number).ok())
}

/// One of some words, if it is there.
fn word<T: Copy>(fields: &mut Fields<'_>, key: &'static str, known: &[(&'static str, T)]) -> Option<T> {
    let given = fields.optional_text(key)?;
    let found = known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
    if found.is_none() {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let place = fields.place(key);
        fields.findings().problem(place, format!("use {}", names.join(", ")));
    }
    found
}

/// A name, if it is there; an empty one is none.
fn name(fields: &mut Fields<'_>, key: &'static str, most: usize) -> Option<String> {
    let given = fields.optional_text(key).filter(|given| !given.is_empty())?;
    if given.chars().count() > most || given.chars().any(char::is_control) {
        let place = fields.place(key);
        let message = format!("it has more than {most} characters, or some that can't be shown; change it");
        fields.findings().problem(place, message);
        return None;
    }
    Some(given)
}
