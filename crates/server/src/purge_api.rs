//! Removing runs that have ended over HTTP, and the record of what was removed.

use std::sync::Arc;

use abide_core::{Millis, Status};
use abide_engine::{PurgeOrder, PurgePlace};
use abide_store::PurgeRow;
use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::page::{PageQuery, wrong_cursor};
use crate::{shape, time};

/// How a run can have ended.
const ENDED: [Status; 3] = [Status::Completed, Status::Failed, Status::Cancelled];

/// Which runs to remove. One of `olderThanMs` and `endedBefore` has to be there.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PurgeRuns {
    /// Runs that ended longer ago than this.
    #[schemars(range(min = 0))]
    older_than_ms: Option<i64>,
    /// Runs that ended before this.
    #[schemars(with = "Option<shape::Moment>")]
    ended_before: Option<String>,
    /// Only those of this workflow.
    workflow_id: Option<String>,
    /// Only those that ended so: `completed`, `failed`, `cancelled`. All of them unless told.
    statuses: Option<Vec<String>>,
    /// Remove nothing, and tell what would go.
    #[serde(default)]
    dry_run: bool,
    /// The `nextCursor` of the answer before.
    cursor: Option<String>,
}

/// What became of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PurgedRuns")]
pub(crate) struct Purged {
    /// Runs that are gone, or would be.
    runs: u64,
    /// Their events.
    events: u64,
    /// Runs that stay because one that they started has not ended, or not long enough ago.
    kept: u64,
    /// Only runs that ended before this were looked at.
    #[schemars(with = "shape::Moment")]
    ended_before: String,
    /// Nothing was removed.
    dry_run: bool,
    /// What to ask for the rest with, together with `endedBefore`; `null` if that was all.
    next_cursor: Option<String>,
}

/// Removes runs that have ended, a page of them.
pub(crate) async fn purge(
    State(app): State<Arc<App>>,
    principal: Principal,
    JsonBody(body): JsonBody<PurgeRuns>,
) -> Result<Json<Purged>> {
    let before = body.before(app.engine().clock().now())?;
    let statuses = body.statuses()?;
    let after = body.cursor.as_deref().map(place).transpose()?;
    let ended_before = time::rfc3339(before);
    let mut filter = json!({ "endedBefore": ended_before });
    filter["statuses"] = statuses.iter().map(|status| Value::from(status.name())).collect();
    if let Some(workflow) = &body.workflow_id {
        filter["workflowId"] = workflow.as_str().into();
    }
    let order = PurgeOrder {
        tenant: principal.tenant,
        workflow: body.workflow_id,
        statuses,
        before,
        after,
        dry_run: body.dry_run,
        by: Some(principal.name),
        filter: filter.to_string(),
    };
    let purged = app.engine().purge(order).await?;
    Ok(Json(Purged {
        runs: purged.runs,
        events: purged.events,
        kept: purged.kept,
        ended_before,
        dry_run: body.dry_run,
        next_cursor: purged.next.as_ref().map(cursor),
    }))
}

impl PurgeRuns {
    fn before(&self, now: Millis) -> Result<Millis> {
        match (self.older_than_ms, &self.ended_before) {
            (Some(ms), None) if ms >= 0 => Ok(now.saturating_sub(ms).max(0)),
            (Some(_), None) => {
                Err(ApiError::invalid("olderThanMs", "'olderThanMs' is a number of milliseconds, 0 or more"))
            }
            (None, Some(text)) => {
                let read: std::result::Result<jiff::Timestamp, _> = text.parse();
                read.map(jiff::Timestamp::as_millisecond).map_err(|_| {
                    let told = "'endedBefore' is a moment such as 2026-01-31T00:00:00Z";
                    ApiError::invalid("endedBefore", told)
                })
            }
            _ => {
                let told = "give one of 'olderThanMs' and 'endedBefore': nothing is removed whatever its age";
                Err(ApiError::invalid("olderThanMs", told))
            }
        }
    }

    fn statuses(&self) -> Result<Vec<Status>> {
        let Some(names) = &self.statuses else { return Ok(ENDED.to_vec()) };
        let known = |name: &String| Status::by_name(name).filter(|status| status.is_terminal());
        let told = || {
            ApiError::invalid(
                "statuses",
                "'statuses' lists some of completed, failed and cancelled: only runs that have ended can be removed",
            )
        };
        let statuses: Option<Vec<Status>> = names.iter().map(known).collect();
        statuses.filter(|statuses| !statuses.is_empty()).ok_or_else(told)
    }
}

fn cursor(place: &PurgePlace) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).expect("names and numbers serialise"))
}

fn place(cursor: &str) -> Result<PurgePlace> {
    let read = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    read.ok_or_else(wrong_cursor)
}

/// A page of the record.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PurgePage {
    /// Latest first.
    purges: Vec<PurgeView>,
    /// Where the next page begins; `null` on the last.
    next_cursor: Option<String>,
}

/// One time that runs were removed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PurgeView {
    /// Counted from 1.
    number: u64,
    /// When.
    #[schemars(with = "shape::Moment")]
    at: String,
    /// Who asked for it; left out if the runs were kept for as long as they should.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// What was asked for.
    #[schemars(with = "shape::Object")]
    filter: Value,
    /// How many runs went.
    runs: u64,
    /// How many events they had.
    events: u64,
}

/// What was removed, latest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: PageQuery,
) -> Result<Json<PurgePage>> {
    let before = query.cursor.as_deref().map(str::parse).transpose().map_err(|_| wrong_cursor())?;
    let rows = app.engine().purges(principal.tenant, before, query.limit() + 1).await?;
    let (page, next_cursor) = query.cut(rows.into_iter(), |row| row.number.to_string());
    Ok(Json(PurgePage { purges: page.into_iter().map(view).collect(), next_cursor }))
}

fn view(row: PurgeRow) -> PurgeView {
    let PurgeRow { number, at, by, filter, runs, events } = row;
    let filter = serde_json::from_str(&filter).unwrap_or_else(|_| json!({}));
    PurgeView { number, at: time::rfc3339(at), by, filter, runs, events }
}
