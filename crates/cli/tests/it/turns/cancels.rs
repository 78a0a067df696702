//! Runs that are cancelled while their turn waits, and while its model is called.

use super::*;

async fn cancel(drill: &Drill, run: &str) {
    let (status, told) =
        drill.server.post(&format!("/v1/runs/{run}/cancel"), &json!({ "reason": "enough" })).await;
    assert!(status.is_success(), "{told}");
}

/// Demands that a turn ended with its run, without an error and for good.
async fn demand_aborted(drill: &Drill, run: &str, retries: usize) {
    let asked = drill.provider.count();
    let shown = drill.end(run).await;
    assert_eq!(shown["status"], "cancelled", "{shown:#}");
    let turn = drill.turn(run).await;
    assert_eq!((&turn["status"], &turn["error"]), (&json!("aborted"), &Value::Null), "{turn:#}");
    let journal = drill.journal(run).await;
    let kinds: Vec<&str> = journal.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds[kinds.len() - 3..], ["turn.sealed", "node.cancelled", "run.cancelled"], "{kinds:?}");
    let count = |kind: &str| kinds.iter().filter(|known| **known == kind).count();
    assert_eq!((count("turn.sealed"), count("provider-retry"), count("node.failed")), (1, retries, 0));
    let sealed = journal.iter().find(|entry| entry.kind == "turn.sealed").unwrap();
    assert_eq!((&sealed.payload["status"], &sealed.payload["error"]), (&json!("aborted"), &Value::Null));
    drill.later(DAY_MS).await;
    assert_eq!(drill.provider.count(), asked, "nobody is asked any more");
    verify(&drill.site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_during_the_wait_ends_at_once() {
    let mut drill = Drill::begin();
    drill.provider.usually(Step::overloaded(429));
    let run = drill.run("ask").await;
    drill.await_retry(&run, 0).await;
    drill.later(3 * SECOND_MS).await;
    cancel(&drill, &run).await;
    drill.kill();
    demand_aborted(&drill, &run, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_during_a_call_hangs_up() {
    for said in [false, true] {
        let drill = Drill::begin();
        let step = if said { stopping(Protocol::OpenAi, &hello(), "Hel", Part::Hang) } else { Step::Hang };
        drill.provider.script([Step::overloaded(529), step]);
        let run = drill.run("ask").await;
        drill.await_retry(&run, 0).await;
        drill.server.advance(5 * SECOND_MS).await;
        drill.await_asked(2);
        let began = Instant::now();
        while said && drill.recorded(&run, "ai.message.chunk").await.is_empty() {
            assert!(began.elapsed() < PATIENCE);
        }
        cancel(&drill, &run).await;
        drill.await_hung_up().await;
        demand_aborted(&drill, &run, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_while_it_is_postponed_ends_at_once() {
    let shut = "[providers.main.breaker]\nmin-calls = 1\n";
    let drill = Drill::with(Protocol::OpenAi, shut, &[asking("ask", json!({}))]);
    drill.provider.usually(Step::overloaded(429));
    let run = drill.run("ask").await;
    drill.await_retry(&run, 0).await;
    drill.server.advance(5 * SECOND_MS).await;
    drill.await_turn(&run, |turn| turn["wait"]["kind"] == "breaker").await;
    cancel(&drill, &run).await;
    demand_aborted(&drill, &run, 1).await;
    let (_, providers) = drill.server.get("/v1/providers").await;
    assert_eq!(providers["providers"][0]["waiting"], json!({ "retry": 0, "postponed": 0 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_while_a_call_is_being_cancelled_calls_nobody() {
    let mut drill = Drill::begin();
    drill.provider.usually(Step::Hang);
    let run = drill.run("ask").await;
    drill.await_asked(1);
    cancel(&drill, &run).await;
    drill.kill();
    demand_aborted(&drill, &run, 0).await;
}
