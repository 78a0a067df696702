//! What the events of leases change.

use std::collections::{BTreeMap, BTreeSet};

use crate::coordinator::{Blocking, Coordination, Coordinator, CoordinatorStatus, Escalated};
use crate::effect::{Effect, Order, TimerId};
use crate::event::{CoordinatorChange, CoordinatorChanged, CoordinatorRegistered, MemberReported};
use crate::fold::Folding;
use crate::{InterruptId, Millis, Run, RunId, Watch, limits};

impl Run {
    pub(crate) fn fold_coordinator(
        &mut self,
        changed: &CoordinatorChanged,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        // Nobody coordinates a fork because they coordinated the run that it was forked off.
        if self.is_of_other(folding.sequence) {
            return Ok(());
        }
        let mut id = &changed.coordinator;
        if let CoordinatorChange::EscalationRequired(about) = &changed.change {
            let escalated = Escalated { since: about.suspended_since, interrupt: about.interrupt_id };
            self.note_escalation(about.suspended_intent_id, escalated);
            return Ok(());
        }
        let coordination = self.state.coordination.get_or_insert_default();
        match &changed.change {
            CoordinatorChange::Registered(registered) => {
                coordination.make_room();
                coordination.leases.insert(id.clone(), Coordinator::of(registered, folding.at));
                self.ask_members(folding);
            }
            CoordinatorChange::DependentsBlocked(blocked) => {
                let held: BTreeSet<&String> =
                    coordination.blocking.values().flat_map(|blocking| &blocking.phases).collect();
                let free: Vec<String> =
                    blocked.phases.iter().filter(|phase| !held.contains(phase)).cloned().collect();
                let blocking = Blocking { coordinator: id.clone(), phases: blocked.phases.clone() };
                coordination.blocking.insert(blocked.phase_name.clone(), blocking);
                self.order(&free, Order::Hold, folding);
                return Ok(());
            }
            CoordinatorChange::DependentsUnblocked(unblocked) => {
                coordination.blocking.remove(&unblocked.phase_name);
                self.order(&unblocked.phases, Order::Release, folding);
                return Ok(());
            }
            other => {
                let mut lease = coordination.leases.remove(id).ok_or("there is no such lease")?;
                lease.change(other, folding.at);
                if let CoordinatorChange::Replaced(replaced) = other {
                    coordination.rename(id, &replaced.lease);
                    self.disarm(&TimerId::Coordinator(id.clone()), folding);
                    id = &replaced.lease;
                }
                self.state.coordination.get_or_insert_default().leases.insert(id.clone(), lease);
            }
        }
        let due = self.coordinator(id).and_then(Coordinator::due);
        let timer = TimerId::Coordinator(id.clone());
        match due {
            Some(due) => self.arm(timer, due, folding),
            None => self.disarm(&timer, folding),
        }
        Ok(())
    }

    /// Has the runs of phases held back, or not any more.
    fn order(&self, phases: &[String], order: Order, folding: &mut Folding<'_>) {
        for phase in phases {
            let child = self.graph.node(phase).and_then(|ix| self.node(ix).child);
            let sequence = folding.sequence;
            folding.effects.extend(child.map(|to| Effect::Order { to, order, sequence }));
        }
    }

    /// Has the members of a group tell how they stand: some may have waited for people before anybody coordinated them.
    fn ask_members(&self, folding: &mut Folding<'_>) {
        if let Some(group) = self.group() {
            let deadline = group.spec.governance.deadline;
            let (from, sequence, at) = (self.key.id, folding.sequence, Some(folding.at));
            let watch = Watch { from, sequence, watching: true, at, deadline };
            folding.effects.push(Effect::BidAll(watch));
        }
    }

    fn note_escalation(&mut self, run: RunId, escalated: Escalated) {
        let full =
            |coordination: &Coordination| coordination.escalated.len() >= limits::COORDINATED_SUSPENDED_MAX;
        if self.state.coordination.as_deref().is_some_and(full) {
            // Of a suspension that is over nothing matters any more: who suspends again does so at another time.
            let parts = self.suspended_parts();
            let lasts: BTreeMap<RunId, Millis> =
                parts.iter().map(|part| (part.run, part.suspension.since)).collect();
            let coordination = self.state.coordination.get_or_insert_default();
            coordination.escalated.retain(|run, escalated| lasts.get(run) == Some(&escalated.since));
        }
        self.state.coordination.get_or_insert_default().escalated.insert(run, escalated);
    }

