//! Nodes that run other workflows: what goes into a child, and what its end means to its parent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::Draft;
use crate::event::{
    ChildReported, ConfidenceEscalated, Failure, NodeEvent, NodeSpawned, ORCHESTRATOR_DECIDED,
};
use crate::graph::{Mapping, SubWorkflow, Work};
use crate::ports::Inputs;
use crate::scope::Source;
use crate::work::WorkChild;
use crate::{
    Json, JsonMap, Lifecycle, Millis, NodeIx, NodePhase, Notice, Run, RunId, Status, Suspension, limits,
    sha256,
};

/// How a child ended, as its parent's node sees it.
pub(crate) struct ChildEnd<'a> {
    pub(crate) child: RunId,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) outputs: &'a JsonMap,
    pub(crate) sensitive: &'a [String],
    pub(crate) error: Option<&'a Failure>,
}

/// How a child stands, for whoever looks at its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildStands {
    /// Where it stands.
    pub status: Status,
    /// Since when it waits for people, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspension>,
    /// Somebody has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed: bool,
}

/// A decision below this has to be confirmed (OpenWOP's floor for dispatch).
const CONFIDENCE_FLOOR: f64 = 0.5;

/// A decision of a supervisor that is too unsure to be carried out without asking.
pub(crate) struct Unsure {
    decision: JsonMap,
    pub(crate) kind: String,
    pub(crate) confidence: f64,
    pub(crate) workers: Vec<String>,
}

/// A child that a node asks for.
struct Child<'a> {
    workflow_id: &'a str,
    mapping: &'a Mapping,
    /// It goes when its parent goes.
    cascade: bool,
    /// The event that let it start.
    cause: Option<u64>,
}

impl<'a> ChildEnd<'a> {
    /// The end that a notice tells of.
    pub(crate) fn of(notice: &'a Notice) -> Self {
        Self {
            child: notice.from,
            lifecycle: notice.lifecycle,
            outputs: &notice.outputs,
            sensitive: &notice.sensitive,
            error: notice.error.as_ref(),
        }
    }
}

impl Run {
    /// The run at the top of the tree.
    pub fn root(&self) -> RunId {
        let parent = self.state.parent.as_ref();
        parent.map_or(self.key.id, |parent| parent.root.unwrap_or(parent.run))
    }

    /// How many runs lie above this one.
    pub fn depth(&self) -> u32 {
        match &self.state.parent {
            Some(parent) => parent.depth.unwrap_or(1),
            None => self.state.forked.as_ref().map_or(0, |forked| forked.depth),
        }
    }

    /// Whether a node that starts children waits for them.
    pub(crate) fn waits_for_child(&self, ix: NodeIx) -> bool {
        match &self.graph.at(ix).work {
            Work::SubWorkflow(work) => work.wait,
            Work::Phase(_) => true,
            Work::Dispatch(_) => matches!(self.workers(ix), Ok(Some(workers)) if !workers.is_empty()),
            _ => false,
        }
    }

    /// Starts what a node runs, once the node itself has started.
    pub(crate) fn begin_children(&mut self, draft: &mut Draft, ix: NodeIx, inputs: Inputs) {
        let graph = self.graph.clone();
        match &graph.at(ix).work {
            Work::SubWorkflow(work) => self.begin_sub_workflow(draft, ix, work, inputs),
            Work::Phase(work) => self.begin_phase(draft, ix, work),
            Work::Dispatch(_) => match self.unsure_decision(ix) {
                Some(unsure) => self.ask_for_dispatch(draft, ix, unsure, &inputs),
                None => self.begin_workers(draft, ix),
            },
            _ => {}
        }
    }

    /// Starts the first of the workers that a dispatch was given.
    pub(crate) fn begin_workers(&mut self, draft: &mut Draft, ix: NodeIx) {
        let graph = self.graph.clone();
        let Work::Dispatch(work) = &graph.at(ix).work else { return };
        match self.workers(ix) {
            Ok(workers) if workers.as_ref().is_none_or(Vec::is_empty) => {
                let outputs = Json::of(&serde_json::json!({ "dispatched": 0 }));
                self.complete(draft, ix, Some(outputs), false);
            }
            Ok(Some(workers)) if workers.len() > 1 && work.one_only => {
                let message = format!(
                    "node '{}' was given {} workers, and its policy is reject",
                    graph.at(ix).id,
                    workers.len()
                );
                self.give_up(draft, ix, Failure::new("fan_out_unsupported", message));
            }
            Ok(_) => {
                let cause = draft.last_sequence();
                self.next_worker(draft, ix, cause);
            }
            Err(failure) => self.give_up(draft, ix, failure),
        }
    }

