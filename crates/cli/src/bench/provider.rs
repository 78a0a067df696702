//! Whoever the requests of a bench go to: somebody on loopback who takes them, and answers when told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A provider that lives as long as the bench.
pub(super) struct Provider {
    address: SocketAddr,
    counts: Arc<Counts>,
    answers: watch::Sender<Option<Duration>>,
}

#[derive(Default)]
struct Counts {
    heard: AtomicUsize,
    /// What had been heard when it began to answer.
    heard_before: AtomicUsize,
    in_flight: AtomicUsize,
    in_flight_max: AtomicUsize,
}

impl Provider {
    /// One that answers nothing yet.
    pub(super) async fn open() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, counts) = (listener.local_addr()?, Arc::<Counts>::default());
        let (answers, told) = watch::channel(None);
        let count = counts.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take(stream, count.clone(), told.clone()));
            }
        });
        Ok(Self { address, counts, answers })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers from now on, each request after so long, and counts anew how many are in flight at once.
    pub(super) fn answer_after(&self, delay: Duration) {
        self.counts.heard_before.store(self.heard(), SeqCst);
        self.counts.in_flight_max.store(0, SeqCst);
        self.answers.send_replace(Some(delay));
    }

    /// Requests that came in all.
    pub(super) fn heard(&self) -> usize {
        self.counts.heard.load(SeqCst)
    }

    /// Requests that came since it answers.
    pub(super) fn heard_since_kill(&self) -> usize {
        self.heard() - self.counts.heard_before.load(SeqCst)
    }

    /// Requests that are not answered yet, and whose callers still wait.
    pub(super) fn in_flight(&self) -> usize {
        self.counts.in_flight.load(SeqCst)
    }

    /// The most that there were at once, since it answers.
    pub(super) fn in_flight_max(&self) -> usize {
        self.counts.in_flight_max.load(SeqCst)
    }

    /// Waits until something holds of it.
    pub(super) async fn until(
        &self,
        holds: impl Fn(&Self) -> bool,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        while !holds(self) {
            let (heard, in_flight) = (self.heard(), self.in_flight());
            anyhow::ensure!(
                began.elapsed() < patience,
                "the provider heard {heard} requests, {in_flight} are in flight"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

/// Takes the requests of a connection, one after the other.
async fn take(mut stream: TcpStream, counts: Arc<Counts>, mut told: watch::Receiver<Option<Duration>>) {
    let mut read = Vec::new();
    loop {
        if read.windows(4).any(|window| window == b"\r\n\r\n") {
            read.clear();
            if !answer(&mut stream, &counts, &mut told).await {
                return;
            }
        } else if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// Answers one request when the time has come. Says whether the caller is still there.
async fn answer(
    stream: &mut TcpStream,
    counts: &Counts,
    told: &mut watch::Receiver<Option<Duration>>,
) -> bool {
    counts.heard.fetch_add(1, SeqCst);
    let now = counts.in_flight.fetch_add(1, SeqCst) + 1;
    counts.in_flight_max.fetch_max(now, SeqCst);
    let mut rest = [0; 1];
    let there = tokio::select! {
        there = respond(told) => there,
        // The caller sends nothing more: this is its end.
        _ = stream.read(&mut rest) => false,
    };
    let sent = there && stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.is_ok();
    counts.in_flight.fetch_sub(1, SeqCst);
    sent
}

async fn respond(told: &mut watch::Receiver<Option<Duration>>) -> bool {
    let delay = match told.wait_for(Option::is_some).await {
        Ok(delay) => delay.unwrap_or_default(),
        Err(_) => return false,
    };
    tokio::time::sleep(delay).await;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_wait_until_it_answers_and_whoever_is_gone_does_not_count() {
        let provider = Provider::open().await.unwrap();
        let request = b"PUT / HTTP/1.1\r\ncontent-length: 0\r\n\r\n";
        let mut gone = TcpStream::connect(provider.address).await.unwrap();
        gone.write_all(request).await.unwrap();
        let patience = Duration::from_secs(60);
        provider.until(|provider| provider.in_flight() == 1, patience).await.unwrap();
        drop(gone);
        provider.until(|provider| provider.in_flight() == 0, patience).await.unwrap();
        provider.answer_after(Duration::ZERO);
        let mut there = TcpStream::connect(provider.address).await.unwrap();
        there.write_all(request).await.unwrap();
        let mut answer = [0; 12];
        there.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 204");
        assert_eq!((provider.heard(), provider.heard_since_kill(), provider.in_flight_max()), (2, 1, 1));
    }
}
