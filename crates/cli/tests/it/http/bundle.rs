//! The debug bundle of a run: what is in it, what is not, who gets it, and that it stays small.

use reqwest::header::CACHE_CONTROL;

use super::outgoing::{ALLOWED, Peer};
use super::*;

/// A value that the definition says is never shown.
const SENSITIVE: &str = "the-password-of-ada";
/// The value of one of the tenant's secrets.
const NAMED: &str = "n4med-secret-value";
/// A token that some server puts into its answer.
const BEARER: &str = "Zx81-opaque-token-93";
/// What somebody says about their decision.
const COMMENT: &str = "fine by me, tell Grace that she was right";

fn path(run: &str) -> String {
    format!("/v1/runs/{run}/debug-bundle")
}

/// A run's bundle and its text.
async fn bundle(server: &Server, run: &str, query: &str) -> (Value, String) {
    let text = text_of(server, &format!("{}{query}", path(run))).await;
    (serde_json::from_str(&text).unwrap(), text)
}

/// Asks, then fetches, then fails with what it fetched; its variable `pw` is sensitive.
fn leaky(url: &str) -> Value {
    let gate = node("gate", "core.approvalGate", json!({ "title": "Go on?" }), json!({}), json!({}));
    let fetch = node("fetch", "core.http.request", json!({ "url": url }), json!({}), json!({}));
    let held = node("held", "core.identity", json!({}), json!({ "pw": variable("pw") }), json!({}));
    let config = json!({ "outputs": { "echo": "'it said: ' + nodes.fetch.outputs.body" } });
    let tell = node("tell", "core.transform", config, json!({}), json!({}));
    workflow(
        "leaky",
        &[gate, fetch, held, tell],
        &[("gate", "fetch"), ("fetch", "held"), ("held", "tell")],
        json!([
            { "name": "pw", "type": "string", "sensitive": true, "defaultValue": "usual-password-of-all" },
            { "name": "note", "type": "string" },
        ]),
    )
}

fn variable(name: &str) -> Value {
    json!({ "type": "variable", "variableName": name })
}

