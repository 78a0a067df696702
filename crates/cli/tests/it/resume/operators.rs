//! What people do about interrupted runs: approve, switch, accept, reject.

use reqwest::Method;

use super::other::Mood;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_for_the_steps_that_it_names_and_for_once() {
    let drill = Drill::begin().await;
    let post = |name| drill.other.request("POST", name, json!({}));
    let both = workflow("both", &[post("left"), post("right")], &[], json!([]));
    let row = workflow("row", &[post("first"), post("second")], &[("first", "second")], json!([]));
    for definition in [&both, &row] {
        let path = format!("/v1/workflows/{}", definition["id"].as_str().unwrap());
        let put = drill.server.request(Method::PUT, &path).json(definition);
        assert!(crate::support::answer(put).await.unwrap().0.is_success());
    }
    drill.other.is(Mood::HangsUp);
    let side_by_side = drill.run("both").await;
    let in_a_row = drill.run("row").await;
    drill.refused(&side_by_side, json!({ "approveSteps": ["left"] }), "resume_non_idempotent_step").await;
    assert_eq!((drill.other.effects("left"), drill.other.effects("right")), (1, 1), "neither is done again");
    let (status, told) = drill.server.post(&path(&in_a_row), &json!({ "approveSteps": ["second"] })).await;
    assert_eq!((status, &told["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")), "{told}");

    // Approved, it is done once more, and is hung up on again: that takes another approval.
    drill.resume(&in_a_row, json!({ "approveSteps": ["first"] })).await;
    assert_eq!(drill.other.effects("first"), 2);
    drill.refused(&in_a_row, json!({ "force": true, "reason": "r" }), "resume_non_idempotent_step").await;
    drill.other.is(Mood::Answers(200));
    drill.resume(&side_by_side, json!({ "approveSteps": ["left", "right"] })).await;
    drill.demand_completed(&side_by_side).await;
    drill.resume(&in_a_row, json!({ "approveSteps": ["first"], "force": true, "reason": "looked" })).await;
    drill.demand_completed(&in_a_row).await;
    for (name, effects) in [("left", 2), ("right", 2), ("first", 3), ("second", 1)] {
        assert_eq!(drill.other.effects(name), effects, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_switched_off_waits_for_somebody_and_goes_on_by_itself_when_it_is_switched_on() {
    let mut drill = Drill::begin().await;
    let wait = node("wait", "core.delay", json!({ "ms": 1000 }), json!({}), json!({}));
    let look = drill.other.request("GET", "look", json!({}));
    drill.site.workflow(&workflow("late", &[wait, look], &[("wait", "look")], json!([])));
    drill.kill();
    drill.other.is(Mood::Answers(503));
    let run = drill.run("late").await;
    let view = drill.resume(&run, json!({ "action": "disable", "reason": "maintenance" })).await;
    assert_eq!((&view["autoResume"], &view["interrupted"]), (&json!(false), &json!(false)), "{view:#}");
    drill.kill();
    drill.later(SECOND_MS).await;
    drill.later(DAY_MS).await;
    let view = drill.view(&run).await;
    demand_escalated(&view, "resume_allowed", "tool_failure");
    assert_eq!((&view["autoResume"], attempts(&view), drill.other.effects("look")), (&json!(false), 0, 1));
    // What stands in the way is a switch and no reason: whoever wants it to go on says so.
    drill.resume(&run, json!({})).await;
    assert_eq!(drill.other.effects("look"), 2);
    demand_escalated(&drill.view(&run).await, "resume_blocked_cooldown", "tool_failure");
    drill.resume(&run, json!({ "action": "enable" })).await;
    drill.later(DAY_MS).await;
    assert_eq!(drill.other.effects("look"), 2, "an escalated run is resumed by a person alone");
    drill.resume(&run, json!({})).await;
    assert_eq!(drill.other.effects("look"), 3);
    demand_cooling(&drill.view(&run).await, "tool_failure", 30, 3);
    drill.other.is(Mood::Answers(200));
    drill.later(30 * SECOND_MS).await;
    drill.demand_completed(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_in_the_inbox_resumes_or_gives_up() {
    let drill = Drill::begin().await;
    drill.other.is(Mood::HangsUp);
    let (accepted, rejected) = (drill.run("once").await, drill.run("once").await);
    let (_, inbox) = drill.server.get("/v1/interrupts").await;
    let items = inbox["interrupts"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{inbox:#}");
    for item in items {
        assert_eq!(
            (&item["kind"], &item["nodeId"]),
            (&json!("approval"), &json!("abide:resume")),
            "{item:#}"
        );
    }
    let (_, shown) = drill.server.get(&format!("/v1/runs/{accepted}")).await;
    let data = shown["interrupt"]["data"]["artifactData"].to_string();
    for text in ["resume_non_idempotent_step", "\"effect\":\"unknown\"", "tool_failure", "checklist"] {
        assert!(data.contains(text), "{text} in {shown:#}");
    }

    drill.other.is(Mood::Answers(200));
    answer(&drill, &accepted, "accept").await;
    drill.demand_completed(&accepted).await;
    assert_eq!(drill.other.effects("once"), 3, "both were done, and one of them once more");
    assert_eq!(drill.view(&accepted).await["decisions"][0]["actor"], "dev");

    answer(&drill, &rejected, "reject").await;
    let shown = drill.shown(&rejected).await;
    assert_eq!(shown["status"], "failed", "{shown:#}");
    assert_eq!(shown["nodeStates"]["once"]["status"], "failed", "{shown:#}");
    let (status, told) = drill.server.post(&path(&rejected), &json!({ "approveSteps": ["once"] })).await;
    assert_eq!(status, StatusCode::CONFLICT, "{told}");
    assert_eq!(drill.other.effects("once"), 3);
    assert_eq!(drill.view(&rejected).await["decision"]["reason_code"], "resume_missing_checkpoint");
}

async fn answer(drill: &Drill, run: &str, action: &str) {
    let path = format!("/v1/runs/{run}/interrupts/abide:resume");
    let body = json!({ "resumeValue": { "action": action, "feedback": "looked" } });
    let (status, told) = drill.server.post(&path, &body).await;
    assert!(status.is_success(), "{told:#}");
    drill.server.settle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forcing_takes_a_scope_of_its_own() {
    let site = Site::new();
    let key = |scopes: &str| site.key("default").principal("eve").scopes(scopes).make();
    let (reader, resumer) = (key("runs:read"), key("runs:read,runs:resume,approvals:respond"));
    let other = Other::open().await;
    site.workflow(&single("once", &other.request("POST", "once", json!({}))));
    let server = site.start(&FLAGS);
    other.is(Mood::HangsUp);
    let run = server.start_run("once", json!({})).await;
    server.settle().await;
    let approve = json!({ "approveSteps": ["once"] });
    let force = json!({ "approveSteps": ["once"], "force": true, "reason": "r" });
    let cut = json!({ "truncate": true, "force": true, "reason": "r" });
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let question = format!("/v1/runs/{run}/interrupts/abide:resume");
    for (key, path, body) in [
        (&reader, &path(&run), &approve),
        (&resumer, &path(&run), &force),
        (&resumer, &path(&run), &cut),
        (&resumer, &question, &accept),
    ] {
        let (status, told) = server.ask_as(key, Method::POST, path, Some(body)).await;
        assert_eq!((status, &told["error"]), (StatusCode::FORBIDDEN, &json!("forbidden")), "{body} {told}");
    }
    assert_eq!(other.effects("once"), 1);
    other.is(Mood::Answers(200));
    let (status, told) = server.ask_as(&resumer, Method::POST, &path(&run), Some(&approve)).await;
    assert_eq!(status, StatusCode::OK, "an approval is no force: {told:#}");
    server.settle().await;
    assert_eq!(view(&server, &run).await["decisions"][0]["actor"], "eve");
    assert_eq!(other.effects("once"), 2);
}