    /// Tells that a decision is too unsure to be carried out, and has somebody asked.
    fn ask_for_dispatch(&mut self, draft: &mut Draft, ix: NodeIx, unsure: Unsure, inputs: &Inputs) {
        let worker_id = unsure.workers.first().cloned();
        let escalated = ConfidenceEscalated {
            confidence: unsure.confidence,
            floor: CONFIDENCE_FLOOR,
            worker_id,
            original_decision: unsure.decision,
        };
        // What led here is the decision itself, if it was made just now.
        let decided =
            draft.step.records.iter().rev().find(|record| record.type_code == ORCHESTRATOR_DECIDED.code);
        let cause = decided.map(|record| record.sequence).or(draft.last_sequence());
        let event = NodeEvent::ConfidenceEscalated(Box::new(escalated));
        self.emit_node(draft, ix, event, cause);
        self.converse(draft, ix, inputs);
    }

    /// The decision before a dispatch, if it is too unsure to be carried out without asking.
    pub(crate) fn unsure_decision(&self, ix: NodeIx) -> Option<Unsure> {
        let decision = self.decision(ix)?;
        let confidence = decision.get("confidence")?.parse::<f64>().ok()?;
        let kind = decision.get("kind")?.parse::<String>().ok()?;
        if confidence >= CONFIDENCE_FLOOR || !["next-worker", "terminate"].contains(&kind.as_str()) {
            return None;
        }
        let workers = decision.get("nextWorkerIds").and_then(|ids| ids.parse().ok()).unwrap_or_default();
        Some(Unsure { decision, kind, confidence, workers })
    }

    fn begin_sub_workflow(&mut self, draft: &mut Draft, ix: NodeIx, work: &SubWorkflow, inputs: Inputs) {
        let SubWorkflow { workflow_id, mapping, cascade, .. } = work;
        let asked = Child { workflow_id, mapping, cascade: *cascade, cause: draft.last_sequence() };
        if self.spawn_child(draft, ix, &asked, inputs) && !work.wait {
            let child = self.node(ix).child;
            let outputs = Json::of(&serde_json::json!({ "childRunId": child, "childStatus": "pending" }));
            self.complete(draft, ix, Some(outputs), false);
        }
    }

    /// Asks for a child, or fails the node if there are too many above it.
    fn spawn_child(&mut self, draft: &mut Draft, ix: NodeIx, asked: &Child<'_>, inputs: Inputs) -> bool {
        if let Err(failure) = self.check_depth(ix) {
            self.give_up(draft, ix, failure);
            return false;
        }
        let mut sensitive: Vec<String> =
            if inputs.sensitive { inputs.values.keys().cloned().collect() } else { Vec::new() };
        let (mut values, mut unset) = (inputs.values, Vec::new());
        for (theirs, ours) in &asked.mapping.inputs {
            match self.variables().get(ours) {
                Some(value) => drop(values.insert(theirs.clone(), value.clone())),
                None => unset.push(theirs.clone()),
            }
            if self.hides_variable(ours) && !sensitive.contains(theirs) {
                sensitive.push(theirs.clone());
            }
        }
        let spawned = NodeSpawned {
            child: self.child_id(draft, ix),
            workflow_id: asked.workflow_id.to_owned(),
            inputs: values,
            sensitive,
            unset,
            harvest: asked.mapping.outputs.values().cloned().collect(),
            cascade: asked.cascade,
            key: None,
            waits: self.node(ix).phase == NodePhase::Running && self.waits_for_child(ix),
            elsewhere: false,
        };
        self.emit_node(draft, ix, NodeEvent::Spawned(spawned), asked.cause);
        true
    }

    pub(crate) fn check_depth(&self, ix: NodeIx) -> Result<(), Failure> {
        if self.depth() < limits::CHILD_DEPTH_MAX {
            return Ok(());
        }
        let message = format!(
            "node '{}' would start a child {} runs below the first; does a workflow call itself without end?",
            self.graph.at(ix).id,
            limits::CHILD_DEPTH_MAX
        );
        Err(Failure::new("child_depth_exceeded", message))
    }

