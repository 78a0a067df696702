//! Interrupts in OpenWOP's words: looked at, and answered.
//!
//! There are several ways to answer, and one function that does it: [`resolve`]. It asks first whether whoever answers
//! may, and has the run decide the rest.

mod bulk;
mod inbox;
mod inspect;
pub(crate) mod ladder;
pub(crate) mod replies;
pub(crate) mod respondents;
mod standing;
pub(crate) mod story;
pub(crate) mod timeline;
mod token;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide_core::event::InterruptRequested;
use abide_core::{
    Answerer, InterruptId, InterruptKind, Json as RawJson, JsonMap, Key, Millis, Open, Rejection, Run, RunId,
    is_run_question,
};
use abide_engine::{Error as EngineError, Reply};
use abide_store::Receipt;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use bulk::{
    BulkResolve, BulkResolved, Named, Outcome, Plan, carry_out, foresee_all, resolve_many,
};
pub(crate) use inbox::{Inbox, Wanted, inbox};
pub(crate) use inspect::{Inspected, Reader, Shown, shown};
pub(crate) use standing::{ExchangeView, QuorumView};
pub(crate) use token::{answer_by_token, inspect};

use respondents::Answering;

use super::control::encoded;
use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::callback::is_nobodys;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, Ticket, once};
use crate::scope::Scope;
use crate::shape;

/// The profile of a gate that a token does not answer: whoever does has to come with a key.
pub(crate) const AUTH_REQUIRED: &str = "openwop-interrupt-auth-required";

/// An answer on its way to the run that waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// The run.
    pub(crate) key: Key,
    /// Which of its interrupts.
    pub(crate) id: InterruptId,
    /// The answer.
    pub(crate) value: RawJson,
    /// Who gives it.
    pub(crate) by: Answerer,
    /// The roles that they have shown.
    pub(crate) roles: Vec<String>,
    /// Whether they may let an interrupted run go on against the policy.
    pub(crate) may_force: bool,
    /// How it comes.
    pub(crate) way: Way,
}

/// An answer, and who gives it.
struct Said {
    value: RawJson,
    by: Answerer,
    roles: Vec<String>,
    may_force: bool,
}

impl From<Given> for Said {
    fn from(given: Given) -> Self {
        let Given { value, by, roles, may_force, .. } = given;
        Self { value, by, roles, may_force }
    }
}

/// How an answer comes. What is refused has its words by the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By run and node, or from the page of somebody who has signed in.
    Key,
    /// By OpenWOP's other path for approvals, where a cancelled run is answered like any other that is over.
    Approvals,
    /// By a token, which is all that whoever answers has shown.
    Token,
}

/// What was asked, as far as it matters to whoever answers.
struct Asked {
    node: String,
    kind: InterruptKind,
    at: Millis,
    /// The question itself, with who may answer it.
    requested: InterruptRequested,
    /// Who started the run, and those that it was forked off.
    starters: Vec<String>,
    actions: Option<Vec<String>>,
    auth_required: bool,
}

/// An interrupt that was answered.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResolvedInterrupt")]
pub(crate) struct Resolved {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// The node that asked.
    node_id: String,
    /// Which interrupt.
    #[schemars(with = "shape::InterruptName")]
    interrupt_id: InterruptId,
    /// How the run stands then.
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    /// It is still open: this was a vote that others have to join, or a question back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pending: bool,
    /// How far it has come, if it is open and takes several people.
    #[serde(skip_serializing_if = "Option::is_none")]
    quorum: Option<QuorumView>,
    /// What the question back is called, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ask_id: Option<String>,
}

impl Resolved {
    /// How an interrupt stands when what was said is taken.
    fn of(run: &Run, node_id: String, id: InterruptId, asks: bool) -> Self {
        let open = run.interrupt(id);
        Self {
            run_id: run.key().id,
            node_id,
            interrupt_id: id,
            status: run.status().openwop_name(),
            pending: open.is_some(),
            quorum: open.and_then(|open| QuorumView::of(open, false)),
            ask_id: open.filter(|_| asks).and_then(|open| Some(open.exchanges.last()?.id.clone())),
        }
    }
}

