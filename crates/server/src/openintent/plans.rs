//! Plans that are posted to an intent: tasks in an order, with places at which people let them go on.

use std::sync::Arc;

use abide_core::planning::{
    CheckpointStanding, CheckpointStatus, NewCheckpoint, NewCondition, NewPlan, Plan, PlanAct, PlanCommand,
    PlanId, PlanTask, PlanWish, SuspendedTask,
};
use abide_core::{Actor, Answerer, Command, InterruptId, Json as RawJson, JsonMap, Key, Millis, Run, RunId};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::asking::{Asking, Body, Path, SeenPart};
use super::intents::seen;
use super::parts::{self, MaySeen, Sent, kept, name, shown, unfit};
use super::tasks::new_task;
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::openwop::interrupts::{Given, Way, resolve};
use crate::scope::Scope;

/// Milliseconds in an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// Under which key the ids of conditions are kept.
const CONDITIONS: &str = "conditions";

/// What of a plan can't be changed any more.
const FIXED: [&str; 4] = ["tasks", "checkpoints", "conditions", "on_failure"];

fn no_such_plan() -> ApiError {
    ApiError::new("plan_not_found", "there is no such plan")
}

fn no_such_checkpoint() -> ApiError {
    ApiError::new("interrupt_not_found", "nobody is asked about such a checkpoint of the plan")
}

/// The plan that is meant by a name in a path.
fn meant(text: &str, principal: &Principal) -> Result<(Key, PlanId)> {
    let (key, local) = parts::named(text, principal).ok_or_else(no_such_plan)?;
    Ok((key, local.parse().map_err(|_| no_such_plan())?))
}

/// A plan as its client reads it.
fn view(run: &Run, plan: &Plan) -> JsonMap {
    let id = run.key().id;
    let (metadata, kept) = kept(plan.spec.metadata.as_ref());
    let tasks: Vec<String> = plan.tasks.iter().map(|task| name(id, task)).collect();
    let made = json!({
        "id": name(id, plan.id),
        "intent_id": words::id(id),
        "name": plan.spec.name,
        "version": plan.version,
        "state": plan.state.name(),
        "reason": plan.reason,
        "tasks": tasks,
        "checkpoints": checkpoints(id, plan),
        "conditions": conditions(id, plan, &kept),
        "on_failure": plan.spec.on_failure,
        "on_complete": plan.spec.on_complete,
        "progress": progress(run, plan),
        "created_at": words::moment(plan.created_at),
        "updated_at": words::moment(plan.updated_at),
    });
    shown(&made, [("metadata", metadata.clone()), ("plan_metadata", metadata)])
}

fn checkpoints(run: RunId, plan: &Plan) -> Vec<Value> {
    let shown = |spec: &abide_core::planning::CheckpointSpec| {
        let standing = plan.checkpoints.get(&spec.id);
        let answer = standing.and_then(|standing| standing.answer.as_ref());
        let after = name(run, spec.after);
        json!({
            "id": spec.id,
            "name": spec.name,
            "after_task": after,
            "after": after,
            "requires_approval": spec.requires_approval,
            "approvers": spec.approvers,
            "timeout_hours": spec.timeout_ms.map(hours),
            "on_timeout": spec.on_timeout,
            "status": standing.map_or("pending", |standing| stands(standing, spec.requires_approval)),
            "reached_at": standing.map(|standing| words::moment(standing.since)),
            "interrupt_id": standing.and_then(|standing| standing.interrupt).map(|id| id.to_string()),
            "approved_by": answer.map(|answer| &answer.by),
        })
    };
    plan.spec.checkpoints.iter().map(shown).collect()
}

fn stands(standing: &CheckpointStanding, asks: bool) -> &'static str {
    match standing.status {
        CheckpointStatus::Reached => "reached",
        CheckpointStatus::Passed if asks => "approved",
        CheckpointStatus::Passed => "passed",
        CheckpointStatus::Rejected => "rejected",
    }
}

/// Hours as a whole number where they are one: the client has no other.
fn hours(ms: Millis) -> Value {
    const WHOLE: Millis = HOUR_MS as Millis;
    if ms % WHOLE == 0 { json!(ms / WHOLE) } else { json!(ms as f64 / HOUR_MS) }
}

