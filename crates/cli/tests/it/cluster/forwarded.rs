//! Requests of a worker at another server than the one it talks to.

use std::time::Duration;

use abide_pgtest::Cluster;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::fleet::Fleet;
use crate::support::PATIENCE;

const SESSION: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

/// Where the worker registers, and where it asks for everything else.
const HOME: usize = 0;
const OTHER: usize = 1;

/// Two servers, and a worker that registered at the first.
struct Pair {
    fleet: Fleet,
    http: reqwest::Client,
}

impl Pair {
    async fn with_worker() -> Self {
        let fleet = Fleet::start(Cluster::shared().database(), None, &["", ""]).await;
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        let pair = Self { fleet, http };
        let worker = json!({
            "protocol": 1, "session": SESSION, "agent": "ada", "capacity": 2,
            "kinds": [{ "kind": "acme.work" }],
        });
        let (status, told) = pair.ask(HOME, Method::POST, "/v1/workers", Some(worker)).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        pair
    }

    fn request(&self, at: usize, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.fleet.url(at))).bearer_auth(self.fleet.key())
    }

    async fn ask(&self, at: usize, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = self.request(at, method, path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        told(request.send().await.unwrap()).await
    }

    /// Starts a run whose only node is for the worker.
    async fn start(&self, at: usize) -> String {
        let definition = json!({
            "id": "job", "name": "job", "version": "1", "edges": [], "triggers": [], "variables": [], "metadata": {},
            "settings": {},
            "nodes": [{ "id": "job", "typeId": "acme.work", "name": "job", "position": {}, "config": {}, "inputs": {} }],
        });
        let (status, told) = self.ask(at, Method::PUT, "/v1/workflows/job", Some(definition)).await;
        assert!(status.is_success(), "{told}");
        let body = json!({ "workflowId": "job" });
        let (status, told) = self.ask(at, Method::POST, "/v1/runs", Some(body)).await;
        assert!(status.is_success(), "{told}");
        told["runId"].as_str().unwrap().to_owned()
    }
}

