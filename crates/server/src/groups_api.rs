//! Groups over HTTP: several runs that somebody looks at together.
//!
//! A group is a run of its own, whose journal tells what became of its members. It is abandoned as a run is cancelled.

use std::sync::Arc;

use abide_core::{
    Governance as CoreGovernance, Group, GroupSpec, Json as RawJson, Key, MemberRow, Millis, Role, Run,
    RunId, Status,
};
use abide_engine::{Error as EngineError, NewMember, Reply};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, once};
use crate::openwop::control::encoded;
use crate::openwop::runs::{PartPath, RunPath};
use crate::page::{PageQuery, wrong_cursor};
use crate::{shape, time};

/// What is to hold for the members of a group.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Govern")]
pub(crate) struct GovernanceBody {
    /// Until when members may wait for people: one that still does then is abandoned, whatever its fallback says.
    #[schemars(with = "Option<shape::Moment>")]
    deadline: Option<String>,
    /// The group may be closed although not every member has completed.
    #[serde(default)]
    allow_partial_completion: bool,
    /// The group completes by itself once this share of its members has: more than 0, at most 1.
    auto_complete_threshold: Option<f64>,
    /// What the members' models may cost together; the journal tells when it is more.
    budget_limit_cents: Option<u64>,
    /// Whatever you have agreed on with the members; kept and shown.
    #[schemars(with = "Option<shape::Anything>")]
    shared_constraints: Option<RawJson>,
    /// The `governanceVersion` that you have seen: if somebody has said otherwise since, nothing is changed. Not for a group
    /// that is made.
    version: Option<u64>,
}

/// What holds for the members of a group.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Governance")]
pub(crate) struct GovernanceView {
    /// Until when members may wait for people.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// The group may be closed although not every member has completed.
    allow_partial_completion: bool,
    /// The group completes by itself once this share of its members has.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_complete_threshold: Option<f64>,
    /// What the members' models may cost together.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_limit_cents: Option<u64>,
    /// Whatever was agreed on with the members.
    #[schemars(with = "Option<shape::Anything>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_constraints: Option<RawJson>,
}

/// A group to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MakeGroup {
    /// What it is called.
    #[schemars(length(min = 1, max = 256))]
    name: String,
    /// What it is for.
    description: Option<String>,
    /// What holds for its members.
    #[serde(default)]
    governance: GovernanceBody,
}

/// A run that is to belong to a group.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddMember {
    /// Which run.
    #[schemars(with = "shape::RunName")]
    run_id: String,
    /// `primary`, `member` or `dependency`; `member` unless told.
    role: Option<String>,
    /// The higher, the more it matters; 0 unless told.
    #[serde(default)]
    priority: i32,
}

/// How a group stands, going by its members.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AggregateStatus")]
pub(crate) struct AggregateView {
    /// `completed` if every member is, and there is one; `failed` if one has failed or was abandoned; else
    /// `in_progress`.
    status: &'static str,
    /// How many members there are.
    total: u64,
    /// How many of each status, in OpenIntent's words; none of it is left out that there is.
    by_status: std::collections::BTreeMap<String, u64>,
    /// How many of a hundred have completed.
    completion_percentage: u64,
}

/// A group as it stands.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Group")]
pub(crate) struct GroupView {
    /// The group; its journal is that of a run of this id.
    #[schemars(with = "shape::RunName")]
    group_id: RunId,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// `active`, `completed` or `abandoned`: what somebody made of it, whatever its members do.
    status: &'static str,
    governance: GovernanceView,
    /// How often that has changed.
    governance_version: u64,
    aggregate_status: AggregateView,
    /// Whether a member waits for people.
    has_suspended_members: bool,
    /// How many do.
    suspended_member_count: u64,
    /// What the members' models have cost together, in millionths of a dollar.
    cost_micros: u64,
    /// Whether that is more than they may.
    over_budget: bool,
    #[schemars(with = "shape::Moment")]
    created_at: String,
    #[schemars(with = "shape::Moment")]
    updated_at: String,
}

/// A group in a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedGroup {
    #[schemars(with = "shape::RunName")]
    group_id: RunId,
    name: String,
    status: &'static str,
    aggregate_status: AggregateView,
    suspended_member_count: u64,
}

/// A page of groups.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupPage {
    /// Newest first.
    groups: Vec<ListedGroup>,
    /// What to ask for the next page with; null on the last one.
    next_cursor: Option<String>,
}

/// A member of a group, as far as the group has heard.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Member")]
pub(crate) struct MemberView {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    role: &'static str,
    priority: i32,
    #[schemars(with = "shape::Moment")]
    added_at: String,
    /// How it stands.
    status: &'static str,
    /// Since when it waits for people.
    #[schemars(with = "Option<shape::Moment>")]
    suspended_since: Option<String>,
    /// When that is over at the latest, if there is an end.
    #[schemars(with = "Option<shape::Moment>")]
    expires_at: Option<String>,
    cost_micros: u64,
}

