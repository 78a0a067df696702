//! What clients do, each command at a server of their choice, until they know what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::fleet::Fleet;
use super::history::{History, Seen, Told};
use crate::crash::Dice;
pub(super) use crate::crash::race;
use crate::support::{PATIENCE, node, workflow};

/// How long a nap is.
const NAP_MS: i64 = 1_500;

/// Who answers one question at once.
const RIVALS: u64 = 4;

/// Waits for a moment.
pub(super) fn nap() -> Value {
    let nodes = [node("sleep", "core.delay", json!({ "ms": NAP_MS }), json!({}), json!({}))];
    workflow("nap", &nodes, &[], json!([]))
}

/// Somebody who sends commands.
pub(super) struct Client {
    http: reqwest::Client,
    urls: Arc<dyn Fn(usize) -> String + Send + Sync>,
    size: u64,
    key: String,
    history: History,
    dice: Arc<Mutex<Dice>>,
    number: u64,
    count: AtomicU64,
}

impl Client {
    pub(super) fn new(fleet: &Fleet, history: &History, dice: Dice, number: u64) -> Self {
        Self {
            http: fleet.http.clone(),
            urls: fleet.addresses(),
            size: fleet.size() as u64,
            key: fleet.key().to_owned(),
            history: history.clone(),
            dice: Arc::new(Mutex::new(dice)),
            number,
            count: AtomicU64::new(0),
        }
    }

    async fn anywhere(&self) -> String {
        (self.urls)(self.dice.lock().await.below(self.size) as usize)
    }

    /// Sends a command under one key to one server after the other, until one tells what became of it.
    async fn insist(&self, path: &str, key: &str, body: &Value) -> (StatusCode, Value) {
        let began = std::time::Instant::now();
        loop {
            let url = format!("{}{path}", self.anywhere().await);
            let request =
                self.http.post(url).bearer_auth(&self.key).header("Idempotency-Key", key).json(body);
            if let Some((status, body)) = sent(request).await
                && !status.is_server_error()
                && status != StatusCode::TOO_MANY_REQUESTS
                && body["error"] != "idempotency_in_flight"
            {
                return (status, body);
            }
            assert!(began.elapsed() < PATIENCE, "nobody answers {path}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts a run, at two servers at once under one key.
    async fn begin(&self, workflow: &str) -> (String, String) {
        let key = format!("start-{}-{}", self.number, self.count.fetch_add(1, Ordering::Relaxed));
        let body = json!({ "workflowId": workflow });
        let (one, two) =
            tokio::join!(self.insist("/v1/runs", &key, &body), self.insist("/v1/runs", &key, &body));
        for (status, body) in [&one, &two] {
            assert!(status.is_success(), "{status} {body}");
        }
        let run = |body: &Value| body["runId"].as_str().unwrap().to_owned();
        assert_eq!(run(&one.1), run(&two.1), "one key gives one run");
        (key, run(&one.1))
    }

    /// A question that several answer at once.
    pub(super) async fn race(&self) {
        let (key, run) = self.begin("race").await;
        self.history.note(Told::Started { key: key.clone(), run: run.clone() });
        let path = format!("/v1/runs/{run}/interrupts/gate");
        let rivals = (0..RIVALS).map(|value| {
            let (path, key) = (path.clone(), format!("{key}-answer-{value}"));
            async move { (value, self.insist(&path, &key, &json!({ "resumeValue": value })).await) }
        });
        let (answers, sequences) = tokio::join!(futures_util::future::join_all(rivals), self.follow(&run));
        for (value, (status, body)) in answers {
            match status.as_u16() {
                200 => self.history.note(Told::Won { run: run.clone(), value }),
                409 => self.history.note(Told::Lost),
                other => panic!("{other} {body}"),
            }
        }
        self.history.note(Told::Followed { run, sequences });
    }

    /// A timer.
    pub(super) async fn nap(&self) {
        let (_, run) = self.begin("nap").await;
        self.follow(&run).await;
        self.history.note(Told::Napped { run });
    }

    /// Follows a run from its beginning to its end, at one server after the other.
    async fn follow(&self, run: &str) -> Vec<u64> {
        let began = std::time::Instant::now();
        let mut seen: Vec<u64> = Vec::new();
        loop {
            if self.follow_once(run, &mut seen).await == Some(()) {
                return seen;
            }
            assert!(began.elapsed() < PATIENCE, "{run} is never seen to end; {seen:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Follows a run until it ends, or the connection does.
    async fn follow_once(&self, run: &str, seen: &mut Vec<u64>) -> Option<()> {
        let url = format!("{}/v1/runs/{run}/events?streamMode=updates", self.anywhere().await);
        let mut request = self.http.get(url).bearer_auth(&self.key).header("accept", "text/event-stream");
        request = request.timeout(Duration::from_secs(20));
        if let Some(last) = seen.last() {
            request = request.header("last-event-id", last.to_string());
        }
        let mut response = request.send().await.ok()?.error_for_status().ok()?;
        let mut text = String::new();
        while let Some(bytes) = response.chunk().await.ok()? {
            text.push_str(&String::from_utf8_lossy(&bytes));
            while let Some((frame, rest)) = text.split_once("\n\n") {
                let field =
                    |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                if let Some(id) = field("id:").and_then(|id| id.parse().ok()) {
                    seen.push(id);
                }
                let ended =
                    field("event:").is_some_and(|event| event == "run.completed" || event == "run.failed");
                let rest = rest.to_owned();
                if ended {
                    return Some(());
                }
                text = rest;
            }
        }
        None
    }
}

/// An answer, unless the connection ended before it was whole.
async fn sent(request: reqwest::RequestBuilder) -> Option<(StatusCode, Value)> {
    let response = request.send().await.ok()?;
    let status = response.status();
    let text = response.text().await.ok()?;
    Some((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
}

/// Reads at the end what became of every run that anybody was told of.
pub(super) async fn look(fleet: &Fleet, history: &[Told], dice: Dice) -> BTreeMap<String, Seen> {
    let somebody = Client::new(fleet, &History::default(), dice, 99);
    let mut seen = BTreeMap::new();
    for told in history {
        let (Told::Started { run, .. } | Told::Napped { run }) = told else { continue };
        if !seen.contains_key(run) {
            let sequences = somebody.follow(run).await;
            seen.insert(run.clone(), look_at(fleet, run, sequences).await);
        }
    }
    seen
}

async fn look_at(fleet: &Fleet, run: &str, sequences: Vec<u64>) -> Seen {
    let page = fleet.get(&format!("/v1/runs/{run}/events/poll?timeout=3&lastSequence=-1")).await;
    let shown = fleet.get(&format!("/v1/runs/{run}")).await;
    let events = page["events"].as_array().unwrap();
    let at = |kind: &'static str| {
        events.iter().filter(move |event| event["type"] == kind).map(|event| moment(&event["timestamp"]))
    };
    let resolved = events.iter().filter(|event| event["type"] == "interrupt.resolved");
    Seen {
        completed: shown["status"] == "completed",
        sequences,
        resolutions: resolved.filter_map(|event| event["payload"]["resumeValue"].as_u64()).collect(),
        kept: shown["variables"]["won"].as_u64(),
        naps: at("node.started").zip(at("node.completed")).map(|(from, to)| (to - from, NAP_MS)).collect(),
    }
}

/// Milliseconds of a time as the API writes it.
fn moment(text: &Value) -> i64 {
    text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}
