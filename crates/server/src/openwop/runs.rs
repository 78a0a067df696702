//! Runs: create, look, ask why, list, erase. What is done to them while they are under way is in `control.rs`.

use std::sync::Arc;

use abide_core::limits::{REASON_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX};
use abide_core::{Json as RawJson, JsonMap, Key, MOCK_PROVIDERS, Mock, MockError, Run, RunId, Status, Why};
use abide_engine::{Error as EngineError, NewRun, Reply};
use abide_store::{ListQuery, Listed};
use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control::encoded;
use super::interrupts::Reader;
pub(crate) use super::snapshot::Waits;
use super::{mirror, snapshot};
use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::graph_api::dependency;
use crate::idempotency::{Repeatable, once};
use crate::workers_api::of_run;
use crate::{conditional, limits, shape, time};

/// A run to be started.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Create {
    /// Which workflow.
    #[schemars(length(min = 1, max = 128))]
    workflow_id: String,
    /// What goes in.
    #[serde(default)]
    #[schemars(with = "shape::Object")]
    inputs: JsonMap,
    /// Labels: 100 at most, each of 256 characters at most.
    #[serde(default)]
    #[schemars(length(max = TAGS_MAX), inner(length(max = TAG_CHARS_MAX)))]
    tags: Vec<String>,
    /// Your own data, an object.
    #[schemars(with = "Option<shape::Object>")]
    metadata: Option<RawJson>,
    /// The key's own tenant, if it is named at all.
    tenant_id: Option<String>,
    /// What the run is about: with `X-Dedup: enforce` it is the only one under way for its workflow and scope.
    #[schemars(length(min = 1, max = 128))]
    scope_id: Option<String>,
    /// Who is told when the run waits for an answer: a URL of yours that takes POST requests.
    #[schemars(length(min = 1, max = 8192))]
    callback_url: Option<String>,
    /// Options of this run.
    #[schemars(with = "Option<shape::Object>")]
    configurable: Option<RawJson>,
    /// Runs that have to complete before any node of it starts (Abide's own).
    #[serde(default)]
    #[schemars(with = "Vec<shape::RunName>")]
    depends_on: Vec<String>,
    /// Nothing starts until somebody activates it (Abide's own).
    #[serde(default)]
    draft: bool,
}

/// A run that was started.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Created {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// How it stands.
    #[schemars(with = "shape::RunStatus")]
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
    Repeatable(body, ticket): Repeatable<Create>,
) -> Result<Response> {
    let exclusive = is_exclusive(&headers)?;
    check_tenant(&app, &principal, body.tenant_id.as_deref()).await?;
    if let Some(url) = &body.callback_url {
        let checked = app.engine().check_webhook_url(url).await;
        checked.map_err(|reason| ApiError::invalid("callbackUrl", format!("'callbackUrl': {reason}")))?;
    }
    check_mock(&app, body.configurable.as_ref())?;
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
        scope: body.scope_id,
        exclusive,
        callback_url: body.callback_url,
        depends_on: body.depends_on.iter().map(|name| dependency(name)).collect::<Result<_>>()?,
        draft: body.draft,
    };
    let work = {
        let app = app.clone();
        move |blank| async move {
            let reply = Reply::new(blank, |run: &Run| encoded(&created(run)));
            Ok(app.engine().start_for(new, reply).await?)
        }
    };
    once(&app, principal.tenant, "createRun".to_owned(), ticket, StatusCode::CREATED, work).await
}

pub(crate) fn created(run: &Run) -> Created {
    let id = run.key().id;
    Created {
        run_id: id,
        status: run.status().openwop_name(),
        events_url: format!("/v1/runs/{id}/events"),
        status_url: format!("/v1/runs/{id}"),
    }
}

