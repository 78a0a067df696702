//! Is it alive, and should it get traffic?

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::error::{ApiError, Result};
use crate::limits::READY_PATIENCE;

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

/// The store answers, the server is not shutting down, and if there are others on the store, they count it as alive.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Ready>> {
    if app.engine().is_draining() {
        return Err(abide_engine::Error::Draining.into());
    }
    if app.cluster().is_some_and(|cluster| !cluster.view().borrow().is_current()) {
        return Err(ApiError::store_away("this server's lease has run out"));
    }
    let look = app.engine().store().test_clock();
    // A store waits for a database that is away; whoever spreads requests over servers should not.
    let Ok(answer) = tokio::time::timeout(READY_PATIENCE, look).await else {
        return Err(ApiError::store_away("it does not answer"));
    };
    answer.map_err(abide_engine::Error::from)?;
    Ok(Json(Ready { status: "ready", version: env!("CARGO_PKG_VERSION") }))
}
