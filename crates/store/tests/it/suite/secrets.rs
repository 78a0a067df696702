//! Secrets: kept sealed, replaced, listed without their values, and each tenant's own.

use abide_core::TenantId;
use abide_store::SecretRow;

use crate::engine::engines;
use crate::live::{BEGIN, TENANT};

fn secret(tenant: TenantId, name: &str, sealed: &[u8], at: i64) -> SecretRow {
    SecretRow {
        tenant,
        name: name.to_owned(),
        sealed: sealed.into(),
        created_at: BEGIN + at,
        updated_at: BEGIN + at,
        updated_by: Some(format!("somebody at {at}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_comes_back_as_it_was_sealed() {
    for engine in engines() {
        let store = engine.open();
        let anonymous = SecretRow { updated_by: None, ..secret(TENANT, "b", &[0, 0xff, 7], 1) };
        let long = secret(TENANT, "a", &[3; 100_000], 2);
        for secret in [&anonymous, &long] {
            store.put_secret(secret.clone()).await.unwrap();
        }
        drop(store);
        let store = engine.open();
        for secret in [&anonymous, &long] {
            let found = store.secret(TENANT, secret.name.clone()).await.unwrap();
            assert_eq!(found.as_ref(), Some(secret));
        }
        assert_eq!(
            store.secret(TENANT, "A".to_owned()).await.unwrap(),
            None,
            "a name is taken as it is written"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_set_again_keeps_the_time_it_was_made() {
    for engine in engines() {
        let store = engine.open();
        store.put_secret(secret(TENANT, "a", b"old", 1)).await.unwrap();
        store.put_secret(secret(TENANT, "a", b"new", 2)).await.unwrap();
        let expected = SecretRow { created_at: BEGIN + 1, ..secret(TENANT, "a", b"new", 2) };
        assert_eq!(store.secret(TENANT, "a".to_owned()).await.unwrap(), Some(expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_tells_names_and_no_values() {
    for engine in engines() {
        let store = engine.open();
        assert_eq!(store.secrets(TENANT).await.unwrap(), []);
        for (name, at) in [("b", 1), ("a", 2)] {
            store.put_secret(secret(TENANT, name, b"sealed", at)).await.unwrap();
        }
        let expected = [secret(TENANT, "a", b"", 2), secret(TENANT, "b", b"", 1)];
        assert_eq!(store.secrets(TENANT).await.unwrap(), expected);
        let shown = format!("{:?}", secret(TENANT, "a", b"\x01\x02\x03\x04", 1));
        assert!(shown.contains("4 bytes") && !shown.contains("1, 2, 3"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_can_be_removed_once() {
    for engine in engines() {
        let store = engine.open();
        for name in ["a", "b"] {
            store.put_secret(secret(TENANT, name, b"sealed", 1)).await.unwrap();
        }
        assert!(store.delete_secret(TENANT, "a".to_owned()).await.unwrap());
        assert!(!store.delete_secret(TENANT, "a".to_owned()).await.unwrap());
        assert_eq!(store.secrets(TENANT).await.unwrap(), [secret(TENANT, "b", b"", 1)]);
        store.put_secret(secret(TENANT, "a", b"sealed", 9)).await.unwrap();
        let again = store.secret(TENANT, "a".to_owned()).await.unwrap().unwrap();
        assert_eq!(again.created_at, BEGIN + 9, "it is another one");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tenant_has_secrets_of_its_own() {
    for engine in engines() {
        let store = engine.open();
        let other = TenantId(2);
        store.put_secret(secret(TENANT, "a", b"mine", 1)).await.unwrap();
        assert_eq!(store.secret(other, "a".to_owned()).await.unwrap(), None);
        assert!(!store.delete_secret(other, "a".to_owned()).await.unwrap());
        store.put_secret(secret(other, "a", b"yours", 2)).await.unwrap();
        let mine = store.secret(TENANT, "a".to_owned()).await.unwrap();
        assert_eq!(mine, Some(secret(TENANT, "a", b"mine", 1)));
        assert!(store.delete_secret(other, "a".to_owned()).await.unwrap());
        assert_eq!(store.secrets(other).await.unwrap(), []);
        assert_eq!(store.secrets(TENANT).await.unwrap().len(), 1);
    }
}
