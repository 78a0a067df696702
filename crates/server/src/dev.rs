//! The test clock, over HTTP. Only `abide dev --test-clock` has these routes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::{limits, shape, time};

/// How far to move the clock.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Advance {
    /// Milliseconds, forward.
    #[schemars(range(min = 0, max = limits::CLOCK_STEP_MS_MAX))]
    advance_ms: i64,
}

/// What time it is for the server.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Now {
    #[schemars(with = "shape::Moment")]
    now: String,
    /// The same in milliseconds since 1970.
    now_ms: i64,
}

/// What time it is.
pub(crate) async fn show(State(app): State<Arc<App>>, _: Principal) -> Json<Now> {
    Json(shown(app.engine().clock().now()))
}

/// Moves the clock forward.
pub(crate) async fn advance(
    State(app): State<Arc<App>>,
    _: Principal,
    JsonBody(body): JsonBody<Advance>,
) -> Result<Json<Now>> {
    if !(0..=limits::CLOCK_STEP_MS_MAX).contains(&body.advance_ms) {
        let message = format!("'advanceMs' is a number from 0 to {}", limits::CLOCK_STEP_MS_MAX);
        return Err(ApiError::invalid("advanceMs", message));
    }
    let clock =
        app.test_clock().ok_or_else(|| ApiError::new("not_found", "this server has no test clock"))?;
    let now = clock.advance(body.advance_ms).await.map_err(abide_engine::Error::from)?;
    Ok(Json(shown(now)))
}

fn shown(now: abide_core::Millis) -> Now {
    Now { now: time::rfc3339(now), now_ms: now }
}
