//! Messages between runs: delivered once, whatever dies, and dropped when nobody can hear them.

use abide_core::{Cancellation, Command, Drain, Key, Parent, Status};
use abide_engine::NewRun;
use abide_store::Store;

use crate::support::{Rig, TENANT, nobody};

async fn start_child(rig: &Rig, parent: Key, workflow: &str) -> Key {
    let parent = Some(Parent::of(parent.id, "n"));
    let new = NewRun { parent, ..NewRun::of(TENANT, workflow) };
    rig.engine.start_run(new).await.unwrap().0.of(TENANT)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_hears_of_each_childs_end_once() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let parent = rig.start_waiting(1_000_000).await;
    for _ in 0..30 {
        start_child(&rig, parent, "noop").await;
    }
    rig.outbox_is_empty().await;
    let heard = rig.story(parent).await.iter().filter(|name| **name == "child.reported").count();
    assert_eq!(heard, 30);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_left_over_is_delivered_by_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let parent = rig.start_waiting(1_000_000).await;
    let child = start_child(&rig, parent, "wait").await;
    rig.close().await;
    // The child ends while nobody delivers: the message lies in the outbox of the same transaction.
    let store = abide_store::Sqlite::open(&abide_store::SqliteOptions::new(dir.path())).unwrap();
    finish_without_an_engine(&store, child).await;
    assert_eq!(store.totals().await.unwrap().outbox, 1);
    drop(store);
    let rig = Rig::open(dir.path()).await;
    rig.outbox_is_empty().await;
    assert_eq!(rig.story(parent).await.last(), Some(&"child.reported"));
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_left_over_about_a_child_that_stands_still_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let parent = rig.start_waiting(1_000_000).await;
    let clocked = Parent { clocked: true, ..Parent::of(parent.id, "n") };
    let new = NewRun { parent: Some(clocked), ..NewRun::of(TENANT, "wait") };
    let child = rig.engine.start_run(new).await.unwrap().0.of(TENANT);
    rig.close().await;
    let store = abide_store::Sqlite::open(&abide_store::SqliteOptions::new(dir.path())).unwrap();
    let pause = Command::Pause { reason: None, by: None, drain: Drain::Immediate };
    decide_without_an_engine(&store, child, pause).await;
    assert_eq!(store.totals().await.unwrap().outbox, 1);
    let report = abide_engine::verify::verify(&store, |_| ()).await.unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    drop(store);
    let rig = Rig::open(dir.path()).await;
    rig.outbox_is_empty().await;
    assert_eq!(rig.story(parent).await.last(), Some(&"child.reported"));
    rig.verify().await;
}

/// Commits the end of a run as an engine would that dies right after the commit.
async fn finish_without_an_engine(store: &dyn Store, key: Key) {
    decide_without_an_engine(store, key, Command::Cancel(Cancellation::default())).await;
}

/// Commits what a run decides as an engine would that dies right after the commit.
async fn decide_without_an_engine(store: &dyn Store, key: Key, command: Command) {
    let loaded = store.load(key).await.unwrap().unwrap();
    let source = store.blob(TENANT, loaded.summary.definition).await.unwrap().unwrap();
    let graph = std::sync::Arc::new(abide_core::Graph::admit(&source).unwrap());
    let mut run = abide_core::Run::empty(key, loaded.salt.unwrap(), graph);
    loaded.tail.iter().for_each(|record| drop(run.apply(record).unwrap()));
    let step = run.decide(command, 0).unwrap();
    let commit = abide_store::Commit::of(&run, step);
    let (told, hears) = tokio::sync::oneshot::channel();
    let done = Box::new(move |result| drop(told.send(result)));
    assert!(store.submit(commit, abide_store::Lane::Background, done).is_ok());
    hears.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_nobody_can_hear_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let ended = rig.start("noop").await;
    assert_eq!(rig.status(ended).await, Status::Completed);
    start_child(&rig, ended, "noop").await;
    start_child(&rig, nobody().of(TENANT), "noop").await;
    rig.outbox_is_empty().await;
    assert_eq!(rig.story(ended).await.last(), Some(&"run.completed"), "a journal that has ended stays ended");
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_heard_others_and_was_erased_is_accounted_for() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let parent = rig.start_waiting(1_000_000).await;
    start_child(&rig, parent, "noop").await;
    rig.outbox_is_empty().await;
    rig.engine.cancel(parent, None, None).await.unwrap();
    let erasure = abide_store::Erasure { at: 0, by: None, reason: None };
    let erased = rig.engine.store().erase(parent, erasure).await.unwrap();
    assert!(matches!(erased, abide_store::Erased::Done { .. }), "{erased:?}");
    rig.verify().await;
}
