//! One run: its definition, its journal's end, and everything folded from the journal.
//!
//! State changes in one place, `Run::fold` (in `fold.rs`), whether an event was just decided or is read back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bonds::Bonds;
use crate::conversation::Conversation;
use crate::coordinator::Coordination;
use crate::effect::{TaskId, TimerId};
use crate::event::{Caps, Failure, Forked, Parent, Paused};
use crate::graph::{EdgeIx, LoopIx};
use crate::group::Group;
use crate::intent::Intent;
use crate::interrupt::{Answered, Open};
use crate::journal::{Head, Salt};
use crate::lifecycle::{Hold, Lifecycle};
use crate::node::{Node, NodePhase};
use crate::planning::Planning;
use crate::resume::ResumeState;
use crate::rule::Outcome;
use crate::{Graph, InterruptId, Json, JsonMap, Key, Millis, NodeIx, RunId, Trace, Usage};

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
    /// Variables whose values are never shown.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) sensitive: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub(crate) channels: JsonMap,
    /// Something that is never shown was recorded, so the state may hold it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) hides: bool,
    /// Channels that something went into which is never shown.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) sensitive_channels: BTreeSet<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) metadata: Option<Json>,
    pub(crate) configurable: Option<Json>,
    pub(crate) caps: Caps,
    pub(crate) parent: Option<Parent>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// The trace that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<Trace>,
    /// Which reading of definitions it follows.
    #[serde(default)]
    pub(crate) reading: u32,
    pub(crate) nodes: Vec<Node>,
    /// Nodes that may start, oldest first, with the event that let them.
    pub(crate) ready: VecDeque<(NodeIx, u64)>,
    /// Nodes that will never start, oldest first, with the event that settled it.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) doomed: VecDeque<(NodeIx, u64)>,
    /// Dispatches whose next worker may start, and turns whose tools may be called, with the event that let them.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) workers: VecDeque<(NodeIx, u64)>,
    /// Interrupts that wait for an answer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) open: BTreeMap<InterruptId, Open>,
    /// What became of those that may be asked for again, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) answers: BTreeMap<String, Answered>,
    /// Nodes that may go on because everything they stopped for is resolved, with the event that let them.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) answered: VecDeque<(NodeIx, u64)>,
    /// Interrupts that were closed without an answer because the run was about to end, and why it was.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) lost: BTreeMap<InterruptId, String>,
    /// The conversations that it has opened, by their ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) conversations: BTreeMap<String, Conversation>,
    /// Its parent was told that it waits for nothing but people.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) still: bool,
    /// Since when there has always been a question that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) suspended_since: Option<Millis>,
    /// Its children that wait for nothing but people.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) still_children: BTreeSet<RunId>,
    /// Who is told when the run waits for something from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) callback_url: Option<String>,
    /// The run that it was forked off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forked: Option<Forked>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) loops: Vec<LoopState>,
    /// Loops that start over, with the event that settled it.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) restarts: VecDeque<(LoopIx, u64)>,
    /// How edges turned out that leave a loop which is not over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) deferred: BTreeMap<EdgeIx, Outcome>,
    /// Nodes that may yet take over from failed ones, and from which.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) routes: BTreeMap<NodeIx, Vec<NodeIx>>,
    /// Failed nodes that nobody has taken over from, and how many still may.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unrouted: BTreeMap<NodeIx, u32>,
    /// Nodes handed to an executor whose outcome is unknown.
    pub(crate) in_flight: u32,
    /// Nodes that are not settled.
    pub(crate) unsettled: u32,
    /// Node executions so far.
    #[serde(default)]
    pub(crate) executions: u64,
    /// Whether a child was started that goes when this run does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cascades: bool,
    /// What the caller says the run is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    /// It is the only one of its workflow and scope that is under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) exclusive: bool,
    /// The pause that waits for work in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pausing: Option<Paused>,
    /// When it was paused, or asked to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paused_at: Option<Millis>,
    /// Who holds it, and why, as far as they said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<Paused>,
    /// How far resuming has come.
    #[serde(default, skip_serializing_if = "ResumeState::is_untouched")]
    pub(crate) resume: ResumeState,
    /// What all calls of models have used.
    #[serde(default, skip_serializing_if = "ModelUse::is_nothing")]
    pub(crate) usage: ModelUse,
    /// What was left of the run's time when it was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_left: Option<Millis>,
    /// What it has to do with other runs.
    #[serde(default, skip_serializing_if = "Bonds::is_none")]
    pub(crate) bonds: Bonds,
    /// Who coordinates it, and what was done because of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) coordination: Option<Box<Coordination>>,
    /// What it has heard of its members, if it is a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<Box<Group>>,
    /// What it keeps because somebody drives it as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) intent: Option<Box<Intent>>,
    /// The tasks and plans that were posted to it.
    #[serde(default, skip_serializing_if = "Planning::is_empty")]
    pub(crate) planning: Planning,
    /// Why the run will end although nodes are unsettled. Work in flight is waited for.
    pub(crate) ending: Option<Ending>,
    /// How the run ended.
    pub(crate) error: Option<Failure>,
    #[serde(with = "timers")]
    pub(crate) timers: BTreeMap<TimerId, Millis>,
}

