//! Several servers on one PostgreSQL: whatever one of them knows, holds or was doing when it died, the others go on rightly.

mod for_all;
mod upgrade;

use std::sync::{Arc, Condvar, Mutex};

use abide_core::{EventType, Json, Key, Millis, Rejection, Run, Status};
use abide_engine::{Clock, Engine, EngineOptions, Error, NewRun, StoreClock, TestClock, verify};
use abide_pgtest::Database;
use abide_store::{Postgres, PostgresOptions, Role, Stage, StageHook, Store, View};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::peer::{Act, Peer, answer};
use crate::support::{START, TENANT, options, within};
use crate::workers::{KIND, new_session};

/// A server: an engine and its store, on threads of their own, so that it can die.
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Postgres>,
    pub(crate) runtime: Option<Runtime>,
}

impl Server {
    pub(crate) fn start(database: &Database) -> Self {
        Self::with(database, None, |options| options)
    }

    fn with(
        database: &Database,
        on_stage: Option<StageHook>,
        change: impl FnOnce(EngineOptions) -> EngineOptions,
    ) -> Self {
        let place = PostgresOptions { on_stage, ..PostgresOptions::new(database.url()) };
        let store = Arc::new(Postgres::open(&place).unwrap());
        let shared: Arc<dyn Store> = store.clone();
        let clock = StoreClock::of(&shared);
        Self::on(store, change(options(shared, clock)))
    }

    /// With a clock that is moved by hand.
    pub(crate) async fn with_test_clock(database: &Database) -> (Self, Arc<TestClock>) {
        let store = Arc::new(Postgres::open(&PostgresOptions::new(database.url())).unwrap());
        let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
        (Self::on(store.clone(), options(store, clock.clone())), clock)
    }

    fn on(store: Arc<Postgres>, options: EngineOptions) -> Self {
        let runtime = Runtime::new().unwrap();
        let engine = {
            let _within = runtime.enter();
            Engine::start(options)
        };
        Self { engine, store, runtime: Some(runtime) }
    }

    /// Dies, as by SIGKILL: nothing is put in order, and nobody is told.
    pub(crate) fn die(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    async fn run(&self, workflow: &str) -> Key {
        self.engine.start_run(NewRun::of(TENANT, workflow)).await.unwrap().0.of(TENANT)
    }

    /// A run that waits for `ms`.
    async fn run_waiting(&self, ms: Millis) -> Key {
        let inputs = [("delayMs".to_owned(), Json::of(&ms))].into();
        let new = NewRun { inputs, ..NewRun::of(TENANT, "wait") };
        self.engine.start_run(new).await.unwrap().0.of(TENANT)
    }

    async fn push(&self, id: &str, nodes: Value) {
        let definition = json!({
            "id": id, "name": id, "version": "1", "edges": [], "triggers": [], "variables": [], "metadata": {},
            "settings": { "abide": { "resume": { "onRefusal": "fail" } } }, "nodes": nodes,
        });
        self.engine.push_workflow(TENANT, definition.to_string().as_bytes(), None).await.unwrap();
    }

    pub(crate) async fn status(&self, key: Key) -> Status {
        self.engine.head(key).await.unwrap().summary.status
    }

    pub(crate) async fn end_of(&self, key: Key) -> Status {
        let mut news = self.engine.subscribe(key);
        loop {
            let status = self.status(key).await;
            if status.is_terminal() {
                return status;
            }
            within("a run to end", news.changed()).await;
        }
    }

    pub(crate) async fn story(&self, key: Key) -> Vec<&'static str> {
        let records = self.engine.events(key, 0, usize::MAX).await.unwrap();
        records.iter().map(|record| EventType::by_code(record.type_code).unwrap().name).collect()
    }

    /// Waits until it sees so.
    pub(crate) async fn sees(&self, what: impl FnMut(&View) -> bool) {
        let mut view = self.store.cluster().unwrap().view();
        within("the servers to know of each other", view.wait_for(what)).await.unwrap();
    }

