//! Annotations: what people say about a run, during it and after, without touching it.

use super::*;

async fn annotate(server: &Server, run: &str, body: &Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/annotations"), body).await
}

async fn kept(server: &Server, run: &str) -> Vec<Value> {
    let (status, body) = server.get(&format!("/v1/runs/{run}/annotations")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let annotations = body["annotations"].as_array().unwrap().clone();
    assert_eq!(body["total"], annotations.len());
    annotations
}

/// Everything on disk but the notes.
fn without_notes(site: &Site) -> std::collections::BTreeMap<String, u64> {
    let mut rows = site.rows();
    rows.remove("notes");
    rows
}

fn four() -> [Value; 4] {
    [
        json!({ "signal": { "kind": "rating", "rating": 4 }, "note": "quick" }),
        json!({ "signal": { "kind": "correction", "correction": { "total": 12 } } }),
        json!({ "signal": { "kind": "label", "label": "good" } }),
        json!({ "signal": { "kind": "flag" } }),
    ]
}

/// OW-242.
#[tokio::test]
async fn there_are_four_kinds_and_a_fifth_is_refused() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("failing", json!({})).await;
    server.events(&run).await;
    for body in four() {
        let (status, answer) = annotate(&server, &run, &body).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        assert_eq!(answer["signal"], body["signal"]);
        assert_eq!(answer.get("note"), body.get("note"));
        assert_eq!(answer["target"], json!({ "runId": run }));
        assert_eq!(answer["actor"], json!({ "principalRef": "dev" }));
        assert!(millis(&answer["createdAt"]) > 0);
        assert!(answer["annotationId"].as_str().unwrap().starts_with("ann-"));
    }
    let before = site.rows();
    for (signal, field) in [
        (json!({ "kind": "applause" }), "signal.kind"),
        (json!({ "kind": "rating" }), "signal.rating"),
        (json!({ "kind": "rating", "rating": 0 }), "signal.rating"),
        (json!({ "kind": "rating", "rating": 4.5 }), "signal.rating"),
        (json!({ "kind": "rating", "rating": 4, "label": "x" }), "signal.label"),
        (json!({ "kind": "flag", "correction": 1 }), "signal.correction"),
        (json!({ "kind": "label", "label": "x".repeat(257) }), "signal.label"),
    ] {
        let details =
            refusal(annotate(&server, &run, &json!({ "signal": signal })).await, "validation_error");
        assert_eq!(details["field"], field, "{signal}");
    }
    for body in [
        json!({}),
        json!({ "signal": { "kind": "flag", "token": "t" } }),
        json!({ "signal": { "kind": "flag" }, "resumeValue": 1 }),
    ] {
        refusal(annotate(&server, &run, &body).await, "validation_error");
    }
    assert_eq!(site.rows(), before, "a refusal leaves nothing");
    let signals: Vec<Value> = kept(&server, &run).await.iter().map(|it| it["signal"].clone()).collect();
    assert_eq!(signals, four().map(|body| body["signal"].clone()), "they are told in their order");
}

/// OW-243: a run that waits goes on waiting, for the same thing.
#[tokio::test]
async fn a_run_under_way_is_not_touched() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    server.settle().await;
    let (before, events, rows) =
        (shown(&server, &run).await, events_so_far(&server, &run).await, without_notes(&site));
    assert_eq!(before["status"], "running");
    let why = server.get(&format!("/v1/runs/{run}/why")).await;
    for body in four() {
        let (status, answer) = annotate(&server, &run, &body).await;
        assert_eq!(status, StatusCode::CREATED);
        let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
        let known = ["actor", "annotationId", "createdAt", "note", "signal", "target"];
        assert!(keys.iter().all(|key| known.contains(&key.as_str())), "it has no token: {answer}");
    }
    assert_eq!(shown(&server, &run).await, before);
    assert_eq!(server.get(&format!("/v1/runs/{run}/why")).await, why, "nothing was resolved");
    assert_eq!(events_so_far(&server, &run).await, events);
    assert_eq!(without_notes(&site), rows);
    server.advance(HOUR_MS).await;
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "completed", "what it waited for ends the wait");
    assert_eq!(kept(&server, &run).await.len(), 4);
}

/// OW-244.
#[tokio::test]
async fn a_run_that_has_ended_can_be_annotated() {
    let site = site();
    let server = site.start(&[]);
    for (workflow, ended) in [("payload", "completed"), ("failing", "failed")] {
        let run = server.start_run(workflow, json!({})).await;
        server.events(&run).await;
        let before = shown(&server, &run).await;
        assert_eq!(before["status"], ended);
        let (status, answer) = annotate(&server, &run, &four()[0]).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        assert_eq!(shown(&server, &run).await, before);
        assert_eq!(kept(&server, &run).await, [answer]);
    }
}