/// A page of members.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberPage {
    /// By id.
    members: Vec<MemberView>,
    /// What to ask for the next page with; null on the last one.
    next_cursor: Option<String>,
}

impl GovernanceBody {
    fn read(self) -> Result<CoreGovernance> {
        let deadline = self.deadline.as_deref().map(moment).transpose()?;
        Ok(CoreGovernance {
            deadline,
            allow_partial_completion: self.allow_partial_completion,
            auto_complete_threshold: self.auto_complete_threshold,
            budget_limit_cents: self.budget_limit_cents,
            shared_constraints: self.shared_constraints,
            written: None,
        })
    }
}

impl GovernanceView {
    fn of(governance: &CoreGovernance) -> Self {
        Self {
            deadline: governance.deadline.map(time::rfc3339),
            allow_partial_completion: governance.allow_partial_completion,
            auto_complete_threshold: governance.auto_complete_threshold,
            budget_limit_cents: governance.budget_limit_cents,
            shared_constraints: governance.shared_constraints.clone(),
        }
    }
}

fn moment(text: &str) -> Result<Millis> {
    let read: std::result::Result<jiff::Timestamp, _> = text.parse();
    read.map(jiff::Timestamp::as_millisecond).map_err(|_| {
        let told = "'deadline' is a moment such as 2026-01-31T00:00:00Z";
        ApiError::invalid("governance.deadline", told)
    })
}

/// Makes a group. The answer comes when it is on disk.
pub(crate) async fn make(
    State(app): State<Arc<App>>,
    principal: Principal,
    Repeatable(body, ticket): Repeatable<MakeGroup>,
) -> Result<Response> {
    if body.governance.version.is_some() {
        let told = "'governance.version' is for a group that is there; leave it out";
        return Err(ApiError::invalid("governance.version", told));
    }
    let governance = body.governance.read()?;
    let spec =
        GroupSpec { name: body.name, description: body.description, governance, ..GroupSpec::default() };
    let tenant = principal.tenant;
    let work = {
        let app = app.clone();
        move |blank| async move {
            let reply = Reply::new(blank, |run: &Run| encoded(&view(run)));
            Ok(app.engine().make_group(tenant, spec, Some(principal.name), reply).await?)
        }
    };
    once(&app, tenant, "makeGroup".to_owned(), ticket, StatusCode::CREATED, work).await
}

/// The tenant's groups, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    page: PageQuery,
) -> Result<Json<GroupPage>> {
    let before = page.cursor.as_deref().map(str::parse::<RunId>).transpose();
    let before = before.map_err(|_| wrong_cursor())?;
    let limit = page.limit() + 1;
    let found = app.engine().containers().groups(principal.tenant, before, limit).await?;
    let (found, next_cursor) = page.cut(found.into_iter(), |last| last.id.to_string());
    let mut groups = Vec::with_capacity(found.len());
    for listed in found {
        let key = listed.id.of(principal.tenant);
        let seen = app.engine().read(key, |run| run.group().map(|group| listed_group(run, group))).await;
        match seen {
            Ok(Some(group)) => groups.push(group),
            // One that was erased has nothing to say.
            Ok(None) | Err(EngineError::Erased(_) | EngineError::RunNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(GroupPage { groups, next_cursor }))
}

/// A group as it stands.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    group: RunPath,
) -> Result<Json<GroupView>> {
    let key = group_key(&group, &principal)?;
    let seen = app.engine().read(key, |run| run.group().is_some().then(|| view(run))).await;
    seen.map_err(|error| of_group(error, key))?.map(Json).ok_or_else(|| no_such_group(key.id))
}

/// Has a run belong to a group.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    principal: Principal,
    group: RunPath,
    Repeatable(body, ticket): Repeatable<AddMember>,
) -> Result<Response> {
    let key = group_key(&group, &principal)?;
    let run: RunId = body.run_id.parse().map_err(|_| {
        ApiError::invalid(
            "runId",
            "'runId' is the id of a run, such as run-0190…; `abide run list` shows them",
        )
    })?;
    let role = body.role.as_deref().map_or(Some(Role::Member), Role::by_name);
    let role =
        role.ok_or_else(|| ApiError::invalid("role", "'role' is one of primary, member and dependency"))?;
    check_group(&app, key).await?;
    let new = NewMember { run, role, priority: body.priority };
    let work = {
        let app = app.clone();
        move |blank| async move {
            let reply = Reply::new(blank, |run: &Run| encoded(&view(run)));
            Ok(app.engine().add_member(key, new, Some(principal.name), reply).await?)
        }
    };
    let endpoint = format!("addMember {}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::CREATED, work).await
}

/// Has a run not belong to a group any more.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    principal: Principal,
    PartPath(group, run): PartPath,
) -> Result<Json<GroupView>> {
    let key = group_key(&group, &principal)?;
    let member: RunId =
        run.parse().map_err(|_| ApiError::new("run_not_found", format!("there is no run {run}")))?;
    check_group(&app, key).await?;
    let reply = Reply::new(None, |_: &Run| Vec::new());
    app.engine().remove_member(key, member, Some(principal.name), reply).await?;
    let seen = app.engine().read(key, view).await;
    Ok(Json(seen.map_err(|error| of_group(error, key))?))
}

