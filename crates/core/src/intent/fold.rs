//! What events change in an intent.

use super::record::OURS;
use super::suspension::{answer_in, is_unsaid};
use super::{AskedLast, Assigned, Intent, Lease, STATE, SUSPENSION, patch};
use crate::effect::{Appointment, Effect};
use crate::event::{
    IntentChanged, IntentEvent, IntentPatched, InterruptRequested, InterruptResolved, Resolution, RunEvent,
    Started,
};
use crate::fold::Folding;
use crate::{Json, JsonMap, Millis, Open, Run};

impl Run {
    pub(super) fn intent_mut(&mut self, at: Millis) -> &mut Intent {
        let fresh = || Box::new(Intent { version: 1, updated_at: at, ..Intent::default() });
        self.state.intent.get_or_insert_with(fresh)
    }

    /// A run that somebody drives as a whole has this from its beginning.
    pub(crate) fn begin_intent(&mut self, started: &Started, at: Millis) {
        if self.driven_node().is_none() {
            return;
        }
        let policy = started.inputs.get("governance_policy");
        let policy = policy.and_then(|policy| super::Policy::read(policy).ok()).map(Box::new);
        self.intent_mut(at).policy = policy;
        self.note_record();
    }

    /// What those see who drive it. When that is otherwise after an event, its version rises.
    pub(crate) fn sight_of_intent(&self) -> Option<&'static str> {
        self.state.intent.is_some().then(|| self.status().intent_name())
    }

    pub(crate) fn settle_version(&mut self, seen: Option<&'static str>, at: Millis) {
        if seen.is_some_and(|seen| seen != self.status().intent_name()) {
            self.raise_version(at);
        }
    }

    pub(crate) fn raise_version(&mut self, at: Millis) {
        if let Some(intent) = &mut self.state.intent {
            intent.version += 1;
            intent.updated_at = at;
        }
    }

    pub(crate) fn fold_of_intent(
        &mut self,
        event: &RunEvent,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        match event {
            RunEvent::IntentPatched(patched) => self.fold_patched(patched, folding),
            RunEvent::Intent(event) => self.fold_intent(event, folding),
            _ => Ok(()),
        }
    }

    fn fold_patched(&mut self, patched: &IntentPatched, folding: &Folding<'_>) -> Result<(), String> {
        let state = patch::apply(self.intent_state(), &patched.patches).map_err(|(_, message)| message)?;
        self.put_state(&state);
        self.intent_mut(folding.at);
        self.raise_version(folding.at);
        self.note_record();
        Ok(())
    }

    fn put_state(&mut self, state: &JsonMap) {
        self.state.variables.insert(STATE.to_owned(), Json::of(state));
    }

    /// A record that is new waits for the intent to be suspended, unless it is that already.
    fn note_record(&mut self) {
        let id = self.record_id();
        let Some(intent) = &mut self.state.intent else { return };
        let open = intent.asked.as_ref().is_some_and(|asked| !asked.closed && asked.interrupt.is_some());
        if open {
            return;
        }
        match id {
            Some(id) if intent.asked.as_ref().is_none_or(|asked| asked.id.as_ref() != Some(&id)) => {
                intent.asked = Some(AskedLast { id: Some(id), ..AskedLast::default() });
            }
            None if intent.asked.as_ref().is_some_and(|asked| !asked.closed) => intent.asked = None,
            _ => {}
        }
    }

    fn fold_intent(&mut self, event: &IntentEvent, folding: &mut Folding<'_>) -> Result<(), String> {
        let (at, sequence) = (folding.at, folding.sequence);
        let intent = self.intent_mut(at);
        match &event.change {
            IntentChanged::Assigned { agent, role } => {
                intent.agents.insert(agent.clone(), Assigned { role: role.clone(), at, sequence });
                folding.effects.push(Effect::Assign(Appointment { agent: agent.clone(), sequence, at }));
            }
            IntentChanged::Unassigned { agent } => {
                intent.agents.remove(agent).ok_or("the agent was not assigned")?;
                folding.effects.push(Effect::Unassign(agent.clone()));
            }
            IntentChanged::Leased(taken) => {
                intent.forget_leases(at);
                let lease = Lease {
                    scope: taken.scope.clone(),
                    agent: taken.agent.clone(),
                    acquired_at: at,
                    expires_at: taken.expires_at,
                    released_at: None,
                };
                intent.leases.insert(taken.id.clone(), lease);
            }
            IntentChanged::LeaseRenewed { id, expires_at } => {
                intent.leases.get_mut(id).ok_or("there is no such lease")?.expires_at = *expires_at;
            }
            IntentChanged::LeaseReleased { id } => {
                intent.leases.get_mut(id).ok_or("there is no such lease")?.released_at = Some(at);
            }
            IntentChanged::PolicySet(policy) => {
                intent.policy.clone_from(policy);
                intent.policy_by = policy.as_ref().and(event.by.clone());
                self.raise_version(at);
            }
            IntentChanged::AccessSet(access) => intent.access = Some(access.clone()),
            // What follows says that it is there.
            IntentChanged::Sent { .. } => {}
        }
        Ok(())
    }

    /// The run has ended: nobody is to work on it any more. Who was is remembered.
    pub(crate) fn dismiss_agents(&mut self, folding: &mut Folding<'_>) {
        let agents = self.state.intent.iter().flat_map(|intent| intent.agents.keys());
        folding.effects.extend(agents.cloned().map(Effect::Unassign));
    }

    /// A question is open, or asks something else than before.
    pub(crate) fn fold_asked_intent(&mut self, requested: &InterruptRequested, folding: &mut Folding<'_>) {
        if requested.topic.is_some() {
            return self.fold_request(requested, folding.at);
        }
        let said = !is_unsaid(requested);
        let Some(intent) = self.state.intent.as_mut().filter(|_| requested.checkpoint.is_none()) else {
            return;
        };
        let id = (said && !requested.keyless).then(|| requested.key.clone());
        let id = id.or_else(|| said.then(|| requested.interrupt_id.to_string()));
        intent.asked =
            Some(AskedLast { id, interrupt: Some(requested.interrupt_id), ..AskedLast::default() });
        if !said && requested.ladder.is_none() {
            self.await_record(requested.interrupt_id, folding);
        }
    }

    /// Nobody has answered a question, which is about to be closed.
    pub(crate) fn fold_expired_intent(&mut self, id: crate::InterruptId) {
        let asked = self.state.intent.as_mut().and_then(|intent| intent.asked.as_mut());
        if let Some(asked) = asked.filter(|asked| asked.interrupt == Some(id)) {
            asked.expired = true;
        }
    }

    /// A question is closed: what became of it stands beside its record.
    pub(crate) fn fold_closed_intent(&mut self, open: &Open, resolved: &InterruptResolved, at: Millis) {
        self.fold_request_answered(resolved, at);
        let Some(intent) = &mut self.state.intent else { return };
        let Some(asked) = &mut intent.asked else { return };
        if asked.interrupt != Some(resolved.interrupt_id) {
            return;
        }
        (asked.closed, asked.closed_at) = (true, Some(at));
        let expired = asked.expired;
        // By this name it is known from now on, so that what is written here is no record that waits to be asked.
        let unsaid = is_unsaid(&open.requested).then(|| resolved.interrupt_id.to_string());
        asked.id = unsaid.or_else(|| asked.id.take());
        let Some(mut record) = self.record_closed(open) else { return };
        let mut state = self.intent_state();
        record.extend(outcome(open, resolved, expired, at));
        state.insert(SUSPENSION.to_owned(), Json::of(&record));
        self.put_state(&state);
    }

    /// The record that what became of a question is written beside: the one that it was asked by, or what was asked while
    /// nobody had said what it is about.
    fn record_closed(&self, open: &Open) -> Option<JsonMap> {
        self.driven_node()?;
        let id = self.intent()?.asked.as_ref()?.id.clone()?;
        if is_unsaid(&open.requested) {
            return Some(self.made_record(open, &id));
        }
        if open.requested.keyless {
            return None;
        }
        if self.record_id()? != id {
            return None;
        }
        let mut record: JsonMap = self.state_value(SUSPENSION)?.parse().ok()?;
        record.retain(|key, _| !OURS.contains(&key.as_str()));
        Some(record)
    }
}

