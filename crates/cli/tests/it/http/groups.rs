//! Groups over HTTP: members and how they stand, deadlines that nobody talks their way out of, and how a group ends.

use super::graphs::NOBODY;
use super::hands::{ask, by_hand, claim, complete, done, reply};
use super::idempotency::post;
use super::ladders::journal;
use super::*;
use crate::receiver::{ALLOW, Receiver};
use crate::support::verify;

async fn now_ms(server: &Server) -> i64 {
    server.get("/v1/dev/clock").await.1["nowMs"].as_i64().unwrap()
}

/// A moment so long from now.
async fn in_ms(server: &Server, ms: i64) -> String {
    jiff::Timestamp::from_millisecond(now_ms(server).await + ms).unwrap().to_string()
}

/// Makes a group under these rules, and gives its id.
async fn make(server: &Server, governance: Value) -> String {
    let (status, group) = server.post("/v1/groups", &json!({ "name": "Q3", "governance": governance })).await;
    assert_eq!(status, StatusCode::CREATED, "{group}");
    group["groupId"].as_str().unwrap().to_owned()
}

async fn add(server: &Server, group: &str, run: &str) -> (StatusCode, Value) {
    server.post(&format!("/v1/groups/{group}/members"), &json!({ "runId": run })).await
}

async fn remove(server: &Server, group: &str, run: &str) -> (StatusCode, Value) {
    answer(server.request(Method::DELETE, &format!("/v1/groups/{group}/members/{run}"))).await.unwrap()
}

async fn govern(server: &Server, group: &str, governance: Value) -> (StatusCode, Value) {
    let path = format!("/v1/groups/{group}/governance");
    server.ask_as(&server.key, Method::PUT, &path, Some(&governance)).await
}

async fn close(server: &Server, group: &str) -> (StatusCode, Value) {
    server.post(&format!("/v1/groups/{group}:close"), &json!({})).await
}

async fn group(server: &Server, id: &str) -> Value {
    let (status, group) = server.get(&format!("/v1/groups/{id}")).await;
    assert_eq!(status, StatusCode::OK, "{group}");
    group
}

async fn members(server: &Server, id: &str) -> Vec<Value> {
    let (status, page) = server.get(&format!("/v1/groups/{id}/members")).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    page["members"].as_array().unwrap().clone()
}

/// A run that waits for people, for ever.
async fn asking(server: &Server) -> String {
    push(server, &by_hand()).await;
    let run = server.start_run("by-hand", json!({})).await;
    done(server, &run, "ada", claim()).await;
    done(server, &run, "ada", ask(None)).await;
    run
}

/// What a journal says of one type.
async fn said(server: &Server, run: &str, kind: &str) -> Vec<Value> {
    let events = journal(server, run).await;
    events.into_iter().filter(|event| event["type"] == kind).map(|event| event["payload"].clone()).collect()
}

/// Whether a run was abandoned at a deadline, and whatever has to be so then is so.
async fn check_abandoned(server: &Server, run: &str) {
    let seen = shown(server, run).await;
    assert_eq!(seen["status"], "cancelled", "{seen}");
    assert_eq!(seen["abandonmentReason"], "portfolio_deadline_exceeded");
    let cancelled = said(server, run, "run.cancelled").await;
    assert_eq!(cancelled[0]["abandonmentReason"], "portfolio_deadline_exceeded");
    let expired = said(server, run, "interrupt.expired").await;
    assert_eq!((expired.len(), &expired[0]["reason"]), (1, &json!("portfolio_deadline")), "{expired:?}");
}

