//! What belongs to an intent and lies elsewhere.

use std::sync::Arc;

use abide_core::Permission;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kept, New, all, check, keep, no_such, object, of_intent, said};
use crate::app::App;
use crate::auth::Principal;
use crate::error::Result;
use crate::openintent::asking::{Asking, Body, Path};
use crate::openintent::words;

/// The kind of these records.
pub(in crate::openintent) const ATTACHMENT: &str = "attachment";

/// Something that belongs to an intent. Its clients call some of it by two names.
#[derive(Deserialize)]
pub(crate) struct NewAttachment {
    filename: Option<String>,
    #[serde(default, alias = "content_type")]
    mime_type: Option<String>,
    #[serde(default, alias = "size_bytes")]
    size: Option<u64>,
    #[serde(default, alias = "url")]
    storage_url: Option<String>,
    #[serde(default)]
    metadata: Option<Value>,
    #[serde(default)]
    uploaded_by: Option<String>,
}

fn shown(kept: &Kept) -> Value {
    json!({
        "id": kept.id(),
        "intent_id": kept.intent(),
        "filename": kept.body["filename"],
        "mime_type": kept.body["mime_type"],
        "size": kept.body["size"],
        "storage_url": kept.body["storage_url"],
        "metadata": kept.body["metadata"],
        "uploaded_by": kept.body["uploaded_by"],
        "created_at": words::moment(kept.at),
        "createdAt": words::moment(kept.at),
    })
}

/// Keeps where something lies that belongs to an intent.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(new): Body<NewAttachment>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let body = json!({
        "filename": said("filename", new.filename)?,
        "mime_type": new.mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
        "size": new.size.unwrap_or(0),
        "storage_url": said("storage_url", new.storage_url)?,
        "metadata": object("metadata", new.metadata)?,
        "uploaded_by": new.uploaded_by.unwrap_or_else(|| actor.agent.clone()),
    });
    check(&app, key, &actor.agent, Permission::Write).await?;
    Ok(Json(shown(&keep(&app, key, New::of(ATTACHMENT, &actor.agent, body)).await?)))
}

/// What belongs to an intent, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Read).await?;
    Ok(Json(Value::Array(all(&app, key, ATTACHMENT).await?.iter().map(shown).collect())))
}

/// Forgets where something lies.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path((intent, id)): Path<(String, String)>,
) -> Result<Response> {
    let key = words::intent_key(&intent, &principal)?;
    check(&app, key, &actor.agent, Permission::Write).await?;
    let sequence = of_intent(key, &id, &principal)?;
    if !app.engine().records().remove(key, ATTACHMENT.to_owned(), sequence).await? {
        return Err(no_such("such attachment"));
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}
