//! The key of a provider: it reaches the provider, and nobody else ever reads it.

use super::*;

/// It looks like no key that anybody would know by its form.
const SECRET: &str = "plum-tree-hidden-in-the-garden-4711";

/// What every place says where a provider's words could stand.
async fn everything(server: &Server, run: &str) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for path in [
        format!("/v1/runs/{run}"),
        format!("/v1/runs/{run}/turns"),
        format!("/v1/runs/{run}/why"),
        format!("/v1/runs/{run}/resume"),
        format!("/v1/runs/{run}/debug-bundle"),
        format!("/v1/runs/{run}/events/poll?timeout=1"),
        "/v1/runs".to_owned(),
        "/v1/providers".to_owned(),
        "/v1/secrets".to_owned(),
        "/metrics".to_owned(),
    ] {
        let request = server.request(reqwest::Method::GET, &path).header("accept", "application/json");
        let response = request.send().await.unwrap();
        told.push((path, response.text().await.unwrap()));
    }
    for args in
        [&["run", "show", run][..], &["run", "events", run], &["turn", "list", run], &["provider", "list"]]
    {
        let output = server.cli(args);
        told.push((args.join(" "), format!("{output:?}")));
    }
    told
}

fn demand_hidden(told: &[(String, String)]) {
    for (place, text) in told {
        assert!(!text.contains(SECRET), "{place}: {text}");
    }
}

fn files(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn demand_sealed(site: &Site) {
    for file in files(&site.data()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()), "it stands in {file:?}");
    }
    assert!(!site.said().contains(SECRET), "it is in the log: {}", site.said());
}

async fn check_hidden(protocol: Protocol) {
    let provider = ScriptedProvider::start();
    let site = site(&provider, protocol, "key = \"model-key\"\n", &[asking("ask", json!({}))]);
    let (key, config) = (site.new_key("default"), site.path("abide.toml"));
    let server = site.serve(&key, &["--log", "debug", "--config", config.to_str().unwrap()]);
    let set = server.request(reqwest::Method::PUT, "/v1/secrets/model-key").json(&json!({ "value": SECRET }));
    assert_eq!(answer(set).await.unwrap().0, StatusCode::NO_CONTENT);
    let echo =
        format!("{{\"error\":{{\"message\":\"the key {SECRET} is over its limit\",\"key\":\"{SECRET}\"}}}}");
    let error = format!(
        "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"{SECRET}\"}}}}\n\n"
    );
    provider.script([
        Step::status(429, &echo).with_header("x-key", SECRET),
        Step::stream([error]),
        Step::stream([format!("data: {SECRET}\n\n")]),
        Step::Raw(format!("HTTP/1.1 {SECRET}\r\n\r\n").into_bytes()),
        Step::status(401, &echo),
    ]);
    let drill = Drill { site, server, provider };
    let run = drill.run("ask").await;
    for attempt in 0..4 {
        let wait = drill.await_retry(&run, attempt).await;
        assert!(!wait["message"].as_str().unwrap().contains("plum"), "{wait}");
        demand_hidden(&everything(&drill.server, &run).await);
        let (status, told) = drill.server.post(&format!("/v1/runs/{run}/turns/ask:retry"), &json!({})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{told}");
    }
    let shown = drill.demand_failed(&run, "provider_error").await;
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("HTTP 401: ") && message.contains("is over its limit"), "{message}");
    demand_hidden(&everything(&drill.server, &run).await);
    for asked in drill.provider.asked() {
        let header = match protocol {
            Protocol::Anthropic => asked.headers["x-api-key"].clone(),
            Protocol::OpenAi => asked.headers["authorization"].replace("Bearer ", ""),
        };
        assert_eq!(header, SECRET, "the provider sees it");
        assert!(!String::from_utf8_lossy(&asked.body).contains(SECRET));
    }
    assert!(drill.server.stop().success());
    demand_sealed(&drill.site);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_anthropic_stands_in_no_event_log_answer_or_file_though_the_provider_repeats_it() {
    check_hidden(Protocol::Anthropic).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_openai_stands_in_no_event_log_answer_or_file_though_the_provider_repeats_it() {
    check_hidden(Protocol::OpenAi).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_whose_key_is_not_set_is_not_asked_and_the_error_says_what_to_do() {
    let drill = Drill::with(Protocol::OpenAi, "key = \"model-key\"\n", &[asking("ask", json!({}))]);
    let run = drill.run("ask").await;
    let shown = drill.demand_failed(&run, "provider_error").await;
    assert!(shown["error"]["message"].as_str().unwrap().contains("abide secrets set model-key"), "{shown:#}");
    assert_eq!(drill.provider.count(), 0);
}
