//! A run as OpenWOP shows it.

use abide_core::{EventId, Json, Node, NodePhase, Run, RunId};
use serde_json::{Map, Value, json};

use crate::time;

/// OpenWOP's RunSnapshot.
pub(super) fn of(run: &Run) -> Value {
    let id = run.key().id;
    let mut snapshot = json!({
        "runId": id,
        "workflowId": &*run.graph().workflow_id,
        "workflowVersion": run.graph().version,
        "status": run.status().name(),
        "startedAt": time::rfc3339(run.started_at()),
        "inputs": run.inputs(),
        "variables": run.variables(),
        "nodeStates": node_states(run),
        "tags": run.tags(),
        "engineVersion": env!("CARGO_PKG_VERSION"),
        "eventLogSchemaVersion": 1,
        "sequence": run.head().next - 1,
    });
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            snapshot[name] = value;
        }
    };
    add("completedAt", run.ended_at().map(|at| time::rfc3339(at).into()));
    add("currentNodeId", current_node(run).map(Into::into));
    add("error", run.error().map(|error| json!(error)));
    add("metadata", run.metadata().map(raw));
    add("parentRunId", run.parent().map(|parent| json!(parent.run)));
    add(
        "parentNodeId",
        run.parent().map(|parent| parent.node.clone().into()),
    );
    snapshot
}

fn node_states(run: &Run) -> Value {
    let states = run.nodes().iter().enumerate().map(|(ix, node)| {
        let (id, type_id, _) = run.graph().describe(ix as u32);
        (id.to_string(), node_state(node, type_id))
    });
    Value::Object(states.collect::<Map<_, _>>())
}

fn node_state(node: &Node, type_id: &str) -> Value {
    let mut state = json!({ "status": node.phase, "typeId": type_id });
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            state[name] = value;
        }
    };
    add("execution", (node.execution > 0).then(|| node.execution.into()));
    add("startedAt", node.started_at.map(|at| time::rfc3339(at).into()));
    add("endedAt", node.ended_at.map(|at| time::rfc3339(at).into()));
    add("until", node.until.map(|at| time::rfc3339(at).into()));
    add("outputs", node.outputs.as_ref().map(raw));
    add("error", node.error.as_ref().map(|error| json!(error)));
    state
}

/// The first node that is under way.
fn current_node(run: &Run) -> Option<String> {
    let under_way = |node: &Node| matches!(node.phase, NodePhase::Running | NodePhase::Waiting);
    let ix = run.nodes().iter().position(under_way)?;
    Some(run.graph().describe(ix as u32).0.to_string())
}

fn raw(value: &Json) -> Value {
    value.parse().unwrap_or(Value::Null)
}

/// An event's id as the wire has it.
pub(super) fn event_id(run: RunId, sequence: u64) -> String {
    EventId { run, sequence }.to_string()
}
