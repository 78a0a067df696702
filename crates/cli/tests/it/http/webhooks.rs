//! Webhooks over HTTP, with a real receiver on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide_core::{hex, sha256};

use super::*;
use crate::receiver::{ALLOW, Post, Receiver};

const SECRET: &str = "a secret of the receiver's own";

fn on_test_clock(site: &Site) -> Server {
    site.start(&["--test-clock", ALLOW[0], ALLOW[1]])
}

async fn add(server: &Server, body: Value) -> Value {
    let (status, added) = server.post("/v1/webhooks", &body).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    added
}

async fn remove(server: &Server, path: &str) -> (StatusCode, Value) {
    answer(server.request(Method::DELETE, path)).await.unwrap()
}

async fn webhook(server: &Server, id: &str) -> Value {
    let (status, shown) = server.get(&format!("/v1/webhooks/{id}")).await;
    assert_eq!(status, StatusCode::OK, "{shown}");
    shown
}

/// Waits until a webhook stands so.
async fn until(server: &Server, id: &str, stands: impl Fn(&Value) -> bool) -> Value {
    let began = std::time::Instant::now();
    loop {
        let shown = webhook(server, id).await;
        if stands(&shown) {
            return shown;
        }
        assert!(began.elapsed() < PATIENCE, "{shown}");
        tokio::task::yield_now().await;
    }
}

/// HMAC-SHA256 by its definition, beside the library that the server uses.
fn hmac(secret: &[u8], message: &[u8]) -> String {
    let mut key = [0; 64];
    match secret.len() {
        ..=64 => key[..secret.len()].copy_from_slice(secret),
        _ => key[..32].copy_from_slice(&sha256(secret)),
    }
    let inner = sha256(&[&key.map(|byte| byte ^ 0x36)[..], message].concat());
    hex(&sha256(&[&key.map(|byte| byte ^ 0x5c)[..], &inner].concat()))
}

pub(super) fn check_signature(post: &Post, secret: &str) {
    let timestamp = post.header("x-openwop-timestamp");
    let message = [timestamp.as_bytes(), b".", &post.body].concat();
    let expected = format!("sha256={}", hmac(secret.as_bytes(), &message));
    assert_eq!(post.header("x-openwop-signature"), expected);
    assert_eq!(post.header("openwop-signature"), expected);
    assert_eq!(post.header("openwop-timestamp"), timestamp);
    assert_eq!(post.header("x-openwop-signature-algorithm"), "v1");
}

#[tokio::test]
async fn every_event_of_a_run_is_sent_in_order_and_signed() {
    let (site, receiver) = (site(), Receiver::start().await);
    let server = on_test_clock(&site);
    let added = add(&server, json!({ "url": receiver.url, "events": ["*"], "secret": SECRET })).await;
    assert_eq!((&added["secret"], &added["eventTypes"]), (&json!(SECRET), &json!(["*"])));
    assert_eq!((&added["url"], &added["tenantId"]), (&json!(receiver.url), &json!("default")));
    assert_eq!(added["subscriptionId"], added["webhookId"]);
    assert_eq!(added["secretFingerprint"], hex(&sha256(SECRET.as_bytes()))[..16]);
    let run = server.start_run("kinds", json!({})).await;
    server.settle().await;
    server.advance(1000).await;
    let events = server.events(&run).await;
    let posts = receiver.await_posts(events.len()).await;
    let (_, clock) = server.get("/v1/dev/clock").await;
    for (post, event) in posts.iter().zip(&events) {
        assert_eq!(post.json(), json!({ "runId": run, "workspaceId": "default", "event": event }));
        check_signature(post, SECRET);
        assert_eq!(post.header("x-openwop-event-type"), event["type"]);
        assert_eq!(post.header("x-openwop-webhook-id"), added["webhookId"]);
        assert!(post.header("user-agent").starts_with("openwop-webhook-dispatcher/"));
        assert_eq!(post.header("content-type"), "application/json");
        let sent: i64 = post.header("x-openwop-timestamp").parse().unwrap();
        assert!((millis(&event["timestamp"]) / 1000..=millis(&clock["now"]) / 1000).contains(&sent));
    }
    let shown = until(&server, added["webhookId"].as_str().unwrap(), |shown| shown["pending"] == 0).await;
    assert_eq!((&shown["delivered"], &shown["state"]), (&json!(events.len()), &json!("active")));
    assert_eq!(shown.get("secret"), None);
    assert!(server.stop().success());
    let found = std::fs::read(site.data().join("abide.db")).unwrap();
    assert!(!found.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "it lies open on disk");
}

