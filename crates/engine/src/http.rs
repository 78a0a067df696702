//! Carries out `core.http.request`: one attempt at one request.
//!
//! | noun | file | what it does |
//! |---|---|---|
//! | [`HttpExecutor`] | here | sends, follows redirects, and says how it ended |
//! | [`NetPolicy`] | `http/policy.rs`, `http/address.rs` | which addresses may be reached |
//! | `Hop`, `Resolver` | `http/connect.rs` | connections that keep to the policy |
//! | `Outgoing` | `http/outgoing.rs` | the request with its secrets, checked |
//! | post | `http/post.rs` | one event to one webhook |
//! | answer | `http/answer.rs` | the response as the node's output |
//! | in_url | `http/in_url.rs` | what becomes of a secret in a URL; the core takes it out of what comes back |
//! | failure | `http/failure.rs` | every way to fail, with its code |
//!
//! It does not retry: whether another attempt is made, and when, is decided by the run.

mod address;
mod answer;
mod connect;
mod failure;
mod in_url;
mod outgoing;
mod policy;
mod post;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use abide_core::{HttpRequest, Json, Reached, Scrub, TaskFailure, Trace};
use reqwest::header::LOCATION;
use reqwest::{Client, Response, redirect, retry};
use tokio::time::{Instant, timeout_at};

pub use address::Net;
pub use policy::{Allowed, NetPolicy};

pub(crate) use post::Post;

use connect::{HOP, Hop, MarkConnected, Resolver};
use outgoing::Outgoing;

use crate::limits;

/// Why there is no client for HTTP.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client can't start: {0}; install the system's CA certificates")]
pub struct HttpUnavailable(String);

/// Makes requests for nodes. It keeps no connections and no cookies: each attempt stands alone.
pub struct HttpExecutor {
    client: Client,
    policy: Arc<NetPolicy>,
    resolver: Arc<Resolver>,
}

impl HttpExecutor {
    /// An executor that reaches what `policy` lets it reach. It reads the system's CA certificates, once.
    pub fn new(policy: NetPolicy) -> Result<Self, HttpUnavailable> {
        let policy = Arc::new(policy);
        let resolver = Arc::new(Resolver::new(policy.clone()));
        let client = Client::builder()
            .user_agent(concat!("abide/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(redirect::Policy::none())
            .referer(false)
            .retry(retry::never())
            // A kept connection may be closed by the other side in the moment it is used again, and then
            // nobody can tell whether the request arrived. A new one costs a round trip and knows.
            .pool_max_idle_per_host(0)
            .connect_timeout(Duration::from_millis(limits::HTTP_CONNECT_MS_MAX))
            .dns_resolver(resolver.clone())
            .connector_layer(MarkConnected)
            .build()
            .map_err(|error| HttpUnavailable(failure::causes(&error)))?;
        Ok(Self { client, policy, resolver })
    }

    /// Makes one attempt. The answer is `{"status", "headers", "body"}`, or says how it failed.
    ///
    /// The request carries its place in a trace, unless the node's own headers name one.
    /// The values of secrets are looked up before the first await. To stop an attempt, drop it.
    pub fn perform<'a>(
        &'a self,
        request: &'a HttpRequest,
        secrets: &dyn Fn(&str) -> Option<String>,
        trace: Option<&Trace>,
    ) -> impl Future<Output = Result<Json, TaskFailure>> + Send + use<'a> {
        let prepared = outgoing::prepare(request, secrets, trace);
        async move {
            let (outgoing, forms) = prepared?;
            let scrub = apart(forms.bytes(), move || Scrub::new(&forms)).await?;
            let attempt = Attempt::new(self, request, Arc::new(scrub));
            attempt.follow(outgoing).await.map_err(|failed| attempt.judged(failed))
        }
    }
}

/// One attempt under way.
struct Attempt<'a> {
    executor: &'a HttpExecutor,
    request: &'a HttpRequest,
    scrub: Arc<Scrub>,
    deadline: Instant,
    /// Whether any connection stood: until then nothing was sent to anybody.
    connected: Arc<AtomicBool>,
}

impl<'a> Attempt<'a> {
    fn new(executor: &'a HttpExecutor, request: &'a HttpRequest, scrub: Arc<Scrub>) -> Self {
        let timeout_ms = request.timeout_ms.clamp(1, limits::HTTP_TIMEOUT_MS_MAX).unsigned_abs();
        let deadline = Instant::now() + Duration::from_millis(timeout_ms);
        Self { executor, request, scrub, deadline, connected: Arc::default() }
    }

    async fn follow(&self, mut outgoing: Outgoing) -> Result<Json, TaskFailure> {
        let mut redirects_left = self.request.redirects_max.min(limits::HTTP_REDIRECTS_MAX);
        loop {
            let response = self.send(&outgoing).await?;
            let status = response.status().as_u16();
            let Some(location) = self.location(&response) else {
                return self.conclude(response).await;
            };
            redirects_left = redirects_left.checked_sub(1).ok_or_else(failure::redirects_exceeded)?;
            outgoing = outgoing.redirected(status, &location)?;
        }
    }

    async fn send(&self, outgoing: &Outgoing) -> Result<Response, TaskFailure> {
        let (host, port) = outgoing.target();
        // The client looks up names only, so an address in the URL never comes to the resolver.
        if literal(host).is_some_and(|address| !self.executor.policy.permits(host, port, address)) {
            return Err(failure::address_refused(host));
        }
        let hop = Hop::new(host, port, self.connected.clone());
        let sending = HOP.scope(hop.clone(), self.executor.client.execute(outgoing.to_request()));
        match timeout_at(self.deadline, sending).await {
            Err(_) => Err(failure::timed_out()),
            Ok(Err(_)) if hop.was_refused() => Err(failure::address_refused(host)),
            Ok(Err(_)) if hop.is_unknown() => Err(failure::unknown_host(host)),
            Ok(Err(error)) => Err(failure::unanswered(error, &outgoing.place())),
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// Where the answer sends the request, unless the node takes the redirect itself as an answer.
    fn location(&self, response: &Response) -> Option<String> {
        let status = response.status().as_u16();
        let redirects = matches!(status, 301 | 302 | 303 | 307 | 308);
        if !redirects || self.request.accept_statuses.contains(&status) {
            return None;
        }
        let location = response.headers().get(LOCATION)?;
        Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
    }

    async fn conclude(&self, response: Response) -> Result<Json, TaskFailure> {
        let status = response.status().as_u16();
        if (200..400).contains(&status) || self.request.accept_statuses.contains(&status) {
            let bytes_max = self.request.response_bytes_max.min(limits::HTTP_RESPONSE_BYTES_MAX);
            answer::accepted(response, bytes_max, self.deadline, &self.scrub).await
        } else {
            Err(answer::refused(response, self.deadline, &self.scrub).await)
        }
    }

    /// The failure with what only the attempt knows.
    fn judged(&self, mut failed: TaskFailure) -> TaskFailure {
        let connected = self.connected.load(Ordering::Acquire);
        failed.reached = if connected { Reached::Maybe } else { Reached::No };
        failed.failure.message = self.scrub.text(&failed.failure.message);
        failed
    }
}

/// The address that stands in the place of a host.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Does work on so many bytes: at once if they are few, and otherwise where it keeps nobody waiting.
async fn apart<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskFailure> {
    if bytes <= limits::HTTP_SEARCH_BYTES_MAX {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|_| failure::stopped())
}
