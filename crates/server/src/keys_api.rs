//! API keys over HTTP: make, list, rotate, revoke. A change is in force before it is answered.
//!
//! Whoever manages keys does so within their own tenant, and gives nobody more than they have themselves.

use std::sync::Arc;

use abide_core::Millis;
use abide_store::ApiKey;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::keys::{ApiSecret, Grant, KeyState, scopes_of, successor};
use crate::limits::{self, KEY_LIFE_MS_MAX, KEY_OVERLAP_MS_DEFAULT, KEYS_CHANGE_ATTEMPTS_MAX, KEYS_MAX};
use crate::names::NameProblem;
use crate::page::{self, PageQuery};
use crate::path_name::PathName;
use crate::scope::{Scope, Scopes};
use crate::time;

/// A key to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewKey {
    /// What it is for.
    label: Option<String>,
    /// Your own tenant, if it is named at all.
    tenant: Option<String>,
    /// Who acts through it; you, if that is not said.
    principal: Option<String>,
    /// What it may do, which is no more than you may; all that you may, if that is not said.
    scopes: Option<Vec<String>>,
    /// The roles of whoever acts through it.
    #[serde(default)]
    roles: Vec<String>,
    /// Whether it may speak for others.
    #[serde(default)]
    act_as: bool,
    /// In how many milliseconds it ends by itself.
    expires_in_ms: Option<i64>,
    /// The text of the key, if Abide is not to choose one: 16 to 256 visible ASCII characters.
    secret: Option<String>,
}

/// How to rotate a key.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Rotate {
    /// For how many milliseconds the old secret works beside the new one; a day, if that is not said.
    overlap_ms: Option<i64>,
    /// In how many milliseconds the new one ends; if that is not said, when the old one would have, and not after the
    /// key or the token that you came in with.
    expires_in_ms: Option<i64>,
    /// The text of the new key, if Abide is not to choose one.
    secret: Option<String>,
}

/// A key, without its secret.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    /// What it is called by.
    key_id: String,
    /// Whose data it reaches.
    tenant: String,
    /// Who acts through it.
    principal: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// What it may do.
    scopes: Vec<&'static str>,
    /// The roles of whoever acts through it.
    roles: Vec<String>,
    /// Whether it may speak for others.
    act_as: bool,
    /// `active`, `expired` or `revoked`.
    state: &'static str,
    /// When it was made.
    created_at: String,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

impl KeyView {
    /// A key as it is shown.
    pub fn of(key: &ApiKey, tenant: &str, now: Millis) -> Self {
        Self {
            key_id: key.id.clone(),
            tenant: tenant.to_owned(),
            principal: key.principal.clone(),
            label: key.label.clone(),
            scopes: scopes_of(key).iter().map(Scope::name).collect(),
            roles: key.roles.clone(),
            act_as: key.act_as,
            state: KeyState::of(key, now).name(),
            created_at: time::rfc3339(key.created_at),
            expires_at: key.expires_at.map(time::rfc3339),
            revoked_at: key.revoked_at.map(time::rfc3339),
        }
    }
}

/// A key that was made.
#[derive(Serialize, JsonSchema)]
pub struct MadeKey {
    /// The text to send, unless you chose it. It is shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    view: KeyView,
    /// The key whose place it takes, and which goes on for the overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<KeyView>,
}

impl MadeKey {
    /// A made key as it is told.
    pub fn of(key: Option<String>, view: KeyView, replaces: Option<KeyView>) -> Self {
        Self { key, view, replaces }
    }
}

/// A page of keys.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyPage {
    /// Keys, oldest first.
    keys: Vec<KeyView>,
    /// Where the next page begins; `null` on the last.
    next_cursor: Option<String>,
}

impl KeyPage {
    /// The only page of a list.
    pub fn whole(keys: Vec<KeyView>) -> Self {
        Self { keys, next_cursor: None }
    }
}

/// Makes a key.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    principal: Principal,
    body: Result<JsonBody<NewKey>>,
) -> Result<(StatusCode, Json<MadeKey>)> {
    let JsonBody(new) = quiet(body)?;
    check_tenant(&principal, new.tenant.as_deref())?;
    let now = app.engine().clock().now();
    let grant = Grant {
        tenant: principal.tenant,
        principal: new.principal.unwrap_or_else(|| principal.name.clone()),
        label: new.label,
        scopes: Some(scopes_named(new.scopes.as_deref(), &principal)?),
        roles: new.roles,
        act_as: new.act_as,
        expires_at: expiry(new.expires_in_ms, principal.expires_at, now)?,
    };
    let secret = new_secret(new.secret.as_deref())?;
    let row = grant.row(&secret, app.keys().keyring(), now)?;
    check_granted(&principal, &row)?;
    changed(&app, &principal, |_| {
        check_new(&app, &principal, &secret, now)?;
        Ok(((), vec![row.clone()]))
    })
    .await?;
    let text = new.secret.is_none().then(|| secret.text().to_owned());
    Ok((StatusCode::CREATED, Json(MadeKey::of(text, view(&app, &row), None))))
}

