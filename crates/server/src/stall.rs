//! A connection that is given up when the other side takes nothing for too long.
//!
//! Time is counted only while something waits to be written, so a connection that rests costs nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection, and since when it takes nothing.
pub(crate) struct Impatient<S> {
    stream: S,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, stalled: None }
    }

    /// What became of a write: one that waits for too long is an error.
    fn judge<T>(&mut self, tried: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.stalled = None;
            return tried;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        let too_long = || io::Error::new(io::ErrorKind::TimedOut, "the other side takes nothing");
        stalled.as_mut().poll(context).map(|()| Err(too_long()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(tried, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(tried, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_flush(context);
        // A flush of nothing says nothing about a write that waits.
        if tried.is_ready() { tried } else { self.judge(tried, context) }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(tried, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, advance, sleep};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_given_up() {
        let (ours, _theirs) = duplex(16);
        let mut ours = Impatient::new(ours, PATIENCE);
        let began = Instant::now();
        let error = ours.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_waited_for_and_a_resting_connection_has_no_timer() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = Impatient::new(ours, PATIENCE);
        let reading = tokio::spawn(async move {
            let mut got = 0;
            while got < 100 {
                sleep(PATIENCE * 9 / 10).await;
                got += theirs.read(&mut [0; 16]).await.unwrap();
            }
            theirs
        });
        ours.write_all(&[0; 100]).await.unwrap();
        let _theirs = reading.await.unwrap();
        assert!(ours.stalled.is_none());
        advance(PATIENCE * 10).await;
        ours.write_all(&[0; 10]).await.unwrap();
    }
}
