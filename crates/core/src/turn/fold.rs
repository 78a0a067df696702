//! What the events of a turn change.

use crate::effect::{Effect, ProviderWait, TaskId, TimerId};
use crate::event::{
    ModelAnswered, NodeEvent, NodeSpawned, ProviderRetry, ProviderUsage, ToolAnswered, TurnBegan, TurnSealed,
};
use crate::fold::{FENCES_PER_EVENT_BITS, Folding};
use crate::graph::Work;
use crate::turn::{Pending, Stage, TurnState, Withheld};
use crate::{Json, Message, Millis, NodeIx, NodePhase, Run, Usage, limits};

impl Run {
    pub(crate) fn turn_mut(&mut self, ix: NodeIx) -> Result<&mut TurnState, String> {
        self.state.nodes[ix as usize].turn.as_deref_mut().ok_or_else(|| "the node has no turn".to_owned())
    }

    pub(crate) fn fold_turn(
        &mut self,
        ix: NodeIx,
        was: NodePhase,
        event: &NodeEvent,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        match event {
            NodeEvent::TurnBegan(began) => self.fold_began(ix, began),
            NodeEvent::ModelCalled(_) => self.fold_called(ix, was, folding)?,
            NodeEvent::MessageChunk(chunk) => {
                if let Stage::Calling { content } = &mut self.turn_mut(ix)?.stage {
                    *content |= !chunk.is_last;
                }
            }
            NodeEvent::ModelAnswered(answered) => self.fold_answered(ix, answered, folding)?,
            NodeEvent::ProviderUsage(used) => self.fold_usage(ix, used)?,
            NodeEvent::ProviderRetry(retry) => self.fold_provider_retry(ix, retry, folding)?,
            NodeEvent::ProviderPostponed(postponed) => self.fold_postponed(ix, postponed.since, folding)?,
            NodeEvent::ToolAnswered(answered) => {
                self.disarm(&TimerId::Stretch, folding);
                self.fold_tool_answered(ix, answered)?;
            }
            NodeEvent::TurnSealed(sealed) => self.fold_sealed(ix, sealed, folding)?,
            _ => {}
        }
        Ok(())
    }

    fn fold_began(&mut self, ix: NodeIx, began: &TurnBegan) {
        let turn = TurnState {
            began: Box::new(began.clone()),
            step: 0,
            attempt: 0,
            retries: 0,
            calls: 0,
            called: 0,
            stage: Stage::Due,
            withheld: None,
            postponed_since: None,
            usage: Usage::default(),
            cost_micros: None,
            answered_by: None,
        };
        self.state.nodes[ix as usize].turn = Some(Box::new(turn));
    }

    fn fold_called(&mut self, ix: NodeIx, was: NodePhase, folding: &mut Folding<'_>) -> Result<(), String> {
        if was == NodePhase::Pending {
            self.leave_line(ix, folding)?;
        }
        let turn = self.turn_mut(ix)?;
        turn.calls += 1;
        turn.called = folding.sequence;
        turn.stage = Stage::Calling { content: false };
        let node = &mut self.state.nodes[ix as usize];
        node.dispatched = true;
        self.state.in_flight += 1;
        let task = self.task_of(ix);
        folding.effects.push(Effect::Dispatch { task, fence: folding.sequence << FENCES_PER_EVENT_BITS });
        Ok(())
    }

    fn fold_answered(
        &mut self,
        ix: NodeIx,
        answered: &ModelAnswered,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        if answered.calls_tools() {
            // Whether they are called at once is decided, not folded: the run may be held.
            self.state.workers.push_back((ix, folding.sequence));
        }
        let turn = self.turn_mut(ix)?;
        turn.began.messages.push(answered.message.clone());
        turn.step += 1;
        (turn.attempt, turn.withheld, turn.postponed_since) = (0, None, None);
        let calls = match &answered.message {
            Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
            _ => &[],
        };
        let pending = |call: &crate::ToolCall| Pending { call: call.clone(), child: None, answered: false };
        turn.stage = Stage::Tools(calls.iter().map(pending).collect());
        self.leave_executor(ix, folding);
        Ok(())
    }

    fn fold_usage(&mut self, ix: NodeIx, used: &ProviderUsage) -> Result<(), String> {
        let turn = self.turn_mut(ix)?;
        turn.usage = turn.usage.plus(used.usage());
        turn.answered_by.clone_from(&used.model);
        add_cost(&mut turn.cost_micros, used.cost_micros);
        let state = &mut self.state.usage;
        state.usage = state.usage.plus(used.usage());
        add_cost(&mut state.cost_micros, used.cost_micros);
        Ok(())
    }

    fn fold_provider_retry(
        &mut self,
        ix: NodeIx,
        retry: &ProviderRetry,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let turn = self.turn_mut(ix)?;
        turn.attempt = retry.attempt + 1;
        turn.retries += 1;
        turn.postponed_since = None;
        turn.withheld = Some(Withheld { message: retry.message.clone(), code: retry.code.clone() });
        turn.stage = Stage::Retrying { delay_ms: retry.delay_ms, since: folding.at };
        let until = folding.at.saturating_add(retry.delay_ms);
        self.await_provider(ix, folding.at, until, folding)
    }

