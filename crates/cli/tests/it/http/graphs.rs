//! Runs that wait for other runs, and drafts, over HTTP.

use super::idempotency::post;
use super::*;
use crate::support::verify;

/// A run that never was.
pub(super) const NOBODY: &str = "run-00000000-0000-7000-8000-000000000000";

/// Starts a run of `workflow` that waits for these.
async fn start_after(server: &Server, workflow: &str, upstreams: &[&str]) -> String {
    let (status, body) =
        server.post("/v1/runs", &json!({ "workflowId": workflow, "dependsOn": upstreams })).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    assert_eq!(body["status"], "pending", "to OpenWOP, which knows no blocked run");
    body["runId"].as_str().unwrap().to_owned()
}

/// What a run has to do with others.
pub(super) async fn graph(server: &Server, run: &str) -> Value {
    let (status, graph) = server.get(&format!("/v1/runs/{run}/graph")).await;
    assert_eq!(status, StatusCode::OK, "{graph}");
    graph
}

async fn add(server: &Server, run: &str, on: &str) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/dependencies"), &json!({ "runId": on })).await
}

async fn remove(server: &Server, run: &str, on: &str) -> (StatusCode, Value) {
    answer(server.request(Method::DELETE, &format!("/v1/runs/{run}/dependencies/{on}"))).await.unwrap()
}

async fn cancel(server: &Server, run: &str) {
    let (status, body) = server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

/// The runs of a list, by id.
async fn listed(server: &Server, query: &str) -> Vec<String> {
    let (status, page) = server.get(&format!("/v1/runs?{query}")).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let runs = page["runs"].as_array().unwrap().iter();
    runs.map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
}

/// How runs stand, in Abide's words.
async fn standings(server: &Server, runs: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for run in runs {
        all.push(graph(server, run).await["status"].as_str().unwrap().to_owned());
    }
    all
}

#[tokio::test]
async fn a_run_that_waits_for_another_is_pending_blocked_and_goes_on_by_itself() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = server.start_run("parked", json!({})).await;
    let second = start_after(&server, "noop", &[&first]).await;
    site.settle(&server).await;
    let seen = shown(&server, &second).await;
    assert_eq!(
        (&seen["status"], &seen["nodeStates"]["n0"]["status"]),
        (&json!("pending"), &json!("pending"))
    );
    assert_eq!(seen["blocked"]["reason"], "dependency_incomplete");
    assert_eq!(seen["blocked"]["by"], json!([first]));
    let behind = graph(&server, &second).await;
    assert_eq!((&behind["status"], &behind["blocked"]), (&json!("blocked"), &seen["blocked"]));
    assert_eq!(behind["dependsOn"], json!([{ "runId": first, "status": "running" }]));
    let before = graph(&server, &first).await;
    assert_eq!((&before["status"], &before["dependsOn"]), (&json!("running"), &json!([])));
    assert_eq!(before["dependents"], json!([{ "runId": second, "status": "blocked" }]));
    let (_, why) = server.get(&format!("/v1/runs/{second}/why")).await;
    assert_eq!((&why["status"], &why["reasons"][0]["kind"]), (&json!("pending"), &json!("dependency")));
    assert_eq!(why["reasons"][0]["childRunId"], *first);
    server.advance(HOUR_MS).await;
    site.settle(&server).await;
    assert_eq!(standings(&server, &[&first, &second]).await, ["completed", "completed"]);
    assert!(shown(&server, &second).await.get("blocked").is_none());
    assert!(server.stop().success());
    assert_eq!(verify(&site.data()), 2);
}

#[tokio::test]
async fn lists_find_what_is_blocked_and_drafts_among_what_is_pending() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = server.start_run("parked", json!({})).await;
    let blocked = start_after(&server, "noop", &[&first]).await;
    let draft = json!({ "workflowId": "noop", "draft": true });
    let draft = server.post("/v1/runs", &draft).await.1["runId"].as_str().unwrap().to_owned();
    site.settle(&server).await;
    assert_eq!(listed(&server, "status=pending").await, [draft.clone(), blocked.clone()]);
    assert_eq!(listed(&server, "status=blocked").await, std::slice::from_ref(&blocked));
    assert_eq!(listed(&server, "status=draft").await, std::slice::from_ref(&draft));
    assert_eq!(listed(&server, "status=running").await, std::slice::from_ref(&first));
    let (_, page) = server.get("/v1/runs").await;
    let names: Vec<&str> =
        page["runs"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(names, ["pending", "pending", "running"]);
    refusal(server.get("/v1/runs?status=suspended").await, "validation_error");
}

