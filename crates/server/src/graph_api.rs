//! Runs that wait for other runs, over HTTP: who waits for whom, why nothing goes on, and who belongs to what.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{BondCommand, Command, Run, RunId, Status};
use abide_engine::Reply;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::coordinator_api::{LeaseView, leases};
use crate::error::{ApiError, Result};
use crate::groups_api::Nothing;
use crate::idempotency::{Repeatable, once};
use crate::openwop::control::encoded;
use crate::openwop::runs::{PartPath, RunPath};
use crate::{limits, shape, time};

/// A run that another one is to wait for.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddDependency {
    /// Which run.
    #[schemars(with = "shape::RunName")]
    run_id: String,
}

/// A run that is waited for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UpstreamView {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// How it stands, as far as the run has heard.
    status: Option<&'static str>,
    /// Since when it waits for people.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    suspended_since: Option<String>,
    /// When that is over at the latest, if there is an end.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

/// A run that has to do with another.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Related {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    status: &'static str,
}

/// A group that a run belongs to.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Membership {
    #[schemars(with = "shape::RunName")]
    group_id: RunId,
    role: &'static str,
}

/// Why nothing of a run starts although nobody holds it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockedView {
    /// `dependency_incomplete`, `dependency_suspended`, `on_dependency_failed` or `coordinator_blocked`.
    reason: &'static str,
    #[schemars(with = "shape::Moment")]
    since: String,
    /// The runs that have not completed, the first of them; for `coordinator_blocked`, those whose coordinators hold it
    /// back.
    #[schemars(with = "Vec<shape::RunName>")]
    by: Vec<RunId>,
}

/// How the children of a run stand.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ChildrenAggregate")]
struct ChildrenView {
    /// How many there are.
    total: u64,
    /// How many of each status, in OpenIntent's words.
    by_status: BTreeMap<String, u64>,
    /// How many of a hundred have completed.
    completion_percentage: u64,
}

/// Whom a run waits for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunDependencies")]
pub(crate) struct StandingView {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// How it stands, in Abide's words: `blocked` and `draft` are `pending` to OpenWOP.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<BlockedView>,
    /// The runs that it waits for, or has waited for, by id.
    depends_on: Vec<UpstreamView>,
}

/// What a run has to do with others.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunGraph")]
pub(crate) struct GraphView {
    #[serde(flatten)]
    standing: StandingView,
    /// Runs that wait for it, the first of them by id.
    dependents: Vec<Related>,
    /// How its children stand.
    aggregate_status: ChildrenView,
    /// Children that could go on, the first of them.
    #[schemars(with = "Vec<shape::RunName>")]
    ready: Vec<RunId>,
    /// Children that wait for other runs, the first of them.
    #[schemars(with = "Vec<shape::RunName>")]
    blocked_children: Vec<RunId>,
    /// The groups that it belongs to.
    groups: Vec<Membership>,
    /// When it is abandoned if it waits for people then: the earliest deadline of its groups.
    #[schemars(with = "Option<shape::Moment>")]
    deadline: Option<String>,
    #[schemars(with = "Option<shape::RunName>")]
    parent_run_id: Option<RunId>,
    /// The phases of a workflow, each as the task of the run that does it.
    phases: Vec<TaskView>,
    /// Those whose runs wait for people.
    #[serde(rename = "suspended_phases")]
    suspended_phases: Vec<PhaseProgress>,
    /// Those who coordinate it or did last.
    coordinators: Vec<LeaseView>,
}

/// A phase as the task of the run that does it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Phase")]
struct TaskView {
    phase_name: String,
    title: String,
    /// The agent that it is meant for.
    #[serde(skip_serializing_if = "Option::is_none")]
    assign: Option<String>,
    /// The run that does it.
    #[schemars(with = "Option<shape::RunName>")]
    run_id: Option<RunId>,
    /// `pending`, `ready`, `running`, `blocked`, `completed`, `failed`, `cancelled` or `skipped`.
    status: &'static str,
    /// `intent_suspended` if its run waits for people.
    blocked_reason: Option<&'static str>,
    /// That run, then.
    #[schemars(with = "Option<shape::RunName>")]
    suspended_intent_id: Option<RunId>,
}

/// A phase whose run waits for people, in the words of OpenIntent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SuspendedPhase")]
struct PhaseProgress {
    phase_name: String,
    #[schemars(with = "shape::RunName")]
    intent_id: RunId,
    #[schemars(with = "shape::Moment")]
    suspended_since: String,
    #[schemars(with = "Option<shape::Moment>")]
    expires_at: Option<String>,
}

