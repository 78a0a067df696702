//! Many runs that wait for one, which completes; and somebody who has nothing to do with them.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Asking, Caller, Costs, PATIENCE, each_us, tell};
use crate::bench::{Latencies, Report, rate};
use crate::output;

/// Runs that somebody else starts while nothing happens.
const QUIET: usize = 500;

pub(super) async fn measure(
    caller: &Caller,
    dependents: usize,
    report: &mut Report,
) -> anyhow::Result<Costs> {
    let mut asking = caller.connect().await?;
    output::say(&format!("{dependents} runs that wait for one …"));
    let upstream = asking.start(&json!({ "workflowId": "asked" })).await?;
    let (before, began) = (asking.counted().await?, Instant::now());
    caller.start_many("one", &upstream, dependents).await?;
    let after = asking
        .until("the runs to be heard", |counted| counted.messages >= before.messages + 2 * dependents)
        .await?;
    let heard = began.elapsed();
    report
        .part(&format!("{dependents} runs that are made to wait for one"))
        .figure("runs/s made, and the one has heard all of them", rate(dependents, heard));
    after.tell(&before, dependents, report);

    let mut quiet = Latencies::new();
    for _ in 0..QUIET {
        quiet.add(start(&mut asking).await?);
    }
    output::say("the one that they wait for completes …");
    let (before, began) = (asking.counted().await?, Instant::now());
    asking.accept(&upstream).await?;
    let mut other = caller.connect().await?;
    let (mut during, mut started) = (Latencies::new(), 0);
    let after = loop {
        let counted = asking.counted().await?;
        if counted.completed >= before.completed + 1 + dependents + started {
            break counted;
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "not all dependents go on");
        for _ in 0..10 {
            during.add(start(&mut other).await?);
            started += 1;
        }
    };
    let took = began.elapsed();
    report
        .part(&format!("one run completes, and the {dependents} that waited for it go on and complete"))
        .figure("ms until all have", took.as_secs_f64() * 1e3)
        .figure("dependents/s", rate(dependents, took))
        .figure("runs that somebody else started meanwhile", started);
    after.tell(&before, dependents + started, report);
    tell(report, "a run of somebody else before", &quiet);
    tell(report, "a run of somebody else meanwhile", &during);
    Ok(vec![
        ("a dependent that is made: time", each_us(heard, dependents)),
        ("a dependent that goes on: time", each_us(took, dependents)),
    ])
}

/// Starts a run that waits for nobody, to its end.
async fn start(asking: &mut Asking) -> anyhow::Result<Duration> {
    let began = Instant::now();
    asking.start(&json!({ "workflowId": "one" })).await?;
    Ok(began.elapsed())
}