#[tokio::test]
async fn a_group_counts_its_members_and_tells_which_of_them_wait_for_people() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({})).await;
    let empty = group(&server, &id).await;
    assert_eq!((&empty["status"], &empty["name"]), (&json!("active"), &json!("Q3")));
    let none = json!({ "status": "in_progress", "total": 0, "by_status": {}, "completion_percentage": 0 });
    assert_eq!(empty["aggregateStatus"], none, "a group without members is not through");
    assert_eq!((&empty["hasSuspendedMembers"], &empty["suspendedMemberCount"]), (&json!(false), &json!(0)));

    let (noop, parked) =
        (server.start_run("noop", json!({})).await, server.start_run("parked", json!({})).await);
    let (one, two) = (asking(&server).await, asking(&server).await);
    let after = json!({ "workflowId": "noop", "dependsOn": [parked] });
    let after = server.post("/v1/runs", &after).await.1["runId"].as_str().unwrap().to_owned();
    let path = format!("/v1/groups/{id}/members");
    let first = json!({ "runId": one, "role": "primary", "priority": -3 });
    let (status, added) = server.post(&path, &first).await;
    assert_eq!((status, &added["suspendedMemberCount"]), (StatusCode::CREATED, &json!(1)), "from the start");
    for run in [&noop, &parked, &two, &after] {
        assert_eq!(add(&server, &id, run).await.0, StatusCode::CREATED);
    }
    site.settle(&server).await;
    let seen = group(&server, &id).await;
    assert_eq!((&seen["status"], &seen["hasSuspendedMembers"]), (&json!("active"), &json!(true)));
    assert_eq!(seen["suspendedMemberCount"], 2);
    let counts = json!({ "completed": 1, "active": 1, "suspended_awaiting_input": 2, "blocked": 1 });
    let aggregate =
        json!({ "status": "in_progress", "total": 5, "by_status": counts, "completion_percentage": 20 });
    assert_eq!(seen["aggregateStatus"], aggregate);
    let told = members(&server, &id).await;
    let ids: Vec<&str> = told.iter().map(|member| member["runId"].as_str().unwrap()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    let primary = told.iter().find(|member| member["runId"] == *one).unwrap();
    assert_eq!((&primary["role"], &primary["priority"]), (&json!("primary"), &json!(-3)));
    assert_eq!(primary["status"], "waiting-input");
    assert!(primary["suspendedSince"].is_string() && primary["expiresAt"].is_null(), "{primary}");
    let page = server.get(&format!("{path}?limit=2")).await.1;
    let rest = server.get(&format!("{path}?cursor={}", page["nextCursor"].as_str().unwrap())).await.1;
    assert_eq!(
        (page["members"].as_array().unwrap().len(), rest["members"].as_array().unwrap().len()),
        (2, 3)
    );

    assert_eq!(reply(&server, &one).await.0, StatusCode::OK);
    let (status, without) = remove(&server, &id, &two).await;
    assert_eq!((status, &without["aggregateStatus"]["total"]), (StatusCode::OK, &json!(4)));
    site.settle(&server).await;
    let seen = group(&server, &id).await;
    assert_eq!((&seen["hasSuspendedMembers"], &seen["suspendedMemberCount"]), (&json!(false), &json!(0)));
    let suspended = said(&server, &id, "portfolio.member_suspended").await;
    let resumed = said(&server, &id, "portfolio.member_resumed").await;
    assert_eq!(resumed.iter().map(|event| &event["run"]).collect::<Vec<_>>(), [&json!(one)]);
    assert!(
        suspended.iter().all(|event| [&json!(one), &json!(two)].contains(&&event["run"])),
        "{suspended:?}"
    );
    assert_eq!(server.get("/v1/groups").await.1["groups"][0]["groupId"], *id);
    assert_eq!(
        server.get("/v1/runs").await.1["runs"].as_array().unwrap().len(),
        5,
        "a group is no run in lists"
    );
}

