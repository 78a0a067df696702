//! The server is killed: in the middle of a request, and while nothing is under way.

use super::other::Mood;
use super::*;

/// Requests that last as long as they have to.
async fn patient() -> Drill {
    let drill = Drill::begin().await;
    for (name, method) in [("slow-twice", "GET"), ("slow-once", "POST")] {
        let mut slow = drill.other.request(method, name, json!({}));
        slow["config"]["timeoutMs"] = json!(600_000);
        let (status, told) = put(&drill.server, &single(name, &slow)).await;
        assert!(status.is_success(), "{told}");
    }
    drill.other.is(Mood::Silent);
    drill
}

async fn put(server: &Server, definition: &Value) -> (StatusCode, Value) {
    let path = format!("/v1/workflows/{}", definition["id"].as_str().unwrap());
    crate::support::answer(server.request(reqwest::Method::PUT, &path).json(definition)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_within_a_request_resumes_what_may_be_done_twice() {
    let mut drill = patient().await;
    let run = drill.server.start_run("slow-twice", json!({})).await;
    drill.other.await_effects("slow-twice", 1).await;
    drill.kill();
    drill.other.await_effects("slow-twice", 2).await;
    assert_eq!(attempts(&drill.view(&run).await), 1, "an outcome was unknown, so it counts");
    // The second crash has to wait for the window of a minute that the first attempt opened.
    drill.server.advance(20 * SECOND_MS).await;
    drill.kill();
    drill.server.settle().await;
    let view = drill.view(&run).await;
    demand_cooling(&view, "process_crash", 40, 2);
    assert_eq!(view["resumePoint"]["status"], "in_progress", "{view:#}");
    drill.kill();
    drill.later(39 * SECOND_MS).await;
    demand_cooling(&drill.view(&run).await, "process_crash", 1, 2);
    assert_eq!(drill.other.effects("slow-twice"), 2);
    drill.other.is(Mood::Answers(200));
    drill.later(SECOND_MS).await;
    drill.demand_completed(&run).await;
    assert_eq!((drill.other.effects("slow-twice"), attempts(&drill.view(&run).await)), (3, 2));
    crate::support::verify(&drill.site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_within_a_request_repeats_nothing_that_must_not_be_done_twice() {
    let mut drill = patient().await;
    let run = drill.server.start_run("slow-once", json!({})).await;
    drill.other.await_effects("slow-once", 1).await;
    drill.kill();
    drill.server.settle().await;
    let view = drill.view(&run).await;
    demand_escalated(&view, "resume_non_idempotent_step", "process_crash");
    assert_eq!((&view["steps"][0]["effect"], attempts(&view)), (&json!("unknown"), 0), "{view:#}");
    drill.later(DAY_MS).await;
    drill.kill();
    drill.server.settle().await;
    drill.refused(&run, json!({ "force": true, "reason": "now" }), "resume_non_idempotent_step").await;
    assert_eq!(drill.other.effects("slow-once"), 1);
    drill.other.is(Mood::Answers(200));
    drill.resume(&run, json!({ "approveSteps": ["slow-once"], "reason": "it was not done" })).await;
    drill.demand_completed(&run).await;
    assert_eq!(drill.other.effects("slow-once"), 2);
    crate::support::verify(&drill.site.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_parked_when_the_server_was_killed_is_recovered() {
    let mut drill = Drill::begin().await;
    let wait = node("wait", "core.delay", json!({ "ms": 60_000 }), json!({}), json!({}));
    let ask = drill.other.request("POST", "after", json!({}));
    let definition = workflow("parked", &[wait, ask], &[("wait", "after")], json!([]));
    assert!(put(&drill.server, &definition).await.0.is_success());
    let run = drill.run("parked").await;
    drill.kill();
    let view = drill.view(&run).await;
    assert_eq!((&view["interrupted"], &view["decision"]), (&json!(false), &Value::Null), "{view:#}");
    drill.later(60 * SECOND_MS).await;
    drill.kill();
    drill.demand_completed(&run).await;
    let view = drill.view(&run).await;
    assert_eq!((attempts(&view), drill.other.effects("after")), (0, 1), "{view:#}");
    let decided = &view["decision"];
    assert_eq!(decided["reason_code"], "resume_missing_checkpoint", "it has ended: {view:#}");
}
