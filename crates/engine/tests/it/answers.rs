//! What callers are told: only what is durable, exactly one winner, and nothing of a commit that failed.

use std::sync::atomic::Ordering;

use abide_core::{Rejection, Status};
use abide_engine::{Error, NewRun};

use crate::support::{Rig, TENANT, nobody, second_engine, within};
use crate::tapped::Fate;

#[tokio::test(flavor = "multi_thread")]
async fn a_started_run_is_never_told_to_be_further_than_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    for _ in 0..200 {
        // Its two tasks may well be done before the caller looks; they are not part of what was asked.
        let (_, status) = rig.engine.start_run(NewRun::of(TENANT, "steps")).await.unwrap();
        assert_eq!(status, Status::Running);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_of_a_run_before_it_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = rig.start_waiting(1000).await;
    rig.store.next(&[Fate::Hold]);
    let cancel = tokio::spawn({
        let engine = rig.engine.clone();
        async move { engine.cancel(key, None, None).await }
    });
    until(|| rig.store.held() == 1).await;
    let look = tokio::spawn({
        let engine = rig.engine.clone();
        async move { engine.read(key, abide_core::Run::status).await }
    });
    let second = tokio::spawn({
        let engine = rig.engine.clone();
        async move { engine.cancel(key, None, None).await }
    });
    // All three know of the cancellation, and none may say so yet.
    settle().await;
    assert!(!cancel.is_finished() && !look.is_finished() && !second.is_finished());
    assert_eq!(rig.status(key).await, Status::Running, "the disk does not have it");
    rig.store.release(Fate::Pass);
    assert_eq!(within("the cancel", cancel).await.unwrap().unwrap(), Status::Cancelled);
    assert_eq!(within("the look", look).await.unwrap().unwrap(), Status::Cancelled);
    let refused = within("the second cancel", second).await.unwrap().unwrap_err();
    assert!(matches!(refused, Error::Rejected(Rejection::Ended(_))), "{refused}");
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_commit_takes_everything_decided_on_top_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = rig.start_waiting(1000).await;
    rig.store.next(&[Fate::Hold]);
    let pause = tokio::spawn({
        let engine = rig.engine.clone();
        async move { engine.pause(key, None, None).await }
    });
    until(|| rig.store.held() == 1).await;
    // Decided on the pause, which will never have been.
    let resume = tokio::spawn({
        let engine = rig.engine.clone();
        async move { engine.resume(key, None).await }
    });
    let submitted = rig.store.submitted.load(Ordering::SeqCst);
    until(|| rig.store.submitted.load(Ordering::SeqCst) > submitted || resume.is_finished()).await;
    rig.store.release(Fate::Fail);
    let failed = within("the pause", pause).await.unwrap().unwrap_err();
    assert!(matches!(failed, Error::Store(abide_store::Error::Failed(_))), "{failed}");
    let refused = within("the resume", resume).await.unwrap().unwrap_err();
    assert!(
        matches!(refused, Error::Rejected(Rejection::NotPaused)),
        "decided again on what is there: {refused}"
    );
    assert_eq!(rig.story(key).await, ["run.started", "node.started"]);
    assert_eq!(rig.engine.cancel(key, None, None).await.unwrap(), Status::Cancelled, "the run goes on");
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_failed_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    rig.store.next(&[Fate::Fail]);
    assert!(rig.engine.start_run(NewRun::of(TENANT, "wait")).await.is_err());
    let listing =
        abide_store::ListQuery { tenant: TENANT, status: None, workflow: None, before: None, limit: 10 };
    assert!(rig.engine.list(listing).await.unwrap().is_empty());
    let key = rig.start("wait").await;
    assert_eq!(rig.status(key).await, Status::Running, "and the definition was stored with the next one");
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_cancels_exactly_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let other = second_engine(&rig.store, &rig.clock);
    for _ in 0..20 {
        let key = rig.start_waiting(1000).await;
        let mut asking = tokio::task::JoinSet::new();
        for ix in 0..64 {
            let engine = if ix % 2 == 0 { rig.engine.clone() } else { other.clone() };
            asking.spawn(async move { engine.cancel(key, Some(format!("reason {ix}")), None).await });
        }
        let answers = within("64 answers", asking.join_all()).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        let lost = |answer: &Result<_, _>| matches!(answer, Err(Error::Rejected(Rejection::Ended(_))));
        assert_eq!(answers.iter().filter(|answer| lost(answer)).count(), 63);
        assert_eq!(rig.story(key).await, ["run.started", "node.started", "node.cancelled", "run.cancelled"]);
    }
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_on_one_store_agree() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let other = second_engine(&rig.store, &rig.clock);
    let key = rig.start_waiting(1000).await;
    for _ in 0..20 {
        rig.engine.pause(key, None, None).await.unwrap();
        assert!(matches!(other.pause(key, None, None).await, Err(Error::Rejected(Rejection::AlreadyPaused))));
        other.resume(key, None).await.unwrap();
        assert!(matches!(rig.engine.resume(key, None).await, Err(Error::Rejected(Rejection::NotPaused))));
    }
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waking_a_parked_run_is_one_read() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let mut keys = Vec::new();
    for _ in 0..50 {
        keys.push(rig.start_waiting(1000).await);
    }
    rig.close().await;
    let rig = Rig::open(dir.path()).await;
    for (ix, key) in keys.into_iter().enumerate() {
        rig.engine.cancel(key, None, None).await.unwrap();
        assert_eq!(rig.store.loads.load(Ordering::SeqCst), ix as u64 + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = nobody().of(TENANT);
    assert!(matches!(rig.engine.cancel(key, None, None).await, Err(Error::RunNotFound(_))));
    assert!(matches!(rig.engine.read(key, |_| ()).await, Err(Error::RunNotFound(_))));
    let unknown = rig.engine.start_run(NewRun::of(TENANT, "unheard-of")).await.unwrap_err();
    assert!(matches!(unknown, Error::WorkflowNotFound(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_engine_takes_in_nothing_and_forgets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let mut starting = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let engine = rig.engine.clone();
        starting.spawn(async move { engine.start_run(NewRun::of(TENANT, "steps")).await });
    }
    let engine = rig.engine.clone();
    let acknowledged: Vec<_> = {
        let first = starting.join_next().await.unwrap().unwrap().unwrap();
        rig.close().await;
        let rest = within("the rest", starting.join_all()).await;
        rest.into_iter().flatten().chain([first]).collect()
    };
    assert!(matches!(engine.start_run(NewRun::of(TENANT, "noop")).await, Err(Error::Draining)));
    drop(engine);
    let rig = Rig::open(dir.path()).await;
    for (run, _) in acknowledged {
        assert_eq!(rig.end_of(run.of(TENANT)).await, Status::Completed);
    }
    rig.verify().await;
}

/// Waits for something that a task in this process is about to do.
async fn until(done: impl Fn() -> bool) {
    within("another task", async {
        while !done() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Lets every task that can run do so.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_erased_while_its_past_is_read_is_told_to_be_erased_and_not_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = rig.start("noop").await;
    assert_eq!(rig.engine.past(key, 2).await.unwrap().head().next, 2);
    rig.store.erase_before_reading(key);
    let told = rig.engine.past(key, 2).await;
    assert!(matches!(told, Err(Error::Erased(run)) if run == key.id), "{told:?}");
}
