//! The schedule of a question, worked out from RFC-0025 and RFC-0026 and nothing of the code that is tested.
//!
//! Attempt 1 at once; attempt k at T0 + (k-1) x interval; expiry at T0 + interval x attempts; a call overrides its
//! agent, which overrides the platform, field by field; `timeoutMs` is a hard total.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The agent that asks.
pub(crate) const AGENT: &str = "scribe";

/// One level of the cascade.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    attempts: Option<u32>,
    interval: Option<u32>,
    rungs: Option<BTreeMap<u32, Option<String>>>,
    fallback: Option<&'static str>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Approval,
    Question,
    /// Something that may happen by itself, so long after the beginning.
    Event(Option<Millis>),
}

/// One question.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    kind: Kind,
    limit_ms: Option<Millis>,
    /// What it says itself, if it says anything.
    call: Option<CallSaid>,
}

#[derive(Clone, Debug)]
pub(crate) struct CallSaid {
    timeout: Option<u32>,
    fallback: Option<&'static str>,
    value: bool,
    channel: Option<&'static str>,
    to: Option<&'static str>,
    policy: Option<Said>,
}

/// Two questions, and what is said above them.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    platform: Option<Said>,
    agent: Option<Said>,
    notifies: bool,
    pub(crate) gates: Vec<Gate>,
}

/// How a question ends without an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Expiry(Millis),
    Timeout(Millis),
    /// It happened by itself.
    Occasion(Millis),
}

impl End {
    pub(crate) fn at(self) -> Millis {
        match self {
            Self::Expiry(at) | Self::Timeout(at) | Self::Occasion(at) => at,
        }
    }
}

/// Everything that is going to happen to a question that nobody answers.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    kind: Kind,
    /// Whether people are told at all.
    pub(crate) tells: bool,
    pub(crate) max_attempts: u32,
    /// The instants of the attempts, the first one first.
    instants: Vec<Millis>,
    pub(crate) end: Option<End>,
    /// From when on nobody can answer.
    pub(crate) deadline: Option<Millis>,
    /// When it is given up.
    pub(crate) limit: Option<Millis>,
    /// When it happens by itself.
    pub(crate) occasion: Option<Millis>,
    pub(crate) rungs: BTreeMap<u32, Option<String>>,
    channel: Option<&'static str>,
    to: Option<&'static str>,
    /// What the node receives if it expires; nothing if that fails it.
    pub(crate) fallback: Option<Value>,
}

const CHANNEL_OF_RUNGS: &str = "pager";

impl Schedule {
    /// When an attempt is made, if it ever is.
    pub(crate) fn instant(&self, attempt: u32) -> Option<Millis> {
        self.instants.get(attempt as usize - 1).copied()
    }

    /// How many attempts are due by a time.
    pub(crate) fn due_by(&self, time: Millis) -> usize {
        self.instants.iter().filter(|due| **due <= time).count()
    }

    /// The channel and the recipient of an attempt.
    pub(crate) fn target(&self, attempt: u32) -> (Option<&str>, Option<&str>) {
        match self.rungs.get(&attempt) {
            Some(to) => (Some(CHANNEL_OF_RUNGS), to.as_deref().or(self.to)),
            None => (self.channel, self.to),
        }
    }

    /// An answer, one that fits or not.
    pub(crate) fn answer(&self, sound: bool) -> Value {
        match (self.kind, sound) {
            (Kind::Approval, true) => json!({ "action": "accept" }),
            (Kind::Approval, false) => json!({ "action": "perhaps" }),
            (Kind::Question, true) => json!({ "answers": { "answer": "yes" } }),
            (Kind::Question, false) => json!({ "answers": { "answer": "" } }),
            (Kind::Event(_), true) => json!({ "eventPayload": { "paid": true } }),
            (Kind::Event(_), false) => json!("paid"),
        }
    }
}

impl Said {
    fn json(&self) -> Value {
        let mut json = json!({ "strategy": "fixed" });
        let mut put = |key: &str, value: Option<Value>| value.map(|value| json[key] = value);
        put("max_attempts", self.attempts.map(|number| json!(number)));
        put("interval_seconds", self.interval.map(|number| json!(number)));
        put("final_fallback_policy", self.fallback.map(|name| json!(name)));
        let rungs = self.rungs.as_ref().map(|rungs| {
            let entry = |(attempt, to): (&u32, &Option<String>)| {
                json!({ "attempt": attempt, "channel_hint": CHANNEL_OF_RUNGS, "notify_to": to })
            };
            rungs.iter().map(entry).collect::<Value>()
        });
        put("escalation_ladder", rungs);
        json
    }

