//! Leases of intents: taken, listed, renewed, given back.

use std::sync::Arc;

use abide_core::{IntentCommand, Lease, LeaseAct, Millis, Run, Unclaimed};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asking, Body, Path};
use super::intents::{ask, of_body, seen};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::hand_api;

/// For how long somebody has it who does not say.
const SECONDS_DEFAULT: u32 = 300;

/// A lease that somebody wants.
#[derive(Deserialize)]
pub(crate) struct NewLease {
    scope: String,
    #[serde(default)]
    duration_seconds: Option<u32>,
}

/// For how long somebody wants it.
#[derive(Deserialize)]
pub(crate) struct RenewLease {
    #[serde(default)]
    duration_seconds: Option<u32>,
}

fn shown(run: &Run, id: &str, lease: &Lease, now: Millis) -> Value {
    let status = match lease.released_at {
        Some(_) => "released",
        None if run.holds_lease(lease, now) => "active",
        None => "expired",
    };
    json!({
        "id": id,
        "intent_id": words::id(run.key().id),
        "agent_id": lease.agent,
        "scope": lease.scope,
        "status": status,
        "acquired_at": words::moment(lease.acquired_at),
        "created_at": words::moment(lease.acquired_at),
        "expires_at": words::moment(lease.expires_at),
        "released_at": lease.released_at.map(words::moment),
    })
}

/// The leases of an intent, those included that are over.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let now = app.engine().clock().now();
    let all = |run: &Run| {
        let leases = run.intent().map(|intent| &intent.leases);
        let mut leases: Vec<_> = leases.into_iter().flatten().collect();
        leases.sort_by_key(|(_, lease)| lease.acquired_at);
        leases.into_iter().map(|(id, lease)| shown(run, id, lease, now)).collect::<Vec<_>>()
    };
    let leases = seen(&app, key, &actor.agent, all).await?;
    Ok(Json(json!({ "leases": leases })))
}

/// Gives somebody a part of an intent. Whoever is refused because of an intent before it is remembered.
pub(crate) async fn acquire(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(body): Body<NewLease>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let seconds = body.duration_seconds.unwrap_or(SECONDS_DEFAULT);
    let (agent, scope) = (actor.agent.clone(), body.scope.clone());
    let act = LeaseAct::Acquire { scope: body.scope, seconds };
    let now = app.engine().clock().now();
    let see = move |run: &Run| match run.lease_refused(&agent) {
        Some(refused) => Seen::Refused(refused),
        None => Seen::Lease(of_scope(run, &agent, &scope, now)),
    };
    match ask(&app, key, IntentCommand::Lease { act, actor }, see).await.map_err(of_body)? {
        Seen::Lease(Some(lease)) => Ok(Json(lease)),
        Seen::Lease(None) => Err(ApiError::internal(&"a lease was taken and is not there")),
        Seen::Refused(refused) => Err(hand_api::unclaimed(&refused)),
    }
}

/// What became of a request for a lease.
enum Seen {
    Lease(Option<Value>),
    Refused(Unclaimed),
}

fn of_scope(run: &Run, agent: &str, scope: &str, now: Millis) -> Option<Value> {
    let leases = run.intent()?.leases.iter();
    // One that was given back at the same moment is over.
    let held = |lease: &Lease| lease.agent == agent && lease.scope == scope && lease.released_at.is_none();
    let own = leases.filter(|(_, lease)| held(lease));
    let (id, lease) = own.max_by_key(|(_, lease)| lease.acquired_at)?;
    Some(shown(run, id, lease, now))
}

/// Has somebody have their part for longer, also while the intent waits for people.
pub(crate) async fn renew(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, lease)): Path<(String, String)>,
    Body(body): Body<RenewLease>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let seconds = body.duration_seconds.unwrap_or(SECONDS_DEFAULT);
    let now = app.engine().clock().now();
    let act = LeaseAct::Renew { id: lease.clone(), seconds };
    let see = move |run: &Run| run.intent()?.leases.get(&lease).map(|found| shown(run, &lease, found, now));
    let renewed = ask(&app, key, IntentCommand::Lease { act, actor }, see).await.map_err(of_body)?;
    renewed.map(Json).ok_or_else(|| ApiError::internal(&"a lease was renewed and is not there"))
}

/// Has somebody give their part back.
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, lease)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let act = LeaseAct::Release { id: lease };
    ask(&app, key, IntentCommand::Lease { act, actor }, |_| ()).await.map_err(of_body)?;
    Ok(Json(json!({ "message": "Lease released" })))
}
