//! What happened, in OpenIntent's words.
//!
//! [`told`] makes of one event of a journal what OpenIntent calls it: nothing, one thing, or several. It looks at that event
//! alone, and at what is [`Known`] of earlier ones, so that a list and a stream say the same.
//!
//! | what | where |
//! |---|---|
//! | which types its client knows | here |
//! | what happens to a run | `of_run.rs` |
//! | what happens to its questions | `of_questions.rs` |
//! | what is known of earlier events | `known.rs` |
//! | what clients told themselves | `posted.rs` |
//! | a run's journal, newest first | `journal.rs` |
//! | the list | `list.rs` |
//! | the chain | `chain.rs` |

pub(crate) mod chain;
mod journal;
mod known;
pub(crate) mod list;
mod of_questions;
mod of_run;
mod posted;

use std::borrow::Cow;

use abide_core::{Event, EventId, Hash, Millis, Record, RunId, hex};
use serde_json::{Value, json};

pub(crate) use known::Known;

use super::words;

/// Who did what nobody did.
const NOBODY: &str = "system";

/// Every type that the client knows. One that it does not know spoils a whole list for it.
const TYPES: &[&str] = &[
    "intent_created",
    "state_patched",
    "status_changed",
    "agent_assigned",
    "agent_unassigned",
    "constraint_added",
    "constraint_removed",
    "dependency_added",
    "dependency_removed",
    "lease_acquired",
    "lease_released",
    "arbitration_requested",
    "decision_recorded",
    "attachment_added",
    "portfolio_created",
    "added_to_portfolio",
    "removed_from_portfolio",
    "failure_recorded",
    "comment",
    "tool_call_started",
    "tool_call_completed",
    "tool_call_failed",
    "llm_request_started",
    "llm_request_completed",
    "llm_request_failed",
    "stream_started",
    "stream_chunk",
    "stream_completed",
    "stream_cancelled",
    "access_granted",
    "access_revoked",
    "access_expired",
    "access_requested",
    "access_request_approved",
    "access_request_denied",
    "task.created",
    "task.ready",
    "task.claimed",
    "task.started",
    "task.progress",
    "task.completed",
    "task.failed",
    "task.retrying",
    "task.blocked",
    "task.unblocked",
    "task.delegated",
    "task.escalated",
    "task.cancelled",
    "task.skipped",
    "plan.created",
    "plan.activated",
    "plan.paused",
    "plan.resumed",
    "plan.completed",
    "plan.failed",
    "plan.checkpoint_reached",
    "plan.checkpoint_approved",
    "plan.checkpoint_rejected",
    "coordinator.decision",
    "coordinator.heartbeat",
    "coordinator.paused",
    "coordinator.resumed",
    "coordinator.replaced",
    "coordinator.unresponsive",
    "coordinator.failed_over",
    "coordinator.handoff",
    "coordinator.plan_overridden",
    "coordinator.guardrails_updated",
    "coordinator.stalled",
    "coordinator.escalation_resolved",
    "governance.policy_set",
    "governance.policy_removed",
    "governance.approval_granted",
    "governance.approval_denied",
    "governance.violation",
    "tool.invoked",
    "tool.denied",
    "grant.created",
    "grant.delegated",
    "grant.revoked",
    "grant.expired",
    "grant.suspended",
    "grant.resumed",
    "credential.created",
    "credential.rotated",
    "credential.expired",
    "credential.revoked",
    "memory.created",
    "memory.updated",
    "memory.deleted",
    "memory.archived",
    "memory.evicted",
    "memory.expired",
    "agent.lifecycle",
    "agent.registered",
    "agent.status_changed",
    "agent.dead",
    "trigger.fired",
    "trigger.skipped",
    "trigger.cascade_limit",
    "trigger.namespace_blocked",
    "agent.identity.registered",
    "agent.identity.rotated",
    "agent.identity.revoked",
    "agent.identity.challenge_issued",
    "agent.identity.verified",
    "log.checkpoint.created",
    "log.checkpoint.anchored",
    "channel.created",
    "channel.closed",
    "channel.message",
    "governance.approval_enforced",
    "federation.dispatched",
    "federation.received",
    "federation.callback",
    "federation.budget_warning",
    "federation.completed",
    "federation.failed",
    "intent.suspended",
    "intent.resumed",
    "intent.suspension_expired",
    "engagement.decision",
    "intent.suspension_renotified",
    "intent.suspension_escalated",
    "portfolio.member_suspended",
    "portfolio.member_resumed",
];

