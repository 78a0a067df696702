//! What others say has happened: it is given to whoever waits for it, or kept for those who will.

use std::sync::Arc;

use abide_core::{InterruptId, Json as RawJson, RunId};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::shape;

/// Something that happened elsewhere.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExternalEvent {
    /// What the sender knows it by. Telling it again does nothing.
    #[schemars(length(min = 1))]
    event_id: String,
    /// What happened.
    #[schemars(length(min = 1))]
    event_type: String,
    /// More about it. Those who wait are found by what is in here.
    #[schemars(with = "shape::Anything")]
    event_payload: RawJson,
}

/// What became of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReceivedEvent")]
pub(crate) struct Received {
    event_id: String,
    /// Those that waited for it and have it.
    delivered: Vec<Delivered>,
    /// Nobody waited for it, and it is kept for whoever asks for it next.
    kept: bool,
    /// It was told before.
    duplicate: bool,
}

/// Somebody who waited.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Delivered {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    node_id: String,
    #[schemars(with = "shape::InterruptName")]
    interrupt_id: InterruptId,
}

/// Takes in an event. It is on disk when this answers.
pub(crate) async fn receive(
    State(app): State<Arc<App>>,
    principal: Principal,
    JsonBody(body): JsonBody<ExternalEvent>,
) -> Result<(StatusCode, Json<Received>)> {
    let ExternalEvent { event_id, event_type, event_payload } = body;
    for (field, text) in [("eventId", &event_id), ("eventType", &event_type)] {
        if text.is_empty() {
            return Err(ApiError::invalid(field, format!("'{field}' is empty; name the event")));
        }
    }
    let (tenant, by) = (principal.tenant, principal.name);
    let received =
        app.engine().receive_event(tenant, event_id.clone(), event_type, event_payload, by).await?;
    let delivered: Vec<Delivered> = received
        .delivered
        .into_iter()
        .map(|to| Delivered { run_id: to.run_id, node_id: to.node_id, interrupt_id: to.interrupt_id })
        .collect();
    let status = if received.kept { StatusCode::ACCEPTED } else { StatusCode::OK };
    let (kept, duplicate) = (received.kept, received.duplicate);
    Ok((status, Json(Received { event_id, delivered, kept, duplicate })))
}
