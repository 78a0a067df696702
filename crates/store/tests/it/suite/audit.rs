//! Reads for `abide verify`: everything there is, next to what should be there.

use abide_core::{Key, TaskId, TenantId, TimerId};
use abide_store::{Beside, Expected, Listed, Message, Store, TimerRow, Totals};

use crate::engine::{commit, engines};
use crate::live::{Live, ended_well, key, notice_of, run_id};
use crate::workflow::{instant, waiting, waiting_twice, working_twice};

async fn begin(store: &dyn Store, started: (Live, abide_store::Commit)) -> Live {
    commit(store, started.1).await.unwrap();
    started.0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_passes_every_run_of_every_tenant_once() {
    for engine in engines() {
        let store = engine.open();
        let mut keys: Vec<Key> = (0..5).map(key).collect();
        keys.extend((3..6).map(|n| run_id(n).of(TenantId(2))));
        for key in keys.iter().rev() {
            begin(&*store, Live::start(*key, &waiting())).await;
        }
        for limit in [1, 3, 8, 9] {
            let mut scanned: Vec<(Key, Listed)> = Vec::new();
            loop {
                let after = scanned.last().map(|(key, _)| *key);
                let page = store.scan(after, limit).await.unwrap();
                assert!(page.len() <= limit && scanned.len() <= keys.len(), "a page goes back");
                if page.is_empty() {
                    break;
                }
                scanned.extend(page.into_iter().map(|(key, listed)| (key, listed.unwrap())));
            }
            let found: Vec<Key> = scanned.iter().map(|(key, _)| *key).collect();
            assert_eq!(found, keys, "in pages of {limit}");
            assert!(scanned.iter().all(|(key, listed)| listed.id == key.id && listed.next == 2));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_beside_a_journal_is_its_own() {
    for engine in engines() {
        let store = engine.open();
        let mut parent = begin(&*store, Live::start(key(1), &waiting_twice())).await;
        begin(&*store, Live::start(run_id(1).of(TenantId(2)), &working_twice())).await;
        begin(&*store, Live::start(key(2), &working_twice())).await;
        begin(&*store, Live::start_child(key(3), &instant(), run_id(1))).await;
        begin(&*store, Live::start_child(key(4), &instant(), run_id(1))).await;
        let (message, notice) = notice_of(store.outbox(None, 1).await.unwrap().remove(0));
        commit(&*store, parent.hear(message, notice, None)).await.unwrap();

        let (timer, due) = parent.first_timer();
        let there = TimerRow { due, key: key(1), timer };
        let not_there = TimerRow { timer: TimerId::Stretch, ..there.clone() };
        let moved = TimerRow { due: due + 1, ..there.clone() };
        let timers = vec![there.clone(), not_there, moved];
        let expected = Expected { timers, ..Expected::default() };
        let beside = store.beside(key(1), expected).await.unwrap();
        let expected = Beside { timers: vec![there], heard: vec![(run_id(3), 3)], ..Beside::default() };
        assert_eq!(beside, expected);

        let task = |node: &str| TaskId { node: node.into(), execution: 1 };
        let tasks = vec![task("left"), task("right")];
        let beside = store.beside(key(2), Expected::default()).await.unwrap();
        assert_eq!(beside, Beside { tasks, ..Beside::default() });

        assert_eq!(store.beside(key(3), Expected::default()).await.unwrap(), Beside::default());
        let beside = store.beside(key(4), Expected::default()).await.unwrap();
        let sent = vec![(run_id(1), Message::Notice(ended_well(run_id(4), 3)))];
        assert_eq!(beside, Beside { sent, ..Beside::default() });

        let events = 4 + 3 + 3 + 4 + 4;
        let totals = Totals {
            timers: 2,
            tasks: 4,
            heard: 1,
            outbox: 1,
            events,
            children: 0,
            claims: 0,
            assignments: 0,
            interrupts: 0,
            work: 0,
            waits: 0,
            names: 0,
            dependencies: 0,
            watchers: 0,
            members: 0,
            miscounted: 0,
        };
        assert_eq!(store.totals().await.unwrap(), totals);
    }
}