/// The page's own words for a receiver, told what came in.
fn checked_in_python(post: &Post, secret: &str, now: i64) -> String {
    let headers = ["X-openwop-Timestamp", "X-openwop-Signature"];
    judged_in_python(&headers.map(|name| (name, post.header(name))), post, secret, now)
}

/// What the page's sample says of a body with these headers.
fn judged_in_python(headers: &[(&str, &str)], post: &Post, secret: &str, now: i64) -> String {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/webhooks.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (sample, _) = page.split_once("```python\n").unwrap().1.split_once("```").unwrap();
    let headers: std::collections::BTreeMap<&str, &str> = headers.iter().copied().collect();
    let body = String::from_utf8(post.body.clone()).unwrap();
    let given = json!({ "secret": secret, "headers": headers, "body": body, "now": now }).to_string();
    let program = format!(
        "{sample}\nimport json, sys\ngiven = json.loads(sys.argv[1])\n\
         print(is_genuine(given['secret'], given['headers'], given['body'].encode(), given['now']))"
    );
    let output = std::process::Command::new("python3").args(["-c", &program, &given]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn the_page_shows_receivers_how_to_check_a_signature() {
    let (site, receiver) = (site(), Receiver::start().await);
    let server = on_test_clock(&site);
    let added = add(&server, json!({ "url": receiver.url, "events": ["run.completed"] })).await;
    server.start_run("noop", json!({})).await;
    let mut post = receiver.await_posts(1).await.remove(0);
    let (secret, now) =
        (added["secret"].as_str().unwrap(), post.header("x-openwop-timestamp").parse().unwrap());
    assert_eq!(checked_in_python(&post, secret, now), "True");
    assert_eq!(checked_in_python(&post, secret, now + 301), "False", "it may be a copy");
    assert_eq!(checked_in_python(&post, "another secret", now), "False");
    let (time, signature) = (post.header("x-openwop-timestamp"), post.header("x-openwop-signature"));
    let (name, other) = ("x-openwop-timestamp", "X-OPENWOP-SIGNATURE");
    let judged = |headers: &[(&str, &str)]| judged_in_python(headers, &post, secret, now);
    assert_eq!(judged(&[(name, time), (other, signature)]), "True", "however the names are written");
    let odd = format!(" {time}");
    for headers in [
        &[][..],
        &[(name, time)],
        &[(other, signature)],
        &[(name, ""), (other, signature)],
        &[(name, "soon"), (other, signature)],
        &[(name, "²"), (other, signature)],
        &[(name, &odd), (other, signature)],
        &[(name, time), (other, "sha256=é")],
    ] {
        assert_eq!(judged(headers), "False", "{headers:?}");
    }
    post.body.push(b' ');
    assert_eq!(checked_in_python(&post, secret, now), "False", "it was changed");
}

#[tokio::test]
async fn what_is_not_encrypted_is_taken_only_if_its_host_is_known_and_allowed() {
    let site = site();
    let server = on_test_clock(&site);
    for url in ["http://no-such-host.invalid/", "http://1.1.1.1/"] {
        let body = json!({ "url": url, "events": ["*"] });
        refusal(server.post("/v1/webhooks", &body).await, "webhook_url_rejected");
    }
    assert_eq!(site.rows()["webhooks"], 0);
    add(&server, json!({ "url": "http://localhost:9/", "events": ["*"] })).await;
    add(&server, json!({ "url": "https://no-such-host.invalid/", "events": ["*"] })).await;
}

#[tokio::test]
async fn a_registration_says_what_is_wrong_with_it() {
    let site = site();
    let server = site.start(&[]);
    let good = "https://1.1.1.1/hook";
    for (body, field) in [
        (json!({ "events": ["*"] }), Value::Null),
        (json!({ "url": good }), Value::Null),
        (json!({ "url": good, "events": [] }), json!("events")),
        (json!({ "url": good, "events": ["run.completed", "run.sung"] }), json!("events[1]")),
        (json!({ "url": good, "events": ["*"], "secret": "short" }), json!("secret")),
        (json!({ "url": good, "events": ["*"], "secret": 1_234_567_890_123_456_i64 }), json!("secret")),
        (json!({ "url": good, "events": ["*"], "tags": vec!["x"; 101] }), json!("tags")),
        (json!({ "url": good, "events": ["*"], "more": 1 }), json!("more")),
    ] {
        let refused = server.post("/v1/webhooks", &body).await;
        assert!(!refused.1.to_string().contains("1234567890"), "{}", refused.1);
        assert_eq!(refusal(refused, "validation_error")["field"], field, "{body}");
    }
    for url in [
        "http://1.1.1.1/",
        "http://no-such-host.invalid/",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://localhost/",
        "nonsense",
    ] {
        let body = json!({ "url": url, "events": ["*"] });
        assert_eq!(refusal(server.post("/v1/webhooks", &body).await, "webhook_url_rejected")["field"], "url");
    }
    let foreign = json!({ "url": good, "events": ["*"], "tenantId": "other" });
    refusal(server.post("/v1/webhooks", &foreign).await, "forbidden");
    assert_eq!(site.rows()["webhooks"], 0);
    let own = json!({ "url": good, "events": ["approval.requested"], "tenantId": "default", "tags": null });
    let added = add(&server, own).await;
    assert!(added["secret"].as_str().unwrap().starts_with("whsec_"));
    for number in 1..100 {
        add(&server, json!({ "url": format!("{good}/{number}"), "events": ["*"] })).await;
    }
    let full = server.post("/v1/webhooks", &json!({ "url": good, "events": ["*"] })).await;
    assert_eq!(refusal(full, "too_many")["maxWebhooks"], 100);
}

#[tokio::test]
async fn a_registration_that_is_repeated_under_its_key_gives_the_same_secret() {
    let site = site();
    let server = site.start(&[]);
    let ask = |body: Value| {
        let request = server.request(Method::POST, "/v1/webhooks").header("Idempotency-Key", "key-1");
        answer(request.json(&body))
    };
    let body = json!({ "url": "https://1.1.1.1/hook", "events": ["*"] });
    let (first, again) = (ask(body.clone()).await.unwrap(), ask(body).await.unwrap());
    assert_eq!(first.0, StatusCode::CREATED, "{}", first.1);
    assert_eq!(first, again);
    refusal(
        ask(json!({ "url": "https://1.1.1.1/other", "events": ["*"] })).await.unwrap(),
        "idempotency_key_mismatch",
    );
    assert_eq!((site.rows()["webhooks"], site.rows()["receipts"]), (1, 1));
    let secret = first.1["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_") && server.stop().success());
    let found = std::fs::read(site.data().join("abide.db")).unwrap();
    assert!(!found.windows(secret.len()).any(|window| window == secret.as_bytes()), "it lies open on disk");
}

#[tokio::test]
async fn a_webhook_ends_when_it_is_removed() {
    let (site, receiver) = (site(), Receiver::start().await);
    let server = on_test_clock(&site);
    let body = json!({ "url": receiver.url, "events": ["run.completed"] });
    let kept = add(&server, body.clone()).await;
    let path = format!("/v1/webhooks/{}", add(&server, body).await["webhookId"].as_str().unwrap());
    refusal(remove(&server, &format!("{path}?tenantId=other")).await, "forbidden");
    assert_eq!(remove(&server, &format!("{path}?tenantId=default")).await.0, StatusCode::NO_CONTENT);
    refusal(remove(&server, &path).await, "subscription_not_found");
    refusal(server.get(&path).await, "subscription_not_found");
    refusal(server.get(&format!("{path}/deliveries")).await, "subscription_not_found");
    refusal(server.post(&format!("{path}:resend"), &json!({})).await, "subscription_not_found");
    refusal(server.post(&format!("{path}:enable"), &json!({})).await, "subscription_not_found");
    let (_, listed) = server.get("/v1/webhooks").await;
    assert_eq!(listed["webhooks"].as_array().unwrap().len(), 1);
    server.start_run("noop", json!({})).await;
    let id = kept["webhookId"].as_str().unwrap();
    until(&server, id, |shown| shown["delivered"] == 1).await;
    let posts = receiver.heard();
    assert_eq!((posts.len(), posts[0].header("x-openwop-webhook-id")), (1, id));
}

#[tokio::test]
async fn what_was_given_up_is_shown_and_sent_once_more() {
    let broken = Arc::new(AtomicBool::new(true));
    let mood = broken.clone();
    let receiver = Receiver::answering(move |_, _| if mood.load(Ordering::SeqCst) { 503 } else { 200 }).await;
    let site = site();
    let server = on_test_clock(&site);
    let body = json!({ "url": receiver.url, "events": ["run.completed"], "secret": SECRET });
    let id = add(&server, body).await["webhookId"].as_str().unwrap().to_owned();
    let path = format!("/v1/webhooks/{id}");
    let run = server.start_run("noop", json!({})).await;
    for attempt in 1..=9 {
        until(&server, &id, |shown| shown["consecutiveFailures"] == attempt).await;
        server.advance(13 * HOUR_MS).await;
    }
    let shown = until(&server, &id, |shown| shown["dead"] == 1).await;
    assert_eq!((&shown["pending"], &shown["consecutiveFailures"]), (&json!(0), &json!(9)));
    let (_, page) = server.get(&format!("{path}/deliveries?state=dead")).await;
    let dead = &page["deliveries"][0];
    assert_eq!((&dead["runId"], &dead["eventType"]), (&json!(run), &json!("run.completed")));
    assert_eq!(
        (&dead["state"], &dead["attempts"], &dead["lastStatus"]),
        (&json!("dead"), &json!(9), &json!(503))
    );
    let posts = receiver.heard();
    assert_eq!(posts.len(), 9);
    assert!(posts.iter().all(|post| post.header("x-openwop-delivery-id") == dead["deliveryId"]));
    assert!(posts.iter().all(|post| post.json() == posts[0].json()));
    posts.iter().for_each(|post| check_signature(post, SECRET));

    broken.store(false, Ordering::SeqCst);
    let foreign = json!({ "deliveryIds": ["wh-1.nonsense"] });
    assert_eq!(
        refusal(server.post(&format!("{path}:resend"), &foreign).await, "validation_error")["field"],
        "deliveryIds"
    );
    let named = json!({ "deliveryIds": [dead["deliveryId"]] });
    assert_eq!(server.post(&format!("{path}:resend"), &named).await.1, json!({ "resent": 1 }));
    assert_eq!(server.post(&format!("{path}:resend"), &json!({})).await.1, json!({ "resent": 0 }));
    let (_, enabled) = server.post(&format!("{path}:enable"), &json!({})).await;
    assert_eq!((&enabled["state"], &enabled["breaker"]), (&json!("active"), &json!("closed")));
    let shown = until(&server, &id, |shown| shown["delivered"] == 1).await;
    assert_eq!((&shown["dead"], &shown["pending"]), (&json!(0), &json!(0)));
    assert_eq!(receiver.heard().len(), 10);
}

#[tokio::test]
async fn what_an_erased_run_said_is_not_sent() {
    let broken = Arc::new(AtomicBool::new(true));
    let mood = broken.clone();
    let receiver = Receiver::answering(move |_, _| if mood.load(Ordering::SeqCst) { 500 } else { 200 }).await;
    let site = site();
    let server = on_test_clock(&site);
    let body = json!({ "url": receiver.url, "events": ["run.started"] });
    let id = add(&server, body).await["webhookId"].as_str().unwrap().to_owned();
    let run = server.start_run("payload", json!({ "payload": "hush" })).await;
    server.events(&run).await;
    until(&server, &id, |shown| shown["consecutiveFailures"] == 1).await;
    let (status, erased) = server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{erased}");
    broken.store(false, Ordering::SeqCst);
    server.advance(5000).await;
    until(&server, &id, |shown| shown["delivered"] == 1).await;
    let posts = receiver.heard();
    assert_eq!(posts[0].json()["event"]["payload"]["inputs"]["payload"], "hush");
    assert_eq!(posts[1].json()["event"]["payload"], Value::Null, "it tells what is left");
}

#[tokio::test]
async fn each_tenant_hears_of_its_own_runs_alone() {
    let site = site();
    let stranger = site.new_key("other");
    let (mine, theirs) = (Receiver::start().await, Receiver::start().await);
    let server = on_test_clock(&site);
    let id = add(&server, json!({ "url": mine.url, "events": ["run.completed"] })).await["webhookId"].clone();
    let body = json!({ "url": theirs.url, "events": ["run.completed"] });
    let request = server.request_as(&stranger, Method::POST, "/v1/webhooks").json(&body);
    let (_, added) = answer(request).await.unwrap();
    assert_eq!(added["tenantId"], "other");
    let path = format!("/v1/webhooks/{}", id.as_str().unwrap());
    for request in [
        server.request_as(&stranger, Method::GET, &path),
        server.request_as(&stranger, Method::DELETE, &path),
        server.request_as(&stranger, Method::GET, &format!("{path}/deliveries")),
        server.request_as(&stranger, Method::POST, &format!("{path}:enable")),
    ] {
        refusal(answer(request).await.unwrap(), "subscription_not_found");
    }
    let my_run = server.start_run("noop", json!({})).await;
    let (_, started) = start_as(&server, &stranger, "noop").await;
    let told = theirs.await_posts(1).await;
    assert_eq!(told[0].json()["runId"], started["runId"]);
    assert_eq!(told[0].json()["workspaceId"], "other");
    assert_eq!(mine.await_posts(1).await[0].json()["runId"], my_run.as_str());
    until(&server, id.as_str().unwrap(), |shown| shown["delivered"] == 1).await;
    assert_eq!((mine.heard().len(), theirs.heard().len()), (1, 1));
}

#[tokio::test]
async fn deliveries_come_in_pages() {
    let receiver = Receiver::answering(|_, _| 500).await;
    let site = site();
    let server = on_test_clock(&site);
    let body = json!({ "url": receiver.url, "events": ["run.completed"] });
    let id = add(&server, body).await["webhookId"].as_str().unwrap().to_owned();
    for _ in 0..5 {
        let starts = (0..45).map(|_| server.start_run("noop", json!({})));
        futures_util::future::join_all(starts).await;
    }
    let path = format!("/v1/webhooks/{id}/deliveries");
    let (_, first) = server.get(&path).await;
    assert_eq!(first["deliveries"].as_array().unwrap().len(), 200);
    let cursor = first["nextCursor"].as_str().unwrap();
    let (_, second) = server.get(&format!("{path}?state=pending&cursor={cursor}")).await;
    assert_eq!(second["deliveries"].as_array().unwrap().len(), 25);
    assert_eq!(second.get("nextCursor"), None);
    assert_eq!(server.get(&format!("{path}?state=dead")).await.1, json!({ "deliveries": [] }));
    for query in ["?state=new", "?cursor=x", "?more=1"] {
        refusal(server.get(&format!("{path}{query}")).await, "validation_error");
    }
}