/// Answers an interrupt, for whichever way the answer comes. The bytes are the JSON of [`Resolved`]; they are kept under
/// `receipt` with the very commit that takes the answer.
///
/// A refused answer changes nothing.
pub(crate) async fn resolve(app: &App, given: Given, receipt: Option<Receipt>) -> Result<Vec<u8>> {
    let id = given.id;
    resolve_found(app, (given.key, given.way), |_| Ok(id), given.into(), receipt).await
}

/// [`resolve`] for an interrupt that has to be found first: the run is looked at once for both.
async fn resolve_found(
    app: &App,
    (key, way): (Key, Way),
    find: impl Fn(&Run) -> std::result::Result<InterruptId, Rejection>,
    mut said: Said,
    receipt: Option<Receipt>,
) -> Result<Vec<u8>> {
    let (id, asked) = permitted(app, (key, way), find, &mut said).await?;
    let Said { value, by, .. } = said;
    let (node_id, asks, closed) = (asked.node.clone(), asks_back(&value), Arc::new(AtomicBool::new(true)));
    let still = closed.clone();
    let reply = Reply::new(receipt, move |run: &Run| {
        let resolved = Resolved::of(run, node_id.clone(), id, asks);
        still.store(!resolved.pending, Ordering::Relaxed);
        encoded(&resolved)
    });
    let done = app.engine().resolve(key, id, value, by, reply).await;
    let body = done.map_err(|error| with_actions(refused(way, error), &asked))?;
    if closed.load(Ordering::Relaxed) {
        let took = app.engine().clock().now().saturating_sub(asked.at);
        app.metrics().interrupt_resolved(asked.kind, took);
    }
    Ok(body)
}

/// How the run would stand if this answer were given, or why it would be refused: what [`resolve`] does, without doing
/// it.
pub(crate) async fn foresee(app: &App, given: Given) -> Result<&'static str> {
    let (id, key, way) = (given.id, given.key, given.way);
    let mut said = Said::from(given);
    let (id, asked) = permitted(app, (key, way), |_| Ok(id), &mut said).await?;
    let seen = app.engine().foresee_answer(key, id, said.value, said.by).await;
    seen.map(abide_core::Status::name).map_err(|error| with_actions(refused(way, error), &asked))
}

/// The interrupt that an answer is for, if whoever gives it may. What the directory knows of them is added to what is said.
async fn permitted(
    app: &App,
    (key, way): (Key, Way),
    find: impl Fn(&Run) -> std::result::Result<InterruptId, Rejection>,
    Said { value, by, roles, may_force }: &mut Said,
) -> Result<(InterruptId, Asked)> {
    let look = |run: &Run| {
        let id = find(run)?;
        run.check_open_interrupt(id).map(|open| (id, asked(run, open)))
    };
    let (id, asked) = seen(app, key, way, look).await?;
    check_way(way, &asked)?;
    check_force(&asked, *may_force)?;
    let decider = asked.decider(value, by);
    // Whoever speaks for somebody else has shown their own roles, and not those of the other.
    let roles = if decider == by.principal { roles.as_slice() } else { &[] };
    let who = Answering { tenant: key.tenant, principal: &decider, roles };
    let known = respondents::check(app, &asked.requested, &asked.starters, who).await?;
    if decider != by.principal {
        // Whoever may not decide doesn't in another's name either.
        respondents::check_barred(&asked.requested, &asked.starters, &by.principal)?;
    }
    check_link(way, &asked.requested, &by.principal)?;
    (by.groups, by.roles) = (known.groups, known.roles);
    Ok((id, asked))
}

/// What is to be seen of a run, or why there is nothing, in the words of the way.
async fn seen<T>(
    app: &App,
    key: Key,
    way: Way,
    see: impl Fn(&Run) -> std::result::Result<T, Rejection>,
) -> Result<T> {
    let found = app.engine().read(key, see).await.map_err(|error| refused(way, error))?;
    found.map_err(|rejection| refused(way, rejection.into()))
}

