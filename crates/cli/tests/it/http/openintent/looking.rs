//! What is listed and streamed: all of it, within bounds, whatever stands in a path or a header.

use tokio::task::JoinSet;

use super::wire::{Intent, asked, record};
use super::*;
use crate::stream::Stream;

/// Intents that wait for people, beside one that somebody is to look at: more than a page of the inbox.
const WAITING: usize = 520;

impl Intent<'_> {
    async fn assign(&self, agent: &str) {
        let path = format!("{}/agents", self.path);
        let request = asked(self.server, Method::POST, &path).json(&json!({ "agent_id": agent }));
        let (status, told) = answer(request).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{told}");
    }
}

async fn next(stream: &mut Stream) -> (String, String) {
    let frame = stream.next().await.unwrap();
    assert_eq!(frame.event, "AGENT_ASSIGNED");
    (frame.data["intent_id"].as_str().unwrap().to_owned(), frame.id.unwrap().to_string())
}

#[tokio::test]
async fn an_agent_hears_of_all_that_it_is_assigned_to_whichever_intent_is_older() {
    let site = Site::new();
    // Nothing of this takes any time.
    let server = site.start(&["--test-clock"]);
    let (older, newer) = (Intent::new(&server).await, Intent::new(&server).await);
    let path = "/api/v1/agents/x/subscribe";
    let mut stream = Stream::open(&server, path, None).await;
    newer.assign("x").await;
    let (told, place) = next(&mut stream).await;
    assert_eq!(told, newer.id());
    older.assign("x").await;
    assert_eq!(next(&mut stream).await.0, older.id());
    // Whoever comes back hears what they have not heard.
    let mut again = Stream::open(&server, path, Some(&place)).await;
    assert_eq!(next(&mut again).await.0, older.id());
    // Whoever comes with something else begins anew with what is not done.
    for other in ["1767603600000_019b8d36-7c80-7000-8000-000000000001_7", "999"] {
        let mut anew = Stream::open(&server, path, Some(other)).await;
        assert_eq!(
            (next(&mut anew).await.0, next(&mut anew).await.0),
            (newer.id().into(), older.id().into())
        );
    }
}

#[tokio::test]
async fn an_agent_that_came_back_hears_of_what_took_the_place_of_something_that_was_taken_back() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let (first, second) = (Intent::new(&server).await, Intent::new(&server).await);
    let path = "/api/v1/agents/x/subscribe";
    first.assign("x").await;
    let (_, place) = next(&mut Stream::open(&server, path, None).await).await;
    let request = asked(&server, Method::DELETE, &format!("{}/agents/x", first.path));
    assert!(answer(request).await.unwrap().0.is_success());
    second.assign("x").await;
    assert_eq!(next(&mut Stream::open(&server, path, Some(&place)).await).await.0, second.id());
}

#[tokio::test]
async fn whoever_has_seen_more_than_there_is_hears_what_happens_from_now_on() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    let path = format!("{}/subscribe", intent.path);
    let mut stream = Stream::open(&server, &path, Some(&u64::MAX.to_string())).await;
    intent.assign("x").await;
    assert_eq!(stream.next().await.unwrap().event, "agent_assigned");
}

#[tokio::test]
async fn a_list_passes_over_so_many_and_no_more() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    for list in ["/api/v1/intents?", "/api/v1/intents?status=active&", &format!("{}/events?", intent.path)] {
        for (offset, expected) in [(10_000, StatusCode::OK), (10_001, StatusCode::UNPROCESSABLE_ENTITY)] {
            let (status, told) =
                answer(asked(&server, Method::GET, &format!("{list}offset={offset}"))).await.unwrap();
            assert_eq!(status, expected, "{list} {told}");
        }
    }
}

