//! What came with the eleventh release: runs that wait for runs, groups, work by hand, phases and their coordinators.

use serde_json::{Value, json};

use crate::support::{Server, answer, node, workflow};

const HAND: &str = "kept-hand";
const LATE: &str = "kept-late";
const FLOW: &str = "kept-flow";

pub(super) fn definitions() -> Vec<Value> {
    let by_hand = |id: &str| {
        let alone = node("self", "core.byHand", json!({}), json!({}), json!({}));
        workflow(id, &[alone], &[], json!([]))
    };
    vec![by_hand(HAND), by_hand(LATE)]
}

/// Three phases as OpenIntent writes them.
fn phases() -> Value {
    json!({
        "openintent": "1.0", "info": { "name": FLOW },
        "workflow": {
            "fetch": { "title": "Fetch", "assign": "ann", "outputs": { "rows": "array" } },
            "review": {
                "title": "Review", "assign": "ann", "depends_on": ["fetch"], "inputs": { "rows": "fetch.rows" },
                "outputs": { "level": { "type": "string", "enum": ["low", "high"] } },
            },
            "report": {
                "title": "Report", "assign": "bob", "depends_on": ["review"], "inputs": { "level": "review.level" },
            },
        },
    })
}

async fn post(server: &Server, path: &str, body: Value) -> Value {
    let (status, told) = server.post(path, &body).await;
    assert!(status.is_success(), "{path}: {told}");
    told
}

async fn hand(server: &Server, run: &str, agent: &str, op: Value) -> (reqwest::StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/hand"), &json!({ "agent": agent, "op": op })).await
}

async fn done(server: &Server, run: &str, agent: &str, op: Value) {
    let (status, told) = hand(server, run, agent, op).await;
    assert!(status.is_success(), "{told}");
}

fn ask() -> Value {
    let questions = json!([{ "id": "answer", "question": "Well?" }]);
    json!({ "kind": "ask", "payload": { "kind": "clarification", "data": { "questions": questions } } })
}

/// The run of a phase.
async fn phase(server: &Server, flow: &str, name: &str) -> String {
    let (_, graph) = server.get(&format!("/v1/runs/{flow}/graph")).await;
    let phases = graph["phases"].as_array().unwrap();
    let found = phases.iter().find(|phase| phase["phaseName"] == name).unwrap();
    found["runId"].as_str().unwrap().to_owned()
}

async fn group(server: &Server, name: &str, deadline: &str, members: &[&String]) {
    let made = json!({ "name": name, "governance": { "deadline": deadline } });
    let made = post(server, "/v1/groups", made).await;
    for member in members {
        let path = format!("/v1/groups/{}/members", made["groupId"].as_str().unwrap());
        post(server, &path, json!({ "runId": member })).await;
    }
}

async fn start(server: &Server, workflow: &str, more: Value) -> String {
    let mut body = more;
    body["workflowId"] = json!(workflow);
    post(server, "/v1/runs", body).await["runId"].as_str().unwrap().to_owned()
}

/// A workflow whose second phase asks and whose third is wanted; runs that wait, a draft, a child; groups with deadlines.
pub(super) async fn freeze(server: &Server) {
    let put = server.request(reqwest::Method::PUT, &format!("/v1/workflows/{FLOW}")).json(&phases());
    assert!(answer(put).await.unwrap().0.is_success());
    let flow = server.start_run(FLOW, json!({})).await;
    server.settle().await;
    let (fetch, review, report) = (
        phase(server, &flow, "fetch").await,
        phase(server, &flow, "review").await,
        phase(server, &flow, "report").await,
    );
    let lead = json!({ "kind": "register", "agent": "lead", "suspensionPolicy": "block_dependents" });
    post(server, &format!("/v1/runs/{flow}/coordinator"), lead).await;
    group(server, "kept", "2999-01-01T00:00:00Z", &[&fetch, &review, &report]).await;
    done(server, &fetch, "ann", json!({ "kind": "claim" })).await;
    done(server, &fetch, "ann", json!({ "kind": "complete", "outputs": { "rows": [1, 2] } })).await;
    until_claimable(server, &review).await;
    done(server, &review, "ann", ask()).await;
    // Whoever wants the report is refused until the review has completed, and remembered.
    while hand(server, &report, "bob", json!({ "kind": "claim" })).await.1["error"]
        != "upstream_intent_suspended"
    {
        tokio::task::yield_now().await;
    }
    let first = start(server, HAND, json!({})).await;
    done(server, &first, "ann", json!({ "kind": "claim" })).await;
    post(server, &format!("/v1/runs/{first}/children"), json!({ "workflowId": HAND })).await;
    start(server, HAND, json!({ "dependsOn": [first] })).await;
    let draft = json!({ "dependsOn": [first], "draft": true });
    start(server, HAND, draft).await;
    let late = start(server, LATE, json!({})).await;
    done(server, &late, "ann", json!({ "kind": "claim" })).await;
    done(server, &late, "ann", ask()).await;
    let deadline = server.get("/v1/dev/clock").await.1["nowMs"].as_i64().unwrap() + 100 * 24 * 3_600_000;
    let deadline = jiff::Timestamp::from_millisecond(deadline).unwrap().to_string();
    group(server, "late", &deadline, &[&late]).await;
    server.settle().await;
}

