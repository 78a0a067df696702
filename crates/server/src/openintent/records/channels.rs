//! Channels in which agents talk about an intent. What is said in them is in `messages.rs`.

use std::sync::Arc;

use abide_core::{Key, Permission};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kept, New, all, change, check, get, keep, named, newest, object, said, unfit};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openintent::asking::{Asking, Body, Path};
use crate::openintent::words;

/// The kind of these records.
pub(in crate::openintent) const CHANNEL: &str = "channel";

/// Who may be in a channel: those who are named, or everybody who works on the intent.
const POLICIES: [&str; 2] = ["explicit", "intent"];

/// A channel.
#[derive(Deserialize)]
pub(crate) struct NewChannel {
    name: Option<String>,
    #[serde(default)]
    members: Option<Vec<String>>,
    #[serde(default)]
    member_policy: Option<String>,
    #[serde(default)]
    task_id: Option<String>,
    #[serde(default)]
    options: Option<Value>,
}

/// The kind of the messages of a channel.
pub(super) fn messages_of(channel: &Kept) -> String {
    format!("message/{}", channel.sequence)
}

/// How many messages a channel takes.
pub(super) fn most(channel: &Kept) -> usize {
    let said = channel.body["options"]["max_messages"].as_u64().and_then(|most| usize::try_from(most).ok());
    said.unwrap_or(limits::CHANNEL_MESSAGES_DEFAULT).clamp(1, limits::RECORDS_MAX)
}

async fn shown(app: &App, kept: &Kept) -> Result<Value> {
    let kind = messages_of(kept);
    let count = app.engine().records().count(kept.key, kind.clone()).await?;
    let last = newest(app, kept.key, &kind, 1).await?.pop().map(|last| words::moment(last.at));
    Ok(json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "name": kept.body["name"],
        "created_by": kept.by,
        "members": kept.body["members"],
        "member_policy": kept.body["member_policy"],
        "task_id": kept.body["task_id"],
        "options": kept.body["options"],
        "status": kept.body["status"],
        "created_at": words::moment(kept.at),
        "closed_at": kept.body["closed_at"].as_i64().map(words::moment),
        "message_count": count,
        "last_message_at": last,
    }))
}

fn policy(given: Option<String>) -> Result<String> {
    let policy = given.unwrap_or_else(|| "intent".to_owned());
    if POLICIES.contains(&policy.as_str()) {
        return Ok(policy);
    }
    Err(unfit("member_policy", format!("'member_policy' is one of {}", POLICIES.join(" and "))))
}

/// Opens a channel.
pub(crate) async fn open(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewChannel>,
) -> Result<(StatusCode, Json<Value>)> {
    let key = words::intent_key(&intent, &principal)?;
    let options = new.options.filter(|options| !options.is_null());
    let body = json!({
        "name": said("name", new.name)?,
        "members": new.members.unwrap_or_default(),
        "member_policy": policy(new.member_policy)?,
        "task_id": new.task_id,
        "options": options.map(|options| object("options", Some(options))).transpose()?,
        "status": "open",
    });
    check(&app, key, &actor.agent, Permission::Write).await?;
    let kept = keep(&app, key, New::of(CHANNEL, &actor.agent, body)).await?;
    Ok((StatusCode::CREATED, Json(shown(&app, &kept).await?)))
}

/// The channels of an intent that whoever asks may be in, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    let mut channels = Vec::new();
    for kept in all(&app, key, CHANNEL).await? {
        channels.push(shown(&app, &kept).await?);
    }
    Ok(Json(Value::Array(channels)))
}

fn missing() -> ApiError {
    ApiError::new("record_not_found", "there is no such channel")
}

fn is_in(channel: &Kept, agent: &str) -> bool {
    let members = channel.body["members"].as_array();
    let named = || members.is_some_and(|members| members.iter().any(|member| member == agent));
    channel.text("member_policy") != Some("explicit") || channel.by == agent || named()
}

/// The channel that is meant, for whoever may do this in it.
pub(super) async fn found(
    app: &App,
    principal: &Principal,
    agent: &str,
    id: &str,
    permission: Permission,
) -> Result<Kept> {
    let (key, sequence) = named(id, principal).ok_or_else(missing)?;
    check(app, key, agent, permission).await?;
    let channel = get(app, key, CHANNEL, sequence).await?.ok_or_else(missing)?;
    if !is_in(&channel, agent) {
        let message =
            format!("only its members are in the channel, and '{agent}' is none; have one of them add it");
        return Err(ApiError::new("access_denied", message));
    }
    Ok(channel)
}

/// Refuses to have something said in a channel that is closed.
pub(super) fn check_open(channel: &Kept) -> Result<()> {
    if channel.text("status") == Some("closed") {
        return Err(ApiError::new("record_decided", "the channel is closed; open another one"));
    }
    Ok(())
}

/// A channel as it stands.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let channel = found(&app, &principal, &actor.agent, &id, Permission::Read).await?;
    Ok(Json(shown(&app, &channel).await?))
}

/// What is to be otherwise in a channel.
#[derive(Deserialize)]
pub(crate) struct Change {
    #[serde(default)]
    members: Option<Vec<String>>,
    #[serde(default)]
    member_policy: Option<String>,
    #[serde(default)]
    options: Option<Value>,
    #[serde(default)]
    status: Option<String>,
}

/// Changes who is in a channel and what holds there.
pub(crate) async fn update(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(to): Body<Change>,
) -> Result<Json<Value>> {
    let channel = found(&app, &principal, &actor.agent, &id, Permission::Write).await?;
    let member_policy = to.member_policy.map(|given| policy(Some(given))).transpose()?;
    let options = to.options.map(|options| object("options", Some(options))).transpose()?;
    if to.status.as_ref().is_some_and(|status| status != "open" && status != "closed") {
        return Err(unfit("status", "'status' is one of open and closed"));
    }
    let changes = [
        ("members", to.members.map(|members| json!(members))),
        ("member_policy", member_policy.map(Value::from)),
        ("options", options),
        ("status", to.status.map(Value::from)),
    ];
    let changed = put(&app, channel.key, channel.sequence, &changes).await?;
    Ok(Json(shown(&app, &changed).await?))
}

async fn put(app: &App, key: Key, sequence: u64, changes: &[(&str, Option<Value>)]) -> Result<Kept> {
    let now = app.engine().clock().now();
    change(app, key, (CHANNEL, sequence), |channel| {
        let mut body = channel.body.clone();
        for (field, value) in changes {
            value.iter().for_each(|value| body[*field] = value.clone());
        }
        let closed = body["status"] == "closed";
        let since = body["closed_at"].as_i64().unwrap_or(now);
        body["closed_at"] = if closed { json!(since) } else { Value::Null };
        Ok(body)
    })
    .await
}

/// Closes a channel. What was said in it stays.
pub(crate) async fn close(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let channel = found(&app, &principal, &actor.agent, &id, Permission::Write).await?;
    put(&app, channel.key, channel.sequence, &[("status", Some(json!("closed")))]).await?;
    Ok(Json(json!({ "status": "closed", "channel_id": channel.id() })))
}
