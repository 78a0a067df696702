//! Runs: create, look, ask why, list, cancel, erase.

use std::sync::Arc;

use abide_core::limits::REASON_CHARS_MAX;
use abide_core::{Json as RawJson, JsonMap, Key, Rejection, RunId, Status, Why};
use abide_engine::{Error as EngineError, NewRun};
use abide_store::{ListQuery, Listed};
use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::snapshot;
use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::{limits, time};

/// A run to be started.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Create {
    /// Which workflow.
    workflow_id: String,
    /// What goes in.
    #[serde(default)]
    #[schemars(with = "serde_json::Map<String, Value>")]
    inputs: JsonMap,
    /// Labels.
    #[serde(default)]
    tags: Vec<String>,
    /// Your own data, an object.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    metadata: Option<RawJson>,
    /// The key's own tenant, if it is named at all.
    tenant_id: Option<String>,
    #[schemars(skip)]
    scope_id: Option<RawJson>,
    #[schemars(skip)]
    callback_url: Option<RawJson>,
    /// Options of this run.
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    configurable: Option<RawJson>,
}

/// A run that was started.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Created {
    /// The run.
    #[schemars(with = "String")]
    run_id: RunId,
    /// How it stands.
    status: &'static str,
    /// Where its events are.
    events_url: String,
    /// Where it is.
    status_url: String,
}

/// Starts a run. The answer comes when the run is on disk.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    principal: Principal,
    headers: HeaderMap,
    JsonBody(body): JsonBody<Create>,
) -> Result<(StatusCode, Json<Created>)> {
    refuse_later_headers(&headers)?;
    check_tenant(&app, &principal, body.tenant_id.as_deref()).await?;
    let later = [("scopeId", &body.scope_id), ("callbackUrl", &body.callback_url)];
    if let Some((field, _)) = later.into_iter().find(|(_, value)| value.is_some()) {
        return Err(ApiError::invalid(
            field,
            format!("'{field}' is not supported by this version yet; leave it out"),
        ));
    }
    refuse_mocks(body.configurable.as_ref())?;
    let new = NewRun {
        tenant: principal.tenant,
        workflow_id: body.workflow_id,
        inputs: body.inputs,
        tags: body.tags,
        metadata: body.metadata,
        configurable: body.configurable,
        parent: None,
        by: Some(principal.name),
        trace: abide_engine::trace::current(),
    };
    let (run, status) = app.engine().start_run(new).await?;
    let answer = Created {
        run_id: run,
        status: status.name(),
        events_url: format!("/v1/runs/{run}/events/poll"),
        status_url: format!("/v1/runs/{run}"),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// A mock answers in the place of a model, which a run that counts must never mistake for one.
fn refuse_mocks(configurable: Option<&RawJson>) -> Result<()> {
    let options = configurable.and_then(|given| given.parse::<JsonMap>().ok()).unwrap_or_default();
    match options.contains_key("mockProvider") {
        false => Ok(()),
        true => {
            let message = "'configurable.mockProvider' is for tests of a server alone; leave it out";
            Err(ApiError::new("mock_provider_forbidden", message).with("field", "configurable.mockProvider"))
        }
    }
}

/// A client that sends one of these relies on it: taking the request without keeping the promise could start
/// the run twice.
fn refuse_later_headers(headers: &HeaderMap) -> Result<()> {
    match ["idempotency-key", "x-dedup"].into_iter().find(|name| headers.contains_key(*name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("the header {name} is not supported by this version yet; leave it out");
            Err(ApiError::invalid(name, message))
        }
    }
}

/// A tenant may be named, but only the key's own.
async fn check_tenant(app: &App, principal: &Principal, name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    let tenant = app.engine().store().tenant(name.to_owned(), false).await.map_err(EngineError::from)?;
    if tenant == Some(principal.tenant) {
        return Ok(());
    }
    Err(ApiError::new("forbidden", "the key does not belong to that 'tenantId'; leave it out")
        .with("field", "tenantId"))
}

/// A run as it stands.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let children = app.engine().children(key, limits::CHILD_RUNS_MAX).await?;
    match app.engine().read(key, |run| snapshot::of(run, &children)).await {
        Err(EngineError::Erased(_)) => json_response(snapshot::outline(&app.engine().head(key).await?)),
        shown => json_response(shown?),
    }
}

/// Why a run is not finished, or how it ended.
pub(crate) async fn why(State(app): State<Arc<App>>, principal: Principal, run: RunPath) -> Result<Response> {
    let key = run.of(&principal)?;
    let (status, why) = match app.engine().read(key, |run| (run.status(), run.why())).await {
        Err(EngineError::Erased(_)) => {
            let status = app.engine().head(key).await?.summary.status;
            let summary = format!("it is {}, and its payloads were erased", status.name());
            (status, Why { finished: true, summary, reasons: Vec::new() })
        }
        found => found?,
    };
    json_response(snapshot::why(key.id, status, &why))
}

/// Which runs to list.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Listing {
    status: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

/// Runs, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: std::result::Result<Query<Listing>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let limit = query.limit.as_deref().map_or(Ok(limits::LIST_RUNS_DEFAULT), |limit| {
        let known = limit.parse().ok().filter(|limit| (1..=limits::LIST_RUNS_MAX).contains(limit));
        known.ok_or_else(|| {
            ApiError::invalid("limit", format!("'limit' is a number from 1 to {}", limits::LIST_RUNS_MAX))
        })
    })?;
    let status = query.status.as_deref().map(status_named).transpose()?;
    let before = query.cursor.as_deref().map(str::parse::<RunId>).transpose();
    let before =
        before.map_err(|_| ApiError::invalid("cursor", "'cursor' is the nextCursor of the page before"))?;
    let page =
        app.engine().list(ListQuery { tenant: principal.tenant, status, before, limit: limit + 1 }).await?;
    let more = page.len() > limit;
    let runs: Vec<Value> = page.iter().take(limit).map(listed).collect();
    let cursor = page.get(limit - 1).filter(|_| more).map(|last| last.id);
    Ok(Json(json!({ "runs": runs, "nextCursor": cursor })))
}

