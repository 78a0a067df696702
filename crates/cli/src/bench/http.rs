//! Whole runs over HTTP: a server in a process of its own, asked over connections that stay open, beside the engine
//! alone with as many runs at once.
//!
//! Server and client share the machine. So that the figures are the server's, the client does as little as it can: it
//! writes the same bytes over and over, and of an answer it reads the status and the length.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::parked::{Server, prepare};
use super::rig::{Rig, chain};
use super::{Latencies, Report, rate};
use crate::output;

/// How many runs at once are tried, unless told.
const CONCURRENCIES: [usize; 2] = [64, 256];

/// Runs that go before the measured ones, for each connection: files grow and caches fill.
const WARM_UP: usize = 4;

/// How the answer to a run that is over begins.
const CREATED: &[u8] = b"HTTP/1.1 201";

pub(super) async fn bench(dir: &Path, concurrency: Option<usize>, runs: usize) -> anyhow::Result<Report> {
    let workflow = chain("one", 1, false);
    let mut report = Report::default();
    for concurrency in concurrency.map_or(CONCURRENCIES.to_vec(), |only| vec![only]) {
        let dir = dir.join(concurrency.to_string());
        output::say(&format!("{runs} runs of one step over HTTP, {concurrency} at a time …"));
        let key = prepare(&dir, &workflow).await?;
        let server = Server::start(&dir, &key).await?;
        let request: Arc<[u8]> = request(server.address, &key).into();
        drive(server.address, &request, concurrency, concurrency * WARM_UP).await?;
        let (took, latencies) = drive(server.address, &request, concurrency, runs).await?;
        server.stop()?;
        output::say("the same without HTTP …");
        let rig = Rig::open(
            &dir.join("engine"),
            &format!("bench-http-{concurrency}"),
            std::slice::from_ref(&workflow),
        )?;
        rig.drive("one", concurrency, concurrency * WARM_UP).await?;
        let alone = rig.drive("one", concurrency, runs).await?;
        rig.close().await?;
        let (over_http, engine) = (rate(runs, took), rate(runs, alone.took));
        report
            .part(&format!("runs of one step over HTTP, {concurrency} at a time"))
            .figure("runs", runs)
            .figure("runs/s", over_http)
            .figure("ms p50", latencies.ms(0.5))
            .figure("ms p99", latencies.ms(0.99))
            .figure("the engine alone, runs/s", engine)
            .figure("the engine alone, ms p50", alone.latencies.ms(0.5))
            .figure("the engine alone, ms p99", alone.latencies.ms(0.99))
            .figure("ratio to the engine alone", over_http / engine);
    }
    Ok(report)
}

/// A request that starts a run.
fn request(address: SocketAddr, key: &str) -> Vec<u8> {
    let body = json!({ "workflowId": "one" }).to_string();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Starts `runs` runs over `concurrency` connections, one after the other on each.
async fn drive(
    address: SocketAddr,
    request: &Arc<[u8]>,
    concurrency: usize,
    runs: usize,
) -> anyhow::Result<(Duration, Latencies)> {
    let mut connections = Vec::with_capacity(concurrency);
    for _ in 0..concurrency {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        connections.push(Connection { stream, read: Vec::new() });
    }
    let began = Instant::now();
    let mut drivers = JoinSet::new();
    for (driver, connection) in connections.into_iter().enumerate() {
        let share = runs / concurrency + usize::from(driver < runs % concurrency);
        drivers.spawn(take_turns(connection, request.clone(), share));
    }
    let mut latencies = Latencies::new();
    while let Some(done) = drivers.join_next().await {
        latencies.merge(&done??);
    }
    Ok((began.elapsed(), latencies))
}

async fn take_turns(
    mut connection: Connection,
    request: Arc<[u8]>,
    runs: usize,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new();
    for _ in 0..runs {
        let began = Instant::now();
        connection.ask(&request).await?;
        latencies.add(began.elapsed());
    }
    Ok(latencies)
}

/// A connection that stays open.
struct Connection {
    stream: TcpStream,
    /// What was read of the answer.
    read: Vec<u8>,
}

impl Connection {
    /// Sends a request and reads its answer, which must say that the run is over.
    async fn ask(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        self.read.clear();
        loop {
            anyhow::ensure!(
                self.stream.read_buf(&mut self.read).await? > 0,
                "the server closed the connection"
            );
            if let Some(body) = self.body()? {
                let over =
                    self.read.starts_with(CREATED) && find(&self.read[body..], b"\"completed\"").is_some();
                anyhow::ensure!(over, "the server answered: {}", String::from_utf8_lossy(&self.read));
                return Ok(());
            }
        }
    }

    /// Where the body begins, once all of it is there.
    fn body(&self) -> anyhow::Result<Option<usize>> {
        let Some(end) = find(&self.read, b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&self.read[..end])?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        let length = length.context("an answer without a length")??;
        Ok((self.read.len() >= end + 4 + length).then_some(end + 4))
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_whole_when_its_length_says_so() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for answer in [
                "HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n\"completed\"",
                "HTTP/1.1 429 X\r\ncontent-length: 0\r\n\r\n",
            ] {
                let mut request = [0; 4];
                stream.read_exact(&mut request).await.unwrap();
                for half in answer.as_bytes().chunks(40) {
                    stream.write_all(half).await.unwrap();
                    stream.flush().await.unwrap();
                }
            }
        });
        let mut connection =
            Connection { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() };
        connection.ask(b"ask!").await.unwrap();
        let refused = connection.ask(b"ask!").await.unwrap_err();
        assert!(refused.to_string().contains("429"), "{refused}");
        assert!(connection.ask(b"ask!").await.is_err(), "nobody is there");
        server.await.unwrap();
    }
}
