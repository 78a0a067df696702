//! What can happen to a run, and how each event is encoded.
//!
//! An event type is declared once, in [`event_types`]: its number on disk, its name, its version, and
//! whether OpenWOP knows it. Payloads are JSON objects; users' values inside them are carried as they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Json, JsonMap, Lifecycle, Millis, RunId};

/// One event, before it has a place in a journal.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something happened to the run as a whole.
    Run(RunEvent),
    /// Something happened to one node.
    Node {
        /// The node's id in the definition.
        node: Arc<str>,
        /// What happened.
        event: NodeEvent,
    },
}

/// What can happen to a run as a whole. The lifecycle table says which states accept which.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// Accepted by a pending run; always the first event.
    Started(Started),
    /// Accepted by a running run; terminal.
    Completed(Completed),
    /// Accepted by a running run; terminal.
    Failed(Failed),
    /// Accepted by a running run with work in flight.
    Cancelling(Cancellation),
    /// Accepted by a running or cancelling run; terminal.
    Cancelled(Cancellation),
    /// Accepted by a running run that is not held.
    Paused(Paused),
    /// Accepted by a paused run.
    Resumed(Resumed),
    /// Accepted by a running run that is not held: a long stretch commits and goes on later.
    Yielded(Yielded),
    /// Accepted by a run that has not ended: a child told how it stands.
    ChildReported(ChildReported),
    /// Accepted by a running run: a limit was reached, and the run is going to fail.
    CapBreached(CapBreached),
    /// Accepted by a running run.
    VariableChanged(VariableChanged),
    /// Accepted by a running run: a loop went back as often as it may.
    LoopbackLimit(LoopbackLimit),
    /// Accepted by a running run: a loop starts over.
    LoopRestarted(LoopRestarted),
    /// Accepted by a run that has not ended: a child could not be started.
    ChildRefused(ChildRefused),
}

/// What can happen to a node. The node table says which phases accept which.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEvent {
    /// Accepted by a pending node.
    Started(NodeStarted),
    /// Accepted by a running or waiting node.
    Completed(NodeCompleted),
    /// Accepted by a running node.
    Failed(NodeFailed),
    /// Accepted by a pending or waiting node.
    Cancelled(NodeCancelled),
    /// Accepted by a pending node: nothing led to it.
    Skipped(NodeSkipped),
    /// Accepted by a running node that an executor has: the attempt failed, and another one follows.
    Retried(NodeRetried),
    /// Accepted by a node that waits for its next attempt.
    Due(NodeDue),
    /// Accepted by a running or waiting node.
    Spawned(NodeSpawned),
    /// Accepted by a running node.
    ChannelWritten(ChannelWritten),
    /// Accepted by a running node.
    Decided(Decided),
}

/// The run began, with everything that fixes what it will do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Started {
    /// The definition's id.
    pub workflow_id: String,
    /// The definition's content hash, in hex: the run keeps it for life.
    pub definition: String,
    /// What the caller passed in.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub inputs: JsonMap,
    /// The caller's labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The caller's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// The run and node that this run stands for, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The caller's options, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configurable: Option<Json>,
    /// What the run may do at most.
    #[serde(default, skip_serializing_if = "Caps::is_empty")]
    pub caps: Caps,
    /// The names of variables whose values are never shown.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sensitive: BTreeSet<String>,
    /// Variables that the parent passed on although it had no value: their defaults don't apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
}

/// What a run may do at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Caps {
    /// Node executions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_executions: Option<u64>,
    /// Milliseconds that it may last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<Millis>,
    /// Times that any one loop may go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loopbacks: Option<u32>,
}

impl Caps {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The node of another run that a run stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parent {
    /// The parent run.
    pub run: RunId,
    /// Its node.
    pub node: String,
    /// Which execution of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u32>,
    /// The run at the top of the tree; the parent itself if that has no parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RunId>,
    /// How many runs lie above this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The variables that the parent wants to hear at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harvest: Vec<String>,
}

impl Parent {
    /// A node of a run, and nothing more.
    pub fn of(run: RunId, node: &str) -> Self {
        Self { run, node: node.to_owned(), execution: None, root: None, depth: None, harvest: Vec::new() }
    }
}

/// Every node is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Completed {
    /// From the first event to this one.
    pub duration_ms: Millis,
}