fn refused(way: Way, error: EngineError) -> ApiError {
    use Rejection::{AlreadyResolved, InterruptCancelled, InterruptGone};
    match (way, error) {
        // What an erased run asked is closed, since only a run that has ended can be erased.
        (_, EngineError::Erased(_)) => AlreadyResolved.into(),
        (Way::Approvals | Way::Token, EngineError::Rejected(InterruptCancelled | InterruptGone)) => {
            AlreadyResolved.into()
        }
        // Whoever has a token shall not learn from it which runs there are.
        (Way::Token, EngineError::RunNotFound(_)) => Rejection::NoSuchInterrupt.into(),
        (_, error) => error.into(),
    }
}

/// Whoever sent an action that is not offered sees which ones are.
fn with_actions(error: ApiError, asked: &Asked) -> ApiError {
    match &asked.actions {
        Some(actions) if error.detail("problems").is_some() => error.with("actions", actions.clone()),
        _ => error,
    }
}

fn asked(run: &Run, open: &Open) -> Asked {
    let requested = &open.requested;
    let approval = requested.kind == InterruptKind::Approval;
    let data: JsonMap = requested.data.parse().unwrap_or_default();
    let texts = |key: &str| data.get(key).and_then(|list| list.parse::<Vec<String>>().ok());
    Asked {
        node: run.interrupted_node(open).to_string(),
        kind: requested.kind,
        at: open.at,
        requested: requested.clone(),
        starters: run.starters(),
        actions: texts("actions").filter(|_| approval),
        auth_required: approval && needs_key(open),
    }
}

/// Whether whoever answers has to come with a key.
pub(super) fn needs_key(open: &Open) -> bool {
    let data: JsonMap = open.requested.data.parse().unwrap_or_default();
    data.get("profile").and_then(|profile| profile.parse::<String>().ok()).as_deref() == Some(AUTH_REQUIRED)
}

fn check_way(way: Way, asked: &Asked) -> Result<()> {
    if way == Way::Token && asked.auth_required {
        let message = "this gate is not answered by a link; answer it with a key that has approvals:respond";
        return Err(ApiError::new("forbidden", message));
    }
    Ok(())
}

/// A link that was sent to nobody in particular says nothing of who answers.
fn check_link(way: Way, asked: &InterruptRequested, principal: &str) -> Result<()> {
    if way == Way::Token && is_nobodys(principal) && asked.tells_people_apart() {
        let message = "it matters here who decides, and this link was sent to nobody in particular; sign in, or use a \
                       key of your own";
        return Err(ApiError::new("forbidden", message));
    }
    Ok(())
}

/// Whether whoever answers may decide about an interrupted run: to accept is to force it on.
fn check_force(asked: &Asked, may_force: bool) -> Result<()> {
    // What else a run itself asks about is about something else than whether it is resumed.
    let resumes = asked.requested.topic.is_none() && asked.requested.checkpoint.is_none();
    if may_force || !resumes || !is_run_question(&asked.node) {
        return Ok(());
    }
    let scope = Scope::RunsForce;
    let message =
        format!("deciding about an interrupted run takes the scope '{scope}'; use a key that has it");
    Err(ApiError::new("forbidden", message).with("scopeRequired", scope.name()))
}

impl Asked {
    /// In whose name an answer is given. A name in it is one only for approvals, and for those who may act for others.
    fn decider(&self, value: &RawJson, by: &Answerer) -> String {
        let named = named(value).filter(|_| by.may_act_for_others && self.kind == InterruptKind::Approval);
        named.unwrap_or_else(|| by.principal.clone())
    }
}

/// Whether an answer is a question back, which closes nothing.
fn asks_back(value: &RawJson) -> bool {
    let answer: JsonMap = value.parse().unwrap_or_default();
    answer.get("action").and_then(|action| action.parse::<String>().ok()).as_deref() == Some("ask")
}

