//! How often somebody may ask, and how much is taken on at once.

use reqwest::header::RETRY_AFTER;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// Asks, and gives the status, how long to wait, and the details of a refusal.
async fn ask(server: &Server, key: &str, path: &str) -> (StatusCode, Option<String>, Value) {
    let response = server.request_as(key, Method::GET, path).send().await.unwrap();
    let wait = response.headers().get(RETRY_AFTER).map(|wait| wait.to_str().unwrap().to_owned());
    let status = response.status();
    let body: Value = response.json().await.unwrap();
    let details = if status.is_success() { Value::Null } else { refusal((status, body), "rate_limited") };
    (status, wait, details)
}

#[tokio::test]
async fn a_key_that_asks_too_often_waits_as_long_as_it_is_told() {
    let site = site();
    let other = site.new_key("default");
    let server = site.start(&["--test-clock", "--rate-key", "2/s:3"]);
    let mine = server.key.clone();
    for _ in 0..3 {
        assert_eq!(ask(&server, &mine, "/v1/runs").await.0, StatusCode::OK);
    }
    let (status, wait, details) = ask(&server, &mine, "/v1/runs").await;
    assert_eq!((status, wait.as_deref()), (StatusCode::TOO_MANY_REQUESTS, Some("1")));
    assert_eq!(details, json!({ "retryAfterMs": 500, "scope": "key", "limit": "2/s:3" }));
    assert_eq!(ask(&server, &other, "/v1/runs").await.0, StatusCode::OK, "nobody else waits");
    assert_eq!(server.anonymous(Method::GET, "/healthz").send().await.unwrap().status(), StatusCode::OK);
    // The clock can be moved with the other key.
    let step = json!({ "advanceMs": 500 });
    assert_eq!(server.ask_as(&other, Method::POST, "/v1/dev/clock", Some(&step)).await.0, StatusCode::OK);
    assert_eq!(ask(&server, &mine, "/v1/runs").await.0, StatusCode::OK);
    assert_eq!(ask(&server, &mine, "/v1/runs").await.0, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn the_keys_of_a_tenant_share_its_rate() {
    let site = site();
    let (other, stranger) = (site.new_key("default"), site.new_key("other"));
    let server = site.start(&["--test-clock", "--rate-tenant", "1/m:2"]);
    assert_eq!(ask(&server, &server.key, "/v1/runs").await.0, StatusCode::OK);
    assert_eq!(ask(&server, &other, "/v1/runs").await.0, StatusCode::OK);
    for key in [&server.key, &other] {
        let (status, wait, details) = ask(&server, key, "/v1/runs").await;
        assert_eq!((status, wait.as_deref()), (StatusCode::TOO_MANY_REQUESTS, Some("60")));
        assert_eq!(details, json!({ "retryAfterMs": 60_000, "scope": "tenant", "limit": "1/m:2" }));
    }
    assert_eq!(ask(&server, &stranger, "/v1/runs").await.0, StatusCode::OK);
}

#[tokio::test]
async fn who_it_is_comes_first_then_the_rate_then_the_scope() {
    let site = site();
    let key = site.key("default").scopes("runs:read").make();
    let server = site.start(&["--test-clock", "--rate-key", "1/m:1"]);
    for _ in 0..3 {
        refusal(server.ask_as("abk_nobody_0", Method::GET, "/v1/keys", None).await, "unauthenticated");
    }
    let details = refusal(server.ask_as(&key, Method::GET, "/v1/keys", None).await, "forbidden");
    assert_eq!(details["scopeRequired"], "keys:manage");
    refusal(server.ask_as(&key, Method::GET, "/v1/keys", None).await, "rate_limited");
    let body = json!({ "not": "read" });
    refusal(server.ask_as(&key, Method::POST, "/v1/runs", Some(&body)).await, "rate_limited");
}

#[tokio::test]
async fn a_refused_request_changes_nothing() {
    let site = site();
    let server = site.start(&["--rate-key", "1/m:1"]);
    let run = server.start_run("noop", json!({})).await;
    let body = json!({ "workflowId": "noop" });
    for _ in 0..5 {
        refusal(server.post("/v1/runs", &body).await, "rate_limited");
    }
    assert_eq!(site.rows()["aggregates"], 1, "{run}");
}

#[tokio::test]
async fn polls_wait_in_places_of_their_own_and_give_them_back() {
    let site = site();
    let server = site.start(&["--test-clock", "--max-waiting", "1", "--max-requests", "8"]);
    let run = server.start_run("parked", json!({})).await;
    let path = format!("/v1/runs/{run}/events/poll?timeout=60&lastSequence=1");
    let long = async {
        // The brief polls beside it may have the place when it comes.
        loop {
            let (status, _) = server.get(&path).await;
            if status != StatusCode::SERVICE_UNAVAILABLE {
                return status;
            }
        }
    };
    let brief = async {
        let path = format!("/v1/runs/{run}/events/poll?timeout=1&lastSequence=1");
        let busy = loop {
            let response = server.request(Method::GET, &path).send().await.unwrap();
            if response.status() != StatusCode::OK {
                break response;
            }
        };
        assert_eq!(busy.headers()[RETRY_AFTER], "1");
        let status = busy.status();
        refusal((status, busy.json().await.unwrap()), "unavailable");
        assert_eq!(server.get("/v1/runs").await.0, StatusCode::OK, "others go on");
        server.advance(HOUR_MS).await;
    };
    let (status, ()) = tokio::join!(long, brief);
    assert_eq!(status, StatusCode::OK);
    let (status, page) = server.get(&path).await;
    assert_eq!((status, &page["isComplete"]), (StatusCode::OK, &json!(true)));
}

#[tokio::test]
async fn a_server_without_a_place_says_so_before_it_reads_anything_and_still_lives() {
    let site = site();
    let server = site.start(&["--max-requests", "0"]);
    let before = site.rows();
    for (key, path) in [(server.key.as_str(), "/v1/runs"), ("abk_nobody_0", "/v1/runs")] {
        let response = server.request_as(key, Method::POST, path).body("not json").send().await.unwrap();
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        let status = response.status();
        refusal((status, response.json().await.unwrap()), "unavailable");
    }
    assert_eq!(site.rows(), before);
    assert_eq!(server.anonymous(Method::GET, "/readyz").send().await.unwrap().status(), StatusCode::OK);
}

/// Sends the head of a request with a body of so many bytes that has not come yet.
async fn announce(server: &Server, key: &str, request: &str, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!("{request} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n");
    let body = format!("content-length: {bytes}\r\nexpect: 100-continue\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    stream
}

/// Announces a body, and waits until the server wants it.
async fn begin(server: &Server, key: &str, request: &str, bytes: usize) -> TcpStream {
    let mut stream = announce(server, key, request, bytes).await;
    let wanted = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut said = vec![0; wanted.len()];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(said, wanted);
    stream
}

const DEFINITION_BYTES_MAX: usize = abide_server::limits::DEFINITION_BYTES_MAX;

#[tokio::test]
async fn what_is_only_announced_takes_no_room() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("parked", json!({})).await;
    let mut open = Vec::new();
    for _ in 0..abide_server::limits::BODIES_BYTES_MAX / DEFINITION_BYTES_MAX {
        let mut begun = begin(&server, &server.key, "PUT /v1/workflows/x", DEFINITION_BYTES_MAX).await;
        begun.write_all(b"{").await.unwrap();
        open.push(begun);
    }
    const POLLS: usize = 140;
    let poll = format!("GET /v1/runs/{run}/events/poll?timeout=60&lastSequence=1");
    for _ in 0..POLLS {
        open.push(announce(&server, &server.key, &poll, abide_server::limits::BODY_BYTES_MAX).await);
    }
    server.await_waiting(POLLS).await;
    let inputs = json!({ "large": "x".repeat(900_000) });
    let body = json!({ "workflowId": "noop", "inputs": inputs });
    for key in [&server.key, &stranger] {
        let (status, answer) = server.ask_as(key, Method::POST, "/v1/runs", Some(&body)).await;
        assert_ne!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    }
    server.start_run("noop", json!({})).await;
}

/// A body that is on its way for as long as this lives: a byte comes now and then, so that the server goes on waiting.
struct OnItsWay(tokio::task::JoinHandle<()>);

impl OnItsWay {
    /// Nothing but the last [`OnItsWay::REST`] bytes of it are missing, and come slowly.
    fn keep(mut stream: TcpStream) -> Self {
        Self(tokio::spawn(async move {
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(abide_server::limits::BODY_PAUSE_MAX / 10).await;
            }
        }))
    }

    /// More bytes than are sent before the server loses its patience with the whole, and less than it counts.
    const REST: usize = 1000;
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test]
async fn a_tenant_that_fills_its_places_leaves_the_others_theirs() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--max-requests", "4"]);
    let hold = async |key: &str| OnItsWay::keep(begin(&server, key, "POST /v1/runs", OnItsWay::REST).await);
    let begun = [hold(&server.key).await, hold(&server.key).await];
    let busy = server.get("/v1/runs").await;
    assert!(
        refusal(busy.clone(), "unavailable").is_null()
            && busy.1["message"].as_str().unwrap().contains("tenant")
    );
    let _others = hold(&stranger).await;
    assert_eq!(server.ask_as(&stranger, Method::GET, "/v1/runs", None).await.0, StatusCode::OK);
    drop(begun);
    // The places are free again as soon as the server has noticed.
    while server.get("/v1/runs").await.0 != StatusCode::OK {}
}

