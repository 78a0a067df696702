//! Webhooks: deliveries are made with the events that they carry, leave in order, and are given up by the rules.

use abide_core::{EventType, Health, Millis, RunId, TenantId};
use abide_store::{
    About, Added, Attempted, DEAD_LETTERS_MAX, DeliveryQuery, DeliveryRow, Due, Outcome, Receipt, Store,
    Waiting, WebhookKey, WebhookRow,
};

use crate::engine::{commit, engines, submit, word};
use crate::live::{BEGIN, Live, TENANT, key, run_id};
use crate::workflow::{HOUR, instant, waiting};

fn named(tenant: TenantId, id: &str) -> WebhookKey {
    WebhookKey { tenant, id: id.into() }
}

fn webhook(key: WebhookKey, types: &[&str]) -> WebhookRow {
    WebhookRow {
        key,
        url: "https://a.example/hook".to_owned(),
        types: types.iter().map(ToString::to_string).collect(),
        tags: vec!["blue".to_owned()],
        sealed: [0, 0xff, 7].as_slice().into(),
        fingerprint: "abcd".to_owned(),
        created_at: BEGIN,
        created_by: Some("somebody".to_owned()),
        health: Health::default(),
        about: None,
    }
}

async fn put(store: &dyn Store, row: WebhookRow) {
    assert_eq!(store.webhooks().put(row, 10, None).await.unwrap(), Added::Done);
}

/// A webhook of the usual tenant.
async fn add(store: &dyn Store, id: &str, types: &[&str]) -> WebhookKey {
    let key = named(TENANT, id);
    put(store, webhook(key.clone(), types)).await;
    key
}

async fn due(store: &dyn Store, key: &WebhookKey, now: Millis) -> Due {
    store.webhooks().due(key.clone(), now, 100).await.unwrap().unwrap()
}

/// What is due, as sequences by run.
async fn waiting_at(store: &dyn Store, key: &WebhookKey, now: Millis) -> Vec<(RunId, u64)> {
    due(store, key, now).await.waiting.iter().map(|one| (one.run, one.sequence)).collect()
}

async fn settle(
    store: &dyn Store,
    key: &WebhookKey,
    delivery: Waiting,
    at: Millis,
    outcome: Outcome,
) -> Option<Waiting> {
    let attempt = Attempted { webhook: key.clone(), delivery, at, outcome };
    store.webhooks().settle(vec![attempt]).await.unwrap().pop().unwrap()
}

fn failed() -> Outcome {
    Outcome::Failed { status: Some(500), error: "it said no".to_owned() }
}

async fn listed(store: &dyn Store, key: &WebhookKey, dead: bool) -> Vec<DeliveryRow> {
    let query = DeliveryQuery { webhook: key.clone(), dead, after: None, limit: usize::MAX >> 1 };
    store.webhooks().deliveries(query).await.unwrap()
}

