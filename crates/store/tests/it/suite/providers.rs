//! Turns that wait for their provider: there with the commit that has them wait, gone with the commit that has them go
//! on. And breakers: one version after the other, each written once.

use abide_core::breaker::Permit;
use abide_core::{
    BreakerState, Effect, Json, KeptBreaker, Key, Millis, ProviderWait, Status, TaskId, TenantId,
};
use abide_store::{
    Beside, BreakerRow, Commit, Erased, Erasure, Expected, NewAudit, Purge, Store, Truncated, Truncation,
    WaitCounts, WaitRow,
};

use crate::engine::{commit, engines};
use crate::live::{BEGIN, Live, TENANT, key, run_id};
use crate::workflow::waiting;

const OTHER: TenantId = TenantId(2);

fn wait(node: &str, provider: &str, postponed: bool, since: Millis) -> ProviderWait {
    let task = TaskId { node: node.into(), execution: 1 };
    ProviderWait { task, provider: provider.to_owned(), postponed, since, until: since + 500 }
}

fn postponed(node: &str, since: Millis) -> ProviderWait {
    wait(node, "claude", true, since)
}

/// A run whose nodes wait for providers. What the workflow itself does is of no concern here.
async fn awaiting(store: &dyn Store, at: Key, waits: Vec<ProviderWait>) -> Live {
    let (live, created) = Live::start(at, &waiting());
    let mut effects = created.effects.clone();
    effects.extend(waits.into_iter().map(Effect::AwaitProvider));
    commit(store, Commit { effects, ..created }).await.unwrap();
    live
}

/// The run is paused, or goes on, with this beside.
async fn with(store: &dyn Store, live: &mut Live, effect: Effect) {
    let step = if live.run.status() == Status::Paused { live.resume() } else { live.pause() };
    commit(store, Commit { effects: vec![effect], ..step }).await.unwrap();
}

async fn nodes(store: &dyn Store, limit: usize) -> Vec<String> {
    let rows = store.providers().postponed(TENANT, "claude".to_owned(), limit).await.unwrap();
    rows.into_iter().map(|row| row.wait.task.node.to_string()).collect()
}

async fn waits(store: &dyn Store, at: Key) -> Vec<ProviderWait> {
    store.beside(at, Expected::default()).await.unwrap().waits
}

#[tokio::test]
async fn turns_that_wait_for_a_breaker_are_found_oldest_first_and_others_are_not() {
    for engine in engines() {
        let store = engine.open();
        awaiting(&*store, key(2), vec![postponed("third", BEGIN + 3), postponed("first", BEGIN + 1)]).await;
        let retry = wait("retries", "claude", false, BEGIN);
        let elsewhere = wait("elsewhere", "gpt", true, BEGIN);
        awaiting(&*store, key(1), vec![postponed("second", BEGIN + 2), retry, elsewhere]).await;
        awaiting(&*store, run_id(1).of(OTHER), vec![postponed("foreign", BEGIN)]).await;
        assert_eq!(nodes(&*store, 10).await, ["first", "second", "third"]);
        assert_eq!(nodes(&*store, 2).await, ["first", "second"]);
        let rows = store.providers().postponed(OTHER, "claude".to_owned(), 10).await.unwrap();
        assert_eq!(rows, [WaitRow { key: run_id(1).of(OTHER), wait: postponed("foreign", BEGIN) }]);
        let named = |tenant, name: &str| (tenant, name.to_owned());
        let lines = store.providers().postponed_for().await.unwrap();
        assert_eq!(lines, [named(TENANT, "claude"), named(TENANT, "gpt"), named(OTHER, "claude")]);
    }
}

