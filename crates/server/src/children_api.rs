//! Children that somebody has a run start, below its node that is done by hand.

use std::sync::Arc;

use abide_core::{JsonMap, Run};
use abide_engine::AskedChild;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;
use crate::graph_api::dependency;
use crate::idempotency::{Repeatable, once};
use crate::openwop::control::encoded;
use crate::openwop::runs::{RunPath, created};
use crate::shape;

/// A child to be started.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddChild {
    /// Which workflow.
    #[schemars(length(min = 1, max = 128))]
    workflow_id: String,
    /// What goes in.
    #[serde(default)]
    #[schemars(with = "shape::Object")]
    inputs: JsonMap,
    /// Runs that have to complete before any node of it starts.
    #[serde(default)]
    #[schemars(with = "Vec<shape::RunName>")]
    depends_on: Vec<String>,
    /// Nothing starts until somebody activates it.
    #[serde(default)]
    draft: bool,
}

/// Has a run start a child. The answer comes when the parent is bound to wait for it.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<AddChild>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let asked = AskedChild {
        workflow_id: body.workflow_id,
        inputs: body.inputs,
        depends_on: body.depends_on.iter().map(|name| dependency(name)).collect::<Result<_>>()?,
        draft: body.draft,
        by: Some(principal.name),
        actor: None,
    };
    let work = {
        let app = app.clone();
        move |blank| async move {
            let answer = |child: &Run| encoded(&created(child));
            Ok(app.engine().add_child(key, asked, blank, answer).await?)
        }
    };
    let endpoint = format!("addChild {}", key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::CREATED, work).await
}