    /// Starts a child that a worker asked for. Its end is told to the worker, and is nothing to the node.
    pub(crate) fn spawn_for_worker(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        asked: WorkChild,
    ) -> Result<(), Failure> {
        self.check_depth(ix)?;
        let hidden = self.node(ix).sensitive || self.graph.at(ix).hides_answers();
        let sensitive = if hidden { asked.inputs.keys().cloned().collect() } else { Vec::new() };
        let spawned = NodeSpawned {
            child: self.child_id(draft, ix),
            workflow_id: asked.workflow_id,
            inputs: asked.inputs,
            sensitive,
            unset: Vec::new(),
            harvest: asked.outputs,
            cascade: asked.cascade,
            key: Some(asked.key),
            waits: false,
            elsewhere: false,
        };
        self.emit_node(draft, ix, NodeEvent::Spawned(spawned), None);
        Ok(())
    }

    /// A child's id. A replay starts none, and names those of the run that it replays.
    fn child_of(&self, draft: &Draft, ix: NodeIx) -> Option<RunId> {
        let node = self.node(ix);
        draft.defaults.recorded.as_ref()?.child(&self.graph.at(ix).id, node.execution, node.children)
    }

    pub(crate) fn child_id(&self, draft: &Draft, ix: NodeIx) -> RunId {
        self.child_of(draft, ix).unwrap_or_else(|| self.own_child(draft.now))
    }

    /// A child's own id: of the usual form, but drawn from the run's secret and the place in its journal.
    pub(crate) fn own_child(&self, now: Millis) -> RunId {
        let mut seed = b"child".to_vec();
        seed.extend(self.salt);
        seed.extend(self.key.id.as_bytes());
        seed.extend(self.head.next.to_be_bytes());
        let hash = sha256(&seed);
        let mut random = [0; 10];
        random.copy_from_slice(&hash[..10]);
        let ms = u64::try_from(now).unwrap_or(0);
        RunId(uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid())
    }

    /// A child that a node waits for has ended.
    pub(crate) fn child_ended(&mut self, draft: &mut Draft, ix: NodeIx, end: &ChildEnd<'_>) {
        let graph = self.graph.clone();
        match &graph.at(ix).work {
            Work::SubWorkflow(work) => self.end_sub_workflow(draft, ix, work, end),
            Work::Phase(_) => self.end_phase(draft, ix, end),
            Work::Dispatch(work) => {
                if end.lifecycle == Lifecycle::Completed
                    && let Err(failure) = self.harvest(draft, &work.mapping, end)
                {
                    return self.give_up(draft, ix, failure);
                }
                // The next worker stands in line then, so that a run that is held does not start it.
                if !self.has_more_workers(ix) {
                    self.complete(draft, ix, Some(child_outputs(end)), false);
                }
            }
            _ => {}
        }
    }

    /// A child that a node waits for could not be started. There never was one, so the reason is the node's own.
    pub(crate) fn child_refused(&mut self, draft: &mut Draft, ix: NodeIx, child: RunId, error: &Failure) {
        let goes_on = match &self.graph.at(ix).work {
            Work::SubWorkflow(work) => work.absorb,
            Work::Phase(_) => false,
            _ => true,
        };
        if !goes_on {
            return self.give_up(draft, ix, error.clone());
        }
        let (outputs, error) = (&JsonMap::new(), Some(error));
        let end = ChildEnd { child, lifecycle: Lifecycle::Failed, outputs, sensitive: &[], error };
        self.child_ended(draft, ix, &end);
    }

    fn end_sub_workflow(&mut self, draft: &mut Draft, ix: NodeIx, work: &SubWorkflow, end: &ChildEnd<'_>) {
        if end.lifecycle == Lifecycle::Completed {
            return match self.harvest(draft, &work.mapping, end) {
                Ok(()) => self.complete(draft, ix, Some(child_outputs(end)), false),
                Err(failure) => self.give_up(draft, ix, failure),
            };
        }
        if work.absorb {
            return self.complete(draft, ix, Some(child_outputs(end)), false);
        }
        self.fail_with_child(draft, ix, end);
    }

    /// The node fails with the child that it waited for.
    pub(crate) fn fail_with_child(&mut self, draft: &mut Draft, ix: NodeIx, end: &ChildEnd<'_>) {
        let (code, word) = match end.lifecycle {
            Lifecycle::Cancelled => ("child_cancelled", "was cancelled"),
            _ => ("child_failed", "failed"),
        };
        // Only the first failure is told on: a chain of children would otherwise repeat all of them at each step.
        let cause = end.error.map(|error| first_cause(end.child, error));
        let why = cause.as_ref().map_or(String::new(), |cause| format!(": {}", cause.message));
        let message = format!("{}, which node '{}' waited for, {word}{why}", end.child, self.graph.at(ix).id);
        let details = serde_json::json!({ "childRunId": end.child, "cause": cause });
        let failure = Failure { details: Some(Json::of(&details)), ..Failure::new(code, message) };
        self.give_up(draft, ix, failure);
    }