#[tokio::test]
async fn numbers_stand_in_lists_as_they_were_written() {
    const NUMBER: &str = "12345678901234567890123";
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let made = async |path: &str| {
        let body = format!(r#"{{"title":"Count","state":{{"n":{NUMBER}}}}}"#);
        let request =
            asked(&server, Method::POST, path).header("content-type", "application/json").body(body);
        request.send().await.unwrap().text().await.unwrap()
    };
    let text =
        async |path: &str| asked(&server, Method::GET, path).send().await.unwrap().text().await.unwrap();
    let parent: Value = serde_json::from_str(&made("/api/v1/intents").await).unwrap();
    let parent = format!("/api/v1/intents/{}", parent["id"].as_str().unwrap());
    let child = made(&format!("{parent}/children")).await;
    assert!(child.contains(NUMBER), "{child}");
    let group = json!({ "name": "Sums", "created_by": "ann" });
    let (_, group) = answer(asked(&server, Method::POST, "/api/v1/portfolios").json(&group)).await.unwrap();
    let group = format!("/api/v1/portfolios/{}", group["id"].as_str().unwrap());
    let member = json!({ "intent_id": parent.rsplit('/').next().unwrap() });
    let request = asked(&server, Method::POST, &format!("{group}/intents")).json(&member);
    assert_eq!(answer(request).await.unwrap().0, StatusCode::OK);
    server.settle().await;
    for list in ["/api/v1/intents", &format!("{parent}/children"), &format!("{group}/intents"), &group] {
        let told = text(list).await;
        assert!(told.contains(NUMBER), "{list}: {told}");
    }
}

#[tokio::test]
async fn what_is_no_text_is_refused_in_words_that_the_client_reads() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    for path in
        ["intents/%FF", "intents/%FF/events", "portfolios/%C3", "tasks/%FF/claim", "agents/%FF/subscribe"]
    {
        let method = if path.ends_with("claim") { Method::POST } else { Method::GET };
        let request = asked(&server, method, &format!("/api/v1/{path}")).json(&json!({}));
        let (status, told) = answer(request).await.unwrap();
        assert_eq!((status, &told["error"]), (StatusCode::NOT_FOUND, &json!("not_found")), "{path}: {told}");
    }
    let intent = Intent::new(&server).await;
    let request = server.anonymous(Method::GET, &intent.path).header("X-API-Key", server.key.as_str());
    let (status, told) = answer(request.header("X-Agent-ID", "\u{dc}nsal".as_bytes())).await.unwrap();
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    assert!(told["message"].as_str().unwrap().starts_with("X-Agent-ID"), "{told}");
}

#[tokio::test]
async fn an_escalation_is_listed_behind_however_many_that_wait() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let mut made = JoinSet::new();
    for _ in 0..WAITING {
        let body = json!({ "title": "Wait", "status": "active" });
        let request = asked(&server, Method::POST, "/api/v1/intents").json(&body);
        made.spawn(async move { answer(request).await.unwrap().1["id"].as_str().unwrap().to_owned() });
    }
    let intents = made.join_all().await;
    let mut suspended = JoinSet::new();
    for id in intents {
        let path = format!("/api/v1/intents/{id}/suspend");
        let request = asked(&server, Method::POST, &path).json(&record(&json!({})));
        suspended.spawn(async move { answer(request).await.unwrap().0 });
    }
    assert!(suspended.join_all().await.iter().all(|status| *status == StatusCode::OK));
    server.advance(1).await;
    let intent = Intent::new(&server).await;
    let request = asked(&server, Method::POST, &format!("{}/escalations", intent.path));
    let (status, escalation) = answer(request.json(&json!({ "reason": "Odd" }))).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{escalation}");
    let list = async |rest: &str| {
        let path = format!("/api/v1/escalations{rest}");
        answer(asked(&server, Method::GET, &path)).await.unwrap()
    };
    let all = (StatusCode::OK, json!({ "escalations": [escalation], "truncated": false }));
    for rest in ["", "?status=pending", &format!("?intent_id={}", intent.id())] {
        assert_eq!(list(rest).await, all, "{rest}");
    }
    // What can't be told is not told as nothing.
    for (rest, expected) in [
        ("?status=resolved", StatusCode::UNPROCESSABLE_ENTITY),
        ("?intent_id=00000000-0000-4000-8000-000000000000", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(list(rest).await.0, expected, "{rest}");
    }
    let closed = json!({ "default_policy": "closed" });
    let request = asked(&server, Method::PUT, &format!("{}/acl", intent.path)).json(&closed);
    assert_eq!(answer(request).await.unwrap().0, StatusCode::OK);
    let path = format!("/api/v1/escalations?intent_id={}", intent.id());
    let stranger = |path: &str| {
        server
            .anonymous(Method::GET, path)
            .header("X-API-Key", server.key.as_str())
            .header("X-Agent-ID", "eve")
    };
    assert_eq!(answer(stranger(&path)).await.unwrap().0, StatusCode::FORBIDDEN);
    let (_, told) = answer(stranger("/api/v1/escalations")).await.unwrap();
    assert_eq!(told["escalations"], json!([]), "{told}");
}

/// What a client tells of that the server has told already is told once, however the client spells the rest.
#[tokio::test]
async fn what_a_client_tells_of_is_held_against_what_has_just_happened() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let intent = Intent::new(&server).await;
    let path = format!("{}/suspend", intent.path);
    let request = asked(&server, Method::POST, &path).json(&record(&json!({})));
    assert_eq!(answer(request).await.unwrap().0, StatusCode::OK);
    let post = async |kind: &str, question: &str| {
        let body = json!({ "event_type": kind, "actor": "ann", "payload": { "suspension_id": question } });
        let request = asked(&server, Method::POST, &format!("{}/events", intent.path)).json(&body);
        let (status, told) = answer(request).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{told}");
        told
    };
    let own = intent.events("intent.suspended").await;
    assert_eq!(post("intent.suspended", "s-1").await, own[0]);
    assert_eq!(post("intent.resumed", "none").await["sequence"], Value::Null);
    assert_eq!(intent.events("intent.suspended").await, own);
    assert_eq!(intent.events("intent.resumed").await.len(), 1);
}
