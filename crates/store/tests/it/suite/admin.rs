//! What is not about runs: starts and stops, the test clock, tenants, API keys.

use abide_core::TenantId;
use abide_store::{ApiKey, Erasure, Error, Lane, Store};
use tokio::sync::oneshot::error::TryRecvError;

use crate::engine::{Dump, commit, engines, submit, word, words};
use crate::live::{BEGIN, Live, TENANT, key};
use crate::workflow::{echo, instant, waiting, working};

#[tokio::test(flavor = "multi_thread")]
async fn the_test_clock_only_moves_forward_and_survives_a_restart() {
    for engine in engines() {
        let store = engine.open();
        assert_eq!(store.test_clock().await.unwrap(), None);
        for (set, shown) in [(1000, 1000), (500, 1000), (1000, 1000), (1001, 1001)] {
            assert_eq!(store.set_test_clock(set).await.unwrap(), shown);
            assert_eq!(store.test_clock().await.unwrap(), Some(shown));
        }
        drop(store);
        let store = engine.open();
        assert_eq!(store.test_clock().await.unwrap(), Some(1001));
        assert_eq!(store.set_test_clock(7).await.unwrap(), 1001);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_made_once_and_keeps_its_number() {
    for engine in engines() {
        let store = engine.open();
        let tenant = async |name: &str, create| store.tenant(name.to_owned(), create).await.unwrap();
        assert_eq!(tenant("default", false).await, Some(TENANT));
        assert_eq!(tenant("acme", false).await, None);
        let acme = tenant("acme", true).await.unwrap();
        assert_ne!(acme, TENANT);
        assert_eq!(tenant("acme", true).await, Some(acme));
        assert_eq!(tenant("acme", false).await, Some(acme));
        let other = tenant("Acme", true).await.unwrap();
        assert_ne!(other, acme, "a name is taken as it is written");
        let named = [(TENANT, "default"), (acme, "acme"), (other, "Acme")];
        assert_eq!(store.tenants().await.unwrap(), named.map(|(id, name)| (id, name.to_owned())));
        drop(store);
        let store = engine.open();
        assert_eq!(store.tenant("acme".to_owned(), false).await.unwrap(), Some(acme));
    }
}

pub(super) fn api_key(id: &str, tenant: u32) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        tenant: TenantId(tenant),
        principal: format!("{id}'s owner"),
        label: None,
        scopes: None,
        roles: Vec::new(),
        act_as: false,
        mac: [tenant as u8; 32].as_slice().into(),
        whole: false,
        created_at: BEGIN,
        expires_at: None,
        revoked_at: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_keys_are_kept_replaced_and_revoked() {
    for engine in engines() {
        let store = engine.open();
        let (first, second) = (api_key("a", 1), api_key("b", 2));
        store.put_api_keys(vec![second.clone(), first.clone()]).await.unwrap();
        assert_eq!(store.api_keys().await.unwrap(), [first.clone(), second.clone()]);

        assert!(store.revoke_api_key("a".to_owned(), 77).await.unwrap());
        assert!(!store.revoke_api_key("c".to_owned(), 77).await.unwrap());
        let revoked = ApiKey { revoked_at: Some(77), ..first };
        assert_eq!(store.api_keys().await.unwrap(), [revoked.clone(), second.clone()]);
        assert!(store.revoke_api_key("a".to_owned(), 99).await.unwrap());
        let kept = store.api_keys().await.unwrap().remove(0);
        assert_eq!(kept, revoked, "it was revoked when it was revoked first");

        let renewed = ApiKey {
            principal: "another".to_owned(),
            label: Some("the nightly export".to_owned()),
            scopes: Some(vec!["runs:read".to_owned()]),
            roles: vec!["finance".to_owned(), "a \"quoted\" one".to_owned()],
            act_as: true,
            whole: true,
            expires_at: Some(BEGIN + 5),
            ..second
        };
        store.put_api_keys(vec![renewed.clone()]).await.unwrap();
        drop(store);
        let store = engine.open();
        assert_eq!(store.api_keys().await.unwrap(), [revoked, renewed.clone()]);
        store.forget_api_keys(vec!["a".to_owned(), "nobody".to_owned()]).await.unwrap();
        drop(store);
        assert_eq!(engine.open().api_keys().await.unwrap(), [renewed]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_start_has_a_higher_number() {
    for engine in engines() {
        let boots: Vec<u64> = (0..4).map(|_| engine.open().boot()).collect();
        assert!(boots[0] > 0, "0 means nobody's");
        assert!(boots.is_sorted_by(|a, b| a < b), "{boots:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_writes_and_answers_everything_and_takes_nothing_more() {
    for engine in engines() {
        let store = engine.open();
        let pending = (0..500).map(|n| submit(&*store, Live::start(key(n), &instant()).1));
        let pending: Vec<_> = pending.collect();
        store.close().await.unwrap();
        let (mut live, created) = Live::start(key(1000), &waiting());
        assert_eq!(word(&commit(&*store, created).await), "closed");
        assert_eq!(word(&commit(&*store, live.pause()).await), "closed");
        assert_eq!(word(&store.set_test_clock(1).await), "closed");
        assert_eq!(word(&store.claim_tasks(1, 1).await), "closed");
        store.close().await.unwrap();
        assert_eq!(words(pending).await, ["ok"; 500]);
        drop(store);

        let store = engine.open();
        for n in 0..500 {
            assert!(store.head(key(n)).await.unwrap().is_some(), "run {n}");
        }
        assert!(store.head(key(1000)).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_store_writes_everything_too() {
    for engine in engines() {
        let store = engine.open();
        let pending = (0..100).map(|n| submit(&*store, Live::start(key(n), &instant()).1));
        let pending: Vec<_> = pending.collect();
        drop(store);
        assert_eq!(words(pending).await, ["ok"; 100]);
        assert_eq!(engine.dump()["aggregates"].len(), 100);
    }
}

/// Some of everything.
async fn furnish(store: &dyn Store) {
    let (mut live, created) = Live::start(key(1), &waiting());
    commit(store, created).await.unwrap();
    commit(store, live.pause()).await.unwrap();
    for created in [
        Live::start(key(2), &working()).1,
        Live::start(key(3), &echo()).1,
        Live::start_child(key(4), &instant(), live.key().id).1,
    ] {
        commit(store, created).await.unwrap();
    }
    store.put_api_keys(vec![api_key("a", 1)]).await.unwrap();
    store.set_test_clock(BEGIN).await.unwrap();
    store.tenant("acme".to_owned(), true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_gives_the_answer_back_uncalled() {
    for engine in engines() {
        let store = engine.open();
        store.close().await.unwrap();
        let (done, mut answer) = tokio::sync::oneshot::channel();
        let (_, created) = Live::start(key(1), &waiting());
        let tell = move |result: Result<(), Error>| done.send(word(&result)).unwrap();
        let given_back = store.submit(created, Lane::Interactive, Box::new(tell));
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty), "neither called nor dropped");
        let done = given_back.expect_err("it is closed");
        done(Err(Error::Stale));
        assert_eq!(answer.try_recv(), Ok("stale"));
    }
}

fn without_settings(mut dump: Dump) -> Dump {
    dump.remove("settings").expect("the number of the start is one");
    dump
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_changes_nothing_but_the_number_of_the_start() {
    for engine in engines() {
        let store = engine.open();
        furnish(&*store).await;
        let before = engine.dump();
        assert!(before["timers"].len() == 1 && before["tasks"].len() == 1 && before["outbox"].len() == 1);
        let boot = store.boot();
        drop(store);
        assert!(engine.open().boot() > boot);
        let after = engine.dump();
        assert_eq!(without_settings(after), without_settings(before));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_used_by_one_store_at_a_time_unless_it_is_made_to_be_shared() {
    for engine in engines() {
        let store = engine.open();
        if engine.is_shared() {
            let other = engine.open();
            assert!(other.boot() > store.boot());
            let (_, created) = Live::start(key(1), &waiting());
            commit(&*store, created).await.unwrap();
            assert!(other.head(key(1)).await.unwrap().is_some(), "what one has answered, the other sees");
            continue;
        }
        let refused = engine.try_open().err().expect("it is in use");
        assert!(matches!(refused, Error::Refused(_)), "{refused:?}");
        let message = refused.to_string();
        assert!(message.contains(&engine.place()), "{message}");
        assert!(message.contains("another abide") && message.contains("stop it"), "{message}");
        let (_, created) = Live::start(key(1), &waiting());
        commit(&*store, created).await.expect("the first goes on undisturbed");
        drop(store);
        assert!(engine.open().head(key(1)).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_beside_a_running_store_sees_the_moment_at_which_it_was_opened() {
    for engine in engines() {
        let store = engine.open();
        let before = engine.open_for_reading().unwrap();
        let (mut live, created) = Live::start(key(1), &working());
        commit(&*store, created).await.unwrap();
        let between = engine.open_for_reading().unwrap();
        commit(&*store, live.pause()).await.unwrap();
        let after = engine.open_for_reading().unwrap();
        assert!(before.head(key(1)).await.unwrap().is_none());
        assert!(before.load(key(1)).await.unwrap().is_none());
        for (reader, next) in [(between, 2), (after, 3)] {
            assert_eq!(reader.head(key(1)).await.unwrap().unwrap().next, next);
            assert_eq!(reader.load(key(1)).await.unwrap().unwrap().head.next, next);
            assert_eq!(reader.totals().await.unwrap().events, next);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_writes_nothing() {
    for engine in engines() {
        let store = engine.open();
        let (mut live, created) = Live::start(key(1), &working());
        commit(&*store, created).await.unwrap();
        let (reader, before) = (engine.open_for_reading().unwrap(), engine.dump());
        assert_eq!(word(&commit(&*reader, live.clone().pause()).await), "closed");
        assert_eq!(word(&reader.claim_tasks(9, 9).await), "closed");
        assert_eq!(word(&reader.set_test_clock(9).await), "closed");
        assert_eq!(word(&reader.tenant("acme".to_owned(), true).await), "closed");
        assert_eq!(word(&reader.put_api_keys(vec![api_key("a", 1)]).await), "closed");
        assert_eq!(word(&reader.revoke_api_key("a".to_owned(), 1).await), "closed");
        assert_eq!(word(&reader.delete_person(TENANT, "a".to_owned()).await), "closed");
        assert_eq!(word(&reader.discard(Vec::new()).await), "closed");
        assert_eq!(word(&reader.delete_secret(TENANT, "a".to_owned()).await), "closed");
        let erasure = Erasure { at: BEGIN, by: None, reason: None };
        assert_eq!(word(&reader.erase(key(1), erasure).await), "closed");
        assert_eq!(word(&reader.compact().await), "closed");
        assert_eq!(engine.dump(), before);
        commit(&*store, live.pause()).await.expect("a reader is in nobody's way");
    }
}
