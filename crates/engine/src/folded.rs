//! What a journal folds to, and what should lie beside it.
//!
//! The same answer serves `abide verify`, which compares, and the cutting of a damaged journal, which writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use abide_core::{
    Appointment, Cascade, Corrupt, Effect, Graph, Hash, InterruptId, Key, Lifecycle, MemberRow, Notice,
    OpenInterrupt, ProviderWait, Record, Run, RunId, Salt, TaskId,
};
use abide_store::{Beside, Claim, TimerRow};

/// What a journal folds to.
pub(crate) struct Folded {
    pub(crate) run: Run,
    salt: Salt,
    pub(crate) heard: BTreeMap<RunId, u64>,
    /// The children that its nodes asked for, and whether they go with it.
    pub(crate) children: BTreeMap<RunId, (TaskId, bool)>,
    /// What waits for an answer, as the inbox shows it.
    pub(crate) interrupts: BTreeMap<InterruptId, OpenInterrupt>,
    /// What its parent was told, by the event that told it: how it stood, and whether it waited for people alone.
    pub(crate) told: BTreeMap<u64, (Lifecycle, bool)>,
    /// The last of that.
    pub(crate) last_notice: Option<Notice>,
    /// What its children were told when it ended.
    pub(crate) cascade: Option<Cascade>,
    /// The first fence of each task.
    pub(crate) fences: BTreeMap<TaskId, u64>,
    /// Its turns that wait for their provider.
    pub(crate) waits: BTreeMap<TaskId, ProviderWait>,
    /// The names of its conversations.
    pub(crate) names: BTreeSet<Hash>,
    /// The runs that it waits for.
    pub(crate) dependencies: BTreeSet<RunId>,
    /// Who wants to hear how it stands.
    pub(crate) watchers: BTreeSet<RunId>,
    /// Its members, if it is a group.
    pub(crate) members: BTreeMap<RunId, MemberRow>,
    pub(crate) assignments: BTreeMap<String, Appointment>,
}

impl Folded {
    /// What an empty journal folds to.
    pub(crate) fn empty(key: Key, salt: Salt, graph: Arc<Graph>) -> Self {
        Self {
            run: Run::empty(key, salt, graph),
            salt,
            heard: BTreeMap::new(),
            children: BTreeMap::new(),
            interrupts: BTreeMap::new(),
            told: BTreeMap::new(),
            last_notice: None,
            cascade: None,
            fences: BTreeMap::new(),
            waits: BTreeMap::new(),
            names: BTreeSet::new(),
            dependencies: BTreeSet::new(),
            watchers: BTreeSet::new(),
            members: BTreeMap::new(),
            assignments: BTreeMap::new(),
        }
    }

