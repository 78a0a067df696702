//! `abide ladder explain`, and choices on the command line.

use super::*;

fn choosing() -> serde_json::Value {
    let config = json!({ "question": "Proceed?", "responseType": "choice", "choices": [
        { "value": "go", "label": "Proceed", "description": "The report is sent." },
        { "value": "stop", "label": "Stop here" },
    ] });
    let settings = json!({ "abide": { "ladder": { "fallback_value": "stop", "retry_policy": {
        "max_attempts": 3, "interval_seconds": 3600, "final_fallback_policy": "complete_with_fallback",
        "escalation_ladder": [{ "attempt": 2, "channel_hint": "pager", "notify_to": "group:oncall" }],
    } } } });
    workflow("report", &[node("review", "core.hitl.ask-user", config, json!({}), settings)], &[], json!([]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ladder_is_explained_while_it_is_climbed_and_afterwards() {
    let site = site();
    site.workflow(&choosing());
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("report", json!({})).await;
    server.settle().await;
    let (_, shown) = server.get(&format!("/v1/runs/{run}")).await;
    let id = shown["interrupt"]["interruptId"].as_str().unwrap().to_owned();
    for target in [&run, &id] {
        let said = stdout(&server.cli(&["ladder", "explain", target])).to_owned();
        for text in [
            "Proceed?\n",
            "open; next: attempt 2 of 3, ",
            "(in 1 h 0 min)",
            "3 attempts, one every 1 h 0 min; then it goes on with",
            "group:oncall",
            "planned",
        ] {
            assert!(said.contains(text), "{text}: {said}");
        }
    }
    let json = stdout(&server.cli(&["ladder", "explain", &id, "--json"])).to_owned();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["interruptId"], &json["levels"]["max_attempts"]), (&json!(id), &json!("call")));

    // What is written on a choice is as good as its value.
    let output = server.cli(&["answer", &run, "--answer", "answer=stop here"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said = stdout(&server.cli(&["ladder", "explain", &run, &id])).to_owned();
    assert!(said.contains("answered by dev, ") && !said.contains("planned"), "{said}");
    let gone = server.cli(&["ladder", "explain", &id]);
    assert_eq!(code(&gone), 4, "{gone:?}");
    assert!(stderr(&gone).contains("abide ladder explain RUN INTERRUPT"), "{gone:?}");
}
