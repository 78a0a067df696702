//! Workflows: PUT, GET and list, versions, and checking without pushing.

use reqwest::header::{CONTENT_TYPE, ETAG};

use super::*;

/// A definition as nobody's serialiser would write it.
fn odd(id: &str, nodes: &str) -> String {
    format!(
        "\n{{ \"version\" : \"1.0\",\t\"name\":\"\\u0041 name\", \"id\":\"{id}\",\r\n \"nodes\": [{nodes}],\n \
         \"edges\":[], \"settings\": {{}}, \"metadata\":{{}}, \"triggers\":[], \"variables\" : [\n \
         {{\"name\":\"n\",\"type\":\"number\",\"defaultValue\": 1.0}},  {{\"type\":\"number\",\"name\":\"m\",\
         \"defaultValue\":1e2}}] }}\n"
    )
}

fn only_node(kind: &str, config: &Value) -> String {
    format!(
        r#"{{"typeId":"{kind}","id":"only","name":"only","position":{{"y":0,"x":0.50}},"config":{config},"inputs":{{}}}}"#
    )
}

async fn put(server: &Server, id: &str, kind: &str, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
    let request = server.request(Method::PUT, &format!("/v1/workflows/{id}")).header(CONTENT_TYPE, kind);
    answer(request.body(body)).await.unwrap()
}

async fn validate(server: &Server, kind: &str, body: impl Into<reqwest::Body>) -> Value {
    let request = server.request(Method::POST, "/v1/workflows:validate").header(CONTENT_TYPE, kind);
    let (status, body) = answer(request.body(body)).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{body}");
    body
}

#[tokio::test]
async fn a_pushed_workflow_comes_back_byte_for_byte_and_runs() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let source = odd("odd", &only_node("core.noop", &json!({})));
    let (status, pushed) = put(&server, "odd", "application/json", source.clone()).await;
    assert_eq!(status, StatusCode::CREATED, "{pushed}");
    let hash = pushed["hash"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    assert_eq!(pushed, json!({ "workflowId": "odd", "version": 1, "hash": hash, "created": true }));
    for path in ["/v1/workflows/odd", "/v1/workflows/odd?version=1", "/v1/workflows/%6Fdd"] {
        let response = server.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        assert_eq!(response.headers()[ETAG], format!("\"{hash}\""));
        assert_eq!(response.headers()["abide-workflow-version"], "1");
        assert_eq!(response.text().await.unwrap(), source);
    }
    let run = server.start_run("odd", json!({})).await;
    assert_eq!(server.events(&run).await[0]["payload"]["definition"], hash);
    assert_eq!(shown(&server, &run).await["variables"], json!({ "n": 1.0, "m": 100.0 }));
}

#[tokio::test]
async fn versions_count_up_and_the_same_content_makes_none() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let first = chain("count", "core.noop", 1, &json!({}));
    let second = chain("count", "core.noop", 2, &json!({}));
    let mut told = Vec::new();
    for (definition, status, version, created) in [
        (&first, 201, 1, true),
        (&first, 200, 1, false),
        (&second, 201, 2, true),
        (&second, 200, 2, false),
        (&first, 201, 3, true),
    ] {
        server.advance(1000).await;
        let (answered, body) = put(&server, "count", "application/json", definition.to_string()).await;
        assert_eq!((answered.as_u16(), &body["version"]), (status, &json!(version)), "{body}");
        assert_eq!(body["created"], created);
        told.push(body["hash"].clone());
    }
    assert_eq!((&told[0], &told[2]), (&told[4], &told[3]));
    let (_, body) = server.get("/v1/workflows/count/versions").await;
    let versions = body["versions"].as_array().unwrap();
    let numbers: Vec<_> = versions.iter().map(|version| version["version"].clone()).collect();
    assert_eq!(numbers, [3, 2, 1], "newest first");
    let hashes: Vec<_> = versions.iter().map(|version| version["hash"].clone()).collect();
    assert_eq!(hashes, [told[0].clone(), told[2].clone(), told[0].clone()]);
    let times: Vec<_> = versions.iter().map(|version| millis(&version["createdAt"])).collect();
    assert_eq!((times[0] - times[1], times[1] - times[2]), (2000, 2000));
    assert!(versions.iter().all(|version| version["createdBy"] == "dev"));
    for (version, definition) in [(1, &first), (2, &second), (3, &first)] {
        let text = text_of(&server, &format!("/v1/workflows/count?version={version}")).await;
        assert_eq!(text, definition.to_string());
    }
    server.kill();
    let server = site.start(&["--test-clock"]);
    assert_eq!(server.get("/v1/workflows/count/versions").await.1, body, "they are on disk");
    assert_eq!(text_of(&server, "/v1/workflows/count").await, first.to_string());
}

