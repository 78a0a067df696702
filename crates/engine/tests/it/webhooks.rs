//! Events to webhooks: in order, until they arrive, and at nobody else's cost.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_core::{EventType, Health, Key};
use abide_engine::{
    Clock, Enclosed, Engine, EngineOptions, Envelope, Envelopes, NetPolicy, NewRun, TestClock,
};
use abide_store::{
    Added, DeliveryQuery, DeliveryRow, Shown, Sqlite, SqliteOptions, Store, WebhookKey, WebhookRow,
};
use tokio::sync::Semaphore;

use crate::peer::{Act, Peer, answer, closed_port, silent_port};
use crate::support::{START, TENANT, engine_with, within};
use crate::tapped::Tapped;

/// Writes `<run> <sequence>` on each event.
pub(crate) struct Plain;

impl Envelopes for Plain {
    fn remembers(&self, _record: &abide_core::Record) -> bool {
        false
    }

    fn seal(&self, enclosed: &Enclosed<'_>) -> Result<Vec<Envelope>, String> {
        let body = format!("{} {}", enclosed.run, enclosed.record.sequence).into_bytes();
        Ok(vec![Envelope { headers: vec![("x-tenant", enclosed.tenant.to_owned())], body }])
    }
}

/// An engine that sends, its store and its clock.
struct Office {
    engine: Engine,
    store: Arc<Tapped>,
    clock: Arc<TestClock>,
}

impl Office {
    async fn open(dir: &Path) -> Self {
        let store = Tapped::new(Sqlite::open(&SqliteOptions::new(dir)).unwrap());
        let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
        let engine = engine_with(&store, &clock, Some(Arc::new(Plain)));
        Self { engine, store, clock }
    }

    async fn add(&self, id: &str, url: String) -> WebhookKey {
        self.add_for(id, url, &["*"], &[]).await
    }

    async fn add_for(&self, id: &str, url: String, types: &[&str], tags: &[&str]) -> WebhookKey {
        let key = WebhookKey { tenant: TENANT, id: id.into() };
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let row = WebhookRow {
            key: key.clone(),
            url,
            types: texts(types),
            tags: texts(tags),
            sealed: [].into(),
            fingerprint: String::new(),
            created_at: START,
            created_by: None,
            health: Health::default(),
            about: None,
        };
        assert_eq!(self.store.webhooks().put(row, 100, None).await.unwrap(), Added::Done);
        key
    }

    async fn start(&self, workflow: &str) -> Key {
        self.engine.start_run(NewRun::of(TENANT, workflow)).await.unwrap().0.of(TENANT)
    }

    async fn shown(&self, key: &WebhookKey) -> Shown {
        self.store.webhooks().get(key.clone()).await.unwrap().unwrap()
    }

    async fn deliveries(&self, key: &WebhookKey, dead: bool) -> Vec<DeliveryRow> {
        let query = DeliveryQuery { webhook: key.clone(), dead, after: None, limit: 1000 };
        self.store.webhooks().deliveries(query).await.unwrap()
    }

