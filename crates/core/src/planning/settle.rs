//! What follows by itself from what has happened to tasks, plans and questions.
//!
//! Everything here is decided behind a command and recorded, so that folding evaluates no expression. Each event that is
//! recorded says which one brought it about: so a journal can be cut before all of them or behind them, and not between.

use super::{
    CheckpointStatus, ConditionSpec, OnFailure, PauseCause, Plan, PlanId, PlanState, Task, TaskId, TaskStatus,
};
use crate::command::Draft;
use crate::event::{PlanChange, PlanChanged, Resolution, RunEvent, TaskChange, TaskChanged};
use crate::expression::{Expression, Fuel, Scope};
use crate::scope::RunScope;
use crate::{Json, JsonMap, Lifecycle, Run};

/// What a decision does.
impl Run {
    /// Does everything that follows. A run that is about to end has nothing follow: its tasks end with it.
    pub(crate) fn settle_planning(&mut self, draft: &mut Draft) {
        loop {
            let before = draft.step.records.len();
            let goes_on = self.state.lifecycle == Lifecycle::Running && self.state.ending.is_none();
            if self.state.planning.is_empty() || !goes_on {
                return;
            }
            self.settle_unblocked(draft);
            for id in self.unfinished_plans() {
                self.settle_answer(draft, id);
                self.settle_failures(draft, id);
                self.settle_checkpoints(draft, id);
            }
            self.settle_due(draft);
            for id in self.unfinished_plans() {
                self.settle_completion(draft, id);
            }
            if draft.step.records.len() == before {
                return;
            }
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
        let failed: Vec<(TaskId, bool)> = plan
            .tasks
            .iter()
            .filter_map(|task| planning.tasks.get(task))
            .filter(|task| task.status == TaskStatus::Failed)
            .map(|task| (task.id, task.is_spent()))
            .collect();
        for (task, spent) in failed {
            self.settle_failure(draft, id, task, spent);
        }
    }

    fn settle_failure(&mut self, draft: &mut Draft, id: PlanId, task: TaskId, spent: bool) {
        let plan = &self.state.planning.plans[&id];
        let active = plan.state == PlanState::Active;
        let changed = |change, reason: &str| PlanChanged {
            task_id: Some(task),
            reason: Some(reason.to_owned()),
            ..PlanChanged::of(id, change)
        };
        match (plan.spec.on_failure, spent) {
            (_, _) if plan.state.is_finished() => {}
            (OnFailure::Retry, false) if active => self.retry_task(draft, task, None),
            (OnFailure::Fail, true) => {
                self.end_plan(draft, id, changed(PlanChange::Failed, "a task failed as often as it may"));
            }
            (OnFailure::PauseAndEscalate | OnFailure::Retry, true)
                if active && !plan.dealt_with.contains(&task) =>
            {
                self.emit_plan(draft, changed(PlanChange::Paused, "a task failed as often as it may"));
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
    fn settle_due(&mut self, draft: &mut Draft) {
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
            let condition = plan.and_then(|plan| plan.spec.conditions.iter().find(|one| one.task == id));
            match condition.map_or(Ok(true), |condition| self.meets(condition)) {
                Ok(true) => self.emit_task(draft, TaskChanged::of(id, TaskChange::Ready)),
                Ok(false) => {
                    let reason = Some("the plan's condition for it does not hold".to_owned());
                    self.emit_task(draft, TaskChanged { reason, ..TaskChanged::of(id, TaskChange::Skipped) });
                }
                Err(reason) => self.stop_at_condition(draft, id, reason),
            }
        }
    }

    /// A condition that can't be evaluated is not one that does not hold: somebody has to look at it.
    fn stop_at_condition(&mut self, draft: &mut Draft, task: TaskId, reason: String) {
        let plan = self.state.planning.tasks.get(&task).and_then(|task| self.state.planning.plan_of(task));
        let Some((id, on_failure)) = plan.map(|plan| (plan.id, plan.spec.on_failure)) else { return };
        let changed = |change| PlanChanged {
            task_id: Some(task),
            reason: Some(reason.clone()),
            ..PlanChanged::of(id, change)
        };
        match on_failure {
            OnFailure::Fail => self.end_plan(draft, id, changed(PlanChange::Failed)),
            _ => self.emit_plan(draft, changed(PlanChange::Paused)),
        }
    }

    /// Whether a task is to be done.
    fn meets(&self, condition: &ConditionSpec) -> Result<bool, String> {
        let expression = Expression::parse(&condition.when)?;
        let run = RunScope::port(self);
        let scope = PlanScope { run: &run, of: self };
        let place = format!("the plan's condition for {}", condition.task);
        let told = |fault| run.told(fault, expression.reads(), false, &place).message;
        expression.holds_within(&scope, &mut Fuel::for_node()).map_err(told)
    }

    /// A plan is over when all its tasks are done, and nobody has to let it past anything.
    fn settle_completion(&mut self, draft: &mut Draft, id: PlanId) {
        let planning = &self.state.planning;
        let plan = &planning.plans[&id];
        let done = |task: &TaskId| planning.tasks.get(task).is_some_and(|task| task.status.is_done());
        let passed = plan.waits_at().is_none() && self.next_checkpoint(id).is_none();
        if plan.state == PlanState::Active && passed && plan.tasks.iter().all(done) {
            self.emit_plan(draft, PlanChanged::of(id, PlanChange::Completed));
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

/// What the condition of a plan reads: the run as ports see it, and its tasks.
struct PlanScope<'a> {
    run: &'a RunScope<'a>,
    of: &'a Run,
}

impl PlanScope<'_> {
    /// A task by its id, or by its name if no other has that.
    fn task(&self, text: &str) -> Option<&Task> {
        let tasks = &self.of.state.planning.tasks;
        if let Some(found) = text.parse().ok().and_then(|id: TaskId| tasks.get(&id)) {
            return Some(found);
        }
        let mut named = tasks.values().filter(|task| task.spec.name == text);
        named.next().filter(|_| named.next().is_none())
    }
}

fn view(task: &Task) -> Json {
    let mut view = JsonMap::from([("status".to_owned(), Json::of(task.status.name()))]);
    view.insert("output".to_owned(), task.output.clone().unwrap_or_else(|| Json::of(&())));
    view.insert("error".to_owned(), Json::of(&task.error));
    Json::of(&view)
}

impl Scope for PlanScope<'_> {
    fn get(&self, root: &str, field: Option<&str>) -> Option<Json> {
        match (root, field) {
            ("tasks", Some(field)) => self.task(field).map(view),
            ("tasks", None) => {
                let tasks = self.of.state.planning.tasks.values();
                Some(Json::of(&tasks.map(|task| (task.id.to_string(), view(task))).collect::<JsonMap>()))
            }
            _ => self.run.get(root, field),
        }
    }

    fn knows(&self, root: &str) -> bool {
        root == "tasks" || self.run.knows(root)
    }
}
