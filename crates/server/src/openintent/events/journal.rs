//! A run's journal in OpenIntent's words, newest first, read no further back than is asked for.

use abide_core::{Event, EventType, Hash, Key, NodeEvent, Record, RunId};

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

/// Where a journal is read.
pub(super) trait Journal: Sync {
    /// How many events it has.
    fn count(&self) -> impl Future<Output = Result<u64>> + Send;

    /// Its events from one on.
    fn events(&self, from: u64, limit: usize) -> impl Future<Output = Result<Vec<Record>>> + Send;

    /// Its events of one type from one on.
    fn of_type(
        &self,
        kind: EventType,
        from: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>>> + Send;
}

/// A run's journal on disk.
pub(super) struct Kept<'a>(pub(super) &'a App, pub(super) Key);

impl Journal for Kept<'_> {
    async fn count(&self) -> Result<u64> {
        Ok(self.0.engine().head(self.1).await?.next)
    }

    async fn events(&self, from: u64, limit: usize) -> Result<Vec<Record>> {
        Ok(self.0.engine().events(self.1, from, limit).await?)
    }

    async fn of_type(&self, kind: EventType, from: u64, limit: usize) -> Result<Vec<Record>> {
        Ok(self.0.engine().events_of_type(self.1, kind, from, limit).await?)
    }
}

/// Reads a journal from its end.
pub(super) struct Backwards<J> {
    journal: J,
    known: Known,
    /// What lies before this event is not read yet.
    end: u64,
    /// What lies from this event on was heard.
    heard_from: u64,
    /// Before this event nobody wrote down what is asked, once that was looked for.
    records_from: Option<u64>,
    /// All that was ever amended, and who was let in, is known, or is not asked for.
    learnt: bool,
    /// What lies before what is read is not looked at.
    near: bool,
}

impl<'a> Backwards<Kept<'a>> {
    pub(super) async fn of(app: &'a App, key: Key) -> Result<Self> {
        Self::through(Kept(app, key), key.id).await
    }

    /// The last events alone, newest first. What they rest on is known as far as it lies among them.
    pub(super) async fn last(app: &'a App, key: Key) -> Result<Vec<Happened>> {
        let mut journal = Self { learnt: true, near: true, ..Self::of(app, key).await? };
        journal.next().await
    }
}

impl<J: Journal> Backwards<J> {
    async fn through(journal: J, run: RunId) -> Result<Self> {
        let (end, known) = (journal.count().await?, Known::of(run));
        Ok(Self { journal, known, end, heard_from: end, records_from: None, learnt: false, near: false })
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
        let records = self.journal.events(first, limit).await?;
        (self.end, self.heard_from) = (from, self.heard_from.min(first));
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
        let records = self.journal.events(sequence, limit).await?;
        for record in &records {
            record.event().iter().for_each(|event| self.known.hear(record.sequence, event));
        }
        Ok(records)
    }

    async fn hear_all(&mut self, name: &str) -> Result<()> {
        let kind = of_name(name)?;
        let mut from = 0;
        loop {
            let limit = usize::try_from(PAGE_EVENTS).unwrap_or(usize::MAX);
            let page = self.journal.of_type(kind, from, limit).await?;
            for record in &page {
                record.event().iter().for_each(|event| self.known.hear(record.sequence, event));
            }
            match page.last() {
                Some(last) if page.len() == limit => from = last.sequence + 1,
                _ => return Ok(()),
            }
        }
    }

    /// Looks for the records by which questions were asked. They mostly stand right before; what was looked at once is not
    /// looked at again.
    async fn learn_records(&mut self, events: &[(u64, Event)]) -> Result<()> {
        for (_, event) in events {
            let Event::Node {
                event: NodeEvent::InterruptRequested(asked) | NodeEvent::InterruptAmended(asked),
                ..
            } = event
            else {
                continue;
            };
            while !self.near && self.known.lacks_record(asked) {
                let least = self.records_from().await?;
                if self.heard_from <= least {
                    break;
                }
                let from = self.heard_from.saturating_sub(PAGE_EVENTS).max(least);
                self.hear(from, usize::try_from(self.heard_from - from).unwrap_or(usize::MAX)).await?;
                self.heard_from = from;
            }
        }
        Ok(())
    }

    /// Where the first record may stand: in what an intent was made with, which is heard here, or in a change of its state.
    async fn records_from(&mut self) -> Result<u64> {
        if let Some(from) = self.records_from {
            return Ok(from);
        }
        self.hear(0, 1).await?;
        let changed = of_name("intent.patched")?;
        let first = self.journal.of_type(changed, 0, 1).await?;
        let from = first.first().map_or(u64::MAX, |record| record.sequence);
        self.records_from = Some(from);
        Ok(from)
    }
}

