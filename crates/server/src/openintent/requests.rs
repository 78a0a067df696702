//! Approvals and escalations: what people are asked beside an intent. Each stands in the one inbox, whoever answers it where.

use std::sync::Arc;

use abide_core::{
    Answerer, IntentCommand, InterruptId, InterruptKind, Json as RawJson, JsonMap, Key, Permission, Request,
    RequestKind, RequestStatus, Run, is_run_question,
};
use abide_engine::Error as EngineError;
use abide_store::InboxQuery;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asked, Asking, Body, Path};
use super::intents::{ask, of_body, seen};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openwop::interrupts::{Given, Way, resolve};

fn no_such_request() -> ApiError {
    ApiError::new("interrupt_not_found", "the intent has no such request")
}

fn text(request: &Request, key: &str) -> Option<String> {
    request.asked.parse::<JsonMap>().ok()?.get(key)?.parse().ok()
}

fn context(request: &Request) -> Value {
    let asked = request.asked.parse::<Value>().unwrap_or_default();
    if asked["context"].is_object() { asked["context"].clone() } else { json!({}) }
}

fn approval(run: &Run, id: InterruptId, request: &Request) -> Value {
    json!({
        "id": id.to_string(),
        "intent_id": words::id(run.key().id),
        "action": request.action,
        "reason": text(request, "reason").unwrap_or_default(),
        "context": context(request),
        "requested_by": text(request, "requested_by").unwrap_or_else(|| request.requested_by.clone()),
        "status": request.status.name(),
        "created_at": words::moment(request.requested_at),
        "decided_by": request.decided_by,
        "decided_at": request.decided_at.map(words::moment),
        "decision_notes": request.said,
    })
}

fn escalation(run: &Run, id: InterruptId, request: &Request) -> Value {
    let word = |key: &str| text(request, key).unwrap_or_else(|| "medium".to_owned());
    let resolved = request.status == RequestStatus::Resolved;
    json!({
        "id": name(run.key(), id),
        "intent_id": words::id(run.key().id),
        "escalated_by": text(request, "escalated_by").unwrap_or_else(|| request.requested_by.clone()),
        "reason": text(request, "reason").unwrap_or_default(),
        "priority": word("priority"),
        "urgency": word("urgency"),
        "context": context(request),
        "status": request.status.name(),
        "created_at": words::moment(request.requested_at),
        "resolved_at": request.decided_at.filter(|_| resolved).map(words::moment),
        "resolved_by": request.decided_by.as_ref().filter(|_| resolved),
        "resolution": request.said.as_ref().filter(|_| resolved),
        "resolution_notes": request.said.as_ref().filter(|_| resolved),
    })
}

/// An escalation is asked for without its intent, so it is named after that as well.
fn name(key: Key, id: InterruptId) -> String {
    format!("{}_{id}", words::id(key.id))
}

fn named(text: &str, principal: &Principal) -> Result<(Key, InterruptId)> {
    let (run, id) = text.split_once('_').ok_or_else(no_such_request)?;
    let id = id.parse().map_err(|_| no_such_request())?;
    Ok((words::intent_key(run, principal)?, id))
}

/// The request that was made last.
fn newest(run: &Run, kind: RequestKind) -> Option<(InterruptId, Request)> {
    let requests = run.intent()?.requests.iter().filter(|(_, request)| request.kind == kind);
    requests.max_by_key(|(id, _)| id.sequence()).map(|(id, request)| (*id, request.clone()))
}

fn of_id(run: &Run, id: InterruptId, kind: RequestKind) -> Option<Request> {
    run.intent()?.requests.get(&id).filter(|request| request.kind == kind).cloned()
}

async fn made(
    app: &App,
    key: Key,
    kind: RequestKind,
    asked: JsonMap,
    actor: abide_core::Actor,
) -> Result<Value> {
    let see = move |run: &Run| newest(run, kind).map(|(id, request)| shown(run, id, &request));
    let made = ask(app, key, IntentCommand::Request { kind, asked, actor }, see).await.map_err(of_body)?;
    made.ok_or_else(|| ApiError::internal(&"a request was made and is not there"))
}

fn shown(run: &Run, id: InterruptId, request: &Request) -> Value {
    match request.kind {
        RequestKind::Approval => approval(run, id, request),
        RequestKind::Escalation => escalation(run, id, request),
    }
}

/// Asks people whether something may be done.
pub(crate) async fn request_approval(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(asked): Body<JsonMap>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    if asked.get("action").is_none_or(|action| action.type_name() != "string") {
        let message = "'action' is missing: say what is to be approved, such as 'complete'";
        return Err(ApiError::invalid("action", message).under(StatusCode::UNPROCESSABLE_ENTITY));
    }
    Ok(Json(made(&app, key, RequestKind::Approval, asked, actor).await?))
}

