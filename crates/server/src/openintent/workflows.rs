//! Workflows: registered, triggered, and how far they have come.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{
    Graph, Json as RawJson, JsonMap, PhaseView, Problem, Run, SuspendedPhase, hex, json_from_yaml,
};
use abide_engine::{Error as EngineError, NewRun, Reply};
use abide_store::WorkflowVersion;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::asking::{Asking, Body, Path};
use super::intents::{answer, of_body, seen};
use super::parts::{Sent, shown, unfit};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::body::DefinitionBody;
use crate::error::{ApiError, Result};

/// What tells a workflow as OpenIntent writes it from an object that holds one.
const MARK: &str = "openintent";

fn unread(message: &str) -> Problem {
    Problem { place: "workflow".to_owned(), message: message.to_owned() }
}

/// The definition that was sent: as it is, under `workflow`, or as text under `yaml`.
fn definition(source: Vec<u8>) -> std::result::Result<Vec<u8>, Problem> {
    let Ok(fields) = serde_json::from_slice::<JsonMap>(&source) else { return Ok(source) };
    if fields.contains_key(MARK) || fields.contains_key("nodes") {
        return Ok(source);
    }
    if let Some(text) = fields.get("yaml") {
        let text = text.parse::<String>().map_err(|_| unread("'yaml' is the text of a workflow"))?;
        return json_from_yaml(&text);
    }
    let held = ["workflow", "definition", "spec"].into_iter().find_map(|key| fields.get(key));
    match held.map(|held| (held.type_name(), held)) {
        Some(("object", held)) => Ok(held.text().as_bytes().to_vec()),
        Some(("string", held)) => json_from_yaml(&held.parse::<String>().unwrap_or_default()),
        _ => Err(unread("there is none: send it under 'workflow', or as text under 'yaml'")),
    }
}

fn wrong(problems: &[Problem]) -> ApiError {
    ApiError::problems(problems).under(StatusCode::UNPROCESSABLE_ENTITY)
}

/// Registers a workflow, or another version of it.
pub(crate) async fn register(
    State(app): State<Arc<App>>,
    principal: Principal,
    body: DefinitionBody,
) -> Result<Json<Value>> {
    let bytes = body.len();
    let source = app.engine().apart(bytes, move || body.source().and_then(definition)).await?;
    let source = source.map_err(|problem| wrong(&[problem]))?;
    let pushed = app.engine().push_workflow(principal.tenant, &source, Some(principal.name)).await;
    let version = pushed.map_err(|error| match error {
        EngineError::Invalid(problems) => wrong(&problems),
        other => other.into(),
    })?;
    Ok(Json(listed(&version)))
}

fn listed(version: &WorkflowVersion) -> Value {
    json!({
        "id": version.id,
        "workflow_id": version.id,
        "name": version.name,
        "version": version.version,
        "hash": hex(&version.hash),
        "created_by": version.created_by,
        "created_at": words::moment(version.created_at),
    })
}

fn from_folder(graph: &Graph) -> Value {
    json!({
        "id": graph.workflow_id,
        "workflow_id": graph.workflow_id,
        "name": graph.name,
        "version": null,
        "hash": graph.hash_hex(),
        "created_by": null,
        "created_at": null,
    })
}

/// Every workflow that can be triggered, by id.
pub(crate) async fn list(State(app): State<Arc<App>>, principal: Principal) -> Result<Json<Value>> {
    let versions = app.engine().store().workflows(principal.tenant).await?;
    let mut found: BTreeMap<String, Value> = app
        .engine()
        .registered()
        .iter()
        .map(|graph| (graph.workflow_id.to_string(), from_folder(graph)))
        .collect();
    found.extend(versions.iter().map(|version| (version.id.clone(), listed(version))));
    Ok(Json(json!({ "workflows": found.into_values().collect::<Vec<_>>() })))
}

/// A workflow with its definition, as it was registered.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Json<JsonMap>> {
    let pushed = app.engine().store().workflow(principal.tenant, id.clone(), None).await?;
    let (made, source) = match pushed {
        Some((version, source)) => (listed(&version), source.to_vec()),
        None => {
            let registered = app.engine().registered().into_iter();
            let graph = registered.into_iter().find(|graph| *graph.workflow_id == *id);
            let graph = graph.ok_or(EngineError::WorkflowNotFound(id))?;
            (from_folder(&graph), graph.source.to_vec())
        }
    };
    let source: RawJson = serde_json::from_slice(&source).map_err(|error| ApiError::internal(&error))?;
    Ok(Json(shown(&made, [("definition", source)])))
}

fn phase(phase: &PhaseView) -> Value {
    json!({
        "phase_name": phase.phase,
        "title": phase.title,
        "assign": phase.assign,
        "intent_id": phase.child.map(words::id),
        "status": phase.task_status.name(),
        "blocked_reason": phase.blocked_reason,
        "suspended_intent_id": phase.suspended_intent_id.map(words::id),
    })
}

fn started(run: &Run) -> Value {
    json!({
        "workflow_run_id": words::id(run.key().id),
        "intent_id": words::id(run.key().id),
        "status": run.status().intent_name(),
        "phases": run.phases().iter().map(phase).collect::<Vec<_>>(),
    })
}

/// Starts a run of a workflow. The answer comes when it is on disk.
pub(crate) async fn trigger(
    State(app): State<Arc<App>>,
    principal: Principal,
    Path(id): Path<String>,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let mut sent = Sent(sent);
    let mut payload = None;
    for key in ["payload", "trigger", "trigger_payload", "inputs"] {
        payload = payload.or(sent.object(key)?);
    }
    let inputs = payload.map(|payload| payload.parse()).transpose();
    let new = NewRun {
        inputs: inputs.map_err(|_| unfit("payload", "'payload' is an object"))?.unwrap_or_default(),
        by: Some(principal.name),
        trace: abide_engine::trace::current(),
        ..NewRun::of(principal.tenant, &id)
    };
    let reply = Reply::new(None, |run: &Run| started(run).to_string().into_bytes());
    app.engine().start_for(new, reply).await.map(answer).map_err(ApiError::from).map_err(of_body)
}

fn suspended(phase: &SuspendedPhase) -> Value {
    json!({
        "phase_name": phase.phase_name,
        "intent_id": words::id(phase.intent_id),
        "suspended_since": words::moment(phase.suspended_since),
        "expires_at": phase.expires_at.map(words::moment),
    })
}

fn far(run: &Run) -> Value {
    let phases = run.phases();
    let mut by_status: BTreeMap<&str, usize> = BTreeMap::new();
    for phase in &phases {
        *by_status.entry(phase.task_status.name()).or_default() += 1;
    }
    let completed = by_status.get("completed").copied().unwrap_or(0);
    let mut progress = started(run);
    progress["total"] = json!(phases.len());
    progress["by_status"] = json!(by_status);
    progress["completion_percentage"] = json!((completed * 100).checked_div(phases.len()).unwrap_or(0));
    progress["suspended_phases"] = run.suspended_phases().iter().map(suspended).collect();
    progress
}

/// How far a workflow has come, and which of its phases wait for people.
pub(crate) async fn progress(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    Ok(Json(seen(&app, key, &actor.agent, far).await?))
}
