//! Those who ask to be let in to an intent, and what they are told.

use std::sync::Arc;

use abide_core::{AccessEntry, IntentCommand, Key, Permission};
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kept, New, all, change, check, get, keep, no_such, of_intent, said};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::openintent::access::permission;
use crate::openintent::asking::{Asking, Body};
use crate::openintent::intents::{decide, of_body};
use crate::openintent::words;

/// The kind of these records.
pub(in crate::openintent) const ACCESS_REQUEST: &str = "access.request";

/// Somebody who asks to be let in.
#[derive(Deserialize)]
pub(crate) struct NewRequest {
    principal_id: Option<String>,
    #[serde(default)]
    principal_type: Option<String>,
    #[serde(default)]
    requested_permission: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    capabilities: Option<Vec<String>>,
}

fn shown(kept: &Kept) -> Value {
    let decided_at = kept.body["decided_at"].as_i64().map(words::moment);
    json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "principal_id": kept.body["principal_id"],
        "principal_type": kept.body["principal_type"],
        "requested_permission": kept.body["requested_permission"],
        "reason": kept.body["reason"],
        "capabilities": kept.body["capabilities"],
        "status": kept.body["status"],
        "decided_by": kept.body["decided_by"],
        "decided_at": decided_at,
        "decision_reason": kept.body["decision_reason"],
        "created_at": words::moment(kept.at),
    })
}

/// Keeps that somebody asks to be let in. They need not be able to see the intent.
pub(crate) async fn request(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewRequest>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let wanted = permission("requested_permission", new.requested_permission.as_deref())?;
    let body = json!({
        "principal_id": said("principal_id", new.principal_id)?,
        "principal_type": new.principal_type.unwrap_or_else(|| "agent".to_owned()),
        "requested_permission": wanted.name(),
        "reason": new.reason.unwrap_or_default(),
        "capabilities": new.capabilities.unwrap_or_default(),
        "status": "pending",
    });
    let is_group = app.engine().read(key, |run| run.group().is_some()).await?;
    if is_group {
        return Err(words::no_such_intent());
    }
    Ok(Json(shown(&keep(&app, key, New::of(ACCESS_REQUEST, &actor.agent, body)).await?)))
}

/// Those who asked, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    let found = all(&app, key, ACCESS_REQUEST).await?;
    Ok(Json(json!({ "access_requests": found.iter().map(shown).collect::<Vec<_>>() })))
}

/// What they are told.
#[derive(Deserialize)]
pub(crate) struct Told {
    #[serde(default)]
    decided_by: Option<String>,
    #[serde(default)]
    permission: Option<String>,
    #[serde(default)]
    expires_at: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

fn check_pending(kept: &Kept) -> Result<()> {
    match kept.text("status") {
        Some("pending") => Ok(()),
        status => {
            let message = format!("the request is {} already", status.unwrap_or("decided"));
            Err(ApiError::new("record_decided", message))
        }
    }
}

/// Lets somebody in. It is granted first and told then, so that whoever is told can come in.
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((intent, id)): Path<(String, String)>,
    Body(told): Body<Told>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let sequence = of_intent(key, &id, &principal)?;
    let asked =
        get(&app, key, ACCESS_REQUEST, sequence).await?.ok_or_else(|| no_such("such access request"))?;
    check_pending(&asked)?;
    let wanted = told.permission.as_deref().or(asked.text("requested_permission"));
    let expires_at = told.expires_at.as_deref().map(|text| words::read_moment("expires_at", text));
    let entry = AccessEntry {
        id: String::new(),
        principal: asked.text("principal_id").unwrap_or_default().to_owned(),
        principal_type: asked.text("principal_type").unwrap_or("agent").to_owned(),
        permission: permission("permission", wanted)?,
        granted_by: String::new(),
        granted_at: 0,
        expires_at: expires_at.transpose().map_err(of_body)?,
        reason: told.reason.clone().or_else(|| asked.text("reason").map(str::to_owned)),
    };
    let by = told.decided_by.clone().unwrap_or_else(|| actor.agent.clone());
    decide(&app, key, IntentCommand::Grant { entry: Box::new(entry), actor }).await.map_err(of_body)?;
    tell(&app, key, sequence, ("approved", &by, told.reason)).await
}

/// Lets somebody not in.
pub(crate) async fn deny(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((intent, id)): Path<(String, String)>,
    Body(told): Body<Told>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let sequence = of_intent(key, &id, &principal)?;
    check(&app, key, &actor.agent, Permission::Admin).await?;
    let by = told.decided_by.unwrap_or(actor.agent);
    tell(&app, key, sequence, ("denied", &by, told.reason)).await
}

async fn tell(
    app: &App,
    key: Key,
    sequence: u64,
    (status, by, reason): (&str, &str, Option<String>),
) -> Result<Json<Value>> {
    let now = app.engine().clock().now();
    let told = change(app, key, (ACCESS_REQUEST, sequence), |asked| {
        check_pending(asked)?;
        let mut body = asked.body.clone();
        body["status"] = json!(status);
        body["decided_by"] = json!(by);
        body["decided_at"] = json!(now);
        body["decision_reason"] = json!(reason);
        Ok(body)
    });
    Ok(Json(shown(&told.await?)))
}