fn status_named(name: &str) -> Result<Status> {
    Status::by_name(name).ok_or_else(|| {
        let known: Vec<_> = Status::ALL.iter().map(|(_, _, name)| *name).collect();
        ApiError::invalid("status", format!("'status' is one of {}", known.join(", ")))
    })
}

fn listed(run: &Listed) -> Value {
    let mut entry = json!({
        "runId": run.id,
        "workflowId": &*run.summary.workflow_id,
        "status": run.summary.status.name(),
        "startedAt": time::rfc3339(run.summary.started_at),
        "updatedAt": time::rfc3339(run.at),
        "events": run.next,
    });
    if run.erased {
        entry["erased"] = json!(true);
    }
    entry
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    reason: Option<String>,
}

/// Cancels a run. Asking again changes nothing and is answered the same.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    JsonBody(body): JsonBody<Cancel>,
) -> Result<Json<Value>> {
    let key = run.of(&principal)?;
    let status = match app.engine().cancel(key, body.reason, Some(principal.name)).await {
        Ok(status) => status,
        Err(EngineError::Rejected(Rejection::Ended(_) | Rejection::Cancelling) | EngineError::Erased(_)) => {
            app.engine().head(key).await?.summary.status
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Json(json!({ "runId": key.id, "status": status.name() })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Erase {
    reason: Option<String>,
}

/// Erases the payloads of a run that has ended, for good. Asking again changes nothing.
pub(crate) async fn erase(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    JsonBody(body): JsonBody<Erase>,
) -> Result<Json<Value>> {
    let key = run.of(&principal)?;
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        let message = format!("'reason' is longer than {REASON_CHARS_MAX} characters; shorten it");
        return Err(ApiError::invalid("reason", message));
    }
    let events = app.engine().erase(key, Some(principal.name), body.reason).await?;
    Ok(Json(json!({ "runId": key.id, "erased": true, "events": events })))
}

/// The run that a path names. A name that can't be a run's is answered like a run that is not there.
pub(crate) struct RunPath(String);

impl RunPath {
    /// The run of this name, from a path that names more.
    pub(super) fn named(run: String) -> Self {
        Self(run)
    }

    /// The run as a key of the caller's tenant.
    pub(super) fn of(&self, principal: &Principal) -> Result<Key> {
        let id: RunId = self.0.parse().map_err(|_| no_such_run(&self.0))?;
        Ok(id.of(principal.tenant))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        // What is not even text is shown as it was sent.
        let sent = || parts.uri.path().split('/').nth(3).unwrap_or_default();
        path.map_or_else(|_| Err(no_such_run(sent())), |Path(run)| Ok(Self(run)))
    }
}

fn no_such_run(run: &str) -> ApiError {
    ApiError::new("run_not_found", format!("there is no run {run}"))
}

/// An answer that is JSON text already.
pub(super) fn json_response(text: serde_json::Result<Vec<u8>>) -> Result<Response> {
    let text = text.map_err(|error| ApiError::internal(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
