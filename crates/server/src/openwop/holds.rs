//! Holds by people: a run that works or waits is held, and let go on.
//!
//! A pause of OpenWOP is refused while a run waits; a hold is not. Both are shown as `paused`, and `hold` tells more.

use std::sync::Arc;

use abide_core::event::{Held, Released};
use abide_core::{Command, Hold, HoldMode, Run, RunId};
use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control::{Because, NOT_HELD, NOT_HOLDABLE, change_hold, encoded};
use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;
use crate::idempotency::Repeatable;
use crate::{shape, time};

/// What a hold does about the times of a run's questions.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// They go on: people are reminded, and what nobody answers ends at its time.
    Pause,
    /// They stand still, and go on from there when the run is released.
    Stop,
}

/// How to hold a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldRun {
    /// `pause`: no node starts. `stop`: nor does anything about its questions run out.
    mode: Mode,
    /// Why, in your own words.
    reason: Option<String>,
}

/// What holds a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunHold")]
pub(crate) struct Shown<'a> {
    /// `pause`, `stop`, or `resume_escalated` if a person has to decide how an interrupted run goes on.
    mode: &'static str,
    /// Since when.
    #[schemars(with = "shape::Moment")]
    since: String,
    /// Who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    /// Why, in their words.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// A run that is held.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeldRun<'a> {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// Always `paused`.
    status: &'static str,
    /// How, since when, by whom and why.
    hold: Option<Shown<'a>>,
}

/// A run that goes on.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleasedRun {
    /// The run.
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// How it stands then.
    #[schemars(with = "shape::RunStatus")]
    status: &'static str,
    /// When it was released.
    #[schemars(with = "shape::Moment")]
    released_at: String,
}

/// Holds a run.
pub(crate) async fn hold(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<HoldRun>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let mode = match body.mode {
        Mode::Pause => HoldMode::Pause,
        Mode::Stop => HoldMode::Stop,
    };
    let command = Command::Hold(Held { mode, reason: body.reason, by: Some(principal.name) });
    change_hold(&app, key, command, ticket, ("holdRun", NOT_HOLDABLE), |run| encoded(&held(run))).await
}

fn held(run: &Run) -> HeldRun<'_> {
    HeldRun { run_id: run.key().id, status: run.status().openwop_name(), hold: shown(run) }
}

/// Lets a held run go on.
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<Because>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let command = Command::Release(Released { by: Some(principal.name), reason: body.reason });
    change_hold(&app, key, command, ticket, ("releaseRun", NOT_HELD), |run| encoded(&released(run))).await
}

fn released(run: &Run) -> ReleasedRun {
    let (status, released_at) = (run.status().openwop_name(), time::rfc3339(run.head().at));
    ReleasedRun { run_id: run.key().id, status, released_at }
}

/// What holds a run, in the words of whoever holds it; `None` if nothing does.
pub(crate) fn shown(run: &Run) -> Option<Shown<'_>> {
    let mode = held_as(run)?;
    let holder = run.holder();
    Some(Shown {
        mode,
        since: time::rfc3339(run.paused_at().unwrap_or(run.head().at)),
        by: holder.and_then(|holder| holder.by.as_deref()),
        reason: holder.and_then(|holder| holder.reason.as_deref()),
    })
}

/// How a run is held. One that waits for work in flight to be paused is not yet.
pub(crate) fn held_as(run: &Run) -> Option<&'static str> {
    match run.hold() {
        Hold::None | Hold::Pausing => None,
        Hold::Paused => Some(HoldMode::Pause.name()),
        Hold::Stopped => Some(HoldMode::Stop.name()),
        Hold::Escalated => Some("resume_escalated"),
    }
}
