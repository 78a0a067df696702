//! A task: somebody posted it, an agent claims it and does it. Where it stands is one table.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{PlanId, TaskId};
use crate::event::{TaskChange, TaskChanged};
use crate::fold::Folding;
use crate::{Failure, InterruptId, Json, Lifecycle, Millis, Run, RunId};

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Something that it depends on is not done, or its plan is not active.
    Pending,
    /// An agent may claim it.
    Ready,
    /// An agent has it, and has not begun.
    Claimed,
    /// The agent works on it.
    Running,
    /// The agent waits for something.
    Blocked,
    /// It is done.
    Completed,
    /// The attempt failed.
    Failed,
    /// It is not to be done.
    Cancelled,
    /// It need not be done.
    Skipped,
}

impl TaskStatus {
    /// The status after a change, or `None` if that is illegal here.
    pub fn after(self, changed: &TaskChanged) -> Option<Self> {
        use TaskChange as Change;
        use TaskStatus::*;
        match (self, changed.change) {
            (Pending, Change::Ready) => Some(Ready),
            (Ready, Change::Claimed) => Some(Claimed),
            (Claimed, Change::Started) => Some(Running),
            (Claimed, Change::Released) => Some(Ready),
            (Running, Change::Progress) => Some(Running),
            (Running, Change::Completed) => Some(Completed),
            (Running, Change::Failed) => Some(Failed),
            (Running, Change::Blocked) => Some(Blocked),
            // Its agent asks for a second thing before the first is answered, or its run waits since or until another time.
            (Blocked, Change::Blocked)
                if changed.interrupt_id.is_some() || changed.suspended_intent_id.is_some() =>
            {
                Some(Blocked)
            }
            (Blocked, Change::Unblocked) => Some(Running),
            (Failed, Change::Retrying) => Some(Ready),
            (Pending | Ready, Change::Skipped) => Some(Skipped),
            (unfinished, Change::Cancelled) if !unfinished.is_finished() => Some(Cancelled),
            (unfinished, Change::Failed) if changed.with_run.is_some() && !unfinished.is_finished() => {
                Some(Failed)
            }
            _ => None,
        }
    }

    /// Whether nothing is left to do about it, unless it is tried again.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Skipped)
    }

    /// Whether what depends on it may begin.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped)
    }

    /// Whether what depends on it never will, as things are.
    pub fn is_lost(self) -> bool {
        self.is_finished() && !self.is_done()
    }

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }

    /// The status with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Every status, for tables and tests.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Ready,
        Self::Claimed,
        Self::Running,
        Self::Blocked,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
    ];
}

/// How much a task matters. It is told to agents; nothing in the run depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// When there is nothing else to do.
    Low,
    /// As usual.
    #[default]
    Normal,
    /// Before the usual ones.
    High,
    /// Before everything else.
    Urgent,
}

impl Priority {
    /// Every priority.
    pub const ALL: [Self; 4] = [Self::Low, Self::Normal, Self::High, Self::Urgent];

    /// Its name everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Urgent => "urgent",
        }
    }
}

/// What was posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskSpec {
    /// What people call it.
    pub name: String,
    /// What is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it is to be done with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// The tasks that have to be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<TaskId>,
    /// The plan that it was posted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanId>,
    /// The task that it is a part of, for whoever looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task: Option<TaskId>,
    /// How much it matters.
    #[serde(default)]
    pub priority: Priority,
    /// The only agent that may claim it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How often it may be attempted.
    pub max_attempts: u32,
    /// The child run that it stands for: it goes with that, and nobody does it by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The caller's own data, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl TaskSpec {
    /// About how many bytes of it are kept.
    pub(crate) fn bytes(&self) -> usize {
        let json = [self.input.as_ref(), self.metadata.as_ref()];
        let json: usize = json.into_iter().flatten().map(|json| json.text().len()).sum();
        json + self.name.len()
            + self.description.as_ref().map_or(0, String::len)
            + self.depends_on.len() * size_of::<TaskId>()
    }
}

/// What a blocked task waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blocked {
    /// Why, in a word or a sentence.
    pub reason: String,
    /// Since when; if another run waits for people, since that does.
    pub since: Millis,
    /// The run whose questions it waits for. Nobody blocked it by hand then, and nobody unblocks it by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_intent: Option<RunId>,
    /// Which questions, if it is this run. All of them are open between two decisions.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub interrupts: BTreeSet<InterruptId>,
    /// When the question of another run is given up, as far as that said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

