//! A run's journal in OpenIntent's words, newest first, read no further back than is asked for.

use abide_core::{Event, EventType, Hash, Key, NodeEvent, Record};

use super::known::DECISION_EVENTS_MAX;
use super::{Known, Told, told};
use crate::app::App;
use crate::error::{ApiError, Result};

/// Events read at once.
const PAGE_EVENTS: u64 = 256;

/// What an event became, with its place and what stands before it in the chain.
pub(super) struct Happened {
    pub(super) record: Record,
    pub(super) before: Option<Hash>,
    pub(super) told: Vec<Told>,
}

/// Reads a journal from its end.
pub(super) struct Backwards<'a> {
    app: &'a App,
    key: Key,
    known: Known,
    /// What lies before this event is not read yet.
    end: u64,
    /// All that was ever amended, and who was let in, is known.
    learnt: bool,
}

impl<'a> Backwards<'a> {
    pub(super) async fn of(app: &'a App, key: Key) -> Result<Self> {
        let end = app.engine().head(key).await?.next;
        Ok(Self { app, key, known: Known::of(key.id), end, learnt: false })
    }

    /// The next events towards the beginning, newest first; none if that is reached.
    pub(super) async fn next(&mut self) -> Result<Vec<Happened>> {
        if self.end == 0 {
            return Ok(Vec::new());
        }
        let from = self.end.saturating_sub(PAGE_EVENTS);
        // Some more, for what stands before the first in the chain, and for who sent it where it is.
        let first = from.saturating_sub(DECISION_EVENTS_MAX);
        let limit = usize::try_from(self.end - first).unwrap_or(usize::MAX);
        let records = self.app.engine().events(self.key, first, limit).await?;
        self.end = from;
        let read = |record: &Record| record.event().ok().map(|event| (record.sequence, event));
        let events: Vec<(u64, Event)> = records.iter().filter_map(read).collect();
        self.learn(&events).await?;
        let mut happened = Vec::new();
        for (place, record) in records.iter().enumerate().filter(|(_, record)| record.sequence >= from) {
            let event = events.binary_search_by_key(&record.sequence, |(sequence, _)| *sequence);
            let Ok(event) = event.map(|at| &events[at].1) else { continue };
            let told = told(event, record.sequence, record.at, &self.known);
            let before = place.checked_sub(1).map(|before| records[before].chain);
            happened.push(Happened { record: record.clone(), before, told });
        }
        happened.reverse();
        Ok(happened)
    }

    /// Learns what has to be known to tell of these events.
    async fn learn(&mut self, events: &[(u64, Event)]) -> Result<()> {
        events.iter().for_each(|(sequence, event)| self.known.hear(*sequence, event));
        for id in self.known.unknown(events.iter().map(|(_, event)| event)) {
            self.hear(id.sequence(), 1).await?;
        }
        // Both are rare, and may lie anywhere before.
        let of_these = |(_, event): &(u64, Event)| {
            let name = event.event_type().name;
            name == "intent.access_set" || name.starts_with("interrupt.") && name != "interrupt.requested"
        };
        if !self.learnt && events.iter().any(of_these) {
            self.learnt = true;
            for name in ["interrupt.amended", "intent.access_set"] {
                self.hear_all(name).await?;
            }
        }
        self.learn_records(events).await
    }

    async fn hear(&mut self, sequence: u64, limit: usize) -> Result<Vec<Record>> {
        let records = self.app.engine().events(self.key, sequence, limit).await?;
        for record in &records {
            record.event().iter().for_each(|event| self.known.hear(record.sequence, event));
        }
        Ok(records)
    }

    async fn hear_all(&mut self, name: &str) -> Result<()> {
        let kind = EventType::by_name(name)
            .ok_or_else(|| ApiError::internal(&format!("there is no type {name}")))?;
        let mut from = 0;
        loop {
            let limit = usize::try_from(PAGE_EVENTS).unwrap_or(usize::MAX);
            let page = self.app.engine().events_of_type(self.key, kind, from, limit).await?;
            for record in &page {
                record.event().iter().for_each(|event| self.known.hear(record.sequence, event));
            }
            match page.last() {
                Some(last) if page.len() == limit => from = last.sequence + 1,
                _ => return Ok(()),
            }
        }
    }

    /// Looks for the records by which questions were asked. They mostly stand right before.
    async fn learn_records(&mut self, events: &[(u64, Event)]) -> Result<()> {
        for (sequence, event) in events {
            let Event::Node {
                event: NodeEvent::InterruptRequested(asked) | NodeEvent::InterruptAmended(asked),
                ..
            } = event
            else {
                continue;
            };
            let mut end = *sequence;
            while end > 0 && self.known.lacks_record(asked) {
                let from = end.saturating_sub(PAGE_EVENTS);
                self.hear(from, usize::try_from(end - from).unwrap_or(usize::MAX)).await?;
                end = from;
            }
        }
        Ok(())
    }
}
