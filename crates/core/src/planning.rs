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
//! | [`TaskWish`], [`PlanWish`] | `reach.rs` | what has to be done for a task or a plan to stand somewhere |
//! | condition | `condition.rs` | whether a task of a plan is to be done |
//! | checkpoint | `checkpoint.rs` | a plan that asks people whether it may go on |
//! | mirror | `mirror.rs` | tasks that wait because their run does, or that go with the run they stand for |
//! | `Children` | `child.rs` | the runs that a task may stand for, as they spoke last |
//! | [`PlanProgress`] | `progress.rs` | what may be read of them |

mod checkpoint;
mod child;
mod command;
mod condition;
mod id;
mod mirror;
mod plan;
mod post;
mod progress;
mod reach;
mod settle;
mod task;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use child::Children;
pub use command::{
    NewCheckpoint, NewCondition, NewPlan, NewTask, PlanAct, PlanCommand, PlanTask, PlanWish, TaskAct,
    TaskWish,
};
pub(crate) use id::{ID_DIGITS, minted};
pub use id::{PlanId, TaskId};
pub use plan::{
    CheckpointAnswer, CheckpointSpec, CheckpointStanding, CheckpointStatus, ConditionSpec, OnComplete,
    OnFailure, OnTimeout, PauseCause, Plan, PlanSpec, PlanState,
};
pub(crate) use post::{check_json, check_object, check_text};
pub use progress::{PlanProgress, SuspendedTask};
pub(crate) use reach::{Way, way_of_plan};
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
    /// The runs that a task may stand for.
    #[serde(default, skip_serializing_if = "Children::is_empty")]
    pub(crate) children: Children,
    /// About how many bytes of it are users' own: they are in every snapshot.
    #[serde(default)]
    pub(crate) bytes: usize,
}

impl Planning {
    pub(crate) fn is_empty(&self) -> bool {
        self.has_nothing_posted() && self.children.is_empty()
    }

    /// Whether nothing can follow from anything.
    pub(crate) fn has_nothing_posted(&self) -> bool {
        self.tasks.is_empty() && self.plans.is_empty()
    }

    /// Whether a task depends on nothing that is not done.
    pub(crate) fn is_unhindered(&self, task: &Task) -> bool {
        task.spec.depends_on.iter().all(|id| self.tasks.get(id).is_some_and(|other| other.status.is_done()))
    }

    /// Whether a task will not be done although it had to be: it failed, or it was cancelled and its plan can't do without.
    /// Nobody wishes what a child's end brings about; and whoever cancels what others of the plan wait for has not said what
    /// becomes of those.
    pub(crate) fn has_failed(&self, task: &Task) -> bool {
        let waits = |id: &TaskId| {
            self.tasks.get(id).is_some_and(|other| !other.status.is_finished() && other.plan == task.plan)
        };
        let is_needed = || self.dependents.get(&task.id).is_some_and(|others| others.iter().any(waits));
        match task.status {
            TaskStatus::Failed => true,
            TaskStatus::Cancelled => task.with_child || is_needed(),
            _ => false,
        }
    }

    /// Whether all tasks of a plan are finished or can never begin.
    pub(crate) fn is_through(&self, plan: &Plan) -> bool {
        let tasks = || plan.tasks.iter().filter_map(|task| self.tasks.get(task));
        if !tasks().all(|task| task.status.is_finished() || task.status == TaskStatus::Pending) {
            return false;
        }
        let stuck = self.stuck();
        tasks().all(|task| task.status.is_finished() || stuck.contains(&task.id))
    }

    /// Pending tasks that depend on what will never be done. Nothing depends on what was posted after it.
    fn stuck(&self) -> BTreeSet<TaskId> {
        let mut stuck = BTreeSet::new();
        for task in self.tasks.values().filter(|task| task.status == TaskStatus::Pending) {
            let over = |id: &TaskId| self.tasks.get(id).is_some_and(|other| other.status.is_lost());
            if task.spec.depends_on.iter().any(|id| over(id) || stuck.contains(id)) {
                stuck.insert(task.id);
            }
        }
        stuck
    }

    /// The plan that a task is of.
    pub(crate) fn plan_of(&self, task: &Task) -> Option<&Plan> {
        self.plans.get(&task.plan?)
    }
}
