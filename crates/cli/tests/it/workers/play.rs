//! Playing a scenario: many runs of it at once, each of which stops at another point; then somebody is killed.
//!
//! Runs say where they are by files, so a kill is exact: nothing here depends on how fast anything is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::runner::{Runner, Start, Worker};
use super::scenario::Scenario;
use super::wire::Wire;
use crate::support::{PATIENCE, Server, Site, answer};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Victim {
    Worker,
    Server,
    Both,
}

/// Where a run is when somebody is killed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stop {
    /// Its worker has come to a point, so many times.
    Point(String, u64),
    /// This question is open.
    Open(String),
    /// This question was answered a moment ago.
    Answered(String),
    /// It waits for a time.
    Asleep,
    /// Nowhere: it begins and ends while nobody is killed.
    Nowhere,
}

/// One run of the scenario.
pub(super) struct Play {
    pub(super) label: String,
    pub(super) run: String,
    pub(super) stop: Stop,
}

/// How often a step was done: by run, program and step.
pub(super) type Effects = BTreeMap<(String, String, String), usize>;

/// A server, a worker, people and the outside world.
pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    runner: Runner,
    site: Site,
    wire: Wire,
    server: Server,
    worker: Worker,
    /// Questions stay open whose runs stop at them.
    patient: bool,
    labels: BTreeMap<String, String>,
    /// Which questions were answered, by run.
    pub(super) answered: BTreeSet<(String, String)>,
    pub(super) plays: Vec<Play>,
}

/// As many runs as may stop at once.
const CAPACITY: usize = 256;

/// How far the clock is moved at once: further than the longest lease, so that who is gone is given up.
const STRIDE_MS: i64 = 3_600_000;

impl<'a> World<'a> {
    pub(super) async fn begin(scenario: &'a Scenario, runner: Runner) -> Self {
        let site = Site::new();
        for folder in ["outside", "outside/reached", "outside/go"] {
            std::fs::create_dir(site.path(folder)).unwrap();
        }
        let server = site.start(&["--test-clock"]);
        let wire = Wire::lay().await;
        wire.lead_to(&server.url);
        let folder = site.path("outside");
        let start = Start { scenario: &scenario.path, folder: &folder, capacity: CAPACITY, changed: false };
        let worker = Worker::start(runner, &wire.url, &server.key, &start);
        let (labels, answered, plays) = Default::default();
        let world =
            Self { scenario, runner, site, wire, server, worker, patient: true, labels, answered, plays };
        world.until("a worker is there", async || world.workers().await.len() == 1).await;
        let workflow = async || world.server.get("/v1/workflows/main").await.0 == StatusCode::OK;
        world.until("the worker has pushed its workflows", workflow).await;
        world
    }

    /// Starts a run.
    pub(super) async fn start(&mut self, label: &str, stop: Stop) {
        let told = match &stop {
            Stop::Point(point, pass) => json!({ "point": point, "pass": pass }),
            _ => Value::Null,
        };
        let run = self.server.start_run("main", json!({ "label": label, "stop": told })).await;
        self.plays.push(Play { label: label.to_owned(), run, stop });
    }

    /// The points that a run has passed, and how often.
    pub(super) fn points(&self, label: &str) -> Vec<(String, u64)> {
        let of_run = |told: &Value| told["run"] == label;
        let passed =
            |told: Value| (told["point"].as_str().unwrap().to_owned(), told["pass"].as_u64().unwrap());
        self.lines("points").into_iter().filter(of_run).map(passed).collect()
    }

