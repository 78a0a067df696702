//! The way out: frames as they come, or in batches, and a sign of life when there are none.
//!
//! An outlet is pulled by the connection, so a connection that does not take what it gets asks for nothing more.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::time::{Instant, sleep_until};

use super::feed::Pulled;
use super::frame::{self, Frame, KEEPALIVE};
use crate::error::Result;
use crate::limits;

/// Where frames come from.
pub(crate) trait Source: Send + 'static {
    /// What is there now.
    fn pull(&mut self) -> impl Future<Output = Result<Pulled>> + Send;
    /// What was announced since the last call.
    fn announcements(&mut self) -> Vec<Bytes>;
    /// Waits until there may be something new. `false` if nothing more is to be sent.
    fn news(&mut self) -> impl Future<Output = bool> + Send;
}

/// One subscriber's stream of server-sent events.
pub(crate) struct Outlet<S> {
    source: S,
    /// How long frames are collected; zero if they are not.
    buffer: Duration,
    ready: VecDeque<Frame>,
    live: VecDeque<Bytes>,
    batch: Vec<Frame>,
    batch_bytes: usize,
    /// When the batch is sent at the latest.
    due: Option<Instant>,
    /// When silence has lasted too long.
    silent_until: Instant,
    closing: bool,
}

impl<S: Source> Outlet<S> {
    /// A stream that begins with `first`.
    pub(crate) fn new(source: S, first: Option<Frame>, buffer: Duration) -> Self {
        Self {
            source,
            buffer,
            ready: first.into_iter().collect(),
            live: VecDeque::new(),
            batch: Vec::new(),
            batch_bytes: 0,
            due: None,
            silent_until: Instant::now() + limits::KEEPALIVE,
            closing: false,
        }
    }