/// The tenant's keys, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: PageQuery,
) -> Result<Json<KeyPage>> {
    let keys = app.keys().of(principal.tenant).await?;
    let begin = match &query.cursor {
        Some(cursor) => 1 + keys.iter().position(|key| key.id == *cursor).ok_or_else(page::wrong_cursor)?,
        None => 0,
    };
    let (keys, next_cursor) = query.cut(keys.into_iter().skip(begin), |key| key.id.clone());
    Ok(Json(KeyPage { keys: keys.iter().map(|key| view(&app, key)).collect(), next_cursor }))
}

/// Gives a key a new secret. The old one works beside it for a while.
pub(crate) async fn rotate(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(id): PathName,
    body: Result<JsonBody<Rotate>>,
) -> Result<(StatusCode, Json<MadeKey>)> {
    app.keys().look(principal.tenant, &id).await?.ok_or_else(no_such_key)?;
    let JsonBody(rotate) = quiet(body)?;
    let (new, old, text) = changed(&app, &principal, |now| {
        let old = app.keys().get(principal.tenant, &id).ok_or_else(no_such_key)?;
        let (new, old, text) = rotated(&app, &principal, &old, &rotate, now)?;
        Ok(((new.clone(), old.clone(), text), vec![old, new]))
    })
    .await?;
    Ok((StatusCode::CREATED, Json(MadeKey::of(text, view(&app, &new), Some(view(&app, &old))))))
}

/// The new key, the old one as it is then, and the new secret if it is to be told.
fn rotated(
    app: &App,
    principal: &Principal,
    old: &ApiKey,
    rotate: &Rotate,
    now: Millis,
) -> Result<(ApiKey, ApiKey, Option<String>)> {
    if KeyState::of(old, now) != KeyState::Active {
        let message = "the key has expired or was revoked, so it has nothing to pass on; make a new one";
        return Err(ApiError::new("key_not_active", message));
    }
    // Whoever gets the new secret can do what the key can.
    check_granted(principal, old)?;
    let overlap = within("overlapMs", rotate.overlap_ms.unwrap_or(KEY_OVERLAP_MS_DEFAULT), 0)?;
    let secret = new_secret(rotate.secret.as_deref())?;
    let mut new = successor(old, &secret, app.keys().keyring(), now);
    let own = expiry(rotate.expires_in_ms, principal.expires_at, now)?;
    new.expires_at = match rotate.expires_in_ms {
        Some(_) => own,
        None => old.expires_at.into_iter().chain(own).min(),
    };
    check_new(app, principal, &secret, now)?;
    let end = now.saturating_add(overlap);
    let expires_at = Some(old.expires_at.map_or(end, |earlier| earlier.min(end)));
    let text = rotate.secret.is_none().then(|| secret.text().to_owned());
    Ok((new, ApiKey { expires_at, ..old.clone() }, text))
}

