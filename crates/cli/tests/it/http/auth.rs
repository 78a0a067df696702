//! Who may come in: every route under /v1, with every kind of key that is none.

use reqwest::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};

use super::surface::operations;
use super::*;

/// The value of the header, for each way in which it can be no key.
fn bad_headers(good: &str, other: &str) -> Vec<(&'static str, Option<HeaderValue>)> {
    let (id, secret) = good.strip_prefix("abk_").unwrap().split_once('_').unwrap();
    let (other_id, _) = other.strip_prefix("abk_").unwrap().split_once('_').unwrap();
    let mut changed = secret.to_owned();
    let last = if changed.pop() == Some('0') { '1' } else { '0' };
    changed.push(last);
    let text = |text: String| Some(HeaderValue::from_str(&text).unwrap());
    vec![
        ("no header", None),
        ("an empty header", text(String::new())),
        ("no scheme", text(good.to_owned())),
        ("a scheme alone", text("Bearer".into())),
        ("an empty key", text("Bearer ".into())),
        ("basic", text(format!("Basic {good}"))),
        ("a scheme that only begins so", text(format!("Bearers {good}"))),
        ("no prefix", text(format!("Bearer {id}_{secret}"))),
        ("another prefix", text(format!("Bearer abx_{id}_{secret}"))),
        ("no secret", text(format!("Bearer abk_{id}"))),
        ("an empty secret", text(format!("Bearer abk_{id}_"))),
        ("an unknown id", text(format!("Bearer abk_ffffffffffff_{secret}"))),
        ("a wrong secret", text(format!("Bearer abk_{id}_{changed}"))),
        ("a secret cut short", text(format!("Bearer abk_{id}_{}", &secret[..secret.len() - 1]))),
        ("a secret with more behind", text(format!("Bearer abk_{id}_{secret}00"))),
        ("a secret in capitals", text(format!("Bearer abk_{id}_{}", secret.to_uppercase()))),
        ("another key's secret", text(format!("Bearer abk_{other_id}_{secret}"))),
        ("a key of monstrous length", text(format!("Bearer abk_{id}_{}", "a".repeat(10_000)))),
        ("no text", Some(HeaderValue::from_bytes(b"Bearer \xff\xfe").unwrap())),
    ]
}

fn revoke(site: &Site, id: &str) {
    let revoked =
        crate::support::abide().args(["keys", "revoke", id, "--data"]).arg(site.data()).output().unwrap();
    assert!(revoked.status.success(), "{revoked:?}");
}

#[tokio::test]
async fn without_a_valid_key_every_route_refuses_and_nothing_changes() {
    let site = site();
    let other = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let (_, clock) = server.get("/v1/dev/clock").await;
    let before = site.rows();
    for (what, header) in bad_headers(&server.key, &other) {
        for operation in operations(&server).iter().filter(|operation| operation.access.is_some()) {
            let request = operation.asked_for(&server, &run);
            let request = header.iter().fold(request, |request, value| request.header(AUTHORIZATION, value));
            let response = request.send().await.unwrap();
            assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer", "{what}: {}", operation.id);
            let status = response.status();
            let details = refusal((status, response.json().await.unwrap()), "unauthenticated");
            assert!(details.is_null(), "{what}: {}", operation.id);
        }
    }
    assert_eq!(site.rows(), before);
    assert_eq!(server.get("/v1/dev/clock").await.1, clock);
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "running");
}

#[tokio::test]
async fn a_genuine_key_that_is_over_is_told_so_and_opens_nothing() {
    let site = site();
    let (revoked, chosen) =
        (site.new_key("default"), site.key("default").secret("a-chosen-secret-text").make());
    for key in [&revoked, &chosen] {
        let id = site.key_id(key);
        revoke(&site, &id);
    }
    // A data directory with runs on it has no test clock, so the server begins before the keys that expire.
    assert!(site.start(&["--test-clock"]).stop().success());
    let brief = site.key("default").expires_in("30m").make();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    assert_eq!(server.ask_as(&brief, Method::GET, "/v1/runs", None).await.0, StatusCode::OK);
    server.advance(HOUR_MS / 2 - 1).await;
    assert_eq!(server.ask_as(&brief, Method::GET, "/v1/runs", None).await.0, StatusCode::OK);
    server.advance(1).await;
    let before = site.rows();
    for (key, code) in [(&revoked, "key_revoked"), (&chosen, "key_revoked"), (&brief, "key_expired")] {
        for operation in operations(&server).iter().filter(|operation| operation.access.is_some()) {
            let request = operation.asked_for(&server, &run).bearer_auth(key);
            let response = request.send().await.unwrap();
            assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer", "{}", operation.id);
            let status = response.status();
            refusal((status, response.json().await.unwrap()), code);
        }
        let wrong = format!("{}0", &key[..key.len() - 1]);
        let wrong = if wrong == *key { format!("{}1", &key[..key.len() - 1]) } else { wrong };
        refusal(server.ask_as(&wrong, Method::GET, "/v1/runs", None).await, "unauthenticated");
    }
    assert_eq!(site.rows(), before);
}

