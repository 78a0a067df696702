//! How a run goes on by itself: it starts what is ready, skips what nothing led to, and ends when nothing is left.
//!
//! A stretch of pure nodes runs inside one decision and so costs one commit.

use crate::command::Draft;
use crate::condition::Condition;
use crate::event::{
    ArtifactCreated, Cancellation, CapBreached, Completed, Event, Failed, Failure, LoopRestarted,
    LoopbackLimit, NodeCancelled, NodeCompleted, NodeEvent, NodeFailed, NodeSkipped, NodeStarted, Offered,
    READING_OF_ARTIFACTS, READING_OF_INTERRUPTS, READING_OF_TURNS, RunEvent, TurnBegan, TurnEnd,
    VariableChanged, Yielded,
};
use crate::expression::Fuel;
use crate::graph::{LoopIx, Work};
use crate::perform::{Change, Product};
use crate::ports::{self, Inputs};
use crate::run::Ending;
use crate::scope::{RunScope, Source};
use crate::turn::Stage;
use crate::{Hold, Json, Millis, NodeIx, NodePhase, Run, limits};

/// How a node goes on once it has started.
enum Course {
    /// It is done within the decision.
    Done(Result<Product, Failure>),
    /// It waits for a time.
    Wait(Millis),
    /// It is handed to an executor.
    Dispatch,
    /// It is handed to workers.
    Offer(Offered),
    /// It starts children.
    Children,
    /// It asks.
    Converse,
    /// It asks a model.
    Turn(Box<TurnBegan>),
    /// It waits for somebody outside.
    ByHand,
}

impl Run {
    /// Does everything that can be done now, and ends the run if that is due.
    pub(crate) fn advance(&mut self, draft: &mut Draft) {
        let mut budget = limits::STRETCH_NODES_MAX;
        while self.has_next() {
            if budget == 0 || draft.bytes > limits::STRETCH_BYTES_MAX {
                return draft.emit_run(self, RunEvent::Yielded(Yielded {}), None);
            }
            budget -= 1;
            self.take_next(draft);
        }
        self.come_to_rest(draft);
    }

    /// Whether something stands in line that may be done now.
    pub(crate) fn has_next(&self) -> bool {
        let state = &self.state;
        let in_line = !(state.answered.is_empty()
            && state.workers.is_empty()
            && state.doomed.is_empty()
            && state.restarts.is_empty()
            && state.ready.is_empty());
        in_line && state.ending.is_none() && state.hold == Hold::None && !self.is_kept_back()
    }

    /// Does what stands in line next.
    pub(crate) fn take_next(&mut self, draft: &mut Draft) {
        let state = &self.state;
        let next = (
            state.answered.front().copied(),
            state.workers.front().copied(),
            state.doomed.front().copied(),
            state.restarts.front().copied(),
            state.ready.front().copied(),
        );
        match next {
            (Some((ix, cause)), ..) => self.go_on(draft, ix, cause),
            (_, Some((ix, cause)), ..) => self.next_worker(draft, ix, Some(cause)),
            (_, _, Some((ix, cause)), ..) => self.skip(draft, ix, "trigger-rule", cause),
            (_, _, _, Some((found, cause)), _) => self.start_over(draft, found, cause),
            (.., Some((ix, cause))) => self.execute(draft, ix, cause),
            _ => {}
        }
    }

    /// Ends or pauses the run, if that is due.
    pub(crate) fn come_to_rest(&mut self, draft: &mut Draft) {
        let ending = self.state.ending.clone();
        self.conclude(draft, ending);
        self.settle_pause(draft);
    }

    fn skip(&mut self, draft: &mut Draft, ix: NodeIx, reason: &str, cause: u64) {
        let event = NodeEvent::Skipped(NodeSkipped { reason: reason.to_owned() });
        self.emit_node(draft, ix, event, Some(cause));
    }

    /// Starts a loop over, unless it has gone back as often as it may.
    fn start_over(&mut self, draft: &mut Draft, found: LoopIx, cause: u64) {
        let (iteration, limit) = (self.state.loops[found as usize].iteration, self.loop_limit(found));
        let head = self.graph.at(self.graph.loop_at(found).head).id.to_string();
        if iteration < limit {
            let restarted = LoopRestarted { node: head, iteration: iteration + 1 };
            return draft.emit_run(self, RunEvent::LoopRestarted(restarted), Some(cause));
        }
        let told = LoopbackLimit { node_id: head.clone(), iterations: iteration };
        draft.emit_run(self, RunEvent::LoopbackLimit(told), Some(cause));
        self.breach(draft, "loop-iterations", limit.into(), u64::from(limit) + 1, Some(head));
    }

