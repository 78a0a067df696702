//! Large graphs: what a node costs does not grow with how many there are.

use abide_core::Status;
use serde_json::{Value, json};

use crate::support::{Rig, TENANT};

/// Nodes that one decision starts before it lets others have their turn.
const TURN: u64 = abide_core::limits::STRETCH_NODES_MAX as u64;

pub(crate) fn noop(id: &str) -> Value {
    json!({ "id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {} })
}

/// One node, all the others, and one that waits for all of them.
fn fan(size: usize) -> Vec<u8> {
    let middle: Vec<String> = (2..size).map(|ix| format!("n{ix}")).collect();
    let mut nodes = vec![noop("first"), noop("last")];
    nodes.extend(middle.iter().map(|id| noop(id)));
    let edge = |from: &str, to: &str| json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to });
    let edges: Vec<Value> = middle.iter().flat_map(|id| [edge("first", id), edge(id, "last")]).collect();
    let definition = json!({
        "id": "fan", "name": "fan", "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    });
    definition.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_nodes_cost_ten_times_a_thousand() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    for size in [1_000_u64, 10_000] {
        rig.engine.push_workflow(TENANT, &fan(usize::try_from(size).unwrap()), None).await.unwrap();
        let before = rig.engine.store().counts();
        let run = rig.start("fan").await;
        assert_eq!(rig.end_of(run).await, Status::Completed);
        let after = rig.engine.store().counts();
        let commits = after.commits - before.commits;
        assert_eq!(commits, size.div_ceil(TURN), "{size} nodes");
        // A start and an end for each node, the run's own two events, a yield with its timer for each turn.
        let rows = after.rows - before.rows;
        assert!(rows <= 2 * size + 6 * commits, "{rows} rows for {size} nodes");
    }
    rig.verify().await;
}
