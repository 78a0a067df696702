//! What is told of every request: a place in a trace, a line in the log, a count.
//!
//! Of what a request carries, nothing is told but its method, the pattern of its path and who sent it: paths and
//! queries may hold what somebody keeps to themselves, and headers do.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use abide_core::TenantId;
use abide_engine::trace::{self, OpenSpan, SpanKind, Spans, Trace};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::auth::Principal;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What stands in the place of a route that there is none of.
const NOWHERE: &str = "none";

/// Routes that machines ask for all day long.
const QUIET: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// A request on its way: where it went, and whose it is.
#[derive(Clone, Default)]
pub(crate) struct Visit(Arc<Seen>);

#[derive(Default)]
struct Seen {
    route: OnceLock<&'static str>,
    caller: OnceLock<(TenantId, String)>,
}

/// What is noted of a request. Every one that comes through [`follow`] has it.
pub(crate) fn visit(request: &Request) -> Visit {
    request.extensions().get::<Visit>().cloned().unwrap_or_default()
}

impl Visit {
    /// The request has come to an operation. It comes to one.
    pub(crate) fn came_to(&self, route: &'static str) {
        let _ = self.0.route.set(route);
    }

    /// It is known whose the request is.
    pub(crate) fn is_of(&self, principal: &Principal) {
        let _ = self.0.caller.set((principal.tenant, principal.key.clone()));
    }

    fn route(&self) -> &'static str {
        self.0.route.get().copied().unwrap_or(NOWHERE)
    }

    fn tenant(&self) -> Option<u32> {
        self.0.caller.get().map(|(tenant, _)| tenant.0)
    }

    fn key(&self) -> Option<&str> {
        self.0.caller.get().map(|(_, key)| key.as_str())
    }
}

/// Follows a request to its answer.
pub(crate) async fn follow(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let above = incoming(request.headers());
    let own = above.as_ref().map_or_else(|| trace::begin(app.otlp().is_some()), trace::below);
    let span = open(&app, &own, above.as_ref());
    let (visit, method) = (Visit::default(), known(request.method()));
    request.extensions_mut().insert(visit.clone());
    let under_way = app.metrics().request_began();
    let mut response = trace::within(own.clone(), next.run(request)).await;
    drop(under_way);
    if let Ok(parent) = HeaderValue::try_from(own.parent()) {
        response.headers_mut().insert(TRACEPARENT, parent);
    }
    let done = Answered { method, visit, status: response.status(), took: began.elapsed() };
    app.metrics().count_request(method, done.visit.route(), done.status.as_u16(), done.took);
    done.log(&own);
    if let Some(span) = span {
        done.end(span);
    }
    response
}

/// Where the sender stands in a trace. What is malformed counts as nothing.
fn incoming(headers: &HeaderMap) -> Option<Trace> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = parents.next().filter(|_| parents.next().is_none())?;
    let states: Vec<&str> =
        headers.get_all(TRACESTATE).iter().filter_map(|state| state.to_str().ok()).collect();
    Trace::parse(parent.to_str().ok()?, Some(&states.join(",")))
}

fn open(app: &App, own: &Trace, above: Option<&Trace>) -> Option<OpenSpan> {
    let otlp = app.otlp().filter(|_| own.sampled)?;
    let spans: Arc<dyn Spans> = otlp.clone();
    Some(OpenSpan::begin(&spans, "request", SpanKind::Server, own, above.map(|above| above.span_id)))
}

/// A method's name, from a list that nobody can make longer.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// A request that was answered.
struct Answered {
    method: &'static str,
    visit: Visit,
    status: StatusCode,
    took: Duration,
}

impl Answered {
    fn log(&self, trace: &Trace) {
        let (method, route, status) = (self.method, self.visit.route(), self.status.as_u16());
        let (tenant, key) = (self.visit.tenant(), self.visit.key());
        let ms = self.took.as_secs_f64() * 1000.0;
        let trace_id = trace.id();
        // A server that is full or shutting down refuses many, and says so once by itself.
        if self.status.is_server_error() && self.status != StatusCode::SERVICE_UNAVAILABLE {
            tracing::warn!(method, route, status, ms, tenant, key, trace_id, "request");
        } else if QUIET.contains(&route) {
            tracing::debug!(method, route, status, ms, tenant, key, trace_id, "request");
        } else {
            tracing::info!(method, route, status, ms, tenant, key, trace_id, "request");
        }
    }

    /// What machines ask for all day long is no span: it would bury the others.
    fn end(&self, mut span: OpenSpan) {
        if QUIET.contains(&self.visit.route()) {
            return;
        }
        span.rename(format!("{} {}", self.method, self.visit.route()));
        span.note("http.request.method", self.method);
        span.note("http.route", self.visit.route());
        span.note("http.response.status_code", u32::from(self.status.as_u16()));
        if let Some(tenant) = self.visit.tenant() {
            span.note("abide.tenant.id", tenant);
        }
        span.end(self.status.is_server_error());
    }
}
