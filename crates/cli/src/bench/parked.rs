//! Parked runs: a real server process, asked over HTTP, killed and started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_core::TenantId;
use abide_server::{ApiSecret, Grant, Keyring};
use abide_store::{Sqlite, SqliteOptions, Store};
use anyhow::Context;
use serde_json::{Value, json};

use super::{Latencies, Report, rate};
use crate::args::ClientArgs;
use crate::client::Client;
use crate::output;

/// Requests under way at once while runs are being parked.
const CONCURRENCY: usize = 64;

/// Runs that are woken, one after the other.
const WOKEN: usize = 500;

/// A server of ours in a process of its own.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    client: Arc<Client>,
    /// From the start of the process to its first answer.
    up_after: Duration,
}

pub(super) async fn bench(dir: &Path, runs: usize, payload: usize) -> anyhow::Result<Report> {
    let key = prepare(dir, &year_long()).await?;
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

/// A data directory with a workflow in a folder beside it, and a key, which is the answer.
pub(super) async fn prepare(dir: &Path, workflow: &Value) -> anyhow::Result<String> {
    std::fs::create_dir_all(dir.join("workflows"))?;
    std::fs::write(dir.join("workflows/workflow.json"), workflow.to_string())?;
    let store = Sqlite::open(&SqliteOptions::new(dir.join("data")))?;
    let keyring = Keyring::open_or_create(&dir.join("data.keyring")).map_err(anyhow::Error::msg)?;
    let secret = ApiSecret::generate();
    let grant = Grant::everything(TenantId(1), "bench");
    store.put_api_keys(vec![grant.row(&secret, &keyring, 0)?]).await?;
    Ok(secret.text().to_owned())
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

impl Server {
    pub(super) async fn start(dir: &Path, key: &str) -> anyhow::Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let began = Instant::now();
        let child = Command::new(std::env::current_exe()?)
            .args(["serve", "--log", "error", "--listen", &format!("127.0.0.1:{port}"), "--data"])
            .arg(dir.join("data"))
            .arg("--workflows")
            .arg(dir.join("workflows"))
            .stdin(Stdio::null())
            .spawn()?;
        let args =
            ClientArgs { url: format!("http://127.0.0.1:{port}"), api_key: Some(key.to_owned()), json: true };
        let client = Arc::new(Client::new(&args)?);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Self { child, address, client, up_after: Duration::ZERO };
        while server.client.get("/v1/runs?limit=1").await.is_err() {
            anyhow::ensure!(server.child.try_wait()?.is_none(), "the server ended");
            anyhow::ensure!(began.elapsed() < Duration::from_secs(60), "the server did not come up");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.up_after = began.elapsed();
        Ok(server)
    }

    /// Resident memory in MiB, as the kernel counts it.
    fn resident(&self) -> anyhow::Result<f64> {
        let status =
            std::fs::read_to_string(PathBuf::from("/proc").join(self.child.id().to_string()).join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        )?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already, or left behind by an error: either way it must not outlive the bench.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn disk(dir: &Path) -> anyhow::Result<u64> {
    let entries = std::fs::read_dir(dir.join("data"))?;
    entries.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
