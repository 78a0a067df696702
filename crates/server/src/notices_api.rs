//! Who was told what over HTTP: the messages of a tenant, those that were given up, and the channels they go over.
//!
//! Addresses are personal data: they go to those who may look at the directory.

use std::sync::Arc;

use abide_core::{InterruptId, RunId};
use abide_notify::Channels;
use abide_store::{NoticeDelivery, NoticeId, NoticeState, NoticesQuery};
use axum::Json;
use axum::extract::{FromRequestParts, Query, State};
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::Principal;
use crate::body::JsonBody;
use crate::error::{ApiError, Result};
use crate::limits::{LIST_PAGE_DEFAULT, LIST_PAGE_MAX};
use crate::page::{self, wrong_cursor};
use crate::path_name::PathName;
use crate::scope::Scope;
use crate::{shape, time};

/// Which messages to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoticeListing {
    /// Only those that stand so: `waiting`, `sent`, `dead`, `superseded`, `refused`, `withdrawn` or `unreachable`.
    state: Option<String>,
    /// Only those of this run.
    run: Option<String>,
    /// How many there may be in it.
    #[serde(default, deserialize_with = "page::limit")]
    #[schemars(with = "u16", range(min = 1, max = LIST_PAGE_MAX))]
    limit: Option<usize>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for NoticeListing {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let query = Query::<Self>::from_request_parts(parts, state).await;
        query.map(|Query(query)| query).map_err(|error| ApiError::new("validation_error", error.body_text()))
    }
}

/// A page of messages.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NoticePage {
    /// Messages, those of the newest runs first.
    notices: Vec<NoticeView>,
    /// Where the next page begins; `null` on the last. A page may have fewer than were asked for.
    next_cursor: Option<String>,
}

/// A message to one recipient over one channel, or why there is none.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NoticeView {
    /// Which one.
    delivery_id: String,
    /// The run that asked.
    #[schemars(with = "String")]
    run_id: RunId,
    /// What waits.
    #[schemars(with = "String")]
    interrupt_id: InterruptId,
    /// The so-manieth time that somebody is told, from 1.
    attempt: u32,
    /// Over which channel; left out if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// The channel that was asked for, if there is none of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_hint: Option<String>,
    /// The address, or the names that the message stands under. Left out for those who may not look at the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    recipient: Option<String>,
    /// Whose address that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<String>,
    /// `waiting`, `sent`, `dead`, `superseded`, `refused`, `withdrawn` or `unreachable`.
    state: &'static str,
    /// How often it was tried.
    tries: u32,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Moment>")]
    next_try_at: Option<String>,
    /// When it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shape::Moment>")]
    sent_at: Option<String>,
    /// Why the last try failed, or why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whether the recipient is still to be told what became of the question.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    follow_up_pending: bool,
}

/// The channels of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChannelList {
    /// Channels, by name.
    channels: Vec<ChannelView>,
}

/// A way to reach people, without anything secret.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChannelView {
    /// What ladders call it.
    name: String,
    /// `webhook`, `email`, `slack` or `pagerduty`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Whether it stays within the organisation.
    internal: bool,
    /// Whether question and context are told on it, not only title and link.
    tells_all: bool,
    /// Whether its links let their holder answer without an account.
    signs_links: bool,
    /// Whether it is for what names no channel, or one that there is not.
    default: bool,
}

/// Whom a test is for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestChannel {
    /// A principal of the directory, or an address that is allowed; the channel's own recipient if it is left out.
    to: Option<String>,
}

