//! The payloads of what can happen to a run as a whole.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{DependsOn, Forked, GroupSpec};
use crate::{Failure, Json, JsonMap, Lifecycle, Millis, RunId, Status, Suspension, Trace};

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
    /// Which reading of definitions it follows: 0 is that of the first release, which knew four kinds of nodes and let
    /// edges carry no values; 1 knows more, but reads over what a node's outputs are called; 2 knows no gates.
    #[serde(default, skip_serializing_if = "is_first")]
    pub reading: u32,
    /// Variables that the parent passed on although it had no value: their defaults don't apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// The trace that it belongs to, with everything that it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// What the caller says the run is about: runs of one workflow that must not overlap share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// No other run that says so may be under way for the same workflow and scope.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Who is told when the run waits for something from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The run that it was forked off, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<Forked>,
    /// The runs that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// It begins only when somebody says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
    /// What it is, if it is a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSpec>,
}

/// The reading of definitions that new runs follow.
pub(crate) const READING: u32 = 5;

/// The first reading in which outputs become artifacts.
pub(crate) const READING_OF_ARTIFACTS: u32 = 2;

/// The first reading in which nodes have models do something.
pub(crate) const READING_OF_TURNS: u32 = 4;

/// The first reading in which a refinement has something made again that no edge says.
pub(crate) const READING_OF_REFINING: u32 = 5;

/// The first reading in which nodes ask for something from outside.
pub(crate) const READING_OF_INTERRUPTS: u32 = 3;

fn is_first(reading: &u32) -> bool {
    *reading == 0
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
    /// The parent's time is counted, so it wants to hear when the child waits for nothing but people.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clocked: bool,
    /// Who else counts as having started the parent, which is a branch: they may not decide here either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starters: Vec<String>,
    /// The parent wants to hear whenever the child is seen otherwise, and what it has come to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mirrors: bool,
}

impl Parent {
    /// A node of a run, and nothing more.
    pub fn of(run: RunId, node: &str) -> Self {
        Self {
            run,
            node: node.to_owned(),
            execution: None,
            root: None,
            depth: None,
            harvest: Vec::new(),
            clocked: false,
            starters: Vec::new(),
            mirrors: false,
        }
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Why it is abandoned, if nobody wished it: `portfolio_deadline_exceeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandonment_reason: Option<String>,
}

/// No node starts until the run is resumed: asked for, while work in flight is waited for, or done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Why, in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Somebody holds the run: no node starts until it is released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Held {
    /// How.
    pub mode: HoldMode,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What becomes of the times of a held run's questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HoldMode {
    /// They go on: people are reminded, and what nobody answers ends at its time.
    Pause,
    /// They stand still, and go on from there when the run is released.
    Stop,
}

impl HoldMode {
    /// Every mode.
    pub const ALL: [Self; 2] = [Self::Pause, Self::Stop];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Stop => "stop",
        }
    }

    /// What holds a run that is held this way.
    pub(crate) fn hold(self) -> crate::Hold {
        match self {
            Self::Pause => crate::Hold::Paused,
            Self::Stop => crate::Hold::Stopped,
        }
    }
}

/// Somebody lets a run go on that people held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Released {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
    /// It waits for nothing but people.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub still: bool,
    /// How it stands as shown, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Since when it waits for people, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// Somebody has it, if it is done by hand as a whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
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