#[tokio::test]
async fn an_annotation_may_be_about_an_event_or_a_node_that_is_there() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("failing", json!({})).await;
    let other = server.start_run("failing", json!({})).await;
    let event = server.events(&run).await[1]["eventId"].clone();
    let foreign = server.events(&other).await[1]["eventId"].clone();
    let about = |target: Value| json!({ "signal": { "kind": "flag" }, "target": target });
    let target = json!({ "eventId": event, "nodeId": "fail" });
    let (status, answer) = annotate(&server, &run, &about(target)).await;
    assert_eq!(
        (status, &answer["target"]),
        (StatusCode::CREATED, &json!({ "runId": run, "eventId": event, "nodeId": "fail" }))
    );
    let beyond = event.as_str().unwrap().replace("-1", "-99");
    for (target, field) in [
        (json!({ "eventId": foreign }), "target.eventId"),
        (json!({ "eventId": beyond }), "target.eventId"),
        (json!({ "eventId": "nonsense" }), "target.eventId"),
        (json!({ "nodeId": "nobody" }), "target.nodeId"),
    ] {
        let details = refusal(annotate(&server, &run, &about(target)).await, "validation_error");
        assert_eq!(details["field"], field);
    }
    refusal(annotate(&server, &run, &about(json!({ "runId": other }))).await, "validation_error");
    assert_eq!(kept(&server, &run).await.len(), 1);
}

#[tokio::test]
async fn what_looks_like_a_secret_never_reaches_the_disk() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("failing", json!({})).await;
    server.events(&run).await;
    let body = json!({
        "signal": { "kind": "correction", "correction": { "call": format!("curl -H 'Authorization: Bearer {}'", server.key) } },
        "note": "password=hunter2-4711",
    });
    let (status, answer) = annotate(&server, &run, &body).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(answer["note"], "password=[secret]");
    let text = answer.to_string() + &text_of(&server, &format!("/v1/runs/{run}/annotations")).await;
    assert!(!text.contains(&server.key) && !text.contains("hunter2"), "{text}");
    let body: Vec<u8> = site
        .database()
        .query_row("SELECT body FROM notes WHERE kind = 'annotation'", [], |row| row.get(0))
        .unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("[secret]") && !body.contains(&server.key) && !body.contains("hunter2"), "{body}");
}

#[tokio::test]
async fn annotations_outlive_a_kill_and_go_with_an_erasure() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("failing", json!({})).await;
    server.events(&run).await;
    let (_, answer) = annotate(&server, &run, &four()[0]).await;
    server.kill();
    let server = site.start(&[]);
    assert_eq!(kept(&server, &run).await, [answer]);
    let (status, _) = server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(kept(&server, &run).await, Vec::<Value>::new());
    refusal(annotate(&server, &run, &four()[0]).await, "run_erased");
}

#[tokio::test]
async fn repeating_a_request_under_its_key_annotates_once() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("failing", json!({})).await;
    server.events(&run).await;
    let ask = |body: &Value| {
        let path = format!("/v1/runs/{run}/annotations");
        server.request(Method::POST, &path).header("idempotency-key", "once").json(body)
    };
    let (first, again) = (answer(ask(&four()[0])).await.unwrap(), ask(&four()[0]).send().await.unwrap());
    assert_eq!(again.headers()["openwop-idempotent-replay"], "true");
    assert_eq!((again.status(), again.json::<Value>().await.unwrap()), first);
    assert_eq!(kept(&server, &run).await.len(), 1);
    refusal(answer(ask(&four()[1])).await.unwrap(), "idempotency_key_mismatch");
    // The receipt repeats what was said, so it goes with it.
    server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    assert_eq!(site.rows()["receipts"], 0);
    refusal(answer(ask(&four()[0])).await.unwrap(), "run_erased");
}

#[tokio::test]
async fn nobody_elses_runs_can_be_annotated_or_read_about() {
    let site = site();
    let other = site.new_key("other");
    let server = site.start(&[]);
    let run = server.start_run("failing", json!({})).await;
    server.events(&run).await;
    annotate(&server, &run, &four()[0]).await;
    let path = format!("/v1/runs/{run}/annotations");
    refusal(answer(server.request_as(&other, Method::GET, &path)).await.unwrap(), "run_not_found");
    let post = server.request_as(&other, Method::POST, &path).json(&four()[0]);
    refusal(answer(post).await.unwrap(), "run_not_found");
    refusal(answer(server.anonymous(Method::GET, &path)).await.unwrap(), "unauthenticated");
    refusal(server.get("/v1/runs/nonsense/annotations").await, "run_not_found");
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("failing", json!({})).await;
    server.events(&run).await;
    for n in 0..5 {
        let body = json!({ "signal": { "kind": "label", "label": format!("l{n}") } });
        assert_eq!(annotate(&server, &run, &body).await.0, StatusCode::CREATED);
    }
    let (mut labels, mut cursor) = (Vec::new(), String::new());
    loop {
        let (_, page) = server.get(&format!("/v1/runs/{run}/annotations?limit=2{cursor}")).await;
        assert_eq!(page["total"], 5);
        labels.extend(page["annotations"].as_array().unwrap().iter().map(|it| it["signal"]["label"].clone()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(labels, ["l0", "l1", "l2", "l3", "l4"]);
    for query in ["limit=0", "limit=501", "limit=x", "cursor=x", "colour=red"] {
        refusal(server.get(&format!("/v1/runs/{run}/annotations?{query}")).await, "validation_error");
    }
}
