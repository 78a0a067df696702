//! The other side of a drill: somebody on loopback who counts what reaches them, and does as told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{PATIENCE, node};

/// What becomes of a request once it has had its effect.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mood {
    /// It is answered with this status.
    Answers(u16),
    /// The connection is closed without an answer.
    HangsUp,
    /// Nothing comes, until the caller is gone.
    Silent,
}

/// The other side.
pub(super) struct Other {
    url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    mood: Mood,
    effects: BTreeMap<String, usize>,
}

impl Other {
    /// Somebody who answers that all is well.
    pub(super) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { mood: Mood::Answers(200), effects: BTreeMap::new() }));
        let kept = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take(stream, kept.clone()));
            }
        });
        Self { url, state }
    }

    /// A node whose request has an effect of this name.
    pub(super) fn request(&self, method: &str, name: &str, settings: Value) -> Value {
        // Whoever is silent is given up after half a second.
        let config = json!({ "method": method, "url": format!("{}/{name}", self.url), "timeoutMs": 500 });
        node(name, "core.http.request", config, json!({}), settings)
    }

    pub(super) fn is(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// How often an effect of this name happened.
    pub(super) fn effects(&self, name: &str) -> usize {
        self.state.lock().unwrap().effects.get(name).copied().unwrap_or_default()
    }

    /// Waits until an effect has happened so often.
    pub(super) async fn await_effects(&self, name: &str, count: usize) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while self.effects(name) < count {
                tokio::task::yield_now().await;
            }
        });
        assert!(waited.await.is_ok(), "'{name}' happened {} times, not {count}", self.effects(name));
    }
}

async fn take(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some(name) = read(&mut stream).await else { return };
    let mood = {
        let mut state = state.lock().unwrap();
        *state.effects.entry(name).or_default() += 1;
        state.mood
    };
    match mood {
        Mood::Answers(status) => {
            let text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.write_all(text.as_bytes()).await;
        }
        Mood::HangsUp => {}
        Mood::Silent => {
            let mut rest = Vec::new();
            while stream.read_buf(&mut rest).await.unwrap_or(0) > 0 {}
        }
    }
}

/// Reads a request, and gives the name in its path; `None` if the caller died on the way.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&bytes);
    Some(head.split(' ').nth(1)?.trim_start_matches('/').to_owned())
}
