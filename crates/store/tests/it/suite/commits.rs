//! Commits: whole or not at all, in order, and readable once they are answered.

use std::sync::{Arc, Mutex};

use abide_core::Status;
use abide_store::{Commit, Lane, ListQuery, Message, MessageRef, MessageRow, TimerRow};

use crate::engine::{Pending, commit, engines, submit, submit_in, word, words};
use crate::live::{BEGIN, Live, TENANT, ended_well, key, run_id};
use crate::workflow::{HOUR, instant, waiting, working};

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_can_be_read_once_it_is_answered() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = Live::start(key(1), &waiting());
        commit(&*store, created.clone()).await.unwrap();
        for store in [store.as_ref(), engine.open_for_reading().unwrap().as_ref()] {
            let loaded = store.load(key(1)).await.unwrap().unwrap();
            assert_eq!(loaded.summary, live.run.summary());
            assert_eq!(
                (loaded.head.next, loaded.head.at, loaded.salt),
                (2, BEGIN, created.salt),
                "run.started and node.started"
            );
            assert_eq!(loaded.tail, created.records);
            assert!(loaded.snapshot.is_none());
            assert_eq!(store.journal(key(1), 0, 100).await.unwrap(), created.records);
            let head = store.head(key(1)).await.unwrap().unwrap();
            assert_eq!(
                (head.id, head.summary, head.next, head.at),
                (run_id(1), live.run.summary(), 2, BEGIN)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_brings_its_timers_tasks_and_messages() {
    for engine in engines() {
        let store = engine.open();
        let (waits, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        let (works, created) = Live::start(key(2), &working());
        commit(&*store, created).await.unwrap();
        let (_, created) = Live::start_child(key(3), &instant(), run_id(9));
        let sequence = created.records.last().unwrap().sequence;
        commit(&*store, created).await.unwrap();

        let timers = store.timers(None, i64::MAX, 10).await.unwrap();
        let (timer, due) = waits.first_timer();
        assert_eq!(due, BEGIN + HOUR);
        assert_eq!(timers, [TimerRow { due, key: key(1), timer }]);

        let tasks = store.claim_tasks(store.boot(), 10).await.unwrap();
        let tasks: Vec<_> = tasks.into_iter().map(|row| (row.key, row.task)).collect();
        assert_eq!(tasks, [(key(2), works.first_task())]);

        let at = MessageRef { sender: key(3), sequence, receiver: run_id(9) };
        let message = Message::Notice(ended_well(run_id(3), sequence));
        assert_eq!(store.outbox(None, 10).await.unwrap(), [MessageRow { at, message }]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn later_commits_move_the_columns_along() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        for moved in [live.pause(), live.resume(), live.fire()] {
            commit(&*store, moved).await.unwrap();
        }
        let head = store.head(key(1)).await.unwrap().unwrap();
        assert_eq!(head.summary, live.run.summary());
        assert_eq!(head.summary.status, Status::Completed);
        assert_eq!((head.next, head.at), (live.run.head().next, BEGIN + HOUR));
        assert_eq!(head.summary.started_at, BEGIN, "the start stays, however far the run has come");
        assert!(store.timers(None, i64::MAX, 10).await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_on_an_old_head_is_stale_and_writes_nothing() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        let mut late = live.clone();
        commit(&*store, live.pause()).await.unwrap();
        let (before, counts) = (engine.dump(), store.counts());

        // Cancelling would drop the timer and end the run; the blob and the snapshot would come on top.
        let stale = Commit {
            snapshot: Some(b"late".to_vec()),
            blobs: vec![([7; 32], b"late".as_slice().into())],
            ..late.cancel()
        };
        assert_eq!(word(&commit(&*store, stale).await), "stale");
        assert_eq!(engine.dump(), before);
        assert_eq!(store.counts().commits, counts.commits);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_ahead_of_its_run_is_stale_too() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        let before = engine.dump();
        live.pause();
        assert_eq!(word(&commit(&*store, live.resume()).await), "stale");
        let (mut unborn, _) = Live::start(key(2), &waiting());
        assert_eq!(word(&commit(&*store, unborn.pause()).await), "stale");
        assert_eq!(engine.dump(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_created_once() {
    for engine in engines() {
        let store = engine.open();
        let (_, first) = Live::start(key(1), &waiting());
        let (_, second) = Live::start(key(1), &working());
        commit(&*store, first.clone()).await.unwrap();
        let before = engine.dump();
        assert_eq!(word(&commit(&*store, second).await), "stale");
        assert_eq!(word(&commit(&*store, first).await), "stale", "not even the same again");
        assert_eq!(engine.dump(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_batch_only_the_stale_commits_drop_out() {
    for engine in engines() {
        let store = engine.open();
        let (mut old, created) = Live::start(key(1000), &waiting());
        commit(&*store, created).await.unwrap();
        let mut late = old.clone();
        commit(&*store, old.pause()).await.unwrap();
        let before = store.counts();

        let (_, plug) = Live::start(key(2000), &instant());
        let stalled = engine.gate().stall(&*store, plug);
        let mut expected = Vec::new();
        let mut pending = Vec::new();
        for n in 0..100 {
            // Twice a run that is created in the same batch, and once a head that the file has passed.
            let (commit, answer) = match n {
                30 => (Live::start(key(10), &waiting()).1, "stale"),
                60 => (late.cancel(), "stale"),
                61 => (Live::start(key(59), &waiting()).1, "stale"),
                n => (Live::start(key(n), &waiting()).1, "ok"),
            };
            pending.push(submit(&*store, commit));
            expected.push(answer);
        }
        drop(stalled);
        assert_eq!(words(pending).await, expected);

        let after = store.counts();
        assert_eq!(after.commits - before.commits, 97 + 1);
        assert!(
            after.transactions - before.transactions < after.commits - before.commits,
            "nothing was shared: {after:?}"
        );
        let dump = engine.dump();
        assert_eq!(dump["aggregates"].len(), 2 + 97, "each that was accepted is there once");
        assert_eq!(dump["timers"].len(), 1 + 97);
        assert_eq!(store.head(key(1000)).await.unwrap().unwrap().summary.status, Status::Paused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_batch_can_carry_a_whole_run() {
    for engine in engines() {
        let store = engine.open();
        let (_, plug) = Live::start(key(2), &instant());
        let stalled = engine.gate().stall(&*store, plug);
        let (mut live, created) = Live::start(key(1), &waiting());
        let mut stale = live.clone();
        let mut pending = vec![submit(&*store, created), submit(&*store, live.pause())];
        pending.push(submit(&*store, stale.cancel()));
        pending.push(submit(&*store, live.resume()));
        pending.push(submit(&*store, live.fire()));
        drop(stalled);
        assert_eq!(words(pending).await, ["ok", "ok", "stale", "ok", "ok"]);
        let loaded = store.load(key(1)).await.unwrap().unwrap();
        assert_eq!(loaded.summary.status, Status::Completed);
        assert_eq!(loaded.tail.len() as u64, live.run.head().next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_in_the_order_of_submission() {
    for engine in engines() {
        let store = engine.open();
        let told: Arc<Mutex<Vec<(u32, usize)>>> = Arc::default();
        let mut lives: Vec<Live> = Vec::new();
        let mut last = Vec::new();
        for turn in 0..120 {
            for run in 0..3 {
                let commit = match lives.get_mut(run as usize) {
                    None => {
                        let (live, created) = Live::start(key(run), &waiting());
                        lives.push(live);
                        created
                    }
                    Some(live) if turn % 2 == 1 => live.pause(),
                    Some(live) => live.resume(),
                };
                let (told, (done, answer)) = (told.clone(), tokio::sync::oneshot::channel());
                let tell = move |result: Result<(), _>| {
                    result.unwrap();
                    told.lock().unwrap().push((run, turn));
                    done.send(()).unwrap();
                };
                assert!(store.submit(commit, Lane::Background, Box::new(tell)).is_ok());
                last.push(answer);
            }
        }
        for answer in last {
            answer.await.expect("every commit is accepted");
        }
        for run in 0..3 {
            let told = told.lock().unwrap();
            let turns: Vec<usize> = told.iter().filter(|(of, _)| *of == run).map(|(_, turn)| *turn).collect();
            assert_eq!(turns, (0..120).collect::<Vec<_>>(), "run {run}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_never_comes_from_inside_the_submission() {
    for engine in engines() {
        let store = engine.open();
        let mut answers = Vec::new();
        for n in 0..20 {
            let (done, answer) = tokio::sync::oneshot::channel();
            let tell = move |_| done.send(std::thread::current().id()).unwrap();
            let (_, created) = Live::start(key(n), &instant());
            assert!(store.submit(created, Lane::Interactive, Box::new(tell)).is_ok());
            answers.push(answer);
        }
        for answer in answers {
            assert_ne!(answer.await.unwrap(), std::thread::current().id());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_come_first_and_timers_do_not_starve() {
    for engine in engines() {
        let store = engine.open();
        let (_, plug) = Live::start(key(100_000), &instant());
        let stalled = engine.gate().stall(&*store, plug);
        let told: Arc<Mutex<Vec<Lane>>> = Arc::default();
        let submit_telling = |n: u32, lane: Lane| -> Pending {
            let told = told.clone();
            let (_, created) = Live::start(key(n), &instant());
            let (done, answer) = tokio::sync::oneshot::channel();
            let tell = move |result: Result<(), _>| {
                told.lock().unwrap().push(lane);
                drop(done.send(result));
            };
            assert!(store.submit(created, lane, Box::new(tell)).is_ok());
            Pending::from(answer)
        };
        let mut pending: Vec<Pending> = (0..10).map(|n| submit_telling(n, Lane::Background)).collect();
        pending.extend((10..2010).map(|n| submit_telling(n, Lane::Interactive)));
        drop(stalled);
        assert!(words(pending).await.iter().all(|word| *word == "ok"));
        let told = told.lock().unwrap();
        let background = |lane: &Lane| *lane == Lane::Background;
        assert!(told.iter().position(background).unwrap() > 0, "people waited");
        assert!(
            told.iter().rposition(background).unwrap() < told.len() - 1000,
            "timers waited for everybody"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_lanes_lead_to_the_same_table() {
    for engine in engines() {
        let store = engine.open();
        for (n, lane) in [(1, Lane::Background), (2, Lane::Interactive)] {
            let (_, created) = Live::start(key(n), &waiting());
            submit_in(&*store, created, lane).answer().await.unwrap();
        }
        let query = ListQuery { tenant: TENANT, status: None, workflow: None, before: None, limit: 10 };
        assert_eq!(store.list(query).await.unwrap().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_is_counted() {
    for engine in engines() {
        let store = engine.open();
        assert_eq!(store.counts(), abide_store::Counts::default());
        let (mut live, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        let first = store.counts();
        // One aggregate, two events, one timer.
        assert_eq!((first.commits, first.transactions, first.rows), (1, 1, 4));
        commit(&*store, live.pause()).await.unwrap();
        let second = store.counts();
        assert_eq!((second.commits, second.transactions, second.rows), (2, 2, 4 + 2));
    }
}
