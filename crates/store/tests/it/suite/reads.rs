//! Reads: journals in pages, snapshots with their tails, large payloads, lists, and nobody else's data.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use abide_core::{Graph, Key, Payload, Run, RunId, Start, Status, TenantId, sha256};
use abide_store::{Commit, ListQuery, Listed, Store};

use crate::engine::{commit, engines, word};
use crate::live::{BEGIN, Live, TENANT, key, notice_of, run_id, start, text_input};
use crate::workflow::{echo, instant, waiting, waiting_elsewhere, working};

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_can_be_read_from_anywhere() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &waiting());
        let mut whole = created.records.clone();
        commit(&*store, created).await.unwrap();
        for moved in [live.pause(), live.resume(), live.fire()] {
            whole.extend(moved.records.clone());
            commit(&*store, moved).await.unwrap();
        }
        assert_eq!(whole.len(), 6);
        for from in 0..=7 {
            for limit in [0, 1, 4, 100, usize::MAX] {
                let page = store.journal(key(1), from, limit).await.unwrap();
                let expected: Vec<_> = whole.iter().skip(from as usize).take(limit).cloned().collect();
                assert_eq!(page, expected, "from {from}, at most {limit}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_reads_as_none() {
    for engine in engines() {
        let store = engine.open();
        assert!(store.load(key(1)).await.unwrap().is_none());
        assert!(store.head(key(1)).await.unwrap().is_none());
        assert!(store.journal(key(1), 0, 10).await.unwrap().is_empty());
        assert!(store.blob(TENANT, [0; 32]).await.unwrap().is_none());
        assert!(store.heard(key(1), run_id(2)).await.unwrap().is_none());
        assert!(store.api_keys().await.unwrap().is_empty());
        assert!(store.test_clock().await.unwrap().is_none());
        assert!(all(&*store, TENANT).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_comes_with_the_events_behind_it() {
    for engine in engines() {
        let store = engine.open();
        let graph = waiting();
        let (mut live, created) = Live::start(key(1), &graph);
        let salt = created.salt.unwrap();
        commit(&*store, created).await.unwrap();
        let paused = live.pause();
        let snapshot = live.run.snapshot();
        let with_snapshot = Commit { snapshot: Some(snapshot.clone()), ..paused };
        commit(&*store, with_snapshot).await.unwrap();
        let loaded = store.load(key(1)).await.unwrap().unwrap();
        assert_eq!(loaded.snapshot, Some((3, snapshot.clone())));
        assert!(loaded.tail.is_empty());

        let resumed = live.resume();
        let tail = resumed.records.clone();
        commit(&*store, resumed).await.unwrap();
        let loaded = store.load(key(1)).await.unwrap().unwrap();
        assert_eq!(loaded.snapshot, Some((3, snapshot)), "a commit without one keeps the last");
        assert_eq!((&loaded.tail, loaded.head.next), (&tail, 4));
        assert_eq!(loaded.salt, Some(salt), "the salt does not hide behind the snapshot");
        let mut run = Run::from_snapshot(key(1), salt, graph, &loaded.snapshot.unwrap().1).unwrap();
        for record in &loaded.tail {
            run.apply(record).unwrap();
        }
        assert_eq!(run.snapshot(), live.run.snapshot());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_be_created_with_a_snapshot() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = Live::start(key(1), &waiting());
        let snapshot = Some(live.run.snapshot());
        commit(&*store, Commit { snapshot, ..created }).await.unwrap();
        let loaded = store.load(key(1)).await.unwrap().unwrap();
        assert_eq!(loaded.snapshot, Some((2, live.run.snapshot())));
        assert!(loaded.tail.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_sees_one_moment_while_the_run_goes_on() {
    for engine in engines() {
        let store = engine.open();
        let graph = waiting();
        let (mut live, created) = Live::start(key(1), &graph);
        let salt = created.salt.unwrap();
        commit(&*store, created).await.unwrap();
        let (seen, last) = (RefCell::new(BTreeSet::new()), Cell::new(None));
        let going_on = async {
            // However slow the reader is: it goes on until enough was seen of it.
            for turn in (0..20_000).take_while(|turn| *turn < 200 || seen.borrow().len() <= 20) {
                let moved = if turn % 2 == 0 { live.pause() } else { live.resume() };
                // Some commits move the snapshot as well, so that there is more to tear.
                let snapshot = (turn % 4 > 1).then(|| live.run.snapshot());
                commit(&*store, Commit { snapshot, ..moved }).await.unwrap();
            }
            last.set(Some(live.run.head().next));
        };
        let looking_on = async {
            loop {
                let loaded = store.load(key(1)).await.unwrap().unwrap();
                let mut run = match &loaded.snapshot {
                    Some((_, bytes)) => Run::from_snapshot(key(1), salt, graph.clone(), bytes).unwrap(),
                    None => Run::empty(key(1), salt, graph.clone()),
                };
                for record in &loaded.tail {
                    run.apply(record).unwrap();
                }
                assert_eq!((run.head().next, run.status()), (loaded.head.next, loaded.summary.status));
                seen.borrow_mut().insert(loaded.head.next);
                if last.get() == Some(loaded.head.next) {
                    break;
                }
            }
        };
        tokio::join!(going_on, looking_on);
        let moments = seen.borrow().len();
        assert!(moments > 20, "only {moments} moments were seen");
    }
}

/// A run whose first payload is exactly so long, with the commit that creates it.
fn start_with_payload_of(key: Key, bytes: usize) -> (Live, Commit) {
    let with_text = |length: usize| {
        // Two bytes a letter, and a tag for the odd one.
        let (inputs, tags) = (text_input(&"é".repeat(length / 2)), vec!["x".repeat(length % 2)]);
        let start = start(key, &echo());
        Live::start_with(Start { inputs, tags, ..start }, BEGIN)
    };
    let overhead = first_payload(&with_text(0).1).len();
    let (live, commit) = with_text(bytes - overhead);
    assert_eq!(first_payload(&commit).len(), bytes, "the test can count");
    (live, commit)
}

fn first_payload(commit: &Commit) -> &[u8] {
    match &commit.records[0].payload {
        Payload::Present(bytes) => bytes,
        Payload::Erased(_) => panic!("nothing was erased"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_of_any_size_come_back_byte_for_byte() {
    for engine in engines() {
        let store = engine.open();
        for (n, bytes) in [(1, 4095), (2, 4096), (3, 4097), (4, 1_000_000)] {
            let (_, created) = start_with_payload_of(key(n), bytes);
            commit(&*store, created.clone()).await.unwrap();
            assert_eq!(store.journal(key(n), 0, 100).await.unwrap(), created.records, "{bytes} bytes");
            assert_eq!(store.load(key(n)).await.unwrap().unwrap().tail, created.records);
            let payload = first_payload(&created);
            let blob = store.blob(TENANT, created.records[0].chain).await.unwrap();
            let expected = (bytes > 4096).then_some(payload);
            assert_eq!(blob.as_deref(), expected, "{bytes} bytes: a large one is a blob");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_payloads_are_not_shared_and_tell_nothing_of_themselves() {
    for engine in engines() {
        let store = engine.open();
        let mut created_with = Vec::new();
        for tenant in [TENANT, TENANT, TenantId(2)] {
            let run = run_id(all(&*store, tenant).await.len() as u32);
            let (_, created) = start_with_payload_of(run.of(tenant), 5000);
            commit(&*store, created.clone()).await.unwrap();
            created_with.push(created);
        }
        // Each run has two large payloads: its inputs, and the same text as an output.
        assert_eq!(engine.dump()["blobs"].len(), 2 * 3);
        for created in created_with {
            assert_eq!(store.journal(created.key, 0, 100).await.unwrap(), created.records);
            let (payload, link) = (first_payload(&created), created.records[0].chain);
            assert_eq!(store.blob(created.key.tenant, link).await.unwrap().as_deref(), Some(payload));
            assert!(store.blob(TenantId(3), link).await.unwrap().is_none());
            assert!(
                store.blob(created.key.tenant, sha256(payload)).await.unwrap().is_none(),
                "no hash to guess at"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blobs_handed_in_with_a_commit_can_be_read() {
    for engine in engines() {
        let store = engine.open();
        let graph = waiting();
        for n in 1..=2 {
            let (_, created) = Live::start(key(n), &graph);
            let blobs = vec![(graph.hash, graph.source.clone())];
            commit(&*store, Commit { blobs, ..created }).await.unwrap();
        }
        let source = store.blob(TENANT, graph.hash).await.unwrap().unwrap();
        assert_eq!(Graph::admit(&source).unwrap().hash, graph.hash);
        assert_eq!(engine.dump()["blobs"].len(), 1);
    }
}

async fn list(
    store: &dyn Store,
    tenant: TenantId,
    status: Option<Status>,
    before: Option<RunId>,
    limit: usize,
) -> Vec<Listed> {
    let query = ListQuery { tenant, status, workflow: None, before, limit };
    store.list(query).await.unwrap()
}

async fn all(store: &dyn Store, tenant: TenantId) -> Vec<Listed> {
    list(store, tenant, None, None, usize::MAX).await
}

fn ids(listed: &[Listed]) -> Vec<RunId> {
    listed.iter().map(|listed| listed.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_newest_first_page_by_page() {
    for engine in engines() {
        let store = engine.open();
        for n in [3, 0, 6, 1, 5, 2, 4] {
            let (_, created) = Live::start(key(n), &waiting());
            commit(&*store, created).await.unwrap();
        }
        let newest_first: Vec<RunId> = (0..7).rev().map(run_id).collect();
        assert_eq!(ids(&all(&*store, TENANT).await), newest_first);
        for limit in [1, 3, 7, 8] {
            let mut paged = Vec::new();
            loop {
                let page = list(&*store, TENANT, None, paged.last().copied(), limit).await;
                assert!(page.len() <= limit && paged.len() <= newest_first.len(), "a page goes back");
                if page.is_empty() {
                    break;
                }
                paged.extend(ids(&page));
            }
            assert_eq!(paged, newest_first, "in pages of {limit}");
        }
        let gap = list(&*store, TENANT, None, Some(run_id(100)), 2).await;
        assert_eq!(ids(&gap), newest_first[..2], "the run that a cursor names need not exist");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_can_be_narrowed_to_a_status() {
    for engine in engines() {
        let store = engine.open();
        for n in 0..4 {
            let (mut live, created) = Live::start(key(n), &waiting());
            commit(&*store, created).await.unwrap();
            if n % 2 == 1 {
                commit(&*store, live.pause()).await.unwrap();
            }
        }
        let (live, created) = Live::start(key(4), &instant());
        commit(&*store, created).await.unwrap();
        let with = async |status| ids(&list(&*store, TENANT, Some(status), None, 10).await);
        assert_eq!(with(Status::Running).await, [run_id(2), run_id(0)]);
        assert_eq!(with(Status::Paused).await, [run_id(3), run_id(1)]);
        assert_eq!(with(Status::Completed).await, [run_id(4)]);
        assert!(with(Status::Failed).await.is_empty());
        let older = list(&*store, TENANT, Some(Status::Paused), Some(run_id(3)), 10).await;
        assert_eq!(ids(&older), [run_id(1)]);
        let completed = list(&*store, TENANT, Some(Status::Completed), None, 1).await.remove(0);
        assert_eq!(completed.summary, live.run.summary());
        assert_eq!((completed.next, completed.at), (live.run.head().next, BEGIN));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_can_be_narrowed_to_a_workflow_and_a_status() {
    for engine in engines() {
        let store = engine.open();
        for n in 0..6 {
            let graph = if n % 3 == 0 { waiting_elsewhere() } else { waiting() };
            let (mut live, created) = Live::start(key(n), &graph);
            commit(&*store, created).await.unwrap();
            if n >= 3 {
                commit(&*store, live.pause()).await.unwrap();
            }
        }
        let workflow = Some(waiting().workflow_id.to_string());
        let of = |status, before| ListQuery {
            tenant: TENANT,
            status,
            workflow: workflow.clone(),
            before,
            limit: 10,
        };
        let found = async |query| ids(&store.list(query).await.unwrap());
        assert_eq!(found(of(None, None)).await, [5, 4, 2, 1].map(run_id));
        assert_eq!(found(of(None, Some(run_id(4)))).await, [2, 1].map(run_id));
        assert_eq!(found(of(Some(Status::Paused), None)).await, [5, 4].map(run_id));
        assert_eq!(found(of(Some(Status::Completed), None)).await, []);
        let elsewhere = ListQuery { tenant: TenantId(2), ..of(None, None) };
        assert_eq!(found(elsewhere).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_may_have_a_run_of_the_same_id_and_see_nothing_of_each_other() {
    for engine in engines() {
        let store = engine.open();
        let (mine, yours, nobody) = (key(1), run_id(1).of(TenantId(2)), run_id(1).of(TenantId(3)));
        let (mut my_run, created) = Live::start(mine, &waiting());
        commit(&*store, created).await.unwrap();
        let (your_run, created) = Live::start_child(yours, &working(), run_id(9));
        commit(&*store, created).await.unwrap();
        commit(&*store, my_run.pause()).await.unwrap();

        for (key, run) in [(mine, &my_run.run), (yours, &your_run.run)] {
            let loaded = store.load(key).await.unwrap().unwrap();
            assert_eq!(loaded.summary, run.summary());
            assert_eq!(loaded.head.next, run.head().next);
            let journal = store.journal(key, 0, 100).await.unwrap();
            assert_eq!(journal, loaded.tail);
            assert_eq!(journal.last().unwrap().chain, run.head().chain);
            let listed = all(&*store, key.tenant).await;
            assert_eq!(listed.len(), 1);
            assert_eq!(listed[0].summary, run.summary());
        }
        assert!(store.load(nobody).await.unwrap().is_none());
        assert!(store.head(nobody).await.unwrap().is_none());
        assert!(store.journal(nobody, 0, 10).await.unwrap().is_empty());
        assert!(all(&*store, nobody.tenant).await.is_empty());

        // What one ends or hears is nothing to the other.
        let mut your_run = your_run;
        commit(&*store, your_run.report(1)).await.unwrap();
        let message = store.outbox(None, 10).await.unwrap().remove(0);
        let (at, notice) = notice_of(message.clone());
        assert_eq!(at.sender, yours);
        let (mut my_parent, created) = Live::start(key(9), &waiting());
        commit(&*store, created).await.unwrap();
        let mut wrong_tenant = at;
        wrong_tenant.sender.tenant = TENANT;
        let foreign = my_parent.clone().hear(wrong_tenant, notice.clone(), None);
        assert_eq!(word(&commit(&*store, foreign).await), "delivered", "there is no such message here");
        let plain = my_parent.hear(wrong_tenant, notice, None);
        commit(&*store, Commit { consumed: Vec::new(), ..plain }).await.unwrap();
        assert_eq!(store.outbox(None, 10).await.unwrap(), [message]);
        let your_parent = run_id(9).of(TenantId(2));
        assert_eq!(store.heard(your_parent, run_id(1)).await.unwrap(), None);
        commit(&*store, my_run.cancel()).await.unwrap();
        assert_eq!(store.head(yours).await.unwrap().unwrap().summary, your_run.run.summary());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_are_given_up_leave_room_for_others() {
    for engine in engines() {
        let store = engine.open();
        let (_, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        for _ in 0..500 {
            // Polled once, which begins the read, and then dropped: as when a client hangs up.
            let mut given_up = store.load(key(1));
            let waker = std::task::Waker::noop();
            let _ = given_up.as_mut().poll(&mut std::task::Context::from_waker(waker));
            drop(given_up);
            assert!(store.load(key(1)).await.unwrap().is_some());
        }
    }
}
