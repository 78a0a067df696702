//! Receivers, and messages for them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_core::{InterruptId, InterruptKind, Json, RunId};
use abide_notify::{About, Channels, ChannelsConfig, Choice, Message, Outcome, Purpose, Recipient};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// How long a test waits for what must come. It is only there so that one that would wait for ever ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The link that answers. Nothing else in a message may hold its token.
pub(crate) const LINK: &str =
    "https://abide.example.com/answer/eyJydW5JZCI6InJ1bi0wMWExZTEwYiJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg";

/// In 2026.
pub(crate) const AT: i64 = 1_774_346_400_000;

pub(crate) fn channels(config: &str) -> Channels {
    let config: ChannelsConfig = toml::from_str(config).unwrap();
    Channels::from_config(config).unwrap()
}

/// A question of a person to another.
pub(crate) fn ask() -> Message {
    let about = About {
        run: RunId::from_bytes([1; 16]),
        interrupt: InterruptId::from_bytes([2; InterruptId::BYTES]),
        kind: InterruptKind::Clarification,
        node: Some("review".to_owned()),
        workflow: Some("compliance".to_owned()),
    };
    let yes = Choice { label: "Yes".to_owned(), description: Some("pay it back".to_owned()) };
    let recipient = Recipient {
        name: "alice".to_owned(),
        address: Some("alice@example.com".to_owned()),
        display_name: Some("Alice Lidell".to_owned()),
    };
    Message {
        purpose: Purpose::Ask { attempt: 1, max_attempts: 3 },
        about: Some(about),
        title: "Refund order 12?".to_owned(),
        question: Some("Order 12 came late.\nRefund it?".to_owned()),
        context: Some(Json::of(&json!({"order": {"number": 12}}))),
        choices: vec![yes],
        link: Some(LINK.to_owned()),
        deadline: Some(AT + 3 * 3_600_000),
        next_attempt_at: Some(AT + 3_600_000),
        mentions: vec![recipient.clone()],
        ..Message::test("int-02/1/desk/alice".to_owned(), AT, recipient)
    }
}

/// The same, once somebody answered.
pub(crate) fn answered() -> Message {
    let purpose = Purpose::FollowUp { outcome: Outcome::Resolved, by: Some("Bob".to_owned()), at: AT };
    Message { purpose, idempotency_key: "int-02/closed/desk/alice".to_owned(), ..ask() }
}

/// A request as it arrived.
pub(crate) struct Arrived {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Arrived {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What a receiver does once a request has arrived.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These bytes, and then the connection is closed.
    Bytes(String),
    /// These bytes, and then others without end.
    Flood(String),
    /// These bytes, and then nothing.
    Stall(String),
    /// The connection is closed at once.
    Close,
}

impl Answer {
    pub(crate) fn status(line: &str) -> Self {
        Self::Bytes(format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n"))
    }
}

/// An HTTP server that speaks as badly as it is told to.
pub(crate) struct Receiver {
    pub(crate) url: String,
    arrived: mpsc::UnboundedReceiver<Arrived>,
}

impl Receiver {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, arrived) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), sender.clone()));
            }
        });
        Self { url, arrived }
    }

    /// What arrived next.
    pub(crate) async fn next(&mut self) -> Arrived {
        tokio::time::timeout(PATIENCE, self.arrived.recv()).await.expect("it arrives").unwrap()
    }

    /// How many have arrived beside those that were looked at.
    pub(crate) fn left(&self) -> usize {
        self.arrived.len()
    }
}

async fn serve(mut stream: TcpStream, answer: Answer, sender: mpsc::UnboundedSender<Arrived>) {
    let arrived = read(&mut stream).await;
    sender.send(arrived).ok();
    match answer {
        Answer::Close => {}
        Answer::Bytes(bytes) => {
            stream.write_all(bytes.as_bytes()).await.ok();
        }
        Answer::Stall(bytes) => {
            stream.write_all(bytes.as_bytes()).await.ok();
            std::future::pending::<()>().await;
        }
        Answer::Flood(bytes) => {
            stream.write_all(bytes.as_bytes()).await.ok();
            while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
        }
    }
}

async fn read(stream: &mut TcpStream) -> Arrived {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "a request has a head");
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let (first, lines) = text.split_once("\r\n").unwrap();
    let headers: HashMap<String, String> = lines
        .split("\r\n")
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers["content-length"].parse().unwrap();
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        assert_ne!(stream.read_buf(&mut body).await.unwrap(), 0, "a request is whole");
    }
    Arrived { path: first.split(' ').nth(1).unwrap().to_owned(), headers, body }
}

/// The root of this repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tests' own Python environment, which has a mail server.
pub(crate) fn python() -> PathBuf {
    let missing = "run ./test once: it makes the Python environment";
    let built = std::env::current_exe().unwrap();
    let beside = || built.ancestors().map(|dir| dir.join("python")).find(|dir| dir.is_dir());
    let home: PathBuf = std::env::var_os("ABIDE_TEST_PYTHON").map(Into::into).or_else(beside).expect(missing);
    let wanted = std::fs::read(repository().join("tests/python/requirements.txt")).unwrap();
    let there = std::fs::read(home.join("requirements.txt")).unwrap_or_default();
    assert!(wanted == there, "{missing}; what it has is not what tests/python/requirements.txt lists");
    home.join("bin/python")
}
