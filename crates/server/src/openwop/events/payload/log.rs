//! What the log of a run says of events that OpenWOP has no name for.

use abide_core::{Event, NodeEvent, RunEvent};

use super::Level;

/// An event in a sentence, and how much it matters.
pub(super) fn told(event: &Event) -> (Level, String) {
    match event {
        Event::Run(RunEvent::Cancelling(_)) => {
            (Level::Info, "the run is being cancelled; work under way is waited for".to_owned())
        }
        Event::Run(RunEvent::Pausing(_)) => {
            (Level::Info, "the run is being paused; work under way is waited for".to_owned())
        }
        Event::Run(RunEvent::ChildReported(report)) => {
            let status = format!("{:?}", report.lifecycle).to_lowercase();
            (Level::Info, format!("the child {} of node '{}' is {status}", report.child, report.node))
        }
        Event::Run(RunEvent::ChildRefused(refused)) => {
            let message = &refused.error.message;
            (Level::Info, format!("the child of node '{}' could not be started: {message}", refused.node))
        }
        Event::Run(RunEvent::LoopRestarted(restarted)) => {
            let (node, iteration) = (&restarted.node, restarted.iteration);
            (Level::Info, format!("the loop at node '{node}' goes back for the {iteration}. time"))
        }
        Event::Node { node, event: NodeEvent::Spawned(spawned) } => {
            let (child, workflow) = (spawned.child, &spawned.workflow_id);
            (Level::Info, format!("node '{node}' starts the child {child} of workflow '{workflow}'"))
        }
        Event::Node { node, event: NodeEvent::Due(_) } => {
            (Level::Debug, format!("the next attempt at node '{node}' is due"))
        }
        Event::Node { node, event: NodeEvent::ProviderRetry(retry) } => {
            let (number, seconds) = (retry.attempt + 1, retry.delay_ms as f64 / 1000.0);
            (
                Level::Info,
                format!("the provider of node '{node}' can't answer; retry {number} comes in {seconds} s"),
            )
        }
        Event::Node { node, event: NodeEvent::ProviderPostponed(postponed) } => {
            let provider = &postponed.provider;
            (
                Level::Info,
                format!("provider '{provider}' of node '{node}' is known to be away, and is not asked"),
            )
        }
        Event::Node { node, event: NodeEvent::TurnSealed(sealed) } => {
            let end = format!("{:?}", sealed.status).to_lowercase();
            (Level::Info, format!("the turn of node '{node}' is over: {end}"))
        }
        Event::Node { node, event: NodeEvent::ToolAnswered(answered) } => {
            let how = if answered.is_error { "failed" } else { "answered" };
            (Level::Info, format!("the tool '{}' of node '{node}' {how}", answered.name))
        }
        other => (Level::Debug, format!("{} was recorded", other.event_type().name)),
    }
}
