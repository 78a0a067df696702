//! Intents over HTTP, as OpenIntent's client drives them: made, suspended in three requests, answered, completed; alone, by
//! several at once, and among many others. The server is a process of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::server::{Server, prepare};
use super::wire::{Connection, request_with};
use super::{Latencies, Report, rate};
use crate::output;

/// Intents that one client drives alone, and looks that are taken.
const ALONE: usize = 200;
const LOOKS: usize = 200;

/// How many there are.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) intents: usize,
    pub(super) concurrency: usize,
}

pub(super) async fn bench(dir: &Path, size: Size) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let key = prepare(dir, &[]).await?;
    let server = Server::start(dir, &key).await?;
    let caller = Caller { address: server.address, key: key.as_str().into() };
    output::say("one client alone …");
    let mut alone = Steps::default();
    caller.drive(ALONE, &mut alone).await?;
    report.part("one client, one request after the other: every change is on disk before it is answered");
    alone.tell(&mut report);
    output::say(&format!("{} clients at once …", size.concurrency));
    at_once(&caller, size, &mut report).await?;
    among_many(&caller, size, &mut report).await?;
    report.figure("MiB resident, server", server.resident()?);
    server.stop()?;
    Ok(report)
}

/// Whoever asks the server.
#[derive(Clone)]
struct Caller {
    address: SocketAddr,
    key: Arc<str>,
}

/// What each step of an intent's life took.
struct Steps {
    create: Latencies,
    status: Latencies,
    record: Latencies,
    respond: Latencies,
    complete: Latencies,
}

impl Default for Steps {
    fn default() -> Self {
        let new = Latencies::new;
        Self { create: new(), status: new(), record: new(), respond: new(), complete: new() }
    }
}

impl Steps {
    fn named(&self) -> [(&'static str, &Latencies); 5] {
        [
            ("create", &self.create),
            ("suspend: the word", &self.status),
            ("suspend: the record", &self.record),
            ("respond", &self.respond),
            ("complete", &self.complete),
        ]
    }

    fn tell(&self, report: &mut Report) {
        for (name, latencies) in self.named() {
            report
                .figure(&format!("{name}, ms at the median"), latencies.ms(0.5))
                .figure(&format!("{name}, ms at 99 %"), latencies.ms(0.99));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.create.merge(&other.create);
        self.status.merge(&other.status);
        self.record.merge(&other.record);
        self.respond.merge(&other.respond);
        self.complete.merge(&other.complete);
    }
}

/// A connection of whoever asks.
struct Asking {
    caller: Caller,
    connection: Connection,
}

impl Asking {
    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        version: Option<u64>,
        body: Option<&Value>,
        took: &mut Latencies,
    ) -> anyhow::Result<Value> {
        let headers = version.map_or(String::new(), |version| format!("if-match: {version}\r\n"));
        let ask = request_with(self.caller.address, &self.caller.key, method, path, &headers, body);
        let began = Instant::now();
        let (status, body) = self.connection.ask(&ask).await?;
        took.add(began.elapsed());
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        anyhow::ensure!((200..300).contains(&status), "{method} {path} was answered {status}: {answer}");
        Ok(answer)
    }

    async fn create(&mut self, more: &Value, took: &mut Latencies) -> anyhow::Result<String> {
        let mut body = json!({ "title": "Review", "created_by": "bench", "status": "active" });
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let made = self.ask("POST", "/api/v1/intents", None, Some(&body), took).await?;
        made["id"].as_str().map(str::to_owned).context("an intent without an id")
    }

    /// One intent from its beginning to its end.
    async fn live(&mut self, steps: &mut Steps) -> anyhow::Result<()> {
        let id = self.create(&json!({}), &mut steps.create).await?;
        let at = |part: &str| format!("/api/v1/intents/{id}/{part}");
        let suspended = json!({ "status": "suspended_awaiting_input" });
        let seen = self.ask("POST", &at("status"), Some(1), Some(&suspended), &mut steps.status).await?;
        let record = json!({
            "id": "sign-off", "question": "Sign off?", "response_type": "choice", "fallback_policy": "fail",
            "choices": [{ "value": "yes", "label": "Yes" }, { "value": "no", "label": "No" }], "timeout_seconds": 3600,
        });
        let patch = json!({ "patches": [{ "op": "set", "path": "_suspension", "value": record }] });
        let version = seen["version"].as_u64();
        self.ask("POST", &at("state"), version, Some(&patch), &mut steps.record).await?;
        let answer = json!({ "suspension_id": "sign-off", "value": "yes" });
        self.ask("POST", &at("suspend/respond"), None, Some(&answer), &mut steps.respond).await?;
        let mut looked = Latencies::new();
        let seen = self.ask("GET", &format!("/api/v1/intents/{id}"), None, None, &mut looked).await?;
        let told = &seen["state"]["_suspension"]["response"];
        anyhow::ensure!(told == "yes", "an answer that was acknowledged is lost: {seen}");
        let done = json!({ "status": "completed" });
        self.ask("POST", &at("status"), seen["version"].as_u64(), Some(&done), &mut steps.complete).await?;
        Ok(())
    }
}

impl Caller {
    async fn connect(&self) -> anyhow::Result<Asking> {
        Ok(Asking { caller: self.clone(), connection: Connection::open(self.address).await? })
    }

