//! Clients that start, cancel and look at runs for as long as there is a server, and remember what they
//! were told. A request whose connection broke is remembered as sent: both outcomes are right. If it had an
//! Idempotency-Key it is sent again, until it is answered: then exactly one run must have come of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::dice::Dice;
use super::workflows::Kind;
use crate::support::{Ask, Contract, PATIENCE, Server, answer};

/// Clients at work at the same time.
const CLIENTS: usize = 8;

/// Where the server is.
#[derive(Clone)]
enum Line {
    Down,
    Up { url: Arc<str>, key: Arc<str>, contract: Option<Arc<Contract>> },
    Over,
}

/// The clients and what they share.
pub(super) struct Load {
    line: watch::Sender<Line>,
    /// Requests that were answered with yes.
    answered: watch::Sender<u64>,
    /// The server was asked to stop, so it may say that it takes in nothing new.
    draining: AtomicBool,
    memory: Mutex<Memory>,
    http: reqwest::Client,
}

/// Everything that was asked and answered.
#[derive(Default)]
pub(super) struct Memory {
    /// Every start that was sent, by its token.
    pub(super) starts: BTreeMap<String, Start>,
    /// What was said about each run that a client knows, by its id.
    pub(super) runs: BTreeMap<String, Known>,
    /// Cancellations that were acknowledged.
    pub(super) cancels: u64,
    /// Starts that were sent again because nobody knew what became of them, and were answered then.
    pub(super) cleared_up: u64,
    /// Starts that had been answered, and were answered the same again.
    pub(super) repeated: u64,
}

/// A request to start a run.
pub(super) struct Start {
    pub(super) kind: Kind,
    /// How long its delays wait.
    pub(super) a: u64,
    pub(super) b: u64,
    /// The server said that it takes in nothing new.
    pub(super) refused: bool,
    /// It was sent with an Idempotency-Key.
    pub(super) keyed: bool,
}

/// A start as it is sent, and sent again.
#[derive(Clone)]
struct Order {
    token: String,
    kind: Kind,
    body: Value,
    keyed: bool,
}

/// What the clients were told about a run.
#[derive(Default)]
pub(super) struct Known {
    pub(super) token: String,
    /// Why it was cancelled, for each time that was asked.
    pub(super) reasons: Vec<String>,
    /// A cancellation was acknowledged before the run had ended.
    pub(super) cancelled: bool,
    /// How it ended, once somebody was told.
    pub(super) ended: Option<String>,
    /// The highest sequence that was shown.
    pub(super) sequence: i64,
    /// What was shown to have happened, and when.
    pub(super) moments: BTreeMap<Moment, i64>,
}

/// Something that happens to a run only once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moment {
    Started(String),
    Ended(String),
    Run(String),
}

impl Moment {
    /// The moment that an event stands for.
    pub(super) fn of(kind: &str, node: Option<&str>) -> Self {
        match node {
            Some(node) if kind == "node.started" => Self::Started(node.to_owned()),
            Some(node) => Self::Ended(node.to_owned()),
            None => Self::Run(kind.to_owned()),
        }
    }
}

/// Whether a run that stands so has ended.
pub(super) fn has_ended(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}

/// The connection broke, or the server said that it is going.
struct HungUp;

impl Load {
    /// Puts clients to work; they wait for a server.
    pub(super) fn begin(dice: &mut Dice) -> (Arc<Self>, JoinSet<()>) {
        let load = Arc::new(Self {
            line: watch::Sender::new(Line::Down),
            answered: watch::Sender::new(0),
            draining: AtomicBool::new(false),
            memory: Mutex::default(),
            http: reqwest::Client::builder().timeout(PATIENCE).build().unwrap(),
        });
        let mut clients = JoinSet::new();
        for name in 0..CLIENTS {
            let client = Client {
                name,
                load: load.clone(),
                dice: dice.fork(),
                sent: 0,
                to_cancel: Vec::new(),
                known: Vec::new(),
                unanswered: Vec::new(),
                answered: Vec::new(),
            };
            clients.spawn(client.work());
        }
        (load, clients)
    }

    /// There is a server: everybody talks to it.
    pub(super) fn connect(&self, server: &Server) {
        let (url, key) = (server.url.as_str().into(), server.key.as_str().into());
        self.line.send_replace(Line::Up { url, key, contract: server.contract.clone() });
    }

    /// The server is gone.
    pub(super) fn disconnect(&self) {
        self.line.send_replace(Line::Down);
    }

    /// The server will be asked to stop.
    pub(super) fn expect_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Sends the clients home.
    pub(super) async fn finish(&self, mut clients: JoinSet<()>) {
        self.line.send_replace(Line::Over);
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
    }

    /// Returns when so many more requests were acknowledged.
    pub(super) async fn acknowledge(&self, more: u64) {
        let target = *self.answered.borrow() + more;
        let mut answered = self.answered.subscribe();
        answered.wait_for(|count| *count >= target).await.unwrap();
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap()
    }

