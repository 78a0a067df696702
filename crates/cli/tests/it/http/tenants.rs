//! What belongs to another tenant looks like what never was.

use super::*;
use crate::receiver::ALLOW;

#[tokio::test]
async fn another_tenants_run_is_answered_like_one_that_never_was() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let unknown = "run-00000000-0000-7000-8000-000000000000";
    let before = site.rows();
    for (method, tail) in [
        (Method::GET, ""),
        (Method::GET, "/events/poll"),
        (Method::GET, "/events/poll?lastSequence=1&timeout=60"),
        (Method::POST, "/cancel"),
        (Method::GET, "/why"),
        (Method::POST, "/erase"),
    ] {
        let ask = async |id: &str| {
            let path = format!("/v1/runs/{id}{tail}");
            let request = server.request_as(&stranger, method.clone(), &path);
            let response = request.send().await.unwrap();
            let headers: Vec<String> = response.headers().keys().map(ToString::to_string).collect();
            let (status, text) = (response.status(), response.text().await.unwrap());
            (status, headers, text.replace(id, "<run>"))
        };
        let (theirs, nobodys) = (ask(&run).await, ask(unknown).await);
        assert_eq!(theirs, nobodys, "{method} {tail}");
        let body = serde_json::from_str(&theirs.2).unwrap();
        refusal((theirs.0, body), "run_not_found");
    }
    assert_eq!(site.rows(), before);
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "running");
}

#[tokio::test]
async fn a_list_holds_the_runs_of_its_tenant_alone() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let mine = server.start_run("parked", json!({})).await;
    let start = server
        .request_as(&stranger, Method::POST, "/v1/runs")
        .json(&json!({ "workflowId": "parked", "tenantId": "other" }));
    let (status, started) = answer(start).await.unwrap();
    assert_eq!(status, StatusCode::CREATED, "{started}");
    let theirs = started["runId"].as_str().unwrap();
    let ids = |body: &Value| -> Vec<String> {
        let runs = body["runs"].as_array().unwrap().iter();
        runs.map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
    };
    for query in ["", "?status=running", &format!("?cursor={theirs}"), "?limit=1"] {
        let (_, body) = server.get(&format!("/v1/runs{query}")).await;
        assert_eq!(ids(&body), [mine.as_str()], "{query}");
    }
    let list = server.request_as(&stranger, Method::GET, "/v1/runs");
    assert_eq!(ids(&answer(list).await.unwrap().1), [theirs]);
}

#[tokio::test]
async fn who_acted_is_on_record_under_each_tenant() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let start =
        server.request_as(&stranger, Method::POST, "/v1/runs").json(&json!({ "workflowId": "parked" }));
    let (_, started) = answer(start).await.unwrap();
    let path = format!("/v1/runs/{}", started["runId"].as_str().unwrap());
    answer(server.request_as(&stranger, Method::POST, &format!("{path}/cancel"))).await.unwrap();
    let (_, page) =
        answer(server.request_as(&stranger, Method::GET, &format!("{path}/events/poll"))).await.unwrap();
    assert_eq!(page["events"][0]["payload"]["by"], "operator");
    assert_eq!(page["events"][3]["payload"]["cancelledBy"], "operator");
}

/// A worker of this server's own tenant: its session.
async fn introduce(server: &Server) -> String {
    let session = "11111111-1111-4111-8111-111111111111";
    let body = json!({
        "protocol": 1, "session": session, "agent": "ada", "capacity": 1, "kinds": [{ "kind": "acme.work" }],
    });
    let (status, registered) = server.post("/v1/workers", &body).await;
    assert_eq!(status, StatusCode::OK, "{registered}");
    session.to_owned()
}

