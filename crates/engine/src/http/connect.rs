//! Connections that go only where the policy lets them, and tell whether they came about.
//!
//! The addresses of a name are filtered where they are found, so the address that was checked is the
//! address that is connected to: a name can't be public when it is checked and private a moment later.
//!
//! The client's hooks say nothing of the request they work for. What they need to know is held in a
//! task-local, [`Hop`]; without keeping connections the client resolves and connects in the caller's task.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tower_layer::Layer;
use tower_service::Service;

use super::policy::NetPolicy;
use crate::limits::HTTP_ADDRESSES_MAX;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

tokio::task_local! {
    /// What is under way in this task.
    pub(super) static HOP: Arc<Hop>;
}

/// One request to one host: the first of an attempt, or one after a redirect.
pub(super) struct Hop {
    host: String,
    port: u16,
    /// Set when the policy left none of the host's addresses.
    refused: AtomicBool,
    /// Set when a connection stands. It is shared by all hops of an attempt.
    connected: Arc<AtomicBool>,
}

impl Hop {
    pub(super) fn new(host: &str, port: u16, connected: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self { host: host.to_owned(), port, refused: AtomicBool::new(false), connected })
    }

    pub(super) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }
}

/// Fails closed: a connection that belongs to no hop can't be judged.
fn current() -> Result<Arc<Hop>, BoxError> {
    HOP.try_with(Arc::clone).map_err(|_| "a connection outside of any request".into())
}

/// Looks names up as the operating system does, and leaves out what the policy does not permit.
pub(super) struct Resolver {
    pub(super) policy: Arc<NetPolicy>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy.clone();
        Box::pin(async move {
            let hop = current()?;
            // The client puts the URL's port in the place of this one.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let permitted = policy.permitted(&hop.host, hop.port, found.take(HTTP_ADDRESSES_MAX));
            some_or_refused(permitted, &hop)
        })
    }
}

fn some_or_refused(permitted: Vec<SocketAddr>, hop: &Hop) -> Result<Addrs, BoxError> {
    if permitted.is_empty() {
        hop.refused.store(true, Ordering::Release);
        return Err("no permitted address".into());
    }
    Ok(Box::new(permitted.into_iter()))
}

/// Marks the hop as connected when the connection, TLS included, stands.
#[derive(Clone)]
pub(super) struct MarkConnected;

impl<S> Layer<S> for MarkConnected {
    type Service = Marking<S>;

    fn layer(&self, inner: S) -> Marking<S> {
        Marking(inner)
    }
}

/// A connector that marks.
#[derive(Clone)]
pub(super) struct Marking<S>(S);

impl<S, R> Service<R> for Marking<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let connecting = self.0.call(request);
        Box::pin(async move {
            let hop = current()?;
            let connection = connecting.await?;
            hop.connected.store(true, Ordering::Release);
            Ok(connection)
        })
    }
}
