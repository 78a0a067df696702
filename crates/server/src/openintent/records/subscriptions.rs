//! What somebody wants to hear of an intent or a portfolio. It is heard on the streams; what is to be sent to a URL is
//! registered as a webhook.

use std::sync::Arc;

use abide_core::{Key, Permission};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kept, New, all, check, get, keep, named, unfit};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::openintent::asking::{Asked, Asking, Body};
use crate::openintent::intents::of_body;
use crate::openintent::words;

const SUBSCRIPTION: &str = "subscription";

/// What somebody wants to hear of.
#[derive(Deserialize)]
pub(crate) struct NewSubscription {
    #[serde(default)]
    intent_id: Option<String>,
    #[serde(default)]
    portfolio_id: Option<String>,
    #[serde(default)]
    subscriber_id: Option<String>,
    #[serde(default)]
    event_types: Option<Vec<String>>,
    #[serde(default)]
    webhook_url: Option<String>,
    #[serde(default)]
    expires_at: Option<String>,
}

fn shown(kept: &Kept, now: i64) -> Value {
    let expires_at = kept.body["expires_at"].as_i64();
    let of = |what: &str| kept.body["of"].as_str().filter(|of| *of == what).map(|_| kept.intent());
    json!({
        "id": kept.id(),
        "intent_id": of("intent"),
        "portfolio_id": of("portfolio"),
        "subscriber_id": kept.body["subscriber_id"],
        "event_types": kept.body["event_types"],
        "webhook_url": null,
        "active": expires_at.is_none_or(|end| now < end),
        "expires_at": expires_at.map(words::moment),
        "expiresAt": expires_at.map(words::moment),
        "created_at": words::moment(kept.at),
        "createdAt": words::moment(kept.at),
    })
}

/// What is meant: an intent, or a portfolio.
async fn meant(
    app: &App,
    principal: &Principal,
    agent: &str,
    (intent, portfolio): (Option<&String>, Option<&String>),
) -> Result<(Key, &'static str)> {
    match (intent, portfolio) {
        (Some(intent), None) => {
            let key = words::intent_key(intent, principal)?;
            check(app, key, agent, Permission::Read).await?;
            Ok((key, "intent"))
        }
        (None, Some(portfolio)) => {
            let key = words::portfolio_key(portfolio, principal)?;
            let is_group = app.engine().read(key, |run| run.group().is_some()).await;
            match is_group {
                Ok(true) => Ok((key, "portfolio")),
                Ok(false) | Err(abide_engine::Error::RunNotFound(_)) => {
                    Err(ApiError::new("group_not_found", "there is no such portfolio"))
                }
                Err(error) => Err(error.into()),
            }
        }
        _ => Err(unfit("intent_id", "name either an 'intent_id' or a 'portfolio_id'")),
    }
}

/// Keeps what somebody wants to hear of.
pub(crate) async fn subscribe(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Body(new): Body<NewSubscription>,
) -> Result<Json<Value>> {
    if new.webhook_url.is_some() {
        let message = "events are sent to a URL by a webhook: register it with POST /v1/webhooks, and leave 'webhook_url' \
                       out here";
        return Err(unfit("webhook_url", message));
    }
    let (key, of) =
        meant(&app, &principal, &actor.agent, (new.intent_id.as_ref(), new.portfolio_id.as_ref())).await?;
    let expires_at = new.expires_at.as_deref().map(|text| words::read_moment("expires_at", text));
    let body = json!({
        "of": of,
        "subscriber_id": new.subscriber_id.unwrap_or_else(|| actor.agent.clone()),
        "event_types": new.event_types.unwrap_or_default(),
        "expires_at": expires_at.transpose().map_err(of_body)?,
    });
    let kept = keep(&app, key, New::of(SUBSCRIPTION, &actor.agent, body)).await?;
    Ok(Json(shown(&kept, app.engine().clock().now())))
}

/// Of what subscriptions are wanted.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    intent_id: Option<String>,
    portfolio_id: Option<String>,
}

/// Who wants to hear of an intent or a portfolio, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Value>> {
    let of = (wanted.intent_id.as_ref(), wanted.portfolio_id.as_ref());
    let (key, _) = meant(&app, &principal, &actor.agent, of).await?;
    let now = app.engine().clock().now();
    let found = all(&app, key, SUBSCRIPTION).await?;
    Ok(Json(json!({ "subscriptions": found.iter().map(|kept| shown(kept, now)).collect::<Vec<_>>() })))
}

/// Forgets what somebody wanted to hear of.
pub(crate) async fn unsubscribe(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Response> {
    let missing = || ApiError::new("subscription_not_found", "there is no such subscription");
    let (key, sequence) = named(&id, &principal).ok_or_else(missing)?;
    let kept = get(&app, key, SUBSCRIPTION, sequence).await?.ok_or_else(missing)?;
    // Whoever subscribed may always leave, also where they may not look any more.
    if kept.by != actor.agent && kept.text("of") == Some("intent") {
        check(&app, key, &actor.agent, Permission::Write).await?;
    }
    if !app.engine().records().remove(key, SUBSCRIPTION.to_owned(), sequence).await? {
        return Err(missing());
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}
