//! What follows by itself from what has happened to tasks, plans and questions.
//!
//! Everything here is decided behind a command and recorded, so that folding evaluates no expression. Each event that is
//! recorded says which one brought it about: so a journal can be cut before all of them or behind them, and not between.

use super::condition::Unmet;
use super::{CheckpointStatus, OnFailure, PauseCause, Plan, PlanId, PlanState, Task, TaskId, TaskStatus};
use crate::command::Draft;
use crate::event::{PlanChange, PlanChanged, Resolution, RunEvent, TaskChange, TaskChanged};
use crate::expression::Fuel;
use crate::{Lifecycle, Run};

/// Why a plan has failed of which nothing did.
const STUCK: &str = "what is left of it depends on tasks that will never be done";

/// What a decision does.
impl Run {
    /// Does everything that follows. A run that is about to end has nothing follow: its tasks end with it.
    pub(crate) fn settle_planning(&mut self, draft: &mut Draft) {
        // However many conditions there are, they are evaluated while others wait for the run.
        let mut fuel = Fuel::for_node();
        loop {
            let before = draft.step.records.len();
            let goes_on = self.state.lifecycle == Lifecycle::Running && self.state.ending.is_none();
            if self.state.planning.has_nothing_posted() || !goes_on {
                return;
            }
            self.settle_unblocked(draft);
            self.settle_asked(draft);
            self.settle_children(draft);
            for id in self.unfinished_plans() {
                self.settle_answer(draft, id);
                self.settle_failures(draft, id);
                self.settle_checkpoints(draft, id);
            }
            self.settle_due(draft, &mut fuel);
            for id in self.unfinished_plans() {
                self.settle_completion(draft, id, None);
            }
            if draft.step.records.len() == before {
                return;
            }
        }
    }

    /// The plans of a run that completes of which nothing is left to be done.
    pub(super) fn complete_plans(&mut self, draft: &mut Draft) {
        for id in self.unfinished_plans() {
            self.settle_completion(draft, id, Some(Lifecycle::Completed));
        }
    }

    fn unfinished_plans(&self) -> Vec<PlanId> {
        let plans = self.state.planning.plans.values();
        plans.filter(|plan| !plan.state.is_finished()).map(|plan| plan.id).collect()
    }

    /// What people said at a checkpoint.
    fn settle_answer(&mut self, draft: &mut Draft, id: PlanId) {
        let plan = &self.state.planning.plans[&id];
        let Some((spec, standing)) = plan.waits_at() else { return };
        let Some(answer) = standing.answer.clone().filter(|_| standing.status == CheckpointStatus::Reached)
        else {
            return;
        };
        let (checkpoint, on_failure) = (Some(spec.id.clone()), plan.spec.on_failure);
        let paused = plan.pause == Some(PauseCause::Checkpoint);
        let changed = |change| PlanChanged {
            checkpoint: checkpoint.clone(),
            by: Some(answer.by.clone()),
            reason: answer.reason.clone(),
            ..PlanChanged::of(id, change)
        };
        if answer.outcome == Resolution::Resolved {
            self.emit_plan(draft, changed(PlanChange::CheckpointApproved));
            if paused {
                self.emit_plan(draft, changed(PlanChange::Resumed));
            }
            return;
        }
        self.emit_plan(draft, changed(PlanChange::CheckpointRejected));
        if answer.late || on_failure == OnFailure::Fail {
            let reason = match answer.late {
                true => "nobody let the plan past a checkpoint in time",
                false => "the plan was not let past a checkpoint",
            };
            self.end_plan(
                draft,
                id,
                PlanChanged { reason: Some(reason.to_owned()), ..changed(PlanChange::Failed) },
            );
        }
    }

    /// What becomes of a plan when a task has failed.
    fn settle_failures(&mut self, draft: &mut Draft, id: PlanId) {
        let planning = &self.state.planning;
        let plan = &planning.plans[&id];
        if plan.state == PlanState::Draft || plan.state.is_finished() {
            return;
        }
        let tasks = plan.tasks.iter().filter_map(|task| planning.tasks.get(task));
        let failed: Vec<TaskId> =
            tasks.filter(|task| planning.has_failed(task)).map(|task| task.id).collect();
        failed.into_iter().for_each(|task| self.settle_failure(draft, id, task));
    }

