//! Sends spans to a collector: OTLP over HTTP, in its JSON form.
//!
//! Spans wait in a bounded queue and leave in batches. A collector that is slow or down costs the spans that find no
//! room, and nobody else notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_core::hex;
use abide_engine::trace::{Span, SpanKind, Spans};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::limits;

/// Where a collector takes traces, below the address that it is known by.
const TRACES: &str = "/v1/traces";

/// Sends spans.
pub struct Otlp {
    queue: mpsc::Sender<Message>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

enum Message {
    Span(Box<Span>),
    /// Somebody waits until what was taken before this has left.
    Flush(oneshot::Sender<()>),
}

impl Otlp {
    /// Sends to a collector, with headers that it asks for: `name=value,name=value`, as OpenTelemetry has them in
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub fn start(endpoint: &str, headers: Option<&str>) -> Result<Arc<Self>, String> {
        let url = traces_url(endpoint)?;
        let client = reqwest::Client::builder()
            .timeout(Duration::from_millis(limits::SPANS_SEND_MS_MAX))
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers.map(read_headers).transpose()?.unwrap_or_default())
            .build()
            .map_err(|error| format!("the client can't start: {error}"))?;
        let (queue, waiting) = mpsc::channel(limits::SPANS_WAITING_MAX);
        let counts = Arc::new(Counts::default());
        let sender = Sender { client, url, counts: counts.clone(), up: true };
        tokio::spawn(sender.run(waiting));
        Ok(Arc::new(Self { queue, counts }))
    }

    /// Waits until everything that was taken has left, or could not.
    pub async fn flush(&self) {
        let (sender, flushed) = oneshot::channel();
        if self.queue.send(Message::Flush(sender)).await.is_ok() {
            // If the task is gone, there is nothing to wait for.
            let _ = flushed.await;
        }
    }

    /// How many spans a collector took, and how many none did.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.counts.exported), read(&self.counts.dropped))
    }
}

impl Spans for Otlp {
    fn take(&self, span: Span) {
        if self.queue.try_send(Message::Span(Box::new(span))).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn traces_url(endpoint: &str) -> Result<Url, String> {
    let base = endpoint.trim_end_matches('/');
    let text = if base.ends_with(TRACES) { base.to_owned() } else { format!("{base}{TRACES}") };
    let url = Url::parse(&text).map_err(|error| format!("it is not a URL: {error}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err("it begins with http:// or https://".to_owned()),
    }
}

/// Values are never repeated in a message: they may be keys.
fn read_headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once('=').ok_or("the headers are written name=value,name=value")?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| "a header's name can't be sent")?;
        let mut value = HeaderValue::try_from(value.trim())
            .map_err(|_| format!("the value of header {name} can't be sent"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The task that sends.
struct Sender {
    client: reqwest::Client,
    url: Url,
    counts: Arc<Counts>,
    /// Whether the collector took the last batch. Only a change is worth a line in the log.
    up: bool,
}

impl Sender {
    async fn run(mut self, mut waiting: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(limits::SPANS_SENT_MAX);
        while waiting.recv_many(&mut messages, limits::SPANS_SENT_MAX).await > 0 {
            let hurry = messages.iter().any(|message| matches!(message, Message::Flush(_)));
            if !hurry && messages.len() < limits::SPANS_SENT_MAX {
                self.linger(&mut waiting, &mut messages).await;
            }
            let (mut spans, mut flushes) = (Vec::new(), Vec::new());
            for message in messages.drain(..) {
                match message {
                    Message::Span(span) => spans.push(*span),
                    Message::Flush(done) => flushes.push(done),
                }
            }
            self.send(&spans).await;
            for done in flushes {
                let _ = done.send(());
            }
        }
    }

    /// Waits a little for more, so that a batch is worth its request.
    async fn linger(&self, waiting: &mut mpsc::Receiver<Message>, messages: &mut Vec<Message>) {
        let until = tokio::time::Instant::now() + Duration::from_millis(limits::SPANS_LINGER_MS);
        while messages.len() < limits::SPANS_SENT_MAX {
            match tokio::time::timeout_at(until, waiting.recv()).await {
                Ok(Some(message)) => {
                    let hurry = matches!(message, Message::Flush(_));
                    messages.push(message);
                    if hurry {
                        return;
                    }
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    async fn send(&mut self, spans: &[Span]) {
        if spans.is_empty() {
            return;
        }
        let sent = self.client.post(self.url.clone()).json(&batch(spans)).send().await;
        // An error of the client names the address, which may hold a password.
        let problem = match sent.map(|response| response.status()) {
            Ok(status) if status.is_success() => None,
            Ok(status) => Some(format!("it answered {status}")),
            Err(error) => Some(error.without_url().to_string()),
        };
        let counter = if problem.is_none() { &self.counts.exported } else { &self.counts.dropped };
        counter.fetch_add(spans.len() as u64, Ordering::Relaxed);
        let host = self.url.host_str().unwrap_or_default();
        match (self.up, &problem) {
            (true, Some(problem)) => {
                tracing::warn!(host, problem, "the trace collector takes no spans; they are dropped");
            }
            (false, None) => tracing::info!(host, "the trace collector takes spans again"),
            _ => {}
        }
        self.up = problem.is_none();
    }
}

/// An `ExportTraceServiceRequest`.
fn batch(spans: &[Span]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [("service.name", "abide".to_owned()), ("service.version", version.to_owned())];
    json!({
        "resourceSpans": [{
            "resource": { "attributes": attributes(&resource) },
            "scopeSpans": [{
                "scope": { "name": "abide", "version": version },
                "spans": spans.iter().map(written).collect::<Vec<_>>(),
            }],
        }],
    })
}

fn written(span: &Span) -> Value {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
    };
    let mut written = json!({
        "traceId": span.trace.id(),
        "spanId": hex(&span.trace.span_id),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.began),
        "endTimeUnixNano": nanos(span.ended),
        "attributes": attributes(&span.attributes),
        "status": if span.failed { json!({ "code": 2 }) } else { json!({}) },
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = json!(hex(&parent));
    }
    if let Some(state) = &span.trace.state {
        written["traceState"] = json!(state);
    }
    written
}

fn attributes(pairs: &[(&'static str, String)]) -> Vec<Value> {
    pairs.iter().map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } })).collect()
}

/// 64-bit numbers are text in this form of JSON.
fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_known_by_its_address() {
        for (endpoint, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://c.example/otlp", "https://c.example/otlp/v1/traces"),
            ("https://c.example/v1/traces", "https://c.example/v1/traces"),
        ] {
            assert_eq!(traces_url(endpoint).unwrap().as_str(), url);
        }
        assert!(traces_url("localhost:4318").is_err() && traces_url("ftp://c.example").is_err());
    }

    #[test]
    fn headers_are_read_and_never_repeated() {
        let headers = read_headers("x-key=s3cret=, x-team = blue,").unwrap();
        assert_eq!(
            (&headers["x-key"], &headers["x-team"]),
            (&"s3cret=".parse().unwrap(), &"blue".parse().unwrap())
        );
        for wrong in ["s3cret", "a b=s3cret", "a=s3cret\u{1}x"] {
            let problem = read_headers(wrong).unwrap_err();
            assert!(!problem.contains("s3cret"), "{problem}");
        }
    }
}
