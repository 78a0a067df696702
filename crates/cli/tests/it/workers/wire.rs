//! A wire between a worker and whichever server is running: the address stays the same when the server is another one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// Where a worker finds its server.
pub(super) struct Wire {
    pub(super) url: String,
    to: Arc<Mutex<Option<SocketAddr>>>,
    carrier: tokio::task::JoinHandle<()>,
}

impl Wire {
    pub(super) async fn lay() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let to = Arc::new(Mutex::new(None));
        let carrier = tokio::spawn(carry(listener, to.clone()));
        Self { url, to, carrier }
    }

    /// Leads to this server from now on.
    pub(super) fn lead_to(&self, server: &str) {
        *self.to.lock().unwrap() = Some(server.strip_prefix("http://").unwrap().parse().unwrap());
    }

    /// Leads nowhere: whoever calls is hung up on.
    pub(super) fn cut(&self) {
        *self.to.lock().unwrap() = None;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

async fn carry(listener: TcpListener, to: Arc<Mutex<Option<SocketAddr>>>) {
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        let Some(address) = *to.lock().unwrap() else { continue };
        tokio::spawn(async move {
            // A server that was killed ends the call, as its own address would.
            if let Ok(mut far) = TcpStream::connect(address).await {
                let _ = near.set_nodelay(true).and(far.set_nodelay(true));
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}
