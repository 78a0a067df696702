//! All that is there as one JSON array, page by page: however long the journal, no more than a page is in memory, and of
//! large states no more than one.

use std::io;

use abide_core::Key;
use abide_engine::Engine;
use axum::body::{Body, Bytes};
use futures_util::stream;

use super::frame::Frame;
use super::view::{Renderer, View};
use crate::error::{ApiError, Result};
use crate::limits;

/// A document `{"events":[...]}` on its way out.
pub(crate) struct Array {
    engine: Engine,
    key: Key,
    renderer: Renderer,
    at: u64,
    /// Where the journal ended when it was asked for.
    end: u64,
    /// Whether an event stands in the array already.
    begun: bool,
    done: bool,
}

impl Array {
    /// The events from `from` up to `end`, that one left out; `first` stands before them. The first page is read before
    /// anything is answered, so that a run that can't be read is an error and not half a document.
    pub(crate) async fn open(
        engine: &Engine,
        key: Key,
        view: View,
        events: std::ops::Range<u64>,
        first: Option<Frame>,
    ) -> Result<Body> {
        let renderer = Renderer::at(engine, key, view, events.start).await?;
        let (engine, at, end) = (engine.clone(), events.start, events.end);
        let mut array = Self { engine, key, renderer, at, end, begun: false, done: false };
        let mut text = b"{\"events\":[".to_vec();
        array.write(&mut text, first.as_slice());
        array.page(&mut text).await?;
        let rest = stream::unfold(array, |mut array| async move {
            let chunk = array.next().await?;
            Some((chunk, array))
        });
        let begin = stream::once(async { io::Result::Ok(Bytes::from(text)) });
        Ok(Body::from_stream(stream::StreamExt::chain(begin, rest)))
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.done {
            return None;
        }
        let mut text = Vec::new();
        match self.page(&mut text).await {
            Ok(()) => Some(Ok(text.into())),
            // What was wrong stands in the log; the document is broken off, so nobody takes it for whole.
            Err(_) => Some(Err(io::Error::other("the events can't be read"))),
        }
    }

    /// Writes the next page, and the end behind the last.
    async fn page(&mut self, text: &mut Vec<u8>) -> Result<()> {
        let mut records = match self.at < self.end {
            true => self.engine.events(self.key, self.at, limits::STREAM_EVENTS_MAX).await?,
            false => Vec::new(),
        };
        records.retain(|record| record.sequence < self.end);
        if records.is_empty() && self.at < self.end {
            let (at, end) = (self.at, self.end);
            let what = format!("the journal of {} ends at {at}, but {end} events are counted", self.key.id);
            return Err(ApiError::internal(&what));
        }
        let (frames, seen) = self.renderer.render(&self.engine, &records, limits::PORTION_BYTES_MAX).await?;
        self.write(text, &frames);
        self.at = records[..seen].last().map_or(self.at, |last| last.sequence + 1);
        if self.at >= self.end {
            text.extend(b"]}");
            self.done = true;
        }
        Ok(())
    }

    fn write(&mut self, text: &mut Vec<u8>, frames: &[Frame]) {
        for frame in frames {
            text.extend(if self.begun { &b","[..] } else { b"" });
            text.extend(frame.json());
            self.begun = true;
        }
    }
}
