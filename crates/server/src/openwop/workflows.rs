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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::body::DefinitionBody;
use crate::error::{ApiError, Result, ShownProblem, shown};
use crate::{shape, time};

const VERSION_HEADER: HeaderName = HeaderName::from_static("abide-workflow-version");

/// A version of a workflow, after a push.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pushed {
    workflow_id: String,
    version: u32,
    #[schemars(with = "shape::Sha256")]
    hash: String,
    /// Whether this push made it.
    created: bool,
}

/// What a check found.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Checked")]
pub(crate) enum Checked {
    /// Nothing is wrong.
    Valid(Valid),
    /// Something is.
    Invalid(Invalid),
}

/// A definition that could be pushed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ValidDefinition")]
pub(crate) struct Valid {
    #[schemars(with = "shape::True")]
    valid: bool,
    workflow_id: String,
    #[schemars(with = "shape::Sha256")]
    hash: String,
    nodes: usize,
    edges: usize,
}

/// A definition that could not be pushed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InvalidDefinition")]
pub(crate) struct Invalid {
    #[schemars(with = "shape::False")]
    valid: bool,
    /// What is wrong with it.
    problems: Vec<ShownProblem>,
}

/// The workflows that a run could be started of.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Workflows {
    /// By id.
    workflows: Vec<ListedWorkflow>,
}

/// A workflow that a run could be started of.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedWorkflow {
    workflow_id: String,
    name: String,
    /// The latest version; null for a definition that the operator loaded from a folder.
    version: Option<u32>,
    #[schemars(with = "shape::Sha256")]
    hash: String,
    source: Source,
    /// When the version was pushed.
    #[schemars(with = "shape::Moment")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    /// Who pushed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<Option<String>>,
}

/// Where a workflow comes from.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WorkflowSource")]
enum Source {
    /// A tenant pushed it.
    Pushed,
    /// The operator loaded it from a folder, for everybody.
    Folder,
}

/// The versions of a workflow.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Versions {
    /// Newest first; none if the workflow comes from a folder.
    versions: Vec<Version>,
}

/// A version of a workflow.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WorkflowVersion")]
struct Version {
    version: u32,
    #[schemars(with = "shape::Sha256")]
    hash: String,
    #[schemars(with = "shape::Moment")]
    created_at: String,
    /// Who pushed it.
    created_by: Option<String>,
}

/// Makes a version of a workflow. The content of the latest version makes none.
pub(crate) async fn push(
    State(app): State<Arc<App>>,
    principal: Principal,
    WorkflowPath(id): WorkflowPath,
    body: DefinitionBody,
) -> Result<(StatusCode, Json<Pushed>)> {
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
    let WorkflowVersion { id, version: number, hash, created, .. } = version;
    Ok((status, Json(Pushed { workflow_id: id, version: number, hash: hex(&hash), created })))
}

/// The path and the definition name the same workflow. A definition whose id can't be read has other problems.
fn check_id(path: &str, source: &[u8]) -> std::result::Result<(), Problem> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    let (place, id) = match serde_json::from_slice::<Named>(source) {
        Ok(named) => ("id", Some(named.id)),
        // As OpenIntent writes it, it has a name, which its id is made of.
        Err(_) => ("info.name", Graph::read(source).ok().map(|graph| graph.workflow_id.to_string())),
    };
    match id.filter(|id| id != path) {
        Some(id) => {
            let message = format!("the definition's id is '{id}', but the path says '{path}'; change one");
            Err(Problem { place: place.to_owned(), message })
        }
        None => Ok(()),
    }
}

/// Checks a definition and keeps nothing of it.
pub(crate) async fn validate(
    State(app): State<Arc<App>>,
    _: Principal,
    body: DefinitionBody,
) -> Result<Json<Checked>> {
    let bytes = body.len();
    let check = move || {
        let source = body.source().map_err(|problem| vec![problem])?;
        Graph::admit(&source)
    };
    let checked = app.engine().apart(bytes, check).await?;
    Ok(Json(match checked {
        Ok(graph) => Checked::Valid(Valid {
            valid: true,
            workflow_id: graph.workflow_id.to_string(),
            hash: graph.hash_hex(),
            nodes: graph.len(),
            edges: graph.edge_count(),
        }),
        Err(problems) => Checked::Invalid(Invalid { valid: false, problems: shown(&problems) }),
    }))
}

/// Every workflow that a run could be started of, by id.
pub(crate) async fn list(State(app): State<Arc<App>>, principal: Principal) -> Result<Json<Workflows>> {
    let versions = app.engine().store().workflows(principal.tenant).await?;
    let own = |id: &str| versions.iter().any(|version| version.id == id);
    let shared = app.engine().registered();
    let shared = shared.iter().filter(|graph| !own(&graph.workflow_id)).map(|graph| from_folder(graph));
    let mut workflows: Vec<ListedWorkflow> = shared.collect();
    workflows.extend(versions.into_iter().map(from_tenant));
    workflows.sort_by(|a, b| a.workflow_id.cmp(&b.workflow_id));
    Ok(Json(Workflows { workflows }))
}

fn from_folder(graph: &Graph) -> ListedWorkflow {
    ListedWorkflow {
        workflow_id: graph.workflow_id.to_string(),
        name: graph.name.to_string(),
        version: None,
        hash: graph.hash_hex(),
        source: Source::Folder,
        created_at: None,
        created_by: None,
    }
}

fn from_tenant(version: WorkflowVersion) -> ListedWorkflow {
    ListedWorkflow {
        workflow_id: version.id,
        name: version.name,
        version: Some(version.version),
        hash: hex(&version.hash),
        source: Source::Pushed,
        created_at: Some(time::rfc3339(version.created_at)),
        created_by: Some(version.created_by),
    }
}

fn described(version: WorkflowVersion) -> Version {
    Version {
        version: version.version,
        hash: hex(&version.hash),
        created_at: time::rfc3339(version.created_at),
        created_by: version.created_by,
    }
}

/// Which version of a definition.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Show {
    /// The latest one, unless told.
    #[schemars(with = "u32", range(min = 1, max = u32::MAX))]
    #[serde(default)]
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
) -> Result<Json<Versions>> {
    let versions = app.engine().store().workflow_versions(principal.tenant, id.clone()).await?;
    if versions.is_empty() && in_folder(&app, &id).is_none() {
        return Err(EngineError::WorkflowNotFound(id).into());
    }
    Ok(Json(Versions { versions: versions.into_iter().map(described).collect() }))
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
