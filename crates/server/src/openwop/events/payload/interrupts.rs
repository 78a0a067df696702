//! What happens to an interrupt, in OpenWOP's words.

use abide_core::event::{
    ApprovalReceived, ClarificationRequested, ClarificationResolved, InterruptRequested, InterruptResolved,
    NodeResumed, NodeSuspended,
};
use abide_core::{InterruptKind, NodeEvent};

use super::{
    ApprovalWasReceived, ClarificationWasRequested, ClarificationWasResolved, InterruptWasRequested,
    InterruptWasResolved, NodeHasResumed, NodeWasSuspended, Payload, Place, conversations,
};
use crate::time;

/// What an event says about an interrupt; `None` if it is about something else.
pub(super) fn of(event: NodeEvent, node_id: String, place: Place) -> Option<Payload> {
    Some(match event {
        NodeEvent::InterruptRequested(asked) => {
            Payload::InterruptWasRequested(requested(*asked, node_id, place))
        }
        NodeEvent::ClarificationRequested(ClarificationRequested { interrupt_id, questions, .. }) => {
            Payload::ClarificationWasRequested(ClarificationWasRequested { node_id, interrupt_id, questions })
        }
        NodeEvent::Suspended(suspended) => Payload::NodeWasSuspended(stopped(suspended, node_id)),
        NodeEvent::ApprovalReceived(received) => {
            Payload::ApprovalWasReceived(approval(*received, node_id, place))
        }
        NodeEvent::ClarificationResolved(ClarificationResolved {
            interrupt_id,
            answers,
            answered_by,
            ..
        }) => {
            let resolved = ClarificationWasResolved { node_id, interrupt_id, answers, answered_by };
            Payload::ClarificationWasResolved(resolved)
        }
        NodeEvent::InterruptResolved(closed) => {
            Payload::InterruptWasResolved(resolved(*closed, node_id, place))
        }
        NodeEvent::Resumed(NodeResumed { interrupt_id }) => {
            Payload::NodeHasResumed(NodeHasResumed { node_id, interrupt_id })
        }
        other => return conversations::of(other, node_id, place),
    })
}

fn stopped(suspended: NodeSuspended, node_id: String) -> NodeWasSuspended {
    let NodeSuspended { interrupt_id, kind, key, doubt, .. } = suspended;
    let (agent_id, threshold, observed) = match doubt {
        Some(doubt) => (Some(doubt.agent_id), Some(doubt.threshold), Some(doubt.observed)),
        None => (None, None, None),
    };
    let reason = reason(kind);
    NodeWasSuspended { node_id, interrupt_id, kind, key, reason, agent_id, threshold, observed }
}

fn requested(asked: InterruptRequested, node_id: String, place: Place) -> InterruptWasRequested {
    InterruptWasRequested {
        run_id: place.run,
        node_id,
        interrupt_id: asked.interrupt_id,
        kind: asked.kind,
        key: asked.key,
        data: asked.data,
        timeout_ms: asked.timeout_ms,
        resume_schema: asked.resume_schema,
        requested_at: time::rfc3339(place.at),
    }
}

fn approval(received: ApprovalReceived, node_id: String, place: Place) -> ApprovalWasReceived {
    ApprovalWasReceived {
        node_id,
        interrupt_id: received.interrupt_id,
        action: received.action,
        decided_by: received.decided_by,
        decided_at: time::rfc3339(place.at),
        feedback: received.feedback,
        reason: received.reason,
        refine_feedback: received.refine_feedback,
        edited_artifact_data: received.edited_artifact_data,
    }
}

fn resolved(closed: InterruptResolved, node_id: String, place: Place) -> InterruptWasResolved {
    InterruptWasResolved {
        run_id: place.run,
        node_id,
        interrupt_id: closed.interrupt_id,
        kind: closed.kind,
        resume_value: closed.resume_value,
        outcome: closed.outcome.name(),
        reason: closed.reason,
        resolved_at: time::rfc3339(place.at),
        resolved_by: closed.resolved_by,
    }
}

/// The word by which OpenWOP tells these kinds from an approval.
fn reason(kind: InterruptKind) -> Option<&'static str> {
    match kind {
        InterruptKind::LowConfidence => Some("low-confidence"),
        InterruptKind::ConversationStart
        | InterruptKind::ConversationExchange
        | InterruptKind::ConversationClose => Some("conversation-input"),
        InterruptKind::Approval
        | InterruptKind::Clarification
        | InterruptKind::ExternalEvent
        | InterruptKind::Custom => None,
    }
}
