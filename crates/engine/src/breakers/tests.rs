//! Breakers and those that wait for them, on a real store and a test clock, with a provider that does as it is told.

mod waking;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_core::breaker::Outcome;
use abide_core::{
    BreakerSettings, BreakerState, Command, Drain, Effect, ErrorKind, Graph, KeptBreaker, Key, Millis,
    ModelError, ProviderWait, Rejection, Run, RunId, Start, Status, TaskId, TenantId,
};
use abide_store::{Commit, Lane, Sqlite, SqliteOptions, Store};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use super::{Admitted, Breakers, Call, said_of_provider, waker};
use crate::{Clock, Error, TestClock, limits};

const START: Millis = 1_000_000;
const SECOND: Millis = 1000;
const TENANT: TenantId = TenantId(1);
const PROVIDER: &str = "claude";

/// A data directory, and the process that has it.
struct World {
    dir: TempDir,
    site: Arc<Site>,
    waking: JoinHandle<()>,
}

/// What one process has in memory.
struct Site {
    store: Arc<dyn Store>,
    clock: Arc<TestClock>,
    breakers: Arc<Breakers>,
    runs: Mutex<HashMap<Key, Run>>,
    provider: Arc<Provider>,
    calls: Mutex<JoinSet<()>>,
}

/// A provider that fails or answers, and is counted.
#[derive(Default)]
struct Provider {
    is_away: AtomicBool,
    calls: AtomicUsize,
    under_way: AtomicUsize,
    /// The most that were ever under way at once.
    most: AtomicUsize,
    /// How many calls may end.
    ends: Option<Semaphore>,
    news: Notify,
}

impl Provider {
    /// One that answers only when it is told to.
    fn slow() -> Self {
        Self { ends: Some(Semaphore::new(0)), ..Self::default() }
    }

    async fn answer(&self) -> Outcome {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        self.news.notify_one();
        if let Some(ends) = &self.ends {
            ends.acquire().await.unwrap().forget();
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) { Outcome::Failure } else { Outcome::Success }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn end(&self, calls: usize) {
        self.ends.as_ref().expect("it is a slow one").add_permits(calls);
    }
}

fn key(n: u32) -> Key {
    let mut bytes = [1; 16];
    bytes[12..].copy_from_slice(&n.to_be_bytes());
    RunId::from_bytes(bytes).of(TENANT)
}

fn task() -> TaskId {
    TaskId { node: "talk".into(), execution: 1 }
}

fn graph() -> Arc<Graph> {
    let node = json!({ "id": "talk", "typeId": "core.delay", "name": "talk", "position": {}, "config": {},
        "inputs": { "delayMs": { "type": "static", "value": 1 } }, "settings": {} });
    let workflow = json!({ "id": "w", "name": "w", "version": "1", "nodes": [node], "edges": [], "triggers": [],
        "variables": [], "metadata": {}, "settings": {} });
    Arc::new(Graph::admit(workflow.to_string().as_bytes()).unwrap())
}

impl World {
    async fn new() -> Self {
        Self::with(Provider::default()).await
    }

    async fn with(provider: Provider) -> Self {
        Self::on(tempfile::tempdir().unwrap(), Arc::new(provider)).await
    }

    async fn on(dir: TempDir, provider: Arc<Provider>) -> Self {
        let site = Site::open(&dir, provider).await;
        let waking = site.wake_turns();
        Self { dir, site, waking }
    }

    /// The process is killed, and another one starts. What the first one had in memory is lost, but for the runs, which
    /// would be read again.
    async fn restart(self) -> Self {
        let Self { dir, site, waking } = self;
        waking.abort();
        let _ = waking.await;
        let (runs, provider) = (std::mem::take(&mut *site.runs.lock().unwrap()), site.provider.clone());
        let store = Arc::downgrade(&site.store);
        site.store.close().await.unwrap();
        site.calls.lock().unwrap().abort_all();
        drop(site);
        until("nobody holds the directory", async || store.strong_count() == 0).await;
        let site = Site::open(&dir, provider).await;
        *site.runs.lock().unwrap() = runs;
        let waking = site.wake_turns();
        Self { dir, site, waking }
    }
}

impl Site {
    async fn open(dir: &TempDir, provider: Arc<Provider>) -> Arc<Self> {
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
        let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
        Self::beside(store, clock, provider)
    }