/// A mock answers in the place of a model, which a run that counts must never mistake for one.
/// Only a server that is itself being tested plays one.
fn check_mock(app: &App, configurable: Option<&RawJson>) -> Result<()> {
    const FIELD: &str = "configurable.mockProvider";
    let options = configurable.and_then(|given| given.parse::<JsonMap>().ok()).unwrap_or_default();
    let Some(asked) = options.get("mockProvider") else { return Ok(()) };
    if !app.engine().plays_mocks() {
        let message = "'configurable.mockProvider' is for tests of a server alone; leave it out";
        return Err(ApiError::new("mock_provider_forbidden", message).with("field", FIELD));
    }
    match Mock::asked(asked) {
        Ok(_) => Ok(()),
        Err(error @ MockError::Unknown(_)) => {
            Err(ApiError::new("unsupported_mock_provider", error.to_string())
                .with("field", FIELD)
                .with("supportedProviders", MOCK_PROVIDERS))
        }
        Err(error) => Err(ApiError::invalid(FIELD, error.to_string())),
    }
}

/// Whether the run must be the only one of its workflow and scope.
fn is_exclusive(headers: &HeaderMap) -> Result<bool> {
    match headers.get("x-dedup").map(HeaderValue::as_bytes) {
        None => Ok(false),
        Some(b"enforce") => Ok(true),
        Some(_) => Err(ApiError::invalid("X-Dedup", "'X-Dedup' is 'enforce'; send that, or leave it out")),
    }
}

/// A tenant may be named, but only the key's own.
pub(super) async fn check_tenant(app: &App, principal: &Principal, name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    let tenant = app.engine().store().tenant(name.to_owned(), false).await.map_err(EngineError::from)?;
    if tenant == Some(principal.tenant) {
        return Ok(());
    }
    Err(ApiError::new("forbidden", "the key does not belong to that 'tenantId'; leave it out")
        .with("field", "tenantId"))
}