/// The run failed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failed {
    /// Why.
    pub error: Failure,
    /// The node whose failure it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_node_id: Option<String>,
}

/// Somebody cancelled the run: asked for, while work is in flight, or done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cancellation {
    /// Why, in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
    /// The parent whose end took this run along. Never set if somebody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
}

/// No node starts until the run is resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Paused {
    /// Why, in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The hold is lifted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resumed {
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The rest of a long stretch goes on in a commit of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Yielded {}

/// A child told how it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildReported {
    /// The child.
    pub child: RunId,
    /// The node that the child stands for.
    pub node: String,
    /// The child's sequence at that state.
    pub sequence: u64,
    /// How it stands.
    pub lifecycle: Lifecycle,
    /// Which execution of the node started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u32>,
    /// Those of its variables that were asked for.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub outputs: JsonMap,
    /// Which of them are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// A child could not be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildRefused {
    /// The child that never was.
    pub child: RunId,
    /// The node that asked for it.
    pub node: String,
    /// Why.
    pub error: Failure,
}

/// A limit was reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CapBreached {
    /// Which: `node-executions`, `run-duration`, `loop-iterations` or `dispatch-iterations`.
    pub kind: String,
    /// How much was allowed.
    pub limit: u64,
    /// How much it was or would have been.
    pub observed: u64,
    /// The node at which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

impl CapBreached {
    /// Why the run fails.
    pub(crate) fn failure(&self) -> Failure {
        let Self { kind, limit, .. } = self;
        let at = self.node_id.as_ref().map_or(String::new(), |node| format!(" at node '{node}'"));
        match kind.as_str() {
            "run-duration" => {
                Failure::new("run_timeout", format!("the run lasted longer than the {limit} ms that it may"))
            }
            "loop-iterations" => Failure::new(
                "loop_limit_exceeded",
                format!("the loop{at} went back {limit} times, which is as often as it may"),
            ),
            "dispatch-iterations" => Failure::new(
                "dispatch_limit_exceeded",
                format!("the dispatch{at} ran {limit} times, which is as often as it may"),
            ),
            _ => Failure::new(
                "recursion_limit_exceeded",
                format!("the run executed {limit} nodes, which is as many as it may, and stopped{at}"),
            ),
        }
    }
}

/// A variable has a new value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VariableChanged {
    /// Which.
    pub name: String,
    /// Its value.
    pub next: Json,
    /// The value is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A loop went back as often as it may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopbackLimit {
    /// The loop's entry.
    pub node_id: String,
    /// How often it went back.
    pub iterations: u32,
}

/// A loop starts over: its nodes are as they were before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopRestarted {
    /// The loop's entry.
    pub node: String,
    /// How often it has gone back, this time included.
    pub iteration: u32,
}

/// A node's execution began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeStarted {
    /// The node's kind.
    pub type_id: Arc<str>,
    /// Which execution this is, from 1.
    pub execution: u32,
    /// The node waits for this time and does nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// The node was handed to an executor, so its outcome is unknown until reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dispatched: bool,
    /// How many attempts failed before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// What the executor gets: it must be the same however often it is executed.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub inputs: JsonMap,
    /// Something that is never shown went in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// The node waits for a child.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_child: bool,
}

/// A node's execution ended well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeCompleted {
    /// What it produced, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// The edges that are not followed, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untaken: Vec<String>,
    /// Which outputs are never shown.
    #[serde(default, skip_serializing_if = "Mask::is_empty")]
    pub masked: Mask,
    /// The condition of an edge could not be evaluated, so the run is going to fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Failure>,
}

/// Which values of an object are never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mask {
    /// All are shown.
    #[default]
    Nothing,
    /// None is.
    All,
    /// These are not.
    Keys(BTreeSet<String>),
}

impl Mask {
    fn is_empty(&self) -> bool {
        *self == Self::Nothing
    }

    /// Whether this key's value is never shown.
    pub fn hides(&self, key: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Keys(keys) => keys.contains(key),
        }
    }
}

