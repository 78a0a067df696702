//! Tasks that wait because their run does, or that go with the run that they stand for.
//!
//! A question that an agent asks in a run blocks what that agent works on in it, until there is an answer; the same tasks
//! go on then, and no others. A task that stands for a child run goes with that run instead: what becomes of it follows from
//! how the child stands (`child.rs`), whichever command made it so.

use std::collections::BTreeMap;

use super::{Blocked, PlanState, Task, TaskId, TaskStatus};
use crate::command::Draft;
use crate::event::{PlanChange, PlanChanged, TaskChange, TaskChanged};
use crate::phase::INTENT_SUSPENDED;
use crate::run::Ending;
use crate::{Failure, InterruptId, Json, Lifecycle, NodeIx, Run, RunId, Status, Suspension, limits};

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
        // Whoever asks again what is asked already, or joins others who do, changes nothing for what waits for it.
        let waits = |task: &&Task| match &task.blocked {
            Some(blocked) => blocked.suspended_intent.is_some() && !blocked.interrupts.contains(&id),
            None => task.status == TaskStatus::Running,
        };
        let tasks = self.state.planning.tasks.values();
        let tasks = tasks.filter(|task| task.spec.run.is_none()).filter(held).filter(waits);
        let tasks: Vec<TaskId> = tasks.map(|task| task.id).collect();
        tasks.into_iter().for_each(|task| self.block_for_question(draft, task, id));
    }

    /// Tasks whose questions are all closed go on.
    pub(super) fn settle_unblocked(&mut self, draft: &mut Draft) {
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

    /// What is begun while its agent waits for an answer waits with it. What nobody is known to have asked blocks only what was
    /// worked on when it was asked, or a gate that is open for days would keep everybody from beginning anything.
    pub(super) fn settle_asked(&mut self, draft: &mut Draft) {
        let mut asked: BTreeMap<String, Vec<InterruptId>> = BTreeMap::new();
        for (id, open) in &self.state.open {
            let agent = open.node.and_then(|ix| self.asking_agent(ix, &open.requested.asked_by));
            agent.into_iter().for_each(|agent| asked.entry(agent).or_default().push(*id));
        }
        if asked.is_empty() {
            return;
        }
        let running = |task: &&Task| task.status == TaskStatus::Running && task.spec.run.is_none();
        let tasks = self.state.planning.tasks.values().filter(running);
        let waits = |task: &Task| Some((task.id, asked.get(task.assigned_agent.as_ref()?)?));
        let waiting: Vec<(TaskId, &Vec<InterruptId>)> = tasks.filter_map(waits).collect();
        for (task, questions) in waiting {
            questions.iter().for_each(|id| self.block_for_question(draft, task, *id));
        }
    }

    fn block_for_question(&mut self, draft: &mut Draft, task: TaskId, id: InterruptId) {
        let blocked = TaskChanged {
            reason: Some(INTENT_SUSPENDED.to_owned()),
            suspended_intent_id: Some(self.key.id),
            interrupt_id: Some(id),
            ..TaskChanged::of(task, TaskChange::Blocked)
        };
        self.emit_task(draft, blocked);
    }

    /// Tasks that stand for other runs stand as those do, whichever command made it so.
    pub(super) fn settle_children(&mut self, draft: &mut Draft) {
        for (task, child) in self.tasks_of_children(|_| true) {
            match self.knows_child(child) {
                true => self.mirror_child_at(draft, task, child),
                false => self.let_go_of_child(draft, task, child),
            }
        }
    }

    /// A child has spoken: the task that stands for it goes with that before anything else follows from it.
    pub(crate) fn mirror_child(&mut self, draft: &mut Draft, child: RunId) {
        let goes_on = self.state.lifecycle == Lifecycle::Running && self.state.ending.is_none();
        if !goes_on || !self.knows_child(child) {
            return;
        }
        for (task, _) in self.tasks_of_children(|run| run == child) {
            self.mirror_child_at(draft, task, child);
        }
    }

    /// The unfinished tasks that stand for these runs.
    fn tasks_of_children(&self, these: impl Fn(RunId) -> bool) -> Vec<(TaskId, RunId)> {
        let tasks = self.state.planning.tasks.values().filter(|task| !task.status.is_finished());
        let of_child = |task: &Task| Some((task.id, task.spec.run.filter(|run| these(*run))?));
        tasks.filter_map(of_child).collect()
    }

    fn mirror_child_at(&mut self, draft: &mut Draft, id: TaskId, child: RunId) {
        let Some(stands) = self.child_stands(child) else { return };
        if stands.status == Status::Cancelled {
            let reason = Some(format!("{child} was cancelled"));
            let changed =
                TaskChanged { reason, with_child: true, ..TaskChanged::of(id, TaskChange::Cancelled) };
            return self.emit_task(draft, changed);
        }
        let ended = stands.status.is_terminal();
        // One that is a draft, is held back or is had by nobody has not begun, and so its task has not.
        if stands.claimed || stands.suspended.is_some() || ended {
            self.begin_child(draft, id, child);
        }
        self.suspend_with_child(draft, id, child, stands.suspended.filter(|_| !ended));
        if ended && self.state.planning.tasks[&id].status == TaskStatus::Running {
            self.end_with_child(draft, id, child, stands.status);
        }
    }

    /// The child of another run, off which this one was forked: nobody here hears of it, and nobody waits for it.
    fn let_go_of_child(&mut self, draft: &mut Draft, id: TaskId, child: RunId) {
        if self.state.planning.tasks[&id].suspended_intent() == Some(child) {
            self.emit_task(draft, TaskChanged::of(id, TaskChange::Unblocked));
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

    /// A task waits while its child waits for people, be the child held as well or not.
    fn suspend_with_child(
        &mut self,
        draft: &mut Draft,
        id: TaskId,
        child: RunId,
        suspended: Option<Suspension>,
    ) {
        let task = &self.state.planning.tasks[&id];
        let waits = task.blocked.as_ref().filter(|blocked| blocked.suspended_intent == Some(child));
        let since_when =
            |blocked: &Blocked| Suspension { since: blocked.since, expires_at: blocked.expires_at };
        match (task.status, suspended) {
            (TaskStatus::Blocked, None) => self.emit_task(draft, TaskChanged::of(id, TaskChange::Unblocked)),
            (TaskStatus::Running | TaskStatus::Blocked, Some(suspended))
                if waits.map(since_when) != Some(suspended) =>
            {
                let blocked = TaskChanged {
                    reason: Some(INTENT_SUSPENDED.to_owned()),
                    suspended_intent_id: Some(child),
                    suspended_since: Some(suspended.since),
                    expires_at: suspended.expires_at,
                    ..TaskChanged::of(id, TaskChange::Blocked)
                };
                self.emit_task(draft, blocked);
            }
            _ => {}
        }
    }

    fn end_with_child(&mut self, draft: &mut Draft, id: TaskId, child: RunId, stands: Status) {
        let planning = &self.state.planning;
        let told = planning.children.get(child).cloned().unwrap_or_default();
        let has_room = |json: &Json| planning.bytes + json.text().len() <= limits::PLANNING_BYTES_MAX;
        if stands == Status::Completed {
            let output = told.output.clone().filter(has_room);
            let lacks = output.is_none() && (told.elsewhere || told.output.is_some());
            let reason = lacks.then(|| format!("what came of it stands in {child}"));
            return self.emit_task(
                draft,
                TaskChanged { output, reason, ..TaskChanged::of(id, TaskChange::Completed) },
            );
        }
        let unknown = || Failure::new("child_failed", "the run that the task stands for failed");
        let error = told.error.unwrap_or_else(unknown);
        let error = Failure { details: error.details.clone().filter(has_room), ..error };
        self.emit_task(draft, TaskChanged { error: Some(error), ..TaskChanged::of(id, TaskChange::Failed) });
    }

    /// The run ends in this way, and its tasks and plans end with it.
    pub(crate) fn end_planning(&mut self, draft: &mut Draft, ending: Option<&Ending>) {
        if ending.is_none() {
            // What is done is done: the last task may have been done by the child whose end lets the run complete.
            self.complete_plans(draft);
        }
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
