//! Coordinators: agents that look after an intent or a portfolio, under an exclusive lease.

use std::sync::Arc;

use abide_core::{
    Actor, Command, Coordinator, CoordinatorCommand, Json as RawJson, JsonMap, Key, Permission, Registration,
    Rejection, Run,
};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::asking::{Asking, Body, Path};
use super::intents::{of_body, seen};
use super::parts::{self, Sent, kept, name, shown, unfit};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};

/// What coordinators may be.
const KINDS: [&str; 4] = ["llm", "human", "composite", "system"];

/// What may be done when a guardrail is passed.
const ON_EXCEED: [&str; 4] = ["pause", "escalate", "pause_and_escalate", "fail"];

/// What is only kept of a coordinator.
const KEPT: [(&str, &str); 3] =
    [("role", "string"), ("coordinator_type", "string"), ("guardrails", "object")];

fn no_such_coordinator() -> ApiError {
    ApiError::new("coordinator_not_found", "there is no such coordinator")
}

fn meant<'a>(text: &'a str, principal: &Principal) -> Result<(Key, &'a str)> {
    parts::named(text, principal).ok_or_else(no_such_coordinator)
}

/// A coordinator as its client reads it.
fn view(run: &Run, id: &str, lease: &Coordinator) -> JsonMap {
    let (key, of_group) = (run.key().id, run.group().is_some());
    let (metadata, mut kept) = kept(lease.metadata.as_ref());
    let made = json!({
        "id": name(key, id),
        "intent_id": (!of_group).then(|| words::id(key)),
        "portfolio_id": of_group.then(|| words::id(key)),
        "agent_id": lease.agent,
        "supervisor_id": lease.supervisor,
        "scope": if of_group { "portfolio" } else { "intent" },
        "status": lease.status.name(),
        "suspension_policy": lease.suspension_policy.name(),
        "heartbeat_interval_seconds": lease.heartbeat_interval_ms / 1000,
        "last_heartbeat": words::moment(lease.last_heartbeat),
        "granted_at": words::moment(lease.granted_at),
        "expires_at": lease.expires_at.map(words::moment),
        "version": lease.version,
    });
    let written = [
        ("role", kept.remove("role").unwrap_or_else(|| RawJson::of("coordinator"))),
        ("coordinator_type", kept.remove("coordinator_type").unwrap_or_else(|| RawJson::of("llm"))),
        ("guardrails", kept.remove("guardrails").unwrap_or_else(|| RawJson::of(&()))),
        ("metadata", metadata.clone()),
        ("lease_metadata", metadata),
    ];
    shown(&made, written)
}

/// What somebody who wants to coordinate says of themselves.
fn registration(sent: &mut Sent) -> Result<Registration> {
    let kept = sent.keep(&KEPT)?;
    let text = |key: &str| kept.get(key).and_then(|value| value.parse::<String>().ok());
    if text("coordinator_type").is_some_and(|kind| !KINDS.contains(&kind.as_str())) {
        return Err(unfit("coordinator_type", format!("'coordinator_type' is one of {}", KINDS.join(", "))));
    }
    let guardrails =
        kept.get("guardrails").and_then(|rails| rails.parse::<JsonMap>().ok()).unwrap_or_default();
    let exceeded = guardrails.get("on_exceed").filter(|given| given.type_name() != "null");
    if exceeded
        .is_some_and(|given| !given.parse::<String>().is_ok_and(|word| ON_EXCEED.contains(&word.as_str())))
    {
        return Err(unfit("guardrails.on_exceed", format!("'on_exceed' is one of {}", ON_EXCEED.join(", "))));
    }
    let expires_at = sent.text("expires_at")?.map(|text| words::read_moment("expires_at", &text));
    let interval = sent.take::<f64>("heartbeat_interval_seconds")?;
    Ok(Registration {
        agent: sent.need("agent_id")?,
        supervisor: sent.text("supervisor_id")?,
        suspension_policy: sent.text("suspension_policy")?,
        heartbeat_interval_ms: interval.map(|seconds| (seconds * 1000.0) as i64),
        expires_at: expires_at.transpose().map_err(of_body)?,
        metadata: sent.metadata(&kept)?,
    })
}

/// What is to be coordinated: an intent, or a portfolio.
fn coordinated(sent: &mut Sent, principal: &Principal) -> Result<Key> {
    match (sent.text("intent_id")?, sent.text("portfolio_id")?) {
        (Some(intent), None) => words::intent_key(&intent, principal),
        (None, Some(portfolio)) => words::portfolio_key(&portfolio, principal),
        _ => Err(unfit("intent_id", "name what is to be coordinated: 'intent_id', or 'portfolio_id'")),
    }
}

