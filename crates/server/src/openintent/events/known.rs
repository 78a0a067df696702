//! What has to be known of earlier events to tell of a later one: what was asked, and who was let in.

use std::collections::BTreeMap;

use abide_core::{
    Access, Event, IntentChanged, InterruptId, InterruptRequested, Json as RawJson, JsonMap, NodeEvent,
    PatchOp, RunEvent, RunId, SUSPENSION,
};

/// As many events as a decision makes between somebody's wish and that the intent is there.
pub(super) const DECISION_EVENTS_MAX: u64 = 12;

/// What is known of earlier events of a run. Whoever reads a journal from its beginning has it hear each event before that
/// is told of; whoever does not has it learn what is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(super) run: RunId,
    /// What was asked, as it was from an event on.
    asked: BTreeMap<InterruptId, Vec<(u64, InterruptRequested)>>,
    /// The records of suspensions as somebody wrote them, each with its event.
    records: BTreeMap<String, (u64, JsonMap)>,
    /// Who was let in, from an event on.
    access: BTreeMap<u64, Access>,
    /// Who sent it where, and why, by the event.
    sent: BTreeMap<u64, Sent>,
}

/// That somebody sent an intent somewhere.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) to: String,
    pub(super) reason: Option<String>,
    pub(super) by: Option<String>,
}

impl Known {
    /// Nothing is known yet.
    pub(crate) fn of(run: RunId) -> Self {
        Self {
            run,
            asked: BTreeMap::new(),
            records: BTreeMap::new(),
            access: BTreeMap::new(),
            sent: BTreeMap::new(),
        }
    }

    /// Hears an event. In which order does not matter.
    pub(crate) fn hear(&mut self, sequence: u64, event: &Event) {
        match event {
            Event::Node {
                event: NodeEvent::InterruptRequested(asked) | NodeEvent::InterruptAmended(asked),
                ..
            } => {
                let versions = self.asked.entry(asked.interrupt_id).or_default();
                let place = versions.partition_point(|(at, _)| *at < sequence);
                if versions.get(place).is_none_or(|(at, _)| *at != sequence) {
                    versions.insert(place, (sequence, (**asked).clone()));
                }
            }
            Event::Run(RunEvent::IntentPatched(patched)) => {
                let whole = |path: &str| path.trim_matches('/') == SUSPENSION;
                let set =
                    patched.patches.iter().rev().find(|patch| patch.op == PatchOp::Set && whole(&patch.path));
                let record = set.and_then(|patch| patch.value.as_ref()?.parse::<JsonMap>().ok());
                let id = record.as_ref().and_then(|record| record.get("id")?.parse::<String>().ok());
                if let (Some(record), Some(id)) = (record, id) {
                    self.keep_record(id, sequence, record);
                }
            }
            Event::Run(RunEvent::Started(started)) => {
                // An intent may be made with the record in its state.
                let state = started.inputs.get("state").and_then(|state| state.parse::<JsonMap>().ok());
                let record = state.and_then(|state| state.get(SUSPENSION)?.parse::<JsonMap>().ok());
                let id = record.as_ref().and_then(|record| record.get("id")?.parse::<String>().ok());
                if let (Some(record), Some(id)) = (record, id) {
                    self.keep_record(id, sequence, record);
                }
            }
            Event::Run(RunEvent::Intent(event)) => match &event.change {
                IntentChanged::AccessSet(access) => {
                    self.access.insert(sequence, (**access).clone());
                }
                IntentChanged::Sent { to, reason } => {
                    let sent = Sent { to: to.clone(), reason: reason.clone(), by: event.by.clone() };
                    self.sent.insert(sequence, sent);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn keep_record(&mut self, id: String, sequence: u64, record: JsonMap) {
        let newer = self.records.get(&id).is_none_or(|(at, _)| *at < sequence);
        if newer {
            self.records.insert(id, (sequence, record));
        }
    }

    /// What was asked, as it was at an event.
    pub(super) fn asked(&self, id: InterruptId, sequence: u64) -> Option<&InterruptRequested> {
        let versions = self.asked.get(&id)?;
        let place = versions.partition_point(|(at, _)| *at <= sequence);
        versions.get(place.saturating_sub(1)).map(|(_, asked)| asked)
    }

    /// What a question is called as a suspension, as far as is known.
    pub(super) fn name(&self, id: InterruptId, sequence: u64) -> String {
        self.asked(id, sequence).map_or_else(|| id.to_string(), InterruptRequested::suspension_id)
    }

    /// A field of the record that a question was asked by.
    pub(super) fn written(&self, asked: &InterruptRequested, field: &str) -> Option<RawJson> {
        let (_, record) = self.records.get(&asked.key)?;
        record.get(field).filter(|value| value.type_name() != "null").cloned()
    }

    /// Who sent it there, if somebody did in the decision that an event is of.
    pub(super) fn sent_before(&self, sequence: u64, to: &str) -> Option<&Sent> {
        let near = sequence.saturating_sub(DECISION_EVENTS_MAX)..sequence;
        self.sent.range(near).next_back().map(|(_, sent)| sent).filter(|sent| sent.to == to)
    }

    /// Who had been let in before an event.
    pub(super) fn access_before(&self, sequence: u64) -> Option<&Access> {
        self.access.range(..sequence).next_back().map(|(_, access)| access)
    }

    /// The questions of which nothing is known yet that these events are about.
    pub(super) fn unknown<'a>(&self, events: impl Iterator<Item = &'a Event>) -> Vec<InterruptId> {
        let mut ids: Vec<InterruptId> =
            events.filter_map(about).filter(|id| !self.asked.contains_key(id)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether the record is not known yet that a question was asked by.
    pub(super) fn lacks_record(&self, asked: &InterruptRequested) -> bool {
        !asked.keyless && !asked.is_beside() && !self.records.contains_key(&asked.key)
    }
}

/// Whether an event has to be known to tell of later ones: whatever is heard is among these.
pub(crate) fn matters(event: &Event) -> bool {
    matches!(
        event,
        Event::Node { event: NodeEvent::InterruptRequested(_) | NodeEvent::InterruptAmended(_), .. }
            | Event::Run(RunEvent::IntentPatched(_) | RunEvent::Started(_) | RunEvent::Intent(_))
    )
}

/// The question that an event is about.
fn about(event: &Event) -> Option<InterruptId> {
    let Event::Node { event, .. } = event else { return None };
    match event {
        NodeEvent::InterruptResolved(closed) => Some(closed.interrupt_id),
        NodeEvent::InterruptRenotified(again) => Some(again.interrupt_id),
        NodeEvent::InterruptEscalated(escalated) => Some(escalated.interrupt_id),
        NodeEvent::InterruptExpired(expired) => Some(expired.interrupt_id),
        NodeEvent::InterruptAmended(asked) => Some(asked.interrupt_id),
        _ => None,
    }
}
