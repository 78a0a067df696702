//! Asked once, answered once, whatever dies in between: the process is killed between each two steps of a story, and
//! whoever reads it cannot tell.

use reqwest::Method;
use serde_json::{Value, json};

use super::{WINDOWS, expect_quiet};
use crate::support::{Server, Site, answer, node, verify, workflow};

/// The key under which two nodes ask the same.
const SHARED: &str = "budget";

/// How long the run rests between them.
const REST_MS: i64 = 3_600_000;

/// Two things at once, then something under a key, a rest, and the same key once more.
fn story() -> Value {
    let custom = |key: &str| json!({ "kind": "custom", "key": key, "data": { "customKind": "number" } });
    let both = json!({ "interrupts": [custom("left"), custom("right")] });
    let got = |node: &str, key: &str| json!({ "type": "connection", "nodeId": node, "outputKey": key });
    let kept = json!({
        "both": got("both", "resumeValues"), "first": got("first", "resumeValue"), "again": got("again", "resumeValue"),
    });
    let nodes = [
        node("both", "core.interrupt", both, json!({}), json!({})),
        node("first", "core.interrupt", custom(SHARED), json!({}), json!({})),
        node("rest", "core.delay", json!({ "ms": REST_MS }), json!({}), json!({})),
        node("again", "core.interrupt", custom(SHARED), json!({}), json!({})),
        node("end", "core.identity", json!({}), kept, json!({})),
    ];
    let edges = [("both", "first"), ("first", "rest"), ("rest", "again"), ("again", "end")];
    workflow("story", &nodes, &edges, json!([]))
}

/// A site, and the server that lives there at the moment.
struct Stage {
    site: Site,
    /// Whether the process dies between each two steps.
    dies: bool,
    server: Option<Server>,
}

impl Stage {
    fn new(dies: bool) -> Self {
        let site = Site::new();
        site.workflow(&story());
        let server = Some(site.start(&["--test-clock"]));
        Self { site, dies, server }
    }

    /// The server for the next step: another process, if the last one was killed.
    fn next(&mut self) -> &Server {
        if self.dies {
            self.server.take().unwrap().kill();
            expect_quiet(&self.site);
            self.server = Some(self.site.start(&["--test-clock"]));
        }
        self.server.as_ref().unwrap()
    }
}

/// What a run waits for: the key of each open interrupt with its id.
async fn open(server: &Server, run: &str) -> Vec<(String, String)> {
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let entries = shown["interrupts"].as_array().cloned().unwrap_or_default();
    let mut open: Vec<_> =
        entries.iter().map(|entry| (text(entry, "key"), text(entry, "interruptId"))).collect();
    open.sort();
    open
}

async fn resolve(server: &Server, run: &str, node: &str, id: &str, value: &Value) {
    let path = format!("/v1/runs/{run}/interrupts/{node}?interruptId={id}");
    let (status, body) = server.post(&path, &json!({ "resumeValue": value })).await;
    assert_eq!(status, 200, "{body}");
}

/// The journal so far, as a reader sees it.
async fn journal(server: &Server, run: &str) -> Vec<Value> {
    let (_, page) = server.get(&format!("/v1/runs/{run}/events/poll?timeout=1")).await;
    page["events"].as_array().unwrap().clone()
}

/// How often each key was asked for.
fn asked(events: &[Value]) -> Vec<(String, usize)> {
    let mut keys: Vec<String> = events
        .iter()
        .filter(|event| event["type"] == "interrupt.requested")
        .map(|event| event["payload"]["key"].as_str().unwrap().to_owned())
        .collect();
    keys.sort();
    let mut counted: Vec<(String, usize)> = Vec::new();
    for key in keys {
        match counted.last_mut() {
            Some((last, count)) if *last == key => *count += 1,
            _ => counted.push((key, 1)),
        }
    }
    counted
}