/// A task and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Which task.
    pub id: TaskId,
    /// What was posted.
    pub spec: TaskSpec,
    /// The plan that it is of: the one it was posted to, or one that took it in.
    pub plan: Option<PlanId>,
    /// Where it stands.
    pub status: TaskStatus,
    /// Who has it, or had it last.
    pub assigned_agent: Option<String>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// What it waits for, if it is blocked.
    pub blocked: Option<Blocked>,
    /// How far it has come, as its agent said last.
    pub progress: Option<Json>,
    /// What came of it.
    pub output: Option<Json>,
    /// Why the last attempt failed.
    pub error: Option<Failure>,
    /// Why it was cancelled or skipped, or where that is kept which came of it.
    pub reason: Option<String>,
    /// It was cancelled because the run that it stands for was, and nobody wished it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_child: bool,
    /// When it was posted.
    pub created_at: Millis,
    /// When its agent began.
    pub started_at: Option<Millis>,
    /// When it was finished.
    pub completed_at: Option<Millis>,
    /// Rises with every change.
    pub version: u64,
}

impl Task {
    /// Why it is blocked.
    pub fn blocked_reason(&self) -> Option<&str> {
        self.blocked.as_ref().map(|blocked| blocked.reason.as_str())
    }

    /// The run that it waits for because that waits for people.
    pub fn suspended_intent(&self) -> Option<RunId> {
        self.blocked.as_ref().and_then(|blocked| blocked.suspended_intent)
    }

    /// Whether it failed as often as it may. A run that failed is not tried again, and neither is the task that stands for it.
    pub fn is_spent(&self) -> bool {
        let attempted = self.spec.run.is_some() || self.attempt >= self.spec.max_attempts;
        self.status == TaskStatus::Failed && attempted
    }

    /// About how many bytes are kept of what was said about it since it was posted.
    pub(super) fn told_bytes(&self) -> usize {
        let details = self.error.as_ref().and_then(|error| error.details.as_ref());
        let json = [self.progress.as_ref(), self.output.as_ref(), details];
        let json: usize = json.into_iter().flatten().map(|json| json.text().len()).sum();
        let message = self.error.as_ref().map_or(0, |error| error.message.len());
        json + message
            + self.reason.as_ref().map_or(0, String::len)
            + self.blocked_reason().map_or(0, str::len)
    }

    fn posted(id: TaskId, spec: TaskSpec, at: Millis) -> Self {
        Self {
            id,
            plan: spec.plan,
            assigned_agent: spec.agent.clone(),
            spec,
            status: TaskStatus::Pending,
            attempt: 1,
            blocked: None,
            progress: None,
            output: None,
            error: None,
            reason: None,
            with_child: false,
            created_at: at,
            started_at: None,
            completed_at: None,
            version: 1,
        }
    }

    /// What a change means beside the status.
    fn note(&mut self, changed: &TaskChanged, run: RunId, at: Millis) {
        match changed.change {
            TaskChange::Claimed => self.assigned_agent.clone_from(&changed.agent),
            TaskChange::Released => self.assigned_agent.clone_from(&self.spec.agent),
            TaskChange::Started => self.started_at = Some(at),
            TaskChange::Progress => self.progress.clone_from(&changed.progress),
            TaskChange::Completed => {
                self.output.clone_from(&changed.output);
                self.reason.clone_from(&changed.reason);
            }
            TaskChange::Failed => self.error.clone_from(&changed.error),
            TaskChange::Retrying => {
                (self.attempt, self.started_at) = (changed.attempt.unwrap_or(self.attempt + 1), None);
                self.assigned_agent.clone_from(&self.spec.agent);
            }
            TaskChange::Blocked => self.block(changed, run, at),
            TaskChange::Cancelled | TaskChange::Skipped => {
                (self.reason, self.with_child) = (changed.reason.clone(), changed.with_child);
            }
            TaskChange::Created | TaskChange::Ready | TaskChange::Unblocked => {}
        }
        if self.status != TaskStatus::Blocked {
            self.blocked = None;
        }
        self.completed_at = self.status.is_finished().then_some(at);
    }

