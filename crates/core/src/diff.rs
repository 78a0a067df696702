//! How two journals differ: event by event, whatever their runs, interrupts, conversations, artifacts and children are
//! called and whenever things happened. What is never shown is not compared.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::event::{ArtifactCreated, Event, NodeEvent, PlanChange, RunEvent, TaskChange};
use crate::fork::{Names, Place, Places};
use crate::{Corrupt, Record, RunId, mask};

/// Names of fields in which an event says when, by what the event is called. The times themselves are no difference.
const TIMES: &[(&str, &[&str])] = &[
    ("run.completed", &["durationMs"]),
    ("node.started", &["until"]),
    ("node.retried", &["until"]),
    ("sleep.started", &["until"]),
    ("provider.postponed", &["since"]),
    ("interrupt.renotified", &["nextAttemptAt"]),
    ("resume_decision", &["at"]),
    // How far a child was when it told something is its own affair.
    ("child.reported", &["sequence", "still", "status", "suspended", "claimed"]),
];

/// Fields of a start that say who started what for whom, and not what it does.
const ORIGINS: &[&str] = &["forked", "trace", "parent", "by", "exclusive"];

/// Paths that are told of one difference.
const PATHS_MAX: usize = 16;

/// How two journals differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// How many events are the same in both.
    pub same: u64,
    /// What is not, in the order of the journals.
    pub differences: Vec<Difference>,
}

/// An event that is not the same in both journals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The event of the first, unless only the second has it.
    pub first: Option<Spot>,
    /// The event of the second, unless only the first has it.
    pub second: Option<Spot>,
    /// Where in the payloads they differ, as JSON pointers; some of them, if they are many.
    pub paths: Vec<String>,
}

/// Where an event stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its place in its journal.
    pub sequence: u64,
    /// What happened.
    pub event: &'static str,
    /// To which node.
    pub node: Option<Arc<str>>,
    /// In which execution of it.
    pub execution: u32,
}

/// One journal, ready to be compared.
struct Side {
    spots: Vec<(Place, Spot, Value)>,
}

/// Compares two journals. What was erased can't be.
pub fn diff(first: (RunId, &[Record]), second: (RunId, &[Record])) -> Result<Diff, Corrupt> {
    let (first, second) = (Side::read(first.0, first.1)?, Side::read(second.0, second.1)?);
    let there: HashMap<&Place, usize> =
        second.spots.iter().enumerate().map(|(at, (place, ..))| (place, at)).collect();
    let mut diff = Diff::default();
    let mut matched = BTreeMap::new();
    // By where they stand: what only the second has comes behind the last event that both have.
    let mut found: Vec<((usize, usize), Difference)> = Vec::new();
    for (at, (place, spot, value)) in first.spots.iter().enumerate() {
        let Some(&other) = there.get(place) else {
            let only = Difference { first: Some(spot.clone()), second: None, paths: Vec::new() };
            found.push(((at, 0), only));
            continue;
        };
        matched.insert(other, at);
        let (_, spot_there, value_there) = &second.spots[other];
        let mut paths = Vec::new();
        walk(value, value_there, &mut String::new(), &mut paths);
        if paths.is_empty() {
            diff.same += 1;
            continue;
        }
        let both = Difference { first: Some(spot.clone()), second: Some(spot_there.clone()), paths };
        found.push(((at, 0), both));
    }
    let mut behind = 0;
    for (other, (_, spot, _)) in second.spots.iter().enumerate() {
        match matched.get(&other) {
            Some(&at) => behind = at,
            None => {
                let only = Difference { first: None, second: Some(spot.clone()), paths: Vec::new() };
                found.push(((behind, 1 + other), only));
            }
        }
    }
    found.sort_by_key(|(at, _)| *at);
    diff.differences = found.into_iter().map(|(_, difference)| difference).collect();
    Ok(diff)
}

