//! `verify` rebuilds every derived table from the journals. Here each column of each is changed in turn.

use super::*;

/// Changes that must be noticed; `?1` is the id of the run that waits behind a snapshot.
const CHANGES: &[&str] = &[
    "UPDATE aggregates SET next = next + 1 WHERE id = ?1",
    "UPDATE aggregates SET next = next - 1 WHERE id = ?1",
    "UPDATE aggregates SET chain = zeroblob(32) WHERE id = ?1",
    "UPDATE aggregates SET kind = 2 WHERE id = ?1",
    "UPDATE aggregates SET at = at + 1 WHERE id = ?1",
    "UPDATE aggregates SET status = 2 WHERE id = ?1",
    "UPDATE aggregates SET workflow = 'waits' WHERE id = ?1",
    "UPDATE aggregates SET started_at = started_at - 1 WHERE id = ?1",
    "UPDATE aggregates SET definition = (SELECT hash FROM blobs ORDER BY hash LIMIT 1) WHERE id = ?1
        AND definition <> (SELECT hash FROM blobs ORDER BY hash LIMIT 1)",
    "UPDATE aggregates SET snapshot_at = snapshot_at - 1 WHERE id = ?1",
    "UPDATE aggregates SET child = 1 - child WHERE id = ?1",
    "DELETE FROM aggregates WHERE id = ?1",
    "UPDATE events SET type = 101 WHERE id = ?1 AND seq = 1",
    "UPDATE events SET version = 9 WHERE id = ?1 AND seq = 1",
    "UPDATE events SET cause = NULL WHERE id = ?1 AND seq = 1",
    "UPDATE events SET cause = 9223372036854775807 WHERE id = ?1 AND seq = 1",
    "UPDATE events SET node = 'n1' WHERE id = ?1 AND seq = 1",
    "UPDATE events SET node = NULL WHERE id = ?1 AND seq = 1",
    "UPDATE events SET salt = zeroblob(16) WHERE id = ?1 AND seq = 0",
    "UPDATE events SET salt = NULL WHERE id = ?1 AND seq = 0",
    "UPDATE events SET erased = zeroblob(32) WHERE id = ?1 AND seq = 1",
    "UPDATE events SET payload = NULL WHERE id = ?1 AND seq = 1",
    "UPDATE events SET seq = 1000 WHERE id = ?1 AND seq = 21",
    "INSERT INTO events SELECT tenant, randomblob(16), seq, at, type, version, cause, node, salt, chain, payload,
        erased FROM events WHERE id = ?1 AND seq = 0",
    "UPDATE timers SET timer = 'delay/2/wait' WHERE id = ?1",
    "UPDATE timers SET timer = 'stretch' WHERE id = ?1",
    "UPDATE timers SET tenant = 2 WHERE id = ?1",
    "INSERT INTO timers SELECT due, tenant, id, 'stretch' FROM timers WHERE id = ?1",
    "INSERT INTO tasks VALUES (1, ?1, 'wait', 1, 0, 1)",
    "INSERT INTO heard VALUES (1, ?1, randomblob(16), 3)",
    "INSERT INTO heard VALUES (2, ?1, randomblob(16), 3)",
    "INSERT INTO outbox VALUES (1, ?1, 21, randomblob(16), 1, 1, '{}')",
    "INSERT INTO outbox VALUES (1, randomblob(16), 21, ?1, 1, 1, '{}')",
    "DELETE FROM claims WHERE run = ?1",
    "UPDATE claims SET tenant = 2 WHERE run = ?1",
    "UPDATE claims SET workflow = 'waits' WHERE run = ?1",
    "UPDATE claims SET scope = 'other' WHERE run = ?1",
    "UPDATE claims SET run = randomblob(16) WHERE run = ?1",
    "INSERT INTO claims VALUES (1, 'keeps', 'other', ?1)",
    "INSERT INTO claims VALUES (1, 'keeps', 'other', randomblob(16))",
];

/// The same of what waits for an answer. There is one such run.
const ASKED: &[&str] = &[
    "UPDATE interrupts SET tenant = 2",
    "UPDATE interrupts SET run = randomblob(16)",
    "UPDATE interrupts SET id = zeroblob(18)",
    "UPDATE interrupts SET node = 'other'",
    "UPDATE interrupts SET kind = 'custom'",
    "UPDATE interrupts SET title = 'other'",
    "UPDATE interrupts SET event_type = 'other'",
    "UPDATE interrupts SET keys = '[]'",
    "UPDATE interrupts SET sought = zeroblob(16)",
    "UPDATE interrupts SET custom_kind = 'other'",
    "UPDATE interrupts SET approvers = '[\"eve\"]'",
    "UPDATE interrupts SET requested_at = requested_at - 1",
    "UPDATE interrupts SET deadline = NULL",
    "UPDATE interrupts SET headway = '{\"approvals\":1,\"rejections\":0,\"required\":2,\"asks\":0}'",
    "DELETE FROM interrupts",
    "INSERT INTO interrupts SELECT tenant, ?1, id, node, kind, title, event_type, keys, sought, custom_kind, approvers,
        requested_at, deadline, headway FROM interrupts",
    "UPDATE interrupt_counts SET open = 2",
    "UPDATE interrupt_counts SET tenant = 2",
    "UPDATE interrupt_counts SET kind = 'custom'",
    "DELETE FROM interrupt_counts",
    "INSERT INTO interrupt_counts VALUES (1, 'custom', 1)",
];

