//! Time: the test clock, and the durable timers that follow it.

use super::*;

async fn now_ms(server: &Server) -> i64 {
    server.get("/v1/dev/clock").await.1["nowMs"].as_i64().unwrap()
}

#[tokio::test]
async fn the_clock_stands_still_until_it_is_moved() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let start = now_ms(&server).await;
    let first = server.start_run("noop", json!({})).await;
    let (status, moved) = server.post("/v1/dev/clock", &json!({ "advanceMs": 61_000 })).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(moved["nowMs"], start + 61_000);
    assert_eq!(millis(&moved["now"]), start + 61_000);
    let second = server.start_run("noop", json!({})).await;
    for (run, at) in [(first, start), (second, start + 61_000)] {
        for event in server.events(&run).await {
            assert_eq!(millis(&event["timestamp"]), at);
        }
    }
    assert_eq!(now_ms(&server).await, start + 61_000);
}

#[tokio::test]
async fn a_step_of_the_clock_has_bounds() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let start = now_ms(&server).await;
    let far = abide_server::limits::CLOCK_STEP_MS_MAX;
    for body in [
        json!({ "advanceMs": -1 }),
        json!({ "advanceMs": far + 1 }),
        json!({ "advanceMs": 1.5 }),
        json!({ "advanceMs": "1" }),
        json!({ "advanceMs": i64::MIN }),
        json!({ "advanceMs": u64::MAX }),
        json!({ "advanceMs": 1, "to": 2 }),
        json!({}),
        json!([5]),
    ] {
        refusal(server.post("/v1/dev/clock", &body).await, "validation_error");
    }
    assert_eq!(now_ms(&server).await, start);
    server.advance(0).await;
    assert_eq!(now_ms(&server).await, start);
    server.advance(far).await;
    assert_eq!(now_ms(&server).await, start + far);
}

#[tokio::test]
async fn only_a_server_with_a_test_clock_has_its_route() {
    let site = site();
    let key = site.new_key("default");
    let server = site.start(&[]);
    refusal(server.get("/v1/dev/clock").await, "not_found");
    refusal(server.post("/v1/dev/clock", &json!({ "advanceMs": 1 })).await, "not_found");
    assert!(server.stop().success());
    let server = site.serve(&key, &[]);
    refusal(server.get("/v1/dev/clock").await, "not_found");
    refusal(server.post("/v1/dev/clock", &json!({ "advanceMs": 1 })).await, "not_found");
    let unknown = crate::support::abide().args(["serve", "--test-clock"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "`serve` has no such flag");
}

#[tokio::test]
async fn serve_refuses_a_directory_with_a_test_clock() {
    let site = site();
    assert!(site.start(&["--test-clock"]).stop().success());
    let refused = crate::support::abide()
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data"])
        .arg(site.data())
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("test clock") && said.contains("--data"), "{said}");
}

#[tokio::test]
async fn a_directory_with_runs_in_real_time_takes_no_test_clock() {
    let site = Site::new();
    site.workflow(&chain("quick", "core.noop", 1, &json!({})));
    let server = site.start(&[]);
    server.start_run("quick", json!({})).await;
    assert!(server.stop().success());
    assert_eq!(site.try_start(&["--test-clock"]).err().unwrap().code(), Some(1));
    assert!(site.said().contains("use another --data"), "{}", site.said());
    assert!(site.start(&[]).stop().success(), "it still runs in real time");
}

#[tokio::test]
async fn steps_of_the_clock_taken_at_once_all_count() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let before = server.get("/v1/dev/clock").await.1["nowMs"].as_i64().unwrap();
    futures_util::future::join_all((0..50).map(|_| server.advance(10))).await;
    assert_eq!(server.get("/v1/dev/clock").await.1["nowMs"], before + 500);
}

#[tokio::test]
async fn dev_takes_a_directory_with_a_test_clock_only_by_it() {
    let site = site();
    assert!(site.start(&["--test-clock"]).stop().success());
    assert_eq!(site.try_start(&[]).err().unwrap().code(), Some(1));
    assert!(site.said().contains("add --test-clock"), "{}", site.said());
    assert!(site.start(&["--test-clock"]).stop().success());
}