    /// How often a loop may go back: what one of its own nodes declares, else what the definition says.
    fn loop_limit(&self, found: LoopIx) -> u32 {
        let graph = &self.graph;
        let own = graph.loop_at(found).members.iter().map(|&member| graph.at(member));
        let declared = own.filter(|node| node.loops.first() == Some(&found)).find_map(|node| node.loop_max);
        let limit = declared
            .or(graph.settings.loopbacks_max)
            .unwrap_or(crate::definition::DEFAULT_LOOP_MAX)
            .min(limits::LOOPBACKS_MAX);
        self.state.caps.loopbacks.map_or(limit, |most| most.min(limit))
    }

    /// A limit was reached: the run is going to fail.
    pub(crate) fn breach(
        &mut self,
        draft: &mut Draft,
        kind: &str,
        limit: u64,
        observed: u64,
        node: Option<String>,
    ) {
        let breach = CapBreached { kind: kind.to_owned(), limit, observed, node_id: node };
        let cause = draft.last_sequence();
        draft.emit_run(self, RunEvent::CapBreached(breach), cause);
    }

    fn execute(&mut self, draft: &mut Draft, ix: NodeIx, cause: u64) {
        let node = self.graph.at(ix);
        let (id, type_id, disabled) = (node.id.clone(), node.type_id.clone(), node.disabled);
        let (execution, attempt) = (self.node(ix).execution, self.node(ix).attempt);
        if disabled {
            return self.skip(draft, ix, "disabled", cause);
        }
        let mut started = NodeStarted {
            type_id,
            execution,
            until: None,
            dispatched: false,
            attempt,
            inputs: None,
            sensitive: false,
            for_child: false,
            offer: None,
            by_hand: false,
        };
        let turn = self.node(ix).turn.as_deref().filter(|turn| !turn.is_sealed());
        if turn.is_some_and(|turn| turn.stage != Stage::Broken) {
            return self.call_model(draft, ix, Some(cause));
        }
        if attempt > 0 {
            let again = turn.is_some();
            started.dispatched = !again;
            self.emit_node(draft, ix, NodeEvent::Started(started), Some(cause));
            if again {
                self.call_model(draft, ix, draft.last_sequence());
            }
            return;
        }
        let limit = self.state.caps.node_executions.unwrap_or(limits::NODE_EXECUTIONS_MAX);
        if self.state.executions >= limit {
            return self.breach(draft, "node-executions", limit, limit + 1, Some(id.to_string()));
        }
        if let Work::Dispatch(work) = &self.graph.at(ix).work
            && let Some(most) = work.iterations_max.filter(|&most| execution >= most)
        {
            let observed = u64::from(execution) + 1;
            return self.breach(draft, "dispatch-iterations", most.into(), observed, Some(id.to_string()));
        }
        started.execution += 1;
        self.begin_execution(draft, ix, cause, started);
    }

    fn begin_execution(&mut self, draft: &mut Draft, ix: NodeIx, cause: u64, mut started: NodeStarted) {
        let (course, inputs) = match self.resolve_inputs(ix) {
            Ok(inputs) => (self.course(ix, &inputs, draft, started.execution), inputs),
            Err(failure) => (Course::Done(Err(failure)), Inputs::default()),
        };
        started.sensitive = inputs.sensitive || matches!(&course, Course::Turn(began) if began.sensitive);
        match &course {
            Course::Wait(until) => started.until = Some(*until),
            Course::Dispatch | Course::Converse | Course::Offer(_) => {
                started.dispatched = !matches!(course, Course::Converse);
                if let Course::Offer(offered) = &course {
                    started.offer = Some(offered.clone());
                }
                // Empty inputs are recorded too: an optional port may have a value by the time it is executed.
                let given = !self.graph.at(ix).inputs.is_empty() || !inputs.values.is_empty();
                started.inputs = given.then(|| inputs.values.clone());
            }
            Course::Children => {
                started.for_child = self.waits_for_child(ix) && self.unsure_decision(ix).is_none();
            }
            Course::ByHand => started.by_hand = true,
            Course::Done(_) | Course::Turn(_) => {}
        }
        self.emit_node(draft, ix, NodeEvent::Started(started), Some(cause));
        match course {
            Course::Done(Ok(product)) => self.finish(draft, ix, product),
            Course::Done(Err(error)) => self.give_up(draft, ix, error),
            Course::Children => self.begin_children(draft, ix, inputs),
            Course::Converse => self.converse(draft, ix, &inputs),
            Course::Turn(began) => {
                let cause = draft.last_sequence();
                self.emit_node(draft, ix, NodeEvent::TurnBegan(began), cause);
                self.call_model(draft, ix, draft.last_sequence());
            }
            Course::ByHand => self.grant(draft, ix),
            Course::Wait(_) | Course::Dispatch | Course::Offer(_) => {}
        }
    }

