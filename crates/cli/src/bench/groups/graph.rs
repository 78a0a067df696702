//! Many runs in one graph: chains of them behind one root that waits for a person.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Asking, Caller, Costs, each_us, tell};
use crate::bench::{Report, rate};
use crate::output;

/// Runs in a chain.
const LENGTH: usize = 100;

/// How many of a chain wait for its first run too, beside the one before them.
const EVERY: usize = 10;

/// How often each thing is asked for.
const ASKED: usize = 200;

pub(super) async fn measure(caller: &Caller, runs: usize, report: &mut Report) -> anyhow::Result<Costs> {
    let mut asking = caller.connect().await?;
    let root = asking.start(&json!({ "workflowId": "asked" })).await?;
    output::say(&format!("{runs} runs in chains of {LENGTH} behind one root …"));
    let before = asking.counted().await?;
    let began = Instant::now();
    let chains = caller.for_each(vec![(); runs.div_ceil(LENGTH)], {
        let root = root.clone();
        move |asking, share| grow(asking, share.len(), root.clone())
    });
    let chains: Vec<Vec<String>> = chains.await?;
    let grown = began.elapsed();
    let (made, edges) = (chains.len() * LENGTH, chains.len() * (LENGTH + (LENGTH - 1) / EVERY));
    // For each edge, who waits says so, and is told.
    let after = asking
        .until("the runs to hear of each other", |counted| counted.messages >= before.messages + 2 * edges)
        .await?;
    let heard = began.elapsed();
    report
        .part(&format!("{made} runs in one graph, all behind one that waits for a person"))
        .figure("edges", edges)
        .figure("runs/s made", rate(made, grown))
        .figure("runs/s made, and all have heard of each other", rate(made, heard));
    after.tell(&before, made, report);
    look(&mut asking, &root, &chains, report).await?;
    Ok(vec![("a run in a graph: time", each_us(heard, made))])
}

/// Makes chains, and gives the ids of each.
async fn grow(mut asking: Asking, chains: usize, root: String) -> anyhow::Result<Vec<Vec<String>>> {
    let mut all = Vec::with_capacity(chains);
    for _ in 0..chains {
        let mut chain: Vec<String> = Vec::with_capacity(LENGTH);
        for at in 0..LENGTH {
            let mut on = vec![chain.last().unwrap_or(&root).clone()];
            on.extend(chain.first().filter(|_| at > 1 && at % EVERY == 0).cloned());
            chain.push(asking.start(&json!({ "workflowId": "one", "dependsOn": on })).await?);
        }
        all.push(chain);
    }
    Ok(all)
}

/// How long it takes to look at it, and to change it.
async fn look(
    asking: &mut Asking,
    root: &str,
    chains: &[Vec<String>],
    report: &mut Report,
) -> anyhow::Result<()> {
    output::say("looking at it, changing it …");
    let of = |ix: usize| &chains[ix % chains.len()];
    let get = |path: String| ("GET", path, None);
    let times = || 0..ASKED.min(chains.len() * 10);
    let seen = times().map(|ix| get(format!("/v1/runs/{}/graph", of(ix)[LENGTH / 2])));
    tell(report, "the graph around a run", &asking.time(seen, 200).await?);
    let seen = times().map(|_| get(format!("/v1/runs/{root}/graph")));
    tell(report, "the graph around the root", &asking.time(seen, 200).await?);
    let seen = times().map(|ix| get(format!("/v1/runs/{}", of(ix)[LENGTH - 1])));
    tell(report, "a run", &asking.time(seen, 200).await?);
    let seen = times().map(|_| get("/v1/runs?status=blocked&limit=50".to_owned()));
    tell(report, "a page of those that are blocked", &asking.time(seen, 200).await?);

    // The last of each chain waits for the last of the next, around to the last chain.
    let rows: Vec<usize> = (0..ASKED.min(chains.len().saturating_sub(1))).collect();
    let edge = |run: &str, on: &str| -> (&'static str, String, Option<Value>) {
        ("POST", format!("/v1/runs/{run}/dependencies"), Some(json!({ "runId": on })))
    };
    let late = rows.iter().map(|&ix| edge(&of(ix)[LENGTH - 1], &of(ix + 1)[LENGTH - 1]));
    tell(report, "an edge more", &asking.time(late, 201).await?);
    let circle = rows.iter().map(|&ix| edge(&of(ix)[0], &of(ix)[LENGTH - 1]));
    tell(report, "an edge that would close a circle of 100", &asking.time(circle, 409).await?);
    let gone = rows.iter().map(|&ix| {
        let on = &of(ix + 1)[LENGTH - 1];
        ("DELETE", format!("/v1/runs/{}/dependencies/{on}", of(ix)[LENGTH - 1]), None)
    });
    tell(report, "an edge less", &asking.time(gone, 200).await?);
    Ok(())
}
