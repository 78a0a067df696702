//! A provider that has too much to do: how often it is asked again, when, and when not any more.

use super::*;

/// Every wait of the usual schedule, in milliseconds.
fn usual_waits() -> Vec<i64> {
    let head = [5, 10, 30, 60, 300, 600, 900, 1800].map(|seconds| seconds * SECOND_MS);
    head.into_iter().chain([1800 * SECOND_MS; 13]).collect()
}

/// Demands of a run that it retried at exactly these times, each once, and gives up behind the last.
async fn demand_schedule(drill: &Drill, run: &str, waits: &[i64]) {
    let journal = drill.journal(run).await;
    let of = |kind: &str| -> Vec<&Entry> { journal.iter().filter(|entry| entry.kind == kind).collect() };
    let (retries, calls) = (of("provider-retry"), of("model.called"));
    let told: Vec<_> =
        retries.iter().map(|retry| (&retry.payload["attempt"], &retry.payload["delayMs"])).collect();
    let wanted: Vec<_> = waits.iter().enumerate().map(|(at, ms)| (json!(at), json!(ms))).collect();
    assert_eq!(told, wanted.iter().map(|(at, ms)| (at, ms)).collect::<Vec<_>>());
    assert_eq!(calls.len(), waits.len() + 1, "the first call, and one for each retry");
    for (attempt, (retry, wait)) in retries.iter().zip(waits).enumerate() {
        assert_eq!(calls[attempt].payload["attempt"], attempt);
        assert_eq!(calls[attempt + 1].at - retry.at, *wait, "retry {attempt} comes at its time");
        let names = (&retry.payload["conversationId"], &retry.payload["turnId"], &retry.payload["type"]);
        assert_eq!(names, (&json!(run), &json!(format!("{run}:ask:1")), &json!("provider-retry")));
        assert_eq!((&retry.payload["message"], &retry.payload["code"]), (&json!(OVERLOADED), &json!("429")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_429_is_retried_after_5_seconds_and_the_run_completes() {
    let drill = Drill::begin();
    drill.provider.script([Step::overloaded(429)]);
    let run = drill.run("ask").await;
    let wait = drill.await_retry(&run, 0).await;
    assert_eq!(wait["delayMs"], 5_000, "{wait}");
    drill.later(4_999).await;
    assert_eq!(drill.provider.count(), 1, "nothing is retried before its time");
    drill.server.advance(1).await;
    drill.demand_completed(&run, "ok").await;
    drill.await_asked(2);
    demand_schedule(&drill, &run, &[5_000]).await;
    let failed = ["node.failed", "run.failed"];
    assert!(drill.journal(&run).await.iter().all(|entry| !failed.contains(&entry.kind.as_str())));
}

/// Lets a run wait through the whole schedule. `kills` says for a retry after which part of its wait the server is
/// killed, in hundredths.
async fn wait_it_out(drill: &mut Drill, run: &str, kills: &[(usize, i64)]) {
    for (attempt, wait) in usual_waits().into_iter().enumerate() {
        let told = drill.await_retry(run, attempt).await;
        assert_eq!(told["delayMs"], wait, "{told}");
        let mut left = wait;
        for (_, part) in kills.iter().filter(|(at, _)| *at == attempt) {
            let passed = wait * part / 100;
            drill.later(left - (wait - passed)).await;
            left = wait - passed;
            drill.kill();
            drill.server.settle().await;
            let again = drill.await_retry(run, attempt).await;
            assert_eq!(again, told, "the same wait goes on");
        }
        drill.later(left - 1).await;
        assert_eq!(drill.provider.count(), attempt + 1, "retry {attempt} is not made early");
        drill.server.advance(1).await;
        drill.await_asked(attempt + 2);
    }
}

async fn demand_exhausted(drill: &Drill, run: &str) {
    let shown = drill.demand_failed(run, "provider_exhausted").await;
    assert_eq!(shown["error"]["message"], OVERLOADED, "the last error is told: {shown:#}");
    demand_schedule(drill, run, &usual_waits()).await;
    assert_eq!(drill.provider.count(), 22);
    let sealed = drill.recorded(run, "turn.sealed").await;
    assert_eq!((sealed.len(), &sealed[0].payload["status"]), (1, &json!("failed")));
    assert_eq!(sealed[0].payload["error"]["code"], "provider_exhausted");
    // It is final: nobody asks again, however long one waits, and nobody can make it.
    drill.later(DAY_MS).await;
    let (status, told) = drill.server.post(&format!("/v1/runs/{run}/turns/ask:retry"), &json!({})).await;
    assert_eq!((status, &told["error"]), (StatusCode::CONFLICT, &json!("turn_not_waiting")));
    let (status, told) = drill
        .server
        .post(&format!("/v1/runs/{run}/resume"), &json!({ "force": true, "reason": "now" }))
        .await;
    assert_eq!(status, StatusCode::CONFLICT, "{told}");
    assert_eq!(drill.provider.count(), 22);
    verify(&drill.site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_hours_of_overload_are_21_retries_and_kills_on_the_way_use_none_of_them() {
    let mut drill = Drill::with(Protocol::OpenAi, NO_BREAKER, &[asking("ask", json!({}))]);
    drill.provider.usually(Step::overloaded(429));
    let run = drill.run("ask").await;
    // The wait for retry 16 begins five hours and two minutes after the first call.
    let kills = [(0, 40), (4, 0), (7, 99), (8, 50), (16, 30), (16, 60), (20, 10)];
    wait_it_out(&mut drill, &run, &kills).await;
    demand_exhausted(&drill, &run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_alone_has_its_whole_schedule_beside_the_usual_breaker() {
    let mut drill = Drill::begin();
    drill.provider.usually(Step::overloaded(429));
    let run = drill.run("ask").await;
    wait_it_out(&mut drill, &run, &[]).await;
    demand_exhausted(&drill, &run).await;
    let (_, providers) = drill.server.get("/v1/providers").await;
    assert_eq!(providers["providers"][0]["breaker"]["state"], "closed", "{providers}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_just_as_a_retry_is_due_makes_it_once() {
    let mut drill = Drill::begin();
    drill.provider.usually(Step::overloaded(429));
    let run = drill.run("ask").await;
    drill.await_retry(&run, 0).await;
    // Nothing waits for what the clock has set off: the server may be anywhere between the timer and the call.
    for attempt in 0..3 {
        drill.server.advance(usual_waits()[attempt]).await;
        drill.kill();
        drill.await_retry(&run, attempt + 1).await;
    }
    drill.provider.recover();
    drill.server.advance(usual_waits()[3]).await;
    drill.demand_completed(&run, "ok").await;
    demand_schedule(&drill, &run, &usual_waits()[..4]).await;
    verify(&drill.site.data());
}
