//! Annotations: beside a journal, bounded, and gone with it.

use abide_core::{Json, Key, TenantId};
use abide_store::{Annotated, Erasure, NewAnnotation, Receipt, Store};
use serde_json::json;

use crate::engine::{commit, engines};
use crate::live::{BEGIN, Live, key, run_id};
use crate::workflow::{instant, waiting};

fn says(key: Key, word: &str) -> NewAnnotation {
    let body = Json::of(&json!({ "says": word }));
    NewAnnotation { key, at: BEGIN + 1, by: Some("ada".to_owned()), body, most: 3, receipt: None }
}

async fn words(store: &dyn Store, key: Key, after: Option<u64>, limit: usize) -> (Vec<String>, u64) {
    let found = store.annotations(key, after, limit).await.unwrap();
    (found.page.iter().map(|note| note.body.text().to_owned()).collect(), found.total)
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_are_kept_in_order_and_touch_nothing_else() {
    for engine in engines() {
        let store = engine.open();
        commit(&*store, Live::start(key(1), &waiting()).1).await.unwrap();
        commit(&*store, Live::start(key(2), &instant()).1).await.unwrap();
        let before = engine.dump();
        for (n, word) in ["one", "two", "three"].into_iter().enumerate() {
            let added = store.annotate(says(key(1), word)).await.unwrap();
            assert_eq!(added, Annotated::Done { sequence: n as u64 });
        }
        assert_eq!(store.annotate(says(key(1), "four")).await.unwrap(), Annotated::Full);
        assert_eq!(store.annotate(says(key(2), "late")).await.unwrap(), Annotated::Done { sequence: 0 });
        let mut after = engine.dump();
        assert_eq!(after.remove("notes").unwrap().len(), 4);
        assert!(before.iter().all(|(table, rows)| table == "notes" || after.get(table) == Some(rows)));
        drop(store);

        let store = engine.open();
        let all = [r#"{"says":"one"}"#, r#"{"says":"two"}"#, r#"{"says":"three"}"#];
        assert_eq!(words(&*store, key(1), None, 10).await, (all.map(str::to_owned).into(), 3));
        assert_eq!(words(&*store, key(1), Some(0), 1).await, (vec![all[1].to_owned()], 3));
        assert_eq!(words(&*store, key(1), Some(u64::MAX), 1).await, (vec![], 3));
        let note = store.annotations(key(1), None, 1).await.unwrap().page.remove(0);
        assert_eq!((note.at, note.by.as_deref()), (BEGIN + 1, Some("ada")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_annotates_what_is_not_theirs() {
    for engine in engines() {
        let store = engine.open();
        commit(&*store, Live::start(key(1), &waiting()).1).await.unwrap();
        let before = engine.dump();
        let foreign = run_id(1).of(TenantId(2));
        assert_eq!(store.annotate(says(foreign, "x")).await.unwrap(), Annotated::NotFound);
        assert_eq!(store.annotate(says(key(9), "x")).await.unwrap(), Annotated::NotFound);
        assert_eq!(engine.dump(), before);
        store.annotate(says(key(1), "mine")).await.unwrap();
        assert_eq!(words(&*store, foreign, None, 10).await, (vec![], 0));
    }
}

fn receipt(byte: u8) -> Receipt {
    let endpoint = NewAnnotation::endpoint(run_id(1));
    let (tenant, key, digest) = (key(1).tenant, [byte; 32], [byte; 32]);
    Receipt { tenant, endpoint, key, digest, status: 201, body: b"hush".to_vec(), at: BEGIN }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_kept_with_the_annotation_and_erased_with_it() {
    for engine in engines() {
        let store = engine.open();
        commit(&*store, Live::start(key(1), &instant()).1).await.unwrap();
        let once = || NewAnnotation { receipt: Some(receipt(7)), ..says(key(1), "once") };
        assert_eq!(store.annotate(once()).await.unwrap(), Annotated::Done { sequence: 0 });
        assert_eq!(store.annotate(once()).await.unwrap(), Annotated::Receipted);
        assert_eq!(words(&*store, key(1), None, 10).await.1, 1, "it is kept once");
        let endpoint = NewAnnotation::endpoint(run_id(1));
        let found = store.receipt(key(1).tenant, endpoint.clone(), [7; 32]).await.unwrap();
        assert_eq!(found, Some(receipt(7)));
        store.erase(key(1), Erasure { at: BEGIN + 5, by: None, reason: None }).await.unwrap();
        assert_eq!(store.receipt(key(1).tenant, endpoint, [7; 32]).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_annotations_say_is_erased_with_the_run() {
    for engine in engines() {
        let store = engine.open();
        for n in [1, 2] {
            commit(&*store, Live::start(key(n), &instant()).1).await.unwrap();
            store.annotate(says(key(n), "hush")).await.unwrap();
        }
        store.erase(key(1), Erasure { at: BEGIN + 5, by: None, reason: None }).await.unwrap();
        assert_eq!(words(&*store, key(1), None, 10).await, (vec![], 0));
        assert_eq!(words(&*store, key(2), None, 10).await.1, 1, "the other run's stays");
        let notes = store.notes(key(1)).await.unwrap();
        let told: Vec<_> = notes.iter().map(|note| (note.kind.as_str(), note.by.as_deref())).collect();
        assert_eq!(told, [("annotation", Some("ada")), ("erased", None)], "that it was said is known");
        assert_eq!(store.annotate(says(key(1), "more")).await.unwrap(), Annotated::Erased);
    }
}
