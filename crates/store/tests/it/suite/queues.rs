//! Timers, tasks and messages: found in order, page by page, and gone with the commit that ends them.

use abide_core::{Effect, Key, Millis, TaskId, TenantId, TimerId};
use abide_store::{Commit, MessageRef, MessageRow, Store, TaskRow, TimerRow};

use crate::engine::{commit, engines, word};
use crate::live::{BEGIN, Live, key, notice_of, run_id, start};
use crate::workflow::{HOUR, instant, waiting, waiting_twice, working, working_twice};

async fn every_timer(store: &dyn Store) -> Vec<TimerRow> {
    store.timers(None, i64::MAX, 1000).await.unwrap()
}

async fn every_message(store: &dyn Store) -> Vec<MessageRow> {
    store.outbox(None, 1000).await.unwrap()
}

/// Starts a run that waits until an hour after `now`.
async fn wait_from(store: &dyn Store, key: Key, now: Millis) {
    let (_, created) = Live::start_with(start(key, &waiting()), now);
    commit(store, created).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_come_by_due_time_whatever_run_or_tenant_they_are_of() {
    for engine in engines() {
        let store = engine.open();
        let other = run_id(2).of(TenantId(2));
        wait_from(&*store, key(3), BEGIN).await;
        wait_from(&*store, other, BEGIN + 1).await;
        wait_from(&*store, key(1), BEGIN + 2).await;
        let (_, created) = Live::start(key(7), &waiting_twice());
        commit(&*store, created).await.unwrap();

        let rows = every_timer(&*store).await;
        let found: Vec<_> = rows.iter().map(|row| (row.due - BEGIN - HOUR, row.key)).collect();
        let expected = [(0, key(3)), (0, key(7)), (1, other), (2, key(1)), (HOUR, key(7))];
        assert_eq!(found, expected);
        assert!(rows.is_sorted(), "a row orders as its page does");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_due_later_are_left_out() {
    for engine in engines() {
        let store = engine.open();
        for n in 0..5 {
            wait_from(&*store, key(n), BEGIN + Millis::from(n)).await;
        }
        let due = async |until| store.timers(None, until, 100).await.unwrap().len();
        assert_eq!(due(BEGIN + HOUR - 1).await, 0);
        assert_eq!(due(BEGIN + HOUR).await, 1, "the bound itself is due");
        assert_eq!(due(BEGIN + HOUR + 2).await, 3);
        assert_eq!(due(i64::MAX).await, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_can_be_paged_even_where_many_are_due_at_once() {
    for engine in engines() {
        let store = engine.open();
        for n in 0..10 {
            let tenant = TenantId(1 + n % 2);
            wait_from(&*store, run_id(n).of(tenant), BEGIN + Millis::from(n / 5)).await;
        }
        let whole = every_timer(&*store).await;
        assert_eq!(whole.len(), 10);
        for limit in [1, 3, 7, 10, 11] {
            let mut paged: Vec<TimerRow> = Vec::new();
            loop {
                let after = paged.last().cloned();
                let page = store.timers(after, i64::MAX, limit).await.unwrap();
                assert!(page.len() <= limit && paged.len() <= whole.len(), "a page goes back");
                if page.is_empty() {
                    break;
                }
                paged.extend(page);
            }
            assert_eq!(paged, whole, "in pages of {limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_goes_with_the_commit_that_it_causes() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &waiting_twice());
        commit(&*store, created).await.unwrap();
        let mut cancelled = live.clone();
        commit(&*store, live.fire()).await.unwrap();
        let left = every_timer(&*store).await;
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].timer.clone(), left[0].due), live.first_timer());
        // The same run, as it would have been without the first timer: its end drops both, but comes late.
        assert_eq!(word(&commit(&*store, cancelled.cancel()).await), "stale");
        assert_eq!(every_timer(&*store).await, left);
        commit(&*store, live.cancel()).await.unwrap();
        assert!(every_timer(&*store).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_timer_that_is_named_is_dropped() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &waiting_twice());
        commit(&*store, created).await.unwrap();
        wait_from(&*store, key(2), BEGIN).await;
        wait_from(&*store, run_id(1).of(TenantId(2)), BEGIN).await;
        let before = every_timer(&*store).await;
        let (timer, due) = live.first_timer();
        let mut paused = live.pause();
        for due in [due - 1, due + 1] {
            paused.effects.push(Effect::DropTimer { timer: timer.clone(), due });
        }
        paused.effects.push(Effect::DropTimer { timer: TimerId::Stretch, due });
        commit(&*store, paused).await.unwrap();
        assert_eq!(every_timer(&*store).await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_raises_the_fence_and_the_older_one_is_refused() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = Live::start(key(1), &working());
        commit(&*store, created).await.unwrap();
        let task = live.first_task();
        // Starts of servers that are not there any more: a living one keeps what it has.
        for (boot, lease) in [(101, 2), (102, 3), (101, 4)] {
            let claimed = store.claim_tasks(boot, 10).await.unwrap();
            let row =
                TaskRow { key: key(1), task: task.clone(), fence: live.fence(lease), retaken: lease > 2 };
            assert_eq!(claimed, [row]);
            let late = live.clone().report(lease - 1);
            assert_eq!(word(&commit(&*store, late).await), "fenced");
        }
        commit(&*store, live.clone().report(4)).await.unwrap();
        assert!(store.claim_tasks(9, 10).await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_claims_what_it_holds() {
    for engine in engines() {
        let store = engine.open();
        let (_, created) = Live::start(key(1), &working());
        commit(&*store, Commit { boot: 5, ..created }).await.unwrap();
        assert!(store.claim_tasks(5, 10).await.unwrap().is_empty());
        assert_eq!(store.claim_tasks(6, 10).await.unwrap().len(), 1);
        assert!(store.claim_tasks(6, 10).await.unwrap().is_empty(), "now it is 6's");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_tells_what_somebody_may_have_begun() {
    for engine in engines() {
        let store = engine.open();
        for (n, boot) in [(1, 0), (2, 5), (3, 0), (4, 6)] {
            let (_, created) = Live::start(key(n), &working());
            commit(&*store, Commit { boot, ..created }).await.unwrap();
        }
        let claim = async |boot, limit| {
            let rows = store.claim_tasks(boot, limit).await.unwrap();
            rows.into_iter().map(|row| (row.key, row.retaken)).collect::<Vec<_>>()
        };
        assert_eq!(claim(6, 2).await, [(key(1), false), (key(2), true)]);
        assert_eq!(claim(6, 2).await, [(key(3), false)]);
        let all: Vec<_> = (1..5).map(|n| (key(n), true)).collect();
        assert_eq!(claim(7, 10).await, all, "now each was somebody's");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_takes_no_more_than_it_asked_for() {
    for engine in engines() {
        let store = engine.open();
        for n in 0..4 {
            let (_, created) = Live::start(key(n), &working_twice());
            commit(&*store, created).await.unwrap();
        }
        let mut claimed: Vec<(Key, TaskId)> = Vec::new();
        for expected in [3, 3, 2, 0] {
            let rows = store.claim_tasks(1, 3).await.unwrap();
            assert_eq!(rows.len(), expected);
            assert!(rows.iter().all(|row| row.fence % 2 == 1), "each was claimed for the first time");
            claimed.extend(rows.into_iter().map(|row| (row.key, row.task)));
        }
        claimed.sort_by(|a, b| (a.0, &a.1.node).cmp(&(b.0, &b.1.node)));
        claimed.dedup();
        assert_eq!(claimed.len(), 8, "none twice, none forgotten");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_outlives_the_server_that_made_it() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = Live::start(key(1), &working());
        commit(&*store, created).await.unwrap();
        let boot = store.boot();
        assert_eq!(store.claim_tasks(boot, 10).await.unwrap().len(), 1);
        store.close().await.unwrap();
        drop(store);
        let store = engine.open();
        assert_eq!(word(&commit(&*store, live.clone().report(1)).await), "fenced");
        assert!(store.claim_tasks(boot, 10).await.unwrap().is_empty());
        let again = store.claim_tasks(store.boot(), 10).await.unwrap();
        assert_eq!(again[0].fence, live.fence(3));
    }
}

/// Ends children of run 9 (of each tenant given), and gives the messages that this leaves.
async fn ended_children(store: &dyn Store, children: &[Key]) -> Vec<MessageRow> {
    for child in children {
        let (_, created) = Live::start_child(*child, &instant(), run_id(9));
        commit(store, created).await.unwrap();
    }
    every_message(store).await
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_can_be_paged() {
    for engine in engines() {
        let store = engine.open();
        let mut children: Vec<Key> = (20..26).rev().map(key).collect();
        children.push(run_id(22).of(TenantId(2)));
        let whole = ended_children(&*store, &children).await;
        let senders: Vec<Key> = whole.iter().map(|row| row.at.sender).collect();
        children.sort();
        assert_eq!(senders, children);
        for limit in [1, 2, 5, 7, 8] {
            let mut paged: Vec<MessageRow> = Vec::new();
            loop {
                let page = store.outbox(paged.last().map(|row| row.at), limit).await.unwrap();
                assert!(page.len() <= limit && paged.len() <= whole.len(), "a page goes back");
                if page.is_empty() {
                    break;
                }
                paged.extend(page);
            }
            assert_eq!(paged, whole, "in pages of {limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_goes_with_the_commit_that_heard_it() {
    for engine in engines() {
        let store = engine.open();
        let (mut parent, created) = Live::start(key(9), &waiting());
        commit(&*store, created).await.unwrap();
        let messages = ended_children(&*store, &[key(20), key(21)]).await;
        let mut late = parent.clone();
        let (at, notice) = notice_of(messages[0].clone());
        assert_eq!(store.heard(key(9), at.sender.id).await.unwrap(), None);

        commit(&*store, parent.hear(at, notice.clone(), None)).await.unwrap();
        assert_eq!(every_message(&*store).await, messages[1..]);
        assert_eq!(store.heard(key(9), at.sender.id).await.unwrap(), Some(at.sequence));

        let (at, notice) = notice_of(messages[1].clone());
        assert_eq!(word(&commit(&*store, late.hear(at, notice, None)).await), "stale");
        assert_eq!(every_message(&*store).await, messages[1..], "a stale commit hears nothing");
        assert_eq!(store.heard(key(9), at.sender.id).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_last_that_was_heard_of_each_sender_is_kept() {
    for engine in engines() {
        let store = engine.open();
        let (mut parent, created) = Live::start(key(9), &waiting());
        commit(&*store, created).await.unwrap();
        let (at, notice) = notice_of(ended_children(&*store, &[key(20)]).await.remove(0));
        let mut heard = None;
        for (ix, sequence) in [at.sequence, at.sequence + 5].into_iter().enumerate() {
            let notice = abide_core::Notice { sequence, ..notice.clone() };
            let consumed = Some(at).filter(|_| ix == 0).into_iter().collect();
            commit(&*store, Commit { consumed, ..parent.hear(at, notice, heard) }).await.unwrap();
            heard = store.heard(key(9), run_id(20)).await.unwrap();
            assert_eq!(heard, Some(sequence));
        }
        assert_eq!(store.heard(key(20), run_id(9)).await.unwrap(), None, "hearing has a direction");
        assert_eq!(engine.dump()["heard"].len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_delivered_once_whoever_delivers_it() {
    for engine in engines() {
        let store = engine.open();
        let (mut parent, created) = Live::start(key(9), &waiting());
        commit(&*store, created).await.unwrap();
        let (at, notice) = notice_of(ended_children(&*store, &[key(20)]).await.remove(0));
        commit(&*store, parent.hear(at, notice.clone(), None)).await.unwrap();
        let before = engine.dump();
        // Another server read the message before it was gone, and decides on the run as it is now.
        let again = parent.clone().hear(at, notice, None);
        assert_eq!(word(&commit(&*store, again).await), "delivered");
        assert_eq!(engine.dump(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_nobody_can_receive_are_discarded() {
    for engine in engines() {
        let store = engine.open();
        let messages = ended_children(&*store, &[key(20), key(21), key(22)]).await;
        let gone: Vec<MessageRef> = vec![messages[0].at, messages[2].at];
        store.discard(gone.clone()).await.unwrap();
        assert_eq!(every_message(&*store).await, messages[1..2]);
        store.discard(gone).await.unwrap();
        let mut near_misses = vec![messages[1].at; 3];
        near_misses[0].sequence += 1;
        near_misses[1].receiver = run_id(1);
        near_misses[2].sender.tenant = TenantId(2);
        store.discard(near_misses).await.unwrap();
        assert_eq!(every_message(&*store).await, messages[1..2]);
        drop(store);
        assert_eq!(every_message(&*engine.open()).await, messages[1..2]);
    }
}
