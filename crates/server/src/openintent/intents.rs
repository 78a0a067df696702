//! Intents: made, listed, seen, changed and sent elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{
    Actor, Command, INTENT_WORKFLOW, IntentCommand, IntentSent, Json as RawJson, JsonMap, Key, Patch,
    PatchOp, Permission, Policy, Run, RunId, Status,
};
use abide_engine::{AskedChild, Error as EngineError, NewRun, Reply};
use abide_store::ListQuery;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asked, Asking, Body, Path, Seen};
use super::view::{self, IntentView};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;

/// An intent to be made.
#[derive(Deserialize)]
pub(crate) struct NewIntent {
    title: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    created_by: Option<String>,
    #[serde(default)]
    parent_intent_id: Option<String>,
    #[serde(default)]
    parent_id: Option<String>,
    #[serde(default)]
    depends_on: Option<Vec<String>>,
    #[serde(default)]
    constraints: Option<RawJson>,
    #[serde(default)]
    state: Option<JsonMap>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    governance_policy: Option<RawJson>,
}

fn unfit(field: &str, message: impl Into<String>) -> ApiError {
    ApiError::invalid(field, message).under(StatusCode::UNPROCESSABLE_ENTITY)
}

impl NewIntent {
    /// What goes into the run.
    fn inputs(&self, actor: &str) -> Result<JsonMap> {
        let title = self.title.trim();
        let most = abide_core::limits::GROUP_NAME_CHARS_MAX * 4;
        if title.is_empty() || self.title.chars().count() > most {
            return Err(unfit("title", format!("'title' has 1 to {most} characters")));
        }
        let description = self.description.clone().unwrap_or_default();
        let most = abide_core::limits::ASK_TEXT_CHARS_MAX;
        if description.chars().count() > most {
            return Err(unfit("description", format!("'description' has at most {most} characters")));
        }
        let state = self.state.clone().unwrap_or_default();
        check_state(&state)?;
        let by = self.created_by.clone().filter(|by| !by.is_empty()).unwrap_or_else(|| actor.to_owned());
        let mut inputs = JsonMap::from([
            ("title".to_owned(), RawJson::of(&self.title)),
            ("description".to_owned(), RawJson::of(&description)),
            ("created_by".to_owned(), RawJson::of(&by)),
            ("constraints".to_owned(), constraints(self.constraints.as_ref())?),
            ("state".to_owned(), RawJson::of(&state)),
        ]);
        if let Some(policy) = self.governance_policy.as_ref().filter(|policy| policy.type_name() != "null") {
            Policy::read(policy)
                .map_err(|rejection| ApiError::from(rejection).under(StatusCode::UNPROCESSABLE_ENTITY))?;
            inputs.insert("governance_policy".to_owned(), policy.clone());
        }
        Ok(inputs)
    }

    fn is_draft(&self) -> Result<bool> {
        match self.status.as_deref() {
            None | Some("draft") => Ok(true),
            Some("active") => Ok(false),
            Some(_) => {
                Err(unfit("status", "an intent is made as 'draft' or 'active'; send it elsewhere afterwards"))
            }
        }
    }

    fn depends_on(&self) -> Result<Vec<RunId>> {
        let named = self.depends_on.iter().flatten();
        named.map(|name| words::run_id(name).ok_or_else(|| no_dependency(name))).collect()
    }

    fn parent(&self) -> Option<&String> {
        self.parent_intent_id.as_ref().or(self.parent_id.as_ref()).filter(|parent| !parent.is_empty())
    }
}

fn check_state(state: &JsonMap) -> Result<()> {
    let bytes: usize = state.iter().map(|(key, value)| key.len() + value.text().len()).sum();
    let (most, levels) = (abide_core::limits::STATE_BYTES_MAX, abide_core::limits::STATE_DEPTH_MAX);
    if bytes > most {
        return Err(unfit("state", format!("the state has {bytes} bytes, and {most} are allowed")));
    }
    if state.values().any(|value| value.depth() >= levels) {
        return Err(unfit("state", format!("it is nested deeper than {levels} levels")));
    }
    Ok(())
}

/// Constraints are an object; a list of rules is one, too.
fn constraints(given: Option<&RawJson>) -> Result<RawJson> {
    match given.map(|given| (given, given.type_name())) {
        None | Some((_, "null")) => Ok(RawJson::of(&JsonMap::new())),
        Some((given, "object")) => Ok(given.clone()),
        Some((given, "array")) => Ok(RawJson::of(&JsonMap::from([("rules".to_owned(), given.clone())]))),
        _ => Err(unfit("constraints", "'constraints' is an object")),
    }
}

