//! Users' named secrets, sealed with a key of the keyring before they reach the store.
//!
//! A value goes in and is used; it never comes out of the API again.

use std::sync::Arc;

use abide_core::{Millis, TenantId};
use abide_engine::{Lookup, Secrets};
use abide_store::{Error, SecretRow, Store};

use crate::keyring::Keyring;

pub(crate) const PURPOSE: &str = "secrets";

/// The secrets of a store.
pub struct SecretStore {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
}

impl SecretStore {
    /// The secrets of `store`, sealed with keys of `keyring`.
    pub fn new(store: Arc<dyn Store>, keyring: Arc<Keyring>) -> Self {
        Self { store, keyring }
    }

    /// Durably sets a secret.
    pub(crate) async fn set(
        &self,
        tenant: TenantId,
        name: &str,
        value: &str,
        by: Option<String>,
        now: Millis,
    ) -> Result<(), Error> {
        let sealed = self.keyring.seal(PURPOSE, &context(tenant, name), value.as_bytes());
        self.store
            .put_secret(SecretRow {
                tenant,
                name: name.to_owned(),
                sealed: sealed.into(),
                created_at: now,
                updated_at: now,
                updated_by: by,
            })
            .await
    }

    /// A tenant's secrets, without their values.
    pub(crate) async fn list(&self, tenant: TenantId) -> Result<Vec<SecretRow>, Error> {
        self.store.secrets(tenant).await
    }

    /// The value of a secret, to be used and never shown. `None` if there is none, or if it can't be opened.
    pub(crate) async fn value(&self, tenant: TenantId, name: &str) -> Result<Option<String>, Error> {
        self.get(tenant, name).await
    }

    /// Durably forgets a secret. `false` if there is none.
    pub(crate) async fn remove(&self, tenant: TenantId, name: &str) -> Result<bool, Error> {
        self.store.delete_secret(tenant, name.to_owned()).await
    }
}

impl Secrets for SecretStore {
    fn get<'a>(&'a self, tenant: TenantId, name: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            let Some(row) = self.store.secret(tenant, name.to_owned()).await? else { return Ok(None) };
            let opened = self.keyring.open_sealed(PURPOSE, &context(tenant, name), &row.sealed);
            let value = opened.and_then(|bytes| String::from_utf8(bytes).ok());
            if value.is_none() {
                tracing::error!(secret = name, "a secret can't be opened with this keyring; set it again");
            }
            Ok(value)
        })
    }
}

/// Sealed together with the value, so that a row can't be passed off as another tenant's or another name's.
pub(crate) fn context(tenant: TenantId, name: &str) -> Vec<u8> {
    let mut context = tenant.0.to_be_bytes().to_vec();
    context.extend(name.as_bytes());
    context
}
