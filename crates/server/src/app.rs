//! What handlers share, and how requests get to them.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use abide_core::Key;
use abide_engine::{Engine, TestClock};
use abide_store::{Cluster, Hint};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tokio::sync::watch;

use crate::admission::{Admission, Capacity};
use crate::auth::Principal;
use crate::error::{ApiError, Result};
use crate::gate::{self, Gate};
use crate::idempotency::Slots;
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::oidc::Oidc;
use crate::operation::Operation;
use crate::otlp::Otlp;
use crate::providers_api::ProviderFacts;
use crate::rates::{Limiter, Rates};
use crate::secrets::SecretStore;
use crate::stream::Feeds;
use crate::trace;
use crate::verbs::Verbs;
use crate::webhooks::Signer;
use crate::workers_api::forward;
use crate::{limits, nowhere, openapi, openintent, openwop, pages, routes, unread};

/// The server's time in milliseconds, with every answer: the clock of whoever asks may differ, and a test clock does.
const NOW: HeaderName = HeaderName::from_static("abide-now");

/// What a server is made of.
pub struct AppOptions {
    /// The engine below.
    pub engine: Engine,
    /// Who may come in.
    pub keys: Keys,
    /// The identity provider whose tokens are taken, if there is one.
    pub oidc: Option<Oidc>,
    /// How often they may ask.
    pub rates: Rates,
    /// How much is taken on at once.
    pub capacity: Capacity,
    /// Users' named secrets.
    pub secrets: Arc<SecretStore>,
    /// What signs events to webhooks.
    pub signer: Arc<Signer>,
    /// The test clock, in `abide dev --test-clock` alone.
    pub test_clock: Option<Arc<TestClock>>,
    /// Where spans are sent to, if they are.
    pub otlp: Option<Arc<Otlp>>,
    /// The address that people and other machines reach the server at, if it is not the one it listens on.
    pub public_url: Option<String>,
    /// Whether its own connections are encrypted.
    pub encrypts: bool,
    /// The providers of models that the operator named.
    pub providers: Vec<ProviderFacts>,
}

/// What the handlers share.
pub struct App {
    options: AppOptions,
    feeds: Arc<Feeds>,
    limiter: Limiter,
    admission: Admission,
    slots: Slots,
    /// Held by whoever changes an agent's record.
    changing_agents: tokio::sync::Mutex<()>,
    stopping: watch::Sender<bool>,
    /// Places for debug bundles that are being made.
    bundles: tokio::sync::Semaphore,
    began: Instant,
    metrics: Metrics,
    discovery: OnceLock<openwop::discovery::Document>,
    openapi: OnceLock<openapi::Document>,
    /// What passes requests of workers on.
    forwarder: OnceLock<std::result::Result<reqwest::Client, String>>,
}

impl App {
    /// A server that is not listening yet.
    pub fn new(options: AppOptions) -> Arc<Self> {
        let metrics = Metrics::of(&options);
        let (limiter, admission) = (Limiter::new(options.rates), Admission::new(options.capacity));
        let app = Arc::new(Self {
            options,
            feeds: Arc::default(),
            limiter,
            admission,
            slots: Slots::default(),
            changing_agents: tokio::sync::Mutex::default(),
            stopping: watch::Sender::new(false),
            bundles: tokio::sync::Semaphore::new(limits::BUNDLES_AT_ONCE),
            began: Instant::now(),
            metrics,
            discovery: OnceLock::new(),
            openapi: OnceLock::new(),
            forwarder: OnceLock::new(),
        });
        app.follow_others();
        app
    }