#[tokio::test]
async fn a_delay_ends_at_its_time_and_not_a_millisecond_early() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let start = now_ms(&server).await;
    let watched = server.start_run("payload", json!({ "delayMs": 1000 })).await;
    let earlier = server.start_run("payload", json!({ "delayMs": 999 })).await;
    server.advance(999).await;
    // Timers fire in the order of their time: once this one has, the other had its chance.
    server.events(&earlier).await;
    let (_, snapshot) = server.get(&format!("/v1/runs/{watched}")).await;
    assert_eq!(snapshot["nodeStates"]["wait"]["status"], "waiting");
    server.advance(1).await;
    let events = server.events(&watched).await;
    assert_eq!(types(&events)[4..], ["node.completed", "run.completed"]);
    assert_eq!(millis(&events[4]["timestamp"]), start + 1000);
    assert_eq!(events[5]["payload"]["durationMs"], 1000);
}

#[tokio::test]
async fn a_delay_of_no_time_needs_no_step_of_the_clock() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("payload", json!({ "delayMs": 0 })).await;
    assert_eq!(server.events(&run).await.last().unwrap()["type"], "run.completed");
}

#[tokio::test]
async fn a_duration_that_is_none_fails_the_run() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for bad in [json!(-1), json!(0.5), json!(1e15)] {
        let run = server.start_run("payload", json!({ "delayMs": bad })).await;
        let events = server.events(&run).await;
        assert_eq!(events.last().unwrap()["payload"]["error"]["code"], "invalid_delay", "{bad}");
    }
}

#[tokio::test]
async fn a_delay_survives_a_kill_and_so_does_the_time() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("payload", json!({ "delayMs": 10_000 })).await;
    server.advance(4000).await;
    let before = now_ms(&server).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    assert_eq!(now_ms(&server).await, before, "the time is kept");
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["nodeStates"]["wait"]["status"], "waiting");
    server.advance(6000).await;
    let events = server.events(&run).await;
    assert_eq!(millis(&events[4]["timestamp"]), before + 6000);
}

#[tokio::test]
async fn a_delay_that_came_due_while_the_server_was_down_ends_at_the_next_start() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(server.start_run("parked", json!({})).await);
    }
    // Some may be fired before the kill; none may be lost or fired again.
    server.advance(HOUR_MS).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    for run in &runs {
        let events = server.events(run).await;
        assert_eq!(types(&events), ["run.started", "node.started", "node.completed", "run.completed"]);
    }
    server.kill();
    let server = site.start(&["--test-clock"]);
    server.advance(HOUR_MS).await;
    for run in &runs {
        assert_eq!(server.events(run).await.len(), 4, "a timer fires once");
    }
    assert_eq!(site.rows()["timers"], 0);
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 20);
}

#[tokio::test]
async fn a_clock_moved_far_ahead_fires_thousands_of_timers_each_once() {
    const RUNS: usize = 30;
    const DELAYS: usize = 100;
    let site = Site::new();
    let delays: Vec<Value> = (0..DELAYS)
        .map(|ix| {
            node(&format!("d{ix}"), "core.delay", json!({ "ms": 1000 * (ix + 1) }), json!({}), json!({}))
        })
        .collect();
    site.workflow(&workflow("many", &delays, &[], json!([])));
    let server = site.start(&["--test-clock"]);
    let starts = (0..RUNS).map(|_| server.start_run("many", json!({})));
    let runs = futures_util::future::join_all(starts).await;
    assert_eq!(site.rows()["timers"], (RUNS * DELAYS) as u64);
    server.advance(365 * 24 * HOUR_MS).await;
    for events in futures_util::future::join_all(runs.iter().map(|run| server.events(run))).await {
        let mut ended: Vec<&str> = events
            .iter()
            .filter(|event| event["type"] == "node.completed")
            .map(|event| event["nodeId"].as_str().unwrap())
            .collect();
        assert_eq!(ended.len(), DELAYS);
        ended.sort_unstable();
        ended.dedup();
        assert_eq!(ended.len(), DELAYS, "each once");
        assert_eq!(events.last().unwrap()["type"], "run.completed");
    }
    assert_eq!(site.rows()["timers"], 0);
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), RUNS as u64);
}

#[tokio::test]
async fn time_in_a_journal_never_goes_back() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    server.advance(30 * 24 * HOUR_MS).await;
    let run = server.start_run("parked", json!({})).await;
    assert!(server.stop().success());
    let back =
        format!("UPDATE settings SET value = value - {} WHERE name = 'test_clock_ms'", 30 * 24 * HOUR_MS);
    assert_eq!(site.change(&back), 1);
    // The clock is now a month behind what this run has seen.
    let server = site.start(&["--test-clock"]);
    let (status, _) = server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let events = server.events(&run).await;
    let times: Vec<i64> = events.iter().map(|event| millis(&event["timestamp"])).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(types(&events)[2..], ["node.cancelled", "run.cancelled"]);
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 1);
}
