//! OpenIntent's suspensions under kill -9. Its clients suspend in three calls, so a server may die between any two of them,
//! or in one; and when somebody answers. Nothing is lost, nothing is there twice, and what was acknowledged holds.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::WINDOWS;
use crate::support::{Server, Site, answer, verify};

/// What the agent calls its question.
const SUSPENSION: &str = "s-1";

/// The three calls of a client that suspends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Status,
    Record,
    Event,
}

/// The two orders that there are.
const ORDERS: [[Call; 3]; 2] =
    [[Call::Status, Call::Record, Call::Event], [Call::Record, Call::Status, Call::Event]];

fn record() -> Value {
    json!({
        "id": SUSPENSION, "question": "Go on?", "response_type": "choice", "fallback_policy": "fail",
        "choices": [{ "value": "yes", "label": "Yes" }, { "value": "no", "label": "No" }],
        "context": { "n": 1 },
        "retry_policy": { "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "fail" },
    })
}

/// A server that lives with kills has nothing to complain about but that nobody said how people are told.
fn expect_quiet(site: &Site) {
    let said = site.said();
    for line in said.lines().filter(|line| !line.contains("somebody is not told")) {
        let complains = line.contains(" ERROR ") || line.contains(" WARN ") || line.contains("panicked");
        assert!(!complains, "the server complained: {said}");
    }
}

/// An intent, and the server that has it.
struct Story {
    site: Site,
    server: Option<Server>,
    intent: String,
    intents: u64,
}

impl Story {
    fn new() -> Self {
        Self { site: Site::new(), server: None, intent: String::new(), intents: 0 }
    }

    /// A server, unless a failpoint ends it before it listens.
    fn start(&mut self, flags: &[&str]) {
        let started = tokio::task::block_in_place(|| self.site.try_start(flags));
        self.server = started.ok();
    }

    fn kill(&mut self) {
        self.server.take().into_iter().for_each(Server::kill);
        expect_quiet(&self.site);
    }

    fn kill_and_start(&mut self) {
        self.kill();
        self.start(&[]);
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// What the server answers, if it lives long enough.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        version: Option<u64>,
        body: &Value,
    ) -> Option<(StatusCode, Value)> {
        let server = self.server.as_ref()?;
        let mut request = server.request(method.clone(), path).header("X-Agent-ID", "ann");
        if let Some(version) = version {
            request = request.header("If-Match", version.to_string());
        }
        answer(if method == Method::GET { request } else { request.json(body) }).await.ok()
    }

    async fn post(&self, rest: &str, version: Option<u64>, body: &Value) -> Option<(StatusCode, Value)> {
        self.ask(Method::POST, &format!("/api/v1/intents/{}{rest}", self.intent), version, body).await
    }

    async fn get(&self, rest: &str) -> Value {
        let path = format!("/api/v1/intents/{}{rest}", self.intent);
        let (status, body) = self.ask(Method::GET, &path, None, &Value::Null).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{body}");
        body
    }

    /// An active intent, on a server that nobody kills meanwhile.
    async fn begin(&mut self) {
        if self.server.is_none() {
            self.start(&[]);
        }
        let body = json!({ "title": "Crash", "status": "active" });
        let (status, made) = self.ask(Method::POST, "/api/v1/intents", None, &body).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{made}");
        self.intent = made["id"].as_str().unwrap().to_owned();
        self.intents += 1;
    }

    async fn version(&self) -> u64 {
        self.get("").await["version"].as_u64().unwrap()
    }

    async fn call(&self, call: Call, version: u64) -> Option<(StatusCode, Value)> {
        match call {
            Call::Status => {
                self.post("/status", Some(version), &json!({ "status": "suspended_awaiting_input" })).await
            }
            Call::Record => {
                let patch = json!({ "op": "set", "path": "_suspension", "value": record() });
                self.post("/state", Some(version), &json!({ "patches": [patch] })).await
            }
            Call::Event => {
                let payload = json!({ "suspension_id": SUSPENSION, "question": "Go on?" });
                let event = json!({ "event_type": "intent.suspended", "actor": "ann", "payload": payload });
                self.post("/events", None, &event).await
            }
        }
    }

    async fn done(&self, call: Call, version: u64) -> Value {
        let (status, body) = self.call(call, version).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{call:?}: {body}");
        body
    }

    /// Whether a call was taken, as whoever gets no answer sees when they look again.
    async fn was_taken(&self, call: Call) -> bool {
        let intent = self.get("").await;
        match call {
            Call::Status => intent["status"] == "suspended_awaiting_input",
            Call::Record => intent["state"]["_suspension"]["id"] == SUSPENSION,
            Call::Event => self.events("intent.suspended").await.len() == 1,
        }
    }

    async fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.get("/events?limit=1000").await;
        let of = events.as_array().unwrap().iter().filter(|event| event["event_type"] == kind);
        of.cloned().collect()
    }

    /// How many questions of this intent the inbox shows.
    async fn asked(&self) -> usize {
        let (_, inbox) = self.server().get("/v1/interrupts").await;
        let of = inbox["interrupts"].as_array().unwrap().iter();
        of.filter(|row| row["runId"].as_str().unwrap().ends_with(&self.intent)).count()
    }

    /// It waits for one answer to the one question, whatever happened before.
    async fn check_suspended(&self) {
        let intent = self.get("").await;
        assert_eq!(intent["status"], "suspended_awaiting_input", "{intent}");
        let kept = &intent["state"]["_suspension"];
        for (key, value) in record().as_object().unwrap() {
            if key != "retry_policy" {
                assert_eq!(&kept[key], value, "{intent}");
            }
        }
        assert!(kept.get("resolution").is_none() && kept["expires_at"].is_string(), "{intent}");
        assert_eq!(self.asked().await, 1, "{}", self.intent);
        let told = self.events("intent.suspended").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["payload"]["suspension_id"], SUSPENSION, "{told:?}");
        let waits = self.get("/suspensions").await;
        assert_eq!(waits["suspensions"].as_array().unwrap().len(), 1, "{waits}");
    }

    async fn respond(&self, value: &str) -> Option<(StatusCode, Value)> {
        self.post("/suspend/respond", None, &json!({ "suspension_id": SUSPENSION, "value": value })).await
    }

    /// The answer stands there, with all that belongs to it and nothing twice.
    async fn check_answered(&self, value: &str) {
        let intent = self.get("").await;
        assert_eq!(intent["status"], "active", "{intent}");
        let kept = &intent["state"]["_suspension"];
        assert_eq!((&kept["id"], &kept["response"]), (&json!(SUSPENSION), &json!(value)), "{intent}");
        assert_eq!(kept["resolution"], "responded", "{intent}");
        assert!(kept["responded_by"].is_string() && kept["responded_at"].is_string(), "{intent}");
        let resumed = self.events("intent.resumed").await;
        assert_eq!(resumed.len(), 1, "{resumed:?}");
        let payload = &resumed[0]["payload"];
        let of = (&payload["suspension_id"], &payload["value"], &payload["responded_by"]);
        assert_eq!(of, (&json!(SUSPENSION), &json!(value), &kept["responded_by"]), "{resumed:?}");
        assert_eq!(self.asked().await, 0);
        // Whoever comes later is told so.
        let (status, refused) = self.respond("no").await.unwrap();
        assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    }

    fn end(mut self) {
        let server = self.server.take().unwrap();
        assert!(server.stop().success());
        expect_quiet(&self.site);
        assert_eq!(verify(&self.site.data()), self.intents);
    }
}

