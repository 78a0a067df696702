//! Data directories of every release, as SQL text: each later version must read, verify and finish them.
//!
//! `ABIDE_FREEZE=0.1 cargo test -p abide --test it golden` makes the file of a release, once, when it is cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide_model::scripted::ScriptedProvider;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

use crate::support::{Site, chain, node, verify, workflow};

mod asks;
mod decides;
mod intents;
mod ladders;
mod societies;
mod turns;
mod workers;

/// Where the frozen directories lie.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_golden_directory_is_read_verified_and_finished() {
    if let Ok(version) = std::env::var("ABIDE_FREEZE") {
        freeze(&version).await;
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    assert!(!files.is_empty(), "there is a golden directory for every release");
    for file in files {
        finish(&file).await;
    }
}

/// Has this version take a frozen directory to its end.
async fn finish(file: &Path) {
    let site = Site::new();
    std::fs::create_dir(site.data()).unwrap();
    put_keyring(&site);
    let connection = Connection::open(site.data().join("abide.db")).unwrap();
    connection.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
    drop(connection);
    let (before, kinds) = (standing(&site), kinds(&site));
    assert!(
        before.iter().filter(|run| under_way(&run.1)).count() >= 4,
        "{file:?} has parked runs: {before:?}"
    );
    // The first start brings an older schema up to date.
    let (_provider, config) = turns::provide(&site);
    let server = Arc::new(site.start(&["--test-clock", "--config", &config]));
    assert_eq!(verify(&site.data()), before.len() as u64);
    let (stop, has_workers) = (Arc::new(AtomicBool::new(false)), site.rows()["kinds"] > 0);
    let work = has_workers.then(|| tokio::spawn(workers::work(server.clone(), stop.clone())));
    for (run, _) in before.iter().filter(|(_, was)| was == "paused") {
        workers::release(&server, run).await;
        // It may have been held with a question open.
        server.settle().await;
        asks::answer_all(&server, run).await;
    }
    for (run, _) in before.iter().filter(|(_, was)| was.starts_with("waiting-")) {
        let left = ladders::is_left_alone(&server, run).await
            || societies::is_left_alone(&server, run).await
            || intents::is_intent(&server, run).await;
        if !left {
            asks::answer_all(&server, run).await;
        }
    }
    intents::finish(&server, &before).await;
    turns::retry(&server, &before).await;
    server.advance(400 * 24 * 3_600_000).await;
    server.settle().await;
    let open: Vec<String> = before.iter().filter(|run| under_way(&run.1)).map(|run| run.0.clone()).collect();
    if site.rows()["members"] > 0 {
        societies::finish(&server, &open).await;
    }
    // Waits that begin only now end within hours.
    for (run, _) in before.iter().filter(|(_, was)| under_way(was)) {
        finish_one(&server, run).await;
    }
    for (run, was) in &before {
        let events = server.events(run).await;
        let ended = events.last().unwrap()["type"].as_str().unwrap().to_owned();
        let expected = match was.as_str() {
            was if !under_way(was) => format!("run.{was}"),
            _ if societies::is_left_alone(&server, run).await => "run.cancelled".to_owned(),
            _ => "run.completed".to_owned(),
        };
        assert_eq!(ended, expected, "{file:?} {run}");
    }
    if site.rows()["people"] > 0 {
        demand_host(&server, &before).await;
    }
    if before.iter().any(|(_, was)| was.starts_with("waiting-")) {
        asks::demand(&server).await;
        ladders::demand(&server).await;
        decides::demand(&server).await;
    }
    societies::demand(&server).await;
    intents::demand(&server).await;
    stop.store(true, Ordering::Release);
    if let Some(work) = work {
        workers::demand(&work.await.unwrap(), &kinds);
    }
    let server = Arc::into_inner(server).expect("nobody else speaks to it any more");
    assert!(server.stop().success());
    assert_eq!(verify(&site.data()), site.rows()["aggregates"]);
}

fn under_way(was: &str) -> bool {
    matches!(was, "running" | "paused" | "blocked" | "draft") || was.starts_with("waiting-")
}

