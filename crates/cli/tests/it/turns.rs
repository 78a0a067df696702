//! Drills: turns of models on the real binary, against a provider of the test's own that counts what it is asked.
//!
//! The clock is the test's, so hours of waiting pass at once; servers are killed on the way as `kill -9` does it.

mod breakers;
mod cancels;
mod crashes;
mod history;
mod keys;
mod outages;
mod scripts;
mod streams;
mod tools;
mod usage;
mod waits;

use std::time::Instant;

use abide_core::ToolCall;
use abide_model::Protocol;
use abide_model::scripted::{Part, ScriptedProvider, Speech, Step};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Server, Site, answer, node, verify, workflow};

/// A second, a minute, an hour and a day.
const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// What a breaker is told that is to keep out of it.
const NO_BREAKER: &str = "[providers.main.breaker]\nmin-calls = 100000\n";

/// What a provider says that has too much to do, as it stands in an event.
const OVERLOADED: &str = "HTTP 429: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"The service is temporarily overloaded. Please retry.\"}}";

/// A server, a provider, and runs between them.
struct Drill {
    site: Site,
    server: Server,
    provider: ScriptedProvider,
}

/// An event of a run, as its journal has it.
#[derive(Clone, Debug)]
struct Entry {
    kind: String,
    at: i64,
    payload: Value,
}

impl Drill {
    /// A provider that speaks OpenAI's protocol, and a workflow `ask` of one turn.
    fn begin() -> Self {
        Self::with(Protocol::OpenAi, "", &[asking("ask", json!({}))])
    }

    /// A provider with more lines of configuration, and workflows.
    fn with(protocol: Protocol, more: &str, workflows: &[Value]) -> Self {
        let provider = ScriptedProvider::start();
        let site = site(&provider, protocol, more, workflows);
        let server = start(&site);
        Self { site, server, provider }
    }

    /// Kills the server as `kill -9` does, and starts another one.
    fn kill(&mut self) {
        self.server.die();
        self.server = start(&self.site);
    }

    async fn run(&self, workflow: &str) -> String {
        self.server.start_run(workflow, json!({})).await
    }

    /// Moves the clock and lets everything happen that is due by then.
    async fn later(&self, ms: i64) {
        self.server.advance(ms).await;
        self.server.settle().await;
    }

    /// The first turn of a run.
    async fn turn(&self, run: &str) -> Value {
        let (status, told) = self.server.get(&format!("/v1/runs/{run}/turns")).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        told["turns"][0].clone()
    }

