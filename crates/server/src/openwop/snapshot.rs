//! A run as OpenWOP shows it.
//!
//! Users' values are written as they came: they are never read into numbers or maps on the way.

use abide_core::{EventId, Failure, Json, JsonMap, Node, NodePhase, Run, RunId};
use serde::{Serialize, Serializer};

use crate::time;

/// OpenWOP's RunSnapshot.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot<'a> {
    run_id: RunId,
    workflow_id: &'a str,
    workflow_version: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_node_id: Option<&'a str>,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
    inputs: &'a JsonMap,
    variables: &'a JsonMap,
    node_states: NodeStates<'a>,
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_node_id: Option<&'a str>,
    engine_version: &'static str,
    event_log_schema_version: u32,
    sequence: u64,
}

/// A run's nodes under their ids, in the order of the definition.
struct NodeStates<'a>(&'a Run);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeState<'a> {
    status: NodePhase,
    type_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
}

/// The JSON text of a run's snapshot.
pub(super) fn of(run: &Run) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Snapshot {
        run_id: run.key().id,
        workflow_id: &run.graph().workflow_id,
        workflow_version: &run.graph().version,
        status: run.status().name(),
        current_node_id: current_node(run),
        started_at: time::rfc3339(run.started_at()),
        completed_at: run.ended_at().map(time::rfc3339),
        error: run.error(),
        inputs: run.inputs(),
        variables: run.variables(),
        node_states: NodeStates(run),
        tags: run.tags(),
        metadata: run.metadata(),
        parent_run_id: run.parent().map(|parent| parent.run),
        parent_node_id: run.parent().map(|parent| parent.node.as_str()),
        engine_version: env!("CARGO_PKG_VERSION"),
        event_log_schema_version: 1,
        sequence: run.head().next - 1,
    })
}

impl Serialize for NodeStates<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let states = self.0.nodes().iter().enumerate().map(|(ix, node)| {
            let (id, type_id, _) = self.0.graph().describe(ix as u32);
            (&**id, node_state(node, type_id))
        });
        to.collect_map(states)
    }
}

fn node_state<'a>(node: &'a Node, type_id: &'a str) -> NodeState<'a> {
    NodeState {
        status: node.phase,
        type_id,
        execution: (node.execution > 0).then_some(node.execution),
        started_at: node.started_at.map(time::rfc3339),
        ended_at: node.ended_at.map(time::rfc3339),
        until: node.until.map(time::rfc3339),
        outputs: node.outputs.as_ref(),
        error: node.error.as_ref(),
    }
}

/// The first node that is under way.
fn current_node(run: &Run) -> Option<&str> {
    let under_way = |node: &Node| matches!(node.phase, NodePhase::Running | NodePhase::Waiting);
    let ix = run.nodes().iter().position(under_way)?;
    Some(run.graph().describe(ix as u32).0)
}

/// An event's id as the wire has it.
pub(super) fn event_id(run: RunId, sequence: u64) -> String {
    EventId { run, sequence }.to_string()
}
