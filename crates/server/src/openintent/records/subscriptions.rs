//! What somebody wants to hear of an intent or a portfolio. It is heard on the streams, and kept here as a record. What is
//! to be sent to a URL is a webhook that is about this one.

use std::sync::Arc;

use abide_core::{Key, Permission, RunId};
use abide_store::{About, SUBSCRIPTION, WebhookKey, WebhookRow};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kept, New, all, check, get, keep, named, unfit};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::gate::check_scope;
use crate::limits;
use crate::openintent::asking::{Asked, Asking, Body, Path};
use crate::openintent::intents::of_body;
use crate::openintent::words;
use crate::openwop::webhooks::{check_url, new_key, put};
use crate::scope::Scope;
use crate::webhooks::Signer;

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

/// A subscription as it is shown, be it a record or a webhook.
struct Shown<'a> {
    id: String,
    of: RunId,
    group: bool,
    subscriber: &'a str,
    types: Value,
    url: Option<&'a str>,
    until: Option<i64>,
    at: i64,
    /// Its receiver is tried no more.
    failed: bool,
}

impl<'a> Shown<'a> {
    fn record(kept: &'a Kept) -> Self {
        Self {
            id: kept.id(),
            of: kept.key.id,
            group: kept.text("of") == Some("portfolio"),
            subscriber: kept.text("subscriber_id").unwrap_or(&kept.by),
            types: kept.body["event_types"].clone(),
            url: None,
            until: kept.body["expires_at"].as_i64(),
            at: kept.at,
            failed: false,
        }
    }

    fn webhook(row: &'a WebhookRow, about: &'a About) -> Self {
        Self {
            id: row.key.id.to_string(),
            of: about.run,
            group: about.group,
            subscriber: &about.subscriber,
            types: json!(row.types),
            url: Some(&row.url),
            until: about.until,
            at: row.created_at,
            failed: row.health.failed,
        }
    }

    fn to_json(&self, now: i64) -> Value {
        let of = |group: bool| (self.group == group).then(|| words::id(self.of));
        json!({
            "id": self.id,
            "intent_id": of(false),
            "portfolio_id": of(true),
            "subscriber_id": self.subscriber,
            "event_types": self.types,
            "webhook_url": self.url,
            "active": !self.failed && self.until.is_none_or(|end| now < end),
            "expires_at": self.until.map(words::moment),
            "expiresAt": self.until.map(words::moment),
            "created_at": words::moment(self.at),
            "createdAt": words::moment(self.at),
        })
    }
}

/// What is meant, and whether that is a portfolio.
async fn meant(
    app: &App,
    principal: &Principal,
    agent: &str,
    (intent, portfolio): (Option<&String>, Option<&String>),
) -> Result<(Key, bool)> {
    match (intent, portfolio) {
        (Some(intent), None) => {
            let key = words::intent_key(intent, principal)?;
            check(app, key, agent, Permission::Read).await?;
            Ok((key, false))
        }
        (None, Some(portfolio)) => {
            let key = words::portfolio_key(portfolio, principal)?;
            let is_group = app.engine().read(key, |run| run.group().is_some()).await;
            match is_group {
                Ok(true) => Ok((key, true)),
                Ok(false) | Err(abide_engine::Error::RunNotFound(_)) => {
                    Err(ApiError::new("group_not_found", "there is no such portfolio"))
                }
                Err(error) => Err(error.into()),
            }
        }
        _ => Err(unfit("intent_id", "name either an 'intent_id' or a 'portfolio_id'")),
    }
}