#[tokio::test]
async fn a_draft_begins_once_and_only_when_it_is_activated() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let body = json!({ "workflowId": "noop", "draft": true });
    let (_, made) = server.post("/v1/runs", &body).await;
    let draft = made["runId"].as_str().unwrap();
    assert_eq!(made["status"], "pending");
    let seen = shown(&server, draft).await;
    assert_eq!((&seen["draft"], &seen["nodeStates"]["n0"]["status"]), (&json!(true), &json!("pending")));
    let path = format!("/v1/runs/{draft}:activate");
    let first = post(&server, &path, "begin", &json!({})).await;
    assert_eq!((first.status, &first.json()["status"]), (StatusCode::OK, &json!("completed")));
    post(&server, &path, "begin", &json!({})).await.is_replay_of(&first);
    refusal(server.post(&path, &json!({})).await, "run_over");
    let parked = server.start_run("parked", json!({})).await;
    refusal(server.post(&format!("/v1/runs/{parked}:activate"), &json!({})).await, "run_not_draft");

    // A draft that waits for others as well is blocked from then on.
    let body = json!({ "workflowId": "noop", "draft": true, "dependsOn": [parked] });
    let waits = server.post("/v1/runs", &body).await.1["runId"].as_str().unwrap().to_owned();
    site.settle(&server).await;
    assert_eq!(graph(&server, &waits).await["status"], "draft");
    let empty = answer(server.request(Method::POST, &format!("/v1/runs/{waits}:activate"))).await.unwrap();
    assert_eq!((empty.0, &empty.1["status"]), (StatusCode::OK, &json!("blocked")), "without a body too");
    server.advance(HOUR_MS).await;
    site.settle(&server).await;
    assert_eq!(graph(&server, &waits).await["status"], "completed");
}

#[tokio::test]
async fn a_run_that_has_begun_is_blocked_by_what_it_is_told_to_wait_for_and_let_go_again() {
    let site = site();
    // Two delays, one after the other.
    let wait = |id: &str| node(id, "core.delay", json!({ "ms": 1000 }), json!({}), json!({}));
    site.workflow(&workflow("twice", &[wait("a"), wait("b")], &[("a", "b")], json!([])));
    let server = site.start(&["--test-clock"]);
    let first = server.start_run("parked", json!({})).await;
    let second = server.start_run("twice", json!({})).await;
    let (status, told) = add(&server, &second, &first).await;
    assert_eq!((status, &told["status"]), (StatusCode::CREATED, &json!("blocked")));
    assert_eq!(told["dependsOn"], json!([{ "runId": first, "status": "running" }]));
    let keys: Vec<&String> = told.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["blocked", "dependsOn", "runId", "status"], "nothing is said that was not looked at");
    server.advance(1000).await;
    site.settle(&server).await;
    let seen = shown(&server, &second).await;
    assert_eq!(seen["nodeStates"]["a"]["status"], "completed", "what was under way goes on");
    assert_eq!(seen["nodeStates"]["b"]["status"], "pending", "and nothing new starts");
    let (status, told) = remove(&server, &second, &first).await;
    assert_eq!(
        (status, &told["status"], &told["dependsOn"]),
        (StatusCode::OK, &json!("running"), &json!([]))
    );
    assert_eq!(shown(&server, &second).await["nodeStates"]["b"]["status"], "waiting");
    refusal(remove(&server, &second, &first).await, "dependency_not_found");
    site.settle(&server).await;
    assert_eq!(graph(&server, &first).await["dependents"], json!([]));
}

