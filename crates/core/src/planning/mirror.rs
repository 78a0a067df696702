//! Tasks that wait because their run does, or the run that they stand for.
//!
//! A question that an agent asks in a run blocks what that agent works on in it, until there is an answer; the same tasks
//! go on then, and no others. A task that stands for a child run goes with that run instead.

use super::PlanState;
use super::{Task, TaskId, TaskStatus};
use crate::command::Draft;
use crate::event::{PlanChange, PlanChanged, TaskChange, TaskChanged};
use crate::phase::INTENT_SUSPENDED;
use crate::run::Ending;
use crate::{Failure, InterruptId, Json, Lifecycle, NodeIx, Notice, Run, RunId, Status, limits};

/// What a decision does.
impl Run {
    /// The agent whose question this is: whoever works on the node, or the agent that the node is said to speak for.
    pub(crate) fn asking_agent(&self, ix: NodeIx, asked_by: &[String]) -> Option<String> {
        let outside = self.node(ix).work.is_some() || self.is_by_hand(ix);
        let worker = asked_by.first().filter(|_| outside).map(String::as_str);
        let agent = worker.or(self.graph.at(ix).agent.as_deref());
        agent.filter(|agent| !agent.is_empty()).map(ToOwned::to_owned)
    }

    /// A question is open: what its agent works on waits for the answer, and all that is worked on if nobody knows whose
    /// question it is. The run's own questions are nobody's.
    pub(crate) fn mirror_question(&mut self, draft: &mut Draft, id: InterruptId, agent: Option<&str>) {
        let goes_on = self.state.lifecycle == Lifecycle::Running && self.state.ending.is_none();
        if !goes_on {
            return;
        }
        let held = |task: &&Task| agent.is_none_or(|agent| task.assigned_agent.as_deref() == Some(agent));
        let waits = |task: &&Task| task.status == TaskStatus::Running || task.suspended_intent().is_some();
        let tasks = self.state.planning.tasks.values();
        let tasks = tasks.filter(|task| task.spec.run.is_none()).filter(held).filter(waits);
        let tasks: Vec<TaskId> = tasks.map(|task| task.id).collect();
        for task in tasks {
            let blocked = TaskChanged {
                reason: Some(INTENT_SUSPENDED.to_owned()),
                suspended_intent_id: Some(self.key.id),
                interrupt_id: Some(id),
                ..TaskChanged::of(task, TaskChange::Blocked)
            };
            self.emit_task(draft, blocked);
        }
    }

    /// Tasks whose questions are all closed go on.
    pub(crate) fn settle_unblocked(&mut self, draft: &mut Draft) {
        let answered = |task: &&Task| {
            let own = task.spec.run.is_none();
            task.blocked.as_ref().is_some_and(|blocked| {
                own && blocked.suspended_intent.is_some() && blocked.interrupts.is_empty()
            })
        };
        let tasks = self.state.planning.tasks.values().filter(answered);
        let tasks: Vec<TaskId> = tasks.map(|task| task.id).collect();
        for task in tasks {
            self.emit_task(draft, TaskChanged::of(task, TaskChange::Unblocked));
        }
    }

    /// A child run tells how it stands: the task that stands for it stands the same. To say it again changes nothing.
    pub(crate) fn mirror_child(&mut self, draft: &mut Draft, notice: &Notice) {
        let (child, Some(status)) = (notice.from, notice.status) else { return };
        let goes_on = self.state.lifecycle == Lifecycle::Running && self.state.ending.is_none();
        let tasks = self.state.planning.tasks.values().filter(|task| task.spec.run == Some(child) && goes_on);
        let tasks: Vec<TaskId> = tasks.map(|task| task.id).collect();
        for task in tasks {
            self.mirror_child_at(draft, task, status, notice);
        }
    }

    fn mirror_child_at(&mut self, draft: &mut Draft, id: TaskId, stands: Status, notice: &Notice) {
        let child = notice.from;
        if self.state.planning.tasks[&id].status.is_finished() {
            return;
        }
        let changed = |change| TaskChanged::of(id, change);
        if stands == Status::Cancelled {
            let reason = Some(format!("{child} was cancelled"));
            return self.emit_task(draft, TaskChanged { reason, ..changed(TaskChange::Cancelled) });
        }
        self.begin_child(draft, id, child);
        let task = &self.state.planning.tasks[&id];
        let suspended = task.suspended_intent() == Some(child);
        match (task.status, stands) {
            (TaskStatus::Running, status) if status.is_waiting() => {
                let blocked = TaskChanged {
                    reason: Some(INTENT_SUSPENDED.to_owned()),
                    suspended_intent_id: Some(child),
                    expires_at: notice.suspended.and_then(|suspended| suspended.expires_at),
                    ..changed(TaskChange::Blocked)
                };
                self.emit_task(draft, blocked);
            }
            (TaskStatus::Blocked, status) if !status.is_waiting() && (suspended || status.is_terminal()) => {
                self.emit_task(draft, changed(TaskChange::Unblocked));
                self.end_child(draft, id, stands, notice);
            }
            (TaskStatus::Running, _) => self.end_child(draft, id, stands, notice),
            _ => {}
        }
    }

