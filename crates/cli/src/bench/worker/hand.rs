//! A load worker: it does as little as a worker can, so that the figures are the server's.
//!
//! It has one connection that messages come by, and a few for operations. Operations that come up while the requests of
//! all connections are under way go together in the next one.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use super::Server;
use crate::bench::wire::{Connection, request};

/// Connections for operations.
const SENDERS: usize = 2;

/// Operations in one request, at most: as many as the server takes.
const BATCH_MAX: usize = 256;

/// Milliseconds that a poll waits for messages.
const POLL_MS: u32 = 20_000;

/// What the worker does with each task.
#[derive(Clone, Copy)]
pub(super) enum Job {
    /// So many steps.
    Steps(usize),
    /// A step, a question that waits, a step.
    Roundtrip,
}

/// An operation and whoever waits for its result.
type Op = (Value, oneshot::Sender<Value>);

/// A load worker.
pub(super) struct Hand {
    inner: Arc<Inner>,
    parts: Mutex<JoinSet<anyhow::Result<()>>>,
}

struct Inner {
    address: std::net::SocketAddr,
    key: String,
    session: String,
    job: Mutex<Job>,
    ops: mpsc::Sender<Op>,
    requests: AtomicUsize,
    expected: AtomicUsize,
    done: AtomicUsize,
    finished: Notify,
    places: Mutex<Arc<Semaphore>>,
    arrival: Mutex<Instant>,
    failure: Mutex<Option<String>>,
}

impl Hand {
    pub(super) async fn register(
        server: &Server,
        key: &str,
        kind: &str,
        capacity: usize,
    ) -> anyhow::Result<Self> {
        let session = uuid::Uuid::now_v7().to_string();
        let body = json!({
            "protocol": 1, "session": session, "agent": "bench", "capacity": capacity,
            "kinds": [{ "kind": kind, "idempotent": true }], "sdk": "abide-bench",
        });
        let mut connection = Connection::open(server.address).await?;
        let register = request(server.address, key, "POST", "/v1/workers", Some(&body));
        let (status, answer) = connection.ask(&register).await?;
        anyhow::ensure!(status == 200, "the server answered {status}: {}", String::from_utf8_lossy(answer));
        let (ops, queue) = mpsc::channel(BATCH_MAX * 4);
        let inner = Arc::new(Inner {
            address: server.address,
            key: key.to_owned(),
            session,
            job: Mutex::new(Job::Steps(0)),
            ops,
            requests: AtomicUsize::new(0),
            expected: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            finished: Notify::new(),
            places: Mutex::new(Arc::new(Semaphore::new(0))),
            arrival: Mutex::new(Instant::now()),
            failure: Mutex::new(None),
        });
        let mut parts = JoinSet::new();
        let queue = Arc::new(tokio::sync::Mutex::new(queue));
        for _ in 0..SENDERS {
            let connection = Connection::open(server.address).await?;
            parts.spawn(watched(inner.clone(), send(inner.clone(), queue.clone(), connection)));
        }
        parts.spawn(watched(inner.clone(), listen(inner.clone(), connection)));
        Ok(Self { inner, parts: Mutex::new(parts) })
    }

    /// What is done with tasks from here on.
    pub(super) fn sets(&self, job: Job) {
        *lock(&self.inner.job) = job;
    }

    /// So many more tasks will come.
    pub(super) fn expects(&self, tasks: usize) {
        self.inner.expected.fetch_add(tasks, Relaxed);
    }

    /// Places that tasks give back when they are done.
    pub(super) fn places(&self, count: usize) -> Arc<Semaphore> {
        let places = Arc::new(Semaphore::new(count));
        *lock(&self.inner.places) = places.clone();
        places
    }

    /// Waits until all tasks that were expected are done.
    pub(super) async fn finished(&self) -> anyhow::Result<()> {
        loop {
            let heard = self.inner.finished.notified();
            if let Some(failure) = lock(&self.inner.failure).clone() {
                anyhow::bail!("the load worker failed: {failure}");
            }
            if self.inner.done.load(Relaxed) >= self.inner.expected.load(Relaxed) {
                return Ok(());
            }
            heard.await;
        }
    }

    /// When the last task came.
    pub(super) fn last_arrival(&self) -> Instant {
        *lock(&self.inner.arrival)
    }

    /// Requests with operations so far.
    pub(super) fn requests(&self) -> usize {
        self.inner.requests.load(Relaxed)
    }

