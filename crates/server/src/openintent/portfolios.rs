//! Portfolios: groups of intents, as OpenIntent has them.
//!
//! What its policy says beside what Abide goes by is kept and shown as it was written.

use std::sync::Arc;

use abide_core::{
    Governance, Group, GroupSpec, Json as RawJson, JsonMap, Key, MemberRow, Rejection, Role, Run, RunId,
};
use abide_engine::{Error as EngineError, NewMember, Reply};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asked, Asking, Body, Path};
use super::intents::{answer, of_body, seen, shown_if_any};
use super::parts::{self, Sent, shown, unfit};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::groups_api::stands;
use crate::limits;

fn of_group(error: EngineError) -> ApiError {
    match error {
        EngineError::RunNotFound(_) => words::no_such_portfolio(),
        other => of_body(other.into()),
    }
}

/// The policy of a portfolio: what Abide goes by, and all of it as it was written.
fn governance(sent: &mut Sent) -> Result<Governance> {
    let mut written: JsonMap = JsonMap::new();
    for key in ["governance_policy", "governance"] {
        let given = sent.object(key)?.and_then(|given| given.parse::<JsonMap>().ok());
        written.extend(given.unwrap_or_default());
    }
    read_policy(&written)
}

fn read_policy(written: &JsonMap) -> Result<Governance> {
    let mut policy = Sent(written.clone());
    let deadline = policy.text("deadline")?;
    let deadline = deadline.map(|text| words::read_moment("deadline", &text)).transpose().map_err(of_body)?;
    let require_all = policy.take::<bool>("require_all_completed")?;
    let allow_partial = policy.take::<bool>("allow_partial_completion")?;
    Ok(Governance {
        deadline,
        allow_partial_completion: allow_partial.unwrap_or(require_all == Some(false)),
        auto_complete_threshold: policy.take("auto_complete_threshold")?,
        budget_limit_cents: policy.take("budget_limit_cents")?,
        shared_constraints: policy.raw("shared_constraints"),
        written: (!written.is_empty()).then(|| RawJson::of(written)),
    })
}

/// The policy as it was written, or what holds, if that was said in other words.
fn policy(governance: &Governance) -> RawJson {
    if let Some(written) = &governance.written {
        return written.clone();
    }
    let mut policy = JsonMap::new();
    let mut put = |key: &str, value: Option<RawJson>| {
        value.map(|value| policy.insert(key.to_owned(), value));
    };
    put("deadline", governance.deadline.map(|at| RawJson::of(&words::moment(at))));
    let partial = governance.allow_partial_completion;
    put("allow_partial_completion", partial.then(|| RawJson::of(&partial)));
    put("auto_complete_threshold", governance.auto_complete_threshold.map(|share| RawJson::of(&share)));
    put("budget_limit_cents", governance.budget_limit_cents.map(|cents| RawJson::of(&cents)));
    put("shared_constraints", governance.shared_constraints.clone());
    RawJson::of(&policy)
}

fn aggregate(group: &Group) -> Value {
    json!({
        "status": group.aggregate().name(),
        "total": group.total,
        "by_status": group.by_status,
        "completion_percentage": group.completion_percentage(),
    })
}

/// A portfolio as it stands; nothing for a run that is none.
fn view(run: &Run) -> Option<JsonMap> {
    let group = run.group()?;
    let (created, updated) = (words::moment(run.started_at()), words::moment(run.head().at));
    let by = group.spec.created_by.as_deref().or_else(|| run.started_by()).unwrap_or_default();
    let made = json!({
        "id": words::id(run.key().id),
        "name": group.spec.name,
        "description": group.spec.description,
        "created_by": by,
        "status": stands(run.status()),
        "aggregate_status": aggregate(group),
        "has_suspended_members": group.suspended() > 0,
        "suspended_member_count": group.suspended(),
        "created_at": created,
        "createdAt": created,
        "updated_at": updated,
        "updatedAt": updated,
    });
    let metadata = group.spec.metadata.clone().unwrap_or_else(|| RawJson::of(&JsonMap::new()));
    let policy = policy(&group.spec.governance);
    Some(shown(&made, [("governance_policy", policy), ("metadata", metadata)]))
}

fn encoded(run: &Run) -> Vec<u8> {
    RawJson::of(&view(run)).text().as_bytes().to_vec()
}

