//! What an intent has to do with others: its children and whatever lies below them, whom it waits for, who waits for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use abide_core::{Driver, JsonMap, Key, Permission, Run, RunId};
use abide_engine::{Error as EngineError, Reply};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asking, Body, Path, Seen};
use super::intents::{Listed, answer, listed, no_dependency, seen, shown_if_any};
use super::view;
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;

/// An intent that another one is to wait for.
#[derive(Deserialize)]
pub(crate) struct NewDependency {
    dependency_id: String,
}

/// What is looked at of an intent to find those beside it.
struct Beside {
    title: String,
    status: &'static str,
    parent: Option<RunId>,
    waits_for: Vec<RunId>,
    is_completed: bool,
    is_ready: bool,
    is_kept_waiting: bool,
}

impl Beside {
    fn of(run: &Run) -> Self {
        let status = run.status();
        Self {
            title: run.intent_title(),
            status: status.intent_name(),
            parent: run.parent().map(|parent| parent.run),
            waits_for: run.upstreams().keys().copied().collect(),
            is_completed: status == abide_core::Status::Completed,
            is_ready: run.is_ready(),
            is_kept_waiting: run.is_kept_waiting(),
        }
    }
}

/// Looks at an intent, if whoever asks may see it and there is anything to be seen.
async fn beside(app: &App, key: Key, agent: &str) -> Result<Option<Beside>> {
    let now = app.engine().clock().now();
    let see = |run: &Run| {
        let seen = run.permits(agent, Permission::Read, now) && run.group().is_none();
        seen.then(|| Beside::of(run))
    };
    match app.engine().read(key, see).await {
        Ok(found) => Ok(found),
        Err(EngineError::RunNotFound(_) | EngineError::Erased(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The children of an intent that have begun, the first of them.
async fn children_ids(app: &App, key: Key, most: usize) -> Result<Vec<RunId>> {
    let children = app.engine().children(key, most).await?;
    Ok(children.into_iter().map(|child| child.child).collect())
}

/// Everything below an intent, those nearest first, at most so many.
async fn below(app: &App, key: Key, most: usize) -> Result<Vec<RunId>> {
    let (mut found, mut known) = (Vec::new(), BTreeSet::from([key.id]));
    let mut next = VecDeque::from([key.id]);
    while let Some(parent) = next.pop_front() {
        if found.len() >= most {
            break;
        }
        for child in children_ids(app, parent.of(key.tenant), most - found.len()).await? {
            if known.insert(child) {
                found.push(child);
                next.push_back(child);
            }
        }
    }
    Ok(found)
}

/// The intents above one, its parent first.
async fn above(app: &App, key: Key, most: usize) -> Result<Vec<RunId>> {
    let mut found: Vec<RunId> = Vec::new();
    let mut at = key;
    while found.len() < most {
        let parent = app.engine().read(at, |run| run.parent().map(|parent| parent.run)).await;
        let parent = match parent {
            Ok(parent) => parent,
            Err(EngineError::RunNotFound(_) | EngineError::Erased(_)) if !found.is_empty() => None,
            Err(error) => return Err(error.into()),
        };
        let Some(parent) = parent else { break };
        found.push(parent);
        at = parent.of(key.tenant);
    }
    Ok(found)
}

async fn shown(app: &App, of: Key, runs: Vec<RunId>, agent: &str) -> Result<Vec<JsonMap>> {
    let mut intents = Vec::with_capacity(runs.len());
    for run in runs {
        intents.extend(shown_if_any(app, run.of(of.tenant), agent).await?);
    }
    Ok(intents)
}

/// The intent that is looked from, if whoever asks may see it.
async fn from(app: &App, id: &str, principal: &Principal, agent: &str) -> Result<Key> {
    let key = words::intent_key(id, principal)?;
    seen(app, key, agent, |_| ()).await?;
    Ok(key)
}

/// The children of an intent.
pub(crate) async fn children(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Listed> {
    let key = from(&app, &id, &principal, &actor.agent).await?;
    let found = children_ids(&app, key, limits::LIST_ENTRIES_MAX).await?;
    Ok(listed("children", shown(&app, key, found, &actor.agent).await?))
}

/// Everything below an intent, those nearest first.
pub(crate) async fn descendants(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Listed> {
    let key = from(&app, &id, &principal, &actor.agent).await?;
    let found = below(&app, key, limits::LIST_ENTRIES_MAX).await?;
    Ok(listed("descendants", shown(&app, key, found, &actor.agent).await?))
}

/// The intents above one, its parent first.
pub(crate) async fn ancestors(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Listed> {
    let key = from(&app, &id, &principal, &actor.agent).await?;
    let found = above(&app, key, limits::LIST_ENTRIES_MAX).await?;
    Ok(listed("ancestors", shown(&app, key, found, &actor.agent).await?))
}

/// The intents that one waits for, or has waited for.
pub(crate) async fn dependencies(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Listed> {
    let key = words::intent_key(&id, &principal)?;
    let most = limits::LIST_ENTRIES_MAX;
    let first = |run: &Run| run.upstreams().keys().take(most).copied().collect::<Vec<_>>();
    let found = seen(&app, key, &actor.agent, first).await?;
    Ok(listed("dependencies", shown(&app, key, found, &actor.agent).await?))
}

/// The intents that wait for one.
pub(crate) async fn dependents(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Listed> {
    let key = from(&app, &id, &principal, &actor.agent).await?;
    let found = app.engine().containers().dependents(key, None, limits::LIST_ENTRIES_MAX).await?;
    let found = found.into_iter().map(|(run, _)| run).collect();
    Ok(listed("dependents", shown(&app, key, found, &actor.agent).await?))
}

/// The children of which this holds.
async fn children_that(app: &App, key: Key, agent: &str, holds: fn(&Beside) -> bool) -> Result<Vec<JsonMap>> {
    let mut found = Vec::new();
    for child in children_ids(app, key, limits::LIST_ENTRIES_MAX).await? {
        let looked = beside(app, child.of(key.tenant), agent).await?;
        found.extend(looked.filter(holds).map(|_| child));
    }
    shown(app, key, found, agent).await
}

/// The children that somebody could work on.
pub(crate) async fn ready(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Listed> {
    let key = from(&app, &id, &principal, &actor.agent).await?;
    let found = children_that(&app, key, &actor.agent, |child| child.is_ready).await?;
    Ok(listed("ready", found))
}

/// The children that others keep from going on.
pub(crate) async fn blocked(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Listed> {
    let key = from(&app, &id, &principal, &actor.agent).await?;
    let found = children_that(&app, key, &actor.agent, |child| child.is_kept_waiting).await?;
    Ok(listed("blocked", found))
}

/// Has an intent wait for another one, too.
pub(crate) async fn add_dependency(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Seen(expected): Seen,
    Body(body): Body<NewDependency>,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    let on = words::run_id(&body.dependency_id).ok_or_else(|| no_dependency(&body.dependency_id))?;
    let reply = Reply::new(None, |run: &Run| view::intent(run).encoded());
    let driver = Some(Driver { actor, expected });
    let added = app.engine().add_dependency(key, on, Some(principal.name), driver, reply).await;
    added.map(answer).map_err(|error| match error {
        EngineError::Circle { run, on } => circle(run, on),
        other => other.into(),
    })
}

/// OpenIntent takes what closes a circle for a request that is wrong.
fn circle(run: RunId, on: RunId) -> ApiError {
    let (run, on) = (words::id(run), words::id(on));
    let message = format!("Dependency would create cycle: {run} -> {on} -> {run}");
    ApiError::new("dependency_circle", message).with("field", "dependency_id").under(StatusCode::BAD_REQUEST)
}

/// Has an intent not wait for another one any more.
pub(crate) async fn remove_dependency(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, on)): Path<(String, String)>,
    Seen(expected): Seen,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    let on = words::run_id(&on).ok_or_else(|| no_dependency(&on))?;
    let reply = Reply::new(None, |run: &Run| view::intent(run).encoded());
    let driver = Some(Driver { actor, expected });
    Ok(answer(app.engine().remove_dependency(key, on, Some(principal.name), driver, reply).await?))
}

/// An intent, everything below it, and whomever those wait for.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let key = from(&app, &id, &principal, &actor.agent).await?;
    let most = limits::LIST_ENTRIES_MAX;
    let mut next = VecDeque::from([key.id]);
    next.extend(below(&app, key, most - 1).await?);
    let mut known: BTreeSet<RunId> = next.iter().copied().collect();
    let mut nodes: BTreeMap<RunId, Beside> = BTreeMap::new();
    let (mut order, mut truncated) = (Vec::new(), next.len() >= most);
    while let Some(run) = next.pop_front() {
        let Some(found) = beside(&app, run.of(key.tenant), &actor.agent).await? else { continue };
        for on in &found.waits_for {
            if known.len() >= most {
                truncated |= !known.contains(on);
            } else if known.insert(*on) {
                next.push_back(*on);
            }
        }
        order.push(run);
        nodes.insert(run, found);
    }
    Ok(Json(drawn(key.id, &order, &nodes, truncated)))
}

fn drawn(root: RunId, order: &[RunId], nodes: &BTreeMap<RunId, Beside>, truncated: bool) -> Value {
    let (mut shown, mut edges) = (Vec::new(), Vec::new());
    let edge = |from: RunId, to: RunId, kind: &str| json!({ "from": words::id(from), "to": words::id(to), "type": kind });
    for run in order {
        let node = &nodes[run];
        let waits_for: Vec<String> = node.waits_for.iter().map(|on| words::id(*on)).collect();
        shown.push(json!({
            "id": words::id(*run),
            "title": node.title,
            "status": node.status,
            "parent_id": node.parent.map(words::id),
            "parent_intent_id": node.parent.map(words::id),
            "depends_on": waits_for,
        }));
        edges.extend(
            node.parent
                .filter(|parent| nodes.contains_key(parent))
                .map(|parent| edge(parent, *run, "parent")),
        );
        let drawn = node.waits_for.iter().filter(|on| nodes.contains_key(on));
        edges.extend(drawn.map(|on| edge(*on, *run, "dependency")));
    }
    json!({
        "root_id": words::id(root),
        "nodes": shown,
        "edges": edges,
        "aggregate_status": aggregate(nodes),
        "truncated": truncated,
    })
}

/// How they stand together, who of them is waited for, and who could be worked on.
fn aggregate(nodes: &BTreeMap<RunId, Beside>) -> Value {
    let mut by_status: BTreeMap<String, u64> = BTreeMap::new();
    for node in nodes.values() {
        *by_status.entry(node.status.to_owned()).or_default() += 1;
    }
    let waited_for: BTreeSet<RunId> = nodes.values().flat_map(|node| &node.waits_for).copied().collect();
    let ids = |holds: &dyn Fn(&RunId, &Beside) -> bool| {
        let found = nodes.iter().filter(|(run, node)| holds(run, node));
        found.map(|(run, _)| words::id(*run)).collect::<Vec<_>>()
    };
    let mut aggregate = view::aggregate(&by_status);
    aggregate["blocking_intents"] = json!(ids(&|run, node| !node.is_completed && waited_for.contains(run)));
    aggregate["ready_intents"] = json!(ids(&|_, node| node.is_ready));
    aggregate
}