    async fn ask(&self, line: &Line, method: Method, path: &str, body: &Value) -> Result<Value, HungUp> {
        self.ask_once(line, method, path, body, None).await
    }

    /// Asks under an Idempotency-Key, if there is one.
    async fn ask_once(
        &self,
        line: &Line,
        method: Method,
        path: &str,
        body: &Value,
        once: Option<&str>,
    ) -> Result<Value, HungUp> {
        let Line::Up { url, key, contract } = line else {
            return Err(HungUp);
        };
        let mut request = self.http.request(method.clone(), format!("{url}{path}"));
        if let Some(once) = once {
            request = request.header("Idempotency-Key", once);
        }
        if method == Method::POST {
            request = request.json(body);
        }
        let (status, said) = match answer(Ask::new(request.bearer_auth(key), contract.clone())).await {
            Ok(answered) => answered,
            Err(error) if error.is_timeout() => panic!("{method} {path} was not answered: {error}"),
            Err(_) => return Err(HungUp),
        };
        match status {
            StatusCode::OK | StatusCode::CREATED => {
                self.answered.send_modify(|count| *count += 1);
                Ok(said)
            }
            // A server of another test got the port of one that was killed.
            StatusCode::UNAUTHORIZED => Err(HungUp),
            StatusCode::SERVICE_UNAVAILABLE if self.draining.load(Ordering::Relaxed) => {
                if let Some(start) = body["tags"][0].as_str() {
                    self.memory().starts.get_mut(start).unwrap().refused = true;
                }
                Err(HungUp)
            }
            _ => panic!("{method} {path} {body} was answered with {status} {said}"),
        }
    }
}

/// One client: it does one thing after the other.
struct Client {
    name: usize,
    load: Arc<Load>,
    dice: Dice,
    sent: usize,
    /// Runs that end only if they are cancelled.
    to_cancel: Vec<String>,
    known: Vec<String>,
    /// Starts of which nobody knows what became of them, to be sent again.
    unanswered: Vec<Order>,
    /// Starts that may be repeated, and what was answered.
    answered: Vec<(Order, Value)>,
}

impl Client {
    async fn work(mut self) {
        let mut lines = self.load.line.subscribe();
        loop {
            let line = lines.borrow_and_update().clone();
            let done = match line {
                Line::Over => return,
                Line::Down => Err(HungUp),
                Line::Up { .. } => self.act(&line).await,
            };
            if done.is_err() {
                // The next server has another port. A line that only hiccuped is tried again.
                let _ = tokio::time::timeout(Duration::from_millis(50), lines.changed()).await;
            }
        }
    }

    async fn act(&mut self, line: &Line) -> Result<(), HungUp> {
        if let Some(order) = self.unanswered.pop() {
            self.load.memory().starts.get_mut(&order.token).unwrap().refused = false;
            self.send(line, order).await?;
            self.load.memory().cleared_up += 1;
            return Ok(());
        }
        match self.dice.below(11) {
            10 => self.repeat(line).await,
            0..5 => self.start(line).await,
            5..7 => self.cancel(line).await,
            7 => self.poll(line).await,
            _ => self.look(line).await,
        }
    }

    async fn start(&mut self, line: &Line) -> Result<(), HungUp> {
        const MIX: [Kind; 12] = [
            Kind::Pure,
            Kind::Durable,
            Kind::Durable,
            Kind::Delays,
            Kind::Delays,
            Kind::Delays,
            Kind::Fan,
            Kind::Fan,
            Kind::Fan,
            Kind::Failing,
            Kind::Long,
            Kind::Long,
        ];
        let kind = MIX[self.dice.below(MIX.len() as u64) as usize];
        let (a, b) = (1 + self.dice.below(50), 1 + self.dice.below(50));
        let token = format!("{}-{}", self.name, self.sent);
        self.sent += 1;
        let keyed = self.dice.one_in(2);
        let start = Start { kind, a, b, refused: false, keyed };
        self.load.memory().starts.insert(token.clone(), start);
        let inputs = json!({ "token": token, "a": a, "b": b });
        let body = json!({ "workflowId": kind.id(), "inputs": inputs, "tags": [token] });
        self.send(line, Order { token, kind, body, keyed }).await
    }

    async fn send(&mut self, line: &Line, order: Order) -> Result<(), HungUp> {
        let once = order.keyed.then_some(order.token.as_str());
        let sent = self.load.ask_once(line, Method::POST, "/v1/runs", &order.body, once).await;
        let Ok(said) = sent else {
            self.unanswered.extend(order.keyed.then_some(order));
            return Err(HungUp);
        };
        let (kind, token) = (order.kind, order.token.clone());
        if order.keyed {
            self.answered.push((order, said.clone()));
        }
        let run = said["runId"].as_str().unwrap().to_owned();
        let known = Known { token, ..Known::default() };
        let mut memory = self.load.memory();
        let twice = memory.runs.insert(run.clone(), known);
        assert!(twice.is_none(), "two starts were answered with {run}");
        memory.note_status(&run, &said);
        drop(memory);
        if kind == Kind::Long {
            self.to_cancel.push(run.clone());
        }
        self.known.push(run);
        Ok(())
    }