/// A node's execution failed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFailed {
    /// Why.
    pub error: Failure,
    /// The edges that are not followed, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untaken: Vec<String>,
}

/// Nothing led to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSkipped {
    /// `disabled`, or `trigger-rule`.
    pub reason: String,
}

/// An attempt failed, and another one follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeRetried {
    /// How many attempts have failed now.
    pub attempt: u32,
    /// Why the last one failed.
    pub error: Failure,
    /// When the next one is due.
    pub until: Millis,
}

/// The next attempt may start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDue {}

/// A node asked for a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSpawned {
    /// The child's id.
    pub child: RunId,
    /// The workflow it runs.
    pub workflow_id: String,
    /// What goes in.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub inputs: JsonMap,
    /// Which of the inputs are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// Variables that were passed on although they had no value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// The variables to hear at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harvest: Vec<String>,
    /// Whether it is cancelled when its parent ends before it.
    pub cascade: bool,
}

/// A node wrote to a channel. The value is what was written, not what the channel holds then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelWritten {
    /// Which channel.
    pub channel: String,
    /// What was written.
    pub value: Json,
    /// How it is folded in.
    pub reducer: String,
    /// How long an entry is kept, in a channel that the definition does not declare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<Millis>,
    /// The value is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A supervisor decided what is done next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decided {
    /// The decision, an object with a `kind`.
    pub decision: JsonMap,
}

/// A node ended with its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeCancelled {}

/// Why a node or a run failed: a stable code and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Stable, for programs.
    pub code: String,
    /// For people: what happened and what to change.
    pub message: String,
    /// Anything more, as an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
}

impl Failure {
    /// A failure without details.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), details: None }
    }
}

/// One kind of event, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Its number on disk. Never reused.
    pub code: u16,
    /// Its name in journals and on the wire.
    pub name: &'static str,
    /// The version this build writes. It reads all older ones: what a later one added may be missing from them.
    pub version: u16,
    /// Whether OpenWOP knows the name; others are ours alone.
    pub canonical: bool,
}

macro_rules! declare {
    ($($constant:ident = $code:literal $name:literal v $version:literal $canonical:literal;)*) => {
        $(const $constant: EventType =
            EventType { code: $code, name: $name, version: $version, canonical: $canonical };)*
        const TYPES: &[EventType] = &[$($constant),*];
    };
}

declare! {
    RUN_STARTED = 1 "run.started" v 2 true;
    RUN_COMPLETED = 2 "run.completed" v 1 true;
    RUN_FAILED = 3 "run.failed" v 1 true;
    RUN_CANCELLING = 4 "run.cancelling" v 2 false;
    RUN_CANCELLED = 5 "run.cancelled" v 2 true;
    RUN_PAUSED = 6 "run.paused" v 1 true;
    RUN_RESUMED = 7 "run.resumed" v 1 true;
    RUN_YIELDED = 8 "run.yielded" v 1 false;
    CHILD_REPORTED = 9 "child.reported" v 2 false;
    CAP_BREACHED = 10 "cap.breached" v 1 true;
    VARIABLE_CHANGED = 11 "variable.changed" v 1 true;
    LOOPBACK_LIMIT = 12 "workflow.loopback-limit" v 1 true;
    LOOP_RESTARTED = 13 "loop.restarted" v 1 false;
    CHILD_REFUSED = 14 "child.refused" v 1 false;
    NODE_STARTED = 100 "node.started" v 2 true;
    NODE_COMPLETED = 101 "node.completed" v 2 true;
    NODE_FAILED = 102 "node.failed" v 2 true;
    NODE_CANCELLED = 103 "node.cancelled" v 1 true;
    NODE_SKIPPED = 104 "node.skipped" v 1 true;
    NODE_RETRIED = 105 "node.retried" v 1 true;
    NODE_DUE = 106 "node.due" v 1 false;
    NODE_SPAWNED = 107 "node.spawned" v 1 false;
    CHANNEL_WRITTEN = 108 "channel.written" v 1 true;
    ORCHESTRATOR_DECIDED = 109 "runOrchestrator.decided" v 1 true;
}