/// A run as it stands, or what is left of it.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Run")]
#[expect(dead_code, reason = "the two are written apart")]
pub(crate) enum Shown {
    /// As it stands.
    Whole(Box<snapshot::Snapshot<'static>>),
    /// Its payloads were erased.
    Erased(snapshot::Outline<'static>),
}

/// A run as it stands. Whoever names the entity tag of what they have gets it only if it has changed.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    headers: HeaderMap,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let children = app.engine().children(key, limits::CHILD_RUNS_MAX).await?;
    let mirrored = mirror::of(&app, key, !children.is_empty()).await?;
    let reader = Reader::of(&app, key, &principal);
    let hands = app.engine().hands(key).await?;
    let beside =
        snapshot::Beside { children: &children, mirrored, reader: Some(&reader), hands: Some(&hands) };
    let known = |tag: &str| conditional::has_already(&headers, tag);
    let read = |run: &Run| {
        let tag = snapshot::tag(run, beside);
        (!known(&tag)).then(|| snapshot::of(run, beside)).transpose().map(|text| (tag, text))
    };
    let shown = match app.engine().read(key, read).await {
        Err(EngineError::Erased(_)) => {
            let head = app.engine().head(key).await?;
            let tag = snapshot::outline_tag(&head);
            (!known(&tag)).then(|| snapshot::outline(&head)).transpose().map(|text| (tag, text))
        }
        shown => shown?,
    };
    let (tag, text) = shown.map_err(|error| ApiError::internal(&error))?;
    let tag = HeaderValue::from_str(&tag).map_err(|error| ApiError::internal(&error))?;
    let mut response = match text {
        None => StatusCode::NOT_MODIFIED.into_response(),
        Some(text) => json_response(Ok(text))?,
    };
    response.headers_mut().insert(header::ETAG, tag);
    // What is answered depends on who asks: nobody else may be given it.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

/// Why a run is not finished, or how it ended.
pub(crate) async fn why(State(app): State<Arc<App>>, principal: Principal, run: RunPath) -> Result<Response> {
    let key = run.of(&principal)?;
    let mirrored = mirror::of(&app, key, true).await?;
    let hands = app.engine().hands(key).await?;
    let look = |run: &Run| {
        let why = of_run::explain(&hands, run, run.why());
        (mirrored.unwrap_or_else(|| run.status()), why)
    };
    let (status, why) = match app.engine().read(key, look).await {
        Err(EngineError::Erased(_)) => {
            let status = app.engine().head(key).await?.summary.status;
            let summary = format!("it is {}, and its payloads were erased", status.openwop_name());
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
    /// Only runs that stand like this.
    #[schemars(with = "shape::StatusAsked")]
    #[serde(default)]
    status: Option<String>,
    /// Only those of this workflow.
    #[serde(default)]
    workflow_id: Option<String>,
    /// How many at most; 50 unless told.
    #[schemars(with = "usize", range(min = 1, max = limits::LIST_RUNS_MAX))]
    #[serde(default)]
    limit: Option<String>,
    /// The `nextCursor` of the page before.
    #[schemars(with = "shape::RunName")]
    #[serde(default)]
    cursor: Option<String>,
}

/// A page of runs.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunPage")]
pub(crate) struct Page {
    /// Newest first.
    runs: Vec<ListedRun>,
    /// What to ask for the next page with; null on the last one.
    #[schemars(with = "Option<shape::RunName>")]
    next_cursor: Option<RunId>,
}

/// A run in a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedRun {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    workflow_id: String,
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    #[schemars(with = "shape::Moment")]
    started_at: String,
    #[schemars(with = "shape::Moment")]
    updated_at: String,
    /// How many events its journal has.
    events: u64,
    /// Whether its payloads were erased.
    #[schemars(with = "shape::True")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    erased: bool,
}

/// Runs, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: std::result::Result<Query<Listing>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Page>> {
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
    let (tenant, workflow) = (principal.tenant, query.workflow_id);
    let page = app.engine().list(ListQuery { tenant, status, workflow, before, limit: limit + 1 }).await?;
    let more = page.len() > limit;
    let next_cursor = page.get(limit - 1).filter(|_| more).map(|last| last.id);
    Ok(Json(Page { runs: page.iter().take(limit).map(listed).collect(), next_cursor }))
}

fn status_named(name: &str) -> Result<Status> {
    Status::by_name(name).ok_or_else(|| {
        let known: Vec<_> = Status::ALL.iter().map(|(_, _, name)| *name).collect();
        ApiError::invalid("status", format!("'status' is one of {}", known.join(", ")))
    })
}

fn listed(run: &Listed) -> ListedRun {
    ListedRun {
        run_id: run.id,
        workflow_id: run.summary.workflow_id.to_string(),
        status: run.summary.status.openwop_name(),
        started_at: time::rfc3339(run.summary.started_at),
        updated_at: time::rfc3339(run.at),
        events: run.next,
        erased: run.erased,
    }
}

/// Why a run is erased.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Erase {
    /// In words, for the record of what was erased.
    #[schemars(length(max = REASON_CHARS_MAX))]
    reason: Option<String>,
}

/// A run whose payloads are gone.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Erasure")]
pub(crate) struct Erased {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// Always true.
    #[schemars(with = "shape::True")]
    erased: bool,
    /// How many events lost their payload.
    events: u64,
}

/// Erases the payloads of a run that has ended, for good. Asking again changes nothing.
pub(crate) async fn erase(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    JsonBody(body): JsonBody<Erase>,
) -> Result<Json<Erased>> {
    let key = run.of(&principal)?;
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        let message = format!("'reason' is longer than {REASON_CHARS_MAX} characters; shorten it");
        return Err(ApiError::invalid("reason", message));
    }
    let events = app.engine().erase(key, Some(principal.name), body.reason).await?;
    app.feeds().forget(key);
    Ok(Json(Erased { run_id: key.id, erased: true, events }))
}

/// The run that a path names. A name that can't be a run's is answered like a run that is not there.
pub(crate) struct RunPath(String);

impl RunPath {
    /// The run of this name, from a path that names more.
    pub(crate) fn named(run: String) -> Self {
        Self(run)
    }

    /// The run as a key of the caller's tenant.
    pub(crate) fn of(&self, principal: &Principal) -> Result<Key> {
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

/// The run that a path names, and what of it.
pub(crate) struct PartPath(pub(crate) RunPath, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PartPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let sent = |nth| parts.uri.path().split('/').nth(nth).unwrap_or_default().to_owned();
        let (run, part) = path.map_or_else(|_| (sent(3), sent(5)), |Path(both)| both);
        Ok(Self(RunPath(run), part))
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
