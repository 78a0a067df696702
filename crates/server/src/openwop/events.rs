//! A run's events in OpenWOP's words: as a stream, and by long poll.

pub(crate) mod doc;
mod mode;
pub(crate) mod payload;

use std::sync::Arc;
use std::time::Duration;

use abide_core::Key;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use super::runs::{RunPath, json_response};
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::limits;
use crate::newcomer::Newcomer;
use crate::stream::request::{self, Form, whole};
use crate::stream::{self, Ask, Frame, Renderer, View};

pub(crate) use doc::RunEvent;
pub(crate) use mode::Modes;

/// A query that was read, or what is wrong with it.
type Asked<T> = std::result::Result<Query<T>, axum::extract::rejection::QueryRejection>;

/// Which events a subscriber wants, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Subscribe {
    /// `updates` (without it, too), `values`, `messages` or `debug`; several but `values` with commas between.
    #[schemars(with = "String")]
    #[serde(default)]
    stream_mode: Option<String>,
    /// For how many milliseconds events may be collected and sent as one `batch`.
    #[schemars(with = "u64", range(max = limits::BUFFER_MS_MAX))]
    #[serde(default)]
    buffer_ms: Option<String>,
    /// The same as the header Last-Event-ID, which goes before it.
    #[schemars(with = "String")]
    #[serde(default)]
    last_event_id: Option<String>,
}

/// What a run has said so far.
#[derive(JsonSchema)]
#[schemars(rename = "RunEvents")]
#[expect(dead_code, reason = "the events are written as text; this carries the schema alone")]
pub(crate) struct Page {
    events: Vec<RunEvent>,
}

/// What a run has said since.
#[derive(JsonSchema)]
#[schemars(rename = "PolledEvents", rename_all = "camelCase")]
#[expect(dead_code, reason = "the events are written as text; this carries the schema alone")]
pub(crate) struct Polled {
    events: Vec<RunEvent>,
    /// Whether the run has ended and nothing comes behind these.
    is_complete: bool,
}

/// Follows a run's events until it ends, or shows those that there are.
pub(crate) async fn subscribe(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    headers: HeaderMap,
    query: Asked<Subscribe>,
) -> Result<Response> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    // Before anything else is looked at: what can't be streamed can't be had in another form either.
    let modes = Modes::parse(query.stream_mode.as_deref())?;
    let buffer = request::buffer(query.buffer_ms.as_deref())?;
    let key = run.of(&principal)?;
    let from = request::from(key.id, &headers, query.last_event_id.as_deref())?;
    let form = Form::wanted(&headers);
    stream::answer(&app, Ask { key, view: View::Modes(modes), form, from, buffer }).await
}

/// Which events are new to whoever asks, and how long to wait for them.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Poll {
    /// The last event that you have.
    #[schemars(with = "i64", range(min = -1))]
    #[serde(default)]
    last_sequence: Option<String>,
    /// An older name for `lastSequence`, which goes before it.
    #[schemars(with = "i64", range(min = -1))]
    #[serde(default)]
    since: Option<String>,
    /// How many seconds to wait at most.
    #[schemars(with = "u64", range(min = 1, max = limits::POLL_SECONDS_MAX))]
    #[serde(default)]
    timeout: Option<String>,
}

/// Answers at once if there is something new or the run has ended, else when there is, or after the timeout.
pub(crate) async fn poll(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    newcomer: Option<Extension<Newcomer>>,
    query: Asked<Poll>,
) -> Result<Response> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
    let newcomer = newcomer.map_or_else(Newcomer::default, |Extension(newcomer)| newcomer);
    let named = query.last_sequence.as_deref().map(|text| ("lastSequence", text));
    let last = named
        .or(query.since.as_deref().map(|text| ("since", text)))
        .map(|(field, text)| whole(field, text, -1..=i64::MAX - 1))
        .transpose()?;
    let timeout =
        query.timeout.as_deref().map(|text| whole("timeout", text, 1..=limits::POLL_SECONDS_MAX as i64));
    let seconds = timeout.transpose()?.unwrap_or(limits::POLL_SECONDS_DEFAULT as i64);
    let key = run.of(&principal)?;
    let from = u64::try_from(last.map_or(0, |last| last + 1)).unwrap_or(0);
    let events = next_events(&app, key, from, &newcomer);
    let waited = tokio::time::timeout(Duration::from_secs(seconds.unsigned_abs()), events);
    let (frames, complete) = match waited.await {
        Ok(found) => found?,
        Err(_) => (Vec::new(), false),
    };
    json_response(Ok(page(&frames, complete)))
}

/// Waits for events that OpenWOP knows, or for the end.
async fn next_events(app: &App, key: Key, mut from: u64, newcomer: &Newcomer) -> Result<(Vec<Frame>, bool)> {
    let mut news = app.engine().subscribe(key);
    let mut renderer = Renderer::at(app.engine(), key, View::Canonical, from).await?;
    let mut counted = 0;
    loop {
        let records = app.engine().events(key, from, limits::POLL_EVENTS_MAX).await?;
        if records.is_empty() && from < counted {
            let what = format!("the journal of {} ends at {from}, but {counted} events are counted", key.id);
            return Err(ApiError::internal(&what));
        }
        let (frames, seen) = renderer.render(app.engine(), &records, limits::POLL_BYTES_MAX).await?;
        from = records[..seen].last().map_or(from, |last| last.sequence + 1);
        // Read after the events: an end that is among them is always seen.
        let head = app.engine().head(key).await?;
        counted = head.next;
        let complete = head.summary.status.is_terminal() && from >= head.next;
        if !frames.is_empty() || complete {
            return Ok((frames, complete));
        }
        if from < head.next {
            continue;
        }
        newcomer.greet();
        tokio::select! {
            () = news.changed() => {}
            () = app.stopped() => return Ok((Vec::new(), false)),
        }
    }
}

fn page(frames: &[Frame], is_complete: bool) -> Vec<u8> {
    let mut text = b"{\"events\":[".to_vec();
    for (at, frame) in frames.iter().enumerate() {
        text.extend(if at > 0 { &b","[..] } else { b"" });
        text.extend(frame.json());
    }
    text.extend(format!("],\"isComplete\":{is_complete}}}").as_bytes());
    text
}
