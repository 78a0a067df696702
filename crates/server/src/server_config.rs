//! What holds for the whole server, for clients to look at. It is set where the server is started, and only there.
//!
//! The names are OpenIntent's, whose client reads the same document under `/api/v1`.

use std::sync::Arc;

use abide_core::HumanRetryPolicy;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::retry_policy;

/// The version of OpenIntent whose documents these are.
const PROTOCOL_VERSION: &str = "0.1";

/// What holds for the whole server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ServerConfig {
    /// The version of OpenIntent.
    protocol_version: &'static str,
    /// About questions to people.
    suspension: SuspensionConfig,
}

/// What holds for questions to people.
#[derive(Serialize, JsonSchema)]
struct SuspensionConfig {
    /// How a question goes on that nobody answers, where neither it nor its agent says so. Only what the operator gave
    /// stands in it; `null` if that is nothing.
    #[schemars(with = "Option<retry_policy::HumanRetryPolicy>")]
    default_retry_policy: Option<HumanRetryPolicy>,
}

/// The configuration that clients may see.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Json<ServerConfig> {
    let suspension = SuspensionConfig { default_retry_policy: app.engine().platform_policy() };
    Json(ServerConfig { protocol_version: PROTOCOL_VERSION, suspension })
}
