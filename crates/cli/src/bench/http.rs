//! Whole runs over HTTP: a server in a process of its own, asked over connections that stay open, beside the engine
//! alone with as many runs at once.
//!
//! Server and client share the machine. So that the figures are the server's, the client does as little as it can: it
//! writes the same bytes over and over, and of an answer it reads the status and the length.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::rig::{Rig, chain};
use super::server::{Server, prepare};
use super::wire::{Connection, find, request};
use super::{Latencies, Report, rate};
use crate::output;

/// How many runs at once are tried, unless told.
const CONCURRENCIES: [usize; 2] = [64, 256];

/// Runs that go before the measured ones, for each connection: files grow and caches fill.
const WARM_UP: usize = 4;

pub(super) async fn bench(dir: &Path, concurrency: Option<usize>, runs: usize) -> anyhow::Result<Report> {
    let workflow = chain("one", 1, false);
    let mut report = Report::default();
    for concurrency in concurrency.map_or(CONCURRENCIES.to_vec(), |only| vec![only]) {
        let dir = dir.join(concurrency.to_string());
        output::say(&format!("{runs} runs of one step over HTTP, {concurrency} at a time …"));
        let key = prepare(&dir, std::slice::from_ref(&workflow)).await?;
        let server = Server::start(&dir, &key).await?;
        let request = start_of_one(server.address, &key);
        drive(server.address, &request, concurrency, concurrency * WARM_UP).await?;
        let (took, latencies) = drive(server.address, &request, concurrency, runs).await?;
        server.stop()?;
        output::say("the same without HTTP …");
        let rig = Rig::open(
            &dir.join("engine"),
            &format!("bench-http-{concurrency}"),
            std::slice::from_ref(&workflow),
        )?;
        rig.drive("one", concurrency, concurrency * WARM_UP).await?;
        let alone = rig.drive("one", concurrency, runs).await?;
        rig.close().await?;
        let (over_http, engine) = (rate(runs, took), rate(runs, alone.took));
        report
            .part(&format!("runs of one step over HTTP, {concurrency} at a time"))
            .figure("runs", runs)
            .figure("runs/s", over_http)
            .figure("ms p50", latencies.ms(0.5))
            .figure("ms p99", latencies.ms(0.99))
            .figure("the engine alone, runs/s", engine)
            .figure("the engine alone, ms p50", alone.latencies.ms(0.5))
            .figure("the engine alone, ms p99", alone.latencies.ms(0.99))
            .figure("ratio to the engine alone", over_http / engine);
    }
    Ok(report)
}

/// A request that starts a run of one step.
pub(super) fn start_of_one(address: SocketAddr, key: &str) -> Arc<[u8]> {
    request(address, key, "POST", "/v1/runs", Some(&json!({ "workflowId": "one" }))).into()
}

/// Starts `runs` runs over `concurrency` connections, one after the other on each.
pub(super) async fn drive(
    address: SocketAddr,
    request: &Arc<[u8]>,
    concurrency: usize,
    runs: usize,
) -> anyhow::Result<(Duration, Latencies)> {
    let mut connections = Vec::with_capacity(concurrency);
    for _ in 0..concurrency {
        connections.push(Connection::open(address).await?);
    }
    let began = Instant::now();
    let mut drivers = JoinSet::new();
    for (driver, connection) in connections.into_iter().enumerate() {
        let share = runs / concurrency + usize::from(driver < runs % concurrency);
        drivers.spawn(take_turns(connection, request.clone(), share));
    }
    let mut latencies = Latencies::new();
    while let Some(done) = drivers.join_next().await {
        latencies.merge(&done??);
    }
    Ok((began.elapsed(), latencies))
}

async fn take_turns(
    mut connection: Connection,
    request: Arc<[u8]>,
    runs: usize,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new();
    for _ in 0..runs {
        let began = Instant::now();
        let (status, body) = connection.ask(&request).await?;
        latencies.add(began.elapsed());
        let over = status == 201 && find(body, b"\"completed\"").is_some();
        anyhow::ensure!(over, "the server answered {status}: {}", String::from_utf8_lossy(body));
    }
    Ok(latencies)
}