/// What came of a test.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tested {
    /// Whether the message was taken.
    sent: bool,
    /// What the receiver said.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Why it was not, and what to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The tenant's messages.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    principal: Principal,
    query: NoticeListing,
) -> Result<Json<NoticePage>> {
    let state = query.state.as_deref().map(state).transpose()?;
    let run = query.run.as_deref().map(run).transpose()?;
    let after =
        query.cursor.as_deref().map(str::parse::<NoticeId>).transpose().map_err(|_| wrong_cursor())?;
    let limit = query.limit.unwrap_or(LIST_PAGE_DEFAULT);
    let query = NoticesQuery { tenant: principal.tenant, state, run, interrupt: None, after, limit };
    let page = app.engine().notices().list(query).await?;
    Ok(Json(NoticePage {
        notices: page.rows.into_iter().map(|row| view(row, &principal)).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// Has a message that was given up sent once more.
pub(crate) async fn resend(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(id): PathName,
) -> Result<Json<NoticeView>> {
    let id: NoticeId = id.parse().map_err(|_| no_such_notice())?;
    let tenant = principal.tenant;
    let resent = app.engine().resend_notice(tenant, id).await?;
    let row = app.engine().notices().get(tenant, id).await?.ok_or_else(no_such_notice)?;
    if resent {
        return Ok(Json(view(row, &principal)));
    }
    let message = match row.state {
        NoticeState::Dead => "what it is about is closed; there is nothing to tell any more".to_owned(),
        state => format!("it is {}; only what was given up is sent again", state.name()),
    };
    Err(ApiError::new("notice_not_dead", message).with("state", row.state.name()))
}

/// The channels of the server.
pub(crate) async fn channels(State(app): State<Arc<App>>) -> Json<ChannelList> {
    let channels = app.engine().channels();
    Json(ChannelList { channels: channels.names().filter_map(|name| channel(channels, name)).collect() })
}

/// Sends a message that says nothing but that the channel works.
pub(crate) async fn test(
    State(app): State<Arc<App>>,
    principal: Principal,
    PathName(name): PathName,
    JsonBody(TestChannel { to }): JsonBody<TestChannel>,
) -> Result<Json<Tested>> {
    if app.engine().channels().kind(&name).is_none() {
        return Err(ApiError::new(
            "channel_not_found",
            "there is no such channel; list them to see which there are",
        ));
    }
    let tested = app.engine().test_channel(principal.tenant, &name, to.as_deref()).await?;
    Ok(Json(match tested {
        Ok(receipt) => Tested { sent: true, answer: Some(receipt.answer), reason: None },
        Err(failure) => Tested { sent: false, answer: None, reason: Some(failure.reason) },
    }))
}

fn view(row: NoticeDelivery, principal: &Principal) -> NoticeView {
    let shows = principal.scopes.allow(Scope::PeopleRead);
    let told = |text: String| Some(text).filter(|text| !text.is_empty());
    NoticeView {
        delivery_id: row.id.to_string(),
        run_id: row.id.run,
        interrupt_id: row.id.interrupt,
        attempt: row.id.attempt,
        channel: told(row.channel),
        channel_hint: row.hint,
        recipient: told(row.recipient).filter(|_| shows),
        person: row.person,
        state: row.state.name(),
        tries: row.tries,
        next_try_at: row.due.map(time::rfc3339),
        sent_at: row.sent_at.map(time::rfc3339),
        reason: row.reason,
        follow_up_pending: row.follow.is_some(),
    }
}

fn channel(channels: &Channels, name: &str) -> Option<ChannelView> {
    Some(ChannelView {
        name: name.to_owned(),
        kind: channels.kind(name)?.name(),
        internal: channels.is_internal(name),
        tells_all: channels.tells_all(name),
        signs_links: channels.signs_links(name),
        default: channels.default_channel() == Some(name),
    })
}

fn state(name: &str) -> Result<NoticeState> {
    NoticeState::by_name(name).ok_or_else(|| {
        let names = NoticeState::ALL.map(NoticeState::name).join(", ");
        ApiError::invalid("state", format!("'state' is one of {names}"))
    })
}

fn run(text: &str) -> Result<RunId> {
    text.parse().map_err(|_| ApiError::invalid("run", "'run' is the id of a run"))
}

fn no_such_notice() -> ApiError {
    ApiError::new("notice_not_found", "there is no such message; list them to see which there are")
}
