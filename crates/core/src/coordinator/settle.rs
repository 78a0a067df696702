//! What is to be done about what is suspended, and is not yet.

use std::collections::BTreeSet;

use crate::command::Draft;
use crate::coordinator::{Coordination, CoordinatorStatus, SuspensionPolicy};
use crate::event::{CoordinatorChange, DependentsBlocked, DependentsUnblocked};
use crate::{Lifecycle, NodeIx, NodePhase, Run, RunId, Suspension};

/// Something that is coordinated and waits for people.
#[derive(Clone, Debug)]
pub(super) struct Suspended {
    pub(super) run: RunId,
    /// The phase that it does.
    pub(super) phase: Option<String>,
    pub(super) suspension: Suspension,
}

impl Run {
    /// Does what the policy of whoever coordinates the run asks for, and ends what it does not ask for any more. It only
    /// looks at how the run stands, so it may be done after any decision.
    pub(crate) fn settle_coordination(&mut self, draft: &mut Draft) {
        if self.state.coordination.is_none()
            || self.state.lifecycle != Lifecycle::Running
            || self.state.ending.is_some()
        {
            return;
        }
        self.release_dependents(draft);
        self.end_escalations(draft);
        let lease = self.held_lease().filter(|(_, lease)| lease.acts());
        let Some((id, policy)) = lease.map(|(id, lease)| (id.to_owned(), lease.suspension_policy)) else {
            return;
        };
        match policy {
            SuspensionPolicy::Isolate => {}
            SuspensionPolicy::BlockDependents => self.block_dependents(draft, &id),
            SuspensionPolicy::Escalate => self.escalate_suspensions(draft, &id),
        }
    }

    fn coordination(&self) -> impl Iterator<Item = &Coordination> {
        self.state.coordination.as_deref().into_iter()
    }

    /// Everything that is coordinated and waits for people: phases, members, and the run itself.
    pub(super) fn suspended_parts(&self) -> Vec<Suspended> {
        let own = self.suspension().map(|suspension| Suspended { run: self.key.id, phase: None, suspension });
        let phases = self.suspended_phases().into_iter().map(|phase| Suspended {
            run: phase.intent_id,
            phase: Some(phase.phase_name),
            suspension: Suspension { since: phase.suspended_since, expires_at: phase.expires_at },
        });
        let members = self.coordination().flat_map(|coordination| &coordination.members);
        let members =
            members.map(|(run, suspension)| Suspended { run: *run, phase: None, suspension: *suspension });
        own.into_iter().chain(phases).chain(members).collect()
    }

    /// Holds back what comes after the phases that wait for people. What comes after an end is never held back.
    fn block_dependents(&mut self, draft: &mut Draft, id: &str) {
        for phase in self.suspended_phases() {
            if self.coordination().any(|coordination| coordination.blocking.contains_key(&phase.phase_name)) {
                continue;
            }
            let Some(ix) = self.graph.node(&phase.phase_name) else { continue };
            let waits = |ix: &NodeIx| self.node(*ix).phase == NodePhase::Waiting;
            let after = self.phases_after(ix).into_iter().filter(waits);
            let phases: Vec<String> = after.map(|ix| self.graph.at(ix).id.to_string()).collect();
            if !phases.is_empty() {
                let (phase_name, suspended_intent_id) = (phase.phase_name, phase.intent_id);
                let blocked = DependentsBlocked { phase_name, suspended_intent_id, phases };
                self.tell_lease(draft, id.to_owned(), CoordinatorChange::DependentsBlocked(blocked));
            }
        }
    }

    /// Lets go on what was held back for phases that are through. That a phase has resumed is not enough.
    fn release_dependents(&mut self, draft: &mut Draft) {
        let over: Vec<(String, String)> = self
            .coordination()
            .flat_map(|coordination| &coordination.blocking)
            .filter(|(phase, blocking)| self.is_through(phase) || self.is_lifted(&blocking.coordinator))
            .map(|(phase, blocking)| (phase.clone(), blocking.coordinator.clone()))
            .collect();
        for (phase_name, coordinator) in over {
            let Some(coordination) = self.state.coordination.as_deref() else { return };
            let Some(own) = coordination.blocking.get(&phase_name) else { continue };
            let others = coordination.blocking.iter().filter(|(other, _)| **other != phase_name);
            let held: BTreeSet<&String> = others.flat_map(|(_, other)| &other.phases).collect();
            let phases = own.phases.iter().filter(|phase| !held.contains(phase)).cloned().collect();
            let unblocked = DependentsUnblocked { phase_name, phases };
            self.tell_lease(draft, coordinator, CoordinatorChange::DependentsUnblocked(unblocked));
        }
    }

    fn is_through(&self, phase: &str) -> bool {
        self.graph.node(phase).is_none_or(|ix| self.node(ix).phase.is_settled())
    }

    /// Whether nobody wants anything held back any more: whoever coordinates now wants something else, or whoever did is
    /// done. A coordinator that is given up takes nothing back.
    fn is_lifted(&self, coordinator: &str) -> bool {
        match self.held_lease() {
            Some((_, lease)) => lease.suspension_policy != SuspensionPolicy::BlockDependents,
            None => self
                .coordinator(coordinator)
                .is_some_and(|lease| lease.status == CoordinatorStatus::Completed),
        }
    }
}