#[tokio::test]
async fn what_becomes_of_members_is_the_aggregate_and_what_becomes_of_the_group_is_up_to_people() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let aggregate = async |id: &str| {
        let seen = group(&server, id).await;
        [&seen["status"], &seen["aggregateStatus"]["status"]].map(|word| word.as_str().unwrap().to_owned())
    };
    let noop = server.start_run("noop", json!({})).await;
    let failing = server.start_run("failing", json!({})).await;
    server.events(&failing).await;
    let through = make(&server, json!({})).await;
    add(&server, &through, &noop).await;
    assert_eq!(aggregate(&through).await, ["active", "completed"], "nobody has closed it");
    let failed = make(&server, json!({})).await;
    add(&server, &failed, &failing).await;
    add(&server, &failed, &asking(&server).await).await;
    site.settle(&server).await;
    assert_eq!(aggregate(&failed).await, ["active", "failed"], "beside one that waits for people");
    assert_eq!(close(&server, &through).await.1["status"], "completed");
    assert_eq!(aggregate(&through).await, ["completed", "completed"]);
    refusal(close(&server, &through).await, "run_over");
    refusal(add(&server, &through, &failing).await, "run_over");
    refusal(remove(&server, &through, &noop).await, "run_over");
    refusal(govern(&server, &through, json!({})).await, "run_over");

    let details = refusal(close(&server, &failed).await, "group_unfinished");
    assert_eq!(details, json!({ "unfinished": 2 }));
    let (status, governed) = govern(&server, &failed, json!({ "allowPartialCompletion": true })).await;
    assert_eq!((status, &governed["governance"]["allowPartialCompletion"]), (StatusCode::OK, &json!(true)));
    assert_eq!(close(&server, &failed).await.1["status"], "completed");
    assert_eq!(aggregate(&failed).await, ["completed", "failed"]);

    let left = make(&server, json!({})).await;
    let run = asking(&server).await;
    add(&server, &left, &run).await;
    let (status, _) = server.post(&format!("/v1/runs/{left}/cancel"), &json!({ "reason": "enough" })).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(aggregate(&left).await[0], "abandoned");
    site.settle(&server).await;
    assert_eq!(shown(&server, &run).await["status"], "waiting-input", "its members go on");
    assert!(server.stop().success());
    assert_eq!(verify(&site.data()), 7);
}

#[tokio::test]
async fn a_group_completes_by_itself_once_enough_of_its_members_have() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({ "autoCompleteThreshold": 0.5 })).await;
    let runs = [server.start_run("parked", json!({})).await, asking(&server).await];
    for run in &runs {
        add(&server, &id, run).await;
    }
    site.settle(&server).await;
    assert_eq!(group(&server, &id).await["status"], "active");
    server.advance(HOUR_MS).await;
    site.settle(&server).await;
    let seen = group(&server, &id).await;
    assert_eq!(
        (&seen["status"], &seen["aggregateStatus"]["status"]),
        (&json!("completed"), &json!("in_progress"))
    );
    assert_eq!(shown(&server, &runs[1]).await["status"], "waiting-input");
}

#[tokio::test]
async fn at_the_deadline_a_member_that_waits_for_people_is_abandoned_and_others_are_not() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({ "deadline": in_ms(&server, HOUR_MS / 2).await })).await;
    let (waits, works) = (asking(&server).await, server.start_run("parked", json!({})).await);
    add(&server, &id, &waits).await;
    add(&server, &id, &works).await;
    site.settle(&server).await;
    assert_eq!(
        graphs::graph(&server, &waits).await["deadline"],
        group(&server, &id).await["governance"]["deadline"]
    );
    server.advance(HOUR_MS / 2 - 1).await;
    site.settle(&server).await;
    assert_eq!(shown(&server, &waits).await["status"], "waiting-input", "not a moment too soon");
    server.advance(1).await;
    site.settle(&server).await;
    check_abandoned(&server, &waits).await;
    assert_eq!(shown(&server, &works).await["status"], "running", "it waits for nobody");
    refusal(reply(&server, &waits).await, "portfolio_deadline_exceeded");
    let seen = group(&server, &id).await;
    assert_eq!((&seen["status"], &seen["aggregateStatus"]["status"]), (&json!("active"), &json!("failed")));
    // Whoever asks after the deadline is abandoned as soon as they do.
    push(&server, &by_hand()).await;
    let late = server.start_run("by-hand", json!({})).await;
    add(&server, &id, &late).await;
    site.settle(&server).await;
    done(&server, &late, "ada", claim()).await;
    done(&server, &late, "ada", ask(None)).await;
    site.settle(&server).await;
    check_abandoned(&server, &late).await;
}

