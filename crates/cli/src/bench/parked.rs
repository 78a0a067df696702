//! Parked runs: a real server process, asked over HTTP, killed and started again.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};

use super::server::{Server, disk, prepare};
use super::{Latencies, Report, rate};
use crate::client::Client;
use crate::output;

/// Requests under way at once while runs are being parked.
const CONCURRENCY: usize = 64;

/// Runs that are woken, one after the other.
const WOKEN: usize = 500;

pub(super) async fn bench(dir: &Path, runs: usize, payload: usize) -> anyhow::Result<Report> {
    let key = prepare(dir, &[year_long()]).await?;
    let server = Server::start(dir, &key).await?;
    let empty_disk = disk(dir)?;
    let mut report = Report::default();
    output::say(&format!("parking {runs} runs …"));
    let began = Instant::now();
    let parked = park(&server, runs, payload).await?;
    report
        .part("parking, over HTTP")
        .figure("runs", runs)
        .figure("runs/s", rate(runs, began.elapsed()))
        .figure("MiB resident, server", server.resident()?);

    output::say("killing the server, starting it again …");
    server.kill()?;
    let server = Server::start(dir, &key).await?;
    let first = parked.first().context("nothing was parked")?;
    let began = Instant::now();
    server.client.get(&format!("/v1/runs/{first}")).await?;
    report
        .part("start after kill -9, all runs parked")
        .figure("ms from exec to first answer", server.up_after.as_secs_f64() * 1000.0)
        .figure("ms to read the first run", began.elapsed().as_secs_f64() * 1000.0)
        .figure("MiB resident, server", server.resident()?);

    output::say("waking some …");
    let woken = wake(&server, &parked).await?;
    report
        .part("waking one among them (read, decide, commit, over HTTP)")
        .figure("woken", WOKEN.min(runs))
        .figure("ms p50", woken.ms(0.5))
        .figure("ms p99", woken.ms(0.99))
        .figure("MiB resident, server", server.resident()?);
    server.stop()?;
    let bytes = disk(dir)?.saturating_sub(empty_disk);
    report
        .part("disk, server stopped")
        .figure("MiB", bytes as f64 / 1048576.0)
        .figure("bytes per run", bytes as f64 / runs as f64)
        .figure("bytes per run beyond its payload", bytes as f64 / runs as f64 - payload as f64);
    Ok(report)
}

/// A workflow that waits for a year.
fn year_long() -> Value {
    let wait = json!({ "id": "wait", "typeId": "core.delay", "name": "wait", "position": {}, "config": { "ms": 31_536_000_000_i64 }, "inputs": {} });
    json!({
        "id": "parked", "name": "parked", "version": "1.0", "nodes": [wait], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {},
    })
}

async fn park(server: &Server, runs: usize, payload: usize) -> anyhow::Result<Vec<String>> {
    let body = match payload {
        0 => json!({ "workflowId": "parked" }),
        size => json!({ "workflowId": "parked", "inputs": { "data": "x".repeat(size.saturating_sub(2)) } }),
    };
    let body = Arc::new(body);
    let mut drivers = tokio::task::JoinSet::new();
    for driver in 0..CONCURRENCY {
        let share = runs / CONCURRENCY + usize::from(driver < runs % CONCURRENCY);
        let (client, body) = (server.client.clone(), body.clone());
        drivers.spawn(async move { park_share(&client, &body, share).await });
    }
    let mut parked = Vec::with_capacity(runs);
    while let Some(share) = drivers.join_next().await {
        parked.extend(share??);
    }
    Ok(parked)
}

async fn park_share(client: &Client, body: &Value, share: usize) -> anyhow::Result<Vec<String>> {
    let mut parked = Vec::with_capacity(share);
    for _ in 0..share {
        let answer = client.post("/v1/runs", body).await?;
        parked.push(answer["runId"].as_str().context("an answer without runId")?.to_owned());
    }
    Ok(parked)
}

/// Wakes runs spread over all that are parked, by cancelling them.
async fn wake(server: &Server, parked: &[String]) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new();
    let stride = (parked.len() / WOKEN).max(1);
    for run in parked.iter().step_by(stride).take(WOKEN) {
        let began = Instant::now();
        server.client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await?;
        latencies.add(began.elapsed());
    }
    Ok(latencies)
}
