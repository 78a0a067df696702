//! The ceiling: the same rows in the same batches on bare SQLite, with nothing around it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_core::{Command, Effect, Graph, Product, Report, Run, RunId, Start, Step};
use abide_store::{Commit, Sealing, Sqlite, SqliteOptions, plan};
use rusqlite::{Transaction, TransactionBehavior, params_from_iter};

use super::rig::TENANT;

/// The commits of `runs` runs, in the order in which `concurrency` of them at a time would make them.
pub(super) fn commits_of(graph: &Arc<Graph>, concurrency: usize, runs: usize) -> anyhow::Result<Vec<Commit>> {
    let mut commits = Vec::new();
    for wave in 0..runs.div_ceil(concurrency) {
        let size = concurrency.min(runs - wave * concurrency);
        let mut under_way = Vec::new();
        for ix in 0..size {
            let (run, fence, commit) = start(graph, (wave * concurrency + ix) as u128)?;
            commits.push(commit);
            under_way.push((run, fence));
        }
        while !under_way.is_empty() {
            for (run, fence) in &mut under_way {
                commits.extend(step(run, fence)?);
            }
            under_way.retain(|(run, _)| !run.lifecycle().is_terminal());
        }
    }
    Ok(commits)
}

fn start(graph: &Arc<Graph>, number: u128) -> anyhow::Result<(Run, u64, Commit)> {
    // Spread like the ids of a server: rising in time, random below.
    let id = (number << 80) | (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & 0xFFFF_FFFF_FFFF);
    let key = RunId::from_bytes(id.to_be_bytes()).of(TENANT);
    let start = Start::of(key, [1; 16], graph.clone());
    let (run, step) = Run::start(start, 1)?;
    let fence = fence_of(&step);
    let commit = Commit { boot: 1, salt: Some([1; 16]), ..Commit::of(&run, step) };
    Ok((run, fence, commit))
}

fn step(run: &mut Run, fence: &mut u64) -> anyhow::Result<Option<Commit>> {
    let Some(task) = run.tasks().next() else { return Ok(None) };
    let step = run.decide(Command::Report(Report { task, outcome: Ok(Product::default()) }), 1)?;
    let held = std::mem::replace(fence, fence_of(&step));
    Ok(Some(Commit { boot: 1, fence: Some(held), ..Commit::of(run, step) }))
}

/// The fence of the task that a step dispatches, if any.
fn fence_of(step: &Step) -> u64 {
    let fence = |effect: &Effect| match effect {
        Effect::Dispatch { fence, .. } => Some(*fence),
        _ => None,
    };
    step.effects.iter().find_map(fence).unwrap_or(0)
}

/// Writes the commits in transactions of `batch`, and tells how long it took.
pub(super) fn measure(dir: &Path, commits: &[Commit], batch: usize) -> anyhow::Result<Duration> {
    let connection = Sqlite::bare_writer(&SqliteOptions::new(dir))?;
    let sealing = Sealing::in_clear();
    let planned = commits.iter().map(|commit| plan(commit, &sealing)).collect::<Result<Vec<_>, _>>()?;
    let began = Instant::now();
    for batch in planned.chunks(batch) {
        let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
        for statement in batch.iter().flatten() {
            transaction.prepare_cached(statement.sql)?.execute(params_from_iter(&statement.values))?;
        }
        transaction.commit()?;
    }
    Ok(began.elapsed())
}