    fn settle_failure(&mut self, draft: &mut Draft, id: PlanId, failed: TaskId) {
        let planning = &self.state.planning;
        let (plan, task) = (&planning.plans[&id], &planning.tasks[&failed]);
        let active = plan.state == PlanState::Active;
        let retried = task.status == TaskStatus::Failed && !task.is_spent();
        let changed = |change| PlanChanged {
            task_id: Some(failed),
            reason: Some(failure_of(task)),
            ..PlanChanged::of(id, change)
        };
        match plan.spec.on_failure {
            _ if plan.state.is_finished() => {}
            OnFailure::Retry if retried && active => self.retry_task(draft, failed, None),
            OnFailure::Retry if retried => {}
            OnFailure::Fail => self.end_plan(draft, id, changed(PlanChange::Failed)),
            OnFailure::PauseAndEscalate | OnFailure::Retry
                if active && !plan.dealt_with.contains(&failed) =>
            {
                self.emit_plan(draft, changed(PlanChange::Paused));
            }
            _ => {}
        }
    }

    /// The checkpoints that a plan has come to. It stops at one at a time.
    fn settle_checkpoints(&mut self, draft: &mut Draft, id: PlanId) {
        while let Some(checkpoint) = self.next_checkpoint(id) {
            self.reach_checkpoint(draft, id, &checkpoint);
        }
    }

    pub(crate) fn next_checkpoint(&self, id: PlanId) -> Option<String> {
        let planning = &self.state.planning;
        let plan = planning.plans.get(&id).filter(|plan| plan.state == PlanState::Active)?;
        let done = |task: &TaskId| planning.tasks.get(task).is_some_and(|task| task.status.is_done());
        let ahead = |id: &str| !plan.checkpoints.contains_key(id);
        let next = plan.spec.checkpoints.iter().find(|spec| ahead(&spec.id) && done(&spec.after));
        next.map(|spec| spec.id.clone())
    }

    /// Tasks that depend on nothing any more, and whose plan lets them.
    fn settle_due(&mut self, draft: &mut Draft, fuel: &mut Fuel) {
        let due: Vec<TaskId> = self.state.planning.due.iter().copied().collect();
        for id in due {
            let planning = &self.state.planning;
            let Some(task) = planning.tasks.get(&id).filter(|_| planning.due.contains(&id)) else { continue };
            let plan = planning.plan_of(task);
            if plan.is_some_and(|plan| {
                plan.state != PlanState::Active || self.next_checkpoint(plan.id).is_some()
            }) {
                continue;
            }
            let conditions =
                plan.into_iter().flat_map(|plan| plan.spec.conditions.iter().map(move |one| (plan, one)));
            let condition = conditions.into_iter().find(|(_, condition)| condition.task == id);
            match condition.map_or(Ok(true), |(plan, condition)| self.meets(plan, condition, fuel)) {
                Ok(true) => self.emit_task(draft, TaskChanged::of(id, TaskChange::Ready)),
                Ok(false) => {
                    let reason = Some("the plan's condition for it does not hold".to_owned());
                    self.emit_task(draft, TaskChanged { reason, ..TaskChanged::of(id, TaskChange::Skipped) });
                }
                Err(unmet) => self.stop_at_condition(draft, id, &unmet),
            }
        }
    }

    /// A condition that can't be evaluated is not one that does not hold: somebody has to look at it.
    fn stop_at_condition(&mut self, draft: &mut Draft, task: TaskId, unmet: &Unmet) {
        let plan = self.state.planning.tasks.get(&task).and_then(|task| self.state.planning.plan_of(task));
        let Some((id, on_failure)) = plan.map(|plan| (plan.id, plan.spec.on_failure)) else { return };
        let changed = |change| PlanChanged {
            task_id: Some(task),
            reason: Some(unmet.reason.clone()),
            ..PlanChanged::of(id, change)
        };
        match on_failure {
            OnFailure::Fail if !unmet.spent => self.end_plan(draft, id, changed(PlanChange::Failed)),
            _ => self.emit_plan(draft, changed(PlanChange::Paused)),
        }
    }

