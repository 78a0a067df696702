//! What may be read of the tasks and plans of a run.

use std::collections::BTreeMap;

use super::{Plan, PlanId, PlanState, Task, TaskId, TaskStatus};
use crate::why::Reason;
use crate::{Millis, Open, Run, RunId};

/// How far a plan has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanProgress {
    /// How many tasks it has.
    pub total: usize,
    /// How many stand where. Every status is there, be it 0.
    pub by_status: BTreeMap<TaskStatus, usize>,
    /// How many of a hundred are done or skipped, rounded down; 0 for a plan without tasks.
    pub completion_percentage: u32,
    /// The tasks that wait because a run waits for people.
    pub suspended_tasks: Vec<SuspendedTask>,
}

/// A task that waits because a run waits for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspendedTask {
    /// Which task.
    pub task_id: TaskId,
    /// Which run.
    pub intent_id: RunId,
    /// Since when.
    pub suspended_since: Millis,
    /// When the first of its questions ends, if any does.
    pub expires_at: Option<Millis>,
}

/// What may be read of a run's tasks and plans.
impl Run {
    /// The tasks that were posted to it, oldest first.
    pub fn tasks_posted(&self) -> impl Iterator<Item = &Task> {
        self.state.planning.tasks.values()
    }

    /// A task that was posted to it.
    pub fn posted_task(&self, id: TaskId) -> Option<&Task> {
        self.state.planning.tasks.get(&id)
    }

    /// The tasks that depend on one.
    pub fn tasks_after(&self, id: TaskId) -> &[TaskId] {
        self.state.planning.dependents.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The plans that were posted to it, oldest first.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.state.planning.plans.values()
    }

    /// A plan that was posted to it.
    pub fn plan(&self, id: PlanId) -> Option<&Plan> {
        self.state.planning.plans.get(&id)
    }

    /// How far a plan has come.
    pub fn plan_progress(&self, id: PlanId) -> Option<PlanProgress> {
        let plan = self.plan(id)?;
        let tasks: Vec<&Task> = plan.tasks.iter().filter_map(|task| self.posted_task(*task)).collect();
        let mut by_status: BTreeMap<TaskStatus, usize> =
            TaskStatus::ALL.into_iter().map(|status| (status, 0)).collect();
        for task in &tasks {
            *by_status.entry(task.status).or_default() += 1;
        }
        let done = tasks.iter().filter(|task| task.status.is_done()).count();
        let percentage = (done * 100).checked_div(tasks.len()).unwrap_or(0);
        Some(PlanProgress {
            total: tasks.len(),
            by_status,
            completion_percentage: u32::try_from(percentage).unwrap_or(100),
            suspended_tasks: tasks.iter().filter_map(|task| self.suspension_of(task)).collect(),
        })
    }

    /// What a task waits for, if that is people who answer a run.
    pub fn suspension_of(&self, task: &Task) -> Option<SuspendedTask> {
        let blocked = task.blocked.as_ref()?;
        let open = blocked.interrupts.iter().filter_map(|id| self.state.open.get(id));
        let ends = open.filter_map(Open::deadline).min();
        Some(SuspendedTask {
            task_id: task.id,
            intent_id: blocked.suspended_intent?,
            suspended_since: blocked.since,
            expires_at: ends.or(blocked.expires_at),
        })
    }

    /// Why a pending task is not ready, in a sentence without an end.
    pub fn held_back(&self, task: &Task) -> Option<String> {
        if task.status != TaskStatus::Pending {
            return None;
        }
        let others = task.spec.depends_on.iter().filter_map(|id| self.posted_task(*id));
        let mut others: Vec<&Task> = others.filter(|other| !other.status.is_done()).collect();
        // What will never be done is told before what may be.
        others.sort_by_key(|other| !other.status.is_finished());
        if let Some(other) = others.first() {
            return Some(format!(
                "task '{}' ({}), which it depends on, is {}",
                other.spec.name,
                other.id,
                other.status.name()
            ));
        }
        let plan = self.state.planning.plan_of(task).filter(|plan| !plan.lets_begin())?;
        Some(format!("its plan ({}) is {}", plan.id, plan.state.name()))
    }

    /// What keeps plans and tasks from going on.
    pub(crate) fn planning_waits(&self) -> impl Iterator<Item = Reason> + '_ {
        let plans = self.plans().filter_map(|plan| match plan.state {
            PlanState::Paused => Some(self.paused_plan_waits(plan)),
            PlanState::Active => Some(self.active_plan_waits(plan)),
            _ => None,
        });
        let tasks = self.tasks_posted().filter_map(|task| self.task_waits(task));
        plans.chain(tasks)
    }

    /// What a plan waits for whose tasks may begin: somebody who does them, or somebody who sees that none can go on.
    fn active_plan_waits(&self, plan: &Plan) -> Reason {
        let planning = &self.state.planning;
        let tasks = || plan.tasks.iter().filter_map(|task| planning.tasks.get(task));
        let unfinished = tasks().filter(|task| !task.status.is_finished()).count();
        let mut left =
            tasks().filter(|task| !task.status.is_finished() && task.status != TaskStatus::Pending);
        let reason = match (left.next(), tasks().find(|task| planning.has_failed(task))) {
            (Some(task), _) => {
                let (task, plan) = (told(task), named(plan));
                let what = format!(
                    "plan {plan} is under way: {task}, and {unfinished} tasks in all are not finished"
                );
                Reason::of("plan", what, "it goes on as they are done")
            }
            (None, Some(failed)) => {
                let (task, plan) = (told(failed), named(plan));
                let next = "it goes on if somebody retries that task, or does without what depends on it";
                Reason::of("plan", format!("nothing of plan {plan} can go on: {task}"), next)
            }
            (None, None) => {
                let held = tasks().find_map(|task| self.held_back(task)).unwrap_or_default();
                let what = format!("nothing of plan {} can go on yet: {held}", named(plan));
                Reason::of("plan", what, "it goes on when that is done")
            }
        };
        Reason { since: Some(plan.updated_at), ..reason }
    }

    fn paused_plan_waits(&self, plan: &Plan) -> Reason {
        let named = named(plan);
        let why = plan.reason.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let next = match self.checkpoint_question(plan) {
            Some(_) => "it goes on when somebody lets it past",
            None => "it goes on when somebody resumes it",
        };
        Reason {
            since: Some(plan.updated_at),
            ..Reason::of("plan", format!("plan {named} is paused{why}"), next)
        }
    }

    fn task_waits(&self, task: &Task) -> Option<Reason> {
        let blocked = task.blocked.as_ref()?;
        let what = format!("task '{}' ({}) is blocked: {}", task.spec.name, task.id, blocked.reason);
        let next = match blocked.suspended_intent {
            Some(_) => "it goes on when somebody answers",
            None => "it goes on when somebody unblocks it",
        };
        let until = self.suspension_of(task).and_then(|suspended| suspended.expires_at);
        Some(Reason { since: Some(blocked.since), until, ..Reason::of("task", what, next) })
    }
}

/// A plan as people know it.
fn named(plan: &Plan) -> String {
    plan.spec.name.as_ref().map_or_else(|| plan.id.to_string(), |name| format!("'{name}' ({})", plan.id))
}

/// A task, and where it stands.
fn told(task: &Task) -> String {
    format!("task '{}' ({}) is {}", task.spec.name, task.id, task.status.name())
}
