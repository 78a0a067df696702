//! A feed: one run's events in one view, read and serialised once for all who listen.
//!
//! The first reader makes it, the last one takes it away. Readers pull: a reader that stands at the end of the ring
//! reads the store for all, one at a time; one that fell behind reads for itself. Nobody waits for a slower one.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use abide_core::{Key, Record};
use abide_engine::Engine;
use abide_store::Listed;
use axum::body::Bytes;
use tokio::sync::watch;

use super::frame::{self, Frame};
use super::ring::{Found, Ring};
use super::view::{Renderer, View, ends};
use crate::error::{ApiError, Result};
use crate::limits;

/// The feeds that somebody listens to.
#[derive(Default)]
pub(crate) struct Feeds {
    by_view: Mutex<HashMap<Key, Vec<Slot>>>,
    counts: Arc<Counts>,
}

struct Slot {
    feed: Arc<Feed>,
    readers: usize,
}

/// What was read and serialised, for tests.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Reads of the store for all readers of a feed.
    pub(crate) reads: AtomicU64,
    /// Frames that were made for all readers of a feed.
    pub(crate) frames: AtomicU64,
    /// Bytes of the frames that were made at once for all readers of a feed, at the most.
    pub(crate) bytes_at_once: AtomicU64,
    /// Reads of the store for a single reader that was behind.
    pub(crate) lone_reads: AtomicU64,
}

impl Counts {
    fn made(&self, frames: &[Frame]) {
        self.frames.fetch_add(frames.len() as u64, Ordering::Relaxed);
        let bytes: usize = frames.iter().map(Frame::len).sum();
        self.bytes_at_once.fetch_max(bytes as u64, Ordering::Relaxed);
    }
}

struct Feed {
    key: Key,
    view: View,
    ring: Mutex<Ring>,
    /// Held by whoever reads the store for all: what makes frames of the records that follow the ring.
    reading: tokio::sync::Mutex<Option<Renderer>>,
    live: Mutex<Live>,
    /// How many announcements there were.
    announced: watch::Sender<u64>,
    counts: Arc<Counts>,
}

/// The last announcements; they are numbered by `Feed::announced`.
#[derive(Default)]
struct Live {
    frames: VecDeque<Bytes>,
    count: u64,
}

/// One reader's place at a feed.
pub(crate) struct Seat {
    feed: Arc<Feed>,
    feeds: Arc<Feeds>,
    at: u64,
    /// Frames before this sequence are not wanted: the reader asked to go on beyond what there is.
    from: u64,
    /// Frames of its own, while it is behind.
    alone: Option<Renderer>,
    announced: watch::Receiver<u64>,
    heard: u64,
}

/// What a reader got.
pub(crate) enum Pulled {
    /// Frames, perhaps none: ask again.
    Frames(Vec<Frame>),
    /// There is nothing new.
    Nothing,
    /// Nothing comes any more.
    Ended,
}

impl Feeds {
    /// Takes a place at a run's feed, behind everything before event `from`. `head` tells how far the run is on disk.
    pub(crate) fn join(self: &Arc<Self>, key: Key, view: View, from: u64, head: &Listed) -> Seat {
        let mut by_view = lock(&self.by_view);
        let slots = by_view.entry(key).or_default();
        let at = from.min(head.next);
        let found = slots.iter().position(|slot| slot.feed.view == view);
        let slot = found.unwrap_or_else(|| {
            let ended = at == head.next && head.summary.status.is_terminal();
            slots.push(Slot { feed: Arc::new(Feed::new(key, view, at, ended, &self.counts)), readers: 0 });
            slots.len() - 1
        });
        slots[slot].readers += 1;
        let feed = slots[slot].feed.clone();
        lock(&feed.ring).enter(at);
        let announced = feed.announced.subscribe();
        let heard = lock(&feed.live).count;
        Seat { feed, feeds: self.clone(), at, from, alone: None, announced, heard }
    }

    /// Tells whoever listens to a run's updates something that is never recorded.
    pub(crate) fn announce(&self, key: Key, kind: &str, document: &[u8]) {
        let frame = frame::announcement(kind, document);
        let by_view = lock(&self.by_view);
        for slot in
            by_view.get(&key).into_iter().flatten().filter(|slot| slot.feed.view.hears_announcements())
        {
            slot.feed.announce(frame.clone());
        }
    }

    /// Forgets what was serialised of a run, because it is shown differently from now on.
    pub(crate) fn forget(&self, key: Key) {
        for slot in lock(&self.by_view).get(&key).into_iter().flatten() {
            lock(&slot.feed.ring).clear();
        }
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many feeds there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.by_view).values().map(Vec::len).sum()
    }

    fn leave(&self, feed: &Arc<Feed>) {
        let mut by_view = lock(&self.by_view);
        let Some(slots) = by_view.get_mut(&feed.key) else { return };
        if let Some(slot) = slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.feed, feed)) {
            slot.readers -= 1;
        }
        slots.retain(|slot| slot.readers > 0);
        if slots.is_empty() {
            by_view.remove(&feed.key);
        }
    }
}

