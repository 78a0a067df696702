//! How nodes stop for an answer and go on with it.

mod clock;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bonds::DEADLINE_EXCEEDED;
use crate::command::Draft;
use crate::effect::{ClosedInterrupt, Effect, TimerId};
use crate::event::{
    ApprovalReceived, ClarificationRequested, ClarificationResolved, HookKind, Hooks, InterruptRequested,
    InterruptResolved, NodeEvent, NodeResumed, NodeSuspended, Resolution,
};
use crate::fold::Folding;
use crate::gate::Bodied;
use crate::interrupt::{
    Action, Answered, Ask, Asked, Call, Checked, NewAsk, NodeContext, Open, Stop, scheduled_time,
};
use crate::ports::Inputs;
use crate::run::Ending;
use crate::{Hold, InterruptId, InterruptKind, Json, JsonMap, NodeIx, NodePhase, Rejection, Run, Waiting};

/// Who closes what nobody answered.
pub(crate) const BY_TIMEOUT: &str = "system:timeout";
/// Who resolves what waited for a time.
pub(crate) const BY_SCHEDULE: &str = "system:schedule";
/// Who closes what nobody can answer any more.
const BY_RUN: &str = "system:run";

/// What may be read of a run's interrupts.
impl Run {
    /// What it waits for, if anything is asked: the most urgent.
    pub fn waiting(&self) -> Option<Waiting> {
        self.awaited_answers().map(|open| open.requested.kind.waiting()).min()
    }

    /// Its open interrupts that it waits for. It asks people to look at what others wait for, and goes on itself.
    pub(crate) fn awaited_answers(&self) -> impl Iterator<Item = &Open> {
        self.state.open.values().filter(|open| !open.requested.is_beside())
    }

    /// Its open interrupts, oldest first.
    pub fn interrupts(&self) -> impl Iterator<Item = &Open> {
        self.state.open.values()
    }

    /// An open interrupt.
    pub fn interrupt(&self, id: InterruptId) -> Option<&Open> {
        self.state.open.get(&id)
    }

    /// The node that an open interrupt is of.
    pub fn interrupted_node(&self, open: &Open) -> &Arc<str> {
        match open.node {
            Some(ix) => &self.graph.at(ix).id,
            None => &self.graph.own_node,
        }
    }

    /// What a node's current execution sees of the outside.
    pub fn context(&self, node: &str) -> Option<NodeContext<'_>> {
        let ix = self.graph.node(node)?;
        Some(NodeContext::new(self, ix, self.node(ix).execution, Arc::default()))
    }

    /// The interrupt that an answer to this node is meant for.
    pub fn interrupt_of(&self, node: &str) -> Result<InterruptId, Rejection> {
        if *node == *self.graph.own_node {
            return self.own_interrupt();
        }
        let ix = self.graph.node(node).ok_or(Rejection::NoSuchInterrupt)?;
        let node = self.node(ix);
        let asked = self.state.open.values().filter(|open| open.node == Some(ix));
        let open: BTreeSet<InterruptId> = asked.map(|open| open.requested.interrupt_id).collect();
        let open: Vec<InterruptId> = open.union(&node.stopped_for).copied().collect();
        match (open.as_slice(), node.last_interrupt) {
            ([id], _) => Ok(*id),
            ([], Some(last)) => Ok(last),
            ([], None) => Err(Rejection::NoSuchInterrupt),
            _ => Err(Rejection::SeveralOpen(open)),
        }
    }

    /// Why an answer to this interrupt is not taken, if it is not open.
    pub fn check_open_interrupt(&self, id: InterruptId) -> Result<&Open, Rejection> {
        if let Some(open) = self.state.open.get(&id) {
            return Ok(open);
        }
        if !id.is_of(&self.salt, self.head.next) {
            return Err(Rejection::NoSuchInterrupt);
        }
        Err(match self.state.lost.get(&id).map(String::as_str) {
            // Whoever is late hears the same, whether or not the run was abandoned before they came.
            Some(RUN_CANCELLED) if self.abandonment_reason() == Some(DEADLINE_EXCEEDED) => {
                Rejection::DeadlineExceeded
            }
            Some(RUN_CANCELLED) => Rejection::InterruptCancelled,
            Some(RUN_FAILED) | None => Rejection::AlreadyResolved,
            Some(_) => Rejection::InterruptGone,
        })
    }
}

const RUN_CANCELLED: &str = "run-cancelled";
const RUN_FAILED: &str = "run-failed";
const NODE_ENDED: &str = "node-ended";

