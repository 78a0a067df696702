//! The folded state of one run.
//!
//! State changes in one place, `Run::fold`, whether an event was just decided or is read back from disk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::effect::{Effect, Notice, TaskId, TimerId};
use crate::event::{Event, Failure, NodeEvent, NodeStarted, Parent, RunEvent, Started};
use crate::journal::{Head, Record, Salt};
use crate::lifecycle::{Hold, Lifecycle};
use crate::node::{Node, NodePhase};
use crate::{Graph, Json, JsonMap, Key, Millis, NodeIx, ports};

/// A run: its definition, its journal's end, and everything folded from the journal.
#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) key: Key,
    pub(crate) salt: Salt,
    pub(crate) graph: Arc<Graph>,
    pub(crate) head: Head,
    pub(crate) state: State,
}

/// What is folded from the journal; the whole of it goes into a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) hold: Hold,
    pub(crate) started_at: Millis,
    pub(crate) ended_at: Option<Millis>,
    pub(crate) inputs: JsonMap,
    pub(crate) variables: JsonMap,
    pub(crate) tags: Vec<String>,
    pub(crate) metadata: Option<Json>,
    pub(crate) parent: Option<Parent>,
    pub(crate) nodes: Vec<Node>,
    /// Nodes whose incoming edges are all satisfied, oldest first, with the event that satisfied the last.
    pub(crate) ready: VecDeque<(NodeIx, u64)>,
    /// Nodes handed to an executor whose outcome is unknown.
    pub(crate) in_flight: u32,
    /// Nodes that are not settled.
    pub(crate) unsettled: u32,
    /// Why the run will end although nodes are unsettled. Work in flight is waited for.
    pub(crate) ending: Option<Ending>,
    /// How the run ended.
    pub(crate) error: Option<Failure>,
    #[serde(with = "timers")]
    pub(crate) timers: BTreeMap<TimerId, Millis>,
}

/// How a run is going to end once nothing is in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// A node failed.
    Failed { node: String, error: Failure },
    /// Somebody cancelled.
    Cancelled { reason: Option<String>, by: Option<String> },
}

/// A lease can be claimed anew so many times, in bits, before its fence reaches that of the next event.
const FENCES_PER_EVENT_BITS: u32 = 16;

