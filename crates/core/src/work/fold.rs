//! What the events of a worker's node change.

use std::collections::BTreeSet;

use crate::command::Draft;
use crate::effect::{Effect, Hook, TaskId, TimerId};
use crate::event::{
    HookKind, Loss, NodeEvent, NodeParked, NodeRetried, Resolution, SleepEnded, SleepStarted, StepRecorded,
    TaskLost, Wait,
};
use crate::fold::{FENCES_PER_EVENT_BITS, Folding};
use crate::interrupt::Open;
use crate::node::Node;
use crate::work::{Memo, OWN_KEYS, WorkState};
use crate::{InterruptId, NodeIx, NodePhase, Rejection, Run, RunId};

/// What a decision does.
impl Run {
    /// The time of a sleep has come.
    pub(crate) fn wake(&mut self, draft: &mut Draft, ix: NodeIx, began: u64) -> Result<(), Rejection> {
        let work = self.node(ix).work.as_deref().ok_or(Rejection::NoSuchTimer)?;
        let found = work
            .memos
            .iter()
            .find(|(_, memo)| matches!(memo, Memo::Sleep { sequence, .. } if *sequence == began));
        let key = found.ok_or(Rejection::NoSuchTimer)?.0.clone();
        self.emit_node(draft, ix, NodeEvent::SleepEnded(SleepEnded { key }), None);
        Ok(())
    }
}

/// What an event changes.
impl Run {
    /// Hands a node to workers, for the first time or again.
    pub(crate) fn hand_out(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        if let Some(work) = self.work_mut(ix) {
            work.fence = folding.sequence << FENCES_PER_EVENT_BITS;
            work.waits.clear();
        }
        let offer = self.offer(ix, folding.at);
        folding.effects.push(Effect::Offer(offer));
    }

    /// Nobody holds the run any more: what waited for workers may be had.
    pub(crate) fn offer_again(&self, folding: &mut Folding<'_>) {
        let offered = self.state.nodes.iter().enumerate();
        let offered = offered.filter(|(_, node)| node.dispatched && node.work.is_some());
        let kinds: BTreeSet<_> = offered.map(|(ix, _)| self.graph.at(ix as NodeIx).type_id.clone()).collect();
        folding.effects.extend(kinds.into_iter().map(Effect::OfferAgain));
    }

    pub(crate) fn work_mut(&mut self, ix: NodeIx) -> Option<&mut WorkState> {
        self.state.nodes[ix as usize].work.as_deref_mut()
    }

    /// Keeps what is known of a key.
    pub(crate) fn memorise(&mut self, ix: NodeIx, key: &str, memo: Memo) -> Result<(), String> {
        let work = self.work_mut(ix).ok_or("no worker has the node")?;
        work.memos.insert(key.to_owned(), memo);
        work.losses = 0;
        Ok(())
    }

    pub(crate) fn fold_recorded(
        &mut self,
        ix: NodeIx,
        recorded: &StepRecorded,
        sequence: u64,
    ) -> Result<(), String> {
        let memo = if recorded.error.is_some() { Memo::Failed(sequence) } else { Memo::Done(sequence) };
        self.memorise(ix, &recorded.key, memo)
    }

    pub(crate) fn fold_sleep(
        &mut self,
        ix: NodeIx,
        sleep: &SleepStarted,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let (until, sequence) = (sleep.until, folding.sequence);
        self.memorise(ix, &sleep.key, Memo::Sleep { until, sequence, over: false })?;
        let TaskId { node, execution } = self.task_of(ix);
        self.arm(TimerId::Sleep { node, execution, sequence }, until, folding);
        Ok(())
    }

    pub(crate) fn fold_woken(
        &mut self,
        ix: NodeIx,
        key: &str,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let TaskId { node, execution } = self.task_of(ix);
        let work = self.work_mut(ix).ok_or("no worker has the node")?;
        let Some(Memo::Sleep { over, sequence, .. }) = work.memos.get_mut(key) else {
            return Err("a sleep ended that nobody began".to_owned());
        };
        *over = true;
        let sequence = *sequence;
        if key.starts_with(OWN_KEYS) {
            work.memos.remove(key);
        }
        self.disarm(&TimerId::Sleep { node, execution, sequence }, folding);
        self.rouse(ix, folding);
        Ok(())
    }

    /// A worker gives a task back.
    pub(crate) fn fold_parked(
        &mut self,
        ix: NodeIx,
        parked: &NodeParked,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let work = self.work_mut(ix).ok_or("no worker has the node")?;
        if parked.waits.is_empty() {
            return Err("a node is parked for nothing".to_owned());
        }
        (work.waits, work.losses) = (parked.waits.clone(), 0);
        work.unfit = if parked.unfit.is_some() { work.unfit + 1 } else { 0 };
        self.state.nodes[ix as usize].error.clone_from(&parked.unfit);
        self.leave_executor(ix, folding);
        Ok(())
    }

    /// A parked node goes on.
    pub(crate) fn fold_unparked(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        let node = &mut self.state.nodes[ix as usize];
        node.dispatched = true;
        for id in std::mem::take(&mut node.stopped_for) {
            if let Some(open) = self.state.open.get_mut(&id) {
                open.waiters.retain(|waiter| *waiter != ix);
            }
        }
        self.state.in_flight += 1;
        self.hand_out(ix, folding);
    }

