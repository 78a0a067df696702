//! A plan: tasks in an order, with places at which people let it go on. Where it stands is one table.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{PlanId, Planning, TaskId, TaskStatus};
use crate::event::{InterruptRequested, InterruptResolved, PlanChange, PlanChanged, Resolution};
use crate::fold::Folding;
use crate::{InterruptId, Json, Millis, Run, limits};

/// Where a plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// It is being written.
    Draft,
    /// Its tasks become ready one after the other.
    Active,
    /// What is under way goes on, and nothing else begins.
    Paused,
    /// All its tasks are done or skipped.
    Completed,
    /// It was given up because something went wrong.
    Failed,
    /// Somebody gave it up.
    Cancelled,
}

impl PlanState {
    /// The state after a change, or `None` if that is illegal here.
    pub fn after(self, change: PlanChange) -> Option<Self> {
        use PlanChange as Change;
        use PlanState::*;
        match (self, change) {
            (Draft, Change::Activated) => Some(Active),
            (Active, Change::Paused) => Some(Paused),
            (Paused, Change::Resumed) => Some(Active),
            (Active, Change::Completed) => Some(Completed),
            (Active | Paused, Change::Failed) => Some(Failed),
            (Draft | Active | Paused, Change::Cancelled) => Some(Cancelled),
            (Active | Paused, Change::CheckpointReached) => Some(self),
            (Paused, Change::CheckpointApproved | Change::CheckpointRejected) => Some(Paused),
            _ => None,
        }
    }

    /// Whether nothing happens to it any more.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Every state, for tables and tests.
    pub const ALL: [Self; 6] =
        [Self::Draft, Self::Active, Self::Paused, Self::Completed, Self::Failed, Self::Cancelled];
}

/// What becomes of a plan when one of its tasks has failed, or a checkpoint was rejected.
///
/// Only `retry` tries again by itself. With the others a failure that may be repeated is acted on like any other: nobody
/// would ever try again otherwise, and the plan would stand still without a word. Whoever looks at it may still have the
/// task retried. A task that is cancelled counts as one that failed for good, unless somebody cancelled it and nothing waits
/// for it: then the plan does without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It is paused until somebody has looked at it.
    #[default]
    PauseAndEscalate,
    /// It goes on with what does not depend on it, and ends when nothing is left that may begin: it has failed then. A
    /// rejected checkpoint stays shut all the same.
    Notify,
    /// It fails, and what is not finished of it is cancelled.
    Fail,
    /// The task is tried again by itself as often as it may be, and then the plan is paused.
    Retry,
}

/// What happens when all is done. Whoever reads the journal or has a webhook hears of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnComplete {
    /// It is told.
    #[default]
    Notify,
}

/// What happens when nobody has answered at a checkpoint in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It stays open, and people are told again.
    #[default]
    Escalate,
    /// It counts as rejected, and the plan fails.
    Fail,
}

/// A place at which a plan stops until people let it go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointSpec {
    /// What it is known by in its plan.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The task that it stands behind.
    pub after: TaskId,
    /// Somebody has to let it pass. Otherwise it is only told.
    pub requires_approval: bool,
    /// Who may, by name, group or role; everybody if it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// How long they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// What follows if nobody answers by then.
    #[serde(default)]
    pub on_timeout: OnTimeout,
}

/// A task that is only done under a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConditionSpec {
    /// The task. It is skipped otherwise.
    pub task: TaskId,
    /// The condition, an expression.
    pub when: String,
}

/// What was posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanSpec {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tasks that it takes in, in their order. More may be posted to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// Where it stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<CheckpointSpec>,
    /// Which tasks are only done under a condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionSpec>,
    /// What becomes of it when something goes wrong.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// What happens when all is done.
    #[serde(default)]
    pub on_complete: OnComplete,
    /// The caller's own data, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl PlanSpec {
    /// About how many bytes of it are kept.
    pub(crate) fn bytes(&self) -> usize {
        let names = |spec: &CheckpointSpec| spec.approvers.iter().map(String::len).sum::<usize>();
        let checkpoints = self.checkpoints.iter().map(|spec| spec.id.len() + spec.name.len() + names(spec));
        let conditions = self.conditions.iter().map(|condition| condition.when.len());
        checkpoints.chain(conditions).sum::<usize>()
            + self.tasks.len() * size_of::<TaskId>()
            + self.metadata.as_ref().map_or(0, |metadata| metadata.text().len())
    }
}

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointStatus {
    /// The plan is there, and people are asked if they have to be.
    Reached,
    /// Nobody has to let it pass, or somebody did.
    Passed,
    /// Somebody did not let it pass. They are asked again when the plan is resumed.
    Rejected,
}

