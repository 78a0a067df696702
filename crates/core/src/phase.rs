//! Phases: nodes that somebody outside does in a run of its own.
//!
//! A workflow's phases all begin with it. Each starts a run that is done by hand as a whole, and it is these runs that
//! wait for each other: a phase whose upstream waits for people is blocked like any run is, and its inputs come with what
//! the upstream tells. The workflow's run only looks on. It shows each phase as a task that mirrors its run, and is itself
//! as active as before.

mod read;
mod view;

use std::collections::BTreeSet;

use serde_json::json;

pub(crate) use read::{PhaseWork, wire};
pub use view::{PhaseStatus, PhaseView, SuspendedPhase};

use crate::children::ChildEnd;
use crate::command::Draft;
use crate::event::{DependsOn, NodeEvent, NodeSpawned, PhaseBlocked, PhaseUnblocked};
use crate::graph::Work;
use crate::hand::{INITIAL_STATE, TRIGGER};
use crate::{Json, JsonMap, Lifecycle, NodeIx, NodePhase, Run, RunId, Suspension};

/// Why a phase is blocked whose run waits for people.
pub const INTENT_SUSPENDED: &str = "intent_suspended";

/// What a decision does.
impl Run {
    /// Starts the run that does a phase.
    pub(crate) fn begin_phase(&mut self, draft: &mut Draft, ix: NodeIx, work: &PhaseWork) {
        if let Err(failure) = self.check_depth(ix) {
            return self.give_up(draft, ix, failure);
        }
        let (trigger, hidden) = self.trigger();
        let inputs = JsonMap::from([
            (TRIGGER.to_owned(), trigger),
            (INITIAL_STATE.to_owned(), Json::of(&work.initial_state)),
        ]);
        let spawned = NodeSpawned {
            child: self.child_id(draft, ix),
            workflow_id: work.workflow_id.clone(),
            inputs,
            sensitive: if hidden { vec![TRIGGER.to_owned()] } else { Vec::new() },
            unset: Vec::new(),
            harvest: Vec::new(),
            cascade: true,
            key: None,
            waits: false,
            elsewhere: false,
        };
        let cause = draft.last_sequence();
        self.emit_node(draft, ix, NodeEvent::Spawned(spawned), cause);
    }

    /// What the workflow was triggered with: its variable of that name, or else all its inputs.
    fn trigger(&self) -> (Json, bool) {
        let declared = self.graph.variable(TRIGGER).filter(|variable| variable.kind == "object");
        if declared.is_some() {
            let given = self.variables().get(TRIGGER).cloned();
            return (given.unwrap_or_else(|| Json::of(&JsonMap::new())), self.hides_variable(TRIGGER));
        }
        let hidden = self.inputs().keys().any(|name| self.hides_variable(name));
        (Json::of(self.inputs()), hidden)
    }

    /// The run that did a phase has ended.
    pub(crate) fn end_phase(&mut self, draft: &mut Draft, ix: NodeIx, end: &ChildEnd<'_>) {
        if end.lifecycle == Lifecycle::Completed {
            let sensitive = !end.sensitive.is_empty();
            return self.complete(draft, ix, Some(Json::of(end.outputs)), sensitive);
        }
        self.fail_with_child(draft, ix, end);
    }

    /// The phase that waits for this run.
    pub(crate) fn phase_of(&self, node: &str, child: RunId) -> Option<NodeIx> {
        self.waiting_for(node, child).filter(|&ix| matches!(self.graph.at(ix).work, Work::Phase(_)))
    }

    /// Since when the run that does a phase waits for people, as far as was heard.
    pub(crate) fn phase_suspension(&self, ix: NodeIx) -> Option<Suspension> {
        let node = self.node(ix);
        let waits = node.phase == NodePhase::Waiting;
        node.child_stands.filter(|_| waits).and_then(|stands| stands.suspended)
    }

    /// Records that a phase is blocked because its run waits for people, or goes on because that does.
    pub(crate) fn mirror_phase(&mut self, draft: &mut Draft, ix: NodeIx, stood: Option<Suspension>) {
        let stands = self.phase_suspension(ix);
        let Some(child) = self.node(ix).child else { return };
        let event = match (stood, stands) {
            (None, Some(suspended)) => NodeEvent::PhaseBlocked(PhaseBlocked {
                suspended_intent_id: child,
                blocked_reason: INTENT_SUSPENDED.to_owned(),
                expires_at: suspended.expires_at,
            }),
            (Some(_), None) => NodeEvent::PhaseUnblocked(PhaseUnblocked {}),
            _ => return,
        };
        let cause = draft.last_sequence();
        self.emit_node(draft, ix, event, cause);
    }
}

/// What an event implies. Everything here follows from the definition and the children that were named before.
impl Run {
    /// What the run of a phase follows.
    pub(crate) fn phase_definition(&self, ix: NodeIx) -> Option<Json> {
        match &self.graph.at(ix).work {
            Work::Phase(work) => Some(work.definition.clone()),
            _ => None,
        }
    }

    /// The runs that the run of a phase waits for: those of the phases before it, by their names.
    pub(crate) fn phase_upstreams(&self, ix: NodeIx) -> Vec<DependsOn> {
        let Work::Phase(work) = &self.graph.at(ix).work else { return Vec::new() };
        let upstream = |name: &String| {
            let run = self.node(self.graph.node(name)?).child?;
            Some(DependsOn { run, name: Some(name.clone()), status: None })
        };
        work.upstreams.iter().filter_map(upstream).collect()
    }

    /// The phases that come after one, directly or not, in the order of the definition.
    pub(crate) fn phases_after(&self, ix: NodeIx) -> Vec<NodeIx> {
        let mut found = BTreeSet::from([ix]);
        for &next in &self.graph.phases {
            let Work::Phase(work) = &self.graph.at(next).work else { continue };
            let mut upstreams = work.upstreams.iter().filter_map(|name| self.graph.node(name));
            if upstreams.any(|upstream| found.contains(&upstream)) {
                found.insert(next);
            }
        }
        found.remove(&ix);
        found.into_iter().collect()
    }
}

/// The definition of the run that does a phase: one node that is done by hand.
pub(crate) fn definition_of(id: &str, title: &str, config: &JsonMap, rest: &JsonMap) -> Json {
    let mut node: JsonMap = Json::of(&json!({
        "id": crate::SELF_NODE, "typeId": "core.byHand", "name": title, "position": { "x": 0, "y": 0 }, "inputs": {},
    }))
    .parse()
    .unwrap_or_default();
    node.insert("config".to_owned(), Json::of(config));
    node.extend(rest.iter().map(|(key, value)| (key.clone(), value.clone())));
    let variable = |name: &str| json!({ "name": name, "type": "object" });
    let mut whole: JsonMap = Json::of(&json!({
        "id": id, "name": title, "version": "1", "edges": [], "triggers": [],
        "variables": [variable(TRIGGER), variable(INITIAL_STATE)], "metadata": {}, "settings": {},
    }))
    .parse()
    .unwrap_or_default();
    whole.insert("nodes".to_owned(), Json::of(&[node]));
    Json::of(&whole)
}
