//! Durable steps: each on disk before the next begins.

use std::path::Path;
use std::sync::Arc;

use super::rig::{Cost, Rig, chain, parse};
use super::{Report, ceiling, rate};
use crate::output;

/// Commits that the ceiling is measured with; more would only take memory.
const CEILING_COMMITS_MAX: usize = 50_000;

pub(super) async fn bench(
    dir: &Path,
    concurrency: usize,
    steps: usize,
    runs: usize,
) -> anyhow::Result<Report> {
    let steps = steps.max(1);
    let workflows = [chain("durable", steps, true), chain("pure", steps, false), chain("one", 1, true)];
    let rig = Rig::open(&dir.join("engine"), "bench-steps", &workflows)?;
    let mut report = Report::default();

    output::say(&format!("durable steps: {runs} runs of {steps}, {concurrency} at a time …"));
    let durable = rig.drive("durable", concurrency, runs).await?;
    let per_second = rate(steps * runs, durable.took);
    report
        .part("individually durable steps (each on disk before the next begins)")
        .figure("steps", steps * runs)
        .figure("steps/s", per_second)
        .figure("ms per step within a run, p50", durable.latencies.ms(0.5) / steps as f64)
        .figure("ms per step within a run, p99", durable.latencies.ms(0.99) / steps as f64);
    durable.tell(&mut report);
    ceiling_of(dir, &workflows[0], steps, concurrency, &durable, per_second, &mut report)?;

    output::say("one run at a time …");
    let alone = rig.drive("one", 1, 500).await?;
    report
        .part("one run at a time, one durable step (two commits)")
        .figure("ms start to acknowledged end, p50", alone.latencies.ms(0.5))
        .figure("ms start to acknowledged end, p99", alone.latencies.ms(0.99));
    alone.tell(&mut report);

    output::say("pure stretches …");
    let pure = rig.drive("pure", concurrency, runs).await?;
    report
        .part("pure stretches (steps share a commit; not individually durable)")
        .figure("steps", steps * runs)
        .figure("steps/s", rate(steps * runs, pure.took));
    pure.tell(&mut report);
    rig.close().await?;
    Ok(report)
}

fn ceiling_of(
    dir: &Path,
    workflow: &serde_json::Value,
    steps: usize,
    concurrency: usize,
    measured: &Cost,
    per_second: f64,
    report: &mut Report,
) -> anyhow::Result<()> {
    output::say("the ceiling: the same rows and batches on bare SQLite …");
    let runs = (CEILING_COMMITS_MAX / (steps + 1)).max(concurrency);
    let commits = ceiling::commits_of(&Arc::new(parse(workflow)?), concurrency, runs)?;
    let took = ceiling::measure(&dir.join("ceiling"), &commits, measured.batch())?;
    let ceiling = rate(steps * runs, took);
    report
        .figure("commits per transaction", measured.batch())
        .figure("bare SQLite, steps/s", ceiling)
        .figure("ratio to bare SQLite", per_second / ceiling);
    Ok(())
}