#[tokio::test]
async fn what_waits_for_a_run_that_failed_says_so_until_somebody_decides() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = server.start_run("parked", json!({})).await;
    let failed = server.start_run("failing", json!({})).await;
    let second = start_after(&server, "noop", &[&first]).await;
    let third = start_after(&server, "noop", &[&second, &failed]).await;
    cancel(&server, &first).await;
    site.settle(&server).await;
    let seen = graph(&server, &second).await;
    assert_eq!(
        (&seen["blocked"]["reason"], &seen["blocked"]["by"]),
        (&json!("on_dependency_failed"), &json!([first]))
    );
    assert_eq!(seen["dependsOn"], json!([{ "runId": first, "status": "cancelled" }]));
    let behind = graph(&server, &third).await;
    assert_eq!(behind["blocked"]["reason"], "on_dependency_failed", "one of two is enough");
    server.advance(24 * HOUR_MS).await;
    site.settle(&server).await;
    assert_eq!(standings(&server, &[&second, &third]).await, ["blocked", "blocked"]);
    remove(&server, &second, &first).await;
    remove(&server, &third, &failed).await;
    site.settle(&server).await;
    assert_eq!(standings(&server, &[&second, &third]).await, ["completed", "completed"]);
}

#[tokio::test]
async fn what_would_close_a_circle_is_refused_and_changes_nothing() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = server.start_run("parked", json!({})).await;
    let second = start_after(&server, "noop", &[&first]).await;
    let third = start_after(&server, "noop", &[&second]).await;
    site.settle(&server).await;
    let before = site.rows();
    for closing in [&second, &third] {
        let details = refusal(add(&server, &first, closing).await, "dependency_circle");
        assert_eq!(details, json!({ "runId": first, "dependsOn": closing }));
    }
    let details = refusal(add(&server, &first, &first).await, "validation_error");
    assert_eq!(details["field"], "dependsOn");
    refusal(add(&server, &third, &second).await, "validation_error");
    let twice = json!({ "workflowId": "noop", "dependsOn": [first, first] });
    assert_eq!(refusal(server.post("/v1/runs", &twice).await, "validation_error")["field"], "dependsOn");
    assert_eq!(site.rows(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn opposite_edges_that_are_added_at_once_never_close_a_circle() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for _ in 0..5 {
        let (one, other) =
            (server.start_run("parked", json!({})).await, server.start_run("parked", json!({})).await);
        let both = [(&one, &other), (&other, &one)].map(|(run, on)| add(&server, run, on));
        let told = futures_util::future::join_all(both).await;
        let taken = told.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
        assert_eq!(taken, 1, "{told:?}");
        let refused = told.into_iter().find(|(status, _)| *status != StatusCode::CREATED).unwrap();
        refusal(refused, "dependency_circle");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_add_one_edge_at_once_one_does_and_under_a_key_all_are_answered_alike() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (first, second) =
        (server.start_run("parked", json!({})).await, server.start_run("parked", json!({})).await);
    let told = futures_util::future::join_all((0..20).map(|_| add(&server, &second, &first))).await;
    let (taken, refused): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|(status, _)| *status == StatusCode::CREATED);
    assert_eq!((taken.len(), refused.len()), (1, 19));
    refused.into_iter().for_each(|refused| drop(refusal(refused, "validation_error")));

    let third = server.start_run("parked", json!({})).await;
    let path = format!("/v1/runs/{third}/dependencies");
    let body = json!({ "runId": first });
    let told = futures_util::future::join_all((0..20).map(|_| post(&server, &path, "edge", &body))).await;
    let original = told.iter().find(|told| told.replay.as_deref() == Some("false")).unwrap();
    assert_eq!(original.status, StatusCode::CREATED);
    let replays = told.iter().filter(|told| told.replay.as_deref() == Some("true"));
    assert_eq!(replays.map(|told| told.is_replay_of(original)).count(), 19);
    let other = post(&server, &path, "edge", &json!({ "runId": second })).await;
    refusal((other.status, other.json()), "idempotency_key_mismatch");
}

#[tokio::test]
async fn whatever_is_wrong_with_a_dependency_is_told_and_changes_nothing() {
    let site = site();
    let stranger = site.new_key("strangers");
    let server = site.start(&["--test-clock"]);
    let (first, run) =
        (server.start_run("parked", json!({})).await, server.start_run("parked", json!({})).await);
    let foreign = start_as(&server, &stranger, "parked").await.1["runId"].as_str().unwrap().to_owned();
    let (_, group) = server.post("/v1/groups", &json!({ "name": "g" })).await;
    let group = group["groupId"].as_str().unwrap();
    let before = site.rows();
    let path = format!("/v1/runs/{run}/dependencies");
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"runId":7}"#,
        r#"{"runId":null}"#,
        r#"{"runId":"x","runId":"y"}"#,
        &format!(r#"{{"runId":"{first}","why":"so"}}"#),
    ] {
        refusal(post_raw(&server, &path, body.to_owned()).await, "validation_error");
    }
    let large = format!(r#"{{"runId":"{}"}}"#, "x".repeat(abide_server::limits::BODY_BYTES_MAX));
    refusal(post_raw(&server, &path, large).await, "payload_too_large");
    for unknown in ["", "x", "run-1", NOBODY, &foreign, group] {
        refusal(add(&server, &run, unknown).await, "dependency_not_found");
    }
    for unknown in [NOBODY, &foreign] {
        refusal(add(&server, unknown, &first).await, "run_not_found");
        refusal(remove(&server, unknown, &first).await, "run_not_found");
        refusal(server.get(&format!("/v1/runs/{unknown}/graph")).await, "run_not_found");
        let path = format!("/v1/runs/{unknown}:activate");
        refusal(server.post(&path, &json!({})).await, "run_not_found");
    }
    let of_group = refusal(add(&server, group, &first).await, "validation_error");
    assert_eq!(of_group["field"], "runId");
    for (key, body) in [("dependsOn", json!("x")), ("dependsOn", json!([7])), ("draft", json!("yes"))] {
        let mut create = json!({ "workflowId": "noop" });
        create[key] = body;
        refusal(server.post("/v1/runs", &create).await, "validation_error");
    }
    for unknown in ["x", NOBODY, &foreign, group] {
        let create = json!({ "workflowId": "noop", "dependsOn": [unknown] });
        refusal(server.post("/v1/runs", &create).await, "dependency_not_found");
    }
    assert_eq!(site.rows(), before, "nothing was started, added or kept");
}

#[tokio::test]
async fn nothing_is_added_to_a_run_that_has_ended_was_erased_or_is_a_replay() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = server.start_run("parked", json!({})).await;
    let ended = server.start_run("noop", json!({})).await;
    server.events(&ended).await;
    let fork = json!({ "mode": "replay", "fromSeq": 0 });
    let (status, forked) = server.post(&format!("/v1/runs/{first}:fork"), &fork).await;
    assert_eq!(status, StatusCode::CREATED, "{forked}");
    let replay = forked["runId"].as_str().unwrap().to_owned();
    let activate = format!("/v1/runs/{ended}:activate");
    refusal(add(&server, &ended, &first).await, "run_over");
    refusal(remove(&server, &ended, &first).await, "run_over");
    refusal(server.post(&activate, &json!({})).await, "run_over");
    refusal(add(&server, &replay, &first).await, "run_is_replay");
    let (status, _) = server.post(&format!("/v1/runs/{ended}/erase"), &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    refusal(add(&server, &ended, &first).await, "run_erased");
    refusal(remove(&server, &ended, &first).await, "run_erased");
    refusal(server.post(&activate, &json!({})).await, "run_erased");
    refusal(server.get(&format!("/v1/runs/{ended}/graph")).await, "run_erased");
    // Whoever waits for one that has completed does not wait, whatever was erased of it.
    let after = json!({ "workflowId": "noop", "dependsOn": [ended] });
    let after = server.post("/v1/runs", &after).await.1["runId"].as_str().unwrap().to_owned();
    site.settle(&server).await;
    assert_eq!(graph(&server, &after).await["status"], "completed");
}

#[tokio::test]
async fn children_are_counted_by_how_they_stand_and_a_parent_shows_none_of_it_as_its_own() {
    let site = site();
    let gate = node("gate", "core.approvalGate", json!({ "title": "Well?" }), json!({}), json!({}));
    site.workflow(&workflow("asks", &[gate], &[], json!([])));
    let call =
        |id: &str, of: &str| node(id, "core.subWorkflow", json!({ "workflowId": of }), json!({}), json!({}));
    let calls =
        [call("a", "noop"), call("b", "parked"), call("c", "asks"), call("d", "asks"), call("e", "parked")];
    site.workflow(&workflow("parent", &calls, &[], json!([])));
    let server = site.start(&["--test-clock"]);
    let parent = server.start_run("parent", json!({})).await;
    site.settle(&server).await;
    let seen = graph(&server, &parent).await;
    assert_eq!(seen["status"], "running", "what a child waits for is not its parent's");
    let counts = json!({ "completed": 1, "active": 2, "suspended_awaiting_input": 2 });
    let aggregate = json!({ "total": 5, "by_status": counts, "completion_percentage": 20 });
    assert_eq!(seen["aggregateStatus"].as_object(), aggregate.as_object(), "{seen}");
    assert_eq!(seen["ready"].as_array().map(Vec::len), Some(2), "{seen}");
    let leaf = graph(&server, &server.start_run("parked", json!({})).await).await;
    assert_eq!(leaf["aggregateStatus"]["total"], 0);
    let children = shown(&server, &parent).await["childRuns"].clone();
    for child in children.as_array().unwrap() {
        let child = graph(&server, child["runId"].as_str().unwrap()).await;
        assert_eq!(child["parentRunId"], *parent);
    }
}

#[tokio::test]
async fn a_refusal_is_not_kept_under_its_key() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let first = server.start_run("parked", json!({})).await;
    let second = start_after(&server, "parked", &[&first]).await;
    site.settle(&server).await;
    let path = format!("/v1/runs/{first}/dependencies");
    let refused = post(&server, &path, "again", &json!({ "runId": second })).await;
    refusal((refused.status, refused.json()), "dependency_circle");
    remove(&server, &second, &first).await;
    let taken = post(&server, &path, "again", &json!({ "runId": second })).await;
    assert_eq!((taken.status, taken.replay.as_deref()), (StatusCode::CREATED, Some("false")));
}