impl Side {
    fn read(run: RunId, journal: &[Record]) -> Result<Self, Corrupt> {
        let (mut places, mut names, mut spots) = (Places::default(), Names::default(), Vec::new());
        names.add(run, "run");
        for record in journal {
            let corrupt = |reason| Corrupt { sequence: record.sequence, reason };
            let event = record.event().map_err(corrupt)?;
            // That a replay differs is no event of what was done.
            if matches!(event, Event::Run(RunEvent::ReplayDiverged(_))) {
                continue;
            }
            let place = places.next(&event);
            name(&mut names, run, &place, &event);
            let spot = Spot {
                sequence: record.sequence,
                event: event.event_type().name,
                node: place.node.clone(),
                execution: place.execution,
            };
            let value = neutral(&names, &event).map_err(|error| corrupt(error.to_string()))?;
            spots.push((place, spot, value));
        }
        Ok(Self { spots })
    }
}

/// Calls what an event makes by where it was made.
fn name(names: &mut Names, run: RunId, place: &Place, event: &Event) {
    if let Event::Run(RunEvent::Started(started)) = event
        && let Some(forked) = &started.forked
    {
        // A replay speaks of the run that it replays as of itself, and so does what a branch has kept of another run.
        names.add(forked.run, "run");
        forked.replays.iter().for_each(|run| names.add(run, "run"));
    }
    match event {
        Event::Run(RunEvent::Task(told)) if told.change == TaskChange::Created => {
            names.add(told.task_id, format!("task/{}", place.nth));
        }
        Event::Run(RunEvent::Plan(told)) if told.change == PlanChange::Created => {
            names.add(told.plan_id, format!("plan/{}", place.nth));
        }
        _ => {}
    }
    let Event::Node { node, event } = event else { return };
    let at = format!("{node}/{}/{}", place.execution, place.nth);
    match event {
        NodeEvent::InterruptRequested(asked) => {
            names.add(asked.interrupt_id, format!("interrupt/{at}"));
            if let Some(id) = asked.minted_conversation() {
                names.add(id, format!("conversation/{at}"));
            }
        }
        NodeEvent::Spawned(spawned) => names.add(spawned.child, format!("child/{at}")),
        // A gate may speak of what its node produces before it has produced anything.
        NodeEvent::Started(_) => {
            let made = ArtifactCreated::of(run, node, place.execution, node);
            names.add(made.artifact_id, format!("artifact/{node}/{}", place.execution));
        }
        _ => {}
    }
}

/// What an event says, without names and times, and without what is never shown: whoever is told that two hidden values
/// are the same, and knows one of them, knows the other.
fn neutral(names: &Names, event: &Event) -> serde_json::Result<Value> {
    let payload = event.encode();
    let shown = mask::payload(event.event_type(), &payload)?;
    let text = names.rename(&String::from_utf8_lossy(&shown));
    // Not all that is JSON can be looked into.
    let mut value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    let kind = event.event_type().name;
    if let Value::Object(fields) = &mut value {
        let times = TIMES.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, times)| *times);
        let origins = if kind == "run.started" { ORIGINS } else { &[] };
        times.iter().chain(origins).for_each(|field| drop(fields.remove(*field)));
        if ["node.spawned", "conversation.opened"].contains(&kind) {
            fields.remove("elsewhere");
        }
    }
    drop_decision_times(&mut value);
    Ok(value)
}

/// When somebody decided stands in what they decided, and goes on from there. Payloads are of bounded depth.
fn drop_decision_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("decidedAt");
            fields.values_mut().for_each(drop_decision_times);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_decision_times),
        _ => {}
    }
}

fn walk(first: &Value, second: &Value, path: &mut String, found: &mut Vec<String>) {
    if first == second || found.len() >= PATHS_MAX {
        return;
    }
    let (Value::Object(ours), Value::Object(theirs)) = (first, second) else {
        return found.push(if path.is_empty() { "/".to_owned() } else { path.clone() });
    };
    let mut keys: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let before = path.len();
        path.push('/');
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        walk(ours.get(key).unwrap_or(&Value::Null), theirs.get(key).unwrap_or(&Value::Null), path, found);
        path.truncate(before);
    }
}
