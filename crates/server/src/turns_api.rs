//! Turns over HTTP: how those of a run stand, and what an operator does about one that waits for its provider.

use std::sync::Arc;

use abide_core::{Command, Failure, Key, Rejection, Run, RunId, TurnCommand, TurnView, WaitView};
use abide_engine::{Error as EngineError, Reply};
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, Ticket, once};
use crate::openwop::control::encoded;
use crate::openwop::events::payload::UsageOf;
use crate::openwop::runs::RunPath;
use crate::{shape, time};

/// The turns of a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Turns {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// The conversation that they belong to.
    conversation_id: String,
    /// What all calls of models have used.
    usage: UsageOf,
    /// What they cost in millionths of a dollar, as far as prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_micros: Option<u64>,
    /// The last turn of each node that has had one, in the order of the definition.
    turns: Vec<Turn>,
}

/// A turn: one execution of a node that asks a model.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Turn {
    turn_id: String,
    /// The conversation that it belongs to.
    conversation_id: String,
    node_id: String,
    /// Which execution of the node, from 1.
    execution: u32,
    /// `calling`, `waiting`, `tools`, `interrupted`, `completed`, `failed` or `aborted`.
    status: &'static str,
    /// The provider, by the name that the operator gave it.
    provider: String,
    /// The model that was asked for, or that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// How many answers the model has given.
    steps: u32,
    /// How many retries there were.
    retries: u32,
    /// What it used.
    usage: UsageOf,
    /// What it cost in millionths of a dollar, as far as prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_micros: Option<u64>,
    /// What it waits for, if it waits for its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<TurnWait>,
    /// Why it failed.
    #[schemars(with = "Option<shape::FailureShape>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
}

/// A wait for a provider.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TurnWait {
    /// `retry`: for its own next try; `breaker`: until the provider is known to answer again.
    kind: &'static str,
    /// Which retry comes, from 0.
    attempt: u32,
    /// How long the wait is, if it was scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<i64>,
    #[schemars(with = "shape::Moment")]
    since: String,
    /// When it tries again, or is given up.
    #[schemars(with = "shape::Moment")]
    until: String,
    /// What the provider said last, in its own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The HTTP status of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// What a node's turn waits for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProviderWait")]
pub(crate) struct ProviderWait {
    /// The provider, by the name that the operator gave it.
    provider: String,
    #[serde(flatten)]
    wait: TurnWait,
}

impl ProviderWait {
    pub(crate) fn of(provider: &str, wait: WaitView) -> Self {
        Self { provider: provider.to_owned(), wait: TurnWait::of(wait) }
    }
}

/// Nothing has to be said.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RetryTurn")]
pub(crate) struct Retry {}

/// Why a turn is given up.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GiveUpTurn")]
pub(crate) struct GiveUp {
    /// In your own words.
    #[schemars(length(max = abide_core::limits::REASON_CHARS_MAX))]
    reason: Option<String>,
}

/// The turns of a run.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
) -> Result<Json<Turns>> {
    let key = run.of(&principal)?;
    Ok(Json(app.engine().read(key, Turns::of).await?))
}

/// Has a turn that waits for its provider try it now.
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    principal: Principal,
    path: TurnPath,
    Repeatable(Retry {}, ticket): Repeatable<Retry>,
) -> Result<Response> {
    let (key, node) = path.of(&principal)?;
    let command = TurnCommand::RetryNow { node: Some(node.clone()), by: principal.name };
    change(&app, key, node, command, ("retryTurn", ticket)).await
}

/// Has a turn that waits for its provider fail with what that said last.
pub(crate) async fn give_up(
    State(app): State<Arc<App>>,
    principal: Principal,
    path: TurnPath,
    Repeatable(GiveUp { reason }, ticket): Repeatable<GiveUp>,
) -> Result<Response> {
    let (key, node) = path.of(&principal)?;
    let command = TurnCommand::GiveUp { node: Some(node.clone()), by: principal.name, reason };
    change(&app, key, node, command, ("giveUpTurn", ticket)).await
}

async fn change(
    app: &Arc<App>,
    key: Key,
    node: String,
    command: TurnCommand,
    (operation, ticket): (&'static str, Ticket),
) -> Result<Response> {
    let endpoint = format!("{operation} {} {node}", key.id);
    let command = Command::Turn(Box::new(command));
    let work = {
        let app = app.clone();
        move |blank| async move {
            let shown = move |run: &Run| {
                let turn = run.turns().into_iter().find(|turn| turn.node == node);
                turn.map_or_else(Vec::new, |turn| encoded(&Turn::of(turn)))
            };
            app.engine().ask_for(key, &command, Reply::new(blank, shown)).await.map_err(refused)
        }
    };
    once(app, key.tenant, endpoint, ticket, StatusCode::ACCEPTED, work).await
}

/// A run that is over, or about to be, has no turn that waits.
fn refused(error: EngineError) -> ApiError {
    match error {
        EngineError::Rejected(
            ended @ (Rejection::Ended(_) | Rejection::Cancelling | Rejection::NotStarted),
        ) => {
            let message = format!("{ended}, so no turn of it waits for its provider");
            ApiError::new("turn_not_waiting", message).with("waiting", Vec::<String>::new())
        }
        error => error.into(),
    }
}

/// The run and the node that a path names. What is not even text names nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TurnPath {
    run_id: String,
    node_id: String,
}

impl TurnPath {
    fn of(self, principal: &Principal) -> Result<(Key, String)> {
        Ok((RunPath::named(self.run_id).of(principal)?, self.node_id))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TurnPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<Self>::from_request_parts(parts, state).await;
        path.map(|Path(path)| path)
            .map_err(|_| Rejection::TurnNotWaiting { node: None, waiting: Vec::new() }.into())
    }
}

impl Turns {
    /// How the turns of a run stand.
    pub(crate) fn of(run: &Run) -> Self {
        let (usage, cost_micros) = run.model_usage();
        Self {
            run_id: run.key().id,
            conversation_id: run.key().id.to_string(),
            usage: usage.into(),
            cost_micros,
            turns: run.turns().into_iter().map(Turn::of).collect(),
        }
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl Turn {
    fn of(turn: TurnView) -> Self {
        Self {
            turn_id: turn.turn_id,
            conversation_id: turn.conversation_id,
            node_id: turn.node,
            execution: turn.execution,
            status: turn.status.name(),
            provider: turn.provider,
            model: turn.model,
            steps: turn.steps,
            retries: turn.retries,
            usage: turn.usage.into(),
            cost_micros: turn.cost_micros,
            wait: turn.wait.map(TurnWait::of),
            error: turn.error,
            started_at: turn.started_at.map(time::rfc3339),
            ended_at: turn.ended_at.map(time::rfc3339),
        }
    }
}

impl TurnWait {
    fn of(wait: WaitView) -> Self {
        Self {
            kind: if wait.postponed { "breaker" } else { "retry" },
            attempt: wait.attempt,
            delay_ms: wait.delay_ms,
            since: time::rfc3339(wait.since),
            until: time::rfc3339(wait.until),
            message: wait.message,
            code: wait.code,
        }
    }
}
