//! Users' named secrets: set, listed without their values, forgotten.

use super::*;

async fn put(server: &Server, name: &str, body: impl Into<reqwest::Body>) -> (StatusCode, Value) {
    answer(server.request(Method::PUT, &format!("/v1/secrets/{name}")).body(body)).await.unwrap()
}

async fn delete(server: &Server, name: &str) -> (StatusCode, Value) {
    answer(server.request(Method::DELETE, &format!("/v1/secrets/{name}"))).await.unwrap()
}

#[tokio::test]
async fn a_secret_is_set_listed_replaced_and_forgotten() {
    let site = Site::new();
    let server = site.start(&["--test-clock"]);
    assert_eq!(server.get("/v1/secrets").await, (StatusCode::OK, json!({ "secrets": [] })));
    set_secret(&server, "b.token-1", "first value").await;
    server.advance(5000).await;
    set_secret(&server, "A_KEY", "second value").await;
    server.advance(5000).await;
    set_secret(&server, "b.token-1", "third value").await;
    let text = text_of(&server, "/v1/secrets").await;
    assert!(!text.contains("value"), "{text}");
    let body: Value = serde_json::from_str(&text).unwrap();
    let secrets = body["secrets"].as_array().unwrap();
    let names: Vec<_> = secrets.iter().map(|secret| &secret["name"]).collect();
    assert_eq!(names, ["A_KEY", "b.token-1"]);
    assert_eq!(millis(&secrets[1]["updatedAt"]) - millis(&secrets[0]["updatedAt"]), 5000);
    assert_eq!(secrets[0]["updatedBy"], "dev");
    assert_eq!(secrets[0].as_object().unwrap().len(), 3, "nothing else is told");
    server.kill();
    let server = site.start(&["--test-clock"]);
    assert_eq!(text_of(&server, "/v1/secrets").await, text, "they are on disk");
    assert_eq!(delete(&server, "A_KEY").await, (StatusCode::NO_CONTENT, json!("")));
    refusal(delete(&server, "A_KEY").await, "secret_not_found");
    let (_, body) = server.get("/v1/secrets").await;
    assert_eq!(body["secrets"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_value_lies_sealed_on_disk_and_in_no_log() {
    let site = Site::new();
    let key = site.new_key("default");
    let server = site.serve(&key, &["--log", "trace"]);
    set_secret(&server, "token", "plainly-readable").await;
    for body in [r#"{"value":"plainly-readable","more":1}"#, r#"{"value":["plainly-readable"]}"#] {
        refusal(put(&server, "token", body).await, "validation_error");
    }
    assert!(server.stop().success());
    assert!(!site.said().contains("plainly-readable"));
    for file in std::fs::read_dir(site.data()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
        let found = bytes.windows(16).any(|window| window == b"plainly-readable");
        assert!(!found, "the value stands in a file");
    }
}

#[tokio::test]
async fn a_body_that_is_wrong_is_refused_without_repeating_it() {
    let site = Site::new();
    let server = site.start(&[]);
    let long = format!(r#"{{"value":"{}"}}"#, "h".repeat(abide_server::limits::SECRET_BYTES_MAX + 1));
    for body in [
        "",
        "{}",
        "hunter2",
        r#""hunter2""#,
        r#"["hunter2"]"#,
        r#"{"value":""}"#,
        r#"{"value":" abc\n"}"#,
        r#"{"value":null}"#,
        r#"{"value":20222}"#,
        r#"{"value":["hunter2"]}"#,
        r#"{"value":{"hunter2":1}}"#,
        r#"{"hunter2":"x"}"#,
        r#"{"value":"x","hunter2":1}"#,
        r#"{"value":"hunter2","value":"hunter2"}"#,
        r#"{"value":"hunter2"} "hunter2""#,
        r#"{"value":"hunter2"#,
        &long,
    ] {
        let (status, body) = put(&server, "token", body.to_owned()).await;
        let text = body.to_string();
        assert!(!text.contains("hunter2") && !text.contains("20222") && !text.contains("hhhh"), "{text}");
        refusal((status, body), "validation_error");
    }
    let request = server.request(Method::PUT, "/v1/secrets/token").header("connection", "close");
    let large = vec![b' '; abide_server::limits::BODY_BYTES_MAX + 1];
    refusal(answer(request.body(large)).await.unwrap(), "payload_too_large");
    assert_eq!(server.get("/v1/secrets").await.1, json!({ "secrets": [] }));
    let longest = "h".repeat(abide_server::limits::SECRET_BYTES_MAX);
    set_secret(&server, "token", &longest).await;
}

#[tokio::test]
async fn a_name_is_plain_and_not_too_long() {
    let site = Site::new();
    let server = site.start(&[]);
    let (longest, longer) = ("n".repeat(64), "n".repeat(65));
    for name in ["a", "A.b-c_9", &longest] {
        set_secret(&server, name, "xxxx").await;
    }
    for name in ["a%20b", "%C3%BC", "%FF", "a%2Fb", "a:b", "%00", &longer] {
        let details = refusal(put(&server, name, r#"{"value":"xxxx"}"#).await, "validation_error");
        assert_eq!(details["field"], "name", "{name}");
        refusal(delete(&server, name).await, "secret_not_found");
    }
    for (method, path) in [(Method::POST, "/v1/secrets"), (Method::GET, "/v1/secrets/a")] {
        refusal(answer(server.request(method, path)).await.unwrap(), "method_not_allowed");
    }
    for (method, path) in
        [(Method::GET, "/v1/secrets"), (Method::PUT, "/v1/secrets/a"), (Method::DELETE, "/v1/secrets/a")]
    {
        refusal(answer(server.anonymous(method, path)).await.unwrap(), "unauthenticated");
    }
}

#[tokio::test]
async fn secrets_of_two_tenants_do_not_touch() {
    let site = Site::new();
    let stranger = site.new_key("other");
    let server = site.start(&[]);
    set_secret(&server, "token", "mine").await;
    let list = server.request_as(&stranger, Method::GET, "/v1/secrets");
    assert_eq!(answer(list).await.unwrap().1, json!({ "secrets": [] }));
    let gone = server.request_as(&stranger, Method::DELETE, "/v1/secrets/token");
    refusal(answer(gone).await.unwrap(), "secret_not_found");
    let theirs = server.request_as(&stranger, Method::PUT, "/v1/secrets/token");
    let (status, _) = answer(theirs.json(&json!({ "value": "theirs" }))).await.unwrap();
    assert_eq!(status, StatusCode::NO_CONTENT);
    let gone = server.request_as(&stranger, Method::DELETE, "/v1/secrets/token");
    assert_eq!(answer(gone).await.unwrap().0, StatusCode::NO_CONTENT);
    assert_eq!(server.get("/v1/secrets").await.1["secrets"][0]["name"], "token");
}