    pub(crate) async fn verify(&self) {
        let report = verify::verify(&*self.store, |_| ()).await.unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn node(id: &str, kind: &str, config: &Value) -> Value {
    json!({ "id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {} })
}

pub(crate) fn count(story: &[&str], name: &str) -> usize {
    story.iter().filter(|event| **event == name).count()
}

/// Each server has the run in memory as it was before the other moved it. Neither ever says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_says_nothing_about_a_run_that_another_has_moved_on() {
    let database = Database::new();
    let servers = [Server::start(&database), Server::start(&database)];
    let key = servers[0].run_waiting(3_600_000).await;
    for round in 0..30 {
        let (one, other) = (&servers[round % 2].engine, &servers[(round + 1) % 2].engine);
        assert_eq!(one.pause(key, None, None).await.unwrap(), Status::Paused, "round {round}");
        assert_eq!(other.read(key, Run::status).await.unwrap(), Status::Paused, "round {round}");
        other.resume(key, None).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let rejected = one.resume(key, None).await;
        assert!(matches!(rejected, Err(Error::Rejected(Rejection::NotPaused))), "{rejected:?}");
    }
    servers[1].engine.cancel(key, None, None).await.unwrap();
    assert_eq!(servers[0].engine.read(key, Run::status).await.unwrap(), Status::Cancelled);
    servers[0].engine.erase(key, None, None).await.unwrap();
    let erased = servers[1].engine.read(key, Run::status).await;
    assert!(matches!(erased, Err(Error::Erased(_))), "{erased:?}");
    servers[0].verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_at_once_on_both_servers_are_each_decided_once() {
    let database = Database::new();
    let servers = [Server::start(&database), Server::start(&database)];
    let key = servers[0].run_waiting(3_600_000).await;
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..40 {
        let engine = servers[n % 2].engine.clone();
        asked.spawn(async move {
            match n % 4 {
                0 | 1 => engine.pause(key, None, None).await,
                _ => engine.resume(key, None).await,
            }
        });
    }
    let mut changed = 0;
    while let Some(answer) = asked.join_next().await {
        match answer.unwrap() {
            Ok(_) => changed += 1,
            Err(Error::Rejected(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(changed > 0);
    servers[0].verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_a_run_on_one_server_hears_what_another_does() {
    let database = Database::new();
    let (one, two) = (Server::start(&database), Server::start(&database));
    let key = one.run_waiting(3_600_000).await;
    let mut news = two.engine.subscribe(key);
    one.engine.pause(key, None, None).await.unwrap();
    let next = one.engine.head(key).await.unwrap().next;
    within("a commit of another server", async {
        while news.known() < next {
            news.changed().await;
        }
    })
    .await;
    one.engine.cancel(key, None, None).await.unwrap();
    within("the end", news.ended()).await;
}

/// Hints may be lost; then whoever follows a run waits for the next look.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_was_told_of_is_found_by_looking() {
    let database = Database::new();
    let two = Server::start(&database);
    let key = two.run_waiting(3_600_000).await;
    let mut news = two.engine.subscribe(key);
    // Nobody but its own engine is told of what this store writes: it knows of no other server yet.
    let one = Server::start(&database);
    one.engine.cancel(key, None, None).await.unwrap();
    within("the end", news.ended()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_of_a_server_that_dies_fires_once_elsewhere() {
    let database = Database::new();
    let (one, two) = (Server::start(&database), Server::start(&database));
    let near = one.run_waiting(1_500).await;
    let far = one.run_waiting(61_000).await;
    one.die();
    assert_eq!(two.end_of(near).await, Status::Completed);
    assert_eq!(count(&two.story(near).await, "node.completed"), 1);
    assert_eq!(two.status(far).await, Status::Running);
    two.verify().await;
}

/// Both servers live and take what lies on disk: each timer fires once, and none before its time.
#[tokio::test(flavor = "multi_thread")]
async fn timers_are_shared_among_servers() {
    let database = Database::new();
    let (one, one_clock) = Server::with_test_clock(&database).await;
    let (two, two_clock) = Server::with_test_clock(&database).await;
    let mut runs = Vec::new();
    for n in 0..40 {
        let server = if n % 2 == 0 { &one } else { &two };
        runs.push(server.run_waiting(120_000 + n).await);
    }
    one_clock.advance(119_000).await.unwrap();
    within("the other's clock", two_clock.wait_until(START + 119_000)).await;
    for key in &runs {
        assert_eq!(one.status(*key).await, Status::Running);
    }
    two_clock.advance(2_000).await.unwrap();
    for key in runs {
        assert_eq!(two.end_of(key).await, Status::Completed);
    }
    assert_eq!(one_clock.advance(1).await.unwrap(), START + 121_001, "no step is lost");
    one.verify().await;
}

/// Holds the writer of a store before its next commit is durable, once that is asked for.
#[derive(Clone, Default)]
struct Gate {
    state: Arc<(Mutex<Held>, Condvar)>,
}

#[derive(Default)]
struct Held {
    /// Commits that pass before one is held.
    pass: Option<usize>,
    holds: bool,
    open: bool,
}

impl Gate {
    fn hook(&self) -> StageHook {
        let gate = self.clone();
        Arc::new(move |stage| gate.pass(stage))
    }

    fn hold_after(&self, commits: usize) {
        self.state.0.lock().unwrap().pass = Some(commits);
    }

    fn pass(&self, stage: Stage) {
        let mut held = self.state.0.lock().unwrap();
        if stage != Stage::Committing || held.open {
            return;
        }
        match &mut held.pass {
            None => return,
            Some(0) => held.holds = true,
            Some(left) => {
                *left -= 1;
                return;
            }
        }
        while !held.open {
            held = self.state.1.wait(held).unwrap();
        }
    }

    fn holds(&self) -> bool {
        self.state.0.lock().unwrap().holds
    }

    fn open(&self) {
        self.state.0.lock().unwrap().open = true;
        self.state.1.notify_all();
    }
}

/// The server that sent it is stuck in the middle of delivering it, and goes on when another has done so.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_its_server_does_not_deliver_is_delivered_once_by_another() {
    let database = Database::new();
    let gate = Gate::default();
    let one = Server::with(&database, Some(gate.hook()), |options| options);
    let two = Server::start(&database);
    one.push("child", json!([node("n", "core.noop", &json!({}))])).await;
    one.push("parent", json!([node("call", "core.subWorkflow", &json!({ "workflowId": "child" }))])).await;
    gate.hold_after(1);
    let parent = one.run("parent").await;
    within("the child's commit", async {
        while !gate.holds() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(two.end_of(parent).await, Status::Completed);
    gate.open();
    let children = two.engine.children(parent, 10).await.unwrap();
    assert_eq!(children.len(), 1);
    let child = children[0].child.of(TENANT);
    // Whatever the one was about to write is refused by now, and it knows.
    assert_eq!(one.engine.read(child, Run::status).await.unwrap(), Status::Completed);
    assert_eq!(count(&one.story(child).await, "run.started"), 1);
    assert_eq!(count(&one.story(parent).await, "child.reported"), 1);
    one.verify().await;
}

/// A workflow of one request to a peer that does not answer until it is told to.
async fn pending_request(server: &Server) -> (Peer, Key) {
    let peer = Peer::start(|_| Act::SayAndHang(Vec::new())).await;
    let request = json!({ "method": "POST", "url": peer.url("/pay") });
    server.push("request", json!([node("send", "core.http.request", &request)])).await;
    let key = server.run("request").await;
    peer.hears(1).await;
    (peer, key)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_server_that_lives_is_nobody_elses() {
    let database = Database::new();
    let (one, two) = (Server::start(&database), Server::start(&database));
    let (peer, key) = pending_request(&one).await;
    for boot in [two.store.boot(), u64::from(u32::MAX)] {
        assert_eq!(two.store.claim_tasks(boot, 10).await.unwrap(), []);
    }
    // Its lease is over, and nobody has heard: as if it were held up.
    one.store.cluster().unwrap().leave().await.unwrap();
    assert_eq!(two.end_of(key).await, Status::Failed);
    let failure = two.engine.read(key, |run| run.error().cloned()).await.unwrap().unwrap();
    assert_eq!(failure.code, "outcome_unknown");
    assert_eq!(peer.heard().len(), 1, "what may have been carried out is not sent again");
    two.verify().await;
}

/// The server is away for longer than its lease, and another has taken its task. What it reports then is refused.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_reports_that_was_away_is_refused() {
    let database = Database::new();
    let (one, two) = (Server::start(&database), Server::start(&database));
    let answered = Arc::new(Mutex::new(0));
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let counted = answered.clone();
    let peer = Peer::start(move |_| {
        let number = {
            let mut counted = counted.lock().unwrap();
            *counted += 1;
            *counted
        };
        if number == 1 {
            // The first request is answered when the second has been.
            tokio::task::block_in_place(|| released.lock().unwrap().recv().unwrap());
        }
        Act::Say(answer(200, "content-type: application/json\r\n", &format!(r#"{{"number":{number}}}"#)))
    })
    .await;
    let request = json!({ "method": "GET", "url": peer.url("/") });
    let mut send = node("send", "core.http.request", &request);
    let retry = json!({ "strategy": "fixed", "maxRetries": 3, "baseDelayMs": 1, "jitter": false });
    send["settings"] = json!({ "abide": { "retry": retry } });
    one.push("request", json!([send])).await;
    let key = one.run("request").await;
    peer.hears(1).await;
    one.store.cluster().unwrap().leave().await.unwrap();
    assert_eq!(two.end_of(key).await, Status::Completed);
    release.send(()).unwrap();
    within("the report to be refused", async {
        while one.engine.stats().tasks_under_way > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let outputs = two.engine.read(key, |run| run.nodes()[0].outputs.clone()).await.unwrap().unwrap();
    assert!(outputs.text().contains(r#""number":2"#), "{}", outputs.text());
    assert_eq!(count(&two.story(key).await, "node.completed"), 1);
    two.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_was_pushed_through_one_server_is_followed_on_another_at_once() {
    let database = Database::new();
    let (one, two) = (Server::start(&database), Server::start(&database));
    let missing = two.engine.start_run(NewRun::of(TENANT, "errand")).await;
    assert!(matches!(missing, Err(Error::WorkflowNotFound(_))), "{missing:?}");
    for nodes in 1..4 {
        let all: Vec<Value> = (0..nodes).map(|n| node(&format!("n{n}"), "core.noop", &json!({}))).collect();
        one.push("errand", json!(all)).await;
        let key = two.run("errand").await;
        assert_eq!(two.engine.read(key, |run| run.nodes().len()).await.unwrap(), nodes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_a_worker_provides_through_one_server_is_known_on_another() {
    let database = Database::new();
    let (one, two) = (Server::start(&database), Server::start(&database));
    one.push("craft", json!([node("n", KIND, &json!({}))])).await;
    let failed = two.run("craft").await;
    assert_eq!(two.end_of(failed).await, Status::Failed);
    one.engine.register_worker(new_session(1, 1)).await.unwrap();
    let offered = two.run("craft").await;
    assert_eq!(two.status(offered).await, Status::Running);
    one.engine.forget_kind(TENANT, KIND.to_owned()).await.unwrap();
    two.verify().await;
}

/// The clock is the database's, on every server.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_is_the_stores() {
    let database = Database::new();
    let (one, two) = (Server::start(&database), Server::start(&database));
    let told = || -> Millis {
        let sql = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
        database.sql(sql).trim().parse().unwrap()
    };
    let before = told();
    let (first, second) = (one.engine.clock().now(), two.engine.clock().now());
    let after = told();
    for now in [first, second] {
        assert!((before - 500..=after + 500).contains(&now), "{before} {now} {after}");
    }
    let ids = [one.run("noop").await, two.run("noop").await];
    assert!(ids.iter().all(|key| {
        let at = u64::from_be_bytes(key.id.as_bytes()[..8].try_into().unwrap()) >> 16;
        (before - 500..=told() + 500).contains(&(at as Millis))
    }));
}

/// Whoever has a role gives it up when it goes, and another takes over what is left.
#[tokio::test(flavor = "multi_thread")]
async fn another_server_takes_the_roles_of_one_that_stops() {
    let database = Database::new();
    let one = Server::start(&database);
    one.sees(|view| view.roles.len() == Role::ALL.len()).await;
    let two = Server::start(&database);
    one.engine.drain(std::time::Duration::from_secs(10)).await.unwrap();
    two.sees(|view| view.roles.len() == Role::ALL.len() && view.servers.len() == 1).await;
}
