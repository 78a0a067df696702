//! The few workflows that the tests run.

use std::sync::Arc;

use abide_core::{Graph, Millis};
use serde_json::{Value, json};

pub(crate) const HOUR: Millis = 3_600_000;

/// Ends with its first commit.
pub(crate) fn instant() -> Arc<Graph> {
    graph(&[node("only", "core.noop")])
}

/// Waits for an hour.
pub(crate) fn waiting() -> Arc<Graph> {
    graph(&[delay("wait", HOUR)])
}

/// Waits for a few seconds.
pub(crate) fn waiting_briefly() -> Arc<Graph> {
    graph(&[delay("wait", 20_000)])
}

/// Waits for an hour, and is another workflow.
pub(crate) fn waiting_elsewhere() -> Arc<Graph> {
    named("chore", &[delay("wait", HOUR)], &[])
}

/// Waits for two timers of its own.
pub(crate) fn waiting_twice() -> Arc<Graph> {
    graph(&[delay("short", HOUR), delay("long", 2 * HOUR)])
}

/// Waits for the outcome of one task.
pub(crate) fn working() -> Arc<Graph> {
    graph(&[durable(node("work", "core.noop"))])
}

/// Waits for the outcomes of two tasks.
pub(crate) fn working_twice() -> Arc<Graph> {
    graph(&[durable(node("left", "core.noop")), durable(node("right", "core.noop"))])
}

/// Gives its input `text` back, once in `run.started` and once as an output.
pub(crate) fn echo() -> Arc<Graph> {
    graph(&[echoing()])
}

/// A timer, a task, and the input given back.
pub(crate) fn journey() -> Arc<Graph> {
    let nodes = [delay("wait", HOUR), durable(node("work", "core.noop")), echoing()];
    linked(&nodes, &[("wait", "work"), ("work", "echo")])
}

/// A journey that also waits for the world outside: a bit of everything.
pub(crate) fn voyage() -> Arc<Graph> {
    let nodes = [delay("wait", HOUR), durable(node("work", "core.noop")), paid("paid", 7), echoing()];
    linked(&nodes, &[("wait", "work"), ("work", "paid"), ("paid", "echo")])
}

/// Waits for a decision, at most two hours long.
pub(crate) fn deciding(title: &str, approvers: &[&str]) -> Arc<Graph> {
    let mut gate = node("decide", "core.approvalGate");
    gate["config"] = json!({"title": title, "approversList": approvers, "timeoutMs": 2 * HOUR});
    named("decisions", &[gate], &[])
}

/// Waits for the answer to a question.
pub(crate) fn asking() -> Arc<Graph> {
    let mut gate = node("ask", "core.clarificationGate");
    gate["config"] = json!({"questions": [{"id": "why", "question": "Why?"}]});
    named("questions", &[gate], &[])
}

/// Waits for somebody who does it.
pub(crate) fn by_hand() -> Arc<Graph> {
    named("chores", &[node("self", "core.byHand")], &[])
}

/// Waits until an order is paid.
pub(crate) fn ordering(order: u32) -> Arc<Graph> {
    named("orders", &[paid("paid", order)], &[])
}

/// Waits until two orders are paid.
pub(crate) fn ordering_twice(one: u32, other: u32) -> Arc<Graph> {
    named("orders", &[paid("one", one), paid("other", other)], &[])
}

fn paid(id: &str, order: u32) -> Value {
    let mut node = node(id, "core.interrupt");
    let data = json!({"eventType": "order.paid", "correlation": {"order": order}});
    node["config"] = json!({"kind": "external-event", "data": data, "timeoutMs": 2 * HOUR});
    node
}

fn node(id: &str, type_id: &str) -> Value {
    json!({
        "id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {},
    })
}

fn delay(id: &str, ms: Millis) -> Value {
    let mut node = node(id, "core.delay");
    node["config"] = json!({"ms": ms});
    node
}

fn durable(mut node: Value) -> Value {
    node["settings"] = json!({"abide": {"durable": true}});
    node
}

fn echoing() -> Value {
    let mut node = node("echo", "core.identity");
    node["inputs"] = json!({"text": {"type": "variable", "variableName": "text", "optional": true}});
    node
}

fn graph(nodes: &[Value]) -> Arc<Graph> {
    linked(nodes, &[])
}

fn linked(nodes: &[Value], edges: &[(&str, &str)]) -> Arc<Graph> {
    named("errand", nodes, edges)
}

fn named(id: &str, nodes: &[Value], edges: &[(&str, &str)]) -> Arc<Graph> {
    let edge = |(from, to): &(&str, &str)| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to});
    let edges: Vec<Value> = edges.iter().map(edge).collect();
    let definition = json!({
        "id": id, "name": "Errand", "version": "1", "nodes": nodes, "edges": edges,
        "triggers": [], "variables": [], "metadata": {}, "settings": {},
    });
    Arc::new(Graph::admit(definition.to_string().as_bytes()).unwrap())
}