/// Types from this number on are about one node; those below are about the run.
const FIRST_NODE_CODE: u16 = 100;

/// Every event type this build knows.
pub fn event_types() -> &'static [EventType] {
    TYPES
}

impl EventType {
    /// The type with this number on disk.
    pub fn by_code(code: u16) -> Option<Self> {
        TYPES.iter().copied().find(|kind| kind.code == code)
    }
}

impl Event {
    /// The event's type.
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Run(event) => event.event_type(),
            Self::Node { event, .. } => event.event_type(),
        }
    }

    /// The node it happened to.
    pub fn node(&self) -> Option<&Arc<str>> {
        match self {
            Self::Run(_) => None,
            Self::Node { node, .. } => Some(node),
        }
    }

    /// The payload's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let encoded = match self {
            Self::Run(event) => event.encode(),
            Self::Node { event, .. } => event.encode(),
        };
        encoded.expect("event payloads are plain structs, which serialise")
    }

    /// Reads an event back. The reason for a refusal names the type and version.
    pub fn decode(code: u16, version: u16, node: Option<&Arc<str>>, payload: &[u8]) -> Result<Self, String> {
        let kind = EventType::by_code(code)
            .ok_or_else(|| format!("event type {code} is unknown to this version of abide; upgrade it"))?;
        if version == 0 || version > kind.version {
            return Err(format!(
                "{} has version {version}, and this version of abide reads up to {}; upgrade it",
                kind.name, kind.version
            ));
        }
        match (node, code) {
            (Some(node), FIRST_NODE_CODE..) => {
                NodeEvent::decode(kind, payload).map(|event| Self::Node { node: node.clone(), event })
            }
            (None, ..FIRST_NODE_CODE) => RunEvent::decode(kind, payload).map(Self::Run),
            (Some(_), _) => Err(format!("{} names a node, but it is about the run", kind.name)),
            (None, _) => Err(format!("{} names no node", kind.name)),
        }
    }
}

impl RunEvent {
    fn event_type(&self) -> EventType {
        match self {
            Self::Started(_) => RUN_STARTED,
            Self::Completed(_) => RUN_COMPLETED,
            Self::Failed(_) => RUN_FAILED,
            Self::Cancelling(_) => RUN_CANCELLING,
            Self::Cancelled(_) => RUN_CANCELLED,
            Self::Paused(_) => RUN_PAUSED,
            Self::Resumed(_) => RUN_RESUMED,
            Self::Yielded(_) => RUN_YIELDED,
            Self::ChildReported(_) => CHILD_REPORTED,
            Self::CapBreached(_) => CAP_BREACHED,
            Self::VariableChanged(_) => VARIABLE_CHANGED,
            Self::LoopbackLimit(_) => LOOPBACK_LIMIT,
            Self::LoopRestarted(_) => LOOP_RESTARTED,
            Self::ChildRefused(_) => CHILD_REFUSED,
        }
    }

    fn encode(&self) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::Started(payload) => serde_json::to_vec(payload),
            Self::Completed(payload) => serde_json::to_vec(payload),
            Self::Failed(payload) => serde_json::to_vec(payload),
            Self::Cancelling(payload) => serde_json::to_vec(payload),
            Self::Cancelled(payload) => serde_json::to_vec(payload),
            Self::Paused(payload) => serde_json::to_vec(payload),
            Self::Resumed(payload) => serde_json::to_vec(payload),
            Self::Yielded(payload) => serde_json::to_vec(payload),
            Self::ChildReported(payload) => serde_json::to_vec(payload),
            Self::CapBreached(payload) => serde_json::to_vec(payload),
            Self::VariableChanged(payload) => serde_json::to_vec(payload),
            Self::LoopbackLimit(payload) => serde_json::to_vec(payload),
            Self::LoopRestarted(payload) => serde_json::to_vec(payload),
            Self::ChildRefused(payload) => serde_json::to_vec(payload),
        }
    }

    fn decode(kind: EventType, payload: &[u8]) -> Result<Self, String> {
        match kind {
            RUN_STARTED => read(kind, payload).map(Self::Started),
            RUN_COMPLETED => read(kind, payload).map(Self::Completed),
            RUN_FAILED => read(kind, payload).map(Self::Failed),
            RUN_CANCELLING => read(kind, payload).map(Self::Cancelling),
            RUN_CANCELLED => read(kind, payload).map(Self::Cancelled),
            RUN_PAUSED => read(kind, payload).map(Self::Paused),
            RUN_RESUMED => read(kind, payload).map(Self::Resumed),
            RUN_YIELDED => read(kind, payload).map(Self::Yielded),
            CHILD_REPORTED => read(kind, payload).map(Self::ChildReported),
            CAP_BREACHED => read(kind, payload).map(Self::CapBreached),
            VARIABLE_CHANGED => read(kind, payload).map(Self::VariableChanged),
            LOOPBACK_LIMIT => read(kind, payload).map(Self::LoopbackLimit),
            LOOP_RESTARTED => read(kind, payload).map(Self::LoopRestarted),
            CHILD_REFUSED => read(kind, payload).map(Self::ChildRefused),
            _ => Err(format!("{} is no event of a run", kind.name)),
        }
    }
}

