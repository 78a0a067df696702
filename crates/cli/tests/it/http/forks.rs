//! Forks over HTTP: what they begin with, who hears of them, and what is refused.

use super::*;
use crate::receiver::{ALLOW, Receiver};
use crate::support::verify;

/// Makes something of its input, asks for a decision, and does one thing more.
fn reviewed() -> Value {
    let draft = json!({ "outputs": { "words": "['a', 'b'].map(word, word + '!')" } });
    workflow(
        "reviewed",
        &[
            node("draft", "core.transform", draft, json!({}), json!({})),
            node("gate", "core.approvalGate", json!({ "title": "Send it?" }), json!({}), json!({})),
            node("after", "core.noop", json!({}), json!({}), json!({})),
        ],
        &[("draft", "gate"), ("gate", "after")],
        json!([]),
    )
}

async fn fork(server: &Server, run: &str, body: &Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}:fork"), body).await
}

/// A fork, which has to be made.
async fn forked(server: &Server, run: &str, body: &Value) -> (String, Value) {
    let (status, answer) = fork(server, run, body).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    (answer["runId"].as_str().unwrap().to_owned(), answer)
}

async fn decide(server: &Server, run: &str, action: &str) -> (StatusCode, Value) {
    let body = json!({ "resumeValue": { "action": action } });
    server.post(&format!("/v1/runs/{run}/interrupts/gate"), &body).await
}

