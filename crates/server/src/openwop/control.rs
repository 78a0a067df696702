//! Runs: cancel, pause, resume, and cancel many at once. Holds by people are in `holds.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::limits::REASON_CHARS_MAX;
use abide_core::{Cancellation, Command, Drain, Hold, Key, Rejection, Run, RunId, Status, TenantId};
use abide_engine::{Error as EngineError, Reply};
use abide_store::Receipt;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::holds::held_as;
use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, Ticket, keep, once};
use crate::{limits, shape, time};

const NOT_PAUSABLE: &str = "run_not_pausable";
const NOT_PAUSED: &str = "run_not_paused";
pub(super) const NOT_HOLDABLE: &str = "run_not_holdable";
pub(super) const NOT_HELD: &str = "run_not_held";

/// Why a run is cancelled or resumed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Because")]
pub(crate) struct Because {
    /// In your own words.
    pub(super) reason: Option<String>,
}

/// How a run stands.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunStands")]
pub(crate) struct Stands {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// Its status.
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
}

/// Cancels a run. Asking again changes nothing and is answered the same.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<Because>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let asked =
        Cancellation { reason: body.reason, cancelled_by: Some(principal.name), ..Cancellation::default() };
    let endpoint = format!("cancelRun {}", key.id);
    let work = {
        let app = app.clone();
        move |blank| async move { cancel_once(&app, key, asked, blank).await }
    };
    once(&app, principal.tenant, endpoint, ticket, StatusCode::OK, work).await
}

async fn cancel_once(app: &App, key: Key, asked: Cancellation, blank: Option<Receipt>) -> Result<Vec<u8>> {
    let reply = Reply::new(blank.clone(), |run: &Run| encoded(&stands(run.key().id, run.status())));
    match app.engine().ask_for(key, &Command::Cancel(asked), reply).await {
        Err(error) if is_over(&error) => {
            let status = app.engine().head(key).await?.summary.status;
            keep(app, blank, encoded(&stands(key.id, status))).await
        }
        done => Ok(done?),
    }
}

/// Whether a run was not cancelled because it has ended or is about to be.
fn is_over(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Rejected(Rejection::Ended(_) | Rejection::Cancelling) | EngineError::Erased(_)
    )
}

fn stands(run_id: RunId, status: Status) -> Stands {
    Stands { run_id, status: status.openwop_name() }
}

/// What a pause does about nodes that are being executed.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DrainPolicy {
    /// The run is paused at once; what they bring is recorded when it comes.
    Immediate,
    /// The run is paused when they have ended.
    DrainCurrentNode,
}

/// How to pause a run.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PauseRun")]
pub(crate) struct Pause {
    /// Why, in your own words.
    reason: Option<String>,
    /// What to do about nodes that are being executed; `drain-current-node` if it is not said.
    drain_policy: Option<DrainPolicy>,
}

/// A run that is paused, or will be.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PausedRun")]
pub(crate) struct Paused {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// Always `paused`.
    status: &'static str,
    /// When it was paused; when it was asked to be, if it is draining.
    paused_at: String,
    /// Nodes are still being executed. Nothing else starts, and the run is shown as paused when they have ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    draining: bool,
}

/// Keeps a run's nodes from starting.
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<Pause>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let drain = match body.drain_policy.unwrap_or(DrainPolicy::DrainCurrentNode) {
        DrainPolicy::Immediate => Drain::Immediate,
        DrainPolicy::DrainCurrentNode => Drain::CurrentNode,
    };
    let command = Command::Pause { reason: body.reason, by: Some(principal.name), drain };
    change_hold(&app, key, command, ticket, ("pauseRun", NOT_PAUSABLE), |run| encoded(&paused(run))).await
}

fn paused(run: &Run) -> Paused {
    Paused {
        run_id: run.key().id,
        status: Status::Paused.name(),
        paused_at: time::rfc3339(run.paused_at().unwrap_or(run.head().at)),
        draining: run.hold() == Hold::Pausing,
    }
}

