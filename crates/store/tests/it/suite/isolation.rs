//! A commit that must not be written takes no other commit of its batch along.

use abide_core::Effect;
use abide_store::Commit;

use crate::engine::{Engine, commit, engines, submit, word, words};
use crate::live::{BEGIN, Live, key};
use crate::workflow::{instant, waiting, working, working_twice};

/// A commit that arms the same timer twice, which no table takes.
fn broken(n: u32) -> Commit {
    let (live, mut created) = Live::start(key(n), &waiting());
    let (timer, due) = live.first_timer();
    created.effects.push(Effect::ArmTimer { timer, due });
    created
}

fn mentions(engine: &dyn Engine, n: u32) -> Vec<String> {
    let id: String = key(n).id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let rows = engine.dump().into_values().flatten();
    rows.filter(|row| row.contains(&id)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_fence_refuses_the_commit_and_writes_nothing() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = Live::start(key(1), &working());
        commit(&*store, created).await.unwrap();
        let before = engine.dump();
        let right = live.fence(1);
        for fence in [Some(0), Some(1), Some(right - 1), Some(right + 1), Some(u64::MAX), None] {
            let report = Commit { fence, ..live.clone().report(1) };
            assert_eq!(word(&commit(&*store, report).await), "fenced", "{fence:?}");
            assert_eq!(engine.dump(), before, "{fence:?}");
        }
        commit(&*store, live.clone().report(1)).await.unwrap();
        assert!(engine.dump()["tasks"].is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_batch_only_the_fenced_commit_drops_out() {
    for engine in engines() {
        let store = engine.open();
        let mut workers = Vec::new();
        for n in 0..10 {
            let (live, created) = Live::start(key(n), &working());
            commit(&*store, created).await.unwrap();
            workers.push(live);
        }
        let fenced_before = mentions(&*engine, 4);
        let (_, plug) = Live::start(key(100), &instant());
        let stalled = engine.gate().stall(&*store, plug);
        let reports = workers.iter_mut().zip(0..);
        let pending = reports.map(|(live, n)| submit(&*store, live.report(if n == 4 { 7 } else { 1 })));
        let pending = pending.collect();
        drop(stalled);
        let mut expected = vec!["ok"; 10];
        expected[4] = "fenced";
        assert_eq!(words(pending).await, expected);
        assert_eq!(mentions(&*engine, 4), fenced_before, "nothing of the fenced one was written");
        assert_eq!(engine.dump()["tasks"].len(), 1, "the other tasks are over");
        for (live, n) in workers.iter().zip(0..).filter(|(_, n)| *n != 4) {
            let loaded = store.load(key(n)).await.unwrap().unwrap();
            assert_eq!(loaded.summary, live.run.summary());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_belongs_to_one_execution_of_one_node() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = Live::start(key(1), &working());
        commit(&*store, created).await.unwrap();
        let before = engine.dump();
        let mut other = live.clone().report(1);
        for effect in &mut other.effects {
            if let Effect::FinishTask(task) = effect {
                task.execution += 1;
            }
        }
        assert_eq!(word(&commit(&*store, other).await), "fenced");
        assert_eq!(engine.dump(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_constraint_fails_its_own_commit_alone() {
    for engine in engines() {
        let store = engine.open();
        let before = engine.dump();
        assert_eq!(word(&commit(&*store, broken(1)).await), "failed");
        assert_eq!(engine.dump(), before);

        let (_, plug) = Live::start(key(100), &instant());
        let stalled = engine.gate().stall(&*store, plug);
        let start = |n| Live::start(key(n), &waiting()).1;
        let batch = [start(1), broken(2), start(3), broken(4), start(3), start(5)];
        let pending = batch.into_iter().map(|commit| submit(&*store, commit)).collect();
        drop(stalled);
        assert_eq!(words(pending).await, ["ok", "failed", "ok", "failed", "stale", "ok"]);
        for n in [2, 4] {
            assert_eq!(mentions(&*engine, n), Vec::<String>::new());
        }
        for n in [1, 3, 5] {
            assert!(store.load(key(n)).await.unwrap().is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_refused_commit_of_the_same_run_is_stale() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &working_twice());
        commit(&*store, created).await.unwrap();
        let (_, plug) = Live::start(key(100), &instant());
        let stalled = engine.gate().stall(&*store, plug);
        let pending = vec![
            submit(&*store, live.pause()),
            submit(&*store, live.report(9)),
            submit(&*store, live.resume()),
        ];
        drop(stalled);
        assert_eq!(words(pending).await, ["ok", "fenced", "stale"]);
        let head = store.head(key(1)).await.unwrap().unwrap();
        assert_eq!((head.next, head.summary.status.name()), (4, "paused"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_decided_on_one_that_failed_does_not_land_on_another_as_long() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        // Two deciders have the same run. One's pause is never written, but its resume is still on the way.
        let (mut orphaned, mut other) = (live.clone(), live);
        orphaned.pause();
        let orphan = orphaned.resume();
        let reason = Some("somebody else's pause, which is as long".to_owned());
        let winner = other.decide(
            abide_core::Command::Pause { reason, by: None, drain: abide_core::Drain::Immediate },
            BEGIN,
        );
        commit(&*store, winner).await.unwrap();
        let before = engine.dump();
        assert_eq!(word(&commit(&*store, orphan).await), "stale");
        assert_eq!(engine.dump(), before);
    }
}