    pub(crate) fn fold_lost(
        &mut self,
        ix: NodeIx,
        lost: &TaskLost,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let work = self.work_mut(ix).ok_or("no worker has the node")?;
        work.losses += u32::from(lost.reason != Loss::Released);
        folding.effects.push(Effect::Withdraw(self.task_of(ix)));
        self.hand_out(ix, folding);
        Ok(())
    }

    /// Another attempt follows: what failed in the last one is done again.
    pub(crate) fn fold_retried(&mut self, ix: NodeIx, retried: &NodeRetried) {
        let Some(work) = self.work_mut(ix) else { return };
        work.memos.retain(|_, memo| !matches!(memo, Memo::Begun | Memo::Failed(_)));
        work.losses = 0;
        if let Some(agent) = &retried.agent {
            work.offered.agent = Some(agent.clone());
            work.handed_over = retried.attempt;
        }
    }

    /// The end of a child that a worker asked for. If what it gives back is never shown, neither is what the worker makes
    /// of it.
    pub(crate) fn fold_child_end(
        &mut self,
        node: &str,
        child: RunId,
        sensitive: bool,
        folding: &mut Folding<'_>,
    ) {
        let Some(ix) = self.graph.node(node) else { return };
        let Some(work) = self.work_mut(ix) else { return };
        let asked = work.memos.values_mut().find_map(|memo| match memo {
            Memo::Child { run, ended } if *run == child => Some(ended),
            _ => None,
        });
        if let Some(ended) = asked {
            ended.get_or_insert(folding.sequence);
            self.state.nodes[ix as usize].sensitive |= sensitive;
            self.rouse(ix, folding);
        }
    }

    /// Something has come that the node may wait for.
    pub(crate) fn rouse(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        let node = self.node(ix);
        let Some(work) = node.work.as_deref() else { return };
        match node.phase {
            NodePhase::Running => folding.effects.push(Effect::Wake(self.task_of(ix))),
            NodePhase::Waiting | NodePhase::Suspended if work.is_parked() => {
                let waits = self.state.answered.iter().any(|(next, _)| *next == ix);
                if !waits {
                    self.state.answered.push_back((ix, folding.sequence));
                }
            }
            _ => {}
        }
    }

    /// The execution is over: its sleeps end with it.
    pub(crate) fn forget_work(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        let TaskId { node, execution } = self.task_of(ix);
        let Some(work) = self.state.nodes[ix as usize].work.take() else { return };
        for memo in work.memos.values() {
            if let Memo::Sleep { sequence, over: false, .. } = memo {
                let timer = TimerId::Sleep { node: node.clone(), execution, sequence: *sequence };
                self.disarm(&timer, folding);
            }
        }
    }

    /// Whether a parked node waits for a child that does anything but wait for people.
    pub(crate) fn has_working_child(&self, node: &Node) -> bool {
        let Some(work) = node.work.as_deref() else { return false };
        let works = |key: &String| match work.memos.get(key) {
            Some(Memo::Child { run, .. }) => !self.state.still_children.contains(run),
            _ => false,
        };
        work.waits.iter().any(|wait| matches!(wait, Wait::Child(key) if works(key)))
    }

    /// The run is ending: whoever has a task is to stop.
    pub(crate) fn call_off(&mut self, folding: &mut Folding<'_>) {
        let nodes = self.state.nodes.iter().enumerate();
        let held = nodes.filter(|(_, node)| node.dispatched && node.work.is_some());
        for (ix, _) in held {
            folding.effects.push(Effect::CallOff(self.task_of(ix as NodeIx)));
        }
        let nodes = self.state.nodes.iter().enumerate();
        for (ix, _) in nodes.filter(|(_, node)| node.dispatched && node.turn.is_some()) {
            folding.effects.push(Effect::Abort(self.task_of(ix as NodeIx)));
        }
    }

    /// Calls the agent that asked, if it wants to be called for this.
    pub(crate) fn call_hook(&self, open: &Open, kind: HookKind, attempt: u32, folding: &mut Folding<'_>) {
        if let Some(hooks) = open.requested.hooks.as_ref().filter(|hooks| hooks.on.contains(&kind)) {
            let id: InterruptId = open.requested.interrupt_id;
            let hook = Hook { agent: hooks.agent.clone(), id, kind, attempt, at: folding.at };
            folding.effects.push(Effect::Hook(hook));
        }
    }

    /// Calls the agent that asked, once there is an answer or none will come.
    pub(crate) fn call_end_hook(&self, open: &Open, outcome: Resolution, folding: &mut Folding<'_>) {
        let kind = match outcome {
            Resolution::Resolved | Resolution::Rejected => HookKind::InputReceived,
            Resolution::Expired | Resolution::Timeout => HookKind::SuspensionExpired,
            Resolution::Cancelled => return,
        };
        self.call_hook(open, kind, open.attempt, folding);
    }
}

impl Node {
    /// The children that it was given back for.
    pub(crate) fn awaited_children(&self) -> impl Iterator<Item = RunId> + '_ {
        let run = |work: &WorkState, key: &str| match work.memos.get(key) {
            Some(Memo::Child { run, ended: None }) => Some(*run),
            _ => None,
        };
        self.work.as_deref().into_iter().flat_map(move |work| {
            work.waits.iter().filter_map(move |wait| match wait {
                Wait::Child(key) => run(work, key),
                _ => None,
            })
        })
    }
}