    /// Takes over what a completed child gives back.
    fn harvest(&mut self, draft: &mut Draft, mapping: &Mapping, end: &ChildEnd<'_>) -> Result<(), Failure> {
        let given: BTreeMap<&str, &Json> = mapping
            .outputs
            .iter()
            .filter_map(|(ours, theirs)| Some((ours.as_str(), end.outputs.get(theirs)?)))
            .collect();
        self.check_variables(&given)?;
        for (ours, value) in given {
            self.set(draft, ours, value, end.sensitive.contains(&mapping.outputs[ours]));
        }
        Ok(())
    }

    /// Starts the next worker of a dispatch, or the tools that a model calls.
    pub(crate) fn next_worker(&mut self, draft: &mut Draft, ix: NodeIx, cause: Option<u64>) {
        let graph = self.graph.clone();
        let Work::Dispatch(work) = &graph.at(ix).work else { return self.call_tools(draft, ix, cause) };
        let at = self.node(ix).children as usize;
        let worker = self.workers(ix).ok().flatten().and_then(|workers| workers.get(at).cloned());
        // Nothing that a supervisor does comes between a worker's being due and its start. If it did, the dispatch
        // would be over.
        let Some(worker) = worker else { return self.complete(draft, ix, None, false) };
        let child = Child { workflow_id: &worker, mapping: &work.mapping, cascade: true, cause };
        self.spawn_child(draft, ix, &child, Inputs::default());
    }

    /// Whether a dispatch has workers that it has not started.
    pub(crate) fn has_more_workers(&self, ix: NodeIx) -> bool {
        let started = self.node(ix).children as usize;
        matches!(self.graph.at(ix).work, Work::Dispatch(_))
            && matches!(self.workers(ix), Ok(Some(workers)) if workers.len() > started)
    }

    /// The workflows that the supervisor before a dispatch chose; nothing if it is done.
    fn workers(&self, ix: NodeIx) -> Result<Option<Vec<String>>, Failure> {
        let Some(decision) = self.decision(ix) else { return Ok(None) };
        let text = |key: &str| decision.get(key).and_then(|json| json.parse::<String>().ok());
        match text("kind").as_deref() {
            Some("next-worker") => {
                let ids = decision.get("nextWorkerIds").and_then(|json| json.parse::<Vec<String>>().ok());
                Ok(Some(ids.unwrap_or_default()))
            }
            Some("terminate") | None => Ok(None),
            Some(kind) => {
                let message = format!(
                    "node '{}' can't carry out a decision '{kind}' in this version",
                    self.graph.at(ix).id
                );
                Err(Failure::new("capability_not_provided", message))
            }
        }
    }

    /// What the supervisor before a dispatch decided last.
    fn decision(&self, ix: NodeIx) -> Option<JsonMap> {
        let before =
            self.graph.edges.iter().filter(|edge| edge.target == ix && !edge.implied).map(|edge| edge.source);
        before
            .filter(|&source| matches!(self.graph.at(source).work, Work::Supervisor(_)))
            .find_map(|source| self.node(source).output("decision")?.parse().ok())
    }

    /// Whether a dispatch has nothing more to do, so that nothing leads back to its supervisor.
    pub(crate) fn ends_dispatch(&self, ix: NodeIx, source: &Source<'_>) -> bool {
        let dispatch = matches!(self.graph.at(ix).work, Work::Dispatch(_));
        dispatch && source.error.is_none() && matches!(self.workers(ix), Ok(None))
    }

    /// A child that tells how it stands did so.
    pub(crate) fn fold_child_stands(&mut self, report: &ChildReported, sequence: u64) {
        let Some(ix) = self.graph.node(&report.node) else { return };
        self.fold_child_told(ix, report);
        let by_hand = self.is_by_hand(ix);
        if by_hand && report.lifecycle == Lifecycle::Completed {
            return self.forget_child(&report.node, sequence);
        }
        let node = &mut self.state.nodes[ix as usize];
        if let (Some(status), true) = (report.status, node.child == Some(report.child) && !by_hand) {
            let ChildReported { suspended, claimed, .. } = *report;
            node.child_stands = Some(ChildStands { status, suspended, claimed });
        }
    }

    /// A child that somebody had the run start is through, or never began: nothing waits for it any more.
    pub(crate) fn forget_child(&mut self, node: &str, sequence: u64) {
        let by_hand = self.graph.node(node).filter(|&ix| self.is_by_hand(ix) && !self.is_of_other(sequence));
        if let Some(ix) = by_hand {
            let node = &mut self.state.nodes[ix as usize];
            node.unfinished = node.unfinished.saturating_sub(1);
        }
    }

