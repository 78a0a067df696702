//! What is sensitive stands in no file, log, stream or webhook in clear, and still works.

use std::path::Path;

use super::outgoing::Peer;
use super::*;
use crate::receiver::Receiver;
use crate::support::verify;

/// What nobody may find.
const MARK: &str = "hunter2-marker-4711";

/// A server that says more than it usually does.
const FLAGS: [&str; 5] = ["--test-clock", "--allow-net", "127.0.0.1/32", "--log", "debug"];

fn step(id: &str, kind: &str, config: Value) -> Value {
    node(id, kind, config, json!({}), json!({}))
}

/// Carries a sensitive input through a variable, a channel, an answer over HTTP and a child, and compares in the end
/// whether all of them are what they were.
fn keeper(peer: &Peer) -> Value {
    let mut fetch = step("fetch", "core.http.request", json!({ "url": peer.url }));
    fetch["outputSensitivity"] = json!({ "body": true });
    let same = "variables.result == variables.copy && channels.closed == variables.pw && \
                nodes.fetch.outputs.body == variables.pw";
    let mut check = step("check", "core.transform", json!({ "outputs": { "same": same } }));
    check["outputSensitivity"] = json!({ "same": false });
    let child = json!({
        "workflowId": "helper", "inputMapping": { "given": "pw" }, "outputMapping": { "result": "back" },
    });
    let value = json!({ "value": { "type": "variable", "variableName": "pw" } });
    let mut definition = workflow(
        "keeper",
        &[
            step("made", "core.transform", json!({ "assign": { "copy": "variables.pw + '!'" } })),
            node("says", "core.channelWrite", json!({ "channelName": "closed" }), value, json!({})),
            fetch,
            step("call", "core.subWorkflow", child),
            check,
        ],
        &[("made", "says"), ("says", "fetch"), ("fetch", "call"), ("call", "check")],
        json!([{ "name": "pw", "type": "string", "sensitive": true }]),
    );
    definition["channels"] = json!({ "closed": { "reducer": "replace", "sensitive": true } });
    definition
}

/// Waits an hour and gives back what it was given, with a bit more.
fn helper() -> Value {
    let made = json!({ "assign": { "back": "variables.given + '!'" } });
    let nodes = [step("wait", "core.delay", json!({ "ms": HOUR_MS })), step("made", "core.transform", made)];
    workflow("helper", &nodes, &[("wait", "made")], json!([{ "name": "given", "type": "string" }]))
}

/// Every file under a directory in which a mark stands, and how many there are.
fn marked(dir: &Path, mark: &str) -> (Vec<String>, usize) {
    let (mut found, mut files) = (Vec::new(), 0);
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let (inner, count) = marked(&path, mark);
            found.extend(inner);
            files += count;
            continue;
        }
        files += 1;
        let bytes = std::fs::read(&path).unwrap_or_default();
        if bytes.windows(mark.len()).any(|window| window == mark.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    (found, files)
}

/// The data, what the servers said, the keyring and everything else of a site are without the mark.
fn demand_unmarked(site: &Site) {
    demand_without(site, MARK);
}

fn demand_without(site: &Site, mark: &str) {
    let (found, files) = marked(&site.path(""), mark);
    assert!(files >= 4, "the test can search");
    assert_eq!(found, Vec::<String>::new());
}

/// Starts the run, under a key so that its answer is kept, and waits until its child waits.
async fn start(server: &Server) -> (String, String) {
    let body = json!({ "workflowId": "keeper", "inputs": { "pw": MARK } });
    let request = server.request(Method::POST, "/v1/runs").header("Idempotency-Key", "once").json(&body);
    let (status, started) = answer(request).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{started}");
    let run = started["runId"].as_str().unwrap().to_owned();
    outgoing::await_events(server, &run, "node.started", 4).await;
    loop {
        let children = shown(server, &run).await["childRuns"].clone();
        if children[0]["status"] == "running" {
            return (run, children[0]["runId"].as_str().unwrap().to_owned());
        }
    }
}

/// Everything that is told of a run that has ended, in every mode.
async fn told(server: &Server, run: &str) -> String {
    let mut told = String::new();
    for tail in [
        "",
        "/why",
        "/journal",
        "/events/poll?timeout=1",
        "/events",
        "/events?streamMode=updates",
        "/events?streamMode=values",
        "/events?streamMode=messages",
        "/events?streamMode=debug",
    ] {
        told += &text_of(server, &format!("/v1/runs/{run}{tail}")).await;
    }
    told
}

async fn await_sent(server: &Server, webhook: &str) {
    loop {
        let (_, state) = server.get(&format!("/v1/webhooks/{webhook}")).await;
        if state["pending"] == 0 {
            return assert_eq!(state["dead"], 0, "{state}");
        }
    }
}

