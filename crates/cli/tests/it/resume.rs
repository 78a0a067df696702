//! Drills: interruptions of every class from their real causes, on the real binary, with effects counted outside.
//!
//! Each is played with a step that may be done twice and with one that must not be. The first goes on by itself, never
//! within its cool-down and never for ever; the second is never done again without somebody's approval.

mod crashes;
mod hands;
mod limits;
mod operators;
mod other;
mod requests;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{Server, Site, node, workflow};
use other::Other;

/// What every server of a drill is started with.
const FLAGS: [&str; 3] = ["--test-clock", "--allow-net", "127.0.0.1/32"];

/// A second, and a day.
const SECOND_MS: i64 = 1_000;
const DAY_MS: i64 = 86_400_000;

/// A server, somebody on the other side who counts, and a run.
struct Drill {
    site: Site,
    server: Server,
    other: Other,
}

impl Drill {
    /// A site with a workflow `twice`, whose request may be made twice, and one `once`, whose request must not be.
    async fn begin() -> Self {
        let other = Other::open().await;
        let site = Site::new();
        site.workflow(&single("twice", &other.request("GET", "twice", json!({}))));
        site.workflow(&single("once", &other.request("POST", "once", json!({}))));
        let server = site.start(&FLAGS);
        Self { site, server, other }
    }

    /// Kills the server as `kill -9` does, and starts another one.
    fn kill(&mut self) {
        self.server.die();
        self.server = self.site.start(&FLAGS);
    }

    /// Starts a run and lets everything happen that happens by itself.
    async fn run(&self, workflow: &str) -> String {
        let run = self.server.start_run(workflow, json!({})).await;
        self.server.settle().await;
        run
    }

    /// Moves the clock and lets everything happen that is due by then.
    async fn later(&self, ms: i64) {
        self.server.advance(ms).await;
        self.server.settle().await;
    }

    async fn view(&self, run: &str) -> Value {
        view(&self.server, run).await
    }

    /// Asks for the run to go on, which has to work.
    async fn resume(&self, run: &str, body: Value) -> Value {
        let (status, told) = self.server.post(&path(run), &body).await;
        assert_eq!(status, StatusCode::OK, "{told:#}");
        self.server.settle().await;
        told
    }

    /// Asks for the run to go on, which has to be refused with this code and to change nothing.
    async fn refused(&self, run: &str, body: Value, code: &str) {
        let before = self.view(run).await;
        let (status, told) = self.server.post(&path(run), &body).await;
        assert_eq!((status, &told["error"]), (StatusCode::CONFLICT, &json!(code)), "{told:#}");
        assert_eq!(told["details"]["decision"]["reason_code"], code, "{told:#}");
        assert_eq!(told["details"]["decision"]["actor"], "dev", "{told:#}");
        self.server.settle().await;
        let after = self.view(run).await;
        for key in ["status", "interrupted", "escalated", "autoResume", "steps", "interruptId", "nextAt"] {
            assert_eq!(before[key], after[key], "{key} of {after:#}");
        }
        assert_eq!(after["decisions"][0], told["details"]["decision"], "a refusal is on record");
    }

    async fn shown(&self, run: &str) -> Value {
        self.server.get(&format!("/v1/runs/{run}")).await.1
    }

    async fn demand_completed(&self, run: &str) {
        let shown = self.shown(run).await;
        assert_eq!(shown["status"], "completed", "{shown:#}");
    }
}

async fn view(server: &Server, run: &str) -> Value {
    let (status, view) = server.get(&path(run)).await;
    assert_eq!(status, StatusCode::OK, "{view:#}");
    view
}

fn path(run: &str) -> String {
    format!("/v1/runs/{run}/resume")
}

/// A workflow of one node.
fn single(id: &str, only: &Value) -> Value {
    workflow(id, std::slice::from_ref(only), &[], json!([]))
}

/// Demands that a run cools down, and for how long.
fn demand_cooling(view: &Value, class: &str, seconds: i64, attempt: u64) {
    let decision = &view["decision"];
    let told = (&decision["reason_code"], &decision["interruption_class"], &decision["eligible"]);
    assert_eq!(told, (&json!("resume_blocked_cooldown"), &json!(class), &json!(false)), "{view:#}");
    assert_eq!(decision["cooldown_seconds_remaining"], seconds, "{view:#}");
    assert_eq!((&decision["attempt"], &decision["max_attempts"]), (&json!(attempt), &json!(3)), "{view:#}");
    assert_eq!((&view["interrupted"], &view["escalated"]), (&json!(true), &json!(false)), "{view:#}");
}

/// Demands that a run waits for a person, and why.
fn demand_escalated(view: &Value, code: &str, class: &str) {
    assert_eq!((&view["escalated"], &view["status"]), (&json!(true), &json!("paused")), "{view:#}");
    assert_eq!(view["decision"]["reason_code"], code, "{view:#}");
    assert_eq!(view["decision"]["interruption_class"], class, "{view:#}");
    assert!(view["interruptId"].is_string() && view["nextAt"].is_null(), "{view:#}");
    let checklist = view["checklist"].as_array().unwrap();
    assert!(checklist.len() >= 3, "{view:#}");
    assert!(checklist[0].as_str().unwrap().contains(view["steps"][0]["code"].as_str().unwrap()), "{view:#}");
}

/// How often a run was resumed.
fn attempts(view: &Value) -> usize {
    let decisions = view["decisions"].as_array().unwrap();
    decisions.iter().filter(|decision| decision["eligible"] == true).count()
}
