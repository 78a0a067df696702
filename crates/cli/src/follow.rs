//! Following a run's journal to its end, whatever becomes of the connection.
//!
//! The server pushes what happens. When the connection breaks, or the server is restarted, the follower comes back and
//! says what it has, so that nothing is missed and nothing comes twice.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::client::{Client, encoded};
use crate::exit::{Exit, Failure};

/// How long a connection may be silent: the server says that it lives four times in this time.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How long to wait before coming back, at first; twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);

/// How often to come back in vain: long enough for a restart, some 13 seconds in all.
const RETURNS_MAX: u32 = 7;

/// How many of these a connection that was made leaves at the most, even if nothing came of it: a run that waits has
/// nothing to tell, however often its server is restarted. Some stay, so that a server that hangs up at once is not asked
/// all the time.
const RETURNS_KEPT: u32 = 3;

/// Bytes of one event. The server takes in far smaller ones.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The events of one run, one after the other.
pub(crate) struct Follower {
    client: Client,
    run: String,
    /// The last event that is known.
    last: Option<u64>,
    connection: Option<Response>,
    /// Whether there was ever one: a server that was never there is not waited for.
    connected: bool,
    reader: Reader,
    /// How often it came back in vain.
    returns: u32,
    ended: bool,
}

/// Why a connection gave nothing more.
enum Lost {
    /// It may come back.
    Broken(anyhow::Error),
    /// The server said no, or talks nonsense.
    Refused(anyhow::Error),
}

impl Follower {
    /// A follower of what comes after an event.
    pub(crate) fn new(client: &Client, run: &str, after: Option<u64>) -> Self {
        let (client, run) = (client.clone(), run.to_owned());
        let reader = Reader::default();
        Self {
            client,
            run,
            last: after,
            connection: None,
            connected: false,
            reader,
            returns: 0,
            ended: false,
        }
    }

    /// The next event; `None` when the run has ended.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if self.ended {
                return Ok(None);
            }
            match self.read().await {
                Ok(Some(event)) => return self.take(event).map(Some),
                Ok(None) => self.look_after_close().await?,
                Err(Lost::Refused(error)) => return Err(error),
                Err(Lost::Broken(error)) if !self.connected => return Err(error),
                Err(Lost::Broken(error)) => self.pause(error).await?,
            }
        }
    }

    /// The next event of the connection that there is, or of a new one; `None` if the server closed it.
    async fn read(&mut self) -> Result<Option<Value>, Lost> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.reader = Reader::default();
                let connection = self.connect().await?;
                self.connected = true;
                self.returns = self.returns.min(RETURNS_KEPT);
                connection
            }
        };
        loop {
            if let Some(event) = self.reader.next().map_err(Lost::Refused)? {
                self.connection = Some(connection);
                return Ok(Some(event));
            }
            let chunk = tokio::time::timeout(SILENCE_MAX, connection.chunk()).await;
            match chunk {
                Ok(Ok(Some(bytes))) => {
                    self.returns = 0;
                    self.reader.feed(&bytes).map_err(Lost::Refused)?;
                }
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(Lost::Broken(self.client.unreachable(&error).into())),
                Err(_) => return Err(Lost::Broken(silent())),
            }
        }
    }

    async fn connect(&self) -> Result<Response, Lost> {
        let path = format!("/v1/runs/{}/journal", encoded(&self.run));
        let response = self.client.stream(&path, self.last).await.map_err(Lost::Broken)?;
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if response.status().is_success() && kind.starts_with("text/event-stream") {
            return Ok(response);
        }
        let busy =
            matches!(response.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS);
        let error = match self.client.read(response).await {
            Ok(answer) => answer.accepted().err().unwrap_or_else(no_stream),
            Err(error) => return Err(Lost::Broken(error)),
        };
        Err(if busy { Lost::Broken(error) } else { Lost::Refused(error) })
    }

    fn take(&mut self, event: Value) -> anyhow::Result<Value> {
        let sequence = event["sequence"].as_u64().ok_or_else(|| {
            Failure::new(Exit::Refused, "the server sent an event without a sequence; is the URL right?")
        })?;
        self.last = Some(sequence);
        let kind = event["type"].as_str().unwrap_or_default();
        self.ended = matches!(kind, "run.completed" | "run.failed" | "run.cancelled");
        Ok(event)
    }

    /// A server that stops closes its streams, and so does one that has nothing more to tell.
    async fn look_after_close(&mut self) -> anyhow::Result<()> {
        match self.client.get(&format!("/v1/runs/{}", encoded(&self.run))).await {
            Ok(run) => {
                let over = matches!(run["status"].as_str(), Some("completed" | "failed" | "cancelled"));
                self.ended = over && run["sequence"].as_u64() <= self.last;
                if self.ended { Ok(()) } else { self.pause(silent()).await }
            }
            Err(error) => self.pause(error).await,
        }
    }

    /// Waits before coming back, or gives up with `error`.
    async fn pause(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        if self.returns >= RETURNS_MAX {
            return Err(error);
        }
        tokio::time::sleep(PAUSE * 2u32.pow(self.returns)).await;
        self.returns += 1;
        Ok(())
    }
}