    /// Hears of what other servers change, for as long as this one is there. One that is alone has nothing to hear.
    fn follow_others(self: &Arc<Self>) {
        if self.cluster().is_some() {
            let app = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = app.keys().follow() => {}
                    () = app.stopped() => {}
                }
            });
        }
    }

    /// The servers that share the store, unless this one is alone.
    pub(crate) fn cluster(&self) -> Option<&dyn Cluster> {
        self.engine().store().cluster()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.options.engine
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.options.keys
    }

    pub(crate) fn oidc(&self) -> Option<&Oidc> {
        self.options.oidc.as_ref()
    }

    /// Counts a request of somebody, or refuses it, because they ask too often.
    pub(crate) fn count(&self, principal: &Principal) -> Result<()> {
        self.limiter.take(principal, self.servers(), self.engine().clock().now())
    }

    /// Tells the other servers something, if there are any.
    pub(crate) fn tell(&self, hint: Hint) {
        if let Some(cluster) = self.cluster() {
            cluster.tell(hint);
        }
    }

    /// How many servers there are on the store, with this one.
    pub(crate) fn servers(&self) -> u32 {
        let alive = self.cluster().map_or(1, |cluster| cluster.view().borrow().servers.len().max(1));
        u32::try_from(alive).unwrap_or(u32::MAX)
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Repeatable requests that are under way.
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Held by whoever changes an agent's record.
    pub(crate) fn changing_agents(&self) -> &tokio::sync::Mutex<()> {
        &self.changing_agents
    }

    /// The providers of models that the operator named.
    pub(crate) fn providers(&self) -> &[ProviderFacts] {
        &self.options.providers
    }

    /// Places for debug bundles that are being made.
    pub(crate) fn bundles(&self) -> &tokio::sync::Semaphore {
        &self.bundles
    }

    /// For how long it has been there.
    pub(crate) fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn secrets(&self) -> &SecretStore {
        &self.options.secrets
    }

    pub(crate) fn signer(&self) -> &Signer {
        &self.options.signer
    }

    pub(crate) fn otlp(&self) -> Option<&Arc<Otlp>> {
        self.options.otlp.as_ref()
    }

    /// Where people reach the server, if the operator says so.
    pub(crate) fn public_url(&self) -> Option<&str> {
        self.options.public_url.as_deref()
    }

    /// A path of this server for whoever is elsewhere; the path alone, if the operator does not say where the server is.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.public_url().unwrap_or_default().trim_end_matches('/'))
    }

    /// Whether people reach the server over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url().map_or(self.options.encrypts, |url| url.starts_with("https://"))
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn test_clock(&self) -> Option<&Arc<TestClock>> {
        self.options.test_clock.as_ref()
    }

    /// What this server can do, as it is told.
    pub(crate) fn discovery(&self) -> &openwop::discovery::Document {
        self.discovery.get_or_init(|| openwop::discovery::Document::of(self))
    }

    /// The OpenAPI document of this server's own operations.
    pub(crate) fn openapi(&self) -> &openapi::Document {
        self.openapi.get_or_init(|| openapi::Document::of(&routes::operations(self)))
    }

    /// Whether there is such an operation, by its path as OpenAPI writes it.
    pub(crate) fn serves(&self, method: &Method, path: &str) -> bool {
        self.openapi().serves(method, path)
    }

    /// What passes requests of workers on to the servers that they talk to.
    pub(crate) fn forwarder(&self) -> std::result::Result<&reqwest::Client, &String> {
        self.forwarder.get_or_init(forward::client).as_ref()
    }

    /// The streams of runs' events.
    pub(crate) fn feeds(&self) -> &Arc<Feeds> {
        &self.feeds
    }

    /// Tells whoever follows a run's updates something that is never recorded: an event of this type, with its document
    /// as JSON text.
    pub fn announce(&self, run: Key, kind: &str, document: &[u8]) {
        self.feeds.announce(run, kind, document);
    }

    /// Sends waiting polls home and ends streams, so that connections can close.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Returns when the server stops.
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as `self`.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// Turns true when the server stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// The routes, behind what every request passes through.
    pub fn service(self: &Arc<Self>) -> Verbs<Router> {
        let operations = routes::operations(self);
        // OpenWOP has verbs for runs that are not offered here; they are not found.
        let verbs = operations.iter().filter_map(Operation::before_verb).chain(["/v1/runs/"]).collect();
        let mut router = Router::new();
        for operation in operations {
            let gate = Gate::of(self, &operation);
            let mut handler = operation.handler.clone();
            if operation.at_home {
                handler = handler.layer(middleware::from_fn_with_state(self.clone(), forward::pass));
            }
            let handler = handler.layer(middleware::from_fn_with_state(gate, gate::pass));
            router = router.route(&operation.route(), handler);
        }
        let router = router
            .merge(pages::routes(self))
            .fallback(nowhere::no_such_path)
            .method_not_allowed_fallback(nowhere::no_such_method)
            .layer(middleware::from_fn(contain_panics))
            .layer(middleware::from_fn(openintent::speak))
            .layer(middleware::from_fn(unread::tell))
            .layer(middleware::from_fn_with_state(self.clone(), tell_time))
            .layer(middleware::from_fn_with_state(self.clone(), trace::follow))
            .with_state(self.clone());
        Verbs::new(router, verbs)
    }
}

async fn tell_time(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(NOW, HeaderValue::from(app.engine().clock().now()));
    response
}

/// A bug in one request is that request's alone.
async fn contain_panics(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => ApiError::internal(&"a handler panicked; the message stands above").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::StatusCode;
    use axum::routing::get;
    use tower_service::Service;

    use super::*;

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_with_a_correlation_id_and_not_with_its_message() {
        async fn panics() {
            panic!("the secret is 1234");
        }
        let mut router: Router =
            Router::new().route("/", get(panics)).layer(middleware::from_fn(contain_panics));
        let response = router.call(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"], "internal_error");
        assert_eq!(body["details"]["correlationId"].as_str().map(str::len), Some(32), "{body}");
        assert!(!body.to_string().contains("1234"), "{body}");
    }
}