async fn until_claimable(server: &Server, run: &str) {
    while !hand(server, run, "ann", json!({ "kind": "claim" })).await.0.is_success() {
        tokio::task::yield_now().await;
    }
}

/// Whether nobody answers what this run asks: the deadline of its group ends it.
pub(super) async fn is_left_alone(server: &Server, run: &str) -> bool {
    server.get(&format!("/v1/runs/{run}")).await.1["workflowId"] == LATE
}

/// Does everything that is done by hand, whoever waits for it, and closes the groups.
pub(super) async fn finish(server: &Server, runs: &[String]) {
    for _ in 0..runs.len() {
        for run in runs {
            server.post(&format!("/v1/runs/{run}:activate"), &json!({})).await;
            for agent in ["ann", "bob"] {
                hand(server, run, agent, json!({ "kind": "claim" })).await;
                for outputs in [json!({}), json!({ "level": "low" })] {
                    hand(server, run, agent, json!({ "kind": "complete", "outputs": outputs })).await;
                }
            }
        }
        server.settle().await;
    }
    let (_, page) = server.get("/v1/groups").await;
    for group in page["groups"].as_array().unwrap() {
        let path = format!("/v1/groups/{}", group["groupId"].as_str().unwrap());
        let put = server.request(reqwest::Method::PUT, &format!("{path}/governance"));
        let (status, told) = answer(put.json(&json!({ "allowPartialCompletion": true }))).await.unwrap();
        assert!(status.is_success(), "{told}");
        post(server, &format!("{path}:close"), json!({})).await;
    }
}

/// Demands that what was said before still counts.
pub(super) async fn demand(server: &Server) {
    let (_, page) = server.get(&format!("/v1/runs?workflowId={FLOW}")).await;
    let Some(flow) = page["runs"][0]["runId"].as_str() else { return };
    let report = phase(server, flow, "report").await;
    let journal = server.request(reqwest::Method::GET, &format!("/v1/runs/{report}/journal"));
    let (_, events) = answer(journal.header("accept", "application/json")).await.unwrap();
    let claimed =
        events["events"].as_array().unwrap().iter().find(|event| event["type"] == "node.claimed").unwrap();
    assert_eq!(
        claimed["payload"],
        json!({ "agent": "bob", "inputs": { "level": "low" } }),
        "they were remembered"
    );
    let (_, page) = server.get("/v1/groups").await;
    let mut stand: Vec<(String, String)> = Vec::new();
    for group in page["groups"].as_array().unwrap() {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        stand.push((word(&group["name"]), word(&group["aggregateStatus"]["status"])));
    }
    stand.sort();
    let expected =
        [("kept", "completed"), ("late", "failed")].map(|(name, how)| (name.to_owned(), how.to_owned()));
    assert_eq!(stand, expected);
    let (_, page) = server.get(&format!("/v1/runs?workflowId={LATE}")).await;
    let (_, late) = server.get(&format!("/v1/runs/{}", page["runs"][0]["runId"].as_str().unwrap())).await;
    assert_eq!(late["abandonmentReason"], "portfolio_deadline_exceeded", "{late}");
}
