//! Forks: runs that begin with the events of another one, and how the events of two runs differ.

use std::sync::Arc;

use abide_core::fork::Overlay;
use abide_core::limits::{TAG_CHARS_MAX, TAGS_MAX};
use abide_core::{Difference, ForkMode, Json as RawJson, JsonMap, Run, RunId, Spot};
use abide_engine::{ForkCounts, NewFork};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control::encoded;
use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::gate::check_scope;
use crate::idempotency::{Repeatable, once};
use crate::scope::Scope;
use crate::{limits, shape};

/// A fork to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ForkRun {
    /// The event before which the two are the same. A replay begins with the first one unless told; a branch has to be
    /// told.
    from_seq: Option<u64>,
    /// What the fork is for.
    mode: Mode,
    /// What is other about a branch.
    #[serde(default)]
    run_options_overlay: RunOptions,
}

/// What a fork is for.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ForkMode")]
pub(crate) enum Mode {
    /// To see whether what was recorded comes out the same again. Nothing outside hears of it.
    Replay,
    /// To go on otherwise.
    Branch,
}

/// Options that take the place of those of the run that is forked.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RunOptionsOverlay")]
pub(crate) struct RunOptions {
    /// Options, one by one.
    #[schemars(with = "Option<shape::Object>")]
    configurable: Option<RawJson>,
    /// Labels, all of them.
    #[schemars(length(max = TAGS_MAX), inner(length(max = TAG_CHARS_MAX)))]
    tags: Option<Vec<String>>,
    /// Your own data, one by one.
    #[schemars(with = "Option<shape::Object>")]
    metadata: Option<RawJson>,
}

/// A fork that was made.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForkedRun {
    /// The fork.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// The run that it was forked off.
    #[schemars(with = "shape::RunName")]
    source_run_id: RunId,
    /// The event before which the two are the same.
    from_seq: u64,
    /// What it is for.
    mode: &'static str,
    /// How it stands.
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    /// Where its events are.
    events_url: String,
    /// How a replay came out.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<CameOut>,
}

/// How a replay came out.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CameOut {
    /// Events that were copied and not worked out again.
    copied: u64,
    /// Executions of nodes that were worked out again.
    executed_live: u64,
    /// Differences from what was recorded; each is an event `replay.diverged`, but for those beyond the hundredth.
    diverged: u64,
}

/// Forks a run. The answer comes when the fork is on disk.
pub(crate) async fn fork(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<ForkRun>,
) -> Result<Response> {
    check_scope(&principal, Scope::RunsRead)?;
    let source = run.of(&principal)?;
    let overlay = overlay(body.run_options_overlay)?;
    let (mode, from_seq) = match (body.mode, body.from_seq) {
        (Mode::Replay, _) if !overlay.is_empty() => {
            let message =
                "a replay is of the run as it was; leave 'runOptionsOverlay' out, or use mode 'branch'";
            return Err(ApiError::invalid("runOptionsOverlay", message));
        }
        (Mode::Replay, from) => (ForkMode::Replay, from.unwrap_or(0)),
        (Mode::Branch, Some(from)) => (ForkMode::Branch, from),
        (Mode::Branch, None) => {
            let message =
                "'fromSeq' says from which event on a branch goes its own way; `abide run events` shows them";
            return Err(ApiError::invalid("fromSeq", message));
        }
    };
    let trace = abide_engine::trace::current();
    let asked = NewFork { source, mode, from_seq, overlay, by: Some(principal.name), trace };
    let work = {
        let app = app.clone();
        move |blank| async move {
            let answer = |run: &Run, counts| encoded(&forked(run, counts));
            Ok(app.engine().fork_for(asked, blank, answer).await?)
        }
    };
    let endpoint = format!("forkRun {}", source.id);
    once(&app, principal.tenant, endpoint, ticket, StatusCode::CREATED, work).await
}

fn overlay(given: RunOptions) -> Result<Overlay> {
    let object = |field: &str, value: Option<RawJson>| {
        let read = value.map(|value| value.parse::<JsonMap>()).transpose();
        read.map_err(|_| {
            let field = format!("runOptionsOverlay.{field}");
            let message = format!("'{field}' must be an object");
            ApiError::invalid(&field, message)
        })
    };
    Ok(Overlay {
        configurable: object("configurable", given.configurable)?,
        metadata: object("metadata", given.metadata)?,
        tags: given.tags,
    })
}