    /// A child that is under way has begun with its task. One whose task may not begin yet is ahead of it.
    fn begin_child(&mut self, draft: &mut Draft, id: TaskId, child: RunId) {
        let planning = &self.state.planning;
        let may_begin = planning.plan_of(&planning.tasks[&id]).is_none_or(super::Plan::lets_begin);
        if planning.tasks[&id].status == TaskStatus::Ready && may_begin {
            let agent = Some(planning.tasks[&id].spec.agent.clone().unwrap_or_else(|| child.to_string()));
            self.emit_task(draft, TaskChanged { agent, ..TaskChanged::of(id, TaskChange::Claimed) });
        }
        if self.state.planning.tasks[&id].status == TaskStatus::Claimed {
            self.emit_task(draft, TaskChanged::of(id, TaskChange::Started));
        }
    }

    fn end_child(&mut self, draft: &mut Draft, id: TaskId, stands: Status, notice: &Notice) {
        let ended = match stands {
            Status::Completed => {
                // What is never shown stands in the child alone.
                let shown = !notice.outputs.is_empty() && !notice.hides();
                let output = shown.then(|| Json::of(&notice.outputs));
                TaskChanged { output, ..TaskChanged::of(id, TaskChange::Completed) }
            }
            Status::Failed => {
                let unknown = || Failure::new("child_failed", "the run that the task stands for failed");
                let error = Some(notice.error.clone().unwrap_or_else(unknown));
                TaskChanged { error, ..TaskChanged::of(id, TaskChange::Failed) }
            }
            _ => return,
        };
        self.emit_task(draft, ended);
    }

    /// The run ends in this way, and its tasks and plans end with it.
    pub(crate) fn end_planning(&mut self, draft: &mut Draft, ending: Option<&Ending>) {
        let lifecycle = match ending {
            None => Lifecycle::Completed,
            Some(Ending::Failed { .. }) => Lifecycle::Failed,
            Some(Ending::Cancelled { .. }) => Lifecycle::Cancelled,
        };
        let planning = &self.state.planning;
        let tasks = planning.tasks.values().filter(|task| !task.status.is_finished());
        let tasks: Vec<TaskId> = tasks.map(|task| task.id).collect();
        let plans = planning.plans.values().filter(|plan| !plan.state.is_finished());
        let plans: Vec<(super::PlanId, PlanState)> = plans.map(|plan| (plan.id, plan.state)).collect();
        for task in tasks {
            self.emit_task(draft, ended_task(task, lifecycle, ending));
        }
        for (plan, state) in plans {
            let fails = lifecycle == Lifecycle::Failed && state != PlanState::Draft;
            let change = if fails { PlanChange::Failed } else { PlanChange::Cancelled };
            let reason = Some(why(lifecycle).to_owned());
            self.emit_plan(
                draft,
                PlanChanged { reason, with_run: Some(lifecycle), ..PlanChanged::of(plan, change) },
            );
        }
    }
}

fn ended_task(id: TaskId, lifecycle: Lifecycle, ending: Option<&Ending>) -> TaskChanged {
    let with_run = Some(lifecycle);
    match ending {
        Some(Ending::Failed { error, .. }) => {
            // It is repeated for every task, so it is told in short.
            let message: String = error.message.chars().take(limits::CAUSE_CHARS_MAX).collect();
            let error = Some(Failure::new(&error.code, message));
            TaskChanged { error, with_run, ..TaskChanged::of(id, TaskChange::Failed) }
        }
        _ => {
            let reason = Some(why(lifecycle).to_owned());
            TaskChanged { reason, with_run, ..TaskChanged::of(id, TaskChange::Cancelled) }
        }
    }
}

fn why(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Failed => "its run failed",
        Lifecycle::Cancelled => "its run was cancelled",
        _ => "its run completed",
    }
}
