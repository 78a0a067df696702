//! Records: beside a journal, bounded for each kind, compared before they are changed, and gone with it.

use abide_core::{Json, Key, TenantId};
use abide_store::{Erasure, NewAnnotation, NewRecord, Recorded, SUBSCRIPTION, Store};
use serde_json::json;

use crate::engine::{commit, engines};
use crate::live::{BEGIN, Live, key, run_id};
use crate::workflow::{instant, waiting};

fn body(word: &str) -> Json {
    Json::of(&json!({ "says": word }))
}

fn says(key: Key, kind: &str, word: &str) -> NewRecord {
    let (kind, by) = (kind.to_owned(), Some("ada".to_owned()));
    NewRecord { key, kind, at: BEGIN + 1, by, body: body(word), most: 3, behind: None }
}

async fn add(store: &dyn Store, record: NewRecord) -> Recorded {
    store.records().add(record).await.unwrap()
}

async fn words(store: &dyn Store, key: Key, kind: &str) -> Vec<String> {
    let found = store.records().after(key, kind.to_owned(), None, 10).await.unwrap();
    found.iter().map(|note| note.body.text().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_a_kind_are_kept_in_order_among_the_notes() {
    for engine in engines() {
        let store = engine.open();
        commit(&*store, Live::start(key(1), &waiting()).1).await.unwrap();
        let before = engine.dump();
        for (n, (kind, word)) in
            [("cost", "one"), ("failure", "two"), ("cost", "three")].into_iter().enumerate()
        {
            assert_eq!(add(&*store, says(key(1), kind, word)).await, Recorded::Done { sequence: n as u64 });
        }
        let note =
            NewAnnotation { key: key(1), at: BEGIN, by: None, body: body("note"), most: 1, receipt: None };
        store.annotate(note).await.unwrap();
        assert_eq!(add(&*store, says(key(1), "cost", "five")).await, Recorded::Done { sequence: 4 });
        assert_eq!(add(&*store, says(key(1), "cost", "six")).await, Recorded::Full);
        let after = engine.dump();
        assert!(before.iter().all(|(table, rows)| table == "notes" || after.get(table) == Some(rows)));
        drop(store);

        let store = engine.open();
        let records = store.records();
        assert_eq!(words(&*store, key(1), "cost").await.len(), 3);
        let sequences =
            |page: Vec<abide_store::Note>| page.iter().map(|note| note.sequence).collect::<Vec<_>>();
        let cost = || "cost".to_owned();
        assert_eq!(sequences(records.after(key(1), cost(), Some(0), 1).await.unwrap()), [2]);
        assert_eq!(sequences(records.before(key(1), cost(), None, 2).await.unwrap()), [4, 2]);
        assert_eq!(sequences(records.before(key(1), cost(), Some(2), 2).await.unwrap()), [0]);
        let one = records.get(key(1), "failure".to_owned(), 1).await.unwrap().unwrap();
        assert_eq!((one.at, one.by.as_deref(), one.kind.as_str()), (BEGIN + 1, Some("ada"), "failure"));
        assert_eq!(records.get(key(1), cost(), 1).await.unwrap(), None, "it is of another kind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_keeps_a_record_beside_what_is_not_theirs() {
    for engine in engines() {
        let store = engine.open();
        commit(&*store, Live::start(key(1), &waiting()).1).await.unwrap();
        let foreign = run_id(1).of(TenantId(2));
        assert_eq!(add(&*store, says(foreign, "cost", "x")).await, Recorded::NotFound);
        assert_eq!(add(&*store, says(key(9), "cost", "x")).await, Recorded::NotFound);
        add(&*store, says(key(1), "cost", "mine")).await;
        assert_eq!(words(&*store, foreign, "cost").await, Vec::<String>::new());
        let records = store.records();
        assert!(!records.replace(foreign, "cost".to_owned(), 0, body("mine"), body("theirs")).await.unwrap());
        assert!(!records.remove(foreign, "cost".to_owned(), 0).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_changed_meanwhile_is_not_overwritten() {
    for engine in engines() {
        let store = engine.open();
        commit(&*store, Live::start(key(1), &waiting()).1).await.unwrap();
        let behind = |newest, word| NewRecord { behind: Some(newest), ..says(key(1), "cost", word) };
        assert_eq!(add(&*store, behind(Some(0), "early")).await, Recorded::Raced);
        assert_eq!(add(&*store, behind(None, "first")).await, Recorded::Done { sequence: 0 });
        assert_eq!(add(&*store, behind(None, "late")).await, Recorded::Raced);
        assert_eq!(add(&*store, says(key(1), "failure", "other")).await, Recorded::Done { sequence: 1 });
        assert_eq!(add(&*store, behind(Some(0), "second")).await, Recorded::Done { sequence: 2 });

        let (records, cost) = (store.records(), || "cost".to_owned());
        assert!(records.replace(key(1), cost(), 0, body("first"), body("better")).await.unwrap());
        assert!(!records.replace(key(1), cost(), 0, body("first"), body("worse")).await.unwrap());
        assert!(
            !records.replace(key(1), "failure".to_owned(), 0, body("better"), body("worse")).await.unwrap()
        );
        assert!(records.remove(key(1), cost(), 2).await.unwrap());
        assert!(!records.remove(key(1), cost(), 2).await.unwrap(), "it is gone already");
        assert!(!records.replace(key(1), cost(), 2, Json::of(&()), body("back")).await.unwrap());
        assert_eq!(words(&*store, key(1), "cost").await, [r#"{"says":"better"}"#]);
        assert_eq!(records.count(key(1), cost()).await.unwrap(), 2, "what was taken back counts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_records_say_is_erased_with_the_run() {
    for engine in engines() {
        let store = engine.open();
        for n in [1, 2] {
            commit(&*store, Live::start(key(n), &instant()).1).await.unwrap();
            add(&*store, says(key(n), "cost", "hush")).await;
        }
        store.erase(key(1), Erasure { at: BEGIN + 5, by: None, reason: None }).await.unwrap();
        assert_eq!(words(&*store, key(1), "cost").await, Vec::<String>::new());
        assert_eq!(words(&*store, key(2), "cost").await.len(), 1, "the other run's stays");
        assert_eq!(add(&*store, says(key(1), "cost", "more")).await, Recorded::Erased);
        let told: Vec<_> = store.notes(key(1)).await.unwrap().into_iter().map(|note| note.kind).collect();
        assert_eq!(told, ["cost", "erased"], "that it was said is known");
        assert!(
            !store.records().replace(key(1), "cost".to_owned(), 0, body("hush"), body("x")).await.unwrap()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_are_found_by_who_made_them() {
    for engine in engines() {
        let store = engine.open();
        for n in [1, 2, 3] {
            commit(&*store, Live::start(key(n), &waiting()).1).await.unwrap();
        }
        let mine = |n| says(key(n), SUBSCRIPTION, "mine");
        let theirs = NewRecord { by: Some("bob".to_owned()), ..mine(1) };
        for record in [mine(2), theirs, mine(1), says(key(3), "cost", "mine"), mine(3)] {
            assert!(matches!(add(&*store, record).await, Recorded::Done { .. }));
        }
        assert!(store.records().remove(key(3), SUBSCRIPTION.to_owned(), 1).await.unwrap());
        let found = async |tenant, by: &str, limit| {
            let found = store.records().subscriptions(tenant, by.to_owned(), limit).await.unwrap();
            found.iter().map(|(run, note)| (*run, note.sequence)).collect::<Vec<_>>()
        };
        let tenant = key(1).tenant;
        assert_eq!(found(tenant, "ada", 9).await, [(run_id(1), 1), (run_id(2), 0)]);
        assert_eq!(found(tenant, "ada", 1).await, [(run_id(1), 1)]);
        assert_eq!(found(tenant, "bob", 9).await, [(run_id(1), 0)]);
        assert_eq!(found(TenantId(tenant.0 + 1), "ada", 9).await, []);
    }
}
