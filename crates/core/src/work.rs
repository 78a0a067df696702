//! Nodes whose work is done by workers, processes outside that may come, go and die.
//!
//! A worker executes a function that may do steps, ask people, sleep and start children. When it can't go on it gives
//! the task back, and when something has come that it waits for the task is offered again: the function starts from the
//! top and gets what it did before from the journal. A step is recorded under its key and never done again. So nothing
//! outside has to live while people think.
//!
//! Every hand-out is an event, and the fence that a worker speaks under follows from the event's place. One that has
//! lost its task can't change anything, whatever it believes.

mod brief;
mod fold;
mod outcome;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use brief::{Brief, Recalled};
pub use outcome::{AskState, ChildState, WorkOutcome};

use crate::effect::{Offer, TaskId};
use crate::event::{Failure, HookKind, LogLine, Loss, Offered, Progress, Wait};
use crate::{InterruptionClass, Json, JsonMap, Judgement, Millis, Run, RunId};

/// What workers have said of a kind of node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provided {
    /// Doing it twice is as good as once, unless the definition says otherwise.
    pub idempotent: bool,
    /// Whether what it does can be undone, if anybody said so.
    pub reversible: Option<bool>,
    /// How long a worker may take from one hand-out to its end.
    pub timeout_ms: Option<Millis>,
}

/// What a worker does with a task it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The task.
    pub task: TaskId,
    /// The fence it was handed out under.
    pub fence: u64,
    /// What is done.
    pub op: WorkOp,
}

/// What a worker may do with a task it has.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkOp {
    /// It is about to do a step that must not be done twice.
    Begin {
        /// The step.
        key: String,
    },
    /// It did a step.
    Record {
        /// The step.
        key: String,
        /// How it ended.
        outcome: Result<Json, Failure>,
    },
    /// It asks somebody.
    Ask(Box<WorkAsk>),
    /// It waits for a time.
    Sleep {
        /// What it is known by.
        key: String,
        /// How long.
        ms: Millis,
    },
    /// It runs another workflow.
    Child(WorkChild),
    /// It wants to know which version of a change it follows.
    Version {
        /// The change.
        key: String,
        /// The newest version that the code knows.
        version: u32,
        /// The code is doing again what it did before it knew of the change.
        old: bool,
    },
    /// It gives the task back until something comes that it waits for.
    Park {
        /// Any of these.
        waits: Vec<Wait>,
    },
    /// It is done.
    Complete {
        /// With this.
        outputs: Option<Json>,
        /// The agent that did it, and whose key the worker has.
        by: Vec<String>,
    },
    /// It failed.
    Fail(WorkFailure),
    /// It says how far it is.
    Note {
        /// How far.
        progress: Option<Progress>,
        /// In words.
        lines: Vec<LogLine>,
    },
    /// Its agent has decided, and may not be sure.
    Judge(Box<WorkJudgement>),
    /// It has decided whether to ask.
    Decide {
        /// What it tells of the decision.
        decision: JsonMap,
    },
    /// It will not tell how the task ended. The server says so, not the worker.
    Lose {
        /// Why.
        reason: Loss,
        /// Who had it, in words for people.
        worker: String,
    },
}

/// A question of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkAsk {
    /// The agent that asks.
    pub agent: String,
    /// Whose key the worker has, if that is known.
    pub principal: Option<String>,
    /// What names the question in its run; without, it is named by its place among those of the execution.
    pub key: Option<String>,
    /// Which question of the execution it is, from 1.
    pub call: u32,
    /// What is asked.
    pub payload: Json,
    /// How it goes on if nobody answers.
    pub ladder: Option<Json>,
    /// Who may answer; left out, the definition says.
    pub respondents: Option<Vec<String>>,
    /// It has one question named `answer`, and the worker gets and gives the answer to that alone.
    pub single: bool,
    /// What the agent wants to be called for.
    pub hooks: Vec<HookKind>,
}

