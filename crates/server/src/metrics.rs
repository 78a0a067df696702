//! What the server counts, as OpenMetrics text.
//!
//! Almost everything is counted as it happens; what waits for an answer or a worker is counted in an index when somebody
//! asks. No label has a value that a tenant
//! could choose, so that there is no end of time series.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use abide_core::{BreakerState, InterruptKind, Millis, ReasonCode};
use abide_engine::{CallEnd, Engine, Stats};
use abide_store::Standing;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::app::{App, AppOptions};
use crate::error::{ApiError, Result};
use crate::otlp::Otlp;
use crate::providers_api::state_name;

/// What the text is.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text";

/// The same, with which version of it.
const CONTENT_TYPE_SENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds up to which requests are counted: from the fastest read to a long poll.
const SECONDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Which requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: &'static str,
    status: u16,
}

/// Which requests are measured together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    method: &'static str,
    route: &'static str,
}

/// Seconds up to which answers are counted: from a machine's to what took a month.
const ANSWER_SECONDS: [f64; 12] =
    [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0, 2_592_000.0];

/// Which interrupts are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

/// Which turns are counted together. The operator names providers, so there are few.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfProvider {
    provider: String,
    kind: &'static str,
}

/// Which breakers are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    provider: String,
    state: &'static str,
}

/// The counters of one server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Asked, Histogram, fn() -> Histogram>,
    answers: Family<OfKind, Histogram, fn() -> Histogram>,
    open: Family<OfKind, Gauge>,
    oldest: Family<OfKind, Gauge<f64, AtomicU64>>,
    workers: Gauge,
    work_held: Gauge,
    work_waiting: Gauge,
    turns_waiting: Family<OfProvider, Gauge>,
    breakers: Family<InState, Gauge>,
    under_way: Gauge,
    rate_limited: Counter,
    connections: Gauge,
    waiting: Gauge,
    body_bytes: Gauge,
    servers: Gauge,
    lag: Gauge<f64, AtomicU64>,
}

/// A request or a connection; it is over when this is dropped, however it ends.
pub(crate) struct UnderWay(Gauge);