    /// Waits until the turn of a run stands so.
    async fn await_turn(&self, run: &str, stands: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let turn = self.turn(run).await;
            if stands(&turn) {
                return turn;
            }
            assert!(began.elapsed() < PATIENCE, "{turn:#} {:#}", self.shown(run).await);
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the turn of a run waits for this retry.
    async fn await_retry(&self, run: &str, attempt: usize) -> Value {
        let waits = |turn: &Value| {
            let wait = &turn["wait"];
            wait["kind"] == "retry" && wait["attempt"] == attempt
        };
        self.await_turn(run, waits).await["wait"].clone()
    }

    async fn shown(&self, run: &str) -> Value {
        self.server.get(&format!("/v1/runs/{run}")).await.1
    }

    /// Waits for the end of a run, and gives it.
    async fn end(&self, run: &str) -> Value {
        self.server.events(run).await;
        self.shown(run).await
    }

    async fn demand_completed(&self, run: &str, text: &str) {
        let shown = self.end(run).await;
        assert_eq!(shown["status"], "completed", "{shown:#}");
        let outputs = &shown["nodeStates"]["ask"]["outputs"];
        assert_eq!(outputs["text"], text, "{shown:#}");
    }

    async fn demand_failed(&self, run: &str, code: &str) -> Value {
        let shown = self.end(run).await;
        assert_eq!(
            (&shown["status"], &shown["error"]["code"]),
            (&json!("failed"), &json!(code)),
            "{shown:#}"
        );
        shown
    }

    /// Everything that is recorded of a run so far.
    async fn journal(&self, run: &str) -> Vec<Entry> {
        let path = format!("/v1/runs/{run}/journal");
        let request = self.server.request(reqwest::Method::GET, &path).header("accept", "application/json");
        let (status, document) = answer(request).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{document}");
        document["events"].as_array().unwrap().iter().map(Entry::of).collect()
    }

    /// What was recorded of this kind.
    async fn recorded(&self, run: &str, kind: &str) -> Vec<Entry> {
        self.journal(run).await.into_iter().filter(|entry| entry.kind == kind).collect()
    }

    /// Waits until the provider was asked so often. It may not have been asked more often.
    fn await_asked(&self, count: usize) {
        let asked = self.provider.wait_for(count, PATIENCE).len();
        assert_eq!(asked, count, "it was asked too often");
    }

    /// Waits until nobody is connected to the provider any more.
    async fn await_hung_up(&self) {
        let began = Instant::now();
        while self.provider.in_flight() > 0 {
            assert!(began.elapsed() < PATIENCE, "the connection stays open");
            tokio::task::yield_now().await;
        }
    }

    /// Why a run is interrupted, and what is to be done about it.
    async fn resume_view(&self, run: &str) -> Value {
        let (status, view) = self.server.get(&format!("/v1/runs/{run}/resume")).await;
        assert_eq!(status, StatusCode::OK, "{view:#}");
        view
    }

    /// Demands that a run waits for a person, because its step may not be done twice.
    async fn demand_escalated(&self, run: &str, class: &str) {
        self.server.settle().await;
        let view = self.resume_view(run).await;
        assert_eq!((&view["escalated"], &view["status"]), (&json!(true), &json!("paused")), "{view:#}");
        let decision = &view["decision"];
        assert_eq!(decision["reason_code"], "resume_non_idempotent_step", "{view:#}");
        assert_eq!(decision["interruption_class"], class, "{view:#}");
    }

    /// Somebody has looked, and says that the step may be done again.
    async fn approve(&self, run: &str) {
        let told = self.server.cli(&["resume", "now", run, "--approve-step", "ask", "--reason", "once more"]);
        assert!(told.status.success(), "{told:?}");
    }
}

impl Entry {
    /// What OpenWOP has no name for stands in its log.
    fn of(event: &Value) -> Self {
        let payload = &event["payload"];
        let (kind, payload) = match event["type"].as_str().unwrap() {
            "log.appended" => (payload["data"]["journalType"].as_str().unwrap(), &payload["data"]["payload"]),
            kind => (kind, payload),
        };
        let at = event["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        Self { kind: kind.to_owned(), at: at.as_millisecond(), payload: payload.clone() }
    }
}

/// A site whose server knows the provider `main`.
fn site(provider: &ScriptedProvider, protocol: Protocol, more: &str, workflows: &[Value]) -> Site {
    let site = Site::new();
    let kind = match protocol {
        Protocol::Anthropic => "anthropic",
        Protocol::OpenAi => "openai",
    };
    let url = provider.base_url(protocol);
    let config =
        format!("[providers.main]\nkind = \"{kind}\"\nbase-url = \"{url}\"\nmodel = \"small\"\n{more}");
    std::fs::write(site.path("abide.toml"), config).unwrap();
    for workflow in workflows {
        site.workflow(workflow);
    }
    site
}

/// Starts a server on such a site, with a clock that stands.
fn start(site: &Site) -> Server {
    let config = site.path("abide.toml");
    site.start(&["--test-clock", "--allow-net", "127.0.0.1/32", "--config", config.to_str().unwrap()])
}

/// A workflow of one turn, `ask`.
fn asking(id: &str, settings: Value) -> Value {
    let config = json!({ "system": "Be brief.", "prompt": "Say something." });
    workflow(id, &[node("ask", "core.llm.turn", config, json!({}), settings)], &[], json!([]))
}

/// A call of a tool by a model.
fn call(id: &str, name: &str, arguments: &Value) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: abide_core::Json::of(arguments) }
}

/// What a model says that stops behind some words of its answer.
fn stopping(protocol: Protocol, speech: &Speech, words: &str, last: Part) -> Step {
    let mut events = speech.events(protocol, "small");
    let behind = events.iter().position(|event| event.contains(words)).expect("it says that") + 1;
    events.truncate(behind);
    Step::stream_then(events, last)
}

/// An answer in two pieces, `Hel` and `lo`.
fn hello() -> Speech {
    Speech { text: vec!["Hel".to_owned(), "lo".to_owned()], ..Speech::default() }
}

/// The texts of each call's answer, in the order in which they were told, and whether it broke off.
fn answers(chunks: &[Entry]) -> Vec<(u64, String, bool)> {
    let mut answers: Vec<(u64, String, bool)> = Vec::new();
    for chunk in chunks {
        // OpenWOP has a place of its own for what it does not know.
        let place = chunk.payload.get("meta").unwrap_or(&chunk.payload);
        let call = place["call"].as_u64().unwrap();
        let (text, broken) = (chunk.payload["chunk"].as_str().unwrap(), place["brokenOff"] == true);
        match answers.last_mut() {
            Some((last, told, was_broken)) if *last == call => {
                told.push_str(text);
                *was_broken |= broken;
            }
            _ => answers.push((call, text.to_owned(), broken)),
        }
    }
    answers
}