fn conditions(run: RunId, plan: &Plan, kept: &JsonMap) -> Vec<Value> {
    let ids: Vec<String> = kept.get(CONDITIONS).and_then(|ids| ids.parse().ok()).unwrap_or_default();
    let shown = |(at, condition): (usize, &abide_core::planning::ConditionSpec)| {
        json!({
            "id": ids.get(at).cloned().unwrap_or_default(),
            "task_id": name(run, condition.task),
            "when": condition.when,
            "otherwise": "skip",
        })
    };
    plan.spec.conditions.iter().enumerate().map(shown).collect()
}

/// How far a plan has come, and which of its tasks wait because an intent waits for people.
fn progress(run: &Run, plan: &Plan) -> Value {
    let Some(progress) = run.plan_progress(plan.id) else { return Value::Null };
    let by_status: std::collections::BTreeMap<&str, usize> =
        progress.by_status.into_iter().map(|(status, count)| (status.name(), count)).collect();
    let suspended = |task: SuspendedTask| {
        json!({
            "task_id": name(run.key().id, task.task_id),
            "intent_id": words::id(task.intent_id),
            "suspended_since": words::moment(task.suspended_since),
            "expires_at": task.expires_at.map(words::moment),
        })
    };
    json!({
        "total": progress.total,
        "by_status": by_status,
        "completion_percentage": progress.completion_percentage,
        "suspended_tasks": progress.suspended_tasks.into_iter().map(suspended).collect::<Vec<_>>(),
    })
}

/// A plan that somebody posts.
fn new_plan(sent: &mut Sent, run: RunId) -> Result<NewPlan> {
    let tasks: Vec<RawJson> = sent.take("tasks")?.unwrap_or_default();
    let checkpoints: Vec<JsonMap> = sent.take("checkpoints")?.unwrap_or_default();
    let mut ids = Vec::new();
    let mut conditions = Vec::new();
    for condition in sent.take::<Vec<JsonMap>>("conditions")?.unwrap_or_default() {
        let mut condition = Sent(condition);
        ids.push(condition.text("id")?.unwrap_or_default());
        conditions.push(new_condition(&mut condition, run)?);
    }
    let mut to_keep = JsonMap::new();
    if ids.iter().any(|id| !id.is_empty()) {
        to_keep.insert(CONDITIONS.to_owned(), RawJson::of(&ids));
    }
    Ok(NewPlan {
        name: sent.text("name")?,
        tasks: tasks.iter().map(|task| plan_task(task, run)).collect::<Result<_>>()?,
        checkpoints: checkpoints
            .into_iter()
            .map(|one| new_checkpoint(&mut Sent(one), run))
            .collect::<Result<_>>()?,
        conditions,
        on_failure: sent.text("on_failure")?,
        on_complete: sent.text("on_complete")?,
        metadata: sent.metadata(&to_keep)?,
    })
}

/// A task of a plan: one that is there, by its id, or a new one.
fn plan_task(given: &RawJson, run: RunId) -> Result<PlanTask> {
    if let Ok(id) = given.parse::<String>() {
        return Ok(PlanTask::Posted(parts::local(run, &id)));
    }
    let fields = given.parse::<JsonMap>();
    let fields =
        fields.map_err(|_| unfit("tasks", "'tasks' is a list of ids of tasks, or of tasks to be posted"))?;
    Ok(PlanTask::New(Box::new(new_task(&mut Sent(fields), run)?)))
}

fn new_checkpoint(sent: &mut Sent, run: RunId) -> Result<NewCheckpoint> {
    let after = sent.text("after_task")?.or(sent.text("after")?);
    let after = after.ok_or_else(|| {
        unfit("checkpoints.after_task", "'after_task' is missing: the task that it stands behind")
    })?;
    let id = sent.text("id")?;
    let called = sent.text("name")?.or_else(|| id.clone()).unwrap_or_default();
    let timeout_ms = sent.take::<f64>("timeout_hours")?.map(|hours| (hours * HOUR_MS) as Millis);
    Ok(NewCheckpoint {
        id,
        name: called,
        after: parts::local(run, &after),
        requires_approval: sent.take("requires_approval")?.unwrap_or(true),
        approvers: sent.take("approvers")?.unwrap_or_default(),
        timeout_ms,
        on_timeout: sent.text("on_timeout")?,
    })
}

fn new_condition(sent: &mut Sent, run: RunId) -> Result<NewCondition> {
    let task: String = sent.need("task_id")?;
    Ok(NewCondition {
        task: parts::local(run, &task),
        when: sent.need("when")?,
        otherwise: sent.text("otherwise")?,
    })
}

