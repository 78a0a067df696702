//! A worker of the Python SDK before several servers, each of whose requests goes to another one, while the server that it
//! talks to is killed or stopped: everything is done once, and nothing is thrown away.

use std::collections::BTreeMap;
use std::time::Duration;

use abide_pgtest::Cluster;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fleet::Fleet;
use super::spread::Spread;
use crate::support::PATIENCE;
use crate::workers::{PYTHON, Scenario, Start, Worker};

/// Servers, what stands before them, a worker, and the world outside.
struct Stage {
    fleet: Fleet,
    spread: Spread,
    worker: Worker,
    outside: TempDir,
    /// The runs by their labels.
    runs: BTreeMap<String, String>,
}

impl Stage {
    async fn set() -> Self {
        let fleet = Fleet::start(Cluster::shared().database(), None, &["", "", ""]).await;
        let spread = Spread::among((0..fleet.size()).map(|at| fleet.url(at)).collect()).await;
        let outside = tempfile::tempdir().unwrap();
        for folder in ["reached", "go"] {
            std::fs::create_dir(outside.path().join(folder)).unwrap();
        }
        let scenario = Scenario::read("steps");
        let start = Start { scenario: &scenario.path, folder: outside.path(), capacity: 64, changed: false };
        let worker = Worker::start(PYTHON, &spread.url, fleet.key(), &start);
        let mut stage = Self { fleet, spread, worker, outside, runs: BTreeMap::new() };
        stage.until("the worker is there", async |stage| stage.workers().await == 1).await;
        stage
            .until("it has pushed its workflow", async |stage| {
                let asked = stage.fleet.http.get(format!("{}/v1/workflows/main", stage.spread.url));
                let asked = asked.bearer_auth(stage.fleet.key()).send().await;
                asked.is_ok_and(|answer| answer.status().is_success())
            })
            .await;
        stage
    }

    async fn workers(&self) -> usize {
        self.fleet.get("/v1/workers").await["workers"].as_array().unwrap().len()
    }

    /// Starts a run that stops at a point of its program, if one is given.
    async fn start(&mut self, label: &str, stop: Option<&str>) {
        let stop = stop.map_or(Value::Null, |point| json!({ "point": point, "pass": 1 }));
        let body = json!({ "workflowId": "main", "inputs": { "label": label, "stop": stop } });
        let asked =
            self.fleet.http.post(format!("{}/v1/runs", self.spread.url)).bearer_auth(self.fleet.key());
        let told: Value = asked.json(&body).send().await.unwrap().json().await.unwrap();
        self.runs.insert(label.to_owned(), told["runId"].as_str().unwrap().to_owned());
    }

    /// A run for each point of the program, all of which have come to theirs.
    async fn stop_everywhere(&mut self) {
        self.start("first", None).await;
        self.until_ended().await;
        let points: Vec<Value> = self.lines("points");
        for (n, point) in points.iter().enumerate() {
            self.start(&format!("point-{n}"), point["point"].as_str()).await;
        }
        assert!(points.len() > 10, "{points:?}");
        let reached = async |stage: &Self| {
            let stopped = |label: &&String| stage.outside.path().join("reached").join(label).exists();
            stage.runs.keys().filter(stopped).count() == points.len()
        };
        self.until("every run has stopped", reached).await;
    }

    fn go_on(&self) {
        for label in self.runs.keys() {
            std::fs::write(self.outside.path().join("go").join(label), "").unwrap();
        }
    }

    /// The server that the worker talks to.
    async fn home(&self) -> usize {
        let began = std::time::Instant::now();
        loop {
            let status = self.fleet.get("/v1/cluster").await;
            let servers = status["servers"].as_array().unwrap();
            let has_it: Vec<&Value> = servers.iter().filter(|server| server["sessions"] == 1).collect();
            if let [home] = has_it[..] {
                return home["name"].as_str().unwrap().strip_prefix("server-").unwrap().parse().unwrap();
            }
            assert!(began.elapsed() < PATIENCE, "{status:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until every run has ended; one that does not tells why.
    async fn until_ended(&mut self) {
        let began = std::time::Instant::now();
        for run in self.runs.values().cloned().collect::<Vec<_>>() {
            while self.fleet.get(&format!("/v1/runs/{run}")).await["status"] != "completed" {
                self.worker.demand_alive();
                if began.elapsed() > PATIENCE {
                    let why = self.fleet.get(&format!("/v1/runs/{run}/why")).await;
                    panic!(
                        "{run} does not end: {why:#} {:#} {}",
                        self.fleet.get("/v1/workers").await,
                        self.log()
                    );
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.outside.path().join("worker.log")).unwrap_or_default()
    }

    /// Every step of every run was done once, by the worker that had it from the first.
    async fn demand_once(&mut self) {
        let mut effects: BTreeMap<(String, String), usize> = BTreeMap::new();
        for told in self.lines("effects") {
            let [run, step] = ["run", "step"].map(|key| told[key].as_str().unwrap().to_owned());
            *effects.entry((run, step)).or_default() += 1;
        }
        assert_eq!(effects.len(), 3 * self.runs.len());
        assert!(effects.values().all(|times| *times == 1), "{effects:?}");
        for run in self.runs.values() {
            let path = format!("/v1/runs/{run}/events/poll?timeout=1&lastSequence=-1");
            let page = self.fleet.get(&path).await;
            let types: Vec<&str> = page["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["type"].as_str().unwrap())
                .collect();
            assert!(types.contains(&"run.completed") && !types.contains(&"task.lost"), "{types:?}");
        }
        self.worker.demand_alive();
        self.fleet.verify(self.runs.len() as u64);
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.outside.path().join(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn until(&mut self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let began = std::time::Instant::now();
        while !holds(self).await {
            self.worker.demand_alive();
            if began.elapsed() > PATIENCE {
                panic!("it takes too long until {what}: {}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_when_its_server_is_killed_and_nothing_is_done_twice() {
    let mut stage = Stage::set().await;
    stage.stop_everywhere().await;
    let home = stage.home().await;
    stage.fleet.kill(home);
    stage.spread.avoid(home);
    stage.go_on();
    stage.until_ended().await;
    stage.start("last", None).await;
    stage.until_ended().await;
    stage.demand_once().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_for_longer_than_its_lease_takes_nothing_from_its_worker() {
    let mut stage = Stage::set().await;
    stage.stop_everywhere().await;
    let home = stage.home().await;
    stage.fleet.signal(home, Signal::STOP);
    stage.spread.avoid(home);
    let name = format!("server-{home}");
    stage
        .until("the worker talks to another", async |stage| {
            let status = stage.fleet.get("/v1/cluster").await;
            let servers = status["servers"].as_array().unwrap();
            let is_gone = |server: &Value| server["name"] == *name && server["alive"] == false;
            let has_it = |server: &Value| server["alive"] == true && server["sessions"] == 1;
            servers.iter().any(is_gone) && servers.iter().any(has_it)
        })
        .await;
    // It wakes up with all that it believed, in the middle of the work.
    stage.fleet.signal(home, Signal::CONT);
    stage
        .until("it knows that the worker has gone", async |stage| {
            let status = stage.fleet.get("/v1/cluster").await;
            let is_back = |server: &Value| server["name"] == *name && server["alive"] == true;
            let servers = status["servers"].as_array().unwrap();
            servers.iter().any(|server| is_back(server) && server["sessions"] == 0)
        })
        .await;
    stage.go_on();
    stage.until_ended().await;
    stage.start("last", None).await;
    stage.until_ended().await;
    stage.demand_once().await;
}
