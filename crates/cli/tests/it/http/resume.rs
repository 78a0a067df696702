//! GET and POST /v1/runs/{run}/resume: interrupted runs, and what operators may do about them.

use super::*;
use crate::receiver::{ALLOW, Receiver};
use crate::support::verify;

const SECOND_MS: i64 = 1000;

/// A workflow of one request, which is told to be idempotent or not.
fn asking(url: &str, idempotent: bool) -> Value {
    let config = json!({ "method": "POST", "url": url });
    let settings = json!({ "abide": { "idempotent": idempotent } });
    workflow("asking", &[node("ask", "core.http.request", config, json!({}), settings)], &[], json!([]))
}

/// A server whose workflow asks a receiver that answers so, and a run of it.
async fn interrupted(site: &Site, receiver: &Receiver, idempotent: bool) -> (Server, String) {
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    push(&server, &asking(&receiver.url, idempotent)).await;
    let run = server.start_run("asking", json!({})).await;
    (server, run)
}

async fn resumption(server: &Server, run: &str) -> Value {
    let (status, told) = server.get(&format!("/v1/runs/{run}/resume")).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(told["runId"], run);
    told
}

async fn resume(server: &Server, run: &str, body: Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/resume"), &body).await
}

/// Waits until the run stands so.
async fn until(server: &Server, run: &str, stands: impl Fn(&Value) -> bool) -> Value {
    tokio::time::timeout(PATIENCE, async {
        loop {
            let told = resumption(server, run).await;
            if stands(&told) {
                return told;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it should come to stand so")
}

fn codes(told: &Value) -> Vec<&str> {
    told["decisions"].as_array().unwrap().iter().map(|one| one["reason_code"].as_str().unwrap()).collect()
}

/// It fails twice: the first resume is at once, the second after the cool-down.
#[tokio::test]
async fn a_cool_down_is_told_and_waited_for() {
    let site = site();
    let receiver = Receiver::answering(|n, _| if n < 2 { 503 } else { 204 }).await;
    let (server, run) = interrupted(&site, &receiver, true).await;
    let told = until(&server, &run, |told| told["nextAt"].is_string() && codes(told).len() == 2).await;
    assert_eq!(codes(&told), ["resume_blocked_cooldown", "resume_allowed"]);
    assert_eq!(
        (&told["interrupted"], &told["escalated"], &told["autoResume"]),
        (&json!(true), &json!(false), &json!(true))
    );
    assert_eq!(told["status"], "running");
    let decision = &told["decision"];
    assert_eq!(
        (&decision["reason_code"], &decision["attempt"], &decision["max_attempts"]),
        (&json!("resume_blocked_cooldown"), &json!(2), &json!(3))
    );
    assert_eq!((&decision["cooldown_seconds_remaining"], &decision["actor"]), (&json!(30), &json!("system")));
    assert_eq!(told["artifacts"], json!({ "plan": true, "state": true, "history": true }));
    assert_eq!(
        (&told["resumePoint"]["status"], &told["resumePoint"]["valid"]),
        (&json!("failed"), &json!(true))
    );
    let step = &told["steps"][0];
    assert_eq!(
        (&step["node"], &step["class"], &step["code"]),
        (&json!("ask"), &json!("tool_failure"), &json!("http_status"))
    );
    assert_eq!((&step["effect"], &step["idempotent"]), (&json!("unknown"), &json!(true)));

    let refused = refusal(resume(&server, &run, json!({})).await, "resume_blocked_cooldown");
    assert_eq!(
        (&refused["decision"]["eligible"], &refused["decision"]["event"]),
        (&json!(false), &json!("resume_decision"))
    );
    assert_ne!(refused["decision"]["actor"], "system");
    assert_eq!(codes(&resumption(&server, &run).await).len(), 3, "a refusal is recorded, too");
    assert_eq!(receiver.heard().len(), 2);

    server.advance(30 * SECOND_MS).await;
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
    assert_eq!(receiver.heard().len(), 3);
    assert!(server.stop().success());
    verify(&site.data());
}

#[tokio::test]
async fn a_forced_resume_does_not_wait_and_says_why() {
    let site = site();
    let receiver = Receiver::answering(|n, _| if n < 2 { 503 } else { 204 }).await;
    let (server, run) = interrupted(&site, &receiver, true).await;
    until(&server, &run, |told| codes(told).first() == Some(&"resume_blocked_cooldown")).await;
    refusal(resume(&server, &run, json!({ "force": true })).await, "validation_error");
    refusal(resume(&server, &run, json!({ "interruptionClass": "timeout" })).await, "validation_error");
    refusal(resume(&server, &run, json!({ "truncate": true })).await, "validation_error");
    refusal(resume(&server, &run, json!({ "action": "disable", "force": true })).await, "validation_error");
    refusal(resume(&server, &run, json!({ "approveSteps": ["nobody"] })).await, "validation_error");
    let (status, told) =
        resume(&server, &run, json!({ "force": true, "reason": "the service is back" })).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
}

#[tokio::test]
async fn a_step_that_may_have_been_done_waits_for_a_person() {
    let site = site();
    let receiver = Receiver::answering(|n, _| if n == 0 { 503 } else { 204 }).await;
    let (server, run) = interrupted(&site, &receiver, false).await;
    let told = until(&server, &run, |told| told["escalated"] == true).await;
    assert_eq!(
        (&told["status"], &told["decision"]["reason_code"]),
        (&json!("paused"), &json!("resume_non_idempotent_step"))
    );
    assert!(told["interruptId"].is_string() && told["nextAt"].is_null());
    let checklist = told["checklist"].as_array().unwrap();
    assert!(checklist.iter().any(|line| line.as_str().unwrap().contains("--approve-step ask")), "{told}");
    let seen = shown(&server, &run).await;
    let interruption = &seen["nodeStates"]["ask"]["interruption"];
    assert_eq!(
        (&interruption["class"], &interruption["effect"]),
        (&json!("tool_failure"), &json!("unknown"))
    );
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    assert!(why["reasons"].to_string().contains("may or may not have happened"), "{why}");

    refusal(server.post(&format!("/v1/runs/{run}:resume"), &json!({})).await, "run_escalated");
    refusal(
        resume(&server, &run, json!({ "force": true, "reason": "hurry" })).await,
        "resume_non_idempotent_step",
    );
    server.advance(HOUR_MS).await;
    assert_eq!(receiver.heard().len(), 1, "time alone does nothing");
    let (status, told) = resume(&server, &run, json!({ "approveSteps": ["ask"] })).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let kinds: Vec<Value> = server.events(&run).await.iter().map(|event| event["type"].clone()).collect();
    assert!(kinds.contains(&json!("run.paused")) && kinds.contains(&json!("run.resumed")), "{kinds:?}");
    assert_eq!(shown(&server, &run).await["status"], "completed");
}

#[tokio::test]
async fn a_step_that_was_done_after_all_is_not_done_again() {
    let site = site();
    let receiver = Receiver::answering(|_, _| 503).await;
    let (server, run) = interrupted(&site, &receiver, false).await;
    until(&server, &run, |told| told["escalated"] == true).await;
    let (status, told) = resume(&server, &run, json!({ "done": { "ask": { "status": 200 } } })).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
    assert_eq!(receiver.heard().len(), 1);
}

#[tokio::test]
async fn what_a_key_may_do_is_asked_for_each_thing() {
    let site = site();
    let receiver = Receiver::answering(|n, _| if n == 0 { 503 } else { 204 }).await;
    let key = |scopes: &str| site.key("default").scopes(scopes).make();
    let (reads, resumes, answers, forces) = (
        key("runs:read"),
        key("runs:read,runs:resume"),
        key("runs:read,approvals:respond"),
        key("runs:read,approvals:respond,runs:force"),
    );
    let (server, run) = interrupted(&site, &receiver, false).await;
    let told = until(&server, &run, |told| told["escalated"] == true).await;
    let path = format!("/v1/runs/{run}/resume");
    let post =
        |key: &str, path: &str, body: Value| answer(server.request_as(key, Method::POST, path).json(&body));
    let lacks = |answered: (StatusCode, Value), scope: &str| {
        assert_eq!(refusal(answered, "forbidden")["scopeRequired"], scope);
    };
    assert_eq!(answer(server.request_as(&reads, Method::GET, &path)).await.unwrap().0, StatusCode::OK);
    lacks(post(&reads, &path, json!({})).await.unwrap(), "runs:resume");
    lacks(post(&resumes, &path, json!({ "force": true, "reason": "x" })).await.unwrap(), "runs:force");
    refusal(post(&resumes, &path, json!({})).await.unwrap(), "resume_non_idempotent_step");

    // Answering the question is to force it, by whichever way.
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let id = told["interruptId"].as_str().unwrap();
    for path in [
        format!("/v1/runs/{run}/interrupts/abide:resume"),
        format!("/v1/runs/{run}/interrupts/abide:resume?interruptId={id}"),
    ] {
        lacks(post(&answers, &path, accept.clone()).await.unwrap(), "runs:force");
    }
    let token = |seen: Value| seen["interrupts"][0]["interruptToken"].as_str().unwrap().to_owned();
    let run_path = format!("/v1/runs/{run}");
    let looks = token(answer(server.request_as(&answers, Method::GET, &run_path)).await.unwrap().1);
    refusal(post(&answers, &format!("/v1/interrupts/{looks}"), accept.clone()).await.unwrap(), "forbidden");
    assert_eq!(receiver.heard().len(), 1);
    let resolves = token(answer(server.request_as(&forces, Method::GET, &run_path)).await.unwrap().1);
    let (status, body) = post(&forces, &format!("/v1/interrupts/{resolves}"), accept).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{body}");
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
}

#[tokio::test]
async fn a_rejected_question_fails_the_run() {
    let site = site();
    let receiver = Receiver::answering(|_, _| 503).await;
    let (server, run) = interrupted(&site, &receiver, false).await;
    let told = until(&server, &run, |told| told["escalated"] == true).await;
    let path = format!(
        "/v1/runs/{run}/interrupts/abide:resume?interruptId={}",
        told["interruptId"].as_str().unwrap()
    );
    let (status, body) = server.post(&path, &json!({ "resumeValue": { "action": "reject" } })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "failed");
    assert_eq!(receiver.heard().len(), 1);
}

#[tokio::test]
async fn what_was_not_interrupted_or_has_ended_is_not_resumed() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let parked = server.start_run("parked", json!({})).await;
    assert_eq!(resumption(&server, &parked).await["decision"], Value::Null);
    refusal(resume(&server, &parked, json!({})).await, "run_not_interrupted");
    let done = server.start_run("noop", json!({})).await;
    let events = server.events(&done).await.len();
    let refused = refusal(resume(&server, &done, json!({})).await, "resume_missing_checkpoint");
    assert_eq!(refused["decision"]["run_id"], done);
    let told = resumption(&server, &done).await;
    assert_eq!(codes(&told), ["resume_missing_checkpoint"], "it stands beside the journal");
    assert_ne!(told["decisions"][0]["actor"], "system");
    assert_eq!(server.events(&done).await.len(), events, "the last event stays the last");
    refusal(resume(&server, &done, json!({ "action": "disable" })).await, "run_not_interrupted");
    refusal(resume(&server, "run-00000000-0000-7000-8000-000000000000", json!({})).await, "run_not_found");
    refusal(server.get("/v1/runs/run-00000000-0000-7000-8000-000000000000/resume").await, "run_not_found");
    assert!(server.stop().success());
    verify(&site.data());
}

#[tokio::test]
async fn a_run_that_is_not_resumed_by_itself_says_so() {
    let site = site();
    let receiver = Receiver::answering(|n, _| if n == 0 { 503 } else { 204 }).await;
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    let wait = node("wait", "core.delay", json!({ "ms": 1000 }), json!({}), json!({}));
    let config = json!({ "method": "POST", "url": receiver.url });
    let ask = node("ask", "core.http.request", config, json!({}), json!({ "abide": { "idempotent": true } }));
    push(&server, &workflow("later", &[wait, ask], &[("wait", "ask")], json!([]))).await;
    let run = server.start_run("later", json!({})).await;
    let (status, told) =
        resume(&server, &run, json!({ "action": "disable", "reason": "we look first" })).await;
    assert_eq!((status, &told["autoResume"]), (StatusCode::OK, &json!(false)), "{told}");
    server.advance(SECOND_MS).await;
    let told = until(&server, &run, |told| told["escalated"] == true).await;
    assert_eq!(
        (&told["autoResume"], &told["decision"]["reason_code"]),
        (&json!(false), &json!("resume_allowed"))
    );
    let (status, told) = resume(&server, &run, json!({})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
}

/// The end of its journal is damaged on disk while the run waits: nothing of it is touched until somebody insists.
#[tokio::test]
async fn a_damaged_run_is_told_refused_and_cut_on_demand() {
    let site = site();
    let receiver = Receiver::answering(|_, _| 503).await;
    let (server, run) = interrupted(&site, &receiver, false).await;
    until(&server, &run, |told| told["escalated"] == true).await;
    assert!(server.stop().success());
    let id = uuid::Uuid::parse_str(run.trim_start_matches("run-")).unwrap();
    let damaged = site.database().execute(
        "UPDATE events SET payload = substr(payload, 2) WHERE id = ?1 AND seq = (SELECT max(seq) FROM events WHERE id = ?1)",
        [id.as_bytes().as_slice()],
    );
    assert_eq!(damaged.unwrap(), 1);

    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    let rows = site.rows();
    let told = resumption(&server, &run).await;
    assert_eq!(told["artifacts"], json!({ "plan": true, "state": true, "history": false }));
    assert_eq!(told["decision"]["reason_code"], "resume_missing_runtime_artifacts");
    assert_eq!(told["resumePoint"]["valid"], false);
    assert!(told["checklist"].to_string().contains("--truncate"), "{told}");
    let refused =
        resume(&server, &run, json!({ "force": true, "reason": "hurry", "approveSteps": ["ask"] })).await;
    refusal(refused, "resume_missing_runtime_artifacts");
    refusal(resume(&server, &run, json!({ "action": "disable" })).await, "resume_missing_runtime_artifacts");
    let mut after = site.rows();
    assert_eq!(after.insert("audit_log".to_owned(), rows["audit_log"]), Some(rows["audit_log"] + 1));
    after.insert("audit_heads".to_owned(), rows["audit_heads"]);
    assert_eq!(after, rows, "nothing was written but that it was refused");
    assert_eq!(codes(&resumption(&server, &run).await)[0], "resume_missing_runtime_artifacts");

    let cut =
        json!({ "force": true, "reason": "the disk was bad", "truncate": true, "approveSteps": ["ask"] });
    refusal(
        resume(&server, &server.start_run("parked", json!({})).await, cut.clone()).await,
        "run_not_truncatable",
    );
    let (status, told) =
        resume(&server, &run, json!({ "force": true, "reason": "the disk was bad", "truncate": true })).await;
    assert!(status == StatusCode::OK || told["error"] == "resume_non_idempotent_step", "{told}");
    let told =
        until(&server, &run, |told| told["artifacts"]["history"] == true && told["escalated"] == true).await;
    assert_eq!(told["steps"][0]["node"], "ask");
    let audited: String = site
        .database()
        .query_row("SELECT CAST(body AS TEXT) FROM audit_log WHERE kind = 'truncation'", [], |row| row.get(0))
        .unwrap();
    assert!(audited.contains("the disk was bad") && audited.contains("\"sha256\""), "{audited}");
    assert!(server.stop().success());
    verify(&site.data());
}
