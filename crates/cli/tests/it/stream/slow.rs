//! A subscriber that takes nothing delays nobody and loses nothing.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Asks for events without reading a byte, through a socket that holds little.
async fn stalled(server: &Server, run: &str, accept: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    let mut stream = socket.connect(address(server).parse().unwrap()).await.unwrap();
    let (key, path) = (&server.key, format!("/v1/runs/{run}/events?streamMode=debug"));
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\naccept: {accept}\r\n");
    stream.write_all((head + "connection: close\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

/// A site with a workflow whose values fill any buffer on the way many times over.
fn large_site() -> Site {
    let site = Site::new();
    let large = "x".repeat(20_000);
    let nodes: Vec<Value> = (0..300)
        .map(|ix| {
            let inputs = json!({ "it": { "type": "static", "value": large } });
            let settings = json!({ "abide": { "durable": true } });
            node(&format!("n{ix}"), "core.identity", json!({}), inputs, settings)
        })
        .collect();
    let ids: Vec<String> = (0..300).map(|ix| format!("n{ix}")).collect();
    let edges: Vec<(&str, &str)> = ids.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    site.workflow(&workflow("large", &nodes, &edges, json!([])));
    site
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_reader_of_a_document_keeps_its_place_until_it_has_it() {
    let site = large_site();
    let server = site.start(&["--max-waiting", "1"]);
    let run = server.start_run("large", json!({})).await;
    let shown = frames(&server, &run, "streamMode=debug", None).await;
    server.await_waiting(0).await;
    let mut stalled = stalled(&server, &run, "application/json").await;
    server.await_waiting(1).await;
    let path = format!("/v1/runs/{run}/events");
    let (status, body) = refused(&server, &path, &[("accept", "application/json")]).await;
    assert_eq!((status, body["error"].as_str()), (StatusCode::SERVICE_UNAVAILABLE, Some("unavailable")));
    let mut text = Vec::new();
    tokio::time::timeout(PATIENCE, stalled.read_to_end(&mut text)).await.unwrap().unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("\"eventId\":").count(), shown.len(), "it has everything");
    server.await_waiting(0).await;
    assert_eq!(server.get(&path).await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_subscriber_delays_nobody_and_gets_everything_in_the_end() {
    let site = large_site();
    let server = site.start(&[]);
    let run = server.start_run("large", json!({})).await;
    let mut stalled = stalled(&server, &run, "text/event-stream").await;
    let shown = frames(&server, &run, "streamMode=debug", None).await;
    assert_eq!(shown.last().unwrap().event, "run.completed", "the run and its other subscriber went on");
    let mut text = Vec::new();
    // If all this took long, it was cut off meanwhile.
    let _ = tokio::time::timeout(PATIENCE, stalled.read_to_end(&mut text)).await.unwrap();
    let text = String::from_utf8_lossy(&text);
    let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    let mut ids: Vec<u64> =
        whole.lines().filter_map(|line| line.strip_prefix("id: ")).map(|id| id.parse().unwrap()).collect();
    let last = ids.last().map(u64::to_string);
    let rest = frames(&server, &run, "streamMode=debug", last.as_deref()).await;
    ids.extend(rest.iter().map(|frame| frame.id.unwrap()));
    assert_eq!(ids, shown.iter().map(|frame| frame.id.unwrap()).collect::<Vec<_>>());
}