    fn course(&self, ix: NodeIx, inputs: &Inputs, draft: &Draft, execution: u32) -> Course {
        let node = self.graph.at(ix);
        if let (Work::Unknown, Some(recorded)) = (&node.work, &draft.defaults.recorded)
            && let Some(offered) = recorded.offer(&node.id, execution)
        {
            return Course::Offer(offered);
        }
        if let (Work::Unknown, Some(provided)) = (&node.work, draft.defaults.kinds.get(&*node.type_id)) {
            let reversible = node.reversible.or(provided.reversible);
            return Course::Offer(Offered {
                agent: node.agent.as_deref().map(ToOwned::to_owned),
                idempotent: node.told_idempotent.unwrap_or(provided.idempotent),
                reversible: reversible == Some(true),
                irreversible: reversible == Some(false),
                timeout_ms: node.timeout_ms.or(provided.timeout_ms),
            });
        }
        if self.state.reading == 0 && !node.kind.is_of_first_release() {
            return Course::Done(Err(unknown_kind(&node.id, &node.type_id)));
        }
        if self.state.reading < READING_OF_INTERRUPTS && node.kind.form().is_some() {
            return Course::Done(Err(unknown_kind(&node.id, &node.type_id)));
        }
        if self.state.reading < READING_OF_TURNS && node.kind.is_turn() {
            return Course::Done(Err(unknown_kind(&node.id, &node.type_id)));
        }
        match &node.work {
            Work::Turn(work) => match self.begin_turn(ix, work, inputs, execution, &draft.defaults) {
                Ok(began) => Course::Turn(Box::new(began)),
                Err(failure) => Course::Done(Err(failure)),
            },
            Work::Delay => match ports::delay_ms(node, inputs) {
                Ok(ms) => Course::Wait(draft.now.saturating_add(ms)),
                Err(failure) => Course::Done(Err(failure)),
            },
            Work::Unknown => Course::Done(Err(unknown_kind(&node.id, &node.type_id))),
            Work::Unfit(reason) => Course::Done(Err(Failure::new("invalid_config", reason.clone()))),
            Work::SubWorkflow(_) | Work::Dispatch(_) | Work::Phase(_) => Course::Children,
            Work::ByHand(_) => Course::ByHand,
            Work::Gate(_) | Work::Supervisor(_) | Work::MockAgent(_) => Course::Converse,
            _ if self.is_dispatched(ix) => Course::Dispatch,
            _ => Course::Done(self.perform(ix, inputs)),
        }
    }

    /// A node has done its work: what it wants changed is changed, and it is complete.
    pub(crate) fn finish(&mut self, draft: &mut Draft, ix: NodeIx, product: Product) {
        let assigned = product.changes.iter().filter_map(|change| match change {
            Change::Variable { name, value } => Some((name.as_str(), value)),
            _ => None,
        });
        if let Err(failure) = self.check_variables(&assigned.collect()) {
            return self.give_up(draft, ix, failure);
        }
        for change in &product.changes {
            if let Err(failure) = self.check_change(change, draft.now) {
                return self.give_up(draft, ix, failure);
            }
            self.change(draft, ix, change, product.sensitive);
        }
        self.complete_made(draft, ix, (product.outputs, product.made_by), product.sensitive);
    }

    fn change(&mut self, draft: &mut Draft, ix: NodeIx, change: &Change, sensitive: bool) {
        let cause = draft.last_sequence();
        match change {
            Change::Variable { name, value } => self.set(draft, name, value, sensitive),
            Change::Channel { write } => {
                let mut write = write.clone();
                write.sensitive |= sensitive || self.hides_channel(&write.channel);
                self.emit_node(draft, ix, NodeEvent::ChannelWritten(write), cause);
            }
            Change::Decision(decision) => {
                let event = NodeEvent::Decided(crate::event::Decided { decision: decision.clone() });
                self.emit_node(draft, ix, event, cause);
            }
        }
    }