/// What an intent can't wait for.
pub(super) fn no_dependency(name: &str) -> ApiError {
    ApiError::new("dependency_not_found", format!("there is no intent '{name}' to depend on"))
}

/// The bytes of an answer about an intent.
pub(super) fn answer(body: Vec<u8>) -> Response {
    let kind = HeaderValue::from_static("application/json");
    let version = serde_json::from_slice::<Value>(&body).ok().and_then(|body| body["version"].as_u64());
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, kind)], body).into_response();
    let tag = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok());
    tag.map(|tag| response.headers_mut().insert(header::ETAG, tag));
    response
}

/// Makes an intent. The answer comes when it is on disk.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Body(new): Body<NewIntent>,
) -> Result<Response> {
    let parent = new.parent().map(|parent| words::intent_key(parent, &principal)).transpose()?;
    make(&app, principal, actor, new, parent).await
}

/// Makes an intent below another one.
pub(crate) async fn create_child(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(parent): Path<String>,
    Body(new): Body<NewIntent>,
) -> Result<Response> {
    let parent = words::intent_key(&parent, &principal)?;
    make(&app, principal, actor, new, Some(parent)).await
}

async fn make(
    app: &App,
    principal: Principal,
    actor: Actor,
    new: NewIntent,
    parent: Option<Key>,
) -> Result<Response> {
    let (inputs, draft, depends_on) = (new.inputs(&actor.agent)?, new.is_draft()?, new.depends_on()?);
    let workflow_id = INTENT_WORKFLOW.to_owned();
    let see = |run: &Run| view::intent(run).encoded();
    let body = match parent {
        Some(parent) => {
            let asked = AskedChild {
                workflow_id,
                inputs,
                depends_on,
                draft,
                by: Some(principal.name),
                actor: Some(actor),
            };
            let body = app.engine().add_child(parent, asked, None, see).await;
            let body = body.map_err(|error| of_body(error.into()))?;
            with_parent(&body, parent)
        }
        None => {
            let new = NewRun {
                inputs,
                depends_on,
                draft,
                by: Some(principal.name),
                trace: abide_engine::trace::current(),
                ..NewRun::of(principal.tenant, &workflow_id)
            };
            let made = app.engine().start_for(new, Reply::new(None, see)).await;
            made.map_err(|error| of_body(error.into()))?
        }
    };
    Ok(answer(body))
}

/// A child does not know its parent before it is there.
fn with_parent(body: &[u8], parent: Key) -> Vec<u8> {
    let mut view: JsonMap = serde_json::from_slice(body).unwrap_or_default();
    for name in ["parent_id", "parent_intent_id"] {
        view.insert(name.to_owned(), RawJson::of(&words::id(parent.id)));
    }
    RawJson::of(&view).text().as_bytes().to_vec()
}

/// Which intents are wanted.
#[derive(Deserialize)]
pub(crate) struct Listing {
    status: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: Option<usize>,
}

/// The statuses that one of OpenIntent's stands for.
fn statuses(name: &str) -> Result<Vec<Status>> {
    let found: Vec<Status> = Status::ALL
        .into_iter()
        .map(|(status, ..)| status)
        .filter(|status| status.intent_name() == name)
        .collect();
    if found.is_empty() {
        return Err(unfit(
            "status",
            "'status' is one of draft, active, blocked, suspended_awaiting_input, completed and abandoned",
        ));
    }
    Ok(found)
}

/// How many of a list are passed over: all of them are read, so there may not be many.
pub(super) fn offset(given: Option<usize>) -> Result<usize> {
    let offset = given.unwrap_or(0);
    if offset > limits::LIST_OFFSET_MAX {
        let message = format!("'offset' is at most {}: ask for something narrower", limits::LIST_OFFSET_MAX);
        return Err(unfit("offset", message));
    }
    Ok(offset)
}

/// A list of intents, each as it was written.
pub(super) type Listed = Json<BTreeMap<&'static str, Vec<JsonMap>>>;

/// A list of intents under its name.
pub(super) fn listed(name: &'static str, intents: Vec<JsonMap>) -> Listed {
    Json(BTreeMap::from([(name, intents)]))
}

