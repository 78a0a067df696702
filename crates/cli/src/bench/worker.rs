//! Steps through workers, over HTTP, against a server in a process of its own: with a load worker in this process, and
//! with workers in Python if there is one to run them.
//!
//! Every step is an operation of its own and is on disk before it is acknowledged, in a commit of its own. Operations of
//! different tasks share requests and the disk's syncs; no two steps of a task do.

mod hand;
mod python;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::server::{Server, prepare};
use super::wire::{Connection, request};
use super::{Latencies, Report, rate};
use crate::output;
use hand::{Hand, Job};

/// Connections over which runs are started.
const STARTERS: usize = 8;

/// The kind of node that the load worker provides.
const KIND: &str = "bench.work";

/// The kind of node that the workers in Python provide.
const PYTHON_KIND: &str = "bench.python";

/// Tasks that go before the measured ones: files grow and caches fill.
const WARM_UP: usize = 64;

/// Steps that are done one after the other; more would only take time.
const ALONE_STEPS: usize = 2_000;

/// Tasks that an idle worker is given, one after the other.
const IDLE: usize = 500;

/// What a bench of workers is asked for.
pub(super) struct Size {
    pub(super) concurrency: usize,
    pub(super) tasks: usize,
    pub(super) steps: usize,
    pub(super) python: Option<PathBuf>,
    pub(super) processes: usize,
}

pub(super) async fn bench(dir: &Path, size: &Size) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let workflows = [single("load", KIND, size.steps), single("python", PYTHON_KIND, size.steps)];
    let key = prepare(dir, &workflows).await?;
    let server = Server::start(dir, &key).await?;

    let hand = Hand::register(&server, &key, KIND, size.concurrency).await?;
    steps(&server, &key, &hand, size, &mut report).await?;
    roundtrips(&server, &key, &hand, size, &mut report).await?;
    idle(&server, &key, &hand, &mut report).await?;
    hand.leave().await?;
    if let Some(interpreter) = &size.python {
        python::bench(dir, &server, &key, interpreter, size, &mut report).await?;
    }
    server.stop()?;
    Ok(report)
}

/// A workflow of one node for workers.
fn single(id: &str, kind: &str, steps: usize) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0",
        "nodes": [{
            "id": "work", "typeId": kind, "name": "work", "position": { "x": 0, "y": 0 }, "config": {},
            "inputs": { "steps": { "type": "static", "value": steps } },
        }],
        "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}

/// What was done, and what it took of the server.
struct Stretch {
    took: Duration,
    cpu: Duration,
}

impl Stretch {
    /// The share of one CPU that the server had.
    fn share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.took.as_secs_f64().max(f64::EPSILON)
    }
}

async fn steps(
    server: &Server,
    key: &str,
    hand: &Hand,
    size: &Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let Size { concurrency, tasks, steps, .. } = *size;
    output::say(&format!("{tasks} tasks of {steps} steps, {concurrency} at a time …"));
    hand.sets(Job::Steps(steps));
    do_all(server, key, hand, WARM_UP.min(tasks), concurrency).await?;
    let before = hand.requests();
    let stretch = do_all(server, key, hand, tasks, concurrency).await?;
    let count = tasks * steps;
    report
        .part("steps through a worker over HTTP, each individually durable")
        .figure("steps", count)
        .figure("steps/s", rate(count, stretch.took))
        .figure("tasks/s", rate(tasks, stretch.took))
        .figure("operations per request", (count + tasks) as f64 / (hand.requests() - before).max(1) as f64)
        .figure("server CPU, cores", stretch.share())
        .figure("server CPU per step, microseconds", stretch.cpu.as_secs_f64() * 1e6 / count as f64);
    let few = (ALONE_STEPS / steps.max(1)).max(1);
    let alone = do_all(server, key, hand, few, 1).await?;
    let count = few * steps.max(1);
    report.part("one task at a time").figure("ms per step", alone.took.as_secs_f64() * 1e3 / count as f64);
    Ok(())
}

async fn roundtrips(
    server: &Server,
    key: &str,
    hand: &Hand,
    size: &Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let tasks = size.tasks;
    output::say(&format!("{tasks} roundtrips, {} at a time …", size.concurrency));
    hand.sets(Job::Roundtrip);
    do_all(server, key, hand, WARM_UP.min(tasks), size.concurrency).await?;
    let stretch = do_all(server, key, hand, tasks, size.concurrency).await?;
    report
        .part("roundtrips through a worker: start, step, question, giving back, answer, hand-out, step, end")
        .figure("roundtrips", tasks)
        .figure("roundtrips/s", rate(tasks, stretch.took))
        .figure("server CPU, cores", stretch.share());
    Ok(())
}

/// How long it takes from the request that starts a run until a worker that waits has its task.
async fn idle(server: &Server, key: &str, hand: &Hand, report: &mut Report) -> anyhow::Result<()> {
    output::say(&format!("{IDLE} tasks for an idle worker, one at a time …"));
    hand.sets(Job::Steps(0));
    let mut latencies = Latencies::new();
    let mut connection = Connection::open(server.address).await?;
    let start = start_of(server, key, "load");
    for _ in 0..IDLE {
        let began = Instant::now();
        hand.expects(1);
        begin(&mut connection, &start).await?;
        hand.finished().await?;
        latencies.add(hand.last_arrival().saturating_duration_since(began));
    }
    report
        .part("an idle worker: from the request that starts a run to its task in hand")
        .figure("ms p50", latencies.ms(0.5))
        .figure("ms p99", latencies.ms(0.99));
    Ok(())
}

fn start_of(server: &Server, key: &str, workflow: &str) -> Arc<[u8]> {
    request(server.address, key, "POST", "/v1/runs", Some(&json!({ "workflowId": workflow }))).into()
}

/// Starts a run.
async fn begin(connection: &mut Connection, start: &[u8]) -> anyhow::Result<Value> {
    let (status, body) = connection.ask(start).await?;
    anyhow::ensure!(status == 201, "the server answered {status}: {}", String::from_utf8_lossy(body));
    Ok(serde_json::from_slice(body)?)
}

/// Starts runs, so many at a time, and waits until the worker has done them all.
async fn do_all(
    server: &Server,
    key: &str,
    hand: &Hand,
    tasks: usize,
    concurrency: usize,
) -> anyhow::Result<Stretch> {
    let start = start_of(server, key, "load");
    let (began, used) = (Instant::now(), server.cpu()?);
    hand.expects(tasks);
    let places = hand.places(concurrency);
    let left = Arc::new(AtomicUsize::new(tasks));
    let mut starters = JoinSet::new();
    for _ in 0..STARTERS.min(concurrency) {
        let (places, left, start) = (places.clone(), left.clone(), start.clone());
        let mut connection = Connection::open(server.address).await?;
        starters.spawn(async move {
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                // A task that is done gives its place back.
                places.acquire().await?.forget();
                begin(&mut connection, &start).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = starters.join_next().await {
        done??;
    }
    hand.finished().await?;
    Ok(Stretch { took: began.elapsed(), cpu: server.cpu()?.saturating_sub(used) })
}
