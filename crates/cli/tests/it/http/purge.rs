//! POST /v1/runs:purge and GET /v1/purges: runs that have ended go wholly, with their families, and that is on record.

use super::*;

const DAY_MS: i64 = 24 * HOUR_MS;

async fn purge(server: &Server, body: &Value) -> Value {
    let (status, told) = server.post("/v1/runs:purge", body).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    told
}

async fn is_gone(server: &Server, run: &str) -> bool {
    let (status, _) = server.get(&format!("/v1/runs/{run}")).await;
    status == StatusCode::NOT_FOUND
}

/// What belongs to runs, row by row. What stays is the record of the purge, and definitions, which runs share.
fn rows_of_runs(site: &Site) -> Vec<(String, u64)> {
    const OTHERS: [&str; 11] = [
        "api_keys",
        "audit_heads",
        "audit_log",
        "event_types",
        "purges",
        "tenants",
        "workflows",
        "webhooks",
        "webhook_types",
        "interrupt_counts",
        "receipts",
    ];
    let mut rows: Vec<_> = site.rows().into_iter().collect();
    rows.retain(|(table, count)| *count > 0 && !OTHERS.contains(&table.as_str()));
    rows
}

#[tokio::test]
async fn nothing_is_left_of_a_run_that_is_removed_but_the_record() {
    let site = site();
    let server = site.start(&["--test-clock", "--allow-net", "localhost:9"]);
    // Nobody listens there, so what it is to be told waits.
    server.post("/v1/webhooks", &json!({ "url": "http://localhost:9/", "events": ["*"] })).await;
    let large = "x".repeat(20_000);
    let run = server.start_run("payload", json!({ "payload": large })).await;
    server.events(&run).await;
    let said = json!({ "target": { "runId": run }, "signal": { "kind": "rating", "rating": 4 } });
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    server.post(&format!("/v1/runs/{run}/annotations"), &said).await;
    assert_eq!(site.rows()["deliveries"], 1);
    assert_eq!(purge(&server, &json!({ "olderThanMs": 1 })).await["runs"], 0, "it ended just now");
    server.advance(DAY_MS).await;
    let body = json!({ "olderThanMs": DAY_MS - 1, "dryRun": true });
    let told = purge(&server, &body).await;
    assert_eq!((&told["runs"], &told["kept"], &told["dryRun"]), (&json!(1), &json!(0), &json!(true)));
    assert_eq!(told["events"], shown["sequence"].as_u64().unwrap() + 1);
    assert!(!is_gone(&server, &run).await, "it was only asked");
    let told = purge(&server, &json!({ "olderThanMs": DAY_MS - 1 })).await;
    assert_eq!((&told["runs"], &told["nextCursor"]), (&json!(1), &Value::Null));
    for path in ["", "/events", "/journal", "/why", "/definition", "/annotations", "/artifacts"] {
        assert_eq!(server.get(&format!("/v1/runs/{run}{path}")).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let (_, record) = server.get("/v1/purges").await;
    let entry = &record["purges"][0];
    assert_eq!((&entry["number"], &entry["by"], &entry["runs"]), (&json!(1), &json!("dev"), &json!(1)));
    assert_eq!(entry["events"], told["events"]);
    let filter =
        json!({ "endedBefore": told["endedBefore"], "statuses": ["completed", "failed", "cancelled"] });
    assert_eq!(entry["filter"], filter);
    assert!(server.stop().success());
    let sql = "SELECT kind || ' ' || CAST(body AS TEXT) FROM audit_log";
    let logged: String = site.database().query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(
        logged.starts_with("purge ") && logged.contains(&run) && logged.contains("\"by\":\"dev\""),
        "{logged}"
    );
    assert_eq!(rows_of_runs(&site), [("blobs".to_owned(), 1)], "the definition");
    assert_eq!(crate::support::verify(&site.data()), 0);
}

#[tokio::test]
async fn only_runs_that_have_ended_go_and_only_those_that_are_asked_for() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let done = server.start_run("noop", json!({})).await;
    let failed = server.start_run("failing", json!({})).await;
    let waits = server.start_run("parked", json!({})).await;
    let cancelled = server.start_run("parked", json!({})).await;
    server.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({})).await;
    server.events(&failed).await;
    server.advance(HOUR_MS / 2).await;
    let all = json!({ "olderThanMs": 0 });
    let of_workflow = json!({ "olderThanMs": 0, "workflowId": "noop" });
    assert_eq!(purge(&server, &of_workflow).await["runs"], 1);
    assert!(is_gone(&server, &done).await && !is_gone(&server, &failed).await);
    assert_eq!(purge(&server, &json!({ "olderThanMs": 0, "statuses": ["cancelled"] })).await["runs"], 1);
    assert!(is_gone(&server, &cancelled).await && !is_gone(&server, &failed).await);
    assert_eq!(purge(&server, &all).await["runs"], 1);
    assert!(is_gone(&server, &failed).await && !is_gone(&server, &waits).await);
    server.advance(HOUR_MS).await;
    assert_eq!(server.events(&waits).await.last().unwrap()["type"], "run.completed", "it goes on");
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 1);
}

