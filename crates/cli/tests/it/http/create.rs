//! POST /v1/runs.

use std::collections::BTreeMap;

use super::*;

/// A server that refuses: nothing that it is sent may leave a row behind.
struct Door {
    site: Site,
    server: Server,
    before: BTreeMap<String, u64>,
}

impl Door {
    fn new() -> Self {
        let site = site();
        let server = site.start(&[]);
        let before = site.rows();
        Self { site, server, before }
    }

    /// Checks that this body is refused with this code; gives the details.
    async fn refuses(&self, body: impl Into<reqwest::Body>, code: &str) -> Value {
        let details = refusal(post_raw(&self.server, "/v1/runs", body).await, code);
        assert_eq!(self.site.rows(), self.before, "a refused request left something behind");
        details
    }

    /// Checks that this body is not valid, because of this field.
    async fn refuses_field(&self, body: &str, field: &str) {
        let details = self.refuses(body.to_owned(), "validation_error").await;
        assert_eq!(details["field"], field, "{body:.200}");
    }
}

#[tokio::test]
async fn the_answer_says_which_run_and_where_to_look() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let (status, body) = server.post("/v1/runs", &json!({ "workflowId": "parked" })).await;
    assert_eq!(status, StatusCode::CREATED);
    let run = body["runId"].as_str().unwrap();
    assert!(run.starts_with("run-"), "{run}");
    let expected = json!({
        "runId": run,
        "status": "running",
        "eventsUrl": format!("/v1/runs/{run}/events"),
        "statusUrl": format!("/v1/runs/{run}"),
    });
    assert_eq!(body, expected);
    for url in ["eventsUrl", "statusUrl"] {
        let request = server.request(Method::GET, body[url].as_str().unwrap());
        let (status, _) = answer(request.header("accept", "application/json")).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{url}");
    }
}

#[tokio::test]
async fn the_status_in_the_answer_is_how_the_run_stands_on_disk() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    for (workflow, expected) in [("noop", "completed"), ("failing", "failed"), ("parked", "running")] {
        let (_, body) = server.post("/v1/runs", &json!({ "workflowId": workflow })).await;
        assert_eq!(body["status"], expected, "{workflow}");
    }
}

#[tokio::test]
async fn all_four_kinds_of_node_do_what_they_are_for() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("kinds", json!({})).await;
    server.advance(1000).await;
    let events = server.events(&run).await;
    let told: Vec<(&str, &str)> = types(&events)
        .into_iter()
        .zip(events.iter().map(|event| event["nodeId"].as_str().unwrap_or("")))
        .collect();
    let expected = [
        ("run.started", ""),
        ("node.started", "nothing"),
        ("node.completed", "nothing"),
        ("node.started", "same"),
        ("node.completed", "same"),
        ("node.started", "wait"),
        ("node.completed", "wait"),
        ("node.started", "fail"),
        ("node.failed", "fail"),
        ("run.failed", ""),
    ];
    assert_eq!(told, expected);
    assert_eq!(events[2]["payload"].get("outputs"), None, "a noop produces nothing");
    assert_eq!(events[4]["payload"]["outputs"], json!({ "word": "hi" }));
    assert_eq!(millis(&events[6]["timestamp"]) - millis(&events[5]["timestamp"]), 1000);
    assert_eq!(events[8]["payload"]["error"]["message"], "as told");
    assert_eq!(events[9]["payload"]["failedNodeId"], "fail");
}

#[tokio::test]
async fn a_chain_runs_in_order_and_each_event_names_its_cause() {
    let site = Site::new();
    let settings = json!({ "abide": { "durable": true } });
    site.workflow(&chain("chain", "core.noop", 20, &settings));
    let server = site.start(&[]);
    let run = server.start_run("chain", json!({})).await;
    let events = server.events(&run).await;
    let started: Vec<&Value> = events.iter().filter(|event| event["type"] == "node.started").collect();
    let order: Vec<&str> = started.iter().map(|event| event["nodeId"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..20).map(|ix| format!("n{ix}")).collect();
    assert_eq!(order, expected);
    for (ix, event) in started.iter().enumerate().skip(1) {
        let cause = events.iter().find(|other| other["eventId"] == event["causationId"]).unwrap();
        assert_eq!(
            (cause["type"].as_str(), cause["nodeId"].as_str()),
            (Some("node.completed"), Some(expected[ix - 1].as_str()))
        );
    }
    assert_eq!(events.last().unwrap()["type"], "run.completed");
}

#[tokio::test]
async fn a_fan_in_waits_for_all_its_branches() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("fan", json!({ "it": [1, "two"] })).await;
    let events = server.events(&run).await;
    let position = |kind: &str, node: &str| {
        let at = events.iter().position(|event| event["type"] == kind && event["nodeId"] == node);
        at.unwrap_or_else(|| panic!("{kind} of {node} is missing"))
    };
    let join = position("node.started", "join");
    for branch in ["left", "middle", "right"] {
        assert!(position("node.started", branch) > position("node.completed", "root"));
        assert!(position("node.completed", branch) < join, "{branch}");
    }
    let starts = events.iter().filter(|event| event["type"] == "node.started").count();
    assert_eq!(starts, 5, "every node starts once");
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        snapshot["nodeStates"]["join"]["outputs"],
        json!({ "l": [1, "two"], "m": [1, "two"], "r": [1, "two"] })
    );
}

