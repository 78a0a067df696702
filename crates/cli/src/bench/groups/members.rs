//! Many members of one group, all of which come to wait for people at once, and are answered.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use super::{Asking, Caller, Costs, PATIENCE, each_us, tell};
use crate::bench::{Latencies, Report, rate};
use crate::output;

pub(super) async fn measure(caller: &Caller, members: usize, report: &mut Report) -> anyhow::Result<Costs> {
    let mut asking = caller.connect().await?;
    output::say(&format!("{members} runs that will ask, all in one group …"));
    let first = asking.start(&json!({ "workflowId": "asked" })).await?;
    let before = asking.counted().await?;
    let runs = caller.start_many("asked", &first, members).await?;
    asking.until("the runs to be heard", |counted| counted.messages >= before.messages + 2 * members).await?;
    let group = asking.granted("POST", "/v1/groups", Some(&json!({ "name": "Everybody" }))).await?;
    let group = group["groupId"].as_str().context("an answer without groupId")?.to_owned();
    let (before, began) = (asking.counted().await?, Instant::now());
    join(caller, &group, runs.clone()).await?;
    let added = began.elapsed();
    let after = asking
        .until("the members to be heard", |counted| counted.messages >= before.messages + 2 * members)
        .await?;
    let joined = began.elapsed();
    report
        .part(&format!("{members} members of one group"))
        .figure("members/s added", rate(members, added))
        .figure("members/s added, and the group has heard all of them", rate(members, joined));
    after.tell(&before, members, report);

    output::say("all of them ask at once …");
    let (before, began) = (asking.counted().await?, Instant::now());
    asking.accept(&first).await?;
    let meanwhile = watch(&mut asking, &group, |view| view["suspendedMemberCount"] == members).await?;
    let suspended = began.elapsed();
    let after = asking.counted().await?;
    report
        .part(&format!("{members} members that come to wait for people at once"))
        .figure("ms until the group counts all", suspended.as_secs_f64() * 1e3)
        .figure("members/s", rate(members, suspended));
    after.tell(&before, members, report);
    tell(report, "the group, meanwhile", &meanwhile);

    output::say("answering all of them …");
    let (before, began) = (asking.counted().await?, Instant::now());
    let answered = tokio::spawn(answer(caller.clone(), runs));
    let completed = |view: &Value| view["aggregateStatus"]["status"] == "completed";
    let meanwhile = watch(&mut asking, &group, completed).await?;
    let over = began.elapsed();
    answered.await??;
    let after = asking.counted().await?;
    report
        .part(&format!("{members} members that are answered, {} at a time", super::CONCURRENCY))
        .figure("answers/s, until the group has completed", rate(members, over));
    after.tell(&before, members, report);
    tell(report, "the group, meanwhile", &meanwhile);
    Ok(vec![
        ("a member that is added: time", each_us(joined, members)),
        ("a member that suspends among all: time", each_us(suspended, members)),
        ("a member that is answered: time", each_us(over, members)),
    ])
}

async fn join(caller: &Caller, group: &str, runs: Vec<String>) -> anyhow::Result<()> {
    let path = format!("/v1/groups/{group}/members");
    let act = move |mut asking: Asking, share: Vec<String>| {
        let path = path.clone();
        async move {
            for run in share {
                asking.granted("POST", &path, Some(&json!({ "runId": run }))).await?;
            }
            Ok(Vec::<()>::new())
        }
    };
    caller.for_each(runs, act).await.map(drop)
}

async fn answer(caller: Caller, runs: Vec<String>) -> anyhow::Result<()> {
    let act = |mut asking: Asking, share: Vec<String>| async move {
        for run in share {
            asking.accept(&run).await?;
        }
        Ok(Vec::<()>::new())
    };
    caller.for_each(runs, act).await.map(drop)
}

/// Looks at a group until it is as it should be. Gives how long each look took.
async fn watch(
    asking: &mut Asking,
    group: &str,
    is_so: impl Fn(&Value) -> bool,
) -> anyhow::Result<Latencies> {
    let (began, mut latencies) = (Instant::now(), Latencies::new());
    loop {
        let looked = Instant::now();
        let view = asking.granted("GET", &format!("/v1/groups/{group}"), None).await?;
        latencies.add(looked.elapsed());
        if is_so(&view) {
            return Ok(latencies);
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "the group stays as it is: {view}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
