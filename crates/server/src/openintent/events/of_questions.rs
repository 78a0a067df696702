//! What happens to the questions of a run, in OpenIntent's words: it is suspended, people are told again, it goes on.

use abide_core::{
    FallbackPolicy, InterruptKind, InterruptRequested, InterruptResolved, Json as RawJson, Millis, NodeEvent,
    RequestKind, Resolution, Status, TAKEN_BACK, rfc3339,
};
use serde_json::{Value, json};

use super::{Known, Told};
use crate::openintent::words;
use crate::openwop::interrupts::ladder::{plain_answer, policy};
use abide_core::mask::MASKED;

pub(super) fn told(event: &NodeEvent, sequence: u64, at: Millis, known: &Known) -> Vec<Told> {
    match event {
        NodeEvent::InterruptRequested(asked) => requested(asked, known),
        NodeEvent::InterruptAmended(asked) => {
            let before = sequence.checked_sub(1).and_then(|before| known.asked(asked.interrupt_id, before));
            let new = before.is_none_or(InterruptRequested::is_provisional) && !asked.is_provisional();
            if new { vec![suspended(asked, known)] } else { Vec::new() }
        }
        NodeEvent::InterruptRenotified(again) => {
            let payload = json!({
                "suspension_id": known.name(again.interrupt_id, sequence),
                "attempt": again.attempt,
                "max_attempts": again.max_attempts,
                "channel_hint": again.channel_hint,
                "notify_to": again.notify_to,
                "next_attempt_at": again.next_attempt_at.map(rfc3339),
            });
            vec![Told::itself("intent.suspension_renotified", payload)]
        }
        NodeEvent::InterruptEscalated(escalated) => {
            let payload = json!({
                "suspension_id": known.name(escalated.interrupt_id, sequence),
                "attempt": escalated.attempt,
                "escalated_to": escalated.escalated_to,
                "channel_hint": escalated.channel_hint,
            });
            vec![Told::itself("intent.suspension_escalated", payload)]
        }
        NodeEvent::InterruptExpired(expired) => {
            let mut payload = json!({
                "suspension_id": known.name(expired.interrupt_id, sequence),
                "attempts": expired.attempts,
                "fallback_policy": expired.fallback_policy.map(FallbackPolicy::name),
            });
            expired.reason.iter().for_each(|reason| payload["reason"] = json!(reason));
            vec![Told::itself("intent.suspension_expired", payload)]
        }
        NodeEvent::InterruptResolved(closed) => resolved(closed, sequence, at, known),
        NodeEvent::EngagementDecided(decided) => {
            let payload = serde_json::to_value(&decided.decision).unwrap_or_default();
            vec![Told::itself("engagement.decision", payload)]
        }
        _ => Vec::new(),
    }
}

fn requested(asked: &InterruptRequested, known: &Known) -> Vec<Told> {
    let by = asked.asked_by.first().map(String::as_str);
    let beside = |event_type| vec![Told::by(by, event_type, of_request(asked))];
    match asked.request_kind() {
        Some(RequestKind::Approval) => return beside("governance.approval_requested"),
        Some(RequestKind::Escalation) => return beside("escalation_initiated"),
        // Of what a coordinator has people look at, an event of its own tells.
        None if asked.is_beside() => return Vec::new(),
        None => {}
    }
    let status = json!({ "status": Status::WaitingInput.intent_name() });
    let moved = Told::by(by, "status_changed", status);
    if asked.is_provisional() { vec![moved] } else { vec![moved, suspended(asked, known)] }
}

fn value(json: &RawJson) -> Value {
    json.parse().unwrap_or_default()
}

fn of_request(asked: &InterruptRequested) -> Value {
    let written = value(&asked.request_written());
    let mut payload = json!({ "reason": written["reason"] });
    if asked.request_kind() == Some(RequestKind::Approval) {
        payload["approval_id"] = json!(asked.interrupt_id);
        payload["action"] = written["action"].clone();
    } else {
        payload["escalation_id"] = json!(asked.interrupt_id);
        payload["priority"] = written["priority"].clone();
    }
    payload
}

