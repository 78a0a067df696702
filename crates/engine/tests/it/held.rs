//! Runs that somebody holds: what they offer to workers is had by nobody before they go on.

use abide_core::event::{Held, HoldMode, Released};
use abide_core::{Command, Key, Run, Status};
use abide_engine::{Engine, Reply};

use crate::asked::start;
use crate::support::Rig;
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
    rig.engine.leave(crate::support::TENANT, absent.id).unwrap();
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
