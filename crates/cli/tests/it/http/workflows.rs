
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