#[tokio::test]
async fn the_earliest_deadline_of_several_groups_counts_and_one_that_is_moved_counts_as_moved() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let far = make(&server, json!({ "deadline": in_ms(&server, 3 * HOUR_MS).await })).await;
    let near = make(&server, json!({ "deadline": in_ms(&server, HOUR_MS).await })).await;
    let (both, freed, moved) = (asking(&server).await, asking(&server).await, asking(&server).await);
    for run in [&both, &freed] {
        add(&server, &far, run).await;
        add(&server, &near, run).await;
    }
    let own = make(&server, json!({ "deadline": in_ms(&server, HOUR_MS).await })).await;
    add(&server, &own, &moved).await;
    remove(&server, &near, &freed).await;
    govern(&server, &own, json!({ "deadline": in_ms(&server, 2 * HOUR_MS).await })).await;
    site.settle(&server).await;
    server.advance(HOUR_MS).await;
    site.settle(&server).await;
    check_abandoned(&server, &both).await;
    assert_eq!(shown(&server, &freed).await["status"], "waiting-input");
    assert_eq!(shown(&server, &moved).await["status"], "waiting-input");
    server.advance(HOUR_MS).await;
    site.settle(&server).await;
    check_abandoned(&server, &moved).await;
    assert_eq!(shown(&server, &freed).await["status"], "waiting-input");
    // A group that is over has no deadline any more.
    assert_eq!(server.post(&format!("/v1/runs/{far}/cancel"), &json!({})).await.0, StatusCode::OK);
    site.settle(&server).await;
    server.advance(9 * HOUR_MS).await;
    site.settle(&server).await;
    assert_eq!(reply(&server, &freed).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_answer_after_the_deadline_is_refused_also_if_no_server_was_there_at_the_time() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({ "deadline": in_ms(&server, HOUR_MS).await })).await;
    let run = asking(&server).await;
    add(&server, &id, &run).await;
    site.settle(&server).await;
    server.kill();
    let moved = format!("UPDATE settings SET value = value + {} WHERE name = 'test_clock_ms'", 2 * HOUR_MS);
    assert_eq!(site.change(&moved), 1);
    let server = site.start(&["--test-clock"]);
    refusal(reply(&server, &run).await, "portfolio_deadline_exceeded");
    check_abandoned(&server, &run).await;
    refusal(reply(&server, &run).await, "portfolio_deadline_exceeded");
    site.settle(&server).await;
    assert_eq!(group(&server, &id).await["aggregateStatus"]["status"], "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_race_the_deadline_are_taken_or_their_runs_are_abandoned_and_never_both() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({ "deadline": in_ms(&server, HOUR_MS).await })).await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        let run = asking(&server).await;
        add(&server, &id, &run).await;
        runs.push(run);
    }
    site.settle(&server).await;
    server.advance(HOUR_MS - 1).await;
    let answers = futures_util::future::join_all(runs.iter().map(|run| reply(&server, run)));
    let (answers, ()) = tokio::join!(answers, server.advance(1));
    site.settle(&server).await;
    let mut taken = 0;
    for (run, told) in runs.iter().zip(answers) {
        if told.0 == StatusCode::OK {
            taken += 1;
            assert_eq!(shown(&server, run).await["status"], "running", "whose answer was taken goes on");
        } else {
            refusal(told, "portfolio_deadline_exceeded");
            check_abandoned(&server, run).await;
        }
    }
    let failed = group(&server, &id).await["aggregateStatus"]["by_status"]["abandoned"].as_u64().unwrap_or(0);
    assert_eq!(failed, 20 - taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_who_add_one_member_at_once_one_does_and_twenty_members_are_all_counted() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({})).await;
    let run = asking(&server).await;
    let told = futures_util::future::join_all((0..20).map(|_| add(&server, &id, &run))).await;
    let (taken, refused): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|(status, _)| *status == StatusCode::CREATED);
    assert_eq!((taken.len(), refused.len()), (1, 19));
    for refused in refused {
        assert_eq!(refusal(refused, "validation_error")["field"], "runId");
    }
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(server.start_run("parked", json!({})).await);
    }
    let told = futures_util::future::join_all(runs.iter().map(|run| add(&server, &id, run))).await;
    assert!(told.iter().all(|(status, _)| *status == StatusCode::CREATED), "{told:?}");
    let removed = futures_util::future::join_all((0..20).map(|_| remove(&server, &id, &run))).await;
    let (taken, refused): (Vec<_>, Vec<_>) =
        removed.into_iter().partition(|(status, _)| *status == StatusCode::OK);
    assert_eq!((taken.len(), refused.len()), (1, 19));
    refused.into_iter().for_each(|refused| drop(refusal(refused, "member_not_found")));
    site.settle(&server).await;
    let seen = group(&server, &id).await;
    assert_eq!((&seen["aggregateStatus"]["total"], &seen["suspendedMemberCount"]), (&json!(20), &json!(0)));
    assert_eq!(members(&server, &id).await.len(), 20);
}

