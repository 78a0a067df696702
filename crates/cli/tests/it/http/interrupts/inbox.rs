//! The inbox: what waits for an answer, and nothing else.

use super::*;

async fn inbox(server: &Server, query: &str) -> Value {
    let (status, page) = server.get(&format!("/v1/interrupts{query}")).await;
    assert_eq!(status, StatusCode::OK, "{page}");
    page
}

fn runs(page: &Value) -> Vec<&str> {
    page["interrupts"].as_array().unwrap().iter().map(|entry| entry["runId"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_inbox_lists_what_waits_and_not_what_was_answered() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({}))).await;
    let mut started = Vec::new();
    for _ in 0..5 {
        started.push(server.start_run("review", json!({})).await);
        server.advance(1_000).await;
    }
    resolve(&server, &started[1], &accept()).await;
    cancel(&server, &started[3]).await;
    let page = inbox(&server, "").await;
    assert_eq!(runs(&page), [&started[0], &started[2], &started[4]]);
    assert_eq!(page["counts"], json!({ "total": 3, "byKind": { "approval": 3 } }));
    assert_eq!(page["nextCursor"], Value::Null);
}

#[tokio::test]
async fn an_entry_says_what_is_asked_where_and_for_how_long() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({ "approversList": ["ada"], "timeoutMs": HOUR_MS }))).await;
    let run = server.start_run("review", json!({})).await;
    let interrupt = shown(&server, &run).await["interrupt"].clone();
    let id = interrupt["interruptId"].as_str().unwrap();
    for age in [0, 90_000] {
        server.advance(age).await;
        let expected = json!({
            "interruptId": id, "runId": run, "nodeId": "gate", "workflowId": "review", "kind": "approval",
            "title": "Release 1.2?", "requestedAt": interrupt["requestedAt"], "ageMs": age,
            "deadline": interrupt["deadline"], "approvers": ["ada"], "link": format!("/inbox/{run}/{id}"),
        });
        assert_eq!(inbox(&server, "").await["interrupts"], json!([expected]));
    }
}

#[tokio::test]
async fn what_an_event_or_a_custom_kind_is_called_is_told_as_it_was_given() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let odd = "stripe.checkout/Ω completed";
    ask(&server, "external-event", &json!({ "eventType": odd, "correlation": { "a": 1 } }), &json!({})).await;
    ask(&server, "custom", &json!({ "customKind": odd, "payload": { "b": [2] } }), &json!({})).await;
    let page = inbox(&server, "").await;
    assert_eq!(page["interrupts"][0]["eventType"], odd);
    assert_eq!(page["interrupts"][1]["customKind"], odd);
}

#[tokio::test]
async fn each_tenant_sees_its_own() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let (server, mine) = waiting(&site).await;
    push_as(&server, &stranger, &review(&json!({}))).await;
    let theirs = start_as(&server, &stranger, "review").await.1["runId"].as_str().unwrap().to_owned();
    let (_, page) = server.ask_as(&stranger, Method::GET, "/v1/interrupts", None).await;
    assert_eq!(runs(&page), [&theirs]);
    assert_eq!(page["counts"]["total"], 1);
    assert_eq!(runs(&inbox(&server, "").await), [&mine]);
    assert_eq!(runs(&inbox(&server, &format!("?run={theirs}")).await), [""; 0]);
}

#[tokio::test]
async fn the_inbox_is_searched_by_kind_run_approver_title_and_age() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({ "approversList": ["ada"] }))).await;
    let named = server.start_run("review", json!({})).await;
    server.advance(60_000).await;
    let (kind, data, ..) = kinds().remove(3);
    let custom = ask(&server, kind, &data, &json!({})).await;
    for (query, expected) in [
        ("?kind=approval".to_owned(), vec![&named]),
        ("?kind=custom".to_owned(), vec![&custom]),
        ("?kind=clarification".to_owned(), vec![]),
        (format!("?run={custom}"), vec![&custom]),
        ("?workflowId=review".to_owned(), vec![&named]),
        ("?approver=ada".to_owned(), vec![&named, &custom]),
        ("?approver=bob".to_owned(), vec![&custom]),
        ("?title=RELEASE".to_owned(), vec![&named]),
        ("?title=nothing".to_owned(), vec![]),
        ("?olderThan=60000".to_owned(), vec![&named]),
        ("?olderThan=60001".to_owned(), vec![]),
        ("?kind=approval&approver=bob".to_owned(), vec![]),
    ] {
        let page = inbox(&server, &query).await;
        assert_eq!(runs(&page), expected, "{query}");
        assert_eq!(page["counts"]["total"], 2, "{query}");
    }
    for query in ["kind=vote", "run=nonsense", "olderThan=-1", "limit=0", "limit=501", "cursor=x", "more=1"] {
        refusal(server.get(&format!("/v1/interrupts?{query}")).await, "validation_error");
    }
}

#[tokio::test]
async fn pages_of_the_inbox_have_everything_once() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    push(&server, &review(&json!({}))).await;
    let mut started = Vec::new();
    for _ in 0..7 {
        started.push(server.start_run("review", json!({})).await);
    }
    let (mut seen, mut query) = (Vec::new(), "?limit=3".to_owned());
    loop {
        let page = inbox(&server, &query).await;
        seen.extend(runs(&page).into_iter().map(str::to_owned));
        let Some(next) = page["nextCursor"].as_str() else { break };
        query = format!("?limit=3&cursor={next}");
    }
    seen.sort();
    started.sort();
    assert_eq!(seen, started);
}

#[tokio::test]
async fn links_lead_to_where_the_operator_says_the_server_is() {
    let site = Site::new();
    let server = site.start(&["--test-clock", "--public-url", "https://abide.example/"]);
    push(&server, &review(&json!({}))).await;
    let run = server.start_run("review", json!({})).await;
    let interrupt = shown(&server, &run).await["interrupt"].clone();
    let id = interrupt["interruptId"].as_str().unwrap();
    let link = inbox(&server, "").await["interrupts"][0]["link"].clone();
    assert_eq!(link, format!("https://abide.example/inbox/{run}/{id}"));
    let token = interrupt["interruptToken"].as_str().unwrap();
    assert_eq!(interrupt["callbackUrl"], format!("https://abide.example/v1/interrupts/{token}"));
}
