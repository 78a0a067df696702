//! Tells the spans of runs: what ended with a commit, by whoever made the commit, once it is durable.
//!
//! A commit leaves its events here and goes on. A task of its own finds out which spans they end. What began earlier, in
//! this process or another, is in memory or is read from the journal, and is not told again: whoever ended it did.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_core::{Key, Record, Trace};
use abide_store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::Spans;
use super::timeline::{Timeline, ends};
use crate::limits;

/// What a commit has to tell.
pub(crate) struct Told {
    key: Key,
    records: Vec<Record>,
    /// The request that led to it.
    cause: Option<Trace>,
    /// Room for its bytes.
    _room: OwnedSemaphorePermit,
}

enum Message {
    Told(Told),
    /// Nothing more comes, and somebody waits until what came before this was told.
    End(oneshot::Sender<()>),
}

/// Where commits leave what they have to tell.
pub(crate) struct Teller {
    spans: Arc<dyn Spans>,
    queue: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
    /// What waits, until the task takes it.
    waiting: Mutex<Option<mpsc::Receiver<Message>>>,
}

impl Teller {
    pub(crate) fn new(spans: Arc<dyn Spans>) -> Self {
        let (queue, waiting) = mpsc::channel(limits::TOLD_WAITING_MAX);
        let room = Arc::new(Semaphore::new(limits::TOLD_BYTES_MAX));
        Self { spans, queue, room, waiting: Mutex::new(Some(waiting)) }
    }

    /// Notes what a commit will have to tell. It costs references, and no copy of a payload.
    pub(crate) fn note(&self, key: Key, records: &[Record], cause: Option<Trace>) -> Option<Told> {
        let bytes = records.iter().map(|record| record.payload.len()).sum::<usize>();
        let room =
            u32::try_from(bytes).ok().and_then(|bytes| self.room.clone().try_acquire_many_owned(bytes).ok());
        let Some(room) = room else {
            self.spans.lose(ends(records));
            return None;
        };
        Some(Told { key, records: records.to_vec(), cause, _room: room })
    }

    /// The commit is durable. It never waits: what finds no room is counted and gone.
    pub(crate) fn tell(&self, told: Told) {
        if let Err(error) = self.queue.try_send(Message::Told(told))
            && let Message::Told(told) = error.into_inner()
        {
            self.spans.lose(ends(&told.records));
        }
    }

    /// Waits until everything that is durable was told, but not for long. Nothing is told after that.
    pub(crate) async fn drain(&self) {
        let (sender, told) = oneshot::channel();
        let drained = async {
            if self.queue.send(Message::End(sender)).await.is_ok() {
                // If the task is gone, there is nothing to wait for.
                let _ = told.await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(limits::TOLD_DRAIN_MS), drained).await;
    }
}

/// Tells what commits leave, for as long as the engine lives.
pub(crate) async fn run(teller: Arc<Teller>, store: Arc<dyn Store>) {
    let taken = teller.waiting.lock().expect("no thread panics holding this").take();
    let Some(mut waiting) = taken else { return };
    let mut kept = Kept::default();
    while let Some(message) = waiting.recv().await {
        match message {
            Message::End(done) => {
                let _ = done.send(());
                return;
            }
            Message::Told(told) => {
                if let Err(problem) = follow(&teller, &*store, &mut kept, &told).await {
                    teller.spans.lose(ends(&told.records));
                    tracing::debug!(run = %told.key.id, problem, "spans of a run can't be told");
                }
            }
        }
    }
}

async fn follow(teller: &Teller, store: &dyn Store, kept: &mut Kept, told: &Told) -> Result<(), String> {
    let Some(first) = told.records.first().map(|record| record.sequence) else { return Ok(()) };
    // A journal that was cut is shorter than what was seen of it.
    let known = kept.take(told.key).filter(|timeline| timeline.next() <= first);
    let mut timeline = known.unwrap_or_else(|| Timeline::new(told.key));
    while timeline.next() < first {
        let page = usize::try_from(first - timeline.next()).unwrap_or(usize::MAX).min(limits::TOLD_PAGE_MAX);
        let records =
            store.journal(told.key, timeline.next(), page).await.map_err(|error| error.to_string())?;
        if records.is_empty() {
            return Err("the journal ends before the commit".to_owned());
        }
        records.iter().try_for_each(|record| timeline.fold(record, None))?;
        // Whoever made those commits has told of them.
        timeline.take();
    }
    told.records.iter().try_for_each(|record| timeline.fold(record, told.cause.as_ref()))?;
    timeline.take().into_iter().for_each(|span| teller.spans.take(span));
    if timeline.open() > 0 {
        kept.keep(told.key, timeline);
    }
    Ok(())
}

/// What has begun in runs that were seen lately. The one that was not seen for the longest time goes first.
#[derive(Default)]
struct Kept {
    timelines: HashMap<Key, (Timeline, u64)>,
    /// When each was seen, oldest first. Entries that are out of date are passed over.
    seen: VecDeque<(Key, u64)>,
    turn: u64,
    open: usize,
}

impl Kept {
    fn take(&mut self, key: Key) -> Option<Timeline> {
        let (timeline, _) = self.timelines.remove(&key)?;
        self.open -= timeline.open();
        Some(timeline)
    }

    fn keep(&mut self, key: Key, timeline: Timeline) {
        self.turn += 1;
        self.open += timeline.open();
        self.timelines.insert(key, (timeline, self.turn));
        self.seen.push_back((key, self.turn));
        while self.open > limits::SPANS_OPEN_MAX || self.timelines.len() > limits::TIMELINES_MAX {
            let Some((oldest, turn)) = self.seen.pop_front() else { return };
            if self.timelines.get(&oldest).is_some_and(|(_, seen)| *seen == turn) {
                self.take(oldest);
            }
        }
        // Most entries of a busy run are out of date.
        if self.seen.len() > 2 * limits::TIMELINES_MAX {
            let Self { timelines, seen, .. } = self;
            seen.retain(|(key, turn)| timelines.get(key).is_some_and(|(_, last)| last == turn));
        }
    }
}

#[cfg(test)]
mod tests {
    use abide_core::{RunId, TenantId};

    use super::*;

    fn key(number: usize) -> Key {
        RunId(uuid::Uuid::from_u128(number as u128)).of(TenantId(1))
    }

    #[test]
    fn what_was_not_seen_for_long_is_forgotten_first() {
        let mut kept = Kept::default();
        for number in 0..limits::TIMELINES_MAX {
            kept.keep(key(number), Timeline::new(key(number)));
        }
        let seen = kept.take(key(0)).unwrap();
        kept.keep(key(0), seen);
        kept.keep(key(limits::TIMELINES_MAX), Timeline::new(key(limits::TIMELINES_MAX)));
        assert!(kept.timelines.contains_key(&key(0)) && !kept.timelines.contains_key(&key(1)));
        assert_eq!(kept.timelines.len(), limits::TIMELINES_MAX);
    }

    #[test]
    fn a_busy_run_does_not_make_the_book_longer() {
        let mut kept = Kept::default();
        for _ in 0..10 * limits::TIMELINES_MAX {
            let timeline = kept.take(key(1)).unwrap_or_else(|| Timeline::new(key(1)));
            kept.keep(key(1), timeline);
        }
        assert!(kept.seen.len() <= 2 * limits::TIMELINES_MAX);
        assert_eq!(kept.timelines.len(), 1);
    }
}
