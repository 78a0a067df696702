//! How agents mean to try again, and what failed.
//!
//! An intent's agents do both themselves. What they say of it is kept, so that whoever comes next knows.

use std::sync::Arc;

use abide_core::Permission;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kept, New, all, change, check, keep, newest, no_such, object, raced, try_keep, unfit};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openintent::asking::{Asking, Body, Path};
use crate::openintent::intents::of_body;
use crate::openintent::words;

/// The kinds of these records.
pub(in crate::openintent) const FAILURE: &str = "failure";
const POLICY: &str = "retry.policy";

/// How attempts may follow each other.
const STRATEGIES: [&str; 4] = ["none", "fixed", "exponential", "linear"];

/// How to try again.
#[derive(Deserialize)]
pub(crate) struct NewPolicy {
    #[serde(default)]
    strategy: Option<String>,
    #[serde(default)]
    max_retries: Option<u32>,
    #[serde(default)]
    base_delay_ms: Option<u64>,
    #[serde(default)]
    max_delay_ms: Option<u64>,
    #[serde(default)]
    fallback_agent_id: Option<String>,
    #[serde(default)]
    failure_threshold: Option<u32>,
    #[serde(default)]
    jitter: Option<bool>,
}

fn policy(kept: &Kept) -> Value {
    let (created, updated) = (words::moment(kept.at), kept.body["updated_at"].as_i64().unwrap_or(kept.at));
    json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "strategy": kept.body["strategy"],
        "max_retries": kept.body["max_retries"],
        "base_delay_ms": kept.body["base_delay_ms"],
        "max_delay_ms": kept.body["max_delay_ms"],
        "fallback_agent_id": kept.body["fallback_agent_id"],
        "failure_threshold": kept.body["failure_threshold"],
        "jitter": kept.body["jitter"],
        "created_at": created,
        "createdAt": created,
        "updated_at": words::moment(updated),
        "updatedAt": words::moment(updated),
    })
}

/// Says how to try again.
pub(crate) async fn set_policy(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewPolicy>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let strategy = new.strategy.unwrap_or_else(|| "exponential".to_owned());
    if !STRATEGIES.contains(&strategy.as_str()) {
        return Err(unfit("strategy", format!("'strategy' is one of {}", STRATEGIES.join(", "))));
    }
    let body = json!({
        "strategy": strategy,
        "max_retries": new.max_retries.unwrap_or(3),
        "base_delay_ms": new.base_delay_ms.unwrap_or(1000),
        "max_delay_ms": new.max_delay_ms.unwrap_or(60_000),
        "fallback_agent_id": new.fallback_agent_id,
        "failure_threshold": new.failure_threshold.unwrap_or(3),
        "jitter": new.jitter.unwrap_or(true),
        "updated_at": app.engine().clock().now(),
    });
    check(&app, key, &actor.agent, Permission::Write).await?;
    for _ in 0..limits::RECORD_TRIES_MAX {
        if let Some(first) = newest(&app, key, POLICY, 1).await?.pop() {
            let set = change(&app, key, (POLICY, first.sequence), |_| Ok(body.clone())).await?;
            return Ok(Json(policy(&set)));
        }
        let new = New { behind: Some(None), ..New::of(POLICY, &actor.agent, body.clone()) };
        if let Some(kept) = try_keep(&app, key, &new).await? {
            return Ok(Json(policy(&kept)));
        }
    }
    Err(raced())
}

/// How to try again, if somebody said.
pub(crate) async fn show_policy(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    let found = newest(&app, key, POLICY, 1).await?.pop();
    found.map(|kept| Json(policy(&kept))).ok_or_else(|| no_such("retry policy"))
}

/// A failure, as either of its clients tells of it.
#[derive(Deserialize)]
pub(crate) struct NewFailure {
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    attempt_number: Option<u32>,
    #[serde(default)]
    error_code: Option<String>,
    #[serde(default)]
    error_type: Option<String>,
    #[serde(default)]
    error_message: Option<String>,
    #[serde(default)]
    recoverable: Option<bool>,
    #[serde(default)]
    retry_scheduled_at: Option<String>,
    #[serde(default)]
    metadata: Option<Value>,
}

fn failure(kept: &Kept) -> Value {
    let scheduled = kept.body["retry_scheduled_at"].as_i64().map(words::moment);
    json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "agent_id": kept.body["agent_id"],
        "attempt_number": kept.body["attempt_number"],
        "error_code": kept.body["error_code"],
        "error_type": kept.body["error_code"],
        "error_message": kept.body["error_message"],
        "recoverable": kept.body["recoverable"],
        "retry_scheduled_at": scheduled,
        "retryScheduledAt": scheduled,
        "resolved_at": null,
        "resolvedAt": null,
        "metadata": kept.body["metadata"],
        "created_at": words::moment(kept.at),
        "createdAt": words::moment(kept.at),
    })
}

/// Keeps that something failed.
pub(crate) async fn record(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewFailure>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let code = new.error_code.or(new.error_type);
    if code.is_none() && new.error_message.is_none() {
        return Err(unfit("error_code", "'error_code' or 'error_message' is missing: say what failed"));
    }
    let scheduled = new.retry_scheduled_at.filter(|at| !at.is_empty());
    let scheduled =
        scheduled.map(|at| words::read_moment("retry_scheduled_at", &at)).transpose().map_err(of_body)?;
    check(&app, key, &actor.agent, Permission::Write).await?;
    let before = app.engine().records().count(key, FAILURE.to_owned()).await.map_err(ApiError::from)?;
    let body = json!({
        "agent_id": new.agent_id.unwrap_or_else(|| actor.agent.clone()),
        // Whoever does not count has one more than were told of.
        "attempt_number": new.attempt_number.map_or(before + 1, u64::from),
        "error_code": code,
        "error_message": new.error_message,
        "recoverable": new.recoverable,
        "retry_scheduled_at": scheduled,
        "metadata": object("metadata", new.metadata)?,
    });
    Ok(Json(failure(&keep(&app, key, New::of(FAILURE, &actor.agent, body)).await?)))
}

/// What failed, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    Ok(Json(json!({ "failures": all(&app, key, FAILURE).await?.iter().map(failure).collect::<Vec<_>>() })))
}