#[tokio::test]
async fn a_wrong_request_removes_nothing_and_says_what_to_change() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("noop", json!({})).await;
    server.advance(HOUR_MS).await;
    for (body, word) in [
        (json!({}), "give one of 'olderThanMs' and 'endedBefore'"),
        (json!({ "olderThanMs": 1, "endedBefore": "2026-01-01T00:00:00Z" }), "give one of"),
        (json!({ "olderThanMs": -1 }), "0 or more"),
        (json!({ "endedBefore": "yesterday" }), "2026-01-31T00:00:00Z"),
        (json!({ "olderThanMs": 0, "statuses": ["running"] }), "only runs that have ended"),
        (json!({ "olderThanMs": 0, "statuses": [] }), "completed, failed and cancelled"),
        (json!({ "olderThanMs": 0, "cursor": "?" }), "nextCursor"),
        (json!({ "olderThanMs": 0, "older": 1 }), "older"),
    ] {
        let (status, told) = server.post("/v1/runs:purge", &body).await;
        assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")), "{told}");
        assert!(told.to_string().contains(word), "{body}: {told}");
    }
    assert!(!is_gone(&server, &run).await);
    assert_eq!(server.get("/v1/purges").await.1, json!({ "purges": [], "nextCursor": null }));
}

#[tokio::test]
async fn removing_takes_a_scope_of_its_own_and_stays_within_the_tenant() {
    let site = site();
    let (reader, other) = (site.key("default").scopes("runs:read,runs:erase").make(), site.new_key("other"));
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("noop", json!({})).await;
    server.advance(HOUR_MS).await;
    let body = json!({ "olderThanMs": 0 });
    let (status, told) = server.ask_as(&reader, Method::POST, "/v1/runs:purge", Some(&body)).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{told}");
    let (status, _) = server.ask_as(&reader, Method::GET, "/v1/purges", None).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (_, told) = server.ask_as(&other, Method::POST, "/v1/runs:purge", Some(&body)).await;
    assert_eq!(told["runs"], 0);
    assert!(!is_gone(&server, &run).await);
}

/// A parent that starts `parked`, and does not wait for it if told so.
fn starter(id: &str, waits: bool) -> Value {
    let config =
        json!({ "workflowId": "parked", "waitForCompletion": waits, "propagateCancellation": false });
    workflow(id, &[node("call", "core.subWorkflow", config, json!({}), json!({}))], &[], json!([]))
}

