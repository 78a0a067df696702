//! Where a run stands: its lifecycle, and the hold that lies across it.
//!
//! A command tests the lifecycle; a hold only keeps nodes from starting. The lifecycle grows with the
//! capabilities: rolling back joins when something can cause it. Blocked and suspended are told from what a run waits for.

use serde::{Deserialize, Serialize};

use crate::event::RunEvent;

/// Where a run stands between its first event and its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Nothing has been recorded yet.
    Pending,
    /// Nodes run, wait, or are about to.
    Running,
    /// A cancellation was asked for; work whose outcome is still unknown is being waited for.
    Cancelling,
    /// Every node did what it should.
    Completed,
    /// A node failed and nothing routed the failure.
    Failed,
    /// Somebody cancelled the run.
    Cancelled,
}

/// What keeps a run's nodes from starting, whatever its lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Nothing does.
    None,
    /// An operator paused the run, and work in flight is being waited for. No node starts.
    Pausing,
    /// An operator paused the run. Timers go on and outcomes are recorded, but no node starts.
    Paused,
    /// An operator stopped the run: it is paused, and the times of its questions stand still.
    Stopped,
    /// The run was interrupted and may not be resumed by itself: a person has to decide. No node starts.
    #[serde(rename = "resume_escalated")]
    Escalated,
}

impl Lifecycle {
    /// The state after `event`, or `None` if the event is illegal here.
    pub fn after(self, event: &RunEvent) -> Option<Self> {
        use Lifecycle::*;
        match (self, event) {
            (Pending, RunEvent::Started(_)) => Some(Running),
            (Running, RunEvent::Completed(_)) => Some(Completed),
            (Running, RunEvent::Failed(_)) => Some(Failed),
            (Running, RunEvent::Cancelling(_)) => Some(Cancelling),
            (Running | Cancelling, RunEvent::Cancelled(_)) => Some(Cancelled),
            (Running, RunEvent::Pausing(_) | RunEvent::Paused(_) | RunEvent::Resumed(_)) => Some(Running),
            (Running, RunEvent::Held(_) | RunEvent::Released(_)) => Some(Running),
            (Running, RunEvent::Yielded(_)) => Some(Running),
            (
                Running,
                RunEvent::ResumeDecided(_)
                | RunEvent::ResumeRequested(_)
                | RunEvent::ResumeEscalated(_)
                | RunEvent::ResumeSwitched(_),
            ) => Some(Running),
            (Running, RunEvent::CapBreached(_) | RunEvent::LoopbackLimit(_) | RunEvent::LoopRestarted(_)) => {
                Some(Running)
            }
            (
                Running,
                RunEvent::Activated(_)
                | RunEvent::Blocked(_)
                | RunEvent::Unblocked(_)
                | RunEvent::DependencyAdded(_)
                | RunEvent::DependencyRemoved(_)
                | RunEvent::MemberAdded(_)
                | RunEvent::MemberRemoved(_)
                | RunEvent::MemberReported(_)
                | RunEvent::GovernanceSet(_)
                | RunEvent::BudgetExceeded(_)
                | RunEvent::Ordered(_)
                | RunEvent::ChildAdded(_)
                | RunEvent::IntentPatched(_)
                | RunEvent::Intent(_),
            ) => Some(Running),
            // What work in flight brings is recorded to the end, and so is what others tell.
            (
                Running | Cancelling,
                RunEvent::ChildReported(_)
                | RunEvent::ChildRefused(_)
                | RunEvent::VariableChanged(_)
                | RunEvent::ReplayDiverged(_)
                | RunEvent::DependencyReported(_)
                | RunEvent::Watched(_)
                | RunEvent::Coordinator(_),
            ) => Some(self),
            (Running, RunEvent::Task(_) | RunEvent::Plan(_)) => Some(Running),
            (Cancelling, RunEvent::Task(changed)) if changed.with_run.is_some() => Some(Cancelling),
            (Cancelling, RunEvent::Plan(changed)) if changed.with_run.is_some() => Some(Cancelling),
            _ => None,
        }
    }

    /// Whether the journal has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Every state, for tables and tests.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Cancelling, Self::Completed, Self::Failed, Self::Cancelled];
}

impl Hold {
    /// The hold after `event`, or `None` if the event is illegal here.
    pub fn after(self, event: &RunEvent) -> Option<Self> {
        match (self, event) {
            (Self::None, RunEvent::Pausing(_)) => Some(Self::Pausing),
            (Self::None | Self::Pausing, RunEvent::Paused(_)) => Some(Self::Paused),
            // A run that was held for people may go on without what was interrupted, if they gave that up.
            (Self::Pausing | Self::Paused | Self::Stopped | Self::Escalated, RunEvent::Resumed(_)) => {
                Some(Self::None)
            }
            (_, RunEvent::Pausing(_) | RunEvent::Paused(_) | RunEvent::Resumed(_)) => None,
            (Self::Escalated, RunEvent::Held(_)) => None,
            // Whoever holds it may change how; to hold it the same way again changes nothing.
            (hold, RunEvent::Held(held)) => Some(held.mode.hold()).filter(|next| *next != hold),
            (Self::Pausing | Self::Paused | Self::Stopped, RunEvent::Released(_)) => Some(Self::None),
            (_, RunEvent::Released(_)) => None,
            (Self::None | Self::Escalated, RunEvent::ResumeEscalated(_)) => Some(Self::Escalated),
            (Self::None | Self::Escalated, RunEvent::ResumeDecided(decided)) if decided.eligible => {
                Some(Self::None)
            }
            (
                Self::Pausing | Self::Paused | Self::Stopped,
                RunEvent::ResumeEscalated(_) | RunEvent::ResumeDecided(_),
            ) => None,
            (_, RunEvent::Completed(_) | RunEvent::Failed(_) | RunEvent::Cancelled(_)) => Some(Self::None),
            // The run ends when the work in flight has, so there is nothing to be paused then.
            (Self::Pausing, RunEvent::Cancelling(_)) => Some(Self::None),
            // A yield means that nodes wait to be started, which a hold forbids.
            (hold, RunEvent::Yielded(_) | RunEvent::LoopRestarted(_)) if hold != Self::None => None,
            (hold, _) => Some(hold),
        }
    }

    /// Every hold, for tables and tests.
    pub const ALL: [Self; 5] = [Self::None, Self::Pausing, Self::Paused, Self::Stopped, Self::Escalated];
}