/// A workflow that waits for an event.
fn asks() -> Value {
    let data = json!({ "eventType": "order.paid", "correlation": { "order": 7 } });
    let config = json!({ "kind": "external-event", "data": data, "timeoutMs": HOUR_MS });
    workflow("asks", &[node("ask", "core.interrupt", config, json!({}), json!({}))], &[], json!([]))
}

#[tokio::test]
async fn every_column_that_follows_from_a_journal_is_compared_with_it() {
    let data = Data::new().await;
    let server = data.site.workflow(&asks()).start(&["--test-clock"]);
    server.start_run("asks", json!({})).await;
    assert!(server.stop().success());
    assert_eq!(data.verify(), (0, json!([])));
    let file = data.site.data().join("abide.db");
    let clean = std::fs::read(&file).unwrap();
    let mut unnoticed = Vec::new();
    for change in CHANGES.iter().chain(ASKED) {
        std::fs::write(&file, &clean).unwrap();
        data.damage(&data.kept, change);
        data.site.database().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let output = data.verifier(&["--json"]);
        if output.status.code() != Some(5) {
            unnoticed.push(format!("{change}: {output:?}"));
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
    std::fs::write(&file, &clean).unwrap();
    assert_eq!(data.verify(), (0, json!([])), "and what was changed back is clean");
}

#[tokio::test]
async fn a_claim_that_a_run_left_behind_when_it_ended_is_no_damage() {
    let data = Data::new().await;
    data.damage(&data.done, "INSERT INTO claims VALUES (1, 'done', '', ?1)");
    assert_eq!(data.verify(), (0, json!([])));
    data.damage(&data.other, "INSERT INTO claims VALUES (1, 'waits', '', ?1)");
    assert_eq!(data.verify().0, 5, "this one is under way, and never asked for it");
}

#[tokio::test]
async fn a_server_does_not_panic_on_any_of_these() {
    let data = Data::new().await;
    let file = data.site.data().join("abide.db");
    let clean = std::fs::read(&file).unwrap();
    for change in CHANGES {
        std::fs::write(&file, &clean).unwrap();
        data.damage(&data.kept, change);
        data.site.database().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let server = data.site.start(&["--test-clock"]);
        let path = format!("/v1/runs/{}", data.kept);
        let mut answers = vec![server.get(&path).await, server.get("/v1/runs").await];
        server.advance(HOUR_MS).await;
        answers.push(server.get(&format!("{path}/events/poll?timeout=1")).await);
        answers.push(server.post(&format!("{path}/cancel"), &json!({})).await);
        for (status, body) in answers {
            let envelope = body["error"].as_str().and_then(abide_core::ErrorCode::find);
            let sane = status.is_success() || envelope.is_some_and(|entry| entry.status == status.as_u16());
            assert!(sane, "{change}: {status} {body}");
        }
        assert!(server.stop().success(), "{change}");
        let said = data.site.said();
        assert!(!said.contains("panicked"), "{change}: {said}");
    }
}

#[tokio::test]
async fn a_directory_can_be_verified_beside_a_busy_server() {
    let site = Site::new();
    site.workflow(&chain("work", "core.noop", 10, &json!({ "abide": { "durable": true } })));
    let server = site.start(&[]);
    let load = async {
        for _ in 0..10 {
            let starts = (0..20).map(|_| server.start_run("work", json!({})));
            futures_util::future::join_all(starts).await;
        }
    };
    let data = site.data();
    let looks = tokio::task::spawn_blocking(move || {
        (0..5).map(|_| crate::support::verify(&data)).collect::<Vec<_>>()
    });
    let ((), looks) = tokio::join!(load, looks);
    let looks = looks.unwrap();
    assert!(looks.is_sorted() && looks[4] <= 200, "{looks:?}");
}

#[test]
fn a_directory_without_data_is_told_apart_from_a_damaged_one() {
    let site = Site::new();
    let verify = || abide().arg("verify").arg("--data").arg(site.data()).output().unwrap();
    let output = verify();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!site.data().exists(), "looking makes nothing");
    std::fs::create_dir(site.data()).unwrap();
    assert_eq!(verify().status.code(), Some(1));
    std::fs::write(site.data().join("abide.db"), "this is no database, but it is long enough").unwrap();
    assert_eq!(verify().status.code(), Some(5));
}

#[tokio::test]
async fn a_file_that_was_cut_short_is_damaged() {
    let data = Data::new().await;
    let file = data.site.data().join("abide.db");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let output = data.verifier(&[]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let refused =
        abide().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.site.data()).output().unwrap();
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("cut short") && said.contains("backup"), "{said}");
}
