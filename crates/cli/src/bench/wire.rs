//! Requests over a connection that stays open, with as little work for the client as can be: bytes are written as they
//! are, and of an answer the status, the length and the body are read.

use std::net::SocketAddr;

use anyhow::Context;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The bytes of a request.
pub(super) fn request(
    address: SocketAddr,
    key: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Vec<u8> {
    request_with(address, key, method, path, "", body)
}

/// The bytes of a request with more headers, each of which ends its line.
pub(super) fn request_with(
    address: SocketAddr,
    key: &str,
    method: &str,
    path: &str,
    headers: &str,
    body: Option<&Value>,
) -> Vec<u8> {
    let body = body.map_or(String::new(), Value::to_string);
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// A connection that stays open.
pub(super) struct Connection {
    stream: TcpStream,
    /// What was read of the answer.
    read: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::new() })
    }

    /// Sends a request and reads its answer: the status and the body.
    pub(super) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.read.clear();
        loop {
            let count = self.stream.read_buf(&mut self.read).await?;
            anyhow::ensure!(count > 0, "the server closed the connection");
            if let Some(body) = self.body()? {
                let status = self.read.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
                let status =
                    status.and_then(|digits| digits.parse().ok()).context("an answer without a status")?;
                return Ok((status, &self.read[body..]));
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
        // What has no content has no length either.
        let none = head.get(9..12) == Some("204");
        let length = if none { 0 } else { length.context("an answer without a length")?? };
        Ok((self.read.len() >= end + 4 + length).then_some(end + 4))
    }
}

/// Where something stands in bytes.
pub(super) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
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
                "HTTP/1.1 204 No Content\r\n\r\n",
            ] {
                let mut request = [0; 4];
                stream.read_exact(&mut request).await.unwrap();
                for half in answer.as_bytes().chunks(40) {
                    stream.write_all(half).await.unwrap();
                    stream.flush().await.unwrap();
                }
            }
        });
        let mut connection = Connection::open(address).await.unwrap();
        assert_eq!(connection.ask(b"ask!").await.unwrap(), (201, &b"\"completed\""[..]));
        assert_eq!(connection.ask(b"ask!").await.unwrap(), (429, &b""[..]));
        assert_eq!(connection.ask(b"ask!").await.unwrap(), (204, &b""[..]));
        assert!(connection.ask(b"ask!").await.is_err(), "nobody is there");
        server.await.unwrap();
    }

    #[test]
    fn a_request_has_the_length_of_its_body() {
        let address = "127.0.0.1:1".parse().unwrap();
        let bytes = request(address, "k", "POST", "/x", Some(&serde_json::json!({})));
        assert!(find(&bytes, b"content-length: 2\r\n\r\n{}").is_some());
        assert!(find(&request(address, "k", "GET", "/x", None), b"content-length: 0\r\n\r\n").is_some());
    }
}