impl UnderWay {
    fn of(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// The counters of a server on this engine.
    pub(crate) fn of(options: &AppOptions) -> Self {
        let mut registry = Registry::with_prefix("abide");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Which abide this is", build);
        let requests: Family<Answered, Counter> = Family::default();
        registry.register("http_requests", "Requests that were answered", requests.clone());
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let seconds: Family<Asked, Histogram, fn() -> Histogram> = Family::new_with_constructor(histogram);
        registry.register("http_request_seconds", "How long answers took to begin", seconds.clone());
        let histogram: fn() -> Histogram = || Histogram::new(ANSWER_SECONDS);
        let answers: Family<OfKind, Histogram, fn() -> Histogram> = Family::new_with_constructor(histogram);
        registry.register(
            "interrupt_resolve_seconds",
            "How long interrupts were open that somebody answered",
            answers.clone(),
        );
        let open: Family<OfKind, Gauge> = Family::default();
        registry.register("interrupts_open", "Interrupts that wait for an answer", open.clone());
        let oldest: Family<OfKind, Gauge<f64, AtomicU64>> = Family::default();
        registry.register(
            "interrupts_oldest_seconds",
            "How long the oldest of them has waited",
            oldest.clone(),
        );
        let (workers, work_held, work_waiting) = (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register("workers", "Workers that are there", workers.clone());
        registry.register("worker_tasks_held", "Tasks that workers have", work_held.clone());
        registry.register("worker_tasks_waiting", "Tasks that wait for a worker", work_waiting.clone());
        let turns_waiting: Family<OfProvider, Gauge> = Family::default();
        registry.register("turns_waiting", "Turns that wait for their provider", turns_waiting.clone());
        let breakers: Family<InState, Gauge> = Family::default();
        registry.register(
            "provider_breakers",
            "Tenants whose breaker of a provider is in a state",
            breakers.clone(),
        );
        let under_way = Gauge::default();
        registry.register("http_requests_under_way", "Requests that are not answered yet", under_way.clone());
        let rate_limited = Counter::default();
        registry.register("http_rate_limited", "Requests that came too often", rate_limited.clone());
        let (connections, waiting) = (Gauge::default(), Gauge::default());
        registry.register("http_connections", "Connections that are open", connections.clone());
        registry.register("http_waiting", "Polls and streams that are open", waiting.clone());
        let body_bytes = Gauge::default();
        registry.register("http_body_bytes", "Bytes of request bodies that are held", body_bytes.clone());
        let (servers, lag) = register_cluster(&mut registry);
        let (engine, otlp) = (options.engine.clone(), options.otlp.clone());
        registry.register_collector(Box::new(Below { engine, otlp }));
        Self {
            registry,
            requests,
            seconds,
            answers,
            open,
            oldest,
            workers,
            work_held,
            work_waiting,
            turns_waiting,
            breakers,
            under_way,
            rate_limited,
            connections,
            waiting,
            body_bytes,
            servers,
            lag,
        }
    }

    /// A request has come.
    pub(crate) fn request_began(&self) -> UnderWay {
        UnderWay::of(&self.under_way)
    }

    /// A connection was made.
    pub(crate) fn connected(&self) -> UnderWay {
        UnderWay::of(&self.connections)
    }

    /// Somebody answered an interrupt that was open for so long.
    pub(crate) fn interrupt_resolved(&self, kind: InterruptKind, ms: Millis) {
        let seconds = ms.max(0) as f64 / 1000.0;
        self.answers.get_or_create(&OfKind { kind: kind.name() }).observe(seconds);
    }

    /// Notes how many interrupts wait, and for how long. The store keeps the count: this looks through nothing.
    fn standing(&self, standing: &[Standing], now: Millis) {
        for kind in InterruptKind::ALL {
            let of_kind = || standing.iter().filter(|one| one.kind == kind);
            let open: u64 = of_kind().map(|one| one.open).sum();
            let oldest = of_kind().filter_map(|one| one.oldest).min();
            let waited = oldest.map_or(0, |oldest| now.saturating_sub(oldest).max(0));
            let label = OfKind { kind: kind.name() };
            self.open.get_or_create(&label).set(i64::try_from(open).unwrap_or(i64::MAX));
            self.oldest.get_or_create(&label).set(waited as f64 / 1000.0);
        }
    }

    /// Notes who is there and what waits for somebody.
    async fn work(&self, app: &App) -> Result<()> {
        let (workers, held) = app.engine().worker_counts();
        let waiting = app.engine().store().work().waiting().await?;
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.workers.set(whole(workers as u64));
        self.work_held.set(whole(held.values().sum()));
        self.work_waiting.set(whole(waiting.iter().map(|(.., count)| count).sum()));
        Ok(())
    }

    /// Notes which turns wait for their provider, and how the breakers stand.
    async fn turns(&self, app: &App) -> Result<()> {
        let store = app.engine().store();
        let mut waiting: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        for (tenant, _) in store.tenants().await? {
            for count in store.providers().waiting_turns(tenant).await? {
                *waiting.entry((count.provider.clone(), "retry")).or_default() += count.retry;
                *waiting.entry((count.provider, "breaker")).or_default() += count.postponed;
            }
        }
        let states = app.engine().breaker_states().await;
        let named = |name: &String| (name.clone(), BreakerState::Closed);
        let known: Vec<_> = app.providers().iter().map(|facts| named(&facts.name)).collect();
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        // What is not there any more is not to stand there for ever.
        self.turns_waiting.clear();
        self.breakers.clear();
        for (provider, _) in &known {
            for kind in ["retry", "breaker"] {
                waiting.entry((provider.clone(), kind)).or_default();
            }
        }
        for ((provider, kind), count) in waiting {
            self.turns_waiting.get_or_create(&OfProvider { provider, kind }).set(whole(count));
        }
        for (provider, _) in known.iter().chain(&states) {
            for state in ["closed", "open", "half_open"] {
                let provider = provider.clone();
                let count = states
                    .iter()
                    .filter(|(name, in_state)| *name == provider && state_name(*in_state) == state);
                let count = whole(count.count() as u64);
                self.breakers.get_or_create(&InState { provider, state }).set(count);
            }
        }
        Ok(())
    }

    /// Notes how many servers there are, and how far behind this one is.
    fn cluster(&self, app: &App) {
        self.servers.set(i64::from(app.servers()));
        let boot = app.engine().store().boot();
        let lag_ms = app.cluster().and_then(|cluster| {
            let view = cluster.view();
            let view = view.borrow();
            view.servers.iter().find(|server| server.boot == boot).map(|server| server.lag_ms)
        });
        self.lag.set(lag_ms.unwrap_or_default() as f64 / 1000.0);
    }

    /// A request was answered.
    pub(crate) fn count_request(
        &self,
        method: &'static str,
        route: &'static str,
        status: u16,
        took: Duration,
    ) {
        self.requests.get_or_create(&Answered { method, route, status }).inc();
        self.seconds.get_or_create(&Asked { method, route }).observe(took.as_secs_f64());
        if status == 429 {
            self.rate_limited.inc();
        }
    }
}

/// How many servers there are, and how far behind this one is.
fn register_cluster(registry: &mut Registry) -> (Gauge, Gauge<f64, AtomicU64>) {
    let (servers, lag) = (Gauge::default(), Gauge::default());
    registry.register("cluster_servers", "Servers that share the store, with this one", servers.clone());
    let help = "How long the oldest thing that this server should have done by now has waited";
    registry.register("cluster_lag_seconds", help, lag.clone());
    (servers, lag)
}

/// The metrics, for whoever collects them.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Result<impl IntoResponse> {
    let mut text = String::new();
    let (metrics, admission) = (app.metrics(), app.admission());
    metrics.waiting.set(i64::try_from(admission.waiting()).unwrap_or(i64::MAX));
    metrics.body_bytes.set(i64::try_from(admission.body_bytes()).unwrap_or(i64::MAX));
    let standing = app.engine().inbox().standing().await?;
    metrics.standing(&standing, app.engine().clock().now());
    metrics.cluster(&app);
    metrics.work(&app).await?;
    metrics.turns(&app).await?;
    encode(&mut text, &metrics.registry).map_err(|error| ApiError::internal(&error))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE_SENT)], text))
}

