//! How a phase is shown: as the task of the run that does it.

use crate::graph::Work;
use crate::phase::INTENT_SUSPENDED;
use crate::{Millis, NodeIx, NodePhase, Run, RunId, Status, Suspension};

/// Where a phase stands, in the words of a task.
///
/// Whoever claims a run that is done by hand is at it from then on, so nothing is ever only claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhaseStatus {
    /// A phase before it is not done, or it has not begun.
    Pending,
    /// It may be claimed.
    Ready,
    /// Somebody has it.
    Running,
    /// Its run waits for people, or somebody holds it.
    Blocked,
    /// It is done.
    Completed,
    /// It failed.
    Failed,
    /// Its run was cancelled or abandoned, or it ended with its workflow.
    Cancelled,
    /// Nothing led to it.
    Skipped,
}

impl PhaseStatus {
    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }
}

/// A phase as a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseView {
    /// Which phase: the id of its node.
    pub phase: String,
    /// What it is called.
    pub title: String,
    /// The agent that it is meant for.
    pub assign: Option<String>,
    /// The run that does it.
    pub child: Option<RunId>,
    /// Where it stands.
    pub task_status: PhaseStatus,
    /// Why it is blocked, if its run waits for people.
    pub blocked_reason: Option<&'static str>,
    /// The run that waits for people, if it does.
    pub suspended_intent_id: Option<RunId>,
    /// Since when, and until when.
    pub suspended: Option<Suspension>,
}

/// A phase whose run waits for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspendedPhase {
    /// Which phase.
    pub phase_name: String,
    /// The run that does it.
    pub intent_id: RunId,
    /// Since when it waits.
    pub suspended_since: Millis,
    /// Until when; for ever if there is no end.
    pub expires_at: Option<Millis>,
}

impl Run {
    /// Its phases, in the order of the definition.
    pub fn phases(&self) -> Vec<PhaseView> {
        let mut phases = self.graph.phases.clone();
        phases.sort_unstable();
        phases.into_iter().filter_map(|ix| self.phase(ix)).collect()
    }

    /// Its phases whose runs wait for people.
    pub fn suspended_phases(&self) -> Vec<SuspendedPhase> {
        let phases = self.phases().into_iter();
        let suspended = |view: PhaseView| {
            let (intent_id, suspended) = (view.child?, view.suspended?);
            Some(SuspendedPhase {
                phase_name: view.phase,
                intent_id,
                suspended_since: suspended.since,
                expires_at: suspended.expires_at,
            })
        };
        phases.filter_map(suspended).collect()
    }

    fn phase(&self, ix: NodeIx) -> Option<PhaseView> {
        let Work::Phase(work) = &self.graph.at(ix).work else { return None };
        let (node, suspended) = (self.node(ix), self.phase_suspension(ix));
        Some(PhaseView {
            phase: self.graph.at(ix).id.to_string(),
            title: work.title.clone(),
            assign: work.assign.clone(),
            child: node.child,
            task_status: self.phase_status(ix, &work.upstreams),
            blocked_reason: suspended.map(|_| INTENT_SUSPENDED),
            suspended_intent_id: node.child.filter(|_| suspended.is_some()),
            suspended,
        })
    }

    fn phase_status(&self, ix: NodeIx, upstreams: &[String]) -> PhaseStatus {
        let node = self.node(ix);
        match node.phase {
            NodePhase::Completed => return PhaseStatus::Completed,
            // To the workflow that is a failure all the same; as a task it ended as its run did.
            NodePhase::Failed
                if node.child_stands.is_some_and(|stands| stands.status == Status::Cancelled) =>
            {
                return PhaseStatus::Cancelled;
            }
            NodePhase::Failed => return PhaseStatus::Failed,
            NodePhase::Cancelled => return PhaseStatus::Cancelled,
            NodePhase::Skipped => return PhaseStatus::Skipped,
            NodePhase::Waiting => {}
            _ => return PhaseStatus::Pending,
        }
        let done = |name: &String| {
            self.graph.node(name).is_none_or(|ix| self.node(ix).phase == NodePhase::Completed)
        };
        // What the run has not told yet follows from what was before it.
        let Some(stands) = node.child_stands else {
            return if upstreams.iter().all(done) { PhaseStatus::Ready } else { PhaseStatus::Pending };
        };
        match stands.status {
            _ if stands.suspended.is_some() => PhaseStatus::Blocked,
            Status::Paused => PhaseStatus::Blocked,
            Status::Blocked | Status::Draft if !stands.claimed => PhaseStatus::Pending,
            _ if stands.claimed => PhaseStatus::Running,
            _ => PhaseStatus::Ready,
        }
    }
}
