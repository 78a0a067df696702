//! Artifacts: what the nodes of a run made, read from its journal.

use super::*;

/// Makes a report twice over, one of them with something that is never shown.
fn reporter() -> Value {
    let made = |id: &str, kind: &str| {
        let config = json!({ "outputs": { "pages": "3.0", "token": "'t-4711'" } });
        let mut node = node(id, "core.transform", config, json!({}), json!({}));
        node["artifactType"] = json!(kind);
        node
    };
    let mut hidden = made("hidden", "letter");
    hidden["outputSensitivity"] = json!({ "token": true });
    let plain = node("plain", "core.noop", json!({}), json!({}), json!({}));
    workflow(
        "reporter",
        &[made("open", "report"), hidden, plain],
        &[("open", "hidden"), ("hidden", "plain")],
        json!([]),
    )
}

async fn listed(server: &Server, run: &str) -> Vec<Value> {
    let (status, body) = server.get(&format!("/v1/runs/{run}/artifacts")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    body["artifacts"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_nodes_made_can_be_listed_and_read() {
    let site = site();
    let server = site.start(&[]);
    push(&server, &reporter()).await;
    let run = server.start_run("reporter", json!({})).await;
    let events = server.events(&run).await;
    let created: Vec<&Value> = events.iter().filter(|event| event["type"] == "artifact.created").collect();
    let artifacts = listed(&server, &run).await;
    assert_eq!(artifacts.len(), 2);
    for (event, artifact) in created.iter().zip(&artifacts) {
        let expected = json!({
            "artifactId": event["payload"]["artifactId"], "artifactType": event["payload"]["artifactType"],
            "nodeId": event["nodeId"], "createdAt": event["timestamp"], "sequence": event["sequence"],
        });
        assert_eq!(*artifact, expected);
    }
    let data = [json!({ "pages": 3.0, "token": "t-4711" }), json!({ "pages": 3.0, "token": "[masked]" })];
    for (artifact, data) in artifacts.iter().zip(&data) {
        let (status, shown) = server
            .get(&format!("/v1/runs/{run}/artifacts/{}", artifact["artifactId"].as_str().unwrap()))
            .await;
        let expected = json!({
            "artifactId": artifact["artifactId"], "runId": run, "nodeId": artifact["nodeId"],
            "artifactType": artifact["artifactType"], "createdAt": artifact["createdAt"], "data": data,
        });
        assert_eq!((status, shown), (StatusCode::OK, expected));
    }
    let (_, page) = server.get(&format!("/v1/runs/{run}/artifacts?limit=1")).await;
    let next = page["nextCursor"].as_str().unwrap();
    let (_, rest) = server.get(&format!("/v1/runs/{run}/artifacts?limit=1&cursor={next}")).await;
    assert_eq!([&page["artifacts"][0], &rest["artifacts"][0]], [&artifacts[0], &artifacts[1]]);
    assert_eq!(rest["nextCursor"], Value::Null);
}

#[tokio::test]
async fn without_a_key_nobody_learns_whether_there_is_one() {
    let site = site();
    let other = site.new_key("other");
    let server = site.start(&[]);
    push(&server, &reporter()).await;
    let run = server.start_run("reporter", json!({})).await;
    server.events(&run).await;
    let there = listed(&server, &run).await[0]["artifactId"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{run}/artifacts/{there}");
    for path in [&path, "/v1/runs/nonsense/artifacts/nothing", &format!("/v1/runs/{run}/artifacts")] {
        refusal(answer(server.anonymous(Method::GET, path)).await.unwrap(), "unauthenticated");
        refusal(answer(server.request_as(&other, Method::GET, path)).await.unwrap(), "run_not_found");
    }
    refusal(server.get(&format!("/v1/runs/{run}/artifacts/nothing")).await, "artifact_not_found");
    refusal(server.get(&format!("/v1/runs/{run}/artifacts/%FF")).await, "artifact_not_found");
    let plain = server.start_run("failing", json!({})).await;
    server.events(&plain).await;
    assert_eq!(listed(&server, &plain).await, Vec::<Value>::new());
    refusal(server.get(&format!("/v1/runs/{plain}/artifacts/{there}")).await, "artifact_not_found");
}

#[tokio::test]
async fn what_was_made_is_erased_with_the_run() {
    let site = site();
    let server = site.start(&[]);
    push(&server, &reporter()).await;
    let run = server.start_run("reporter", json!({})).await;
    server.events(&run).await;
    let id = listed(&server, &run).await[0]["artifactId"].as_str().unwrap().to_owned();
    server.post(&format!("/v1/runs/{run}/erase"), &json!({})).await;
    refusal(server.get(&format!("/v1/runs/{run}/artifacts")).await, "run_erased");
    refusal(server.get(&format!("/v1/runs/{run}/artifacts/{id}")).await, "run_erased");
}
