//! What is sensitive never leaves the server: not in a snapshot, not in an event, not in an error.

use super::*;

const SECRET: &str = "hunter2-4711";

fn variable(name: &str) -> Value {
    json!({ "type": "variable", "variableName": name })
}

/// Carries a sensitive variable through every kind that could show it.
fn carrier() -> Value {
    let word = |id: &str, kind: &str, config: Value, inputs: Value| node(id, kind, config, inputs, json!({}));
    let durable = json!({ "abide": { "durable": true } });
    let mut definition = workflow(
        "carrier",
        &[
            word(
                "same",
                "core.identity",
                json!({}),
                json!({ "pw": variable("pw"), "plain": variable("plain") }),
            ),
            word(
                "made",
                "core.transform",
                json!({ "outputs": { "long": "variables.pw + '!'" }, "assign": { "copy": "variables.pw" } }),
                json!({}),
            ),
            word(
                "says",
                "core.channelWrite",
                json!({ "channelName": "open" }),
                json!({ "value": variable("pw") }),
            ),
            word(
                "notes",
                "core.channelWrite",
                json!({ "channelName": "closed", "value": SECRET }),
                json!({}),
            ),
            word(
                "plain",
                "core.channelWrite",
                json!({ "channelName": "public", "value": "in the open" }),
                json!({}),
            ),
            node("leased", "core.identity", json!({}), json!({ "pw": variable("copy") }), durable),
            word("wait", "core.delay", json!({ "ms": HOUR_MS }), json!({})),
        ],
        &[
            ("same", "made"),
            ("made", "says"),
            ("says", "notes"),
            ("notes", "plain"),
            ("plain", "leased"),
            ("leased", "wait"),
        ],
        json!([
            { "name": "pw", "type": "string", "sensitive": true },
            { "name": "plain", "type": "string" },
        ]),
    );
    definition["channels"] = json!({
        "closed": { "reducer": "replace", "sensitive": true },
        "public": { "reducer": "replace" },
    });
    definition
}

/// Everything that the API says about a run, as text.
async fn told(server: &Server, run: &str) -> String {
    let mut told = String::new();
    for tail in ["", "/why", "/events/poll?timeout=1"] {
        told += &text_of(server, &format!("/v1/runs/{run}{tail}")).await;
    }
    told
}

#[tokio::test]
async fn a_sensitive_value_is_masked_wherever_a_run_carries_it() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &carrier()).await;
    let run = server.start_run("carrier", json!({ "pw": SECRET, "plain": "as it is" })).await;
    await_waiting(&server, &run).await;
    let snapshot = shown(&server, &run).await;
    assert_eq!(snapshot["inputs"], json!({ "pw": "[masked]", "plain": "as it is" }));
    assert_eq!(snapshot["variables"], json!({ "pw": "[masked]", "plain": "as it is", "copy": "[masked]" }));
    let channels = json!({ "open": "[masked]", "closed": "[masked]", "public": "in the open" });
    assert_eq!(snapshot["channels"], channels);
    let states = &snapshot["nodeStates"];
    assert_eq!(states["made"]["outputs"], json!({ "long": "[masked]" }));
    assert_eq!(states["same"]["outputs"], json!({ "pw": "[masked]", "plain": "[masked]" }));
    assert_eq!(states["leased"]["outputs"], json!({ "pw": "[masked]" }));
    assert!(!told(&server, &run).await.contains(SECRET), "{}", told(&server, &run).await);
    let events = events_so_far(&server, &run).await;
    let payload = |kind: &str, node: &str| {
        let found =
            events.iter().find(|event| event["type"] == kind && (node.is_empty() || event["nodeId"] == node));
        found.unwrap_or_else(|| panic!("no {kind} of '{node}'"))["payload"].clone()
    };
    assert_eq!(payload("run.started", "")["inputs"], snapshot["inputs"]);
    assert_eq!(payload("variable.changed", "")["next"], "[masked]");
    assert_eq!(payload("channel.written", "says")["value"], "[masked]");
    assert_eq!(payload("channel.written", "notes")["value"], "[masked]");
    assert_eq!(payload("channel.written", "plain")["value"], "in the open");
    assert_eq!(payload("node.started", "leased")["inputs"], json!({ "pw": "[masked]" }));
    assert_eq!(payload("node.completed", "made")["outputs"], json!({ "long": "[masked]" }));
    // It is still so after a restart, when all of it is read from the disk.
    let before = told(&server, &run).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    assert_eq!(told(&server, &run).await, before);
    server.advance(HOUR_MS).await;
    server.events(&run).await;
    assert!(!told(&server, &run).await.contains(SECRET));
}