    pub(super) async fn leave(self) -> anyhow::Result<()> {
        lock(&self.parts).abort_all();
        let path = format!("/v1/workers/{}", self.inner.session);
        let leave = request(self.inner.address, &self.inner.key, "DELETE", &path, None);
        let mut connection = Connection::open(self.inner.address).await?;
        let (status, _) = connection.ask(&leave).await?;
        anyhow::ensure!(status < 300, "the server answered {status}");
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What goes wrong in the background is told to whoever waits.
async fn watched(inner: Arc<Inner>, part: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    if let Err(error) = part.await {
        lock(&inner.failure).get_or_insert(format!("{error:#}"));
        inner.finished.notify_waiters();
        inner.finished.notify_one();
    }
    Ok(())
}

/// Takes messages, and does what they ask for.
async fn listen(inner: Arc<Inner>, mut connection: Connection) -> anyhow::Result<()> {
    let path = format!("/v1/workers/{}:poll", inner.session);
    let mut after = 0;
    loop {
        let body = json!({ "after": after, "max": BATCH_MAX, "waitMs": POLL_MS });
        let poll = request(inner.address, &inner.key, "POST", &path, Some(&body));
        let (status, answer) = connection.ask(&poll).await?;
        anyhow::ensure!(status == 200, "a poll was answered {status}: {}", String::from_utf8_lossy(answer));
        let page: Value = serde_json::from_slice(answer)?;
        after = page["at"].as_u64().context("a page without its place")?;
        for message in page["messages"].as_array().into_iter().flatten() {
            if message["type"] == "task" {
                *lock(&inner.arrival) = Instant::now();
                tokio::spawn(watched(inner.clone(), perform(inner.clone(), message.clone())));
            }
        }
    }
}

/// Sends operations: whatever has come up since the last request of this connection.
async fn send(
    inner: Arc<Inner>,
    queue: Arc<tokio::sync::Mutex<mpsc::Receiver<Op>>>,
    mut connection: Connection,
) -> anyhow::Result<()> {
    let path = format!("/v1/workers/{}/ops", inner.session);
    let mut batch = Vec::with_capacity(BATCH_MAX);
    loop {
        if queue.lock().await.recv_many(&mut batch, BATCH_MAX).await == 0 {
            return Ok(());
        }
        let (ops, waiting): (Vec<Value>, Vec<_>) = batch.drain(..).unzip();
        let ask = request(inner.address, &inner.key, "POST", &path, Some(&json!({ "ops": ops })));
        let (status, answer) = connection.ask(&ask).await?;
        inner.requests.fetch_add(1, Relaxed);
        anyhow::ensure!(status == 200, "ops were answered {status}: {}", String::from_utf8_lossy(answer));
        let Value::Object(mut answer) = serde_json::from_slice(answer)? else {
            anyhow::bail!("results are no object");
        };
        let Some(Value::Array(results)) = answer.remove("results") else {
            anyhow::bail!("an answer without results");
        };
        for (waiting, result) in waiting.into_iter().zip(results) {
            // Whoever waited may have failed meanwhile.
            let _ = waiting.send(result);
        }
    }
}

/// A task in hand.
struct Held<'a> {
    inner: &'a Inner,
    task: &'a Value,
}

impl Held<'_> {
    async fn does(&self, mut op: Value) -> anyhow::Result<Value> {
        op["task"] = self.task["task"].clone();
        op["fence"] = self.task["fence"].clone();
        let (tell, told) = oneshot::channel();
        self.inner.ops.send((op, tell)).await.ok().context("nobody sends")?;
        let result = told.await?;
        anyhow::ensure!(result["ok"] == true, "an operation was refused: {result}");
        Ok(result)
    }
}

async fn perform(inner: Arc<Inner>, task: Value) -> anyhow::Result<()> {
    let held = Held { inner: &inner, task: &task };
    let job = *lock(&inner.job);
    match job {
        Job::Steps(count) => {
            for n in 0..count {
                held.does(json!({ "op": "step", "key": format!("s{n}"), "value": { "n": n } })).await?;
            }
        }
        Job::Roundtrip => {
            held.does(json!({ "op": "step", "key": "before", "value": {} })).await?;
            let asked = held.does(question()).await?;
            if asked["state"] == "open" {
                held.does(json!({ "op": "park", "waits": [{ "interrupt": asked["interruptId"] }] })).await?;
                return answer(&inner, &task).await;
            }
            held.does(json!({ "op": "step", "key": "after", "value": {} })).await?;
        }
    }
    held.does(json!({ "op": "complete", "outputs": {} })).await?;
    inner.done.fetch_add(1, Relaxed);
    lock(&inner.places).add_permits(1);
    inner.finished.notify_one();
    Ok(())
}

fn question() -> Value {
    let data =
        json!({ "title": "Go on?", "artifactId": "a", "artifactType": "t", "actions": ["accept", "reject"] });
    json!({ "op": "ask", "call": 1, "payload": { "kind": "approval", "data": data } })
}

/// What a person does, over a connection of their own.
async fn answer(inner: &Inner, task: &Value) -> anyhow::Result<()> {
    let run = task["runId"].as_str().context("a task without a run")?;
    let path = format!("/v1/runs/{run}/interrupts/work");
    let body = json!({ "resumeValue": { "action": "accept" } });
    let ask = request(inner.address, &inner.key, "POST", &path, Some(&body));
    let mut connection = Connection::open(inner.address).await?;
    let (status, answer) = connection.ask(&ask).await?;
    anyhow::ensure!(status == 200, "an answer was answered {status}: {}", String::from_utf8_lossy(answer));
    Ok(())
}