/// A run that has met every kind of secret, and its server.
async fn leaked(site: &Site) -> (Server, String) {
    let body = format!(r#"{{"you sent":"{NAMED}","headers":{{"authorization":"Bearer {BEARER}"}}}}"#);
    let peer = Peer::start(move |_, _| (200, body.clone())).await;
    let server = site.start(&ALLOWED);
    set_secret(&server, "unrelated", NAMED).await;
    push(&server, &leaky(&peer.url)).await;
    let inputs = json!({ "pw": SENSITIVE, "note": format!("the password is {SENSITIVE}, keep it") });
    let run = server.start_run("leaky", inputs).await;
    let answer = json!({ "resumeValue": { "action": "accept", "feedback": COMMENT } });
    let (status, said) = server.post(&format!("/v1/runs/{run}/interrupts/gate"), &answer).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    server.events(&run).await;
    (server, run)
}

#[tokio::test]
async fn a_bundle_has_what_helps_to_find_out_what_happened() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({ "x": 1.0 })).await;
    server.settle().await;
    let response = server.request(Method::GET, &path(&run)).send().await.unwrap();
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    let (bundle, _) = bundle(&server, &run, "").await;
    assert_eq!(bundle["bundleVersion"], "1");
    assert_eq!(
        bundle["host"],
        json!({ "name": "abide", "version": env!("CARGO_PKG_VERSION"), "vendor": "abide" })
    );
    let snapshot = shown(&server, &run).await;
    assert_eq!(bundle["run"], snapshot);
    let polled = events_so_far(&server, &run).await;
    assert_eq!(bundle["events"], json!(polled));
    assert_eq!(bundle["metrics"]["eventCount"], polled.len());
    assert_eq!(bundle["spans"], json!([]));
    assert_eq!((&bundle["redactionApplied"], &bundle["redactionMode"]), (&json!(true), &json!("mask")));
    assert_eq!((&bundle["truncated"], &bundle["redactionsTotal"]), (&json!(false), &json!(0)));
    let (_, definition) = server.get(&format!("/v1/runs/{run}/definition")).await;
    assert_eq!(bundle["definition"], definition);
    let (_, why) = server.get(&format!("/v1/runs/{run}/why")).await;
    assert_eq!(bundle["why"], why);
    let (_, resume) = server.get(&format!("/v1/runs/{run}/resume")).await;
    assert_eq!(bundle["resume"], resume);
    assert_eq!(bundle["timers"][0]["due"], why["reasons"][0]["until"]);
    assert_eq!(bundle["server"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(bundle["server"]["features"].as_array().unwrap().contains(&json!("test-clock")), "{bundle}");
    assert_eq!(bundle["problems"], json!([]));
    assert_eq!(bundle["journal"]["events"], snapshot["sequence"].as_u64().unwrap() + 1);
}

#[tokio::test]
async fn nothing_secret_is_in_a_bundle_and_every_place_is_named() {
    let site = Site::new();
    let (server, run) = leaked(&site).await;
    let told = text_of(&server, &format!("/v1/runs/{run}")).await;
    assert!(told.contains(NAMED) && told.contains(BEARER), "the run itself shows what it was told: {told}");
    let (bundle, text) = bundle(&server, &run, "").await;
    for secret in [SENSITIVE, NAMED, BEARER, COMMENT, "usual-password-of-all", &server.key] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let reasons: Vec<(&str, &str)> = bundle["redactions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["path"].as_str().unwrap(), one["reason"].as_str().unwrap()))
        .collect();
    for expected in [
        ("/run/inputs/pw", "sensitive"),
        ("/run/inputs/note", "sensitive"),
        ("/definition/variables/0/defaultValue", "sensitive"),
        ("/run/nodeStates/gate/outputs/feedback", "answer"),
    ] {
        assert!(reasons.contains(&expected), "{expected:?} in {reasons:?}");
    }
    let body = "/run/nodeStates/fetch/outputs/body";
    assert!(
        reasons.iter().any(|(path, reason)| path.starts_with(body) && *reason == "secret"),
        "{reasons:?}"
    );
    assert_eq!(bundle["redactionsTotal"], reasons.len());
    assert_eq!(bundle["run"]["inputs"]["note"], "the password is [masked], keep it");
}

#[tokio::test]
async fn what_people_answered_is_in_a_bundle_only_if_it_is_asked_for() {
    let site = Site::new();
    let (server, run) = leaked(&site).await;
    let (without, text) = bundle(&server, &run, "").await;
    assert!(!text.contains(COMMENT) && text.contains("[left out]"), "{text}");
    let received = |bundle: &Value| {
        let events = bundle["events"].as_array().unwrap();
        events.iter().find(|event| event["type"] == "approval.received").unwrap()["payload"].clone()
    };
    assert_eq!(received(&without)["action"], "accept", "what was decided is no secret");
    assert_eq!(received(&without)["feedback"], "[left out]");
    let (with, text) = bundle(&server, &run, "?answers=true").await;
    assert_eq!(received(&with)["feedback"], COMMENT);
    assert!(!text.contains(SENSITIVE) && !text.contains(NAMED), "{text}");
    refusal(server.get(&format!("{}?answers=yes", path(&run))).await, "validation_error");
    refusal(server.get(&format!("{}?answer=true", path(&run))).await, "validation_error");
}

#[tokio::test]
async fn an_open_question_is_in_a_bundle_without_its_token() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let gate = node("gate", "core.approvalGate", json!({ "title": "Go on?" }), json!({}), json!({}));
    push(&server, &workflow("asks", &[gate], &[], json!([]))).await;
    let run = server.start_run("asks", json!({})).await;
    let token = shown(&server, &run).await["interrupt"]["interruptToken"].clone();
    assert!(token.is_string());
    let (bundle, text) = bundle(&server, &run, "").await;
    assert_eq!(bundle["run"]["interrupts"][0]["nodeId"], "gate");
    assert!(!text.contains("interruptToken") && !text.contains("callbackUrl"), "{text}");
}

#[tokio::test]
async fn a_bundle_is_for_those_who_may_read_the_record_of_their_own_tenant() {
    let site = site();
    let stranger = site.new_key("other");
    let reader = site.key("default").scopes("runs:read").make();
    let auditor = site.key("default").scopes("audit:read").make();
    let both = site.key("default").scopes("runs:read,audit:read").make();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let ask = async |key: &str| answer(server.request_as(key, Method::GET, &path(&run))).await.unwrap();
    refusal(ask(&stranger).await, "run_not_found");
    assert_eq!(refusal(ask(&reader).await, "forbidden")["scopeRequired"], "audit:read");
    assert_eq!(refusal(ask(&auditor).await, "forbidden")["scopeRequired"], "runs:read");
    assert_eq!(ask(&both).await.0, StatusCode::OK);
    refusal(answer(server.anonymous(Method::GET, &path(&run))).await.unwrap(), "unauthenticated");
    refusal(server.get(&path("run-00000000-0000-7000-8000-000000000000")).await, "run_not_found");
    refusal(server.get(&path("nonsense")).await, "run_not_found");
}

#[tokio::test]
async fn the_bundle_of_a_huge_run_stays_within_its_bound_and_tells_what_is_missing() {
    let site = Site::new();
    let server = site.start(&[]);
    let inputs = json!({ "big": variable("big") });
    let ids: Vec<String> = (0..1300).map(|ix| format!("n{ix}")).collect();
    let nodes: Vec<Value> =
        ids.iter().map(|id| node(id, "core.identity", json!({}), inputs.clone(), json!({}))).collect();
    let edges: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    push(&server, &workflow("huge", &nodes, &edges, json!([{ "name": "big", "type": "string" }]))).await;
    let run = server.start_run("huge", json!({ "big": "words of a long story ".repeat(400) })).await;
    let count = server.events(&run).await.len();
    let (bundle, text) = bundle(&server, &run, "").await;
    assert!(text.len() <= abide_server::limits::BUNDLE_BYTES_MAX, "{} bytes", text.len());
    assert_eq!(bundle["truncated"], true);
    assert_eq!(bundle["truncatedReason"], "events_truncated_to_size_cap");
    let events = bundle["events"].as_array().unwrap();
    assert!(events.len() > 20 && events.len() < count, "{} of {count}", events.len());
    assert_eq!(
        (&events[0]["type"], &events.last().unwrap()["type"]),
        (&json!("run.started"), &json!("run.completed"))
    );
    let gap = &bundle["journal"]["gap"];
    let (from, to) = (gap["from"].as_u64().unwrap(), gap["to"].as_u64().unwrap());
    for (event, next) in events.iter().zip(&events[1..]) {
        let (one, other) = (event["sequence"].as_u64().unwrap(), next["sequence"].as_u64().unwrap());
        assert!(one + 1 == other || (one + 1, other - 1) == (from, to), "{one}, {other}, {gap}");
    }
    assert_eq!(bundle["run"]["status"], "completed");
}

#[tokio::test]
async fn a_bundle_of_fewer_events_says_how_many_there_are() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    server.settle().await;
    let count = events_so_far(&server, &run).await.len();
    let (bundle, _) = bundle(&server, &run, "?maxEvents=1").await;
    assert_eq!(bundle["events"].as_array().unwrap().len(), 1);
    assert_eq!(bundle["metrics"]["eventCount"], count);
    assert_eq!(
        (&bundle["truncated"], &bundle["truncatedReason"]),
        (&json!(true), &json!("events_truncated_to_max_events"))
    );
    refusal(server.get(&format!("{}?maxEvents=0", path(&run))).await, "validation_error");
}

