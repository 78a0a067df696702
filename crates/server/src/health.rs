//! Is it alive, and should it get traffic?

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::error::Result;

/// The process answers.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Live {
    /// Always `ok`.
    status: &'static str,
}

/// The server takes requests.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ready {
    /// Always `ready`.
    status: &'static str,
    /// The version of this server.
    version: &'static str,
}

/// The process answers.
pub(crate) async fn live() -> Json<Live> {
    Json(Live { status: "ok" })
}

/// The store answers, and the server is not shutting down.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Ready>> {
    if app.engine().is_draining() {
        return Err(abide_engine::Error::Draining.into());
    }
    app.engine().store().test_clock().await.map_err(abide_engine::Error::from)?;
    Ok(Json(Ready { status: "ready", version: env!("CARGO_PKG_VERSION") }))
}