/// A keyring with one more key, the newest.
fn rotate(keyring: &Path) {
    let mut ring: Value = serde_json::from_slice(&std::fs::read(keyring).unwrap()).unwrap();
    ring["keys"].as_array_mut().unwrap().push(json!({ "kid": 2, "secret": "5e".repeat(32) }));
    std::fs::write(keyring, ring.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sensitive_stands_in_no_file_log_stream_or_webhook_and_still_works_after_a_kill() {
    let (peer, receiver) = (Peer::start(|_, _| (200, MARK.to_owned())).await, Receiver::start().await);
    let site = Site::new();
    site.workflow(&keeper(&peer)).workflow(&helper());
    let server = site.start(&FLAGS);
    let (status, added) = server.post("/v1/webhooks", &json!({ "url": receiver.url, "events": ["*"] })).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    let (run, child) = start(&server).await;
    demand_unmarked(&site);
    server.kill();
    demand_unmarked(&site);
    // From here on another key seals, and what the first one sealed still opens.
    rotate(&site.path("data.keyring"));
    let server = site.start(&FLAGS);
    demand_unmarked(&site);
    server.advance(HOUR_MS).await;
    server.events(&run).await;
    let done = shown(&server, &run).await;
    assert_eq!(done["nodeStates"]["check"]["outputs"], json!({ "same": true }), "{done}");
    for run in [&run, &child] {
        let told = told(&server, run).await;
        assert!(!told.contains(MARK), "{told}");
        assert!(told.contains("[masked]"), "the test looks at the right places");
    }
    await_sent(&server, added["webhookId"].as_str().unwrap()).await;
    let posts = receiver.heard();
    assert!(posts.len() > 10, "{} events came", posts.len());
    assert!(posts.iter().all(|post| !String::from_utf8_lossy(&post.body).contains(MARK)));
    demand_unmarked(&site);
    assert!(server.stop().success());
    demand_unmarked(&site);
    assert_eq!(verify(&site.data()), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyring_that_is_not_at_hand_is_named_and_takes_no_other_run_down() {
    let peer = Peer::start(|_, _| (200, MARK.to_owned())).await;
    let site = Site::new();
    site.workflow(&keeper(&peer)).workflow(&helper());
    let server = site.start(&FLAGS);
    let (run, _) = start(&server).await;
    let open = server.start_run("helper", json!({ "given": "nothing special" })).await;
    assert!(server.stop().success());
    let (keyring, kept) = (site.path("data.keyring"), site.path("kept"));
    std::fs::rename(&keyring, &kept).unwrap();
    let looked = || {
        let data = site.data().display().to_string();
        let output = crate::support::abide().args(["verify", "--data", &data]).output().unwrap();
        assert_eq!(output.status.code(), Some(5));
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
    };
    let said = looked();
    let named = keyring.display().to_string();
    assert!(
        said.contains("sealed under key 1") && said.contains(&named) && said.contains("restore"),
        "{said}"
    );
    assert!(said.contains("2 runs are bad") && !said.contains(&open), "the third can be read: {said}");
    // A server on another keyring goes on with whatever is not sealed.
    std::fs::copy(&kept, &keyring).unwrap();
    std::fs::write(
        &keyring,
        json!({ "version": 1, "keys": [{ "kid": 1, "secret": "5e".repeat(32) }] }).to_string(),
    )
    .unwrap();
    let server = site.start(&FLAGS);
    let (status, refused) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{refused}");
    server.advance(HOUR_MS).await;
    server.events(&open).await;
    assert_eq!(shown(&server, &open).await["status"], "completed");
    assert!(site.said().contains("sealed under key 1"), "{}", site.said());
    assert!(server.stop().success());
    // With its own keyring again, the run goes on as if nothing had been.
    std::fs::rename(&kept, &keyring).unwrap();
    let server = site.start(&FLAGS);
    server.advance(HOUR_MS).await;
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["nodeStates"]["check"]["outputs"], json!({ "same": true }));
    assert!(server.stop().success());
    assert_eq!(verify(&site.data()), 3);
}

/// Asks whether something sensitive may be released; what is said to that is sensitive too.
fn gate() -> Value {
    let shown = json!({ "artifact": { "type": "variable", "variableName": "pw" } });
    let hidden = json!({ "abide": { "sensitive": true } });
    let gate = node("gate", "core.approvalGate", json!({}), shown, hidden);
    workflow("gate", &[gate], &[], json!([{ "name": "pw", "type": "string", "sensitive": true }]))
}

#[tokio::test]
async fn a_sensitive_question_its_answer_and_its_token_stand_in_no_file_and_their_secret_cannot_be_retired() {
    let site = Site::new();
    site.workflow(&gate());
    let server = site.start(&FLAGS);
    let run = server.start_run("gate", json!({ "pw": MARK })).await;
    let snapshot = shown(&server, &run).await;
    let token = snapshot["interrupt"]["interruptToken"].as_str().unwrap();
    let seen = text_of(&server, &format!("/v1/interrupts/{token}")).await;
    assert!(seen.contains(MARK), "whoever answers sees what it is about: {seen}");
    // An event that nobody waits for is kept, and may yet answer something sensitive.
    let event = json!({ "eventId": "1", "eventType": "paid", "eventPayload": { "card": MARK } });
    let (status, kept) = server.post("/v1/external-events", &event).await;
    assert!(status.is_success() && kept["kept"] == true, "{kept}");
    let value = json!({ "resumeValue": { "action": "accept", "feedback": MARK } });
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let request = server.request(Method::POST, &path).header("Idempotency-Key", "once").json(&value);
    let (status, answered) = answer(request).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{answered}");
    server.events(&run).await;
    assert!(!told(&server, &run).await.contains(MARK));
    let mac = token.rsplit_once('.').unwrap().1;
    for mark in [MARK, mac] {
        demand_without(&site, mark);
    }
    server.kill();
    for mark in [MARK, mac] {
        demand_without(&site, mark);
    }
    assert_eq!(verify(&site.data()), 1);
    let keyring = |args: &[&str]| {
        let mut command = crate::support::abide();
        command.arg("keyring").args(args).arg("--data").arg(site.data()).output().unwrap()
    };
    assert!(keyring(&["rotate"]).status.success());
    let refused = keyring(&["retire", "1", "--force"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("only secret 1 opens"), "{said}");
    assert_eq!(verify(&site.data()), 1, "nothing is lost");
}
