//! Roundtrips: start, a step, an interrupt, its answer, a step, the end; over HTTP, against a server in a process of its
//! own. Then the same with many runs that wait.
//!
//! A start and an answer are requests of their own, so each is on disk before it is acknowledged, in a commit of its own.
//! What the steps are is measured both ways: on disk each before the next begins, and in one stretch with the start or
//! the answer. Steps in a stretch share its commit and are not individually durable.

mod parked;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::http;
use super::rig::chain;
use super::server::{Server, prepare};
use super::wire::{Connection, request};
use super::{Latencies, Report, rate};
use crate::output;

pub(super) use parked::park as park_all;

/// Roundtrips that go before the measured ones, for each connection: files grow and caches fill.
const WARM_UP: usize = 4;

/// Roundtrips that are made one after the other, at most; more would only take time.
const SEQUENTIAL_MAX: usize = 2_000;

/// Seconds that a poll waits for news.
const POLL_S: u32 = 30;

/// The node that asks.
pub(super) const GATE: &str = "gate";

/// What a bench of roundtrips is asked for.
pub(super) struct Size {
    pub(super) concurrency: usize,
    pub(super) roundtrips: usize,
    pub(super) parked: usize,
    pub(super) payload: usize,
}

pub(super) async fn bench(dir: &Path, size: &Size) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let answered = dir.join("answered");
    let key = prepare(&answered, &[gated("durable", true), gated("stretch", false), chain("one", 1, false)])
        .await?;
    let server = Server::start(&answered, &key).await?;
    let ways = [
        ("durable", "roundtrips over HTTP; start, answer and both steps each individually durable"),
        (
            "stretch",
            "roundtrips over HTTP; start and answer individually durable, the steps in their commits",
        ),
    ];
    let alone = runs_alone(&server, &key, size).await?;
    for (workflow, title) in ways {
        report.part(title).figure("roundtrips", size.roundtrips);
        let counts = sequential(&server, &key, workflow, size, &mut report).await?;
        output::say(&format!("{} at a time …", size.concurrency));
        let client = Caller::new(server.address, &key, workflow);
        client.drive(size.concurrency, size.concurrency * WARM_UP).await?;
        let (took, latencies, _) = client.drive(size.concurrency, size.roundtrips).await?;
        let per_second = rate(size.roundtrips, took);
        report
            .figure(&format!("roundtrips/s, {} at a time", size.concurrency), per_second)
            .figure(&format!("ms p50, {} at a time", size.concurrency), latencies.ms(0.5))
            .figure(&format!("ms p99, {} at a time", size.concurrency), latencies.ms(0.99))
            .figure("requests per roundtrip, one at a time", counts)
            .figure("runs of one step without an interrupt, runs/s", alone)
            .figure("ratio to those", per_second / alone);
    }
    server.stop()?;
    if size.parked > 0 {
        parked::bench(&dir.join("parked"), size, &mut report).await?;
    }
    Ok(report)
}

/// What the same server does with runs that ask nothing.
async fn runs_alone(server: &Server, key: &str, size: &Size) -> anyhow::Result<f64> {
    output::say(&format!("{} runs of one step, {} at a time …", size.roundtrips, size.concurrency));
    let request = http::start_of_one(server.address, key);
    http::drive(server.address, &request, size.concurrency, size.concurrency * WARM_UP).await?;
    let (took, _) = http::drive(server.address, &request, size.concurrency, size.roundtrips).await?;
    Ok(rate(size.roundtrips, took))
}

/// One roundtrip at a time. Gives the requests that one took.
async fn sequential(
    server: &Server,
    key: &str,
    workflow: &'static str,
    size: &Size,
    report: &mut Report,
) -> anyhow::Result<f64> {
    let roundtrips = size.roundtrips.clamp(1, SEQUENTIAL_MAX);
    output::say(&format!("{roundtrips} roundtrips ({workflow}), one at a time …"));
    let client = Caller::new(server.address, key, workflow);
    client.drive(1, WARM_UP).await?;
    let (_, latencies, requests) = client.drive(1, roundtrips).await?;
    report
        .figure("roundtrips one at a time", roundtrips)
        .figure("ms p50, one at a time", latencies.ms(0.5))
        .figure("ms p99, one at a time", latencies.ms(0.99));
    Ok(requests as f64 / roundtrips as f64)
}

/// A step, a gate, a step.
pub(super) fn gated(id: &str, durable: bool) -> Value {
    let step = |id: &str| {
        json!({
            "id": id, "typeId": "core.noop", "name": id, "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {},
            "settings": { "abide": { "durable": durable } },
        })
    };
    let gate = json!({
        "id": GATE, "typeId": "core.approvalGate", "name": GATE, "position": { "x": 0, "y": 0 },
        "config": { "title": "Go on?" }, "inputs": {}, "settings": {},
    });
    let edge = |from: &str, to: &str| json!({ "id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to });
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": [step("before"), gate, step("after")],
        "edges": [edge("before", GATE), edge(GATE, "after")], "triggers": [], "variables": [], "metadata": {},
        "settings": {},
    })
}

