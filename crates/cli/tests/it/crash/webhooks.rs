//! A server that sends events to a webhook, killed with -9: every event of every run arrives, in order.

use std::collections::BTreeSet;

use super::*;
use crate::receiver::{ALLOW, Receiver};
use crate::support::chain;

/// Kills in one go of the test.
const KILLS: usize = 15;

/// Runs that are started at once, and how often, before a failpoint that has not fired is given up.
const AT_A_TIME: usize = 6;
const TIMES: usize = 8;

fn sending_site() -> Site {
    let site = Site::new();
    site.workflow(&chain("pure", "core.noop", 3, &json!({})));
    site.workflow(&chain("durable", "core.noop", 3, &json!({ "abide": { "durable": true } })));
    site
}

/// Starts runs and notes those that were acknowledged. `false` if the server hung up on it.
async fn work(server: &Server, acknowledged: &mut BTreeSet<String>) -> bool {
    for _ in 0..TIMES {
        let starts = (0..AT_A_TIME).map(|n| {
            let workflow = if n % 2 == 0 { "pure" } else { "durable" };
            let request = server.request(Method::POST, "/v1/runs").timeout(PATIENCE);
            answer(request.json(&json!({ "workflowId": workflow })))
        });
        for started in futures_util::future::join_all(starts).await {
            let Ok((status, said)) = started else { return false };
            assert_eq!(status, StatusCode::CREATED, "{said}");
            acknowledged.insert(said["runId"].as_str().unwrap().to_owned());
        }
    }
    true
}

/// The sequences of a run's events, as it tells them itself.
async fn sequences(server: &Server, run: &str) -> Vec<i64> {
    server.events(run).await.iter().map(|event| event["sequence"].as_i64().unwrap()).collect()
}

/// Each once, in the order in which they first came.
fn first_came(sequences: &[i64]) -> Vec<i64> {
    let mut seen = BTreeSet::new();
    sequences.iter().copied().filter(|sequence| seen.insert(*sequence)).collect()
}

async fn await_arrivals(server: &Server, id: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, webhook) = promptly(server.get(&format!("/v1/webhooks/{id}"))).await;
        if webhook["pending"] == 0 {
            assert_eq!((&webhook["dead"], &webhook["state"]), (&json!(0), &json!("active")), "{webhook}");
            return;
        }
        assert!(Instant::now() < deadline, "{webhook}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_hears_of_every_event_in_order_across_kills() {
    let seed = seed();
    println!("ABIDE_CRASH_SEED={seed}");
    let mut dice = Dice::new(seed);
    let (site, receiver) = (sending_site(), Receiver::start().await);
    let server = tokio::task::block_in_place(|| site.start(&ALLOW));
    let (status, added) = server.post("/v1/webhooks", &json!({ "url": receiver.url, "events": ["*"] })).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    let id = added["webhookId"].as_str().unwrap();
    server.kill();
    let mut acknowledged = BTreeSet::new();
    let mut fired: BTreeMap<&str, usize> = BTreeMap::new();
    for window in WINDOWS.iter().cycle().take(KILLS) {
        let failpoint = format!("--failpoint={window}={}", 1 + dice.below(16));
        let flags = [ALLOW[0], ALLOW[1], &failpoint];
        let status = match tokio::task::block_in_place(|| site.try_start(&flags)) {
            Err(status) => status,
            Ok(mut server) => {
                if work(&server, &mut acknowledged).await {
                    server.kill();
                    continue;
                }
                server.exit().await
            }
        };
        assert_eq!(status.signal(), Some(9), "{}", site.said());
        *fired.entry(window).or_default() += 1;
        expect_quiet(&site);
    }
    assert_eq!(fired.len(), WINDOWS.len(), "nobody was killed in some window: {fired:?}");

    let server = tokio::task::block_in_place(|| site.start(&ALLOW));
    let listed = list(&server).await;
    let mut told = BTreeMap::new();
    for run in listed.keys() {
        told.insert(run.clone(), sequences(&server, run).await);
    }
    await_arrivals(&server, id).await;
    let came = receiver.sequences();
    for run in &acknowledged {
        assert!(came.contains_key(run), "{run} was acknowledged and nothing of it arrived");
    }
    let first: BTreeMap<String, Vec<i64>> =
        came.iter().map(|(run, sequences)| (run.clone(), first_came(sequences))).collect();
    assert_eq!(first, told);
    let (sent, events): (usize, usize) =
        (came.values().map(Vec::len).sum(), told.values().map(Vec::len).sum());
    println!("{fired:?}: {} runs, {events} events, {sent} deliveries", told.len());
    stop(&site, server).await;
    verify_within(&site);
}
