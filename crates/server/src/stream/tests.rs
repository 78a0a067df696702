//! Feeds on a real engine: what is shared, what is not, and what is left when everybody has gone.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use abide_core::{Graph, JsonMap, Key, TenantId};
use abide_engine::{Engine, EngineOptions, NewRun, SystemClock};
use abide_store::{Sqlite, SqliteOptions};
use futures_util::StreamExt;
use serde_json::json;

use super::array::Array;
use super::feed::{Counts, Feeds, Pulled, Seat};
use super::frame::Frame;
use super::view::View;
use crate::limits;
use crate::openwop::events::Modes;

const TENANT: TenantId = TenantId(1);

/// An engine with two workflows: `chain` of many nodes that each take a commit, and `parked` that waits.
struct World {
    engine: Engine,
    feeds: Arc<Feeds>,
    _dir: tempfile::TempDir,
}

impl World {
    fn new(nodes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Sqlite::open(&SqliteOptions::new(dir.path())).unwrap());
        let mut options = EngineOptions::new(store, Arc::new(SystemClock));
        options.workflows = vec![graph("chain", "core.noop", nodes), graph("parked", "core.delay", 1)];
        Self { engine: Engine::start(options), feeds: Arc::default(), _dir: dir }
    }

    async fn start(&self, workflow: &str) -> Key {
        let new = NewRun { inputs: JsonMap::new(), ..NewRun::of(TENANT, workflow) };
        self.engine.start_run(new).await.unwrap().0.of(TENANT)
    }

    async fn join(&self, key: Key, view: View, from: u64) -> (Seat, u64) {
        let head = self.engine.head(key).await.unwrap();
        (self.feeds.join(key, view, from, &head), head.next)
    }

    fn counts(&self) -> &Counts {
        self.feeds.counts()
    }
}

fn graph(id: &str, kind: &str, nodes: usize) -> Graph {
    let settings = json!({ "abide": { "durable": kind == "core.noop" } });
    let settings = if kind == "core.noop" { settings } else { json!({}) };
    let node = |ix: usize| {
        json!({ "id": format!("n{ix}"), "typeId": kind, "name": "n", "position": { "x": 0, "y": 0 },
                "config": { "ms": 3_600_000 }, "inputs": {}, "settings": settings })
    };
    let edge = |ix: usize| json!({ "id": format!("e{ix}"), "sourceNodeId": format!("n{ix}"), "targetNodeId": format!("n{}", ix + 1) });
    let definition = json!({
        "id": id, "name": id, "version": "1", "nodes": (0..nodes).map(node).collect::<Vec<_>>(),
        "edges": (0..nodes - 1).map(edge).collect::<Vec<_>>(), "triggers": [], "variables": [{ "name": "large", "type": "string" }], "metadata": {},
        "settings": {},
    });
    Graph::admit(definition.to_string().as_bytes()).unwrap()
}

fn debug() -> View {
    View::Modes(Modes::parse(Some("debug")).unwrap())
}

/// Follows a run from a seat to its end.
async fn follow(engine: &Engine, mut seat: Seat, key: Key) -> Vec<Frame> {
    let mut news = engine.subscribe(key);
    let counted = engine.head(key).await.unwrap().next;
    let mut frames = Vec::new();
    loop {
        match seat.pull(engine, news.known().max(counted)).await.unwrap() {
            Pulled::Frames(more) => frames.extend(more),
            Pulled::Nothing => news.changed().await,
            Pulled::Ended => return frames,
        }
    }
}

fn values() -> View {
    View::Modes(Modes::parse(Some("values")).unwrap())
}