impl Ending {
    /// Why interrupts are closed by it.
    pub(crate) fn closes(&self) -> &str {
        match self {
            Self::Failed { .. } => RUN_FAILED,
            Self::Cancelled { parent: None, .. } => RUN_CANCELLED,
            Self::Cancelled { reason, .. } => reason.as_deref().unwrap_or("parent-cancelled"),
        }
    }
}

/// What a decision does.
impl Run {
    /// Executes a node that may ask, from the top.
    pub(crate) fn converse(&mut self, draft: &mut Draft, ix: NodeIx, inputs: &Inputs) {
        let mut context = NodeContext::new(self, ix, self.node(ix).execution, draft.defaults.clone());
        let bodied = self.body(ix, inputs, &mut context);
        let (wanted, made, saw_sensitive) = context.into_wanted();
        made.into_iter().for_each(|decided| self.tell_decided(draft, ix, decided));
        match bodied {
            Ok(Bodied::Done(mut product)) => {
                product.sensitive |= saw_sensitive || inputs.sensitive;
                self.finish(draft, ix, product);
            }
            Ok(Bodied::Declined(declined)) => {
                self.decline(draft, ix, *declined, saw_sensitive || inputs.sensitive);
            }
            Ok(Bodied::Ratified) => self.begin_workers(draft, ix),
            Err(Stop::Failed(failure)) => self.give_up(draft, ix, failure),
            Err(Stop::Suspended) => {
                let waits = wanted.iter().any(|call| call.at_once().is_none());
                wanted.into_iter().for_each(|call| self.stop_for(draft, ix, call, inputs));
                if !waits {
                    // What was asked is answered already, so the node gets a step further.
                    self.converse(draft, ix, inputs);
                }
            }
        }
    }

    fn stop_for(&mut self, draft: &mut Draft, ix: NodeIx, call: Call, inputs: &Inputs) {
        let cause = draft.last_sequence();
        let respondents = self.graph.at(ix).respondents.clone();
        let (hooks, by) = (self.gate_hooks(ix, &call), self.askers(ix));
        let asked = Asked { respondents, by, hooks, sensitive: inputs.sensitive };
        let waits = call.at_once().is_none();
        let interrupt_id = self.open_call(draft, ix, call, asked);
        if waits {
            let suspended = NodeSuspended::of(&self.state.open[&interrupt_id].requested, inputs.sensitive);
            self.emit_node(draft, ix, NodeEvent::Suspended(suspended), cause);
        }
    }

    /// The agent of a gate can tell what those who decide want to know.
    fn gate_hooks(&self, ix: NodeIx, call: &Call) -> Option<Hooks> {
        let Call::Ask(new) = call else { return None };
        let agent = self.graph.at(ix).agent.as_deref().filter(|_| new.ask.offers("ask"))?;
        Some(Hooks { agent: agent.to_owned(), on: vec![HookKind::QuestionAsked] })
    }

    /// Asks, unless that is asked already.
    pub(crate) fn open_call(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        call: Call,
        asked: Asked,
    ) -> InterruptId {
        let NewAsk { ask, key, keyless, call, ladder, at_once, decided } = match call {
            Call::Join(id) => {
                // Whoever asks what others asked before waits for the same answer.
                let agent = self.asking_agent(ix, &asked.by);
                self.mirror_question(draft, id, agent.as_deref());
                return id;
            }
            Call::Ask(new) => *new,
        };
        if let Some(decided) = decided {
            self.tell_decided(draft, ix, *decided);
        }
        let cause = draft.last_sequence();
        let interrupt_id = InterruptId::of(&self.salt, self.head.next);
        let Ask { kind, resume_schema, timeout_ms, data, .. } = ask;
        let data = self.placed_data(kind, &key, data);
        let sensitive = asked.sensitive;
        let questions = (kind == InterruptKind::Clarification)
            .then(|| data.parse::<JsonMap>().ok()?.remove("questions"))
            .flatten();
        let agent = self.asking_agent(ix, &asked.by);
        let sensitive_answer = sensitive || self.graph.at(ix).hides_answers();
        let requested = InterruptRequested {
            interrupt_id,
            kind,
            key,
            call,
            keyless,
            data,
            resume_schema,
            timeout_ms,
            ladder,
            respondents: asked.respondents,
            hooks: asked.hooks,
            asked_by: asked.by,
            rules: self.rules_of(ix, kind),
            topic: None,
            sensitive,
            sensitive_answer,
            checkpoint: None,
        };
        self.emit_node(draft, ix, NodeEvent::InterruptRequested(Box::new(requested)), cause);
        if let Some(questions) = questions {
            let asked = ClarificationRequested { interrupt_id, questions, sensitive };
            self.emit_node(draft, ix, NodeEvent::ClarificationRequested(asked), draft.last_sequence());
        }
        match at_once {
            Some(value) => self.settle_at_once(draft, interrupt_id, value),
            None => {
                self.escalate(draft, Some(ix), interrupt_id, 1);
                self.mirror_question(draft, interrupt_id, agent.as_deref());
            }
        }
        interrupt_id
    }