/// An id of this server's own tenant and one that never was, for each parameter that a path may have.
async fn ids(server: &Server, parameter: &str) -> [String; 2] {
    match parameter {
        "runId" => {
            let run = server.start_run("parked", json!({})).await;
            [run, "run-00000000-0000-7000-8000-000000000000".to_owned()]
        }
        "workflowId" => {
            let mut pushed = parked();
            pushed["id"] = json!("pushed-here");
            push(server, &pushed).await;
            ["pushed-here".to_owned(), "never-pushed".to_owned()]
        }
        "principal" => {
            let body = json!({ "displayName": "Ada" });
            server.ask_as(&server.key, Method::PUT, "/v1/people/ada", Some(&body)).await;
            ["ada".to_owned(), "eve".to_owned()]
        }
        "keyId" => ["dev".to_owned(), "eve".to_owned()],
        "name" => {
            set_secret(server, "TOKEN", "a value").await;
            ["TOKEN".to_owned(), "NOBODY".to_owned()]
        }
        "webhookId" => {
            let body = json!({ "url": "http://127.0.0.1:9/", "events": ["run.failed"] });
            let (status, added) = server.post("/v1/webhooks", &body).await;
            assert_eq!(status, StatusCode::CREATED, "{added}");
            let id = added["webhookId"].as_str().unwrap();
            [id.to_owned(), id.chars().rev().collect()]
        }
        "agentName" => {
            let body = json!({ "default_human_retry_policy": null });
            server.ask_as(&server.key, Method::PUT, "/v1/agent-records/bot", Some(&body)).await;
            ["bot".to_owned(), "eve".to_owned()]
        }
        "kind" => {
            introduce(server).await;
            ["acme.work".to_owned(), "acme.none".to_owned()]
        }
        "session" => [introduce(server).await, "00000000-0000-4000-8000-000000000000".to_owned()],
        "groupId" => {
            let (status, made) = server.post("/v1/groups", &json!({ "name": "g" })).await;
            assert_eq!(status, StatusCode::CREATED, "{made}");
            let id = made["groupId"].as_str().unwrap();
            [id.to_owned(), "run-00000000-0000-7000-8000-000000000000".to_owned()]
        }
        // Whose it is follows from the run that waits.
        "upstreamId" => ["run-00000000-0000-7000-8000-000000000000"; 2].map(str::to_owned),
        // Whose it is follows from the worker's session.
        "task" => ["00".repeat(21), "00".repeat(21)],
        // Whose it is follows from the run.
        "interruptId" => ["any".to_owned(), "any".to_owned()],
        "artifactId" => ["any".to_owned(), "any".to_owned()],
        // Whoever has a token is of its tenant; one that was not given out is nobody's.
        "token" => ["tok_1".to_owned(), "tok_2".to_owned()],
        other => panic!("say here what a foreign and what an unknown {other} is"),
    }
}

#[tokio::test]
async fn whatever_is_read_or_removed_by_its_id_is_another_tenants_or_never_was_in_the_same_bytes() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock", ALLOW[0], ALLOW[1]]);
    let (_, document) = server.get("/v1/openapi.json").await;
    let mut compared = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let parameters: Vec<&str> =
            path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
        for method in [Method::GET, Method::DELETE] {
            if parameters.is_empty() || item.get(method.as_str().to_lowercase()).is_none() {
                continue;
            }
            let pairs = parameters.iter().map(|parameter| ids(&server, parameter));
            let pairs = futures_util::future::join_all(pairs).await;
            let mut answers = Vec::new();
            for side in [0, 1] {
                let named = parameters.iter().zip(&pairs);
                let path = named.fold(path.clone(), |path, (parameter, pair)| {
                    path.replace(&format!("{{{parameter}}}"), &pair[side])
                });
                let id = &pairs[0][side];
                let response = server.request_as(&stranger, method.clone(), &path).send().await.unwrap();
                let headers: Vec<String> = response.headers().keys().map(ToString::to_string).collect();
                let (status, text) = (response.status(), response.text().await.unwrap());
                assert_eq!(status, StatusCode::NOT_FOUND, "{method} {path}: {text}");
                answers.push((headers, text.replace(id, "<id>")));
            }
            assert_eq!(answers[0], answers[1], "{method} {path}");
            compared += 1;
        }
    }
    assert!(compared >= 9, "{compared}");
}