#[tokio::test]
async fn turns_that_wait_are_counted_by_what_for() {
    for engine in engines() {
        let store = engine.open();
        let retry = wait("c", "claude", false, BEGIN);
        let all = vec![postponed("a", BEGIN), postponed("b", BEGIN), retry, wait("d", "gpt", false, BEGIN)];
        awaiting(&*store, key(1), all).await;
        let counts = |provider: &str, retry, postponed| {
            let provider = provider.to_owned();
            WaitCounts { provider, retry, postponed }
        };
        let found = store.providers().waiting_turns(TENANT).await.unwrap();
        assert_eq!(found, [counts("claude", 1, 2), counts("gpt", 1, 0)]);
        assert!(store.providers().waiting_turns(OTHER).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_wait_is_replaced_by_the_next_and_gone_when_the_turn_goes_on() {
    for engine in engines() {
        let store = engine.open();
        let mut live = awaiting(&*store, key(1), vec![postponed("n", BEGIN)]).await;
        let next = wait("n", "claude", false, BEGIN + 9);
        with(&*store, &mut live, Effect::AwaitProvider(next.clone())).await;
        assert_eq!(waits(&*store, key(1)).await, [next]);
        assert!(nodes(&*store, 9).await.is_empty());
        assert_eq!(store.totals().await.unwrap().waits, 1);
        let task = TaskId { node: "n".into(), execution: 1 };
        with(&*store, &mut live, Effect::LeaveProvider(task)).await;
        assert!(waits(&*store, key(1)).await.is_empty());
        assert_eq!(store.totals().await.unwrap().waits, 0);
    }
}

#[tokio::test]
async fn a_cut_journal_has_the_waits_that_follow_from_what_is_left() {
    for engine in engines() {
        let store = engine.open();
        let live = awaiting(&*store, key(1), vec![postponed("gone", BEGIN), postponed("stays", BEGIN)]).await;
        let (head, kept) =
            (live.run.head(), vec![postponed("earlier", BEGIN - 1), postponed("stays", BEGIN)]);
        let truncation = Truncation {
            key: key(1),
            counted: head,
            kept: head,
            summary: live.run.summary(),
            beside: Beside { waits: kept.clone(), ..Beside::default() },
            fences: Vec::new(),
            offers: Vec::new(),
            parent: None,
            again: Vec::new(),
            audit: NewAudit {
                key: key(1),
                at: BEGIN,
                kind: "truncation".to_owned(),
                body: Json::of(&serde_json::json!({})),
            },
        };
        assert_eq!(store.truncate(truncation).await.unwrap(), Truncated::Done { dropped: 0 });
        assert_eq!(waits(&*store, key(1)).await, kept);
    }
}

#[tokio::test]
async fn nothing_waits_of_a_run_that_is_erased_or_removed() {
    for engine in engines() {
        let store = engine.open();
        let mut erased = awaiting(&*store, key(1), vec![postponed("a", BEGIN)]).await;
        commit(&*store, erased.cancel()).await.unwrap();
        let mut removed = awaiting(&*store, key(2), vec![postponed("b", BEGIN)]).await;
        commit(&*store, removed.cancel()).await.unwrap();
        assert_eq!(nodes(&*store, 9).await, ["a", "b"]);
        let erasure = Erasure { at: BEGIN, by: None, reason: None };
        assert!(matches!(store.erase(key(1), erasure).await.unwrap(), Erased::Done { .. }));
        assert_eq!(nodes(&*store, 9).await, ["b"]);
        let purge = Purge { number: None, at: BEGIN, by: None, filter: "{}".to_owned() };
        store.retention().begin_purge(TENANT, vec![run_id(2)], purge).await.unwrap();
        while store.retention().purge_page().await.unwrap().more {}
        assert!(nodes(&*store, 9).await.is_empty());
        assert_eq!(store.totals().await.unwrap().waits, 0);
    }
}

fn breaker(tenant: TenantId, version: u64, state: BreakerState) -> BreakerRow {
    BreakerRow { tenant, downstream: "claude".to_owned(), kept: KeptBreaker { version, state } }
}

fn open() -> BreakerState {
    BreakerState::Open { opened_at: BEGIN, until: BEGIN + 30, cooldown_ms: 30 }
}

fn half_open(holder: u64) -> BreakerState {
    let permit = Permit { holder, expires: BEGIN + 99 };
    BreakerState::HalfOpen { opened_at: BEGIN, until: BEGIN + 30, cooldown_ms: 30, permit }
}

#[tokio::test]
async fn a_breaker_is_there_after_a_start_as_it_was_left() {
    for engine in engines() {
        let store = engine.open();
        assert_eq!(store.providers().breaker(TENANT, "claude".to_owned()).await.unwrap(), None);
        let rows = [breaker(TENANT, 1, open()), breaker(TENANT, 2, half_open(7)), breaker(OTHER, 1, open())];
        for row in &rows {
            assert!(store.providers().put_breaker(row.clone()).await.unwrap());
        }
        drop(store);
        let store = engine.open();
        for row in &rows[1..] {
            let found = store.providers().breaker(row.tenant, "claude".to_owned()).await.unwrap();
            assert_eq!(found.as_ref(), Some(row));
        }
        assert_eq!(store.providers().breaker(TENANT, "gpt".to_owned()).await.unwrap(), None);
    }
}

#[tokio::test]
async fn of_two_that_take_the_permit_of_a_breaker_one_gets_it() {
    for engine in engines() {
        let store = engine.open();
        assert!(store.providers().put_breaker(breaker(TENANT, 1, open())).await.unwrap());
        let (one, two) = (breaker(TENANT, 2, half_open(1)), breaker(TENANT, 2, half_open(2)));
        let puts = tokio::join!(
            store.providers().put_breaker(one.clone()),
            store.providers().put_breaker(two.clone())
        );
        let (first, second) = (puts.0.unwrap(), puts.1.unwrap());
        assert!(first != second, "{first} {second}");
        let winner = if first { one } else { two };
        let found = store.providers().breaker(TENANT, "claude".to_owned()).await.unwrap();
        assert_eq!(found, Some(winner));
    }
}

#[tokio::test]
async fn a_breaker_that_has_moved_on_is_not_written_over() {
    for engine in engines() {
        let store = engine.open();
        let put = async |version| {
            let closed = breaker(TENANT, version, BreakerState::Closed);
            store.providers().put_breaker(closed).await.unwrap()
        };
        assert!(!put(0).await && !put(2).await && !put(u64::from(u32::MAX)).await, "the first is the first");
        assert!(put(1).await && !put(1).await);
        assert!(put(2).await && !put(1).await && !put(2).await && !put(4).await);
    }
}