/// Waits until the node `wait` waits.
async fn await_waiting(server: &Server, run: &str) {
    let mut last = -1;
    loop {
        let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence={last}");
        let (_, page) = server.get(&path).await;
        let events = page["events"].as_array().unwrap();
        if events.iter().any(|event| event["type"] == "node.started" && event["nodeId"] == "wait") {
            return;
        }
        last = events.last().map_or(last, |event| event["sequence"].as_i64().unwrap());
    }
}

#[tokio::test]
async fn an_error_about_a_sensitive_value_does_not_repeat_it() {
    let site = Site::new();
    let server = site.start(&[]);
    let fails = |id: &str, node: Value| {
        workflow(id, &[node], &[], json!([{ "name": "pw", "type": "string", "sensitive": true }]))
    };
    let transform = |expression: &str, inputs: Value| {
        node("only", "core.transform", json!({ "expression": expression }), inputs, json!({}))
    };
    let port = json!({ "n": { "type": "expression", "expression": "int(variables.pw)" } });
    let mut edge = workflow(
        "on-an-edge",
        &[
            node("only", "core.noop", json!({}), json!({}), json!({})),
            node("next", "core.noop", json!({}), json!({}), json!({})),
        ],
        &[("only", "next")],
        json!([{ "name": "pw", "type": "string", "sensitive": true }]),
    );
    edge["edges"][0]["condition"] = json!({ "type": "expression", "expression": "int(variables.pw) > 1" });
    for definition in [
        fails("in-a-config", transform("int(variables.pw)", json!({}))),
        fails("in-an-input", transform("int(inputs.pw)", json!({ "pw": variable("pw") }))),
        fails("in-a-port", node("only", "core.identity", json!({}), port, json!({}))),
        fails(
            "as-a-delay",
            node("only", "core.delay", json!({}), json!({ "delayMs": variable("pw") }), json!({})),
        ),
        edge,
    ] {
        push(&server, &definition).await;
        let run = server.start_run(definition["id"].as_str().unwrap(), json!({ "pw": SECRET })).await;
        server.events(&run).await;
        assert_eq!(shown(&server, &run).await["status"], "failed", "{definition}");
        assert!(!told(&server, &run).await.contains(SECRET), "{}", told(&server, &run).await);
    }
}

#[tokio::test]
async fn a_node_may_say_which_of_its_outputs_are_sensitive() {
    let site = Site::new();
    let server = site.start(&[]);
    let mut told_by_node = node(
        "only",
        "core.transform",
        json!({ "outputs": { "token": "'t-1'", "count": "1.0" } }),
        json!({}),
        json!({}),
    );
    told_by_node["outputSensitivity"] = json!({ "token": true });
    push(&server, &workflow("partly", &[told_by_node], &[], json!([]))).await;
    let run = server.start_run("partly", json!({})).await;
    let events = server.events(&run).await;
    let expected = json!({ "token": "[masked]", "count": 1.0 });
    assert_eq!(shown(&server, &run).await["nodeStates"]["only"]["outputs"], expected);
    assert_eq!(events[2]["payload"]["outputs"], expected);
}

#[tokio::test]
async fn a_child_and_its_parent_keep_each_others_secrets() {
    let site = Site::new();
    let server = site.start(&[]);
    // Nothing in the child says that it gets something sensitive.
    let child_node = node(
        "echo",
        "core.transform",
        json!({ "outputs": { "got": "variables.given" }, "assign": { "back": "variables.given" } }),
        json!({}),
        json!({}),
    );
    push(&server, &workflow("child", &[child_node], &[], json!([]))).await;
    let config = json!({
        "workflowId": "child", "inputMapping": { "given": "pw" }, "outputMapping": { "result": "back" },
    });
    push(
        &server,
        &workflow(
            "parent",
            &[node("call", "core.subWorkflow", config, json!({}), json!({}))],
            &[],
            json!([{ "name": "pw", "type": "string", "sensitive": true }]),
        ),
    )
    .await;
    let run = server.start_run("parent", json!({ "pw": SECRET })).await;
    server.events(&run).await;
    let snapshot = shown(&server, &run).await;
    assert_eq!(snapshot["status"], "completed");
    assert_eq!(snapshot["variables"], json!({ "pw": "[masked]", "result": "[masked]" }));
    let child = snapshot["childRuns"][0]["runId"].as_str().unwrap();
    assert_eq!(shown(&server, child).await["variables"], json!({ "given": "[masked]", "back": "[masked]" }));
    for run in [&run, child] {
        assert!(!told(&server, run).await.contains(SECRET), "{}", told(&server, run).await);
    }
}
