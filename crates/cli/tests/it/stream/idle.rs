//! What waiting costs.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

const SUBSCRIBERS: usize = 10_000;
const RSS_KIB_MAX: u64 = 256 * 1024;

/// What the server has taken for itself. Its code, which is large without optimisation, is mapped and not counted.
fn resident_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends the request of a subscriber.
fn subscribe(server: &Server, run: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address(server)).unwrap();
    let (key, path) = (&server.key, format!("/v1/runs/{run}/events"));
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Reads until a text has come.
fn read_until(stream: &mut TcpStream, text: &str) {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while !String::from_utf8_lossy(&read).contains(text) {
        let more = stream.read(&mut buffer).unwrap();
        assert!(more > 0, "closed: {}", String::from_utf8_lossy(&read));
        read.extend(&buffer[..more]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_who_wait_cost_less_than_256_mib() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let site = site();
    let server = site.start(&["--test-clock"]);
    let mut runs = Vec::new();
    for _ in 0..100 {
        runs.push(server.start_run("parked", json!({})).await);
    }
    let before = resident_kib(&server);
    let mut streams: Vec<TcpStream> =
        (0..SUBSCRIBERS).map(|ix| subscribe(&server, &runs[ix % runs.len()])).collect();
    streams.iter_mut().for_each(|stream| read_until(stream, "run.started"));
    let after = resident_kib(&server);
    println!(
        "{before} KiB before, {after} KiB with {SUBSCRIBERS}: {} bytes each",
        (after - before) * 1024 / SUBSCRIBERS as u64
    );
    assert!(after < RSS_KIB_MAX, "{after} KiB");
    server.advance(HOUR_MS).await;
    streams.iter_mut().for_each(|stream| read_until(stream, "run.completed"));
    println!("{} KiB when all were told", resident_kib(&server));
}