/// How a question about a checkpoint ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointAnswer {
    /// How.
    pub outcome: Resolution,
    /// Who ended it.
    pub by: String,
    /// Why, as far as they said so.
    pub reason: Option<String>,
    /// Nobody answered in time.
    pub late: bool,
}

/// A checkpoint that a plan has come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointStanding {
    /// How far it has come.
    pub status: CheckpointStatus,
    /// Since when.
    pub since: Millis,
    /// The question to people, the last if there were several.
    pub interrupt: Option<InterruptId>,
    /// What became of that.
    pub answer: Option<CheckpointAnswer>,
}

/// Why a plan is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCause {
    /// Somebody wanted it.
    Hand,
    /// It waits at a checkpoint, or was not let past one.
    Checkpoint,
    /// Something went wrong with a task.
    Failure,
}

/// A plan and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Which plan.
    pub id: PlanId,
    /// What was posted.
    pub spec: PlanSpec,
    /// Its tasks in their order, those included that were posted to it later.
    pub tasks: Vec<TaskId>,
    /// Where it stands.
    pub state: PlanState,
    /// Why it is paused.
    pub pause: Option<PauseCause>,
    /// Why it is paused, failed or was cancelled, in a sentence.
    pub reason: Option<String>,
    /// The checkpoints that it has come to, by their ids.
    pub checkpoints: BTreeMap<String, CheckpointStanding>,
    /// The failed tasks that it was paused for already, in their present attempts.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) dealt_with: BTreeSet<TaskId>,
    /// When it was posted.
    pub created_at: Millis,
    /// When something happened to it last.
    pub updated_at: Millis,
    /// Rises with every change of its own; those of its tasks don't count.
    pub version: u64,
}

impl Plan {
    /// The checkpoint of this name.
    pub(crate) fn checkpoint(&self, id: &str) -> Option<&CheckpointSpec> {
        self.spec.checkpoints.iter().find(|checkpoint| checkpoint.id == id)
    }

    /// The checkpoint that the plan waits at, or was not let past.
    pub fn waits_at(&self) -> Option<(&CheckpointSpec, &CheckpointStanding)> {
        let (id, standing) =
            self.checkpoints.iter().find(|(_, standing)| standing.status != CheckpointStatus::Passed)?;
        Some((self.checkpoint(id)?, standing))
    }

    fn posted(id: PlanId, spec: &PlanSpec, at: Millis) -> Self {
        Self {
            id,
            tasks: spec.tasks.clone(),
            spec: spec.clone(),
            state: PlanState::Draft,
            pause: None,
            reason: None,
            checkpoints: BTreeMap::new(),
            dealt_with: BTreeSet::new(),
            created_at: at,
            updated_at: at,
            version: 1,
        }
    }

    /// What a change means beside the state.
    fn note(&mut self, changed: &PlanChanged, at: Millis) -> Result<(), String> {
        match changed.change {
            PlanChange::CheckpointReached
            | PlanChange::CheckpointApproved
            | PlanChange::CheckpointRejected => self.note_checkpoint(changed, at)?,
            PlanChange::Paused => {
                self.pause = Some(match (&changed.checkpoint, changed.task_id) {
                    (Some(_), _) => PauseCause::Checkpoint,
                    (None, Some(_)) => PauseCause::Failure,
                    (None, None) => PauseCause::Hand,
                });
                self.reason.clone_from(&changed.reason);
            }
            _ => {
                self.pause = None;
                self.reason.clone_from(&changed.reason);
            }
        }
        Ok(())
    }