impl NodeEvent {
    fn event_type(&self) -> EventType {
        match self {
            Self::Started(_) => NODE_STARTED,
            Self::Completed(_) => NODE_COMPLETED,
            Self::Failed(_) => NODE_FAILED,
            Self::Cancelled(_) => NODE_CANCELLED,
            Self::Skipped(_) => NODE_SKIPPED,
            Self::Retried(_) => NODE_RETRIED,
            Self::Due(_) => NODE_DUE,
            Self::Spawned(_) => NODE_SPAWNED,
            Self::ChannelWritten(_) => CHANNEL_WRITTEN,
            Self::Decided(_) => ORCHESTRATOR_DECIDED,
        }
    }

    fn encode(&self) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::Started(payload) => serde_json::to_vec(payload),
            Self::Completed(payload) => serde_json::to_vec(payload),
            Self::Failed(payload) => serde_json::to_vec(payload),
            Self::Cancelled(payload) => serde_json::to_vec(payload),
            Self::Skipped(payload) => serde_json::to_vec(payload),
            Self::Retried(payload) => serde_json::to_vec(payload),
            Self::Due(payload) => serde_json::to_vec(payload),
            Self::Spawned(payload) => serde_json::to_vec(payload),
            Self::ChannelWritten(payload) => serde_json::to_vec(payload),
            Self::Decided(payload) => serde_json::to_vec(payload),
        }
    }

    fn decode(kind: EventType, payload: &[u8]) -> Result<Self, String> {
        match kind {
            NODE_STARTED => read(kind, payload).map(Self::Started),
            NODE_COMPLETED => read(kind, payload).map(Self::Completed),
            NODE_FAILED => read(kind, payload).map(Self::Failed),
            NODE_CANCELLED => read(kind, payload).map(Self::Cancelled),
            NODE_SKIPPED => read(kind, payload).map(Self::Skipped),
            NODE_RETRIED => read(kind, payload).map(Self::Retried),
            NODE_DUE => read(kind, payload).map(Self::Due),
            NODE_SPAWNED => read(kind, payload).map(Self::Spawned),
            CHANNEL_WRITTEN => read(kind, payload).map(Self::ChannelWritten),
            ORCHESTRATOR_DECIDED => read(kind, payload).map(Self::Decided),
            _ => Err(format!("{} is no event of a node", kind.name)),
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn read<T: DeserializeOwned>(kind: EventType, payload: &[u8]) -> Result<T, String> {
    serde_json::from_slice(payload)
        .map_err(|error| format!("the payload of {} can't be read: {error}", kind.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        for (at, kind) in TYPES.iter().enumerate() {
            assert!(TYPES[..at].iter().all(|other| other.code != kind.code && other.name != kind.name));
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let error = Event::decode(1, 2, None, b"{}").unwrap_err();
        assert!(error.contains("run.started has version 2"), "{error}");
        let error = Event::decode(999, 1, None, b"{}").unwrap_err();
        assert!(error.contains("999"), "{error}");
    }
}
