//! Large graphs and deep families: what one node, and one child, costs as there are more of them.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::Report;
use super::rig::{Rig, TENANT, chain, parse};
use crate::output;

pub(super) async fn bench(dir: &Path, nodes: usize, depth: usize) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for (title, shape) in SHAPES {
        report.part(title);
        for size in sizes(nodes) {
            output::say(&format!("{title}: {size} nodes …"));
            graph(dir, shape, size, &mut report).await?;
        }
    }
    report.part("a chain of children, each waited for by the one above");
    for size in sizes(depth) {
        output::say(&format!("children: {size} deep …"));
        family(dir, size, &mut report).await?;
    }
    Ok(report)
}

/// An eighth, a quarter, a half and the whole: a cost per node that stays the same is linear.
fn sizes(most: usize) -> impl Iterator<Item = usize> {
    [8, 4, 2, 1].into_iter().map(move |part| (most / part).max(3))
}

type Shape = fn(usize) -> Value;

const SHAPES: [(&str, Shape); 3] = [
    ("a chain of nodes", |size| chain("graph", size, false)),
    ("a fan: one node, all others, one that joins them", fan),
    ("layers of 100, each node behind three of the layer above", layers),
];

async fn graph(dir: &Path, shape: Shape, size: usize, report: &mut Report) -> anyhow::Result<()> {
    let definition = shape(size);
    let began = Instant::now();
    parse(&definition)?;
    let admitted = began.elapsed();
    let shim = format!("bench-graph-{}-{size}", report.parts());
    let rig = Rig::open(&dir.join("graph"), &shim, std::slice::from_ref(&definition))?;
    let cost = rig.drive("graph", 1, 1).await?;
    rig.close().await?;
    std::fs::remove_dir_all(dir.join("graph"))?;
    let micros = |took: std::time::Duration| took.as_secs_f64() * 1e6 / size as f64;
    report
        .figure(&format!("{size} nodes: µs per node to admit"), micros(admitted))
        .figure(&format!("{size} nodes: µs per node to run"), micros(cost.took))
        .figure(&format!("{size} nodes: commits"), cost.commits)
        .figure(&format!("{size} nodes: bytes written per node"), cost.bytes as f64 / size as f64);
    Ok(())
}

async fn family(dir: &Path, depth: usize, report: &mut Report) -> anyhow::Result<()> {
    let rig = Rig::open(&dir.join("family"), &format!("bench-family-{depth}"), &[])?;
    rig.engine.push_workflow(TENANT, dive(depth).to_string().as_bytes(), None).await?;
    let cost = rig.drive("dive", 1, 1).await?;
    rig.close().await?;
    std::fs::remove_dir_all(dir.join("family"))?;
    report
        .figure(
            &format!("{depth} runs: ms per run, start to heard end"),
            cost.took.as_secs_f64() * 1e3 / depth as f64,
        )
        .figure(&format!("{depth} runs: commits per run"), cost.commits as f64 / depth as f64);
    Ok(())
}

fn node(id: &str, kind: &str, config: &Value) -> Value {
    json!({
        "id": id, "typeId": kind, "name": id, "position": { "x": 0, "y": 0 }, "config": config, "inputs": {},
    })
}

fn edge(from: &str, to: &str) -> Value {
    json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to })
}

fn definition(id: &str, nodes: &[Value], edges: &[Value], variables: &Value) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges, "triggers": [],
        "variables": variables, "metadata": {}, "settings": {},
    })
}

fn fan(size: usize) -> Value {
    let noop = |id: &str| node(id, "core.noop", &json!({}));
    let middle: Vec<String> = (0..size.saturating_sub(2)).map(|ix| format!("n{ix}")).collect();
    let mut nodes = vec![noop("first"), noop("last")];
    nodes.extend(middle.iter().map(|id| noop(id)));
    let edges: Vec<Value> = middle.iter().flat_map(|id| [edge("first", id), edge(id, "last")]).collect();
    definition("graph", &nodes, &edges, &json!([]))
}

fn layers(size: usize) -> Value {
    let nodes: Vec<Value> = (0..size).map(|ix| node(&format!("n{ix}"), "core.noop", &json!({}))).collect();
    let above = |ix: usize| {
        let layer = (ix / 100 - 1) * 100;
        [0, 1, 2].map(|by| layer + (ix + by * 37) % 100)
    };
    let edges: Vec<Value> = (100..size)
        .flat_map(|ix| above(ix).map(|from| edge(&format!("n{from}"), &format!("n{ix}"))))
        .collect();
    definition("graph", &nodes, &edges, &json!([]))
}

/// A workflow that calls itself until it is `depth` runs deep.
fn dive(depth: usize) -> Value {
    let less = json!({ "assign": { "depth": "variables.depth - 1" } });
    let down = json!({ "cases": [{ "name": "down", "when": "variables.depth > 0" }], "default": "end" });
    let again = json!({ "workflowId": "dive", "inputMapping": { "depth": "depth" } });
    let nodes = vec![
        node("less", "core.transform", &less),
        node("down", "core.branch", &down),
        node("again", "core.subWorkflow", &again),
    ];
    let mut leads = edge("down", "again");
    leads["sourceOutput"] = json!("down");
    let variables = json!([{ "name": "depth", "type": "number", "defaultValue": depth }]);
    definition("dive", &nodes, &[edge("less", "down"), leads], &variables)
}
