//! What agents say in a channel: to one of them, to all, or in answer to each other.

use std::sync::Arc;

use abide_core::{Millis, Permission};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::channels::{check_open, found, messages_of, most};
use super::{Kept, New, behind, change, get, keep, named, object, unfit};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::openintent::asking::{Asked, Asking, Body, Path};
use crate::openintent::intents::of_body;
use crate::openintent::words;

/// What messages are.
const TYPES: [&str; 4] = ["request", "response", "notify", "broadcast"];

/// What somebody says.
#[derive(Deserialize)]
pub(crate) struct NewMessage {
    #[serde(default)]
    sender: Option<String>,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    message_type: Option<String>,
    #[serde(default)]
    correlation_id: Option<String>,
    #[serde(default)]
    payload: Option<Value>,
    #[serde(default)]
    metadata: Option<Value>,
    #[serde(default)]
    expires_at: Option<String>,
}

fn shown(channel: &Kept, kept: &Kept, now: Millis) -> Value {
    let (expires, read) = (kept.body["expires_at"].as_i64(), kept.body["read_at"].as_i64());
    let status = match read {
        Some(_) => "read",
        None if expires.is_some_and(|end| end <= now) => "expired",
        None => "delivered",
    };
    json!({
        "id": kept.id(),
        "channel_id": channel.id(),
        "sender": kept.body["sender"],
        "to": kept.body["to"],
        "message_type": kept.body["message_type"],
        "correlation_id": kept.body["correlation_id"],
        "payload": kept.body["payload"],
        "metadata": kept.body["metadata"],
        "status": status,
        "created_at": words::moment(kept.at),
        "expires_at": expires.map(words::moment),
        "read_at": read.map(words::moment),
    })
}

fn missing() -> ApiError {
    ApiError::new("record_not_found", "the channel has no such message")
}

/// The message that is meant.
async fn message(app: &App, principal: &Principal, channel: &Kept, id: &str) -> Result<Kept> {
    let (key, sequence) = named(id, principal).ok_or_else(missing)?;
    let found = get(app, channel.key, &messages_of(channel), sequence).await?;
    found.filter(|_| key == channel.key).ok_or_else(missing)
}

async fn say(app: &App, channel: &Kept, body: Value, by: &str) -> Result<(StatusCode, Json<Value>)> {
    check_open(channel)?;
    let kind = messages_of(channel);
    let new = New { most: most(channel), ..New::of(&kind, by, body) };
    let kept = keep(app, channel.key, new).await?;
    Ok((StatusCode::CREATED, Json(shown(channel, &kept, kept.at))))
}

/// Until when something is of use that is said now.
fn lasts(channel: &Kept, given: Option<&str>, now: Millis) -> Result<Option<Millis>> {
    let ttl = channel.body["options"]["ttl_seconds"].as_i64().filter(|ttl| *ttl > 0);
    match given.filter(|given| !given.is_empty()) {
        Some(given) => words::read_moment("expires_at", given).map(Some).map_err(of_body),
        None => Ok(ttl.map(|ttl| now.saturating_add(ttl.saturating_mul(1000)))),
    }
}

/// Says something.
pub(crate) async fn send(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(channel): Path<String>,
    Body(new): Body<NewMessage>,
) -> Result<(StatusCode, Json<Value>)> {
    let channel = found(&app, &principal, &actor.agent, &channel, Permission::Write).await?;
    let kind = new.message_type.unwrap_or_else(|| "notify".to_owned());
    if !TYPES.contains(&kind.as_str()) {
        return Err(unfit("message_type", format!("'message_type' is one of {}", TYPES.join(", "))));
    }
    let body = json!({
        "sender": new.sender.unwrap_or_else(|| actor.agent.clone()),
        "to": new.to,
        "message_type": kind,
        "correlation_id": new.correlation_id,
        "payload": object("payload", new.payload)?,
        "metadata": object("metadata", new.metadata)?,
        "expires_at": lasts(&channel, new.expires_at.as_deref(), app.engine().clock().now())?,
    });
    say(&app, &channel, body, &actor.agent).await
}

/// Answers what somebody said.
pub(crate) async fn reply(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((channel, id)): Path<(String, String)>,
    Body(new): Body<NewMessage>,
) -> Result<(StatusCode, Json<Value>)> {
    let channel = found(&app, &principal, &actor.agent, &channel, Permission::Write).await?;
    let asked = message(&app, &principal, &channel, &id).await?;
    let body = json!({
        "sender": new.sender.unwrap_or_else(|| actor.agent.clone()),
        "to": asked.body["sender"],
        "message_type": "response",
        "correlation_id": asked.id(),
        "payload": object("payload", new.payload)?,
        "metadata": object("metadata", new.metadata)?,
        "expires_at": lasts(&channel, new.expires_at.as_deref(), app.engine().clock().now())?,
    });
    say(&app, &channel, body, &actor.agent).await
}

/// Which messages are wanted.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    since: Option<String>,
    to: Option<String>,
}

/// What was said, oldest first: behind a message or since a moment, and to one agent alone, if that is wanted.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(channel): Path<String>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Value>> {
    let channel = found(&app, &principal, &actor.agent, &channel, Permission::Read).await?;
    let since = wanted.since.filter(|since| !since.is_empty());
    let place = since.as_deref().and_then(|since| named(since, &principal)).map(|(_, sequence)| sequence);
    let moment = since.as_deref().filter(|_| place.is_none()).map(|text| words::read_moment("since", text));
    let moment = moment.transpose().map_err(of_body)?;
    let now = app.engine().clock().now();
    let said = behind(&app, channel.key, &messages_of(&channel), place).await?;
    let late = |kept: &&Kept| moment.is_none_or(|moment| kept.at >= moment);
    let meant = |kept: &&Kept| wanted.to.as_deref().is_none_or(|to| kept.text("to") == Some(to));
    let messages = said.iter().filter(late).filter(meant).map(|kept| shown(&channel, kept, now));
    Ok(Json(Value::Array(messages.collect())))
}

/// One message.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((channel, id)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let channel = found(&app, &principal, &actor.agent, &channel, Permission::Read).await?;
    let message = message(&app, &principal, &channel, &id).await?;
    Ok(Json(shown(&channel, &message, app.engine().clock().now())))
}

/// What became of a message.
#[derive(Deserialize)]
pub(crate) struct Mark {
    status: Option<String>,
}

/// Says that a message was read.
pub(crate) async fn mark(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((channel, id)): Path<(String, String)>,
    Body(mark): Body<Mark>,
) -> Result<Json<Value>> {
    let channel = found(&app, &principal, &actor.agent, &channel, Permission::Read).await?;
    let message = message(&app, &principal, &channel, &id).await?;
    let now = app.engine().clock().now();
    match mark.status.as_deref() {
        Some("read") => {}
        Some("delivered") => return Ok(Json(shown(&channel, &message, now))),
        _ => return Err(unfit("status", "'status' is 'read': all else follows by itself")),
    }
    let kind = messages_of(&channel);
    let read = change(&app, channel.key, (&kind, message.sequence), |message| {
        let mut body = message.body.clone();
        if body["read_at"].is_null() {
            body["read_at"] = json!(now);
        }
        Ok(body)
    });
    Ok(Json(shown(&channel, &read.await?, now)))
}
