//! The runs below this one that a task may stand for, and how each of them stood when it spoke last.
//!
//! It is kept so that it can't matter whether a child speaks before a task is posted for it or afterwards, nor whether the
//! task may begin by then: what becomes of the task is told from how its child stands (`mirror.rs`). What children have
//! produced is only kept until a task has it, and not without bound. It stands in their own journals.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Planning, Task};
use crate::children::ChildStands;
use crate::event::{ChildRefused, ChildReported};
use crate::graph::Work;
use crate::{Failure, Json, NodeIx, NodePhase, Run, RunId, Status, limits};

/// The runs that a task may stand for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Children {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    known: BTreeMap<RunId, Child>,
    /// How many bytes are kept of what they have produced, and of why they failed.
    #[serde(default)]
    bytes: usize,
}

/// A run that a task may stand for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Child {
    /// How it stands; nothing as long as it has not spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stands: Option<ChildStands>,
    /// What it has produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Json>,
    /// It has produced something that is not kept here: it is too large, is never shown, or a task has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) elsewhere: bool,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Failure>,
}

impl Child {
    fn has_ended(&self) -> bool {
        self.stands.is_some_and(|stands| stands.status.is_terminal())
    }

    fn bytes(&self) -> usize {
        let details = self.error.as_ref().and_then(|error| error.details.as_ref());
        [self.output.as_ref(), details].into_iter().flatten().map(|json| json.text().len()).sum()
    }

    /// Lets go of what takes up room.
    fn shrink(&mut self) {
        self.elsewhere |= self.output.take().is_some();
        if let Some(error) = &mut self.error {
            error.details = None;
        }
    }

    fn hear(&mut self, report: &ChildReported) {
        let ChildReported { child, suspended, claimed, .. } = *report;
        self.stands = report.status.map(|status| ChildStands { status, suspended, claimed });
        let output = (!report.outputs.is_empty()).then(|| Json::of(&report.outputs));
        // What is never shown stands in the child alone.
        self.output = output.filter(|output| report.sensitive.is_empty() && fits(output));
        self.elsewhere = self.output.is_none() && !report.outputs.is_empty();
        self.error = report.error.as_ref().map(|error| cut(error, child));
    }
}

/// Whether a value is small enough to be that of a task.
fn fits(json: &Json) -> bool {
    json.text().len() <= limits::TASK_JSON_BYTES_MAX && json.depth() <= limits::ASK_DEPTH_MAX
}

/// Why a child failed, in short. The whole of it stands in the child.
fn cut(error: &Failure, child: RunId) -> Failure {
    let code: String = error.code.chars().take(limits::CODE_CHARS_MAX).collect();
    let message: String = error.message.chars().take(limits::CAUSE_CHARS_MAX).collect();
    let elsewhere = || Json::of(&json!({ "childRunId": child }));
    let details = error.details.clone().map(|details| if fits(&details) { details } else { elsewhere() });
    Failure { details, ..Failure::new(&code, message) }
}

impl Children {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn get(&self, run: RunId) -> Option<&Child> {
        self.known.get(&run)
    }

    /// Changes what is known of a child, and counts it anew.
    fn change(&mut self, run: RunId, how: impl FnOnce(&mut Child)) {
        let Some(child) = self.known.get_mut(&run) else { return };
        let before = child.bytes();
        how(child);
        self.bytes = (self.bytes + child.bytes()).saturating_sub(before);
    }

    fn forget(&mut self, run: RunId) {
        self.change(run, Child::shrink);
        self.known.remove(&run);
    }
}

/// What an event changes.
impl Planning {
    /// A task may stand for this run from now on.
    pub(crate) fn learn_child(&mut self, run: RunId) {
        self.children.known.entry(run).or_default();
        while self.children.known.len() > limits::CHILDREN_KNOWN_MAX {
            let Some(least) = self.least_wanted(run) else { return };
            self.children.forget(least);
        }
    }

    /// A child tells how it stands.
    pub(crate) fn hear_child(&mut self, report: &ChildReported) {
        if report.status.is_none() {
            return;
        }
        self.children.change(report.child, |child| child.hear(report));
        while self.children.bytes > limits::CHILDREN_BYTES_MAX {
            let Some(largest) = self.least_needed(report.child) else { return };
            self.children.change(largest, Child::shrink);
        }
    }

    /// A child could not be started: it never was, and nothing will ever come of it.
    pub(crate) fn refuse_child(&mut self, refused: &ChildRefused) {
        let stands = ChildStands { status: Status::Failed, suspended: None, claimed: false };
        self.children.change(refused.child, |child| {
            (child.stands, child.error) = (Some(stands), Some(cut(&refused.error, refused.child)));
        });
    }

    /// A task has what came of its child.
    pub(super) fn hand_over_child(&mut self, run: RunId) {
        self.children.change(run, Child::shrink);
    }

    /// The runs that unfinished tasks stand for.
    pub(super) fn stood_for(&self) -> BTreeSet<RunId> {
        let unfinished = self.tasks.values().filter(|task| !task.status.is_finished());
        unfinished.filter_map(|task| task.spec.run).collect()
    }

    /// The child that may be forgotten first: the oldest that has ended, or else the oldest, of those that no task waits for.
    fn least_wanted(&self, but: RunId) -> Option<RunId> {
        let wanted = self.stood_for();
        let free = || self.children.known.iter().filter(|(run, _)| **run != but && !wanted.contains(run));
        let ended = free().find(|(_, child)| child.has_ended());
        ended.or_else(|| free().next()).map(|(run, _)| *run)
    }

    /// The child whose words take up room that others need: the oldest, if possible one that no task waits for.
    fn least_needed(&self, but: RunId) -> Option<RunId> {
        let wanted = self.stood_for();
        let kept = || self.children.known.iter().filter(|(run, child)| **run != but && child.bytes() > 0);
        let free = kept().find(|(run, _)| !wanted.contains(run));
        free.or_else(|| kept().next()).map(|(run, _)| *run)
    }
}

/// What may be read of them.
impl Run {
    /// Whether a task may stand for this run: somebody had this run start it, or it does a phase.
    pub(crate) fn knows_child(&self, run: RunId) -> bool {
        self.state.planning.children.get(run).is_some() || self.phase_done_by(run).is_some()
    }

    /// Whether a task goes with another run, so that nobody does it by hand. In a run that was forked off, the children of the
    /// other are not its own, and the task is anybody's.
    pub(crate) fn goes_with_child(&self, task: &Task) -> bool {
        task.spec.run.is_some_and(|run| self.knows_child(run))
    }

    /// How a child stands, as far as it was heard.
    pub(crate) fn child_stands(&self, run: RunId) -> Option<ChildStands> {
        let kept = self.state.planning.children.get(run).and_then(|child| child.stands);
        kept.or_else(|| self.node(self.phase_done_by(run)?).child_stands)
    }

    /// The phase that this run does, if it is not through.
    fn phase_done_by(&self, run: RunId) -> Option<NodeIx> {
        let does = |ix: &NodeIx| {
            let node = self.node(*ix);
            node.child == Some(run) && node.phase == NodePhase::Waiting
        };
        self.graph.phases.iter().copied().find(does)
    }

    /// A child that tells how it stands is known from then on, if it does a phase. One that somebody added is known already.
    pub(crate) fn fold_child_told(&mut self, ix: NodeIx, report: &ChildReported) {
        let is_phase = matches!(self.graph.at(ix).work, Work::Phase(_));
        if is_phase && self.node(ix).child == Some(report.child) && report.status.is_some() {
            self.state.planning.learn_child(report.child);
        }
        self.state.planning.hear_child(report);
    }
}
