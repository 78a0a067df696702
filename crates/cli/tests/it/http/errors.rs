//! Paths and methods that are not there, health, and the answers of a server that is asked the impossible.

use reqwest::header::{ALLOW, CONTENT_TYPE};

use super::*;

#[tokio::test]
async fn an_unknown_path_is_not_found_with_or_without_a_key() {
    let site = site();
    let server = site.start(&[]);
    for path in [
        "/v1",
        "/v1/",
        "/v1/runs/",
        "/v1/nothing",
        "/v2/runs",
        "/V1/runs",
        "/v1/runs/x/y",
        "/../etc",
        "/v1/runs/x:sing",
        "/v1/runs:sing",
        "/v1/runs/x/~cancel",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            refusal(answer(server.request(method.clone(), path)).await.unwrap(), "not_found");
            refusal(answer(server.anonymous(method, path)).await.unwrap(), "not_found");
        }
    }
}

#[tokio::test]
async fn a_wrong_method_is_refused_and_the_right_ones_are_named() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    for (method, path, allowed) in [
        (Method::DELETE, "/v1/runs".to_owned(), "POST,GET,HEAD"),
        (Method::PUT, "/v1/runs".to_owned(), "POST,GET,HEAD"),
        (Method::DELETE, format!("/v1/runs/{run}"), "GET,HEAD"),
        (Method::POST, format!("/v1/runs/{run}"), "GET,HEAD"),
        (Method::GET, format!("/v1/runs/{run}/cancel"), "POST"),
        (Method::POST, format!("/v1/runs/{run}/events/poll"), "GET,HEAD"),
        (Method::POST, "/healthz".to_owned(), "GET,HEAD"),
        (Method::POST, format!("/v1/runs/{run}/why"), "GET,HEAD"),
        (Method::GET, format!("/v1/runs/{run}/erase"), "POST"),
        (Method::PUT, "/v1/workflows".to_owned(), "GET,HEAD"),
        (Method::GET, "/v1/workflows:validate".to_owned(), "POST"),
        (Method::DELETE, "/v1/workflows/parked".to_owned(), "PUT,GET,HEAD"),
        (Method::POST, "/v1/workflows/parked/versions".to_owned(), "GET,HEAD"),
        (Method::POST, "/v1/secrets/x".to_owned(), "PUT,DELETE"),
        (Method::PUT, "/v1/dev/clock".to_owned(), "GET,HEAD,POST"),
    ] {
        let response = server.request(method.clone(), &path).send().await.unwrap();
        let mut named: Vec<&str> = response.headers()[ALLOW].to_str().unwrap().split(',').collect();
        let mut expected: Vec<&str> = allowed.split(',').collect();
        named.sort_unstable();
        expected.sort_unstable();
        assert_eq!(named, expected, "{method} {path}");
        refusal((response.status(), response.json().await.unwrap()), "method_not_allowed");
    }
    let (_, snapshot) = server.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(snapshot["status"], "running");
}

#[tokio::test]
async fn every_answer_is_json() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("noop", json!({})).await;
    for path in [
        "/healthz",
        "/readyz",
        "/v1/runs",
        &format!("/v1/runs/{run}"),
        &format!("/v1/runs/{run}/events/poll"),
        &format!("/v1/runs/{run}/why"),
        "/v1/workflows",
        "/v1/workflows/noop",
        "/v1/workflows/noop/versions",
        "/v1/secrets",
        "/v1/dev/clock",
        "/nothing",
        "/v1/runs/nonsense",
    ] {
        let response = server.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json", "{path}");
        assert!(response.json::<Value>().await.unwrap().is_object(), "{path}");
    }
}

#[tokio::test]
async fn a_server_that_is_well_says_so_to_anybody() {
    let site = site();
    let server = site.start(&[]);
    let health = answer(server.anonymous(Method::GET, "/healthz")).await.unwrap();
    assert_eq!(health, (StatusCode::OK, json!({ "status": "ok" })));
    let ready = answer(server.anonymous(Method::GET, "/readyz")).await.unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(ready, (StatusCode::OK, json!({ "status": "ready", "version": version })));
}