#[tokio::test]
async fn a_tenant_that_fills_its_room_leaves_the_others_theirs() {
    let site = site();
    let stranger = site.new_key("other");
    let server = site.start(&["--max-body-mib", "32"]);
    let mut sending = begin(&server, &server.key, "PUT /v1/workflows/x", DEFINITION_BYTES_MAX).await;
    sending.write_all(&vec![b' '; DEFINITION_BYTES_MAX - OnItsWay::REST]).await.unwrap();
    let begun = OnItsWay::keep(sending);
    // Whoever asked for room meanwhile would take it from what is still to come.
    server.await_metric("abide_http_body_bytes", DEFINITION_BYTES_MAX).await;
    let body = json!({ "workflowId": "no-such" });
    refusal(server.ask_as(&server.key, Method::POST, "/v1/runs", Some(&body)).await, "unavailable");
    assert_eq!(server.get("/v1/runs").await.0, StatusCode::OK, "what has no body needs no room");
    refusal(server.ask_as(&stranger, Method::POST, "/v1/runs", Some(&body)).await, "workflow_not_found");
    drop(begun);
    server.await_metric("abide_http_body_bytes", 0).await;
    refusal(server.ask_as(&server.key, Method::POST, "/v1/runs", Some(&body)).await, "workflow_not_found");
}
