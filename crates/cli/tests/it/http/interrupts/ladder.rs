//! The ladder of an interrupt, as it is shown: its record, its events, and what comes.

use super::*;

const SECOND_MS: i64 = 1000;

/// Asks for one of two choices, with this ladder.
fn laddered(ladder: &Value) -> Value {
    let config = json!({
        "question": "Proceed?", "responseType": "choice", "context": { "order": 17 },
        "choices": [{ "value": "go", "label": "Proceed" }, { "value": "stop", "label": "Stop" }],
    });
    let settings = json!({ "abide": { "ladder": ladder } });
    gated("laddered", node("gate", "core.hitl.ask-user", config, json!({}), settings))
}

/// Three attempts an hour apart, with two rungs.
fn three() -> Value {
    json!({
        "timeout_seconds": 3600, "channel_hint": "slack", "notify_to": "ada", "fallback_value": "stop",
        "retry_policy": {
            "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "complete_with_fallback",
            "escalation_ladder": [
                { "attempt": 2, "channel_hint": "email" },
                { "attempt": 3, "channel_hint": "pagerduty", "notify_to": "supervisor" },
            ],
        },
    })
}

/// A server, a run that waits with this ladder, and its interrupt.
async fn climbing(site: &Site, ladder: &Value) -> (Server, String, String) {
    let server = site.start(&["--test-clock"]);
    push(&server, &laddered(ladder)).await;
    let run = server.start_run("laddered", json!({})).await;
    let id = shown(&server, &run).await["interrupt"]["interruptId"].as_str().unwrap().to_owned();
    (server, run, id)
}

async fn ladder_as(server: &Server, key: &str, run: &str, id: &str) -> Value {
    let path = format!("/v1/runs/{run}/interrupts/{id}/ladder");
    let (status, body) = server.ask_as(key, Method::GET, &path, None).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    body
}

async fn ladder(server: &Server, run: &str, id: &str) -> Value {
    ladder_as(server, &server.key, run, id).await
}

fn events_of(ladder: &Value, kind: &str) -> Vec<Value> {
    let events = ladder["events"].as_array().unwrap();
    events.iter().filter(|event| event["type"] == kind).map(|event| event["payload"].clone()).collect()
}

/// What a timeline says, each moment in a few words: seconds since it was asked, what, attempt, channel, whom, state.
fn moments(ladder: &Value) -> Vec<String> {
    let asked = millis(&ladder["suspension"]["suspended_at"]);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let told = |moment: &Value| {
        let seconds = (millis(&moment["at"]) - asked) / SECOND_MS;
        let rest = ["what", "attempt", "channel", "to", "by", "state"].map(|name| text(&moment[name]));
        format!("{seconds} {}", rest.join(" ").replace(" null", ""))
    };
    ladder["timeline"].as_array().unwrap().iter().map(told).collect()
}

#[tokio::test]
async fn the_record_has_the_fields_of_the_rfc_and_the_policy_that_holds() {
    let site = Site::new();
    let (server, run, id) = climbing(&site, &three()).await;
    let seen = ladder(&server, &run, &id).await;
    assert_eq!(
        (&seen["interruptId"], &seen["runId"], &seen["nodeId"], &seen["state"]),
        (&json!(id), &json!(run), &json!("gate"), &json!("open"))
    );
    let record = &seen["suspension"];
    let asked = millis(&record["suspended_at"]);
    let mut policy = three()["retry_policy"].clone();
    policy["strategy"] = json!("fixed");
    policy["escalation_ladder"][0]["notify_to"] = Value::Null;
    let expected = json!({
        "id": id, "question": "Proceed?", "response_type": "choice", "context": { "order": 17 },
        "choices": [{ "value": "go", "label": "Proceed" }, { "value": "stop", "label": "Stop" }],
        "channel_hint": "slack", "suspended_at": record["suspended_at"], "timeout_seconds": 3600,
        "expires_at": record["expires_at"], "fallback_value": "stop",
        "fallback_policy": "complete_with_fallback", "retry_policy": policy, "response": null,
        "responded_by": null, "responded_at": null, "resolution": null,
    });
    assert_eq!(*record, expected);
    assert_eq!(millis(&record["expires_at"]) - asked, 3 * HOUR_MS);
    let levels = ["max_attempts", "interval_seconds", "escalation_ladder", "final_fallback_policy"];
    for field in levels {
        assert_eq!(seen["levels"][field], "call", "{field}");
    }
    assert_eq!(seen["levels"]["strategy"], "default");
    // There is no channel, and when that is noticed does not matter here.
    let moments: Vec<String> = moments(&seen).into_iter().filter(|told| !told.contains("message")).collect();
    assert_eq!(
        moments,
        [
            "0 asked done",
            "0 attempt 1 slack ada done",
            "3600 attempt 2 email ada planned",
            "7200 attempt 3 pagerduty supervisor planned",
            "10800 expiry planned",
        ]
    );
}

#[tokio::test]
async fn a_reminder_is_told_with_its_six_fields() {
    let site = Site::new();
    let (server, run, id) = climbing(&site, &three()).await;
    server.advance(HOUR_MS).await;
    server.settle().await;
    server.advance(HOUR_MS).await;
    server.settle().await;
    let seen = ladder(&server, &run, &id).await;
    let asked = millis(&seen["suspension"]["suspended_at"]);
    let again = events_of(&seen, "intent.suspension_renotified");
    let last = &again[1];
    assert_eq!(millis(&again[0]["next_attempt_at"]) - asked, 2 * HOUR_MS);
    let first = json!({
        "suspension_id": id, "attempt": 2, "max_attempts": 3, "channel_hint": "email", "notify_to": "ada",
        "next_attempt_at": again[0]["next_attempt_at"],
    });
    assert_eq!(again[0], first);
    let expected = json!({
        "suspension_id": id, "attempt": 3, "max_attempts": 3, "channel_hint": "pagerduty",
        "notify_to": "supervisor", "next_attempt_at": null,
    });
    assert_eq!((last, again.len()), (&expected, 2));
}