/// A portfolio as it stands, if there is anything to be seen.
async fn look(app: &App, key: Key) -> Result<JsonMap> {
    app.engine().read(key, view).await.map_err(of_group)?.ok_or_else(words::no_such_portfolio)
}

async fn key_of(app: &App, id: &str, principal: &Principal) -> Result<Key> {
    let key = words::portfolio_key(id, principal)?;
    let head = app.engine().head(key).await.map_err(of_group)?;
    if head.group { Ok(key) } else { Err(words::no_such_portfolio()) }
}

/// Makes a portfolio. The answer comes when it is on disk.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let mut sent = Sent(sent);
    let spec = GroupSpec {
        name: sent.need("name")?,
        description: sent.text("description")?,
        created_by: Some(sent.text("created_by")?.unwrap_or(actor.agent)),
        metadata: sent.object("metadata")?,
        governance: governance(&mut sent)?,
    };
    let reply = Reply::new(None, encoded);
    let made = app.engine().make_group(principal.tenant, spec, Some(principal.name), reply).await;
    made.map(answer).map_err(of_group)
}

/// Which portfolios are wanted.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    created_by: Option<String>,
}

/// Portfolios, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Vec<JsonMap>>> {
    let by = wanted.created_by.filter(|by| !by.is_empty()).map(|by| RawJson::of(&by));
    let (mut found, mut before, mut looked) = (Vec::new(), None, 0);
    while found.len() < limits::LIST_ENTRIES_MAX && looked < limits::PORTFOLIOS_LOOKED_AT_MAX {
        let page =
            app.engine().containers().groups(principal.tenant, before, limits::LIST_ENTRIES_MAX).await?;
        let Some(last) = page.last() else { break };
        (before, looked) = (Some(last.id), looked + page.len());
        for listed in page {
            let seen = view_if_any(&app, listed.id.of(principal.tenant)).await?;
            let wanted = |seen: &JsonMap| by.is_none() || seen.get("created_by") == by.as_ref();
            found.extend(seen.filter(wanted));
        }
    }
    found.truncate(limits::LIST_ENTRIES_MAX);
    Ok(Json(found))
}

