//! Connections that go only where the policy lets them, and tell whether they came about.
//!
//! The addresses of a name are filtered where they are found, so the address that was checked is the
//! address that is connected to: a name can't be public when it is checked and private a moment later.
//!
//! The client's hooks say nothing of the request they work for. What they need to know is held in a
//! task-local, [`Hop`]; without keeping connections the client resolves and connects in the caller's task.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tower_layer::Layer;
use tower_service::Service;

use super::policy::NetPolicy;
use crate::limits::{HTTP_ADDRESSES_MAX, HTTP_LOOKUPS_MAX};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

tokio::task_local! {
    /// What is under way in this task.
    pub(super) static HOP: Arc<Hop>;
}

/// One request to one host: the first of an attempt, or one after a redirect.
pub(super) struct Hop {
    host: String,
    port: u16,
    /// Whether only addresses that the operator named will do.
    named_only: bool,
    /// Set when the policy left none of the host's addresses.
    refused: AtomicBool,
    /// Set when no address of the host was found.
    unknown: AtomicBool,
    /// Set when a connection stands. It is shared by all hops of an attempt.
    connected: Arc<AtomicBool>,
}

impl Hop {
    pub(super) fn new(host: &str, port: u16, connected: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self::of(host, port, false, connected))
    }

    /// A request that goes nowhere but where the operator said, by name.
    pub(super) fn to_named(host: &str, port: u16) -> Arc<Self> {
        Arc::new(Self::of(host, port, true, Arc::default()))
    }

    fn of(host: &str, port: u16, named_only: bool, connected: Arc<AtomicBool>) -> Self {
        let (refused, unknown) = Default::default();
        Self { host: host.to_owned(), port, named_only, refused, unknown, connected }
    }

    /// The addresses that this request may connect to.
    fn permitted(&self, policy: &NetPolicy, found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let mut permitted = policy.permitted(&self.host, self.port, found.into_iter());
        permitted.retain(|address| !self.named_only || policy.names(&self.host, self.port, address.ip()));
        permitted
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.unknown.load(Ordering::Acquire)
    }

    pub(super) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }
}

/// Fails closed: a connection that belongs to no hop can't be judged.
fn current() -> Result<Arc<Hop>, BoxError> {
    HOP.try_with(Arc::clone).map_err(|_| "a connection outside of any request".into())
}

/// Finds the addresses of a name, and blocks the thread meanwhile.
type LookUp = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// Looks names up as the operating system does, and leaves out what the policy does not permit.
pub(super) struct Resolver {
    policy: Arc<NetPolicy>,
    look_up: LookUp,
    /// The operating system's lookups can't be broken off, and each holds a thread that others need as well.
    lookups: Arc<Semaphore>,
}

impl Resolver {
    pub(super) fn new(policy: Arc<NetPolicy>) -> Self {
        Self { policy, look_up: ask_system, lookups: Arc::new(Semaphore::new(HTTP_LOOKUPS_MAX)) }
    }
}

fn ask_system(name: &str) -> io::Result<Vec<SocketAddr>> {
    // The client puts the URL's port in the place of this one.
    Ok((name, 0).to_socket_addrs()?.take(HTTP_ADDRESSES_MAX).collect())
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, look_up, lookups) = (self.policy.clone(), self.look_up, self.lookups.clone());
        Box::pin(async move {
            let hop = current()?;
            let permit = lookups.acquire_owned().await?;
            let found = spawn_blocking(move || {
                // Whoever asked may be gone by then; the thread is in use until here all the same.
                let _permit = permit;
                look_up(name.as_str())
            });
            let found = found.await?.inspect_err(|_| hop.unknown.store(true, Ordering::Release))?;
            some_or_refused(hop.permitted(&policy, found), &hop)
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Lookups that have begun.
    static BEGUN: AtomicUsize = AtomicUsize::new(0);

    /// Held by the test for as long as no lookup is to end.
    static GATE: Mutex<()> = Mutex::new(());

    fn slow(_: &str) -> io::Result<Vec<SocketAddr>> {
        BEGUN.fetch_add(1, Ordering::AcqRel);
        drop(GATE.lock().unwrap());
        Ok(vec!["1.1.1.1:0".parse().unwrap()])
    }

    fn resolve(resolver: &Resolver) -> impl Future<Output = Result<Addrs, BoxError>> + use<> {
        let hop = Hop::new("slow.example", 80, Arc::default());
        HOP.scope(hop, resolver.resolve("slow.example".parse().unwrap()))
    }

    #[test]
    fn lookups_that_nobody_waits_for_any_more_still_count() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let gate = GATE.lock().unwrap();
        runtime.block_on(async {
            let resolver = Resolver { look_up: slow, ..Resolver::new(Arc::default()) };
            let asked: Vec<_> = (0..2 * HTTP_LOOKUPS_MAX).map(|_| tokio::spawn(resolve(&resolver))).collect();
            while BEGUN.load(Ordering::Acquire) < HTTP_LOOKUPS_MAX {
                tokio::task::yield_now().await;
            }
            for one in asked {
                one.abort();
                assert!(one.await.is_err_and(|error| error.is_cancelled()));
            }
            let late = tokio::spawn(resolve(&resolver));
            tokio::task::yield_now().await;
            assert_eq!(resolver.lookups.available_permits(), 0, "their threads are in use");
            assert_eq!(BEGUN.load(Ordering::Acquire), HTTP_LOOKUPS_MAX);
            drop(gate);
            assert_eq!(late.await.unwrap().ok().unwrap().count(), 1, "it gets its turn");
        });
    }
}
