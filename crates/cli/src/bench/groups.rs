//! Crowds: many runs in one graph, many members in one group, many that wait for one; over HTTP, against a server in a
//! process of its own.
//!
//! Everything is done with half as many first: what one costs must not grow with how many there are.

mod dependents;
mod graph;
mod members;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::rig::chain;
use super::roundtrip::{GATE, gated};
use super::server::{Server, prepare};
use super::wire::{Connection, request};
use super::{Latencies, Report};

/// Requests under way at once where many are made.
const CONCURRENCY: usize = 64;

/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(1800);

/// How many of each there are.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) runs: usize,
    pub(super) members: usize,
    pub(super) dependents: usize,
}

pub(super) async fn bench(dir: &Path, size: Size) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let half = Size { runs: size.runs / 2, members: size.members / 2, dependents: size.dependents / 2 };
    let among_half = crowd(&dir.join("half"), half, &mut report).await?;
    let among_all = crowd(&dir.join("all"), size, &mut report).await?;
    report.part("all against half: what one costs, as a ratio");
    for ((what, all), (_, half)) in among_all.iter().zip(&among_half) {
        report.figure(what, all / half.max(f64::EPSILON));
    }
    Ok(report)
}

/// What one of many cost, by what was done.
type Costs = Vec<(&'static str, f64)>;

async fn crowd(dir: &Path, size: Size, report: &mut Report) -> anyhow::Result<Costs> {
    let key = prepare(dir, &[gated("asked", false), chain("one", 1, false)]).await?;
    let server = Server::start(dir, &key).await?;
    let caller = Caller { address: server.address, key: key.as_str().into() };
    let mut costs = graph::measure(&caller, size.runs, report).await?;
    costs.extend(members::measure(&caller, size.members, report).await?);
    costs.extend(dependents::measure(&caller, size.dependents, report).await?);
    report.figure("MiB resident, server", server.resident()?);
    server.stop()?;
    Ok(costs)
}

/// Whoever asks the server.
#[derive(Clone)]
struct Caller {
    address: SocketAddr,
    key: Arc<str>,
}

/// What the server has counted so far.
#[derive(Clone, Copy)]
struct Counted {
    commits: usize,
    transactions: usize,
    messages: usize,
    completed: usize,
}

impl Caller {
    async fn connect(&self) -> anyhow::Result<Asking> {
        Ok(Asking { caller: self.clone(), connection: Connection::open(self.address).await? })
    }

    /// Does something with each of these, over many connections, and gives what came of each.
    async fn for_each<T: Send + 'static, R: Send + 'static, F>(
        &self,
        mut of: Vec<T>,
        act: impl Fn(Asking, Vec<T>) -> F,
    ) -> anyhow::Result<Vec<R>>
    where
        F: Future<Output = anyhow::Result<Vec<R>>> + Send + 'static,
    {
        let mut drivers = JoinSet::new();
        for driver in (0..CONCURRENCY).rev() {
            let share = of.split_off(of.len() - of.len().div_ceil(driver + 1));
            drivers.spawn(act(self.connect().await?, share));
        }
        let mut all = Vec::new();
        while let Some(done) = drivers.join_next().await {
            all.extend(done??);
        }
        Ok(all)
    }

    /// Starts runs that wait for these, and gives their ids.
    async fn start_many(
        &self,
        workflow: &'static str,
        on: &str,
        count: usize,
    ) -> anyhow::Result<Vec<String>> {
        let body = json!({ "workflowId": workflow, "dependsOn": [on] });
        self.for_each(vec![(); count], move |mut asking, share| {
            let body = body.clone();
            async move {
                let mut started = Vec::with_capacity(share.len());
                for () in share {
                    started.push(asking.start(&body).await?);
                }
                Ok(started)
            }
        })
        .await
    }
}

/// A connection of whoever asks.
struct Asking {
    caller: Caller,
    connection: Connection,
}

impl Asking {
    async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<(u16, Value)> {
        let ask = request(self.caller.address, &self.caller.key, method, path, body);
        let (status, body) = self.connection.ask(&ask).await?;
        Ok((status, serde_json::from_slice(body).unwrap_or_default()))
    }

    /// Asks for something that is granted.
    async fn granted(&mut self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, answer) = self.ask(method, path, body).await?;
        anyhow::ensure!((200..300).contains(&status), "{method} {path} was answered {status}: {answer}");
        Ok(answer)
    }

    async fn start(&mut self, body: &Value) -> anyhow::Result<String> {
        let answer = self.granted("POST", "/v1/runs", Some(body)).await?;
        Ok(answer["runId"].as_str().context("an answer without runId")?.to_owned())
    }

    /// Answers the question of a run.
    async fn accept(&mut self, run: &str) -> anyhow::Result<()> {
        let body = json!({ "resumeValue": { "action": "accept" } });
        self.granted("POST", &format!("/v1/runs/{run}/interrupts/{GATE}"), Some(&body)).await?;
        Ok(())
    }

    /// How long something takes that is asked for again and again, one after the other.
    async fn time(
        &mut self,
        asked: impl IntoIterator<Item = (&'static str, String, Option<Value>)>,
        expected: u16,
    ) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::new();
        for (method, path, body) in asked {
            let began = Instant::now();
            let (status, answer) = self.ask(method, &path, body.as_ref()).await?;
            latencies.add(began.elapsed());
            anyhow::ensure!(status == expected, "{method} {path} was answered {status}: {answer}");
        }
        Ok(latencies)
    }

    async fn counted(&mut self) -> anyhow::Result<Counted> {
        let ask = request(self.caller.address, &self.caller.key, "GET", "/metrics", None);
        let (status, body) = self.connection.ask(&ask).await?;
        anyhow::ensure!(status == 200, "the server answered {status}");
        let text = std::str::from_utf8(body)?;
        let count = |name: &str| -> anyhow::Result<usize> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let line = line.with_context(|| format!("the server does not count {name}"))?;
            Ok(line.trim().parse::<f64>()? as usize)
        };
        Ok(Counted {
            commits: count("abide_commits_total ")?,
            transactions: count("abide_transactions_total ")?,
            messages: count("abide_messages_delivered_total ")?,
            completed: count("abide_runs_ended_total{status=\"completed\"} ")?,
        })
    }

    /// Waits until the server has counted enough.
    async fn until(&mut self, what: &str, enough: impl Fn(&Counted) -> bool) -> anyhow::Result<Counted> {
        let began = Instant::now();
        loop {
            let counted = self.counted().await?;
            if enough(&counted) {
                return Ok(counted);
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "waited too long for {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Counted {
    /// Tells what was written since, for each of so many.
    fn tell(&self, before: &Self, of: usize, report: &mut Report) {
        let each = |all: usize| all as f64 / of.max(1) as f64;
        report
            .figure("commits for each", each(self.commits - before.commits))
            .figure("messages for each", each(self.messages - before.messages))
            .figure("transactions, one fsync each", self.transactions - before.transactions);
    }
}

/// Tells how long something took, one at a time.
fn tell(report: &mut Report, what: &str, latencies: &Latencies) {
    report
        .figure(&format!("{what}, ms p50"), latencies.ms(0.5))
        .figure(&format!("{what}, ms p99"), latencies.ms(0.99));
}

/// Microseconds for each of so many.
fn each_us(took: Duration, of: usize) -> f64 {
    took.as_secs_f64() * 1e6 / of.max(1) as f64
}