#[tokio::test]
async fn the_bundle_of_an_erased_run_holds_what_is_left_of_it() {
    let site = Site::new();
    let (server, run) = leaked(&site).await;
    let (status, body) = server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let (bundle, text) = bundle(&server, &run, "").await;
    assert_eq!(bundle["run"]["erased"], true);
    assert!(bundle["events"].as_array().unwrap().iter().all(|event| event["payload"].is_null()), "{text}");
    assert!(!text.contains(NAMED) && !text.contains(COMMENT), "{text}");
}

#[tokio::test]
async fn what_looks_like_a_credential_in_an_input_is_not_in_a_bundle() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let key = "cred_CANARY-of-a-suite-NEVER-SECRET-OpaqueRefAlphaNumX9Y8Z7";
    let run = server.start_run("parked", json!({ "userField": key })).await;
    let (bundle, text) = bundle(&server, &run, "").await;
    assert!(!text.contains("CANARY"), "{text}");
    assert_eq!(bundle["run"]["inputs"]["userField"], "[secret]");
    let named = json!({ "path": "/run/inputs/userField", "reason": "credential" });
    assert!(bundle["redactions"].as_array().unwrap().contains(&named), "{bundle}");
}

#[tokio::test]
async fn a_run_that_can_not_be_read_has_a_bundle_that_says_so() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    server.settle().await;
    let count = events_so_far(&server, &run).await.len();
    assert!(server.stop().success());
    let id = uuid::Uuid::parse_str(run.trim_start_matches("run-")).unwrap();
    let damage = "UPDATE events SET payload = substr(payload, 2) WHERE id = ?1 AND seq = (SELECT max(seq) FROM events WHERE id = ?1)";
    assert_eq!(site.database().execute(damage, [id.as_bytes().as_slice()]).unwrap(), 1);
    let server = site.start(&["--test-clock"]);
    let (bundle, text) = bundle(&server, &run, "").await;
    assert_eq!((&bundle["run"]["runId"], &bundle["run"]["workflowId"]), (&json!(run), &json!("parked")));
    assert_eq!(bundle["events"].as_array().unwrap().len(), count - 1, "{text}");
    assert!(
        bundle["problems"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().contains("can't be")),
        "{text}"
    );
    assert_eq!(bundle["resume"]["artifacts"]["history"], false);
    assert_eq!(bundle["definition"]["id"], "parked");
}