    /// The body of an answer.
    pub(crate) fn body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut outlet| async move {
            let chunk = outlet.next().await?;
            Some((chunk, outlet))
        }))
    }

    /// What goes out next; `None` at the end. An error breaks the connection off, so that nobody takes it for the end.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(chunk) = self.outgoing() {
                self.silent_until = Instant::now() + limits::KEEPALIVE;
                return Some(Ok(chunk));
            }
            if self.closing {
                return None;
            }
            match self.source.pull().await {
                Ok(Pulled::Frames(frames)) => self.ready.extend(frames),
                Ok(Pulled::Ended) => self.closing = true,
                Ok(Pulled::Nothing) => {
                    self.live.extend(self.source.announcements());
                    if self.live.is_empty() && self.is_silent().await {
                        self.silent_until = Instant::now() + limits::KEEPALIVE;
                        return Some(Ok(Bytes::from_static(KEEPALIVE)));
                    }
                }
                // What was wrong stands in the log.
                Err(_) => return Some(Err(io::Error::other("the events can't be read"))),
            }
        }
    }

    /// Waits for news or for the next thing to do; `true` if there was neither for too long.
    async fn is_silent(&mut self) -> bool {
        let until = self.due.map_or(self.silent_until, |due| due.min(self.silent_until));
        tokio::select! {
            more = self.source.news() => self.closing = !more,
            () = sleep_until(until) => {}
        }
        Instant::now() >= self.silent_until
    }

    fn outgoing(&mut self) -> Option<Bytes> {
        if self.buffer.is_zero() {
            return self.ready.pop_front().map(|frame| frame.sse()).or_else(|| self.live.pop_front());
        }
        while let Some(frame) = self.ready.pop_front() {
            if self.collect(frame) {
                return self.flush();
            }
        }
        let overdue = self.due.is_some_and(|due| due <= Instant::now());
        if overdue || self.closing || !self.live.is_empty() {
            return self.flush().or_else(|| self.live.pop_front());
        }
        None
    }

    /// Adds a frame to the batch; `true` if it has to be sent now.
    fn collect(&mut self, frame: Frame) -> bool {
        self.due.get_or_insert_with(|| Instant::now() + self.buffer);
        self.batch_bytes += frame.len();
        let urgent = frame.is_urgent();
        self.batch.push(frame);
        urgent || self.batch.len() >= limits::BATCH_FRAMES_MAX || self.batch_bytes >= limits::BATCH_BYTES_MAX
    }

    fn flush(&mut self) -> Option<Bytes> {
        self.due = None;
        self.batch_bytes = 0;
        let frames = std::mem::take(&mut self.batch);
        (!frames.is_empty()).then(|| frame::batch(&frames))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;

    /// Gives what a test sends; the end of the test's sender is the end of the run.
    struct Script {
        frames: UnboundedReceiver<Frame>,
        next: Option<Frame>,
        live: Vec<Bytes>,
        ended: bool,
    }

    impl Source for Script {
        async fn pull(&mut self) -> Result<Pulled> {
            Ok(match self.next.take().or_else(|| self.frames.try_recv().ok()) {
                Some(frame) => Pulled::Frames(vec![frame]),
                None if self.ended => Pulled::Ended,
                None => Pulled::Nothing,
            })
        }

        fn announcements(&mut self) -> Vec<Bytes> {
            std::mem::take(&mut self.live)
        }

        async fn news(&mut self) -> bool {
            self.next = self.frames.recv().await;
            self.ended = self.next.is_none();
            true
        }
    }

    fn outlet(buffer_ms: u64) -> (UnboundedSender<Frame>, Outlet<Script>) {
        let (send, frames) = unbounded_channel();
        let script = Script { frames, next: None, live: Vec::new(), ended: false };
        (send, Outlet::new(script, None, Duration::from_millis(buffer_ms)))
    }

    fn frame(sequence: u64, kind: &str) -> Frame {
        Frame::new(sequence, kind, format!("{{\"n\":{sequence}}}").as_bytes())
    }

    async fn next(outlet: &mut Outlet<Script>) -> String {
        let chunk = outlet.next().await.expect("it has not ended").unwrap();
        String::from_utf8(chunk.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_every_fifteen_seconds_and_only_then() {
        let (send, mut outlet) = outlet(0);
        let began = Instant::now();
        for count in 1..=3 {
            assert_eq!(next(&mut outlet).await, ":keepalive\n\n");
            assert_eq!(began.elapsed(), limits::KEEPALIVE * count);
        }
        tokio::time::advance(Duration::from_secs(14)).await;
        send.send(frame(0, "node.completed")).unwrap();
        assert_eq!(next(&mut outlet).await, "id: 0\nevent: node.completed\ndata: {\"n\":0}\n\n");
        let spoke = Instant::now();
        assert_eq!(next(&mut outlet).await, ":keepalive\n\n");
        assert_eq!(spoke.elapsed(), limits::KEEPALIVE, "counted from the last frame");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_sent_when_its_time_is_up() {
        let (send, mut outlet) = outlet(5000);
        let began = Instant::now();
        send.send(frame(0, "run.started")).unwrap();
        send.send(frame(1, "node.completed")).unwrap();
        assert_eq!(next(&mut outlet).await, "id: 1\nevent: batch\ndata: [{\"n\":0},{\"n\":1}]\n\n");
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        assert_eq!(next(&mut outlet).await, ":keepalive\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn ends_and_suspensions_are_sent_at_once() {
        for kind in ["run.completed", "run.failed", "run.cancelled", "node.suspended"] {
            let (send, mut outlet) = outlet(5000);
            let began = Instant::now();
            send.send(frame(0, "run.started")).unwrap();
            send.send(frame(1, kind)).unwrap();
            assert_eq!(next(&mut outlet).await, "id: 1\nevent: batch\ndata: [{\"n\":0},{\"n\":1}]\n\n");
            assert_eq!(began.elapsed(), Duration::ZERO, "{kind}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_collected_is_sent_before_the_stream_closes() {
        let (send, mut outlet) = outlet(5000);
        let began = Instant::now();
        send.send(frame(4, "node.completed")).unwrap();
        drop(send);
        assert_eq!(next(&mut outlet).await, "id: 4\nevent: batch\ndata: [{\"n\":4}]\n\n");
        assert!(outlet.next().await.is_none());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_sent_in_bounded_batches() {
        let (send, mut outlet) = outlet(5000);
        for sequence in 0..1000 {
            send.send(frame(sequence, "node.completed")).unwrap();
        }
        drop(send);
        let mut flattened = Vec::new();
        while let Some(chunk) = outlet.next().await {
            let text = String::from_utf8(chunk.unwrap().to_vec()).unwrap();
            let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            let batch: Vec<serde_json::Value> = serde_json::from_str(data).unwrap();
            assert!(batch.len() <= limits::BATCH_FRAMES_MAX);
            let last = batch.last().unwrap()["n"].as_u64().unwrap();
            assert!(text.starts_with(&format!("id: {last}\nevent: batch\n")), "{text}");
            flattened.extend(batch.iter().map(|event| event["n"].as_u64().unwrap()));
        }
        assert_eq!(flattened, (0..1000).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn an_announcement_goes_out_behind_what_was_collected() {
        let (send, mut outlet) = outlet(5000);
        send.send(frame(4, "node.completed")).unwrap();
        outlet.source.live.push(frame::announcement("run.annotated", b"{}"));
        assert_eq!(next(&mut outlet).await, "id: 4\nevent: batch\ndata: [{\"n\":4}]\n\n");
        assert_eq!(next(&mut outlet).await, "event: run.annotated\ndata: {}\n\n");
    }
}
