//! What OpenWOP's public tests say to a model that is not there, and what a subscriber hears of it.

use super::*;

/// A workflow whose only node asks a model, and has nothing to say to it.
fn stream_text() -> Value {
    let config = json!({ "promptId": "tests.say-it", "expectsStreaming": true });
    workflow("stream-text", &[node("ai", "core.ai.callPrompt", config, json!({}), json!({}))], &[], json!([]))
}

fn started(server: &Server, mock: &Value) -> impl Future<Output = (StatusCode, Value)> {
    let body = json!({ "workflowId": "stream-text", "configurable": { "mockProvider": mock } });
    async move { server.post("/v1/runs", &body).await }
}

fn says(tokens: &[&str]) -> Value {
    let usage = json!({ "promptTokens": 5, "completionTokens": 4, "totalTokens": 9 });
    let config = json!({ "tokens": tokens, "delayMsPerToken": 1, "finishReason": "length", "usage": usage });
    json!({ "id": "stream-text", "config": config })
}

/// The chunks of a run, as whoever follows its messages gets them.
async fn chunks(server: &Server, run: &str) -> Vec<Value> {
    let frames = frames(server, run, "streamMode=messages", None).await;
    assert!(frames.iter().all(|frame| frame.event == "ai.message.chunk"), "{frames:?}");
    frames.into_iter().map(|frame| frame.data["payload"].clone()).collect()
}

#[tokio::test]
async fn a_mock_says_its_tokens_one_by_one_and_with_the_last_how_it_ended() {
    let site = Site::new();
    site.workflow(&stream_text());
    let server = site.start(&["--conformance"]);
    let (status, run) = started(&server, &says(&["Good", " ", "morning", "!"])).await;
    assert_eq!(status, StatusCode::CREATED, "{run}");
    let run = run["runId"].as_str().unwrap();
    let heard = chunks(&server, run).await;
    let words: Vec<&Value> = heard.iter().map(|chunk| &chunk["chunk"]).collect();
    assert_eq!(words, ["Good", " ", "morning", "!"]);
    let last: Vec<&Value> = heard.iter().map(|chunk| &chunk["isLast"]).collect();
    assert_eq!(last, [false, false, false, true]);
    for chunk in &heard {
        assert_eq!((&chunk["runId"], &chunk["nodeId"]), (&json!(run), &json!("ai")));
    }
    let meta = &heard[3]["meta"];
    assert_eq!(meta["finishReason"], "length");
    assert_eq!(meta["model"], "mock-stream-text-v1");
    assert_eq!(meta["usage"], json!({ "promptTokens": 5, "completionTokens": 4, "totalTokens": 9 }));
    assert!(heard[..3].iter().all(|chunk| chunk["meta"].get("usage").is_none()), "{heard:?}");
    let (_, ended) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["nodeStates"]["ai"]["outputs"]["text"], "Good morning!");
}

#[tokio::test]
async fn a_mock_of_which_nothing_is_said_says_what_the_protocol_has_it_say() {
    let site = Site::new();
    site.workflow(&stream_text());
    let server = site.start(&["--conformance"]);
    let (_, run) = started(&server, &json!({ "id": "stream-text" })).await;
    let heard = chunks(&server, run["runId"].as_str().unwrap()).await;
    let words: Vec<&Value> = heard.iter().map(|chunk| &chunk["chunk"]).collect();
    assert_eq!(words, ["mock", " response"]);
    assert_eq!(heard[1]["meta"]["finishReason"], "stop");
}

#[tokio::test]
async fn mocks_are_told_and_taken_by_servers_under_test_alone() {
    let site = Site::new();
    site.workflow(&stream_text());
    let server = site.start(&["--conformance"]);
    let (_, told) = server.get("/.well-known/openwop").await;
    assert_eq!(told["testing"], json!({ "mockProviders": ["stream-text"] }));
    let rows = site.rows();
    let (status, refused) = started(&server, &json!({ "id": "oracle" })).await;
    assert_eq!((status, &refused["error"]), (StatusCode::BAD_REQUEST, &json!("unsupported_mock_provider")));
    assert_eq!(refused["details"]["supportedProviders"], json!(["stream-text"]));
    for nonsense in [json!({}), json!({ "id": "stream-text", "config": { "tokens": "all of them" } })] {
        let (status, refused) = started(&server, &nonsense).await;
        assert_eq!((status, &refused["error"]), (StatusCode::BAD_REQUEST, &json!("validation_error")));
    }
    assert_eq!(site.rows(), rows, "nothing was started");
    server.stop();
    let server = site.start(&[]);
    let (_, told) = server.get("/.well-known/openwop").await;
    assert!(told.get("testing").is_none());
    let (status, refused) = started(&server, &says(&["no"])).await;
    assert_eq!((status, &refused["error"]), (StatusCode::FORBIDDEN, &json!("mock_provider_forbidden")));
}