#[tokio::test]
async fn nobody_waits_for_a_replay_or_looks_at_one_in_a_group() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("noop", json!({})).await;
    server.settle().await;
    let (_, fork) = server.post(&format!("/v1/runs/{run}:fork"), &json!({ "mode": "replay" })).await;
    let replay = fork["runId"].as_str().unwrap();
    let before = site.rows();
    let after = json!({ "workflowId": "parked", "dependsOn": [replay] });
    refusal(server.post("/v1/runs", &after).await, "run_is_replay");
    let other = server.start_run("parked", json!({})).await;
    refusal(add(&server, &other, replay).await, "run_is_replay");
    let (_, group) = server.post("/v1/groups", &json!({ "name": "all" })).await;
    let members = format!("/v1/groups/{}/members", group["groupId"].as_str().unwrap());
    refusal(server.post(&members, &json!({ "runId": replay })).await, "run_is_replay");
    assert_eq!(site.rows()["outbox"], before["outbox"], "nobody is asked how a replay stands");
}

#[tokio::test]
async fn a_name_that_is_no_text_is_refused_like_any_other() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("parked", json!({})).await;
    let delete = async |path: String| answer(server.request(Method::DELETE, &path)).await.unwrap();
    refusal(delete(format!("/v1/runs/{run}/dependencies/%FF")).await, "dependency_not_found");
    refusal(delete(format!("/v1/runs/%FF/dependencies/{run}")).await, "run_not_found");
    refusal(delete(format!("/v1/groups/%FF/members/{run}")).await, "group_not_found");
    let (_, group) = server.post("/v1/groups", &json!({ "name": "all" })).await;
    let group = group["groupId"].as_str().unwrap();
    refusal(delete(format!("/v1/groups/{group}/members/%FF")).await, "run_not_found");
}

/// A child is its parent's before it has begun. If it can't, nobody is told for ever that it did.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_came_to_nothing_is_not_told_of_under_its_key() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    push(&server, &hands::by_hand()).await;
    let mut refused = 0;
    for round in 0..60 {
        let parent = server.start_run("by-hand", json!({})).await;
        let other = server.start_run("by-hand", json!({})).await;
        let path = format!("/v1/runs/{parent}/children");
        let asked = json!({ "workflowId": "by-hand", "dependsOn": [other] });
        let key = format!("child-{round}");
        let (first, _) = tokio::join!(post(&server, &path, &key, &asked), async {
            tokio::time::sleep(std::time::Duration::from_micros(500 * (round % 12))).await;
            add(&server, &other, &parent).await
        });
        let again = post(&server, &path, &key, &asked).await;
        if first.status == StatusCode::CREATED {
            again.is_replay_of(&first);
        } else {
            refused += 1;
            assert_eq!((first.status, again.status), (StatusCode::CONFLICT, StatusCode::CONFLICT));
            refusal((again.status, again.json()), "dependency_circle");
        }
    }
    assert!(refused > 0, "none of them met anybody");
}
