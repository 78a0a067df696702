//! The accept loop: connections, each bounded, and so many at most.
//!
//! What comes before there is a request is told by the HTTP library alone: a head that is too large is answered with
//! 431, one that can't be read with 400, both without a body; one that takes too long is closed.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::app::App;
use crate::error::ApiError;
use crate::limits;
use crate::newcomer::{Newcomer, Threshold};
use crate::stall::Impatient;
use crate::tls::Tls;
use crate::verbs::Verbs;

/// Listens at an address. Many may come at once, as after a restart, when every subscriber comes back.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // An address that connections of an earlier server still linger at can be used again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(limits::BACKLOG_MAX)
}

/// Serves until [`App::stop`] is called, then lets requests under way end.
pub async fn serve(listener: TcpListener, app: Arc<App>, tls: Option<Arc<Tls>>) -> io::Result<()> {
    let places = connections_max();
    let doors = Doors {
        http: http(),
        app: app.clone(),
        service: TowerToHyperService::new(app.service()),
        free: Arc::new(Semaphore::new(places)),
        refusals: Arc::new(Semaphore::new(limits::REFUSALS_MAX)),
        threshold: Threshold::new(),
        tls,
    };
    let mut stopped = std::pin::pin!(stopped(app.stopping()));
    loop {
        tokio::select! {
            accepted = doors.next(&listener) => match accepted {
                Ok((stream, newcomer)) => doors.admit(stream, newcomer),
                Err(error) => pause_after(&error).await,
            },
            () = stopped.as_mut() => break,
        }
    }
    // Nobody new gets in while the rest ends.
    drop(listener);
    let all = u32::try_from(places).unwrap_or(u32::MAX);
    let _ = doors.free.acquire_many(all).await;
    Ok(())
}

/// Returns when the server stops. It holds the receiver alone, which every connection has.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// How many connections there may be: each is an open file.
pub(crate) fn connections_max() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    files.saturating_sub(limits::FILES_RESERVED).clamp(1, limits::CONNECTIONS_MAX)
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_PATIENCE)
        .max_buf_size(limits::HEAD_BYTES_MAX);
    http
}

/// A connection that was not even made is its client's trouble; a lack of files or memory is ours, and passes.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!(%error, "a connection can't be accepted");
        tokio::time::sleep(limits::ACCEPT_PAUSE).await;
    }
}

/// What answers requests.
type Requests = TowerToHyperService<Verbs<axum::Router>>;

/// Where connections come in.
struct Doors {
    http: http1::Builder,
    app: Arc<App>,
    service: Requests,
    free: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    threshold: Threshold,
    /// What connections are encrypted with, if they are.
    tls: Option<Arc<Tls>>,
}

impl Doors {
    /// The next connection, once there are not too many newcomers.
    async fn next(&self, listener: &TcpListener) -> io::Result<(TcpStream, Newcomer)> {
        let newcomer = self.threshold.next().await;
        let (stream, _) = listener.accept().await?;
        Ok((stream, newcomer))
    }

    fn admit(&self, stream: TcpStream, newcomer: Newcomer) {
        match self.free.clone().try_acquire_owned() {
            Ok(place) => self.attend(stream, place, newcomer),
            Err(_) => self.refuse(stream),
        }
    }

    /// Lets a connection have its requests answered, in a place of its own.
    fn attend(&self, stream: TcpStream, place: OwnedSemaphorePermit, newcomer: Newcomer) {
        // A socket that is closed already is found out soon enough.
        let _ = tune(&stream);
        let held = (place, self.app.metrics().connected());
        let Some(tls) = self.tls.clone() else {
            tokio::spawn(converse(&self.http, &self.app, self.service.clone(), stream, held, newcomer));
            return;
        };
        let (http, app, service) = (self.http.clone(), self.app.clone(), self.service.clone());
        tokio::spawn(async move {
            // Whoever does not get through this is gone, and comes back if they mean it.
            let shaken = tokio::time::timeout(limits::HANDSHAKE_PATIENCE, tls.accept(stream)).await;
            if let Ok(Ok(stream)) = shaken {
                converse(&http, &app, service, stream, held, newcomer).await;
            }
        });
    }

    /// Tells a connection that there are too many, without waiting for what it wants. One that is to be encrypted could
    /// not be told before work was done for it, so it is closed.
    fn refuse(&self, stream: TcpStream) {
        if self.tls.is_some() {
            return;
        }
        if let Ok(turn) = self.refusals.clone().try_acquire_owned() {
            tokio::spawn(async move {
                let _ = tokio::time::timeout(limits::REFUSAL_PATIENCE, turn_away(stream)).await;
                drop(turn);
            });
        }
    }
}

/// Has a connection's requests answered until it ends, or the server stops.
fn converse<S, H>(
    http: &http1::Builder,
    app: &App,
    service: Requests,
    stream: S,
    held: H,
    newcomer: Newcomer,
) -> impl Future<Output = ()> + Send + use<S, H>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Send,
{
    let stream = Impatient::new(stream, limits::WRITE_PATIENCE);
    let connection = http.serve_connection(TokioIo::new(stream), greeting(service, newcomer.clone()));
    let stopped = stopped(app.stopping());
    async move {
        let _held = held;
        let mut serving = std::pin::pin!(async {
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                // How a connection ends is its client's affair.
                _ = connection.as_mut() => {}
                () = stopped => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        });
        tokio::select! {
            () = serving.as_mut() => {}
            () = newcomer.wait_out() => serving.await,
        }
    }
}

/// Answers requests, and ends the connection's time as a newcomer with the first.
fn greeting(
    service: Requests,
    newcomer: Newcomer,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send {
    service_fn(move |mut request: Request<Incoming>| {
        newcomer.asks();
        request.extensions_mut().insert(newcomer.clone());
        let (answering, newcomer) = (service.call(request), newcomer.clone());
        async move {
            let answer = answering.await;
            newcomer.greet();
            answer
        }
    })
}

/// Answers are small and wanted at once, and whoever vanished without a word is found out.
fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, limits::TCP_KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, limits::TCP_KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, limits::TCP_KEEPALIVE_PROBES)?;
    Ok(())
}

async fn turn_away(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(&refusal()).await?;
    stream.shutdown().await?;
    // A socket that is closed with unread bytes takes back what it said.
    let (mut read, mut buffer) = (0, [0; 4096]);
    while read < limits::REFUSAL_BYTES_MAX {
        match stream.read(&mut buffer).await? {
            0 => break,
            more => read += more,
        }
    }
    Ok(())
}

/// The whole answer to a connection for which there is no place.
fn refusal() -> Vec<u8> {
    let error = ApiError::new("unavailable", "the server has as many connections as it takes; try again");
    let body = error.envelope().to_string();
    let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
                connection: close\r\n";
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
