//! The inbox: everything that waits for an answer, oldest first.

use std::collections::BTreeMap;
use std::sync::Arc;

use abide_core::{Headway, InterruptId, InterruptKind, Millis, RunId};
use abide_store::{InboxCursor, InboxQuery, InterruptRow};
use axum::Json;
use axum::extract::{Query, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::respondents::{self, Answering};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::{limits, shape, time};

/// Which open interrupts to list.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Only those about this.
    #[schemars(with = "shape::InterruptKinds")]
    #[serde(default)]
    kind: Option<String>,
    /// Only those of this run.
    #[schemars(with = "shape::RunName")]
    #[serde(default)]
    run: Option<String>,
    /// Only those of runs of this workflow.
    #[schemars(with = "String")]
    #[serde(default)]
    workflow_id: Option<String>,
    /// Only those that this principal may answer; those that name nobody are among them.
    #[schemars(with = "String")]
    #[serde(default)]
    approver: Option<String>,
    /// Only those with this in their title, in whatever case.
    #[schemars(with = "String")]
    #[serde(default)]
    title: Option<String>,
    /// Only those that have waited for so many milliseconds.
    #[schemars(with = "u64")]
    #[serde(default)]
    older_than: Option<String>,
    /// How many at most; 50 unless told.
    #[schemars(with = "usize", range(min = 1, max = limits::LIST_INTERRUPTS_MAX))]
    #[serde(default)]
    limit: Option<String>,
    /// The `nextCursor` of the page before.
    #[schemars(with = "String")]
    #[serde(default)]
    cursor: Option<String>,
}

/// A page of open interrupts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Inbox")]
pub(crate) struct Inbox {
    /// Oldest first.
    interrupts: Vec<Entry>,
    /// What to ask for the next page with; null on the last one. A page that found few may have one behind it.
    next_cursor: Option<String>,
    /// How many the tenant has, whatever was asked for.
    counts: Counts,
}

/// How many interrupts are open.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Counts {
    total: u64,
    by_kind: BTreeMap<&'static str, u64>,
}

/// An open interrupt.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InboxEntry")]
struct Entry {
    #[schemars(with = "shape::InterruptName")]
    interrupt_id: InterruptId,
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    node_id: String,
    workflow_id: String,
    #[schemars(with = "shape::InterruptKinds")]
    kind: InterruptKind,
    /// One line of what is asked.
    title: String,
    /// The event that is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_type: Option<String>,
    /// What a custom one is called by those who agreed on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    custom_kind: Option<String>,
    #[schemars(with = "shape::Moment")]
    requested_at: String,
    /// For how long it has waited.
    age_ms: Millis,
    /// When it is given up.
    #[schemars(with = "Option<shape::Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// Who may answer: principals, `group:…` and `role:…`; whoever has the scope, if it is not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    approvers: Vec<String>,
    /// How far it has come, if it takes several people.
    #[serde(skip_serializing_if = "Option::is_none")]
    quorum: Option<Votes>,
    /// Questions back that nobody has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_asks: Option<u32>,
    /// The page where it is answered.
    link: String,
}

/// How far an approval has come that takes several people. The question itself has the votes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InboxVotes")]
struct Votes {
    /// People who accept.
    approvals: u32,
    /// People who don't.
    rejections: u32,
    /// How many have to accept.
    required: u32,
}

impl Votes {
    /// One decision is no vote.
    fn of(headway: Headway) -> Option<Self> {
        let Headway { approvals, rejections, required, asks: _ } = headway;
        (required > 1).then_some(Self { approvals, rejections, required })
    }
}

