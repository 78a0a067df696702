//! Versions of a workflow: new runs follow the latest, in whatever order pushes come to their ends.

use abide_engine::limits::GRAPHS_BYTES_MAX;
use serde_json::json;

use crate::large::noop;
use crate::support::{Rig, TENANT};

/// An errand that says which one it is, and as many bytes more as it takes.
fn errand(id: &str, label: &str, bytes: usize) -> Vec<u8> {
    let definition = json!({
        "id": id, "name": label, "version": "1", "nodes": [noop("n")], "edges": [], "triggers": [],
        "variables": [], "metadata": { "padding": "x".repeat(bytes) }, "settings": {},
    });
    definition.to_string().into_bytes()
}

/// Large ones are checked elsewhere, small ones at once, so these overtake each other.
#[tokio::test(flavor = "multi_thread")]
async fn of_versions_pushed_at_once_the_latest_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    for round in 0..20 {
        let pushes: Vec<_> = (0..8)
            .map(|ix| {
                let (engine, bytes) = (rig.engine.clone(), (ix % 2) * 20_000);
                let source = errand("errand", &format!("{round}-{ix}"), bytes);
                tokio::spawn(async move { engine.push_workflow(TENANT, &source, None).await.unwrap() })
            })
            .collect();
        let asked = rig.engine.workflow(TENANT, "errand").await;
        assert!(asked.is_ok() || round == 0);
        let mut latest = None;
        for push in pushes {
            latest = latest.max(Some(push.await.unwrap().version));
        }
        let (version, source) =
            rig.engine.store().workflow(TENANT, "errand".to_owned(), None).await.unwrap().unwrap();
        assert_eq!(Some(version.version), latest);
        assert_eq!(rig.engine.workflow(TENANT, "errand").await.unwrap().source, source);
    }
    rig.close().await;
}

/// One that is no longer in memory is read again, and a run that follows it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_were_dropped_from_memory_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let bytes = GRAPHS_BYTES_MAX / 4;
    let ids = ["a", "b", "c", "d", "e", "f"];
    for id in ids {
        rig.engine.push_workflow(TENANT, &errand(id, "first", bytes), None).await.unwrap();
    }
    rig.engine.push_workflow(TENANT, &errand("a", "second", bytes), None).await.unwrap();
    for (id, name) in ids.into_iter().zip(["second", "first", "first", "first", "first", "first"]) {
        assert_eq!(rig.engine.workflow(TENANT, id).await.unwrap().name, name, "{id}");
        let run = rig.start(id).await;
        assert!(rig.end_of(run).await.is_terminal());
    }
    rig.verify().await;
    rig.close().await;
}
