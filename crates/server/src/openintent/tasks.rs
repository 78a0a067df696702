//! Tasks that are posted to an intent, and what becomes of them.

use std::sync::Arc;

use abide_core::planning::{NewTask, PlanCommand, Task, TaskAct, TaskId, TaskStatus, TaskWish};
use abide_core::{Actor, Command, Failure, Json as RawJson, JsonMap, Key, Run, RunId};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::asking::{Asked, Asking, Body, Path, SeenPart};
use super::intents::seen;
use super::parts::{self, MaySeen, Sent, kept, name, shown, unfit};
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;

/// What a failure is called that nobody gave a name.
const FAILED: &str = "failed";

/// What is only kept of a task: its name, its type if it has to be of one, and what stands for it if it is missing.
const KEPT: [(&str, &str, &str); 7] = [
    ("capabilities_required", "array", "[]"),
    ("requires_tools", "array", "[]"),
    ("permissions", "", "\"inherit\""),
    ("memory_policy", "object", "null"),
    ("timeout_seconds", "number", "null"),
    ("retry_policy", "", "null"),
    ("artifacts", "array", "[]"),
];

fn no_such_task() -> ApiError {
    ApiError::new("task_not_found", "there is no such task")
}

/// The task that is meant by a name in a path.
fn meant(text: &str, principal: &Principal) -> Result<(Key, TaskId)> {
    let (key, local) = parts::named(text, principal).ok_or_else(no_such_task)?;
    Ok((key, local.parse().map_err(|_| no_such_task())?))
}

/// A task as its client reads it.
fn view(run: &Run, task: &Task) -> JsonMap {
    let id = run.key().id;
    let (metadata, kept) = kept(task.spec.metadata.as_ref());
    let ids = |tasks: &[TaskId]| tasks.iter().map(|task| name(id, task)).collect::<Vec<_>>();
    let made = json!({
        "id": name(id, task.id),
        "intent_id": words::id(id),
        "plan_id": task.plan.map(|plan| name(id, plan)),
        "name": task.spec.name,
        "description": task.spec.description,
        "version": task.version,
        "status": task.status.name(),
        "priority": task.spec.priority.name(),
        "assigned_agent": task.assigned_agent,
        "lease_id": null,
        "depends_on": ids(&task.spec.depends_on),
        "blocks": ids(run.tasks_after(task.id)),
        "parent_task_id": task.spec.parent_task.map(|parent| name(id, parent)),
        "attempt": task.attempt,
        "max_attempts": task.spec.max_attempts,
        "blocked_reason": task.blocked_reason(),
        "suspended_intent_id": task.suspended_intent().map(words::id),
        "reason": task.reason,
        "child_intent_id": task.spec.run.map(words::id),
        "created_at": words::moment(task.created_at),
        "started_at": task.started_at.map(words::moment),
        "completed_at": task.completed_at.map(words::moment),
    });
    let empty = || RawJson::of(&JsonMap::new());
    let written = [
        ("input", task.spec.input.clone().unwrap_or_else(empty)),
        ("output", RawJson::of(&task.output)),
        ("progress", RawJson::of(&task.progress)),
        ("error", task.error.as_ref().map_or_else(|| RawJson::of(&()), told)),
        ("metadata", metadata.clone()),
        ("task_metadata", metadata),
    ];
    let mut view = shown(&made, written);
    for (key, _, missing) in KEPT {
        let missing = || serde_json::from_str(missing).unwrap_or_else(|_| RawJson::of(&()));
        view.insert(key.to_owned(), kept.get(key).cloned().unwrap_or_else(missing));
    }
    view
}

/// Why a task failed: as it was said, if somebody said so.
fn told(error: &Failure) -> RawJson {
    match &error.details {
        Some(details) => details.clone(),
        None if error.code == FAILED => RawJson::of(&error.message),
        None => RawJson::of(&json!({ "code": error.code, "message": error.message })),
    }
}

/// Why a task failed, as a text or an object.
fn failure(sent: &mut Sent) -> Result<Option<Failure>> {
    let Some(given) = sent.raw("error") else { return Ok(None) };
    match given.type_name() {
        "string" => Ok(Some(Failure::new(FAILED, given.parse::<String>().unwrap_or_default()))),
        "object" => {
            let fields: JsonMap = given.parse().unwrap_or_default();
            let text = |key: &str| fields.get(key).and_then(|value| value.parse::<String>().ok());
            let code = text("code").or_else(|| text("error_code")).filter(|code| !code.is_empty());
            let message = text("message").or_else(|| text("error_message")).unwrap_or_default();
            Ok(Some(Failure {
                code: code.unwrap_or_else(|| FAILED.to_owned()),
                message,
                details: Some(given),
            }))
        }
        _ => Err(unfit("error", "'error' is a text or an object")),
    }
}

