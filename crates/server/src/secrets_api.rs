//! Users' named secrets over HTTP: set, list, forget. A value goes in and never comes out, not even in an error.

use std::sync::Arc;

use abide_core::Json as RawJson;
use abide_core::limits::SECRET_NAME_CHARS_MAX;
use abide_store::SecretRow;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::path_name::PathName;
use crate::{limits, shape, time};

/// A secret to be kept.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Secret")]
pub(crate) struct Set {
    /// What must never be shown.
    // Carried as text, so that what is wrong with it is told without telling it.
    #[schemars(with = "String", length(min = limits::SECRET_CHARS_MIN, max = limits::SECRET_BYTES_MAX))]
    value: RawJson,
}

/// The secrets of a tenant, without their values.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Secrets {
    /// By name.
    secrets: Vec<ListedSecret>,
}

/// A secret, without its value.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedSecret {
    name: String,
    #[schemars(with = "shape::Moment")]
    updated_at: String,
    /// Who set it last.
    updated_by: Option<String>,
}

/// Sets a secret, whether it was there or not.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(name): PathName,
    body: Result<JsonBody<Set>>,
) -> Result<StatusCode> {
    check_name(&name)?;
    let value = read_value(body)?;
    let now = app.engine().clock().now();
    app.secrets().set(principal.tenant, &name, &value, Some(principal.name), now).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn check_name(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if (1..=SECRET_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    let message = format!(
        "the name of a secret has 1 to {SECRET_NAME_CHARS_MAX} letters from A to Z, digits, '_', '-' or '.'"
    );
    Err(ApiError::invalid("name", message))
}

fn read_value(body: Result<JsonBody<Set>>) -> Result<String> {
    // The reader's own words may repeat what was sent.
    let shape = || ApiError::new("validation_error", r#"the body is {"value": "..."} and nothing else"#);
    let JsonBody(Set { value }) = body.map_err(|error| if error.is_invalid() { shape() } else { error })?;
    let text: String = value.parse().map_err(|_| ApiError::invalid("value", "'value' must be a string"))?;
    let (least, most) = (limits::SECRET_CHARS_MIN, limits::SECRET_BYTES_MAX);
    let problem = if text.len() > most {
        format!("'value' has more than {most} bytes; keep it elsewhere, and a reference to it here")
    } else if text.trim().chars().count() < least {
        format!(
            "'value' has fewer than {least} characters, too few to be found in answers; choose a longer one"
        )
    } else {
        return Ok(text);
    };
    Err(ApiError::invalid("value", problem))
}

/// The tenant's secrets by name, without their values.
pub(crate) async fn list(State(app): State<Arc<App>>, principal: Principal) -> Result<Json<Secrets>> {
    let secrets = app.secrets().list(principal.tenant).await?;
    Ok(Json(Secrets { secrets: secrets.into_iter().map(listed).collect() }))
}

fn listed(secret: SecretRow) -> ListedSecret {
    let updated_at = time::rfc3339(secret.updated_at);
    ListedSecret { name: secret.name, updated_at, updated_by: secret.updated_by }
}

/// Forgets a secret.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(name): PathName,
) -> Result<StatusCode> {
    if app.secrets().remove(principal.tenant, &name).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError::new(
        "secret_not_found",
        "there is no secret of this name; list them to see which there are",
    ))
}