    /// Gives a variable a value, unless it has it already.
    pub(crate) fn set(&mut self, draft: &mut Draft, name: &str, value: &Json, sensitive: bool) {
        let sensitive = sensitive || self.hides_variable(name);
        if self.variables().get(name) == Some(value) && sensitive == self.hides_variable(name) {
            return;
        }
        let changed = VariableChanged { name: name.to_owned(), next: value.clone(), sensitive };
        let cause = draft.last_sequence();
        draft.emit_run(self, RunEvent::VariableChanged(changed), cause);
    }

    /// Completes a node, and records which ways lead on.
    pub(crate) fn complete(&mut self, draft: &mut Draft, ix: NodeIx, outputs: Option<Json>, sensitive: bool) {
        self.complete_made(draft, ix, (outputs, Vec::new()), sensitive);
    }

    /// Completes a node of which it matters who did it.
    pub(crate) fn complete_made(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        (outputs, made_by): (Option<Json>, Vec<String>),
        sensitive: bool,
    ) {
        let masked = self.mask(ix, outputs.as_ref(), sensitive);
        let hidden = masked != crate::Mask::Nothing;
        let source = Source { ix, outputs: outputs.as_ref(), error: None, hidden };
        let (untaken, fault) = match self.untaken(ix, source) {
            Ok(untaken) => (untaken, None),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        self.record_completion(draft, ix, NodeCompleted { outputs, untaken, masked, fault, made_by });
    }

    /// Completes a node along all ways but some.
    pub(crate) fn complete_along(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        outputs: Json,
        untaken: Vec<String>,
        sensitive: bool,
    ) {
        let masked = self.mask(ix, Some(&outputs), sensitive);
        let completed =
            NodeCompleted { outputs: Some(outputs), untaken, masked, fault: None, made_by: Vec::new() };
        self.record_completion(draft, ix, completed);
    }

    fn record_completion(&mut self, draft: &mut Draft, ix: NodeIx, completed: NodeCompleted) {
        self.seal(draft, ix, TurnEnd::Completed, None);
        self.close_asked(draft, ix);
        let cause = draft.last_sequence();
        let made = completed.outputs.is_some();
        self.emit_node(draft, ix, NodeEvent::Completed(completed), cause);
        if made {
            self.name_artifact(draft, ix);
        }
    }

    /// Gives what a node produced a name, if its definition says what it is.
    fn name_artifact(&mut self, draft: &mut Draft, ix: NodeIx) {
        let node = self.graph.at(ix);
        let Some(kind) = node.artifact_type.as_ref().filter(|_| self.state.reading >= READING_OF_ARTIFACTS)
        else {
            return;
        };
        let created = ArtifactCreated::of(self.key.id, &node.id, self.node(ix).execution, kind);
        let cause = draft.last_sequence();
        self.emit_node(draft, ix, NodeEvent::ArtifactCreated(created), cause);
    }

    /// Fails a node for good.
    pub(crate) fn give_up(&mut self, draft: &mut Draft, ix: NodeIx, error: Failure) {
        self.close_asked(draft, ix);
        let error = self.told(ix, error);
        self.seal(draft, ix, TurnEnd::Failed, Some(error.clone()));
        // A condition that can't be evaluated is not followed, and the failure itself is what counts.
        let untaken = self.untaken(ix, Source { ix, outputs: None, error: Some(&error), hidden: false });
        let untaken = untaken.unwrap_or_else(|_| self.conditional(ix));
        let cause = draft.last_sequence();
        self.emit_node(draft, ix, NodeEvent::Failed(NodeFailed { error, untaken }), cause);
    }

    /// Whether the definition says what follows on this failure of a node.
    pub(crate) fn deals_with_failure(&self, ix: NodeIx, error: &Failure) -> bool {
        let error = self.told(ix, error.clone());
        let untaken = self.untaken(ix, Source { ix, outputs: None, error: Some(&error), hidden: false });
        self.has_route(ix, &untaken.unwrap_or_else(|_| self.conditional(ix)))
    }

    /// A failure as it is recorded: its own words may repeat what went in or came out, so they are not kept if that is
    /// never shown.
    pub(crate) fn told(&self, ix: NodeIx, error: Failure) -> Failure {
        let node = self.graph.at(ix);
        let reason = match self.node(ix).sensitive {
            true => "something sensitive went into it",
            false if node.hides_answers() => "what it produces is sensitive",
            false => return error,
        };
        let message = format!("node '{}' failed; why is withheld, because {reason}", node.id);
        Failure::new(&error.code, message)
    }

    /// The edges out of a node that are not followed, given how it ended.
    fn untaken(&self, ix: NodeIx, source: Source<'_>) -> Result<Vec<String>, Failure> {
        let graph = &self.graph;
        let branch = source.outputs.and_then(|outputs| match &graph.at(ix).work {
            Work::Branch(_) => {
                outputs.parse::<crate::JsonMap>().ok()?.remove("branch")?.parse::<String>().ok()
            }
            _ => None,
        });
        let ends = self.ends_dispatch(ix, &source);
        let scope = RunScope::edge(self, source);
        let (mut untaken, mut fuel) = (Vec::new(), Fuel::for_node());
        for &edge in &graph.at(ix).out {
            let edge = graph.edge(edge);
            let chosen = edge.case.is_none() || edge.case == branch;
            let open = chosen && !edge.implied && !(ends && edge.back.is_some());
            if !open || !holds(edge.condition.as_ref(), &scope, &mut fuel, &edge.id)? {
                untaken.push(edge.id.to_string());
            }
        }
        Ok(untaken)
    }

    /// The edges that are not followed if those are whose conditions ask for these outputs; `None` if none does. A
    /// condition on other things may hold by chance, and must not let pass what somebody decided against.
    pub(crate) fn declined_ways(&self, ix: NodeIx, outputs: &Json) -> Option<Vec<String>> {
        let source = Source { ix, outputs: Some(outputs), error: None, hidden: self.node(ix).sensitive };
        let scope = RunScope::edge(self, source);
        let mut fuel = Fuel::for_node();
        let node = self.graph.at(ix);
        let edges = node.out.iter().map(|&edge| self.graph.edge(edge));
        let (taken, untaken): (Vec<_>, Vec<_>) = edges.partition(|edge| {
            let asked = edge.condition.as_ref().is_some_and(|asks| asks.about_decision(&node.id, &scope));
            asked && holds(edge.condition.as_ref(), &scope, &mut fuel, &edge.id).unwrap_or(false)
        });
        let untaken = untaken.iter().map(|edge| edge.id.to_string()).collect();
        (!taken.is_empty()).then_some(untaken)
    }

    /// Every edge out of a node that has a condition.
    fn conditional(&self, ix: NodeIx) -> Vec<String> {
        let edges = self.graph.at(ix).out.iter().map(|&edge| self.graph.edge(edge));
        edges.filter(|edge| edge.condition.is_some()).map(|edge| edge.id.to_string()).collect()
    }

    pub(crate) fn emit_node(&mut self, draft: &mut Draft, ix: NodeIx, event: NodeEvent, cause: Option<u64>) {
        let node = self.graph.at(ix).id.clone();
        draft.emit(self, &Event::Node { node, event }, cause);
    }

    /// Records something about a question: of a node, or of the run itself.
    pub(crate) fn emit_of(
        &mut self,
        draft: &mut Draft,
        ix: Option<NodeIx>,
        event: NodeEvent,
        cause: Option<u64>,
    ) {
        let node = match ix {
            Some(ix) => self.graph.at(ix).id.clone(),
            None => self.graph.own_node.clone(),
        };
        draft.emit(self, &Event::Node { node, event }, cause);
    }

    /// Ends the run if nothing is left to do, or if it must end and no outcome is unknown.
    pub(crate) fn conclude(&mut self, draft: &mut Draft, ending: Option<Ending>) {
        if let Some(ending) = &ending {
            self.close_interrupts(draft, ending);
            self.release_all(draft, ending.closes());
            self.cancel_waiting(draft);
            self.end_planning(draft, Some(ending));
        }
        if self.state.in_flight > 0 {
            return;
        }
        let terminal = match ending {
            Some(Ending::Failed { node, error }) => RunEvent::Failed(Failed { error, failed_node_id: node }),
            Some(Ending::Cancelled { reason, by, parent, abandonment }) => {
                RunEvent::Cancelled(Cancellation {
                    reason,
                    cancelled_by: by,
                    parent_run_id: parent,
                    abandonment_reason: abandonment,
                })
            }
            // Nothing counts as done that waits for what is not, however much of it is.
            None if self.is_done()
                && self.state.bonds.blocked.is_none()
                && !self.has_unfinished_children() =>
            {
                self.close_checkpoints(draft);
                self.end_planning(draft, None);
                self.close_escalations(draft);
                RunEvent::Completed(Completed { duration_ms: draft.now - self.state.started_at })
            }
            None => return,
        };
        let cause = draft.last_sequence();
        draft.emit_run(self, terminal, cause);
    }

    /// A run that ends takes its waiting nodes along, those included whose next attempt is due but could not start;
    /// nodes that never started are left as they are.
    fn cancel_waiting(&mut self, draft: &mut Draft) {
        let began = |node: &crate::Node| {
            node.attempt > 0 || node.turn.as_deref().is_some_and(|turn| !turn.is_sealed())
        };
        let due = |node: &crate::Node| node.phase == NodePhase::Pending && node.queued && began(node);
        let nodes = self.state.nodes.iter().enumerate();
        let parked = |node: &crate::Node| matches!(node.phase, NodePhase::Waiting | NodePhase::Suspended);
        let waiting = nodes.filter(|(_, node)| parked(node) || due(node));
        let waiting: Vec<NodeIx> = waiting.map(|(ix, _)| ix as NodeIx).collect();
        for ix in waiting {
            self.seal(draft, ix, TurnEnd::Aborted, None);
            self.emit_node(draft, ix, NodeEvent::Cancelled(NodeCancelled {}), None);
        }
    }
}

fn holds(
    condition: Option<&Condition>,
    scope: &RunScope<'_>,
    fuel: &mut Fuel,
    edge: &str,
) -> Result<bool, Failure> {
    let Some(condition) = condition else { return Ok(true) };
    let told =
        |fault| scope.told(fault, condition.reads(), false, &format!("the condition of edge '{edge}'"));
    condition.holds(scope, fuel).map_err(told)
}

fn unknown_kind(node: &str, type_id: &str) -> Failure {
    let message = format!(
        "node '{node}' is of kind {type_id}, which neither this server nor any worker provides; check the spelling, or start a worker for it"
    );
    Failure::new("capability_not_provided", message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::event::READING;
    use crate::{Command, EventType, Graph, Lifecycle, RunId, Start, TenantId, TimerId};

    use super::*;

    /// A delay, and then a node of this kind, to which the edge carries a value.
    fn parked(kind: &str, config: &serde_json::Value) -> Run {
        let node = |id: &str, kind: &str, config: &serde_json::Value| json!({ "id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}, "artifactType": "report" });
        let definition = json!({
            "id": "old", "name": "Old", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
            "nodes": [node("wait", "core.delay", &json!({"ms": 5})), node("next", kind, config)],
            "edges": [{ "id": "e", "sourceNodeId": "wait", "targetNodeId": "next", "targetInput": "carried" }],
        });
        let graph = Graph::admit(definition.to_string().as_bytes()).unwrap();
        let key = RunId::from_bytes([1; 16]).of(TenantId(1));
        Run::start(Start::of(key, [2; 16], Arc::new(graph)), 0).unwrap().0
    }

    fn code_after(mut run: Run) -> Option<String> {
        let timer = TimerId::Delay { node: "wait".into(), execution: 1 };
        run.decide(Command::Fire(timer), 5).unwrap();
        run.error().map(|error| error.code.clone())
    }

    #[test]
    fn a_run_of_the_first_release_keeps_to_what_it_was_started_with() {
        let transform = json!({ "expression": "1 + 1" });
        let fail = json!({ "code": "my_own" });
        assert_eq!(code_after(parked("core.transform", &transform)), None);
        assert_eq!(code_after(parked("core.fail", &fail)).as_deref(), Some("my_own"));
        let old = |mut run: Run| {
            run.state.reading = 0;
            run
        };
        let refused = code_after(old(parked("core.transform", &transform)));
        assert_eq!(refused.as_deref(), Some("capability_not_provided"), "it was no kind then");
        let failed = code_after(old(parked("core.fail", &fail)));
        assert_eq!(failed.as_deref(), Some("node_execution_failed"), "codes were not read then");
    }

    #[test]
    fn a_run_of_a_release_that_made_no_artifacts_makes_none() {
        let made = |reading: u32| {
            let mut run = parked("core.identity", &json!({}));
            run.state.reading = reading;
            let timer = TimerId::Delay { node: "wait".into(), execution: 1 };
            let step = run.decide(Command::Fire(timer), 5).unwrap();
            assert_eq!(run.lifecycle(), Lifecycle::Completed);
            let created = EventType::by_name("artifact.created").unwrap().code;
            step.records.iter().filter(|record| record.type_code == created).count()
        };
        assert_eq!([0, 1, 2, READING].map(made), [0, 0, 1, 1]);
    }
}
