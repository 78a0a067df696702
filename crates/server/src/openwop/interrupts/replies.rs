//! Answers to questions back: those who decide are told what they wanted to know, and nothing is resumed by it.

use std::sync::Arc;

use abide_core::{InterruptId, Json as RawJson, Key, Rejection, Reply as Told, Run, RunId, ask_number};
use abide_engine::Reply;
use abide_store::Receipt;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::control::encoded;
use super::{Way, refused, seen};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, once};
use crate::openwop::runs::RunPath;
use crate::shape;

/// What those who decide are told.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ReplyToAsk")]
pub(crate) struct ReplyBody {
    /// The answer: a text, or any other value.
    #[schemars(with = "shape::Anything")]
    answer: RawJson,
}

/// A question back that was answered.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RepliedAsk")]
pub(crate) struct Replied {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// The node that asked first.
    node_id: String,
    /// Which interrupt.
    #[schemars(with = "shape::InterruptName")]
    interrupt_id: InterruptId,
    /// Which question back.
    ask_id: String,
    /// How the run stands: as before.
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
}

/// The run, the node and the question back that a path names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskPath {
    run_id: String,
    node_id: String,
    ask_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for AskPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<Self>::from_request_parts(parts, state).await;
        path.map(|Path(path)| path).map_err(|_| Rejection::NoSuchAsk.into())
    }
}

/// An answer on its way.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    /// The run.
    pub(crate) key: Key,
    /// The node that asked first.
    pub(crate) node: String,
    /// Which question back.
    pub(crate) ask: String,
    /// The answer.
    pub(crate) answer: RawJson,
    /// Who gives it.
    pub(crate) by: String,
    /// How it comes.
    pub(crate) way: Way,
}

/// Answers a question back.
pub(crate) async fn reply(
    State(app): State<Arc<App>>,
    principal: Principal,
    path: AskPath,
    Repeatable(body, ticket): Repeatable<ReplyBody>,
) -> Result<Response> {
    let key = RunPath::named(path.run_id).of(&principal)?;
    let endpoint = format!("replyToAsk {} {} {}", key.id, path.node_id, path.ask_id);
    let telling = Telling {
        key,
        node: path.node_id,
        ask: path.ask_id,
        answer: body.answer,
        by: principal.name,
        way: Way::Key,
    };
    let work = {
        let app = app.clone();
        move |blank| async move { tell(&app, telling, blank).await }
    };
    once(&app, principal.tenant, endpoint, ticket, StatusCode::OK, work).await
}

/// Records an answer to a question back, for whichever way it comes.
pub(crate) async fn tell(app: &App, telling: Telling, receipt: Option<Receipt>) -> Result<Vec<u8>> {
    let Telling { key, node, ask, answer, by, way } = telling;
    let number = ask_number(&ask).ok_or(Rejection::NoSuchAsk)?;
    let id = seen(app, key, way, |run: &Run| asked_at(run, &node, &ask)).await?;
    let told = Told { id, ask: number, answer, by };
    let reply = Reply::new(receipt, move |run: &Run| {
        let (run_id, node_id, ask_id) = (run.key().id, node.clone(), ask.clone());
        encoded(&Replied { run_id, node_id, interrupt_id: id, ask_id, status: run.status().openwop_name() })
    });
    app.engine().reply(key, told, reply).await.map_err(|error| refused(way, error))
}

/// The open interrupt of a node that this was asked about. Names are used once in a run and node.
fn asked_at(run: &Run, node: &str, ask: &str) -> std::result::Result<InterruptId, Rejection> {
    let mut of_node = run.interrupts().filter(|open| **run.interrupted_node(open) == *node).peekable();
    if of_node.peek().is_none() {
        return run.interrupt_of(node).and_then(|id| run.check_open_interrupt(id).map(|_| id));
    }
    let asked = of_node.find(|open| open.exchanges.iter().any(|exchange| exchange.id == ask));
    asked.map(|open| open.requested.interrupt_id).ok_or(Rejection::NoSuchAsk)
}
