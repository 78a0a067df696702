//! Annotations: what people say about a run. They hold nothing up, and nothing waits for them.

use std::sync::Arc;

use abide_core::{Annotation, Key, RunId, Signal, Target};
use abide_engine::Annotated;
use abide_store::NewAnnotation;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control::encoded;
use super::events::doc::{ANNOTATED, annotated};
use super::paging::Page;
use super::runs::RunPath;
use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;
use crate::idempotency::{Repeatable, once};
use crate::{shape, time};

/// Something to say about a run.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Annotate {
    /// What is said.
    #[schemars(with = "NewSignalShape")]
    signal: Signal,
    /// An event or a node that it is about. Without either, it is about the run.
    #[serde(default)]
    #[schemars(with = "Option<TargetShape>")]
    target: Option<Target>,
    /// Anything more, in words.
    note: Option<String>,
}

/// What is said: its kind, and the field of that name. A flag has none.
#[derive(JsonSchema)]
#[schemars(rename = "NewSignal", deny_unknown_fields)]
#[expect(dead_code, reason = "it is the schema of the core's type, which knows of no schemas")]
struct NewSignalShape {
    kind: SignalKindShape,
    #[schemars(range(min = 1, max = 5))]
    rating: Option<i64>,
    #[schemars(length(min = 1, max = 256))]
    label: Option<String>,
    #[schemars(with = "shape::Anything")]
    #[serde(default)]
    correction: Option<()>,
}

/// What was said.
#[derive(JsonSchema)]
#[schemars(rename = "Signal")]
#[expect(dead_code, reason = "it is the schema of the core's type, which knows of no schemas")]
struct SignalShape {
    kind: SignalKindShape,
    #[schemars(range(min = 1, max = 5))]
    #[serde(skip_serializing_if = "Option::is_none")]
    rating: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[schemars(with = "shape::Anything")]
    #[serde(skip_serializing_if = "Option::is_none")]
    correction: Option<()>,
}

#[derive(JsonSchema)]
#[schemars(rename = "SignalKind", rename_all = "lowercase")]
#[expect(dead_code, reason = "it is the schema of the core's type, which knows of no schemas")]
enum SignalKindShape {
    Rating,
    Correction,
    Label,
    Flag,
}

/// What an annotation is about within its run.
#[derive(JsonSchema)]
#[schemars(rename = "AnnotationTarget", rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "it is the schema of the core's type, which knows of no schemas")]
struct TargetShape {
    event_id: Option<String>,
    node_id: Option<String>,
}

/// What somebody said about a run.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnnotationDoc {
    annotation_id: String,
    target: About,
    #[schemars(with = "SignalShape")]
    signal: Signal,
    actor: Actor,
    #[schemars(with = "shape::Moment")]
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// What an annotation is about.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct About {
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
}

/// Who made an annotation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Actor {
    principal_ref: String,
}

/// A page of annotations, oldest first.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Annotations {
    annotations: Vec<AnnotationDoc>,
    /// How many the run has in all.
    total: u64,
    /// Where the next page begins, if there is one.
    next_cursor: Option<String>,
}

/// Keeps an annotation of a run. The answer comes when it is on disk.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    Repeatable(body, ticket): Repeatable<Annotate>,
) -> Result<Response> {
    let key = run.of(&principal)?;
    let target = body.target.unwrap_or_default();
    let said = Annotation { id: String::new(), signal: body.signal, target, note: body.note };
    let work = {
        let app = app.clone();
        move |blank| async move {
            let mut said_so = None;
            let answer = |kept| encoded(said_so.insert(doc(key.id, kept)));
            let body = app.engine().annotate(key, said, Some(principal.name), blank, answer).await?;
            if let Some(annotation) = said_so {
                announce(&app, key, &annotation).await;
            }
            Ok(body)
        }
    };
    let endpoint = NewAnnotation::endpoint(key.id);
    once(&app, key.tenant, endpoint, ticket, StatusCode::CREATED, work).await
}

/// Tells whoever follows the run. It is on disk already, so whoever can't be told reads it there.
async fn announce(app: &App, key: Key, annotation: &AnnotationDoc) {
    let Ok(head) = app.engine().head(key).await else { return };
    let (id, at) = (&annotation.annotation_id, &annotation.created_at);
    match annotated(key.id, id, at, head.next.saturating_sub(1), annotation) {
        Ok(document) => app.announce(key, ANNOTATED, &document),
        Err(error) => tracing::error!(run = %key.id, error, "an annotation can't be told"),
    }
}

/// What was said about a run, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    page: Page,
) -> Result<Json<Annotations>> {
    let key = run.of(&principal)?;
    let (mut found, total) = app.engine().annotations(key, page.after, page.limit + 1).await?;
    let next_cursor = page.cut(&mut found, |kept| kept.sequence.unwrap_or_default());
    let annotations = found.into_iter().map(|kept| doc(key.id, kept)).collect();
    Ok(Json(Annotations { annotations, total, next_cursor }))
}

/// The first things that were said about a run.
pub(super) async fn first(app: &App, key: Key, most: usize) -> Result<Vec<AnnotationDoc>> {
    let (found, _) = app.engine().annotations(key, None, most).await?;
    Ok(found.into_iter().map(|kept| doc(key.id, kept)).collect())
}

fn doc(run_id: RunId, kept: Annotated) -> AnnotationDoc {
    let Annotation { id, signal, target, note } = kept.annotation;
    AnnotationDoc {
        annotation_id: id,
        target: About { run_id, event_id: target.event_id, node_id: target.node_id },
        signal,
        actor: Actor { principal_ref: kept.by.unwrap_or_default() },
        created_at: time::rfc3339(kept.at),
        note,
    }
}