    /// Another engine on the same store.
    fn beside(store: Arc<dyn Store>, clock: Arc<TestClock>, provider: Arc<Provider>) -> Arc<Self> {
        let settings = BTreeMap::from([(PROVIDER.to_owned(), BreakerSettings::default())]);
        let breakers = Breakers::new(store.clone(), clock.clone(), settings);
        let (runs, calls) = (Mutex::default(), Mutex::default());
        Arc::new(Self { store, clock, breakers, runs, provider, calls })
    }

    fn wake_turns(self: &Arc<Self>) -> JoinHandle<()> {
        let site = self.clone();
        let wake = move |run, task| site.clone().wake(run, task);
        tokio::spawn(waker::run_with(self.breakers.clone(), wake))
    }

    /// A turn is postponed: with the start of its run, for which something else stands in.
    async fn postpone(&self, n: u32, since: Millis) {
        let (run, step) = Run::start(Start::of(key(n), [1; 16], graph()), START).unwrap();
        let wait = wait(since);
        let created = Commit {
            salt: Some([1; 16]),
            effects: vec![Effect::AwaitProvider(wait.clone())],
            ..Commit::of(&run, step)
        };
        self.runs.lock().unwrap().insert(key(n), run);
        commit(&*self.store, created).await.unwrap();
        self.breakers.note_postponed(key(n), &wait);
    }

    async fn postpone_many(self: &Arc<Self>, count: u32) {
        let postponing = (0..count).map(|n| {
            let site = self.clone();
            tokio::spawn(async move { site.postpone(n, START + i64::from(n)).await })
        });
        for postponed in postponing.collect::<Vec<_>>() {
            postponed.await.unwrap();
        }
    }

    /// The turn goes on, as the core would have it; if it waits.
    async fn wake(self: Arc<Self>, run: Key, task: TaskId) -> Result<bool, Error> {
        if !self.moves_on(run, Effect::LeaveProvider(task.clone())).await {
            return Err(Rejection::NoSuchTask.into());
        }
        let site = self.clone();
        self.calls.lock().unwrap().spawn(async move { site.call(run, task).await });
        Ok(true)
    }

    /// What the executor does with the turn's task.
    async fn call(&self, run: Key, task: TaskId) {
        match self.breakers.admit(run, &task, PROVIDER).await.unwrap() {
            Admitted::Call(call) => call.report(self.provider.answer().await).await,
            Admitted::Refused => {
                let wait = wait(START);
                self.moves_on(run, Effect::AwaitProvider(wait.clone())).await;
                self.breakers.note_postponed(run, &wait);
            }
        }
    }

    async fn moves_on(&self, run: Key, effect: Effect) -> bool {
        let is_leaving = matches!(effect, Effect::LeaveProvider(_));
        let step = {
            let mut runs = self.runs.lock().unwrap();
            let run = runs.get_mut(&run).unwrap();
            let has_left = run.status() == Status::Paused;
            if has_left == is_leaving {
                return false;
            }
            let command = match is_leaving {
                true => Command::Pause { reason: None, by: None, drain: Drain::Immediate },
                false => Command::Resume { reason: None, by: None },
            };
            let step = run.decide(command, START).unwrap();
            Commit { effects: vec![effect], ..Commit::of(run, step) }
        };
        commit(&*self.store, step).await.unwrap();
        true
    }

    async fn admit(&self) -> Admitted {
        self.breakers.admit(key(u32::MAX), &task(), PROVIDER).await.unwrap()
    }

