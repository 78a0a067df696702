//! Keys and tenants that several servers share: nobody decides on what somebody else has changed.

use abide_store::{ApiKey, KeyChange};

use super::admin::api_key;
use crate::engine::engines;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_keys_that_was_decided_on_an_older_roll_is_not_made() {
    for engine in engines() {
        let store = engine.open();
        let access = store.access();
        let (first, second) = (api_key("a", 1), api_key("b", 1));
        let since = access.version().await.unwrap();
        let made = KeyChange { since, put: vec![first.clone(), second.clone()], forget: Vec::new() };
        let made = access.change_keys(made).await.unwrap().expect("nobody else changes anything");
        let roll = access.roll().await.unwrap();
        assert_eq!((roll.version, &roll.keys), (made, &vec![first.clone(), second]));

        assert!(store.revoke_api_key("a".to_owned(), 77).await.unwrap());
        let renewed = ApiKey { expires_at: Some(99), ..first.clone() };
        let forget = vec!["b".to_owned()];
        let late = KeyChange { since: made, put: vec![renewed], forget: forget.clone() };
        assert_eq!(access.change_keys(late).await.unwrap(), None, "it would be in force again");
        let roll = access.roll().await.unwrap();
        assert_eq!(roll.keys.len(), 2, "none of it was written");
        assert_eq!(roll.keys[0], ApiKey { revoked_at: Some(77), ..first });

        let change = KeyChange { since: roll.version, put: Vec::new(), forget };
        assert!(access.change_keys(change).await.unwrap().is_some());
        assert_eq!(access.roll().await.unwrap().keys.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_key_or_a_tenant_raises_the_version() {
    for engine in engines() {
        let store = engine.open();
        let mut seen = store.access().version().await.unwrap();
        let name = || "acme".to_owned();
        let tenant = store.tenant(name(), true).await.unwrap().unwrap();
        let mut rises = async |what: &str| {
            let before = std::mem::replace(&mut seen, store.access().version().await.unwrap());
            assert!(seen > before, "{what}: {before} and then {seen}");
        };
        rises("a tenant was made").await;
        store.put_api_keys(vec![api_key("a", tenant.0)]).await.unwrap();
        rises("a key was made").await;
        store.revoke_api_key("a".to_owned(), 1).await.unwrap();
        rises("it was revoked").await;
        store.forget_api_keys(vec!["a".to_owned()]).await.unwrap();
        rises("it was forgotten").await;
        store.tenant(name(), true).await.unwrap();
        let roll = store.access().roll().await.unwrap();
        assert_eq!(roll.version, seen, "a tenant that was there is no change");
        assert!(roll.tenants.contains(&(tenant, name())), "{:?}", roll.tenants);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_of_a_keyring_is_set_by_the_first_and_replaced_by_whoever_knows_it() {
    for engine in engines() {
        let store = engine.open();
        let access = store.access();
        assert_eq!(access.keyring_mark().await.unwrap(), None);
        assert!(access.set_keyring_mark(None, -5).await.unwrap());
        assert!(!access.set_keyring_mark(None, 7).await.unwrap(), "somebody was first");
        assert!(!access.set_keyring_mark(Some(7), 8).await.unwrap());
        assert_eq!(access.keyring_mark().await.unwrap(), Some(-5));
        assert!(access.set_keyring_mark(Some(-5), 8).await.unwrap());
        drop(store);
        assert_eq!(engine.open().access().keyring_mark().await.unwrap(), Some(8));
    }
}
