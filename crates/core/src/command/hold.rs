//! Pause and resume: a hold that keeps nodes from starting.

use crate::command::{Turn, check_reason};
use crate::event::{Paused, Resumed, RunEvent};
use crate::{Hold, Rejection, Run};

pub(super) fn pause(
    run: &mut Run,
    turn: &mut Turn,
    reason: Option<String>,
    by: Option<String>,
) -> Result<(), Rejection> {
    run.check_running()?;
    check_reason(reason.as_ref())?;
    if run.state.hold != Hold::None {
        return Err(Rejection::AlreadyPaused);
    }
    turn.emit_run(run, RunEvent::Paused(Paused { reason, by }), None);
    Ok(())
}

pub(super) fn resume(run: &mut Run, turn: &mut Turn, by: Option<String>) -> Result<(), Rejection> {
    run.check_running()?;
    if run.state.hold != Hold::Paused {
        return Err(Rejection::NotPaused);
    }
    turn.emit_run(run, RunEvent::Resumed(Resumed { by }), None);
    run.advance(turn);
    Ok(())
}