/// Intents, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Asked(wanted): Asked<Listing>,
) -> Result<Listed> {
    let limit = wanted.limit.unwrap_or(50).clamp(1, limits::LIST_PAGE_MAX);
    let offset = offset(wanted.offset)?;
    let end = offset.saturating_add(limit);
    let statuses = wanted.status.as_deref().map(statuses).transpose()?;
    let mut found = match statuses {
        None => newest(&app, &principal, None, end).await?,
        Some(statuses) => {
            let mut all = Vec::new();
            for status in statuses {
                all.extend(newest(&app, &principal, Some(status), end).await?);
            }
            all.sort_by_key(|listed| std::cmp::Reverse(listed.id));
            all
        }
    };
    found.truncate(end);
    let mut intents = Vec::with_capacity(limit.min(found.len()));
    for listed in found.into_iter().skip(offset) {
        let key = listed.id.of(principal.tenant);
        intents.extend(shown_if_any(&app, key, &actor.agent).await?);
    }
    Ok(listed("intents", intents))
}

async fn newest(
    app: &App,
    principal: &Principal,
    status: Option<Status>,
    wanted: usize,
) -> Result<Vec<abide_store::Listed>> {
    let (mut all, mut before): (Vec<abide_store::Listed>, Option<RunId>) = (Vec::new(), None);
    while all.len() < wanted {
        let limit = (wanted - all.len()).min(limits::LIST_ENTRIES_MAX);
        let query = ListQuery { tenant: principal.tenant, status, workflow: None, before, limit };
        let page = app.engine().list(query).await?;
        before = page.last().filter(|_| page.len() == limit).map(|listed| listed.id);
        // A filter may stand for more than its own status in the words of another protocol.
        let fits = |listed: &abide_store::Listed| status.is_none_or(|status| listed.summary.status == status);
        all.extend(page.into_iter().filter(fits));
        if before.is_none() {
            break;
        }
    }
    all.truncate(wanted);
    Ok(all)
}

/// An intent, if whoever asks may see it and there is anything to be seen.
pub(super) async fn shown_if_any(app: &App, key: Key, agent: &str) -> Result<Option<JsonMap>> {
    let now = app.engine().clock().now();
    let see = |run: &Run| {
        let seen = run.permits(agent, Permission::Read, now) && run.group().is_none();
        seen.then(|| view::intent(run).fields())
    };
    match app.engine().read(key, see).await {
        Ok(found) => Ok(found),
        Err(EngineError::Erased(_)) => {
            let head = app.engine().head(key).await?;
            Ok(Some(view::erased(key.id, head.summary.status, head.summary.started_at)))
        }
        Err(EngineError::RunNotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What is to be seen of an intent, by whoever may.
pub(super) async fn seen<T>(app: &App, key: Key, agent: &str, see: impl Fn(&Run) -> T) -> Result<T> {
    allowed(app, key, agent, Permission::Read, see).await
}

/// What is to be seen of an intent, by whoever may do this with it.
pub(super) async fn allowed<T>(
    app: &App,
    key: Key,
    agent: &str,
    permission: Permission,
    see: impl Fn(&Run) -> T,
) -> Result<T> {
    let now = app.engine().clock().now();
    let look = |run: &Run| {
        if run.group().is_some() {
            return Err(words::no_such_intent());
        }
        if !run.permits(agent, permission, now) {
            let denied = abide_core::Rejection::NotPermitted { who: agent.to_owned(), permission };
            return Err(denied.into());
        }
        Ok(see(run))
    };
    app.engine().read(key, look).await?
}

/// How the children of an intent stand together.
pub(super) async fn children_of(app: &App, key: Key) -> Result<Option<Value>> {
    let counts = app.engine().containers().child_counts(key).await?;
    if counts.is_empty() {
        return Ok(None);
    }
    let mut by_status = BTreeMap::new();
    for (status, count) in counts {
        // One that has not started yet stands as it will at first.
        *by_status.entry(status.unwrap_or(Status::Draft).intent_name().to_owned()).or_default() += count;
    }
    Ok(Some(view::aggregate(&by_status)))
}

/// An intent as it stands.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    let shown: IntentView = seen(&app, key, &actor.agent, view::intent).await?;
    let children = children_of(&app, key).await?;
    Ok(answer(shown.with_children(children).encoded()))
}

/// One change of the state.
#[derive(Deserialize)]
struct Change {
    op: String,
    path: String,
    #[serde(default, deserialize_with = "given")]
    value: Option<RawJson>,
}

/// A value that is there, be it null.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(from).map(Some)
}

/// Changes of the state: one by one, or keys with their values.
#[derive(Deserialize)]
pub(crate) struct PatchState {
    #[serde(default)]
    patches: Option<Vec<Change>>,
    #[serde(default)]
    state: Option<JsonMap>,
}

impl PatchState {
    fn read(self) -> Result<Vec<Patch>> {
        let changes = self.patches.unwrap_or_default().into_iter().enumerate();
        let read = |(at, change): (usize, Change)| {
            let op = match change.op.as_str() {
                "set" | "add" | "replace" => PatchOp::Set,
                "append" => PatchOp::Append,
                "remove" => PatchOp::Remove,
                _ => return Err(unfit(&format!("patches.{at}.op"), "'op' is one of set, append and remove")),
            };
            let value = change.value.filter(|_| op != PatchOp::Remove);
            Ok(Patch { op, path: change.path, value })
        };
        let mut patches = changes.map(read).collect::<Result<Vec<_>>>()?;
        let merged = self.state.unwrap_or_default().into_iter();
        patches.extend(merged.map(|(path, value)| Patch { op: PatchOp::Set, path, value: Some(value) }));
        Ok(patches)
    }
}

/// Has an intent decide something, and answers with how it stands then.
pub(super) async fn decide(app: &App, key: Key, command: IntentCommand) -> Result<Response> {
    let command = Command::Intent(Box::new(command));
    let reply = Reply::new(None, |run: &Run| view::intent(run).encoded());
    Ok(answer(app.engine().ask_for(key, &command, reply).await?))
}

/// Has an intent decide something, and sees what became of it in the run that it was decided on: nobody else's decision lies
/// between.
pub(super) async fn ask<T: Send + 'static>(
    app: &App,
    key: Key,
    command: IntentCommand,
    see: impl Fn(&Run) -> T + Send + Sync + 'static,
) -> Result<T> {
    let found = Arc::new(std::sync::Mutex::new(None));
    let noted = found.clone();
    let reply = Reply::new(None, move |run: &Run| {
        *noted.lock().expect("no thread panics holding this") = Some(see(run));
        Vec::new()
    });
    app.engine().ask_for(key, &Command::Intent(Box::new(command)), reply).await?;
    let found = found.lock().expect("no thread panics holding this").take();
    found.ok_or_else(|| ApiError::internal(&"a decision was not looked at"))
}