/// OI-022, OI-023, OI-021: the server is killed after any of the calls that it acknowledged, in both orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oi_021_022_023_between_the_three_calls_of_a_suspension_nothing_is_lost_or_doubled() {
    let mut story = Story::new();
    for order in ORDERS {
        for killed_after in 0..=order.len() {
            story.begin().await;
            let mut version = story.version().await;
            for (at, call) in order.into_iter().enumerate() {
                if at == killed_after {
                    story.kill_and_start();
                    assert_eq!(story.version().await, version, "{order:?}, killed after {killed_after}");
                    for before in &order[..at] {
                        assert!(story.was_taken(*before).await, "{before:?} of {order:?} is lost");
                    }
                }
                let body = story.done(call, version).await;
                version = body["version"].as_u64().unwrap_or(version);
            }
            if killed_after == order.len() {
                story.kill_and_start();
            }
            story.check_suspended().await;
            let (status, told) = story.respond("yes").await.unwrap();
            assert_eq!(status, StatusCode::OK, "{told}");
            story.check_answered("yes").await;
        }
    }
    story.end();
}

/// OI-022, OI-023: the server dies in a call, before or after it is on disk. Its client looks again and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oi_022_023_in_one_of_the_calls_of_a_suspension_all_of_it_happens_or_nothing() {
    let mut story = Story::new();
    for (round, window) in WINDOWS[..2].iter().cycle().take(8).enumerate() {
        story.begin().await;
        let order = ORDERS[round / 2 % 2];
        story.kill();
        story.start(&[&format!("--failpoint={window}={}", 1 + round / 4)]);
        for call in order {
            loop {
                if story.server.is_none() {
                    story.start(&[]);
                }
                let Some((_, shown)) = story
                    .ask(Method::GET, &format!("/api/v1/intents/{}", story.intent), None, &Value::Null)
                    .await
                else {
                    story.kill();
                    continue;
                };
                match story.call(call, shown["version"].as_u64().unwrap()).await {
                    Some((StatusCode::OK, _)) => break,
                    Some((status, body)) => panic!("{call:?} of {order:?}: {status} {body}"),
                    // Nobody knows: whoever looks again sees whether it was taken.
                    None => {
                        story.kill_and_start();
                        if call != Call::Event && story.was_taken(call).await {
                            break;
                        }
                    }
                }
            }
        }
        story.kill_and_start();
        story.check_suspended().await;
    }
    story.end();
}