/// Has an agent coordinate an intent or a portfolio. Nobody else may then.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let mut sent = Sent(sent);
    let of_group = sent.0.get("portfolio_id").is_some_and(|id| id.type_name() == "string");
    let key = coordinated(&mut sent, &principal)?;
    let asked = registration(&mut sent)?;
    if app.engine().head(key).await?.group != of_group {
        return Err(if of_group { words::no_such_portfolio() } else { words::no_such_intent() });
    }
    let command = Command::Coordinator(Box::new(CoordinatorCommand::Register(asked)));
    parts::decide(&app, (key, actor), command, |run| run.held_lease().map(|(id, lease)| view(run, id, lease)))
        .await
}

/// A coordinator as it stands.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<JsonMap>> {
    let (key, id) = meant(&id, &principal)?;
    let now = app.engine().clock().now();
    let look = |run: &Run| {
        let lease = run.coordinator(id).ok_or_else(no_such_coordinator)?;
        if !run.permits(&actor.agent, Permission::Read, now) {
            let who = actor.agent.clone();
            return Err(Rejection::NotPermitted { who, permission: Permission::Read }.into());
        }
        Ok(view(run, id, lease))
    };
    app.engine().read(key, look).await?.map(Json)
}

/// Those who coordinate an intent, or did last.
pub(crate) async fn of_intent(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Vec<JsonMap>>> {
    let key = words::intent_key(&intent, &principal)?;
    Ok(Json(seen(&app, key, &actor.agent, all).await?))
}

/// Those who coordinate a portfolio, or did last.
pub(crate) async fn of_portfolio(
    State(app): State<Arc<App>>,
    principal: Principal,
    Path(portfolio): Path<String>,
) -> Result<Json<Vec<JsonMap>>> {
    let key = words::portfolio_key(&portfolio, &principal)?;
    let found = app.engine().read(key, |run| run.group().map(|_| all(run))).await?;
    found.map(Json).ok_or_else(words::no_such_portfolio)
}

fn all(run: &Run) -> Vec<JsonMap> {
    run.coordinators().map(|(id, lease)| view(run, id, lease)).collect()
}

/// Says that a coordinator is there.
pub(crate) async fn heartbeat(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Response> {
    let (key, local) = meant(&id, &principal)?;
    let command = CoordinatorCommand::Heartbeat { id: local.to_owned() };
    let (local, now) = (local.to_owned(), app.engine().clock().now());
    let see = move |run: &Run| {
        let lease = run.coordinator(&local)?;
        let next = words::moment(now.saturating_add(lease.heartbeat_interval_ms));
        Some(shown(&json!({ "status": "ok", "next_heartbeat_at": next }), []))
    };
    parts::decide(&app, (key, actor), Command::Coordinator(Box::new(command)), see).await
}

async fn of_lease(
    app: &App,
    principal: &Principal,
    actor: Actor,
    id: &str,
    command: impl FnOnce(String) -> CoordinatorCommand,
) -> Result<Response> {
    let (key, local) = meant(id, principal)?;
    let command = Command::Coordinator(Box::new(command(local.to_owned())));
    let local = local.to_owned();
    let see = move |run: &Run| run.coordinator(&local).map(|lease| view(run, &local, lease));
    parts::decide(app, (key, actor), command, see).await
}

/// Has something else done about what is suspended.
pub(crate) async fn update(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let suspension_policy = Sent(sent).need("suspension_policy")?;
    of_lease(&app, &principal, actor, &id, |id| CoordinatorCommand::SetPolicy { id, suspension_policy }).await
}

/// Has a coordinator be done.
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Response> {
    of_lease(&app, &principal, actor, &id, |id| CoordinatorCommand::Complete { id }).await
}

/// Does something about the lease of a coordinator.
pub(crate) async fn perform(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, verb)): Path<(String, String)>,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let mut sent = Sent(sent);
    let reason = sent.text("reason")?;
    let command = |id| match verb.as_str() {
        "pause" => Some(CoordinatorCommand::Pause { id, reason }),
        "resume" => Some(CoordinatorCommand::Resume { id }),
        "complete" => Some(CoordinatorCommand::Complete { id }),
        _ => None,
    };
    let unknown = || ApiError::new("not_found", format!("'{verb}' is nothing that a coordinator does"));
    let command = command(meant(&id, &principal)?.1.to_owned()).ok_or_else(unknown)?;
    of_lease(&app, &principal, actor, &id, |_| command).await
}
