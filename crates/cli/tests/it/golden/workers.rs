//! What came with the sixth release: nodes whose work is done outside, in every state that a worker may leave them in; and
//! with the seventh: those that were interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::{Server, node, workflow};

/// A node that is given back with a question open.
const ASKS: &str = "frozen.asks";
/// A node that is given back until a time has come.
const SLEEPS: &str = "frozen.sleeps";
/// A node that a worker has.
const HELD: &str = "frozen.held";
/// A node whose next attempt is waited for.
const RETRIES: &str = "frozen.retries";
/// A node that waits for a child.
const CALLS: &str = "frozen.calls";
/// A node that no worker has taken.
const WAITS: &str = "frozen.waits";

/// A node that was interrupted twice, so that its cool-down is waited for.
const COOLS: &str = "frozen.cools";
/// A node that was interrupted, and that a person has to decide about.
const STOPS: &str = "frozen.stops";

const ALL: [&str; 8] = [ASKS, SLEEPS, HELD, RETRIES, CALLS, COOLS, STOPS, WAITS];

/// The workflow of one node of a kind.
fn id(kind: &str) -> String {
    kind.replace('.', "-")
}

pub(super) fn definitions() -> Vec<Value> {
    let settings = |kind: &str| match kind {
        RETRIES => {
            json!({ "abide": { "retry": { "maxRetries": 3, "baseDelayMs": 60_000, "fallbackAgent": "frozen" } } })
        }
        COOLS => json!({ "abide": { "idempotent": true } }),
        _ => json!({}),
    };
    let one = |kind: &str| {
        workflow(&id(kind), &[node("job", kind, json!({}), json!({}), settings(kind))], &[], json!([]))
    };
    ALL.iter().map(|kind| one(kind)).collect()
}

/// A worker of the tests' own.
struct Hand<'a> {
    server: &'a Server,
    session: String,
    after: Value,
}

impl<'a> Hand<'a> {
    async fn register(server: &'a Server, kinds: &[&str]) -> Self {
        let session = uuid::Uuid::now_v7().to_string();
        let kinds: Vec<Value> = kinds.iter().map(|kind| json!({ "kind": kind })).collect();
        let body = json!({
            "protocol": 1, "session": session, "agent": "frozen", "capacity": 16, "kinds": kinds,
            "hooks": ["input_received"],
        });
        let (status, answer) = server.post("/v1/workers", &body).await;
        assert!(status.is_success(), "{answer}");
        Self { server, session, after: json!(0) }
    }

    async fn tasks(&mut self, wait_ms: u32) -> Vec<Value> {
        let body = json!({ "after": self.after, "max": 16, "waitMs": wait_ms });
        let (status, page) = self.server.post(&format!("/v1/workers/{}:poll", self.session), &body).await;
        assert!(status.is_success(), "{page}");
        self.after = page["at"].clone();
        let messages = page["messages"].as_array().unwrap().iter();
        messages.filter(|message| message["type"] == "task").cloned().collect()
    }

    async fn does(&self, task: &Value, mut op: Value) -> Value {
        op["task"] = task["task"].clone();
        op["fence"] = task["fence"].clone();
        let (status, result) = self.server.post(&format!("/v1/workers/{}/op", self.session), &op).await;
        assert!(status.is_success(), "{op}: {result}");
        result
    }
}

pub(super) async fn freeze(server: &Server) {
    let mut hand = Hand::register(server, &ALL[..7]).await;
    // So that the kind is known and nobody provides it.
    let absent = Hand::register(server, &[WAITS]).await;
    let gone = server.request(reqwest::Method::DELETE, &format!("/v1/workers/{}", absent.session));
    let (status, _) = crate::support::answer(gone).await.unwrap();
    assert!(status.is_success());
    for kind in ALL {
        server.start_run(&id(kind), json!({})).await;
    }
    let mut done = 0;
    // One of them comes back once.
    while done < 8 {
        for task in hand.tasks(5_000).await {
            leave(&hand, &task).await;
            done += 1;
        }
    }
}

/// Leaves a task in the state that its kind is named for.
async fn leave(hand: &Hand<'_>, task: &Value) {
    hand.does(task, json!({ "op": "step", "key": "first", "value": { "n": 1 } })).await;
    match task["kind"].as_str().unwrap() {
        ASKS => {
            let questions = json!([{ "id": "colour", "question": "Which?" }]);
            let payload = json!({ "kind": "clarification", "data": { "questions": questions } });
            let asked = hand.does(task, json!({ "op": "ask", "call": 1, "payload": payload })).await;
            hand.does(task, json!({ "op": "park", "waits": [{ "interrupt": asked["interruptId"] }] })).await;
        }
        SLEEPS => {
            hand.does(task, json!({ "op": "version", "key": "v", "version": 2, "old": false })).await;
            hand.does(task, json!({ "op": "sleep", "key": "nap", "ms": 3_600_000 })).await;
            hand.does(task, json!({ "op": "park", "waits": [{ "sleep": "nap" }] })).await;
        }
        RETRIES | COOLS | STOPS => {
            let error = json!({ "code": "no_paper", "message": "the printer has no paper" });
            let fail =
                json!({ "op": "fail", "error": error, "class": "tool", "retryable": true, "effect": "none" });
            hand.does(task, fail).await;
        }
        CALLS => {
            let child =
                json!({ "op": "child", "key": "sub", "workflowId": "waits", "inputs": {}, "outputs": [] });
            hand.does(task, child).await;
            hand.does(task, json!({ "op": "park", "waits": [{ "child": "sub" }] })).await;
        }
        _ => {
            hand.does(task, json!({ "op": "begin", "key": "second" })).await;
            hand.does(task, json!({ "op": "step", "key": "second", "value": 2 })).await;
        }
    }
}

/// Does whatever workers were left, until told to stop. Gives the kinds that it did.
pub(super) async fn work(server: Arc<Server>, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut hand = Hand::register(&server, &ALL).await;
    let mut done = Vec::new();
    while !stop.load(Ordering::Acquire) {
        for task in hand.tasks(200).await {
            let kind = task["kind"].as_str().unwrap().to_owned();
            let recorded: Vec<&Value> = task["history"]["items"].as_array().unwrap().iter().collect();
            if kind != WAITS {
                assert_eq!(recorded[0]["value"], json!({ "n": 1 }), "{task}");
            }
            hand.does(&task, json!({ "op": "complete", "outputs": { "kind": kind } })).await;
            done.push(kind);
        }
    }
    done.sort();
    done
}

/// Demands that everything was done that the directory's workers provide, each once.
pub(super) fn demand(done: &[String], kinds: &[String]) {
    assert_eq!(done, kinds);
}

/// Lets a run go on that is held: for a person who decides about it, or because somebody paused it.
pub(super) async fn release(server: &Server, run: &str) {
    let (_, standing) = server.get(&format!("/v1/runs/{run}/resume")).await;
    let (path, body) = if standing["escalated"] == true {
        (format!("/v1/runs/{run}/resume"), json!({ "approveSteps": ["job"] }))
    } else {
        (format!("/v1/runs/{run}:resume"), json!({}))
    };
    let (status, resumed) = server.post(&path, &body).await;
    assert!(status.is_success(), "{run}: {resumed}");
}
