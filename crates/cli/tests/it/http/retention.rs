//! For how long runs are kept: what the workflow says, what the operator says, and nothing before its time.

use super::*;

const DAY_MS: i64 = 24 * HOUR_MS;

/// A workflow of one node that says for how long its runs are kept.
fn kept(id: &str, type_id: &str, retention: &Value) -> Value {
    let config = json!({ "message": "as told" });
    let config = if type_id == "core.fail" { config } else { json!({}) };
    let mut definition = workflow(id, &[node("only", type_id, config, json!({}), json!({}))], &[], json!([]));
    definition["settings"] = json!({ "abide": { "retention": retention } });
    definition
}

/// Waits until only these runs are left.
async fn await_left(server: &Server, left: &[&str]) {
    let began = std::time::Instant::now();
    loop {
        let (_, page) = server.get("/v1/runs").await;
        let mut there: Vec<&str> =
            page["runs"].as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap()).collect();
        there.sort_unstable();
        if there == left {
            return;
        }
        assert!(there.len() > left.len(), "one is gone before its time: {there:?}, but {left:?} stay");
        assert!(began.elapsed() < PATIENCE, "{there:?} are left, but only {left:?} should be");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn each_workflow_says_for_how_long_its_runs_are_kept_and_the_operator_for_the_others() {
    let site = site();
    std::fs::write(site.path("abide.toml"), "[retention]\ncompleted_days = 10\nfailed_days = 20\n").unwrap();
    let config = site.path("abide.toml");
    let server = site.start(&["--test-clock", "--config", config.to_str().unwrap()]);
    push(&server, &kept("short", "core.noop", &json!({ "completedDays": 1 }))).await;
    push(&server, &kept("for-ever", "core.noop", &json!({ "completedDays": "forever" }))).await;
    push(&server, &kept("unlucky", "core.fail", &json!({ "completedDays": 1 }))).await;
    let short = server.start_run("short", json!({})).await;
    let usual = server.start_run("noop", json!({})).await;
    let for_ever = server.start_run("for-ever", json!({})).await;
    let unlucky = server.start_run("unlucky", json!({})).await;
    let waits = node("wait", "core.delay", json!({ "ms": 3_000 * DAY_MS }), json!({}), json!({}));
    push(&server, &workflow("patient", &[waits], &[], json!([]))).await;
    let waits = server.start_run("patient", json!({})).await;
    server.events(&unlucky).await;
    let mut left = vec![&*short, &*usual, &*for_ever, &*unlucky, &*waits];
    left.sort_unstable();
    let mut now = 0;
    for (days, gone) in [(1, &short), (10, &usual), (20, &unlucky)] {
        server.advance(days * DAY_MS - HOUR_MS / 2 - now).await;
        await_left(&server, &left).await;
        left.retain(|run| run != gone);
        // There is a look every hour.
        server.advance(HOUR_MS + HOUR_MS / 2).await;
        await_left(&server, &left).await;
        now = days * DAY_MS + HOUR_MS;
    }
    server.advance(1_000 * DAY_MS).await;
    await_left(&server, &left).await;
    let (_, record) = server.get("/v1/purges").await;
    let purges = record["purges"].as_array().unwrap();
    assert_eq!(purges.len(), 3, "{record}");
    for (entry, workflow) in purges.iter().rev().zip(["short", "noop", "unlucky"]) {
        assert_eq!((&entry["filter"]["workflowId"], &entry["runs"]), (&json!(workflow), &json!(1)));
        assert_eq!((&entry["filter"]["retention"], entry.get("by")), (&json!(true), None));
    }
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 2);
}

#[tokio::test]
async fn a_new_version_says_it_for_old_runs_too_and_without_a_word_all_are_kept() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("noop", json!({})).await;
    server.advance(1_000 * DAY_MS).await;
    await_left(&server, &[&run]).await;
    push(&server, &kept("noop", "core.noop", &json!({ "completedDays": 30 }))).await;
    server.advance(HOUR_MS).await;
    await_left(&server, &[]).await;
    push(&server, &chain("noop", "core.noop", 2, &json!({}))).await;
    let run = server.start_run("noop", json!({})).await;
    server.advance(1_000 * DAY_MS).await;
    server.advance(HOUR_MS).await;
    await_left(&server, &[&run]).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_its_place() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for (retention, place, word) in [
        (
            json!({ "completedDays": -1 }),
            "settings.abide.retention.completedDays",
            "from 0 to 36500, or \\\"forever\\\"",
        ),
        (json!({ "failedDays": "long" }), "settings.abide.retention.failedDays", "a whole number of days"),
        (json!({ "days": 1 }), "settings.abide.retention.days", "there is no 'days' here"),
        (json!(3), "settings.abide.retention", "an object is expected here"),
    ] {
        let definition = kept("bad", "core.noop", &retention);
        let request = server.request(Method::PUT, "/v1/workflows/bad").json(&definition);
        let (status, told) = answer(request).await.unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
        assert_eq!(told["details"]["problems"][0]["place"], place);
        assert!(told.to_string().contains(word), "{told}");
    }
}
