//! What a subscriber asks for, beside the events themselves.

use std::ops::RangeInclusive;
use std::time::Duration;

use abide_core::{EventId, RunId};
use axum::http::{HeaderMap, header};

use crate::error::{ApiError, Result};
use crate::limits;

/// The last event that a subscriber has.
const LAST_EVENT_ID: &str = "last-event-id";

/// In which form events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A stream of server-sent events that goes on until the run ends.
    Events,
    /// What is there now, as one document.
    Json,
}

impl Form {
    /// The form that is asked for: server-sent events, unless JSON is wanted more.
    pub(crate) fn wanted(headers: &HeaderMap) -> Self {
        let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let (mut json, mut events) = (0, 0);
        for range in accept.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1000, weight);
            match kind.as_str() {
                "application/json" => json = json.max(weight),
                "text/event-stream" => events = events.max(weight),
                _ => {}
            }
        }
        if json > events { Self::Json } else { Self::Events }
    }
}

/// A weight in thousandths; what can't be read counts nothing.
fn weight(text: &str) -> u32 {
    let weight = text.parse::<f32>().ok().filter(|weight| (0.0..=1.0).contains(weight));
    weight.map_or(0, |weight| (weight * 1000.0) as u32)
}

/// For how long events are collected.
pub(crate) fn buffer(text: Option<&str>) -> Result<Duration> {
    let ms = text.map(|text| whole("bufferMs", text, 0..=limits::BUFFER_MS_MAX as i64)).transpose()?;
    Ok(Duration::from_millis(ms.unwrap_or(0).unsigned_abs()))
}

/// The first event that a subscriber does not have. A header goes before the query: a browser sends it when it connects
/// again, with the query that it began with.
pub(crate) fn from(run: RunId, headers: &HeaderMap, query: Option<&str>) -> Result<Option<u64>> {
    let last = match headers.get(LAST_EVENT_ID) {
        Some(value) => Some(("Last-Event-ID", value.to_str().unwrap_or_default())),
        None => query.map(|text| ("lastEventId", text)),
    };
    let Some((field, text)) = last else { return Ok(None) };
    let sequence = match text.parse::<EventId>() {
        Ok(id) => Some(id.sequence).filter(|_| id.run == run),
        Err(_) => sequence(text),
    };
    // One more must be a place on disk.
    let sequence = sequence.filter(|sequence| *sequence < i64::MAX as u64);
    sequence.map(|sequence| Some(sequence + 1)).ok_or_else(|| {
        let message = format!("'{field}' is the id of an event of this run, or its sequence number");
        ApiError::invalid(field, message)
    })
}

/// Digits and nothing else: no sign, no space.
fn sequence(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A whole number in some range.
pub(crate) fn whole(field: &str, text: &str, range: RangeInclusive<i64>) -> Result<i64> {
    let number = text.parse::<i64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let message = format!("'{field}' is a whole number from {} to {}", range.start(), range.end());
        ApiError::invalid(field, message)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn form(accept: &str) -> Form {
        Form::wanted(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).unwrap())]))
    }

    #[test]
    fn json_is_sent_if_it_is_wanted_more() {
        assert_eq!(Form::wanted(&HeaderMap::new()), Form::Events);
        for accept in [
            "*/*",
            "text/html",
            "",
            "text/event-stream",
            "text/event-stream, application/json",
            "application/json;q=0.5, text/event-stream",
            "application/json;q=0",
            "application/json;q=x",
            "application/jsonx",
        ] {
            assert_eq!(form(accept), Form::Events, "{accept}");
        }
        for accept in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/json, */*",
            "text/event-stream;q=0.1, application/json;q=0.2",
        ] {
            assert_eq!(form(accept), Form::Json, "{accept}");
        }
    }

    #[test]
    fn a_place_is_a_number_or_the_id_of_an_event_of_the_run() {
        let run = RunId::from_bytes([7; 16]);
        let id = |run, sequence| EventId { run, sequence }.to_string();
        let place = |text: &str| from(run, &HeaderMap::new(), Some(text)).ok().flatten();
        assert_eq!(place("0"), Some(1));
        assert_eq!(place(&id(run, 41)), Some(42));
        assert_eq!(place("9223372036854775806"), Some(i64::MAX as u64));
        let foreign = id(RunId::from_bytes([8; 16]), 41);
        let bad = ["", "-1", "+1", " 1", "1.0", "0x1", "x", "9223372036854775807", "99999999999999999999999"];
        for bad in bad.into_iter().chain([foreign.as_str(), id(run, u64::MAX).as_str()]) {
            assert!(from(run, &HeaderMap::new(), Some(bad)).is_err(), "{bad}");
        }
        let headers = HeaderMap::from_iter([(LAST_EVENT_ID.parse().unwrap(), HeaderValue::from_static("5"))]);
        assert_eq!(from(run, &headers, Some("1")).ok().flatten(), Some(6), "the header goes first");
        assert_eq!(from(run, &HeaderMap::new(), None).ok().flatten(), None);
    }
}
