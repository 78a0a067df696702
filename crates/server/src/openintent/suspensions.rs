//! What intents wait for: answered, asked in one go, taken back, listed.

use std::sync::Arc;

use abide_core::{
    Answerer, IntentCommand, InterruptId, Json as RawJson, JsonMap, Key, Millis, Run, Suspended,
};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asking::{Asking, Body, Path};
use super::intents::{decide, of_body, seen};
use super::parts::unfit;
use super::words;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::openwop::interrupts::{Given, Way, resolve};
use crate::scope::Scope;

/// An answer.
#[derive(Deserialize)]
pub(crate) struct RespondBody {
    #[serde(default)]
    suspension_id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    value: Option<RawJson>,
    #[serde(default)]
    responded_by: Option<String>,
    #[serde(default)]
    metadata: Option<RawJson>,
}

fn given<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(from).map(Some)
}

/// What an answer is for.
struct Meant {
    id: InterruptId,
    value: RawJson,
    name: String,
    choices: Vec<JsonMap>,
}

fn meant(run: &Run, name: &str, value: RawJson) -> std::result::Result<Meant, abide_core::Rejection> {
    let (id, value) = run.answered_by_name(name, value)?;
    let open = run.check_open_interrupt(id)?;
    let seen = run.seen_as(open);
    let choices = if seen.declared { seen.choices } else { Vec::new() };
    Ok(Meant { id, value, name: run.suspension_id(open), choices })
}

/// Answers what an intent waits for. The answer is on disk before it is acknowledged.
pub(crate) async fn respond(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(body): Body<RespondBody>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let name = body.suspension_id.filter(|name| !name.is_empty()).ok_or_else(|| {
        let detail = json!("suspension_id is required");
        ApiError::invalid("suspension_id", "suspension_id is required")
            .with("detail", detail)
            .under(StatusCode::UNPROCESSABLE_ENTITY)
    })?;
    let value = body.value.unwrap_or_else(|| RawJson::of(&()));
    let asked = seen(&app, key, &actor.agent, |run| meant(run, &name, value.clone())).await??;
    // A name that somebody only gives is one if their key may speak for others.
    let named = body.responded_by.filter(|by| !by.is_empty() && principal.act_as);
    let by = named.unwrap_or_else(|| principal.name.clone());
    let remarks = body.metadata.filter(|remarks| remarks.type_name() == "object");
    let answerer = Answerer { may_act_for_others: principal.act_as, remarks, ..Answerer::of(&by) };
    let may_force = principal.scopes.allow(Scope::RunsForce);
    let roles = if by == principal.name { principal.roles } else { Vec::new() };
    let given =
        Given { key, id: asked.id, value: asked.value, by: answerer, roles, may_force, way: Way::Key };
    resolve(&app, given, None).await.map_err(unfit_answer)?;
    let at = recorded_at(&app, key, &actor.agent, asked.id).await?;
    let choice = asked.choices.iter().find(|choice| choice.get("value") == Some(&value));
    let mut answered = json!({
        "intent_id": words::id(key.id),
        "suspension_id": asked.name,
        "resolution": "responded",
        "value": serde_json::to_value(&value).unwrap_or_default(),
        "responded_by": by,
        "responded_at": words::moment(at),
    });
    for (from, to) in [("label", "choice_label"), ("description", "choice_description")] {
        if let Some(text) = choice.and_then(|choice| choice.get(from)) {
            answered[to] = serde_json::to_value(text).unwrap_or_default();
        }
    }
    Ok(Json(answered))
}

/// When the answer to a question was recorded.
async fn recorded_at(app: &App, key: Key, agent: &str, id: InterruptId) -> Result<Millis> {
    let known = seen(app, key, agent, |run| run.closed_at(id)).await?;
    Ok(known.unwrap_or_else(|| app.engine().clock().now()))
}

/// An answer that does not fit is a value that does not fit.
fn unfit_answer(error: ApiError) -> ApiError {
    of_body(error)
}

/// Why somebody suspends an intent. It stands beside the record and is no part of it.
fn reason(given: Option<RawJson>) -> Result<Option<String>> {
    let Some(given) = given.filter(|given| given.type_name() != "null") else { return Ok(None) };
    let text = given.parse::<String>().map_err(|_| unfit("reason", "'reason' is a text"))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Has people asked, in one go: the intent is suspended with the record, or nothing happens.
pub(crate) async fn suspend(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(mut record): Body<JsonMap>,
) -> Result<Response> {
    let key = words::intent_key(&intent, &principal)?;
    let unnamed = record.get("id").is_none_or(|id| id.type_name() == "null");
    if unnamed {
        record.insert("id".to_owned(), RawJson::of(&uuid::Uuid::new_v4().to_string()));
    }
    let reason = reason(record.remove("reason"))?;
    let record = RawJson::of(&record);
    decide(&app, key, IntentCommand::Suspend { record, reason, actor }).await.map_err(of_body)
}

/// What is taken back.
#[derive(Deserialize)]
pub(crate) struct CancelBody {
    suspension_id: String,
}

/// Takes back what an intent waits for; it goes on without an answer.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
    Body(body): Body<CancelBody>,
) -> Result<Response> {
    let key = words::intent_key(&intent, &principal)?;
    decide(&app, key, IntentCommand::CancelSuspension { id: body.suspension_id, actor })
        .await
        .map_err(of_body)
}

/// What an intent waits for.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(intent): Path<String>,
) -> Result<Json<Value>> {
    let key = words::intent_key(&intent, &principal)?;
    let waits = seen(&app, key, &actor.agent, Run::suspended).await?;
    let shown = |Suspended { record, .. }: Suspended| RawJson::of(&record);
    let suspensions: Vec<RawJson> = waits.map(shown).into_iter().collect();
    Ok(Json(json!({ "intent_id": words::id(key.id), "suspensions": suspensions })))
}