/// Tells the story to its end, and gives what the nodes got and what happened to which node.
async fn tell(stage: &mut Stage) -> (Value, Vec<(String, Value)>) {
    let run = stage.server.as_ref().unwrap().start_run("story", json!({})).await;
    let asked_first = open(stage.server.as_ref().unwrap(), &run).await;
    assert_eq!(asked_first.len(), 2, "{asked_first:?}");
    // Still the same questions, under the same ids.
    assert_eq!(open(stage.next(), &run).await, asked_first);
    let (left, right) = (&asked_first[0].1, &asked_first[1].1);
    resolve(stage.next(), &run, "both", left, &json!({ "n": 1 })).await;
    // The node was executed again: one of its calls had its answer, and the other still waits.
    assert_eq!(open(stage.next(), &run).await, asked_first[1..]);
    resolve(stage.next(), &run, "both", right, &json!([2])).await;
    let asked_next = open(stage.next(), &run).await;
    assert_eq!(asked_next[0].0, SHARED);
    resolve(stage.next(), &run, "first", &asked_next[0].1, &json!(3)).await;
    assert_eq!(open(stage.next(), &run).await, []);
    stage.next().advance(REST_MS).await;
    let events = stage.next().events(&run).await;
    assert_eq!(asked(&events), [(SHARED.to_owned(), 1), ("left".to_owned(), 1), ("right".to_owned(), 1)]);
    assert_eq!(events.last().unwrap()["type"], "run.completed");
    let end =
        events.iter().find(|event| event["type"] == "node.completed" && event["nodeId"] == "end").unwrap();
    let told =
        events.iter().map(|event| (event["type"].as_str().unwrap().to_owned(), event["nodeId"].clone()));
    // Another process finds it all as it was.
    assert_eq!(journal(stage.next(), &run).await, events);
    (end["payload"]["outputs"].clone(), told.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_between_each_two_steps_takes_the_answers_from_the_journal() {
    let mut stage = Stage::new(true);
    let (outputs, _) = tell(&mut stage).await;
    assert_eq!(outputs, json!({ "both": [{ "n": 1 }, [2]], "first": 3, "again": 3 }));
    assert!(stage.server.take().unwrap().stop().success());
    assert_eq!(verify(&stage.site.data()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_told_by_one_process_is_the_same_as_one_told_by_many() {
    let (mut one, mut many) = (Stage::new(false), Stage::new(true));
    let (told_by_one, told_by_many) = (tell(&mut one).await, tell(&mut many).await);
    assert_eq!(told_by_one, told_by_many);
}

/// Posts under a key of its own, unless the server dies on the way.
async fn post(server: &Server, path: &str, body: &Value) -> Option<Value> {
    let request =
        server.request(Method::POST, path).header("Idempotency-Key", format!("k{}", path.replace('/', "-")));
    let (status, body) = answer(request.json(body)).await.ok()?;
    assert!(status.is_success(), "{status} {body}");
    Some(body)
}

/// Starts the story and answers everything; `None` if the server dies on the way.
async fn answer_all(server: &Server) -> Option<String> {
    let started = post(server, "/v1/runs", &json!({ "workflowId": "story" })).await?;
    let run = started["runId"].as_str().unwrap().to_owned();
    for step in [("both", "left"), ("both", "right"), ("first", SHARED)] {
        let (_, shown) = answer(server.request(Method::GET, &format!("/v1/runs/{run}"))).await.ok()?;
        let open = shown["interrupts"].as_array().cloned().unwrap_or_default();
        // What was answered before a server died is not asked again.
        let Some(asked) = open.iter().find(|entry| entry["key"] == step.1) else { continue };
        let id = asked["interruptId"].as_str().unwrap();
        post(
            server,
            &format!("/v1/runs/{run}/interrupts/{}?interruptId={id}", step.0),
            &json!({ "resumeValue": 1 }),
        )
        .await?;
    }
    let moved =
        answer(server.request(Method::POST, "/v1/dev/clock").json(&json!({ "advanceMs": REST_MS }))).await;
    moved.ok().map(|_| run)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_asked_twice_whichever_commit_the_process_dies_at() {
    for window in &WINDOWS[..2] {
        for nth in 1..=6 {
            let site = Site::new();
            site.workflow(&story());
            let armed = format!("--failpoint={window}={nth}");
            if let Ok(server) = site.try_start(&["--test-clock", &armed]) {
                answer_all(&server).await;
                server.kill();
            }
            let server = site.start(&["--test-clock"]);
            let run = answer_all(&server).await.expect("nobody kills this one");
            // The clock may have been moved already.
            let events = server.events(&run).await;
            let once = asked(&events).iter().all(|(_, count)| *count == 1);
            assert!(once && asked(&events).len() == 3, "{window} {nth}: {events:#?}");
            assert_eq!(events.last().unwrap()["type"], "run.completed", "{window} {nth}");
        }
    }
}