    /// Folds the next record: its place, its chain and its meaning are all checked.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), Corrupt> {
        for effect in self.run.apply(record)? {
            match effect {
                Effect::Hear { from, sequence } => {
                    let heard = self.heard.entry(from).or_default();
                    *heard = sequence.max(*heard);
                }
                Effect::Send { notice, .. } => {
                    self.told.insert(notice.sequence, (notice.lifecycle, notice.still));
                    self.last_notice = Some(notice);
                }
                Effect::Disown(child) => drop(self.children.remove(&child)),
                Effect::Spawn(spawn) => {
                    let execution = spawn.parent.execution.unwrap_or(0);
                    let task = TaskId { node: spawn.parent.node.into(), execution };
                    self.children.insert(spawn.child, (task, spawn.cascade));
                }
                // Who is told of it is no part of the inbox.
                Effect::OpenInterrupt(open) => {
                    let listed = OpenInterrupt { callback_url: None, ..*open };
                    self.interrupts.insert(listed.id, listed);
                }
                Effect::CloseInterrupt(closed) => drop(self.interrupts.remove(&closed.id)),
                Effect::MoveDeadline { id, deadline } => {
                    if let Some(open) = self.interrupts.get_mut(&id) {
                        open.deadline = deadline;
                    }
                }
                Effect::NoteHeadway { id, headway } => {
                    if let Some(open) = self.interrupts.get_mut(&id) {
                        open.headway = headway;
                    }
                }
                Effect::Cascade(cascade) => self.cascade = Some(cascade),
                Effect::Dispatch { task, fence } => drop(self.fences.insert(task, fence)),
                Effect::FinishTask(task) => drop(self.fences.remove(&task)),
                Effect::AwaitProvider(wait) => drop(self.waits.insert(wait.task.clone(), wait)),
                Effect::LeaveProvider(task) => drop(self.waits.remove(&task)),
                Effect::TakeName(name) => drop(self.names.insert(name)),
                Effect::DependOn(run) => drop(self.dependencies.insert(run)),
                Effect::Independ(run) => drop(self.dependencies.remove(&run)),
                Effect::Assign(assigned) => drop(self.assignments.insert(assigned.agent.clone(), assigned)),
                Effect::Unassign(agent) => drop(self.assignments.remove(&agent)),
                Effect::Watch(run) => drop(self.watchers.insert(run)),
                Effect::Unwatch(run) => drop(self.watchers.remove(&run)),
                Effect::Enlist(row) => drop(self.members.insert(row.run, row)),
                Effect::Dismiss { run, .. } => drop(self.members.remove(&run)),
                Effect::NoteMember(told) => {
                    if let Some(row) = self.members.get_mut(&told.run) {
                        row.note(&told);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What should lie beside the journal, but for messages: those that were delivered are gone.
    pub(crate) fn beside(&self) -> Beside {
        let (run, key) = (&self.run, self.run.key());
        let timer =
            |(timer, due): (&abide_core::TimerId, &i64)| TimerRow { due: *due, key, timer: timer.clone() };
        // It gives back what it has to itself when it ends.
        let claim = (run.is_exclusive() && !run.status().is_terminal()).then(|| Claim {
            workflow: run.summary().workflow_id,
            scope: run.scope().unwrap_or_default().to_owned(),
        });
        let child = |(child, (task, cascade)): (&RunId, &(TaskId, bool))| (*child, task.clone(), *cascade);
        Beside {
            timers: run.timers().iter().map(timer).collect(),
            tasks: sorted(run.tasks().collect()),
            heard: self.heard.iter().map(|(run, sequence)| (*run, *sequence)).collect(),
            sent: Vec::new(),
            children: self.children.iter().map(child).collect(),
            claim,
            interrupts: self.interrupts.values().cloned().collect(),
            work: sorted_work(run.offers().map(|offer| (offer.task, offer.fence)).collect()),
            waits: self.waits.values().cloned().collect(),
            names: self.names.iter().copied().collect(),
            dependencies: self.dependencies.iter().copied().collect(),
            watchers: self.watchers.iter().copied().collect(),
            members: self.members.values().cloned().collect(),
            assignments: self.assignments.values().cloned().collect(),
        }
    }

    /// Whether a snapshot is what the journal folds to so far. One that another version wrote can't be compared, and
    /// counts if it is intact.
    pub(crate) fn has_snapshot(&self, bytes: &[u8]) -> bool {
        let run = &self.run;
        Run::is_intact(bytes)
            && Run::from_snapshot(run.key(), self.salt, run.graph().clone(), bytes)
                .is_none_or(|kept| kept.snapshot() == run.snapshot())
    }
}

pub(crate) fn sorted_work(mut work: Vec<(TaskId, u64)>) -> Vec<(TaskId, u64)> {
    work.sort_by(|(a, _), (b, _)| (&a.node, a.execution).cmp(&(&b.node, b.execution)));
    work
}

pub(crate) fn sorted(mut tasks: Vec<TaskId>) -> Vec<TaskId> {
    tasks.sort_by(|a, b| (&a.node, a.execution).cmp(&(&b.node, b.execution)));
    tasks
}