/// Lists the open interrupts of the caller's tenant.
pub(crate) async fn inbox(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: std::result::Result<Query<Wanted>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Inbox>> {
    let Query(wanted) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let now = app.engine().clock().now();
    let asked = asked(&app, wanted, &principal, now).await?;
    let inbox = app.engine().inbox();
    let page = inbox.list(asked).await?;
    let counted = inbox.counts(principal.tenant).await?;
    let counts = Counts {
        total: counted.iter().map(|(_, open)| open).sum(),
        by_kind: counted.into_iter().map(|(kind, open)| (kind.name(), open)).collect(),
    };
    let interrupts = page.rows.into_iter().map(|row| entry(&app, row, now)).collect();
    let next_cursor = page.next.map(|next| next.to_string());
    Ok(Json(Inbox { interrupts, next_cursor, counts }))
}

async fn asked(app: &App, wanted: Wanted, principal: &Principal, now: Millis) -> Result<InboxQuery> {
    let approver = match &wanted.approver {
        Some(name) => {
            let who = Answering { tenant: principal.tenant, principal: name, roles: &[] };
            Some(respondents::names_of(app, who).await?)
        }
        None => None,
    };
    let limit = whole("limit", wanted.limit.as_deref(), 1, limits::LIST_INTERRUPTS_MAX as i64)?;
    let limit = limit.map_or(limits::LIST_INTERRUPTS_DEFAULT, |limit| limit.unsigned_abs() as usize);
    let older_than = whole("olderThan", wanted.older_than.as_deref(), 0, i64::MAX)?;
    Ok(InboxQuery {
        kind: wanted.kind.as_deref().map(kind_named).transpose()?,
        run: wanted.run.as_deref().map(run_named).transpose()?,
        workflow: wanted.workflow_id,
        approver,
        title: wanted.title,
        until: older_than.map(|ms| now.saturating_sub(ms)),
        after: wanted.cursor.as_deref().map(cursor).transpose()?,
        ..InboxQuery::of(principal.tenant, limit)
    })
}

/// Which open interrupts are meant.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "InterruptFilter")]
pub(crate) struct Narrowed {
    /// Only those about this.
    #[schemars(with = "Option<shape::InterruptKinds>")]
    #[serde(default)]
    pub(crate) kind: Option<String>,
    /// Only those of this run.
    #[schemars(with = "Option<shape::RunName>")]
    #[serde(default)]
    pub(crate) run: Option<String>,
    /// Only those of runs of this workflow.
    #[serde(default)]
    pub(crate) workflow_id: Option<String>,
    /// Only those of this node.
    #[serde(default)]
    pub(crate) node_id: Option<String>,
    /// Only those of runs with this label.
    #[serde(default)]
    pub(crate) tag: Option<String>,
    /// Only those that this principal may answer; those that name nobody are among them.
    #[serde(default)]
    pub(crate) approver: Option<String>,
    /// Only those with this in their title, in whatever case.
    #[serde(default)]
    pub(crate) title: Option<String>,
    /// Only those that have waited for so many milliseconds.
    #[serde(default)]
    pub(crate) older_than_ms: Option<u64>,
    /// The `nextCursor` of the page before.
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

/// A filter as the list is asked for it; nodes and labels are looked at afterwards.
pub(super) async fn narrowed(
    app: &App,
    filter: Narrowed,
    principal: &Principal,
    now: Millis,
) -> Result<InboxQuery> {
    let wanted = Wanted {
        kind: filter.kind,
        run: filter.run,
        workflow_id: filter.workflow_id,
        approver: filter.approver,
        title: filter.title,
        older_than: filter.older_than_ms.map(|ms| ms.to_string()),
        limit: None,
        cursor: filter.cursor,
    };
    asked(app, wanted, principal, now).await
}

fn whole(name: &str, text: Option<&str>, least: i64, most: i64) -> Result<Option<i64>> {
    let Some(text) = text else { return Ok(None) };
    let known = text.parse().ok().filter(|number| (least..=most).contains(number));
    let wrong = || ApiError::invalid(name, format!("'{name}' is a whole number from {least} to {most}"));
    known.map(Some).ok_or_else(wrong)
}

fn kind_named(name: &str) -> Result<InterruptKind> {
    InterruptKind::by_name(name).ok_or_else(|| {
        let known = InterruptKind::ALL.map(InterruptKind::name).join(", ");
        ApiError::invalid("kind", format!("'kind' is one of {known}"))
    })
}

fn run_named(name: &str) -> Result<RunId> {
    name.parse().map_err(|_| ApiError::invalid("run", "'run' is the id of a run: run-..."))
}

fn cursor(text: &str) -> Result<InboxCursor> {
    text.parse().map_err(|_| ApiError::invalid("cursor", "'cursor' is the nextCursor of the page before"))
}

fn entry(app: &App, row: InterruptRow, now: Millis) -> Entry {
    let open = row.open;
    Entry {
        interrupt_id: open.id,
        run_id: row.run,
        node_id: open.node.to_string(),
        workflow_id: row.workflow.to_string(),
        kind: open.kind,
        title: open.title,
        event_type: open.event_type,
        custom_kind: open.custom_kind,
        requested_at: time::rfc3339(open.requested_at),
        age_ms: now.saturating_sub(open.requested_at).max(0),
        deadline: open.deadline.map(time::rfc3339),
        approvers: open.approvers,
        quorum: open.headway.and_then(Votes::of),
        open_asks: open.headway.map(|headway| headway.asks).filter(|asks| *asks > 0),
        link: app.link(&format!("/inbox/{}/{}", row.run, open.id)),
    }
}
