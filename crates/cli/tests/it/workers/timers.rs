//! One table of timers, whoever waits.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Site, node, workflow};

#[tokio::test(flavor = "multi_thread")]
async fn retries_of_agents_and_reminders_of_people_wait_in_one_table() {
    let site = Site::new();
    let retry = json!({ "abide": { "retry": { "maxRetries": 1, "baseDelayMs": 60_000 } } });
    let ladder =
        json!({ "abide": { "ladder": { "retry_policy": { "max_attempts": 2, "interval_seconds": 60 } } } });
    let nodes = [
        node("job", "timed.work", json!({}), json!({}), retry),
        node("gate", "core.approvalGate", json!({ "title": "Go on?" }), json!({}), ladder),
    ];
    site.workflow(&workflow("both", &nodes, &[], json!([])));
    let server = site.start(&["--test-clock"]);
    let session = uuid::Uuid::now_v7().to_string();
    let worker = json!({ "protocol": 1, "session": session, "agent": "clerk", "capacity": 1, "kinds": [{ "kind": "timed.work" }] });
    assert!(server.post("/v1/workers", &worker).await.0.is_success());
    server.start_run("both", json!({})).await;
    let poll = json!({ "after": 0, "max": 1, "waitMs": 20_000 });
    let (_, page) = server.post(&format!("/v1/workers/{session}:poll"), &poll).await;
    let task: &Value = &page["messages"][0];
    let failed = json!({
        "op": "fail", "task": task["task"], "fence": task["fence"], "class": "tool", "retryable": true, "effect": "none",
        "error": { "code": "no_paper", "message": "the printer has no paper" },
    });
    let (status, told) = server.post(&format!("/v1/workers/{session}/op"), &failed).await;
    assert!(status.is_success() && told["retryAt"].is_string(), "{told}");
    assert!(server.stop().success());

    let connection = Connection::open(site.data().join("abide.db")).unwrap();
    let mut timers = connection.prepare("SELECT timer FROM timers ORDER BY timer").unwrap();
    let timers: Vec<String> = timers.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let kinds: Vec<&str> = timers.iter().filter_map(|timer| timer.split('/').next()).collect();
    assert_eq!(kinds, ["attempt", "retry"], "{timers:?}");
}
