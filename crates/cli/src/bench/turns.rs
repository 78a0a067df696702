//! Turns through an outage: runs whose model's provider is away, what they cost while they wait, and how they come back.
//!
//! The provider is in this process and does what it is told: it refuses every call, and then it answers every one. What it
//! saw is what is counted. The cool-down of the breaker is a second instead of half a minute, so that an outage of half a
//! minute has as many probes as one of hours.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_model::Protocol;
use abide_model::scripted::{ScriptedProvider, Step};
use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::server::{CONFIG, Server, disk, prepare};
use super::{Report, rate};
use crate::client::Client;
use crate::output;

/// Requests of the bench under way at once.
const CONCURRENCY: usize = 64;

/// How long the provider takes, so that calls overlap as they do in life.
const ANSWERS_AFTER: Duration = Duration::from_millis(20);

/// How often the bench looks how far the server is.
const LOOK: Duration = Duration::from_millis(50);

/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(900);

/// How large the bench is.
pub(super) struct Size {
    pub(super) runs: usize,
    /// How long the provider stays away when all wait for it.
    pub(super) outage: Duration,
}

pub(super) async fn bench(dir: &Path, size: &Size) -> anyhow::Result<Report> {
    let runs = size.runs;
    let provider = ScriptedProvider::start();
    provider.usually(after(Step::overloaded(529)));
    let key = prepare(dir, &[asking()]).await?;
    std::fs::write(dir.join(CONFIG), config(&provider))?;
    let server = Server::start(dir, &key).await?;
    let mut drill = Drill { dir, key, server, provider, runs };
    let mut report = Report::default();
    let start = drill.look().await?;

    output::say(&format!("starting {runs} runs while their provider is away …"));
    let began = Instant::now();
    let started = start_all(&drill.server.client, runs).await?;
    drill.until_all_wait().await?;
    let waiting = drill.look().await?;
    drill.tell_of_waits(&mut report, &start, &waiting, began.elapsed());

    drill.outlast(size.outage, &mut report, &waiting).await?;
    drill = drill.restart(&mut report, start.disk).await?;
    let recovered = drill.recover(&mut report).await?;

    output::say("looking how each of them ended …");
    let completed = completed(&drill.server.client, &started).await?;
    let asked = waiting.asked + recovered.asked_in_outage + recovered.asked_after;
    report
        .part("in all")
        .figure("runs completed", completed)
        .figure("requests to the provider", asked)
        .figure("requests to the provider per run", asked as f64 / runs as f64);
    drill.server.stop()?;
    anyhow::ensure!(completed == runs, "{completed} of {runs} runs completed");
    Ok(report)
}

/// A server, and the provider that its runs depend on.
struct Drill<'a> {
    dir: &'a Path,
    key: String,
    server: Server,
    provider: ScriptedProvider,
    runs: usize,
}

/// How things stand at a moment.
struct Look {
    resident: f64,
    disk: u64,
    commits: f64,
    cpu: Duration,
    /// Requests that the provider saw since it last forgot.
    asked: usize,
}

/// What the provider saw once the runs waited.
struct Recovered {
    asked_in_outage: usize,
    asked_after: usize,
}

