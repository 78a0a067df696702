//! Is it alive, and should it get traffic?

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;
use crate::error::Result;

/// The process answers.
pub(crate) async fn live() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The store answers, and the server is not shutting down.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Value>> {
    if app.engine().is_draining() {
        return Err(abide_engine::Error::Draining.into());
    }
    app.engine().store().test_clock().await.map_err(abide_engine::Error::from)?;
    Ok(Json(json!({ "status": "ready", "version": env!("CARGO_PKG_VERSION") })))
}
