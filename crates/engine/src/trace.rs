//! Traces: what belongs together across requests, runs and their children, and across restarts.
//!
//! There are two kinds of spans. What one process does from beginning to end, a request or a commit, is measured where it
//! is done ([`OpenSpan`]). What may last for months, a run and everything in it, is read from the run's journal when it
//! has ended (`trace/timeline.rs`): no process need be there from beginning to end, and the ids follow from what the
//! spans are of (`trace/id.rs`). Both are handed over when they have ended; where to, is the server's business. Without
//! somebody to hand them to, nothing is measured and nothing is kept. The context goes on all the same: what a run sends
//! to other systems belongs to the trace that the run was started in.

mod id;
mod teller;
mod timeline;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_core::Millis;
pub use abide_core::Trace;

pub(crate) use id::of_attempt;
pub(crate) use teller::{Teller, Told, run};

tokio::task_local! {
    static CURRENT: Trace;
}

/// Does something as part of a span: the commits that it leads to are below it.
pub async fn within<F: Future>(trace: Trace, work: F) -> F::Output {
    CURRENT.scope(trace, work).await
}

/// Does something as part of a span if there is one: for work that is handed to a task of its own.
pub async fn carried<F: Future>(trace: Option<Trace>, work: F) -> F::Output {
    match trace {
        Some(trace) => within(trace, work).await,
        None => work.await,
    }
}

/// The span that the current task is part of.
pub fn current() -> Option<Trace> {
    CURRENT.try_with(Clone::clone).ok()
}

/// A new trace. Whether it is sampled is up to whoever begins it.
pub fn begin(sampled: bool) -> Trace {
    Trace { trace_id: *uuid::Uuid::new_v4().as_bytes(), span_id: draw(), sampled, state: None }
}

/// Another span of the same trace.
pub fn below(trace: &Trace) -> Trace {
    trace.span(draw())
}

/// An id for a span. It is never zero: a part of it says how it was drawn.
fn draw() -> [u8; 8] {
    uuid::Uuid::new_v4().as_u64_pair().0.to_be_bytes()
}

/// Takes the spans that have ended. It must not block: it is called on the busiest threads.
pub trait Spans: Send + Sync + 'static {
    /// A span has ended.
    fn take(&self, span: Span);

    /// So many spans have ended that nobody will hear of.
    fn lose(&self, spans: usize);
}

/// A piece of work that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What was done.
    pub name: String,
    /// Whether somebody else asked for it, or is asked.
    pub kind: SpanKind,
    /// Its own place in the trace.
    pub trace: Trace,
    /// The span above it.
    pub parent: Option<[u8; 8]>,
    /// When it began and ended, by the system's clock.
    pub began: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// Whether it failed.
    pub failed: bool,
    /// What else is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// What happened meanwhile.
    pub moments: Vec<Moment>,
    /// What it has to do with in other traces.
    pub links: Vec<Trace>,
}

/// Something that happened within a span: what OpenTelemetry calls an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What happened.
    pub name: &'static str,
    /// When.
    pub at: SystemTime,
    /// What else is known of it.
    pub attributes: Vec<(&'static str, Value)>,
}

/// What is known of a span, under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Who asked for a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// We ourselves.
    Internal,
    /// Somebody else.
    Server,
    /// We ourselves, and somebody else does it.
    Client,
}

/// A time of a journal, as spans have it.
fn time(at: Millis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at).unwrap_or(0))
}

/// A span that has begun.
pub struct OpenSpan {
    span: Span,
    spans: Arc<dyn Spans>,
}

impl OpenSpan {
    /// Begins a span.
    pub fn begin(
        spans: &Arc<dyn Spans>,
        name: impl Into<String>,
        kind: SpanKind,
        own: &Trace,
        parent: Option<[u8; 8]>,
    ) -> Self {
        let now = SystemTime::now();
        let span = Span {
            name: name.into(),
            kind,
            trace: own.clone(),
            parent,
            began: now,
            ended: now,
            failed: false,
            attributes: Vec::new(),
            moments: Vec::new(),
            links: Vec::new(),
        };
        Self { span, spans: spans.clone() }
    }

    /// Notes what is known of it.
    pub fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.span.attributes.push((name, value.into()));
    }

    /// Calls it by a better name.
    pub fn rename(&mut self, name: String) {
        self.span.name = name;
    }

    /// Ends it.
    pub fn end(mut self, failed: bool) {
        (self.span.ended, self.span.failed) = (SystemTime::now(), failed);
        self.spans.take(self.span);
    }
}
