//! `abide verify`: what is damaged is noticed and named, and a server on such data goes on with the rest.

mod damage;
mod tables;

use std::process::Output;

use abide_core::RunId;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Site, abide, answer, chain, node, workflow};

/// An hour: how long the waiting runs wait.
const HOUR_MS: i64 = 3_600_000;

/// A data directory with a few runs, and no server on it.
struct Data {
    site: Site,
    /// Waits behind four events.
    waiting: String,
    /// Waits behind a good many events and a snapshot, and is the only one of its workflow that may.
    kept: String,
    /// Has completed.
    done: String,
    /// Waits as well, and is never touched: what happens to it shows that the server goes on.
    other: String,
}

/// A workflow that passes a value on `length` times, then waits.
fn waits(id: &str, length: usize) -> Value {
    let carried = json!({ "v": { "type": "variable", "variableName": "v", "optional": true } });
    let mut nodes: Vec<Value> = (0..length)
        .map(|ix| node(&format!("n{ix}"), "core.identity", json!({}), carried.clone(), json!({})))
        .collect();
    nodes.push(node("wait", "core.delay", json!({ "ms": HOUR_MS }), json!({}), json!({})));
    let ids: Vec<String> = nodes.iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect();
    let edges: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    workflow(id, &nodes, &edges, json!([]))
}

impl Data {
    async fn new() -> Self {
        let site = Site::new();
        site.workflow(&waits("waits", 1)).workflow(&waits("keeps", 10)).workflow(&chain(
            "done",
            "core.noop",
            3,
            &json!({}),
        ));
        let server = site.start(&["--test-clock"]);
        let inputs = json!({ "v": "precious" });
        let waiting = server.start_run("waits", inputs.clone()).await;
        let alone = server.request(Method::POST, "/v1/runs").header("X-Dedup", "enforce");
        let (status, body) =
            answer(alone.json(&json!({ "workflowId": "keeps", "inputs": inputs }))).await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{body}");
        let kept = body["runId"].as_str().unwrap().to_owned();
        let done = server.start_run("done", inputs.clone()).await;
        let other = server.start_run("waits", inputs).await;
        assert!(server.stop().success());
        let data = Self { site, waiting, kept, done, other };
        assert_eq!(data.verify(), (0, json!([])));
        data
    }

    /// Changes the database: `?1` is the run's id, and so many rows must change.
    fn damage(&self, run: &str, sql: &str) -> &Self {
        let id = run.parse::<RunId>().unwrap();
        let database = self.site.database();
        let takes = database.prepare(sql).unwrap().parameter_count();
        let changed = match takes {
            0 => database.execute(sql, []),
            _ => database.execute(sql, [id.as_bytes()]),
        };
        assert_eq!(changed.unwrap(), 1, "{sql}");
        self
    }

    /// The exit code of `verify` and its findings.
    fn verify(&self) -> (i32, Value) {
        let output = self.verifier(&["--json"]);
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code().unwrap(), report["findings"].clone())
    }

    fn verifier(&self, args: &[&str]) -> Output {
        let mut command = abide();
        command.arg("verify").args(args).arg("--data").arg(self.site.data());
        command.output().unwrap()
    }

    /// Checks that `verify` finds one thing wrong: with this run, at this event if it is one. Gives the words.
    fn finds(&self, run: &str, sequence: Option<u64>) -> String {
        let (code, findings) = self.verify();
        assert_eq!(code, 5, "{findings}");
        let findings = findings.as_array().unwrap();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0]["runId"], run, "{findings:?}");
        assert_eq!(findings[0]["tenant"], 1, "{findings:?}");
        assert_eq!(findings[0]["sequence"], json!(sequence), "{findings:?}");
        findings[0]["what"].as_str().unwrap().to_owned()
    }

    /// A server on this data: what it answers for the run, while the others go on. It must not panic.
    async fn answers(&self, run: &str) -> (StatusCode, Value) {
        let server = self.site.start(&["--test-clock"]);
        let answer = server.get(&format!("/v1/runs/{run}")).await;
        let fresh = server.start_run("done", json!({})).await;
        assert_eq!(server.events(&fresh).await.last().unwrap()["type"], "run.completed");
        server.advance(HOUR_MS).await;
        let events = server.events(&self.other).await;
        assert_eq!(events.last().unwrap()["type"], "run.completed", "the others go on");
        assert_eq!(server.get("/readyz").await.0, StatusCode::OK);
        assert!(server.stop().success());
        let said = self.site.said();
        assert!(!said.contains("panicked"), "{said}");
        answer
    }

    /// A server on this data refuses to show the run, and says in its log why.
    async fn is_refused(&self, run: &str) {
        let (status, body) = self.answers(run).await;
        assert_eq!((status, &body["error"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("internal_error")));
        let id = body["details"]["correlationId"].as_str().unwrap();
        let said = self.site.said();
        let logged = said.lines().find(|line| line.contains(id));
        assert!(logged.is_some_and(|line| line.contains(run)), "{said}");
    }
}
