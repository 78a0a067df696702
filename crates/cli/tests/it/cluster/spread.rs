//! What stands before several servers and spreads requests among them: every request goes to another one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

/// One address for all of them.
pub(super) struct Spread {
    pub(super) url: String,
    shared: Arc<Mutex<Shared>>,
    carrier: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    servers: BTreeMap<usize, SocketAddr>,
    /// How many requests there were.
    count: usize,
    /// Requests that are under way, and where.
    under_way: Vec<(usize, AbortHandle)>,
}

impl Spread {
    pub(super) async fn among(urls: Vec<String>) -> Self {
        let address = |url: &String| url.strip_prefix("http://").unwrap().parse().unwrap();
        let servers = urls.iter().map(address).enumerate().collect();
        let shared = Arc::new(Mutex::new(Shared { servers, ..Shared::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let carrier = tokio::spawn(carry(listener, shared.clone()));
        Self { url, shared, carrier }
    }

    /// A server takes no requests any more: those under way are cut off, and none goes there.
    pub(super) fn avoid(&self, at: usize) {
        let mut shared = self.shared.lock().unwrap();
        shared.servers.remove(&at);
        shared.under_way.retain(|(server, request)| {
            if *server == at {
                request.abort();
            }
            *server != at
        });
    }
}

impl Drop for Spread {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

async fn carry(listener: TcpListener, shared: Arc<Mutex<Shared>>) {
    loop {
        let (near, _) = listener.accept().await.unwrap();
        let mut now = shared.lock().unwrap();
        now.count += 1;
        let next = now.count % now.servers.len().max(1);
        let Some((&at, &address)) = now.servers.iter().nth(next) else { continue };
        now.under_way.retain(|(_, request)| !request.is_finished());
        let request = tokio::spawn(async move { pass_on(near, address).await });
        now.under_way.push((at, request.abort_handle()));
    }
}

/// Carries one request and its answer. Both sides are told that there is no second one on the same connection.
async fn pass_on(mut near: TcpStream, server: SocketAddr) -> Option<()> {
    let mut head = Vec::new();
    let end = loop {
        if near.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let text = std::str::from_utf8(&head[..end]).ok()?;
    let kept: Vec<&str> =
        text.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("connection:")).collect();
    let mut far = TcpStream::connect(server).await.ok()?;
    let _ = near.set_nodelay(true).and(far.set_nodelay(true));
    far.write_all(format!("{}\r\nconnection: close", kept.join("\r\n")).as_bytes()).await.ok()?;
    far.write_all(&head[end..]).await.ok()?;
    copy_bidirectional(&mut near, &mut far).await.ok()?;
    Some(())
}