/// How a suspension ended, in OpenIntent's words.
fn resolution(resolved: &InterruptResolved, expired: bool) -> &'static str {
    match resolved.outcome {
        Resolution::Resolved | Resolution::Rejected => "responded",
        Resolution::Expired | Resolution::Timeout => "expired",
        // The deadline of a group ends the run, and the question with it.
        Resolution::Cancelled if expired => "expired",
        Resolution::Cancelled => "cancelled",
    }
}

/// What only the run itself writes into a record.
fn outcome(open: &Open, resolved: &InterruptResolved, expired: bool, at: Millis) -> JsonMap {
    let answer =
        resolved.resume_value.as_ref().map(|value| answer_in(value).unwrap_or_else(|| value.clone()));
    let moment = |at: Millis| Json::of(&crate::moment::naive(at));
    let how = resolution(resolved, expired);
    let by = (how == "responded").then(|| Json::of(&resolved.resolved_by));
    let mut written = JsonMap::from([
        ("resolution".to_owned(), Json::of(how)),
        ("response".to_owned(), answer.unwrap_or_else(|| Json::of(&()))),
        ("responded_at".to_owned(), moment(at)),
        ("suspended_at".to_owned(), moment(open.at)),
    ]);
    written.extend(by.map(|by| ("responded_by".to_owned(), by)));
    written.extend(open.deadline().map(|end| ("expires_at".to_owned(), moment(end))));
    written
}

#[cfg(test)]
mod tests {
    #[test]
    fn moments_of_records_have_no_zone() {
        assert_eq!(crate::moment::naive(1_767_603_600_000), "2026-01-05T09:00:00.000");
        assert_eq!(crate::rfc3339(1_767_603_600_000), "2026-01-05T09:00:00.000Z");
    }
}
