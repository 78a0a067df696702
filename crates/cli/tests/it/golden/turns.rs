//! What came with the eighth release: turns that wait for their provider, for its breaker, and for a tool that somebody
//! has to approve of.

use abide_core::{Json, ToolCall};
use abide_model::Protocol;
use abide_model::scripted::{ScriptedProvider, Step};
use serde_json::{Value, json};

use crate::support::{Server, Site, node, workflow};

/// The provider, by the name that its runs know it by.
const PROVIDER: &str = "frozen";

/// A configuration that names the provider. Its breaker opens as soon as most calls fail.
pub(super) fn configure(provider: &ScriptedProvider) -> String {
    let url = provider.base_url(Protocol::OpenAi);
    format!(
        "[providers.{PROVIDER}]\nkind = 'openai'\nbase-url = '{url}'\nmodel = 'ice'\nbreaker = {{ min-calls = 1 }}\n"
    )
}

pub(super) fn definitions() -> Vec<Value> {
    let ask = |id: &str, kind: &str, config: Value| {
        workflow(id, &[node("ask", kind, config, json!({}), json!({}))], &[], json!([]))
    };
    let tool = json!({
        "name": "pay", "kind": "core.identity", "approval": true,
        "parameters": { "type": "object", "properties": { "sum": { "type": "number" } } },
    });
    vec![
        ask("frozen-chat", "core.llm.chat", json!({ "provider": PROVIDER, "prompt": "Hello?" })),
        ask(
            "frozen-turn",
            "core.llm.turn",
            json!({ "provider": PROVIDER, "prompt": "Pay.", "tools": [tool] }),
        ),
    ]
}

/// One turn that waits for a tool, two for their next tries, and one for the breaker.
pub(super) async fn freeze(server: &Server, provider: &ScriptedProvider) {
    let arguments = Json::of(&json!({ "sum": 3 }));
    let call = ToolCall { id: "call_1".to_owned(), name: "pay".to_owned(), arguments };
    provider.script([Step::tool_calls([call])]);
    let paying = server.start_run("frozen-turn", json!({})).await;
    super::until(server, &paying, |run| run["status"] == "waiting-approval").await;
    provider.usually(Step::overloaded(529));
    // Half of the calls is not enough for the breaker, two of three are.
    for _ in 0..2 {
        let retrying = server.start_run("frozen-chat", json!({})).await;
        server.settle().await;
        assert_eq!(wait_of(server, &retrying).await["kind"], "retry");
    }
    let postponed = server.start_run("frozen-chat", json!({})).await;
    server.settle().await;
    assert_eq!(wait_of(server, &postponed).await["kind"], "breaker");
}

/// Has every turn that waits try its provider now: whoever is postponed is given up before the frozen time has passed.
pub(super) async fn retry(server: &Server, runs: &[(String, String)]) {
    for (run, _) in runs {
        if wait_of(server, run).await.is_null() {
            continue;
        }
        // The breaker is open until its cool-down is over.
        server.advance(300_000).await;
        server.settle().await;
        let path = format!("/v1/runs/{run}/turns/ask:retry");
        let (status, answer) = server.post(&path, &json!({})).await;
        assert!(status.is_success() || answer["error"] == "turn_not_waiting", "{answer}");
        server.settle().await;
    }
}

async fn wait_of(server: &Server, run: &str) -> Value {
    let (_, turns) = server.get(&format!("/v1/runs/{run}/turns")).await;
    turns["turns"][0]["wait"].clone()
}

/// A directory's site with a provider that answers, and the configuration that names it.
pub(super) fn provide(site: &Site) -> (ScriptedProvider, String) {
    let provider = ScriptedProvider::start();
    let path = site.data().with_file_name("providers.toml");
    std::fs::write(&path, configure(&provider)).unwrap();
    (provider, path.to_str().unwrap().to_owned())
}