/// A value that is not what it has to be is told under 422, as OpenIntent's clients expect of a body.
pub(super) fn of_body(error: ApiError) -> ApiError {
    if error.is_invalid() { error.under(StatusCode::UNPROCESSABLE_ENTITY) } else { error }
}

/// Changes the state of an intent.
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Seen(expected): Seen,
    Body(body): Body<PatchState>,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    let command = IntentCommand::Patch { expected, patches: body.read()?, actor };
    decide(&app, key, command).await.map_err(of_body)
}

/// Where an intent is to be sent.
#[derive(Deserialize)]
pub(crate) struct SetStatus {
    status: String,
    #[serde(default)]
    reason: Option<String>,
}

/// Sends an intent somewhere else.
pub(crate) async fn set_status(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Seen(expected): Seen,
    Body(body): Body<SetStatus>,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    let to = IntentSent::by_name(&body.status).ok_or_else(|| {
        unfit(
            "status",
            "'status' is one of active, blocked, suspended_awaiting_input, completed and abandoned",
        )
    })?;
    let reason = body.reason.filter(|reason| !reason.is_empty());
    decide(&app, key, IntentCommand::Send { expected, to, reason, actor }).await.map_err(of_body)
}

/// What has to be kept to by those who work on an intent.
pub(crate) async fn show_policy(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&id, &principal)?;
    let policy = seen(&app, key, &actor.agent, |run| run.policy().cloned()).await?.unwrap_or_default();
    Ok(Json(json!({
        "intent_id": words::id(key.id),
        "governance_policy": policy.written,
        "effective_policy": {
            "completion_mode": policy.completion,
            "write_scope": policy.write_scope,
            "max_cost": policy.max_cost,
            "quorum_threshold": policy.quorum(),
            "allowed_agents": policy.allowed_agents,
            "require_status_reason": policy.require_reason,
        },
    })))
}

/// Says what has to be kept to.
pub(crate) async fn set_policy(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Seen(expected): Seen,
    Body(policy): Body<RawJson>,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    // What is under one key is the policy; so is what is not.
    let inner = policy.parse::<JsonMap>().ok().and_then(|mut fields| fields.remove("governance_policy"));
    let policy = Some(inner.filter(|inner| inner.type_name() == "object").unwrap_or(policy));
    decide(&app, key, IntentCommand::Govern { expected, policy, actor }).await.map_err(of_body)
}

/// Says that nothing has to be kept to.
pub(crate) async fn remove_policy(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Seen(expected): Seen,
) -> Result<Response> {
    let key = words::intent_key(&id, &principal)?;
    decide(&app, key, IntentCommand::Govern { expected, policy: None, actor }).await
}
