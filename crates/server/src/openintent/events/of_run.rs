//! What happens to a run as a whole, in OpenIntent's words.

use abide_core::{
    Access, AccessEntry, CoordinatorChange, Event, HoldMode, IntentChanged, IntentEvent, MemberReported,
    PlanChanged, RunEvent, RunId, Started, Status, TaskChanged,
};
use serde_json::{Value, json};

use super::{Known, Told};
use crate::openintent::words;

pub(super) fn told(event: &RunEvent, sequence: u64, known: &Known) -> Vec<Told> {
    let one = match event {
        RunEvent::Started(started) => began(started, known.run),
        RunEvent::Intent(event) => return of_intent(event, sequence, known),
        RunEvent::IntentPatched(patched) => {
            let payload = json!({ "patches": patched.patches });
            Told::by(patched.by.as_deref(), "state_patched", payload)
        }
        RunEvent::DependencyAdded(added) => {
            let payload = json!({ "dependency_id": words::id(added.dependency.run) });
            Told::by(added.by.as_deref(), "dependency_added", payload)
        }
        RunEvent::DependencyRemoved(removed) => {
            let payload = json!({ "dependency_id": words::id(removed.run) });
            Told::by(removed.by.as_deref(), "dependency_removed", payload)
        }
        RunEvent::Task(changed) => of_task(changed, known.run, name(event)),
        RunEvent::Plan(changed) => of_plan(changed, known.run, name(event)),
        RunEvent::Coordinator(changed) => {
            let (by, mut payload) = of_coordinator(&changed.change);
            payload["coordinator_id"] = json!(local(known.run, &json!(changed.coordinator)));
            Told::by(by, name(event), payload)
        }
        _ => {
            let moved = || moved(event).map(|told| sent(told, sequence, known));
            return of_group(event, known.run).or_else(moved).into_iter().collect();
        }
    };
    vec![one]
}

/// What the journal calls it.
fn name(event: &RunEvent) -> &'static str {
    Event::Run(event.clone()).event_type().name
}

/// What is asked for without its intent is named after that as well.
fn local(run: RunId, id: &Value) -> Value {
    id.as_str().map_or(Value::Null, |id| json!(format!("{}_{id}", words::id(run))))
}

fn began(started: &Started, run: RunId) -> Told {
    let by = started.by.as_deref();
    if let Some(group) = &started.group {
        let payload = json!({ "portfolio_id": words::id(run), "name": group.name });
        return Told::by(by, "portfolio_created", payload);
    }
    let shown = |field: &str| started.inputs.get(field).filter(|_| !started.sensitive.contains(field));
    let text = |field: &str| shown(field).and_then(|text| text.parse::<String>().ok());
    let maker = text("created_by").or_else(|| started.by.clone());
    let payload = json!({
        "title": text("title").unwrap_or_else(|| started.workflow_id.clone()),
        "description": text("description"),
        "parent_id": started.parent.as_ref().map(|parent| words::id(parent.run)),
        "depends_on": started.depends_on.iter().map(|on| words::id(on.run)).collect::<Vec<_>>(),
        "status": if started.draft { Status::Draft.intent_name() } else { Status::Running.intent_name() },
    });
    Told::by(maker.as_deref(), "intent_created", payload)
}

/// Whoever sent it there says so, and why.
pub(super) fn sent(mut told: Told, sequence: u64, known: &Known) -> Told {
    let to = told.payload["status"].as_str().unwrap_or_default();
    let Some(sent) = known.sent_before(sequence, to) else { return told };
    if told.payload["reason"].is_null()
        && let Some(reason) = &sent.reason
    {
        told.payload["reason"] = json!(reason);
    }
    if let Some(by) = sent.by.clone() {
        told.actor = by;
    }
    told
}

