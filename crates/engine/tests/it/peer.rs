//! A server on loopback that says exactly what a test wants it to say, byte for byte.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::support::within;

/// How the server answers a request.
pub(crate) enum Act {
    /// These bytes, and the end of the connection.
    Say(Vec<u8>),
    /// These bytes, and then silence.
    SayAndHang(Vec<u8>),
    /// These bytes, and then a reset.
    SayAndReset(Vec<u8>),
    /// A body that never ends.
    Endless,
}

/// The server.
pub(crate) struct Peer {
    pub(crate) port: u16,
    /// Told when a client that got no answer has gone.
    pub(crate) left: Arc<Notify>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// Starts a server that answers each request by what `answer` makes of its text.
    pub(crate) async fn start(answer: impl Fn(&str) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let left = Arc::new(Notify::new());
        tokio::spawn(serve(listener, heard.clone(), left.clone(), Arc::new(answer)));
        Self { port, left, heard }
    }

    /// A server with one answer.
    pub(crate) async fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |_| Act::Say(answer.clone())).await
    }

    /// A URL of this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Waits until it has heard so many requests.
    pub(crate) async fn hears(&self, count: usize) {
        within("a request", async {
            while self.heard.lock().unwrap().len() < count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Every request so far: head and body.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// An answer with a status, headers and a body.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

type Answering = Arc<dyn Fn(&str) -> Act + Send + Sync>;

async fn serve(
    listener: TcpListener,
    heard: Arc<Mutex<Vec<String>>>,
    left: Arc<Notify>,
    answering: Answering,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (heard, left, answering) = (heard.clone(), left.clone(), answering.clone());
        tokio::spawn(async move {
            let mut stream = stream;
            if let Some(request) = read_request(&mut stream).await {
                heard.lock().unwrap().push(request.clone());
                act(stream, answering(&request), &left).await;
            }
        });
    }
}

/// Reads one request, or nothing if what comes is not HTTP.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.to_lowercase().lines().find_map(|line| {
            line.strip_prefix("content-length:").map(|length| length.trim().parse::<usize>().unwrap())
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(text);
        }
    }
}

async fn act(mut stream: TcpStream, act: Act, left: &Notify) {
    match act {
        Act::Say(bytes) => drop(stream.write_all(&bytes).await),
        Act::SayAndHang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            // The client hangs up when its time is over.
            let _ = stream.read(&mut [0]).await;
            left.notify_one();
        }
        Act::SayAndReset(bytes) => {
            let _ = stream.write_all(&bytes).await;
            stream.set_zero_linger().unwrap();
        }
        Act::Endless => {
            let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
            while stream.write_all(&bytes).await.is_ok() {
                bytes = vec![b'x'; 4096];
            }
        }
    }
}

/// A port where connections are taken in and nothing is ever said.
pub(crate) async fn silent_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    port
}

/// A port where nobody listens.
pub(crate) async fn closed_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap().port()
}

/// How long the tests let a request take that is never answered.
pub(crate) const SHORT: Duration = Duration::from_millis(200);