#[tokio::test]
async fn an_escalation_is_told_with_its_four_fields() {
    let site = Site::new();
    let (server, run, id) = climbing(&site, &three()).await;
    server.advance(2 * HOUR_MS).await;
    server.settle().await;
    let seen = ladder(&server, &run, &id).await;
    let expected = [
        json!({ "suspension_id": id, "attempt": 2, "escalated_to": null, "channel_hint": "email" }),
        json!({ "suspension_id": id, "attempt": 3, "escalated_to": "supervisor", "channel_hint": "pagerduty" }),
    ];
    assert_eq!(events_of(&seen, "intent.suspension_escalated"), expected);
    let kinds: Vec<&str> =
        seen["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    let (again, up) = ("intent.suspension_renotified", "intent.suspension_escalated");
    assert_eq!(kinds, ["intent.suspended", again, up, again, up]);
    // Both were overdue at once: the first of them is not told any more.
    let seen = moments(&seen);
    assert!(seen.contains(&"7200 attempt 2 email ada superseded".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn after_the_end_the_record_is_expired_and_has_no_response() {
    let site = Site::new();
    let (server, run, id) = climbing(&site, &three()).await;
    server.advance(3 * HOUR_MS).await;
    server.events(&run).await;
    let seen = ladder(&server, &run, &id).await;
    let record = &seen["suspension"];
    assert_eq!((&seen["state"], &record["resolution"]), (&json!("expired"), &json!("expired")));
    assert_eq!((&record["response"], &record["responded_at"]), (&Value::Null, &Value::Null), "{record}");
    let ended = events_of(&seen, "intent.suspension_expired");
    assert_eq!(ended.len(), 1);
    assert_eq!((&ended[0]["suspension_id"], &ended[0]["attempts"]), (&json!(id), &json!(3)));
    assert!(events_of(&seen, "intent.resumed").is_empty());
    assert_eq!(moments(&seen).last().unwrap(), "10800 expiry system:ladder done");
}

#[tokio::test]
async fn an_answer_is_in_the_record_and_ends_what_was_to_come() {
    let site = Site::new();
    let (server, run, id) = climbing(&site, &three()).await;
    server.advance(HOUR_MS).await;
    server.settle().await;
    server.advance(HOUR_MS / 2).await;
    resolve(&server, &run, &json!({ "answers": { "answer": "go" } })).await;
    let seen = ladder(&server, &run, &id).await;
    let record = &seen["suspension"];
    assert_eq!((&seen["state"], &record["resolution"]), (&json!("answered"), &json!("responded")));
    assert_eq!((&record["response"], &record["responded_by"]), (&json!("go"), &json!("dev")));
    let resumed = events_of(&seen, "intent.resumed");
    let expected = json!({
        "intent_id": run.trim_start_matches("run-"), "suspension_id": id, "value": "go", "responded_by": "dev",
        "responded_at": record["responded_at"],
    });
    assert_eq!(resumed, [expected]);
    assert_eq!(moments(&seen).last().unwrap(), "5400 answer dev done");
    assert!(!moments(&seen).iter().any(|moment| moment.ends_with("planned")), "{seen}");
}

#[tokio::test]
async fn what_is_sensitive_is_masked_for_those_who_do_not_answer() {
    const SECRET: &str = "hunter2-4711";
    let site = Site::new();
    let reader = site.key("default").scopes("runs:read").make();
    let server = site.start(&["--test-clock"]);
    let inputs = json!({ "artifact": { "type": "variable", "variableName": "pw" } });
    let gate = node("gate", "core.approvalGate", json!({ "title": "Send it?" }), inputs, json!({}));
    let mut definition = gated("hush", gate);
    definition["variables"] = json!([{ "name": "pw", "type": "string", "sensitive": true }]);
    push(&server, &definition).await;
    let run = server.start_run("hush", json!({ "pw": SECRET })).await;
    let id = shown(&server, &run).await["interrupt"]["interruptId"].as_str().unwrap().to_owned();
    let (theirs, ours) = (ladder_as(&server, &reader, &run, &id).await, ladder(&server, &run, &id).await);
    assert_eq!(ours["suspension"]["context"], SECRET);
    assert_eq!(theirs["suspension"]["question"], "[masked]");
    assert!(!theirs.to_string().contains(SECRET) && !theirs.to_string().contains("Send it?"), "{theirs}");
    let value = json!({ "action": "reject", "feedback": SECRET });
    resolve(&server, &run, &value).await;
    let after = [ladder_as(&server, &reader, &run, &id).await, ladder(&server, &run, &id).await];
    assert_eq!(after[1]["suspension"]["response"], "[masked]", "an answer to it is never shown");
    assert!(!after[0].to_string().contains(SECRET));
}

#[tokio::test]
async fn there_is_no_ladder_of_what_was_never_asked() {
    let site = Site::new();
    let stranger = site.key("strangers").make();
    let (server, run, id) = climbing(&site, &three()).await;
    let get = async |key: &str, run: &str, id: &str| {
        server.ask_as(key, Method::GET, &format!("/v1/runs/{run}/interrupts/{id}/ladder"), None).await
    };
    let other = format!("int-{}", "0".repeat(36));
    refusal(get(&server.key, &run, "nonsense").await, "interrupt_not_found");
    refusal(get(&server.key, &run, &other).await, "interrupt_not_found");
    refusal(get(&server.key, "run-1", &id).await, "run_not_found");
    refusal(get(&stranger, &run, &id).await, "run_not_found");
}
