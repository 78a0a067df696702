//! What agents decided about an intent, what coordinators did, and what they want somebody else to decide.

use std::sync::Arc;

use abide_core::Permission;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kept, New, all, check, keep, newest, object, said, unfit};
use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;
use crate::limits;
use crate::openintent::asking::{Asked, Asking, Body, Path};
use crate::openintent::words;

/// The kinds of these records.
pub(in crate::openintent) const DECISION: &str = "decision";
pub(in crate::openintent) const ARBITRATION: &str = "arbitration";
pub(in crate::openintent) const OF_COORDINATOR: &str = "coordinator.decision";

/// Coordinators' decisions that are shown to whoever does not say how many.
const SHOWN_DEFAULT: usize = 50;

/// A decision.
#[derive(Deserialize)]
pub(crate) struct NewDecision {
    decision_type: Option<String>,
    outcome: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    decided_by: Option<String>,
}

fn decision(kept: &Kept) -> Value {
    json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "decision_maker_id": kept.text("decided_by").unwrap_or(&kept.by),
        "decided_by": kept.text("decided_by").unwrap_or(&kept.by),
        "decision_type": kept.body["decision_type"],
        "outcome": kept.body["outcome"],
        "reasoning": kept.body["reasoning"],
        "created_at": words::moment(kept.at),
    })
}

/// Keeps what somebody decided.
pub(crate) async fn record(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewDecision>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let body = json!({
        "decision_type": said("decision_type", new.decision_type)?,
        "outcome": said("outcome", new.outcome)?,
        "reasoning": new.reasoning.unwrap_or_default(),
        "decided_by": new.decided_by,
    });
    check(&app, key, &actor.agent, Permission::Write).await?;
    Ok(Json(decision(&keep(&app, key, New::of(DECISION, &actor.agent, body)).await?)))
}

/// What was decided, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    let found = all(&app, key, DECISION).await?;
    Ok(Json(json!({ "decisions": found.iter().map(decision).collect::<Vec<_>>() })))
}

/// What somebody else is to decide.
#[derive(Deserialize)]
pub(crate) struct NewArbitration {
    reason: Option<String>,
    #[serde(default)]
    context: Option<Value>,
    #[serde(default)]
    requested_by: Option<String>,
}

/// Keeps that somebody else is to decide.
pub(crate) async fn arbitrate(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewArbitration>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let body = json!({
        "reason": said("reason", new.reason)?,
        "context": object("context", new.context)?,
        "requested_by": new.requested_by.unwrap_or_else(|| actor.agent.clone()),
    });
    check(&app, key, &actor.agent, Permission::Write).await?;
    let kept = keep(&app, key, New::of(ARBITRATION, &actor.agent, body)).await?;
    Ok(Json(json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "requester_id": kept.body["requested_by"],
        "reason": kept.body["reason"],
        "context": kept.body["context"],
        "status": "pending",
        "created_at": words::moment(kept.at),
    })))
}

/// What a coordinator did.
#[derive(Deserialize)]
pub(crate) struct CoordinatorDid {
    intent_id: Option<String>,
    coordinator_id: Option<String>,
    decision_type: Option<String>,
    summary: Option<String>,
    #[serde(default)]
    rationale: Option<String>,
    #[serde(default)]
    alternatives_considered: Option<Vec<Value>>,
    #[serde(default)]
    confidence: Option<f64>,
}

fn of_coordinator(kept: &Kept) -> Value {
    json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "coordinator_id": kept.body["coordinator_id"],
        "decision_type": kept.body["decision_type"],
        "summary": kept.body["summary"],
        "rationale": kept.body["rationale"],
        "alternatives_considered": kept.body["alternatives_considered"],
        "confidence": kept.body["confidence"],
        "timestamp": words::moment(kept.at),
        "created_at": words::moment(kept.at),
    })
}

/// Keeps what a coordinator did.
pub(crate) async fn record_of_coordinator(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Body(new): Body<CoordinatorDid>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&said("intent_id", new.intent_id)?, &principal)?;
    if new.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
        return Err(unfit("confidence", "'confidence' is a number from 0 to 1"));
    }
    let body = json!({
        "coordinator_id": said("coordinator_id", new.coordinator_id)?,
        "decision_type": said("decision_type", new.decision_type)?,
        "summary": said("summary", new.summary)?,
        "rationale": new.rationale.unwrap_or_default(),
        "alternatives_considered": new.alternatives_considered.unwrap_or_default(),
        "confidence": new.confidence,
    });
    check(&app, key, &actor.agent, Permission::Write).await?;
    Ok(Json(of_coordinator(&keep(&app, key, New::of(OF_COORDINATOR, &actor.agent, body)).await?)))
}

/// How many are wanted.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    limit: Option<usize>,
}

/// What coordinators did, newest first.
pub(crate) async fn list_of_coordinator(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    let limit = wanted.limit.unwrap_or(SHOWN_DEFAULT).clamp(1, limits::RECORDS_MAX);
    let found = newest(&app, key, OF_COORDINATOR, limit).await?;
    Ok(Json(Value::Array(found.iter().map(of_coordinator).collect())))
}