    fn block(&mut self, changed: &TaskChanged, run: RunId, at: Millis) {
        let suspended_intent = changed.suspended_intent_id.or(changed.interrupt_id.map(|_| run));
        let reason = changed.reason.clone().unwrap_or_default();
        let expires_at = changed.expires_at;
        let since = changed.suspended_since.unwrap_or(at);
        let fresh = Blocked { reason, since, suspended_intent, interrupts: BTreeSet::new(), expires_at };
        // Of this run the questions are known one by one; another one says anew how it waits.
        match (&mut self.blocked, changed.interrupt_id) {
            (Some(blocked), Some(id)) => _ = blocked.interrupts.insert(id),
            (_, id) => self.blocked = Some(Blocked { interrupts: id.into_iter().collect(), ..fresh }),
        }
    }
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_task(
        &mut self,
        changed: &TaskChanged,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        if changed.with_run == Some(Lifecycle::Pending) || changed.with_run == Some(Lifecycle::Running) {
            return Err("a task ends with a run that does not end".to_owned());
        }
        if changed.change == TaskChange::Created {
            return self.fold_task_posted(changed, folding);
        }
        let (run, name) = (self.key.id, changed.change.event_type().name);
        let planning = &mut self.state.planning;
        let task =
            planning.tasks.get_mut(&changed.task_id).ok_or("it happened to a task that is not there")?;
        let (was, kept) = (task.status, task.told_bytes());
        task.status = was
            .after(changed)
            .ok_or_else(|| format!("{name} is illegal for a task that is {}", was.name()))?;
        task.version += 1;
        task.note(changed, run, folding.at);
        planning.bytes = (planning.bytes + task.told_bytes()).saturating_sub(kept);
        if was == TaskStatus::Pending {
            planning.due.remove(&changed.task_id);
        }
        self.fold_what_follows(changed.task_id, changed.change);
        Ok(())
    }

    /// What a change of a task means for its child, its plan and those that depend on it.
    fn fold_what_follows(&mut self, id: TaskId, change: TaskChange) {
        let planning = &mut self.state.planning;
        let Some(task) = planning.tasks.get(&id) else { return };
        let (done, plan) = (task.status.is_done(), task.plan);
        if let Some(child) = task.spec.run.filter(|_| task.status.is_finished()) {
            planning.hand_over_child(child);
        }
        // What it was paused for is over, and another failure is another one.
        if let Some(plan) = plan.filter(|_| change == TaskChange::Retrying)
            && let Some(plan) = planning.plans.get_mut(&plan)
        {
            plan.dealt_with.remove(&id);
        }
        if done {
            self.let_dependents_begin(id);
        }
    }

    fn fold_task_posted(&mut self, changed: &TaskChanged, folding: &Folding<'_>) -> Result<(), String> {
        let id = changed.task_id;
        if id != TaskId::of(&self.salt, folding.sequence) {
            return Err("the task has an id of another place".to_owned());
        }
        let spec = changed.created.as_deref().ok_or("nothing is said of the task that was posted")?;
        let planning = &mut self.state.planning;
        if spec.depends_on.iter().any(|other| !planning.tasks.contains_key(other)) {
            return Err("the task depends on one that is not there".to_owned());
        }
        if let Some(plan) = spec.plan {
            let plan = planning.plans.get_mut(&plan).ok_or("the task is of a plan that is not there")?;
            plan.tasks.push(id);
        }
        for other in &spec.depends_on {
            planning.dependents.entry(*other).or_default().push(id);
        }
        planning.bytes += spec.bytes();
        let task = Task::posted(id, spec.clone(), folding.at);
        if planning.is_unhindered(&task) {
            planning.due.insert(id);
        }
        planning.tasks.insert(id, task);
        Ok(())
    }

    fn let_dependents_begin(&mut self, id: TaskId) {
        let planning = &mut self.state.planning;
        let dependents = planning.dependents.get(&id).cloned().unwrap_or_default();
        for dependent in dependents {
            let Some(task) = planning.tasks.get(&dependent) else { continue };
            if task.status == TaskStatus::Pending && planning.is_unhindered(task) {
                planning.due.insert(dependent);
            }
        }
    }
}