    /// Goes on with a node whose interrupts are all closed.
    pub(crate) fn go_on(&mut self, draft: &mut Draft, ix: NodeIx, cause: u64) {
        let node = self.node(ix);
        if node.work.is_some() {
            // What has come was asked for by its key, and is told when it is asked for again.
            let interrupt_id = node
                .last_interrupt
                .filter(|id| node.phase == NodePhase::Suspended && !self.state.open.contains_key(id));
            return self.emit_node(draft, ix, NodeEvent::Resumed(NodeResumed { interrupt_id }), Some(cause));
        }
        let interrupt_id = node.last_interrupt;
        let inputs = Inputs { values: node.inputs.clone().unwrap_or_default(), sensitive: node.sensitive };
        self.emit_node(draft, ix, NodeEvent::Resumed(NodeResumed { interrupt_id }), Some(cause));
        if self.is_by_hand(ix) {
            return self.go_on_by_hand(draft, ix);
        }
        self.converse(draft, ix, &inputs);
    }

    /// Closes an interrupt with an answer that was checked.
    pub(crate) fn resolve(&mut self, draft: &mut Draft, id: InterruptId, checked: Checked) {
        self.resolve_as(draft, id, checked, None);
    }

    /// Closes an interrupt with an answer that was checked, or with what stands for one.
    pub(crate) fn resolve_as(
        &mut self,
        draft: &mut Draft,
        id: InterruptId,
        checked: Checked,
        why: Option<(Resolution, &str)>,
    ) {
        let open = &self.state.open[&id];
        let (ix, kind, sensitive) = (open.node, open.requested.kind, open.requested.sensitive_answer);
        let asked = kind.is_of_conversation().then(|| open.requested.clone());
        let said = asked.as_ref().map(|_| (checked.value.clone(), checked.by.clone()));
        let mut outcome = Resolution::Resolved;
        let mut reason = None;
        if let Some(decision) = checked.decision {
            if matches!(decision.action, Action::Reject | Action::Timeout) {
                outcome = Resolution::Rejected;
            }
            reason = decision.reason.clone();
            let received = ApprovalReceived {
                interrupt_id: id,
                action: decision.action,
                decided_by: decision.decided_by,
                feedback: decision.feedback,
                reason: decision.reason,
                refine_feedback: decision.refine_feedback,
                edited_artifact_data: decision.edited_artifact_data,
                cast_by: decision.cast_by,
                qualified_by: checked.qualified_by,
                sensitive,
            };
            self.emit_of(draft, ix, NodeEvent::ApprovalReceived(Box::new(received)), None);
        }
        if let Some(answers) = checked.answers {
            let answered_by = checked.by.clone();
            let resolved = ClarificationResolved { interrupt_id: id, answers, answered_by, sensitive };
            self.emit_of(draft, ix, NodeEvent::ClarificationResolved(resolved), None);
        }
        if let Some((instead, why)) = why {
            (outcome, reason) = (instead, Some(why.to_owned()));
        }
        let resolved = InterruptResolved {
            interrupt_id: id,
            kind,
            resume_value: Some(checked.value),
            outcome,
            reason,
            resolved_by: checked.by,
            sensitive,
        };
        let cause = draft.last_sequence();
        self.emit_of(draft, ix, NodeEvent::InterruptResolved(Box::new(resolved)), cause);
        if let (Some(asked), Some((value, by))) = (asked, said) {
            self.tell_conversation(draft, ix, &asked, (&value, &by, sensitive));
        }
    }

    /// Closes an interrupt whose end has come. Timers may be heard late and in any order, so what was due first
    /// counts, and not which was heard.
    pub(crate) fn end_interrupt(&mut self, draft: &mut Draft, id: InterruptId) {
        // Whatever was due before that is recorded first, and may have ended it.
        self.climb(draft, id);
        let Some(open) = self.state.open.get(&id) else { return };
        let given_up = open.given_up_at();
        match open.occasion() {
            Some(due) if given_up.is_none_or(|end| due < end) => self.happen(draft, id),
            _ => self.time_out_interrupt(draft, id),
        }
    }

