//! Folding events: the one place where a run's state changes.
//!
//! Effects come only from here, so whatever a journal says has happened implies the same timers, tasks and messages
//! live, in recovery and in `abide verify`. What follows along the edges of the graph lies in `route.rs`.

mod node;

use crate::effect::{Cascade, Effect, Notice, TimerId};
use crate::event::{
    Cancellation, ChildRefused, ChildReported, Event, Failure, Parent, RunEvent, Started, VariableChanged,
};
use crate::group::Group;
use crate::journal::Record;
use crate::run::{Corrupt, Ending, LoopState, Run};
use crate::{Hold, Lifecycle, Millis, NodeIx, ports};

/// A lease can be claimed anew so many times, in bits, before its fence reaches that of the next event.
pub(crate) const FENCES_PER_EVENT_BITS: u32 = 16;

/// When and where an event happened, and what it brings about.
pub(crate) struct Folding<'a> {
    pub(crate) sequence: u64,
    pub(crate) at: Millis,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Run {
    /// Folds the next record of the journal: its place, its chain and its meaning are all checked.
    pub fn apply(&mut self, record: &Record) -> Result<Vec<Effect>, Corrupt> {
        let corrupt = |reason| Corrupt { sequence: record.sequence, reason };
        let event = record.event().map_err(corrupt)?;
        let mut head = self.head;
        head.accept(record, Some(&self.salt)).map_err(corrupt)?;
        self.head = head;
        let mut effects = Vec::new();
        self.fold(&event, record.sequence, record.at, &mut effects).map_err(corrupt)?;
        Ok(effects)
    }

    /// The one place where state changes.
    pub(crate) fn fold(
        &mut self,
        event: &Event,
        sequence: u64,
        at: Millis,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let before = effects.len();
        let sight = self.sight_if_watched(event);
        let mirrored = self.sight_if_mirrored();
        let driven = self.sight_of_intent();
        let mut folding = Folding { sequence, at, effects };
        self.state.hides |= event.hides();
        match event {
            Event::Run(event) => self.fold_run(event, &mut folding)?,
            Event::Node { node, event } => self.fold_node(node, event, &mut folding)?,
        }
        self.settle_suspended(at);
        self.settle_clock(mirrored, &mut folding);
        self.settle_deadline(&mut folding);
        self.settle_sight(sight, &mut folding);
        self.settle_version(driven, at);
        if self.is_replay() {
            // Whatever it brought about, it did so for the run that is replayed.
            effects.truncate(before);
        }
        Ok(())
    }

    fn fold_run(&mut self, event: &RunEvent, folding: &mut Folding<'_>) -> Result<(), String> {
        let state = &mut self.state;
        // The event's name and not its words, which may be sensitive.
        let name = event.event_type().name;
        let illegal =
            || format!("{name} is illegal for a run that is {:?}, {:?}", state.lifecycle, state.hold);
        let lifecycle = state.lifecycle.after(event).ok_or_else(illegal)?;
        let hold = state.hold.after(event).ok_or_else(illegal)?;
        let withheld = self.is_withheld();
        let state = &mut self.state;
        (state.lifecycle, state.hold) = (lifecycle, hold);
        self.fold_of_run(event, folding)?;
        if withheld && !self.is_withheld() && lifecycle == Lifecycle::Running {
            self.offer_again(folding);
        }
        Ok(())
    }

    fn fold_of_run(&mut self, event: &RunEvent, folding: &mut Folding<'_>) -> Result<(), String> {
        let state = &mut self.state;
        match event {
            RunEvent::Started(started) => self.begin(started, folding)?,
            RunEvent::Completed(_) => self.end(None, None, folding),
            RunEvent::Failed(failed) => self.end(Some(failed.error.clone()), Some("parent-failed"), folding),
            RunEvent::Cancelled(cancelled) => {
                state.bonds.abandonment.clone_from(&cancelled.abandonment_reason);
                self.end(None, Some("parent-cancelled"), folding);
            }
            RunEvent::Cancelling(asked) => {
                state.ending = Some(Ending::cancelled(asked));
                state.bonds.abandonment.clone_from(&asked.abandonment_reason);
                if state.hold == Hold::None {
                    (state.pausing, state.paused_at, state.holder) = (None, None, None);
                }
                self.stop_waiting(folding);
                self.call_off(folding);
            }
            RunEvent::Pausing(asked) => {
                (state.pausing, state.paused_at) = (Some(asked.clone()), Some(folding.at));
                state.holder = Some(asked.clone());
                self.disarm(&TimerId::Stretch, folding);
                self.disarm(&TimerId::Resume, folding);
            }
            RunEvent::Paused(asked) => {
                (state.pausing, state.paused_at) = (None, Some(folding.at));
                state.holder = Some(asked.clone());
                self.stop_clock(folding);
            }
            RunEvent::Held(held) => self.fold_held(held, folding),
            RunEvent::Resumed(_) | RunEvent::Released(_) => self.fold_released(folding),
            RunEvent::ResumeDecided(decided) => self.fold_decided(decided, folding),
            RunEvent::ResumeRequested(wish) => {
                state.resume.wish = Some((**wish).clone());
                self.arm(TimerId::Resume, folding.at, folding);
            }
            RunEvent::ResumeEscalated(_) => self.fold_escalated(folding),
            RunEvent::ResumeSwitched(switched) => state.resume.auto = Some(switched.auto),
            RunEvent::Yielded(_) => self.arm(TimerId::Stretch, folding.at, folding),
            RunEvent::ChildReported(report) => self.fold_report(report, folding),
            RunEvent::ChildRefused(refused) => self.fold_child_refused(refused, folding),
            RunEvent::LoopbackLimit(_) | RunEvent::ReplayDiverged(_) => {}
            RunEvent::Activated(_)
            | RunEvent::Blocked(_)
            | RunEvent::Unblocked(_)
            | RunEvent::DependencyAdded(_)
            | RunEvent::DependencyRemoved(_)
            | RunEvent::DependencyReported(_)
            | RunEvent::Watched(_)
            | RunEvent::Ordered(_) => self.fold_bond(event, folding)?,
            RunEvent::ChildAdded(added) => self.fold_child_added(added, folding)?,
            RunEvent::Coordinator(changed) => self.fold_coordinator(changed, folding)?,
            RunEvent::MemberAdded(_)
            | RunEvent::MemberRemoved(_)
            | RunEvent::MemberReported(_)
            | RunEvent::GovernanceSet(_)
            | RunEvent::BudgetExceeded(_) => self.fold_group(event, folding)?,
            RunEvent::CapBreached(breach) => {
                let error = breach.failure();
                self.fail_run(Ending::Failed { node: breach.node_id.clone(), error }, folding);
            }
            RunEvent::VariableChanged(changed) => self.set_variable(changed),
            RunEvent::LoopRestarted(restarted) => self.restart_loop(restarted, folding)?,
            RunEvent::Task(changed) => self.fold_task(changed, folding)?,
            RunEvent::Plan(changed) => self.fold_plan(changed, folding)?,
            RunEvent::IntentPatched(_) | RunEvent::Intent(_) => self.fold_of_intent(event, folding)?,
        }
        Ok(())
    }

    fn fold_child_refused(&mut self, refused: &ChildRefused, folding: &mut Folding<'_>) {
        folding.effects.push(Effect::Disown(refused.child));
        self.fold_child_end(&refused.node, refused.child, false, folding);
        self.line_up_worker(&refused.node, refused.child, folding);
        self.forget_child(&refused.node, folding.sequence);
        self.state.planning.refuse_child(refused);
    }

    fn fold_report(&mut self, report: &ChildReported, folding: &mut Folding<'_>) {
        folding.effects.push(Effect::Hear { from: report.child, sequence: report.sequence });
        if report.still {
            self.state.still_children.insert(report.child);
        } else {
            self.state.still_children.remove(&report.child);
        }
        self.fold_child_stands(report, folding.sequence);
        if report.lifecycle.is_terminal() {
            self.fold_child_end(&report.node, report.child, !report.sensitive.is_empty(), folding);
            self.line_up_worker(&report.node, report.child, folding);
        }
    }

    fn begin(&mut self, started: &Started, folding: &mut Folding<'_>) -> Result<(), String> {
        if started.definition != self.graph.hash_hex() {
            return Err(format!(
                "the run is pinned to definition {}, not to the one given",
                started.definition
            ));
        }
        self.graph = self.graph.clone().for_reading(started.reading);
        let state = &mut self.state;
        state.loops = self.graph.loops.iter().map(|found| LoopState::fresh(found.members.len())).collect();
        state.by = started.by.clone();
        state.started_at = folding.at;
        state.variables = ports::initial_variables(&self.graph, started);
        state.sensitive = started.sensitive.clone();
        state.channels = ports::initial_channels(&self.graph);
        state.inputs = started.inputs.clone();
        state.tags = started.tags.clone();
        state.metadata = started.metadata.clone();
        state.configurable = started.configurable.clone();
        state.caps = started.caps;
        state.parent = started.parent.clone();
        state.trace = started.trace.clone();
        state.reading = started.reading;
        (state.scope, state.exclusive) = (started.scope.clone(), started.exclusive);
        state.callback_url = started.callback_url.clone();
        state.forked = started.forked.clone();
        state.group = started.group.clone().map(|spec| Box::new(Group { spec, ..Group::default() }));
        self.begin_intent(started, folding.at);
        if let Some(ms) = started.caps.duration_ms {
            self.arm(TimerId::RunTimeout, folding.at.saturating_add(ms), folding);
        }
        if !self.is_of_other(folding.sequence) {
            self.state.bonds.draft = started.draft;
            for dependency in &started.depends_on {
                self.fold_dependency(dependency, folding);
            }
        }
        let graph = self.graph.clone();
        let roots = graph.nodes.iter().enumerate().filter(|(_, node)| node.groups.is_empty());
        // A phase names the children of those before it, so each begins after them, wherever it stands in the definition.
        let mut phases = graph.phases.iter().filter(|&&ix| graph.at(ix).groups.is_empty());
        for (ix, node) in roots {
            let phase = (node.kind == crate::Kind::Phase).then(|| phases.next()).flatten();
            let ix = phase.map_or(ix, |&ix| ix as usize);
            self.state.nodes[ix].queued = true;
            self.state.ready.push_back((ix as NodeIx, folding.sequence));
        }
        Ok(())
    }

    /// The journal ends here: nothing is left armed, the parent hears of it, and children go along.
    fn end(&mut self, error: Option<Failure>, cascade: Option<&str>, folding: &mut Folding<'_>) {
        let state = &mut self.state;
        state.ended_at = Some(folding.at);
        state.error = error;
        state.ending = None;
        state.ready.clear();
        state.doomed.clear();
        state.restarts.clear();
        state.workers.clear();
        state.answered.clear();
        state.time_left = None;
        state.still = false;
        state.still_children.clear();
        (state.pausing, state.paused_at, state.holder) = (None, None, None);
        (state.bonds.draft, state.bonds.blocked) = (false, None);
        state.bonds.orders.clear();
        for (timer, due) in std::mem::take(&mut state.timers) {
            folding.effects.push(Effect::DropTimer { timer, due });
        }
        if let Some(parent) = self.state.parent.clone() {
            let notice = self.notice(&parent, folding.sequence);
            folding.effects.push(Effect::Send { to: parent.run, notice });
        }
        self.disband(folding);
        self.dismiss_agents(folding);
        if let (Some(reason), true) = (cascade, self.state.cascades) {
            let (from, sequence) = (self.key.id, folding.sequence);
            folding.effects.push(Effect::Cascade(Cascade { from, sequence, reason: reason.to_owned() }));
        }
    }

    /// What the parent is told.
    pub(crate) fn notice(&self, parent: &Parent, sequence: u64) -> Notice {
        let state = &self.state;
        let wanted =
            parent.harvest.iter().filter_map(|name| Some((name.clone(), state.variables.get(name)?.clone())));
        let done = state.lifecycle == Lifecycle::Completed;
        let mut outputs: crate::JsonMap = if done { wanted.collect() } else { crate::JsonMap::new() };
        let mut sensitive: Vec<String> =
            outputs.keys().filter(|name| state.sensitive.contains(*name)).cloned().collect();
        if parent.mirrors && done {
            let (made, hidden) = self.handed_over();
            sensitive = if hidden { made.keys().cloned().collect() } else { Vec::new() };
            outputs = made;
        }
        Notice {
            from: self.key.id,
            sequence,
            node: parent.node.clone(),
            lifecycle: state.lifecycle,
            execution: parent.execution.unwrap_or(0),
            outputs,
            sensitive,
            error: state.error.clone(),
            still: state.still,
            status: parent.mirrors.then(|| self.status()),
            suspended: self.suspension().filter(|_| parent.mirrors),
            claimed: parent.mirrors && self.is_claimed(),
        }
    }

    /// Human time is not machine time: a paused run's own time stands still.
    pub(crate) fn stop_clock(&mut self, folding: &mut Folding<'_>) {
        self.disarm(&TimerId::Stretch, folding);
        self.disarm(&TimerId::Resume, folding);
        self.stop_run_clock(folding);
    }

    pub(crate) fn stop_run_clock(&mut self, folding: &mut Folding<'_>) {
        if let Some(due) = self.state.timers.get(&TimerId::RunTimeout).copied() {
            self.state.time_left = Some(due.saturating_sub(folding.at));
            self.disarm(&TimerId::RunTimeout, folding);
        }
    }

    pub(crate) fn start_clock(&mut self, folding: &mut Folding<'_>) {
        if let Some(left) = self.state.time_left.take() {
            self.arm(TimerId::RunTimeout, folding.at.saturating_add(left), folding);
        }
    }

    fn set_variable(&mut self, changed: &VariableChanged) {
        let state = &mut self.state;
        state.variables.insert(changed.name.clone(), changed.next.clone());
        if changed.sensitive {
            state.sensitive.insert(changed.name.clone());
        }
    }

    /// The run is going to fail: nothing starts any more.
    pub(crate) fn fail_run(&mut self, ending: Ending, folding: &mut Folding<'_>) {
        if self.state.ending.is_none() {
            self.call_off(folding);
        }
        self.state.ending.get_or_insert(ending);
        self.stop_waiting(folding);
    }

    /// Nothing starts any more, so nothing would ever take these timers away.
    fn stop_waiting(&mut self, folding: &mut Folding<'_>) {
        self.disarm(&TimerId::Stretch, folding);
        self.disarm(&TimerId::RunTimeout, folding);
        self.disarm(&TimerId::Resume, folding);
        self.state.time_left = None;
    }

    pub(crate) fn arm(&mut self, timer: TimerId, due: Millis, folding: &mut Folding<'_>) {
        self.disarm(&timer, folding);
        if self.is_replay() {
            return;
        }
        self.state.timers.insert(timer.clone(), due);
        folding.effects.push(Effect::ArmTimer { timer, due });
    }

    pub(crate) fn disarm(&mut self, timer: &TimerId, folding: &mut Folding<'_>) {
        if let Some((timer, due)) = self.state.timers.remove_entry(timer) {
            folding.effects.push(Effect::DropTimer { timer, due });
        }
    }
}

impl Ending {
    pub(crate) fn cancelled(asked: &Cancellation) -> Self {
        Self::Cancelled {
            reason: asked.reason.clone(),
            by: asked.cancelled_by.clone(),
            parent: asked.parent_run_id,
            abandonment: asked.abandonment_reason.clone(),
        }
    }
}