    async fn drive(&self, count: usize, steps: &mut Steps) -> anyhow::Result<()> {
        let mut asking = self.connect().await?;
        for _ in 0..count {
            asking.live(steps).await?;
        }
        Ok(())
    }
}

async fn at_once(caller: &Caller, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let mut drivers = JoinSet::new();
    let began = Instant::now();
    for _ in 0..size.concurrency {
        let caller = caller.clone();
        drivers.spawn(async move {
            let mut steps = Steps::default();
            caller.drive(ALONE, &mut steps).await.map(|()| steps)
        });
    }
    let mut all = Steps::default();
    while let Some(driven) = drivers.join_next().await {
        all.merge(&driven??);
    }
    let lives = size.concurrency * ALONE;
    report
        .part(&format!("{} clients at once", size.concurrency))
        .figure("intents/s, made, suspended, answered and completed", rate(lives, began.elapsed()));
    all.tell(report);
    Ok(())
}

/// Makes intents that depend on one, and looks among them.
async fn among_many(caller: &Caller, size: Size, report: &mut Report) -> anyhow::Result<()> {
    output::say(&format!("{} intents that depend on one …", size.intents));
    let mut made = Latencies::new();
    let mut asking = caller.connect().await?;
    let first = asking.create(&json!({}), &mut made).await?;
    let began = Instant::now();
    let mut drivers = JoinSet::new();
    for driver in 0..size.concurrency {
        let share = size.intents / size.concurrency + usize::from(driver < size.intents % size.concurrency);
        let (caller, on) = (caller.clone(), first.clone());
        drivers.spawn(async move {
            let (mut asking, mut took) = (caller.connect().await?, Latencies::new());
            for _ in 0..share {
                asking.create(&json!({ "depends_on": [on] }), &mut took).await?;
            }
            anyhow::Ok(took)
        });
    }
    while let Some(driven) = drivers.join_next().await {
        made.merge(&driven??);
    }
    report
        .part(&format!("{} intents that depend on one, made by {} clients", size.intents, size.concurrency))
        .figure("created/s", rate(size.intents, began.elapsed()))
        .figure("create, ms at the median", made.ms(0.5))
        .figure("create, ms at 99 %", made.ms(0.99));
    look(&mut asking, &first, report).await
}

async fn look(asking: &mut Asking, first: &str, report: &mut Report) -> anyhow::Result<()> {
    output::say("looks among them …");
    let paths = [
        ("the newest 50", "/api/v1/intents?limit=50".to_owned()),
        ("the newest 50 that are blocked", "/api/v1/intents?limit=50&status=blocked".to_owned()),
        ("one", format!("/api/v1/intents/{first}")),
        ("those that depend on it", format!("/api/v1/intents/{first}/dependents")),
        ("its graph", format!("/api/v1/intents/{first}/graph")),
    ];
    report.part("looks among them");
    for (what, path) in paths {
        let (mut took, began) = (Latencies::new(), Instant::now());
        for _ in 0..LOOKS {
            asking.ask("GET", &path, None, None, &mut took).await?;
            if began.elapsed() > Duration::from_secs(20) {
                break;
            }
        }
        report
            .figure(&format!("{what}, ms at the median"), took.ms(0.5))
            .figure(&format!("{what}, ms at 99 %"), took.ms(0.99));
    }
    Ok(())
}