    /// What a member of a group tells matters to whoever coordinates it.
    pub(crate) fn fold_coordinated(&mut self, told: &MemberReported, folding: &mut Folding<'_>) {
        let Some(coordination) = self.state.coordination.as_deref_mut() else { return };
        match told.suspended {
            Some(suspended) => {
                let room = coordination.members.len() < limits::COORDINATED_SUSPENDED_MAX;
                if room || coordination.members.contains_key(&told.run) {
                    coordination.members.insert(told.run, suspended);
                } else {
                    coordination.crowded = true;
                }
            }
            None => drop(coordination.members.remove(&told.run)),
        }
        // Those for whom there was no room are asked again, all at once: not for each place, since all are asked.
        if coordination.crowded && coordination.members.len() <= limits::COORDINATED_SUSPENDED_MAX / 2 {
            coordination.crowded = false;
            self.ask_members(folding);
        }
    }

    /// Whoever has left a group does not matter to whoever coordinates it.
    pub(crate) fn forget_coordinated(&mut self, run: RunId) {
        if let Some(coordination) = self.state.coordination.as_deref_mut() {
            coordination.members.remove(&run);
        }
    }

    /// Whether a question of the run itself is one that it does not wait for the answer of.
    pub(crate) fn is_escalation(&self, id: InterruptId) -> bool {
        self.interrupt(id).is_some_and(|open| open.requested.is_beside())
    }
}

impl Coordination {
    /// Keeps the leases from growing without end: those that nobody has go first, the oldest of them.
    fn make_room(&mut self) {
        while self.leases.len() >= limits::COORDINATORS_KEPT_MAX {
            let over = self.leases.iter().filter(|(_, lease)| !lease.status.holds());
            let oldest = over.min_by_key(|(_, lease)| lease.granted_at).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { return };
            self.leases.remove(&oldest);
        }
    }

    /// A lease goes by another name from now on.
    fn rename(&mut self, was: &str, name: &str) {
        for blocking in self.blocking.values_mut().filter(|blocking| blocking.coordinator == was) {
            name.clone_into(&mut blocking.coordinator);
        }
    }
}

impl Coordinator {
    fn of(registered: &CoordinatorRegistered, at: Millis) -> Self {
        Self {
            agent: registered.agent.clone(),
            supervisor: registered.supervisor.clone(),
            suspension_policy: registered.suspension_policy,
            heartbeat_interval_ms: registered.heartbeat_interval_ms,
            status: CoordinatorStatus::Active,
            last_heartbeat: at,
            unresponsive_since: None,
            granted_at: at,
            expires_at: registered.expires_at,
            metadata: registered.metadata.clone(),
            version: 1,
        }
    }

    fn change(&mut self, change: &CoordinatorChange, at: Millis) {
        let heard = matches!(
            change,
            CoordinatorChange::Heartbeat {} | CoordinatorChange::Resumed {} | CoordinatorChange::Replaced(_)
        );
        if heard {
            (self.last_heartbeat, self.unresponsive_since) = (at, None);
        }
        match change {
            CoordinatorChange::Heartbeat {} => return,
            CoordinatorChange::PolicySet(set) => self.suspension_policy = set.suspension_policy,
            CoordinatorChange::Paused(_) => {
                (self.status, self.unresponsive_since) = (CoordinatorStatus::Paused, None);
            }
            CoordinatorChange::Resumed {} => self.status = CoordinatorStatus::Active,
            CoordinatorChange::Unresponsive {} => {
                (self.status, self.unresponsive_since) = (CoordinatorStatus::Unresponsive, Some(at));
            }
            CoordinatorChange::FailedOver(_) => self.status = CoordinatorStatus::FailedOver,
            CoordinatorChange::Replaced(replaced) => {
                self.agent.clone_from(&replaced.agent);
                self.status = CoordinatorStatus::Active;
            }
            CoordinatorChange::Completed {} => self.status = CoordinatorStatus::Completed,
            _ => {}
        }
        self.version += 1;
    }
}
