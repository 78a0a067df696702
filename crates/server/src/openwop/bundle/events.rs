//! The events of a bundle: the beginning of a journal and its end, as `debug` shows them, and what lies between if not
//! all of it is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use abide_core::{Event, Key, NodeEvent, Record};
use abide_engine::Engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::Answers;
use super::redact::{Found, Reason, Rules};
use crate::error::Result;
use crate::limits;
use crate::openwop::events::doc;

/// Records that are read at once.
const PAGE: u64 = limits::STREAM_EVENTS_MAX as u64;

/// Bytes around what an event says.
const ENVELOPE_BYTES: usize = 400;

/// What of a journal is in a bundle.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BundledJournal")]
pub(crate) struct Extract {
    /// How many events the journal has, those of the log among them.
    events: u64,
    /// What is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
}

/// Events that are not in a bundle.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[schemars(rename = "JournalGap")]
struct Gap {
    /// The sequence of the first.
    from: u64,
    /// The sequence of the last.
    to: u64,
}

impl Extract {
    /// Whether all of it is here.
    pub(super) fn is_whole(&self) -> bool {
        self.gap.is_none()
    }
}

/// The beginning of a journal, and its end.
pub(super) struct Journal {
    key: Key,
    /// How many records there are.
    next: u64,
    head: Vec<Record>,
    tail: Vec<Record>,
}

impl Journal {
    /// The beginning and the end of a journal, as much of them as there is room for. The end goes first: what led to how a
    /// run stands is what somebody looks for.
    pub(super) async fn read(engine: &Engine, key: Key, next: u64) -> Result<Self> {
        let mut journal = Self { key, next, head: Vec::new(), tail: Vec::new() };
        let room = limits::BUNDLE_EVENTS_BYTES_MAX;
        let all = next <= limits::BUNDLE_HEAD_EVENTS + limits::BUNDLE_TAIL_EVENTS;
        let from = if all { 0 } else { next - limits::BUNDLE_TAIL_EVENTS };
        let left = journal.read_tail(engine, from, room - room / 3).await?;
        let until = journal.tail.first().map_or(next, |record| record.sequence);
        journal.read_head(engine, limits::BUNDLE_HEAD_EVENTS.min(until), left + room / 3).await?;
        Ok(journal)
    }

    /// Reads backwards, and tells how much room is left.
    async fn read_tail(&mut self, engine: &Engine, from: u64, mut room: usize) -> Result<usize> {
        let mut until = self.next;
        'pages: while until > from {
            let start = until.saturating_sub(PAGE).max(from);
            for record in engine.events(self.key, start, (until - start) as usize).await?.into_iter().rev() {
                let Some(left) = room.checked_sub(weight(&record)) else { break 'pages };
                room = left;
                self.tail.push(record);
            }
            until = start;
        }
        self.tail.reverse();
        Ok(room)
    }

    async fn read_head(&mut self, engine: &Engine, until: u64, mut room: usize) -> Result<()> {
        let mut from = 0;
        while from < until {
            let page = engine.events(self.key, from, PAGE.min(until - from) as usize).await?;
            let Some(last) = page.last() else { break };
            from = last.sequence + 1;
            for record in page {
                let Some(left) = room.checked_sub(weight(&record)) else { return Ok(()) };
                room = left;
                self.head.push(record);
            }
        }
        Ok(())
    }

    /// How many bytes there are to go through.
    pub(super) fn bytes(&self) -> usize {
        self.records().map(weight).sum()
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.head.iter().chain(&self.tail)
    }

    /// Lets half of it go; `false` if there is nothing left.
    pub(super) fn halve(&mut self) -> bool {
        if !self.tail.is_empty() {
            self.tail.drain(..self.tail.len().div_ceil(2));
            return true;
        }
        let left = self.head.len() / 2;
        let fewer = left < self.head.len();
        self.head.truncate(left);
        fewer
    }

    fn extract(&self) -> Extract {
        let from = self.head.last().map_or(0, |record| record.sequence + 1);
        let to = self.tail.first().map_or(self.next, |record| record.sequence);
        Extract { events: self.next, gap: (from < to).then(|| Gap { from, to: to - 1 }) }
    }
}

/// What a record may take in a bundle.
fn weight(record: &Record) -> usize {
    record.payload.len().min(limits::BUNDLE_EVENT_BYTES_MAX) + ENVELOPE_BYTES
}

/// Events as JSON text, ready to be put into a bundle.
pub(super) struct Events {
    /// Those that OpenWOP has a name for.
    pub(super) canonical: Vec<String>,
    /// How many of them there are, whether they are wanted or not.
    pub(super) total: usize,
    /// Those that it has no name for.
    pub(super) log: Vec<String>,
    /// The nodes that all of them are about.
    pub(super) nodes: BTreeSet<Arc<str>>,
    /// What of the journal they are.
    pub(super) extract: Extract,
    /// What could not be read.
    pub(super) problems: Vec<String>,
    /// Payloads that say something which means nothing.
    pub(super) faulty: Vec<Faulty>,
}