#[tokio::test]
async fn a_family_goes_as_a_whole_or_stays_as_a_whole() {
    let site = site();
    site.workflow(&starter("waits", true)).workflow(&starter("leaves", false));
    let server = site.start(&["--test-clock"]);
    let (waits, leaves) =
        (server.start_run("waits", json!({})).await, server.start_run("leaves", json!({})).await);
    server.events(&leaves).await;
    server.settle().await;
    server.advance(HOUR_MS / 2).await;
    let told = purge(&server, &json!({ "olderThanMs": 0 })).await;
    assert_eq!((&told["runs"], &told["kept"]), (&json!(0), &json!(1)), "its child goes on: {told}");
    server.advance(HOUR_MS / 2).await;
    server.events(&waits).await;
    server.settle().await;
    server.advance(HOUR_MS).await;
    let told = purge(&server, &json!({ "olderThanMs": 0, "workflowId": "parked" })).await;
    assert_eq!(told["runs"], 0, "a child never goes before its parent: {told}");
    let told = purge(&server, &json!({ "olderThanMs": HOUR_MS + 1 })).await;
    assert_eq!((&told["runs"], &told["kept"]), (&json!(0), &json!(1)), "its child ended later: {told}");
    let told = purge(&server, &json!({ "olderThanMs": 1 })).await;
    assert_eq!((&told["runs"], &told["kept"]), (&json!(4), &json!(0)), "{told}");
    assert_eq!(server.get("/v1/runs").await.1["runs"], json!([]));
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 0);
}

#[tokio::test]
async fn many_runs_go_in_pages_that_others_need_not_wait_for() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    const RUNS: u64 = 1_100;
    for _ in 0..RUNS / 50 {
        let starts = (0..50).map(|_| server.start_run("noop", json!({})));
        futures_util::future::join_all(starts).await;
    }
    server.advance(1).await;
    let first = purge(&server, &json!({ "olderThanMs": 0 })).await;
    assert_eq!(first["runs"], 1_000);
    let rest = json!({ "endedBefore": first["endedBefore"], "cursor": first["nextCursor"] });
    let second = purge(&server, &rest).await;
    assert_eq!((&second["runs"], &second["nextCursor"]), (&json!(RUNS - 1_000), &Value::Null));
    let (_, record) = server.get("/v1/purges?limit=1").await;
    assert_eq!((&record["purges"][0]["number"], &record["purges"][0]["runs"]), (&json!(2), &json!(100)));
    let cursor = record["nextCursor"].as_str().unwrap();
    let (_, record) = server.get(&format!("/v1/purges?cursor={cursor}")).await;
    assert_eq!((&record["purges"][0]["number"], &record["nextCursor"]), (&json!(1), &Value::Null));
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 0);
}

#[tokio::test]
async fn a_removal_that_was_cut_off_is_no_damage_and_goes_on_at_the_next_start() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (cut_off, stays) =
        (server.start_run("payload", json!({})).await, server.start_run("noop", json!({})).await);
    server.events(&cut_off).await;
    assert!(server.stop().success());
    // As a server leaves it that dies right after the run was taken out of all lists.
    let id = uuid::Uuid::parse_str(cut_off.strip_prefix("run-").unwrap()).unwrap();
    let database = site.database();
    let cut = "INSERT INTO purges VALUES (1, 1, 0, 'dev', '{}', 1, 7); INSERT INTO purging SELECT tenant, id, 1 FROM \
               aggregates WHERE workflow = 'payload'; DELETE FROM aggregates WHERE workflow = 'payload'";
    database.execute_batch(cut).unwrap();
    drop(database);
    assert_eq!(crate::support::verify(&site.data()), 1, "what is left of it is no run's");
    let server = site.start(&["--test-clock"]);
    let left = || {
        let sql = "SELECT (SELECT count(*) FROM purging) + (SELECT count(*) FROM events WHERE id = ?1)";
        site.database().query_row(sql, [&id.as_bytes()[..]], |row| row.get::<_, u64>(0)).unwrap()
    };
    let began = std::time::Instant::now();
    while left() > 0 {
        assert!(began.elapsed() < PATIENCE, "it does not go on");
        tokio::task::yield_now().await;
    }
    assert!(!is_gone(&server, &stays).await);
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 1);
}
