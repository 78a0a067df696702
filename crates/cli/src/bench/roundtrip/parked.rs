//! Many runs that wait for an answer: what they take, what the inbox and an answer cost among them, and how soon after a
//! kill the first of them is answered.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use serde_json::json;
use tokio::task::JoinSet;

use super::{Caller, Size, gated};
use crate::bench::server::{Server, disk, prepare};
use crate::bench::wire::Connection;
use crate::bench::{Latencies, Report, rate};
use crate::output;

/// Runs that are answered, one after the other.
const ANSWERED: usize = 500;

/// How often the inbox is read at each size.
const READ: usize = 100;

/// How many more wait when the inbox is read again.
const GROWTH: usize = 100;

pub(super) async fn bench(dir: &Path, size: &Size, report: &mut Report) -> anyhow::Result<()> {
    let (runs, few) = (size.parked, (size.parked / GROWTH).max(1));
    let key = prepare(dir, &[gated("stretch", false)]).await?;
    let server = Server::start(dir, &key).await?;
    let caller = caller(&server, &key, size.payload);
    let (empty_disk, empty_memory) = (disk(dir)?, server.resident()?);
    output::say(&format!("parking {few} runs, reading the inbox …"));
    let mut parked = park(&caller, size.concurrency, few).await?;
    let among_few = read_inbox(&server).await?;
    output::say(&format!("parking {} more …", runs - few));
    let began = Instant::now();
    parked.extend(park(&caller, size.concurrency, runs - few).await?);
    report
        .part(&format!("parked at an interrupt, each with {} bytes of data", size.payload))
        .figure("runs", parked.len())
        .figure("runs/s", rate(runs - few, began.elapsed()))
        .figure("MiB resident before, server", empty_memory)
        .figure("MiB resident, server", server.resident()?);
    let among_all = read_inbox(&server).await?;
    tell_inbox(report, few, &among_few, runs, &among_all);
    let answered = answer_some(&caller, &parked, report).await?;
    report.figure("MiB resident, server", server.resident()?);

    output::say("killing the server, starting it again …");
    server.kill()?;
    let began = Instant::now();
    let server = Server::start(dir, &key).await?;
    let caller = Caller { address: server.address, ..caller };
    let mut connection = Connection::open(server.address).await?;
    let next = parked.iter().find(|run| !answered.contains(run)).context("nothing is parked any more")?;
    caller.complete(&mut connection, next).await?;
    report
        .part("start after kill -9, all the others parked")
        .figure("ms from exec to first answer", server.up_after.as_secs_f64() * 1000.0)
        .figure("ms from exec to the first answered run's end", began.elapsed().as_secs_f64() * 1000.0)
        .figure("MiB resident, server", server.resident()?);
    server.stop()?;
    let bytes = disk(dir)?.saturating_sub(empty_disk) as f64;
    report
        .part("disk, server stopped")
        .figure("MiB", bytes / 1_048_576.0)
        .figure("bytes per run", bytes / runs as f64)
        .figure("bytes per run beyond its data", bytes / runs as f64 - size.payload as f64);
    Ok(())
}

fn caller(server: &Server, key: &str, payload: usize) -> Caller {
    // The quotes of the text belong to the data.
    let data = "x".repeat(payload.saturating_sub(2));
    Caller::with(server.address, key, &json!({ "workflowId": "stretch", "inputs": { "data": data } }))
}

pub(in crate::bench) async fn park(
    caller: &Caller,
    concurrency: usize,
    runs: usize,
) -> anyhow::Result<Vec<String>> {
    let mut drivers = JoinSet::new();
    for driver in 0..concurrency {
        let share = runs / concurrency + usize::from(driver < runs % concurrency);
        let caller = caller.clone();
        drivers.spawn(async move {
            let mut connection = Connection::open(caller.address).await?;
            let mut parked = Vec::with_capacity(share);
            for _ in 0..share {
                parked.push(caller.park(&mut connection).await?.0);
            }
            anyhow::Ok(parked)
        });
    }
    let mut parked = Vec::with_capacity(runs);
    while let Some(share) = drivers.join_next().await {
        parked.extend(share??);
    }
    Ok(parked)
}

/// What reading the inbox took: its first page, and a page of one run.
struct Inbox {
    total: u64,
    first_page: Latencies,
    of_one_run: Latencies,
}

async fn read_inbox(server: &Server) -> anyhow::Result<Inbox> {
    let (mut first_page, mut of_one_run, mut total) = (Latencies::new(), Latencies::new(), 0);
    for _ in 0..READ {
        let began = Instant::now();
        let page = server.client.get("/v1/interrupts?limit=20").await?;
        first_page.add(began.elapsed());
        total = page["counts"]["total"].as_u64().context("an inbox without counts")?;
        let run = page["interrupts"][0]["runId"].as_str().context("an empty inbox")?;
        let began = Instant::now();
        let page = server.client.get(&format!("/v1/interrupts?limit=20&run={run}")).await?;
        of_one_run.add(began.elapsed());
        anyhow::ensure!(page["interrupts"].as_array().map(Vec::len) == Some(1), "{page}");
    }
    Ok(Inbox { total, first_page, of_one_run })
}

fn tell_inbox(report: &mut Report, few: usize, among_few: &Inbox, runs: usize, among_all: &Inbox) {
    report.part("the inbox: its first page with the counts, and what one run asks");
    for (runs, inbox) in [(few, among_few), (runs, among_all)] {
        report
            .figure(&format!("counted among {runs}"), inbox.total)
            .figure(&format!("ms p50 among {runs}, first page"), inbox.first_page.ms(0.5))
            .figure(&format!("ms p99 among {runs}, first page"), inbox.first_page.ms(0.99))
            .figure(&format!("ms p50 among {runs}, one run"), inbox.of_one_run.ms(0.5));
    }
    let growth = among_all.first_page.ms(0.5) / among_few.first_page.ms(0.5).max(f64::EPSILON);
    report.figure("ratio of the first pages, all to few", growth);
}

/// Answers runs spread over all that are parked, and gives them.
async fn answer_some(caller: &Caller, parked: &[String], report: &mut Report) -> anyhow::Result<Vec<String>> {
    output::say("answering some …");
    let mut connection = Connection::open(caller.address).await?;
    let mut latencies = Latencies::new();
    let stride = (parked.len() / ANSWERED).max(2);
    let mut answered = Vec::new();
    for run in parked.iter().step_by(stride).take(ANSWERED) {
        let began = Instant::now();
        caller.complete(&mut connection, run).await?;
        latencies.add(began.elapsed());
        answered.push(run.clone());
    }
    report
        .part("answering one among them, to its acknowledged end (over HTTP)")
        .figure("answered", answered.len())
        .figure("ms p50", latencies.ms(0.5))
        .figure("ms p99", latencies.ms(0.99));
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflow_is_one_that_can_be_admitted() {
        for durable in [true, false] {
            let workflow = gated("w", durable);
            assert!(abide_core::Graph::admit(workflow.to_string().as_bytes()).is_ok());
        }
    }
}
