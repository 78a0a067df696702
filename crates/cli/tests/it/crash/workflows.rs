//! The workflows of the crash tests. Every identity node hands on the token that its run was started with.

use serde_json::{Value, json};

use crate::support::{node, workflow};

/// Longer than any test: who waits for it is cancelled.
pub(super) const HOUR_MS: u64 = 3_600_000;

/// What a run does, and so how it ends if nobody cancels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A stretch of pure nodes: one commit.
    Pure,
    /// A chain of tasks, each with its own commits.
    Durable,
    /// Delays with work between them.
    Delays,
    /// Delays and tasks side by side, and a task that waits for all.
    Fan,
    /// A task that fails while a delay and another task are under way.
    Failing,
    /// A delay that nobody waits out, and tasks beside it.
    Long,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Pure, Self::Durable, Self::Delays, Self::Fan, Self::Failing, Self::Long];

    /// The id of its workflow.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Durable => "durable",
            Self::Delays => "delays",
            Self::Fan => "fan",
            Self::Failing => "failing",
            Self::Long => "long",
        }
    }

    /// How it ends unless it is cancelled; `None` if only that ends it.
    pub(super) fn end(self) -> Option<&'static str> {
        match self {
            Self::Pure | Self::Durable | Self::Delays | Self::Fan => Some("completed"),
            Self::Failing => Some("failed"),
            Self::Long => None,
        }
    }

    /// Its definition.
    pub(super) fn definition(self) -> Value {
        match self {
            Self::Pure => identities("pure", 5, false),
            Self::Durable => identities("durable", 4, true),
            Self::Delays => delays(),
            Self::Fan => fan(),
            Self::Failing => failing(),
            Self::Long => long(),
        }
    }
}

/// Hands on the run's token, taken from the node before it or from the inputs.
fn identity(id: &str, from: Option<&str>, durable: bool) -> Value {
    let token = match from {
        Some(from) => json!({ "type": "connection", "nodeId": from, "outputKey": "token" }),
        None => json!({ "type": "variable", "variableName": "token" }),
    };
    let settings = if durable { durably() } else { json!({}) };
    node(id, "core.identity", json!({}), json!({ "token": token }), settings)
}

/// Waits for as long as a variable says.
fn delay(id: &str, variable: &str) -> Value {
    let port = json!({ "type": "variable", "variableName": variable });
    node(id, "core.delay", json!({}), json!({ "delayMs": port }), json!({}))
}

fn noop(id: &str) -> Value {
    node(id, "core.noop", json!({}), json!({}), json!({}))
}

fn durably() -> Value {
    json!({ "abide": { "durable": true } })
}

fn definition(id: &str, nodes: &[Value], edges: &[(&str, &str)]) -> Value {
    let variables = json!([
        { "name": "token", "type": "string", "required": true },
        { "name": "a", "type": "number", "required": true },
        { "name": "b", "type": "number", "required": true },
        { "name": "hour", "type": "number", "defaultValue": HOUR_MS },
    ]);
    workflow(id, nodes, edges, variables)
}

fn identities(id: &str, length: usize, durable: bool) -> Value {
    let ids: Vec<String> = (0..length).map(|ix| format!("n{ix}")).collect();
    let before = |ix: usize| ix.checked_sub(1).map(|before| ids[before].as_str());
    let nodes: Vec<Value> =
        ids.iter().enumerate().map(|(ix, id)| identity(id, before(ix), durable)).collect();
    let edges: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    definition(id, &nodes, &edges)
}

fn delays() -> Value {
    let nodes = [
        identity("take", None, false),
        delay("wait-a", "a"),
        identity("keep", Some("take"), true),
        delay("wait-b", "b"),
        identity("give", Some("keep"), false),
    ];
    let edges = [("take", "wait-a"), ("wait-a", "keep"), ("keep", "wait-b"), ("wait-b", "give")];
    definition("delays", &nodes, &edges)
}

fn fan() -> Value {
    let nodes = [
        identity("split", None, false),
        delay("wait-a", "a"),
        delay("wait-b", "b"),
        identity("left", Some("split"), true),
        identity("right", Some("split"), true),
        delay("wait-right", "a"),
        identity("join", Some("right"), true),
        noop("end"),
    ];
    let edges = [
        ("split", "wait-a"),
        ("split", "wait-b"),
        ("split", "left"),
        ("split", "right"),
        ("right", "wait-right"),
        ("wait-a", "join"),
        ("wait-b", "join"),
        ("left", "join"),
        ("wait-right", "join"),
        ("join", "end"),
    ];
    definition("fan", &nodes, &edges)
}

fn failing() -> Value {
    let nodes = [
        identity("begin", None, true),
        delay("wait-a", "a"),
        node("fail", "core.fail", json!({}), json!({}), durably()),
        noop("never"),
        delay("wait-hour", "hour"),
        delay("wait-b", "b"),
        identity("beside", Some("begin"), true),
    ];
    let edges = [
        ("begin", "wait-a"),
        ("wait-a", "fail"),
        ("fail", "never"),
        ("begin", "wait-hour"),
        ("begin", "wait-b"),
        ("wait-b", "beside"),
    ];
    definition("failing", &nodes, &edges)
}

fn long() -> Value {
    let nodes = [
        delay("wait-hour", "hour"),
        noop("never"),
        identity("one", None, true),
        identity("two", Some("one"), true),
        delay("wait-a", "a"),
        identity("three", Some("two"), true),
    ];
    let edges = [("wait-hour", "never"), ("one", "two"), ("two", "wait-a"), ("wait-a", "three")];
    definition("long", &nodes, &edges)
}

/// A run that waits for an hour and has done nothing before.
pub(super) fn parked() -> Value {
    let ms = json!({ "ms": HOUR_MS });
    let wait = node("wait", "core.delay", ms, json!({}), json!({}));
    workflow("parked", &[wait, noop("never")], &[("wait", "never")], json!([]))
}

/// Chains of tasks side by side: as many tasks as there are lanes are under way at once.
pub(super) fn lanes(lanes: usize, length: usize) -> Value {
    let task = |lane: usize, ix: usize| format!("{lane}-{ix}");
    let ids: Vec<Vec<String>> =
        (0..lanes).map(|lane| (0..length).map(|ix| task(lane, ix)).collect()).collect();
    let nodes: Vec<Value> =
        ids.iter().flatten().map(|id| node(id, "core.noop", json!({}), json!({}), durably())).collect();
    let edges: Vec<(&str, &str)> = ids
        .iter()
        .flat_map(|lane| lane.windows(2))
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
        .collect();
    workflow("lanes", &nodes, &edges, json!([]))
}
