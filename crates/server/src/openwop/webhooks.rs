//! Webhooks over HTTP: register, look, end; see what was given up and send it once more.

use std::sync::Arc;

use abide_core::{EventId, EventType, Gate, Json as RawJson, RunId, TenantId, hex};
use abide_store::{Added, DeliveryQuery, DeliveryRow, Receipt, Shown, WebhookKey, WebhookRow};
use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::runs::check_tenant;
use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::idempotency::{Repeatable, once};
use crate::webhooks::{Signer, delivery_id, parse_delivery_id};
use crate::{limits, time};

/// A webhook to be registered.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewWebhook {
    /// Where events are sent: https, and an address of the public internet.
    url: String,
    /// Names of event types, or `*` for all.
    #[schemars(length(min = 1))]
    events: Vec<String>,
    /// The key's own tenant, if it is named at all.
    tenant_id: Option<String>,
    /// Only runs that carry all of these.
    tags: Option<Vec<String>>,
    /// The secret that signs. One is made if none is given.
    #[schemars(with = "Option<String>")]
    secret: Option<RawJson>,
}

/// A webhook that was registered.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddedWebhook {
    /// The webhook.
    webhook_id: Arc<str>,
    /// The same, under the name that clients know.
    subscription_id: Arc<str>,
    /// Where events are sent.
    url: String,
    /// The secret that signs. It is shown this once.
    secret: String,
    /// Tells secrets apart: the first 16 hex digits of the secret's SHA-256.
    secret_fingerprint: String,
    /// Names of event types.
    event_types: Vec<String>,
    /// Only runs that carry all of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// When it was registered.
    created_at: String,
    /// Whose it is.
    tenant_id: String,
}

/// A webhook and how it does.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Webhook {
    /// The webhook.
    webhook_id: Arc<str>,
    /// The same, under the name that clients know.
    subscription_id: Arc<str>,
    /// Where events are sent.
    url: String,
    /// Tells secrets apart: the first 16 hex digits of the secret's SHA-256.
    secret_fingerprint: String,
    /// Names of event types.
    event_types: Vec<String>,
    /// Only runs that carry all of these.
    tags: Vec<String>,
    /// The one run or group that it is about, if it is: somebody subscribed to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    run_id: Option<RunId>,
    /// When it was registered.
    created_at: String,
    /// Who registered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    /// Whose it is.
    tenant_id: String,
    /// `active`, or `failed` if nothing is sent until somebody enables it.
    state: &'static str,
    /// `closed` if everything is sent, `open` if nothing is for a while, `half-open` if one delivery tries.
    breaker: &'static str,
    /// Until when the breaker is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_until: Option<String>,
    /// Attempts that failed since the last success.
    consecutive_failures: u32,
    /// When the first of them was.
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_since: Option<String>,
    /// Deliveries that arrived.
    delivered: u64,
    /// Runs with events on their way, and dead letters that are sent once more.
    pending: u64,
    /// Dead letters.
    dead: u64,
    /// Dead letters that were forgotten for want of room.
    dropped: u64,
}

/// A tenant's webhooks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WebhookList {
    /// By the time they were registered.
    webhooks: Vec<Webhook>,
}

/// Whose webhook it is.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OfTenant {
    /// The key's own tenant, if it is named at all.
    tenant_id: Option<String>,
}

/// Which deliveries to show.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeliveryListing {
    /// `pending`, or `dead` for those that were given up. `pending` if it is not said.
    state: Option<String>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// A page of deliveries.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryPage {
    /// By run and sequence. A run's later events are not shown: they follow the one that is.
    deliveries: Vec<Delivery>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// An event on its way to a webhook.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    /// The same for every attempt; receivers get it as X-openwop-Delivery-Id.
    delivery_id: String,
    /// Whose event.
    #[schemars(with = "String")]
    run_id: RunId,
    /// Which event.
    event_id: String,
    /// Its place in its journal.
    sequence: u64,
    /// Its type.
    event_type: &'static str,
    /// `pending` or `dead`.
    state: &'static str,
    /// Attempts so far.
    attempts: u32,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
    /// When it was tried last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_attempt_at: Option<String>,
    /// The status of the receiver's answer, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_status: Option<u16>,
    /// Why it did not arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// Which dead letters are to be sent once more.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Resend {
    /// Those; all of them, if it is left out.
    delivery_ids: Option<Vec<String>>,
}

