//! Runs that somebody holds: what they offer to workers is had by nobody before they go on.

use abide_core::event::{Held, HoldMode, Released};
use abide_core::{Command, Key, Run, Status};
use abide_engine::{Engine, NewRun, Reply};
use abide_store::{Purge, Store};

use crate::asked::start;
use crate::support::{Rig, START, TENANT};
use crate::workers::{Hand, new_session, workflow};

async fn ask(engine: &Engine, run: Key, command: Command) {
    let reply = Reply::new(None, |_: &Run| Vec::new());
    engine.ask_for(run, &command, reply).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_held_run_offers_is_passed_over_until_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    // Makes the kind known, and leaves.
    let (absent, _) = Hand::at(&rig.engine, new_session(0xee, 1)).await;
    rig.engine.leave(TENANT, absent.id).unwrap();
    let definition = workflow(&["one"]);
    let held = start(&rig.engine, &definition).await;
    let others = [start(&rig.engine, &definition).await, start(&rig.engine, &definition).await];
    ask(&rig.engine, held, Command::Hold(Held { mode: HoldMode::Pause, reason: None, by: None })).await;
    let (mut hand, _) = Hand::at(&rig.engine, new_session(1, 1)).await;
    // The held one waits longest, and would be the first.
    for other in others {
        let task = hand.task().await;
        assert_eq!(task.holding.place.run, other.id);
        hand.complete(&task.holding).await;
        assert_eq!(rig.end_of(other).await, Status::Completed);
    }
    rig.verify().await;
    ask(&rig.engine, held, Command::Release(Released::default())).await;
    let task = hand.task().await;
    assert_eq!(task.holding.place.run, held.id);
    hand.complete(&task.holding).await;
    assert_eq!(rig.end_of(held).await, Status::Completed);
    rig.verify().await;
}

/// What a run has waited for may be gone for good, and what the run offers is had all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_waited_for_a_run_that_was_purged_since_is_had_by_workers() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::open(dir.path()).await;
    let (absent, _) = Hand::at(&rig.engine, new_session(0xee, 1)).await;
    rig.engine.leave(TENANT, absent.id).unwrap();
    let definition = workflow(&["one"]).to_string();
    let workflow = rig.engine.push_workflow(TENANT, definition.as_bytes(), None).await.unwrap().id;
    let upstream = rig.start_waiting(1000).await;
    let over = rig.start("noop").await;
    assert_eq!(rig.end_of(over).await, Status::Completed);
    let depends_on = vec![upstream.id, over.id];
    let new = NewRun { depends_on, ..NewRun::of(TENANT, &workflow) };
    let waits = rig.engine.start_run(new).await.unwrap().0.of(TENANT);
    rig.clock.advance(1000).await.unwrap();
    assert_eq!(rig.end_of(upstream).await, Status::Completed);
    rig.outbox_is_empty().await;
    let purge = Purge { number: None, at: START, by: None, filter: "{}".to_owned() };
    let retention = rig.store.retention();
    assert!(retention.begin_purge(TENANT, vec![upstream.id, over.id], purge).await.unwrap().is_some());
    while retention.purge_page().await.unwrap().more {}
    let (mut hand, _) = Hand::at(&rig.engine, new_session(1, 1)).await;
    let task = hand.task().await;
    assert_eq!(task.holding.place.run, waits.id);
    hand.complete(&task.holding).await;
    assert_eq!(rig.end_of(waits).await, Status::Completed);
    rig.verify().await;
}