async fn told(answer: reqwest::Response) -> (StatusCode, Value) {
    let status = answer.status();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

fn poll(after: u64, wait_ms: u64) -> Option<Value> {
    Some(json!({ "after": after, "waitMs": wait_ms }))
}

fn path(rest: &str) -> String {
    format!("/v1/workers/{SESSION}{rest}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_may_ask_any_server_for_anything() {
    let pair = Pair::with_worker().await;
    // A poll waits at the other server, and is answered with what comes about at either.
    let first = pair.request(OTHER, Method::POST, &path(":poll")).json(&poll(0, 20_000)).send();
    let (answer, run) = tokio::join!(first, pair.start(OTHER));
    let (status, messages) = told(answer.unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{messages}");
    let (task, fence) = (&messages["messages"][0]["task"], &messages["messages"][0]["fence"]);
    assert_eq!(messages["messages"][0]["runId"], *run, "{messages}");
    let step = json!({ "task": task, "fence": fence, "op": "step", "key": "a", "value": 1 });
    let ops = json!({ "ops": [step], "after": messages["at"] });
    let (status, done) = pair.ask(OTHER, Method::POST, &path("/ops"), Some(ops)).await;
    assert_eq!(status, StatusCode::OK, "{done}");
    assert!(done["results"][0].get("error").is_none(), "{done}");
    let history = path(&format!("/tasks/{}/history?after=0", task.as_str().unwrap()));
    let (status, history) = pair.ask(OTHER, Method::GET, &history, None).await;
    assert_eq!((status, history["items"].as_array().unwrap().len()), (StatusCode::OK, 1), "{history}");
    let complete = json!({ "task": task, "fence": fence, "op": "complete" });
    let (status, done) = pair.ask(OTHER, Method::POST, &path("/op"), Some(complete.clone())).await;
    assert_eq!(status, StatusCode::OK, "{done}");
    // Refusals are passed back as they are.
    let (status, refused) = pair.ask(OTHER, Method::POST, &path("/op"), Some(complete)).await;
    assert_eq!((status, &refused["error"]), (StatusCode::CONFLICT, &json!("stale_fence")), "{refused}");
    let (status, _) = pair.ask(OTHER, Method::POST, &path(":drain"), None).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (_, messages) = pair.ask(OTHER, Method::POST, &path(":poll"), poll(0, 20_000)).await;
    let kinds: Vec<&Value> =
        messages["messages"].as_array().unwrap().iter().map(|message| &message["type"]).collect();
    assert!(kinds.contains(&&json!("drain")), "{messages}");
    let (status, _) = pair.ask(OTHER, Method::DELETE, &path(""), None).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    for at in [HOME, OTHER] {
        let (status, refused) = pair.ask(at, Method::POST, &path("/ops"), Some(json!({ "ops": [] }))).await;
        assert_eq!((status, &refused["error"]), (StatusCode::NOT_FOUND, &json!("worker_unknown")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_passed_on_as_it_comes() {
    let pair = Pair::with_worker().await;
    let mut stream = pair.request(OTHER, Method::GET, &path("/stream")).send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    for _ in 0..2 {
        let run = pair.start(HOME).await;
        while !text.contains(&run) {
            let piece = stream.chunk().await.unwrap().expect("the stream goes on");
            text.push_str(&String::from_utf8_lossy(&piece));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_passed_on_is_not_passed_on_again_and_what_is_too_large_not_at_all() {
    let pair = Pair::with_worker().await;
    let heard = json!({ "ops": [] });
    let forged = pair.request(OTHER, Method::POST, &path("/ops")).header("abide-forwarded", "1 00");
    let (status, refused) = told(forged.json(&heard).send().await.unwrap()).await;
    assert_eq!((status, &refused["error"]), (StatusCode::NOT_FOUND, &json!("worker_unknown")), "{refused}");
    let large = json!({ "ops": [{ "text": "x".repeat(40 * 1024 * 1024) }] });
    let (status, refused) = pair.ask(OTHER, Method::POST, &path("/ops"), Some(large)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{refused}");
    let anonymous = pair.http.post(format!("{}{}", pair.fleet.url(OTHER), path("/ops"))).json(&heard);
    assert_eq!(anonymous.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
}

/// A server that is killed can't be reached, and after its lease it is not asked any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_server_is_gone_is_told_to_come_again() {
    let pair = Pair::with_worker().await;
    // One that is stopped takes the request, and never answers.
    pair.fleet.signal(HOME, Signal::STOP);
    let (status, refused) = pair.ask(OTHER, Method::POST, &path(":poll"), poll(0, 20_000)).await;
    assert_eq!((status, &refused["error"]), (StatusCode::NOT_FOUND, &json!("worker_unknown")), "{refused}");
    pair.fleet.kill(HOME);
    pair.fleet.raise(HOME);
    let worker = json!({
        "protocol": 1, "session": SESSION, "agent": "ada", "capacity": 2, "kinds": [{ "kind": "acme.work" }],
    });
    let (status, _) = pair.ask(HOME, Method::POST, "/v1/workers", Some(worker)).await;
    assert_eq!(status, StatusCode::OK);
    let heard = || pair.request(OTHER, Method::POST, &path("/ops")).json(&json!({ "ops": [] })).send();
    assert_eq!(heard().await.unwrap().status(), StatusCode::OK);
    pair.fleet.kill(HOME);
    let answer = heard().await.unwrap();
    assert!(answer.headers().contains_key("retry-after"), "{:?}", answer.headers());
    let (status, refused) = told(answer).await;
    assert_eq!((status, &refused["error"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("unavailable")));
    assert!(refused["message"].as_str().unwrap().contains("--advertise"), "{refused}");
    let began = std::time::Instant::now();
    while heard().await.unwrap().status() != StatusCode::NOT_FOUND {
        assert!(began.elapsed() < PATIENCE, "its lease never ends");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
