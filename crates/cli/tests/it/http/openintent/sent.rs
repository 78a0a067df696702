//! What is sent to the URL of a subscription, with a real receiver on loopback.

use super::wire::{Intent, asked, asked_by, record};
use super::*;
use crate::http::webhooks::check_signature;
use crate::receiver::Post;

const SUBSCRIPTIONS: &str = "/api/v1/subscriptions";

fn started(site: &Site) -> Server {
    site.start(&["--test-clock", ALLOW[0], ALLOW[1]])
}

async fn subscribe(server: &Server, body: &Value) -> Value {
    let (status, made) = answer(asked(server, Method::POST, SUBSCRIPTIONS).json(body)).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{made}");
    made
}

async fn subscriptions(server: &Server, agent: &str) -> Vec<Value> {
    let request = server.anonymous(Method::GET, SUBSCRIPTIONS).header("X-API-Key", server.key.as_str());
    let (status, told) = answer(request.header("X-Agent-ID", agent)).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{told}");
    told["subscriptions"].as_array().unwrap().clone()
}

fn types(posts: &[Post]) -> Vec<String> {
    posts.iter().map(|post| post.json()["event"]["event_type"].as_str().unwrap().to_owned()).collect()
}

/// OI-185: whoever subscribed hears of reminders, too.
#[tokio::test]
async fn what_happens_to_an_intent_is_sent_in_order_and_signed() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let server = started(&site);
    let (intent, other) = (Intent::new(&server).await, Intent::new(&server).await);
    let body = json!({ "intent_id": intent.id(), "webhook_url": receiver.url });
    let made = subscribe(&server, &body).await;
    let policy = json!({ "max_attempts": 3, "interval_seconds": 600 });
    let record = record(&json!({ "retry_policy": policy }));
    for one in [&other, &intent] {
        one.done("/status", &json!({ "status": "suspended_awaiting_input" })).await;
        one.write(&record).await;
    }
    server.advance(600_000).await;
    server.settle().await;
    let answer = json!({ "suspension_id": "s-1", "value": "yes" });
    assert_eq!(intent.respond(&answer).await.0, StatusCode::OK);
    let expected = [
        "status_changed",
        "state_patched",
        "intent.suspended",
        "intent.suspension_renotified",
        "intent.resumed",
        "status_changed",
    ];
    let posts = receiver.await_posts(expected.len()).await;
    assert_eq!(types(&posts), expected);
    let mut deliveries = Vec::new();
    for post in &posts {
        check_signature(post, made["secret"].as_str().unwrap());
        let body = post.json();
        assert_eq!(
            (&body["subscription_id"], &body["event"]["intent_id"]),
            (&made["id"], &json!(intent.id()))
        );
        assert_eq!(post.header("x-openintent-event-type"), body["event"]["event_type"]);
        deliveries.push(post.header("x-openintent-delivery-id").to_owned());
    }
    deliveries.sort();
    deliveries.dedup();
    assert_eq!(deliveries.len(), posts.len(), "a receiver can tell whether it has one already");
    // What is sent is what the list shows.
    let listed = intent.get("/events").await;
    for post in &posts {
        let event = &post.json()["event"];
        assert!(listed.as_array().unwrap().contains(event), "{event} is not in {listed}");
    }
}

#[tokio::test]
async fn only_what_is_asked_for_is_sent_and_what_did_not_arrive_is_sent_again() {
    // The first attempt fails, in the middle of what one decision made.
    let receiver = Receiver::answering(|n, _| if n == 1 { 503 } else { 204 }).await;
    let site = Site::new();
    let server = started(&site);
    let portfolio = json!({ "name": "all", "created_by": "ann" });
    let request = asked(&server, Method::POST, "/api/v1/portfolios").json(&portfolio);
    let portfolio = answer(request).await.unwrap().1["id"].as_str().unwrap().to_owned();
    let intent = Intent::new(&server).await;
    let request = asked(&server, Method::POST, &format!("/api/v1/portfolios/{portfolio}/intents"));
    let (status, told) = answer(request.json(&json!({ "intent_id": intent.id() }))).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{told}");
    let wanted = json!(["portfolio.member_suspended", "portfolio.member_resumed"]);
    let body = json!({ "portfolio_id": portfolio, "webhook_url": receiver.url, "event_types": wanted });
    let made = subscribe(&server, &body).await;
    assert_eq!((&made["portfolio_id"], &made["intent_id"]), (&json!(portfolio), &Value::Null));
    for id in ["one", "two"] {
        intent.done("/suspend", &record(&json!({ "id": id }))).await;
        let answer = json!({ "suspension_id": id, "value": "yes" });
        assert_eq!(intent.respond(&answer).await.0, StatusCode::OK);
        server.settle().await;
    }
    receiver.await_posts(2).await;
    // It failed, and is due in a while.
    let began = std::time::Instant::now();
    while receiver.heard().len() < 5 {
        assert!(began.elapsed() < PATIENCE, "{:?}", types(&receiver.heard()));
        server.advance(60_000).await;
    }
    let told = types(&receiver.await_posts(5).await);
    let (suspended, resumed) = ("portfolio.member_suspended", "portfolio.member_resumed");
    assert_eq!(told, [suspended, resumed, resumed, suspended, resumed]);
}