#[tokio::test]
async fn requests_about_groups_are_answered_alike_under_their_keys() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let body = json!({ "name": "Q3" });
    let first = post(&server, "/v1/groups", "make", &body).await;
    assert_eq!(first.status, StatusCode::CREATED);
    post(&server, "/v1/groups", "make", &body).await.is_replay_of(&first);
    assert_eq!(server.get("/v1/groups").await.1["groups"].as_array().unwrap().len(), 1);
    let id = first.json()["groupId"].as_str().unwrap().to_owned();
    let run = server.start_run("noop", json!({})).await;
    let path = format!("/v1/groups/{id}/members");
    let added = post(&server, &path, "add", &json!({ "runId": run })).await;
    assert_eq!(added.status, StatusCode::CREATED);
    post(&server, &path, "add", &json!({ "runId": run })).await.is_replay_of(&added);
    let other = post(&server, &path, "add", &json!({ "runId": run, "priority": 1 })).await;
    refusal((other.status, other.json()), "idempotency_key_mismatch");
    let path = format!("/v1/groups/{id}:close");
    let closed = post(&server, &path, "close", &json!({})).await;
    assert_eq!((closed.status, &closed.json()["status"]), (StatusCode::OK, &json!("completed")));
    post(&server, &path, "close", &json!({})).await.is_replay_of(&closed);
}

