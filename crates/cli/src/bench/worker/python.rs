//! The same steps with workers in Python, in processes of their own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{PYTHON_KIND, STARTERS, Size, Stretch, WARM_UP, begin, start_of};
use crate::bench::server::Server;
use crate::bench::wire::{Connection, request};
use crate::bench::{Report, rate};
use crate::output;

/// Seconds that workers may take to come up.
const UP_S: u64 = 60;

/// Seconds that a poll waits for news.
const POLL_S: u32 = 30;

/// A worker that does nothing but steps.
fn program() -> String {
    format!(
        r#"from abide import App, Context

app = App("bench-python")


def one(n: int) -> dict[str, int]:
    return {{"n": n}}


@app.node("{PYTHON_KIND}", idempotent=True)
async def work(ctx: Context, steps: int) -> dict[str, int]:
    for n in range(steps):
        await ctx.step(f"s{{n}}", one, n)
    return {{}}
"#
    )
}

/// Workers that do not outlive the bench.
struct Workers(Vec<Child>);

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Ended already, or left behind by an error: either way it must not outlive the bench.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) async fn bench(
    dir: &Path,
    server: &Server,
    key: &str,
    interpreter: &Path,
    size: &Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (tasks, steps) = ((size.tasks / 4).max(1), size.steps);
    output::say(&format!("{tasks} tasks of {steps} steps with {} workers in Python …", size.processes));
    std::fs::write(dir.join("bench_app.py"), program())?;
    let workers = start(dir, server, key, interpreter, size)?;
    come_up(server, size.processes).await?;
    drive(server, key, WARM_UP.min(tasks), size.concurrency).await?;
    let (began, used) = (Instant::now(), server.cpu()?);
    drive(server, key, tasks, size.concurrency).await?;
    let stretch = Stretch { took: began.elapsed(), cpu: server.cpu()?.saturating_sub(used) };
    drop(workers);
    report
        .part("steps through workers in Python, each individually durable")
        .figure("processes", size.processes)
        .figure("steps", tasks * steps)
        .figure("steps/s", rate(tasks * steps, stretch.took))
        .figure("server CPU, cores", stretch.share());
    Ok(())
}

fn start(dir: &Path, server: &Server, key: &str, interpreter: &Path, size: &Size) -> anyhow::Result<Workers> {
    let mut workers = Workers(Vec::new());
    // Workers run in the folder of the bench, and a link to an interpreter says which environment is meant.
    let interpreter = std::path::absolute(interpreter)?;
    for _ in 0..size.processes {
        let child = Command::new(&interpreter)
            .args(["-m", "abide.worker", "bench_app:app", "--capacity", &size.concurrency.to_string()])
            .current_dir(dir)
            .env("ABIDE_URL", format!("http://{}", server.address))
            .env("ABIDE_API_KEY", key)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("the worker in Python does not start; is the package installed?")?;
        workers.0.push(child);
    }
    Ok(workers)
}

/// Waits until all workers have registered.
async fn come_up(server: &Server, processes: usize) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let there = server.client.get("/v1/workers").await?;
        let count = there["workers"].as_array().map_or(0, Vec::len);
        if count >= processes {
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < Duration::from_secs(UP_S), "the workers in Python did not come up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Starts runs and waits for each, so many at a time.
async fn drive(server: &Server, key: &str, tasks: usize, concurrency: usize) -> anyhow::Result<()> {
    let start = start_of(server, key, "python");
    let left = Arc::new(AtomicUsize::new(tasks));
    let mut drivers = JoinSet::new();
    for _ in 0..concurrency.max(STARTERS).min(tasks) {
        let (left, start, key, address) = (left.clone(), start.clone(), key.to_owned(), server.address);
        let mut connection = Connection::open(address).await?;
        drivers.spawn(async move {
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                let started = begin(&mut connection, &start).await?;
                let run = started["runId"].as_str().context("an answer without runId")?.to_owned();
                let mut last: i64 = -1;
                loop {
                    let path = format!("/v1/runs/{run}/events/poll?timeout={POLL_S}&lastSequence={last}");
                    let ask = request(address, &key, "GET", &path, None);
                    let (status, body) = connection.ask(&ask).await?;
                    anyhow::ensure!(status == 200, "a poll was answered {status}");
                    let page: Value = serde_json::from_slice(body)?;
                    if page["isComplete"] == true {
                        break;
                    }
                    let news = page["events"].as_array().and_then(|events| events.last());
                    last = news.and_then(|event| event["sequence"].as_i64()).unwrap_or(last);
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = drivers.join_next().await {
        done??;
    }
    Ok(())
}
