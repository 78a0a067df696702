//! Artifacts: what the nodes of a run made.

use std::sync::Arc;

use abide_core::{Json as RawJson, RunId};
use abide_engine::Artifact;
use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mask;
use super::paging::Page;
use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::{shape, time};

/// An artifact in a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ArtifactEntry {
    artifact_id: String,
    artifact_type: Arc<str>,
    node_id: Arc<str>,
    #[schemars(with = "shape::Moment")]
    created_at: String,
    /// Where its event stands in the journal.
    sequence: u64,
}

/// A page of artifacts, oldest first.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Artifacts {
    artifacts: Vec<ArtifactEntry>,
    /// Where the next page begins, if there is one.
    next_cursor: Option<String>,
}

/// An artifact with what it holds.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactDoc {
    artifact_id: String,
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    node_id: Arc<str>,
    artifact_type: Arc<str>,
    #[schemars(with = "shape::Moment")]
    created_at: String,
    /// The outputs of the node, without what is sensitive.
    #[schemars(with = "shape::Anything")]
    data: RawJson,
}

/// What a run made so far, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    page: Page,
) -> Result<Json<Artifacts>> {
    let key = run.of(&principal)?;
    let from = page.after.map_or(0, |after| after.saturating_add(1));
    let mut found = app.engine().artifacts(key, from, page.limit + 1).await?;
    let next_cursor = page.cut(&mut found, |artifact| artifact.sequence);
    Ok(Json(Artifacts { artifacts: found.into_iter().map(entry).collect(), next_cursor }))
}

fn entry(artifact: Artifact) -> ArtifactEntry {
    ArtifactEntry {
        artifact_id: artifact.created.artifact_id,
        artifact_type: artifact.created.artifact_type,
        node_id: artifact.created.node_id,
        created_at: time::rfc3339(artifact.at),
        sequence: artifact.sequence,
    }
}

/// One artifact.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    path: ArtifactPath,
) -> Result<Json<ArtifactDoc>> {
    let key = RunPath::named(path.run_id).of(&principal)?;
    let Some((artifact, content)) = app.engine().artifact(key, &path.artifact_id).await? else {
        let message = format!("{} has no artifact with this id; list its artifacts", key.id);
        return Err(ApiError::new("artifact_not_found", message));
    };
    Ok(Json(ArtifactDoc {
        artifact_id: artifact.created.artifact_id,
        run_id: key.id,
        node_id: artifact.created.node_id,
        artifact_type: artifact.created.artifact_type,
        created_at: time::rfc3339(artifact.at),
        data: mask::object(&content.outputs, &content.masked),
    }))
}

/// The run and the artifact that a path names. What is not even text names nothing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactPath {
    run_id: String,
    artifact_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for ArtifactPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<Self>::from_request_parts(parts, state).await;
        let nothing =
            |_| ApiError::new("artifact_not_found", "the path names no artifact; list the run's artifacts");
        path.map(|Path(path)| path).map_err(nothing)
    }
}
