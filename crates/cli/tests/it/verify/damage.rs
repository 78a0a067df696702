//! One kind of damage each: found by `verify`, survived by a server.

use super::*;

#[tokio::test]
async fn clean_data_passes() {
    let data = Data::new().await;
    let output = data.verifier(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "4 runs, 38 events: all as it should be\n");
    assert!(output.stderr.is_empty());
}

#[tokio::test]
async fn a_finding_is_told_with_its_run_its_event_and_a_way_out() {
    let data = Data::new().await;
    data.damage(&data.waiting, "UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = 2");
    let output = data.verifier(&[]);
    assert_eq!(output.status.code(), Some(5));
    let told = String::from_utf8(output.stdout).unwrap().replace(&data.waiting, "RUN");
    insta::assert_snapshot!(format!("{told}---\n{}", String::from_utf8(output.stderr).unwrap()));
}

#[tokio::test]
async fn a_byte_of_a_payload_was_flipped() {
    let data = Data::new().await;
    data.damage(
        &data.waiting,
        "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), 'precious', 'pRecious') AS BLOB)
         WHERE id = ?1 AND seq = 0",
    );
    let what = data.finds(&data.waiting, Some(0));
    assert!(what.contains("hash chain"), "{what}");
    data.is_refused(&data.waiting).await;
}

#[tokio::test]
async fn a_payload_is_no_json_any_more() {
    let data = Data::new().await;
    data.damage(&data.waiting, "UPDATE events SET payload = substr(payload, 2) WHERE id = ?1 AND seq = 3");
    let what = data.finds(&data.waiting, Some(3));
    assert!(what.contains("node.started"), "{what}");
    data.is_refused(&data.waiting).await;
    let server = data.site.start(&["--test-clock"]);
    let (status, body) = server.get(&format!("/v1/runs/{}/events/poll", data.waiting)).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{body}");
    let (status, body) = server.post(&format!("/v1/runs/{}/cancel", data.waiting), &json!({})).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{body}");
}

#[tokio::test]
async fn a_payload_in_a_blob_was_changed() {
    let data = Data::new().await;
    let server = data.site.start(&["--test-clock"]);
    let large = server.start_run("waits", json!({ "v": "x".repeat(10_000) })).await;
    assert!(server.stop().success());
    data.damage(
        &large,
        "UPDATE blobs SET bytes = CAST(replace(CAST(bytes AS TEXT), 'xx', 'xy') AS BLOB)
         WHERE hash = (SELECT chain FROM events WHERE id = ?1 AND seq = 0)",
    );
    data.finds(&large, Some(0));
    data.is_refused(&large).await;
}