#[tokio::test]
async fn a_subscription_is_over_at_its_time_and_when_it_is_given_up() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let server = started(&site);
    let intent = Intent::new(&server).await;
    let (_, clock) = server.get("/v1/dev/clock").await;
    let now = clock["now"].as_str().unwrap();
    let gone = subscribe(&server, &json!({ "intent_id": intent.id(), "webhook_url": receiver.url })).await;
    let body = json!({ "intent_id": intent.id(), "webhook_url": receiver.url, "expires_at": now });
    let over = subscribe(&server, &body).await;
    let kept = subscribe(&server, &json!({ "intent_id": intent.id(), "webhook_url": receiver.url })).await;
    let record = subscribe(&server, &json!({ "intent_id": intent.id() })).await;
    assert_eq!((&over["active"], &kept["active"]), (&json!(false), &json!(true)));
    let ids: Vec<Value> = subscriptions(&server, "ann").await.iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids.len(), 4);
    assert!([&gone, &over, &kept, &record].iter().all(|one| ids.contains(&one["id"])), "{ids:?}");
    assert!(subscriptions(&server, "ben").await.is_empty(), "everybody sees their own");
    let path = format!("{SUBSCRIPTIONS}/{}", gone["id"].as_str().unwrap());
    assert_eq!(answer(asked(&server, Method::DELETE, &path)).await.unwrap().0, StatusCode::NO_CONTENT);
    assert_eq!(answer(asked(&server, Method::DELETE, &path)).await.unwrap().0, StatusCode::NOT_FOUND);
    intent.done("/status", &json!({ "status": "completed" })).await;
    let posts = receiver.await_posts(1).await;
    assert_eq!(posts[0].json()["subscription_id"], kept["id"]);
    // What is on its way to the others would be gone by now.
    let (_, shown) = server.get(&format!("/v1/webhooks/{}", over["id"].as_str().unwrap())).await;
    assert_eq!((&shown["pending"], &shown["delivered"]), (&json!(0), &json!(0)), "{shown}");
    assert_eq!(shown["runId"], intent.run());
}

#[tokio::test]
async fn whoever_is_let_in_no_more_hears_no_more() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let server = started(&site);
    let intent = Intent::new(&server).await;
    let closed = |entries: Value| json!({ "default_policy": "closed", "entries": entries });
    let put = async |access: Value| {
        let request = asked(&server, Method::PUT, &format!("/api/v1/intents/{}/acl", intent.id()));
        let (status, told) = answer(request.json(&access)).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{told}");
    };
    put(closed(json!([{ "principal_id": "bob", "principal_type": "agent", "permission": "read" }]))).await;
    let body = json!({ "intent_id": intent.id(), "webhook_url": receiver.url, "subscriber_id": "ann" });
    let request = asked_by(&server, "bob", Method::POST, SUBSCRIPTIONS).json(&body);
    let (status, made) = answer(request).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{made}");
    assert_eq!(made["subscriber_id"], "bob", "whoever asks is who has to be let in");
    intent.done("/state", &json!({ "state": { "n": 1 } })).await;
    receiver.await_posts(1).await;
    put(closed(json!([]))).await;
    intent.done("/state", &json!({ "state": { "n": 2 } })).await;
    intent.done("/status", &json!({ "status": "completed" })).await;
    let (began, path) = (std::time::Instant::now(), format!("/v1/webhooks/{}", made["id"].as_str().unwrap()));
    while server.get(&path).await.1["pending"] != 0 {
        assert!(began.elapsed() < PATIENCE, "it is not done with what it keeps to itself");
    }
    let told = types(&receiver.heard());
    assert_eq!(told, ["state_patched"], "neither who is let in nor what came after");
    let request = asked_by(&server, "bob", Method::GET, &format!("/api/v1/intents/{}", intent.id()));
    assert_eq!(answer(request).await.unwrap().0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_url_that_nothing_can_be_sent_to_is_refused_and_so_is_a_key_that_may_not() {
    let site = Site::new();
    let key = site.key("default").scopes("work:perform,runs:read").make();
    let server = started(&site);
    let intent = Intent::new(&server).await;
    for url in ["ftp://127.0.0.1/", "nonsense", "http://10.0.0.1/"] {
        let body = json!({ "intent_id": intent.id(), "webhook_url": url });
        let (status, told) = answer(asked(&server, Method::POST, SUBSCRIPTIONS).json(&body)).await.unwrap();
        assert_eq!(
            (status, &told["error"]),
            (StatusCode::BAD_REQUEST, &json!("webhook_url_rejected")),
            "{told}"
        );
    }
    let body = json!({ "intent_id": intent.id(), "webhook_url": "http://127.0.0.1:9/" });
    let request = server.anonymous(Method::POST, SUBSCRIPTIONS).header("X-API-Key", key.as_str());
    let (status, told) = answer(request.json(&body)).await.unwrap();
    assert_eq!(status, StatusCode::FORBIDDEN, "{told}");
    assert!(told.to_string().contains("webhooks:manage"), "{told}");
    assert!(subscriptions(&server, "ann").await.is_empty(), "nothing of it is kept");
}