fn forked(run: &Run, counts: ForkCounts) -> ForkedRun {
    let id = run.key().id;
    let from = run.forked();
    let replay = run.is_replay().then_some(CameOut {
        copied: counts.copied,
        executed_live: counts.executed,
        diverged: counts.diverged,
    });
    ForkedRun {
        run_id: id,
        source_run_id: from.map_or(id, |from| from.run),
        from_seq: from.map_or(0, |from| from.from_seq),
        mode: from.map_or(ForkMode::Branch, |from| from.mode).name(),
        status: run.status().openwop_name(),
        events_url: format!("/v1/runs/{id}/events"),
        replay,
    }
}

/// Which run to compare with, and which part of the differences to show.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Against {
    /// The other run.
    #[schemars(with = "shape::RunName")]
    against: String,
    /// How many differences at most; 100 unless told.
    #[schemars(with = "usize", range(min = 1, max = limits::LIST_ENTRIES_MAX))]
    #[serde(default)]
    limit: Option<String>,
    /// The `nextCursor` of the page before.
    #[schemars(with = "usize")]
    #[serde(default)]
    cursor: Option<String>,
}

/// How the events of two runs differ.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// The one that it is compared with.
    #[schemars(with = "shape::RunName")]
    against: RunId,
    /// Nothing differs.
    equal: bool,
    /// How many events are the same in both.
    same: u64,
    /// How many are not.
    different: usize,
    /// What differs first.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<OneDifference>,
    /// What differs, in the order of the events.
    differences: Vec<OneDifference>,
    /// What to ask for the next page with; null on the last one.
    next_cursor: Option<String>,
}

/// An event that is not the same in both runs.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunDifference")]
pub(crate) struct OneDifference {
    /// `changed`, or which run alone has it: `only-in-run`, `only-in-against`.
    kind: &'static str,
    /// The event of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Place>,
    /// The event of the other run.
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Place>,
    /// Where in what they say they differ, as JSON pointers; some of them, if they are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<String>,
}

/// Where an event stands.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EventPlace")]
struct Place {
    sequence: u64,
    /// What happened, in the journal's words.
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    /// Which execution of the node it happened to; left out for what happened to the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<u32>,
}

/// Compares the events of two runs.
pub(crate) async fn compare(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    query: std::result::Result<Query<Against>, QueryRejection>,
) -> Result<Json<Comparison>> {
    let key = run.of(&principal)?;
    // A run that is not there is told before anything else is.
    app.engine().read(key, |_| ()).await?;
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let (limit, from) = paging(&query)?;
    let other = RunPath::named(query.against).of(&principal)?;
    let found = app.engine().diff(key, other).await?;
    let different = found.differences.len();
    let more = different > from.saturating_add(limit);
    let page = found.differences.iter().skip(from).take(limit);
    Ok(Json(Comparison {
        run_id: key.id,
        against: other.id,
        equal: different == 0,
        same: found.same,
        different,
        first: found.differences.first().map(difference),
        differences: page.map(difference).collect(),
        next_cursor: more.then(|| (from + limit).to_string()),
    }))
}

fn paging(query: &Against) -> Result<(usize, usize)> {
    let limit = query.limit.as_deref().map_or(Ok(limits::LIST_ENTRIES_DEFAULT), |limit| {
        let known = limit.parse().ok().filter(|limit| (1..=limits::LIST_ENTRIES_MAX).contains(limit));
        known.ok_or_else(|| {
            let message = format!("'limit' is a number from 1 to {}", limits::LIST_ENTRIES_MAX);
            ApiError::invalid("limit", message)
        })
    })?;
    let from = query.cursor.as_deref().map_or(Ok(0), str::parse);
    let from =
        from.map_err(|_| ApiError::invalid("cursor", "'cursor' is the nextCursor of the page before"))?;
    Ok((limit, from))
}

fn difference(found: &Difference) -> OneDifference {
    let kind = match (&found.first, &found.second) {
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "only-in-run",
        _ => "only-in-against",
    };
    let (run, against) = (found.first.as_ref().map(place), found.second.as_ref().map(place));
    OneDifference { kind, run, against, paths: found.paths.clone() }
}

fn place(spot: &Spot) -> Place {
    Place {
        sequence: spot.sequence,
        r#type: spot.event,
        node_id: spot.node.as_ref().map(ToString::to_string),
        execution: spot.node.as_ref().map(|_| spot.execution).filter(|&execution| execution > 0),
    }
}
