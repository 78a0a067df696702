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
pub(crate) mod posted;

use std::borrow::Cow;

use abide_core::{Event, EventId, Hash, Millis, Record, RunId, hex};
use serde_json::{Value, json};

pub(crate) use known::{Known, matters};

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
        Event::Run(event) => of_run::told(event, sequence, known),
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
    use std::sync::Arc;

    use abide_core::EventType;

    use super::*;

    const AT: Millis = 1_767_603_600_000;

    /// Which question the events below are about.
    const ID: &str = "int-000000000007a70a39809dd7cc544de945d7";

    /// An event as it stands in a journal.
    fn event(name: &str, payload: &Value) -> Event {
        let kind = EventType::by_name(name).unwrap();
        let node: Option<Arc<str>> = (kind.code >= 100).then(|| "self".into());
        Event::decode(kind.code, kind.version, node.as_ref(), payload.to_string().as_bytes()).unwrap()
    }

    /// Question number seven, as its record says or as nobody has said yet.
    fn asked(key: &str, keyless: bool) -> Value {
        let mut data =
            json!({ "questions": [{ "id": "answer", "question": "Go?", "responseType": "text" }] });
        if keyless {
            data["contextType"] = json!("intent.provisional");
        }
        json!({ "interruptId": ID, "kind": "clarification", "key": key, "call": 1, "keyless": keyless, "data": data,
                "askedBy": ["ada"] })
    }

    /// What is told of events that lie behind each other, from the seventh on.
    fn told_of(events: &[(&str, Value)]) -> Vec<Told> {
        let mut known = Known::of(RunId::from_bytes([7; 16]));
        let mut all = Vec::new();
        for (place, (name, payload)) in events.iter().enumerate() {
            let (sequence, event) = (7 + place as u64, event(name, payload));
            known.hear(sequence, &event);
            all.extend(told(&event, sequence, AT, &known));
        }
        all
    }

    fn types(told: &[Told]) -> Vec<&str> {
        told.iter().map(|told| told.event_type.as_ref()).collect()
    }

    #[test]
    fn a_suspension_is_told_of_with_what_its_record_says() {
        let record = json!({ "id": "s", "fallback_policy": "fail", "confidence_at_suspension": 0.4 });
        let patched =
            json!({ "patches": [{ "op": "set", "path": "_suspension", "value": record }], "by": "ada" });
        let all = told_of(&[("intent.patched", patched), ("interrupt.requested", asked("s", false))]);
        assert_eq!(types(&all), ["state_patched", "status_changed", "intent.suspended"]);
        let fields: Vec<&str> = all[2].payload.as_object().unwrap().keys().map(String::as_str).collect();
        let nine = [
            "channel_hint",
            "choices",
            "confidence_at_suspension",
            "fallback_policy",
            "question",
            "response_type",
            "retry_policy",
            "suspension_id",
            "timeout_seconds",
        ];
        assert_eq!(fields, nine);
        assert_eq!(
            (&all[2].payload["suspension_id"], &all[2].payload["question"]),
            (&json!("s"), &json!("Go?"))
        );
        assert_eq!(
            (all[2].payload["confidence_at_suspension"].as_f64(), all[2].actor.as_str()),
            (Some(0.4), "ada")
        );
    }

    #[test]
    fn a_suspension_of_which_nobody_has_said_what_it_is_about_is_told_of_once_somebody_does() {
        let again = json!({ "interruptId": ID, "attempt": 2, "maxAttempts": 3 });
        let all = told_of(&[
            ("interrupt.requested", asked("self:1", true)),
            ("interrupt.renotified", again.clone()),
            ("interrupt.amended", asked("s", false)),
            ("interrupt.amended", asked("s", false)),
            ("interrupt.renotified", again),
        ]);
        let again = "intent.suspension_renotified";
        assert_eq!(types(&all), ["status_changed", again, "intent.suspended", again]);
        let called: Vec<&Value> = all[1..].iter().map(|told| &told.payload["suspension_id"]).collect();
        assert_eq!(called, [&json!(ID), &json!("s"), &json!("s")]);
    }

    #[test]
    fn an_answer_is_told_of_and_a_hidden_one_is_not_said() {
        let closed = |sensitive: bool| {
            json!({ "interruptId": ID, "kind": "clarification", "outcome": "resolved", "resolvedBy": "bob",
                    "resumeValue": { "answers": { "answer": "yes" } }, "sensitive": sensitive })
        };
        for (sensitive, value) in [(false, "yes"), (true, "[masked]")] {
            let all = told_of(&[
                ("interrupt.requested", asked("s", false)),
                ("interrupt.resolved", closed(sensitive)),
            ]);
            assert_eq!(types(&all)[2..], ["intent.resumed", "status_changed"]);
            let payload = &all[2].payload;
            assert_eq!((&payload["value"], &payload["responded_by"]), (&json!(value), &json!("bob")));
            assert_eq!(payload["responded_at"], "2026-01-05T09:00:00.000");
        }
    }

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
