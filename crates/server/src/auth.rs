//! Who sent a request: the holder of an API key, or of a token of the identity provider.

use std::sync::Arc;

use abide_core::{Millis, TenantId};
use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, HeaderName, header, request::Parts};

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::keys::{self, Refused};
use crate::scope::Scopes;

/// Where OpenIntent's clients have the key, and nothing before it. What stands in `Authorization` goes before it.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Who asks, and whose data they may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The tenant everything is bound to.
    pub(crate) tenant: TenantId,
    /// What that tenant is called.
    pub(crate) tenant_name: Arc<str>,
    /// Who acts, for the record.
    pub(crate) name: String,
    /// The id of the key they came in with, or `oidc`.
    pub(crate) key: String,
    /// What they may do.
    pub(crate) scopes: Scopes,
    /// The roles they have.
    pub(crate) roles: Vec<String>,
    /// Whether they may speak for others.
    pub(crate) act_as: bool,
    /// When the key or the token ends by which they came in.
    pub(crate) expires_at: Option<Millis>,
}

/// Who sent a request with these headers.
pub(crate) async fn authenticate(app: &App, headers: &HeaderMap) -> Result<Principal> {
    let header = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let now = app.engine().clock().now();
    let Some(header) = header(header::AUTHORIZATION) else {
        let Some(key) = header(X_API_KEY) else {
            let message = "send an API key: Authorization: Bearer <key>, or X-API-Key: <key>";
            return Err(ApiError::new("unauthenticated", message));
        };
        return holder_of(app, key.trim(), now).await;
    };
    let bearer = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let text = bearer.map_or("", |(_, text)| text.trim());
    if let Some(oidc) = app.oidc().filter(|_| keys::is_token(text)) {
        return oidc.check(text, now, app.keys()).await;
    }
    holder_of(app, text, now).await
}

/// Who holds the API key with this text.
pub(crate) async fn holder_of(app: &App, text: &str, now: Millis) -> Result<Principal> {
    app.keys().check(text, now).await?.map_err(|refused| match refused {
        Refused::Unknown => {
            ApiError::new("unauthenticated", "the API key is malformed or unknown; check ABIDE_API_KEY")
        }
        Refused::Expired => {
            ApiError::new("key_expired", "the API key has expired; use its successor or a new one")
        }
        Refused::Revoked => ApiError::new("key_revoked", "the API key was revoked; use another"),
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