/// What came of it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Resent {
    /// How many are on their way again.
    resent: u64,
}

/// Registers a webhook. Events that happen after the answer are sent.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    principal: Principal,
    Repeatable(body, ticket): Repeatable<NewWebhook>,
) -> Result<Response> {
    let (tenant, worker) = (principal.tenant, app.clone());
    let work = move |blank| async move { register(&worker, principal, body, blank).await };
    let done = once(&app, tenant, "registerWebhook".to_owned(), ticket, StatusCode::CREATED, work).await?;
    with_secret(&app, tenant, done).await
}

/// Registers a webhook, and gives what is answered with the secret sealed in it: that is what a receipt keeps.
async fn register(
    app: &App,
    principal: Principal,
    body: NewWebhook,
    blank: Option<Receipt>,
) -> Result<Vec<u8>> {
    check_tenant(app, &principal, body.tenant_id.as_deref()).await?;
    check_events(&body.events)?;
    let tags = body.tags.unwrap_or_default();
    check_tags(&tags)?;
    let secret = body.secret.map_or_else(|| Ok(Signer::new_secret()), |given| read_secret(&given))?;
    check_url(app, "url", &body.url).await?;
    let key = new_key(principal.tenant);
    let (now, fingerprint) = (app.engine().clock().now(), Signer::fingerprint(&secret));
    let answer = AddedWebhook {
        webhook_id: key.id.clone(),
        subscription_id: key.id.clone(),
        url: body.url.clone(),
        secret: hex(&app.signer().sealed_for_receipt(&key, &secret)),
        secret_fingerprint: fingerprint.clone(),
        event_types: body.events.clone(),
        tags: tags.clone(),
        created_at: time::rfc3339(now),
        tenant_id: principal.tenant_name.to_string(),
    };
    let answer = serde_json::to_vec(&answer).map_err(|error| ApiError::internal(&error))?;
    let row = WebhookRow {
        sealed: app.signer().sealed(&key, &secret),
        key,
        url: body.url,
        types: body.events,
        tags,
        fingerprint,
        created_at: now,
        created_by: Some(principal.name),
        health: abide_core::Health::default(),
        about: None,
    };
    let receipt = blank.map(|blank| Receipt { body: answer.clone(), at: now, ..blank });
    put(app, row, limits::WEBHOOKS_MAX, receipt).await?;
    Ok(answer)
}

/// What a new webhook is known by.
pub(crate) fn new_key(tenant: TenantId) -> WebhookKey {
    WebhookKey { tenant, id: format!("wh-{}", uuid::Uuid::now_v7().simple()).into() }
}

/// Refuses a URL that events can't be sent to.
pub(crate) async fn check_url(app: &App, field: &'static str, url: &str) -> Result<()> {
    app.engine().check_webhook_url(url).await.map_err(|reason| {
        ApiError::new("webhook_url_rejected", format!("events can't be sent to this URL: {reason}"))
            .with("field", field)
    })
}

/// Durably adds a webhook, unless there are so many of its kind.
pub(crate) async fn put(app: &App, row: WebhookRow, most: usize, receipt: Option<Receipt>) -> Result<()> {
    match app.engine().store().webhooks().put(row, most, receipt).await? {
        Added::Done => Ok(()),
        Added::Receipted => Err(abide_store::Error::Receipted.into()),
        Added::Full => {
            let message = format!("there are {most} webhooks of this kind already; remove one first");
            Err(ApiError::new("too_many", message).with("maxWebhooks", most))
        }
    }
}

