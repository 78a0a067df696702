//! Tasks and plans that are posted to a run by hand, beside the nodes of its definition (OpenIntent's RFC-0012).
//!
//! They live in the run's journal and state, and never change where the run itself stands: a plan stays active while its
//! run waits for people, and a run completes whatever its plans think of that. What follows from what happened (tasks that
//! become ready, checkpoints, the end of a plan) is decided behind every command in one place, `settle.rs`.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`TaskId`], [`PlanId`] | `id.rs` | what they are known by |
//! | [`Task`], [`TaskStatus`] | `task.rs` | a task, and where it stands as one table |
//! | [`Plan`], [`PlanState`] | `plan.rs` | a plan, and where it stands as one table |
//! | [`PlanCommand`] | `command.rs`, and `command/plan.rs` beside the other commands | what may be asked |
//! | `Posting` | `post.rs` | what somebody posts, checked before anything is recorded |
//! | `settle` | `settle.rs` | what follows by itself |
//! | checkpoint | `checkpoint.rs` | a plan that asks people whether it may go on |
//! | mirror | `mirror.rs` | tasks that wait because their run does, or the run they stand for |
//! | [`PlanProgress`] | `progress.rs` | what may be read of them |

mod checkpoint;
mod command;
mod id;
mod mirror;
mod plan;
mod post;
mod progress;
mod settle;
mod task;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use command::{NewCheckpoint, NewCondition, NewPlan, NewTask, PlanAct, PlanCommand, PlanTask, TaskAct};
pub(crate) use id::ID_DIGITS;
pub use id::{PlanId, TaskId};
pub use plan::{
    CheckpointAnswer, CheckpointSpec, CheckpointStanding, CheckpointStatus, ConditionSpec, OnComplete,
    OnFailure, OnTimeout, PauseCause, Plan, PlanSpec, PlanState,
};
pub(crate) use post::{check_json, check_text};
pub use progress::{PlanProgress, SuspendedTask};
pub use task::{Blocked, Priority, Task, TaskSpec, TaskStatus};

/// Everything that was posted to a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planning {
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    pub(crate) plans: BTreeMap<PlanId, Plan>,
    /// Pending tasks that depend on nothing that is not done. Those of no plan, or of an active one, become ready.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) due: BTreeSet<TaskId>,
    /// The tasks that depend on each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) dependents: BTreeMap<TaskId, Vec<TaskId>>,
    /// About how many bytes of it are users' own: they are in every snapshot.
    #[serde(default)]
    pub(crate) bytes: usize,
}

impl Planning {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.plans.is_empty()
    }

    /// Whether a task depends on nothing that is not done.
    pub(crate) fn is_unhindered(&self, task: &Task) -> bool {
        task.spec.depends_on.iter().all(|id| self.tasks.get(id).is_some_and(|other| other.status.is_done()))
    }

    /// The plan that a task is of.
    pub(crate) fn plan_of(&self, task: &Task) -> Option<&Plan> {
        self.plans.get(&task.plan?)
    }
}
