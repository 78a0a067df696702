//! A provider whose breaker is open: turns wait without asking it, and lose nothing by that.

use super::*;

/// Calls that have to fail before the usual breaker opens.
const MIN_CALLS: usize = 10;

/// So many runs whose first call failed, which has opened the breaker.
async fn opened(drill: &Drill) -> Vec<String> {
    drill.provider.usually(Step::overloaded(429));
    let mut runs = Vec::new();
    for _ in 0..MIN_CALLS {
        let run = drill.run("ask").await;
        drill.await_retry(&run, 0).await;
        runs.push(run);
    }
    demand_breaker(drill, "open").await;
    runs
}

async fn breaker(drill: &Drill) -> Value {
    drill.server.get("/v1/providers").await.1["providers"][0]["breaker"].clone()
}

async fn demand_breaker(drill: &Drill, state: &str) {
    let began = Instant::now();
    while breaker(drill).await["state"] != state {
        assert!(began.elapsed() < PATIENCE, "{}", breaker(drill).await);
        tokio::task::yield_now().await;
    }
}

/// Waits until a turn is postponed.
async fn await_postponed(drill: &Drill, run: &str, attempt: u64) -> Value {
    let waits = |turn: &Value| turn["wait"]["kind"] == "breaker" && turn["wait"]["attempt"] == attempt;
    drill.await_turn(run, waits).await["wait"].clone()
}

async fn retries(drill: &Drill, run: &str) -> Vec<Value> {
    let entries = drill.recorded(run, "provider-retry").await;
    entries.into_iter().map(|entry| entry.payload["attempt"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_breaker_is_open_there_is_no_event_no_attempt_and_no_call() {
    let mut drill = Drill::begin();
    let runs = opened(&drill).await;
    drill.server.advance(5 * SECOND_MS).await;
    for run in &runs {
        let wait = await_postponed(&drill, run, 1).await;
        assert_eq!((&wait["delayMs"], &wait["message"]), (&Value::Null, &json!(OVERLOADED)), "{wait}");
    }
    drill.kill();
    let late = drill.run("ask").await;
    await_postponed(&drill, &late, 0).await;
    drill.later(25 * SECOND_MS - 1).await;
    assert_eq!(drill.provider.count(), MIN_CALLS, "nobody asks within the cool-down");
    for run in &runs {
        assert_eq!(retries(&drill, run).await, [json!(0)], "a postponement is no retry");
    }
    assert!(retries(&drill, &late).await.is_empty());
    // One finds out. It uses its own next attempt, and the others none.
    drill.server.advance(1).await;
    drill.await_asked(MIN_CALLS + 1);
    let mut told = Vec::new();
    let began = Instant::now();
    while told.len() != MIN_CALLS + 1 {
        told.clear();
        for run in &runs {
            told.extend(retries(&drill, run).await);
        }
        assert!(began.elapsed() < PATIENCE, "{told:?}");
    }
    assert_eq!(told.iter().filter(|attempt| **attempt == 1).count(), 1, "{told:?}");
    assert_eq!(breaker(&drill).await["cooldownMs"], 60_000, "twice as long as before");
    drill.provider.recover();
    drill.server.advance(MINUTE_MS).await;
    for run in runs.iter().chain([&late]) {
        drill.demand_completed(run, "ok").await;
    }
    demand_breaker(&drill, "closed").await;
    assert_eq!(drill.provider.count(), 2 * (MIN_CALLS + 1), "each was asked once more");
    verify(&drill.site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_24_hours_of_postponement_the_last_error_is_final() {
    // So that nobody finds out earlier whether the provider is back.
    let shut = "[providers.main.breaker]\ncooldown = \"24h\"\n";
    let mut drill = Drill::with(Protocol::OpenAi, shut, &[asking("ask", json!({}))]);
    let runs = opened(&drill).await;
    drill.server.advance(5 * SECOND_MS).await;
    for run in &runs {
        await_postponed(&drill, run, 1).await;
    }
    // At the end of the cool-down, five seconds before theirs, one asks in vain.
    drill.later(HOUR_MS).await;
    drill.kill();
    drill.server.advance(DAY_MS - HOUR_MS - 5 * SECOND_MS).await;
    drill.await_asked(MIN_CALLS + 1);
    demand_breaker(&drill, "open").await;
    drill.later(5 * SECOND_MS - 1).await;
    let mut probed = 0;
    for run in &runs {
        assert_eq!(drill.turn(run).await["status"], "waiting");
        probed += usize::from(retries(&drill, run).await.len() == 2);
    }
    assert_eq!(probed, 1);
    drill.server.advance(1).await;
    let mut ended = 0;
    for run in &runs {
        if retries(&drill, run).await.len() == 2 {
            continue;
        }
        let shown = drill.demand_failed(run, "provider_exhausted").await;
        assert_eq!(shown["error"]["message"], OVERLOADED, "{shown:#}");
        let sealed = drill.recorded(run, "turn.sealed").await;
        let postponed = drill.recorded(run, "provider.postponed").await;
        assert_eq!(sealed[0].at - postponed[0].at, DAY_MS);
        assert_eq!(retries(&drill, run).await, [json!(0)]);
        ended += 1;
    }
    assert_eq!((ended, drill.provider.count()), (MIN_CALLS - 1, MIN_CALLS + 1));
    verify(&drill.site.data());
}
