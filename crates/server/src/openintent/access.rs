//! Who may see an intent and work on it.

use std::sync::Arc;

use abide_core::{Access, AccessEntry, IntentCommand, Permission, Run};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asking, Body, Path};
use super::intents::{ask, of_body, seen};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};

/// Somebody who may do something.
#[derive(Deserialize)]
pub(crate) struct EntryBody {
    principal_id: String,
    #[serde(default)]
    principal_type: Option<String>,
    #[serde(default)]
    permission: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    expires_at: Option<String>,
}

/// Who may see an intent.
#[derive(Deserialize)]
pub(crate) struct AccessBody {
    #[serde(default)]
    default_policy: Option<String>,
    #[serde(default)]
    entries: Vec<EntryBody>,
}

/// A permission by its name.
pub(super) fn permission(field: &str, name: Option<&str>) -> Result<Permission> {
    let found = name.map_or(Some(Permission::Read), Permission::by_name);
    found.ok_or_else(|| {
        ApiError::invalid(field, format!("'{field}' is one of read, write and admin"))
            .under(StatusCode::UNPROCESSABLE_ENTITY)
    })
}

impl EntryBody {
    /// The entry; its id and who grants it are filled in when it is decided.
    pub(super) fn read(self) -> Result<AccessEntry> {
        let expires_at = self.expires_at.as_deref().map(|text| words::read_moment("expires_at", text));
        Ok(AccessEntry {
            id: String::new(),
            principal: self.principal_id,
            principal_type: self.principal_type.unwrap_or_else(|| "agent".to_owned()),
            permission: permission("permission", self.permission.as_deref())?,
            granted_by: String::new(),
            granted_at: 0,
            expires_at: expires_at.transpose().map_err(of_body)?,
            reason: self.reason,
        })
    }
}

fn entry(entry: &AccessEntry) -> Value {
    json!({
        "id": entry.id,
        "principal_id": entry.principal,
        "principal_type": entry.principal_type,
        "permission": entry.permission.name(),
        "granted_by": entry.granted_by,
        "granted_at": words::moment(entry.granted_at),
        "expires_at": entry.expires_at.map(words::moment),
        "reason": entry.reason,
    })
}

fn shown(run: &Run) -> Value {
    let access = run.intent().and_then(|intent| intent.access.as_deref()).cloned().unwrap_or_default();
    json!({
        "intent_id": words::id(run.key().id),
        "default_policy": if access.closed { "closed" } else { "open" },
        "entries": access.entries.iter().map(entry).collect::<Vec<_>>(),
    })
}

/// Who may see an intent and work on it.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    Ok(Json(seen(&app, key, &actor.agent, shown).await?))
}

/// Says who may see an intent and work on it.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(body): Body<AccessBody>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let closed = match body.default_policy.as_deref() {
        None | Some("open") => false,
        Some("closed") => true,
        Some(_) => {
            let message = "'default_policy' is one of open and closed";
            return Err(of_body(ApiError::invalid("default_policy", message)));
        }
    };
    let entries = body.entries.into_iter().map(EntryBody::read).collect::<Result<Vec<_>>>()?;
    let access = Box::new(Access { closed, entries });
    Ok(Json(ask(&app, key, IntentCommand::SetAccess { access, actor }, shown).await.map_err(of_body)?))
}

/// Says of one more who may.
pub(crate) async fn grant(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(body): Body<EntryBody>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let command = IntentCommand::Grant { entry: Box::new(body.read()?), actor };
    let last = |run: &Run| run.intent()?.access.as_deref()?.entries.last().map(entry);
    let granted = ask(&app, key, command, last).await.map_err(of_body)?;
    granted.map(Json).ok_or_else(|| ApiError::internal(&"access was granted and is not there"))
}

/// Says of somebody that they may not.
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, entry)): Path<(String, String)>,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    ask(&app, key, IntentCommand::Revoke { id: entry, actor }, |_| ()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
