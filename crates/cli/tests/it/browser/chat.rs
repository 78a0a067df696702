//! A turn of a conversation, as people meet it: what was said before, and a field. No script is needed.

use reqwest::StatusCode;

use super::*;

/// The path of the page behind the token that a run shows.
async fn link(server: &Server, run: &str) -> String {
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    format!(
        "/answer/{}",
        shown["interrupt"]["interruptToken"].as_str().unwrap_or_else(|| panic!("{shown:#}"))
    )
}

#[tokio::test]
async fn earlier_turns_stand_above_the_field_and_what_is_written_is_the_answer() {
    let site = Site::new();
    let config =
        json!({ "title": "Refund", "initialPrompt": "Hello & welcome", "prompts": ["Which order?", "Why?"] });
    let talk = node("talk", "core.conversationGate", config, json!({}), json!({}));
    site.workflow(&workflow("talk", &[talk], &[], json!([])));
    let server = site.start(&["--test-clock"]);
    let person = Person::at(&server);
    let run = server.start_run("talk", json!({})).await;
    let first = link(&server, &run).await;
    let page = person.get(&first).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.html);
    assert!(page.says("<h1>Which order?</h1>") && page.says("Hello &#38; welcome"), "{}", page.html);
    assert!(!page.says("as JSON"), "{}", page.html);
    person.post(&first, &[("q0", "number 7")]).await;
    let second = link(&server, &run).await;
    let page = person.get(&second).await;
    let places = ["Hello &#38; welcome", "Which order?", "number 7", "<form class=\"answer\""]
        .map(|text| page.html.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {}", page.html);
    person.post(&second, &[("q0", "it is broken")]).await;
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        (&shown["status"], &shown["nodeStates"]["talk"]["outputs"]["outcome"]),
        (&json!("completed"), &json!("it is broken"))
    );
}