/// Whether the client knows the type.
pub(crate) fn is_known(event_type: &str) -> bool {
    TYPES.contains(&event_type)
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    /// What it is called.
    pub(crate) event_type: Cow<'static, str>,
    /// Who did it.
    pub(crate) actor: String,
    /// What is to be said of it.
    pub(crate) payload: Value,
}

impl Told {
    fn by(actor: Option<&str>, event_type: &'static str, payload: Value) -> Self {
        let actor = actor.unwrap_or(NOBODY).to_owned();
        Self { event_type: Cow::Borrowed(event_type), actor, payload }
    }

    fn itself(event_type: &'static str, payload: Value) -> Self {
        Self::by(None, event_type, payload)
    }

    /// What tells a question's event from all others: what it is, of which question, at which attempt. Events of which
    /// there may be several alike have nothing of the kind.
    pub(crate) fn mark(&self) -> Option<Mark> {
        mark(&self.event_type, &self.payload)
    }
}

/// What tells a question's event from all others.
pub(crate) type Mark = (&'static str, String, Option<u64>);

/// The types of which a client tells as well, and whether each attempt is one of its own.
const MARKED: [(&str, bool); 5] = [
    ("intent.suspended", false),
    ("intent.suspension_renotified", true),
    ("intent.suspension_escalated", true),
    ("intent.resumed", false),
    ("intent.suspension_expired", false),
];

fn mark(event_type: &str, payload: &Value) -> Option<Mark> {
    let (event_type, counted) = MARKED.into_iter().find(|(marked, _)| *marked == event_type)?;
    let question = payload["suspension_id"].as_str()?.to_owned();
    Some((event_type, question, if counted { payload["attempt"].as_u64() } else { None }))
}

/// What OpenIntent calls an event of a journal.
pub(crate) fn told(event: &Event, sequence: u64, at: Millis, known: &Known) -> Vec<Told> {
    match event {
        Event::Run(event) => of_run::told(event, sequence, at, known),
        Event::Node { event, .. } => of_questions::told(event, sequence, at, known),
    }
}

/// An event of a journal as the client reads it. One of several that an event became is told apart by its place among
/// them.
pub(crate) fn shown(run: RunId, record: &Record, before: Option<&Hash>, part: usize, told: &Told) -> Value {
    let id = EventId { run, sequence: record.sequence }.to_string();
    json!({
        "id": if part == 0 { id } else { format!("{id}-{part}") },
        "intent_id": words::id(run),
        "event_type": told.event_type,
        "actor": told.actor,
        "payload": told.payload,
        "created_at": words::moment(record.at),
        "sequence": record.sequence,
        "event_hash": hex(&record.chain),
        "previous_event_hash": before.map(|before| hex(before)),
        "trace_id": null,
        "parent_event_id": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_questions_own_events_are_told_apart_by_it() {
        let of = |event_type: &'static str, payload: Value| Told::itself(event_type, payload).mark();
        let asked = json!({ "suspension_id": "s", "attempt": 2 });
        assert_eq!(of("intent.suspended", asked.clone()), Some(("intent.suspended", "s".to_owned(), None)));
        let again = of("intent.suspension_renotified", asked.clone()).unwrap();
        assert_eq!(again, ("intent.suspension_renotified", "s".to_owned(), Some(2)));
        assert_eq!(of("comment", asked), None);
        assert_eq!(of("intent.suspended", json!({})), None);
    }

    #[test]
    fn what_is_told_of_by_clients_too_is_known_to_them() {
        assert!(MARKED.iter().all(|(marked, _)| is_known(marked)));
        assert!(!is_known("lease_renewed") && !is_known("coordinator.escalation_required"));
    }
}