/// Where it stands changed.
fn moved(event: &RunEvent) -> Option<Told> {
    let to = |status: Status, by: Option<&String>, mut payload: Value| {
        payload["status"] = json!(status.intent_name());
        Some(Told::by(by.map(String::as_str), "status_changed", payload))
    };
    match event {
        RunEvent::Activated(activated) => to(Status::Running, activated.by.as_ref(), json!({})),
        RunEvent::Blocked(blocked) => {
            let by: Vec<String> = blocked.by.iter().map(|run| words::id(*run)).collect();
            to(Status::Blocked, None, json!({ "reason": blocked.reason.name(), "blocking_intents": by }))
        }
        RunEvent::Unblocked(_) => to(Status::Running, None, json!({})),
        RunEvent::Held(held) => {
            let stopped = held.mode == HoldMode::Stop;
            to(Status::Blocked, held.by.as_ref(), json!({ "reason": held.reason, "stopped": stopped }))
        }
        RunEvent::Released(released) => {
            to(Status::Running, released.by.as_ref(), json!({ "reason": released.reason }))
        }
        RunEvent::Paused(paused) => {
            to(Status::Blocked, paused.by.as_ref(), json!({ "reason": paused.reason }))
        }
        RunEvent::Resumed(resumed) => {
            to(Status::Running, resumed.by.as_ref(), json!({ "reason": resumed.reason }))
        }
        RunEvent::ResumeEscalated(escalated) => {
            to(Status::Blocked, None, json!({ "reason": escalated.interruption_class }))
        }
        RunEvent::Completed(_) => to(Status::Completed, None, json!({})),
        RunEvent::Failed(failed) => {
            let error = json!({ "code": failed.error.code, "message": failed.error.message });
            to(Status::Failed, None, json!({ "reason": failed.error.message, "error": error }))
        }
        RunEvent::Cancelled(cancelled) => {
            let why =
                json!({ "reason": cancelled.reason, "abandonment_reason": cancelled.abandonment_reason });
            to(Status::Cancelled, cancelled.cancelled_by.as_ref(), why)
        }
        _ => None,
    }
}

fn of_intent(event: &IntentEvent, sequence: u64, known: &Known) -> Vec<Told> {
    let by = event.by.as_deref();
    let one = |event_type, payload| vec![Told::by(by, event_type, payload)];
    match &event.change {
        // What follows tells that it is there, and why.
        IntentChanged::Sent { .. } => Vec::new(),
        IntentChanged::Assigned { agent, role } => {
            one("agent_assigned", json!({ "agent_id": agent, "role": role }))
        }
        IntentChanged::Unassigned { agent } => one("agent_unassigned", json!({ "agent_id": agent })),
        IntentChanged::Leased(lease) => one(
            "lease_acquired",
            json!({
                "lease_id": lease.id,
                "scope": lease.scope,
                "agent_id": lease.agent,
                "expires_at": words::moment(lease.expires_at),
            }),
        ),
        IntentChanged::LeaseRenewed { id, expires_at } => {
            one("lease_renewed", json!({ "lease_id": id, "expires_at": words::moment(*expires_at) }))
        }
        IntentChanged::LeaseReleased { id } => one("lease_released", json!({ "lease_id": id })),
        IntentChanged::PolicySet(Some(policy)) => {
            one("governance.policy_set", json!({ "policy": policy.written }))
        }
        IntentChanged::PolicySet(None) => one("governance.policy_removed", json!({})),
        IntentChanged::AccessSet(access) => of_access(by, access, known.access_before(sequence)),
    }
}

/// Who was let in, and who was not any more.
fn of_access(by: Option<&str>, access: &Access, before: Option<&Access>) -> Vec<Told> {
    let payload = |entry: &AccessEntry| {
        json!({
            "entry_id": entry.id,
            "principal_id": entry.principal,
            "principal_type": entry.principal_type,
            "permission": entry.permission.name(),
            "expires_at": entry.expires_at.map(words::moment),
        })
    };
    let was = |entry: &AccessEntry| {
        before.is_some_and(|before| before.entries.iter().any(|known| known.id == entry.id))
    };
    let granted = access.entries.iter().filter(|entry| !was(entry));
    let stays = |entry: &AccessEntry| access.entries.iter().any(|kept| kept.id == entry.id);
    let gone = before.into_iter().flat_map(|before| &before.entries).filter(|entry| !stays(entry));
    let mut told: Vec<Told> = granted.map(|entry| Told::by(by, "access_granted", payload(entry))).collect();
    told.extend(gone.map(|entry| Told::by(by, "access_revoked", payload(entry))));
    if before.map_or(access.closed, |before| before.closed != access.closed) {
        let policy = if access.closed { "closed" } else { "open" };
        told.push(Told::by(by, "access_policy_set", json!({ "default_policy": policy })));
    }
    told
}