    /// A rung beyond the attempts of the same level contradicts itself.
    fn is_sound(&self) -> bool {
        let last = self.rungs.iter().flat_map(|rungs| rungs.keys()).max();
        !matches!((self.attempts, last), (Some(most), Some(last)) if *last > most)
    }
}

impl Gate {
    pub(crate) fn sketch(&self, ix: usize) -> Sketch {
        let id = format!("gate{ix}");
        let gate = match self.kind {
            Kind::Approval => of_kind(&id, "core.approvalGate").config("title", json!("Pay?")),
            Kind::Question => {
                let question = json!([{ "id": "answer", "question": "Well?", "responseType": "text" }]);
                of_kind(&id, "core.clarificationGate").config("questions", question)
            }
            Kind::Event(occasion) => {
                let time = occasion.map(|ms| format!("scheduled-time:{}", abide_core::rfc3339(BEGIN + ms)));
                let event_type = time.unwrap_or_else(|| "paid".to_owned());
                of_kind(&id, "core.interrupt")
                    .config("kind", json!("external-event"))
                    .config("data", json!({ "eventType": event_type, "correlation": {} }))
            }
        };
        let gate = match self.limit_ms {
            Some(ms) => gate.config("timeoutMs", json!(ms)),
            None => gate,
        };
        let gate = gate.setting("agent", json!(AGENT));
        let Some(call) = &self.call else { return gate };
        let mut json = json!({});
        let mut put = |key: &str, value: Option<Value>| value.map(|value| json[key] = value);
        put("timeout_seconds", call.timeout.map(|number| json!(number)));
        put("fallback_policy", call.fallback.map(|name| json!(name)));
        put("fallback_value", call.value.then(|| self.value()));
        put("channel_hint", call.channel.map(|name| json!(name)));
        put("notify_to", call.to.map(|name| json!(name)));
        put("retry_policy", call.policy.as_ref().map(Said::json));
        gate.setting("ladder", json)
    }

    /// What is taken for an answer.
    fn value(&self) -> Value {
        match self.kind {
            Kind::Approval => json!({ "action": "reject" }),
            Kind::Question => json!({ "answers": { "answer": "none" } }),
            Kind::Event(_) => json!({ "eventPayload": { "paid": false } }),
        }
    }

    /// Whether what it says makes sense by itself.
    pub(crate) fn is_sound(&self) -> Result<(), &'static str> {
        let Some(call) = &self.call else { return Ok(()) };
        let policy = call.policy.clone().unwrap_or_default();
        if !policy.is_sound() {
            return Err("a rung beyond the attempts");
        }
        if policy.interval.zip(call.timeout).is_some_and(|(interval, timeout)| interval > timeout) {
            return Err("an interval beyond the window");
        }
        if policy.fallback.or(call.fallback).is_some_and(|last| last != "fail") && !call.value {
            return Err("a fallback without a value");
        }
        // Only a ladder that is all its own can be too long: how often, or how far apart, may come from elsewhere.
        let interval = policy.interval.or(call.timeout);
        let total = interval.map(|interval| i64::from(interval) * i64::from(policy.attempts.unwrap_or(1)));
        if total.zip(self.limit_ms).is_some_and(|(seconds, limit)| seconds * 1_000 > limit) {
            return Err("a ladder beyond the end");
        }
        Ok(())
    }
}

impl Case {
    pub(crate) fn defaults(&self) -> Surroundings {
        let read = |said: &Said| HumanRetryPolicy::read(&Json::of(&said.json())).expect("it is sound");
        Surroundings {
            platform: self.platform.as_ref().map(read),
            agents: self.agent.iter().map(|said| (AGENT.to_owned(), read(said))).collect(),
            notifies: self.notifies,
            ..Surroundings::default()
        }
    }

