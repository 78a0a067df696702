//! What happens to a run as a whole, in OpenWOP's words.

use abide_core::RunEvent;
use abide_core::event::{
    Cancellation, CapBreached, Completed, Failed, Held, LoopbackLimit, NodeStarted, Paused, Released,
    ResumeEscalated, Resumed, Started, VariableChanged,
};

use super::{
    CapWasBreached, LoopbackLimitReached, NodeHasStarted, Payload, ReplayHasDiverged, RunCancelled,
    RunCompleted, RunFailed, RunPaused, RunResumed, RunStarted, Transport, VariableHasChanged,
};
use crate::time;

/// What an event says; `None` if OpenWOP has no name for it.
pub(super) fn of(event: RunEvent) -> Option<Payload> {
    Some(match event {
        RunEvent::Started(started) => Payload::RunStarted(run_started(*started)),
        RunEvent::Completed(Completed { duration_ms }) => Payload::RunCompleted(RunCompleted { duration_ms }),
        RunEvent::Failed(Failed { error, failed_node_id }) => {
            Payload::RunFailed(RunFailed { error: error.into(), failed_node_id })
        }
        RunEvent::Cancelled(Cancellation { reason, cancelled_by, parent_run_id, .. }) => {
            Payload::RunCancelled(RunCancelled { reason, cancelled_by, parent_run_id })
        }
        RunEvent::Paused(Paused { reason, by }) => Payload::RunPaused(RunPaused { reason, by }),
        RunEvent::Resumed(Resumed { by, reason }) => Payload::RunResumed(RunResumed { reason, by }),
        // Nothing starts until a person decides, which is a pause to whoever knows no more of it.
        RunEvent::ResumeEscalated(escalated) => Payload::RunPaused(RunPaused {
            reason: Some(escalated_because(&escalated)),
            by: Some("system".to_owned()),
        }),
        RunEvent::ResumeRequested(asked) => {
            Payload::RunResumed(RunResumed { reason: asked.reason, by: Some(asked.by) })
        }
        RunEvent::Held(Held { reason, by, .. }) => Payload::RunPaused(RunPaused { reason, by }),
        RunEvent::Released(Released { by, reason }) => Payload::RunResumed(RunResumed { reason, by }),
        RunEvent::CapBreached(CapBreached { kind, limit, observed, node_id }) => {
            Payload::CapWasBreached(CapWasBreached { kind, limit, observed, node_id })
        }
        RunEvent::VariableChanged(VariableChanged { name, next, .. }) => {
            Payload::VariableHasChanged(VariableHasChanged { name, next })
        }
        RunEvent::LoopbackLimit(LoopbackLimit { node_id, iterations }) => {
            Payload::LoopbackLimitReached(LoopbackLimitReached { node_id, iterations })
        }
        RunEvent::ReplayDiverged(diverged) => Payload::ReplayHasDiverged(ReplayHasDiverged {
            source_run_id: diverged.source_run_id,
            at_sequence: diverged.at_sequence,
            original_event_id: diverged.original_event_id,
            divergence_kind: diverged.divergence_kind.name(),
        }),
        RunEvent::IntentPatched(_)
        | RunEvent::Intent(_)
        | RunEvent::Cancelling(_)
        | RunEvent::Pausing(_)
        | RunEvent::Yielded(_)
        | RunEvent::ChildReported(_)
        | RunEvent::LoopRestarted(_)
        | RunEvent::ChildRefused(_)
        | RunEvent::ResumeDecided(_)
        | RunEvent::ResumeSwitched(_)
        | RunEvent::Activated(_)
        | RunEvent::Blocked(_)
        | RunEvent::Unblocked(_)
        | RunEvent::DependencyAdded(_)
        | RunEvent::DependencyRemoved(_)
        | RunEvent::DependencyReported(_)
        | RunEvent::Watched(_)
        | RunEvent::MemberAdded(_)
        | RunEvent::MemberRemoved(_)
        | RunEvent::MemberReported(_)
        | RunEvent::GovernanceSet(_)
        | RunEvent::BudgetExceeded(_)
        | RunEvent::Task(_)
        | RunEvent::Plan(_)
        | RunEvent::Coordinator(_)
        | RunEvent::Ordered(_)
        | RunEvent::ChildAdded(_) => return None,
    })
}

fn escalated_because(escalated: &ResumeEscalated) -> String {
    let class = &escalated.interruption_class;
    match escalated.reason_code {
        Some(code) => format!("interrupted ({class}) and not resumed by itself: {}", code.name()),
        None => format!("interrupted ({class}); it is not resumed by itself"),
    }
}

fn run_started(started: Started) -> RunStarted {
    let (parent_run_id, parent_node_id) = started.parent.map(|parent| (parent.run, parent.node)).unzip();
    RunStarted {
        workflow_id: started.workflow_id,
        definition: started.definition,
        transport: Transport::Rest,
        inputs: started.inputs,
        tags: started.tags,
        metadata: started.metadata,
        configurable: started.configurable,
        by: started.by,
        scope_id: started.scope,
        parent_run_id,
        parent_node_id,
    }
}

/// A node has begun, as OpenWOP tells it.
pub(super) fn node_started(node_id: String, started: NodeStarted) -> NodeHasStarted {
    NodeHasStarted {
        node_id,
        type_id: started.type_id.to_string(),
        attempt: started.attempt,
        execution: started.execution,
        inputs: started.inputs,
        until: started.until.map(time::rfc3339),
    }
}