fn no_stream() -> anyhow::Error {
    Failure::new(Exit::Refused, "the server answered, but not with events; is the URL right?").into()
}

fn silent() -> anyhow::Error {
    Failure::new(Exit::Unreachable, "the server fell silent; is it still running?").into()
}

/// Takes server-sent events out of the bytes of a connection.
#[derive(Default)]
struct Reader {
    line: Vec<u8>,
    data: Vec<u8>,
    events: VecDeque<Vec<u8>>,
}

impl Reader {
    fn feed(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        for byte in bytes {
            match byte {
                b'\n' => self.end_of_line(),
                byte => self.line.push(*byte),
            }
        }
        if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
            let message = "the server sent an event without an end; is the URL right?";
            return Err(Failure::new(Exit::Refused, message).into());
        }
        Ok(())
    }

    fn end_of_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.is_empty() && !self.data.is_empty() {
            self.events.push_back(std::mem::take(&mut self.data));
        } else if let Some(data) = line.strip_prefix(b"data:") {
            self.data.extend(if self.data.is_empty() { &b""[..] } else { b"\n" });
            self.data.extend(data.strip_prefix(b" ").unwrap_or(data));
        }
    }

    fn next(&mut self) -> anyhow::Result<Option<Value>> {
        let Some(data) = self.events.pop_front() else { return Ok(None) };
        let event = serde_json::from_slice(&data).map_err(|error| {
            let message = format!("the server sent an event that can't be read: {error}; is the URL right?");
            Failure::new(Exit::Refused, message)
        })?;
        Ok(Some(event))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(chunks: &[&str]) -> Vec<Value> {
        let mut reader = Reader::default();
        let mut events = Vec::new();
        for chunk in chunks {
            reader.feed(chunk.as_bytes()).unwrap();
            while let Some(event) = reader.next().unwrap() {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn events_are_found_however_the_bytes_are_cut() {
        let text =
            ":keepalive\n\nid: 1\nevent: a\ndata: {\"n\":1}\n\nid: 2\r\ndata:{\"n\":\r\ndata: 2}\r\n\r\n:x\n";
        let whole = read(&[text]);
        assert_eq!(whole, [json!({ "n": 1 }), json!({ "n": 2 })]);
        for cut in 0..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]), whole, "{cut}");
        }
    }

    #[test]
    fn what_has_no_end_is_no_event() {
        assert_eq!(read(&["data: {\"n\":1}\n"]), [json!(null); 0]);
        let mut reader = Reader::default();
        let endless = vec![b'x'; EVENT_BYTES_MAX];
        assert!(reader.feed(&endless).is_ok() && reader.feed(b"x").is_err());
        assert!(Reader { events: [b"nonsense".to_vec()].into(), ..Reader::default() }.next().is_err());
    }
}
