//! The ceiling: the same rows in the same batches on bare SQLite, with nothing around it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_core::{Command, Graph, Report, Run, RunId, Start};
use abide_store::{Commit, Sqlite, SqliteOptions, plan};
use rusqlite::{Connection, Transaction, TransactionBehavior, params_from_iter};

use super::rig::TENANT;

/// The commits of `runs` runs, in the order in which `concurrency` of them at a time would make them.
pub(super) fn commits_of(graph: &Arc<Graph>, concurrency: usize, runs: usize) -> anyhow::Result<Vec<Commit>> {
    let mut commits = Vec::new();
    for wave in 0..runs.div_ceil(concurrency) {
        let size = concurrency.min(runs - wave * concurrency);
        let mut under_way = Vec::new();
        for ix in 0..size {
            let (run, commit) = start(graph, (wave * concurrency + ix) as u128)?;
            commits.push(commit);
            under_way.push(run);
        }
        while !under_way.is_empty() {
            for run in &mut under_way {
                commits.extend(step(run)?);
            }
            under_way.retain(|run| !run.lifecycle().is_terminal());
        }
    }
    Ok(commits)
}

fn start(graph: &Arc<Graph>, number: u128) -> anyhow::Result<(Run, Commit)> {
    // Spread like the ids of a server: rising in time, random below.
    let id = (number << 80) | (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & 0xFFFF_FFFF_FFFF);
    let key = RunId::from_bytes(id.to_be_bytes()).of(TENANT);
    let start = Start {
        key,
        salt: [1; 16],
        graph: graph.clone(),
        inputs: Default::default(),
        tags: Vec::new(),
        metadata: None,
        parent: None,
        by: None,
    };
    let (run, step) = Run::start(start, 1)?;
    let commit = Commit { boot: 1, salt: Some([1; 16]), ..Commit::of(&run, step) };
    Ok((run, commit))
}

fn step(run: &mut Run) -> anyhow::Result<Option<Commit>> {
    let Some(task) = run.tasks().next() else {
        return Ok(None);
    };
    let step = run.decide(Command::Report(Report { task, outcome: Ok(None) }), 1)?;
    Ok(Some(Commit { boot: 1, fence: Some(1), ..Commit::of(run, step) }))
}

/// Writes the commits in transactions of `batch`, and tells how long it took.
pub(super) fn measure(dir: &Path, commits: &[Commit], batch: usize) -> anyhow::Result<Duration> {
    drop(Sqlite::open(&SqliteOptions::new(dir))?);
    let connection = Connection::open(dir.join("abide.db"))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.set_prepared_statement_cache_capacity(64);
    let planned: Vec<_> = commits.iter().map(plan).collect();
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
