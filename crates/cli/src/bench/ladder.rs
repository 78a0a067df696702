//! Ladders: many questions whose next attempt falls in the same minute, and what that does to those who work meanwhile.
//!
//! The same is done with a tenth of the questions first: what an attempt costs must not grow with how many wait.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::desk::Desk;
use super::roundtrip::{Caller, GATE, gated, park_all};
use super::server::{Server, prepare};
use super::wire::{Connection, request};
use super::{Latencies, Report, rate};
use crate::output;

/// Roundtrips of somebody who works while nothing is due.
const QUIET: usize = 500;

/// Questions that are asked, and told of, in a second at the least, so that all are before the first attempt is due.
const ASKED_PER_SECOND_MIN: usize = 600;

/// Seconds to measure the quiet in.
const QUIET_S: usize = 40;

/// No storm takes longer.
const PATIENCE: Duration = Duration::from_secs(900);

pub(super) async fn bench(dir: &Path, parked: usize, concurrency: usize) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let few = (parked / 10).max(1);
    let among_few = storm(&dir.join("few"), few, concurrency, &mut report).await?;
    let among_all = storm(&dir.join("all"), parked, concurrency, &mut report).await?;
    report
        .part(&format!("{parked} against {few}"))
        .figure("ratio of CPU per attempt", among_all.cpu_us / among_few.cpu_us.max(f64::EPSILON))
        .figure("ratio of ms p99 during", among_all.p99 / among_few.p99.max(f64::EPSILON));
    Ok(report)
}

/// What a storm of attempts came to.
struct Storm {
    /// Microseconds of CPU for each attempt, the work of others included.
    cpu_us: f64,
    p99: f64,
}

async fn storm(dir: &Path, parked: usize, concurrency: usize, report: &mut Report) -> anyhow::Result<Storm> {
    let interval = QUIET_S + parked / ASKED_PER_SECOND_MIN;
    let key = prepare(dir, &[laddered("asked", interval), gated("work", false)]).await?;
    let desk = Desk::open().await?;
    desk.configure(dir)?;
    let server = Server::start(dir, &key).await?;
    output::say(&format!("asking {parked} questions …"));
    let began = Instant::now();
    park_all(&Caller::new(server.address, &key, "asked"), concurrency, parked).await?;
    let asked = began.elapsed();
    output::say("waiting until everybody is told of them …");
    while desk.taken() < parked {
        anyhow::ensure!(began.elapsed() < PATIENCE, "{} of {parked} were told of", desk.taken());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = began.elapsed();
    let worker = Caller::new(server.address, &key, "work");
    let (_, before, _) = worker.drive(1, QUIET).await?;
    let mut metrics = Connection::open(server.address).await?;
    let ask = request(server.address, &key, "GET", "/metrics", None);
    let early = fired(&mut metrics, &ask).await?;
    anyhow::ensure!(early == 0, "{early} attempts were due before all questions were asked");

    output::say(&format!("waiting for the {parked} attempts that are due from {interval} s on …"));
    while fired(&mut metrics, &ask).await? == 0 {
        anyhow::ensure!(began.elapsed() < PATIENCE, "no attempt was made");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (first, spent, before_storm) = (Instant::now(), server.cpu()?, desk.taken());
    let mut during = Latencies::new();
    let mut worked = 0;
    while fired(&mut metrics, &ask).await? < parked {
        anyhow::ensure!(began.elapsed() < PATIENCE, "not all attempts were made");
        let (_, some, _) = worker.drive(1, 10).await?;
        during.merge(&some);
        worked += 10;
    }
    let (took, spent) = (first.elapsed(), server.cpu()? - spent);
    let delivered = desk.taken() - before_storm;
    let storm = Storm { cpu_us: spent.as_secs_f64() * 1e6 / parked as f64, p99: during.ms(0.99) };
    report
        .part(&format!("{parked} questions, all with an attempt due within {:.0} s", asked.as_secs_f64()))
        .figure("seconds until all were told of, the asking included", told.as_secs_f64())
        .figure("attempts made", fired(&mut metrics, &ask).await?)
        .figure("attempts/s, while others work", rate(parked, took))
        .figure("seconds from the first to the last", took.as_secs_f64())
        .figure("us of CPU per attempt, others' work included", storm.cpu_us)
        .figure("messages taken meanwhile, those of others included", delivered)
        .figure("roundtrips of others meanwhile", worked)
        .figure("ms p50 of a roundtrip before", before.ms(0.5))
        .figure("ms p50 of a roundtrip during", during.ms(0.5))
        .figure("ms p99 of a roundtrip before", before.ms(0.99))
        .figure("ms p99 of a roundtrip during", during.ms(0.99))
        .figure("ratio of the p99", during.ms(0.99) / before.ms(0.99).max(f64::EPSILON))
        .figure("MiB resident, server", server.resident()?);
    server.stop()?;
    Ok(storm)
}

/// How many timers have fired.
async fn fired(connection: &mut Connection, ask: &[u8]) -> anyhow::Result<usize> {
    let (status, body) = connection.ask(ask).await?;
    anyhow::ensure!(status == 200, "the server answered {status}");
    let text = std::str::from_utf8(body)?;
    let line = text.lines().find_map(|line| line.strip_prefix("abide_timers_fired_total "));
    Ok(line.context("no count of the timers that fired")?.trim().parse::<f64>()? as usize)
}

/// A question that people are told of twice.
fn laddered(id: &str, interval_seconds: usize) -> Value {
    let mut workflow = gated(id, false);
    let policy = json!({ "max_attempts": 2, "interval_seconds": interval_seconds });
    let gate =
        workflow["nodes"].as_array_mut().and_then(|nodes| nodes.iter_mut().find(|node| node["id"] == GATE));
    if let Some(gate) = gate {
        gate["settings"] = json!({ "abide": { "ladder": { "retry_policy": policy } } });
    }
    workflow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_has_a_ladder_and_can_be_admitted() {
        let workflow = laddered("w", 60);
        assert_eq!(workflow["nodes"][1]["settings"]["abide"]["ladder"]["retry_policy"]["max_attempts"], 2);
        assert!(abide_core::Graph::admit(workflow.to_string().as_bytes()).is_ok());
    }
}
