//! Many interrupts answered alike: first a list of what would happen, then what was listed, each by itself.
//!
//! What is carried out names every interrupt, so one that was asked after the list was made is never answered by it. Each
//! goes the one way that every answer goes, and is a commit of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{Answerer, InterruptId, InterruptKind, Json as RawJson, Key, RunId};
use abide_store::{InboxQuery, Receipt};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::inbox::{self, Narrowed};
use super::{Given, Way, foresee, resolve};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, keep, once};
use crate::openwop::control::{Refusal, encoded};
use crate::scope::Scope;
use crate::{limits, shape};

/// One answer for many interrupts.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "BulkResolveInterrupts")]
pub(crate) struct BulkResolve {
    /// What each node goes on with.
    #[schemars(with = "shape::Anything")]
    resume_value: RawJson,
    /// Which, at most a hundred.
    #[schemars(length(min = 1, max = 100))]
    #[serde(default)]
    interrupts: Option<Vec<Named>>,
    /// Which ones to look for. Only with `dryRun`: what is carried out is named one by one.
    #[serde(default)]
    filter: Option<Narrowed>,
    /// Only list what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// One of them.
#[derive(Clone, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "InterruptRef")]
pub(crate) struct Named {
    #[schemars(with = "shape::RunName")]
    pub(crate) run_id: String,
    #[schemars(with = "shape::InterruptName")]
    pub(crate) interrupt_id: String,
}

/// What became of each, or what would.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BulkResolvedInterrupts")]
pub(crate) struct BulkResolved {
    /// Nothing was done: this is what would happen.
    dry_run: bool,
    /// In the order in which they were named, or oldest first.
    pub(crate) results: Vec<Outcome>,
    /// What to look for the next ones with; null if a filter found no more, or none was given.
    next_cursor: Option<String>,
}

/// What became of one, or what would.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BulkResolvedInterrupt")]
pub(crate) struct Outcome {
    /// The run, as it was named.
    pub(crate) run_id: String,
    /// The interrupt, as it was named.
    pub(crate) interrupt_id: String,
    /// The node that asks, if the interrupt is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_id: Option<String>,
    /// What it is about.
    #[schemars(with = "shape::InterruptKinds")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<InterruptKind>,
    /// One line of what is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// Whether the answer was taken, or would be.
    pub(crate) ok: bool,
    /// How the run stands then.
    #[schemars(with = "shape::RunStatus")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
    /// Why it was not taken, or would not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Refusal>,
}

/// One answer and everybody who gets it.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) tenant: abide_core::TenantId,
    pub(crate) value: RawJson,
    pub(crate) by: Answerer,
    pub(crate) roles: Vec<String>,
    pub(crate) may_force: bool,
    pub(crate) named: Vec<Named>,
}

impl Plan {
    pub(crate) fn of(principal: &Principal, value: RawJson, named: Vec<Named>) -> Self {
        let by = Answerer { may_act_for_others: principal.act_as, ..Answerer::of(&principal.name) };
        Self {
            tenant: principal.tenant,
            value,
            by,
            roles: principal.roles.clone(),
            may_force: principal.scopes.allow(Scope::RunsForce),
            named,
        }
    }

    fn given(&self, key: Key, id: InterruptId) -> Given {
        Given {
            key,
            id,
            value: self.value.clone(),
            by: self.by.clone(),
            roles: self.roles.clone(),
            may_force: self.may_force,
            way: Way::Key,
        }
    }
}

/// Answers many interrupts, or lists what that would do.
pub(crate) async fn resolve_many(
    State(app): State<Arc<App>>,
    principal: Principal,
    Repeatable(body, ticket): Repeatable<BulkResolve>,
) -> Result<Response> {
    check(&body)?;
    let tenant = principal.tenant;
    let work = {
        let app = app.clone();
        move |blank: Option<Receipt>| async move {
            let (answer, is_whole) = match body.dry_run {
                true => (look(&app, &principal, body).await?, true),
                false => {
                    let plan = Plan::of(&principal, body.resume_value, body.interrupts.unwrap_or_default());
                    let (results, is_whole) = carry_out(&app, plan, blank.as_ref()).await;
                    (BulkResolved { dry_run: false, results, next_cursor: None }, is_whole)
                }
            };
            // If something of ours failed, asking again shall try again.
            keep(&app, blank.filter(|_| is_whole), encoded(&answer)).await
        }
    };
    once(&app, tenant, "bulkResolveInterrupts".to_owned(), ticket, StatusCode::OK, work).await
}

fn check(body: &BulkResolve) -> Result<()> {
    let most = limits::BULK_RESOLVE_MAX;
    match (&body.interrupts, &body.filter) {
        (Some(named), None) if (1..=most).contains(&named.len()) => Ok(()),
        (None, Some(_)) if body.dry_run => Ok(()),
        (None, Some(_)) => {
            let message = "a 'filter' only lists: send it with 'dryRun': true, and name what you have seen in \
                           'interrupts'";
            Err(ApiError::invalid("filter", message))
        }
        _ => {
            let message = format!(
                "name 1 to {most} 'interrupts', or give a 'filter' with 'dryRun': true; send more than that in \
                 several requests"
            );
            Err(ApiError::invalid("interrupts", message).with("maxInterrupts", most))
        }
    }
}

/// What would happen.
async fn look(app: &Arc<App>, principal: &Principal, body: BulkResolve) -> Result<BulkResolved> {
    let (named, next_cursor) = match (body.interrupts, body.filter) {
        (None, Some(filter)) => found(app, principal, filter).await?,
        (named, _) => (named.unwrap_or_default(), None),
    };
    let results = foresee_all(app, Plan::of(principal, body.resume_value, named)).await;
    Ok(BulkResolved { dry_run: true, results, next_cursor })
}

