//! Whoever is told by the server of a bench: a receiver on loopback that takes everything and counts it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A receiver that lives as long as the bench.
pub(super) struct Desk {
    address: SocketAddr,
    taken: Arc<AtomicUsize>,
}

impl Desk {
    pub(super) async fn open() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, taken) = (listener.local_addr()?, Arc::<AtomicUsize>::default());
        let count = taken.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take(stream, count.clone()));
            }
        });
        Ok(Self { address, taken })
    }

    /// Has the server in this folder tell it of every question.
    pub(super) fn configure(&self, dir: &Path) -> anyhow::Result<()> {
        let (url, secret) = (format!("http://{}/", self.address), "s".repeat(32));
        let config = format!("[channels.desk]\ntype = \"webhook\"\nurl = \"{url}\"\nsecret = \"{secret}\"\n");
        Ok(std::fs::write(dir.join(super::server::CONFIG), config)?)
    }

    /// How many messages came.
    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Answers the requests of a connection, one after the other.
async fn take(mut stream: TcpStream, taken: Arc<AtomicUsize>) {
    let mut read = Vec::new();
    loop {
        match end_of_request(&read) {
            Some(end) if read.len() >= end => {
                read.drain(..end);
                taken.fetch_add(1, Ordering::Relaxed);
                if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.is_err() {
                    return;
                }
            }
            _ => match stream.read_buf(&mut read).await {
                Ok(count) if count > 0 => {}
                _ => return,
            },
        }
    }
}

/// Where the first request ends, once its head is there.
fn end_of_request(read: &[u8]) -> Option<usize> {
    let head = read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&read[..head]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(head + length.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body() {
        let request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}POST";
        assert_eq!(end_of_request(request), Some(request.len() - 4));
        assert_eq!(end_of_request(b"POST / HTTP/1.1\r\n"), None);
    }
}
