//! Parents and children under kill -9: each child is started once, each end is heard once, and every family ends.

use reqwest::Method;
use serde_json::{Value, json};

use super::dice::Dice;
use super::{WINDOWS, from_environment, seed};
use crate::support::{Server, Site, answer, node, verify, workflow};

/// Kills in one go of the test.
const ROUNDS: usize = 12;

/// Families that are started before each kill.
const FAMILIES: usize = 12;

/// Children of each parent: two one after the other and one beside them, in a loop that goes round twice.
const CHILDREN: u64 = 6;

fn durably() -> Value {
    json!({ "abide": { "durable": true } })
}

fn child() -> Value {
    let plain = |id: &str, settings: Value| node(id, "core.noop", json!({}), json!({}), settings);
    let wait = node("wait", "core.delay", json!({ "ms": 3 }), json!({}), json!({}));
    let nodes = [plain("one", durably()), wait, plain("two", durably())];
    workflow("child", &nodes, &[("one", "wait"), ("wait", "two")], json!([]))
}

fn parent() -> Value {
    let call =
        |id: &str| node(id, "core.subWorkflow", json!({ "workflowId": "child" }), json!({}), json!({}));
    let again = json!({ "abide": { "loop": { "maxIterations": 1 } } });
    let nodes = [
        node("begin", "core.noop", json!({}), json!({}), again),
        call("first"),
        call("second"),
        call("beside"),
        node("join", "core.noop", json!({}), json!({}), durably()),
        node("end", "core.noop", json!({}), json!({}), json!({})),
    ];
    let edges = [
        ("begin", "first"),
        ("first", "second"),
        ("begin", "beside"),
        ("second", "join"),
        ("beside", "join"),
        ("join", "begin"),
        ("join", "end"),
    ];
    let mut parent = workflow("parent", &nodes, &edges, json!([]));
    parent["edges"][5]["condition"] =
        json!({ "type": "expression", "expression": "nodes.join.execution < 2" });
    parent
}

/// Starts families until the server dies or there are enough. Those that were acknowledged are told.
async fn start_families(server: &Server) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for _ in 0..FAMILIES {
        let start = server.request(Method::POST, "/v1/runs").json(&json!({ "workflowId": "parent" }));
        match answer(start).await {
            Ok((status, started)) if status.is_success() => {
                acknowledged.push(started["runId"].as_str().unwrap().to_owned());
            }
            _ => break,
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_child_is_started_once_and_every_family_ends() {
    let seed = seed();
    let rounds = from_environment("ABIDE_CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    println!("ABIDE_CRASH_SEED={seed} ABIDE_CRASH_ROUNDS={rounds}");
    let mut dice = Dice::new(seed);
    let site = Site::new();
    site.workflow(&child()).workflow(&parent());
    let mut acknowledged = Vec::new();
    for round in 0..rounds {
        let window = WINDOWS[round % WINDOWS.len()];
        let failpoint = format!("--failpoint={window}={}", 1 + dice.below(60));
        // What was left over may kill it before it listens.
        let Ok(server) = tokio::task::block_in_place(|| site.try_start(&[&failpoint])) else { continue };
        acknowledged.extend(start_families(&server).await);
        server.kill();
    }
    let server = tokio::task::block_in_place(|| site.start(&[]));
    for run in &acknowledged {
        let events = server.events(run).await;
        let last = events.last().unwrap();
        assert_eq!(last["type"], "run.completed", "{run}: {last}");
    }
    // A start that was never acknowledged may have happened all the same; its family ends as well.
    loop {
        let (_, page) = server.get("/v1/runs?status=running&limit=1").await;
        let Some(run) = page["runs"][0]["runId"].as_str() else { break };
        server.events(run).await;
    }
    assert!(server.stop().success());
    let count = |sql: &str| site.count(sql);
    let parents = count("SELECT count(*) FROM aggregates WHERE workflow = 'parent'");
    assert!(parents >= acknowledged.len() as u64);
    assert_eq!(count("SELECT count(*) FROM aggregates WHERE workflow = 'child'"), CHILDREN * parents);
    assert_eq!(count("SELECT count(*) FROM children"), CHILDREN * parents);
    assert_eq!(count("SELECT count(*) FROM aggregates WHERE status <> 4"), 0, "all are completed");
    assert_eq!(count("SELECT count(*) FROM outbox"), 0);
    assert_eq!(verify(&site.data()), (1 + CHILDREN) * parents);
}
