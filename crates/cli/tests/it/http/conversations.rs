//! Conversations and decisions over HTTP: what is shown, what is taken, what is refused, and who has an id.

use super::*;
use crate::support::verify;

fn talk(id: &str, config: Value) -> Value {
    workflow(id, &[node("talk", "core.conversationGate", config, json!({}), json!({}))], &[], json!([]))
}

async fn say(server: &Server, run: &str, node: &str, value: &Value) -> (StatusCode, Value) {
    server.post(&format!("/v1/runs/{run}/interrupts/{node}"), &json!({ "resumeValue": value })).await
}

async fn so_far(server: &Server, run: &str) -> Vec<Value> {
    let request = server.request(Method::GET, &format!("/v1/runs/{run}/events?streamMode=debug"));
    let (_, page) = answer(request.header("accept", "application/json")).await.unwrap();
    page["events"].as_array().unwrap().clone()
}

fn of_type<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == name).collect()
}

#[tokio::test]
async fn a_conversation_is_held_turn_by_turn_and_can_be_read_meanwhile() {
    let site = Site::new();
    let schema = json!({ "type": "object", "required": ["order"] });
    let config = json!({
        "title": "Refund", "initialPrompt": "Hello", "prompts": ["Which order?", "Why?"], "outcomeSchema": schema,
        "reason": "solved",
    });
    site.workflow(&talk("talk", config));
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("talk", json!({})).await;
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        (&shown["status"], &shown["interrupt"]["kind"]),
        (&json!("waiting-approval"), &json!("conversation.exchange"))
    );
    let events = so_far(&server, &run).await;
    assert_eq!(of_type(&events, "node.suspended")[0]["payload"]["reason"], "conversation-input");
    refusal(say(&server, &run, "talk", &json!("no")).await, "validation_error");
    assert_eq!(server.get(&format!("/v1/runs/{run}")).await.1["interrupt"], shown["interrupt"]);
    let first = json!({ "order": 7 });
    assert_eq!(say(&server, &run, "talk", &first).await.0, StatusCode::OK);
    let (status, told) = server.get(&format!("/v1/runs/{run}/conversations")).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let one = &told["conversations"][0];
    assert_eq!(
        (&one["status"], &one["title"], &one["initialPrompt"]),
        (&json!("open"), &json!("Refund"), &json!("Hello"))
    );
    assert_eq!((&one["turns"][0]["prompt"], &one["turns"][0]["outcome"]), (&json!("Which order?"), &first));
    assert_eq!((&one["pending"][0]["prompt"], &one["pending"][0]["turnIndex"]), (&json!("Why?"), &json!(1)));
    assert_eq!(say(&server, &run, "talk", &json!({ "order": 7, "why": "broken" })).await.0, StatusCode::OK);
    let events = server.events(&run).await;
    let opened = of_type(&events, "conversation.opened")[0]["payload"]["conversationId"].clone();
    assert_eq!(opened, one["conversationId"]);
    let turns: Vec<&Value> = of_type(&events, "conversation.exchanged")
        .into_iter()
        .map(|event| &event["payload"]["turnIndex"])
        .collect();
    assert_eq!(turns, [&json!(0), &json!(1)]);
    let closed = of_type(&events, "conversation.closed")[0];
    assert_eq!(
        (&closed["payload"]["reason"], &closed["payload"]["conversationId"]),
        (&json!("solved"), &opened)
    );
    assert!(of_type(&events, "clarification.requested").is_empty());
    let (_, told) = server.get(&format!("/v1/runs/{run}/conversations")).await;
    assert_eq!(told["conversations"][0]["status"], "closed");
}

#[tokio::test]
async fn an_id_is_one_conversations_of_its_tenant_however_the_server_dies() {
    let site = Site::new();
    let config = json!({ "lifecycle": "open-exchange", "conversationId": "ticket-7" });
    site.workflow(&talk("chosen", config)).workflow(&talk("minted", json!({})));
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let first = server.start_run("chosen", json!({})).await;
    let minted = server.start_run("minted", json!({})).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    let second = server.start_run("chosen", json!({})).await;
    let (_, shown) = server.get(&format!("/v1/runs/{second}")).await;
    assert_eq!(
        (&shown["status"], &shown["error"]["code"]),
        (&json!("failed"), &json!("conversation_id_taken"))
    );
    let events = so_far(&server, &second).await;
    assert!(of_type(&events, "interrupt.requested").is_empty(), "{events:?}");
    // Whoever has it goes on with it, and others of the tenant get their own.
    assert_eq!(say(&server, &first, "talk", &json!("hi")).await.0, StatusCode::OK);
    assert_eq!(say(&server, &minted, "talk", &json!("hi")).await.0, StatusCode::OK);
    let start =
        server.request_as(&stranger, Method::POST, "/v1/runs").json(&json!({ "workflowId": "chosen" }));
    let (_, theirs) = answer(start).await.unwrap();
    assert_eq!(theirs["status"], "waiting-approval", "another tenant may use it");
    // Many at once: one has it.
    let config = json!({ "lifecycle": "open-exchange", "conversationId": "ticket-8" });
    push(&server, &talk("raced", config)).await;
    let body = json!({ "workflowId": "raced" });
    let racing: Vec<_> = (0..12).map(|_| server.post("/v1/runs", &body)).collect();
    let statuses: Vec<Value> = futures_util::future::join_all(racing)
        .await
        .into_iter()
        .map(|(_, told)| told["status"].clone())
        .collect();
    let waiting = statuses.iter().filter(|status| **status == "waiting-approval").count();
    assert_eq!((waiting, statuses.len()), (1, 12), "{statuses:?}");
    assert!(server.stop().success());
    verify(&site.data());
}

