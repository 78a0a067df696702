//! Whole runs: from the request to the acknowledged end.

use std::path::Path;
use std::sync::Arc;

use super::rig::{Rig, chain, parse};
use super::{Report, ceiling, rate};
use crate::output;

/// Runs that the ceiling is measured with; more would only take memory.
const CEILING_RUNS_MAX: usize = 50_000;

pub(super) async fn bench(dir: &Path, concurrency: usize, runs: usize) -> anyhow::Result<Report> {
    let workflow = chain("one", 1, false);
    let rig = Rig::open(&dir.join("engine"), "bench-runs", std::slice::from_ref(&workflow))?;
    output::say(&format!("{runs} runs of one step, {concurrency} at a time …"));
    let cost = rig.drive("one", concurrency, runs).await?;
    rig.close().await?;
    let per_second = rate(runs, cost.took);
    let mut report = Report::default();
    report
        .part("runs of one step, start to acknowledged end")
        .figure("runs", runs)
        .figure("runs/s", per_second)
        .figure("ms p50", cost.latencies.ms(0.5))
        .figure("ms p99", cost.latencies.ms(0.99));
    cost.tell(&mut report);
    output::say("the ceiling: the same rows and batches on bare SQLite …");
    let sample = runs.min(CEILING_RUNS_MAX);
    let commits = ceiling::commits_of(&Arc::new(parse(&workflow)?), concurrency, sample)?;
    let ceiling = rate(sample, ceiling::measure(&dir.join("ceiling"), &commits, cost.batch())?);
    report
        .figure("commits per transaction", cost.batch())
        .figure("bare SQLite, runs/s", ceiling)
        .figure("ratio to bare SQLite", per_second / ceiling);
    Ok(report)
}
