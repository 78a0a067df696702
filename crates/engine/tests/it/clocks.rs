//! Durable timers on an injected clock: never early, never twice, never forgotten.

use abide_core::{Millis, Status};
use abide_engine::{Clock, TestClock, limits};

use crate::support::{Rig, START};

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_fires_at_its_time_and_not_a_millisecond_before() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = rig.start_waiting(5000).await;
    rig.clock.advance(4999).await.unwrap();
    // A timer that is due makes the loop go round; had the other one been let off early, it would show.
    let marker = rig.start_waiting(0).await;
    assert_eq!(rig.end_of(marker).await, Status::Completed);
    assert_eq!(rig.status(key).await, Status::Running);
    rig.clock.advance(1).await.unwrap();
    assert_eq!(rig.end_of(key).await, Status::Completed);
    let ended = rig.engine.read(key, abide_core::Run::ended_at).await.unwrap();
    assert_eq!(ended, Some(START + 5000));
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn far_timers_come_near_and_fire_once_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let day: Millis = 24 * 3_600_000;
    let mut keys = Vec::new();
    for ix in 0..20 {
        keys.push((rig.start_waiting((20 - ix) * day).await, START + (20 - ix) * day));
    }
    keys.reverse();
    for (key, due) in &keys {
        rig.clock.advance(due - rig.clock.now()).await.unwrap();
        assert_eq!(rig.end_of(*key).await, Status::Completed);
        assert_eq!(rig.story(*key).await.len(), 4, "one end each");
    }
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_timers_than_memory_holds_all_fire() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let many = limits::NEAR_TIMERS_MAX + 2000;
    let mut starting = tokio::task::JoinSet::new();
    for driver in 0..50 {
        let (engine, share) = (rig.engine.clone(), many / 50 + usize::from(driver < many % 50));
        starting.spawn(async move {
            for ix in 0..share {
                let delay = abide_core::Json::of(&(1000 + (ix % 7) * 1000));
                let inputs = [("delayMs".to_owned(), delay)].into();
                let new = abide_engine::NewRun {
                    inputs,
                    ..abide_engine::NewRun::of(crate::support::TENANT, "wait")
                };
                engine.start_run(new).await.unwrap();
            }
        });
    }
    starting.join_all().await;
    // A new process finds them all due at once, more than it reads at a time.
    rig.clock.advance(3_600_000).await.unwrap();
    rig.close().await;
    let rig = Rig::open(dir.path()).await;
    crate::support::within("all timers", async {
        while rig.engine.store().totals().await.unwrap().timers > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let completed = abide_store::ListQuery {
        tenant: crate::support::TENANT,
        status: Some(Status::Completed),
        workflow: None,
        before: None,
        limit: usize::MAX,
    };
    assert_eq!(rig.engine.list(completed).await.unwrap().len(), many);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_wait_never_fires() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let key = rig.start_waiting(1000).await;
    rig.engine.cancel(key, Some("changed my mind".into()), None).await.unwrap();
    rig.clock.advance(10_000).await.unwrap();
    let marker = rig.start_waiting(1).await;
    rig.clock.advance(1).await.unwrap();
    assert_eq!(rig.end_of(marker).await, Status::Completed);
    assert_eq!(rig.story(key).await, ["run.started", "node.started", "node.cancelled", "run.cancelled"]);
    rig.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_time_is_kept_on_disk_and_only_goes_forward() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    rig.clock.advance(777).await.unwrap();
    rig.clock.advance(-5000).await.unwrap();
    assert_eq!(rig.clock.now(), START + 777);
    let other = TestClock::open(rig.store.clone(), 0).await.unwrap();
    assert_eq!(other.now(), START + 777, "another server sees the same time");
    drop(other);
    rig.close().await;
    let rig = Rig::open(dir.path()).await;
    assert_eq!(rig.clock.now(), START + 777);
}