    async fn call_of(&self) -> Call {
        match self.admit().await {
            Admitted::Call(call) => call,
            Admitted::Refused => panic!("it is refused"),
        }
    }

    async fn is_refused(&self) -> bool {
        matches!(self.admit().await, Admitted::Refused)
    }

    /// Ten calls fail.
    async fn open_breaker(&self) {
        for _ in 0..10 {
            self.call_of().await.report(Outcome::Failure).await;
        }
        assert!(matches!(self.state().await, BreakerState::Open { .. }));
    }

    async fn kept(&self) -> KeptBreaker {
        let row = self.store.providers().breaker(TENANT, PROVIDER.to_owned()).await.unwrap();
        row.map_or_else(KeptBreaker::default, |row| row.kept)
    }

    async fn state(&self) -> BreakerState {
        self.kept().await.state
    }

    async fn waiting(&self) -> usize {
        self.store.providers().postponed(TENANT, PROVIDER.to_owned(), usize::MAX >> 1).await.unwrap().len()
    }

    async fn cooldown(&self) {
        let BreakerState::Open { until, .. } = self.state().await else { panic!("it is not open") };
        self.clock.advance(until - self.clock.now()).await.unwrap();
    }
}

fn wait(since: Millis) -> ProviderWait {
    let provider = PROVIDER.to_owned();
    ProviderWait { task: task(), provider, postponed: true, since, until: since + 24 * 3600 * SECOND }
}

async fn commit(store: &dyn Store, commit: Commit) -> Result<(), abide_store::Error> {
    let (answer, answered) = oneshot::channel();
    let done = Box::new(move |result| drop(answer.send(result)));
    assert!(store.submit(commit, Lane::Background, done).is_ok());
    answered.await.unwrap()
}

/// Waits until something is so. What is not so yet is looked at again when others had their turn.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(300), waiting).await;
    assert!(waited.is_ok(), "waited too long until {what}");
}