    pub(super) fn effects(&self) -> Effects {
        let mut effects = Effects::new();
        for told in self.lines("effects") {
            let [run, program, step] =
                ["run", "program", "step"].map(|key| told[key].as_str().unwrap().to_owned());
            *effects.entry((run, program, step)).or_default() += 1;
        }
        effects
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.site.path("outside").join(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Lets time pass and people answer until every run has stopped or ended.
    pub(super) async fn until_all_stop(&mut self) {
        let began = Instant::now();
        loop {
            let open = self.open_questions().await;
            let ended = self.ended().await;
            let stopped = |play: &Play| match &play.stop {
                _ if ended.contains(&play.run) => true,
                Stop::Point(..) => self.site.path("outside/reached").join(&play.label).exists(),
                Stop::Open(title) | Stop::Answered(title) => {
                    open.iter().any(|entry| self.label(entry) == play.label && entry["title"] == **title)
                }
                Stop::Asleep | Stop::Nowhere => false,
            };
            let mut going = self.plays.iter().filter(|play| !stopped(play)).peekable();
            let Some(first) = going.peek() else { return self.demand_stopped() };
            assert!(
                began.elapsed() < PATIENCE,
                "{} does not stop at {:?}: {}",
                first.run,
                first.stop,
                self.said()
            );
            self.live(open).await;
        }
    }

    /// Fails if a run ended without coming to its point. A second pass there need not be in every run.
    fn demand_stopped(&self) {
        for play in &self.plays {
            let reached = self.site.path("outside/reached").join(&play.label).exists();
            let may_miss = !matches!(play.stop, Stop::Point(_, 1));
            assert!(reached || may_miss, "{} never came to {:?}", play.run, play.stop);
        }
    }

    /// Starts a run and waits, with the clock standing still, until it waits for a time.
    pub(super) async fn put_to_sleep(&mut self) {
        self.start("asleep", Stop::Asleep).await;
        let path = format!("/v1/runs/{}/why", self.plays.last().unwrap().run);
        let sleeps = async || {
            let (_, why) = self.server.get(&path).await;
            let kinds: Vec<&str> = why["reasons"]
                .as_array()
                .unwrap()
                .iter()
                .map(|reason| reason["kind"].as_str().unwrap())
                .collect();
            !kinds.is_empty() && !kinds.contains(&"worker")
        };
        self.until("a run waits for a time", sleeps).await;
    }

    /// Kills, starts again what was killed, and lets everybody go on.
    pub(super) async fn strike(mut self, victim: Victim) -> Self {
        self.patient = false;
        for entry in self.open_questions().await {
            let title = entry["title"].as_str().unwrap().to_owned();
            let label = self.label(&entry);
            let mine = self
                .plays
                .iter()
                .any(|play| play.label == label && play.stop == Stop::Answered(title.clone()));
            if mine {
                self.resolve(&entry).await;
            }
        }
        self.worker.demand_alive();
        if victim != Victim::Server {
            self.worker.kill();
        }
        if victim != Victim::Worker {
            self.wire.cut();
            self.server.die();
        }
        // A worker that lives goes on while there is no server.
        for play in &self.plays {
            std::fs::write(self.site.path("outside/go").join(&play.label), "").unwrap();
        }
        if victim != Victim::Worker {
            self.server = self.site.start(&["--test-clock"]);
            self.wire.lead_to(&self.server.url);
        }
        if victim != Victim::Server {
            self.worker = self.hire(self.scenario.changed.is_some());
        }
        let world = self;
        // One that lives must not be given up by the clock before it could say so.
        let back = async || world.workers().await.iter().any(|worker| worker["listening"] == true);
        world.until("the worker is back", back).await;
        world
    }

    /// A worker with one slot, which everything has to go through.
    fn hire(&self, changed: bool) -> Worker {
        let folder = self.site.path("outside");
        let start = Start { scenario: &self.scenario.path, folder: &folder, capacity: 1, changed };
        Worker::start(self.runner, &self.wire.url, &self.server.key, &start)
    }

    /// Lets everything go on until what has not ended waits for code that fits, and puts the old code back.
    pub(super) async fn restore(&mut self) {
        let mut unfit = BTreeSet::new();
        let began = Instant::now();
        loop {
            let ended = self.ended().await;
            for play in self.plays.iter().filter(|play| !ended.contains(&play.run)) {
                let (_, why) = self.server.get(&format!("/v1/runs/{}/why", play.run)).await;
                let reasons = why["reasons"].to_string();
                // It waits for such code, or has waited for so long that a person is asked.
                if reasons.contains("whose code fits") || reasons.contains("(context_reset)") {
                    unfit.insert(play.run.clone());
                }
            }
            if self.plays.iter().all(|play| ended.contains(&play.run) || unfit.contains(&play.run)) {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{}", self.said());
            let mut open = self.open_questions().await;
            open.retain(|entry| !is_about_lost_context(entry));
            self.live(open).await;
        }
        assert!(!unfit.is_empty(), "the code fits every run");
        self.worker.kill();
        self.worker = self.hire(false);
    }

    /// Lets time pass and people answer until every run has ended.
    pub(super) async fn until_all_end(&mut self) {
        let began = Instant::now();
        loop {
            let ended = self.ended().await;
            let Some(going) = self.plays.iter().find(|play| !ended.contains(&play.run)) else { return };
            if began.elapsed() > PATIENCE {
                let (_, why) = self.server.get(&format!("/v1/runs/{}/why", going.run)).await;
                panic!("{} at {:?} does not end: {why:#} {}", going.run, going.stop, self.said());
            }
            let open = self.open_questions().await;
            self.live(open).await;
        }
    }

    /// A run as it is shown.
    pub(super) async fn shown(&self, play: &Play) -> Value {
        self.server.get(&format!("/v1/runs/{}", play.run)).await.1
    }

    /// The keys under which a run asked, in order.
    pub(super) async fn asked(&self, play: &Play) -> Vec<Value> {
        let events = self.server.events(&play.run).await;
        let asked = events.into_iter().filter(|event| event["type"] == "interrupt.requested");
        asked.map(|event| event["payload"].clone()).collect()
    }

    /// Who is there, as the server tells.
    pub(super) async fn workers(&self) -> Vec<Value> {
        let (status, told) = self.server.get("/v1/workers").await;
        assert_eq!(status, StatusCode::OK, "{told}");
        told["workers"].as_array().unwrap().clone()
    }

    /// Stops everything, and gives where the data are.
    pub(super) fn end(mut self) -> (Site, PathBuf) {
        self.worker.kill();
        self.server.stop();
        let data = self.site.data();
        (self.site, data)
    }

    /// People answer what is open and is to be answered, and the clock moves on.
    async fn live(&mut self, open: Vec<Value>) {
        for entry in open {
            if !self.is_left_open(&entry) {
                self.resolve(&entry).await;
            }
        }
        self.worker.demand_alive();
        self.server.advance(STRIDE_MS).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    fn is_left_open(&self, entry: &Value) -> bool {
        if is_about_resuming(entry) {
            return false;
        }
        let title = entry["title"].as_str().unwrap();
        let label = self.label(entry);
        let stops = |play: &Play| match &play.stop {
            Stop::Open(at) | Stop::Answered(at) => play.label == label && at == title,
            _ => false,
        };
        self.scenario.people[title].is_null() || self.patient && self.plays.iter().any(stops)
    }

    /// Answers a question. It may be closed by then, but only if its run is over.
    async fn resolve(&mut self, entry: &Value) {
        let [run, node, id, title] =
            ["runId", "nodeId", "interruptId", "title"].map(|key| entry[key].as_str().unwrap().to_owned());
        let value = match entry["kind"].as_str() {
            // The code that fits is there by now, and nothing was under way that must not be done twice.
            _ if is_about_lost_context(entry) => json!({ "action": "accept" }),
            // Nobody can find out what happened, so what was cut off is given up.
            _ if is_about_resuming(entry) => json!({ "action": "reject" }),
            Some("approval") => self.scenario.people[&title].clone(),
            _ => json!({ "answers": { "answer": self.scenario.people[&title] } }),
        };
        let path = format!("/v1/runs/{run}/interrupts/{node}?interruptId={id}");
        let request = self.server.request(Method::POST, &path).json(&json!({ "resumeValue": value }));
        let (status, body) = answer(request).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{title}: {body}");
        let first = is_about_resuming(entry) || self.answered.insert((self.label(entry), title.clone()));
        assert!(first, "'{title}' was asked again after it was answered");
    }

    async fn open_questions(&mut self) -> Vec<Value> {
        let (status, page) = self.server.get("/v1/interrupts?limit=500").await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let open = page["interrupts"].as_array().unwrap().clone();
        for entry in &open {
            let run = entry["runId"].as_str().unwrap();
            if !self.labels.contains_key(run) {
                let (_, shown) = self.server.get(&format!("/v1/runs/{run}")).await;
                self.labels.insert(run.to_owned(), shown["variables"]["label"].as_str().unwrap().to_owned());
            }
        }
        open
    }

    /// The run that a question belongs to; a child's are its parent's.
    fn label(&self, entry: &Value) -> String {
        self.labels[entry["runId"].as_str().unwrap()].clone()
    }

    async fn ended(&self) -> BTreeSet<String> {
        let (status, page) = self.server.get("/v1/runs?limit=500").await;
        assert_eq!(status, StatusCode::OK, "{page}");
        assert!(page["nextCursor"].is_null(), "there are more runs than are looked at");
        let ended =
            |run: &&Value| ["completed", "failed", "cancelled"].contains(&run["status"].as_str().unwrap());
        let runs = page["runs"].as_array().unwrap().iter();
        runs.filter(ended).map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let began = Instant::now();
        while !holds().await {
            assert!(began.elapsed() < PATIENCE, "it takes too long until {what}: {}", self.said());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What the workers and the server said.
    fn said(&self) -> String {
        let worker = std::fs::read_to_string(self.site.path("outside/worker.log")).unwrap_or_default();
        format!("{worker}\n{}", self.site.said())
    }
}

/// Whether a question is about a worker that could not go on with what was recorded.
fn is_about_lost_context(entry: &Value) -> bool {
    is_about_resuming(entry) && entry["title"].as_str().is_some_and(|title| title.ends_with("context_reset"))
}

/// Whether a question is the run's own: how it goes on after it was interrupted.
fn is_about_resuming(entry: &Value) -> bool {
    entry["nodeId"] == "abide:resume"
}