/// A journal that does not fold: the data was damaged, or a bug wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {sequence}: {reason}")]
pub struct Corrupt {
    /// The first bad event.
    pub sequence: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl Run {
    /// A run before its first event, ready to fold a journal.
    pub fn empty(key: Key, salt: Salt, graph: Arc<Graph>) -> Self {
        let nodes: Vec<Node> = graph.nodes.iter().map(|node| Node::pending(node.incoming)).collect();
        let unsettled = nodes.len() as u32;
        let state = State {
            lifecycle: Lifecycle::Pending,
            hold: Hold::None,
            started_at: 0,
            ended_at: None,
            inputs: JsonMap::new(),
            variables: JsonMap::new(),
            tags: Vec::new(),
            metadata: None,
            parent: None,
            nodes,
            ready: VecDeque::new(),
            in_flight: 0,
            unsettled,
            ending: None,
            error: None,
            timers: BTreeMap::new(),
        };
        Self { key, salt, graph, head: Head::new(key), state }
    }

    /// Folds the next record of the journal: its place, its chain and its meaning are all checked.
    pub fn apply(&mut self, record: &Record) -> Result<Vec<Effect>, Corrupt> {
        let corrupt = |reason| Corrupt { sequence: record.sequence, reason };
        let event = record.event().map_err(corrupt)?;
        let mut head = self.head;
        head.accept(record, Some(&self.salt)).map_err(corrupt)?;
        self.head = head;
        let mut effects = Vec::new();
        self.fold(&event, record.sequence, record.at, &mut effects).map_err(corrupt)?;
        Ok(effects)
    }

    /// The one place where state changes.
    pub(crate) fn fold(
        &mut self,
        event: &Event,
        sequence: u64,
        at: Millis,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        match event {
            Event::Run(event) => self.fold_run(event, sequence, at, effects),
            Event::Node { node, event } => self.fold_node(node, event, sequence, at, effects),
        }
    }

    fn fold_run(
        &mut self,
        event: &RunEvent,
        sequence: u64,
        at: Millis,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let state = &mut self.state;
        let illegal =
            || format!("{event:?} is illegal for a run that is {:?}, {:?}", state.lifecycle, state.hold);
        let lifecycle = state.lifecycle.after(event).ok_or_else(illegal)?;
        let hold = state.hold.after(event).ok_or_else(illegal)?;
        (state.lifecycle, state.hold) = (lifecycle, hold);
        match event {
            RunEvent::Started(started) => self.begin(started, at, sequence)?,
            RunEvent::Completed(_) => self.end(sequence, at, None, effects),
            RunEvent::Failed(failed) => self.end(sequence, at, Some(failed.error.clone()), effects),
            RunEvent::Cancelled(_) => self.end(sequence, at, None, effects),
            RunEvent::Cancelling(asked) => {
                let (reason, by) = (asked.reason.clone(), asked.cancelled_by.clone());
                state.ending = Some(Ending::Cancelled { reason, by });
                self.disarm(&TimerId::Stretch, effects);
            }
            RunEvent::Paused(_) => self.disarm(&TimerId::Stretch, effects),
            RunEvent::Resumed(_) => {}
            RunEvent::Yielded(_) => self.arm(TimerId::Stretch, at, effects),
            RunEvent::ChildReported(report) => {
                effects.push(Effect::Hear { from: report.child, sequence: report.sequence });
            }
        }
        Ok(())
    }

    fn begin(&mut self, started: &Started, at: Millis, sequence: u64) -> Result<(), String> {
        if started.definition != self.graph.hash_hex() {
            return Err(format!(
                "the run is pinned to definition {}, not to the one given",
                started.definition
            ));
        }
        let state = &mut self.state;
        state.started_at = at;
        state.variables = ports::initial_variables(&self.graph, &started.inputs);
        state.inputs = started.inputs.clone();
        state.tags = started.tags.clone();
        state.metadata = started.metadata.clone();
        state.parent = started.parent.clone();
        let roots = self.graph.nodes.iter().enumerate().filter(|(_, node)| node.incoming == 0);
        state.ready.extend(roots.map(|(ix, _)| (ix as NodeIx, sequence)));
        Ok(())
    }

    /// The journal ends here: nothing is left armed, and the parent hears of it.
    fn end(&mut self, sequence: u64, at: Millis, error: Option<Failure>, effects: &mut Vec<Effect>) {
        let state = &mut self.state;
        state.ended_at = Some(at);
        state.error = error;
        state.ending = None;
        state.ready.clear();
        for (timer, due) in std::mem::take(&mut state.timers) {
            effects.push(Effect::DropTimer { timer, due });
        }
        if let Some(parent) = state.parent.clone() {
            let notice = Notice {
                from: self.key.id,
                sequence,
                node: parent.node,
                lifecycle: state.lifecycle,
                execution: parent.execution.unwrap_or(0),
                outputs: JsonMap::new(),
                sensitive: Vec::new(),
                error: None,
            };
            effects.push(Effect::Send { to: parent.run, notice });
        }
    }

    fn fold_node(
        &mut self,
        id: &Arc<str>,
        event: &NodeEvent,
        sequence: u64,
        at: Millis,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        if !matches!(self.state.lifecycle, Lifecycle::Running | Lifecycle::Cancelling) {
            return Err(format!("a node event in a run that is {:?}", self.state.lifecycle));
        }
        let ix = self.graph.node(id).ok_or_else(|| format!("the definition has no node '{id}'"))?;
        let node = &mut self.state.nodes[ix as usize];
        let was = node.phase;
        node.phase =
            was.after(event).ok_or_else(|| format!("{event:?} is illegal for a node that is {was:?}"))?;
        match event {
            NodeEvent::Started(started) => self.start_node(ix, started, sequence, at, effects)?,
            NodeEvent::Completed(done) => {
                node.outputs = done.outputs.clone();
                self.settle(ix, was, at, effects);
                self.release(ix, sequence);
            }
            NodeEvent::Failed(failed) => {
                node.error = Some(failed.error.clone());
                let ending = Ending::Failed { node: id.to_string(), error: failed.error.clone() };
                self.state.ending.get_or_insert(ending);
                self.settle(ix, was, at, effects);
                // Nothing starts any more, so nothing would ever take the timer away.
                self.disarm(&TimerId::Stretch, effects);
            }
            NodeEvent::Cancelled(_) => self.settle(ix, was, at, effects),
        }
        Ok(())
    }

    fn start_node(
        &mut self,
        ix: NodeIx,
        started: &NodeStarted,
        sequence: u64,
        at: Millis,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        match self.state.ready.pop_front() {
            Some((next, _)) if next == ix => {}
            _ => return Err("the node was not next in line".to_owned()),
        }
        self.disarm(&TimerId::Stretch, effects);
        let id = self.graph.at(ix).id.clone();
        let node = &mut self.state.nodes[ix as usize];
        node.execution = started.execution;
        node.started_at = Some(at);
        node.until = started.until;
        node.dispatched = started.dispatched;
        if started.dispatched {
            self.state.in_flight += 1;
            let task = TaskId { node: id, execution: started.execution };
            effects.push(Effect::Dispatch { task, fence: sequence << FENCES_PER_EVENT_BITS });
        } else if let Some(due) = started.until {
            self.arm(TimerId::Delay { node: id, execution: started.execution }, due, effects);
        }
        Ok(())
    }

    /// An execution is over: its timer or its task goes with it.
    fn settle(&mut self, ix: NodeIx, was: NodePhase, at: Millis, effects: &mut Vec<Effect>) {
        let id = self.graph.at(ix).id.clone();
        let node = &mut self.state.nodes[ix as usize];
        node.ended_at = Some(at);
        node.until = None;
        let execution = node.execution;
        let dispatched = std::mem::take(&mut node.dispatched);
        self.state.unsettled -= 1;
        match was {
            NodePhase::Waiting => self.disarm(&TimerId::Delay { node: id, execution }, effects),
            NodePhase::Running if dispatched => {
                self.state.in_flight -= 1;
                effects.push(Effect::FinishTask(TaskId { node: id, execution }));
            }
            _ => {}
        }
    }

    /// Satisfies the edges that lead out of a completed node.
    fn release(&mut self, ix: NodeIx, sequence: u64) {
        for &next in &self.graph.at(ix).next {
            let node = &mut self.state.nodes[next as usize];
            node.unmet -= 1;
            if node.unmet == 0 {
                self.state.ready.push_back((next, sequence));
            }
        }
    }

    fn arm(&mut self, timer: TimerId, due: Millis, effects: &mut Vec<Effect>) {
        self.disarm(&timer, effects);
        self.state.timers.insert(timer.clone(), due);
        effects.push(Effect::ArmTimer { timer, due });
    }

    fn disarm(&mut self, timer: &TimerId, effects: &mut Vec<Effect>) {
        if let Some((timer, due)) = self.state.timers.remove_entry(timer) {
            effects.push(Effect::DropTimer { timer, due });
        }
    }

    /// Whether a node of this kind runs under a lease rather than inside a decision.
    pub(crate) fn is_dispatched(&self, ix: NodeIx) -> bool {
        let node = self.graph.at(ix);
        node.durable && !matches!(node.kind, crate::Kind::Delay | crate::Kind::Unknown)
    }
}

/// What may be read of a run.
impl Run {
    /// Which run this is.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The definition it follows.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The end of its journal.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Where it stands.
    pub fn lifecycle(&self) -> Lifecycle {
        self.state.lifecycle
    }

