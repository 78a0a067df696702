//! Who is there, and which kinds are known, for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::TenantId;
use abide_engine::SessionView;
use abide_store::{KindRow, Store};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits::LIST_PAGE_MAX;
use crate::page::PageQuery;
use crate::path_name::PathName;
use crate::{shape, time};

/// The workers that are there.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkerList {
    /// By agent and session.
    workers: Vec<WorkerView>,
}

/// A worker that is there.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Worker")]
struct WorkerView {
    session: String,
    /// The agent that it works as.
    agent: String,
    /// The kinds that it provides.
    kinds: Vec<String>,
    /// How many tasks it takes at once.
    capacity: usize,
    /// How many it has.
    held: usize,
    /// What people know it by.
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sdk: Option<String>,
    #[schemars(with = "shape::Moment")]
    registered_at: String,
    /// When it last asked for something.
    #[schemars(with = "shape::Moment")]
    seen_at: String,
    /// Whether it listens right now.
    listening: bool,
    /// Whether its line broke off, so that it gets no tasks until it is heard of again.
    gone: bool,
    /// Whether it gets no more tasks.
    draining: bool,
}

/// The tenant's workers that are there.
pub(crate) async fn workers(State(app): State<Arc<App>>, principal: Principal) -> Result<Json<WorkerList>> {
    let workers = app.engine().sessions(principal.tenant).await?.into_iter().map(view).collect();
    Ok(Json(WorkerList { workers }))
}

fn view(session: SessionView) -> WorkerView {
    WorkerView {
        session: session.id.to_string(),
        agent: session.agent,
        kinds: session.kinds.iter().map(ToString::to_string).collect(),
        capacity: session.capacity,
        held: session.held,
        labels: session.labels,
        code_version: session.code_version,
        sdk: session.sdk,
        registered_at: time::rfc3339(session.registered_at),
        seen_at: time::rfc3339(session.seen_at),
        listening: session.listening,
        gone: session.gone,
        draining: session.draining,
    }
}

/// A page of kinds.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindPage {
    /// Kinds, by name.
    kinds: Vec<KindView>,
    /// Where the next page begins; `null` on the last.
    next_cursor: Option<String>,
}

/// A kind of node that workers have provided.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WorkerKind")]
struct KindView {
    /// The `typeId` of nodes.
    kind: String,
    /// The agent that provided it last.
    agent: String,
    idempotent: bool,
    /// Whether what it does can be undone, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    reversible: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code_version: Option<String>,
    /// When anything about it changed last.
    #[schemars(with = "shape::Moment")]
    registered_at: String,
    /// Whether a worker that provides it is there.
    provided: bool,
}

/// The kinds that workers of the tenant have ever provided.
pub(crate) async fn kinds(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: PageQuery,
) -> Result<Json<KindPage>> {
    let after = query.cursor.clone().unwrap_or_default();
    let found = app.engine().store().work().kinds(principal.tenant, after, query.limit() + 1).await?;
    let hands = app.engine().providers(principal.tenant).await?;
    let (kinds, next_cursor) = query.cut(found.into_iter(), |kind| kind.kind.clone());
    let view = |kind: KindRow| KindView {
        provided: hands.is_provided(&kind.kind, None),
        kind: kind.kind,
        agent: kind.agent,
        idempotent: kind.idempotent,
        reversible: kind.reversible,
        timeout_ms: kind.timeout_ms,
        code_version: kind.code_version,
        registered_at: time::rfc3339(kind.registered_at),
    };
    Ok(Json(KindPage { kinds: kinds.into_iter().map(view).collect(), next_cursor }))
}

/// Forgets a kind.
pub(crate) async fn forget_kind(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(kind): PathName,
) -> Result<StatusCode> {
    if app.engine().forget_kind(principal.tenant, kind).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let message = "no worker of your tenant has ever provided this kind; list them to see which there are";
    Err(ApiError::new("kind_not_found", message))
}

/// The kinds of every tenant, for an engine that starts.
pub async fn worker_kinds(store: &dyn Store) -> std::result::Result<Vec<KindRow>, abide_store::Error> {
    let mut all = Vec::new();
    for (tenant, _) in store.tenants().await? {
        all.extend(kinds_of(store, tenant).await?);
    }
    Ok(all)
}

async fn kinds_of(
    store: &dyn Store,
    tenant: TenantId,
) -> std::result::Result<Vec<KindRow>, abide_store::Error> {
    let mut kinds: Vec<KindRow> = Vec::new();
    loop {
        let after = kinds.last().map(|kind| kind.kind.clone()).unwrap_or_default();
        let page = store.work().kinds(tenant, after, LIST_PAGE_MAX).await?;
        let is_last = page.len() < LIST_PAGE_MAX;
        kinds.extend(page);
        if is_last {
            return Ok(kinds);
        }
    }
}
