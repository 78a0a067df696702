//! Where a journal may be cut: between two decisions, and inside one where the rest of it stands in line.
//!
//! A journal does not say which events were decided together. But what a decision leaves undone shows: a node that has
//! begun and that nobody has, or an event that never comes alone.

use super::Told;
use crate::event::{Event, NodeEvent, Resolution, RunEvent};
use crate::interrupt::is_of_exchanges;
use crate::{NodeIx, NodePhase, Run};

/// Whether a run that has `last` behind it, and had `next` before it, would go on from here.
pub(super) fn is_between(run: &Run, last: &Told, next: &Told) -> bool {
    let mut nodes = run.state.nodes.iter().enumerate();
    let caused = run.head.next.checked_sub(1).is_some_and(|before| next.cause == Some(before));
    !is_followed(run, &last.event)
        && !follows(run, &last.event, &next.event, caused)
        && run.is_cared_for()
        && nodes.all(|(ix, node)| run.has_an_end(ix as NodeIx, node))
}

/// Whether the decision that made this event made another one after it.
fn is_followed(run: &Run, last: &Event) -> bool {
    let ending = run.state.ending.is_some();
    match last {
        Event::Run(event) => match event {
            // What people wanted to know before they decided is set last.
            RunEvent::VariableChanged(changed) => !is_of_exchanges(&changed.name),
            RunEvent::LoopbackLimit(_) => true,
            RunEvent::ResumeDecided(decided) => decided.eligible,
            // What ends with its run ends before it.
            RunEvent::Task(changed) => changed.with_run.is_some() && !ending,
            RunEvent::Plan(changed) => changed.with_run.is_some() && !ending,
            RunEvent::ChildReported(told) => {
                run.waiting_for(&told.node, told.child).is_some() && told.lifecycle.is_terminal()
                    || run.tool_of(&told.node, told.child).is_some() && told.lifecycle.is_terminal()
            }
            RunEvent::ChildRefused(told) => {
                run.waiting_for(&told.node, told.child).is_some()
                    || run.tool_of(&told.node, told.child).is_some()
            }
            _ => false,
        },
        Event::Node { event, .. } => match event {
            NodeEvent::ChannelWritten(_)
            | NodeEvent::Decided(_)
            | NodeEvent::ApprovalReceived(_)
            | NodeEvent::ClarificationResolved(_)
            | NodeEvent::InterruptExpired(_)
            | NodeEvent::AgentDecided(_)
            | NodeEvent::ConfidenceEscalated(_)
            | NodeEvent::Refined(_)
            | NodeEvent::ModelAnswered(_)
            | NodeEvent::TurnSealed(_) => true,
            // A run that is cancelled at once closes what is open first.
            NodeEvent::Cancelled(_) => !ending,
            NodeEvent::InterruptResolved(resolved) => {
                resolved.outcome == Resolution::Cancelled && resolved.reason.is_some() && !ending
            }
            _ => false,
        },
    }
}

/// Whether an event comes only with the one before it, which may have caused it.
fn follows(run: &Run, last: &Event, next: &Event, caused: bool) -> bool {
    let is_stopped = |node: &str| {
        let ix = run.graph.node(node);
        ix.is_some_and(|ix| run.node(ix).phase == NodePhase::Suspended && run.node(ix).work.is_none())
    };
    match (last, next) {
        // Whoever asks for several things asks for them at once.
        (_, Event::Node { node, event: NodeEvent::InterruptRequested(_) }) if is_stopped(node) => true,
        // A dispatch takes what a child gives back, or fails by it, before the next child stands in line for anybody else.
        (
            Event::Run(RunEvent::ChildReported(_) | RunEvent::ChildRefused(_)),
            Event::Run(RunEvent::VariableChanged(_)) | Event::Node { event: NodeEvent::Failed(_), .. },
        ) => caused,
        // Whoever has an interrupted run go on closes its question and decides at once; after an answer that is done later.
        (
            Event::Run(RunEvent::ResumeRequested(_)),
            Event::Node { node, event: NodeEvent::InterruptResolved(_) },
        ) if *node == run.graph.own_node => true,
        (Event::Run(RunEvent::ResumeRequested(_)), Event::Run(RunEvent::ResumeDecided(_))) => caused,
        // A phase is as blocked as the run that does it.
        (
            Event::Run(RunEvent::ChildReported(_)),
            Event::Node { event: NodeEvent::PhaseBlocked(_) | NodeEvent::PhaseUnblocked(_), .. },
        ) => caused,
        // What somebody asked back is kept in a variable.
        (
            Event::Node { event: NodeEvent::ApprovalAsked(_) | NodeEvent::ApprovalReplied(_), .. },
            Event::Run(RunEvent::VariableChanged(_)),
        ) => true,
        // The last vote decides. One that does not may be followed by the end of the time for it.
        (
            Event::Node { event: NodeEvent::ApprovalVoted(vote), .. },
            Event::Node { event: NodeEvent::ApprovalReceived(received), .. },
        ) => received.decided_by == vote.decided_by,
        // What follows from anything that was posted says what it follows from.
        (_, Event::Run(RunEvent::Task(_) | RunEvent::Plan(_))) => caused,
        // People are asked about a checkpoint as the plan comes to it.
        (_, Event::Node { event: NodeEvent::InterruptRequested(asked), .. })
            if asked.checkpoint.is_some() =>
        {
            true
        }
        // Nobody is waited for to open or to close a conversation.
        (_, Event::Node { event: NodeEvent::InterruptResolved(resolved), .. })
            if resolved.kind.is_momentary() =>
        {
            true
        }
        (_, Event::Node { event, .. }) => matches!(
            event,
            NodeEvent::Suspended(_)
                | NodeEvent::ClarificationRequested(_)
                | NodeEvent::ArtifactCreated(_)
                | NodeEvent::InterruptEscalated(_)
                | NodeEvent::ConversationOpened(_)
                | NodeEvent::ConversationExchanged(_)
                | NodeEvent::ConversationClosed(_)
                | NodeEvent::ProviderUsage(_)
        ),
        _ => false,
    }
}
