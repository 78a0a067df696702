//! Sends spans to a collector: OTLP over HTTP, as JSON or as Protocol Buffers.
//!
//! Spans wait in a bounded queue and leave in batches. A batch that the collector can't take just now is sent again, a
//! few times; a collector that is slow or down costs the spans that find no room meanwhile, and nobody else notices.

mod json;
mod protobuf;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_engine::trace::{Span, SpanKind, Spans};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Response, StatusCode, Url};
use tokio::sync::{mpsc, oneshot, watch};

use crate::limits;

pub use settings::{OtlpEndpoint, OtlpProtocol, OtlpSettings};

/// Sends spans.
pub struct Otlp {
    queue: mpsc::Sender<Message>,
    counts: Arc<Counts>,
    /// Nothing is waited for any more.
    hurry: watch::Sender<bool>,
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
    /// Sends to a collector from now on.
    pub fn start(settings: &OtlpSettings) -> Result<Arc<Self>, String> {
        let client = reqwest::Client::builder()
            .timeout(Duration::from_millis(limits::SPANS_SEND_MS_MAX))
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(settings.header_map()?)
            .build()
            .map_err(|error| format!("the client can't start: {error}"))?;
        let (queue, waiting) = mpsc::channel(limits::SPANS_WAITING_MAX);
        let (hurry, hurried) = watch::channel(false);
        let counts = Arc::new(Counts::default());
        let sender = Sender {
            client,
            url: settings.endpoint.url()?,
            service: settings.service_name.clone(),
            protocol: settings.protocol,
            counts: counts.clone(),
            hurried,
            up: true,
        };
        tokio::spawn(sender.run(waiting));
        Ok(Arc::new(Self { queue, counts, hurry }))
    }

    /// Waits until everything that was taken has left, or could not at the first try: there is no time for another.
    pub async fn flush(&self) {
        self.hurry.send_replace(true);
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
            self.lose(1);
        }
    }

    fn lose(&self, spans: usize) {
        self.counts.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

/// The task that sends.
struct Sender {
    client: reqwest::Client,
    url: Url,
    service: String,
    protocol: OtlpProtocol,
    counts: Arc<Counts>,
    hurried: watch::Receiver<bool>,
    /// Whether the collector took the last batch. Only a change is worth a line in the log.
    up: bool,
}

/// Why a batch was not taken.
struct Refusal {
    problem: String,
    /// Whether it may be taken later.
    passes: bool,
    /// How long the collector wants to be left alone.
    after: Option<Duration>,
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

    /// Sends a batch until it is taken, can't be, or was tried often enough.
    async fn send(&mut self, spans: &[Span]) {
        if spans.is_empty() {
            return;
        }
        let body = match self.protocol {
            OtlpProtocol::Json => json::batch(spans, &self.service),
            OtlpProtocol::Protobuf => protobuf::batch(spans, &self.service),
        };
        for tried in 1..=limits::SPANS_TRIES_MAX {
            let refusal = match self.post(body.clone()).await {
                Ok(rejected) => return self.taken(spans.len() as u64, rejected),
                Err(refusal) => refusal,
            };
            self.note_refusal(&refusal.problem);
            if !refusal.passes || tried == limits::SPANS_TRIES_MAX || !self.rest(tried, refusal.after).await {
                break;
            }
        }
        self.counts.dropped.fetch_add(spans.len() as u64, Ordering::Relaxed);
    }

    /// One try. The answer is how many spans the collector took and threw away.
    async fn post(&self, body: Vec<u8>) -> Result<u64, Refusal> {
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, self.protocol.content_type());
        // An error of the client names the address, which may hold a password.
        let sent = request.body(body).send().await.map_err(|error| Refusal {
            problem: error.without_url().to_string(),
            passes: true,
            after: None,
        })?;
        let status = sent.status();
        if status.is_success() {
            return Ok(self.rejected(sent).await);
        }
        // What OTLP has a sender try again; anything else would be refused again.
        const PASSING: [StatusCode; 4] = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        let asked = sent.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let passes = PASSING.contains(&status);
        Err(Refusal {
            problem: format!("it answered {status}"),
            passes,
            after: asked.map(Duration::from_secs),
        })
    }

    /// What the collector says that it did not take of a batch that it did.
    async fn rejected(&self, mut answer: Response) -> u64 {
        let mut bytes = Vec::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            if bytes.len() + chunk.len() > limits::SPANS_ANSWER_BYTES_MAX {
                return 0;
            }
            bytes.extend_from_slice(&chunk);
        }
        match self.protocol {
            OtlpProtocol::Json => json::rejected(&bytes),
            OtlpProtocol::Protobuf => protobuf::rejected(&bytes),
        }
    }

    fn taken(&mut self, spans: u64, rejected: u64) {
        let rejected = rejected.min(spans);
        self.counts.exported.fetch_add(spans - rejected, Ordering::Relaxed);
        self.counts.dropped.fetch_add(rejected, Ordering::Relaxed);
        if !std::mem::replace(&mut self.up, true) {
            tracing::info!(host = self.host(), "the trace collector takes spans again");
        }
    }

    fn note_refusal(&mut self, problem: &str) {
        if std::mem::replace(&mut self.up, false) {
            tracing::warn!(
                host = self.host(),
                problem,
                "the trace collector takes no spans; they are sent again a few times and then dropped, and \
                 abide_spans_dropped counts them"
            );
        }
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Waits before the next try, unless there is no time for one.
    async fn rest(&mut self, tried: u32, asked: Option<Duration>) -> bool {
        let usual = Duration::from_millis(limits::SPANS_RETRY_MS << (tried - 1));
        let wait = asked.unwrap_or(usual).min(Duration::from_millis(limits::SPANS_RETRY_MS_MAX));
        tokio::select! {
            // Whoever was sending is gone, or has no time.
            _ = self.hurried.wait_for(|hurry| *hurry) => false,
            () = tokio::time::sleep(wait) => true,
        }
    }
}

/// What a batch is from: the attributes of its resource.
fn resource(service: &str) -> [(&'static str, &str); 2] {
    [("service.name", service), ("service.version", VERSION)]
}

/// The name and version of what made the spans.
const SCOPE: &str = "abide";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The number that OTLP has for a span that failed.
const FAILED: u64 = 2;

fn kind(kind: SpanKind) -> u64 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    }
}

/// Since 1970, as OTLP has it.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
