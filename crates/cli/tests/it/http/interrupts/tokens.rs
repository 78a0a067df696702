//! Tokens: what whoever holds one may do, for how long, and what is left of them.

use reqwest::header::{ETAG, IF_NONE_MATCH};

use super::*;

const MINUTE_MS: i64 = 60_000;

/// A token's own words.
fn said(token: &str) -> Value {
    use base64::Engine as _;
    let (payload, _) = token.split_once('.').unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn a_token_is_all_that_is_needed_to_answer() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let path = format!("/v1/interrupts/{}", token(&server, &run).await);
    let body = json!({ "resumeValue": accept() });
    for wrong in [json!({}), json!({ "resumeValue": accept(), "more": 1 }), accept()] {
        refusal(
            answer(server.anonymous(Method::POST, &path).json(&wrong)).await.unwrap(),
            "validation_error",
        );
    }
    let (status, told) = answer(server.anonymous(Method::POST, &path).json(&body)).await.unwrap();
    assert_eq!((status, &told["status"]), (StatusCode::OK, &json!("completed")), "{told}");
    // Another credential is not even looked at.
    let run = server.start_run("review", json!({})).await;
    let path = format!("/v1/interrupts/{}", token(&server, &run).await);
    for method in [Method::GET, Method::POST] {
        let request = server.request_as("nonsense", method, &path).json(&body);
        assert_eq!(answer(request).await.unwrap().0, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_reader_gets_a_token_for_what_their_key_may_do() {
    let site = Site::new();
    let reader = site.key("default").scopes("runs:read").principal("reader").make();
    let responder = site.key("default").scopes("runs:read,approvals:respond").principal("ada").make();
    let (server, run) = waiting(&site).await;
    let (looks, answers) =
        (token_as(&server, &reader, &run).await, token_as(&server, &responder, &run).await);
    assert_eq!((&said(&looks)["intent"], &said(&looks)["sub"]), (&json!("inspect"), &json!("reader")));
    assert_eq!((&said(&answers)["intent"], &said(&answers)["sub"]), (&json!("resolve"), &json!("ada")));
    refusal(answer_by(&server, &looks, &accept()).await, "forbidden");
    assert_eq!(answer_by(&server, &answers, &accept()).await.0, StatusCode::OK);
    let events = server.events(&run).await;
    assert_eq!(the(&events, "approval.received")["payload"]["decidedBy"], "ada");
}

#[tokio::test]
async fn a_token_to_look_is_not_one_to_answer() {
    let site = Site::new();
    let reader = site.key("default").scopes("runs:read").make();
    let (server, run) = waiting(&site).await;
    let token = token_as(&server, &reader, &run).await;
    assert_eq!(look(&server, &token).await.0, StatusCode::OK);
    refusal(answer_by(&server, &token, &accept()).await, "forbidden");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn whoever_looks_sees_what_is_asked_and_until_when() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let more = json!({ "key": "the-key", "timeoutMs": HOUR_MS, "resumeSchema": { "type": "object" } });
    let (kind, data, ..) = kinds().remove(0);
    let run = ask(&server, kind, &data, &more).await;
    let interrupt = shown(&server, &run).await["interrupt"].clone();
    let token = interrupt["interruptToken"].as_str().unwrap();
    let (status, seen) = look(&server, token).await;
    assert_eq!(status, StatusCode::OK, "{seen}");
    let expected = json!({
        "kind": "approval", "key": "the-key", "data": data, "resumeSchema": { "type": "object" },
        "timeoutMs": HOUR_MS, "runId": run, "nodeId": "gate", "interruptId": interrupt["interruptId"],
        "requestedAt": interrupt["requestedAt"], "deadline": interrupt["deadline"],
        "expiresAt": said(token)["expiresAt"], "intent": "resolve",
    });
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn looking_changes_nothing_however_often() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let token = token(&server, &run).await;
    let (before, rows) = (events_so_far(&server, &run).await, site.rows());
    for _ in 0..100 {
        assert_eq!(look(&server, &token).await.0, StatusCode::OK);
    }
    assert_eq!((events_so_far(&server, &run).await, site.rows()), (before, rows));
}

#[tokio::test]
async fn one_token_looks_and_then_answers() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let token = token(&server, &run).await;
    assert_eq!(look(&server, &token).await.0, StatusCode::OK);
    assert_eq!(answer_by(&server, &token, &accept()).await.0, StatusCode::OK);
    assert_eq!(shown(&server, &run).await["status"], "completed");
}

#[tokio::test]
async fn the_answer_by_token_is_the_same_as_by_key() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({}))).await;
    let mut told: Vec<Vec<Value>> = Vec::new();
    for by_token in [false, true] {
        let run = server.start_run("review", json!({})).await;
        let id = shown(&server, &run).await["interrupt"]["interruptId"].as_str().unwrap().to_owned();
        let (status, _) = match by_token {
            true => answer_by(&server, &token(&server, &run).await, &accept()).await,
            false => answer_gate(&server, &run, &accept()).await,
        };
        assert_eq!(status, StatusCode::OK);
        let plain = |event: &Value| {
            let text = json!([event["type"], event["payload"]]).to_string().replace(&run, "<run>");
            let text = text.replace(&run["run-".len()..], "<run>").replace(&id, "<id>");
            let mut event: Value = serde_json::from_str(&text).unwrap();
            // Times are those of the clock, and each run has its own.
            for time in ["requestedAt", "resolvedAt", "decidedAt", "durationMs", "artifactId"] {
                blank(&mut event, time);
            }
            event
        };
        told.push(server.events(&run).await.iter().map(plain).collect());
    }
    assert_eq!(told[0], told[1]);
}