#[tokio::test]
async fn a_run_keeps_the_version_that_it_started_with() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let version = |word: &str| {
        let says = node(
            "say",
            "core.identity",
            json!({}),
            json!({ "word": { "type": "static", "value": word } }),
            json!({}),
        );
        let waits = node("wait", "core.delay", json!({ "ms": HOUR_MS }), json!({}), json!({}));
        workflow("words", &[waits, says], &[("wait", "say")], json!([]))
    };
    push(&server, &version("one")).await;
    let old = server.start_run("words", json!({})).await;
    assert_eq!(push(&server, &version("two")).await["version"], 2);
    let new = server.start_run("words", json!({})).await;
    server.kill();
    let server = site.start(&["--test-clock"]);
    let newest = server.start_run("words", json!({})).await;
    server.advance(HOUR_MS).await;
    for (run, word) in [(old, "one"), (new, "two"), (newest, "two")] {
        server.events(&run).await;
        assert_eq!(shown(&server, &run).await["nodeStates"]["say"]["outputs"]["word"], word);
    }
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 3);
}

#[tokio::test]
async fn yaml_is_pushed_as_the_json_that_it_says() {
    let site = Site::new();
    let server = site.start(&[]);
    let yaml = "id: greet\nname: Greet\nversion: '1.0'\nnodes:\n- id: only\n  typeId: core.identity\n  name: only\n  \
                position: {x: 0, y: 0}\n  config: {}\n  inputs:\n    word: {type: static, value: no}\nedges: []\n\
                triggers: []\nvariables: []\nmetadata: {}\nsettings: {}\n";
    for (version, kind) in
        ["application/yaml", "text/yaml; charset=utf-8", "Application/X-YAML"].iter().enumerate()
    {
        let (status, pushed) = put(&server, "greet", kind, format!("{yaml}# {version}\n")).await;
        assert_eq!(pushed["version"], 1, "comments are no content: {status} {pushed}");
    }
    let text = text_of(&server, "/v1/workflows/greet").await;
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["nodes"][0]["inputs"]["word"]["value"], "no");
    assert!(text.starts_with(r#"{"id":"greet","name":"Greet","version":"1.0""#), "{text}");
    let run = server.start_run("greet", json!({})).await;
    server.events(&run).await;
    assert_eq!(shown(&server, &run).await["nodeStates"]["only"]["outputs"]["word"], "no");
    assert_eq!(validate(&server, "text/yaml", yaml).await["workflowId"], "greet");
    let details = refusal(put(&server, "greet", "application/json", yaml).await, "validation_error");
    assert_eq!(details["problems"][0]["place"], "definition");
    let details = refusal(put(&server, "greet", "text/yaml", "a: &b 1\nc: *b\n").await, "validation_error");
    assert!(details["problems"][0]["place"].as_str().unwrap().contains("line"), "{details}");
    let details = refusal(put(&server, "greet", "text/yaml", vec![0xff, 0xfe]).await, "validation_error");
    assert_eq!(details["problems"][0]["place"], "definition");
}

#[tokio::test]
async fn all_problems_are_told_and_nothing_is_kept() {
    let site = Site::new();
    let server = site.start(&[]);
    let before = site.rows();
    let mut wrong = chain("wrong", "core.noop", 2, &json!({}));
    wrong["edges"][0]["targetNodeId"] = json!("nowhere");
    wrong["nodes"][1]["typeid"] = json!("core.noop");
    wrong["colour"] = json!(1);
    let (status, body) = put(&server, "wrong", "application/json", wrong.to_string()).await;
    let problems = body["details"]["problems"].as_array().unwrap().clone();
    assert!(problems.len() >= 3, "{problems:?}");
    let message = body["message"].as_str().unwrap();
    let (place, first) = (problems[0]["place"].as_str().unwrap(), problems[0]["message"].as_str().unwrap());
    assert!(message.contains(&format!("{} problems", problems.len())), "{message}");
    assert!(message.ends_with(&format!("{place}: {first}")), "{message}");
    refusal((status, body), "validation_error");
    let checked = validate(&server, "application/json", wrong.to_string()).await;
    assert_eq!(checked, json!({ "valid": false, "problems": problems }));
    wrong["edges"] = json!([]);
    wrong["nodes"][1].as_object_mut().unwrap().remove("typeid");
    let (_, body) = put(&server, "wrong", "application/json", wrong.to_string()).await;
    assert!(body["message"].as_str().unwrap().contains("1 problem: colour"), "{body}");
    assert_eq!(site.rows(), before);
    refusal(server.get("/v1/workflows/wrong").await, "workflow_not_found");
}

#[tokio::test]
async fn a_definition_that_can_not_be_read_is_refused_whatever_it_is() {
    let site = Site::new();
    let server = site.start(&[]);
    let deep = format!("{}{}", r#"{"id":"x","a":"#.repeat(200), "}".repeat(200));
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"{}".to_vec(),
        b"{} {}".to_vec(),
        b"{\"id\":\"x\",\"name\":\"\xff\"}".to_vec(),
        br#"{"id":"x","version":1e999}"#.to_vec(),
        br#"{"id":"x","id":"x"}"#.to_vec(),
        deep.into_bytes(),
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let details = refusal(put(&server, "x", "application/json", body.clone()).await, "validation_error");
        assert!(!details["problems"].as_array().unwrap().is_empty(), "{shown}");
        assert_eq!(validate(&server, "application/json", body).await["valid"], false, "{shown}");
    }
}

#[tokio::test]
async fn the_path_and_the_definition_name_the_same_workflow() {
    let site = Site::new();
    let server = site.start(&[]);
    let definition = chain("one", "core.noop", 1, &json!({})).to_string();
    let details = refusal(put(&server, "two", "application/json", definition).await, "validation_error");
    assert_eq!(details["problems"][0]["place"], "id");
    refusal(server.get("/v1/workflows/one").await, "workflow_not_found");
    refusal(server.get("/v1/workflows/two").await, "workflow_not_found");
    let spaced = chain("a b/ü", "core.noop", 1, &json!({}));
    let (status, body) = put(&server, "a%20b%2F%C3%BC", "application/json", spaced.to_string()).await;
    if status == StatusCode::CREATED {
        assert_eq!(text_of(&server, "/v1/workflows/a%20b%2F%C3%BC").await, spaced.to_string());
    } else {
        refusal((status, body), "validation_error");
    }
    refusal(put(&server, "%FF", "application/json", "{}").await, "workflow_not_found");
}

#[tokio::test]
async fn checking_says_what_a_definition_is_and_keeps_nothing() {
    let site = Site::new();
    let server = site.start(&[]);
    let before = site.rows();
    let definition = chain("checked", "core.noop", 3, &json!({}));
    let checked = validate(&server, "application/json", definition.to_string()).await;
    assert_eq!(
        checked,
        json!({ "valid": true, "workflowId": "checked", "hash": checked["hash"], "nodes": 3, "edges": 2 })
    );
    assert_eq!(site.rows(), before);
    refusal(server.get("/v1/workflows/checked").await, "workflow_not_found");
    assert_eq!(push(&server, &definition).await["hash"], checked["hash"]);
    let anonymous = server.anonymous(Method::POST, "/v1/workflows:validate").body("{}");
    refusal(answer(anonymous).await.unwrap(), "unauthenticated");
}

#[tokio::test]
async fn a_list_has_what_was_pushed_and_what_lies_in_the_folder() {
    let site = Site::new();
    let folder = chain("shared", "core.noop", 1, &json!({}));
    site.workflow(&folder).workflow(&chain("both", "core.noop", 1, &json!({})));
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    push(&server, &chain("both", "core.noop", 2, &json!({}))).await;
    push(&server, &chain("alone", "core.noop", 1, &json!({}))).await;
    let (_, body) = server.get("/v1/workflows").await;
    let list = body["workflows"].as_array().unwrap();
    let brief: Vec<Value> = list
        .iter()
        .map(|entry| {
            json!([entry["workflowId"], entry["name"], entry["version"], entry["source"], entry["createdBy"]])
        })
        .collect();
    assert_eq!(
        brief,
        [
            json!(["alone", "alone", 1, "pushed", "dev"]),
            json!(["both", "both", 1, "pushed", "dev"]),
            json!(["shared", "shared", null, "folder", null]),
        ]
    );
    assert!(list[0]["createdAt"].is_string() && list[2].get("createdAt").is_none(), "{body}");
    let response = server.request(Method::GET, "/v1/workflows/shared").send().await.unwrap();
    assert_eq!(response.headers()[ETAG], format!("\"{}\"", list[2]["hash"].as_str().unwrap()));
    assert!(!response.headers().contains_key("abide-workflow-version"));
    assert_eq!(response.text().await.unwrap(), folder.to_string());
    assert_eq!(server.get("/v1/workflows/shared/versions").await.1, json!({ "versions": [] }));
    refusal(server.get("/v1/workflows/shared?version=1").await, "workflow_not_found");
    // The other tenant sees the folder as it is, and nothing of what was pushed.
    let (_, theirs) = answer(server.request_as(&stranger, Method::GET, "/v1/workflows")).await.unwrap();
    let ids: Vec<_> =
        theirs["workflows"].as_array().unwrap().iter().map(|entry| &entry["workflowId"]).collect();
    assert_eq!(ids, ["both", "shared"]);
    assert_eq!(theirs["workflows"][0]["version"], Value::Null);
}

#[tokio::test]
async fn a_version_that_is_not_there_is_not_found() {
    let site = Site::new();
    let server = site.start(&[]);
    push(&server, &chain("here", "core.noop", 1, &json!({}))).await;
    for path in [
        "/v1/workflows/gone",
        "/v1/workflows/gone/versions",
        "/v1/workflows/here?version=2",
        "/v1/workflows/%FF",
    ] {
        refusal(server.get(path).await, "workflow_not_found");
    }
    for query in ["version=0", "version=-1", "version=x", "version=1.0", "version=99999999999", "nothing=1"] {
        refusal(server.get(&format!("/v1/workflows/here?{query}")).await, "validation_error");
    }
}

#[tokio::test]
async fn another_tenants_workflow_is_as_good_as_none() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    push(&server, &chain("mine", "core.noop", 1, &json!({}))).await;
    for path in ["/v1/workflows/mine", "/v1/workflows/mine?version=1", "/v1/workflows/mine/versions"] {
        let theirs = answer(server.request_as(&stranger, Method::GET, path)).await.unwrap();
        refusal(theirs, "workflow_not_found");
    }
    refusal(start_as(&server, &stranger, "mine").await, "workflow_not_found");
    // Each has its own versions under the same id, and runs its own.
    let pushed = push_as(&server, &stranger, &chain("mine", "core.noop", 3, &json!({}))).await;
    assert_eq!((&pushed["version"], &pushed["created"]), (&json!(1), &json!(true)));
    let (_, started) = start_as(&server, &stranger, "mine").await;
    let path = format!("/v1/runs/{}", started["runId"].as_str().unwrap());
    let (_, snapshot) = answer(server.request_as(&stranger, Method::GET, &path)).await.unwrap();
    assert_eq!(snapshot["nodeStates"].as_object().unwrap().len(), 3);
    let run = server.start_run("mine", json!({})).await;
    assert_eq!(shown(&server, &run).await["nodeStates"].as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn a_definition_may_be_large_but_not_endless() {
    let site = Site::new();
    let server = site.start(&[]);
    let mut large = chain("large", "core.noop", 1, &json!({}));
    large["metadata"] = json!({ "note": "x".repeat(3 * 1024 * 1024) });
    push(&server, &large).await;
    assert_eq!(text_of(&server, "/v1/workflows/large").await, large.to_string());
    let limit = abide_server::limits::DEFINITION_BYTES_MAX;
    let text = large.to_string();
    let endless = format!("{text}{}", " ".repeat(limit + 1 - text.len()));
    for (method, path) in [(Method::PUT, "/v1/workflows/large"), (Method::POST, "/v1/workflows:validate")] {
        let request = server.request(method, path).header("connection", "close").body(endless.clone());
        assert_eq!(refusal(answer(request).await.unwrap(), "payload_too_large")["maxBytes"], limit);
    }
}

#[tokio::test]
async fn a_runs_definition_is_the_one_it_is_pinned_to() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    let version = |label: &str| {
        let mut definition = chain("pinned", "core.delay", 1, &json!({}));
        definition["version"] = json!(label);
        definition["nodes"][0]["config"] = json!({ "ms": 5 });
        definition
    };
    let put = |body: &Value| server.request(Method::PUT, "/v1/workflows/pinned").json(body);
    answer(put(&version("one"))).await.unwrap();
    let run = server.start_run("pinned", json!({})).await;
    answer(put(&version("two"))).await.unwrap();
    let (status, definition) = server.get(&format!("/v1/runs/{run}/definition")).await;
    assert_eq!((status, &definition["version"]), (StatusCode::OK, &json!("one")));
    let (status, _) = server.get("/v1/runs/run-00000000-0000-0000-0000-000000000000/definition").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