/// One that was erased has nothing to say.
async fn view_if_any(app: &App, key: Key) -> Result<Option<JsonMap>> {
    match app.engine().read(key, view).await {
        Ok(seen) => Ok(seen),
        Err(EngineError::Erased(_) | EngineError::RunNotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A portfolio with its intents, the first of them.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<JsonMap>> {
    let key = words::portfolio_key(&id, &principal)?;
    let mut portfolio = look(&app, key).await?;
    let intents = members(&app, key, &actor.agent).await?;
    portfolio.insert("intents".to_owned(), RawJson::of(&intents));
    Ok(Json(portfolio))
}

/// The intents of a portfolio that whoever asks may see, each with what it is to it.
async fn members(app: &App, key: Key, agent: &str) -> Result<Vec<JsonMap>> {
    let rows = app.engine().containers().members(key, Vec::new(), None, limits::LIST_ENTRIES_MAX).await?;
    let mut intents = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(mut intent) = shown_if_any(app, row.run.of(key.tenant), agent).await? else { continue };
        intent.insert("role".to_owned(), RawJson::of(row.role.name()));
        intent.insert("priority".to_owned(), RawJson::of(&row.priority));
        intents.push(intent);
    }
    Ok(intents)
}

/// The intents of a portfolio, and how they stand together.
pub(crate) async fn intents(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<JsonMap>> {
    let key = words::portfolio_key(&id, &principal)?;
    let together = app.engine().read(key, |run| run.group().map(aggregate)).await.map_err(of_group)?;
    let together = together.ok_or_else(words::no_such_portfolio)?;
    let intents = members(&app, key, &actor.agent).await?;
    Ok(Json(JsonMap::from([
        ("intents".to_owned(), RawJson::of(&intents)),
        ("aggregate_status".to_owned(), RawJson::of(&together)),
    ])))
}

/// Where a portfolio is to be sent.
#[derive(Deserialize)]
pub(crate) struct SetStatus {
    status: String,
    #[serde(default)]
    reason: Option<String>,
}

/// Sends a portfolio somewhere else: it is done with, or given up.
pub(crate) async fn set_status(
    State(app): State<Arc<App>>,
    principal: Principal,
    Path(id): Path<String>,
    Body(body): Body<SetStatus>,
) -> Result<Response> {
    let key = key_of(&app, &id, &principal).await?;
    let status = app.engine().read(key, Run::status).await.map_err(of_group)?;
    match (stands(status), body.status.as_str()) {
        (stands, wanted) if stands == wanted => {}
        ("active", "completed") => {
            return app
                .engine()
                .close_group(key, Reply::new(None, encoded))
                .await
                .map(answer)
                .map_err(of_group);
        }
        ("active", "abandoned") => {
            app.engine().cancel(key, body.reason, Some(principal.name)).await.map_err(of_group)?;
        }
        (stands, "active" | "completed" | "abandoned") => {
            let message = format!("the portfolio is {stands}, and stays so; make another one");
            return Err(Rejection::IllegalTransition(message).into());
        }
        _ => return Err(unfit("status", "'status' is one of active, completed and abandoned")),
    }
    Ok(answer(RawJson::of(&look(&app, key).await?).text().as_bytes().to_vec()))
}

/// Has other things hold for the intents of a portfolio.
pub(crate) async fn govern(
    State(app): State<Arc<App>>,
    principal: Principal,
    Path(id): Path<String>,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let key = key_of(&app, &id, &principal).await?;
    // What is under one key is the policy; so is what is not.
    let wrapped = sent.contains_key("governance_policy") || sent.contains_key("governance");
    let governance = if wrapped { governance(&mut Sent(sent))? } else { read_policy(&sent)? };
    let reply = Reply::new(None, encoded);
    app.engine()
        .govern(key, (governance, None), Some(principal.name), reply)
        .await
        .map(answer)
        .map_err(of_group)
}

fn membership(portfolio: RunId, row: &MemberRow) -> Value {
    let id = format!("{}_{}", words::id(portfolio), words::id(row.run));
    json!({
        "id": id,
        "membership_id": id,
        "portfolio_id": words::id(portfolio),
        "intent_id": words::id(row.run),
        "role": row.role.name(),
        "priority": row.priority,
        "added_at": words::moment(row.added_at),
        "message": "Intent added to portfolio",
    })
}

/// An intent that is to belong to a portfolio.
#[derive(Deserialize)]
pub(crate) struct NewMembership {
    intent_id: String,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    priority: Option<i32>,
}

/// Has an intent belong to a portfolio.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    Body(body): Body<NewMembership>,
) -> Result<Json<Value>> {
    let key = key_of(&app, &id, &principal).await?;
    let run = words::run_id(&body.intent_id).ok_or_else(words::no_such_intent)?;
    let role = body.role.as_deref().map_or(Some(Role::Member), Role::by_name);
    let role = role.ok_or_else(|| unfit("role", "'role' is one of primary, member and dependency"))?;
    let new = NewMember { run, role, priority: body.priority.unwrap_or_default() };
    parts::check_works(&app, run.of(principal.tenant), &actor.agent).await?;
    let reply = Reply::new(None, |_: &Run| Vec::new());
    app.engine().add_member(key, new, Some(principal.name), reply).await?;
    let row = app.engine().containers().member(key, run).await?;
    row.map(|row| Json(membership(key.id, &row)))
        .ok_or_else(|| ApiError::internal(&"a member was added and is not there"))
}

/// Has an intent not belong to a portfolio any more.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, intent)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let key = key_of(&app, &id, &principal).await?;
    let run = words::run_id(&intent).ok_or_else(words::no_such_intent)?;
    parts::check_works(&app, run.of(principal.tenant), &actor.agent).await?;
    let reply = Reply::new(None, |_: &Run| Vec::new());
    app.engine().remove_member(key, run, Some(principal.name), reply).await?;
    Ok(Json(json!({ "message": "Intent removed from portfolio" })))
}

/// The portfolios that an intent belongs to.
pub(crate) async fn of_intent(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<Vec<JsonMap>>> {
    let key = words::intent_key(&id, &principal)?;
    seen(&app, key, &actor.agent, |_| ()).await?;
    let groups = app.engine().containers().groups_of(key, limits::LIST_ENTRIES_MAX).await?;
    let mut found = Vec::with_capacity(groups.len());
    for (group, _) in groups {
        found.extend(view_if_any(&app, group.of(key.tenant)).await?);
    }
    Ok(Json(found))
}
