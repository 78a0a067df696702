//! Folding events: the one place where a run's state changes.
//!
//! Effects come only from here, so whatever a journal says has happened implies the same timers, tasks and messages
//! live, in recovery and in `abide verify`. What follows along the edges of the graph lies in `route.rs`.

use std::sync::Arc;

use crate::channel::Channel;
use crate::effect::{Cascade, Effect, Notice, Spawn, TaskId, TimerId};
use crate::event::{
    Cancellation, ChannelWritten, ChildReported, Event, Failure, NodeCompleted, NodeEvent, NodeFailed,
    NodeRetried, NodeSpawned, NodeStarted, Parent, RunEvent, Started, VariableChanged,
};
use crate::group::Group;
use crate::journal::Record;
use crate::node::NodePhase;
use crate::run::{Corrupt, Ending, LoopState, Run};
use crate::work::{Memo, WorkState};
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
            RunEvent::ChildRefused(refused) => {
                folding.effects.push(Effect::Disown(refused.child));
                self.fold_child_end(&refused.node, refused.child, false, folding);
                self.line_up_worker(&refused.node, refused.child, folding);
                self.forget_child(&refused.node, folding.sequence);
                self.state.planning.refuse_child(refused);
            }
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
            RunEvent::IntentPatched(patched) => self.fold_patched(patched, folding)?,
            RunEvent::Intent(event) => self.fold_intent(event, folding)?,
        }
        Ok(())
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

    fn fold_node(
        &mut self,
        id: &Arc<str>,
        event: &NodeEvent,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        if !matches!(self.state.lifecycle, Lifecycle::Running | Lifecycle::Cancelling) {
            return Err(format!("a node event in a run that is {:?}", self.state.lifecycle));
        }
        let Some(ix) = self.graph.node(id) else {
            return match *id == self.graph.own_node {
                true => self.fold_question(event, folding),
                false => Err(format!("the definition has no node '{id}'")),
            };
        };
        let node = &mut self.state.nodes[ix as usize];
        let was = node.phase;
        let name = event.event_type().name;
        node.phase =
            was.after(event).ok_or_else(|| format!("{name} is illegal for a node that is {was:?}"))?;
        match event {
            NodeEvent::Started(started) => self.start_node(ix, started, folding)?,
            NodeEvent::Completed(done) => self.complete_node(ix, was, done, folding),
            NodeEvent::Failed(failed) => self.fail_node(ix, was, failed, folding),
            NodeEvent::Cancelled(_) => self.settle(ix, was, folding),
            NodeEvent::Skipped(_) => self.skip_node(ix, was, folding)?,
            NodeEvent::Retried(retried) => self.retry_node(ix, retried, folding),
            NodeEvent::Due(_) => self.fold_due(ix, folding),
            NodeEvent::Spawned(spawned) => self.spawn(ix, spawned, folding),
            NodeEvent::ChannelWritten(written) => self.write_channel(written, folding.at)?,
            NodeEvent::InterruptRequested(requested) => self.fold_requested(Some(ix), requested, folding)?,
            NodeEvent::Interrupted(interrupted) => self.fold_interrupted(ix, interrupted, folding),
            NodeEvent::Suspended(suspended) => self.fold_suspended(ix, suspended)?,
            NodeEvent::InterruptResolved(resolved) => self.fold_resolved(resolved, folding)?,
            NodeEvent::Resumed(_) => self.fold_resumed(ix, folding)?,
            NodeEvent::InterruptRenotified(again) => self.fold_renotified(again, folding)?,
            NodeEvent::InterruptAmended(amended) => self.fold_amended(amended, folding)?,
            NodeEvent::InterruptExpired(expired) => self.fold_expired_intent(expired.interrupt_id),
            NodeEvent::NoticeRefused(refused) => self.fold_refused(refused)?,
            NodeEvent::ConversationOpened(opened) => self.fold_opened(opened, folding)?,
            NodeEvent::ConversationExchanged(exchanged) => self.fold_exchanged(exchanged)?,
            NodeEvent::ConversationClosed(closed) => self.fold_closed(closed)?,
            NodeEvent::AgentDecided(decided) => self.fold_agent_decided(ix, decided),
            NodeEvent::ApprovalVoted(voted) => self.fold_voted(voted, folding)?,
            NodeEvent::ApprovalAsked(asked) => self.fold_asked(asked, folding)?,
            NodeEvent::ApprovalReplied(replied) => self.fold_replied(replied, folding)?,
            NodeEvent::Refined(refined) => self.state.nodes[ix as usize].refinement = Some(refined.clone()),
            NodeEvent::Claimed(_) | NodeEvent::Released(_) | NodeEvent::ClaimDeferred(_) => {
                self.fold_hand(ix, event);
            }
            event if event.is_of_work() => self.fold_work(ix, event, folding)?,
            event if event.is_of_turn() => self.fold_turn(ix, was, event, folding)?,
            // The others only tell.
            _ => {}
        }
        Ok(())
    }

    /// The attempt failed, and another one follows.
    fn retry_node(&mut self, ix: NodeIx, retried: &NodeRetried, folding: &mut Folding<'_>) {
        self.break_turn(ix);
        let node = &mut self.state.nodes[ix as usize];
        (node.attempt, node.error) = (retried.attempt, Some(retried.error.clone()));
        node.until = Some(retried.until);
        self.leave_executor(ix, folding);
        self.fold_retried(ix, retried);
        let TaskId { node, execution } = self.task_of(ix);
        self.arm(TimerId::Retry { node, execution }, retried.until, folding);
    }

    /// What the node waited for has come.
    fn fold_due(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        self.state.nodes[ix as usize].until = None;
        let TaskId { node, execution } = self.task_of(ix);
        self.disarm(&TimerId::Retry { node, execution }, folding);
        self.fold_turn_due(ix, folding);
        self.forget_interruption(ix, folding);
        self.enqueue(ix, folding.sequence);
    }

    /// What a worker did, or what became of its task.
    fn fold_work(&mut self, ix: NodeIx, event: &NodeEvent, folding: &mut Folding<'_>) -> Result<(), String> {
        match event {
            NodeEvent::StepBegun(begun) => self.memorise(ix, &begun.key, Memo::Begun)?,
            NodeEvent::StepRecorded(recorded) => self.fold_recorded(ix, recorded, folding.sequence)?,
            NodeEvent::SleepStarted(sleep) => self.fold_sleep(ix, sleep, folding)?,
            NodeEvent::SleepEnded(ended) => self.fold_woken(ix, &ended.key, folding)?,
            NodeEvent::VersionRecorded(chosen) => {
                self.memorise(ix, &chosen.key, Memo::Version(chosen.version))?;
            }
            NodeEvent::Parked(parked) => self.fold_parked(ix, parked, folding)?,
            NodeEvent::TaskLost(lost) => self.fold_lost(ix, lost, folding)?,
            NodeEvent::Noted(noted) => {
                if let (Some(work), Some(progress)) = (self.work_mut(ix), &noted.progress) {
                    work.progress = Some(progress.clone());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The node that is next in line goes on.
    pub(crate) fn leave_line(&mut self, ix: NodeIx, folding: &mut Folding<'_>) -> Result<(), String> {
        match self.state.ready.pop_front() {
            Some((next, _)) if next == ix => {}
            _ => return Err("the node was not next in line".to_owned()),
        }
        self.disarm(&TimerId::Stretch, folding);
        self.state.nodes[ix as usize].queued = false;
        Ok(())
    }

    fn start_node(
        &mut self,
        ix: NodeIx,
        started: &NodeStarted,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        self.leave_line(ix, folding)?;
        let id = self.graph.at(ix).id.clone();
        let node = &mut self.state.nodes[ix as usize];
        node.dispatched = started.dispatched;
        node.until = started.until;
        if started.attempt == 0 {
            node.execution = started.execution;
            node.started_at = Some(folding.at);
            node.ended_at = None;
            (node.attempt, node.error, node.child, node.children, node.asked) = (0, None, None, 0, 0);
            (node.counted_from, node.cut_off) = (0, 0);
            (node.turn, node.refinement) = (None, None);
            node.child_stands = None;
            // Whoever had it did so for an execution that is over; whoever waits for it still does.
            if let Some(claim) = &mut node.claim {
                claim.agent = None;
            }
            node.inputs = started.inputs.clone();
            node.sensitive = started.sensitive;
            let began = folding.sequence;
            node.work = started.offer.clone().map(|offered| Box::new(WorkState::new(offered, began)));
            self.state.executions += 1;
        }
        if started.dispatched && node.work.is_some() {
            self.state.in_flight += 1;
            self.hand_out(ix, folding);
        } else if started.dispatched {
            self.state.in_flight += 1;
            let task = TaskId { node: id, execution: started.execution };
            folding.effects.push(Effect::Dispatch { task, fence: folding.sequence << FENCES_PER_EVENT_BITS });
        } else if let Some(due) = started.until {
            self.arm(TimerId::Delay { node: id, execution: started.execution }, due, folding);
        }
        Ok(())
    }

    fn complete_node(&mut self, ix: NodeIx, was: NodePhase, done: &NodeCompleted, folding: &mut Folding<'_>) {
        let node = &mut self.state.nodes[ix as usize];
        node.outputs = done.outputs.clone();
        node.masked = done.masked.clone();
        node.made_by.clone_from(&done.made_by);
        node.error = None;
        self.settle(ix, was, folding);
        if let Some(fault) = &done.fault {
            let node = Some(self.graph.at(ix).id.to_string());
            self.fail_run(Ending::Failed { node, error: fault.clone() }, folding);
        }
        self.follow_success(ix, &done.untaken, folding);
    }

    fn fail_node(&mut self, ix: NodeIx, was: NodePhase, failed: &NodeFailed, folding: &mut Folding<'_>) {
        self.state.nodes[ix as usize].error = Some(failed.error.clone());
        self.settle(ix, was, folding);
        self.follow_failure(ix, &failed.untaken, folding);
    }

    fn skip_node(&mut self, ix: NodeIx, was: NodePhase, folding: &mut Folding<'_>) -> Result<(), String> {
        // A node that may start but is disabled is skipped from the other line.
        let lines = [&mut self.state.doomed, &mut self.state.ready];
        let found = lines.into_iter().any(|line| line.pop_front_if(|(next, _)| *next == ix).is_some());
        if !found {
            return Err("the node was not next in line".to_owned());
        }
        self.disarm(&TimerId::Stretch, folding);
        let node = &mut self.state.nodes[ix as usize];
        (node.queued, node.doomed) = (false, false);
        self.settle(ix, was, folding);
        self.follow_skip(ix, folding);
        Ok(())
    }

    /// An execution is over: its timer or its task goes with it.
    fn settle(&mut self, ix: NodeIx, was: NodePhase, folding: &mut Folding<'_>) {
        let id = self.graph.at(ix).id.clone();
        let node = &mut self.state.nodes[ix as usize];
        node.ended_at = Some(folding.at);
        node.until = None;
        node.inputs = None;
        let execution = node.execution;
        self.state.workers.retain(|(due, _)| *due != ix);
        self.state.unsettled -= 1;
        if was == NodePhase::Waiting {
            self.disarm(&TimerId::Delay { node: id.clone(), execution }, folding);
            self.disarm(&TimerId::Retry { node: id, execution }, folding);
        }
        self.leave_provider(ix, folding);
        self.forget_keyless(ix);
        if self.state.resume.interrupted.contains_key(&ix) {
            // The attempt that was interrupted was the last: none began after it.
            self.state.nodes[ix as usize].attempt -= 1;
        }
        self.forget_interruption(ix, folding);
        self.leave_executor(ix, folding);
        self.forget_work(ix, folding);
    }

    /// The executor's outcome is recorded: its task is over.
    pub(crate) fn leave_executor(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        let node = &mut self.state.nodes[ix as usize];
        if std::mem::take(&mut node.dispatched) {
            let execution = node.execution;
            self.state.in_flight -= 1;
            let done = if node.work.is_some() { Effect::Withdraw } else { Effect::FinishTask };
            let task = TaskId { node: self.graph.at(ix).id.clone(), execution };
            folding.effects.push(done(task));
        }
    }

    /// A child has ended, or never began: the worker after it may start. Whether it does at once is decided, not folded.
    fn line_up_worker(&mut self, node: &str, child: crate::RunId, folding: &mut Folding<'_>) {
        if let Some(ix) = self.waiting_for(node, child).filter(|&ix| self.has_more_workers(ix)) {
            self.state.workers.push_back((ix, folding.sequence));
        }
    }

    fn spawn(&mut self, ix: NodeIx, spawned: &NodeSpawned, folding: &mut Folding<'_>) {
        self.disarm(&TimerId::Stretch, folding);
        self.state.workers.retain(|(due, _)| *due != ix);
        let node = &mut self.state.nodes[ix as usize];
        node.child = Some(spawned.child);
        node.children += 1;
        if let (Some(work), Some(key)) = (node.work.as_deref_mut(), &spawned.key) {
            work.memos.insert(key.clone(), Memo::Child { run: spawned.child, ended: None });
            work.losses = 0;
        }
        let tool = self.fold_tool_spawned(ix, spawned);
        let definition = tool.or_else(|| self.phase_definition(ix));
        let mirrors = self.graph.at(ix).kind == crate::Kind::Phase;
        let depends_on = self.phase_upstreams(ix);
        let node = &self.state.nodes[ix as usize];
        let parent = Parent {
            run: self.key.id,
            node: self.graph.at(ix).id.to_string(),
            execution: Some(node.execution),
            root: Some(self.root()),
            depth: Some(self.depth() + 1),
            harvest: spawned.harvest.clone(),
            clocked: self.is_clocked(),
            starters: self.starters().into_iter().skip(usize::from(self.state.by.is_some())).collect(),
            mirrors,
        };
        if spawned.elsewhere {
            return;
        }
        self.state.cascades |= spawned.cascade;
        folding.effects.push(Effect::Spawn(Spawn {
            child: spawned.child,
            workflow_id: spawned.workflow_id.clone(),
            definition,
            inputs: spawned.inputs.clone(),
            sensitive: spawned.sensitive.clone(),
            unset: spawned.unset.clone(),
            parent,
            cascade: spawned.cascade,
            trace: self.state.trace.clone(),
            by: self.state.by.clone(),
            depends_on,
            draft: false,
        }));
    }

    /// The reducer was tried when the event was decided, so it can't fail here.
    fn write_channel(&mut self, written: &ChannelWritten, at: Millis) -> Result<(), String> {
        let undeclared;
        let channel = match self.graph.channels.get(&written.channel) {
            Some(channel) => channel,
            None => {
                undeclared = Channel::undeclared(&written.reducer, written.ttl_ms)?;
                &undeclared
            }
        };
        let current = self.state.channels.get(&written.channel);
        let next = channel.fold(current, &written.value, at).map_err(|(_, message)| message)?;
        self.state.channels.insert(written.channel.clone(), next);
        if written.sensitive {
            self.state.sensitive_channels.insert(written.channel.clone());
        }
        Ok(())
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