/// Takes the values of this name out, wherever they stand.
fn blank(value: &mut Value, name: &str) {
    match value {
        Value::Object(map) => map
            .iter_mut()
            .for_each(|(key, value)| if key == name { *value = Value::Null } else { blank(value, name) }),
        Value::Array(items) => items.iter_mut().for_each(|item| blank(item, name)),
        _ => {}
    }
}

#[tokio::test]
async fn a_token_lives_for_half_an_hour_and_is_told_to_be_over_then() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let token = token(&server, &run).await;
    server.advance(30 * MINUTE_MS - 1_000).await;
    assert_eq!(look(&server, &token).await.0, StatusCode::OK);
    server.advance(2_000).await;
    refusal(answer_by(&server, &token, &accept()).await, "interrupt_expired");
    refusal(look(&server, &token).await, "interrupt_expired");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn an_answer_by_key_does_not_care_about_the_age_of_tokens() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let token = token(&server, &run).await;
    server.advance(31 * MINUTE_MS).await;
    refusal(look(&server, &token).await, "interrupt_expired");
    assert_eq!(resolve(&server, &run, &accept()).await["status"], "completed");
}

#[tokio::test]
async fn a_node_may_say_how_long_tokens_live_but_never_beyond_the_question() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    for (settings, config, minutes) in [
        (json!({}), json!({}), 30),
        (json!({ "abide": { "tokenMs": 5 * MINUTE_MS } }), json!({}), 5),
        (json!({}), json!({ "timeoutMs": MINUTE_MS }), 1),
        (json!({ "abide": { "tokenMs": 5 * MINUTE_MS } }), json!({ "timeoutMs": MINUTE_MS }), 1),
    ] {
        push(
            &server,
            &gated("review", node("gate", "core.approvalGate", config.clone(), json!({}), settings.clone())),
        )
        .await;
        let run = server.start_run("review", json!({})).await;
        let interrupt = shown(&server, &run).await["interrupt"].clone();
        let said = said(interrupt["interruptToken"].as_str().unwrap());
        let lives = millis(&said["expiresAt"]) - millis(&interrupt["requestedAt"]);
        assert_eq!(lives, minutes * MINUTE_MS, "{settings} {config}");
    }
}