/// What a run has to do with others.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
) -> Result<Json<GraphView>> {
    let key = run.of(&principal)?;
    let engine = app.engine();
    let mut view = engine.read(key, of_run).await?;
    let most = limits::LIST_ENTRIES_MAX;
    let dependents = engine.containers().dependents(key, None, most).await?;
    view.dependents = dependents.into_iter().map(|(run_id, status)| related(run_id, status)).collect();
    let groups = engine.containers().groups_of(key, most).await?;
    view.groups =
        groups.into_iter().map(|(group_id, role)| Membership { group_id, role: role.name() }).collect();
    for (status, count) in engine.containers().child_counts(key).await? {
        // One that has not started yet stands as it will at first, as in the list of its parent's children.
        let name = status.unwrap_or(Status::Pending).intent_name();
        *view.aggregate_status.by_status.entry(name.to_owned()).or_default() += count;
        view.aggregate_status.total += count;
    }
    let completed = view.aggregate_status.by_status.get("completed").copied().unwrap_or(0);
    let total = view.aggregate_status.total;
    view.aggregate_status.completion_percentage = (completed * 100).checked_div(total).unwrap_or(0);
    for child in engine.children(key, most).await? {
        match child.status {
            Some(Status::Blocked) => view.blocked_children.push(child.child),
            Some(Status::Running | Status::Pending) => view.ready.push(child.child),
            _ => {}
        }
    }
    Ok(Json(view))
}

fn standing(run: &Run) -> StandingView {
    let upstream = |(run_id, upstream): (&RunId, &abide_core::Upstream)| UpstreamView {
        run_id: *run_id,
        status: upstream.status.map(Status::name),
        suspended_since: upstream.suspended.map(|suspended| time::rfc3339(suspended.since)),
        expires_at: upstream.suspended.and_then(|suspended| suspended.expires_at).map(time::rfc3339),
    };
    StandingView {
        run_id: run.key().id,
        status: run.status().name(),
        blocked: blocked(run),
        depends_on: run.upstreams().iter().map(upstream).collect(),
    }
}

fn of_run(run: &Run) -> GraphView {
    GraphView {
        standing: standing(run),
        dependents: Vec::new(),
        aggregate_status: ChildrenView { total: 0, by_status: BTreeMap::new(), completion_percentage: 0 },
        ready: Vec::new(),
        blocked_children: Vec::new(),
        groups: Vec::new(),
        deadline: run.group_deadline().map(|(deadline, _)| time::rfc3339(deadline)),
        parent_run_id: run.parent().map(|parent| parent.run),
        phases: run.phases().into_iter().map(task).collect(),
        suspended_phases: run.suspended_phases().into_iter().map(progress).collect(),
        coordinators: leases(run),
    }
}

fn task(phase: abide_core::PhaseView) -> TaskView {
    TaskView {
        phase_name: phase.phase,
        title: phase.title,
        assign: phase.assign,
        run_id: phase.child,
        status: phase.task_status.name(),
        blocked_reason: phase.blocked_reason,
        suspended_intent_id: phase.suspended_intent_id,
    }
}

fn progress(phase: abide_core::SuspendedPhase) -> PhaseProgress {
    PhaseProgress {
        phase_name: phase.phase_name,
        intent_id: phase.intent_id,
        suspended_since: time::rfc3339(phase.suspended_since),
        expires_at: phase.expires_at.map(time::rfc3339),
    }
}

/// Why nothing of a run starts, if that is so because of others.
pub(crate) fn blocked(run: &Run) -> Option<BlockedView> {
    let (reason, since) = run.blocked_reason().zip(run.blocked_since())?;
    let most = abide_core::limits::BLOCKED_BY_MAX;
    let mut by: Vec<RunId> = run.unmet().map(|(run, _)| run).take(most).collect();
    if by.is_empty() {
        by = run.kept_by().take(most).collect();
    }
    Some(BlockedView { reason: reason.name(), since: time::rfc3339(since), by })
}

fn related(run_id: RunId, status: Status) -> Related {
    Related { run_id, status: status.name() }
}

/// Has a run wait for another one, too.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<AddDependency>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let on = dependency(&body.run_id)?;
    let work = {
        let app = app.clone();
        move |blank| async move {
            let reply = Reply::new(blank, |run: &Run| encoded(&standing(run)));
            Ok(app.engine().add_dependency(key, on, Some(principal.name), None, reply).await?)
        }
    };
    let endpoint = format!("addDependency {}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::CREATED, work).await
}

/// Has a run not wait for another one any more.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    principal: Principal,
    PartPath(run, on): PartPath,
) -> Result<Json<StandingView>> {
    let key = run.of(&principal)?;
    let on = dependency(&on)?;
    let reply = Reply::new(None, |_: &Run| Vec::new());
    app.engine().remove_dependency(key, on, Some(principal.name), None, reply).await?;
    Ok(Json(app.engine().read(key, standing).await?))
}

/// Activates a draft.
pub(crate) async fn activate(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(Nothing {}, ticket): Repeatable<Nothing>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let command = Command::Bond(Box::new(BondCommand::Activate { by: Some(principal.name) }));
    let work = {
        let app = app.clone();
        move |blank| async move {
            let reply = Reply::new(blank, |run: &Run| encoded(&standing(run)));
            Ok(app.engine().ask_for(key, &command, reply).await?)
        }
    };
    let endpoint = format!("activateRun {}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::OK, work).await
}

/// The run that is meant by a name in a body or a path.
pub(crate) fn dependency(name: &str) -> Result<RunId> {
    name.parse()
        .map_err(|_| ApiError::new("dependency_not_found", format!("there is no run '{name}' to wait for")))
}
