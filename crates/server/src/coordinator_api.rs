//! Coordinators over HTTP: agents that look after a run or a group, under an exclusive lease.

use std::sync::Arc;

use abide_core::{Command, Coordinator, CoordinatorCommand, Registration, Run, RunId};
use abide_engine::Reply;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;
use crate::idempotency::{Repeatable, once};
use crate::openwop::control::encoded;
use crate::openwop::runs::RunPath;
use crate::{shape, time};

/// What somebody who coordinates a run does about their lease.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields, tag = "kind")]
pub(crate) enum Coordinate {
    /// To coordinate the run. Nobody else may then.
    Register {
        /// Who.
        #[schemars(length(min = 1, max = 256))]
        agent: String,
        /// Who is to look after it if they are not heard from.
        supervisor: Option<String>,
        /// What is done about what is suspended: `isolate`, `block_dependents` or `escalate`; `isolate` unless told.
        suspension_policy: Option<String>,
        /// How often they say that they are there; 60,000 unless told.
        heartbeat_interval_ms: Option<i64>,
    },
    /// To say that one is there.
    Heartbeat {
        /// Which lease.
        coordinator_id: String,
    },
    /// To have something else done about what is suspended.
    SetPolicy {
        /// Which lease.
        coordinator_id: String,
        /// `isolate`, `block_dependents` or `escalate`.
        suspension_policy: String,
    },
    /// To do nothing for now.
    Pause {
        /// Which lease.
        coordinator_id: String,
        /// Why.
        reason: Option<String>,
    },
    /// To be there again.
    Resume {
        /// Which lease.
        coordinator_id: String,
    },
    /// To be done.
    Complete {
        /// Which lease.
        coordinator_id: String,
    },
    /// To take somebody's place.
    TakeOver {
        /// Which lease.
        coordinator_id: String,
        /// Who does.
        #[schemars(length(min = 1, max = 256))]
        agent: String,
    },
}

/// A lease of somebody who coordinates a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Coordinator")]
pub(crate) struct LeaseView {
    /// The lease.
    coordinator_id: String,
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    supervisor: Option<String>,
    /// `isolate`, `block_dependents` or `escalate`.
    suspension_policy: &'static str,
    /// `active`, `paused`, `unresponsive`, `failed_over` or `completed`.
    status: &'static str,
    heartbeat_interval_ms: i64,
    #[schemars(with = "shape::Moment")]
    last_heartbeat: String,
    #[schemars(with = "shape::Moment")]
    granted_at: String,
}

/// The leases of those who coordinate a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Coordinators")]
pub(crate) struct LeasesView {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    /// The one that somebody has, and the last that somebody had.
    coordinators: Vec<LeaseView>,
}

impl Coordinate {
    fn read(self) -> CoordinatorCommand {
        match self {
            Self::Register { agent, supervisor, suspension_policy, heartbeat_interval_ms } => {
                CoordinatorCommand::Register(Registration {
                    agent,
                    supervisor,
                    suspension_policy,
                    heartbeat_interval_ms,
                    expires_at: None,
                    metadata: None,
                })
            }
            Self::Heartbeat { coordinator_id: id } => CoordinatorCommand::Heartbeat { id },
            Self::SetPolicy { coordinator_id: id, suspension_policy } => {
                CoordinatorCommand::SetPolicy { id, suspension_policy }
            }
            Self::Pause { coordinator_id: id, reason } => CoordinatorCommand::Pause { id, reason },
            Self::Resume { coordinator_id: id } => CoordinatorCommand::Resume { id },
            Self::Complete { coordinator_id: id } => CoordinatorCommand::Complete { id },
            Self::TakeOver { coordinator_id: id, agent } => CoordinatorCommand::TakeOver { id, agent },
        }
    }
}

fn view(run: &Run) -> LeasesView {
    LeasesView { run_id: run.key().id, coordinators: leases(run) }
}

/// The leases of a run.
pub(crate) fn leases(run: &Run) -> Vec<LeaseView> {
    run.coordinators().map(|(id, lease)| lease_view(id, lease)).collect()
}

fn lease_view(id: &str, lease: &Coordinator) -> LeaseView {
    LeaseView {
        coordinator_id: id.to_owned(),
        agent: lease.agent.clone(),
        supervisor: lease.supervisor.clone(),
        suspension_policy: lease.suspension_policy.name(),
        status: lease.status.name(),
        heartbeat_interval_ms: lease.heartbeat_interval_ms,
        last_heartbeat: time::rfc3339(lease.last_heartbeat),
        granted_at: time::rfc3339(lease.granted_at),
    }
}

/// Who coordinates a run.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
) -> Result<Json<LeasesView>> {
    let key = run.of(&principal)?;
    Ok(Json(app.engine().read(key, view).await?))
}

/// Does something about the lease of whoever coordinates a run.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<Coordinate>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let command = Command::Coordinator(Box::new(body.read()));
    let work = {
        let app = app.clone();
        move |blank| async move {
            let reply = Reply::new(blank, |run: &Run| encoded(&view(run)));
            Ok(app.engine().ask_for(key, &command, reply).await?)
        }
    };
    let endpoint = format!("coordinate {}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::OK, work).await
}
