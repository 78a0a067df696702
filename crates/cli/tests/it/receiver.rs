//! A server of the test's own that events are sent to, on loopback.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::PATIENCE;

/// What lets a server send to it.
pub(crate) const ALLOW: [&str; 2] = ["--allow-net", "127.0.0.1/32"];

/// One request that came in.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    head: String,
    /// The very bytes.
    pub(crate) body: Vec<u8>,
}

impl Post {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        });
        found.unwrap_or_else(|| panic!("there is no {name} in {}", self.head))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What the receiver answers to the n-th request, counted from 0.
type Answering = Arc<dyn Fn(usize, &Post) -> u16 + Send + Sync>;

/// The server.
pub(crate) struct Receiver {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<Post>>>,
}

impl Receiver {
    /// A receiver that takes everything.
    pub(crate) async fn start() -> Self {
        Self::answering(|_, _| 204).await
    }

    /// A receiver that answers with a status.
    pub(crate) async fn answering(answer: impl Fn(usize, &Post) -> u16 + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<Post>>> = Arc::default();
        let (kept, answer): (_, Answering) = (heard.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, kept.clone(), answer.clone()));
            }
        });
        Self { url, heard }
    }

    /// Everything so far.
    pub(crate) fn heard(&self) -> Vec<Post> {
        self.heard.lock().unwrap().clone()
    }

    /// Waits until so many requests came in.
    pub(crate) async fn await_posts(&self, count: usize) -> Vec<Post> {
        let waiting = async {
            while self.heard.lock().unwrap().len() < count {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "{} of {count} deliveries came", self.heard().len());
        self.heard()
    }

    /// The sequences that came in of each run, in the order in which they came.
    pub(crate) fn sequences(&self) -> BTreeMap<String, Vec<i64>> {
        let mut by_run: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for post in self.heard() {
            let body = post.json();
            let run = body["runId"].as_str().unwrap().to_owned();
            by_run.entry(run).or_default().push(body["event"]["sequence"].as_i64().unwrap());
        }
        by_run
    }
}

async fn serve(mut stream: TcpStream, heard: Arc<Mutex<Vec<Post>>>, answer: Answering) {
    let Some(post) = read(&mut stream).await else { return };
    let status = {
        let mut heard = heard.lock().unwrap();
        heard.push(post.clone());
        answer(heard.len() - 1, &post)
    };
    let text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let _ = stream.write_all(text.as_bytes()).await;
}

/// Reads one request; `None` if the sender died on the way.
async fn read(stream: &mut TcpStream) -> Option<Post> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| {
                let (key, value) = line.split_once(": ")?;
                key.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
            });
            let body = &bytes[end + 4..];
            if body.len() >= length.unwrap_or(0) {
                return Some(Post { head, body: body.to_vec() });
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}