/// Everything that could happen by now has: each part of the site had its turn many times over.
async fn quiet(site: &Site) {
    for _ in 0..50 {
        tokio::task::yield_now().await;
        site.kept().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_refuses_every_call_and_reaches_no_provider() {
    let world = World::new().await;
    world.site.open_breaker().await;
    for _ in 0..100 {
        assert!(world.site.is_refused().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn breakers_of_two_tenants_and_two_providers_are_independent() {
    let World { site, .. } = &World::new().await;
    site.open_breaker().await;
    let foreign = RunId::from_bytes([2; 16]).of(TenantId(2));
    assert!(matches!(site.breakers.admit(foreign, &task(), PROVIDER).await.unwrap(), Admitted::Call(_)));
    assert!(matches!(site.breakers.admit(key(1), &task(), "gpt").await.unwrap(), Admitted::Call(_)));
    assert!(site.is_refused().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_callers_at_once_one_gets_the_permit_and_it_is_in_the_store() {
    let World { site, .. } = &World::new().await;
    site.open_breaker().await;
    site.cooldown().await;
    let asking: Vec<_> = (0..100)
        .map(|_| {
            let site = site.clone();
            tokio::spawn(async move {
                let admitted = site.admit().await;
                (matches!(site.state().await, BreakerState::HalfOpen { .. }), admitted)
            })
        })
        .collect();
    let mut calls = Vec::new();
    for asked in asking {
        let (is_kept, admitted) = asked.await.unwrap();
        if let Admitted::Call(call) = admitted {
            assert!(is_kept, "the probe goes out before its permit is kept");
            calls.push(call);
        }
    }
    assert_eq!(calls.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_engines_on_one_store_one_gets_the_permit() {
    let World { site, .. } = &World::new().await;
    let other = Site::beside(site.store.clone(), site.clock.clone(), site.provider.clone());
    site.open_breaker().await;
    site.cooldown().await;
    for _ in 0..20 {
        let (one, two) = tokio::join!(site.admit(), other.admit());
        let calls: Vec<Call> = [one, two]
            .into_iter()
            .filter_map(|admitted| match admitted {
                Admitted::Call(call) => Some(call),
                Admitted::Refused => None,
            })
            .collect();
        assert!(calls.len() <= 1, "both probe");
        for call in calls {
            call.report(Outcome::Failure).await;
            site.cooldown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_engine_changed_is_seen_before_it_is_changed_again() {
    let World { site, .. } = &World::new().await;
    let other = Site::beside(site.store.clone(), site.clock.clone(), site.provider.clone());
    for _ in 0..9 {
        other.call_of().await.report(Outcome::Failure).await;
    }
    let late = other.call_of().await;
    site.open_breaker().await;
    let before = site.kept().await;
    late.report(Outcome::Failure).await;
    assert_eq!(site.kept().await, before, "it would have opened, and is open already");
    assert!(other.is_refused().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_gives_its_permit_back() {
    let World { site, .. } = &World::new().await;
    site.open_breaker().await;
    site.cooldown().await;
    drop(site.call_of().await);
    until("the permit is back", async || matches!(site.state().await, BreakerState::Open { .. })).await;
    site.call_of().await.report(Outcome::Success).await;
    assert_eq!(site.state().await, BreakerState::Closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_goes_away_while_it_asks_leaves_no_permit_behind() {
    let World { site, .. } = &World::new().await;
    site.open_breaker().await;
    site.cooldown().await;
    let asking = tokio::spawn({
        let site = site.clone();
        async move { site.admit().await }
    });
    asking.abort();
    let _ = asking.await;
    until("somebody may probe", async || !site.is_refused().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permit_of_a_process_that_was_killed_is_given_to_the_next() {
    let world = World::new().await;
    world.site.open_breaker().await;
    world.site.cooldown().await;
    let mut call = world.site.call_of().await;
    // As if the process had ended right now.
    call.ticket = None;
    drop(call);
    assert!(matches!(world.site.state().await, BreakerState::HalfOpen { .. }));
    let World { site, .. } = &world.restart().await;
    site.call_of().await.report(Outcome::Failure).await;
    let state = site.state().await;
    assert!(matches!(state, BreakerState::Open { cooldown_ms: 60_000, .. }), "{state:?}");
}

impl Site {
    /// As [`open_breaker`](Self::open_breaker), when so many calls of two have failed before.
    async fn open_breaker_from(&self, failed: usize) {
        for _ in failed..9 {
            self.call_of().await.report(Outcome::Failure).await;
        }
        assert!(matches!(self.state().await, BreakerState::Open { .. }));
    }
}

#[test]
fn a_provider_that_refuses_a_request_is_well_and_one_that_can_not_answer_is_not() {
    let emitted = |retryable| ErrorKind::Emitted { retryable };
    let table = [
        (emitted(Some(true)), Some("429"), Outcome::Failure),
        (emitted(Some(true)), Some("500"), Outcome::Failure),
        (emitted(Some(true)), Some("529"), Outcome::Failure),
        (emitted(None), Some("503"), Outcome::Failure),
        (emitted(Some(true)), None, Outcome::Failure),
        (emitted(Some(false)), Some("400"), Outcome::Success),
        (emitted(Some(false)), Some("401"), Outcome::Success),
        (emitted(None), Some("404"), Outcome::Success),
        (emitted(Some(false)), None, Outcome::Success),
        (ErrorKind::Thrown, None, Outcome::Failure),
        (ErrorKind::Thrown, Some("200"), Outcome::Failure),
        (ErrorKind::Crashed, None, Outcome::Neither),
        (ErrorKind::Aborted, Some("429"), Outcome::Neither),
    ];
    for (kind, code, expected) in table {
        let code = code.map(str::to_owned);
        let (message, had_content, retry_after_ms) = (String::new(), false, None);
        let error = ModelError { message, code, kind, had_content, retry_after_ms };
        assert_eq!(said_of_provider(Some(&error)), expected, "{error:?}");
    }
    assert_eq!(said_of_provider(None), Outcome::Success);
}