/// The answer with the secret in it. It is opened again for each repetition, and lies nowhere as it is.
async fn with_secret(app: &App, tenant: TenantId, done: Response) -> Result<Response> {
    let internal = |what: &str| ApiError::internal(&format!("the answer to a registration {what}"));
    let (mut parts, body) = done.into_parts();
    let bytes = axum::body::to_bytes(body, limits::BODY_BYTES_MAX).await;
    let bytes = bytes.map_err(|_| internal("can't be read"))?;
    let mut answer: AddedWebhook =
        serde_json::from_slice(&bytes).map_err(|_| internal("is none that was written here"))?;
    let key = WebhookKey { tenant, id: answer.webhook_id.clone() };
    answer.secret = app
        .signer()
        .open_for_receipt(&key, &answer.secret)
        .ok_or_else(|| internal("holds a secret that can't be opened with this keyring"))?;
    parts.headers.remove(header::CONTENT_LENGTH);
    let text = serde_json::to_vec(&answer).map_err(|error| ApiError::internal(&error))?;
    Ok(Response::from_parts(parts, text.into()))
}

/// The tenant's webhooks.
pub(crate) async fn list(State(app): State<Arc<App>>, principal: Principal) -> Result<Json<WebhookList>> {
    let shown = app.engine().store().webhooks().list(principal.tenant).await?;
    let now = app.engine().clock().now();
    Ok(Json(WebhookList {
        webhooks: shown.into_iter().map(|shown| described(shown, &principal, now)).collect(),
    }))
}

/// A webhook and how it does.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    principal: Principal,
    WebhookPath(id): WebhookPath,
) -> Result<Json<Webhook>> {
    let shown = find(&app, key(&principal, &id)).await?;
    Ok(Json(described(shown, &principal, app.engine().clock().now())))
}

/// Ends a webhook. What was on its way to it is forgotten.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    principal: Principal,
    WebhookPath(id): WebhookPath,
    query: std::result::Result<Query<OfTenant>, axum::extract::rejection::QueryRejection>,
) -> Result<StatusCode> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    check_tenant(&app, &principal, query.tenant_id.as_deref()).await?;
    match app.engine().delete_webhook(key(&principal, &id)).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(not_found()),
    }
}

/// What is on its way to a webhook, or was given up.
pub(crate) async fn deliveries(
    State(app): State<Arc<App>>,
    principal: Principal,
    WebhookPath(id): WebhookPath,
    query: std::result::Result<Query<DeliveryListing>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<DeliveryPage>> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let dead = match query.state.as_deref() {
        None | Some("pending") => false,
        Some("dead") => true,
        Some(_) => return Err(ApiError::invalid("state", "'state' is pending or dead")),
    };
    let after = query.cursor.as_deref().map(cursor).transpose()?;
    let key = find(&app, key(&principal, &id)).await?.webhook.key;
    let limit = limits::LIST_DELIVERIES_MAX;
    let query = DeliveryQuery { webhook: key.clone(), dead, after, limit };
    let rows = app.engine().store().webhooks().deliveries(query).await?;
    let next_cursor =
        rows.get(limit - 1).map(|last| EventId { run: last.run, sequence: last.sequence }.to_string());
    let deliveries = rows.into_iter().map(|row| delivery(&key, row)).collect();
    Ok(Json(DeliveryPage { deliveries, next_cursor }))
}

/// Sends dead letters once more.
pub(crate) async fn resend(
    State(app): State<Arc<App>>,
    principal: Principal,
    WebhookPath(id): WebhookPath,
    JsonBody(body): JsonBody<Resend>,
) -> Result<Json<Resent>> {
    let key = find(&app, key(&principal, &id)).await?.webhook.key;
    let which = body.delivery_ids.map(|ids| named(&key, &ids)).transpose()?;
    let now = app.engine().clock().now();
    let resent = app.engine().store().webhooks().resend(key, which, now).await?;
    Ok(Json(Resent { resent }))
}