/// Posts a plan to an intent, as a draft.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let mut sent = Sent(sent);
    let key = words::intent_key(&sent.need::<String>("intent_id")?, &principal)?;
    let plan = Box::new(new_plan(&mut sent, key.id)?);
    let command = Command::Plan(Box::new(PlanCommand::CreatePlan { plan, by: Some(principal.name) }));
    parts::decide(&app, (key, actor), command, |run| run.plans().last().map(|plan| view(run, plan))).await
}

/// A plan as it stands.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<JsonMap>> {
    let (key, id) = meant(&id, &principal)?;
    look(&app, key, id, &actor.agent).await.map(Json)
}

async fn look(app: &App, key: Key, id: PlanId, agent: &str) -> Result<JsonMap> {
    let found = seen(app, key, agent, |run| run.plan(id).map(|plan| view(run, plan))).await?;
    found.ok_or_else(no_such_plan)
}

/// The plans of an intent, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Vec<JsonMap>>> {
    let key = words::intent_key(&intent, &principal)?;
    let all = |run: &Run| run.plans().map(|plan| view(run, plan)).collect::<Vec<_>>();
    Ok(Json(seen(&app, key, &actor.agent, all).await?))
}

/// Has a plan stand somewhere.
pub(crate) async fn update(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
    SeenPart(version): SeenPart,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let (key, id) = meant(&id, &principal)?;
    let mut sent = Sent(sent);
    if let Some(fixed) = FIXED.into_iter().find(|key| sent.raw(key).is_some()) {
        let message = format!(
            "'{fixed}' of a plan stays as it was posted; post tasks with its 'plan_id', or another plan"
        );
        return Err(unfit(fixed, message));
    }
    let wish = PlanWish { state: sent.need("state")?, reason: sent.text("reason")? };
    let command = PlanCommand::ReachPlan { id, version: Some(version), wish, by: Some(principal.name) };
    of_plan(&app, (key, actor), id, command).await
}

async fn of_plan(app: &App, at: (Key, Actor), id: PlanId, command: PlanCommand) -> Result<Response> {
    let see = move |run: &Run| run.plan(id).map(|plan| view(run, plan));
    parts::decide(app, at, Command::Plan(Box::new(command)), see).await
}

/// Does something with a plan.
pub(crate) async fn perform(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, verb)): Path<(String, String)>,
    MaySeen(version): MaySeen,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let (key, id) = meant(&id, &principal)?;
    let reason = Sent(sent).text("reason")?;
    let act = match verb.as_str() {
        "activate" => PlanAct::Activate,
        "pause" => PlanAct::Pause { reason },
        "resume" => PlanAct::Resume,
        "cancel" => PlanAct::Cancel { reason },
        _ => return Err(ApiError::new("not_found", format!("'{verb}' is nothing that is done with a plan"))),
    };
    let command = PlanCommand::Plan { id, version, act, by: Some(principal.name) };
    of_plan(&app, (key, actor), id, command).await
}

/// What is asked about a checkpoint, if a plan has come to it.
fn asked(run: &Run, id: PlanId, checkpoint: &str) -> Option<InterruptId> {
    run.plan(id)?.checkpoints.get(checkpoint)?.interrupt
}

/// Lets a plan go on past a checkpoint, or does not.
pub(crate) async fn answer_checkpoint(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, checkpoint, verb)): Path<(String, String, String)>,
) -> Result<Json<JsonMap>> {
    let (key, plan) = meant(&id, &principal)?;
    let action = match verb.as_str() {
        "approve" => "accept",
        "reject" => "reject",
        _ => return Err(ApiError::new("not_found", "a checkpoint is approved or rejected")),
    };
    let id = seen(&app, key, &actor.agent, |run| asked(run, plan, &checkpoint)).await?;
    let id = id.ok_or_else(no_such_checkpoint)?;
    // An agent that a key speaks for is somebody if the key may speak for others.
    let by = if principal.act_as { actor.agent.clone() } else { principal.name.clone() };
    let may_force = principal.scopes.allow(Scope::RunsForce);
    let roles = if by == principal.name { principal.roles.clone() } else { Vec::new() };
    let by = Answerer { may_act_for_others: principal.act_as, ..Answerer::of(&by) };
    let value = RawJson::of(&json!({ "action": action }));
    resolve(&app, Given { key, id, value, by, roles, may_force, way: Way::Key }, None).await?;
    look(&app, key, plan, &actor.agent).await.map(Json)
}
