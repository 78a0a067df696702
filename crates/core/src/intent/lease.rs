//! Leases: parts of an intent that somebody has to themselves for a while.
//!
//! A lease ends by itself when its time has come; nothing has to happen for that. While the intent waits for people its
//! leases last: what was left of them when it was suspended is left of them when it goes on.

use serde::{Deserialize, Serialize};

use super::{Actor, Intent, Permission};
use crate::command::Draft;
use crate::event::{IntentChanged, IntentEvent, LeaseTaken, NodeEvent, NodeReleased, RunEvent};
use crate::hand::Unclaimed;
use crate::{Millis, NodeIx, NodePhase, Rejection, Run, limits};

/// A part of an intent that somebody has to themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lease {
    /// Which part.
    pub scope: String,
    /// Who has it.
    pub agent: String,
    /// Since when.
    pub acquired_at: Millis,
    /// Until when, unless it is renewed.
    pub expires_at: Millis,
    /// When it was given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Millis>,
}

impl Lease {
    /// Whether it is over, in an intent that goes on.
    fn is_over(&self, now: Millis) -> bool {
        self.released_at.is_some() || self.expires_at <= now
    }
}

impl Intent {
    /// Those who have a part of it, and what the lease is known by. None ends while the intent waits for people.
    fn held(&self, suspended: Option<Millis>, now: Millis) -> impl Iterator<Item = (&String, &Lease)> {
        let now = suspended.map_or(now, |since| since.min(now));
        self.leases.iter().filter(move |(_, lease)| !lease.is_over(now.max(lease.acquired_at)))
    }

    /// What was over long ago makes room for what is not.
    pub(super) fn forget_leases(&mut self, now: Millis) {
        if self.leases.len() < limits::LEASES_KEPT_MAX {
            return;
        }
        let over = self.leases.iter().filter(|(_, lease)| lease.is_over(now));
        let oldest = over.min_by_key(|(_, lease)| lease.acquired_at).map(|(id, _)| id.clone());
        if let Some(id) = oldest {
            self.leases.remove(&id);
        }
    }
}

/// What an event changes.
impl Run {
    /// The intent goes on after it has waited for people since then: nobody has less of what they had.
    pub(crate) fn lengthen_leases(&mut self, since: Millis, now: Millis) {
        let leases = self.state.intent.iter_mut().flat_map(|intent| intent.leases.values_mut());
        for lease in leases.filter(|lease| lease.released_at.is_none()) {
            let from = since.max(lease.acquired_at);
            if lease.expires_at > from {
                lease.expires_at = lease.expires_at.saturating_add(now.saturating_sub(from).max(0));
            }
        }
    }
}

/// What may be read.
impl Run {
    /// Whether somebody has what a lease is about.
    pub fn holds_lease(&self, lease: &Lease, now: Millis) -> bool {
        let since = self.suspension().map(|suspension| suspension.since);
        let now = since.map_or(now, |since| since.min(now));
        !self.lifecycle().is_terminal() && !lease.is_over(now.max(lease.acquired_at))
    }

    fn leases_held(&self, now: Millis) -> Vec<(String, Lease)> {
        let since = self.suspension().map(|suspension| suspension.since);
        let Some(intent) = self.intent() else { return Vec::new() };
        intent.held(since, now).map(|(id, lease)| (id.clone(), lease.clone())).collect()
    }
}

/// What a decision does.
impl Run {
    /// Gives somebody a part of the intent. Whoever has the first also has the node, once that may be had.
    pub(super) fn acquire_lease(
        &mut self,
        draft: &mut Draft,
        actor: &Actor,
        scope: String,
        seconds: u32,
    ) -> Result<(), Rejection> {
        let ix = self.check_driven()?;
        self.check_may_write(&actor.agent)?;
        check_scope(&scope)?;
        let held = self.leases_held(draft.now);
        if let Some((id, lease)) = held.iter().find(|(_, lease)| lease.scope == scope) {
            return Err(Rejection::Leased {
                id: id.clone(),
                agent: lease.agent.clone(),
                expires_at: lease.expires_at,
            });
        }
        if held.len() >= limits::LEASES_HELD_MAX {
            let message =
                format!("an intent has at most {} leases at a time; release some", limits::LEASES_HELD_MAX);
            return Err(Rejection::invalid("scope", message));
        }
        // A draft has nobody yet; whoever completes it then takes it with that.
        if !self.is_draft() && !self.lease_node(draft, ix, &actor.agent, &held)? {
            return Ok(());
        }
        let id = crate::planning::minted("lease-", &self.salt, self.head.next);
        let expires_at = draft.now.saturating_add(Millis::from(seconds) * 1000);
        let taken = LeaseTaken { id, scope, agent: actor.agent.clone(), expires_at };
        self.emit_intent(draft, IntentChanged::Leased(taken), actor);
        Ok(())
    }

