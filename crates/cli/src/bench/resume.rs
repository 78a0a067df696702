//! Runs that a killed server had under way: how soon it serves again, how soon they go on, and that they do not all do so
//! at once.
//!
//! Every run is in an idempotent request to a provider that does not answer. So many as a server executes at once are
//! under way when it is killed: their outcome is unknown, and each is resumed under the policy, which counts one attempt.
//! The others wait on disk for their turn: they are recovered, which counts none.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_engine::limits::TASKS_IN_FLIGHT_MAX;
use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::provider::Provider;
use super::server::{CONFIG, Server, prepare};
use super::{Report, rate};
use crate::client::Client;
use crate::output;

/// Requests of the bench under way at once.
const CONCURRENCY: usize = 64;

/// How long the provider takes once it answers, so that requests overlap as they do in life.
const ANSWERS_AFTER: Duration = Duration::from_millis(20);

/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(900);

pub(super) async fn bench(dir: &Path, runs: usize) -> anyhow::Result<Report> {
    let provider = Provider::open().await?;
    let key = prepare(dir, &[asking(&provider.url())]).await?;
    std::fs::write(dir.join(CONFIG), "allow-net = [\"127.0.0.1/32\"]\n")?;
    let server = Server::start(dir, &key).await?;
    let under_way = runs.min(TASKS_IN_FLIGHT_MAX);
    output::say(&format!("starting {runs} runs, until {under_way} requests are under way …"));
    let began = Instant::now();
    let started = start(&server, runs).await?;
    provider.until(|provider| provider.in_flight() >= under_way, PATIENCE).await?;
    let mut report = Report::default();
    report
        .part("before the kill")
        .figure("runs", runs)
        .figure("requests under way, of unknown outcome", under_way)
        .figure("runs that wait for their turn", runs - under_way)
        .figure("runs/s started", rate(runs, began.elapsed()));

    output::say("killing the server, starting it again …");
    server.kill()?;
    provider.until(|provider| provider.in_flight() == 0, PATIENCE).await?;
    let before = provider.heard();
    provider.answer_after(ANSWERS_AFTER);
    let began = Instant::now();
    let server = Server::start(dir, &key).await?;
    let continued = Instant::now();
    provider.until(|provider| provider.heard_since_kill() >= runs, PATIENCE).await?;
    let (all, after_serving) = (began.elapsed(), continued.elapsed());
    output::say("waiting for their ends, looking at what was counted …");
    let counted = counted(&server, &started).await?;
    report
        .part("after kill -9")
        .figure("ms from exec until it serves", server.up_after.as_secs_f64() * 1000.0)
        .figure("ms from exec until all runs have gone on", all.as_secs_f64() * 1000.0)
        .figure("runs/s that go on, once it serves", rate(runs, after_serving))
        .figure("requests in flight at once, at the most", provider.in_flight_max())
        .figure("MiB resident, server", server.resident()?);
    report
        .part("what was counted")
        .figure("requests that the provider heard before", before)
        .figure("requests that it heard after", provider.heard_since_kill())
        .figure("runs resumed with exactly one attempt", counted.resumed)
        .figure("runs recovered without an attempt", counted.recovered)
        .figure("runs with more attempts", counted.more)
        .figure("runs completed", counted.completed);
    server.stop()?;
    anyhow::ensure!(counted.completed == runs, "{} of {runs} runs completed", counted.completed);
    anyhow::ensure!(counted.more == 0, "{} runs were resumed more than once", counted.more);
    Ok(report)
}

/// A workflow of one request that may be made twice.
fn asking(url: &str) -> Value {
    let ask = json!({
        "id": "ask", "typeId": "core.http.request", "name": "ask", "position": {}, "inputs": {},
        "config": { "method": "PUT", "url": url, "timeoutMs": 600_000 },
        "settings": { "abide": { "idempotent": true } },
    });
    json!({
        "id": "asking", "name": "asking", "version": "1.0", "nodes": [ask], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    })
}

/// Starts runs, and gives their ids.
async fn start(server: &Server, runs: usize) -> anyhow::Result<Vec<String>> {
    let mut drivers = JoinSet::new();
    for share in shares(runs) {
        let client = server.client.clone();
        drivers.spawn(async move { start_share(&client, share).await });
    }
    let mut started = Vec::with_capacity(runs);
    while let Some(share) = drivers.join_next().await {
        started.extend(share??);
    }
    Ok(started)
}

fn shares(of: usize) -> impl Iterator<Item = usize> {
    (0..CONCURRENCY).map(move |driver| of / CONCURRENCY + usize::from(driver < of % CONCURRENCY))
}

async fn start_share(client: &Client, share: usize) -> anyhow::Result<Vec<String>> {
    let mut started = Vec::with_capacity(share);
    for _ in 0..share {
        let answer = client.post("/v1/runs", &json!({ "workflowId": "asking" })).await?;
        started.push(answer["runId"].as_str().context("an answer without runId")?.to_owned());
    }
    Ok(started)
}

/// How the runs came through.
#[derive(Default)]
struct Counted {
    /// Resumed, once.
    resumed: usize,
    /// Not resumed, because nothing was unknown.
    recovered: usize,
    /// Resumed more than once, which must not be.
    more: usize,
    completed: usize,
}

/// Waits for the end of every run, and looks how often it was resumed.
async fn counted(server: &Server, runs: &[String]) -> anyhow::Result<Counted> {
    let mut drivers = JoinSet::new();
    for share in runs.chunks(runs.len().div_ceil(CONCURRENCY).max(1)) {
        let (client, share) = (server.client.clone(), share.to_vec());
        drivers.spawn(async move { count_share(&client, &share).await });
    }
    let mut all = Counted::default();
    while let Some(share) = drivers.join_next().await {
        let share = share??;
        all.resumed += share.resumed;
        all.recovered += share.recovered;
        all.more += share.more;
        all.completed += share.completed;
    }
    Ok(all)
}

async fn count_share(client: &Arc<Client>, runs: &[String]) -> anyhow::Result<Counted> {
    let mut counted = Counted::default();
    for run in runs {
        let ended = end_of(client, run).await?;
        counted.completed += usize::from(ended == "completed");
        let view = client.get(&format!("/v1/runs/{run}/resume")).await?;
        let decisions = view["decisions"].as_array().map_or(&[][..], Vec::as_slice);
        match decisions.iter().filter(|decision| decision["eligible"] == true).count() {
            0 => counted.recovered += 1,
            1 => counted.resumed += 1,
            _ => counted.more += 1,
        }
    }
    Ok(counted)
}

/// How a run ended, once it has.
async fn end_of(client: &Client, run: &str) -> anyhow::Result<String> {
    let began = Instant::now();
    loop {
        let shown = client.get(&format!("/v1/runs/{run}")).await?;
        let status = shown["status"].as_str().unwrap_or_default();
        if ["completed", "failed", "cancelled"].contains(&status) {
            return Ok(status.to_owned());
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "{run} does not end: it is {status}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflow_can_be_admitted_and_everybody_starts_a_share() {
        assert!(abide_core::Graph::admit(asking("http://127.0.0.1:1/").to_string().as_bytes()).is_ok());
        assert_eq!(shares(130).sum::<usize>(), 130);
        assert_eq!(shares(130).max(), Some(3));
    }
}