    /// Closes an interrupt that nobody answered in time.
    fn time_out_interrupt(&mut self, draft: &mut Draft, id: InterruptId) {
        let open = &self.state.open[&id];
        let (ix, kind) = (open.node, open.requested.kind);
        let approval = kind == InterruptKind::Approval;
        if approval {
            let received = ApprovalReceived {
                interrupt_id: id,
                action: Action::Timeout,
                decided_by: BY_TIMEOUT.to_owned(),
                feedback: None,
                reason: Some("timeout".to_owned()),
                refine_feedback: None,
                edited_artifact_data: None,
                cast_by: None,
                qualified_by: Vec::new(),
                sensitive: false,
            };
            self.emit_of(draft, ix, NodeEvent::ApprovalReceived(Box::new(received)), None);
        }
        let outcome = if approval { Resolution::Rejected } else { Resolution::Timeout };
        self.close(draft, id, outcome, "timeout", BY_TIMEOUT);
    }

    /// Resolves an interrupt that waited for a time, which has come.
    fn happen(&mut self, draft: &mut Draft, id: InterruptId) {
        let open = &self.state.open[&id];
        let event = open.requested.data.parse::<JsonMap>().ok().and_then(|mut data| data.remove("eventType"));
        let payload: JsonMap = event.map(|event| ("eventType".to_owned(), event)).into_iter().collect();
        let value = Json::of(&JsonMap::from([("eventPayload".to_owned(), Json::of(&payload))]));
        let by = BY_SCHEDULE.to_owned();
        self.resolve(
            draft,
            id,
            Checked { value, decision: None, answers: None, by, qualified_by: Vec::new() },
        );
    }

    pub(crate) fn close(
        &mut self,
        draft: &mut Draft,
        id: InterruptId,
        outcome: Resolution,
        reason: &str,
        by: &str,
    ) {
        let open = &self.state.open[&id];
        let (ix, kind) = (open.node, open.requested.kind);
        let resolved = InterruptResolved {
            interrupt_id: id,
            kind,
            resume_value: None,
            outcome,
            reason: Some(reason.to_owned()),
            resolved_by: by.to_owned(),
            sensitive: false,
        };
        let cause = draft.last_sequence();
        self.emit_of(draft, ix, NodeEvent::InterruptResolved(Box::new(resolved)), cause);
    }

    /// A node that a worker has done leaves nothing open that nobody else waits for.
    pub(crate) fn close_asked(&mut self, draft: &mut Draft, ix: NodeIx) {
        if self.node(ix).work.is_none() {
            return;
        }
        // Whoever else works may have asked the same by its key, and wait for it without having stopped.
        let mut nodes = self.state.nodes.iter().enumerate();
        let alone = !nodes.any(|(other, node)| other != ix as usize && node.work.is_some());
        let own = |open: &&Open| {
            let asked = open.node.is_some_and(|asker| asker == ix || self.node(asker).phase.is_settled());
            asked && (alone || open.requested.keyless) && open.waiters.iter().all(|waiter| *waiter == ix)
        };
        let open = self.state.open.values().filter(own).map(|open| open.requested.interrupt_id);
        for id in open.collect::<Vec<_>>() {
            self.close(draft, id, Resolution::Cancelled, NODE_ENDED, BY_RUN);
        }
    }

    /// A run that ends leaves nothing open.
    pub(crate) fn close_interrupts(&mut self, draft: &mut Draft, ending: &Ending) {
        let open: Vec<InterruptId> = self.state.open.keys().copied().collect();
        for id in open {
            self.close(draft, id, Resolution::Cancelled, ending.closes(), BY_RUN);
        }
    }
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_requested(
        &mut self,
        ix: Option<NodeIx>,
        requested: &InterruptRequested,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let id = requested.interrupt_id;
        if id != InterruptId::of(&self.salt, folding.sequence) {
            return Err("the interrupt has an id of another place".to_owned());
        }
        let occasion = match requested.kind {
            InterruptKind::ExternalEvent => scheduled_time(&requested.data)?,
            _ => None,
        };
        let open = Open {
            requested: requested.clone(),
            at: folding.at,
            node: ix,
            waiters: Vec::new(),
            attempt: 1,
            refused: None,
            shifted_ms: 0,
            // What work in hand asks while the run is stopped stands still from the beginning.
            stands_since: (self.state.hold == Hold::Stopped).then_some(folding.at),
            votes: Vec::new(),
            cast: 0,
            exchanges: Vec::new(),
        };
        self.fold_turn_asked(requested);
        if !requested.kind.is_momentary() {
            self.await_answer(&open, occasion, folding);
        }
        self.state.open.insert(id, open);
        self.fold_asked_intent(requested, folding);
        let Some(ix) = ix else { return Ok(()) };
        let node = &mut self.state.nodes[ix as usize];
        node.asked += 1;
        if let Some(work) = node.work.as_deref_mut() {
            work.losses = 0;
        }
        Ok(())
    }

