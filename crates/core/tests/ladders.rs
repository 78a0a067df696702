//! Questions that nobody answers: who is reminded when, who is told instead, and what happens in the end.

#[path = "ladders/attempts.rs"]
mod attempts;
#[path = "ladders/cascading.rs"]
mod cascading;
#[path = "ladders/clocks.rs"]
mod clocks;
#[path = "ladders/expiry.rs"]
mod expiry;
#[path = "ladders/lasting.rs"]
mod lasting;
#[path = "ladders/reading.rs"]
mod reading;
#[path = "ladders/responses.rs"]
mod responses;
#[expect(dead_code, reason = "commands.rs and others tell the rest of the vocabulary")]
#[path = "domain/story.rs"]
mod story;
#[expect(dead_code, reason = "nodes.rs tells the rest of the vocabulary")]
#[path = "domain/workflow.rs"]
mod workflow;

use std::collections::BTreeMap;

use abide_core::{Effect, HumanRetryPolicy, InterruptId, Json, Millis, Record, Run, Surroundings, TimerId};
use serde_json::{Value, json};
use story::{SALT, Story, key, payload_text, type_name};
use workflow::{Sketch, Workflow, noop, of_kind, workflow};

/// The name of the agent that asks, where one does.
const AGENT: &str = "scribe";

fn secs(count: i64) -> Millis {
    count * 1_000
}

/// A question to a person, about anything.
fn question(id: &str) -> Sketch {
    of_kind(id, "core.hitl.ask-user").config("question", json!("Well?"))
}

fn approval(id: &str) -> Sketch {
    of_kind(id, "core.approvalGate").config("title", json!("Pay?"))
}

fn custom(id: &str, key: &str) -> Sketch {
    of_kind(id, "core.interrupt")
        .config("kind", json!("custom"))
        .config("key", json!(key))
        .config("data", json!({ "customKind": "any", "payload": {} }))
}

/// One question with a ladder of its own, and what comes after it.
fn asking(ladder: Value) -> Workflow {
    gated(question("gate").setting("ladder", ladder))
}

fn gated(gate: Sketch) -> Workflow {
    workflow([gate, noop("next")]).flow("gate > next")
}

fn accept() -> Value {
    json!({ "action": "accept" })
}

/// An answer to [`question`].
fn well() -> Value {
    json!({ "answers": { "answer": "well" } })
}

/// The policy of the protocol's own example: three attempts an hour apart, others from the second on.
fn example() -> Value {
    json!({
        "max_attempts": 3,
        "interval_seconds": 3600,
        "strategy": "fixed",
        "escalation_ladder": [
            { "attempt": 2, "channel_hint": "email", "notify_to": null },
            { "attempt": 3, "channel_hint": "pagerduty", "notify_to": "supervisor@example.com" },
        ],
        "final_fallback_policy": "fail",
    })
}

#[track_caller]
fn policy(value: &Value) -> HumanRetryPolicy {
    HumanRetryPolicy::read(&Json::of(value)).expect("the test's own policy is sound")
}

/// What the operator says, and what [`AGENT`] does.
fn said(platform: Option<&Value>, agent: Option<&Value>) -> Surroundings {
    Surroundings {
        platform: platform.map(policy),
        agents: agent.map(|value| (AGENT.to_owned(), policy(value))).into_iter().collect(),
        notifies: false,
        ..Surroundings::default()
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("payloads are JSON")
}

impl Story {
    /// The only interrupt that is open.
    #[track_caller]
    fn asked(&self) -> InterruptId {
        let open: Vec<InterruptId> =
            self.run().interrupts().map(|open| open.requested.interrupt_id).collect();
        assert_eq!(open.len(), 1, "one is open");
        open[0]
    }

    /// The timer of the ladder is heard.
    #[track_caller]
    fn climb(self, id: InterruptId) -> Self {
        self.fire_timer(&TimerId::Attempt(id).to_string())
    }

    /// The payloads of all events of a type, oldest first.
    fn all(&self, name: &str) -> Vec<Value> {
        let found = self.journal().iter().filter(|record| type_name(record) == name);
        found.map(|record| parsed(&payload_text(record))).collect()
    }

    /// How often events of a type happened.
    fn count(&self, name: &str) -> usize {
        self.all(name).len()
    }

    /// The attempts at which people were told, as the journal alone says it.
    fn notified(&self) -> Vec<u32> {
        let effects = refold(self).1;
        let notify = |effect: &Effect| match effect {
            Effect::Notify(notify) => Some(notify.attempt),
            _ => None,
        };
        effects.iter().filter_map(notify).collect()
    }

    /// The ladder of the last question, as the journal has it.
    #[track_caller]
    fn ladder(&self) -> Value {
        parsed(&self.payload("interrupt.requested"))["ladder"].clone()
    }

    /// When the ladder's timer is due, since the beginning.
    fn armed(&self) -> Option<Millis> {
        let due = self.run().timers().iter().find(|(timer, _)| matches!(timer, TimerId::Attempt(_)));
        due.map(|(_, due)| due - story::BEGIN)
    }
}

/// The run as its journal alone gives it, and all its effects.
fn refold(story: &Story) -> (Run, Vec<Effect>) {
    let mut run = Run::empty(key(), SALT, story.run().graph().clone());
    let apply = |record: &Record| run.apply(record).expect("the journal folds");
    let effects = story.journal().iter().flat_map(apply).collect();
    (run, effects)
}

/// Problems by their places.
fn places(told: &str) -> BTreeMap<String, String> {
    let split = |line: &str| {
        let (place, message) = line.split_once(": ").expect("a problem has a place");
        (place.to_owned(), message.to_owned())
    };
    told.lines().map(split).collect()
}
