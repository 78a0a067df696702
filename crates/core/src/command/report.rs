//! Report: an executor tells how a task ended.

use crate::command::{Report, Turn};
use crate::event::{Event, NodeCompleted, NodeEvent, NodeFailed};
use crate::{NodePhase, Rejection, Run, TaskId};

pub(super) fn decide(run: &mut Run, turn: &mut Turn, report: Report) -> Result<(), Rejection> {
    run.check_open()?;
    check_under_way(run, &report.task)?;
    let event = match report.outcome {
        Ok(outputs) => NodeEvent::Completed(NodeCompleted { outputs }),
        Err(error) => NodeEvent::Failed(NodeFailed { error }),
    };
    turn.emit(run, &Event::Node { node: report.task.node, event }, None);
    run.advance(turn);
    Ok(())
}

fn check_under_way(run: &Run, task: &TaskId) -> Result<(), Rejection> {
    let ix = run.graph.node(&task.node).ok_or(Rejection::NoSuchTask)?;
    let node = run.node(ix);
    let under_way = node.phase == NodePhase::Running && node.execution == task.execution;
    if under_way { Ok(()) } else { Err(Rejection::NoSuchTask) }
}