/// Tries a webhook again that was left alone or has failed.
pub(crate) async fn enable(
    State(app): State<Arc<App>>,
    principal: Principal,
    WebhookPath(id): WebhookPath,
) -> Result<Json<Webhook>> {
    let (key, now) = (key(&principal, &id), app.engine().clock().now());
    if !app.engine().store().webhooks().enable(key.clone(), now).await? {
        return Err(not_found());
    }
    Ok(Json(described(find(&app, key).await?, &principal, now)))
}

fn key(principal: &Principal, id: &str) -> WebhookKey {
    WebhookKey { tenant: principal.tenant, id: id.into() }
}

async fn find(app: &App, key: WebhookKey) -> Result<Shown> {
    app.engine().store().webhooks().get(key).await?.ok_or_else(not_found)
}

fn not_found() -> ApiError {
    ApiError::new("subscription_not_found", "there is no such webhook; list them to see which there are")
}

fn described(shown: Shown, principal: &Principal, now: i64) -> Webhook {
    let Shown { webhook, delivered, pending, dead, dropped } = shown;
    let health = webhook.health;
    let (state, breaker, open_until) = match health.gate(now) {
        Gate::Closed => ("active", "closed", None),
        Gate::Open { until } => ("active", "open", Some(until)),
        Gate::HalfOpen => ("active", "half-open", None),
        Gate::Failed => ("failed", "open", None),
    };
    Webhook {
        webhook_id: webhook.key.id.clone(),
        subscription_id: webhook.key.id,
        url: webhook.url,
        secret_fingerprint: webhook.fingerprint,
        event_types: webhook.types,
        tags: webhook.tags,
        run_id: webhook.about.map(|about| about.run),
        created_at: time::rfc3339(webhook.created_at),
        created_by: webhook.created_by,
        tenant_id: principal.tenant_name.to_string(),
        state,
        breaker,
        open_until: open_until.map(time::rfc3339),
        consecutive_failures: health.failures,
        failing_since: health.failing_since.map(time::rfc3339),
        delivered,
        pending,
        dead,
        dropped,
    }
}

fn delivery(key: &WebhookKey, row: DeliveryRow) -> Delivery {
    let DeliveryRow { run, sequence, type_code, due, attempts, last_at, last_status, last_error } = row;
    Delivery {
        delivery_id: delivery_id(key, run, sequence),
        run_id: run,
        event_id: super::snapshot::event_id(run, sequence),
        sequence,
        event_type: EventType::by_code(type_code).map_or("unknown", |kind| kind.name),
        state: if due.is_some() { "pending" } else { "dead" },
        attempts,
        next_attempt_at: due.map(time::rfc3339),
        last_attempt_at: last_at.map(time::rfc3339),
        last_status,
        last_error,
    }
}

fn cursor(text: &str) -> Result<(RunId, u64)> {
    let event: EventId = text
        .parse()
        .map_err(|_| ApiError::invalid("cursor", "'cursor' is the nextCursor of the page before"))?;
    Ok((event.run, event.sequence))
}

fn named(key: &WebhookKey, ids: &[String]) -> Result<Vec<(RunId, u64)>> {
    let most = abide_store::DEAD_LETTERS_MAX;
    if ids.len() > most {
        let message = format!("'deliveryIds' names more than {most}; leave it out to send all");
        return Err(ApiError::invalid("deliveryIds", message));
    }
    let parsed = ids.iter().map(|id| parse_delivery_id(key, id)).collect::<Option<_>>();
    parsed.ok_or_else(|| {
        let message = "'deliveryIds' holds an id that is none of this webhook's; list its dead letters";
        ApiError::invalid("deliveryIds", message)
    })
}

fn check_events(events: &[String]) -> Result<()> {
    if events.is_empty() || events.len() > limits::WEBHOOK_TYPES_MAX {
        let message = format!("'events' names 1 to {} event types, or [\"*\"]", limits::WEBHOOK_TYPES_MAX);
        return Err(ApiError::invalid("events", message));
    }
    match events.iter().position(|name| name != "*" && !is_event_type(name)) {
        None => Ok(()),
        Some(at) => {
            let message = "it is no event type of OpenWOP; use names such as run.completed, or \"*\" for all";
            Err(ApiError::invalid(&format!("events[{at}]"), message))
        }
    }
}

