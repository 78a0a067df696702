//! Fire: a timer's time has come. Never early, never twice.

use crate::command::Turn;
use crate::event::{Event, NodeCompleted, NodeEvent};
use crate::{Rejection, Run, TimerId};

pub(super) fn decide(run: &mut Run, turn: &mut Turn, timer: &TimerId) -> Result<(), Rejection> {
    run.check_open()?;
    let due = *run.state.timers.get(timer).ok_or(Rejection::NoSuchTimer)?;
    if turn.now < due {
        return Err(Rejection::NotDue { due });
    }
    if let TimerId::Delay { node, .. } = timer {
        let event = NodeEvent::Completed(NodeCompleted { outputs: None });
        turn.emit(run, &Event::Node { node: node.clone(), event }, None);
    }
    // The stretch timer needs no event of its own: the first node that starts takes it away.
    run.advance(turn);
    Ok(())
}