/// A decision of a worker's agent.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkJudgement {
    /// What was decided, by whom, and how sure they are.
    pub judged: Judgement,
    /// What names the decision in its run; without, it is named by its place among the questions of the execution.
    pub key: Option<String>,
    /// Which question of the execution it is, from 1.
    pub call: u32,
    /// How it goes on if nobody ratifies it.
    pub ladder: Option<Json>,
    /// Who may ratify it; left out, the definition says.
    pub respondents: Option<Vec<String>>,
    /// What the agent wants to be called for.
    pub hooks: Vec<HookKind>,
}

/// A child that a worker runs.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkChild {
    /// What it is known by.
    pub key: String,
    /// The workflow.
    pub workflow_id: String,
    /// What goes in.
    pub inputs: JsonMap,
    /// The variables to hear at its end.
    pub outputs: Vec<String>,
    /// Whether it is cancelled when its parent ends before it.
    pub cascade: bool,
}

/// How a worker failed.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFailure {
    /// What is told to people and programs.
    pub failure: Failure,
    /// What kind of failure it is.
    pub class: FailureClass,
    /// Whether another attempt could end better, in the worker's opinion.
    pub retryable: bool,
    /// Something may have been done that is not recorded.
    pub possible_effect: bool,
    /// When the next attempt may be made at the earliest.
    pub retry_after_ms: Option<Millis>,
}

/// What kind of failure a worker tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Something that it used failed.
    Tool,
    /// Something took too long.
    Timeout,
    /// A connection broke.
    Reset,
    /// It has lost what it needs to go on.
    Context,
    /// What went in makes no sense.
    Validation,
    /// It can't do that.
    Capability,
    /// A limit was reached.
    Cap,
    /// A child failed.
    Child,
    /// It was told to stop.
    Cancelled,
    /// The code does not do what it did before.
    CodeChanged,
    /// A bug.
    Internal,
}

impl FailureClass {
    /// All of them, with their names everywhere.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Tool, "tool"),
        (Self::Timeout, "timeout"),
        (Self::Reset, "reset"),
        (Self::Context, "context"),
        (Self::Validation, "validation"),
        (Self::Capability, "capability"),
        (Self::Cap, "cap"),
        (Self::Child, "child"),
        (Self::Cancelled, "cancelled"),
        (Self::CodeChanged, "code_changed"),
        (Self::Internal, "internal"),
    ];

    /// Whether another attempt could ever end better.
    pub fn may_pass(self) -> bool {
        matches!(
            self,
            Self::Tool | Self::Timeout | Self::Reset | Self::Context | Self::CodeChanged | Self::Internal
        )
    }

    /// What it counts as if it interrupts the run.
    pub fn interruption(self) -> InterruptionClass {
        match self {
            Self::Timeout => InterruptionClass::Timeout,
            Self::Context | Self::CodeChanged => InterruptionClass::ContextReset,
            _ => InterruptionClass::ToolFailure,
        }
    }
}

/// How far the work of a node has come, in one execution of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkState {
    pub(crate) offered: Offered,
    /// The event that began the execution.
    #[serde(default)]
    pub(crate) began: u64,
    /// The fence of the last hand-out.
    pub(crate) fence: u64,
    /// What was recorded, by its key. Values stay in the journal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) memos: BTreeMap<String, Memo>,
    /// What it waits for, if the worker gave it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits: Vec<Wait>,
    /// How often it was lost since anything was recorded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) losses: u32,
    /// How often in a row the code of a worker did not fit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) unfit: u32,
    /// The attempt after which another agent took over.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) handed_over: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<Progress>,
}

/// Keys that begin so are the server's own, and workers hear nothing of them.
pub(crate) const OWN_KEYS: &str = "abide:";

/// What is known of one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Memo {
    /// A step is under way.
    Begun,
    /// A step was done; the event at this place tells how.
    Done(u64),
    /// A step failed; the event at this place tells how.
    Failed(u64),
    Sleep {
        until: Millis,
        /// The event that began it, which its timer is named by.
        sequence: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        over: bool,
    },
    Child {
        run: RunId,
        /// The event that tells of its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<u64>,
    },
    Version(u32),
}

