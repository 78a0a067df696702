//! What happens elsewhere: events that find whoever waits for them, and URLs that are told what waits.

use super::*;
use crate::receiver::{ALLOW, Receiver};

async fn tell(server: &Server, id: &str, kind: &str, payload: &Value) -> (StatusCode, Value) {
    let event = json!({ "eventId": id, "eventType": kind, "eventPayload": payload });
    server.post("/v1/external-events", &event).await
}

/// Starts a run that waits for this order to be paid.
async fn unpaid(server: &Server, order: i64) -> String {
    let data = json!({ "eventType": "paid", "correlation": { "order": order } });
    ask(server, "external-event", &data, &json!({})).await
}

#[tokio::test]
async fn an_event_finds_those_who_wait_for_it_and_a_repeat_is_no_error() {
    let site = Site::new();
    let shop = site.key("default").principal("shop").make();
    let server = site.start(&["--test-clock"]);
    let (seven, eight) = (unpaid(&server, 7).await, unpaid(&server, 8).await);
    let id = shown(&server, &seven).await["interrupt"]["interruptId"].clone();
    let payload = json!({ "order": 7, "amount": 120 });
    let event = json!({ "eventId": "evt-1", "eventType": "paid", "eventPayload": payload });
    for duplicate in [false, true] {
        let (status, body) = server.ask_as(&shop, Method::POST, "/v1/external-events", Some(&event)).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let delivered = json!([{ "runId": seven, "nodeId": "gate", "interruptId": id }]);
        let expected =
            json!({ "eventId": "evt-1", "delivered": delivered, "kept": false, "duplicate": duplicate });
        assert_eq!(body, expected);
    }
    let events = server.events(&seven).await;
    let resolved = &the(&events, "interrupt.resolved")["payload"];
    assert_eq!(resolved["resumeValue"], json!({ "eventPayload": payload }));
    assert_eq!(resolved["resolvedBy"], "shop");
    assert_eq!(shown(&server, &eight).await["status"], "waiting-external");
}

#[tokio::test]
async fn an_event_that_comes_early_is_kept_for_whoever_asks_for_it() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let (status, body) = tell(&server, "evt-1", "paid", &json!({ "order": 7 })).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    assert_eq!(body, json!({ "eventId": "evt-1", "delivered": [], "kept": true, "duplicate": false }));
    let run = unpaid(&server, 7).await;
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["status"], "completed");
}

#[tokio::test]
async fn an_event_is_told_with_everything_that_belongs_to_it() {
    let site = Site::new();
    let reader = site.key("default").scopes("runs:read").make();
    let server = site.start(&["--test-clock"]);
    let whole = json!({ "eventId": "e", "eventType": "paid", "eventPayload": null });
    for (name, wrong) in
        [("eventId", json!("")), ("eventType", json!("")), ("eventId", json!(7)), ("more", json!(1))]
    {
        let mut event = whole.clone();
        event[name] = wrong;
        refusal(server.post("/v1/external-events", &event).await, "validation_error");
    }
    for name in ["eventId", "eventType", "eventPayload"] {
        let mut event = whole.clone();
        event.as_object_mut().unwrap().remove(name);
        refusal(server.post("/v1/external-events", &event).await, "validation_error");
    }
    let refused = server.ask_as(&reader, Method::POST, "/v1/external-events", Some(&whole)).await;
    assert_eq!(refusal(refused, "forbidden"), json!({ "scopeRequired": "approvals:respond" }));
    assert_eq!(tell(&server, "e", "paid", &json!(1)).await.0, StatusCode::ACCEPTED);
    refusal(tell(&server, "e", "paid", &json!(2)).await, "event_id_conflict");
}

#[tokio::test]
async fn events_of_one_tenant_are_nothing_to_another() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let run = unpaid(&server, 7).await;
    let event = json!({ "eventId": "evt-1", "eventType": "paid", "eventPayload": { "order": 7 } });
    let (status, body) = server.ask_as(&stranger, Method::POST, "/v1/external-events", Some(&event)).await;
    assert_eq!((status, &body["delivered"]), (StatusCode::ACCEPTED, &json!([])));
    assert_eq!(shown(&server, &run).await["status"], "waiting-external");
}

#[tokio::test]
async fn a_url_that_is_told_can_answer_and_is_recorded_as_a_system() {
    let site = Site::new();
    let receiver = Receiver::start().await;
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    push(&server, &review(&json!({}))).await;
    let start = async || {
        let body = json!({ "workflowId": "review", "callbackUrl": receiver.url });
        let (status, body) = server.post("/v1/runs", &body).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        body["runId"].as_str().unwrap().to_owned()
    };
    let run = start().await;
    let told = receiver.await_posts(1).await[0].json();
    assert_eq!((&told["runId"], &told["nodeId"]), (&json!(run), &json!("gate")));
    let token = told["interruptToken"].as_str().unwrap();
    assert_eq!(answer_by(&server, token, &accept()).await.0, StatusCode::OK);
    let events = server.events(&run).await;
    assert_eq!(the(&events, "interrupt.resolved")["payload"]["resolvedBy"], "system:callback");
    assert_eq!(the(&events, "approval.received")["payload"]["decidedBy"], "system:callback");
    // A gate that wants a key does not care who sent the token.
    push(&server, &review(&json!({ "profile": "openwop-interrupt-auth-required" }))).await;
    let run = start().await;
    let told = receiver.await_posts(2).await[1].json();
    refusal(answer_by(&server, told["interruptToken"].as_str().unwrap(), &accept()).await, "forbidden");
    assert_eq!(shown(&server, &run).await["status"], "waiting-approval");
}