    fn fold_postponed(&mut self, ix: NodeIx, since: Millis, folding: &mut Folding<'_>) -> Result<(), String> {
        let turn = self.turn_mut(ix)?;
        // A call that never was.
        turn.calls = turn.calls.saturating_sub(1);
        turn.postponed_since = Some(since);
        turn.stage = Stage::Postponed;
        self.await_provider(ix, since, since.saturating_add(limits::POSTPONED_MS_MAX), folding)
    }

    /// The turn waits, and holds nothing but a timer.
    fn await_provider(
        &mut self,
        ix: NodeIx,
        since: Millis,
        until: Millis,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let turn = self.turn_mut(ix)?;
        let (provider, postponed) = (turn.began.provider.clone(), turn.stage == Stage::Postponed);
        self.leave_executor(ix, folding);
        self.state.nodes[ix as usize].until = Some(until);
        let task = self.task_of(ix);
        let timer = TimerId::Provider { node: task.node.clone(), execution: task.execution };
        self.arm(timer, until, folding);
        folding.effects.push(Effect::AwaitProvider(ProviderWait { task, provider, postponed, since, until }));
        Ok(())
    }

    /// The turn waits no more, whatever becomes of it.
    pub(crate) fn leave_provider(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        let task = self.task_of(ix);
        let Some(turn) = self.state.nodes[ix as usize].turn.as_deref_mut() else { return };
        if turn.awaits_provider() {
            turn.stage = Stage::Due;
            self.state.nodes[ix as usize].until = None;
            let timer = TimerId::Provider { node: task.node.clone(), execution: task.execution };
            self.disarm(&timer, folding);
            folding.effects.push(Effect::LeaveProvider(task));
        }
    }

    /// The turn may call its model.
    pub(crate) fn fold_turn_due(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        self.leave_provider(ix, folding);
        if let Some(turn) = self.state.nodes[ix as usize].turn.as_deref_mut()
            && matches!(turn.stage, Stage::Tools(_))
        {
            turn.stage = Stage::Due;
        }
    }

    /// The node's work is interrupted or is tried again: if the turn was under way, its step is.
    pub(crate) fn break_turn(&mut self, ix: NodeIx) {
        if let Some(turn) = self.state.nodes[ix as usize].turn.as_deref_mut().filter(|turn| !turn.is_sealed())
        {
            turn.stage = Stage::Broken;
            (turn.attempt, turn.withheld, turn.postponed_since) = (0, None, None);
        }
    }

    fn fold_tool_answered(&mut self, ix: NodeIx, answered: &ToolAnswered) -> Result<(), String> {
        let turn = self.turn_mut(ix)?;
        let Stage::Tools(pending) = &mut turn.stage else {
            return Err("a tool answered that nobody waits for".to_owned());
        };
        let call = pending
            .iter_mut()
            .find(|pending| pending.call.id == answered.tool_call_id && !pending.answered)
            .ok_or("a tool answered that was not called")?;
        call.answered = true;
        turn.began.messages.push(Message::Tool {
            tool_call_id: answered.tool_call_id.clone(),
            name: answered.name.clone(),
            content: answered.content.clone(),
            is_error: answered.is_error,
        });
        self.state.nodes[ix as usize].sensitive |= answered.sensitive;
        self.state.workers.retain(|(due, _)| *due != ix);
        Ok(())
    }

    fn fold_sealed(
        &mut self,
        ix: NodeIx,
        sealed: &TurnSealed,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        self.leave_provider(ix, folding);
        let turn = self.turn_mut(ix)?;
        turn.stage = Stage::Sealed { end: sealed.status, error: sealed.error.clone() };
        self.leave_executor(ix, folding);
        // What was said is kept only for a turn that goes on with it.
        let id = &self.graph.at(ix).id;
        let goes_on = |work: &Work| matches!(work, Work::Turn(work) if work.continues.as_deref() == Some(id));
        if !self.graph.nodes.iter().any(|node| goes_on(&node.work)) {
            self.turn_mut(ix)?.began.messages = Vec::new();
        }
        Ok(())
    }

    /// The call of a tool has become a run; its definition, if the tool makes it.
    pub(crate) fn fold_tool_spawned(&mut self, ix: NodeIx, spawned: &NodeSpawned) -> Option<Json> {
        let turn = self.state.nodes[ix as usize].turn.as_deref_mut()?;
        let Stage::Tools(pending) = &mut turn.stage else { return None };
        let is_it = |pending: &&mut Pending| {
            Some(&pending.call.id) == spawned.key.as_ref() && pending.child.is_none() && !pending.answered
        };
        let pending = pending.iter_mut().find(is_it)?;
        pending.child = Some(spawned.child);
        let name = pending.call.name.clone();
        match &self.graph.at(ix).work {
            Work::Turn(work) => work.tool(&name)?.definition.clone(),
            _ => None,
        }
    }

    pub(crate) fn task_of(&self, ix: NodeIx) -> TaskId {
        TaskId { node: self.graph.at(ix).id.clone(), execution: self.node(ix).execution }
    }
}

/// What is known of a cost stays known, though nothing is known of what is added.
fn add_cost(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}
