//! Folding the events of nodes. Those of the run as a whole lie beside it.

use std::sync::Arc;

use super::{FENCES_PER_EVENT_BITS, Folding};
use crate::channel::Channel;
use crate::effect::{Effect, Spawn, TaskId, TimerId};
use crate::event::{
    ChannelWritten, NodeCompleted, NodeEvent, NodeFailed, NodeRetried, NodeSpawned, NodeStarted, Parent,
};
use crate::node::NodePhase;
use crate::run::{Ending, Run};
use crate::work::{Memo, WorkState};
use crate::{Lifecycle, Millis, NodeIx};

impl Run {
    pub(super) fn fold_node(
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
            NodeEvent::InterruptExpired(expired) => self.fold_expired(expired, folding),
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
    pub(super) fn line_up_worker(&mut self, node: &str, child: crate::RunId, folding: &mut Folding<'_>) {
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
}
