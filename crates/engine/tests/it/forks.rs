//! Forks of journals that the store gives page by page.

use std::path::Path;
use std::sync::{Arc, Mutex};

use abide_core::fork::{Overlay, Unforked};
use abide_core::{ForkMode, Json, Key, Run, Status};
use abide_engine::{Error, ForkCounts, NewFork, NewRun};
use serde_json::{Value, json};

use crate::support::{Rig, TENANT};

/// Bytes that each node of the workflow gives.
const PRODUCT: usize = 900 * 1024;

/// So many nodes in a row, each of which gives what the run was given.
fn copies(count: usize) -> Vec<u8> {
    let node = |at: usize| {
        let config = json!({ "outputs": { "copy": "variables.letter" } });
        json!({
            "id": format!("n{at}"), "typeId": "core.transform", "name": "Copy", "position": {}, "config": config,
            "inputs": {},
        })
    };
    let edge = |at: usize| json!({ "id": format!("e{at}"), "sourceNodeId": format!("n{}", at - 1), "targetNodeId": format!("n{at}") });
    let definition = json!({
        "id": "copies", "name": "Copies", "version": "1", "triggers": [], "metadata": {}, "settings": {},
        "variables": [{ "name": "letter", "type": "string", "required": true }],
        "nodes": (0..count).map(node).collect::<Vec<Value>>(), "edges": (1..count).map(edge).collect::<Vec<Value>>(),
    });
    definition.to_string().into_bytes()
}

async fn run_of(dir: &Path, count: usize, letters: &[&str]) -> (Rig, Vec<Key>) {
    let rig = Rig::open(dir).await;
    rig.engine.push_workflow(TENANT, &copies(count), None).await.unwrap();
    let mut runs = Vec::new();
    for letter in letters {
        let inputs = [("letter".to_owned(), Json::of(&letter.repeat(PRODUCT)))].into();
        let new = NewRun { inputs, ..NewRun::of(TENANT, "copies") };
        let run = rig.engine.start_run(new).await.unwrap().0.of(TENANT);
        assert_eq!(rig.end_of(run).await, Status::Completed);
        runs.push(run);
    }
    (rig, runs)
}

async fn fork(rig: &Rig, source: Key, mode: ForkMode, from_seq: u64) -> Result<(Key, ForkCounts), Error> {
    let (overlay, by, trace) = (Overlay::default(), None, None);
    let asked = NewFork { source, mode, from_seq, overlay, by, trace };
    let counted = Arc::new(Mutex::new(None));
    let told = counted.clone();
    let answer = move |run: &Run, counts: ForkCounts| {
        *told.lock().unwrap() = Some((run.key(), counts));
        Vec::new()
    };
    rig.engine.fork_for(asked, None, answer).await?;
    Ok(counted.lock().unwrap().expect("it was answered"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_of_several_pages_is_forked_and_compared_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, runs) = run_of(dir.path(), 12, &["a"]).await;
    let length = rig.story(runs[0]).await.len() as u64;
    let (replay, counts) = fork(&rig, runs[0], ForkMode::Replay, 0).await.unwrap();
    assert_eq!((counts.executed, counts.diverged), (12, 0));
    assert_eq!(rig.status(replay).await, Status::Completed);
    let diff = rig.engine.diff(runs[0], replay).await.unwrap();
    assert_eq!((diff.same, diff.differences.len()), (length, 0));
    let (branch, counts) = fork(&rig, runs[0], ForkMode::Branch, length).await.unwrap();
    assert_eq!((counts.copied, rig.status(branch).await), (length, Status::Completed));
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_too_large_is_neither_forked_nor_compared() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, runs) = run_of(dir.path(), 20, &["a", "b"]).await;
    for mode in [ForkMode::Replay, ForkMode::Branch] {
        let refused = fork(&rig, runs[0], mode, 0).await.unwrap_err();
        assert!(matches!(refused, Error::Unforked(Unforked::TooLarge)), "{refused}");
    }
    let refused = rig.engine.diff(runs[0], runs[1]).await.unwrap_err();
    assert!(matches!(refused, Error::Unforked(Unforked::TooLarge)), "{refused}");
}