/// What calls of models have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelUse {
    pub(crate) usage: Usage,
    /// What they cost, as far as prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost_micros: Option<u64>,
}

impl ModelUse {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Where one loop stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoopState {
    /// How often it has gone back.
    pub(crate) iteration: u32,
    /// Its nodes that are not settled in this iteration.
    pub(crate) unsettled: u32,
    /// An edge back to its entry was followed in this iteration.
    pub(crate) again: bool,
}

/// How a run is going to end once nothing is in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// A node failed, or a limit was reached at it.
    Failed { node: Option<String>, error: Failure },
    /// Somebody cancelled, or the parent ended.
    Cancelled {
        reason: Option<String>,
        by: Option<String>,
        parent: Option<RunId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        abandonment: Option<String>,
    },
}

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
        let nodes: Vec<Node> = graph.nodes.iter().map(|_| Node::pending()).collect();
        let unsettled = nodes.len() as u32;
        let loops = graph.loops.iter().map(|found| LoopState::fresh(found.members.len())).collect();
        let state = State {
            lifecycle: Lifecycle::Pending,
            hold: Hold::None,
            started_at: 0,
            ended_at: None,
            inputs: JsonMap::new(),
            variables: JsonMap::new(),
            sensitive: BTreeSet::new(),
            channels: JsonMap::new(),
            hides: false,
            sensitive_channels: BTreeSet::new(),
            tags: Vec::new(),
            metadata: None,
            configurable: None,
            caps: Caps::default(),
            parent: None,
            by: None,
            trace: None,
            reading: 0,
            nodes,
            ready: VecDeque::new(),
            doomed: VecDeque::new(),
            workers: VecDeque::new(),
            open: BTreeMap::new(),
            answers: BTreeMap::new(),
            answered: VecDeque::new(),
            lost: BTreeMap::new(),
            conversations: BTreeMap::new(),
            callback_url: None,
            forked: None,
            loops,
            restarts: VecDeque::new(),
            deferred: BTreeMap::new(),
            routes: BTreeMap::new(),
            unrouted: BTreeMap::new(),
            in_flight: 0,
            unsettled,
            executions: 0,
            cascades: false,
            scope: None,
            exclusive: false,
            pausing: None,
            paused_at: None,
            holder: None,
            resume: ResumeState::default(),
            usage: ModelUse::default(),
            time_left: None,
            still: false,
            suspended_since: None,
            still_children: BTreeSet::new(),
            bonds: Bonds::default(),
            coordination: None,
            group: None,
            intent: None,
            planning: Planning::default(),
            ending: None,
            error: None,
            timers: BTreeMap::new(),
        };
        Self { key, salt, graph, head: Head::new(key), state }
    }

    /// Whether a node of this kind runs under a lease rather than inside a decision.
    pub(crate) fn is_dispatched(&self, ix: NodeIx) -> bool {
        use crate::Kind::{Branch, ChannelWrite, Fail, Http, Identity, Noop, Transform};
        let node = self.graph.at(ix);
        let pure = matches!(node.kind, Noop | Identity | Fail | Transform | Branch | ChannelWrite);
        node.kind == Http || node.durable && pure
    }
}