#[tokio::test]
async fn what_is_wrong_with_a_group_is_told_and_changes_nothing() {
    let site = site();
    let stranger = site.new_key("strangers");
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({})).await;
    let run = server.start_run("parked", json!({})).await;
    let foreign = start_as(&server, &stranger, "parked").await.1["runId"].as_str().unwrap().to_owned();
    let theirs = server.ask_as(&stranger, Method::POST, "/v1/groups", Some(&json!({ "name": "x" }))).await;
    let theirs = theirs.1["groupId"].as_str().unwrap().to_owned();
    let before = site.rows();
    let long = "n".repeat(257);
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"name":7}"#,
        r#"{"name":""}"#,
        r#"{"name":"a\u0007"}"#,
        &format!(r#"{{"name":"{long}"}}"#),
        r#"{"name":"x","color":"red"}"#,
        r#"{"name":"x","governance":7}"#,
        r#"{"name":"x","governance":{"deadline":"soon"}}"#,
        r#"{"name":"x","governance":{"deadline":7}}"#,
        r#"{"name":"x","governance":{"autoCompleteThreshold":0}}"#,
        r#"{"name":"x","governance":{"autoCompleteThreshold":1.1}}"#,
        r#"{"name":"x","governance":{"autoCompleteThreshold":"half"}}"#,
        r#"{"name":"x","governance":{"budgetLimitCents":-1}}"#,
        r#"{"name":"x","governance":{"limit":1}}"#,
    ] {
        refusal(post_raw(&server, "/v1/groups", body.to_owned()).await, "validation_error");
    }
    let large = json!({ "name": "x", "description": "d".repeat(abide_server::limits::BODY_BYTES_MAX) });
    refusal(server.post("/v1/groups", &large).await, "payload_too_large");
    let members = format!("/v1/groups/{id}/members");
    for body in [
        "",
        "{}",
        r#"{"runId":7}"#,
        r#"{"runId":"x"}"#,
        &format!(r#"{{"runId":"{run}","role":"leader"}}"#),
        &format!(r#"{{"runId":"{run}","priority":"high"}}"#),
        &format!(r#"{{"runId":"{run}","priority":3000000000}}"#),
        &format!(r#"{{"runId":"{run}","why":1}}"#),
        &format!(r#"{{"runId":"{id}"}}"#),
    ] {
        refusal(post_raw(&server, &members, body.to_owned()).await, "validation_error");
    }
    for unknown in [NOBODY, &foreign, &theirs] {
        refusal(add(&server, &id, unknown).await, "run_not_found");
        refusal(remove(&server, &id, unknown).await, "member_not_found");
    }
    refusal(remove(&server, &id, &run).await, "member_not_found");
    for unknown in ["x", NOBODY, &run, &theirs] {
        refusal(server.get(&format!("/v1/groups/{unknown}")).await, "group_not_found");
        refusal(server.get(&format!("/v1/groups/{unknown}/members")).await, "group_not_found");
        refusal(add(&server, unknown, &run).await, "group_not_found");
        refusal(remove(&server, unknown, &run).await, "group_not_found");
        refusal(govern(&server, unknown, json!({})).await, "group_not_found");
        refusal(close(&server, unknown).await, "group_not_found");
    }
    for query in ["limit=0", "limit=x", "cursor=x", "order=up"] {
        refusal(server.get(&format!("/v1/groups?{query}")).await, "validation_error");
        refusal(server.get(&format!("{members}?{query}")).await, "validation_error");
    }
    assert_eq!(site.rows(), before);
    let listed = server.ask_as(&stranger, Method::GET, "/v1/groups", None).await.1;
    assert_eq!(listed["groups"].as_array().unwrap().len(), 1, "theirs alone");
}

#[tokio::test]
async fn a_group_is_no_run_that_anybody_waits_for_works_on_or_holds_up() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({})).await;
    refusal(hands::hand(&server, &id, "ada", claim()).await, "validation_error");
    let after = json!({ "workflowId": "noop", "dependsOn": [id] });
    refusal(server.post("/v1/runs", &after).await, "dependency_not_found");
    let (_, why) = server.get(&format!("/v1/runs/{id}/why")).await;
    assert_eq!((&why["summary"], &why["reasons"][0]["kind"]), (&json!("it is a group"), &json!("group")));
    // What was erased of a member is erased, and it belongs to the group as before.
    let ended = server.start_run("noop", json!({})).await;
    server.events(&ended).await;
    add(&server, &id, &ended).await;
    site.settle(&server).await;
    assert_eq!(server.post(&format!("/v1/runs/{ended}/erase"), &json!({})).await.0, StatusCode::OK);
    assert_eq!(members(&server, &id).await[0]["status"], "completed");
    let other = server.start_run("noop", json!({})).await;
    server.events(&other).await;
    assert_eq!(server.post(&format!("/v1/runs/{other}/erase"), &json!({})).await.0, StatusCode::OK);
    refusal(add(&server, &id, &other).await, "run_erased");
    assert_eq!(close(&server, &id).await.1["status"], "completed");
    assert_eq!(server.post(&format!("/v1/runs/{id}/erase"), &json!({})).await.0, StatusCode::OK);
    refusal(server.get(&format!("/v1/groups/{id}")).await, "run_erased");
    let (status, page) = server.get("/v1/groups").await;
    assert_eq!(
        (status, &page["groups"]),
        (StatusCode::OK, &json!([])),
        "one that was erased has nothing to say"
    );
}

#[tokio::test]
async fn what_happens_in_a_group_is_in_its_journal_and_in_the_debug_stream_and_webhooks_tell_what_they_told()
{
    let (site, receiver) = (site(), Receiver::start().await);
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    let webhook = json!({ "url": receiver.url, "events": ["run.completed", "run.cancelled", "run.started"] });
    assert_eq!(server.post("/v1/webhooks", &webhook).await.0, StatusCode::CREATED);
    let id = make(&server, json!({})).await;
    let run = asking(&server).await;
    add(&server, &id, &run).await;
    site.settle(&server).await;
    reply(&server, &run).await;
    done(&server, &run, "ada", complete(&json!({}))).await;
    site.settle(&server).await;
    let own: Vec<String> = journal(&server, &id)
        .await
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .filter(|kind| kind.starts_with("portfolio."))
        .collect();
    assert_eq!(own.first().map(String::as_str), Some("portfolio.member_added"));
    assert!(own.contains(&"portfolio.member_resumed".to_owned()), "{own:?}");
    let request = server.request(Method::GET, &format!("/v1/runs/{id}/events?streamMode=debug"));
    let debug: Value =
        request.header("Accept", "application/json").send().await.unwrap().json().await.unwrap();
    let debug = debug["events"].as_array().unwrap();
    let logged: Vec<&str> =
        debug.iter().filter_map(|event| event["payload"]["data"]["journalType"].as_str()).collect();
    assert_eq!(logged, own, "whatever OpenWOP has no word for is in its log");
    let (_, updates) = server.get(&format!("/v1/runs/{id}/events/poll?timeout=1")).await;
    let updates = updates["events"].as_array().unwrap();
    assert!(updates.iter().all(|event| event["type"] != "log.appended"), "{updates:?}");
    assert_eq!(close(&server, &id).await.0, StatusCode::OK);
    // Both runs and the group begin and end, and nothing else is told.
    let posts = receiver.await_posts(4).await;
    let told: Vec<(String, String)> = posts
        .iter()
        .map(|post| {
            let body = post.json();
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            (word(&body["runId"]), word(&body["event"]["type"]))
        })
        .collect();
    for (of, kind) in
        [(&run, "run.started"), (&run, "run.completed"), (&id, "run.started"), (&id, "run.completed")]
    {
        assert!(told.contains(&(of.clone(), kind.to_owned())), "{told:?}");
    }
}

#[tokio::test]
async fn of_two_who_change_what_they_have_read_the_second_is_told() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({ "budgetLimitCents": 5 })).await;
    assert_eq!(group(&server, &id).await["governanceVersion"], 0);
    let (status, changed) = govern(&server, &id, json!({ "budgetLimitCents": 6, "version": 0 })).await;
    assert_eq!((status, &changed["governanceVersion"]), (StatusCode::OK, &json!(1)), "{changed}");
    let details = refusal(govern(&server, &id, json!({ "version": 0 })).await, "version_conflict");
    assert_eq!(details, json!({ "expectedVersion": 0, "foundVersion": 1 }));
    assert_eq!(group(&server, &id).await["governance"]["budgetLimitCents"], 6);
    assert_eq!(govern(&server, &id, json!({})).await.0, StatusCode::OK, "whoever names none means it");
    let body = json!({ "name": "Q3", "governance": { "version": 0 } });
    refusal(server.post("/v1/groups", &body).await, "validation_error");
}