/// People are asked, and it is known what.
fn suspended(asked: &InterruptRequested, known: &Known) -> Told {
    let seen = asked.seen_as();
    let ladder = asked.ladder.as_ref();
    let repeated = ladder.filter(|ladder| ladder.max_attempts > 1);
    let hidden = asked.sensitive;
    let written =
        |field: &str| known.written(asked, field).filter(|_| !hidden).map(|written| value(&written));
    let choices = if hidden { Vec::new() } else { seen.choices };
    let channel = ladder.and_then(|ladder| ladder.channel_hint.as_deref());
    let seconds = ladder.and_then(|ladder| ladder.timeout_seconds);
    let payload = json!({
        "suspension_id": asked.suspension_id(),
        "question": if hidden { asked.kind.name().to_owned() } else { seen.question },
        "response_type": seen.response_type,
        "choices": choices,
        "channel_hint": channel.map(Value::from).or_else(|| written("channel_hint")),
        "timeout_seconds": seconds.map(Value::from).or_else(|| written("timeout_seconds")),
        "fallback_policy": written("fallback_policy")
            .or_else(|| ladder.map(|ladder| json!(ladder.final_fallback_policy.name())))
            .unwrap_or_else(|| json!(FallbackPolicy::Fail.name())),
        "confidence_at_suspension": written("confidence_at_suspension"),
        "retry_policy": written("retry_policy").or_else(|| repeated.map(|ladder| json!(policy(ladder)))),
    });
    Told::by(asked.asked_by.first().map(String::as_str), "intent.suspended", payload)
}

fn resolved(closed: &InterruptResolved, sequence: u64, at: Millis, known: &Known) -> Vec<Told> {
    let asked = known.asked(closed.interrupt_id, sequence);
    let by = Some(closed.resolved_by.as_str());
    if let Some(asked) = asked.filter(|asked| asked.is_beside()) {
        return answered_beside(asked, closed).into_iter().collect();
    }
    let id = known.name(closed.interrupt_id, sequence);
    let on = || Told::by(by, "status_changed", json!({ "status": Status::Running.intent_name() }));
    match closed.outcome {
        Resolution::Resolved | Resolution::Rejected => {
            let payload = json!({
                "intent_id": words::id(known.run),
                "suspension_id": id,
                "value": answer(closed, asked.map_or(closed.kind, |asked| asked.kind)),
                "responded_by": closed.resolved_by,
                "responded_at": words::moment(at),
            });
            vec![Told::by(by, "intent.resumed", payload), on()]
        }
        // Nobody climbs a ladder for these: this alone tells of it.
        Resolution::Timeout => {
            let payload = json!({ "suspension_id": id, "reason": "timeout" });
            vec![Told::itself("intent.suspension_expired", payload), on()]
        }
        // What ends the run otherwise tells of itself.
        Resolution::Expired if closed.resume_value.is_some() => vec![on()],
        Resolution::Cancelled if closed.reason.as_deref() == Some(TAKEN_BACK) => {
            let payload = json!({ "suspension_id": id, "reason": closed.reason });
            vec![Told::by(by, "intent.suspension_cancelled", payload), on()]
        }
        Resolution::Expired | Resolution::Cancelled => Vec::new(),
    }
}

fn answer(closed: &InterruptResolved, kind: InterruptKind) -> Value {
    if closed.sensitive {
        return json!(MASKED);
    }
    closed.resume_value.as_ref().map(|value| plain_answer(kind, value)).unwrap_or_default()
}

fn answered_beside(asked: &InterruptRequested, closed: &InterruptResolved) -> Option<Told> {
    let by = Some(closed.resolved_by.as_str());
    let mut payload = of_request(asked);
    let event_type = match (asked.request_kind(), closed.outcome) {
        (_, Resolution::Cancelled) => return None,
        (Some(RequestKind::Approval), Resolution::Resolved) => "governance.approval_granted",
        (Some(RequestKind::Approval), _) => "governance.approval_denied",
        (Some(RequestKind::Escalation), _) => "escalation_resolved",
        (None, _) => {
            payload = json!({ "interrupt_id": asked.interrupt_id });
            "coordinator.escalation_resolved"
        }
    };
    payload["decided_by"] = json!(closed.resolved_by);
    Some(Told::by(by, event_type, payload))
}
