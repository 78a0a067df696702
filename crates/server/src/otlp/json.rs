//! Spans in the JSON form of OTLP. Its 64-bit numbers are text, and its ids are hex.

use abide_core::hex;
use abide_engine::trace::{Moment, Span, Trace, Value as Known};
use serde_json::{Value, json};

use super::{FAILED, SCOPE, VERSION, kind, nanos, resource};

/// An `ExportTraceServiceRequest`.
pub(super) fn batch(spans: &[Span], service: &str) -> Vec<u8> {
    let resource = resource(service).map(|(key, value)| (key, Known::from(value)));
    let batch = json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes(&resource) },
            "scopeSpans": [{
                "scope": { "name": SCOPE, "version": VERSION },
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    });
    batch.to_string().into_bytes()
}

/// How many spans an `ExportTraceServiceResponse` says were thrown away.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedSpans"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0)
}

fn span(span: &Span) -> Value {
    let mut written = json!({
        "traceId": span.trace.id(),
        "spanId": hex(&span.trace.span_id),
        "name": span.name,
        "kind": kind(span.kind),
        "startTimeUnixNano": nanos(span.began).to_string(),
        "endTimeUnixNano": nanos(span.ended).to_string(),
        "attributes": attributes(&span.attributes),
        "status": if span.failed { json!({ "code": FAILED }) } else { json!({}) },
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = json!(hex(&parent));
    }
    if let Some(state) = &span.trace.state {
        written["traceState"] = json!(state);
    }
    if !span.moments.is_empty() {
        written["events"] = span.moments.iter().map(moment).collect();
    }
    if !span.links.is_empty() {
        written["links"] = span.links.iter().map(link).collect();
    }
    written
}

fn moment(moment: &Moment) -> Value {
    let at = nanos(moment.at).to_string();
    json!({ "timeUnixNano": at, "name": moment.name, "attributes": attributes(&moment.attributes) })
}

fn link(link: &Trace) -> Value {
    json!({ "traceId": link.id(), "spanId": hex(&link.span_id) })
}

fn attributes(pairs: &[(&'static str, Known)]) -> Vec<Value> {
    let value = |value: &Known| match value {
        Known::Text(text) => json!({ "stringValue": text }),
        Known::Number(number) => json!({ "intValue": number.to_string() }),
    };
    pairs.iter().map(|(key, known)| json!({ "key": key, "value": value(known) })).collect()
}
