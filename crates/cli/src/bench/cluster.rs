//! Servers that share a PostgreSQL database: roundtrips through one and through several, beside what the database alone does
//! with one row in a commit, measured by its own pgbench in the same run.
//!
//! A start and an answer are acknowledged when they are on the database's disk, each in a commit that may carry others.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_core::TenantId;
use abide_server::{ApiSecret, Grant, Keyring};
use abide_store::{Postgres, Sealing, Store};
use anyhow::Context;
use tokio::task::JoinSet;

use super::roundtrip::{Caller, gated};
use super::server::Server;
use super::{Latencies, Report, rate};
use crate::output;

/// Roundtrips that go before the measured ones, for each connection.
const WARM_UP: usize = 4;

/// What a bench of several servers is asked for.
pub(super) struct Size {
    pub(super) store: String,
    pub(super) servers: Vec<usize>,
    pub(super) concurrency: usize,
    pub(super) roundtrips: usize,
    pub(super) pgbench: String,
    pub(super) seconds: u64,
}

pub(super) async fn bench(dir: &Path, size: &Size) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let key = prepare(dir, size).await?;
    let inserts = inserts(dir, size, &mut report)?;
    for servers in &size.servers {
        measure(dir, size, &key, (*servers).max(1), inserts, &mut report).await?;
    }
    Ok(report)
}

/// Makes a key, and refuses a database that holds anybody's runs.
async fn prepare(dir: &Path, size: &Size) -> anyhow::Result<String> {
    std::fs::create_dir_all(dir.join("workflows"))?;
    std::fs::write(dir.join("workflows/stretch.json"), gated("stretch", false).to_string())?;
    let store = Arc::new(Postgres::open_beside(&size.store, Sealing::in_clear())?);
    let empty = store.scan(None, 1).await?.is_empty() && store.api_keys().await?.is_empty();
    anyhow::ensure!(
        empty,
        "the database holds data; give the bench an empty one of its own (CREATE DATABASE)"
    );
    let keyring = Keyring::open_or_create(&dir.join("keyring")).map_err(anyhow::Error::msg)?;
    let secret = ApiSecret::generate();
    store.put_api_keys(vec![Grant::everything(TenantId(1), "bench").row(&secret, &keyring, 0)?]).await?;
    store.close().await?;
    Ok(secret.text().to_owned())
}

/// Rows that the database alone takes in a second, one in each commit.
fn inserts(dir: &Path, size: &Size, report: &mut Report) -> anyhow::Result<f64> {
    output::say(&format!("pgbench: one row in a commit, {} at a time …", size.concurrency));
    let script = dir.join("insert.sql");
    std::fs::write(
        &script,
        "INSERT INTO bench_rows (id, payload) VALUES (decode(md5(random()::text), 'hex'), repeat('x', 300)::bytea);\n",
    )?;
    let tables =
        "DROP TABLE IF EXISTS bench_rows; CREATE TABLE bench_rows (id BYTEA PRIMARY KEY, payload BYTEA)";
    let psql = Path::new(&size.pgbench).with_file_name("psql");
    run(Command::new(psql).arg("--quiet").arg(&size.store).args(["-c", tables]))?;
    let mut command = Command::new(&size.pgbench);
    command.args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--file"]).arg(&script);
    command
        .arg(format!("--client={}", size.concurrency))
        .arg(format!("--time={}", size.seconds))
        .arg(&size.store);
    let said = run(&mut command)?;
    let tps = said.lines().find_map(|line| line.strip_prefix("tps = ")).context("pgbench told no rate")?;
    let inserts: f64 = tps.split_whitespace().next().unwrap_or_default().parse()?;
    report
        .part("PostgreSQL alone: one row of 300 bytes in a commit, by pgbench")
        .figure("inserts/s", inserts)
        .figure("clients", size.concurrency);
    Ok(inserts)
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().with_context(|| format!("{program} can't be started; name it with --pgbench"))?;
    anyhow::ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn measure(
    dir: &Path,
    size: &Size,
    key: &str,
    servers: usize,
    inserts: f64,
    report: &mut Report,
) -> anyhow::Result<()> {
    output::say(&format!(
        "{} roundtrips, {} at a time, {servers} servers …",
        size.roundtrips, size.concurrency
    ));
    let mut started = Vec::with_capacity(servers);
    for n in 0..servers {
        started.push(Server::start_on(dir, &size.store, &format!("bench-{n}"), key).await?);
    }
    drive(&started, key, size.concurrency, size.concurrency * WARM_UP).await?;
    let (took, latencies) = drive(&started, key, size.concurrency, size.roundtrips).await?;
    let acknowledged = rate(2 * size.roundtrips, took);
    report
        .part(&format!(
            "roundtrips through {servers} servers; start and answer each acknowledged when they are durable"
        ))
        .figure("roundtrips/s", rate(size.roundtrips, took))
        .figure("acknowledged commands/s", acknowledged)
        .figure("ms p50", latencies.ms(0.5))
        .figure("ms p99", latencies.ms(0.99))
        .figure("ratio of commands to pgbench's inserts", acknowledged / inserts);
    started.into_iter().try_for_each(Server::stop)
}

/// Roundtrips, shared out among the servers.
async fn drive(
    servers: &[Server],
    key: &str,
    concurrency: usize,
    roundtrips: usize,
) -> anyhow::Result<(Duration, Latencies)> {
    let (each, share) = (concurrency.div_ceil(servers.len()), roundtrips.div_ceil(servers.len()));
    let began = Instant::now();
    let mut drivers = JoinSet::new();
    for server in servers {
        let caller = Caller::new(server.address, key, "stretch");
        drivers.spawn(async move { caller.drive(each, share).await });
    }
    let mut latencies = Latencies::new();
    while let Some(done) = drivers.join_next().await {
        latencies.merge(&done??.1);
    }
    Ok((began.elapsed(), latencies))
}
