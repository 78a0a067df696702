//! Traces: what belongs together across requests, commits and dispatches, and across restarts.
//!
//! A span is made where its work is done and handed over when that has ended; where to, is the server's business.
//! Without somebody to hand them to, nothing is measured and nothing is kept. The context goes on all the same: what
//! a run sends to other systems belongs to the trace that the run was started in.

use std::sync::Arc;
use std::time::SystemTime;

pub use abide_core::Trace;

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
}

/// A piece of work that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What was done.
    pub name: String,
    /// Whether somebody else asked for it.
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
    pub attributes: Vec<(&'static str, String)>,
}

/// Who asked for a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// We ourselves.
    Internal,
    /// Somebody else.
    Server,
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
        let (name, trace) = (name.into(), own.clone());
        let span =
            Span { name, kind, trace, parent, began: now, ended: now, failed: false, attributes: Vec::new() };
        Self { span, spans: spans.clone() }
    }

    /// Notes what is known of it.
    pub fn note(&mut self, name: &'static str, value: &(impl ToString + ?Sized)) {
        self.span.attributes.push((name, value.to_string()));
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
