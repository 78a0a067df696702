//! An engine on scratch data, driven as a server drives it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_core::{Graph, TenantId};
use abide_engine::{Engine, EngineOptions, NewRun, SystemClock};
use abide_store::{Counts, Sqlite, SqliteOptions, Store};
use abide_vfs::Shim;
use serde_json::{Value, json};

use super::Latencies;

/// The tenant of every bench.
pub(super) const TENANT: TenantId = TenantId(1);

/// An engine over a store whose syncs are counted.
pub(super) struct Rig {
    pub(super) engine: Engine,
    store: Arc<dyn Store>,
    shim: Shim,
}

/// What a stretch of work cost.
pub(super) struct Cost {
    pub(super) took: Duration,
    pub(super) latencies: Latencies,
    pub(super) commits: u64,
    pub(super) transactions: u64,
    pub(super) rows: u64,
    pub(super) syncs: u64,
    pub(super) bytes: u64,
}

impl Rig {
    pub(super) fn open(dir: &Path, shim_name: &str, workflows: &[Value]) -> anyhow::Result<Self> {
        let shim = Shim::counting(shim_name)?;
        let options = SqliteOptions { vfs: Some(shim.name().to_owned()), ..SqliteOptions::new(dir) };
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&options)?);
        let workflows = workflows.iter().map(parse).collect::<anyhow::Result<_>>()?;
        let options = EngineOptions::new(store.clone(), Arc::new(SystemClock));
        let engine = Engine::start(EngineOptions { workflows, ..options });
        Ok(Self { engine, store, shim })
    }

    /// Takes `runs` runs to their end, `concurrency` at a time, and counts what it cost.
    pub(super) async fn drive(
        &self,
        workflow: &'static str,
        concurrency: usize,
        runs: usize,
    ) -> anyhow::Result<Cost> {
        let (counts, syncs): (Counts, _) = (self.store.counts(), self.shim.counts());
        let began = Instant::now();
        let mut drivers = tokio::task::JoinSet::new();
        for driver in 0..concurrency {
            let share = runs / concurrency + usize::from(driver < runs % concurrency);
            drivers.spawn(take_to_end(self.engine.clone(), workflow, share));
        }
        let mut latencies = Latencies::new();
        while let Some(done) = drivers.join_next().await {
            latencies.merge(&done??);
        }
        let took = began.elapsed();
        let (after, synced) = (self.store.counts(), self.shim.counts());
        Ok(Cost {
            took,
            latencies,
            commits: after.commits - counts.commits,
            transactions: after.transactions - counts.transactions,
            rows: after.rows - counts.rows,
            syncs: synced.syncs() - syncs.syncs(),
            bytes: synced.bytes_written() - syncs.bytes_written(),
        })
    }

    pub(super) async fn close(self) -> anyhow::Result<()> {
        Ok(self.engine.drain(Duration::from_secs(10)).await?)
    }
}

async fn take_to_end(engine: Engine, workflow: &'static str, runs: usize) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new();
    for _ in 0..runs {
        let began = Instant::now();
        let (run, status) = engine.start_run(NewRun::of(TENANT, workflow)).await?;
        if !status.is_terminal() {
            let key = run.of(TENANT);
            let mut news = engine.subscribe(key);
            if !engine.head(key).await?.summary.status.is_terminal() {
                news.ended().await;
            }
        }
        latencies.add(began.elapsed());
    }
    Ok(latencies)
}

impl Cost {
    /// Tells what it cost, as counts.
    pub(super) fn tell(&self, report: &mut super::Report) {
        report
            .figure("commits", self.commits)
            .figure("transactions", self.transactions)
            .figure("fsyncs", self.syncs)
            .figure("commits per fsync", self.commits as f64 / self.syncs.max(1) as f64)
            .figure("rows written", self.rows)
            .figure("bytes written", self.bytes);
    }

    /// Commits that shared a transaction, on average.
    pub(super) fn batch(&self) -> usize {
        usize::try_from((self.commits as f64 / self.transactions.max(1) as f64).round() as u64)
            .unwrap_or(1)
            .max(1)
    }
}

pub(super) fn parse(workflow: &Value) -> anyhow::Result<Graph> {
    Graph::admit(workflow.to_string().as_bytes()).map_err(|problems| anyhow::anyhow!("{problems:?}"))
}

/// A chain of `length` no-ops, each individually durable or all in one stretch.
pub(super) fn chain(id: &str, length: usize, durable: bool) -> Value {
    let node = |ix: usize| {
        json!({
            "id": format!("n{ix}"), "typeId": "core.noop", "name": "n", "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": {}, "settings": { "abide": { "durable": durable } },
        })
    };
    let edge = |ix: usize| json!({ "id": format!("e{ix}"), "sourceNodeId": format!("n{}", ix - 1), "targetNodeId": format!("n{ix}") });
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": (0..length).map(node).collect::<Vec<_>>(),
        "edges": (1..length).map(edge).collect::<Vec<_>>(), "triggers": [], "variables": [], "metadata": {}, "settings": {},
    })
}