    pub(crate) fn fold_suspended(&mut self, ix: NodeIx, suspended: &NodeSuspended) -> Result<(), String> {
        let id = suspended.interrupt_id;
        let open = self.state.open.get_mut(&id).ok_or("the node is stopped for what is not open")?;
        open.waiters.push(ix);
        let node = &mut self.state.nodes[ix as usize];
        node.stopped_for.insert(id);
        node.last_interrupt = Some(id);
        Ok(())
    }

    pub(crate) fn fold_resolved(
        &mut self,
        resolved: &InterruptResolved,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        let id = resolved.interrupt_id;
        let open = self.state.open.remove(&id).ok_or("what is resolved is not open")?;
        self.disarm(&TimerId::Interrupt(id), folding);
        self.disarm(&TimerId::Occasion(id), folding);
        self.disarm(&TimerId::Attempt(id), folding);
        self.disarm(&TimerId::Grace(id), folding);
        self.fold_closed_intent(&open, resolved, folding.at);
        if !open.requested.kind.is_momentary() {
            folding.effects.push(Effect::CloseInterrupt(ClosedInterrupt {
                id,
                kind: open.requested.kind,
                outcome: resolved.outcome,
                by: resolved.resolved_by.clone(),
                at: folding.at,
                told: open.requested.ladder.is_some(),
            }));
            self.call_end_hook(&open, resolved.outcome, folding);
        }
        self.fold_planning_resolved(&open.requested, resolved);
        // Nobody waits for the answer to what the run itself asks, so nobody has to hear that it was lost.
        if resolved.outcome == Resolution::Cancelled && open.requested.topic.is_none() {
            self.state.lost.insert(id, resolved.reason.clone().unwrap_or_default());
        }
        let requested = open.requested;
        let answered = Answered {
            kind: requested.kind,
            resume_schema: requested.resume_schema,
            only: open.node.filter(|_| requested.keyless),
            value: resolved.resume_value.clone(),
            outcome: resolved.outcome,
            sensitive: resolved.sensitive,
            id: Some(id),
            by: Some(resolved.resolved_by.clone()),
        };
        let asker = open.node;
        // Nobody waited for what was closed because its node ended. Whoever asks the same later asks anew.
        let ended =
            resolved.outcome == Resolution::Cancelled && resolved.reason.as_deref() == Some(NODE_ENDED);
        // Nor does anybody ask the run's own question again: each is asked once.
        if asker.is_some() && !ended {
            self.state.answers.insert(requested.key, answered);
        }
        for waiter in open.waiters {
            let node = &mut self.state.nodes[waiter as usize];
            node.stopped_for.remove(&id);
            node.last_interrupt = Some(id);
            if node.work.is_some() {
                // What it makes of the answer is never shown either.
                node.sensitive |= resolved.sensitive && Some(waiter) != asker;
                self.rouse(waiter, folding);
            } else if node.stopped_for.is_empty() && node.phase == NodePhase::Suspended {
                self.state.answered.push_back((waiter, folding.sequence));
            }
        }
        if let Some(asker) = asker.filter(|&ix| self.node(ix).phase == NodePhase::Running) {
            self.rouse(asker, folding);
        }
        Ok(())
    }

    pub(crate) fn fold_resumed(&mut self, ix: NodeIx, folding: &mut Folding<'_>) -> Result<(), String> {
        match self.state.answered.pop_front() {
            Some((next, _)) if next == ix => {}
            _ => return Err("the node was not next in line".to_owned()),
        }
        self.disarm(&TimerId::Stretch, folding);
        if self.node(ix).work.is_some() {
            self.fold_unparked(ix, folding);
        }
        Ok(())
    }

    /// An execution is over: nobody can ask with the keys that were its own.
    pub(crate) fn forget_keyless(&mut self, ix: NodeIx) {
        self.state.answered.retain(|(node, _)| *node != ix);
        self.state.nodes[ix as usize].stopped_for.clear();
        if self.state.nodes[ix as usize].asked > 0 {
            self.state.answers.retain(|_, answered| answered.only != Some(ix));
        }
    }
}
