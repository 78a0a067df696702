//! One connection to a scripted provider: as much of HTTP as a client of ours needs, and every way to break it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{Asked, Part, Shared, Step};
use crate::endpoint::Protocol;

/// Bytes of a request's head. Clients of ours send a few hundred.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a request's body: what a client of ours sends at the most.
const BODY_BYTES_MAX: usize = crate::limits::REQUEST_BYTES_MAX;

/// What becomes of a connection once a request was dealt with.
enum Next {
    Keep,
    Close,
}

/// Serves requests until either side has enough.
pub(super) async fn connection(mut stream: TcpStream, shared: Arc<Shared>) {
    // Without this, small parts would wait for each other.
    drop(stream.set_nodelay(true));
    let mut buffer = Vec::new();
    while let Some(asked) = read(&mut stream, &mut buffer).await {
        let protocol = if asked.path.ends_with("/messages") { Protocol::Anthropic } else { Protocol::OpenAi };
        let model = model(&asked.body);
        let flight = Flight::begin(&shared, asked);
        let next = play(&mut stream, &shared, flight.step.clone(), protocol, &model).await;
        if !matches!(next, Ok(Next::Keep)) {
            return;
        }
    }
}

/// A request that is being dealt with. It is over when this is dropped, whatever became of it.
struct Flight<'a> {
    shared: &'a Shared,
    step: Step,
}

impl<'a> Flight<'a> {
    fn begin(shared: &'a Shared, asked: Asked) -> Self {
        Self { shared, step: shared.arrive(asked) }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.shared.leave();
    }
}

fn model(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Named {
        model: String,
    }
    serde_json::from_slice(body).map_or_else(|_| "scripted".to_owned(), |named: Named| named.model)
}

/// The next request; `None` if the client left, or sent what is none.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Asked> {
    let head_end = loop {
        let end = buffer.windows(4).position(|part| part == b"\r\n\r\n");
        match end {
            Some(end) => break end + 4,
            None if buffer.len() > HEAD_BYTES_MAX => return None,
            None => more(stream, buffer).await?,
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let path = head.split(' ').nth(1)?.to_owned();
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let headers: BTreeMap<String, String> =
        lines.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let length: usize = headers.get("content-length").map_or(Some(0), |text| text.parse().ok())?;
    if length > BODY_BYTES_MAX {
        return None;
    }
    while buffer.len() < head_end + length {
        more(stream, buffer).await?;
    }
    let body = buffer[head_end..head_end + length].into();
    buffer.drain(..head_end + length);
    Some(Asked { at: Instant::now(), path, headers, body })
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    stream.read_buf(buffer).await.ok().filter(|count| *count > 0).map(drop)
}

async fn play(
    stream: &mut TcpStream,
    shared: &Shared,
    step: Step,
    protocol: Protocol,
    model: &str,
) -> io::Result<Next> {
    match step {
        Step::Say(speech) => {
            let events = speech.events(protocol, model).into_iter().map(Part::Text).collect();
            events_of(stream, shared, events).await
        }
        Step::Stream(parts) => events_of(stream, shared, parts).await,
        Step::Status { status, headers, body } => {
            let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let length = body.len();
            let head = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {length}\r\n{more}\r\n");
            stream.write_all((head + &body).as_bytes()).await?;
            Ok(Next::Keep)
        }
        Step::Close => Ok(Next::Close),
        Step::Reset => reset(stream),
        Step::Hang => hang(stream).await,
        Step::After(wait, step) => {
            sleep(wait).await;
            Box::pin(play(stream, shared, *step, protocol, model)).await
        }
        Step::Held(step) => {
            held(stream, shared).await?;
            Box::pin(play(stream, shared, *step, protocol, model)).await
        }
        Step::Raw(bytes) => {
            stream.write_all(&bytes).await?;
            Ok(Next::Close)
        }
    }
}

/// What can be sent at once is: thousands of answers are cheap that way, and their ends are where their last words are.
async fn events_of(stream: &mut TcpStream, shared: &Shared, parts: Vec<Part>) -> io::Result<Next> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut out = head.to_owned();
    for part in parts {
        match part {
            // A chunk without text would be the last.
            Part::Text(text) if text.is_empty() => continue,
            Part::Text(text) => {
                out += &format!("{:x}\r\n{text}\r\n", text.len());
                continue;
            }
            _ => stream.write_all(std::mem::take(&mut out).as_bytes()).await?,
        }
        match part {
            Part::Text(_) => {}
            Part::Pause(wait) => sleep(wait).await,
            Part::Held => held(stream, shared).await?,
            Part::Hang => return hang(stream).await,
            Part::Cut => return Ok(Next::Close),
            Part::Reset => return reset(stream),
        }
    }
    stream.write_all((out + "0\r\n\r\n").as_bytes()).await?;
    Ok(Next::Keep)
}

/// Closes without a word, and without waiting for what was sent.
fn reset(stream: &TcpStream) -> io::Result<Next> {
    stream.set_zero_linger()?;
    Ok(Next::Close)
}

/// A client that waits sends nothing, so the next that is heard of it is that it is gone.
async fn hang(stream: &mut TcpStream) -> io::Result<Next> {
    stream.read_u8().await.map(|_| Next::Close)
}

async fn held(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    tokio::select! {
        () = shared.hold() => Ok(()),
        left = hang(stream) => left.and(Err(io::ErrorKind::ConnectionAborted.into())),
    }
}