#[tokio::test]
async fn a_token_of_what_is_over_is_told_so() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({}))).await;
    // A gate beside one that fails the run: the run ends while the gate is open.
    let fails = node("late", "core.delay", json!({ "ms": 1000 }), json!({}), json!({}));
    let fail = node("fail", "core.fail", json!({}), json!({}), json!({}));
    let gate = node("gate", "core.approvalGate", json!({ "title": "?" }), json!({}), json!({}));
    push(&server, &workflow("side", &[gate, fails, fail], &[("late", "fail")], json!([]))).await;
    let answered = server.start_run("review", json!({})).await;
    let cancelled = server.start_run("review", json!({})).await;
    let ended = server.start_run("side", json!({})).await;
    let mut tokens = Vec::new();
    for run in [&answered, &cancelled, &ended] {
        tokens.push(token(&server, run).await);
    }
    resolve(&server, &answered, &accept()).await;
    cancel(&server, &cancelled).await;
    server.advance(1_000).await;
    server.events(&ended).await;
    for token in &tokens {
        refusal(answer_by(&server, token, &accept()).await, "interrupt_already_resolved");
        refusal(look(&server, token).await, "interrupt_already_resolved");
    }
}

#[tokio::test]
async fn all_tokens_die_with_the_answer_whichever_way_it_came() {
    let site = Site::new();
    let reader = site.key("default").scopes("runs:read").make();
    let (server, run) = waiting(&site).await;
    let first = token(&server, &run).await;
    server.advance(MINUTE_MS).await;
    let tokens = [first, token(&server, &run).await, token_as(&server, &reader, &run).await];
    assert_ne!(tokens[0], tokens[1]);
    resolve(&server, &run, &accept()).await;
    for token in &tokens {
        refusal(look(&server, token).await, "interrupt_already_resolved");
    }
    refusal(answer_by(&server, &tokens[1], &accept()).await, "interrupt_already_resolved");
}

#[tokio::test]
async fn a_token_is_good_for_its_own_interrupt_alone() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let gate = |id: &str| node(id, "core.approvalGate", json!({ "title": id }), json!({}), json!({}));
    push(&server, &workflow("two", &[gate("a"), gate("b")], &[], json!([]))).await;
    let run = server.start_run("two", json!({})).await;
    let waiting = shown(&server, &run).await;
    let token_of = |at: usize| waiting["interrupts"][at]["interruptToken"].as_str().unwrap().to_owned();
    assert_eq!(waiting["interrupts"][0]["nodeId"], "a");
    assert_eq!(answer_by(&server, &token_of(0), &accept()).await.1["nodeId"], "a");
    refusal(answer_by(&server, &token_of(0), &accept()).await, "interrupt_already_resolved");
    let after = shown(&server, &run).await;
    assert_eq!(
        (&after["nodeStates"]["a"]["status"], &after["nodeStates"]["b"]["status"]),
        (&json!("completed"), &json!("suspended"))
    );
    assert_eq!(answer_by(&server, &token_of(1), &accept()).await.1["status"], "completed");
}

#[tokio::test]
async fn what_is_no_token_of_this_server_opens_nothing() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let genuine = token(&server, &run).await;
    let other_site = Site::new();
    let (other, theirs) = waiting(&other_site).await;
    let foreign = token(&other, &theirs).await;
    let (payload, mac) = genuine.split_once('.').unwrap();
    let mut wrong = vec![
        foreign,
        "tok_0123456789abcdef".to_owned(),
        "x".to_owned(),
        payload.to_owned(),
        format!("{payload}."),
        format!("{payload}.{mac}A"),
        "eyJhbGciOiJub25lIn0.e30.".to_owned(),
        "%00".to_owned(),
        "a".repeat(5_000),
    ];
    for at in [0, payload.len() / 2, payload.len() + 1, genuine.len() - 2] {
        let mut bytes = genuine.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        wrong.push(String::from_utf8(bytes).unwrap());
    }
    let mut told = std::collections::BTreeSet::new();
    for token in &wrong {
        for refused in [look(&server, token).await, answer_by(&server, token, &accept()).await] {
            told.insert(refused.1.to_string());
            refusal(refused, "interrupt_not_found");
        }
    }
    assert_eq!(told.len(), 1, "nobody learns how far a forged one came: {told:?}");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}

