//! `abide bench`: what this machine can do, beside what bare SQLite can do with the same rows.
//!
//! Figures of one machine at one moment are noise; the ratio to the ceiling, taken in the same run, is not.
//! Steps that share a commit are never counted as individually durable.

mod ceiling;
mod cluster;
mod desk;
mod graphs;
mod groups;
mod http;
mod ladder;
mod openintent;
mod parked;
mod provider;
mod resume;
mod rig;
mod roundtrip;
mod runs;
mod server;
mod steps;
mod turns;
mod wire;
mod worker;

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value};

use crate::args::{BenchArgs, BenchVerb};
use crate::output;

pub(crate) async fn dispatch(args: BenchArgs) -> anyhow::Result<()> {
    let dir = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let report = match args.verb {
        BenchVerb::Steps { concurrency, steps, runs } => {
            steps::bench(dir.path(), concurrency, steps, runs).await?
        }
        BenchVerb::Runs { concurrency, runs, http: true } => {
            http::bench(dir.path(), concurrency, runs).await?
        }
        BenchVerb::Runs { concurrency, runs, http: false } => {
            runs::bench(dir.path(), concurrency.unwrap_or(256), runs).await?
        }
        BenchVerb::Graphs { nodes, depth } => graphs::bench(dir.path(), nodes, depth).await?,
        BenchVerb::Groups { runs, members, dependents } => {
            let size =
                groups::Size { runs: runs.max(200), members: members.max(2), dependents: dependents.max(2) };
            groups::bench(dir.path(), size).await?
        }
        BenchVerb::Openintent { intents, concurrency } => {
            let size = openintent::Size { intents, concurrency: concurrency.max(1) };
            openintent::bench(dir.path(), size).await?
        }
        BenchVerb::Roundtrip { concurrency, roundtrips, parked, payload } => {
            let size = roundtrip::Size { concurrency: concurrency.max(1), roundtrips, parked, payload };
            roundtrip::bench(dir.path(), &size).await?
        }
        BenchVerb::Ladder { parked, concurrency } => {
            ladder::bench(dir.path(), parked.max(10), concurrency.max(1)).await?
        }
        BenchVerb::Worker { concurrency, tasks, steps, python, processes } => {
            let size = worker::Size {
                concurrency: concurrency.max(1),
                tasks: tasks.max(1),
                steps,
                python,
                processes: processes.max(1),
            };
            worker::bench(dir.path(), &size).await?
        }
        BenchVerb::Resume { runs } => resume::bench(dir.path(), runs.max(1)).await?,
        BenchVerb::Turns { runs, outage } => {
            let size = turns::Size { runs: runs.max(1), outage: Duration::from_secs(outage) };
            turns::bench(dir.path(), &size).await?
        }
        BenchVerb::Cluster { store, servers, concurrency, roundtrips, pgbench, seconds } => {
            let concurrency = concurrency.max(1);
            let size = cluster::Size { store, servers, concurrency, roundtrips, pgbench, seconds };
            cluster::bench(dir.path(), &size).await?
        }
        BenchVerb::Parked { runs, payload } => parked::bench(dir.path(), runs, payload).await?,
    };
    report.print(args.json)
}

/// Figures under headings, in the order they were taken.
#[derive(Default)]
pub(crate) struct Report {
    parts: Vec<(String, Vec<(String, Value)>)>,
}

impl Report {
    /// Begins a part.
    fn part(&mut self, title: &str) -> &mut Self {
        self.parts.push((title.to_owned(), Vec::new()));
        self
    }

    /// How many parts were begun.
    fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Adds a figure to the part.
    fn figure(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        if let Some((_, figures)) = self.parts.last_mut() {
            figures.push((name.to_owned(), value.into()));
        }
        self
    }

    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            let parts = self.parts.iter().map(|(title, figures)| {
                (title.clone(), Value::Object(figures.iter().cloned().collect::<Map<_, _>>()))
            });
            return output::line(&Value::Object(parts.collect::<Map<_, _>>()).to_string());
        }
        for (title, figures) in &self.parts {
            output::line(title)?;
            for (name, value) in figures {
                output::line(&format!("  {name:<44} {}", shown(value)))?;
            }
        }
        Ok(())
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => format!("{:.2}", number.as_f64().unwrap_or_default()),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// How long things took.
struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> Self {
        // Microseconds up to an hour, to three digits.
        Self(Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("these are bounds that histograms have"))
    }

    fn add(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    fn merge(&mut self, other: &Self) {
        self.0 += &other.0;
    }

    /// A quantile in milliseconds.
    fn ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// So many per second.
fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(f64::EPSILON)
}