#[tokio::test]
async fn tags_and_metadata_are_kept() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let body = json!({
        "workflowId": "parked", "tags": ["a", "b"], "metadata": { "ticket": { "id": 7 } }, "tenantId": "default",
    });
    let (status, created) = server.post("/v1/runs", &body).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let run = created["runId"].as_str().unwrap();
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["tags"], body["tags"]);
    assert_eq!(snapshot["metadata"], body["metadata"]);
    let started = &events_so_far(&server, run).await[0];
    assert_eq!(started["payload"]["tags"], body["tags"]);
    assert_eq!(started["payload"]["metadata"], body["metadata"]);
}

#[tokio::test]
async fn a_large_input_comes_back_as_it_went_in() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let large = "grüße, 你好, \u{1f600}, \\ \" \n ".repeat(200_000 / 20);
    assert!(large.len() > 200_000);
    let run = server.start_run("payload", json!({ "payload": large, "delayMs": HOUR_MS })).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert!(snapshot["inputs"]["payload"] == *large, "the inputs differ");
    assert!(snapshot["variables"]["payload"] == *large, "the variables differ");
    assert!(snapshot["nodeStates"]["carry"]["outputs"]["payload"] == *large, "the outputs differ");
    server.advance(HOUR_MS).await;
    let events = server.events(&run).await;
    assert!(events[0]["payload"]["inputs"]["payload"] == *large, "the event differs");
    assert_eq!(events.last().unwrap()["type"], "run.completed");
}

#[tokio::test]
async fn numbers_come_back_digit_for_digit() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let number = "123456789012345678901234567890.12345678901234567890";
    let body = format!(
        r#"{{"workflowId":"payload","inputs":{{"payload":{number},"delayMs":1}},"metadata":{{"n":{number}}}}}"#
    );
    let (status, created) = post_raw(&server, "/v1/runs", body).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let run = created["runId"].as_str().unwrap();
    for (path, times) in [("", 4), ("/events/poll", 3)] {
        let request = server.request(Method::GET, &format!("/v1/runs/{run}{path}"));
        let text = request.send().await.unwrap().text().await.unwrap();
        assert_eq!(text.matches(number).count(), times, "{text}");
    }
}

#[tokio::test]
async fn the_last_of_two_inputs_of_one_name_counts() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let body = r#"{"workflowId":"payload","inputs":{"payload":1,"payload":{"a":1,"a":2},"delayMs":1}}"#;
    let (status, created) = post_raw(&server, "/v1/runs", body).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let (_, snapshot) = server.get(created["statusUrl"].as_str().unwrap()).await;
    assert_eq!(snapshot["inputs"]["payload"], json!({ "a": 2 }));
    assert_eq!(snapshot["nodeStates"]["carry"]["outputs"], json!({ "payload": { "a": 2 } }));
}