impl LoopState {
    pub(crate) fn fresh(members: usize) -> Self {
        Self { iteration: 0, unsettled: members as u32, again: false }
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

    /// Who started it.
    pub fn started_by(&self) -> Option<&str> {
        self.state.by.as_deref()
    }

    /// Where it stands.
    pub fn lifecycle(&self) -> Lifecycle {
        self.state.lifecycle
    }

    /// What holds it.
    pub fn hold(&self) -> Hold {
        self.state.hold
    }

    /// When it was paused, or asked to be while work in flight is waited for.
    pub fn paused_at(&self) -> Option<Millis> {
        self.state.paused_at
    }

    /// Who holds it, and why, as far as they said so.
    pub fn holder(&self) -> Option<&Paused> {
        self.state.holder.as_ref()
    }

    /// What the caller says it is about.
    pub fn scope(&self) -> Option<&str> {
        self.state.scope.as_deref()
    }

    /// Whether no other run that says so may be under way for its workflow and scope.
    pub fn is_exclusive(&self) -> bool {
        self.state.exclusive
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

    /// Whether a variable's value is never shown.
    pub fn hides_variable(&self, name: &str) -> bool {
        self.state.sensitive.contains(name)
    }

    /// Whether its journal holds something that is never shown, and its state may.
    pub fn hides_something(&self) -> bool {
        self.state.hides
    }

    /// Its channels as they are now.
    pub fn channels(&self) -> &JsonMap {
        &self.state.channels
    }

    /// Whether a channel's value is never shown.
    pub fn hides_channel(&self, name: &str) -> bool {
        let declared = self.graph.channels.get(name).is_some_and(crate::channel::Channel::sensitive);
        declared || self.state.sensitive_channels.contains(name)
    }

    /// The caller's labels.
    pub fn tags(&self) -> &[String] {
        &self.state.tags
    }

    /// The caller's own data.
    pub fn metadata(&self) -> Option<&Json> {
        self.state.metadata.as_ref()
    }

    /// The caller's options.
    pub fn configurable(&self) -> Option<&Json> {
        self.state.configurable.as_ref()
    }

    /// What it may do at most.
    pub fn caps(&self) -> Caps {
        self.state.caps
    }

    /// The run and node it stands for.
    pub fn parent(&self) -> Option<&Parent> {
        self.state.parent.as_ref()
    }

    /// Everybody who counts as having started it: whoever forks a run starts the branch, but does not take away what the
    /// others have begun.
    pub fn starters(&self) -> Vec<String> {
        let state = &self.state;
        let mut starters: Vec<String> = state.by.iter().cloned().collect();
        let forked = state.forked.iter().flat_map(|forked| &forked.starters);
        for other in forked.chain(state.parent.iter().flat_map(|parent| &parent.starters)) {
            if !starters.contains(other) {
                starters.push(other.clone());
            }
        }
        starters
    }

    /// The trace that it belongs to.
    pub fn trace(&self) -> Option<&Trace> {
        self.state.trace.as_ref()
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
            self.state.nodes.iter().enumerate().filter(|(_, node)| {
                node.phase == NodePhase::Running && node.work.is_none() && !self.is_replay()
            });
        let running = running.filter(|(ix, _)| !self.is_by_hand(*ix as NodeIx));
        running.map(|(ix, node)| TaskId { node: self.graph.nodes[ix].id.clone(), execution: node.execution })
    }

    /// Whether nothing happens until a timer, an answer or an operator comes: the run may leave memory.
    pub fn is_parked(&self) -> bool {
        (self.state.in_flight == 0 || self.is_replay()) && !self.state.lifecycle.is_terminal()
    }

    /// Whether it goes on at once, in a commit of its own.
    pub fn has_yielded(&self) -> bool {
        self.state.timers.contains_key(&TimerId::Stretch)
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
