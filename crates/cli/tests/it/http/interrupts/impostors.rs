//! Those who may not answer where a node says who may: whatever is asked, and by whichever way they try.

use super::*;

/// Pushes a gate of a kind that only these may answer.
async fn restricted(server: &Server, kind: &str, data: &Value, respondents: &Value) -> String {
    let settings = json!({ "abide": { "respondents": respondents } });
    let config = json!({ "kind": kind, "data": data });
    push(server, &gated("restricted", node("gate", "core.interrupt", config, json!({}), settings))).await;
    server.start_run("restricted", json!({})).await
}

async fn enter(server: &Server, principal: &str, body: &Value) {
    let path = format!("/v1/people/{principal}");
    let (status, body) = server.ask_as(&server.key, Method::PUT, &path, Some(body)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

#[tokio::test]
async fn only_respondents_answer_whatever_is_asked_and_by_whichever_way() {
    let site = Site::new();
    let (mallory, ada) =
        (site.key("default").principal("mallory").make(), site.key("default").principal("ada").make());
    let posing = site.key("default").principal("group:finance").make();
    let server = site.start(&["--test-clock"]);
    enter(&server, "ada", &json!({ "groups": ["finance"] })).await;
    enter(&server, "mallory", &json!({ "groups": ["sales"], "roles": ["finance"] })).await;
    for (kind, data, value, status) in kinds() {
        let run = restricted(&server, kind, &data, &json!(["group:finance", "boss"])).await;
        for key in [&mallory, &posing] {
            refusal(answer_as(&server, key, &run, &value).await, "forbidden");
            let token = token_as(&server, key, &run).await;
            refusal(answer_by(&server, &token, &value).await, "forbidden");
        }
        assert_eq!(shown(&server, &run).await["status"], status, "{kind}");
        let answered = match kind {
            "custom" => answer_by(&server, &token_as(&server, &ada, &run).await, &value).await,
            _ => answer_as(&server, &ada, &run, &value).await,
        };
        assert_eq!(answered.0, StatusCode::OK, "{kind}: {}", answered.1);
    }
}

#[tokio::test]
async fn a_role_is_what_a_key_shows_or_the_directory_knows() {
    let site = Site::new();
    let shows = site.key("default").principal("ben").roles("boss").make();
    let known = site.key("default").principal("eve").make();
    let speaks = site.key("default").principal("bot").roles("boss").act_as().make();
    let server = site.start(&["--test-clock"]);
    let approval = kinds().remove(0).1;
    let gate = async || restricted(&server, "approval", &approval, &json!(["role:boss"])).await;
    let run = gate().await;
    refusal(answer_as(&server, &known, &run, &accept()).await, "forbidden");
    let for_eve = json!({ "action": "accept", "decidedBy": "eve" });
    refusal(answer_as(&server, &speaks, &run, &for_eve).await, "forbidden");
    assert_eq!(answer_as(&server, &shows, &run, &accept()).await.0, StatusCode::OK);
    enter(&server, "eve", &json!({ "roles": ["boss"] })).await;
    assert_eq!(answer_as(&server, &known, &gate().await, &accept()).await.0, StatusCode::OK);
    assert_eq!(answer_as(&server, &speaks, &gate().await, &for_eve).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_event_answers_only_what_its_sender_may() {
    let site = Site::new();
    let (mallory, shop) =
        (site.key("default").principal("mallory").make(), site.key("default").principal("shop").make());
    let server = site.start(&["--test-clock"]);
    let data = json!({ "eventType": "paid", "correlation": { "order": 7 } });
    let event = |id: &str| json!({ "eventId": id, "eventType": "paid", "eventPayload": { "order": 7 } });
    let told = async |key: &str, id: &str| {
        server.ask_as(key, Method::POST, "/v1/external-events", Some(&event(id))).await
    };
    let run = restricted(&server, "external-event", &data, &json!(["shop"])).await;
    let (status, body) = told(&mallory, "evt-1").await;
    assert_eq!((status, &body["delivered"]), (StatusCode::ACCEPTED, &json!([])), "{body}");
    assert_eq!(shown(&server, &run).await["status"], "waiting-external");
    let (status, body) = told(&shop, "evt-2").await;
    assert_eq!((status, &body["delivered"][0]["runId"]), (StatusCode::OK, &json!(run)), "{body}");
    // The one that nobody took is kept, and does not answer whoever asks later either.
    let next = restricted(&server, "external-event", &data, &json!(["group:shops"])).await;
    server.settle().await;
    assert_eq!(shown(&server, &next).await["status"], "waiting-external");
    enter(&server, "shop", &json!({ "groups": ["shops"] })).await;
    assert_eq!(told(&shop, "evt-3").await.0, StatusCode::OK);
    server.events(&next).await;
    assert_eq!(shown(&server, &next).await["status"], "completed");
}