/// Keeps what somebody wants to hear of, and sends it from now on if there is a URL.
pub(crate) async fn subscribe(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Body(new): Body<NewSubscription>,
) -> Result<Json<Value>> {
    let of = (new.intent_id.as_ref(), new.portfolio_id.as_ref());
    let (key, group) = meant(&app, &principal, &actor.agent, of).await?;
    let until = new.expires_at.as_deref().map(|text| words::read_moment("expires_at", text));
    let until = until.transpose().map_err(of_body)?;
    let types = new.event_types.unwrap_or_default();
    if types.len() > limits::WEBHOOK_TYPES_MAX {
        let message = format!("name at most {} event types, or none for all", limits::WEBHOOK_TYPES_MAX);
        return Err(unfit("event_types", message));
    }
    let now = app.engine().clock().now();
    let Some(url) = new.webhook_url else {
        let body = json!({
            "of": if group { "portfolio" } else { "intent" },
            "subscriber_id": new.subscriber_id.unwrap_or_else(|| actor.agent.clone()),
            "event_types": types,
            "expires_at": until,
        });
        let kept = keep(&app, key, New::of(SUBSCRIPTION, &actor.agent, body)).await?;
        return Ok(Json(Shown::record(&kept).to_json(now)));
    };
    check_scope(&principal, Scope::WebhooksManage)?;
    check_url(&app, "webhook_url", &url).await?;
    let (webhook, secret) = (new_key(key.tenant), Signer::new_secret());
    // Whoever asks is who has to be let in for as long as anything is sent.
    let about = About { run: key.id, group, subscriber: actor.agent, until };
    let row = WebhookRow {
        sealed: app.signer().sealed(&webhook, &secret),
        key: webhook,
        url,
        types,
        tags: Vec::new(),
        fingerprint: Signer::fingerprint(&secret),
        created_at: now,
        created_by: Some(principal.name),
        health: abide_core::Health::default(),
        about: Some(about.clone()),
    };
    put(&app, row.clone(), limits::SUBSCRIPTIONS_MAX, None).await?;
    let mut shown = Shown::webhook(&row, &about).to_json(now);
    // It is shown this once.
    shown["secret"] = secret.into();
    Ok(Json(shown))
}

/// Of what subscriptions are wanted.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    intent_id: Option<String>,
    portfolio_id: Option<String>,
}

/// Who wants to hear of an intent or a portfolio, or of what whoever asks wants to hear; oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Value>> {
    let now = app.engine().clock().now();
    let of = (wanted.intent_id.as_ref(), wanted.portfolio_id.as_ref());
    let meant = match of {
        (None, None) => None,
        of => Some(meant(&app, &principal, &actor.agent, of).await?.0),
    };
    let records = match meant {
        Some(key) => all(&app, key, SUBSCRIPTION).await?,
        None => {
            let own = app.engine().records().subscriptions(
                principal.tenant,
                actor.agent.clone(),
                limits::RECORDS_MAX,
            );
            own.await?.iter().map(|(run, note)| Kept::read(run.of(principal.tenant), note)).collect()
        }
    };
    let webhooks = app.engine().store().webhooks();
    let rows = webhooks.subscriptions(principal.tenant, meant.map(|key| key.id)).await?;
    let sent = rows.iter().filter_map(|row| Some(Shown::webhook(row, row.about.as_ref()?)));
    let sent = sent.filter(|shown| meant.is_some() || shown.subscriber == actor.agent);
    let mut found: Vec<Shown<'_>> = records.iter().map(Shown::record).chain(sent).collect();
    found.sort_by_key(|shown| shown.at);
    Ok(Json(json!({ "subscriptions": found.iter().map(|shown| shown.to_json(now)).collect::<Vec<_>>() })))
}

/// Forgets what somebody wanted to hear of.
pub(crate) async fn unsubscribe(
    State(app): State<Arc<App>>,
    principal: Principal,
    Asking(actor): Asking,
    Path(id): Path<String>,
) -> Result<Response> {
    let missing = || ApiError::new("subscription_not_found", "there is no such subscription");
    let gone = match named(&id, &principal) {
        Some((key, sequence)) => {
            let kept = get(&app, key, SUBSCRIPTION, sequence).await?.ok_or_else(missing)?;
            let group = kept.text("of") == Some("portfolio");
            check_may_end(&app, key, (group, &kept.by), &actor.agent).await?;
            app.engine().records().remove(key, SUBSCRIPTION.to_owned(), sequence).await?
        }
        None => {
            let webhook = WebhookKey { tenant: principal.tenant, id: id.into() };
            let row = app.engine().store().webhooks().get(webhook.clone()).await?.map(|shown| shown.webhook);
            let about = row.and_then(|row| row.about).ok_or_else(missing)?;
            let key = about.run.of(principal.tenant);
            check_may_end(&app, key, (about.group, &about.subscriber), &actor.agent).await?;
            app.engine().delete_webhook(webhook).await?
        }
    };
    if gone { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(missing()) }
}

/// Whoever subscribed may always leave, also where they may not look any more.
async fn check_may_end(app: &App, key: Key, (group, by): (bool, &str), agent: &str) -> Result<()> {
    if by == agent || group { Ok(()) } else { check(app, key, agent, Permission::Write).await }
}