impl Drill<'_> {
    async fn look(&self) -> anyhow::Result<Look> {
        Ok(Look {
            resident: self.server.resident()?,
            disk: disk(self.dir)?,
            commits: metric(&self.server.client, "abide_commits_total").await?,
            cpu: self.server.cpu()?,
            asked: self.provider.count(),
        })
    }

    /// Waits until every run waits for the provider's breaker: those that have called it do so once their own wait is over.
    async fn until_all_wait(&self) -> anyhow::Result<()> {
        let (began, mut said) = (Instant::now(), Instant::now());
        loop {
            let waiting = self.waiting().await?;
            if waiting["postponed"].as_u64() == Some(self.runs as u64) {
                return Ok(());
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "not all runs wait: {waiting}");
            if said.elapsed() > Duration::from_secs(5) {
                said = Instant::now();
                output::say(&format!("  {waiting}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn waiting(&self) -> anyhow::Result<Value> {
        let told = self.server.client.get("/v1/providers").await?;
        Ok(told["providers"][0]["waiting"].clone())
    }

    fn tell_of_waits(&self, report: &mut Report, start: &Look, waiting: &Look, took: Duration) {
        let each = |count: f64| count / self.runs as f64;
        report
            .part("until all wait for their provider")
            .figure("runs", self.runs)
            .figure("s", took.as_secs_f64())
            .figure("runs/s", rate(self.runs, took))
            .figure("requests that the provider saw", waiting.asked)
            .figure("requests in flight at once, at the most", self.provider.in_flight_max())
            .figure("commits per run", each(waiting.commits - start.commits))
            .figure("MiB resident, server, before", start.resident)
            .figure("MiB resident, server, all wait", waiting.resident);
    }

    /// Lets the outage last, and counts what is done meanwhile.
    async fn outlast(&self, outage: Duration, report: &mut Report, waiting: &Look) -> anyhow::Result<()> {
        output::say(&format!("all wait; the provider stays away for {} s …", outage.as_secs()));
        self.provider.forget();
        let began = Instant::now();
        tokio::time::sleep(outage / 2).await;
        let half = self.server.resident()?;
        tokio::time::sleep(outage.saturating_sub(began.elapsed())).await;
        let end = self.look().await?;
        let cpu = end.cpu.saturating_sub(waiting.cpu).as_secs_f64() * 1000.0;
        let at_once = self.provider.in_flight_max();
        report
            .part("the outage, while all wait")
            .figure("s", outage.as_secs_f64())
            .figure("requests that the provider saw", end.asked)
            .figure("requests in flight at once, at the most", at_once)
            .figure("commits", end.commits - waiting.commits)
            .figure("CPU of the server, ms per second", cpu / outage.as_secs_f64().max(1.0))
            .figure("MiB resident, server, half-way", half)
            .figure("MiB resident, server, at its end", end.resident);
        report.part("requests by the second of the outage");
        by_second(report, &self.provider, began);
        anyhow::ensure!(at_once <= 1, "{at_once} probes were under way at once");
        Ok(())
    }

    /// Stops the server and starts it again: what is on disk then is all that there is of those who wait.
    async fn restart(self, report: &mut Report, empty_disk: u64) -> anyhow::Result<Self> {
        output::say("stopping the server, starting it again …");
        self.server.stop()?;
        let bytes = disk(self.dir)?.saturating_sub(empty_disk);
        let server = Server::start(self.dir, &self.key).await?;
        report
            .part("stopped and started again in the outage")
            .figure("bytes on disk per run", bytes as f64 / self.runs as f64)
            .figure("ms from exec to first answer", server.up_after.as_secs_f64() * 1000.0);
        let drill = Self { server, ..self };
        drill.until_all_wait().await?;
        report.figure("MiB resident, server, all wait", drill.server.resident()?);
        Ok(drill)
    }

    /// Has the provider answer, and waits until every run has ended.
    async fn recover(&self, report: &mut Report) -> anyhow::Result<Recovered> {
        output::say("the provider is back …");
        let (asked_in_outage, before) = (self.provider.count(), self.look().await?);
        self.provider.forget();
        self.provider.usually(after(Step::answer("ok")));
        let began = Instant::now();
        let client = &self.server.client;
        let (mut first, mut ended) = (None, 0.0);
        while (ended as usize) < self.runs {
            anyhow::ensure!(began.elapsed() < PATIENCE, "{ended} of {} runs have ended", self.runs);
            tokio::time::sleep(LOOK).await;
            ended = metric(client, "abide_runs_ended_total{status=\"completed\"}").await?;
            if ended > 0.0 && first.is_none() {
                first = Some(began.elapsed());
            }
        }
        let (took, end) = (began.elapsed(), self.look().await?);
        let draining = took.saturating_sub(first.unwrap_or_default());
        let cpu = end.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / self.runs as f64;
        let asked_after = self.provider.count();
        report
            .part("after the provider is back")
            .figure("s until a probe has found out", first.unwrap_or_default().as_secs_f64())
            .figure("s until all runs have completed", took.as_secs_f64())
            .figure("runs/s, once it is found out", rate(self.runs, draining))
            .figure("requests in flight at once, at the most", self.provider.in_flight_max())
            .figure("requests that the provider saw", asked_after)
            .figure("commits per run", (end.commits - before.commits) / self.runs as f64)
            .figure("CPU of the server, µs per run", cpu)
            .figure("MiB resident, server", end.resident)
            .figure("turns that still wait", self.waiting().await?["postponed"].clone());
        report.part("requests by the second after the provider is back");
        by_second(report, &self.provider, began);
        Ok(Recovered { asked_in_outage, asked_after })
    }
}

/// How many requests came in each second.
fn by_second(report: &mut Report, provider: &ScriptedProvider, began: Instant) {
    let mut counts = Vec::new();
    for asked in provider.asked() {
        let second = asked.at.saturating_duration_since(began).as_secs() as usize;
        counts.resize(counts.len().max(second + 1), 0_u64);
        counts[second] += 1;
    }
    for (second, count) in counts.into_iter().enumerate() {
        report.figure(&format!("second {}", second + 1), count);
    }
}

fn after(step: Step) -> Step {
    Step::After(ANSWERS_AFTER, Box::new(step))
}

/// What the operator says about the provider.
fn config(provider: &ScriptedProvider) -> String {
    let url = provider.base_url(Protocol::OpenAi);
    format!(
        "[providers.main]\nkind = \"openai\"\nbase-url = \"{url}\"\nmodel = \"small\"\n\
         [providers.main.schedule]\nsteps = [\"500ms\"]\ntail = \"500ms\"\n\
         [providers.main.breaker]\ncooldown = \"1s\"\nmax-cooldown = \"1s\"\n"
    )
}

/// A workflow of one turn.
fn asking() -> Value {
    let ask = json!({
        "id": "ask", "typeId": "core.llm.chat", "name": "ask", "position": {}, "inputs": {},
        "config": { "prompt": "Say whether the letter is friendly." },
    });
    json!({
        "id": "asking", "name": "asking", "version": "1.0", "nodes": [ask], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    })
}

/// Starts runs, and gives their ids.
async fn start_all(client: &Arc<Client>, runs: usize) -> anyhow::Result<Vec<String>> {
    let mut drivers = JoinSet::new();
    for driver in 0..CONCURRENCY {
        let share = runs / CONCURRENCY + usize::from(driver < runs % CONCURRENCY);
        let client = client.clone();
        drivers.spawn(async move { start_share(&client, share).await });
    }
    let mut started = Vec::with_capacity(runs);
    while let Some(share) = drivers.join_next().await {
        started.extend(share??);
    }
    Ok(started)
}

async fn start_share(client: &Client, share: usize) -> anyhow::Result<Vec<String>> {
    let mut started = Vec::with_capacity(share);
    for _ in 0..share {
        let answer = client.post("/v1/runs", &json!({ "workflowId": "asking" })).await?;
        started.push(answer["runId"].as_str().context("an answer without runId")?.to_owned());
    }
    Ok(started)
}

/// How many of the runs have completed with what the model said.
async fn completed(client: &Arc<Client>, runs: &[String]) -> anyhow::Result<usize> {
    let mut drivers = JoinSet::new();
    for share in runs.chunks(runs.len().div_ceil(CONCURRENCY).max(1)) {
        let (client, share) = (client.clone(), share.to_vec());
        drivers.spawn(async move {
            let mut completed = 0;
            for run in share {
                let shown = client.get(&format!("/v1/runs/{run}")).await?;
                completed += usize::from(shown["status"] == "completed");
            }
            anyhow::Ok(completed)
        });
    }
    let mut completed = 0;
    while let Some(share) = drivers.join_next().await {
        completed += share??;
    }
    Ok(completed)
}

/// A figure that the server tells of itself.
async fn metric(client: &Client, name: &str) -> anyhow::Result<f64> {
    let metrics = client.fetch("/metrics").await?.accepted()?;
    let value = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.with_context(|| format!("the server does not tell '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflow_can_be_admitted_and_the_configuration_read() {
        assert!(abide_core::Graph::admit(asking().to_string().as_bytes()).is_ok());
        let written: toml::Table = config(&ScriptedProvider::start()).parse().unwrap();
        assert_eq!(written["providers"]["main"]["breaker"]["cooldown"].as_str(), Some("1s"));
    }
}