#[tokio::test]
async fn a_gate_that_wants_a_key_is_not_answered_by_a_token() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({ "profile": "openwop-interrupt-auth-required" }))).await;
    let run = server.start_run("review", json!({})).await;
    let token = token(&server, &run).await;
    assert_eq!(look(&server, &token).await.0, StatusCode::OK);
    refusal(answer_by(&server, &token, &accept()).await, "forbidden");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
    assert_eq!(resolve(&server, &run, &accept()).await["status"], "completed");
}

#[tokio::test]
async fn a_request_by_token_that_is_repeated_gets_the_first_answer() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let token = token(&server, &run).await;
    let ask = async || {
        let request = server.anonymous(Method::POST, &format!("/v1/interrupts/{token}"));
        let request = request.header("Idempotency-Key", "k-1").json(&json!({ "resumeValue": accept() }));
        answer(request).await.unwrap()
    };
    let first = ask().await;
    assert_eq!(first.0, StatusCode::OK, "{first:?}");
    assert_eq!(ask().await, first);
}

#[tokio::test]
async fn tokens_change_with_every_read_and_the_tag_of_the_run_does_not() {
    let site = Site::new();
    let reader = site.key("default").scopes("runs:read").make();
    let (server, run) = waiting(&site).await;
    let path = format!("/v1/runs/{run}");
    let read = async |key: &str| {
        let response = server.request_as(key, Method::GET, &path).send().await.unwrap();
        let tag = response.headers()[ETAG].to_str().unwrap().to_owned();
        (tag, response.text().await.unwrap())
    };
    let first = read(&server.key).await;
    server.advance(MINUTE_MS).await;
    let (later, others) = (read(&server.key).await, read(&reader).await);
    assert_ne!(first.1, later.1, "the tokens are new");
    assert_ne!(later.1, others.1, "and each reader's own");
    assert_eq!((&first.0, &first.0), (&later.0, &others.0));
    let known = server.request(Method::GET, &path).header(IF_NONE_MATCH, &first.0).send().await.unwrap();
    assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn no_token_stands_in_anything_that_is_kept_or_made_for_many() {
    let site = Site::new();
    let (server, run) = waiting(&site).await;
    let token = token(&server, &run).await;
    assert_eq!(look(&server, &token).await.0, StatusCode::OK);
    let mut seen = String::new();
    for path in ["events?streamMode=values", "events?streamMode=debug", "journal", "why"] {
        let request = server.request(Method::GET, &format!("/v1/runs/{run}/{path}"));
        let response = request.header("accept", "application/json").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        seen += &response.text().await.unwrap();
    }
    assert!(seen.contains("waiting-approval"), "{seen}");
    assert!(!seen.contains("interruptToken") && !seen.contains("/v1/interrupts/"), "{seen}");
    // With a key, so that something of the request is kept.
    let request = server.anonymous(Method::POST, &format!("/v1/interrupts/{token}"));
    let request = request.header("Idempotency-Key", "k-1").json(&json!({ "resumeValue": accept() }));
    assert_eq!(answer(request).await.unwrap().0, StatusCode::OK);
    assert!(server.stop().success());
    let (payload, mac) = token.split_once('.').unwrap();
    for entry in std::fs::read_dir(site.data()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
        for part in [payload, mac] {
            assert!(!bytes.windows(part.len()).any(|window| window == part.as_bytes()), "it is on disk");
        }
    }
    assert!(!site.said().contains(mac), "it is in the log");
}
