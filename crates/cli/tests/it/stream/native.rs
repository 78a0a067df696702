//! The journal in Abide's own words, and the client that follows it.

use std::io::{BufRead, BufReader};

use super::*;

#[tokio::test]
async fn the_journal_holds_every_record_in_its_own_words() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = varied(&server).await;
    let all = Stream::open(&server, &format!("/v1/runs/{run}/journal"), None).await.rest().await;
    let sequences: Vec<u64> = all.iter().map(|frame| frame.id.unwrap()).collect();
    assert_eq!(sequences, (0..VARIED_EVENTS).collect::<Vec<_>>(), "no gaps");
    let spawned = all.iter().find(|frame| frame.event == "node.spawned").unwrap();
    assert_eq!(spawned.data["payload"]["workflowId"], "noop");
    for last in 0..VARIED_EVENTS + 2 {
        let rest: Vec<Frame> = all.iter().filter(|frame| frame.id > Some(last)).cloned().collect();
        let path = format!("/v1/runs/{run}/journal?after={last}");
        assert_eq!(Stream::open(&server, &path, None).await.rest().await, rest);
        let path = format!("/v1/runs/{run}/journal?after=0");
        assert_eq!(Stream::open(&server, &path, Some(&last.to_string())).await.rest().await, rest);
    }
}

#[tokio::test]
async fn what_is_sensitive_is_masked_in_every_stream() {
    const SECRET: &str = "hunter2-4711";
    let site = Site::new();
    let kept = json!({ "pw": { "type": "variable", "variableName": "pw" } });
    site.workflow(&workflow(
        "keeper",
        &[node("keep", "core.identity", json!({}), kept, json!({}))],
        &[],
        json!([{ "name": "pw", "type": "string", "sensitive": true }]),
    ));
    let mapped =
        json!({ "workflowId": "keeper", "inputMapping": { "pw": "pw" }, "outputMapping": { "back": "pw" } });
    site.workflow(&workflow(
        "teller",
        &[node("tell", "core.subWorkflow", mapped, json!({}), json!({}))],
        &[],
        json!([{ "name": "pw", "type": "string", "sensitive": true }, { "name": "back", "type": "string" }]),
    ));
    let server = site.start(&[]);
    let run = server.start_run("teller", json!({ "pw": SECRET })).await;
    server.events(&run).await;
    for path in ["journal", "events?streamMode=debug", "events?streamMode=values", "events"] {
        let all = Stream::open(&server, &format!("/v1/runs/{run}/{path}"), None).await.rest().await;
        let text = format!("{all:?}");
        assert!(!text.contains(SECRET), "{path}: {text}");
        assert!(text.contains("[masked]"), "{path}");
    }
    let journal = Stream::open(&server, &format!("/v1/runs/{run}/journal"), None).await.rest().await;
    let payload = |kind: &str| {
        let found = journal.iter().find(|frame| frame.event == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {journal:?}")).data["payload"].clone()
    };
    assert_eq!(payload("node.spawned")["inputs"], json!({ "pw": "[masked]" }));
    assert_eq!(payload("child.reported")["outputs"], json!({ "pw": "[masked]" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_follows_survives_a_restart_and_prints_each_event_once() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let door = Door::open(&server).await;
    let run = server.start_run("parked", json!({})).await;
    let mut following = crate::support::abide();
    following
        .args(["run", "events", "--follow", "--json", &run])
        .env("ABIDE_URL", &door.url)
        .env("ABIDE_API_KEY", &server.key)
        .stdout(std::process::Stdio::piped());
    let mut following = following.spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!([next(), next()].map(|event| event["sequence"].clone()), [json!(0), json!(1)]);
    server.kill();
    let server = site.start(&["--test-clock"]);
    door.lead_to(&server);
    server.advance(HOUR_MS).await;
    assert_eq!([next(), next()].map(|event| event["sequence"].clone()), [json!(2), json!(3)]);
    assert!(following.wait().unwrap().success());
    assert!(lines.next().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_follows_a_run_that_waits_through_any_number_of_restarts() {
    let site = site();
    let mut server = site.start(&["--test-clock"]);
    let door = Door::open(&server).await;
    let run = server.start_run("parked", json!({})).await;
    let mut following = crate::support::abide();
    following
        .args(["run", "events", "--follow", "--json", &run])
        .env("ABIDE_URL", &door.url)
        .env("ABIDE_API_KEY", &server.key)
        .stdout(std::process::Stdio::piped());
    let following = following.spawn().unwrap();
    // More often than it comes back in vain. Nothing happens meanwhile.
    for _ in 0..9 {
        server.await_waiting(1).await;
        // In an orderly way, so that each stream has begun for the client too.
        assert!(server.stop().success());
        server = site.start(&["--test-clock"]);
        door.lead_to(&server);
    }
    server.await_waiting(1).await;
    server.advance(HOUR_MS).await;
    let output = following.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 4);
}