    /// A plan is over when nothing of it is left to be done, and nobody has to let it past anything. One that goes on whatever
    /// fails has failed then, if anything did.
    fn settle_completion(&mut self, draft: &mut Draft, id: PlanId, with_run: Option<Lifecycle>) {
        let planning = &self.state.planning;
        let plan = &planning.plans[&id];
        let passed = plan.waits_at().is_none() && self.next_checkpoint(id).is_none();
        if plan.state != PlanState::Active || !passed {
            return;
        }
        let tasks = || plan.tasks.iter().filter_map(|task| planning.tasks.get(task));
        if tasks().all(|task| task.status.is_finished() && !planning.has_failed(task)) {
            let completed = PlanChanged { with_run, ..PlanChanged::of(id, PlanChange::Completed) };
            return self.emit_plan(draft, completed);
        }
        if with_run.is_none() && self.gives_in(plan) && planning.is_through(plan) {
            let failed = tasks().find(|task| planning.has_failed(task));
            let failed = PlanChanged {
                task_id: failed.map(|task| task.id),
                reason: Some(failed.map_or_else(|| STUCK.to_owned(), failure_of)),
                ..PlanChanged::of(id, PlanChange::Failed)
            };
            self.end_plan(draft, id, failed);
        }
    }

    /// Whether a plan of which some has failed is over once nothing of it is left to be done: nobody is asked, or whoever was
    /// has let it go on, and nothing that failed can be repeated any more.
    fn gives_in(&self, plan: &Plan) -> bool {
        let planning = &self.state.planning;
        let spent = |task: &Task| task.status != TaskStatus::Failed || task.is_spent();
        let settled = |task: &Task| plan.dealt_with.contains(&task.id) && spent(task);
        match plan.spec.on_failure {
            OnFailure::Notify => true,
            OnFailure::Fail => false,
            OnFailure::PauseAndEscalate | OnFailure::Retry => {
                let tasks = plan.tasks.iter().filter_map(|task| planning.tasks.get(task));
                tasks.filter(|task| planning.has_failed(task)).all(settled)
            }
        }
    }

    pub(crate) fn retry_task(&mut self, draft: &mut Draft, id: TaskId, by: Option<String>) {
        let attempt = self.state.planning.tasks[&id].attempt + 1;
        let changed = TaskChanged { attempt: Some(attempt), by, ..TaskChanged::of(id, TaskChange::Retrying) };
        self.emit_task(draft, changed);
    }

    /// Ends a plan before all its tasks are done: nothing of it is left over.
    pub(crate) fn end_plan(&mut self, draft: &mut Draft, id: PlanId, changed: PlanChanged) {
        let plan = &self.state.planning.plans[&id];
        let (tasks, question) = (plan.tasks.clone(), self.checkpoint_question(plan));
        if let Some(question) = question {
            self.close_checkpoint(draft, question);
        }
        for task in tasks {
            if self.state.planning.tasks[&task].status.is_finished() {
                continue;
            }
            let cancelled = TaskChanged {
                reason: Some("its plan is given up".to_owned()),
                by: changed.by.clone(),
                ..TaskChanged::of(task, TaskChange::Cancelled)
            };
            self.emit_task(draft, cancelled);
        }
        self.emit_plan(draft, changed);
    }

    /// Records what follows from the event before it, if there is one in this decision.
    pub(crate) fn emit_task(&mut self, draft: &mut Draft, changed: TaskChanged) {
        let cause = draft.last_sequence();
        draft.emit_run(self, RunEvent::Task(Box::new(changed)), cause);
    }

    /// Records what follows from the event before it, if there is one in this decision.
    pub(crate) fn emit_plan(&mut self, draft: &mut Draft, changed: PlanChanged) {
        let cause = draft.last_sequence();
        draft.emit_run(self, RunEvent::Plan(Box::new(changed)), cause);
    }
}

impl Plan {
    /// Whether tasks of it may be claimed.
    pub(crate) fn lets_begin(&self) -> bool {
        self.state == PlanState::Active
    }
}

/// What went wrong with a task, in a sentence without an end.
fn failure_of(task: &Task) -> String {
    let how = match task.status {
        TaskStatus::Failed => "failed",
        _ if task.with_child => "was cancelled with the run that it stands for",
        _ => "was cancelled, and others wait for it",
    };
    format!("task '{}' {how}", task.spec.name)
}
