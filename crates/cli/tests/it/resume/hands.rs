//! Workers: killed within a step, losing what they work with, and coming back without their task.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::other::Mood;
use super::*;
use crate::support::PATIENCE;
use crate::workers::sdk_home;

/// What the worker of a drill does: a step whose effect is written down, then what it is told to.
const PROGRAM: &str = r#"
import asyncio, pathlib
from abide import App, Context, ContextLostError

app = App("drill")

async def effect(name: str) -> None:
    with open("effects", "a") as effects:
        print(name, file=effects, flush=True)
    match pathlib.Path("mood").read_text():
        case "stay":
            await asyncio.sleep(3600)
        case "forget":
            raise ContextLostError("the sandbox is gone")

@app.node("drill.twice", idempotent=True)
async def twice(ctx: Context) -> None:
    await ctx.step("look", effect, "twice")

@app.node("drill.once")
async def once(ctx: Context) -> dict[str, object]:
    return {"receipt": await ctx.step("charge", effect, "once")}
"#;

/// Longer than a silent worker is believed to be there.
const LEASE_MS: i64 = 31 * SECOND_MS;

/// A worker in a process of its own.
struct Worker(Child);

impl Worker {
    fn start(drill: &Drill) -> Self {
        let folder = drill.site.path("outside");
        let log = drill.site.path("worker.log");
        let mut command = Command::new(sdk_home().join("bin/abide-worker"));
        command.arg("drill:app").current_dir(&folder).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("ABIDE_URL", &drill.server.url).env("ABIDE_API_KEY", &drill.server.key);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        let mut worker = Self(command.spawn().unwrap());
        let began = Instant::now();
        while !std::fs::read_to_string(&log).unwrap().contains("works for") {
            let ended = worker.0.try_wait().unwrap();
            let said = std::fs::read_to_string(&log).unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "the worker does not start: {said}");
            std::thread::yield_now();
        }
        worker
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Kills it as `kill -9` does.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drill {
    /// A drill with workflows for workers.
    async fn with_workers() -> Self {
        let mut drill = Self::begin().await;
        for name in ["twice", "once"] {
            let only = node(name, &format!("drill.{name}"), json!({}), json!({}), json!({}));
            drill.site.workflow(&single(&format!("work-{name}"), &only));
        }
        std::fs::create_dir(drill.site.path("outside")).unwrap();
        std::fs::write(drill.site.path("outside/drill.py"), PROGRAM).unwrap();
        drill.kill();
        drill
    }

    fn workers_are_to(&self, mood: &str) {
        std::fs::write(self.site.path("outside/mood"), mood).unwrap();
    }

    fn done(&self, name: &str) -> usize {
        let effects = std::fs::read_to_string(self.site.path("outside/effects")).unwrap_or_default();
        effects.lines().filter(|line| *line == name).count()
    }

    /// Waits until the server has noticed that a run was interrupted, and decided what becomes of it.
    async fn await_interrupted(&self, run: &str) {
        self.await_view(run, |view| view["interrupted"] == true).await;
    }

    /// Waits until the server has noticed something about a run.
    async fn await_view(&self, run: &str, stands: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        while !stands(&self.view(run).await) {
            assert!(began.elapsed() < PATIENCE, "{:#}", self.view(run).await);
            tokio::task::yield_now().await;
        }
        self.server.settle().await;
    }

    async fn await_done(&self, name: &str, count: usize) {
        let began = Instant::now();
        while self.done(name) < count {
            assert!(began.elapsed() < PATIENCE, "'{name}' was done {} times", self.done(name));
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_within_a_step_leaves_what_may_be_done_twice_to_the_next() {
    let drill = Drill::with_workers().await;
    drill.workers_are_to("stay");
    let worker = Worker::start(&drill);
    let run = drill.server.start_run("work-twice", json!({})).await;
    drill.await_done("twice", 1).await;
    worker.kill();
    drill.server.advance(LEASE_MS).await;
    drill.await_view(&run, |view| attempts(view) == 1).await;
    let view = drill.view(&run).await;
    assert_eq!(
        (attempts(&view), &view["interrupted"]),
        (1, &json!(false)),
        "it waits for a worker: {view:#}"
    );
    let worker = Worker::start(&drill);
    drill.await_done("twice", 2).await;
    worker.kill();
    drill.server.advance(LEASE_MS).await;
    drill.await_interrupted(&run).await;
    demand_cooling(&drill.view(&run).await, "process_crash", 29, 2);
    drill.workers_are_to("do it");
    let worker = Worker::start(&drill);
    drill.server.advance(28 * SECOND_MS).await;
    drill.server.settle_with(&[worker.pid()]).await;
    demand_cooling(&drill.view(&run).await, "process_crash", 1, 2);
    assert_eq!(drill.done("twice"), 2);
    drill.server.advance(SECOND_MS).await;
    drill.server.settle_with(&[worker.pid()]).await;
    drill.demand_completed(&run).await;
    assert_eq!(drill.done("twice"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_within_a_step_that_must_not_be_done_twice_leaves_it_to_a_person() {
    let drill = Drill::with_workers().await;
    drill.workers_are_to("stay");
    let worker = Worker::start(&drill);
    let run = drill.server.start_run("work-once", json!({})).await;
    drill.await_done("once", 1).await;
    worker.kill();
    drill.server.advance(LEASE_MS).await;
    drill.await_interrupted(&run).await;
    let view = drill.view(&run).await;
    demand_escalated(&view, "resume_non_idempotent_step", "process_crash");
    assert_eq!((&view["steps"][0]["steps"], attempts(&view)), (&json!(["charge"]), 0), "{view:#}");
    drill.workers_are_to("do it");
    let worker = Worker::start(&drill);
    drill.server.advance(DAY_MS).await;
    drill.server.settle_with(&[worker.pid()]).await;
    drill.refused(&run, json!({ "force": true, "reason": "now" }), "resume_non_idempotent_step").await;
    assert_eq!(drill.done("once"), 1);
    let (status, told) = drill.server.post(&path(&run), &json!({ "approveSteps": ["once"] })).await;
    assert_eq!(status, StatusCode::OK, "{told:#}");
    drill.server.settle_with(&[worker.pid()]).await;
    drill.demand_completed(&run).await;
    assert_eq!(drill.done("once"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_was_done_after_all_is_not_done_again_and_the_run_goes_on_behind_it() {
    let drill = Drill::with_workers().await;
    drill.workers_are_to("stay");
    let worker = Worker::start(&drill);
    let work = drill.server.start_run("work-once", json!({})).await;
    drill.await_done("once", 1).await;
    worker.kill();
    drill.other.is(Mood::HangsUp);
    let request = drill.server.start_run("once", json!({})).await;
    drill.server.advance(LEASE_MS).await;
    drill.await_interrupted(&work).await;
    drill.workers_are_to("do it");
    let worker = Worker::start(&drill);
    for (run, came) in [(&work, json!("R-1")), (&request, json!({ "receipt": "R-1" }))] {
        demand_escalated(
            &drill.view(run).await,
            "resume_non_idempotent_step",
            if *run == work { "process_crash" } else { "tool_failure" },
        );
        let (status, told) = drill.server.post(&path(run), &json!({ "done": { "once": came } })).await;
        assert_eq!(status, StatusCode::OK, "{told:#}");
        drill.server.settle_with(&[worker.pid()]).await;
        drill.demand_completed(run).await;
        let outputs = &drill.shown(run).await["nodeStates"]["once"]["outputs"];
        assert_eq!(*outputs, json!({ "receipt": "R-1" }));
    }
    assert_eq!((drill.done("once"), drill.other.effects("once")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_what_it_works_with_begins_anew_or_a_person_decides() {
    let drill = Drill::with_workers().await;
    drill.workers_are_to("forget");
    let worker = Worker::start(&drill);
    let workers = [worker.pid()];
    let twice = drill.server.start_run("work-twice", json!({})).await;
    let once = drill.server.start_run("work-once", json!({})).await;
    drill.server.settle_with(&workers).await;
    demand_escalated(&drill.view(&once).await, "resume_non_idempotent_step", "context_reset");
    let view = drill.view(&twice).await;
    demand_cooling(&view, "context_reset", 10, 2);
    assert_eq!((&view["steps"][0]["code"], drill.done("twice")), (&json!("context_lost"), 2), "{view:#}");
    drill.workers_are_to("do it");
    for (seconds, done) in [(9, 2), (1, 3)] {
        drill.server.advance(seconds * SECOND_MS).await;
        drill.server.settle_with(&workers).await;
        assert_eq!(drill.done("twice"), done);
    }
    drill.demand_completed(&twice).await;
    assert_eq!(drill.done("once"), 1);
    let (status, told) = drill.server.post(&path(&once), &json!({ "approveSteps": ["once"] })).await;
    assert_eq!(status, StatusCode::OK, "{told:#}");
    drill.server.settle_with(&workers).await;
    drill.demand_completed(&once).await;
    assert_eq!(drill.done("once"), 2);
}

/// A worker that a test plays by the protocol itself, under one session.
struct Hand<'a> {
    server: &'a Server,
    session: String,
    after: Value,
}

impl<'a> Hand<'a> {
    async fn register(server: &'a Server) -> Self {
        let hand = Self { server, session: uuid::Uuid::now_v7().to_string(), after: json!(0) };
        hand.again().await;
        hand
    }

    /// Registers, and says that it holds nothing.
    async fn again(&self) {
        let body = json!({
            "protocol": 1, "session": self.session, "agent": "drill", "capacity": 4,
            "kinds": [{ "kind": "drill.twice", "idempotent": true }, { "kind": "drill.once" }],
        });
        let (status, told) = self.server.post("/v1/workers", &body).await;
        assert!(status.is_success(), "{told}");
    }

    /// The task that it is given next, which it has heard of then.
    async fn task(&mut self) -> Value {
        let told = self.poll(20_000).await;
        assert_eq!(told.len(), 1, "{told:#?}");
        // What was told counts as heard with the next question.
        assert!(self.poll(0).await.is_empty());
        told[0].clone()
    }

    /// The tasks that it is told of.
    async fn poll(&mut self, wait_ms: u64) -> Vec<Value> {
        let body = json!({ "after": self.after, "waitMs": wait_ms });
        let (status, told) = self.server.post(&format!("/v1/workers/{}:poll", self.session), &body).await;
        assert!(status.is_success(), "{told}");
        self.after = told["at"].clone();
        told["messages"].as_array().unwrap().iter().filter(|told| told["type"] == "task").cloned().collect()
    }

    async fn does(&self, task: &Value, op: Value) {
        let mut body = json!({ "task": task["task"], "fence": task["fence"] });
        body.as_object_mut().unwrap().extend(op.as_object().unwrap().clone());
        let (status, told) = self.server.post(&format!("/v1/workers/{}/op", self.session), &body).await;
        assert!(status.is_success(), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_comes_back_without_its_task_has_forgotten_it() {
    let drill = Drill::with_workers().await;
    let mut hand = Hand::register(&drill.server).await;
    let twice = drill.run("work-twice").await;
    hand.task().await;
    hand.again().await;
    // The first resume is immediate.
    hand.task().await;
    hand.again().await;
    drill.await_interrupted(&twice).await;
    demand_cooling(&drill.view(&twice).await, "context_reset", 10, 2);
    drill.later(9 * SECOND_MS).await;
    assert!(hand.poll(0).await.is_empty());
    drill.later(SECOND_MS).await;
    let task = hand.task().await;
    hand.does(&task, json!({ "op": "complete", "outputs": {} })).await;
    drill.demand_completed(&twice).await;

    // Nothing of it had begun: nothing is unknown, so it is offered again and costs nothing.
    let once = drill.run("work-once").await;
    hand.task().await;
    hand.again().await;
    let task = hand.task().await;
    assert_eq!(attempts(&drill.view(&once).await), 0);
    hand.does(&task, json!({ "op": "begin", "key": "charge" })).await;
    hand.again().await;
    drill.await_interrupted(&once).await;
    let view = drill.view(&once).await;
    demand_escalated(&view, "resume_non_idempotent_step", "context_reset");
    assert_eq!(view["steps"][0]["steps"], json!(["charge"]), "{view:#}");
    drill.later(DAY_MS).await;
    hand.again().await;
    assert!(hand.poll(0).await.is_empty());
    drill.refused(&once, json!({ "force": true, "reason": "now" }), "resume_non_idempotent_step").await;
    drill.resume(&once, json!({ "approveSteps": ["once"] })).await;
    let task = hand.task().await;
    hand.does(&task, json!({ "op": "complete", "outputs": {} })).await;
    drill.demand_completed(&once).await;
}
