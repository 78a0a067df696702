//! API keys: `abk_<id>_<secret>`. The store has the id and a MAC of the secret, never the secret.

use std::collections::HashMap;
use std::sync::Arc;

use abide_core::{Millis, TenantId};
use abide_store::{ApiKey, Store};
use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, header, request::Parts};

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::keyring::{Keyring, random_hex};
use crate::scope::Scopes;

const PURPOSE: &str = "api-key";
const PREFIX: &str = "abk_";

/// Who asks, and whose data they may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The tenant everything is bound to.
    pub(crate) tenant: TenantId,
    /// Who acts, for the record.
    pub(crate) name: String,
    /// The id of the key they came in with.
    pub(crate) key: String,
    /// What they may do.
    pub(crate) scopes: Scopes,
}

/// A key as its owner holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSecret {
    /// The public part.
    pub id: String,
    secret: String,
}

impl ApiSecret {
    /// A fresh key.
    pub fn generate() -> Self {
        Self { id: random_hex(6), secret: random_hex(32) }
    }

    /// The key of `abide dev`: the same as long as the keyring is.
    pub fn for_dev(keyring: &Keyring) -> Self {
        Self { id: "dev".to_owned(), secret: keyring.derive("dev-api-key") }
    }

    /// The key with this text.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let plain = |part: &str| {
            !part.is_empty() && part.len() <= 128 && part.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        (plain(id) && plain(secret)).then(|| Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// The text its owner sends.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }

    /// The row that the store keeps.
    pub fn row(&self, keyring: &Keyring, tenant: TenantId, principal: &str, now: Millis) -> ApiKey {
        let mac = keyring.mac(PURPOSE, self.secret.as_bytes()).into();
        ApiKey {
            id: self.id.clone(),
            tenant,
            principal: principal.to_owned(),
            mac,
            created_at: now,
            revoked_at: None,
        }
    }
}

/// The keys in force. They change only while no server runs, so they are read once.
pub struct Keys {
    keyring: Arc<Keyring>,
    by_id: HashMap<String, ApiKey>,
}

impl Keys {
    /// Reads the keys of a store.
    pub async fn load(
        store: &dyn Store,
        keyring: Arc<Keyring>,
    ) -> std::result::Result<Self, abide_store::Error> {
        let by_id = store.api_keys().await?.into_iter().map(|key| (key.id.clone(), key)).collect();
        Ok(Self { keyring, by_id })
    }

    /// What secrets are signed with.
    pub(crate) fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Whether anybody could sign in at all.
    pub fn is_empty(&self) -> bool {
        self.by_id.values().all(|key| key.revoked_at.is_some())
    }

    /// Who holds this key.
    pub(crate) fn check(&self, text: &str) -> Option<Principal> {
        let secret = ApiSecret::parse(text)?;
        let key = self.by_id.get(&secret.id)?;
        let genuine = self.keyring.verify(PURPOSE, secret.secret.as_bytes(), &key.mac);
        let valid = genuine && key.revoked_at.is_none();
        valid.then(|| Principal {
            tenant: key.tenant,
            name: key.principal.clone(),
            key: key.id.clone(),
            scopes: Scopes::ALL,
        })
    }
}

/// Who sent a request with these headers.
pub(crate) fn authenticate(app: &App, headers: &HeaderMap) -> Result<Principal> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(header) = header else {
        return Err(ApiError::new("unauthenticated", "send an API key: Authorization: Bearer <key>"));
    };
    let key = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let principal = key.and_then(|(_, key)| app.keys().check(key.trim()));
    principal.ok_or_else(|| {
        ApiError::new("unauthenticated", "the API key is malformed, unknown or revoked; check ABIDE_API_KEY")
    })
}

/// The gate has let them in before any handler runs.
impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let known = parts.extensions.get::<Self>().cloned();
        known.ok_or_else(|| ApiError::internal(&"a handler without a gate asked who is there"))
    }
}