/// A run that goes on.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResumedRun")]
pub(crate) struct Resumed {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// Always `running`, however far it has gone since.
    status: &'static str,
    /// When it was resumed.
    resumed_at: String,
}

/// Lets a paused run go on.
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<Because>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let command = Command::Resume { reason: body.reason, by: Some(principal.name) };
    change_hold(&app, key, command, ticket, ("resumeRun", NOT_PAUSED), |run| encoded(&resumed(run))).await
}

fn resumed(run: &Run) -> Resumed {
    let resumed_at = time::rfc3339(run.head().at);
    Resumed { run_id: run.key().id, status: Status::Running.name(), resumed_at }
}

/// Pauses a run or lets it go on, once for each key. `told` are the operation's id and the code of its refusal.
pub(super) async fn change_hold(
    app: &Arc<App>,
    key: Key,
    command: Command,
    ticket: Ticket,
    told: (&'static str, &'static str),
    show: fn(&Run) -> Vec<u8>,
) -> Result<Response> {
    let (operation, refusal) = told;
    let work = {
        let app = app.clone();
        move |blank| async move {
            let asked = app.engine().ask_for(key, &command, Reply::new(blank, show)).await;
            held(&app, key, refusal, asked).await
        }
    };
    let endpoint = format!("{operation} {}", key.id);
    once(app, key.tenant, endpoint, ticket, StatusCode::ACCEPTED, work).await
}

/// What became of a pause or a resume; a refusal tells how the run stands.
async fn held(
    app: &App,
    key: Key,
    code: &'static str,
    asked: std::result::Result<Vec<u8>, EngineError>,
) -> Result<Vec<u8>> {
    use Rejection::{
        AlreadyPaused, AlreadyStopped, Cancelling, Ended, NotHeld, NotPaused, NotStarted, Waiting,
    };
    let why = match asked {
        Err(EngineError::Rejected(
            refused @ (AlreadyPaused | AlreadyStopped | Cancelling | Ended(_) | NotPaused | NotHeld
            | NotStarted | Waiting(_)),
        )) => refused.to_string(),
        Err(EngineError::Erased(_)) => "the run has ended, and its payloads were erased".to_owned(),
        other => return Ok(other?),
    };
    let seen = app.engine().read(key, |run| (run.status(), run.paused_at(), held_as(run))).await;
    let (status, paused_at, hold) = match seen {
        Err(EngineError::Erased(_)) => (app.engine().head(key).await?.summary.status, None, None),
        seen => seen?,
    };
    let act = acted(code);
    let message = format!("{why}, so it can't be {act}; details.runStatus tells how it stands");
    let error = ApiError::new(code, message).with("runStatus", status.openwop_name());
    // Whoever speaks OpenWOP is told what that says, and nothing more.
    let error = match hold.filter(|_| [NOT_HOLDABLE, NOT_HELD].contains(&code)) {
        Some(hold) => error.with("hold", hold),
        None => error,
    };
    Err(match paused_at {
        Some(at) => error.with("pausedAt", time::rfc3339(at)),
        None => error,
    })
}

/// What a run can't be, by the code of the refusal.
fn acted(code: &str) -> &'static str {
    match code {
        NOT_PAUSED => "resumed",
        NOT_HOLDABLE => "held",
        NOT_HELD => "released",
        _ => "paused",
    }
}

/// Runs to be cancelled.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "BulkCancelRuns")]
pub(crate) struct BulkCancel {
    /// Which, at most a hundred.
    #[schemars(length(min = 1, max = 100))]
    run_ids: Vec<String>,
    /// Why, in your own words.
    reason: Option<String>,
}

/// What became of each.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BulkCancelledRuns")]
pub(crate) struct BulkCancelled {
    /// In the order in which they were named.
    results: Vec<OneCancelled>,
}

/// What became of one.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OneCancelled {
    /// The run, as it was named.
    run_id: String,
    /// Whether it has ended or will: a run that had ended before counts.
    ok: bool,
    /// How it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