    /// Sends a start again that was answered, maybe by a server that is long dead.
    async fn repeat(&mut self, line: &Line) -> Result<(), HungUp> {
        let Some((order, first)) = self.dice.pick(&self.answered).cloned() else { return Ok(()) };
        let again =
            self.load.ask_once(line, Method::POST, "/v1/runs", &order.body, Some(&order.token)).await?;
        assert_eq!(again, first, "{} was answered in another way", order.token);
        self.load.memory().repeated += 1;
        Ok(())
    }

    /// A run that this client knows, rather a recent one.
    fn any_run(&mut self) -> Option<String> {
        let recent = &self.known[self.known.len().saturating_sub(6)..];
        let among = if self.dice.one_in(3) { &self.known } else { recent };
        self.dice.pick(among).cloned()
    }

    /// Cancels a run that needs it, or once in a while one that does not.
    async fn cancel(&mut self, line: &Line) -> Result<(), HungUp> {
        let needs_it = self.dice.pick(&self.to_cancel).cloned();
        let run = needs_it.filter(|_| !self.dice.one_in(4)).or_else(|| self.any_run());
        let Some(run) = run else { return Ok(()) };
        let reason = format!("{}-{}", self.name, self.sent);
        self.sent += 1;
        self.load.memory().known(&run).reasons.push(reason.clone());
        let path = format!("/v1/runs/{run}/cancel");
        let said = self.load.ask(line, Method::POST, &path, &json!({ "reason": reason })).await?;
        let mut memory = self.load.memory();
        memory.cancels += 1;
        memory.note_status(&run, &said);
        memory.note_cancel(&run, &said);
        drop(memory);
        self.to_cancel.retain(|other| *other != run);
        Ok(())
    }

    async fn look(&mut self, line: &Line) -> Result<(), HungUp> {
        let Some(run) = self.any_run() else { return Ok(()) };
        let path = format!("/v1/runs/{run}");
        let said = self.load.ask(line, Method::GET, &path, &Value::Null).await?;
        let mut memory = self.load.memory();
        memory.note_status(&run, &said);
        for (node, state) in said["nodeStates"].as_object().unwrap() {
            memory.note_moment(&run, Moment::Started(node.clone()), &state["startedAt"]);
            memory.note_moment(&run, Moment::Ended(node.clone()), &state["endedAt"]);
        }
        Ok(())
    }

    async fn poll(&mut self, line: &Line) -> Result<(), HungUp> {
        let Some(run) = self.any_run() else { return Ok(()) };
        let path = format!("/v1/runs/{run}/events/poll?timeout=1");
        let said = self.load.ask(line, Method::GET, &path, &Value::Null).await?;
        let mut memory = self.load.memory();
        for event in said["events"].as_array().unwrap() {
            let moment = Moment::of(event["type"].as_str().unwrap(), event["nodeId"].as_str());
            memory.note_moment(&run, moment, &event["timestamp"]);
        }
        Ok(())
    }
}

impl Memory {
    fn known(&mut self, run: &str) -> &mut Known {
        self.runs.get_mut(run).unwrap()
    }

    /// Takes in how a run stands. What was shown once is never taken back.
    fn note_status(&mut self, run: &str, said: &Value) {
        let known = self.known(run);
        let status = said["status"].as_str().unwrap();
        match &known.ended {
            Some(ended) => assert_eq!(status, ended, "{run} had ended: {said}"),
            None if has_ended(status) => {
                known.ended = Some(status.to_owned());
            }
            None => {}
        }
        if let Some(sequence) = said["sequence"].as_i64() {
            let before = std::mem::replace(&mut known.sequence, sequence);
            assert!(sequence >= before, "{run} went back from {before}: {said}");
        }
    }

    fn note_moment(&mut self, run: &str, moment: Moment, shown: &Value) {
        let Some(shown) = shown.as_str() else { return };
        let at = shown.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        match self.known(run).moments.entry(moment) {
            Entry::Vacant(unseen) => drop(unseen.insert(at)),
            Entry::Occupied(seen) => assert_eq!(*seen.get(), at, "{run}: {:?} moved", seen.key()),
        }
    }

    fn note_cancel(&mut self, run: &str, said: &Value) {
        let status = said["status"].as_str().unwrap();
        assert!(
            ["cancelling", "cancelled", "completed", "failed"].contains(&status),
            "{run} was cancelled, but {said}"
        );
        self.known(run).cancelled |= status.starts_with("cancel");
    }
}