/// Whom an answer names as the one who gives it.
fn named(value: &RawJson) -> Option<String> {
    let answer: JsonMap = value.parse().ok()?;
    ["decidedBy", "voter"].into_iter().find_map(|key| answer.get(key)?.parse().ok())
}

/// Which of a node's interrupts is meant.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Which {
    /// The interrupt; it may be left out if the node has only one open.
    #[schemars(with = "shape::InterruptName")]
    #[serde(default)]
    interrupt_id: Option<String>,
}

/// An answer.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ResolveInterrupt")]
pub(crate) struct ResumeWith {
    /// What the node goes on with.
    #[schemars(with = "shape::Anything")]
    resume_value: RawJson,
}

type AskedWhich = std::result::Result<Query<Which>, axum::extract::rejection::QueryRejection>;

/// Answers an interrupt by its run and node.
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    principal: Principal,
    path: NodePath,
    which: AskedWhich,
    Repeatable(body, ticket): Repeatable<ResumeWith>,
) -> Result<Response> {
    answer_node(&app, principal, &path, which, body.resume_value, (Way::Key, ticket)).await
}

/// Answers an approval by its run and node; the body is the answer itself.
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    principal: Principal,
    path: NodePath,
    which: AskedWhich,
    Repeatable(value, ticket): Repeatable<RawJson>,
) -> Result<Response> {
    answer_node(&app, principal, &path, which, value, (Way::Approvals, ticket)).await
}

async fn answer_node(
    app: &Arc<App>,
    principal: Principal,
    path: &NodePath,
    which: AskedWhich,
    value: RawJson,
    (way, ticket): (Way, Ticket),
) -> Result<Response> {
    let Query(which) = which.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let id = which.interrupt_id.map(|id| id.parse::<InterruptId>());
    let id = id.transpose().map_err(|message| ApiError::invalid("interruptId", message))?;
    let key = RunPath::named(path.run_id.clone()).of(&principal)?;
    let by =
        Answerer { principal: principal.name, may_act_for_others: principal.act_as, ..Answerer::default() };
    let may_force = principal.scopes.allow(Scope::RunsForce);
    let said = Said { value, by, roles: principal.roles, may_force };
    let node = path.node_id.clone();
    let work = {
        let app = app.clone();
        move |blank| async move { resolve_found(&app, (key, way), |run| meant(run, &node, id), said, blank).await }
    };
    let endpoint = format!("resolveInterrupt {} {}", key.id, path.node_id);
    once(app, principal.tenant, endpoint, ticket, StatusCode::OK, work).await
}

/// The interrupt of a node that is meant: the one that is named, or the only one.
fn meant(run: &Run, node: &str, named: Option<InterruptId>) -> std::result::Result<InterruptId, Rejection> {
    let Some(id) = named else { return run.interrupt_of(node) };
    if is_run_question(node) {
        // The run itself asks: no node of the definition is stopped for it.
        let own = |open: &Open| **run.interrupted_node(open) == *node;
        return run
            .check_open_interrupt(id)
            .and_then(|open| if own(open) { Ok(id) } else { Err(Rejection::NoSuchInterrupt) });
    }
    let ix = run.graph().node(node).ok_or(Rejection::NoSuchInterrupt)?;
    let waits = |id| run.nodes()[ix as usize].stopped_for.contains(&id);
    match run.check_open_interrupt(id) {
        // A worker that has asked and goes on is not stopped for it yet.
        Ok(open) if !waits(id) && **run.interrupted_node(open) != *node => Err(Rejection::NoSuchInterrupt),
        _ => Ok(id),
    }
}

/// The run and the node that a path names. What is not even text names nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePath {
    run_id: String,
    node_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for NodePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<Self>::from_request_parts(parts, state).await;
        path.map(|Path(path)| path).map_err(|_| Rejection::NoSuchInterrupt.into())
    }
}