/// Why nothing was done about one run.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct Refusal {
    /// A stable code.
    pub(crate) code: &'static str,
    /// What to change, in words.
    pub(crate) message: String,
}

/// Cancels many runs. Each is answered by itself, and a run that is named twice is cancelled once.
pub(crate) async fn cancel_many(
    State(app): State<Arc<App>>,
    principal: Principal,
    Repeatable(body, ticket): Repeatable<BulkCancel>,
) -> Result<Response> {
    check_many(&body)?;
    let tenant = principal.tenant;
    let work = {
        let app = app.clone();
        move |blank: Option<Receipt>| async move {
            let (answer, is_whole) = cancel_all(&app, tenant, body, principal.name).await;
            // If something of ours failed, asking again shall try again.
            keep(&app, blank.filter(|_| is_whole), encoded(&answer)).await
        }
    };
    once(&app, tenant, "bulkCancelRuns".to_owned(), ticket, StatusCode::OK, work).await
}

fn check_many(body: &BulkCancel) -> Result<()> {
    let most = limits::BULK_CANCEL_MAX;
    if body.run_ids.is_empty() || body.run_ids.len() > most {
        let message = format!("'runIds' names 1 to {most} runs; send more than that in several requests");
        return Err(ApiError::invalid("runIds", message).with("maxRunIds", most));
    }
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        let message = format!("'reason' is longer than {REASON_CHARS_MAX} characters; shorten it");
        return Err(ApiError::invalid("reason", message));
    }
    Ok(())
}

/// Cancels all at once, so that they share commits. Tells whether nothing of ours failed.
async fn cancel_all(app: &Arc<App>, tenant: TenantId, body: BulkCancel, by: String) -> (BulkCancelled, bool) {
    let asked = Cancellation { reason: body.reason, cancelled_by: Some(by), ..Cancellation::default() };
    let mut names = body.run_ids.clone();
    names.sort_unstable();
    names.dedup();
    let cancelling = names.into_iter().map(|name| cancel_named(app.clone(), tenant, name, asked.clone()));
    let cancelling = futures_util::stream::iter(cancelling).buffer_unordered(limits::BULK_CANCEL_AT_ONCE);
    let done: BTreeMap<String, Result<Option<Status>>> = cancelling.collect().await;
    let is_whole = done.values().all(Result::is_ok);
    let told: BTreeMap<String, OneCancelled> =
        done.into_iter().map(|(name, done)| (name.clone(), one_cancelled(name, done))).collect();
    let results = body.run_ids.iter().filter_map(|name| told.get(name).cloned()).collect();
    (BulkCancelled { results }, is_whole)
}

async fn cancel_named(
    app: Arc<App>,
    tenant: TenantId,
    name: String,
    asked: Cancellation,
) -> (String, Result<Option<Status>>) {
    let done = match name.parse::<RunId>() {
        Ok(run) => cancel_one(&app, run.of(tenant), asked).await,
        Err(_) => Ok(None),
    };
    (name, done)
}

/// How a run stands once it is cancelled; `None` if there is none.
async fn cancel_one(app: &App, key: Key, asked: Cancellation) -> Result<Option<Status>> {
    match app.engine().cancel(key, asked.reason, asked.cancelled_by).await {
        Ok(status) => Ok(Some(status)),
        Err(EngineError::RunNotFound(_)) => Ok(None),
        Err(error) if is_over(&error) => Ok(Some(app.engine().head(key).await?.summary.status)),
        Err(error) => Err(error.into()),
    }
}

fn one_cancelled(run_id: String, done: Result<Option<Status>>) -> OneCancelled {
    let (status, error) = match done {
        Ok(Some(status)) => (Some(status.openwop_name()), None),
        Ok(None) => (None, Some(Refusal { code: "not_found", message: format!("there is no run {run_id}") })),
        Err(error) => {
            let (code, message) = error.into_words();
            (None, Some(Refusal { code, message }))
        }
    };
    OneCancelled { run_id, ok: error.is_none(), status, error }
}

pub(crate) fn encoded(answer: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).expect("an answer is plain data, which serialises")
}