/// OI-036, OI-037: an answer that was acknowledged is there after a kill, and it is all there or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oi_036_037_an_acknowledged_answer_survives_and_is_never_half_there() {
    let mut story = Story::new();
    let failpoints = [None, Some("decide-commit"), Some("commit-acknowledge")];
    for failpoint in failpoints.into_iter().cycle().take(6) {
        story.begin().await;
        let suspended = story.done(Call::Status, story.version().await).await;
        story.done(Call::Record, suspended["version"].as_u64().unwrap()).await;
        story.check_suspended().await;
        if let Some(window) = failpoint {
            story.kill();
            story.start(&[&format!("--failpoint={window}=1")]);
        }
        let told = story.respond("yes").await;
        story.kill_and_start();
        match told {
            Some((StatusCode::OK, told)) => {
                let kept = story.get("").await["state"]["_suspension"].clone();
                assert_eq!(kept["responded_at"], told["responded_at"], "{failpoint:?}: {kept}");
            }
            Some((status, body)) => panic!("{failpoint:?}: {status} {body}"),
            None => {
                assert!(failpoint.is_some(), "a server that nobody killed did not answer");
                // All of it or nothing: whoever got no answer asks again, and is told the truth.
                let taken = story.get("").await["status"] == "active";
                assert_eq!(story.events("intent.resumed").await.len(), usize::from(taken));
                let (status, body) = story.respond("yes").await.unwrap();
                let expected = if taken { StatusCode::CONFLICT } else { StatusCode::OK };
                assert_eq!(status, expected, "{failpoint:?}: {body}");
            }
        }
        story.kill_and_start();
        story.check_answered("yes").await;
    }
    story.end();
}