    /// Has the node be had by whoever takes a lease, if nobody else has it who has one. The answer is whether they may have
    /// the lease: whoever is refused because of a run before it is remembered, and has the node by itself later.
    fn lease_node(
        &mut self,
        draft: &mut Draft,
        ix: NodeIx,
        agent: &str,
        held: &[(String, Lease)],
    ) -> Result<bool, Rejection> {
        let holder = self.claim(ix).and_then(|claim| claim.agent.clone());
        match holder {
            Some(holder) if holder == agent || held.iter().any(|(_, lease)| lease.agent == holder) => {
                Ok(true)
            }
            // Whoever asks people has it until there is an answer.
            Some(_) if self.node(ix).phase == NodePhase::Suspended => Ok(true),
            Some(holder) => {
                // Nothing is taken from anybody for somebody who can't have it.
                if let Some(refused) = self.unclaimed(ix) {
                    return Err(Rejection::Unclaimed(refused));
                }
                let released = NodeReleased { agent: holder, reason: Some("lease-expired".to_owned()) };
                self.emit_node(draft, ix, NodeEvent::Released(released), None);
                self.claim_node(draft, ix, agent.to_owned())?;
                Ok(true)
            }
            None => {
                self.claim_node(draft, ix, agent.to_owned())?;
                Ok(self.claim(ix).is_some_and(|claim| claim.agent.as_deref() == Some(agent)))
            }
        }
    }

    pub(super) fn renew_lease(
        &mut self,
        draft: &mut Draft,
        actor: &Actor,
        id: String,
        seconds: u32,
    ) -> Result<(), Rejection> {
        let lease = self.own_lease(&id, actor, draft.now)?;
        let from = self.suspension().map_or(draft.now, |suspension| suspension.since.max(lease.acquired_at));
        let expires_at = from.saturating_add(Millis::from(seconds) * 1000);
        self.emit_intent(draft, IntentChanged::LeaseRenewed { id, expires_at }, actor);
        Ok(())
    }

    pub(super) fn release_lease(
        &mut self,
        draft: &mut Draft,
        actor: &Actor,
        id: String,
    ) -> Result<(), Rejection> {
        let lease = self.own_lease(&id, actor, draft.now)?;
        self.give_back(draft, actor, id, lease);
        Ok(())
    }

    /// Releases what those have who may not work on it any more, so that others can have it.
    pub(super) fn release_leases_of_outsiders(&mut self, draft: &mut Draft, actor: &Actor) {
        let mut lost = self.leases_held(draft.now);
        lost.retain(|(_, lease)| !self.permits(&lease.agent, Permission::Write, draft.now));
        for (id, lease) in lost {
            self.give_back(draft, actor, id, lease);
        }
    }

    fn give_back(&mut self, draft: &mut Draft, actor: &Actor, id: String, lease: Lease) {
        self.emit_intent(draft, IntentChanged::LeaseReleased { id }, actor);
        let Some(ix) = self.driven_node() else { return };
        let others = self.leases_held(draft.now).iter().any(|(_, other)| other.agent == lease.agent);
        let has_node = self.claim(ix).is_some_and(|claim| claim.agent.as_ref() == Some(&lease.agent));
        if has_node && !others && self.node(ix).phase == NodePhase::Running {
            let released = NodeReleased { agent: lease.agent, reason: None };
            self.emit_node(draft, ix, NodeEvent::Released(released), draft.last_sequence());
            self.grant(draft, ix);
        }
    }

    /// A lease that somebody has. Nobody hears of those of others.
    fn own_lease(&self, id: &str, actor: &Actor, now: Millis) -> Result<Lease, Rejection> {
        self.check_running()?;
        let lease = self.intent().and_then(|intent| intent.leases.get(id));
        let lease = lease.filter(|lease| lease.agent == actor.agent && self.holds_lease(lease, now));
        lease.cloned().ok_or_else(|| Rejection::NoLease(id.to_owned()))
    }

    /// Why somebody did not get the lease that they asked for, if the request was taken all the same.
    pub fn lease_refused(&self, agent: &str) -> Option<Unclaimed> {
        let ix = self.driven_node()?;
        let waits = self.claim(ix).is_some_and(|claim| claim.waiting.iter().any(|waiting| waiting == agent));
        if waits { self.unclaimed(ix) } else { None }
    }

    /// Whoever was refused before has the node now: they hear of it as of an intent that they are to work on.
    pub(crate) fn call_back(&mut self, draft: &mut Draft, ix: NodeIx, agent: &str) {
        if self.driven_node() != Some(ix) || self.state.intent.is_none() {
            return;
        }
        let known = self.intent().and_then(|intent| intent.agents.get(agent));
        let role = known.map_or_else(|| "worker".to_owned(), |assigned| assigned.role.clone());
        self.emit_intent(draft, IntentChanged::Assigned { agent: agent.to_owned(), role }, &Actor::of(agent));
    }

    pub(super) fn emit_intent(&mut self, draft: &mut Draft, change: IntentChanged, actor: &Actor) {
        let event = IntentEvent { change, by: Some(actor.agent.clone()) };
        let cause = draft.last_sequence();
        draft.emit_run(self, RunEvent::Intent(Box::new(event)), cause);
    }
}

fn check_scope(scope: &str) -> Result<(), Rejection> {
    let chars = scope.chars().count();
    if (1..=limits::AGENT_NAME_CHARS_MAX).contains(&chars) && !scope.chars().any(char::is_control) {
        return Ok(());
    }
    let message =
        format!("'scope' has 1 to {} characters, and no control characters", limits::AGENT_NAME_CHARS_MAX);
    Err(Rejection::invalid("scope", message))
}