/// What a filter finds, and where to look for more.
async fn found(app: &App, principal: &Principal, filter: Narrowed) -> Result<(Vec<Named>, Option<String>)> {
    let (node, tag) = (filter.node_id.clone(), filter.tag.clone());
    let now = app.engine().clock().now();
    let narrowed = inbox::narrowed(app, filter, principal, now).await?;
    let query = InboxQuery { limit: limits::BULK_RESOLVE_MAX, ..narrowed };
    let page = app.engine().inbox().list(query).await?;
    let mut named = Vec::new();
    for row in page.rows {
        let is_meant = node.as_deref().is_none_or(|node| *row.open.node == *node);
        if is_meant && has_tag(app, row.run.of(principal.tenant), tag.as_deref()).await {
            named.push(Named { run_id: row.run.to_string(), interrupt_id: row.open.id.to_string() });
        }
    }
    Ok((named, page.next.map(|next| next.to_string())))
}

/// Whether a run has a label. One that can't be read has none.
async fn has_tag(app: &App, key: Key, tag: Option<&str>) -> bool {
    let Some(tag) = tag else { return true };
    let has = |run: &abide_core::Run| run.tags().iter().any(|own| own == tag);
    app.engine().read(key, has).await.unwrap_or(false)
}

/// What would become of each, in the order in which they are named.
pub(crate) async fn foresee_all(app: &Arc<App>, plan: Plan) -> Vec<Outcome> {
    each(app, plan, |app, given| async move { foresee(&app, given).await.map(str::to_owned) }).await.0
}

/// Gives the answer to each. Tells also whether nothing of ours failed.
pub(crate) async fn carry_out(app: &Arc<App>, plan: Plan, blank: Option<&Receipt>) -> (Vec<Outcome>, bool) {
    let blank = blank.cloned();
    each(app, plan, |app, given| {
        let blank = blank.clone();
        async move { answer_one(&app, given, blank).await }
    })
    .await
}

/// Gives one answer, once for each key: its receipt is part of its commit, so a request that is sent again after a crash
/// finds what was done of it.
async fn answer_one(app: &App, given: Given, blank: Option<Receipt>) -> Result<String> {
    let own = |blank: Receipt| {
        let endpoint = format!("{} {} {}", blank.endpoint, given.key.id, given.id);
        Receipt { endpoint, status: StatusCode::OK.as_u16(), ..blank }
    };
    let own = blank.map(own);
    if let Some(own) = &own {
        let kept = app.engine().store().receipt(own.tenant, own.endpoint.clone(), own.key).await?;
        if let Some(kept) = kept.filter(|kept| kept.digest == own.digest) {
            return Ok(status_of(&kept.body));
        }
    }
    Ok(status_of(&resolve(app, given, own).await?))
}

/// The status in what an answer is told.
fn status_of(body: &[u8]) -> String {
    let told: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    told["status"].as_str().unwrap_or_default().to_owned()
}

/// Does something about each at once, so that they share commits; one that is named twice is seen to once.
async fn each<F>(app: &Arc<App>, plan: Plan, act: impl Fn(Arc<App>, Given) -> F) -> (Vec<Outcome>, bool)
where
    F: Future<Output = Result<String>>,
{
    let mut unique = plan.named.clone();
    unique.sort_unstable();
    unique.dedup();
    let acting = unique.into_iter().map(|named| {
        let (app, given) = (app.clone(), named.place().map(|(run, id)| plan.given(run.of(plan.tenant), id)));
        let done = given.as_ref().ok().cloned().map(|given| act(app.clone(), given));
        async move {
            let seen = about(&app, given.as_ref().ok()).await;
            let done = match (done, given) {
                (Some(done), _) => done.await,
                (None, given) => Err(given.err().unwrap_or_else(nothing_named)),
            };
            (named.clone(), outcome(named, seen, done))
        }
    });
    let acting = futures_util::stream::iter(acting).buffer_unordered(limits::BULK_RESOLVE_AT_ONCE);
    let done: BTreeMap<Named, (Outcome, bool)> = acting.collect().await;
    let is_whole = done.values().all(|(_, is_ours)| !is_ours);
    let results = plan.named.iter().filter_map(|named| done.get(named)).map(|(told, _)| told.clone());
    (results.collect(), is_whole)
}

fn nothing_named() -> ApiError {
    ApiError::from(abide_core::Rejection::NoSuchInterrupt)
}

impl Named {
    fn place(&self) -> Result<(RunId, InterruptId)> {
        let run = self.run_id.parse().map_err(|_| nothing_named())?;
        let id = self.interrupt_id.parse().map_err(|_| nothing_named())?;
        Ok((run, id))
    }
}

/// What an open interrupt says of itself in a list.
async fn about(app: &App, given: Option<&Given>) -> Option<(String, InterruptKind, String)> {
    let given = given?;
    let row = app.engine().inbox().get(given.key, given.id).await.ok()??;
    Some((row.open.node.to_string(), row.open.kind, row.open.title))
}

/// What is told of one, and whether something of ours failed.
fn outcome(
    named: Named,
    seen: Option<(String, InterruptKind, String)>,
    done: Result<String>,
) -> (Outcome, bool) {
    let (node_id, kind, title) = match seen {
        Some((node, kind, title)) => (Some(node), Some(kind), Some(title)),
        None => (None, None, None),
    };
    let ours = done.as_ref().is_err_and(|error| error.status().is_server_error());
    let (status, error) = match done {
        Ok(status) => (Some(status), None),
        Err(error) => {
            let (code, message) = error.into_words();
            (None, Some(Refusal { code, message }))
        }
    };
    let Named { run_id, interrupt_id } = named;
    (Outcome { run_id, interrupt_id, node_id, kind, title, ok: error.is_none(), status, error }, ours)
}
