//! Records of agents: set, shown, changed, forgotten, and what they are good for.

use super::*;

fn quick() -> Value {
    json!({ "max_attempts": 2, "interval_seconds": 60 })
}

#[tokio::test]
async fn an_agents_record_is_set_shown_listed_and_forgotten() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let (status, set) = set_agent(&server, "planner", quick()).await;
    assert_eq!(status, StatusCode::OK, "{set}");
    let expected =
        json!({ "name": "planner", "default_human_retry_policy": quick(), "updatedAt": set["updatedAt"] });
    assert_eq!(set, expected);
    assert_eq!(server.get("/v1/agent-records/planner").await, (StatusCode::OK, expected.clone()));
    server.advance(1000).await;
    let (_, again) = set_agent(&server, "planner", json!({ "max_attempts": 1 })).await;
    assert_eq!(
        again["default_human_retry_policy"],
        json!({ "max_attempts": 1 }),
        "it replaces what was known"
    );
    assert_eq!(millis(&again["updatedAt"]) - millis(&set["updatedAt"]), 1000);
    set_agent(&server, "a%2Fb%20c", Value::Null).await;
    let (_, page) = server.get("/v1/agent-records?limit=1").await;
    assert_eq!((&page["agents"][0]["name"], &page["nextCursor"]), (&json!("a/b c"), &json!("a/b c")));
    let (_, page) = server.get("/v1/agent-records?limit=1&cursor=a%2Fb%20c").await;
    assert_eq!((&page["agents"][0]["name"], &page["nextCursor"]), (&json!("planner"), &Value::Null));

    let path = "/v1/agent-records/planner";
    let (_, theirs) = server.ask_as(&stranger, Method::GET, "/v1/agent-records", None).await;
    assert_eq!(theirs["agents"], json!([]));
    refusal(server.ask_as(&stranger, Method::DELETE, path, None).await, "agent_not_found");
    let gone = async || server.ask_as(&server.key, Method::DELETE, path, None).await;
    assert_eq!(gone().await, (StatusCode::NO_CONTENT, json!("")));
    refusal(gone().await, "agent_not_found");
    refusal(server.get(path).await, "agent_not_found");
}

#[tokio::test]
async fn an_agent_without_a_policy_asks_as_the_operator_says() {
    let site = Site::new();
    let server = start_under(&site, &json!({ "max_attempts": 5, "interval_seconds": 3600 }));
    let interval = async |server: &Server| {
        let run = ask(server, json!({ "agent": "planner" })).await;
        from(&ladder(server, &run).await, &["interval_seconds"]).remove(0)
    };
    let operators = given(json!(3600), "platform");
    assert_eq!(interval(&server).await, operators, "no record");
    set_agent(&server, "planner", Value::Null).await;
    assert_eq!(interval(&server).await, operators, "a record without a policy");
    set_agent(&server, "planner", quick()).await;
    assert_eq!(interval(&server).await, given(json!(60), "agent"));
    set_agent(&server, "planner", Value::Null).await;
    assert_eq!(interval(&server).await, operators, "the policy is taken back");
    set_agent(&server, "planner", quick()).await;
    server.ask_as(&server.key, Method::DELETE, "/v1/agent-records/planner", None).await;
    assert_eq!(interval(&server).await, operators, "the record is gone");
}

#[tokio::test]
async fn an_agents_policy_survives_a_kill_and_is_its_tenants_alone() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    assert_eq!(set_agent(&server, "planner", quick()).await.0, StatusCode::OK);
    server.kill();
    let server = site.start(&["--test-clock"]);
    let run = ask(&server, json!({ "agent": "planner" })).await;
    assert_eq!(from(&ladder(&server, &run).await, &["max_attempts"]), [given(json!(2), "agent")]);
    let asked = millis(&said(&server, &run, "interrupt.requested", 1).await[0]["timestamp"]);
    server.advance(60_000).await;
    let again = said(&server, &run, "interrupt.renotified", 1).await;
    assert_eq!(millis(&again[0]["timestamp"]) - asked, 60_000);

    push_as(&server, &stranger, &asking("asking", &json!({ "agent": "planner" }))).await;
    let (_, started) = start_as(&server, &stranger, "asking").await;
    let path = format!("/v1/runs/{}/journal", started["runId"].as_str().unwrap());
    let request = server.request_as(&stranger, Method::GET, &path).header("accept", "application/json");
    let (_, page) = answer(request).await.unwrap();
    let requested =
        page["events"].as_array().unwrap().iter().find(|event| event["type"] == "interrupt.requested");
    assert_eq!(requested.unwrap()["payload"].get("ladder"), None, "{page}");
}

#[tokio::test]
async fn what_is_wrong_with_a_record_is_told_by_its_field_and_nothing_is_kept() {
    let site = Site::new();
    let server = site.start(&[]);
    let before = site.rows();
    let rung = json!({ "attempt": 2, "channel_hint": "email" });
    for (policy, field) in [
        (json!({ "max_attempts": 0 }), ".max_attempts"),
        (json!({ "interval_seconds": -5 }), ".interval_seconds"),
        (json!({ "strategy": "exponential" }), ".strategy"),
        (json!({ "intervall": 5 }), ".intervall"),
        (json!({ "escalation_ladder": [rung, rung] }), ".escalation_ladder.1.attempt"),
        (json!({ "max_attempts": 1, "escalation_ladder": [rung] }), ".escalation_ladder.0.attempt"),
        (json!("often"), ""),
    ] {
        let details = refusal(set_agent(&server, "planner", policy.clone()).await, "validation_error");
        assert_eq!(details["field"], format!("default_human_retry_policy{field}"), "{policy}");
        assert_eq!(details["problems"][0]["place"], details["field"]);
    }
    let long = "a".repeat(257);
    for name in [long.as_str(), "a%0Ab"] {
        let details = refusal(set_agent(&server, name, quick()).await, "validation_error");
        assert_eq!(details["field"], "name");
    }
    let odd = json!({ "policy": quick() });
    let asked = server.ask_as(&server.key, Method::PUT, "/v1/agent-records/planner", Some(&odd)).await;
    refusal(asked, "validation_error");
    assert_eq!(site.rows(), before);
}

#[tokio::test]
async fn a_tenant_has_so_many_records_and_no_more() {
    let most = abide_server::limits::AGENTS_MAX;
    let site = Site::new();
    let server = site.start(&[]);
    let fill = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {most}) \
         INSERT INTO agents SELECT 1, 'agent' || i, 'null', 0 FROM n"
    );
    assert_eq!(site.change(&fill), most as u64);
    refusal(set_agent(&server, "one-more", quick()).await, "too_many");
    assert_eq!(set_agent(&server, "agent7", quick()).await.0, StatusCode::OK, "it is there already");
    server.ask_as(&server.key, Method::DELETE, "/v1/agent-records/agent7", None).await;
    assert_eq!(set_agent(&server, "one-more", quick()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn records_that_are_set_at_once_all_hold() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let names: Vec<String> = (0..20).map(|n| format!("agent{n}")).collect();
    futures_util::future::join_all(names.iter().map(|name| set_agent(&server, name, quick()))).await;
    for name in &names {
        let run = ask(&server, json!({ "agent": name })).await;
        assert_eq!(from(&ladder(&server, &run).await, &["max_attempts"]), [given(json!(2), "agent")]);
    }
}