#[tokio::test]
async fn many_requests_at_once_are_all_answered() {
    let site = site();
    let server = site.start(&[]);
    let starts = (0..500).map(|ix| server.start_run("payload", json!({ "payload": ix })));
    let runs = futures_util::future::join_all(starts).await;
    let shown = runs.iter().map(|run| server.events(run));
    for (ix, events) in futures_util::future::join_all(shown).await.iter().enumerate() {
        assert_eq!(events[0]["payload"]["inputs"]["payload"], ix);
        assert_eq!(events.last().unwrap()["type"], "run.completed");
    }
    assert!(server.stop().success());
    assert_eq!(crate::support::verify(&site.data()), 500);
}

#[tokio::test]
async fn a_connection_that_is_cut_off_in_the_middle_of_a_request_leaves_nothing() {
    use std::io::Write;
    let site = site();
    let server = site.start(&[]);
    let before = site.rows();
    let address = server.url.strip_prefix("http://").unwrap();
    for _ in 0..20 {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 200\r\n\r\n",
            server.key
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(br#"{"workflowId":"noop""#).unwrap();
    }
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"this is no HTTP\r\n\r\n").unwrap();
    server.get("/v1/runs").await;
    assert_eq!(site.rows(), before);
}

#[tokio::test]
async fn a_path_without_its_version_is_a_mistake_that_is_named() {
    let site = site();
    let server = site.start(&[]);
    for path in ["/runs", "/runs/x", "/workflows", "/runs:bulk-cancel", "/openapi.json"] {
        for method in [Method::GET, Method::POST] {
            let (status, body) = answer(server.request(method, path)).await.unwrap();
            assert!(body["message"].as_str().unwrap().contains(&format!("/v1{path}")), "{body}");
            refusal((status, body), "validation_error");
        }
    }
}

#[tokio::test]
async fn families_that_are_not_offered_say_so() {
    let site = site();
    let server = site.start(&[]);
    for (path, family) in [
        ("/v1/prompts", "prompts"),
        ("/v1/prompts/x", "prompts"),
        ("/v1/prompts:render", "prompts"),
        ("/v1/content/pages/home", "content"),
        ("/v1/host/workspace/files", "workspace"),
        ("/v1/host/workspace/files/a%2Fb", "workspace"),
        ("/v1/trigger-subscriptions", "triggers"),
    ] {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let refused = answer(server.request(method, path)).await.unwrap();
            assert_eq!(refusal(refused, "capability_not_provided")["capability"], family);
        }
    }
    refusal(server.get("/v1/promptsworthy").await, "not_found");
}

/// What the server says to these bytes before anything more is sent.
fn said_to(server: &Server, sent: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let mut said = Vec::new();
    let mut chunk = [0; 4096];
    while !String::from_utf8_lossy(&said).ends_with('}') {
        match stream.read(&mut chunk).unwrap() {
            0 => break,
            count => said.extend(&chunk[..count]),
        }
    }
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_refused_before_it_is_sent() {
    let site = site();
    let server = site.start(&[]);
    let before = site.rows();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 99999999999\r\n\r\n",
        server.key
    );
    let said = said_to(&server, &head);
    assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
    assert!(said.contains(r#""error":"payload_too_large""#), "{said}");
    // One that is a little too large and asks first hears no, and not that it may be sent.
    let asks = head.replace("99999999999\r\n", "2000000\r\nExpect: 100-continue\r\n");
    let said = said_to(&server, &asks);
    assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
    assert_eq!(site.rows(), before);
}

#[tokio::test]
async fn the_head_of_an_answer_can_be_asked_for_alone() {
    let site = site();
    let server = site.start(&[]);
    for path in ["/healthz", "/v1/runs", "/v1/openapi.json", "/.well-known/openwop"] {
        let whole = server.request(Method::GET, path).send().await.unwrap();
        let head = server.request(Method::HEAD, path).send().await.unwrap();
        assert_eq!(
            (head.status(), &head.headers()[CONTENT_TYPE]),
            (whole.status(), &whole.headers()[CONTENT_TYPE])
        );
        assert_eq!(head.text().await.unwrap(), "");
    }
    for path in ["/v1/runs", "/healthz"] {
        let response = server.request(Method::OPTIONS, path).send().await.unwrap();
        assert!(response.headers().contains_key(ALLOW));
        refusal((response.status(), response.json().await.unwrap()), "method_not_allowed");
    }
}
