//! Events that others tell of: kept once, given once, forgotten in time.

use abide_core::{Json, TenantId};
use abide_store::{NewEvent, Put, Store, Target};
use serde_json::json;

use crate::engine::{commit, engines};
use crate::live::{BEGIN, Live, TENANT, key};
use crate::workflow::ordering;

const DAY: i64 = 24 * 3_600_000;

pub(crate) fn event(id: &str, at: i64) -> NewEvent {
    NewEvent {
        tenant: TENANT,
        id: id.to_owned(),
        event_type: "order.paid".to_owned(),
        digest: [1; 32],
        payload: Json::of(&json!({"order": 7})),
        sender: "shop".to_owned(),
        at,
        expires_at: at + DAY,
    }
}

async fn kept(store: &dyn Store, now: i64) -> Vec<String> {
    let events = store.external_events().kept(TENANT, "order.paid".to_owned(), now, None, 9).await.unwrap();
    events.into_iter().map(|event| event.id).collect()
}

pub(crate) fn target(live: &Live) -> Target {
    let (run_id, interrupt_id) = (live.key().id, live.first_interrupt());
    Target { run_id, node_id: "paid".to_owned(), interrupt_id }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_kept_once_under_its_id() {
    for engine in engines() {
        let store = engine.open();
        assert_eq!(store.external_events().put(event("a", BEGIN), 2).await.unwrap(), Put::New);
        drop(store);
        let store = engine.open();
        let again = NewEvent { digest: [2; 32], ..event("a", BEGIN + 5) };
        let Put::Known(known) = store.external_events().put(again, 2).await.unwrap() else {
            panic!("it is known")
        };
        assert_eq!((known.digest, known.at, known.is_kept), ([1; 32], BEGIN, true));
        assert_eq!(known.payload, Some(Json::of(&json!({"order": 7}))));
        let foreign = NewEvent { tenant: TenantId(2), ..event("a", BEGIN) };
        assert_eq!(store.external_events().put(foreign, 2).await.unwrap(), Put::New);
        assert_eq!(store.external_events().put(event("b", BEGIN - 1), 2).await.unwrap(), Put::New);
        assert_eq!(store.external_events().put(event("c", BEGIN), 2).await.unwrap(), Put::Full);
        assert_eq!(kept(&*store, BEGIN).await, ["b", "a"], "the oldest first");
        let after = Some((BEGIN - 1, "b".to_owned()));
        let rest = store.external_events().kept(TENANT, "order.paid".to_owned(), BEGIN, after, 9);
        assert_eq!(rest.await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_given_by_one_and_its_payload_forgotten() {
    for engine in engines() {
        let store = engine.open();
        let (live, created) = Live::start(key(1), &ordering(7));
        commit(&*store, created).await.unwrap();
        let events = store.external_events();
        events.put(event("a", BEGIN), 9).await.unwrap();
        assert_eq!(events.awaited().await.unwrap(), [(TENANT, "order.paid".to_owned())]);
        let to = vec![target(&live)];
        assert!(events.give(TENANT, "a".to_owned(), to.clone()).await.unwrap());
        assert!(!events.give(TENANT, "a".to_owned(), to.clone()).await.unwrap(), "somebody else gives it");
        assert_eq!((kept(&*store, BEGIN).await, events.awaited().await.unwrap()), (vec![], vec![]));
        assert_eq!(events.being_given(9).await.unwrap()[0].targets, to);
        assert_eq!(events.purge(BEGIN + DAY, 9).await.unwrap(), 0, "it is under way");

        events.given(TENANT, "a".to_owned(), vec![]).await.unwrap();
        assert_eq!(kept(&*store, BEGIN).await, ["a"], "nobody took it");
        assert!(events.give(TENANT, "a".to_owned(), to.clone()).await.unwrap());
        events.given(TENANT, "a".to_owned(), to.clone()).await.unwrap();
        assert_eq!(events.being_given(9).await.unwrap(), []);
        let Put::Known(known) = events.put(event("a", BEGIN), 9).await.unwrap() else {
            panic!("it is known")
        };
        assert_eq!((known.is_kept, known.targets, known.payload), (false, to, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_no_good_when_its_time_is_over_and_is_forgotten_then() {
    for engine in engines() {
        let store = engine.open();
        let events = store.external_events();
        for (id, at) in [("a", BEGIN), ("b", BEGIN + 1), ("c", BEGIN + 2)] {
            events.put(event(id, at), 9).await.unwrap();
        }
        assert_eq!(kept(&*store, BEGIN + DAY).await, ["b", "c"]);
        assert_eq!(events.purge(BEGIN + DAY + 1, 1).await.unwrap(), 1);
        assert_eq!(events.purge(BEGIN + DAY + 1, 9).await.unwrap(), 1);
        assert_eq!(events.purge(BEGIN + DAY + 1, 9).await.unwrap(), 0);
        assert_eq!(kept(&*store, BEGIN).await, ["c"]);
        assert_eq!(events.put(event("a", BEGIN), 9).await.unwrap(), Put::New, "nothing is left of it");
    }
}