impl Feed {
    fn new(key: Key, view: View, next: u64, ended: bool, counts: &Arc<Counts>) -> Self {
        Self {
            key,
            view,
            ring: Mutex::new(Ring::new(next, ended)),
            reading: tokio::sync::Mutex::default(),
            live: Mutex::default(),
            announced: watch::Sender::new(0),
            counts: counts.clone(),
        }
    }

    fn announce(&self, frame: Bytes) {
        let mut live = lock(&self.live);
        live.frames.push_back(frame);
        if live.frames.len() > limits::ANNOUNCEMENTS_MAX {
            live.frames.pop_front();
        }
        live.count += 1;
        self.announced.send_replace(live.count);
    }

    /// Reads on behind the ring, unless somebody else did that already.
    async fn read_on(&self, engine: &Engine, next: u64, known: u64) -> Result<()> {
        let mut reading = self.reading.lock().await;
        if lock(&self.ring).next() != next {
            return Ok(());
        }
        let mut renderer = match reading.take() {
            Some(renderer) => renderer,
            None => Renderer::at(engine, self.key, self.view, next).await?,
        };
        let records = page(engine, self.key, next, known).await?;
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        let (frames, seen) = renderer.render(engine, &records, limits::RING_BYTES_MAX).await?;
        self.counts.made(&frames);
        // A reading that was given up half-way leaves no renderer that has seen more than the ring.
        *reading = Some(renderer);
        let last = records[..seen].last();
        let ended = last.map(ends).transpose()?.unwrap_or(false);
        let next = last.map_or(next, |last| last.sequence + 1);
        lock(&self.ring).append(frames, next, ended);
        Ok(())
    }
}

/// Events from `from` on. At least one, if so many are known to be there.
async fn page(engine: &Engine, key: Key, from: u64, known: u64) -> Result<Vec<Record>> {
    let records = engine.events(key, from, limits::STREAM_EVENTS_MAX).await?;
    if records.is_empty() && from < known {
        let what = format!("the journal of {} ends at {from}, but {known} events are counted", key.id);
        return Err(ApiError::internal(&what));
    }
    Ok(records)
}

impl Seat {
    /// What comes next, as far as it is on disk. `known` events are known to be there.
    pub(crate) async fn pull(&mut self, engine: &Engine, known: u64) -> Result<Pulled> {
        let found = lock(&self.feed.ring).find(self.at);
        match found {
            Found::Frames(frames, next) => {
                self.alone = None;
                Ok(self.take(frames, next))
            }
            Found::Ended => Ok(Pulled::Ended),
            Found::AtEnd(next) if next >= known => Ok(Pulled::Nothing),
            Found::AtEnd(next) => {
                self.alone = None;
                self.feed.read_on(engine, next, known).await?;
                Ok(Pulled::Frames(Vec::new()))
            }
            Found::Behind => self.read_alone(engine).await,
        }
    }

    /// Reads a little for this reader alone.
    async fn read_alone(&mut self, engine: &Engine) -> Result<Pulled> {
        let ring_next = lock(&self.feed.ring).next();
        let mut renderer = match self.alone.take() {
            Some(renderer) => renderer,
            None => Renderer::at(engine, self.feed.key, self.feed.view, self.at).await?,
        };
        self.feed.counts.lone_reads.fetch_add(1, Ordering::Relaxed);
        let mut records = engine.events(self.feed.key, self.at, limits::STREAM_EVENTS_MAX).await?;
        records.retain(|record| record.sequence < ring_next);
        records.truncate(limits::PORTION_FRAMES_MAX);
        let (frames, seen) = renderer.render(engine, &records, limits::PORTION_BYTES_MAX).await?;
        let Some(last) = records[..seen].last() else {
            let what = format!("event {} of {} is gone", self.at, self.feed.key.id);
            return Err(ApiError::internal(&what));
        };
        self.alone = Some(renderer);
        Ok(self.take(frames, last.sequence + 1))
    }

    fn take(&mut self, mut frames: Vec<Frame>, next: u64) -> Pulled {
        let mut ring = lock(&self.feed.ring);
        ring.enter(next);
        ring.leave(self.at);
        self.at = next;
        frames.retain(|frame| frame.sequence() >= self.from);
        Pulled::Frames(frames)
    }

    /// What was announced since the last call.
    pub(crate) fn announcements(&mut self) -> Vec<Bytes> {
        self.announced.mark_unchanged();
        let live = lock(&self.feed.live);
        let missed = usize::try_from(live.count - self.heard).unwrap_or(usize::MAX);
        self.heard = live.count;
        live.frames.iter().skip(live.frames.len().saturating_sub(missed)).cloned().collect()
    }

    /// Waits for an announcement.
    pub(crate) async fn announced(&mut self) {
        // The sender lives in the feed, and the feed as long as this.
        let _ = self.announced.changed().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.feed.ring).leave(self.at);
        self.feeds.leave(&self.feed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics holding this")
}