fn sequences(frames: &[Frame]) -> Vec<u64> {
    frames.iter().map(Frame::sequence).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_read_and_serialised_once_however_many_listen() {
    const READERS: usize = 50;
    let world = World::new(3);
    let key = world.start("parked").await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let (seat, _) = world.join(key, debug(), 0).await;
        let engine = world.engine.clone();
        readers.push(tokio::spawn(async move { follow(&engine, seat, key).await }));
    }
    // The beginning is read before anything more happens.
    while world.counts().frames.load(Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    world.engine.cancel(key, None, None).await.unwrap();
    let end = world.engine.head(key).await.unwrap().next;
    for reader in readers {
        assert_eq!(sequences(&reader.await.unwrap()), (0..end).collect::<Vec<_>>());
    }
    let counts = world.counts();
    assert_eq!(counts.frames.load(Relaxed), end, "each event was serialised once");
    assert_eq!(counts.lone_reads.load(Relaxed), 0);
    assert!(counts.reads.load(Relaxed) <= 2, "{counts:?}: one read for what was there, one for the rest");
    assert_eq!(world.feeds.len(), 0, "the last one took the feed away");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_fell_behind_catches_up_by_itself_and_misses_nothing() {
    let world = World::new(160);
    let key = world.start("chain").await;
    for view in [View::Journal, debug(), values()] {
        let (slow, _) = world.join(key, view, 0).await;
        let (quick, _) = world.join(key, view, 0).await;
        let quick = sequences(&follow(&world.engine, quick, key).await);
        let before = world.counts().lone_reads.load(Relaxed);
        let slow = sequences(&follow(&world.engine, slow, key).await);
        assert!(world.counts().lone_reads.load(Relaxed) > before, "it was left behind");
        assert_eq!(slow, quick, "{view:?}");
        assert!(quick.len() >= 320, "{view:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_large_states_no_more_than_one_is_made_at_a_time() {
    const LARGE: usize = 300_000;
    let world = World::new(20);
    let inputs = json!({ "large": "x".repeat(LARGE) });
    let inputs = serde_json::from_value(inputs).unwrap();
    let new = NewRun { inputs, ..NewRun::of(TENANT, "chain") };
    let key = world.engine.start_run(new).await.unwrap().0.of(TENANT);
    let (seat, _) = world.join(key, values(), 0).await;
    let shown = follow(&world.engine, seat, key).await;
    let end = world.engine.head(key).await.unwrap().next;
    assert_eq!(sequences(&shown), (0..end).collect::<Vec<_>>());
    let largest = shown.iter().map(Frame::len).max().unwrap();
    let smallest = shown.iter().map(Frame::len).min().unwrap();
    assert!(smallest > LARGE && largest < 2 * smallest, "{smallest} {largest}");
    assert_eq!(world.counts().bytes_at_once.load(Relaxed), largest as u64);
    let document = Array::open(&world.engine, key, values(), 0..end, None).await.unwrap();
    let mut text = Vec::new();
    let mut pages = document.into_data_stream();
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        assert!(page.len() < limits::PORTION_BYTES_MAX + largest, "{}", page.len());
        text.extend(page);
    }
    let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let told: Vec<_> =
        document["events"].as_array().unwrap().iter().map(|event| event["sequence"].as_u64()).collect();
    assert_eq!(told, (0..end).map(Some).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_vanished_leaves_nothing_behind() {
    let world = World::new(1);
    let key = world.start("parked").await;
    let (mut first, known) = world.join(key, debug(), 0).await;
    let (second, _) = world.join(key, debug(), 0).await;
    let (other, _) = world.join(key, View::Journal, 0).await;
    assert_eq!(world.feeds.len(), 2);
    assert!(matches!(first.pull(&world.engine, known).await, Ok(Pulled::Frames(_))));
    drop(first);
    drop(other);
    assert_eq!(world.feeds.len(), 1);
    drop(second);
    assert_eq!(world.feeds.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_announced_is_heard_by_followers_of_updates_once_and_never_again() {
    let world = World::new(1);
    let key = world.start("parked").await;
    let view = |modes| View::Modes(Modes::parse(Some(modes)).unwrap());
    let mut seats = Vec::new();
    for (modes, hears) in [
        ("updates", true),
        ("debug", true),
        ("updates,messages", true),
        ("messages", false),
        ("values", false),
    ] {
        seats.push((world.join(key, view(modes), 0).await.0, hears));
    }
    world.feeds.announce(key, "run.annotated", b"{\"a\":1}");
    for (seat, hears) in &mut seats {
        let heard = seat.announcements();
        assert_eq!(heard.len(), usize::from(*hears));
        assert!(heard.iter().all(|frame| &frame[..] == b"event: run.annotated\ndata: {\"a\":1}\n\n"));
        assert!(seat.announcements().is_empty());
    }
    assert!(world.join(key, view("updates"), 0).await.0.announcements().is_empty(), "it is not kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_serialised_before_an_erasure_is_not_shown_after_it() {
    let world = World::new(3);
    let key = world.start("chain").await;
    let (stalled, known) = world.join(key, debug(), 0).await;
    let (mut quick, _) = world.join(key, debug(), 0).await;
    let mut news = world.engine.subscribe(key);
    while !world.engine.head(key).await.unwrap().summary.status.is_terminal() {
        news.changed().await;
    }
    while !matches!(quick.pull(&world.engine, known.max(news.known())).await.unwrap(), Pulled::Ended) {}
    world.engine.erase(key, None, None).await.unwrap();
    world.feeds.forget(key);
    for frame in follow(&world.engine, stalled, key).await {
        let event: serde_json::Value = serde_json::from_slice(frame.json()).unwrap();
        assert_eq!(event["payload"], serde_json::Value::Null);
    }
}