    /// What holds it.
    pub fn hold(&self) -> Hold {
        self.state.hold
    }

    /// When its first event was recorded.
    pub fn started_at(&self) -> Millis {
        self.state.started_at
    }

    /// When its last event was recorded, once it has ended.
    pub fn ended_at(&self) -> Option<Millis> {
        self.state.ended_at
    }

    /// What the caller passed in.
    pub fn inputs(&self) -> &JsonMap {
        &self.state.inputs
    }

    /// Its variables as they are now.
    pub fn variables(&self) -> &JsonMap {
        &self.state.variables
    }

    /// The caller's labels.
    pub fn tags(&self) -> &[String] {
        &self.state.tags
    }

    /// The caller's own data.
    pub fn metadata(&self) -> Option<&Json> {
        self.state.metadata.as_ref()
    }

    /// The run and node it stands for.
    pub fn parent(&self) -> Option<&Parent> {
        self.state.parent.as_ref()
    }

    /// Why it failed.
    pub fn error(&self) -> Option<&Failure> {
        self.state.error.as_ref()
    }

    /// One node's state.
    pub fn node(&self, ix: NodeIx) -> &Node {
        &self.state.nodes[ix as usize]
    }

    /// Every node's state, in the order of the definition.
    pub fn nodes(&self) -> &[Node] {
        &self.state.nodes
    }

    /// The timers it waits for.
    pub fn timers(&self) -> &BTreeMap<TimerId, Millis> {
        &self.state.timers
    }

    /// The tasks whose outcome it waits for.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        let running =
            self.state.nodes.iter().enumerate().filter(|(_, node)| node.phase == NodePhase::Running);
        running.map(|(ix, node)| TaskId { node: self.graph.nodes[ix].id.clone(), execution: node.execution })
    }

    /// Whether nothing happens until a timer, an answer or an operator comes: the run may leave memory.
    pub fn is_parked(&self) -> bool {
        self.state.in_flight == 0 && !self.state.lifecycle.is_terminal()
    }
}

/// Timers in a snapshot, under their text keys.
mod timers {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::{Millis, TimerId};

    pub(super) fn serialize<S: Serializer>(
        timers: &BTreeMap<TimerId, Millis>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let named: BTreeMap<String, Millis> =
            timers.iter().map(|(timer, due)| (timer.to_string(), *due)).collect();
        named.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<TimerId, Millis>, D::Error> {
        let named = BTreeMap::<String, Millis>::deserialize(from)?;
        named.into_iter().map(|(name, due)| Ok((name.parse().map_err(D::Error::custom)?, due))).collect()
    }
}
