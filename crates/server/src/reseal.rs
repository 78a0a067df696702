//! What hangs on a secret of the keyring that is to be retired.
//!
//! What is sealed is sealed anew under the newest secret. An API key can't be: only its owner has the text that its MAC
//! was made of.

use std::sync::Arc;

use abide_core::{Millis, TenantId};
use abide_store::{ApiKey, Error, Store, WebhookRow};

use crate::keyring::Keyring;
use crate::keys::KeyState;
use crate::{secrets, webhooks};

/// How much was sealed anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Users' named secrets.
    pub secrets: usize,
    /// Secrets of webhooks.
    pub webhooks: usize,
}

/// The API keys in force that are checked with the secret `kid`.
pub async fn keys_under(store: &dyn Store, kid: u32, now: Millis) -> Result<Vec<ApiKey>, Error> {
    let mut keys = store.api_keys().await?;
    keys.retain(|key| Keyring::kid_of(&key.mac) == Some(kid) && KeyState::of(key, now) == KeyState::Active);
    Ok(keys)
}

/// Durably seals anew, under the newest secret, what was sealed under `kid`. What can't be opened stays as it is: it was
/// lost before.
pub async fn reseal(store: &dyn Store, keyring: &Keyring, kid: u32) -> Result<Resealed, Error> {
    let mut done = Resealed::default();
    for (tenant, _) in store.tenants().await? {
        done.secrets += reseal_secrets(store, keyring, kid, tenant).await?;
        for shown in store.webhooks().list(tenant).await? {
            done.webhooks += usize::from(reseal_webhook(store, keyring, kid, &shown.webhook).await?);
        }
    }
    Ok(done)
}

async fn reseal_secrets(
    store: &dyn Store,
    keyring: &Keyring,
    kid: u32,
    tenant: TenantId,
) -> Result<usize, Error> {
    let mut done = 0;
    for listed in store.secrets(tenant).await? {
        let Some(mut row) = store.secret(tenant, listed.name).await? else { continue };
        let context = secrets::context(tenant, &row.name);
        if let Some(sealed) = anew(keyring, kid, secrets::PURPOSE, &context, &row.sealed) {
            row.sealed = sealed;
            store.put_secret(row).await?;
            done += 1;
        }
    }
    Ok(done)
}

async fn reseal_webhook(
    store: &dyn Store,
    keyring: &Keyring,
    kid: u32,
    webhook: &WebhookRow,
) -> Result<bool, Error> {
    let context = webhooks::context(&webhook.key);
    match anew(keyring, kid, webhooks::PURPOSE, &context, &webhook.sealed) {
        Some(sealed) => store.webhooks().reseal(webhook.key.clone(), sealed).await,
        None => Ok(false),
    }
}

/// The same under the newest secret, if it was sealed under `kid`.
fn anew(keyring: &Keyring, kid: u32, purpose: &str, context: &[u8], sealed: &[u8]) -> Option<Arc<[u8]>> {
    let plain = (Keyring::kid_of(sealed) == Some(kid))
        .then(|| keyring.open_sealed(purpose, context, sealed))
        .flatten()?;
    Some(keyring.seal(purpose, context, &plain).into())
}