/// The members of a group, by id.
pub(crate) async fn members(
    State(app): State<Arc<App>>,
    principal: Principal,
    group: RunPath,
    page: PageQuery,
) -> Result<Json<MemberPage>> {
    let key = group_key(&group, &principal)?;
    check_group(&app, key).await?;
    let after = page.cursor.as_deref().map(str::parse::<RunId>).transpose();
    let after = after.map_err(|_| wrong_cursor())?;
    let found = app.engine().containers().members(key, Vec::new(), after, page.limit() + 1).await?;
    let (found, next_cursor) = page.cut(found.into_iter(), |last| last.run.to_string());
    Ok(Json(MemberPage { members: found.iter().map(member).collect(), next_cursor }))
}

/// Has other things hold for the members of a group.
pub(crate) async fn govern(
    State(app): State<Arc<App>>,
    principal: Principal,
    group: RunPath,
    Repeatable(body, ticket): Repeatable<GovernanceBody>,
) -> Result<Response> {
    let key = group_key(&group, &principal)?;
    check_group(&app, key).await?;
    let version = body.version;
    let governance = (body.read()?, version);
    let work = {
        let app = app.clone();
        move |blank| async move {
            let reply = Reply::new(blank, |run: &Run| encoded(&view(run)));
            Ok(app.engine().govern(key, governance, Some(principal.name), reply).await?)
        }
    };
    let endpoint = format!("governGroup {}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::OK, work).await
}

/// Nothing needs to be said.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Closes a group: it is done with.
pub(crate) async fn close(
    State(app): State<Arc<App>>,
    principal: Principal,
    group: RunPath,
    Repeatable(Nothing {}, ticket): Repeatable<Nothing>,
) -> Result<Response> {
    let key = group_key(&group, &principal)?;
    check_group(&app, key).await?;
    let work = {
        let app = app.clone();
        move |blank| async move {
            let reply = Reply::new(blank, |run: &Run| encoded(&view(run)));
            Ok(app.engine().close_group(key, reply).await?)
        }
    };
    let endpoint = format!("closeGroup {}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::OK, work).await
}

fn group_key(group: &RunPath, principal: &Principal) -> Result<Key> {
    group.of(principal).map_err(|_| ApiError::new("group_not_found", "there is no such group"))
}

async fn check_group(app: &App, key: Key) -> Result<()> {
    let head = app.engine().head(key).await.map_err(|error| of_group(error, key))?;
    if head.group { Ok(()) } else { Err(no_such_group(key.id)) }
}

fn of_group(error: EngineError, key: Key) -> ApiError {
    match error {
        EngineError::RunNotFound(_) => no_such_group(key.id),
        other => other.into(),
    }
}

fn no_such_group(id: RunId) -> ApiError {
    ApiError::new("group_not_found", format!("there is no group {id}"))
}

fn view(run: &Run) -> GroupView {
    let group = run.group().cloned().unwrap_or_default();
    GroupView {
        group_id: run.key().id,
        name: group.spec.name.clone(),
        description: group.spec.description.clone(),
        status: stands(run.status()),
        governance: GovernanceView::of(&group.spec.governance),
        governance_version: group.governance_version,
        aggregate_status: aggregate(&group),
        has_suspended_members: group.suspended() > 0,
        suspended_member_count: group.suspended(),
        cost_micros: group.cost_micros,
        over_budget: group.over_budget,
        created_at: time::rfc3339(run.started_at()),
        updated_at: time::rfc3339(run.head().at),
    }
}

fn listed_group(run: &Run, group: &Group) -> ListedGroup {
    ListedGroup {
        group_id: run.key().id,
        name: group.spec.name.clone(),
        status: stands(run.status()),
        aggregate_status: aggregate(group),
        suspended_member_count: group.suspended(),
    }
}

/// What somebody made of a group.
pub(crate) fn stands(status: Status) -> &'static str {
    match status {
        Status::Completed => "completed",
        Status::Failed | Status::Cancelled => "abandoned",
        _ => "active",
    }
}

fn aggregate(group: &Group) -> AggregateView {
    AggregateView {
        status: group.aggregate().name(),
        total: group.total,
        by_status: group.by_status.clone(),
        completion_percentage: group.completion_percentage(),
    }
}

fn member(row: &MemberRow) -> MemberView {
    MemberView {
        run_id: row.run,
        role: row.role.name(),
        priority: row.priority,
        added_at: time::rfc3339(row.added_at),
        status: row.status.name(),
        suspended_since: row.suspended.map(|suspended| time::rfc3339(suspended.since)),
        expires_at: row.suspended.and_then(|suspended| suspended.expires_at).map(time::rfc3339),
        cost_micros: row.cost_micros,
    }
}