/// Every event of a run, as a client compares them.
async fn events(server: &Server, run: &str) -> Vec<(Value, Value, Value)> {
    let (_, answer) = server.get(&format!("/v1/runs/{run}/events/poll?timeout=1")).await;
    let all = answer["events"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    all.iter()
        .map(|event| (event["type"].clone(), event["nodeId"].clone(), event["payload"].clone()))
        .collect()
}

async fn inbox(server: &Server) -> Vec<Value> {
    let (_, page) = server.get("/v1/interrupts").await;
    page["interrupts"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

async fn diff(server: &Server, run: &str, against: &str) -> Value {
    let (status, found) = server.get(&format!("/v1/runs/{run}:diff?against={against}")).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    found
}

/// A run that was accepted, on a server that tells a receiver of everything.
async fn accepted(site: &Site, receiver: &Receiver) -> (Server, String) {
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    let hook =
        json!({ "url": receiver.url, "events": ["run.started", "run.completed", "interrupt.requested"] });
    let (status, added) = server.post("/v1/webhooks", &hook).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    push(&server, &reviewed()).await;
    let run = server.start_run("reviewed", json!({})).await;
    let (status, answer) = decide(&server, &run, "accept").await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    (server, run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_uses_recorded_answers_and_nobody_hears_of_it() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let (server, run) = accepted(&site, &receiver).await;
    receiver.await_posts(3).await;
    let (one, answer) = forked(&server, &run, &json!({ "mode": "replay" })).await;
    assert_eq!(
        (&answer["sourceRunId"], &answer["fromSeq"], &answer["mode"], &answer["status"]),
        (&json!(run), &json!(0), &json!("replay"), &json!("completed"))
    );
    assert_eq!(answer["eventsUrl"], format!("/v1/runs/{one}/events"));
    assert_eq!(answer["replay"], json!({ "copied": 0, "executedLive": 4, "diverged": 0 }));
    let (two, _) = forked(&server, &run, &json!({ "mode": "replay" })).await;
    let recorded = events(&server, &run).await;
    assert_eq!(recorded.len(), events(&server, &one).await.len());
    let found = diff(&server, &run, &one).await;
    assert_eq!((&found["equal"], &found["different"]), (&json!(true), &json!(0)), "{found}");
    assert_eq!(diff(&server, &one, &two).await["equal"], true);
    let (_, shown) = server.get(&format!("/v1/runs/{one}")).await;
    assert_eq!(shown["forkedFrom"], json!({ "runId": run, "fromSeq": 0, "mode": "replay" }));
    assert_eq!(inbox(&server).await, Vec::<Value>::new());

    // The next thing that the receiver hears of is another run's.
    let other = server.start_run("reviewed", json!({})).await;
    let posts = receiver.await_posts(4).await;
    assert_eq!(posts[3].json()["runId"], other, "nothing was told of a replay");
    server.kill();
    verify(&site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_a_run_that_waits_waits_too_and_takes_no_answer() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &reviewed()).await;
    let run = server.start_run("reviewed", json!({})).await;
    let (replay, answer) = forked(&server, &run, &json!({ "mode": "replay" })).await;
    assert_eq!(answer["status"], "waiting-approval");
    let (_, shown) = server.get(&format!("/v1/runs/{replay}")).await;
    assert_eq!(shown["interrupt"]["interruptToken"], Value::Null, "{shown}");
    assert_eq!(inbox(&server).await.len(), 1, "only the question of the run itself");
    let (status, refused) = decide(&server, &replay, "accept").await;
    assert_eq!((status, &refused["error"]), (StatusCode::CONFLICT, &json!("run_is_replay")), "{refused}");
    let (_, why) = server.get(&format!("/v1/runs/{replay}/why")).await;
    assert!(why["summary"].as_str().unwrap().contains("replays another run"), "{why}");
    let (status, cancelled) = server.post(&format!("/v1/runs/{replay}/cancel"), &json!({})).await;
    assert_eq!((status, &cancelled["status"]), (StatusCode::OK, &json!("cancelled")), "{cancelled}");
    assert_eq!(inbox(&server).await.len(), 1);
    server.kill();
    verify(&site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_asks_again_under_a_new_id_and_goes_its_own_way() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let (server, run) = accepted(&site, &receiver).await;
    let journal = server.request(Method::GET, &format!("/v1/runs/{run}/journal"));
    let (_, journal) = answer(journal.header("accept", "application/json")).await.unwrap();
    let journal = journal["events"].as_array().unwrap().clone();
    let at = |name: &str| journal.iter().position(|event| event["type"] == name).unwrap();
    let asked = journal[at("interrupt.requested")]["payload"]["interruptId"].clone();
    let body = json!({
        "mode": "branch", "fromSeq": at("approval.received"),
        "runOptionsOverlay": { "tags": ["what-if"], "metadata": { "why": "curious" } },
    });
    let (branch, answer) = forked(&server, &run, &body).await;
    assert_eq!(answer["status"], "waiting-approval", "{answer}");
    let waiting = inbox(&server).await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0]["runId"], branch);
    assert_ne!(waiting[0]["interruptId"], asked, "{waiting:?}");
    let (status, resolved) = decide(&server, &branch, "reject").await;
    assert_eq!((status, &resolved["status"]), (StatusCode::OK, &json!("failed")), "{resolved}");
    let (_, shown) = server.get(&format!("/v1/runs/{branch}")).await;
    assert_eq!((&shown["tags"], &shown["metadata"]), (&json!(["what-if"]), &json!({ "why": "curious" })));
    let found = diff(&server, &run, &branch).await;
    assert_eq!(found["first"]["run"]["type"], "run.started", "its options are other: {found}");
    let kinds = found["differences"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap());
    let kinds: std::collections::BTreeSet<_> = kinds.collect();
    assert!(kinds.is_superset(&["changed", "only-in-run", "only-in-against"].into()), "{found}");
    let (_, page) = server.get(&format!("/v1/runs/{run}:diff?against={branch}&limit=1")).await;
    assert_eq!((page["differences"].as_array().unwrap().len(), &page["nextCursor"]), (1, &json!("1")));
    server.kill();
    verify(&site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_makes_no_sense_is_refused() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &reviewed()).await;
    let run = server.start_run("reviewed", json!({})).await;
    let nobody = "run-00000000-0000-7000-8000-000000000000";
    let overlay = json!({ "configurable": { "recursionLimit": 0 } });
    for (run, body, status, code) in [
        (run.as_str(), json!({ "mode": "branch" }), 400, "validation_error"),
        (&run, json!({ "mode": "branch", "fromSeq": -1 }), 400, "validation_error"),
        (&run, json!({ "mode": "replay", "fromSeq": "1" }), 400, "validation_error"),
        (&run, json!({ "mode": "rewind" }), 400, "validation_error"),
        (&run, json!({ "mode": "replay", "extra": 1 }), 400, "validation_error"),
        (&run, json!({ "mode": "replay", "runOptionsOverlay": { "tags": ["a"] } }), 400, "validation_error"),
        (
            &run,
            json!({ "mode": "branch", "fromSeq": 1, "runOptionsOverlay": overlay }),
            400,
            "validation_error",
        ),
        (&run, json!({ "mode": "branch", "fromSeq": 9_999 }), 422, "fork_beyond_log"),
        (nobody, json!({ "mode": "replay" }), 404, "run_not_found"),
    ] {
        let (answered, refused) = fork(&server, run, &body).await;
        assert_eq!((answered.as_u16(), &refused["error"]), (status, &json!(code)), "{body}: {refused}");
    }
    let (status, refused) = server.get(&format!("/v1/runs/{run}:diff?against={nobody}")).await;
    assert_eq!((status, &refused["error"]), (StatusCode::NOT_FOUND, &json!("run_not_found")));
    decide(&server, &run, "accept").await;
    let (status, _) = server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let (status, refused) = fork(&server, &run, &json!({ "mode": "replay" })).await;
    assert_eq!((status, &refused["error"]), (StatusCode::GONE, &json!("run_erased")), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_idempotency_key_makes_one_fork() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &reviewed()).await;
    let run = server.start_run("reviewed", json!({})).await;
    let ask = || {
        let request = server.request(Method::POST, &format!("/v1/runs/{run}:fork"));
        answer(request.header("Idempotency-Key", "once").json(&json!({ "mode": "branch", "fromSeq": 2 })))
    };
    let (first, second) = (ask().await.unwrap(), ask().await.unwrap());
    assert_eq!(first.0, StatusCode::CREATED, "{}", first.1);
    assert_eq!(first, second);
    let (_, page) = server.get("/v1/runs?workflowId=reviewed").await;
    assert_eq!(page["runs"].as_array().unwrap().len(), 2, "{page}");
}
