//! The examples that people copy: each runs to its end, and the guide shows one of them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::Site;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> Vec<Value> {
    let folder = std::fs::read_dir(root().join("examples/workflows")).unwrap();
    folder
        .map(|entry| serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap())
        .collect()
}

#[tokio::test]
async fn every_example_runs_to_its_end() {
    let site = Site::new();
    let folder = root().join("examples/workflows");
    let server = site.start(&["--test-clock", "--workflows", folder.to_str().unwrap()]);
    let examples = examples();
    assert!(examples.len() >= 3);
    let mut runs = Vec::new();
    for example in &examples {
        runs.push(server.start_run(example["id"].as_str().unwrap(), json!({})).await);
    }
    server.advance(3_600_000).await;
    for (run, example) in runs.iter().zip(&examples) {
        let events = server.events(run).await;
        assert_eq!(events.last().unwrap()["type"], "run.completed", "{}", example["id"]);
    }
}

#[test]
fn the_workflow_in_the_guide_is_the_one_among_the_examples() {
    let guide = std::fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let block = guide.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown: Value = serde_json::from_str(block).unwrap();
    assert!(
        examples().contains(&shown),
        "docs/guide.md shows {}, which differs from the example",
        shown["id"]
    );
}
