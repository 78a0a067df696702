//! A subscriber that takes nothing delays nobody and loses nothing.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Subscribes without reading a byte, through a socket that holds little.
async fn stalled(server: &Server, run: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    let mut stream = socket.connect(address(server).parse().unwrap()).await.unwrap();
    let (key, path) = (&server.key, format!("/v1/runs/{run}/events?streamMode=debug"));
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_subscriber_delays_nobody_and_gets_everything_in_the_end() {
    let site = Site::new();
    // Values that fill any buffer on the way many times over.
    let large = "x".repeat(20_000);
    let nodes: Vec<Value> = (0..300)
        .map(|ix| {
            let inputs = json!({ "it": { "type": "static", "value": large } });
            node(
                &format!("n{ix}"),
                "core.identity",
                json!({}),
                inputs,
                json!({ "abide": { "durable": true } }),
            )
        })
        .collect();
    let ids: Vec<String> = (0..300).map(|ix| format!("n{ix}")).collect();
    let edges: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    site.workflow(&workflow("large", &nodes, &edges, json!([])));
    let server = site.start(&[]);
    let run = server.start_run("large", json!({})).await;
    let mut stalled = stalled(&server, &run).await;
    let shown = frames(&server, &run, "streamMode=debug", None).await;
    assert_eq!(shown.last().unwrap().event, "run.completed", "the run and its other subscriber went on");
    let mut text = Vec::new();
    tokio::time::timeout(PATIENCE, stalled.read_to_end(&mut text)).await.unwrap().unwrap();
    let text = String::from_utf8(text).unwrap();
    let ids: Vec<u64> =
        text.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids, shown.iter().map(|frame| frame.id.unwrap()).collect::<Vec<_>>());
}