/// What became of a request.
pub(crate) async fn show_approval(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((intent, id)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let id: InterruptId = id.parse().map_err(|_| no_such_request())?;
    let see = |run: &Run| of_id(run, id, RequestKind::Approval).map(|request| approval(run, id, &request));
    seen(&app, key, &actor.agent, see).await?.map(Json).ok_or_else(no_such_request)
}

/// All requests for approval of an intent, oldest first.
pub(crate) async fn list_approvals(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let approvals = seen(&app, key, &actor.agent, |run| all(run, RequestKind::Approval)).await?;
    Ok(Json(json!({ "approvals": approvals })))
}

fn all(run: &Run, kind: RequestKind) -> Vec<Value> {
    let requests = run.intent().into_iter().flat_map(|intent| &intent.requests);
    requests
        .filter(|(_, request)| request.kind == kind)
        .map(|(id, request)| shown(run, *id, request))
        .collect()
}

async fn answer(
    app: &App,
    principal: &Principal,
    (key, id, kind): (Key, InterruptId, RequestKind),
    agent: &str,
    value: RawJson,
) -> Result<Value> {
    let asked = seen(app, key, agent, |run| of_id(run, id, kind)).await?.ok_or_else(no_such_request)?;
    if asked.status != RequestStatus::Pending {
        let message = format!("the request is {} already", asked.status.name());
        return Err(ApiError::new("interrupt_already_resolved", message).under(StatusCode::CONFLICT));
    }
    // An agent that a key speaks for is somebody if the key may speak for others.
    let by = if principal.act_as { agent.to_owned() } else { principal.name.clone() };
    let roles = if by == principal.name { principal.roles.clone() } else { Vec::new() };
    let by = Answerer { may_act_for_others: principal.act_as, ..Answerer::of(&by) };
    let given = Given { key, id, value, by, roles, may_force: false, way: Way::Key };
    resolve(app, given, None).await?;
    let see = |run: &Run| of_id(run, id, kind).map(|request| shown(run, id, &request));
    seen(app, key, agent, see).await?.ok_or_else(no_such_request)
}

/// Says that something may be done.
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((intent, id)): Path<(String, String)>,
) -> Result<Json<Value>> {
    decide_approval(&app, &principal, &actor.agent, (&intent, &id), "accept").await
}

/// Says that something may not be done.
pub(crate) async fn deny(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((intent, id)): Path<(String, String)>,
) -> Result<Json<Value>> {
    decide_approval(&app, &principal, &actor.agent, (&intent, &id), "reject").await
}

async fn decide_approval(
    app: &App,
    principal: &Principal,
    agent: &str,
    (intent, id): (&str, &str),
    action: &str,
) -> Result<Json<Value>> {
    let key = words::intent_key(intent, principal)?;
    let id: InterruptId = id.parse().map_err(|_| no_such_request())?;
    let value = RawJson::of(&json!({ "action": action }));
    answer(app, principal, (key, id, RequestKind::Approval), agent, value).await.map(Json)
}

/// Has people look at an intent.
pub(crate) async fn escalate(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(asked): Body<JsonMap>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    Ok(Json(made(&app, key, RequestKind::Escalation, asked, actor).await?))
}

/// Which escalations are wanted.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    intent_id: Option<String>,
    status: Option<String>,
}

/// Escalations: of an intent, or those of all intents that wait for somebody, oldest first.
pub(crate) async fn escalations(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Value>> {
    let status = wanted.status.as_deref().filter(|status| !status.is_empty());
    let (mut found, truncated) = match wanted.intent_id.as_deref().filter(|intent| !intent.is_empty()) {
        Some(intent) => {
            let key = words::intent_key(intent, &principal)?;
            (seen(&app, key, &actor.agent, |run| all(run, RequestKind::Escalation)).await?, false)
        }
        None if status.is_none_or(|status| status == RequestStatus::Pending.name()) => {
            pending_escalations(&app, &principal, &actor.agent).await?
        }
        None => {
            let message =
                "only those that are pending are listed of all intents; add 'intent_id' for the others";
            return Err(of_body(ApiError::invalid("status", message)));
        }
    };
    found.retain(|one| status.is_none_or(|status| one["status"] == status));
    Ok(Json(json!({ "escalations": found, "truncated": truncated })))
}

/// Those that nobody has looked at, as the inbox has them, and whether there may be more.
async fn pending_escalations(app: &App, principal: &Principal, agent: &str) -> Result<(Vec<Value>, bool)> {
    let mut query = InboxQuery {
        kind: Some(InterruptKind::Clarification),
        ..InboxQuery::of(principal.tenant, limits::LIST_ENTRIES_MAX)
    };
    let mut found = Vec::new();
    for _ in 0..limits::ESCALATION_PAGES_MAX {
        let page = app.engine().inbox().list(query.clone()).await?;
        // Of most of what is asked it shows here that it is no escalation: nodes ask it, and not runs themselves.
        for row in page.rows.into_iter().filter(|row| is_run_question(&row.open.node)) {
            let key = row.run.of(principal.tenant);
            found.extend(escalation_if_any(app, key, row.open.id, agent).await?);
            if found.len() >= limits::LIST_ENTRIES_MAX {
                return Ok((found, true));
            }
        }
        let Some(next) = page.next else { return Ok((found, false)) };
        query.after = Some(next);
    }
    Ok((found, true))
}

/// An escalation, if the question is one and whoever asks may see it.
async fn escalation_if_any(app: &App, key: Key, id: InterruptId, agent: &str) -> Result<Option<Value>> {
    let now = app.engine().clock().now();
    let see = |run: &Run| {
        let request = of_id(run, id, RequestKind::Escalation)?;
        run.permits(agent, Permission::Read, now).then(|| escalation(run, id, &request))
    };
    match app.engine().read(key, see).await {
        Ok(found) => Ok(found),
        // It ended, and was removed, after the inbox was read.
        Err(EngineError::RunNotFound(_) | EngineError::Erased(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What somebody says who has looked.
#[derive(Deserialize)]
pub(crate) struct Resolution {
    #[serde(default)]
    resolution: Option<String>,
    #[serde(default)]
    notes: Option<String>,
}

/// Says that somebody has looked.
pub(crate) async fn resolve_escalation(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(body): Body<Resolution>,
) -> Result<Json<Value>> {
    let (key, id) = named(&id, &principal)?;
    let said = [body.resolution, body.notes].into_iter().flatten().filter(|said| !said.is_empty());
    let said = said.collect::<Vec<_>>().join(": ");
    let value = RawJson::of(&json!({ "answers": { "answer": said } }));
    answer(&app, &principal, (key, id, RequestKind::Escalation), &actor.agent, value).await.map(Json)
}