#[tokio::test]
async fn a_chosen_text_opens_as_a_whole_and_in_no_other_way() {
    let site = site();
    let text = "hk_test_0123456789abcdef";
    let key = site.key("default").secret(text).principal("suite").make();
    assert_eq!(key, text);
    let server = site.serve(&key, &[]);
    assert_eq!(server.get("/v1/runs").await.0, StatusCode::OK);
    for wrong in [
        "hk_test_0123456789abcdeF",
        "hk_test_0123456789abcde",
        "hk_test_0123456789abcdef0",
        "HK_test_0123456789abcdef",
    ] {
        refusal(server.ask_as(wrong, Method::GET, "/v1/runs", None).await, "unauthenticated");
    }
    let run = server.start_run("noop", json!({})).await;
    assert_eq!(server.events(&run).await[0]["payload"]["by"], "suite");
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say_and_no_more() {
    let site = site();
    let reader = site.key("default").scopes("runs:read").make();
    let starter = site.key("default").scopes("runs:create,manifest:read").make();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let before = site.rows();
    let lacks = async |key: &str, method: Method, path: &str, body: Option<Value>, scope: &str| {
        let details = refusal(server.ask_as(key, method, path, body.as_ref()).await, "forbidden");
        assert_eq!(details, json!({ "scopeRequired": scope }), "{path}");
    };
    let start = Some(json!({ "workflowId": "noop" }));
    lacks(&reader, Method::POST, "/v1/runs", start.clone(), "runs:create").await;
    lacks(&reader, Method::POST, &format!("/v1/runs/{run}/cancel"), None, "runs:cancel").await;
    lacks(&reader, Method::GET, "/v1/workflows", None, "manifest:read").await;
    lacks(&starter, Method::GET, "/v1/runs/nonsense", None, "runs:read").await;
    lacks(&starter, Method::PUT, "/v1/secrets/x", Some(json!({ "value": "secret" })), "secrets:manage").await;
    lacks(&starter, Method::GET, "/v1/keys", None, "keys:manage").await;
    lacks(&starter, Method::GET, "/v1/people", None, "people:read").await;
    assert_eq!(site.rows(), before);
    assert_eq!(server.ask_as(&reader, Method::GET, "/v1/runs", None).await.0, StatusCode::OK);
    assert_eq!(
        server.ask_as(&starter, Method::POST, "/v1/runs", start.as_ref()).await.0,
        StatusCode::CREATED
    );
}

#[tokio::test]
async fn the_scheme_may_be_written_in_any_case() {
    let site = site();
    let server = site.start(&[]);
    for scheme in ["bearer", "BEARER", "Bearer "] {
        let header = format!("{scheme} {}", server.key);
        let request = server.anonymous(Method::GET, "/v1/runs").header(AUTHORIZATION, header);
        assert_eq!(answer(request).await.unwrap().0, StatusCode::OK, "{scheme}");
    }
}

#[tokio::test]
async fn the_key_is_asked_for_before_anything_else_is_looked_at() {
    let site = site();
    let server = site.start(&[]);
    for (method, path) in [
        (Method::GET, "/v1/runs?limit=0"),
        (Method::GET, "/v1/runs/nonsense"),
        (Method::GET, "/v1/runs/%FF"),
        (Method::GET, "/v1/runs/nonsense/events/poll?timeout=0"),
        (Method::POST, "/v1/runs/nonsense/cancel"),
    ] {
        refusal(answer(server.anonymous(method, path)).await.unwrap(), "unauthenticated");
    }
    let body = server.anonymous(Method::POST, "/v1/runs").body("not json");
    refusal(answer(body).await.unwrap(), "unauthenticated");
}

#[tokio::test]
async fn a_key_may_stand_where_openintents_clients_have_it() {
    let site = site();
    let (reader, other) = (site.key("default").scopes("runs:read").make(), site.new_key("other"));
    let server = site.start(&[]);
    server.start_run("parked", json!({})).await;
    let ask = async |path: &str, headers: &[(&str, &str)]| {
        let request = server.anonymous(Method::GET, path);
        answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
            .await
            .unwrap()
    };
    let (status, page) = ask("/v1/runs", &[("X-API-Key", &reader)]).await;
    assert_eq!((status, page["runs"].as_array().unwrap().len()), (StatusCode::OK, 1));
    let (_, page) = ask("/v1/runs", &[("x-api-key", &other)]).await;
    assert_eq!(page["runs"], json!([]), "its tenant's alone");
    let details = refusal(ask("/v1/secrets", &[("X-API-Key", &reader)]).await, "forbidden");
    assert_eq!(details["scopeRequired"], "secrets:manage");
    let bearer = format!("Bearer {other}");
    let (_, page) = ask("/v1/runs", &[("X-API-Key", &reader), ("Authorization", &bearer)]).await;
    assert_eq!(page["runs"], json!([]), "the other header goes before it");
    let with_scheme = format!("Bearer {reader}");
    for key in ["", "abk_nobody_0", "é", &with_scheme] {
        refusal(ask("/v1/runs", &[("X-API-Key", key)]).await, "unauthenticated");
    }
    refusal(
        ask("/v1/runs", &[("X-API-Key", &reader), ("Authorization", "Basic x")]).await,
        "unauthenticated",
    );
}

#[tokio::test]
async fn a_key_in_the_query_or_a_cookie_is_no_key() {
    let site = site();
    let server = site.start(&[]);
    let key = server.key.clone();
    let query = server.anonymous(Method::GET, &format!("/v1/runs?access_token={key}"));
    refusal(answer(query).await.unwrap(), "unauthenticated");
    let cookie =
        server.anonymous(Method::GET, "/v1/runs").header("Cookie", format!("Authorization=Bearer {key}"));
    refusal(answer(cookie).await.unwrap(), "unauthenticated");
}

#[tokio::test]
async fn the_log_has_no_secrets() {
    let site = site();
    let key = site.new_key("default");
    let server = site.serve(&key, &["--log", "trace"]);
    let run = server.start_run("noop", json!({})).await;
    server.events(&run).await;
    let wrong = key.replace("abk_", "abk_x");
    answer(server.request_as(&wrong, Method::GET, "/v1/runs")).await.unwrap();
    assert!(server.stop().success());
    let secret = key.rsplit_once('_').unwrap().1;
    assert!(!site.said().contains(secret), "{}", site.said());
}