impl Memo {
    /// What it is of, in words.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Begun | Self::Done(_) | Self::Failed(_) => "a step",
            Self::Sleep { .. } => "a sleep",
            Self::Child { .. } => "a child",
            Self::Version(_) => "a version",
        }
    }
}

impl WorkState {
    pub(crate) fn new(offered: Offered, began: u64) -> Self {
        Self {
            offered,
            began,
            fence: 0,
            memos: BTreeMap::new(),
            waits: Vec::new(),
            losses: 0,
            unfit: 0,
            handed_over: 0,
            progress: None,
        }
    }

    /// Until when it waits for a worker whose code fits, if it does.
    pub(crate) fn unfit_until(&self) -> Option<Millis> {
        let [Wait::Sleep(key)] = &self.waits[..] else { return None };
        match self.memos.get(key).filter(|_| key.starts_with(OWN_KEYS)) {
            Some(Memo::Sleep { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// The steps that are under way and must not be done twice.
    pub(crate) fn begun(&self) -> Vec<&str> {
        let begun = self.memos.iter().filter(|(_, memo)| **memo == Memo::Begun);
        begun.map(|(key, _)| key.as_str()).collect()
    }

    /// Whether the worker gave it back.
    pub(crate) fn is_parked(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Whether a step is under way that must not be done twice.
    pub(crate) fn has_begun(&self) -> bool {
        self.memos.values().any(|memo| *memo == Memo::Begun)
    }
}

/// What a worker's node is about, for people and lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment<'a> {
    /// The node's kind.
    pub kind: &'a Arc<str>,
    /// What holds for the execution.
    pub offered: &'a Offered,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What it waits for, if the worker gave it back.
    pub waits: &'a [Wait],
    /// What the worker said last of its progress.
    pub progress: Option<&'a Progress>,
    /// How many outcomes are recorded.
    pub steps: usize,
}

/// What may be read of a run's work.
impl Run {
    /// The tasks that workers have or should get.
    pub fn offers(&self) -> impl Iterator<Item = Offer> + '_ {
        let nodes = self.state.nodes.iter().enumerate();
        nodes
            .filter(|(_, node)| node.dispatched && node.work.is_some() && !self.is_replay())
            .map(|(ix, _)| self.offer(ix as crate::NodeIx, 0))
    }

    /// How the work of a node stands, if it is under way and workers do it.
    pub fn assignment(&self, node: &str) -> Option<Assignment<'_>> {
        let ix = self.graph.node(node)?;
        let state = self.node(ix);
        let work = state.work.as_deref()?;
        let steps =
            work.memos.values().filter(|memo| matches!(memo, Memo::Done(_) | Memo::Failed(_))).count();
        Some(Assignment {
            kind: &self.graph.at(ix).type_id,
            offered: &work.offered,
            attempt: state.attempt_told(),
            waits: &work.waits,
            progress: work.progress.as_ref(),
            steps,
        })
    }

    /// Whether somebody decided that the run ends, so that nobody should begin anything.
    pub fn is_ending(&self) -> bool {
        self.state.ending.is_some() || self.state.lifecycle.is_terminal()
    }

    /// Whether a step of a node is under way that must not be done twice.
    pub(crate) fn has_begun(&self, ix: crate::NodeIx) -> bool {
        self.node(ix).work.as_deref().is_some_and(WorkState::has_begun)
    }

    pub(crate) fn offer(&self, ix: crate::NodeIx, at: Millis) -> Offer {
        let (node, state) = (self.graph.at(ix), self.node(ix));
        let work = state.work.as_deref();
        Offer {
            task: TaskId { node: node.id.clone(), execution: state.execution },
            fence: work.map_or(0, |work| work.fence),
            kind: node.type_id.clone(),
            agent: work.and_then(|work| work.offered.agent.clone()),
            attempt: state.attempt_told(),
            timeout_ms: work.and_then(|work| work.offered.timeout_ms),
            at,
            held: self.is_withheld(),
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_of_failure_has_one_name() {
        for (class, name) in FailureClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), name);
        }
    }
}
