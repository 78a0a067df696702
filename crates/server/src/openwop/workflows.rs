//! Workflows: push, look, list, and check without pushing.
//!
//! A tenant's own versions go before the definitions that the operator loaded from a folder for everybody.

use std::sync::Arc;

use abide_core::{Graph, Problem, hex};
use abide_engine::Error as EngineError;
use abide_store::WorkflowVersion;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::body::DefinitionBody;
use crate::error::{ApiError, Result, shown};
use crate::time;

const VERSION_HEADER: HeaderName = HeaderName::from_static("abide-workflow-version");

/// Makes a version of a workflow. The content of the latest version makes none.
pub(crate) async fn push(
    State(app): State<Arc<App>>,
    principal: Principal,
    WorkflowPath(id): WorkflowPath,
    body: DefinitionBody,
) -> Result<(StatusCode, Json<Value>)> {
    let bytes = body.len();
    let read = move || {
        let source = body.source()?;
        check_id(&id, &source)?;
        Ok(source)
    };
    let source = app.engine().apart(bytes, read).await?;
    let source = source.map_err(|problem: Problem| ApiError::problems(&[problem]))?;
    let pushed = app.engine().push_workflow(principal.tenant, &source, Some(principal.name)).await;
    let version = pushed.map_err(|error| match error {
        EngineError::Invalid(problems) => ApiError::problems(&problems),
        other => other.into(),
    })?;
    let status = if version.created { StatusCode::CREATED } else { StatusCode::OK };
    let answer = json!({
        "workflowId": version.id,
        "version": version.version,
        "hash": hex(&version.hash),
        "created": version.created,
    });
    Ok((status, Json(answer)))
}

/// The path and the definition name the same workflow. A definition whose id can't be read has other problems.
fn check_id(path: &str, source: &[u8]) -> std::result::Result<(), Problem> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    match serde_json::from_slice::<Named>(source) {
        Ok(named) if named.id != path => {
            let message =
                format!("the definition's id is '{}', but the path says '{path}'; change one", named.id);
            Err(Problem { place: "id".to_owned(), message })
        }
        _ => Ok(()),
    }
}

/// Checks a definition and keeps nothing of it.
pub(crate) async fn validate(
    State(app): State<Arc<App>>,
    _: Principal,
    body: DefinitionBody,
) -> Result<Json<Value>> {
    let bytes = body.len();
    let check = move || {
        let source = body.source().map_err(|problem| vec![problem])?;
        Graph::admit(&source)
    };
    let checked = app.engine().apart(bytes, check).await?;
    Ok(Json(match checked {
        Ok(graph) => json!({
            "valid": true,
            "workflowId": &*graph.workflow_id,
            "hash": graph.hash_hex(),
            "nodes": graph.len(),
            "edges": graph.edge_count(),
        }),
        Err(problems) => json!({ "valid": false, "problems": shown(&problems) }),
    }))
}

/// Every workflow that a run could be started of, by id.
pub(crate) async fn list(State(app): State<Arc<App>>, principal: Principal) -> Result<Json<Value>> {
    let versions = app.engine().store().workflows(principal.tenant).await?;
    let mut workflows = Vec::with_capacity(versions.len());
    for version in &versions {
        let mut entry = described(version);
        entry["workflowId"] = json!(version.id);
        entry["name"] = json!(version.name);
        entry["source"] = json!("pushed");
        workflows.push(entry);
    }
    let own = |id: &str| versions.iter().any(|version| version.id == id);
    let shared = app.engine().registered();
    workflows.extend(shared.iter().filter(|graph| !own(&graph.workflow_id)).map(|graph| from_folder(graph)));
    workflows.sort_by(|a, b| a["workflowId"].as_str().cmp(&b["workflowId"].as_str()));
    Ok(Json(json!({ "workflows": workflows })))
}

fn from_folder(graph: &Graph) -> Value {
    json!({
        "workflowId": &*graph.workflow_id,
        "name": graph.name,
        "version": null,
        "hash": graph.hash_hex(),
        "source": "folder",
    })
}

fn described(version: &WorkflowVersion) -> Value {
    json!({
        "version": version.version,
        "hash": hex(&version.hash),
        "createdAt": time::rfc3339(version.created_at),
        "createdBy": version.created_by,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Show {
    version: Option<String>,
}

/// A definition, byte for byte as it was pushed.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    WorkflowPath(id): WorkflowPath,
    query: std::result::Result<Query<Show>, QueryRejection>,
) -> Result<Response> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let asked = query.version.as_deref().map(version_number).transpose()?;
    let pushed = app.engine().store().workflow(principal.tenant, id.clone(), asked).await?;
    if let Some((version, source)) = pushed {
        let mut response = definition(&source, &hex(&version.hash))?;
        response.headers_mut().insert(VERSION_HEADER, HeaderValue::from(version.version));
        return Ok(response);
    }
    match (asked, in_folder(&app, &id)) {
        (None, Some(graph)) => definition(&graph.source, &graph.hash_hex()),
        (None, None) => Err(EngineError::WorkflowNotFound(id).into()),
        (Some(version), _) => {
            let message = format!("workflow '{id}' has no version {version}; list its versions");
            Err(ApiError::new("workflow_not_found", message).with("workflowId", id))
        }
    }
}

/// The definition that a run is pinned to, whatever has been pushed since.
pub(crate) async fn of_run(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let hash = app.engine().head(key).await?.summary.definition;
    match app.engine().store().blob(key.tenant, hash).await? {
        Some(source) => definition(&source, &hex(&hash)),
        None => Err(ApiError::internal(&format!("the definition of {} is not in the store", key.id))),
    }
}

fn definition(source: &[u8], hash: &str) -> Result<Response> {
    let etag = HeaderValue::from_str(&format!("\"{hash}\"")).map_err(|error| ApiError::internal(&error))?;
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind), (header::ETAG, etag)], source.to_vec()).into_response())
}

fn version_number(text: &str) -> Result<u32> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| ApiError::invalid("version", "'version' is a whole number from 1"))
}

fn in_folder(app: &App, id: &str) -> Option<Arc<Graph>> {
    app.engine().registered().into_iter().find(|graph| &*graph.workflow_id == id)
}

/// The versions of a workflow, newest first. A definition from a folder has none.
pub(crate) async fn versions(
    State(app): State<Arc<App>>,
    principal: Principal,
    WorkflowPath(id): WorkflowPath,
) -> Result<Json<Value>> {
    let versions = app.engine().store().workflow_versions(principal.tenant, id.clone()).await?;
    if versions.is_empty() && in_folder(&app, &id).is_none() {
        return Err(EngineError::WorkflowNotFound(id).into());
    }
    let versions: Vec<Value> = versions.iter().map(described).collect();
    Ok(Json(json!({ "versions": versions })))
}

/// The workflow that a path names. What is not even text can't be a workflow's id.
pub(crate) struct WorkflowPath(String);

impl<S: Send + Sync> FromRequestParts<S> for WorkflowPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let sent = || parts.uri.path().split('/').nth(3).unwrap_or_default().to_owned();
        path.map_or_else(|_| Err(EngineError::WorkflowNotFound(sent()).into()), |Path(id)| Ok(Self(id)))
    }
}