#[tokio::test]
async fn an_unknown_workflow_is_not_found() {
    let door = Door::new();
    let details = door.refuses(r#"{"workflowId":"nowhere"}"#, "workflow_not_found").await;
    assert_eq!(details, json!({ "workflowId": "nowhere" }));
}

#[tokio::test]
async fn an_unknown_key_is_refused() {
    let door = Door::new();
    assert!(
        door.refuses(r#"{"workflowId":"noop","input":{}}"#, "validation_error").await["field"].is_string()
    );
}

#[tokio::test]
async fn a_key_that_stands_twice_is_refused() {
    let door = Door::new();
    door.refuses(r#"{"workflowId":"noop","workflowId":"noop"}"#, "validation_error").await;
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused_by_its_place() {
    let door = Door::new();
    door.refuses_field(r#"{"workflowId":7}"#, "workflowId").await;
    door.refuses_field(r#"{"workflowId":"noop","inputs":[]}"#, "inputs").await;
    door.refuses_field(r#"{"workflowId":"noop","tags":["a",1]}"#, "tags[1]").await;
    door.refuses_field(r#"{"workflowId":"noop","metadata":[]}"#, "metadata").await;
}

#[tokio::test]
async fn tags_have_limits() {
    let door = Door::new();
    door.refuses_field(&json!({ "workflowId": "noop", "tags": vec!["t"; 101] }).to_string(), "tags").await;
    door.refuses_field(&json!({ "workflowId": "noop", "tags": ["t".repeat(257)] }).to_string(), "tags").await;
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let door = Door::new();
    for body in ["{", "not json", "{\"workflowId\":\"noop\"", "{'workflowId':'noop'}", "\u{feff}{}"] {
        door.refuses(body.to_owned(), "validation_error").await;
    }
}

#[tokio::test]
async fn a_body_that_goes_on_after_its_end_is_refused() {
    let door = Door::new();
    door.refuses(r#"{"workflowId":"noop"} {}"#, "validation_error").await;
    door.refuses("{\"workflowId\":\"noop\"}\0", "validation_error").await;
}

#[tokio::test]
async fn a_body_that_is_no_object_is_refused() {
    let door = Door::new();
    let full = r#"["noop",{},[],null,null,null,null,null]"#;
    for body in ["[]", full, "null", "\"noop\"", "7", " "] {
        door.refuses(body.to_owned(), "validation_error").await;
    }
}

#[tokio::test]
async fn an_empty_body_lacks_the_workflow() {
    let door = Door::new();
    door.refuses("", "validation_error").await;
    door.refuses("{}", "validation_error").await;
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused() {
    let door = Door::new();
    for body in [
        &b"{\"workflowId\":\"no\xffop\"}"[..],
        b"{\"workflowId\":\"noop\",\"inputs\":{\"x\":\"\xc3\x28\"}}",
        b"\xff\xfe{\x00}\x00",
    ] {
        door.refuses(body, "validation_error").await;
    }
}

#[tokio::test]
async fn a_nesting_without_end_is_refused_and_a_deep_one_is_carried() {
    let door = Door::new();
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"workflowId":"payload","inputs":{{"payload":{open}{close}}}}}"#)
    };
    // Two levels are the body's own.
    for levels in [99, 200, 200_000] {
        door.refuses(nested(levels), "validation_error").await;
    }
    let site = site();
    let server = site.start(&[]);
    let (status, created) = post_raw(&server, "/v1/runs", nested(98)).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    let run = created["runId"].as_str().unwrap();
    server.events(run).await;
    let shown = server.cli(&["run", "show", run, "--json"]);
    assert!(shown.status.success(), "{shown:?}");
    assert!(String::from_utf8(shown.stdout).unwrap().contains(&"[".repeat(98)));
}

#[tokio::test]
async fn what_no_reader_could_read_back_is_refused() {
    let door = Door::new();
    for value in ["1e400", "-1e999", r#""\ud800""#, r#"{"\udfff":1}"#, "[1e1000]"] {
        door.refuses(
            format!(r#"{{"workflowId":"payload","inputs":{{"payload":{value}}}}}"#),
            "validation_error",
        )
        .await;
    }
}

#[tokio::test]
async fn a_missing_input_is_named() {
    let door = Door::new();
    door.refuses_field(r#"{"workflowId":"needy"}"#, "inputs.who").await;
}

#[tokio::test]
async fn an_input_of_the_wrong_type_is_named() {
    let door = Door::new();
    for (input, field) in [
        (json!({ "who": 1 }), "inputs.who"),
        (json!({ "who": null }), "inputs.who"),
        (json!({ "who": "a", "count": "1" }), "inputs.count"),
        (json!({ "who": "a", "flag": 0 }), "inputs.flag"),
        (json!({ "who": "a", "parts": {} }), "inputs.parts"),
        (json!({ "who": "a", "extra": [] }), "inputs.extra"),
    ] {
        door.refuses_field(&json!({ "workflowId": "needy", "inputs": input }).to_string(), field).await;
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_the_largest_is_not() {
    let door = Door::new();
    let body = |length: usize| {
        let frame = json!({ "workflowId": "noop", "inputs": { "x": "" } }).to_string();
        let filling = "x".repeat(length - frame.len());
        json!({ "workflowId": "noop", "inputs": { "x": filling } }).to_string()
    };
    let limit = abide_server::limits::BODY_BYTES_MAX;
    assert_eq!(door.refuses(body(limit + 1), "payload_too_large").await["maxBytes"], limit);
    let site = site();
    let server = site.start(&[]);
    let (status, _) = post_raw(&server, "/v1/runs", body(limit)).await;
    assert_eq!(status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_body_that_is_far_too_large_is_refused_unread() {
    let site = site();
    let server = site.start(&[]);
    let before = site.rows();
    let request = server.request(Method::POST, "/v1/runs").body(vec![b' '; 32 * 1024 * 1024]);
    // The server may close before the client has sent all; then the client sees only that.
    if let Ok(refused) = answer(request).await {
        refusal(refused, "payload_too_large");
    }
    assert_eq!(site.rows(), before);
    server.start_run("noop", json!({})).await;
}

#[tokio::test]
async fn another_tenant_can_not_be_named() {
    let site = site();
    site.new_key("other");
    let server = site.start(&[]);
    let before = site.rows();
    for tenant in ["other", "never-heard-of", ""] {
        let body = json!({ "workflowId": "noop", "tenantId": tenant });
        let details = refusal(server.post("/v1/runs", &body).await, "forbidden");
        assert_eq!(details, json!({ "field": "tenantId" }), "no hint whether '{tenant}' exists");
    }
    assert_eq!(site.rows(), before);
}

#[tokio::test]
async fn what_can_not_be_used_is_refused_by_name() {
    let door = Door::new();
    for (field, value) in [("callbackUrl", "http://example.com/"), ("configurable", "x"), ("scopeId", "")] {
        let mut body = json!({ "workflowId": "noop" });
        body[field] = json!(value);
        door.refuses_field(&body.to_string(), field).await;
    }
}

#[tokio::test]
async fn a_kind_behind_a_capability_is_refused_with_the_node() {
    let door = Door::new();
    let details = door.refuses(r#"{"workflowId":"gated"}"#, "capability_required").await;
    let expected = json!({
        "requiredCapability": "dispatch.supported",
        "offendingTypeId": "core.dispatch",
        "nodeId": "work",
    });
    assert_eq!(details, expected);
}

#[tokio::test]
async fn a_kind_that_nobody_knows_fails_the_run() {
    let site = site();
    let server = site.start(&[]);
    let run = server.start_run("strange", json!({})).await;
    let events = server.events(&run).await;
    assert_eq!(types(&events), ["run.started", "node.started", "node.failed", "run.failed"]);
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "failed");
    assert_eq!(snapshot["error"]["code"], "capability_not_provided");
    assert_eq!(events[3]["payload"]["error"], snapshot["error"]);
}

#[tokio::test]
async fn options_are_an_object_and_their_bounds_are_named() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let before = site.rows();
    for (configurable, field) in [
        (json!([]), "configurable"),
        (json!("x"), "configurable"),
        (json!(null), "configurable"),
        (json!({ "recursionLimit": 0 }), "configurable.recursionLimit"),
        (json!({ "runTimeoutMs": 1.5 }), "configurable.runTimeoutMs"),
        (json!({ "maxLoopIterations": "5" }), "configurable.maxLoopIterations"),
        (json!({ "x": "y".repeat(70_000) }), "configurable"),
    ] {
        let body = json!({ "workflowId": "parked", "configurable": configurable });
        let (status, answer) = server.post("/v1/runs", &body).await;
        if configurable.is_null() {
            assert_eq!(status, StatusCode::CREATED, "null is as good as none: {answer}");
            continue;
        }
        assert_eq!(refusal((status, answer), "validation_error")["field"], field);
    }
    assert_eq!(site.rows()["aggregates"], before["aggregates"] + 1);
}

#[tokio::test]
async fn options_of_a_run_are_shown_as_they_came() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let options = json!({ "runTimeoutMs": 60_000, "own": { "b": 1, "a": [null] } });
    let body = json!({ "workflowId": "parked", "configurable": options });
    let (_, created) = server.post("/v1/runs", &body).await;
    let run = created["runId"].as_str().unwrap();
    assert_eq!(shown(&server, run).await["configurable"], options);
    assert_eq!(events_so_far(&server, run).await[0]["payload"]["configurable"], options);
    server.advance(60_000).await;
    let events = server.events(run).await;
    assert!(types(&events).contains(&"cap.breached"), "{events:?}");
    assert_eq!(events.last().unwrap()["payload"]["error"]["code"], "run_timeout");
}

#[tokio::test]
async fn a_mock_provider_is_forbidden() {
    let site = site();
    let server = site.start(&[]);
    let before = site.rows();
    for mock in [json!({ "mockProvider": { "kind": "echo" } }), json!({ "mockProvider": null, "model": "x" })]
    {
        let body = json!({ "workflowId": "noop", "configurable": mock });
        let details = refusal(server.post("/v1/runs", &body).await, "mock_provider_forbidden");
        assert_eq!(details["field"], "configurable.mockProvider");
    }
    assert_eq!(site.rows(), before);
}