/// The keyring of the frozen directories: what they hide is there for everybody to see.
fn put_keyring(site: &Site) {
    use std::os::unix::fs::PermissionsExt;
    let path = site.data().with_file_name("data.keyring");
    let keyring = json!({ "version": 1, "keys": [{ "kid": 1, "secret": "0".repeat(64) }] });
    std::fs::write(&path, keyring.to_string()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Demands what came with the third release: people, annotations, artifacts, webhooks, and scopes that are free again.
async fn demand_host(server: &crate::support::Server, runs: &[(String, String)]) {
    let (_, person) = server.get("/v1/people/ada").await;
    assert_eq!(person["roles"], json!(["approver"]));
    let (mut annotations, mut artifacts) = (0, 0);
    for (run, _) in runs {
        let count = |page: &Value, what: &str| page[what].as_array().map_or(0, Vec::len);
        annotations += count(&server.get(&format!("/v1/runs/{run}/annotations")).await.1, "annotations");
        artifacts += count(&server.get(&format!("/v1/runs/{run}/artifacts")).await.1, "artifacts");
    }
    assert_eq!((annotations, artifacts), (1, 1));
    let (_, webhooks) = server.get("/v1/webhooks").await;
    let of_all = webhooks["webhooks"].as_array().unwrap().iter().filter(|webhook| webhook["runId"].is_null());
    assert_eq!(of_all.count(), 1, "{webhooks}");
    let body = json!({ "workflowId": "makes", "scopeId": "frozen" });
    let alone = server.request(reqwest::Method::POST, "/v1/runs").header("x-dedup", "enforce").json(&body);
    let (status, started) = crate::support::answer(alone).await.unwrap();
    assert_eq!(status, 201, "whoever had the scope has ended: {started}");
    server.advance(86_400_000).await;
    finish_one(server, started["runId"].as_str().unwrap()).await;
}

/// Lets time pass until a run has ended.
async fn finish_one(server: &crate::support::Server, run: &str) {
    for _ in 0..100 {
        let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
        if snapshot["completedAt"].is_string() {
            return;
        }
        server.advance(60_000).await;
        server.settle().await;
    }
    panic!("{run} does not end");
}

/// The kinds of nodes that a directory's workers provide.
fn kinds(site: &Site) -> Vec<String> {
    let connection = Connection::open(site.data().join("abide.db")).unwrap();
    // There were no workers before the sixth release.
    let Ok(mut statement) = connection.prepare("SELECT kind FROM kinds ORDER BY kind") else {
        return Vec::new();
    };
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Every run of a directory and how it stands.
fn standing(site: &Site) -> Vec<(String, String)> {
    let connection = Connection::open(site.data().join("abide.db")).unwrap();
    let name = |code: u8| abide_core::Status::by_code(code).unwrap().name().to_owned();
    let mut statement = connection.prepare("SELECT id, status FROM aggregates ORDER BY id").unwrap();
    let rows = statement
        .query_map([], |row| {
            let id = abide_core::RunId::from_bytes(row.get(0)?);
            Ok((id.to_string(), name(row.get(1)?)))
        })
        .unwrap();
    rows.map(Result::unwrap).collect()
}

/// Makes the golden directory of a release: runs in every state that can be left on disk.
async fn freeze(version: &str) {
    let site = Site::new();
    put_keyring(&site);
    let all = definitions().into_iter().chain(graphs()).chain(asks::definitions());
    let others = ladders::definitions().into_iter().chain(workers::definitions()).chain(turns::definitions());
    let others = others.chain(decides::definitions()).chain(societies::definitions());
    for definition in all.chain(others) {
        site.workflow(&definition);
    }
    let provider = ScriptedProvider::start();
    let config = ladders::configure(&site, &turns::configure(&provider));
    let server = site.start(&["--test-clock", "--allow-net", "127.0.0.0/8", "--config", &config]);
    ladders::freeze(&server).await;
    freeze_graphs(&server).await;
    freeze_host(&server).await;
    asks::freeze(&server).await;
    decides::freeze(&server).await;
    societies::freeze(&server).await;
    intents::freeze(&server).await;
    workers::freeze(&server).await;
    turns::freeze(&server, &provider).await;
    server.start_run("waits", json!({ "delayMs": 1000 })).await;
    server.start_run("waits", json!({ "delayMs": 86_400_000_i64, "note": "x".repeat(6000) })).await;
    server.start_run("fan", json!({})).await;
    server.start_run("long", json!({})).await;
    server.start_run("quick", json!({})).await;
    server.start_run("fails", json!({})).await;
    let cancelled = server.start_run("waits", json!({})).await;
    server.post(&format!("/v1/runs/{cancelled}/cancel"), &json!({ "reason": "frozen so" })).await;
    assert!(server.stop().success());
    // One more, with a task that was performed and never reported.
    let mut server = site.start(&["--test-clock", "--failpoint", "effect-report=1"]);
    let body = json!({ "workflowId": "steps" });
    let _ = crate::support::answer(server.request(reqwest::Method::POST, "/v1/runs").json(&body)).await;
    assert!(!server.exit().await.success(), "the failpoint was passed");
    let connection = Connection::open(site.data().join("abide.db")).unwrap();
    std::fs::create_dir_all(folder()).unwrap();
    std::fs::write(folder().join(format!("{version}.sql")), dump(&connection)).unwrap();
}

/// Runs that came with the second release: in a loop, waiting for a child or a retry, with channels and secrets.
async fn freeze_graphs(server: &crate::support::Server) {
    let looped = server.start_run("loops", json!({})).await;
    server.advance(1).await;
    until(server, &looped, |run| run["nodeStates"]["count"]["execution"] == 2).await;
    let parent = server.start_run("parent", json!({ "token": "hush" })).await;
    until(server, &parent, |run| run["childRuns"][0]["status"] == "running").await;
    let refused = server.start_run("retries", json!({})).await;
    until(server, &refused, |run| run["nodeStates"]["send"]["attempt"] == 1).await;
    server.start_run("notes", json!({})).await;
    let erased = server.start_run("quick", json!({})).await;
    server.post(&format!("/v1/runs/{erased}/erase"), &json!({ "reason": "frozen so" })).await;
    for label in ["first", "second"] {
        let mut pushed = chain("pushed", "core.delay", 2, &json!({}));
        pushed["version"] = json!(label);
        for node in pushed["nodes"].as_array_mut().unwrap() {
            node["config"] = json!({ "ms": 1000 });
        }
        let put = server.request(reqwest::Method::PUT, "/v1/workflows/pushed").json(&pushed);
        assert!(crate::support::answer(put).await.unwrap().0.is_success());
        server.start_run("pushed", json!({})).await;
    }
}

/// What came with the third release: a run that is paused, one that is alone in its scope and was asked for under a
/// key, what it made and what was said about it, a person, and a webhook whose receiver is away.
async fn freeze_host(server: &crate::support::Server) {
    let ada =
        json!({ "displayName": "Ada", "roles": ["approver"], "addresses": { "email": "ada@example.com" } });
    let put = server.request(reqwest::Method::PUT, "/v1/people/ada").json(&ada);
    assert!(crate::support::answer(put).await.unwrap().0.is_success());
    let webhook =
        json!({ "url": "http://127.0.0.1:9/events", "events": ["run.completed", "artifact.created"] });
    let (status, registered) = server.post("/v1/webhooks", &webhook).await;
    assert_eq!(status, 201, "{registered}");
    let mut made = workflow(
        "makes",
        &[
            node(
                "draft",
                "core.identity",
                json!({}),
                json!({ "text": { "type": "static", "value": "Hello" } }),
                json!({}),
            ),
            node("wait", "core.delay", json!({ "ms": 86_400_000_i64 }), json!({}), json!({})),
        ],
        &[("draft", "wait")],
        json!([]),
    );
    made["nodes"][0]["artifactType"] = json!("letter");
    let put = server.request(reqwest::Method::PUT, "/v1/workflows/makes").json(&made);
    assert!(crate::support::answer(put).await.unwrap().0.is_success());
    let body = json!({ "workflowId": "makes", "scopeId": "frozen" });
    let start = server.request(reqwest::Method::POST, "/v1/runs").json(&body);
    let start = start.header("idempotency-key", "frozen-1").header("x-dedup", "enforce");
    let (status, started) = crate::support::answer(start).await.unwrap();
    assert_eq!(status, 201, "{started}");
    let path = format!("/v1/runs/{}", started["runId"].as_str().unwrap());
    let signal = json!({ "signal": { "kind": "label", "label": "frozen so" } });
    assert_eq!(server.post(&format!("{path}/annotations"), &signal).await.0, 201);
    let paused = server.start_run("waits", json!({ "delayMs": 86_400_000_i64 })).await;
    assert_eq!(
        server.post(&format!("/v1/runs/{paused}:pause"), &json!({ "reason": "frozen so" })).await.0,
        202
    );
}

/// Waits until nothing more happens, and checks how a run stands then.
async fn until(server: &crate::support::Server, run: &str, stands: impl Fn(&Value) -> bool) {
    server.settle().await;
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert!(stands(&snapshot), "{snapshot}");
}

fn graphs() -> Vec<Value> {
    let wait = |id: &str, ms: i64| node(id, "core.delay", json!({ "ms": ms }), json!({}), json!({}));
    let looping = json!({ "abide": { "loop": { "maxIterations": 5 } } });
    let count = json!({ "assign": { "n": "variables.n + 1" } });
    let mut loops = workflow(
        "loops",
        &[
            node("count", "core.transform", count, json!({}), looping),
            wait("pause", 1),
            node("after", "core.noop", json!({}), json!({}), json!({})),
        ],
        &[("count", "pause"), ("pause", "count"), ("pause", "after")],
        json!([{ "name": "n", "type": "number", "defaultValue": 0 }]),
    );
    loops["edges"][1]["condition"] = json!({ "type": "expression", "expression": "variables.n < 3" });
    let call = json!({
        "workflowId": "child", "inputMapping": { "token": "token" }, "outputMapping": { "answer": "reply" },
    });
    let mut parent = workflow(
        "parent",
        &[node("call", "core.subWorkflow", call, json!({}), json!({}))],
        &[],
        json!([{ "name": "token", "type": "string", "sensitive": true }]),
    );
    parent["settings"] = json!({ "timeout": 500_i64 * 24 * 3_600_000 });
    let child = workflow(
        "child",
        &[wait("wait", 5000)],
        &[],
        json!([{ "name": "reply", "type": "string", "defaultValue": "yes" }]),
    );
    let retry = json!({ "abide": { "retry": { "strategy": "fixed", "maxRetries": 1, "baseDelayMs": 3_600_000, "maxDelayMs": 3_600_000 } } });
    let mut retries = workflow(
        "retries",
        &[
            node("send", "core.http.request", json!({ "url": "http://127.0.0.1:9/" }), json!({}), retry),
            node("after", "core.noop", json!({}), json!({}), json!({})),
        ],
        &[("send", "after")],
        json!([]),
    );
    retries["edges"][0]["triggerRule"] = json!("all_complete");
    let write = |id: &str, value: &str| {
        node(id, "core.channelWrite", json!({ "channelName": "log", "value": value }), json!({}), json!({}))
    };
    let mut notes = workflow(
        "notes",
        &[write("first", "a"), wait("wait", 100), write("second", "b")],
        &[("first", "wait"), ("wait", "second")],
        json!([]),
    );
    notes["channels"] = json!({ "log": { "reducer": "append", "ttlMs": 50 } });
    vec![loops, parent, child, retries, notes]
}

fn definitions() -> Vec<Value> {
    let delay = json!({ "delayMs": { "type": "variable", "variableName": "delayMs" } });
    let variables = json!([{ "name": "delayMs", "type": "number", "defaultValue": 3_600_000 }]);
    let plain = |id: &str, kind: &str| node(id, kind, json!({}), json!({}), json!({}));
    let wait = |id: &str, ms: i64| node(id, "core.delay", json!({ "ms": ms }), json!({}), json!({}));
    let mut long = chain("long", "core.identity", 10, &json!({}));
    long["nodes"].as_array_mut().unwrap().push(wait("wait", 60_000));
    long["edges"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "id": "w", "sourceNodeId": "n9", "targetNodeId": "wait" }));
    vec![
        workflow("waits", &[node("wait", "core.delay", json!({}), delay, json!({}))], &[], variables),
        workflow(
            "fan",
            &[
                plain("split", "core.noop"),
                wait("short", 5),
                wait("late", 7_200_000),
                plain("join", "core.noop"),
            ],
            &[("split", "short"), ("split", "late"), ("short", "join"), ("late", "join")],
            json!([]),
        ),
        long,
        chain("quick", "core.noop", 3, &json!({})),
        workflow("fails", &[plain("fail", "core.fail")], &[], json!([])),
        chain("steps", "core.noop", 3, &json!({ "abide": { "durable": true } })),
    ]
}

/// A database as SQL text. API keys and secrets are left out: they belong to a keyring that is not kept.
fn dump(connection: &Connection) -> String {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    let mut text = format!(
        "PRAGMA application_id = {};\nPRAGMA user_version = {};\n",
        pragma("application_id"),
        pragma("user_version")
    );
    let mut schema =
        connection.prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL").unwrap();
    let entries = schema.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    for (kind, name, sql) in entries.map(|entry: rusqlite::Result<(String, String, String)>| entry.unwrap()) {
        text += &format!("{sql};\n");
        if kind == "table" && name != "api_keys" && name != "secrets" {
            text += &rows(connection, &name);
        }
    }
    text
}

fn rows(connection: &Connection, table: &str) -> String {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut text = String::new();
    while let Some(row) = rows.next().unwrap() {
        let values: Vec<String> = (0..columns).map(|at| literal(row.get_ref(at).unwrap())).collect();
        text += &format!("INSERT INTO {table} VALUES ({});\n", values.join(", "));
    }
    text
}

fn literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text).replace('\'', "''")),
        ValueRef::Blob(bytes) => {
            format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    }
}