/// Whoever starts runs and answers them.
#[derive(Clone)]
pub(super) struct Caller {
    address: SocketAddr,
    key: Arc<str>,
    start: Arc<[u8]>,
    answer: Value,
}

impl Caller {
    pub(super) fn new(address: SocketAddr, key: &str, workflow: &str) -> Self {
        Self::with(address, key, &json!({ "workflowId": workflow }))
    }

    fn with(address: SocketAddr, key: &str, body: &Value) -> Self {
        let start = request(address, key, "POST", "/v1/runs", Some(body)).into();
        Self { address, key: key.into(), start, answer: json!({ "resumeValue": { "action": "accept" } }) }
    }

    /// Makes roundtrips over `concurrency` connections, one after the other on each. Gives the requests as well.
    pub(super) async fn drive(
        &self,
        concurrency: usize,
        roundtrips: usize,
    ) -> anyhow::Result<(Duration, Latencies, usize)> {
        let mut connections = Vec::with_capacity(concurrency);
        for _ in 0..concurrency {
            connections.push(Connection::open(self.address).await?);
        }
        let began = Instant::now();
        let mut drivers = JoinSet::new();
        for (driver, connection) in connections.into_iter().enumerate() {
            let share = roundtrips / concurrency + usize::from(driver < roundtrips % concurrency);
            drivers.spawn(self.clone().take_turns(connection, share));
        }
        let (mut latencies, mut requests) = (Latencies::new(), 0);
        while let Some(done) = drivers.join_next().await {
            let (share, asked) = done??;
            latencies.merge(&share);
            requests += asked;
        }
        Ok((began.elapsed(), latencies, requests))
    }

    async fn take_turns(
        self,
        mut connection: Connection,
        roundtrips: usize,
    ) -> anyhow::Result<(Latencies, usize)> {
        let (mut latencies, mut requests) = (Latencies::new(), 0);
        for _ in 0..roundtrips {
            let began = Instant::now();
            let (run, polls) = self.park(&mut connection).await?;
            let more = self.complete(&mut connection, &run).await?;
            latencies.add(began.elapsed());
            requests += 2 + polls + more;
        }
        Ok((latencies, requests))
    }

    /// Starts a run and waits until it asks. Gives its id, and how often it was looked at.
    async fn park(&self, connection: &mut Connection) -> anyhow::Result<(String, usize)> {
        let (status, body) = connection.ask(&self.start).await?;
        let started = read(status, 201, body)?;
        let run = started["runId"].as_str().context("an answer without runId")?.to_owned();
        if started["status"] == "waiting-approval" {
            return Ok((run, 0));
        }
        let asks = |page: &Value| {
            let events = page["events"].as_array().into_iter().flatten();
            events.into_iter().any(|event| event["type"] == "interrupt.requested")
        };
        let polls = self.poll(connection, &run, asks).await?;
        Ok((run, polls))
    }

    /// Answers a run and waits until it has completed. Tells how often it was looked at.
    async fn complete(&self, connection: &mut Connection, run: &str) -> anyhow::Result<usize> {
        let path = format!("/v1/runs/{run}/interrupts/{GATE}");
        let (status, body) = connection.ask(&self.request("POST", &path, Some(&self.answer))).await?;
        let answered = read(status, 200, body)?;
        if answered["status"] == "completed" {
            return Ok(0);
        }
        self.poll(connection, run, |page| page["isComplete"] == true).await
    }

    /// Looks at a run's events until there is what is waited for. Tells how often.
    async fn poll(
        &self,
        connection: &mut Connection,
        run: &str,
        is_there: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<usize> {
        let mut last = -1;
        for polls in 1.. {
            let path = format!("/v1/runs/{run}/events/poll?timeout={POLL_S}&lastSequence={last}");
            let (status, body) = connection.ask(&self.request("GET", &path, None)).await?;
            let page = read(status, 200, body)?;
            if is_there(&page) {
                return Ok(polls);
            }
            let news = page["events"].as_array().and_then(|events| events.last());
            let news = news.and_then(|event| event["sequence"].as_i64());
            last = news.with_context(|| format!("nothing happens to {run}"))?;
        }
        anyhow::bail!("nothing happens to {run}")
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
        request(self.address, &self.key, method, path, body)
    }
}

fn read(status: u16, expected: u16, body: &[u8]) -> anyhow::Result<Value> {
    anyhow::ensure!(status == expected, "the server answered {status}: {}", String::from_utf8_lossy(body));
    Ok(serde_json::from_slice(body)?)
}