fn check_tags(tags: &[String]) -> Result<()> {
    let long = |tag: &String| tag.chars().count() > limits::WEBHOOK_TAG_CHARS_MAX;
    if tags.len() > limits::WEBHOOK_TAGS_MAX || tags.iter().any(long) {
        let (tags, chars) = (limits::WEBHOOK_TAGS_MAX, limits::WEBHOOK_TAG_CHARS_MAX);
        let message = format!("'tags' holds at most {tags} tags of at most {chars} characters, as runs do");
        return Err(ApiError::invalid("tags", message));
    }
    Ok(())
}

/// Its words never repeat what was sent.
fn read_secret(given: &RawJson) -> Result<String> {
    let (least, most) = (limits::WEBHOOK_SECRET_CHARS_MIN, limits::WEBHOOK_SECRET_BYTES_MAX);
    let text = given.parse::<String>().ok();
    text.filter(|text| text.chars().count() >= least && text.len() <= most).ok_or_else(|| {
        let message = format!(
            "'secret' is a text of at least {least} characters and at most {most} bytes; or leave it out to get one"
        );
        ApiError::invalid("secret", message)
    })
}

/// Whether OpenWOP knows an event type, be it one that this version never writes.
fn is_event_type(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let in_family =
        FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(|rest| !rest.is_empty()));
    TYPES.contains(&name) || in_family && name.len() <= 64 && name.bytes().all(plain)
}

/// Event types that OpenWOP v1 names one by one.
const TYPES: &[&str] = &[
    "run.started",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.resuming",
    "run.paused",
    "run.resumed",
    "run.restored-from-snapshot",
    "run.dead_lettered",
    "node.started",
    "node.completed",
    "node.failed",
    "node.suspended",
    "node.suspend-failed",
    "node.resumed",
    "node.retried",
    "node.skipped",
    "node.cancelled",
    "node.dispatched",
    "approval.requested",
    "approval.received",
    "approval.granted",
    "approval.rejected",
    "approval.overridden",
    "clarification.requested",
    "clarification.resolved",
    "interrupt.requested",
    "interrupt.resolved",
    "channel.written",
    "artifact.created",
    "output.chunk",
    "ai.message.chunk",
    "variable.changed",
    "log.appended",
    "version.pinned",
    "workflow.restored",
    "workflow.loopback-limit",
    "workflow.stalled",
    "cap.breached",
    "lease.acquired",
    "lease.renewed",
    "lease.lost",
    "lease.handed-off",
    "replay.diverged",
    "replay.divergedAtRefusal",
    "provider.usage",
    "prompt.composed",
    "runOrchestrator.decided",
    "conversation.opened",
    "conversation.exchanged",
    "conversation.closed",
    "memory.compacted",
    "memory.written",
    "commitment.fired",
    "workspace.updated",
    "core.workflowChain.event",
    "core.workflowChain.confidence-escalated",
    "authorization.decided",
    "egress.decided",
];

/// Families of event types that are still growing.
const FAMILIES: &[&str] = &[
    "agent.",
    "model.capability.",
    "envelope.",
    "eval.",
    "deployment.",
    "connector.",
    "tool.session.",
    "trigger.",
    "budget.",
    "compensation.",
    "voice.",
];

/// The webhook that a path names. What is not even text is an id that none has.
pub(crate) struct WebhookPath(String);

impl<S: Send + Sync> FromRequestParts<S> for WebhookPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(path.map_or_else(|_| String::new(), |Path(id)| id)))
    }
}

#[cfg(test)]
mod tests {
    use abide_core::event_types;

    use super::*;

    #[test]
    fn every_event_type_that_is_ever_sent_can_be_asked_for() {
        for kind in event_types().iter().filter(|kind| kind.canonical) {
            assert!(is_event_type(kind.name), "{}", kind.name);
        }
        for name in ["", "run", "run.", "run.cancelling", "agent.", "agent.a b", "*.completed"] {
            assert!(!is_event_type(name), "{name}");
        }
    }
}
