//! What may be asked of the tasks and plans of a run. Words are taken as they were written and checked when the command is
//! decided, so that every way in refuses the same with the same sentence.

use super::{PlanId, TaskId};
use crate::{Failure, Json, Millis, RunId};

/// Something is asked of the tasks and plans of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanCommand {
    /// Post a task.
    CreateTask {
        /// The task.
        task: Box<NewTask>,
        /// Who asks.
        by: Option<String>,
    },
    /// Do something with a task.
    Task {
        /// Which task.
        id: TaskId,
        /// The version that whoever asks has seen, if they care.
        version: Option<u64>,
        /// The agent in whose name it is done, if that is said. Of what only whoever has the task may do, nothing is taken from
        /// another: they may not know that it was given to somebody else since.
        agent: Option<String>,
        /// What.
        act: TaskAct,
        /// Who asks.
        by: Option<String>,
    },
    /// Have a task stand somewhere, by whatever has to be done for that.
    ReachTask {
        /// Which task.
        id: TaskId,
        /// The version that whoever asks has seen, if they care.
        version: Option<u64>,
        /// Where.
        wish: Box<TaskWish>,
        /// Who asks.
        by: Option<String>,
    },
    /// Have a plan stand somewhere, by whatever has to be done for that.
    ReachPlan {
        /// Which plan.
        id: PlanId,
        /// The version that whoever asks has seen, if they care.
        version: Option<u64>,
        /// Where.
        wish: PlanWish,
        /// Who asks.
        by: Option<String>,
    },
    /// Post a plan, as a draft.
    CreatePlan {
        /// The plan.
        plan: Box<NewPlan>,
        /// Who asks.
        by: Option<String>,
    },
    /// Do something with a plan.
    Plan {
        /// Which plan.
        id: PlanId,
        /// The version that whoever asks has seen, if they care.
        version: Option<u64>,
        /// What.
        act: PlanAct,
        /// Who asks.
        by: Option<String>,
    },
}

/// What may be done with a task.
///
/// To bring it where it stands already changes nothing, and is not refused: whoever asks twice has what they want.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskAct {
    /// An agent takes it.
    Claim {
        /// The agent.
        agent: String,
    },
    /// The agent begins. An agent that is named takes the task with that, if nobody has it.
    Start,
    /// The agent gives it back.
    Release {
        /// Why.
        reason: Option<String>,
    },
    /// The agent tells how far it has come.
    Progress {
        /// How far, in its own words.
        progress: Json,
    },
    /// It is done. One that was only claimed is begun with that.
    Complete {
        /// What came of it.
        output: Option<Json>,
    },
    /// It failed. One that was only claimed is begun with that.
    Fail {
        /// Why.
        error: Failure,
    },
    /// It is tried again.
    Retry,
    /// It waits for something.
    Block {
        /// For what.
        reason: String,
    },
    /// What it waited for has come.
    Unblock,
    /// It is not to be done.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
    /// It need not be done, and what depends on it may begin.
    Skip {
        /// Why.
        reason: Option<String>,
    },
}

/// What may be done with a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanAct {
    /// Its tasks may begin.
    Activate,
    /// None of its tasks may begin any more.
    Pause {
        /// Why.
        reason: Option<String>,
    },
    /// They may again. A checkpoint that was rejected is asked about anew.
    Resume,
    /// It is given up, and what is not finished of it is cancelled.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
}

/// Where a task is to stand, and what comes with that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskWish {
    /// Where, by its name; if it is missing, somebody is to have it, or tells how far it has come.
    pub status: Option<String>,
    /// The agent that is to have it, or has it.
    pub agent: Option<String>,
    /// Who asks: the agent that has it then, if nobody is named.
    pub asking: String,
    /// How far it has come.
    pub progress: Option<Json>,
    /// What came of it.
    pub output: Option<Json>,
    /// Why it failed.
    pub error: Option<Failure>,
    /// Why, or what it waits for.
    pub reason: Option<String>,
}

/// Where a plan is to stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanWish {
    /// Where, by its name.
    pub state: String,
    /// Why.
    pub reason: Option<String>,
}

/// A task that somebody posts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewTask {
    /// What people call it.
    pub name: String,
    /// What is to be done.
    pub description: Option<String>,
    /// What it is to be done with.
    pub input: Option<Json>,
    /// The tasks that have to be done before, by their ids; in a plan that is posted with its tasks also by their names.
    pub depends_on: Vec<String>,
    /// The id of the plan that it is of.
    pub plan: Option<String>,
    /// The id of the task that it is a part of.
    pub parent_task: Option<String>,
    /// `low`, `normal`, `high` or `urgent`.
    pub priority: Option<String>,
    /// The only agent that may claim it.
    pub agent: Option<String>,
    /// How often it may be attempted.
    pub max_attempts: Option<u32>,
    /// The child run that it stands for: one that this run was made to start, or that does a phase of it.
    pub run: Option<RunId>,
    /// The caller's own data, an object.
    pub metadata: Option<Json>,
}

/// A task of a plan that somebody posts.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanTask {
    /// One that is there, by its id.
    Posted(String),
    /// One that is posted with the plan.
    New(Box<NewTask>),
}

/// A checkpoint of a plan that somebody posts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewCheckpoint {
    /// What it is known by in its plan; its name if it is missing.
    pub id: Option<String>,
    /// What people call it.
    pub name: String,
    /// The task that it stands behind, by its id or its name.
    pub after: String,
    /// Somebody has to let it pass.
    pub requires_approval: bool,
    /// Who may, by name, group or role.
    pub approvers: Vec<String>,
    /// How long they have.
    pub timeout_ms: Option<Millis>,
    /// `escalate` or `fail`.
    pub on_timeout: Option<String>,
}

/// A condition of a plan that somebody posts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewCondition {
    /// The task, by its id or its name.
    pub task: String,
    /// When it is done: an expression.
    pub when: String,
    /// `skip`.
    pub otherwise: Option<String>,
}

/// A plan that somebody posts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewPlan {
    /// What people call it.
    pub name: Option<String>,
    /// Its tasks, in their order.
    pub tasks: Vec<PlanTask>,
    /// Where it stops.
    pub checkpoints: Vec<NewCheckpoint>,
    /// Which tasks are only done under a condition.
    pub conditions: Vec<NewCondition>,
    /// `pause_and_escalate`, `notify`, `fail` or `retry`.
    pub on_failure: Option<String>,
    /// `notify`.
    pub on_complete: Option<String>,
    /// The caller's own data, an object.
    pub metadata: Option<Json>,
}
