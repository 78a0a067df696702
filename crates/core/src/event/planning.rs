//! The payloads of what happens to the tasks and plans that are posted to a run.

use serde::{Deserialize, Serialize};

use super::types::*;
use super::{EventType, read};
use crate::planning::{PlanId, PlanSpec, TaskId, TaskSpec};
use crate::{Failure, InterruptId, Json, Lifecycle, Millis, RunId};

/// What happened to a task. The type of the event says it, so the payload does not repeat it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TaskChange {
    /// Somebody posted it.
    #[default]
    Created,
    /// All that it depends on is done.
    Ready,
    /// An agent took it.
    Claimed,
    /// The agent began with it.
    Started,
    /// The agent tells how far it has come.
    Progress,
    /// It is done.
    Completed,
    /// It is not going to be done by this attempt.
    Failed,
    /// It is there for another attempt.
    Retrying,
    /// It waits for something.
    Blocked,
    /// What it waited for has come.
    Unblocked,
    /// The agent gave it back.
    Released,
    /// It is not to be done.
    Cancelled,
    /// It need not be done.
    Skipped,
}

/// Something happened to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskChanged {
    /// What happened.
    #[serde(skip)]
    pub change: TaskChange,
    /// Which task.
    pub task_id: TaskId,
    /// What was posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Box<TaskSpec>>,
    /// Who claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which attempt follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Why, in a word or a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The run whose question it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_intent_id: Option<RunId>,
    /// The question, if it is one of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_id: Option<InterruptId>,
    /// Since when another run waits for people, which may be before this one has heard of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_since: Option<Millis>,
    /// When the question of another run is given up, if it is ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// How far it has come.
    #[serde(default, deserialize_with = "crate::json::given", skip_serializing_if = "Option::is_none")]
    pub progress: Option<Json>,
    /// What came of it.
    #[serde(default, deserialize_with = "crate::json::given", skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// It ends because its run ends, in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_run: Option<Lifecycle>,
    /// It is cancelled because the run that it stands for was, and nobody wished it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_child: bool,
    /// Who did it, if they said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What happened to a plan. The type of the event says it, so the payload does not repeat it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PlanChange {
    /// Somebody posted it.
    #[default]
    Created,
    /// Its tasks may begin.
    Activated,
    /// None of its tasks may begin any more.
    Paused,
    /// They may again.
    Resumed,
    /// All its tasks are done or skipped.
    Completed,
    /// It is given up because something went wrong.
    Failed,
    /// Somebody gave it up.
    Cancelled,
    /// The task before a checkpoint is done.
    CheckpointReached,
    /// Somebody lets it pass.
    CheckpointApproved,
    /// Somebody does not, or nobody did in time.
    CheckpointRejected,
}

/// Something happened to a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanChanged {
    /// What happened.
    #[serde(skip)]
    pub change: PlanChange,
    /// Which plan.
    pub plan_id: PlanId,
    /// What was posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Box<PlanSpec>>,
    /// The checkpoint that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The task that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Why, in a word or a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It ends because its run ends, in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_run: Option<Lifecycle>,
    /// Who did it, if they said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

const TASK_TYPES: [(TaskChange, EventType); 13] = [
    (TaskChange::Created, TASK_CREATED),
    (TaskChange::Ready, TASK_READY),
    (TaskChange::Claimed, TASK_CLAIMED),
    (TaskChange::Started, TASK_STARTED),
    (TaskChange::Progress, TASK_PROGRESS),
    (TaskChange::Completed, TASK_COMPLETED),
    (TaskChange::Failed, TASK_FAILED),
    (TaskChange::Retrying, TASK_RETRYING),
    (TaskChange::Blocked, TASK_BLOCKED),
    (TaskChange::Unblocked, TASK_UNBLOCKED),
    (TaskChange::Released, TASK_RELEASED),
    (TaskChange::Cancelled, TASK_CANCELLED),
    (TaskChange::Skipped, TASK_SKIPPED),
];

const PLAN_TYPES: [(PlanChange, EventType); 10] = [
    (PlanChange::Created, PLAN_CREATED),
    (PlanChange::Activated, PLAN_ACTIVATED),
    (PlanChange::Paused, PLAN_PAUSED),
    (PlanChange::Resumed, PLAN_RESUMED),
    (PlanChange::Completed, PLAN_COMPLETED),
    (PlanChange::Failed, PLAN_FAILED),
    (PlanChange::Cancelled, PLAN_CANCELLED),
    (PlanChange::CheckpointReached, CHECKPOINT_REACHED),
    (PlanChange::CheckpointApproved, CHECKPOINT_APPROVED),
    (PlanChange::CheckpointRejected, CHECKPOINT_REJECTED),
];

impl TaskChange {
    /// The type of the events that say so.
    pub fn event_type(self) -> EventType {
        let found = TASK_TYPES.iter().find(|(change, _)| *change == self);
        found.expect("the table has every change").1
    }

    fn of(kind: EventType) -> Option<Self> {
        TASK_TYPES.iter().find(|(_, named)| *named == kind).map(|(change, _)| *change)
    }
}

impl PlanChange {
    /// The type of the events that say so.
    pub fn event_type(self) -> EventType {
        let found = PLAN_TYPES.iter().find(|(change, _)| *change == self);
        found.expect("the table has every change").1
    }

    fn of(kind: EventType) -> Option<Self> {
        PLAN_TYPES.iter().find(|(_, named)| *named == kind).map(|(change, _)| *change)
    }
}

impl TaskChanged {
    /// This happened to a task, and nothing more is to be said of it.
    pub(crate) fn of(task_id: TaskId, change: TaskChange) -> Self {
        Self {
            change,
            task_id,
            created: None,
            agent: None,
            attempt: None,
            reason: None,
            suspended_intent_id: None,
            interrupt_id: None,
            suspended_since: None,
            expires_at: None,
            progress: None,
            output: None,
            error: None,
            with_run: None,
            with_child: false,
            by: None,
        }
    }

    /// Reads it back, if the type of the event is one of these.
    pub(super) fn decode(kind: EventType, payload: &[u8]) -> Option<Result<Self, String>> {
        let change = TaskChange::of(kind)?;
        Some(read::<Self>(kind, payload).map(|changed| Self { change, ..changed }))
    }
}

impl PlanChanged {
    /// This happened to a plan, and nothing more is to be said of it.
    pub(crate) fn of(plan_id: PlanId, change: PlanChange) -> Self {
        Self {
            change,
            plan_id,
            created: None,
            checkpoint: None,
            task_id: None,
            reason: None,
            with_run: None,
            by: None,
        }
    }

    /// Reads it back, if the type of the event is one of these.
    pub(super) fn decode(kind: EventType, payload: &[u8]) -> Option<Result<Self, String>> {
        let change = PlanChange::of(kind)?;
        Some(read::<Self>(kind, payload).map(|changed| Self { change, ..changed }))
    }
}