    fn note_checkpoint(&mut self, changed: &PlanChanged, at: Millis) -> Result<(), String> {
        let id = changed.checkpoint.as_deref().ok_or("nothing is said of which checkpoint")?;
        let spec = self.checkpoint(id).ok_or("the plan has no such checkpoint")?;
        let asks = spec.requires_approval;
        let status = match changed.change {
            PlanChange::CheckpointReached if asks => CheckpointStatus::Reached,
            PlanChange::CheckpointRejected => CheckpointStatus::Rejected,
            _ => CheckpointStatus::Passed,
        };
        if changed.change == PlanChange::CheckpointReached {
            let reached = CheckpointStanding { status, since: at, interrupt: None, answer: None };
            self.checkpoints.insert(id.to_owned(), reached);
            return Ok(());
        }
        self.checkpoints.get_mut(id).ok_or("the plan has not come to that checkpoint")?.status = status;
        Ok(())
    }
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_plan(
        &mut self,
        changed: &PlanChanged,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        if changed.change == PlanChange::Created {
            return self.fold_plan_posted(changed, folding);
        }
        let name = changed.change.event_type().name;
        let Planning { tasks, plans, .. } = &mut self.state.planning;
        let plan = plans.get_mut(&changed.plan_id).ok_or("it happened to a plan that is not there")?;
        let was = plan.state;
        plan.state = was
            .after(changed.change)
            .ok_or_else(|| format!("{name} is illegal for a plan that is {}", was.name()))?;
        plan.version += 1;
        plan.updated_at = folding.at;
        // A task whose condition can't be evaluated has not begun, and may fail yet.
        let failed = changed.task_id.filter(|id| tasks.get(id).is_some_and(|task| task.status.is_finished()));
        if changed.change == PlanChange::Paused && changed.checkpoint.is_none() {
            plan.dealt_with.extend(failed);
        }
        plan.note(changed, folding.at)
    }

    fn fold_plan_posted(&mut self, changed: &PlanChanged, folding: &Folding<'_>) -> Result<(), String> {
        let id = changed.plan_id;
        if id != PlanId::of(&self.salt, folding.sequence) {
            return Err("the plan has an id of another place".to_owned());
        }
        let spec = changed.created.as_deref().ok_or("nothing is said of the plan that was posted")?;
        let planning = &mut self.state.planning;
        for task in &spec.tasks {
            let task = planning.tasks.get_mut(task).ok_or("the plan takes in a task that is not there")?;
            if task.plan.is_some() || !matches!(task.status, TaskStatus::Pending | TaskStatus::Ready) {
                return Err("the plan takes in a task that is of another, or has begun".to_owned());
            }
            // Nobody has claimed it, and whether it becomes ready is up to the plan now.
            if task.status == TaskStatus::Ready {
                task.status = TaskStatus::Pending;
                planning.due.insert(task.id);
            }
            task.plan = Some(id);
            task.version += 1;
        }
        planning.bytes += spec.bytes();
        planning.plans.insert(id, Plan::posted(id, spec, folding.at));
        Ok(())
    }

    /// People are asked about a checkpoint.
    pub(crate) fn fold_checkpoint_asked(&mut self, requested: &InterruptRequested) -> Result<(), String> {
        let Some(about) = &requested.checkpoint else { return Ok(()) };
        let plan = self.state.planning.plans.get_mut(&about.plan_id);
        let standing = plan.and_then(|plan| plan.checkpoints.get_mut(&about.checkpoint));
        let standing = standing.ok_or("people are asked about a checkpoint that no plan has come to")?;
        (standing.interrupt, standing.answer) = (Some(requested.interrupt_id), None);
        Ok(())
    }

    /// A question is closed: no task waits for it any more, and a checkpoint has its answer.
    pub(crate) fn fold_planning_resolved(
        &mut self,
        requested: &InterruptRequested,
        resolved: &InterruptResolved,
    ) {
        let planning = &mut self.state.planning;
        for blocked in planning.tasks.values_mut().filter_map(|task| task.blocked.as_mut()) {
            blocked.interrupts.remove(&resolved.interrupt_id);
        }
        let Some(about) = &requested.checkpoint else { return };
        let plan = planning.plans.get_mut(&about.plan_id);
        if let Some(standing) = plan.and_then(|plan| plan.checkpoints.get_mut(&about.checkpoint)) {
            standing.answer = Some(CheckpointAnswer {
                outcome: resolved.outcome,
                by: resolved.resolved_by.clone(),
                // The whole of it stands in the journal. This is in every snapshot.
                reason: resolved
                    .reason
                    .as_ref()
                    .map(|why| why.chars().take(limits::CAUSE_CHARS_MAX).collect()),
                late: resolved.resume_value.is_none(),
            });
        }
    }
}
