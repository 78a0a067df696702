//! A run's events: the closed envelope, by long poll.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use abide_core::{EventType, Key, Payload, Record, RunId};
use axum::extract::{Query, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::mask;
use super::runs::{RunPath, json_response};
use super::snapshot::event_id;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::{limits, shape, time};

/// OpenWOP's RunEventDoc. Nothing may stand in it but this.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunEvent")]
struct EventDoc<'a> {
    event_id: String,
    #[schemars(with = "shape::RunName")]
    run_id: RunId,
    #[serde(rename = "type")]
    kind: &'static str,
    #[schemars(with = "shape::Anything")]
    payload: Cow<'a, RawValue>,
    #[schemars(with = "shape::Moment")]
    timestamp: String,
    sequence: u64,
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'a str>,
    schema_version: u16,
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<String>,
}

/// Events after those that the caller has.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EventPage")]
pub(crate) struct Page<'a> {
    events: Vec<EventDoc<'a>>,
    /// Whether the run has ended and nothing more will come.
    is_complete: bool,
}

/// Which events, and how long to wait for them.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Poll {
    /// The last event that the caller has; all events unless told.
    #[schemars(with = "i64", range(min = -1))]
    #[serde(default)]
    last_sequence: Option<String>,
    /// An older name of `lastSequence`.
    #[schemars(with = "i64", range(min = -1))]
    #[serde(default)]
    since: Option<String>,
    /// Seconds to wait if there is nothing new; 30 unless told.
    #[schemars(with = "u64", range(min = 1, max = limits::POLL_SECONDS_MAX))]
    #[serde(default)]
    timeout: Option<String>,
}

/// Answers at once if there is something new or the run has ended, else when there is, or after the timeout.
pub(crate) async fn poll(
    State(app): State<Arc<App>>,
    principal: Principal,
    run: RunPath,
    query: std::result::Result<Query<Poll>, axum::extract::rejection::QueryRejection>,
) -> Result<Response> {
    let Query(query) = query.map_err(|error| ApiError::new("validation_error", error.body_text()))?;
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
    let waited =
        tokio::time::timeout(Duration::from_secs(seconds.unsigned_abs()), next_events(&app, key, from));
    let (records, complete) = match waited.await {
        Ok(found) => found?,
        Err(_) => (Vec::new(), false),
    };
    page(key.id, &records, complete)
}

/// Waits for events that OpenWOP knows, or for the end.
async fn next_events(app: &App, key: Key, mut from: u64) -> Result<(Vec<Record>, bool)> {
    let mut news = app.engine().subscribe(key);
    let mut counted = 0;
    loop {
        let mut records = app.engine().events(key, from, limits::POLL_EVENTS_MAX).await?;
        if records.is_empty() && from < counted {
            let what = format!("the journal of {} ends at {from}, but {counted} events are counted", key.id);
            return Err(ApiError::internal(&what));
        }
        from = records.last().map_or(from, |last| last.sequence + 1);
        // Read after the events: an end that is among them is always seen.
        let head = app.engine().head(key).await?;
        counted = head.next;
        let complete = head.summary.status.is_terminal() && from >= head.next;
        records.retain(is_canonical);
        if !records.is_empty() || complete {
            return Ok((records, complete));
        }
        if from < head.next {
            continue;
        }
        tokio::select! {
            () = news.changed() => {}
            () = app.stopped() => return Ok((Vec::new(), false)),
        }
    }
}

fn is_canonical(record: &Record) -> bool {
    EventType::by_code(record.type_code).is_some_and(|kind| kind.canonical)
}

fn page(run: RunId, records: &[Record], is_complete: bool) -> Result<Response> {
    let events = records.iter().map(|record| doc(run, record)).collect::<Result<_>>()?;
    json_response(serde_json::to_vec(&Page { events, is_complete }))
}

fn doc(run: RunId, record: &Record) -> Result<EventDoc<'_>> {
    let kind = EventType::by_code(record.type_code)
        .ok_or_else(|| ApiError::internal(&"an event type is unknown"))?;
    let payload = match &record.payload {
        Payload::Present(bytes) => shown(kind, bytes).map_err(|error| ApiError::internal(&error))?,
        Payload::Erased(_) => Cow::Borrowed(RawValue::NULL),
    };
    Ok(EventDoc {
        event_id: event_id(run, record.sequence),
        run_id: run,
        kind: kind.name,
        payload,
        timestamp: time::rfc3339(record.at),
        sequence: record.sequence,
        node_id: record.node.as_deref(),
        schema_version: record.version,
        causation_id: record.cause.map(|cause| event_id(run, cause)),
    })
}

/// A payload as it may be seen.
fn shown(kind: EventType, bytes: &[u8]) -> serde_json::Result<Cow<'_, RawValue>> {
    match mask::payload(kind, bytes)? {
        Cow::Borrowed(bytes) => serde_json::from_slice(bytes).map(Cow::Borrowed),
        Cow::Owned(bytes) => serde_json::from_slice(&bytes).map(Cow::Owned),
    }
}

fn whole(field: &str, text: &str, range: std::ops::RangeInclusive<i64>) -> Result<i64> {
    let number = text.parse::<i64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let message = format!("'{field}' is a whole number from {} to {}", range.start(), range.end());
        ApiError::invalid(field, message)
    })
}