fn of_name(name: &str) -> Result<EventType> {
    EventType::by_name(name).ok_or_else(|| ApiError::internal(&format!("there is no type {name}")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use abide_core::Payload;
    use serde_json::{Value, json};

    use super::*;

    /// A journal in memory, and how many events were read of it.
    struct Memory<'a>(&'a [Record], &'a AtomicUsize);

    impl Memory<'_> {
        fn page(&self, from: u64, limit: usize, such: impl Fn(&Record) -> bool) -> Vec<Record> {
            let found = self.0.iter().filter(|record| record.sequence >= from && such(record)).take(limit);
            let found: Vec<Record> = found.cloned().collect();
            self.1.fetch_add(found.len(), Ordering::Relaxed);
            found
        }
    }

    impl Journal for Memory<'_> {
        async fn count(&self) -> Result<u64> {
            Ok(self.0.len() as u64)
        }

        async fn events(&self, from: u64, limit: usize) -> Result<Vec<Record>> {
            Ok(self.page(from, limit, |_| true))
        }

        async fn of_type(&self, kind: EventType, from: u64, limit: usize) -> Result<Vec<Record>> {
            Ok(self.page(from, limit, |record| record.type_code == kind.code))
        }
    }

    fn record(sequence: u64, name: &str, payload: &Value) -> Record {
        let kind = EventType::by_name(name).unwrap();
        Record {
            sequence,
            at: 1_767_603_600_000,
            type_code: kind.code,
            version: kind.version,
            node: (kind.code >= 100).then(|| "self".into()),
            cause: None,
            payload: Payload::Present(payload.to_string().into_bytes().into()),
            chain: [0; 32],
        }
    }

    fn asked(sequence: u64) -> Record {
        let id = format!("int-{sequence:012x}a70a39809dd7cc544de945d7");
        let data = json!({ "questions": [{ "id": "answer", "question": "Go?", "responseType": "text" }] });
        let payload = json!({ "interruptId": id, "kind": "clarification", "key": format!("gate:{sequence}"), "call": 1,
                              "keyless": false, "data": data, "askedBy": ["ada"] });
        record(sequence, "interrupt.requested", &payload)
    }

    fn patched(sequence: u64, path: &str, value: &Value) -> Record {
        let patch = json!({ "op": "set", "path": path, "value": value });
        record(sequence, "intent.patched", &json!({ "patches": [patch], "by": "ada" }))
    }

    /// How many events are read to tell of the last `pages` pages, and what is told.
    async fn read(journal: &[Record], pages: usize) -> (usize, Vec<Told>) {
        let count = AtomicUsize::new(0);
        let mut backwards =
            Backwards::through(Memory(journal, &count), RunId::from_bytes([7; 16])).await.unwrap();
        let mut told = Vec::new();
        for _ in 0..pages {
            told.extend(backwards.next().await.unwrap().into_iter().flat_map(|happened| happened.told));
        }
        (count.load(Ordering::Relaxed), told)
    }

    #[tokio::test]
    async fn what_was_looked_at_for_one_record_is_not_looked_at_for_the_next() {
        let page = usize::try_from(PAGE_EVENTS).unwrap();
        let events = 40 * PAGE_EVENTS;
        // The last page asks in every other event, and nobody has written down what.
        let last = |n: u64| n >= events - PAGE_EVENTS && n.is_multiple_of(2);
        let nobody: Vec<Record> = (0..events)
            .map(|n| if last(n) { asked(n) } else { record(n, "run.resumed", &json!({})) })
            .collect();
        assert!(read(&nobody, 1).await.0 < 2 * page, "no event of the kind is there");
        let some: Vec<Record> = (0..events)
            .map(|n| match n {
                n if last(n) => asked(n),
                n => patched(n, "files", &json!(n)),
            })
            .collect();
        assert!(read(&some, 1).await.0 < 42 * page, "each is read once, and then no more");
        assert!(read(&some, 40).await.0 < 84 * page, "and once more to be told of");
    }

    #[tokio::test]
    async fn a_record_is_found_that_was_written_long_before_it_was_asked() {
        let events = 5 * PAGE_EVENTS;
        let last = events - 1;
        let written = json!({ "id": format!("gate:{last}"), "fallback_policy": "fail" });
        for place in [0, 3, 2 * PAGE_EVENTS] {
            let mut journal: Vec<Record> =
                (0..events).map(|n| record(n, "run.resumed", &json!({}))).collect();
            journal[usize::try_from(place).unwrap()] = patched(place, "_suspension", &written);
            journal[usize::try_from(last).unwrap()] = asked(last);
            let (_, told) = read(&journal, 1).await;
            let suspended = told.iter().find(|told| told.event_type == "intent.suspended").unwrap();
            assert_eq!(suspended.payload["fallback_policy"], "fail", "{place}");
        }
    }
}