#[tokio::test]
async fn an_operator_may_do_without_conversations() {
    let site = Site::new();
    site.workflow(&talk("talk", json!({})));
    let discovery = "/.well-known/openwop";
    let server = site.start(&["--test-clock"]);
    assert_eq!(server.get(discovery).await.1["conversationPrimitive"], true);
    let held = server.start_run("talk", json!({})).await;
    assert!(server.stop().success());
    let server = site.start(&["--test-clock", "--no-conversations"]);
    assert_eq!(server.get(discovery).await.1.get("conversationPrimitive"), None);
    let runs = server.get("/v1/runs").await.1["runs"].as_array().unwrap().len();
    let asked = json!({ "kind": "conversation.start", "data": {} });
    let plain =
        workflow("plain", &[node("n", "core.interrupt", asked, json!({}), json!({}))], &[], json!([]));
    for refused in [
        server.post("/v1/runs", &json!({ "workflowId": "talk" })).await,
        answer(server.request(Method::PUT, "/v1/workflows/pushed").json(&talk("pushed", json!({}))))
            .await
            .unwrap(),
        answer(server.request(Method::PUT, "/v1/workflows/plain").json(&plain)).await.unwrap(),
    ] {
        assert_eq!(refused.0, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.1);
        assert_eq!(refused.1["error"], "capability_required");
        assert_eq!(refused.1["details"]["requiredCapability"], "conversationPrimitive");
        assert!(refused.1["message"].as_str().unwrap().contains("clarification"), "{}", refused.1);
    }
    assert_eq!(server.get("/v1/runs").await.1["runs"].as_array().unwrap().len(), runs);
    // What was begun is finished.
    assert_eq!(say(&server, &held, "talk", &json!("bye")).await.1["status"], "completed");
}

fn agent(id: &str, confidence: &Value) -> Value {
    let config = json!({ "mockDecision": { "decision": { "kind": "pay" }, "confidence": confidence } });
    let mut decider = node("decider", "core.conformance.mock-agent", config, json!({}), json!({}));
    decider["agent"] = json!({ "agentId": "core.conformance.decider", "modelClass": "reasoning" });
    workflow(id, &[decider], &[], json!([]))
}

#[tokio::test]
async fn a_decision_that_its_agent_is_not_sure_of_waits_for_somebody() {
    let site = Site::new();
    site.workflow(&agent("unsure", &json!(0.5))).workflow(&agent("odd", &json!("NaN")));
    let server = site.start(&["--test-clock", "--conformance"]);
    let run = server.start_run("unsure", json!({})).await;
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        (&shown["status"], &shown["agent"]["agentId"]),
        (&json!("waiting-approval"), &json!("core.conformance.decider"))
    );
    let events = so_far(&server, &run).await;
    let decided = of_type(&events, "agent.decided")[0];
    let expected = json!({
        "nodeId": "decider", "agentId": "core.conformance.decider", "decision": { "kind": "pay" }, "confidence": 0.5,
    });
    assert_eq!(decided["payload"], expected);
    let suspended = of_type(&events, "node.suspended")[0];
    assert!(suspended["sequence"].as_u64() > decided["sequence"].as_u64());
    let told = &suspended["payload"];
    assert_eq!(
        (&told["reason"], &told["agentId"]),
        (&json!("low-confidence"), &json!("core.conformance.decider"))
    );
    assert_eq!((&told["threshold"], &told["observed"]), (&json!(0.7), &json!(0.5)));
    assert_eq!(say(&server, &run, "decider", &json!(["anything"])).await.0, StatusCode::OK);
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(shown["nodeStates"]["decider"]["outputs"]["decision"], json!(["anything"]));
    for wrong in [json!(1.5), json!(-0.1)] {
        let body = json!({ "workflowId": "unsure", "configurable": { "escalationThreshold": wrong } });
        refusal(server.post("/v1/runs", &body).await, "validation_error");
    }
    let odd = server.start_run("odd", json!({})).await;
    let (_, bundle) = server.get(&format!("/v1/runs/{odd}/debug-bundle")).await;
    assert_eq!(bundle["run"]["status"], "completed");
    let faulty = &bundle["faultyPayloads"][0];
    assert_eq!((&faulty["nodeId"], &faulty["type"]), (&json!("decider"), &json!("agent.decided")));
    assert!(faulty["reason"].as_str().unwrap().contains("NaN"), "{faulty}");
}

/// Every status that a run of these shapes is ever shown with.
#[tokio::test]
async fn no_status_is_shown_that_openwop_does_not_know() {
    let known = [
        "pending",
        "running",
        "paused",
        "waiting-approval",
        "waiting-input",
        "waiting-external",
        "completed",
        "failed",
        "cancelling",
        "cancelled",
    ];
    for (status, ..) in abide_core::Status::ALL {
        assert!(known.contains(&status.openwop_name()), "{}", status.name());
    }
    let site = Site::new();
    site.workflow(&talk("talk", json!({}))).workflow(&agent("unsure", &json!(0.1)));
    let server = site.start(&["--test-clock", "--conformance"]);
    for (workflow, node) in [("talk", "talk"), ("unsure", "decider")] {
        let run = server.start_run(workflow, json!({})).await;
        let mut seen = vec![server.get(&format!("/v1/runs/{run}")).await.1["status"].clone()];
        seen.push(say(&server, &run, node, &json!("ok")).await.1["status"].clone());
        assert!(seen.iter().all(|status| known.contains(&status.as_str().unwrap())), "{seen:?}");
        assert_eq!(seen, [json!("waiting-approval"), json!("completed")]);
    }
}
