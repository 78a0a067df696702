//! Connections: how many, how long, and what is said to those that there is no room for.

use std::process::Command;

use abide_server::limits::HEAD_BYTES_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// What a server answers to these bytes before it closes the connection.
async fn said(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(bytes).await;
    let mut text = Vec::new();
    // A server that has not read everything may reset the connection behind its answer.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text)).await.expect("it is closed");
    String::from_utf8(text).unwrap()
}

/// A server that may open so few files that it takes in `connections` at most.
fn narrow(site: &Site, key: &str, connections: usize) -> Server {
    let files = connections + abide_server::limits::FILES_RESERVED;
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("ulimit -n {files} && exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_abide"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(site.data());
    Server::launch(command, &site.path("said"), key)
}

#[tokio::test]
async fn beyond_the_last_place_a_connection_is_told_to_come_again() {
    const PLACES: usize = 8;
    let site = Site::new();
    let key = site.new_key("default");
    let server = narrow(&site, &key, PLACES);
    let address = address(&server);
    let mut held = Vec::new();
    for _ in 0..PLACES {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).await.unwrap();
        held.push(stream);
    }
    for request in [&b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"[..], b"", &[b'x'; 100_000]] {
        let answer =
            if request.is_empty() { said_to_silence(&address).await } else { said(&address, request).await };
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nretry-after: 1"), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!((body["error"].as_str(), body.as_object().unwrap().len()), (Some("unavailable"), 2));
    }
    drop(held);
    // The places are free again as soon as the server has noticed.
    let began = std::time::Instant::now();
    while said(&address, b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .starts_with("HTTP/1.1 503 ")
    {
        assert!(began.elapsed() < PATIENCE);
    }
}

/// What is said to somebody who asks for nothing.
async fn said_to_silence(address: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut text = vec![0; 4096];
    let mut length = 0;
    while !String::from_utf8_lossy(&text[..length]).contains('}') {
        length += tokio::time::timeout(PATIENCE, stream.read(&mut text[length..])).await.unwrap().unwrap();
    }
    String::from_utf8(text[..length].to_vec()).unwrap()
}

#[tokio::test]
async fn a_head_that_is_too_large_or_no_http_is_answered_and_closed() {
    let site = Site::new();
    let server = site.start(&[]);
    let address = address(&server);
    let large = |bytes: usize| {
        format!(
            "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-large: {}\r\n\r\n",
            "x".repeat(bytes)
        )
    };
    assert!(
        said(&address, large(HEAD_BYTES_MAX - 1024).as_bytes()).await.starts_with("HTTP/1.1 200 "),
        "a large token fits"
    );
    assert!(said(&address, large(80 * 1024).as_bytes()).await.starts_with("HTTP/1.1 431 "));
    assert!(said(&address, b"this is no HTTP\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    let many: String = (0..200).map(|ix| format!("x-{ix}: 1\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n");
    assert!(said(&address, many.as_bytes()).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn a_stopping_server_closes_connections_that_rest() {
    let site = Site::new();
    let server = site.start(&[]);
    let mut resting = TcpStream::connect(address(&server)).await.unwrap();
    resting.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut byte = [0; 1];
    resting.read_exact(&mut byte).await.unwrap();
    let silent = TcpStream::connect(address(&server)).await.unwrap();
    let status = tokio::task::spawn_blocking(move || server.stop()).await.unwrap();
    assert!(status.success());
    drop((resting, silent));
}

#[tokio::test]
async fn the_head_of_a_stream_keeps_caches_away() {
    let site = site();
    let server = site.start(&["--test-clock"]);
    let run = server.start_run("noop", json!({})).await;
    let response = server.request(Method::GET, &format!("/v1/runs/{run}/events")).send().await.unwrap();
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert!(response.headers().contains_key("abide-now"));
}