fn of_task(changed: &TaskChanged, run: RunId, event_type: &'static str) -> Told {
    let created = changed.created.as_deref();
    let payload = json!({
        "task_id": local(run, &json!(changed.task_id)),
        "name": created.map(|task| task.name.as_str()),
        "assigned_agent": changed.agent.as_deref().or(created.and_then(|task| task.agent.as_deref())),
        "attempt": changed.attempt,
        "reason": changed.reason,
        "blocked_reason": changed.reason.as_ref().filter(|_| event_type == "task.blocked"),
        "suspended_intent_id": changed.suspended_intent_id.map(words::id),
        "expires_at": changed.expires_at.map(words::moment),
        "progress": changed.progress,
        "output": changed.output,
        "error": changed.error.as_ref().map(|error| json!({ "code": error.code, "message": error.message })),
    });
    let by = changed.by.as_deref().or(changed.agent.as_deref());
    Told::by(by, event_type, without_nulls(payload))
}

fn of_plan(changed: &PlanChanged, run: RunId, event_type: &'static str) -> Told {
    let payload = json!({
        "plan_id": local(run, &json!(changed.plan_id)),
        "task_id": changed.task_id.map(|task| local(run, &json!(task))),
        "checkpoint_id": changed.checkpoint,
        "reason": changed.reason,
    });
    Told::by(changed.by.as_deref(), event_type, without_nulls(payload))
}

fn without_nulls(mut payload: Value) -> Value {
    if let Some(fields) = payload.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    payload
}

/// Who did it, and what is to be said of it.
fn of_coordinator(change: &CoordinatorChange) -> (Option<&str>, Value) {
    match change {
        CoordinatorChange::Registered(registered) => (
            Some(&registered.agent),
            json!({
                "agent_id": registered.agent,
                "supervisor_id": registered.supervisor,
                "suspension_policy": registered.suspension_policy,
            }),
        ),
        CoordinatorChange::PolicySet(set) => (None, json!({ "suspension_policy": set.suspension_policy })),
        CoordinatorChange::Paused(paused) => (None, json!({ "reason": paused.reason })),
        CoordinatorChange::FailedOver(over) => {
            (None, json!({ "reason": over.reason, "supervisor_id": over.supervisor }))
        }
        CoordinatorChange::Replaced(replaced) => {
            (Some(&replaced.agent), json!({ "agent_id": replaced.agent, "previous_agent_id": replaced.was }))
        }
        CoordinatorChange::EscalationRequired(required) => (
            None,
            json!({
                "suspended_intent_id": words::id(required.suspended_intent_id),
                "phase_name": required.phase_name,
                "suspended_since": words::moment(required.suspended_since),
                "expires_at": required.expires_at.map(words::moment),
            }),
        ),
        CoordinatorChange::DependentsBlocked(blocked) => (
            None,
            json!({
                "phase_name": blocked.phase_name,
                "suspended_intent_id": words::id(blocked.suspended_intent_id),
                "phases": blocked.phases,
            }),
        ),
        CoordinatorChange::DependentsUnblocked(unblocked) => {
            (None, json!({ "phase_name": unblocked.phase_name, "phases": unblocked.phases }))
        }
        CoordinatorChange::Heartbeat {}
        | CoordinatorChange::Resumed {}
        | CoordinatorChange::Unresponsive {}
        | CoordinatorChange::Completed {} => (None, json!({})),
    }
}

/// What happens in a portfolio.
fn of_group(event: &RunEvent, group: RunId) -> Option<Told> {
    let of = |run: RunId| json!({ "portfolio_id": words::id(group), "intent_id": words::id(run) });
    Some(match event {
        RunEvent::MemberAdded(added) => {
            let mut payload = of(added.run);
            payload["role"] = json!(added.role.name());
            payload["priority"] = json!(added.priority);
            Told::by(added.by.as_deref(), "added_to_portfolio", payload)
        }
        RunEvent::MemberRemoved(removed) => {
            Told::by(removed.by.as_deref(), "removed_from_portfolio", of(removed.run))
        }
        RunEvent::MemberReported(reported) => Told::itself(name(event), member(reported, of(reported.run))),
        RunEvent::GovernanceSet(set) => {
            let payload = json!({ "portfolio_id": words::id(group), "governance_policy": set.governance });
            Told::by(set.by.as_deref(), name(event), payload)
        }
        RunEvent::BudgetExceeded(exceeded) => {
            let payload = json!({ "portfolio_id": words::id(group), "limit_cents": exceeded.limit_cents });
            Told::itself(name(event), payload)
        }
        _ => return None,
    })
}

fn member(reported: &MemberReported, mut payload: Value) -> Value {
    payload["status"] = json!(reported.status.intent_name());
    payload["suspended_since"] = json!(reported.suspended.map(|suspended| words::moment(suspended.since)));
    let end = reported.suspended.and_then(|suspended| suspended.expires_at);
    payload["expires_at"] = json!(end.map(words::moment));
    payload
}