/// Revokes a key. Asking again changes nothing.
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(id): PathName,
) -> Result<StatusCode> {
    changed(&app, &principal, |now| {
        let key = app.keys().get(principal.tenant, &id).ok_or_else(no_such_key)?;
        if key.id == principal.key {
            let message = "this is the key that you came in with; revoke it with another, or rotate it without an overlap";
            return Err(ApiError::new("key_in_use", message));
        }
        let revoked = || ApiKey { revoked_at: Some(now), ..(*key).clone() };
        Ok(((), key.revoked_at.is_none().then(revoked).into_iter().collect()))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Decides on the keys as they stand, and puts those that it comes to in force. It is decided again when another server
/// was quicker.
async fn changed<T>(
    app: &App,
    principal: &Principal,
    decide: impl Fn(Millis) -> Result<(T, Vec<ApiKey>)>,
) -> Result<T> {
    for _ in 0..KEYS_CHANGE_ATTEMPTS_MAX {
        let change = app.keys().change().await?;
        let now = app.engine().clock().now();
        let (decided, put) = decide(now)?;
        let spare = change.spare(principal.tenant, now);
        if put.is_empty() || change.make(put, spare).await? {
            return Ok(decided);
        }
    }
    Err(abide_engine::Error::Contended.into())
}

/// A body that may hold a secret: what is wrong with it is told without telling it.
fn quiet<T>(body: Result<JsonBody<T>>) -> Result<JsonBody<T>> {
    let shape = || {
        let message = "the body is not what this endpoint takes; compare its fields and their types with the document at \
                       /v1/openapi.json";
        ApiError::new("validation_error", message)
    };
    body.map_err(|error| if error.is_invalid() { shape() } else { error })
}

fn check_tenant(principal: &Principal, name: Option<&str>) -> Result<()> {
    if name.is_none_or(|name| name == &*principal.tenant_name) {
        return Ok(());
    }
    let message = "over HTTP, keys are made for your own tenant only; the operator makes the first key of another with \
                   `abide keys create --tenant NAME --data DIR`";
    Err(ApiError::new("forbidden", message))
}

fn scopes_named(names: Option<&[String]>, principal: &Principal) -> Result<Scopes> {
    let Some(names) = names else { return Ok(principal.scopes) };
    names.iter().map(|name| Scope::by_name(name).ok_or_else(|| unknown_scope(name))).collect()
}

fn unknown_scope(name: &str) -> ApiError {
    let known: Vec<&str> = Scope::ALL.iter().map(|(_, name)| *name).collect();
    let name: String = name.chars().take(limits::ROLE_CHARS_MAX).collect();
    ApiError::invalid("scopes", format!("'{name}' is no scope; there are {}", known.join(", ")))
}

/// When a new key ends: no later than what its maker came in with.
fn expiry(in_ms: Option<i64>, own: Option<Millis>, now: Millis) -> Result<Option<Millis>> {
    if own.is_some_and(|own| own <= now) {
        // A token is let in for a moment longer, but nothing begins with it any more.
        return Err(ApiError::new("forbidden", "your token is over and makes no more keys; get a new one"));
    }
    let Some(in_ms) = in_ms else { return Ok(own) };
    let end = now.saturating_add(within("expiresInMs", in_ms, 1)?);
    if own.is_some_and(|own| end > own) {
        let message = "a key or a token that expires makes no key that outlives it; choose an earlier end";
        return Err(ApiError::new("forbidden", message));
    }
    Ok(Some(end))
}

fn within(field: &str, ms: i64, least: i64) -> Result<i64> {
    if (least..=KEY_LIFE_MS_MAX).contains(&ms) {
        return Ok(ms);
    }
    let message = format!("'{field}' is a number of milliseconds from {least} to {KEY_LIFE_MS_MAX}");
    Err(ApiError::invalid(field, message))
}

fn new_secret(chosen: Option<&str>) -> Result<ApiSecret> {
    Ok(chosen.map_or_else(|| Ok(ApiSecret::generate()), ApiSecret::chosen)?)
}

/// Nobody gives what they don't have.
fn check_granted(principal: &Principal, key: &ApiKey) -> Result<()> {
    let missing = scopes_of(key).iter().find(|scope| !principal.scopes.allow(*scope));
    if let Some(scope) = missing {
        let message = format!("the key would have the scope '{scope}', which you don't have; leave it out");
        return Err(ApiError::new("forbidden", message).with("scopeRequired", scope.name()));
    }
    if key.act_as && !principal.act_as {
        return Err(ApiError::new(
            "forbidden",
            "the key could speak for others, which you can't; leave 'actAs' out",
        ));
    }
    Ok(())
}

fn check_new(app: &App, principal: &Principal, secret: &ApiSecret, now: Millis) -> Result<()> {
    if app.keys().active(principal.tenant, now) >= KEYS_MAX {
        let message = format!("your tenant has {KEYS_MAX} keys in force and takes no more; revoke some");
        return Err(ApiError::new("too_many", message));
    }
    if app.keys().is_taken(secret) {
        return Err(ApiError::invalid("secret", "this secret can't be used; choose another"));
    }
    Ok(())
}

fn view(app: &App, key: &ApiKey) -> KeyView {
    KeyView::of(key, &app.keys().tenant_name(key.tenant), app.engine().clock().now())
}

fn no_such_key() -> ApiError {
    ApiError::new("key_not_found", "there is no key of this id; list them to see which there are")
}

impl From<NameProblem> for ApiError {
    fn from(problem: NameProblem) -> Self {
        Self::invalid(problem.field, problem.message)
    }
}