/// A task that somebody posts.
pub(super) fn new_task(sent: &mut Sent, run: RunId) -> Result<NewTask> {
    let to_keep = KEPT.map(|(key, kind, _)| (key, kind));
    let kept = sent.keep(&to_keep)?;
    let depends_on: Vec<String> = sent.take("depends_on")?.unwrap_or_default();
    let child = sent.text("child_intent_id")?;
    let child = child.map(|id| words::run_id(&id).ok_or_else(words::no_such_intent)).transpose()?;
    Ok(NewTask {
        name: sent.need("name")?,
        description: sent.text("description")?,
        input: sent.object("input")?,
        depends_on: depends_on.iter().map(|id| parts::local(run, id)).collect(),
        plan: sent.text("plan_id")?.map(|id| parts::local(run, &id)),
        parent_task: sent.text("parent_task_id")?.map(|id| parts::local(run, &id)),
        priority: sent.text("priority")?,
        agent: sent.text("assigned_agent")?,
        max_attempts: sent.take("max_attempts")?,
        run: child,
        metadata: sent.metadata(&kept)?,
    })
}

/// Posts a task to an intent.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let mut sent = Sent(sent);
    let key = words::intent_key(&sent.need::<String>("intent_id")?, &principal)?;
    let task = Box::new(new_task(&mut sent, key.id)?);
    let command = Command::Plan(Box::new(PlanCommand::CreateTask { task, by: Some(principal.name) }));
    parts::decide(&app, (key, actor), command, |run| run.tasks_posted().last().map(|task| view(run, task)))
        .await
}

/// A task as it stands.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Json<JsonMap>> {
    let (key, id) = meant(&id, &principal)?;
    let found = seen(&app, key, &actor.agent, |run| run.posted_task(id).map(|task| view(run, task))).await?;
    found.map(Json).ok_or_else(no_such_task)
}

/// Which tasks are wanted.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    status: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
}

/// The tasks of an intent, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Vec<JsonMap>>> {
    let key = words::intent_key(&intent, &principal)?;
    let limit = wanted.limit.unwrap_or(limits::LIST_ENTRIES_DEFAULT).clamp(1, limits::LIST_ENTRIES_MAX);
    let status = wanted.status.filter(|status| !status.is_empty());
    let status = status.map(|name| {
        let known = TaskStatus::ALL.map(TaskStatus::name).join(", ");
        TaskStatus::by_name(&name).ok_or_else(|| unfit("status", format!("'status' is one of {known}")))
    });
    let status = status.transpose()?;
    let page = |run: &Run| {
        let tasks = run.tasks_posted().filter(|task| status.is_none_or(|status| task.status == status));
        let page = tasks.skip(wanted.offset.unwrap_or(0)).take(limit);
        page.map(|task| view(run, task)).collect::<Vec<_>>()
    };
    Ok(Json(seen(&app, key, &actor.agent, page).await?))
}

/// Has a task stand somewhere, or somebody have it.
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
    let wish = Box::new(TaskWish {
        status: sent.text("status")?,
        agent: sent.text("assigned_agent")?,
        asking: actor.agent.clone(),
        progress: sent.raw("progress"),
        output: sent.raw("output"),
        error: failure(&mut sent)?,
        reason: sent.text("blocked_reason")?.or(sent.text("reason")?),
    });
    let command = PlanCommand::ReachTask { id, version: Some(version), wish, by: Some(principal.name) };
    of_task(&app, (key, actor), id, command).await
}

async fn of_task(app: &App, at: (Key, Actor), id: TaskId, command: PlanCommand) -> Result<Response> {
    let see = move |run: &Run| run.posted_task(id).map(|task| view(run, task));
    parts::decide(app, at, Command::Plan(Box::new(command)), see).await
}

/// What is done with a task, by its name in the path.
fn act(verb: &str, sent: &mut Sent, agent: &str) -> Result<TaskAct> {
    let reason = sent.text("reason")?;
    Ok(match verb {
        "claim" => TaskAct::Claim { agent: agent.to_owned() },
        "start" => TaskAct::Start,
        "release" => TaskAct::Release { reason },
        "progress" => {
            TaskAct::Progress { progress: sent.raw("progress").unwrap_or_else(|| RawJson::of(&sent.0)) }
        }
        "complete" => TaskAct::Complete { output: sent.raw("output") },
        "fail" => {
            let said = failure(sent)?.or_else(|| reason.map(|reason| Failure::new(FAILED, reason)));
            TaskAct::Fail { error: said.unwrap_or_else(|| Failure::new(FAILED, "nobody said why")) }
        }
        "retry" => TaskAct::Retry,
        "block" => {
            let reason = sent.text("blocked_reason")?.or(reason);
            TaskAct::Block {
                reason: reason
                    .ok_or_else(|| unfit("reason", "'reason' is missing: say what it waits for"))?,
            }
        }
        "unblock" => TaskAct::Unblock,
        "cancel" => TaskAct::Cancel { reason },
        "skip" => TaskAct::Skip { reason },
        _ => return Err(ApiError::new("not_found", format!("'{verb}' is nothing that is done with a task"))),
    })
}

/// Does something with a task.
pub(crate) async fn perform(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((id, verb)): Path<(String, String)>,
    MaySeen(version): MaySeen,
    Body(sent): Body<JsonMap>,
) -> Result<Response> {
    let (key, id) = meant(&id, &principal)?;
    let mut sent = Sent(sent);
    let named = sent.text("agent_id")?.or(sent.text("assigned_agent")?);
    let act = act(&verb, &mut sent, named.as_deref().unwrap_or(&actor.agent))?;
    let command = PlanCommand::Task { id, version, agent: named, act, by: Some(principal.name) };
    of_task(&app, (key, actor), id, command).await
}