/// What is counted below the HTTP surface.
struct Below {
    engine: Engine,
    otlp: Option<Arc<Otlp>>,
}

impl fmt::Debug for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Below")
    }
}

/// How runs ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    status: &'static str,
}

impl Collector for Below {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::result::Result<(), fmt::Error> {
        let stats = self.engine.stats();
        encode_runs(&mut encoder, &stats)?;
        encode_decisions(&mut encoder, &stats)?;
        encode_calls(&mut encoder, &stats)?;
        for (name, help, count) in counters(&stats, self.otlp.as_deref()) {
            let counter = ConstCounter::new(count);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        for (name, help, value) in gauges(&stats) {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// Decisions about interrupted runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Decided {
    reason_code: &'static str,
}

fn encode_decisions(
    encoder: &mut DescriptorEncoder<'_>,
    stats: &Stats,
) -> std::result::Result<(), fmt::Error> {
    let kind = ConstCounter::new(0_u64).metric_type();
    let help = "Decisions whether an interrupted run is resumed";
    let mut family = encoder.encode_descriptor("resume_decisions", help, None, kind)?;
    for (code, count) in ReasonCode::ALL.into_iter().zip(stats.resume_decisions) {
        let counter = ConstCounter::new(count);
        counter.encode(family.encode_family(&Decided { reason_code: code.name() })?)?;
    }
    Ok(())
}

/// Calls of models.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Called {
    outcome: &'static str,
}

fn encode_calls(encoder: &mut DescriptorEncoder<'_>, stats: &Stats) -> std::result::Result<(), fmt::Error> {
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut family = encoder.encode_descriptor("provider_calls", "Calls of models that ended", None, kind)?;
    for (end, count) in CallEnd::ALL.into_iter().zip(stats.provider_calls) {
        let counter = ConstCounter::new(count);
        counter.encode(family.encode_family(&Called { outcome: end.name() })?)?;
    }
    Ok(())
}

fn encode_runs(encoder: &mut DescriptorEncoder<'_>, stats: &Stats) -> std::result::Result<(), fmt::Error> {
    let ended = [
        ("completed", stats.runs_completed),
        ("failed", stats.runs_failed),
        ("cancelled", stats.runs_cancelled),
    ];
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut family = encoder.encode_descriptor("runs_ended", "Runs that ended", None, kind)?;
    for (status, count) in ended {
        let counter = ConstCounter::new(count);
        counter.encode(family.encode_family(&Ended { status })?)?;
    }
    Ok(())
}

fn counters(stats: &Stats, otlp: Option<&Otlp>) -> Vec<(&'static str, &'static str, f64)> {
    let (exported, dropped) = otlp.map_or((0, 0), Otlp::counts);
    let whole = |count: u64| count as f64;
    vec![
        ("runs_started", "Runs that began", whole(stats.runs_started)),
        ("commits", "Commits that became durable", whole(stats.store.commits)),
        ("transactions", "Transactions that carried them", whole(stats.store.transactions)),
        ("rows_written", "Statements that wrote a row", whole(stats.store.rows)),
        ("tasks", "Tasks that were begun", whole(stats.tasks)),
        ("timers_fired", "Timers that fired", whole(stats.timers_fired)),
        ("timers_late_seconds", "How late they fired, together", stats.timers_late_ms as f64 / 1000.0),
        ("messages_delivered", "Messages between runs that arrived", whole(stats.messages_delivered)),
        ("notices_sent", "Messages to people that were sent", whole(stats.notices_sent)),
        ("notices_failed", "Tries at messages to people that failed", whole(stats.notices_failed)),
        ("notices_dead", "Messages to people that were given up", whole(stats.notices_dead)),
        ("notices_put_off", "Messages that had to wait for a limit", whole(stats.notices_put_off)),
        ("notices_refused", "People who may not be told", whole(stats.notices_refused)),
        ("notices_unreachable", "People whom nothing reaches", whole(stats.notices_unreachable)),
        ("notices_followed", "Recipients for whom all is said", whole(stats.notices_followed)),
        (
            "resume_escalations",
            "Interrupted runs that came to wait for a person",
            whole(stats.resume_escalations),
        ),
        ("provider_retries", "Retries that turns came to wait for", whole(stats.provider_retries)),
        (
            "provider_postponements",
            "Turns that came to wait until their provider is back",
            whole(stats.provider_postponements),
        ),
        ("spans_exported", "Spans that a collector took", whole(exported)),
        ("spans_dropped", "Spans that no collector took", whole(dropped)),
    ]
}

fn gauges(stats: &Stats) -> Vec<(&'static str, &'static str, f64)> {
    let whole = |count: u64| count as f64;
    vec![
        ("tasks_under_way", "Places in use at the executor", whole(stats.tasks_under_way)),
        ("tasks_max", "Places at the executor", whole(stats.tasks_max)),
        ("commits_under_way", "Commits on their way to the disk", whole(stats.commits_under_way)),
        ("commits_max", "Commits that may be on their way", whole(stats.commits_max)),
        (
            "timers_overdue_seconds",
            "How long the first due timer waits",
            stats.timers_overdue_ms as f64 / 1000.0,
        ),
        ("outbox_waiting", "Messages that the last pass could not deliver", whole(stats.messages_waiting)),
    ]
}