/// Whoever may start runs may not thereby end those of others, or keep them from going on.
#[tokio::test]
async fn what_ends_or_blocks_runs_of_others_takes_more_than_starting_some() {
    let site = site();
    let starter = site.key("default").scopes("runs:create,runs:read").make();
    let server = site.start(&["--test-clock"]);
    let id = make(&server, json!({})).await;
    let (one, other) =
        (server.start_run("parked", json!({})).await, server.start_run("parked", json!({})).await);
    add(&server, &id, &one).await;
    server.post(&format!("/v1/runs/{one}/dependencies"), &json!({ "runId": other })).await;
    let asks = [
        (Method::POST, format!("/v1/groups/{id}/members"), Some(json!({ "runId": other }))),
        (Method::DELETE, format!("/v1/groups/{id}/members/{one}"), None),
        (Method::PUT, format!("/v1/groups/{id}/governance"), Some(json!({}))),
        (Method::POST, format!("/v1/groups/{id}:close"), Some(json!({}))),
        (Method::POST, format!("/v1/runs/{other}/dependencies"), Some(json!({ "runId": one }))),
        (Method::DELETE, format!("/v1/runs/{one}/dependencies/{other}"), None),
    ];
    for (method, path, body) in asks {
        let refused = server.ask_as(&starter, method, &path, body.as_ref()).await;
        assert_eq!(refusal(refused, "forbidden"), json!({ "scopeRequired": "runs:cancel" }), "{path}");
    }
    let made = server.ask_as(&starter, Method::POST, "/v1/groups", Some(&json!({ "name": "mine" }))).await;
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let after = json!({ "workflowId": "noop", "dependsOn": [other] });
    assert_eq!(server.ask_as(&starter, Method::POST, "/v1/runs", Some(&after)).await.0, StatusCode::CREATED);
}