/// Starts a run that ends with its first commit, and gives the sequences and the names of its canonical events.
async fn instant_run(store: &dyn Store, n: u32) -> Vec<(u64, &'static str)> {
    let (_, created) = Live::start(key(n), &instant());
    let events = created.records.iter().filter_map(|record| {
        let kind = EventType::by_code(record.type_code).filter(|kind| kind.canonical)?;
        Some((record.sequence, kind.name))
    });
    let events = events.collect();
    commit(store, created).await.unwrap();
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn without_webhooks_a_commit_looks_nothing_up() {
    for engine in engines() {
        let store = engine.open();
        instant_run(&*store, 1).await;
        let before = store.counts();
        assert_eq!(before.matched, 0);
        let other = named(TenantId(2), "theirs");
        put(&*store, webhook(other.clone(), &["*"])).await;
        instant_run(&*store, 2).await;
        let hook = add(&*store, "hook", &["run.failed", "approval.requested"]).await;
        instant_run(&*store, 3).await;
        let after = store.counts();
        assert_eq!(after.matched, 0, "another tenant's, or for other events");
        let apart = run_id(9).of(TenantId(3));
        commit(&*store, Live::start(apart, &instant()).1).await.unwrap();
        let row_of_one = store.counts().rows - after.rows;
        assert_eq!(after.rows - before.rows, 2 * row_of_one, "no run wrote a row more");
        assert!(store.webhooks().delete(hook).await.unwrap());
        assert!(store.webhooks().delete(other).await.unwrap());
        instant_run(&*store, 4).await;
        assert_eq!(store.counts().matched, 0);
        assert!(engine.dump()["deliveries"].is_empty() && engine.dump()["webhook_types"].is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_that_is_wanted_leaves_in_order() {
    for engine in engines() {
        let store = engine.open();
        let all = add(&*store, "all", &["*"]).await;
        let ends = add(&*store, "ends", &["run.completed"]).await;
        let events = instant_run(&*store, 1).await;
        assert_eq!(store.counts().matched, 1);
        let end = events.last().unwrap().0;
        assert_eq!(waiting_at(&*store, &ends, BEGIN).await, [(run_id(1), end)]);
        let mut sent = Vec::new();
        let mut next = due(&*store, &all, BEGIN).await.waiting.pop();
        while let Some(delivery) = next {
            assert_eq!(waiting_at(&*store, &all, BEGIN).await, [(run_id(1), delivery.sequence)]);
            sent.push(delivery.sequence);
            next = settle(&*store, &all, delivery, BEGIN, Outcome::Arrived).await;
        }
        let expected: Vec<u64> = events.iter().map(|(sequence, _)| *sequence).collect();
        assert_eq!(sent, expected);
        assert_eq!(waiting_at(&*store, &all, i64::MAX).await, []);
        let shown = store.webhooks().get(all.clone()).await.unwrap().unwrap();
        assert_eq!((shown.delivered, shown.pending, shown.dead), (expected.len() as u64, 0, 0));
        assert_eq!(store.webhooks().busy().await.unwrap(), [ends]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_while_an_earlier_event_is_on_its_way_follows_it() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["run.started", "run.paused", "run.cancelled"]).await;
        let (mut live, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.unwrap();
        let first = due(&*store, &hook, BEGIN).await.waiting.pop().unwrap();
        assert_eq!(first.sequence, 0);
        commit(&*store, live.pause()).await.unwrap();
        assert_eq!(waiting_at(&*store, &hook, BEGIN).await, [(run_id(1), 0)], "one at a time");
        let paused = settle(&*store, &hook, first, BEGIN, Outcome::Arrived).await.unwrap();
        assert!(paused.sequence > 0);
        assert_eq!(settle(&*store, &hook, paused.clone(), BEGIN, Outcome::Arrived).await, None);
        let again = settle(&*store, &hook, paused, BEGIN, Outcome::Arrived).await;
        assert_eq!(again, None, "a settled one is settled");
        commit(&*store, live.cancel()).await.unwrap();
        assert_eq!(waiting_at(&*store, &hook, BEGIN).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_commit_makes_no_delivery_and_a_durable_one_is_told_of() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["*"]).await;
        let news = store.webhooks().news();
        assert!(news.next().await.contains(&hook), "it is new");
        let (mut live, created) = Live::start(key(1), &waiting());
        let mut late = live.clone();
        commit(&*store, created).await.unwrap();
        assert!(news.next().await.contains(&hook));
        commit(&*store, live.pause()).await.unwrap();
        let before = engine.dump();
        assert_eq!(word(&commit(&*store, late.pause()).await), "stale");
        assert_eq!(engine.dump(), before);
        let told = tokio::select! { biased; _ = news.next() => true, () = std::future::ready(()) => false };
        assert!(!told, "the line was there before, so there is nothing new to look at");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_batch_each_commit_makes_its_own() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["run.completed"]).await;
        let (_, plug) = Live::start(key(100), &instant());
        let stalled = engine.gate().stall(&*store, plug);
        let pending: Vec<_> = (0..20).map(|n| submit(&*store, Live::start(key(n), &instant()).1)).collect();
        drop(stalled);
        for answer in pending {
            answer.answer().await.unwrap();
        }
        assert_eq!(waiting_at(&*store, &hook, BEGIN).await.len(), 21);
        let page = store.webhooks().due(hook, BEGIN, 5).await.unwrap().unwrap();
        assert_eq!(page.waiting.len(), 5);
    }
}

/// Fails a delivery until it is given up, and tells when each attempt was.
async fn fail_to_the_end(store: &dyn Store, key: &WebhookKey, delivery: &Waiting) -> Vec<Millis> {
    let mut now = BEGIN;
    let mut tried = Vec::new();
    loop {
        tried.push(now);
        settle(store, key, delivery.clone(), now, failed()).await;
        let later = due(store, key, now).await;
        if later.waiting.iter().all(|one| one.run != delivery.run || one.sequence != delivery.sequence)
            && later.next.is_none()
        {
            return tried;
        }
        now = later.next.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_fails_is_tried_again_later_and_at_last_given_up() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["run.started", "run.completed"]).await;
        let end = instant_run(&*store, 1).await.last().unwrap().0;
        let first = due(&*store, &hook, BEGIN).await.waiting.pop().unwrap();
        let tried = fail_to_the_end(&*store, &hook, &first).await;
        assert_eq!(tried.len(), 9, "{tried:?}");
        assert!((11 * HOUR..24 * HOUR).contains(&(tried[8] - BEGIN)), "{tried:?}");
        assert!(tried.windows(2).all(|pair| pair[1] > pair[0]));
        let last = tried[8];
        assert_eq!(waiting_at(&*store, &hook, last).await, [(run_id(1), end)], "the next event goes on");
        let [dead] = listed(&*store, &hook, true).await.try_into().unwrap();
        assert_eq!((dead.sequence, dead.attempts, dead.due), (0, 9, None));
        assert_eq!((dead.last_status, dead.last_at), (Some(500), Some(last)));
        assert_eq!(EventType::by_code(dead.type_code).unwrap().name, "run.started");

        let other = named(TenantId(2), "hook");
        assert_eq!(store.webhooks().resend(other, None, last).await.unwrap(), 0);
        let named = Some(vec![(run_id(1), 0), (run_id(2), 0)]);
        assert_eq!(store.webhooks().resend(hook.clone(), named, last).await.unwrap(), 1);
        let pending = listed(&*store, &hook, false).await;
        assert_eq!(pending.iter().map(|row| row.sequence).collect::<Vec<_>>(), [0, end]);
        assert_eq!(listed(&*store, &hook, true).await, []);
        let again = Waiting { again: true, ..first };
        assert!(due(&*store, &hook, last).await.waiting.contains(&again));
        settle(&*store, &hook, again.clone(), last, failed()).await;
        assert!(!due(&*store, &hook, last).await.waiting.contains(&again), "it waits like any other");
        assert_eq!(settle(&*store, &hook, again, last, Outcome::Arrived).await, None);
        assert_eq!(engine.dump()["dead_letters"].len(), 0);
        assert_eq!(waiting_at(&*store, &hook, last).await, [(run_id(1), end)], "what it stood apart from");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_dead_letters_the_newest_are_kept() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["run.completed"]).await;
        for n in 0..DEAD_LETTERS_MAX as u32 + 3 {
            instant_run(&*store, n).await;
        }
        let all = store.webhooks().due(hook.clone(), BEGIN, 2000).await.unwrap().unwrap().waiting;
        let attempts = all.into_iter().zip(BEGIN..).map(|(delivery, at)| Attempted {
            webhook: hook.clone(),
            delivery,
            at,
            outcome: Outcome::Unsendable { error: "x".repeat(10_000) },
        });
        store.webhooks().settle(attempts.collect()).await.unwrap();
        let shown = store.webhooks().get(hook.clone()).await.unwrap().unwrap();
        assert_eq!((shown.dead, shown.dropped, shown.pending), (DEAD_LETTERS_MAX as u64, 3, 0));
        assert_eq!(shown.webhook.health, Health::default(), "the receiver is not to blame");
        let kept = listed(&*store, &hook, true).await;
        assert_eq!(kept[0].last_at, Some(BEGIN + 3), "the oldest went");
        assert!(kept[0].last_error.as_ref().unwrap().len() <= 500);
        assert_eq!(store.webhooks().resend(hook.clone(), None, BEGIN).await.unwrap(), 1000);
        assert_eq!(store.webhooks().busy().await.unwrap(), [hook]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_failed_hears_nothing_until_it_is_enabled() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["*"]).await;
        instant_run(&*store, 1).await;
        let first = due(&*store, &hook, BEGIN).await.waiting.pop().unwrap();
        settle(&*store, &hook, first, BEGIN, Outcome::Gone { status: 410 }).await;
        assert!(due(&*store, &hook, BEGIN).await.webhook.health.failed);
        assert_eq!(store.webhooks().busy().await.unwrap(), []);
        let matched = store.counts().matched;
        instant_run(&*store, 2).await;
        assert_eq!(store.counts().matched, matched);
        drop(store);

        let store = engine.open();
        instant_run(&*store, 3).await;
        assert_eq!(waiting_at(&*store, &hook, BEGIN).await, [], "nor after a restart");
        assert!(store.webhooks().enable(hook.clone(), BEGIN).await.unwrap());
        assert_eq!(waiting_at(&*store, &hook, BEGIN).await, [(run_id(1), 0)], "what waited goes on");
        instant_run(&*store, 4).await;
        assert_eq!(waiting_at(&*store, &hook, BEGIN).await.len(), 2);
        assert!(!store.webhooks().enable(named(TENANT, "none"), BEGIN).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_comes_back_as_it_was_put_and_each_tenant_has_its_own() {
    for engine in engines() {
        let store = engine.open();
        let mine = webhook(named(TENANT, "a"), &["run.failed", "*"]);
        let theirs = webhook(named(TenantId(2), "a"), &["*"]);
        for row in [&mine, &theirs] {
            assert_eq!(store.webhooks().put(row.clone(), 1, None).await.unwrap(), Added::Done);
        }
        let more = store.webhooks().put(webhook(named(TENANT, "b"), &["*"]), 1, None).await.unwrap();
        assert_eq!(more, Added::Full);
        instant_run(&*store, 1).await;
        drop(store);
        let store = engine.open();
        let found = store.webhooks().list(TENANT).await.unwrap();
        assert_eq!(found.iter().map(|shown| &shown.webhook).collect::<Vec<_>>(), [&mine]);
        assert_eq!(found[0].pending, 1);
        assert_eq!(waiting_at(&*store, &theirs.key, i64::MAX).await, [], "another tenant's events");
        assert!(!store.webhooks().delete(named(TENANT, "b")).await.unwrap());
        assert!(store.webhooks().delete(mine.key.clone()).await.unwrap());
        assert_eq!(store.webhooks().get(mine.key.clone()).await.unwrap(), None);
        assert!(store.webhooks().due(mine.key, BEGIN, 1).await.unwrap().is_none());
        let dump = engine.dump();
        assert_eq!((dump["webhooks"].len(), dump["deliveries"].len()), (1, 0));
        assert!(dump["webhook_types"].iter().all(|row| row.starts_with("2 | ")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_ends_after_its_webhook_went_changes_nothing() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["*"]).await;
        instant_run(&*store, 1).await;
        let first = due(&*store, &hook, BEGIN).await.waiting.pop().unwrap();
        assert!(store.webhooks().delete(hook.clone()).await.unwrap());
        let before = engine.dump();
        for outcome in [Outcome::Arrived, failed(), Outcome::Gone { status: 410 }, Outcome::Unwanted] {
            assert_eq!(settle(&*store, &hook, first.clone(), BEGIN, outcome).await, None);
        }
        assert_eq!(engine.dump(), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_enabled_while_it_is_deleted_leaves_nothing() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["*"]).await;
        let mut deleting = store.webhooks().delete(hook.clone());
        std::future::poll_fn(|cx| {
            let _ = deleting.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
        assert!(store.webhooks().enable(hook.clone(), BEGIN).await.unwrap());
        assert!(deleting.await.unwrap());
        instant_run(&*store, 1).await;
        assert_eq!(listed(&*store, &hook, false).await, []);
        assert_eq!(store.counts().matched, 0, "nobody wants to hear");
        assert!(engine.dump()["webhook_types"].is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_served_waits_behind_those_that_were_not() {
    for engine in engines() {
        let store = engine.open();
        let hook = add(&*store, "hook", &["*"]).await;
        instant_run(&*store, 1).await;
        instant_run(&*store, 2).await;
        let runs = async |now| waiting_at(&*store, &hook, now).await.into_iter().map(|(run, _)| run);
        assert!(runs(BEGIN).await.eq([1, 2].map(run_id)));
        let first = due(&*store, &hook, BEGIN).await.waiting.swap_remove(0);
        assert!(settle(&*store, &hook, first, BEGIN + 5, Outcome::Arrived).await.is_some());
        assert!(runs(BEGIN + 5).await.eq([2, 1].map(run_id)));
        let second = due(&*store, &hook, BEGIN + 5).await.waiting.swap_remove(0);
        let unsendable = Outcome::Unsendable { error: "unreadable".to_owned() };
        settle(&*store, &hook, second.clone(), BEGIN + 6, unsendable).await;
        assert_eq!(store.webhooks().resend(hook.clone(), None, BEGIN + 4).await.unwrap(), 1);
        let found = due(&*store, &hook, BEGIN + 6).await.waiting;
        assert_eq!(found[0], Waiting { again: true, ..second }, "a dead letter has its turn as well");
        assert_eq!(found.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_is_written_with_its_webhook_or_keeps_it_out() {
    for engine in engines() {
        let store = engine.open();
        let receipt = Receipt {
            tenant: TENANT,
            endpoint: "registerWebhook".to_owned(),
            key: [1; 32],
            digest: [2; 32],
            status: 201,
            body: b"{}".to_vec(),
            at: BEGIN,
        };
        let row = |id| webhook(named(TENANT, id), &["*"]);
        let put = async |id, most| store.webhooks().put(row(id), most, Some(receipt.clone())).await.unwrap();
        assert_eq!(put("a", 0).await, Added::Full);
        assert!(engine.dump()["receipts"].is_empty(), "what was refused leaves no receipt");
        assert_eq!(put("b", 10).await, Added::Done);
        let before = engine.dump();
        assert_eq!(put("c", 10).await, Added::Receipted);
        assert_eq!(engine.dump(), before);
        assert_eq!(
            store.receipt(TENANT, receipt.endpoint.clone(), receipt.key).await.unwrap(),
            Some(receipt.clone())
        );
    }
}

/// A webhook that is about one run.
fn about(id: &str, n: u32, until: Option<Millis>) -> WebhookRow {
    let about = About { run: run_id(n), group: false, subscriber: "ada".to_owned(), until };
    WebhookRow { tags: Vec::new(), about: Some(about), ..webhook(named(TENANT, id), &["status_changed"]) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_about_one_run_hears_of_all_of_it_and_of_nothing_else() {
    for engine in engines() {
        let store = engine.open();
        put(&*store, about("one", 1, None)).await;
        drop(store);
        // A server that starts knows of it.
        let store = engine.open();
        let one = named(TENANT, "one");
        instant_run(&*store, 2).await;
        assert_eq!(store.counts().matched, 0, "nobody wants to hear of another run");
        let (_, created) = Live::start(key(1), &instant());
        let all: Vec<u64> = created.records.iter().map(|record| record.sequence).collect();
        commit(&*store, created).await.unwrap();
        let (mut told, mut arrived) = (Vec::new(), 0);
        let mut next = due(&*store, &one, BEGIN).await.waiting.pop();
        while let Some(delivery) = next {
            told.push(delivery.sequence);
            let passed = delivery.sequence % 2 == 0;
            arrived += u64::from(!passed);
            let outcome = if passed { Outcome::Passed } else { Outcome::Arrived };
            next = settle(&*store, &one, delivery, BEGIN, outcome).await;
        }
        assert_eq!(told, all);
        let shown = store.webhooks().get(one.clone()).await.unwrap().unwrap();
        assert_eq!(
            (shown.delivered, shown.pending),
            (arrived, 0),
            "what there was nothing to say of is not counted"
        );
        assert_eq!(shown.webhook, about("one", 1, None));
        assert!(store.webhooks().delete(one).await.unwrap());
        assert!(engine.dump()["webhook_runs"].is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_about_runs_are_counted_apart_and_make_room_when_their_time_is_over() {
    for engine in engines() {
        let store = engine.open();
        let webhooks = store.webhooks();
        let ids = |rows: Vec<WebhookRow>| rows.iter().map(|row| row.key.id.to_string()).collect::<Vec<_>>();
        let add = async |row| webhooks.put(row, 1, None).await.unwrap();
        assert_eq!(add(webhook(named(TENANT, "all"), &["*"])).await, Added::Done);
        assert_eq!(add(about("first", 1, Some(BEGIN + 1))).await, Added::Done);
        assert_eq!(add(about("second", 2, None)).await, Added::Full);
        assert_eq!(add(webhook(named(TENANT, "more"), &["*"])).await, Added::Full);
        instant_run(&*store, 1).await;
        let later = WebhookRow { created_at: BEGIN + 1, ..about("second", 2, None) };
        assert_eq!(add(later).await, Added::Done);
        assert_eq!(ids(webhooks.subscriptions(TENANT, None).await.unwrap()), ["second"]);
        assert_eq!(ids(webhooks.subscriptions(TENANT, Some(run_id(2))).await.unwrap()), ["second"]);
        assert!(webhooks.subscriptions(TENANT, Some(run_id(1))).await.unwrap().is_empty());
        assert!(webhooks.subscriptions(TenantId(2), None).await.unwrap().is_empty());
        let dump = engine.dump();
        assert_eq!(dump["webhook_runs"].len(), 1);
        assert!(dump["deliveries"].iter().all(|row| !row.contains("first")), "{:?}", dump["deliveries"]);
    }
}