    /// What is going to happen to a question of this time, or why it is not asked.
    pub(crate) fn schedule(&self, gate: &Gate, asked: Millis) -> Result<Schedule, &'static str> {
        gate.is_sound()?;
        let limit = gate.limit_ms.map(|ms| asked + ms);
        let call = gate.call.as_ref();
        let own = call.and_then(|call| call.policy.clone());
        let levels = [own.clone(), self.agent.clone(), self.platform.clone()];
        let first = |field: &dyn Fn(&Said) -> Option<u32>| levels.iter().flatten().find_map(field);
        let above = self.agent.is_some() || self.platform.is_some() || self.notifies;
        let tells = call.is_some() || above && !matches!(gate.kind, Kind::Event(_));
        let timeout = call.and_then(|call| call.timeout);
        let interval = match (first(&|said| said.interval), timeout) {
            (Some(interval), Some(timeout)) => Some(interval.min(timeout)),
            (interval, timeout) => interval.or(timeout),
        };
        let mut attempts = first(&|said| said.attempts).unwrap_or(1);
        if attempts > 1 && interval.is_none() {
            // Nobody's question fails for what somebody else wrote.
            if own.as_ref().is_some_and(|own| own.attempts.is_some()) {
                return Err("no time between the attempts");
            }
            attempts = 1;
        }
        let seconds = |count: u32| i64::from(interval.unwrap_or(0)) * 1_000 * i64::from(count);
        let occasion = match gate.kind {
            Kind::Event(occasion) => occasion.map(|ms| asked + ms),
            _ => None,
        };
        let other = match (limit, occasion) {
            (limit, Some(occasion)) if limit.is_none_or(|limit| occasion < limit) => {
                Some(End::Occasion(occasion))
            }
            (limit, _) => limit.map(End::Timeout),
        };
        let before_end = |at: &Millis| other.is_none_or(|end| *at < end.at());
        let made = if tells { attempts } else { 1 };
        let instants = (0..made).map(|done| asked + seconds(done)).filter(before_end).collect();
        let whole = interval.map(|_| asked + seconds(attempts)).filter(|_| tells);
        let expiry = whole.filter(before_end);
        let last = own.as_ref().and_then(|own| own.fallback).or(call.and_then(|call| call.fallback));
        let inherited = levels[1..].iter().flatten().find_map(|said| said.fallback);
        let takes_value = last.or(inherited).is_some_and(|policy| policy != "fail");
        let rungs = levels.iter().flatten().find_map(|said| said.rungs.clone()).unwrap_or_default();
        Ok(Schedule {
            kind: gate.kind,
            tells,
            max_attempts: attempts,
            instants,
            end: expiry.map(End::Expiry).or(other),
            deadline: limit.into_iter().chain(whole).min(),
            limit,
            occasion,
            rungs: if tells { rungs } else { BTreeMap::new() },
            channel: call.and_then(|call| call.channel),
            to: call.and_then(|call| call.to),
            fallback: (takes_value && call.is_some_and(|call| call.value)).then(|| gate.value()),
        })
    }
}

fn policies() -> impl Strategy<Value = Option<&'static str>> {
    prop::option::of(prop::sample::select(vec!["fail", "complete_with_fallback", "use_default_and_continue"]))
}

fn said() -> impl Strategy<Value = Said> {
    let to = prop::option::of(Just("boss".to_owned()));
    let rungs = prop::option::of(prop::collection::btree_map(1..5u32, to, 0..3));
    (prop::option::of(1..5u32), prop::option::weighted(0.8, 1..20u32), rungs, policies())
        .prop_map(|(attempts, interval, rungs, fallback)| Said { attempts, interval, rungs, fallback })
}

/// What a level above a question says: it is read by itself, and makes sense.
fn sound() -> impl Strategy<Value = Said> {
    said().prop_map(|mut said| {
        let most = said.attempts;
        if let Some(rungs) = &mut said.rungs {
            rungs.retain(|attempt, _| most.is_none_or(|most| *attempt <= most));
        }
        said
    })
}

fn gate() -> impl Strategy<Value = Gate> {
    let names = |name: &'static str| prop::option::of(Just(name));
    let call = (
        prop::option::of(5..30u32),
        policies(),
        prop::bool::weighted(0.8),
        names("slack"),
        names("team"),
        prop::option::of(said()),
    );
    let call = call.prop_map(|(timeout, fallback, value, channel, to, policy)| CallSaid {
        timeout,
        fallback,
        value,
        channel,
        to,
        policy,
    });
    // Whole intervals are likely, so that both clocks often end at once.
    let limit = prop_oneof![(1..80i64).prop_map(|seconds| seconds * 1_000), 1..80_000i64];
    let limit = prop::option::weighted(0.4, limit);
    let occasion = prop::option::of((1..80i64).prop_map(|seconds| seconds * 1_000));
    let kind = prop_oneof![
        2 => Just(Kind::Approval),
        2 => Just(Kind::Question),
        1 => occasion.prop_map(Kind::Event),
    ];
    (kind, limit, prop::option::weighted(0.7, call)).prop_map(|(kind, limit_ms, call)| Gate {
        kind,
        limit_ms,
        call,
    })
}

pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let level = || prop::option::weighted(0.6, sound());
    (level(), level(), any::<bool>(), prop::collection::vec(gate(), 1..3))
        .prop_map(|(platform, agent, notifies, gates)| Case { platform, agent, notifies, gates })
}
