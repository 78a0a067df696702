//! Workflows that users pushed: numbered from 1, never changed, and each tenant's own.

use abide_core::{TenantId, sha256};
use abide_store::{Commit, NewWorkflow, WorkflowVersion};

use crate::engine::{commit, engines};
use crate::live::{BEGIN, Live, TENANT, key};
use crate::workflow::waiting;

fn push(tenant: TenantId, id: &str, source: &str, at: i64) -> NewWorkflow {
    NewWorkflow {
        retention: None,
        tenant,
        id: id.to_owned(),
        name: format!("{id}, {source}"),
        hash: sha256(source.as_bytes()),
        source: source.as_bytes().into(),
        at: BEGIN + at,
        by: Some(format!("somebody at {at}")),
    }
}

fn version(id: &str, version: u32, source: &str, at: i64) -> WorkflowVersion {
    WorkflowVersion {
        id: id.to_owned(),
        version,
        name: format!("{id}, {source}"),
        hash: sha256(source.as_bytes()),
        created_at: BEGIN + at,
        created_by: Some(format!("somebody at {at}")),
        created: false,
    }
}

fn made(version: WorkflowVersion) -> WorkflowVersion {
    WorkflowVersion { created: true, ..version }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_push_of_something_new_makes_a_version() {
    for engine in engines() {
        let store = engine.open();
        for (at, source) in [(1, "one"), (2, "two"), (3, "one")] {
            let pushed = store.put_workflow(push(TENANT, "errand", source, at)).await.unwrap();
            assert_eq!(pushed, made(version("errand", at as u32, source, at)));
        }
        drop(store);
        let store = engine.open();
        let newest_first =
            [version("errand", 3, "one", 3), version("errand", 2, "two", 2), version("errand", 1, "one", 1)];
        assert_eq!(store.workflow_versions(TENANT, "errand".to_owned()).await.unwrap(), newest_first);
        for (asked, ix, source) in
            [(None, 0, "one"), (Some(3), 0, "one"), (Some(2), 1, "two"), (Some(1), 2, "one")]
        {
            let found = store.workflow(TENANT, "errand".to_owned(), asked).await.unwrap();
            let (found, bytes) = found.unwrap();
            assert_eq!((found, &bytes[..]), (newest_first[ix].clone(), source.as_bytes()), "{asked:?}");
        }
        assert_eq!(engine.dump()["blobs"].len(), 2, "the same bytes are kept once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_of_what_is_there_changes_nothing() {
    for engine in engines() {
        let store = engine.open();
        store.put_workflow(push(TENANT, "errand", "one", 1)).await.unwrap();
        store.put_workflow(push(TENANT, "errand", "two", 2)).await.unwrap();
        let before = engine.dump();
        for at in 3..6 {
            let pushed = store.put_workflow(push(TENANT, "errand", "two", at)).await.unwrap();
            assert_eq!(pushed, version("errand", 2, "two", 2), "it is answered as it was made");
        }
        assert_eq!(engine.dump(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_at_once_get_numbers_of_their_own() {
    for engine in engines() {
        let store = engine.open();
        let sources: Vec<String> = (0..20).map(|n| format!("source {n}")).collect();
        let pushed: Vec<_> =
            sources.iter().map(|source| store.put_workflow(push(TENANT, "errand", source, 1))).collect();
        for (pushed, expected) in pushed.into_iter().zip(1..) {
            assert_eq!(pushed.await.unwrap().version, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_the_latest_of_each() {
    for engine in engines() {
        let store = engine.open();
        assert_eq!(store.workflows(TENANT).await.unwrap(), []);
        for (at, id, source) in [(1, "b", "one"), (2, "a", "one"), (3, "b", "two"), (4, "c", "three")] {
            store.put_workflow(push(TENANT, id, source, at)).await.unwrap();
        }
        let latest = [version("a", 1, "one", 2), version("b", 2, "two", 3), version("c", 1, "three", 4)];
        assert_eq!(store.workflows(TENANT).await.unwrap(), latest);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_pushed_reads_as_none() {
    for engine in engines() {
        let store = engine.open();
        store.put_workflow(push(TENANT, "errand", "one", 1)).await.unwrap();
        for (id, asked) in [
            ("Errand", None),
            ("erran", None),
            ("errand", Some(0)),
            ("errand", Some(2)),
            ("errand", Some(u32::MAX)),
        ] {
            let found = store.workflow(TENANT, id.to_owned(), asked).await.unwrap();
            assert_eq!(found, None, "{id} {asked:?}");
        }
        assert_eq!(store.workflow_versions(TENANT, "other".to_owned()).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tenant_has_workflows_of_its_own() {
    for engine in engines() {
        let store = engine.open();
        store.put_workflow(push(TENANT, "errand", "one", 1)).await.unwrap();
        store.put_workflow(push(TENANT, "errand", "two", 2)).await.unwrap();
        let other = TenantId(2);
        let pushed = store.put_workflow(push(other, "errand", "two", 3)).await.unwrap();
        assert_eq!(pushed, made(version("errand", 1, "two", 3)));
        assert_eq!(store.workflows(other).await.unwrap(), [version("errand", 1, "two", 3)]);
        assert_eq!(store.workflows(TENANT).await.unwrap(), [version("errand", 2, "two", 2)]);
        assert_eq!(store.workflow(other, "errand".to_owned(), Some(2)).await.unwrap(), None);
        assert_eq!(store.workflow(TenantId(3), "errand".to_owned(), None).await.unwrap(), None);
        assert_eq!(store.blob(other, sha256(b"one")).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_and_a_push_share_the_bytes_of_a_definition() {
    for engine in engines() {
        let store = engine.open();
        let graph = waiting();
        let (_, created) = Live::start(key(1), &graph);
        let blobs = vec![(graph.hash, graph.source.clone())];
        commit(&*store, Commit { blobs, ..created }).await.unwrap();
        let new =
            NewWorkflow { hash: graph.hash, source: graph.source.clone(), ..push(TENANT, "errand", "", 1) };
        assert!(store.put_workflow(new).await.unwrap().created);
        let (_, bytes) = store.workflow(TENANT, "errand".to_owned(), None).await.unwrap().unwrap();
        assert_eq!(bytes, graph.source);
        assert_eq!(engine.dump()["blobs"].len(), 1);
    }
}