/// A payload that says something which means nothing.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FaultyPayload")]
pub(crate) struct Faulty {
    sequence: u64,
    node_id: String,
    /// The event's type.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What is wrong with it.
    reason: String,
}

impl Faulty {
    fn of(record: &Record) -> Option<Self> {
        match record.event() {
            Ok(Event::Node { node, event: NodeEvent::AgentDecided(decided) }) => Some(Self {
                sequence: record.sequence,
                node_id: node.to_string(),
                kind: "agent.decided",
                reason: decided.faulty?,
            }),
            _ => None,
        }
    }
}

impl Events {
    pub(super) fn bytes(&self) -> usize {
        self.canonical.iter().chain(&self.log).map(|text| text.len() + 1).sum()
    }
}

/// The events of a journal, without what must not leave, and the first so many of each kind.
pub(super) fn render(
    journal: &Journal,
    answers: Option<&Answers>,
    most: usize,
    (rules, found): (&mut Rules, &mut Found),
) -> Events {
    let nodes = journal.records().filter_map(|record| record.node.clone()).collect();
    let (extract, problems) = (journal.extract(), Vec::new());
    let faulty = journal.records().filter_map(Faulty::of).take(limits::BUNDLE_FAULTY_MAX).collect();
    let mut events =
        Events { canonical: Vec::new(), total: 0, log: Vec::new(), nodes, extract, problems, faulty };
    for record in journal.records() {
        let (kind, text) = match rendered(journal.key, record) {
            Ok(rendered) => rendered,
            Err(problem) => {
                events.problems.push(problem);
                continue;
            }
        };
        let (list, name) = match kind {
            "log.appended" => (&mut events.log, "log"),
            _ => (&mut events.canonical, "events"),
        };
        events.total += usize::from(name == "events");
        if list.len() < most {
            let path = format!("/{name}/{}", list.len());
            if let Some(answers) = answers {
                answers.hide_event(&path, kind, record.node.as_deref(), rules);
            }
            let text = rules.clean(&path, &text, found);
            list.push(small_enough(text, &path, found));
        }
    }
    events
}

fn rendered(key: Key, record: &Record) -> std::result::Result<(&'static str, String), String> {
    let unread = |problem: String| format!("event {} can't be shown: {problem}", record.sequence);
    let (kind, text) = doc::openwop(key.id, record).map_err(unread)?;
    String::from_utf8(text).map(|text| (kind, text)).map_err(|error| unread(error.to_string()))
}

/// An event, without what it says if that is too much.
fn small_enough(text: String, path: &str, found: &mut Found) -> String {
    if text.len() <= limits::BUNDLE_EVENT_BYTES_MAX {
        return text;
    }
    found.note(&format!("{path}/payload"), Reason::Size);
    let mut event: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    event["payload"] = serde_json::Value::Null;
    event.to_string()
}

#[cfg(test)]
mod tests {
    use abide_core::{Payload, RunId, TenantId};

    use super::*;

    fn record(sequence: u64) -> Record {
        let payload = Payload::Present((*b"{}").into());
        Record { sequence, at: 0, type_code: 1, version: 1, node: None, cause: None, payload, chain: [0; 32] }
    }

    fn journal(next: u64, head: std::ops::Range<u64>, tail: std::ops::Range<u64>) -> Journal {
        let run: RunId = "run-00000000-0000-7000-8000-000000000000".parse().unwrap();
        let (head, tail) = (head.map(record).collect(), tail.map(record).collect());
        Journal { key: run.of(TenantId(1)), next, head, tail }
    }

    fn gap(journal: &Journal) -> Option<(u64, u64)> {
        journal.extract().gap.map(|gap| (gap.from, gap.to))
    }

    #[test]
    fn what_is_missing_of_a_journal_is_told() {
        assert_eq!(gap(&journal(5, 0..0, 0..5)), None);
        assert_eq!(gap(&journal(5, 0..2, 2..5)), None);
        assert_eq!(gap(&journal(9, 0..2, 5..9)), Some((2, 4)));
        assert_eq!(gap(&journal(9, 0..0, 5..9)), Some((0, 4)));
        assert_eq!(gap(&journal(9, 0..2, 0..0)), Some((2, 8)));
        assert_eq!(gap(&journal(0, 0..0, 0..0)), None);
    }

    #[test]
    fn a_journal_can_be_halved_until_nothing_is_left() {
        let mut journal = journal(9, 0..3, 5..9);
        let mut steps = 0;
        while journal.halve() {
            steps += 1;
            assert!(!journal.extract().is_whole());
        }
        assert_eq!((journal.head.len(), journal.tail.len(), steps), (0, 0, 5));
    }
}