#[tokio::test]
async fn a_payload_in_a_blob_is_gone() {
    let data = Data::new().await;
    let server = data.site.start(&["--test-clock"]);
    let large = server.start_run("waits", json!({ "v": "x".repeat(10_000) })).await;
    assert!(server.stop().success());
    data.damage(
        &large,
        "DELETE FROM blobs WHERE hash = (SELECT chain FROM events WHERE id = ?1 AND seq = 0)",
    );
    let (code, findings) = data.verify();
    assert_eq!((code, &findings[0]["runId"]), (5, &json!(large)), "{findings}");
    assert_eq!(data.answers(&large).await.0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_hash_of_the_chain_was_changed() {
    let data = Data::new().await;
    data.damage(&data.waiting, "UPDATE events SET chain = zeroblob(32) WHERE id = ?1 AND seq = 1");
    let what = data.finds(&data.waiting, Some(1));
    assert!(what.contains("hash chain"), "{what}");
    data.is_refused(&data.waiting).await;
}

#[tokio::test]
async fn an_event_in_the_middle_is_gone() {
    let data = Data::new().await;
    data.damage(&data.waiting, "DELETE FROM events WHERE id = ?1 AND seq = 1");
    let what = data.finds(&data.waiting, Some(2));
    assert!(what.contains("event 1 is missing"), "{what}");
    data.is_refused(&data.waiting).await;
}

#[tokio::test]
async fn the_first_event_is_gone() {
    let data = Data::new().await;
    data.damage(&data.waiting, "DELETE FROM events WHERE id = ?1 AND seq = 0");
    let (code, findings) = data.verify();
    assert_eq!((code, &findings[0]["runId"]), (5, &json!(data.waiting)), "{findings}");
    assert_eq!(data.answers(&data.waiting).await.0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn the_last_event_is_gone() {
    let data = Data::new().await;
    data.damage(&data.waiting, "DELETE FROM events WHERE id = ?1 AND seq = 3");
    let what = data.finds(&data.waiting, Some(3));
    assert!(what.contains("ends here"), "{what}");
    data.answers(&data.waiting).await;
}

#[tokio::test]
async fn a_poll_for_an_event_that_is_gone_ends_at_once() {
    let data = Data::new().await;
    data.damage(&data.waiting, "DELETE FROM events WHERE id = ?1 AND seq = 3");
    data.damage(&data.done, "DELETE FROM events WHERE id = ?1 AND seq = 7");
    let server = data.site.start(&["--test-clock"]);
    let began = std::time::Instant::now();
    for (run, last) in [(&data.waiting, 2), (&data.done, 6)] {
        let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence={last}");
        let (status, body) = server.get(&path).await;
        assert_eq!((status, &body["error"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("internal_error")));
    }
    assert!(began.elapsed().as_secs() < 60, "it does not look again and again until the timeout");
}

#[tokio::test]
async fn the_last_event_of_an_ended_run_is_gone() {
    let data = Data::new().await;
    data.damage(&data.done, "DELETE FROM events WHERE id = ?1 AND seq = 7");
    data.finds(&data.done, Some(7));
    data.answers(&data.done).await;
}

#[tokio::test]
async fn the_time_of_an_event_was_changed() {
    let data = Data::new().await;
    data.damage(&data.waiting, "UPDATE events SET at = at + 1 WHERE id = ?1 AND seq = 2");
    data.finds(&data.waiting, Some(2));
    data.is_refused(&data.waiting).await;
}

#[tokio::test]
async fn an_event_was_added_behind_the_last() {
    let data = Data::new().await;
    data.damage(
        &data.waiting,
        "INSERT INTO events (tenant, id, seq, at, type, version, chain, payload)
         SELECT tenant, id, 4, at, 2, 1, zeroblob(32), CAST('{\"durationMs\":0}' AS BLOB) FROM events WHERE id = ?1 AND seq = 3",
    );
    data.finds(&data.waiting, Some(4));
    data.is_refused(&data.waiting).await;
}

#[tokio::test]
async fn a_snapshot_was_changed() {
    let data = Data::new().await;
    data.damage(
        &data.kept,
        "UPDATE aggregates SET snapshot = CAST(replace(CAST(snapshot AS TEXT), 'precious', 'worthless') AS BLOB)
         WHERE id = ?1 AND snapshot IS NOT NULL",
    );
    let what = data.finds(&data.kept, Some(21));
    assert!(what.contains("snapshot"), "{what}");
    data.answers(&data.kept).await;
}

#[tokio::test]
async fn a_snapshot_that_can_not_be_read_is_done_without() {
    let data = Data::new().await;
    data.damage(&data.kept, "UPDATE aggregates SET snapshot = substr(snapshot, 9) WHERE id = ?1");
    let (status, snapshot) = data.answers(&data.kept).await;
    assert_eq!((status, &snapshot["variables"]["v"]), (StatusCode::OK, &json!("precious")));
}

#[tokio::test]
async fn a_timer_is_gone() {
    let data = Data::new().await;
    data.damage(&data.waiting, "DELETE FROM timers WHERE id = ?1");
    let what = data.finds(&data.waiting, None);
    assert!(what.contains("timer"), "{what}");
    let (status, snapshot) = data.answers(&data.waiting).await;
    assert_eq!((status, &snapshot["status"]), (StatusCode::OK, &json!("running")));
}

#[tokio::test]
async fn a_timer_was_moved() {
    let data = Data::new().await;
    data.damage(&data.waiting, "UPDATE timers SET due = due - 1000 WHERE id = ?1");
    data.finds(&data.waiting, None);
    data.answers(&data.waiting).await;
}

#[tokio::test]
async fn a_timer_belongs_to_nobody() {
    let data = Data::new().await;
    data.damage(&data.done, "INSERT INTO timers (due, tenant, id, timer) VALUES (0, 1, ?1, 'delay/1/n0')");
    let (code, findings) = data.verify();
    assert_eq!(code, 5);
    assert!(findings[0]["what"].as_str().unwrap().contains("timers: 4"), "{findings}");
    let (status, snapshot) = data.answers(&data.done).await;
    assert_eq!((status, &snapshot["status"]), (StatusCode::OK, &json!("completed")));
}

#[tokio::test]
async fn a_timer_names_a_run_that_never_was() {
    let data = Data::new().await;
    let unknown = "run-00000000-0000-7000-8000-000000000000";
    data.damage(unknown, "INSERT INTO timers (due, tenant, id, timer) VALUES (0, 1, ?1, 'delay/1/n0')");
    assert_eq!(data.verify().0, 5);
    assert_eq!(data.answers(unknown).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_task_is_gone() {
    let data = Data::new().await;
    let work = chain("work", "core.noop", 1, &json!({ "abide": { "durable": true } }));
    data.site.workflow(&work);
    let mut server = data.site.start(&["--test-clock", "--failpoint", "effect-report=1"]);
    let start = json!({ "workflowId": "work" });
    // The answer may be lost: the server dies once the task is performed, before its outcome is recorded.
    let _ = answer(server.request(Method::POST, "/v1/runs").json(&start)).await;
    server.exit().await;
    assert_eq!(data.verify(), (0, json!([])), "a task left undone is no damage");
    let id: [u8; 16] = data.site.database().query_row("SELECT id FROM tasks", [], |row| row.get(0)).unwrap();
    let run = RunId::from_bytes(id).to_string();
    data.damage(&run, "DELETE FROM tasks WHERE id = ?1");
    let what = data.finds(&run, None);
    assert!(what.contains("TaskId"), "{what}");
    let (status, snapshot) = data.answers(&run).await;
    assert_eq!((status, &snapshot["status"]), (StatusCode::OK, &json!("running")));
}

#[tokio::test]
async fn a_task_belongs_to_nobody() {
    let data = Data::new().await;
    data.damage(
        &data.waiting,
        "INSERT INTO tasks (tenant, id, node, execution, boot, fence) VALUES (1, ?1, 'n0', 1, 0, 1)",
    );
    data.finds(&data.waiting, None);
    let (status, snapshot) = data.answers(&data.waiting).await;
    assert_eq!((status, &snapshot["status"]), (StatusCode::OK, &json!("running")));
}

#[tokio::test]
async fn the_status_was_changed() {
    let data = Data::new().await;
    data.damage(&data.waiting, "UPDATE aggregates SET status = 4 WHERE id = ?1");
    let what = data.finds(&data.waiting, None);
    assert!(what.contains("say completed") && what.contains("says running"), "{what}");
    data.answers(&data.waiting).await;
}

#[tokio::test]
async fn the_status_is_none() {
    let data = Data::new().await;
    data.damage(&data.waiting, "UPDATE aggregates SET status = 99 WHERE id = ?1");
    let output = data.verifier(&["--json"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(data.answers(&data.waiting).await.0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn the_definition_is_gone() {
    let data = Data::new().await;
    data.damage(
        &data.kept,
        "DELETE FROM blobs WHERE hash = (SELECT definition FROM aggregates WHERE id = ?1)",
    );
    let what = data.finds(&data.kept, None);
    assert!(what.contains("definition"), "{what}");
    std::fs::remove_file(data.site.path("workflows/keeps.json")).unwrap();
    data.is_refused(&data.kept).await;
}

#[tokio::test]
async fn the_definition_was_changed() {
    let data = Data::new().await;
    data.damage(
        &data.kept,
        "UPDATE blobs SET bytes = CAST(replace(CAST(bytes AS TEXT), '3600000', '3600001') AS BLOB)
         WHERE hash = (SELECT definition FROM aggregates WHERE id = ?1)",
    );
    let what = data.finds(&data.kept, None);
    assert!(what.contains("hash"), "{what}");
}

#[tokio::test]
async fn a_run_whose_last_event_is_gone_is_not_shown() {
    let data = Data::new().await;
    data.damage(&data.waiting, "DELETE FROM events WHERE id = ?1 AND seq = 3");
    data.is_refused(&data.waiting).await;
}

#[tokio::test]
async fn a_snapshot_claims_to_be_of_a_later_event() {
    let data = Data::new().await;
    data.damage(&data.kept, "UPDATE aggregates SET snapshot_at = snapshot_at + 5 WHERE id = ?1");
    let (code, findings) = data.verify();
    assert_eq!((code, &findings[0]["runId"]), (5, &json!(data.kept)), "{findings}");
    data.answers(&data.kept).await;
}

#[tokio::test]
async fn a_timer_that_can_not_be_read_holds_up_no_other() {
    let data = Data::new().await;
    data.damage(&data.done, "INSERT INTO timers (due, tenant, id, timer) VALUES (0, 1, ?1, 'bogus')");
    assert_eq!(data.verify().0, 5);
    data.answers(&data.done).await;
}

#[tokio::test]
async fn what_can_not_be_read_is_named_and_the_rest_is_checked() {
    for unreadable in [
        "UPDATE aggregates SET status = 99 WHERE id = ?1",
        "UPDATE events SET payload = NULL WHERE id = ?1 AND seq = 1",
    ] {
        let data = Data::new().await;
        data.damage(&data.kept, unreadable);
        data.damage(&data.other, "UPDATE events SET chain = zeroblob(32) WHERE id = ?1 AND seq = 2");
        let (code, findings) = data.verify();
        let runs: Vec<&Value> =
            findings.as_array().unwrap().iter().map(|finding| &finding["runId"]).collect();
        assert_eq!((code, runs), (5, vec![&json!(data.kept), &json!(data.other)]), "{unreadable}");
    }
}

#[tokio::test]
async fn one_row_that_can_not_be_read_leaves_the_others_in_the_list() {
    let data = Data::new().await;
    data.damage(&data.waiting, "UPDATE aggregates SET status = 99 WHERE id = ?1");
    let server = data.site.start(&["--test-clock"]);
    let (status, list) = server.get("/v1/runs").await;
    assert_eq!(status, StatusCode::OK, "{list}");
    assert!(list["runs"].as_array().unwrap().len() >= 3, "{list}");
}

#[tokio::test]
async fn timers_of_runs_that_can_not_be_read_hold_up_no_others() {
    let site = Site::new();
    let delay = json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } });
    let wait = node("wait", "core.delay", json!({}), delay, json!({}));
    site.workflow(&workflow("waits", &[wait], &[], json!([{ "name": "delayMs", "type": "number" }])));
    let server = site.start(&["--test-clock"]);
    // More than are fired at once, and all of them before the sound one.
    for _ in 0..300 {
        server.start_run("waits", json!({ "delayMs": 1000 })).await;
    }
    let sound = server.start_run("waits", json!({ "delayMs": 2000 })).await;
    assert!(server.stop().success());
    let id = sound.trim_start_matches("run-").replace('-', "");
    let damage = format!("UPDATE events SET payload = NULL WHERE seq = 0 AND id <> x'{id}'");
    assert_eq!(site.database().execute(&damage, []).unwrap(), 300);
    let server = site.start(&["--test-clock"]);
    server.advance(10_000).await;
    assert_eq!(server.events(&sound).await.last().unwrap()["type"], "run.completed");
}

#[tokio::test]
async fn bytes_that_are_no_text_hold_up_no_other_timer_or_task() {
    let site = Site::new();
    let wait = node("wait", "core.delay", json!({ "ms": 1000 }), json!({}), json!({}));
    site.workflow(&workflow("waits", &[wait], &[], json!([])));
    site.workflow(&chain("steps", "core.noop", 3, &json!({ "abide": { "durable": true } })));
    let server = site.start(&["--test-clock"]);
    let waiting = server.start_run("waits", json!({})).await;
    let working = server.start_run("steps", json!({})).await;
    assert_eq!(server.events(&working).await.last().unwrap()["type"], "run.completed");
    assert!(server.stop().success());
    // Left by a process that died: 200 tasks of which none can be read, before one that can.
    let database = site.database();
    let stray = "INSERT INTO timers VALUES (0, 0, zeroblob(16), CAST(x'ff' AS TEXT));
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        INSERT INTO tasks SELECT 0, zeroblob(16), CAST(x'ff' AS TEXT), i, 0, 0 FROM n";
    database.execute_batch(stray).unwrap();
    drop(database);
    let mut server = site.start(&["--test-clock", "--failpoint", "effect-report=1"]);
    let body = json!({ "workflowId": "steps" });
    let _ = answer(server.request(Method::POST, "/v1/runs").json(&body)).await;
    server.exit().await;
    let server = site.start(&["--test-clock"]);
    server.advance(10_000).await;
    let ended = async |run: &str| server.events(run).await.last().unwrap()["type"].clone();
    assert_eq!(ended(&waiting).await, "run.completed", "the one that waited");
    let runs = server.get("/v1/runs").await.1["runs"].clone();
    let killed = runs[0]["runId"].as_str().unwrap().to_owned();
    assert_eq!(ended(&killed).await, "run.completed", "the one whose task was left over");
}

/// A process died in the middle of an erasure: the run counts as erased, and erasing it again does the rest.
#[tokio::test]
async fn an_erasure_that_was_interrupted_is_no_damage() {
    let data = Data::new().await;
    let server = data.site.start(&["--test-clock"]);
    let erase = format!("/v1/runs/{}/erase", data.done);
    let events = server.post(&erase, &json!({})).await.1["events"].clone();
    assert!(server.stop().success());
    data.damage(&data.done, "UPDATE notes SET kind = 'erasing', salt = zeroblob(16) WHERE id = ?1");
    assert_eq!(data.finds(&data.done, None), "its erasure was interrupted; erase it again");
    let said = String::from_utf8(data.verifier(&[]).stderr).unwrap();
    assert!(said.contains("erase those runs again") && !said.contains("backup"), "{said}");
    let server = data.site.start(&["--test-clock"]);
    assert_eq!(server.post(&erase, &json!({})).await.1["events"], events);
    assert!(server.stop().success());
    assert_eq!(data.verify().0, 0);
}