    /// The node that waits for this child.
    pub(crate) fn waiting_for(&self, node: &str, child: RunId) -> Option<NodeIx> {
        let ix = self.graph.node(node)?;
        let waiting = self.node(ix);
        let own = waiting.work.is_none() && waiting.turn.is_none();
        let waits = waiting.phase == NodePhase::Waiting && own && !self.is_worker_due(ix);
        (waits && waiting.child == Some(child)).then_some(ix)
    }

    /// Whether a dispatch has heard of the end of its last worker, and has yet to start the next; or whether a turn has
    /// yet to call the tools of its model's answer.
    pub(crate) fn is_worker_due(&self, ix: NodeIx) -> bool {
        self.state.workers.iter().any(|(due, _)| *due == ix)
    }
}

/// The failure at the bottom of a chain of children.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cause {
    run_id: RunId,
    code: String,
    message: String,
}

fn first_cause(child: RunId, error: &Failure) -> Cause {
    #[derive(Deserialize)]
    struct Told {
        cause: Cause,
    }
    let told = error.details.as_ref().filter(|_| error.code.starts_with("child_"));
    told.and_then(|details| details.parse::<Told>().ok()).map(|told| told.cause).unwrap_or_else(|| Cause {
        run_id: child,
        code: error.code.clone(),
        message: error.message.chars().take(limits::CAUSE_CHARS_MAX).collect(),
    })
}

fn child_outputs(end: &ChildEnd<'_>) -> Json {
    let status = match end.lifecycle {
        Lifecycle::Completed => "completed",
        Lifecycle::Cancelled => "cancelled",
        _ => "failed",
    };
    Json::of(&serde_json::json!({ "childRunId": end.child, "childStatus": status }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::command::Drain;
    use crate::event::RunEvent;
    use crate::{Command, EventType, Graph, Start, TenantId};

    use super::*;

    /// A dispatch that has started the first of two workers.
    fn dispatching() -> (Run, Vec<crate::Record>) {
        let node = |id: &str, kind: &str, config: serde_json::Value| json!({ "id": id, "typeId": kind, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {} });
        let plan =
            json!({ "mockDispatchPlan": [{ "kind": "next-worker", "nextWorkerIds": ["pick", "pack"] }] });
        let nodes =
            [node("lead", "core.orchestrator.supervisor", plan), node("work", "core.dispatch", json!({}))];
        let definition = json!({
            "id": "w", "name": "W", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
            "nodes": nodes, "edges": [{ "id": "e", "sourceNodeId": "lead", "targetNodeId": "work" }],
        });
        let graph = Graph::admit(definition.to_string().as_bytes()).unwrap().with_mocks(true);
        let key = RunId::from_bytes([1; 16]).of(TenantId(1));
        let (run, step) = Run::start(Start::of(key, [2; 16], Arc::new(graph)), 0).unwrap();
        (run, step.records)
    }

    #[test]
    fn journals_fold_in_which_a_held_run_started_its_next_worker_at_once() {
        let (mut run, mut journal) = dispatching();
        let pause = Command::Pause { reason: None, by: None, drain: Drain::Immediate };
        journal.extend(run.decide(pause, 1).unwrap().records);
        let ix = run.graph.node("work").unwrap();
        let report = ChildReported {
            child: run.node(ix).child.unwrap(),
            node: "work".to_owned(),
            sequence: 3,
            lifecycle: Lifecycle::Completed,
            execution: Some(1),
            outputs: JsonMap::new(),
            sensitive: Vec::new(),
            error: None,
            still: false,
            status: None,
            suspended: None,
            claimed: false,
        };
        let mut draft = Draft::new(run.head, 2, Arc::default());
        draft.emit_run(&mut run, RunEvent::ChildReported(report), None);
        assert!(run.is_worker_due(ix));
        run.next_worker(&mut draft, ix, None);
        journal.extend(draft.step.records);

        let mut folded = Run::empty(run.key, run.salt, run.graph.clone());
        journal.iter().for_each(|record| drop(folded.apply(record).unwrap()));
        assert!(!folded.is_worker_due(ix) && folded.node(ix).children == 2);
        let resumed = folded.decide(Command::Resume { reason: None, by: None }, 3).unwrap().records;
        let names = resumed.iter().map(|record| EventType::by_code(record.type_code).unwrap().name);
        assert_eq!(names.collect::<Vec<_>>(), ["run.resumed"]);
    }
}