    /// Waits until a webhook stands so.
    async fn until(&self, key: &WebhookKey, stands: impl Fn(&Shown) -> bool) -> Shown {
        within("a webhook", async {
            loop {
                let shown = self.shown(key).await;
                if stands(&shown) {
                    return shown;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// The bodies that tell of a run's events.
    async fn told_of(&self, run: Key) -> Vec<String> {
        let records = self.engine.events(run, 0, 1000).await.unwrap();
        let canonical = records.iter().filter(|it| EventType::by_code(it.type_code).unwrap().canonical);
        canonical.map(|record| format!("{} {}", run.id, record.sequence)).collect()
    }

    async fn close(self) {
        self.engine.drain(Duration::from_secs(10)).await.unwrap();
    }
}

pub(crate) fn bodies(peer: &Peer) -> Vec<String> {
    peer.heard().iter().map(|heard| heard.split_once("\r\n\r\n").unwrap().1.to_owned()).collect()
}

fn ok() -> Vec<u8> {
    answer(204, "", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_run_arrive_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let peer = Peer::saying(ok()).await;
    let hook = office.add("hook", peer.url("/hook?a=b")).await;
    let run = office.start("steps").await;
    let mut news = office.engine.subscribe(run);
    if !office.engine.head(run).await.unwrap().summary.status.is_terminal() {
        within("the run", news.ended()).await;
    }
    let expected = office.told_of(run).await;
    office.until(&hook, |shown| shown.delivered == expected.len() as u64).await;
    assert_eq!(bodies(&peer), expected);
    let heard = &peer.heard()[0];
    assert!(heard.starts_with("POST /hook?a=b ") && heard.contains("x-tenant: default"), "{heard}");
    assert_eq!(office.shown(&hook).await.pending, 0);
    office.close().await;
}

/// A receiver that fails for as long as it is told to.
async fn moody(broken: &Arc<AtomicBool>) -> Peer {
    let broken = broken.clone();
    Peer::start(move |_| Act::Say(if broken.load(Ordering::SeqCst) { answer(500, "", "no") } else { ok() }))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_arrive_is_tried_again_and_at_last_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let broken = Arc::new(AtomicBool::new(true));
    let peer = moody(&broken).await;
    let hook = office.add_for("hook", peer.url("/"), &["run.completed"], &[]).await;
    let run = office.start("noop").await;
    let told = office.told_of(run).await.pop().unwrap();
    for attempt in 1..=9 {
        let shown = office.until(&hook, |shown| shown.webhook.health.failures == attempt).await;
        assert_eq!(bodies(&peer).len(), attempt as usize);
        let waits = office.deliveries(&hook, false).await.first().and_then(|row| row.due);
        let due = waits.max(shown.webhook.health.open_until);
        if let Some(due) = due.filter(|_| attempt < 9) {
            let early = due - 1 - office.clock.now();
            office.clock.advance(early).await.unwrap();
            office.clock.advance(1).await.unwrap();
        }
    }
    assert!(bodies(&peer).iter().all(|body| *body == told));
    let [dead] = office.deliveries(&hook, true).await.try_into().unwrap();
    assert_eq!((dead.attempts, dead.last_status), (9, Some(500)));
    assert!(dead.last_error.unwrap().contains("status 500"));
    assert!(office.clock.now() - START < 48 * 3_600_000);

    broken.store(false, Ordering::SeqCst);
    let now = office.clock.now();
    assert_eq!(office.store.webhooks().resend(hook.clone(), None, now).await.unwrap(), 1);
    assert!(office.store.webhooks().enable(hook.clone(), now).await.unwrap());
    office.until(&hook, |shown| shown.delivered == 1 && shown.dead == 0 && shown.pending == 0).await;
    assert_eq!(bodies(&peer).last(), Some(&told));
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_keeps_failing_is_left_alone_and_then_probed_once() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let broken = Arc::new(AtomicBool::new(true));
    let peer = moody(&broken).await;
    let hook = office.add_for("hook", peer.url("/"), &["run.completed"], &[]).await;
    for _ in 0..4 {
        office.start("noop").await;
    }
    office.until(&hook, |shown| shown.webhook.health.failures == 4).await;
    for _ in 0..20 {
        office.start("noop").await;
    }
    assert_eq!(bodies(&peer).len(), 4, "it is left alone");
    office.clock.advance(59_999).await.unwrap();
    assert_eq!(bodies(&peer).len(), 4);
    office.clock.advance(1).await.unwrap();
    office.until(&hook, |shown| shown.webhook.health.failures == 5).await;
    assert_eq!(bodies(&peer).len(), 5, "one tries, though 24 wait");
    broken.store(false, Ordering::SeqCst);
    office.clock.advance(120_000).await.unwrap();
    office.until(&hook, |shown| shown.delivered == 24).await;
    assert_eq!(office.shown(&hook).await.webhook.health, Health::default());
    assert_eq!(bodies(&peer).len(), 5 + 24);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_receiver_delays_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let peer = Peer::saying(ok()).await;
    let slow = office.add("a-slow", format!("http://127.0.0.1:{}/", silent_port().await)).await;
    let fast = office.add("b-fast", peer.url("/")).await;
    for _ in 0..40 {
        office.start("noop").await;
    }
    let shown = office.until(&fast, |shown| shown.delivered > 0 && shown.pending == 0).await;
    assert_eq!(shown.delivered, bodies(&peer).len() as u64);
    let shown = office.shown(&slow).await;
    assert_eq!((shown.delivered, shown.pending), (0, 40));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_runs_a_few_are_under_way_at_once_and_of_one_run_one_event() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let (gate, most) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let busy: Arc<Mutex<Vec<String>>> = Arc::default();
    let twice = Arc::new(AtomicBool::new(false));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = {
        let (gate, most, busy, twice) = (gate.clone(), most.clone(), busy.clone(), twice.clone());
        async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (gate, most, busy, twice) = (gate.clone(), most.clone(), busy.clone(), twice.clone());
                tokio::spawn(async move { hold(stream, &gate, &most, &busy, &twice).await });
            }
        }
    };
    tokio::spawn(serving);
    let hook = office.add("hook", url).await;
    let mut events = 0;
    for _ in 0..30 {
        let run = office.start("noop").await;
        events += office.told_of(run).await.len() as u64;
    }
    within("a full house", async {
        while busy.lock().unwrap().len() < abide_engine::limits::WEBHOOK_IN_FLIGHT_MAX {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gate.add_permits(10_000);
    office.until(&hook, |shown| shown.delivered == events).await;
    assert_eq!(most.load(Ordering::SeqCst), abide_engine::limits::WEBHOOK_IN_FLIGHT_MAX);
    assert!(!twice.load(Ordering::SeqCst), "two events of one run were under way");
    office.close().await;
}

/// Answers one request when the gate lets it.
async fn hold(
    mut stream: tokio::net::TcpStream,
    gate: &Semaphore,
    most: &AtomicUsize,
    busy: &Mutex<Vec<String>>,
    twice: &AtomicBool,
) {
    use tokio::io::AsyncWriteExt;
    let Some(request) = crate::peer::read_request(&mut stream).await else { return };
    let body = request.split_once("\r\n\r\n").unwrap().1;
    let run = body.split(' ').next().unwrap().to_owned();
    {
        let mut busy = busy.lock().unwrap();
        twice.fetch_or(busy.contains(&run), Ordering::SeqCst);
        busy.push(run.clone());
        most.fetch_max(busy.len(), Ordering::SeqCst);
    }
    gate.acquire().await.unwrap().forget();
    busy.lock().unwrap().retain(|other| *other != run);
    let _ = stream.write_all(&ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_with_many_events_keep_others_waiting_for_a_bounded_number_of_them_only() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let peer = Peer::saying(ok()).await;
    let nodes: Vec<_> = (0..200)
        .map(|n| {
            serde_json::json!({ "id": format!("n{n}"), "typeId": "core.noop", "name": "n", "position": {},
                "config": {}, "inputs": {} })
        })
        .collect();
    let chatty = serde_json::json!({ "id": "chatty", "name": "chatty", "version": "1", "nodes": nodes, "edges": [],
        "triggers": [], "variables": [], "metadata": {}, "settings": {} });
    office.engine.push_workflow(TENANT, chatty.to_string().as_bytes(), None).await.unwrap();
    let hook = office.add("hook", peer.url("/")).await;
    for _ in 0..abide_engine::limits::WEBHOOK_IN_FLIGHT_MAX {
        office.start("chatty").await;
    }
    let victim = office.start("noop").await;
    let first = office.told_of(victim).await.remove(0);
    office.until(&hook, |shown| shown.pending == 0 && shown.delivered > 0).await;
    let place = bodies(&peer).iter().position(|body| *body == first).unwrap();
    assert!(place < 1000, "it came as number {place} of {}", bodies(&peer).len());
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_that_tries_for_all_carries_one_event() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let broken = Arc::new(AtomicBool::new(true));
    let peer = moody(&broken).await;
    let hook = office.add("hook", peer.url("/")).await;
    for _ in 0..4 {
        office.start("noop").await;
    }
    office.until(&hook, |shown| shown.webhook.health.failures == 4).await;
    for _ in 0..abide_engine::limits::WEBHOOK_IN_FLIGHT_MAX {
        office.start("noop").await;
    }
    broken.store(false, Ordering::SeqCst);
    office.clock.advance(60_000).await.unwrap();
    office.until(&hook, |shown| shown.pending == 0).await;
    let runs: Vec<String> =
        bodies(&peer)[4..].iter().map(|body| body.split(' ').next().unwrap().to_owned()).collect();
    assert_ne!(runs[0], runs[1], "the others are enough to take every place");
    office.close().await;
}

/// Fails badly at the first event of each run.
struct Clumsy;

impl Envelopes for Clumsy {
    fn remembers(&self, _record: &abide_core::Record) -> bool {
        false
    }

    fn seal(&self, enclosed: &Enclosed<'_>) -> Result<Vec<Envelope>, String> {
        assert_ne!(enclosed.record.sequence, 0, "a bug");
        Plain.seal(enclosed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_breaks_the_server_is_given_up_and_holds_up_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = Tapped::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
    let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
    let engine = engine_with(&store, &clock, Some(Arc::new(Clumsy)));
    let office = Office { engine, store, clock };
    let peer = Peer::saying(ok()).await;
    let hook = office.add("hook", peer.url("/")).await;
    let run = office.start("noop").await;
    let shown = office.until(&hook, |shown| shown.pending == 0 && shown.delivered > 0).await;
    assert_eq!((shown.dead, shown.webhook.health), (1, Health::default()), "the receiver is not to blame");
    assert_eq!(bodies(&peer), office.told_of(run).await[1..]);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_deleted_even_if_whoever_asked_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let hook = office.add("hook", format!("http://127.0.0.1:{}/", closed_port().await)).await;
    office.start("noop").await;
    let mut deleting = Box::pin(office.engine.delete_webhook(hook.clone()));
    std::future::poll_fn(|cx| {
        let _ = deleting.as_mut().poll(cx);
        std::task::Poll::Ready(())
    })
    .await;
    drop(deleting);
    within("the end of it", async {
        while office.store.webhooks().get(hook.clone()).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(office.deliveries(&hook, false).await, []);
    assert!(!office.engine.delete_webhook(hook).await.unwrap());
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_over_at_a_start_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let broken = Arc::new(AtomicBool::new(true));
    let peer = moody(&broken).await;
    let hook = office.add("hook", peer.url("/")).await;
    let run = office.start("noop").await;
    office.until(&hook, |shown| shown.webhook.health.failures > 0).await;
    let row = office.deliveries(&hook, false).await.pop().unwrap();
    let (told, now) = (office.told_of(run).await, office.clock.now());
    office.close().await;

    broken.store(false, Ordering::SeqCst);
    let office = Office::open(dir.path()).await;
    office.clock.advance(row.due.unwrap() - now).await.unwrap();
    office.until(&hook, |shown| shown.delivered == told.len() as u64).await;
    assert_eq!(bodies(&peer)[1..], told);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_not_there_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let hook = office.add("hook", format!("http://127.0.0.1:{}/", closed_port().await)).await;
    office.start("noop").await;
    office.until(&hook, |shown| shown.webhook.health.failures == 1).await;
    let row = office.deliveries(&hook, false).await.pop().unwrap();
    assert_eq!((row.attempts, row.last_status), (1, None));
    assert!(row.last_error.unwrap().contains("refused the connection"));
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_failures_and_one_that_is_gone_is_sent_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let target = Peer::saying(ok()).await;
    let elsewhere = format!("location: {}\r\n", target.url("/"));
    let redirecting = Peer::saying(answer(307, &elsewhere, "")).await;
    let gone = Peer::saying(answer(410, "", "")).await;
    let moved = office.add_for("moved", redirecting.url("/"), &["run.completed"], &[]).await;
    let left = office.add_for("left", gone.url("/"), &["run.completed"], &[]).await;
    office.start("noop").await;
    office.until(&moved, |shown| shown.webhook.health.failures == 1).await;
    office.until(&left, |shown| shown.webhook.health.failed).await;
    assert!(target.heard().is_empty());
    let row = office.deliveries(&moved, false).await.pop().unwrap();
    assert_eq!(row.last_status, Some(307));
    assert!(row.last_error.unwrap().contains("redirects"));
    office.start("noop").await;
    office.until(&moved, |shown| shown.webhook.health.failures == 2).await;
    office.clock.advance(3_600_000).await.unwrap();
    office.until(&moved, |shown| shown.webhook.health.failures == 4).await;
    assert_eq!(gone.heard().len(), 1);
    assert_eq!(office.shown(&left).await.pending, 1, "what it did not take is kept");
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_runs_with_all_the_tags_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    let peer = Peer::saying(ok()).await;
    let hook = office.add_for("hook", peer.url("/"), &["run.started"], &["blue", "big"]).await;
    let start = async |tags: &[&str]| {
        let tags = tags.iter().map(ToString::to_string).collect();
        let new = NewRun { tags, ..NewRun::of(TENANT, "noop") };
        office.engine.start_run(new).await.unwrap().0
    };
    start(&["blue"]).await;
    start(&[]).await;
    let both = start(&["big", "old", "blue"]).await;
    office.until(&hook, |shown| shown.delivered == 1 && shown.pending == 0).await;
    assert_eq!(bodies(&peer), [format!("{both} 0")]);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_run_whose_first_event_cannot_be_read_nothing_is_sent_to_those_who_ask_for_tags() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::open(dir.path()).await;
    office.store.damage(0);
    let peer = Peer::saying(ok()).await;
    let tagged = office.add_for("tagged", peer.url("/"), &["run.completed"], &["blue"]).await;
    let plain = office.add_for("plain", peer.url("/"), &["run.completed"], &[]).await;
    office.start("noop").await;
    office.until(&tagged, |shown| shown.dead == 1 && shown.pending == 0).await;
    let [dead] = office.deliveries(&tagged, true).await.try_into().unwrap();
    assert!(dead.last_error.unwrap().contains("the first event of its run can't be read"));
    office.until(&plain, |shown| shown.delivered == 1).await;
    office.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_are_judged_by_the_address_behind_them() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
    let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
    let net = NetPolicy::parse(&["127.0.0.2", "localhost:8080"]).unwrap();
    let engine = Engine::start(EngineOptions { net, ..EngineOptions::new(store, clock) });
    for taken in [
        "https://1.1.1.1/hook",
        "https://127.0.0.2/",
        "http://127.0.0.2/",
        "http://localhost:8080/",
        "https://localhost:8080/",
        "https://nobody.invalid/hook",
    ] {
        assert_eq!(engine.check_webhook_url(taken).await, Ok(()), "{taken}");
    }
    for (refused, why) in [
        ("", "not valid"),
        ("https://", "not valid"),
        ("ftp://1.1.1.1/", "https://"),
        ("http://1.1.1.1/", "not encrypted"),
        ("https://127.0.0.1/", "public internet"),
        ("https://[::1]/", "public internet"),
        ("https://[::ffff:10.0.0.1]/", "public internet"),
        ("https://169.254.169.254/latest", "public internet"),
        ("https://0x7f000001/", "public internet"),
        ("https://localhost/", "public internet"),
        ("http://localhost/", "not encrypted"),
        ("https://user:word@1.1.1.1/", "password"),
        ("https://1.1.1.1/#top", "fragment"),
    ] {
        let told = engine.check_webhook_url(refused).await.unwrap_err();
        assert!(told.contains(why), "{refused}: {told}");
    }
    engine.drain(Duration::from_secs(10)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_turned_private_is_not_sent_to() {
    let dir = tempfile::tempdir().unwrap();
    let peer = Peer::saying(ok()).await;
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
    let clock = Arc::new(TestClock::open(store.clone(), START).await.unwrap());
    let graph = abide_core::Graph::admit(NOOP.as_bytes()).unwrap();
    let options = EngineOptions {
        webhooks: Some(Arc::new(Plain)),
        workflows: vec![graph],
        ..EngineOptions::new(store.clone(), clock)
    };
    let engine = Engine::start(options);
    let row = WebhookRow {
        key: WebhookKey { tenant: TENANT, id: "hook".into() },
        url: format!("https://localhost:{}/", peer.port),
        types: vec!["*".to_owned()],
        tags: Vec::new(),
        sealed: [].into(),
        fingerprint: String::new(),
        created_at: START,
        created_by: None,
        health: Health::default(),
        about: None,
    };
    let key = row.key.clone();
    store.webhooks().put(row, 10, None).await.unwrap();
    engine.start_run(NewRun::of(TENANT, "noop")).await.unwrap();
    let query = DeliveryQuery { webhook: key, dead: false, after: None, limit: 10 };
    let told = within("the refusal", async {
        loop {
            let rows = store.webhooks().deliveries(query.clone()).await.unwrap();
            if let Some(error) = rows.into_iter().find_map(|row| row.last_error) {
                return error;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(told.contains("not an address of the public internet"), "{told}");
    assert!(peer.heard().is_empty());
    engine.drain(Duration::from_secs(10)).await.unwrap();
}

const NOOP: &str = r#"{"id":"noop","name":"noop","version":"1","nodes":[{"id":"n","typeId":"core.noop","name":"n",
    "position":{},"config":{},"inputs":{}}],"edges":[],"triggers":[],"variables":[],"metadata":{},"settings":{}}"#;
