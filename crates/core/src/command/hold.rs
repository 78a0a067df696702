//! Pause and resume, hold and release: what keeps nodes from starting, and what lifts it.
//!
//! A pause is for machines, and is refused while people are asked. A hold is for people who look after runs: it is taken
//! by whatever is under way. There is one hold at a time, and whatever lifts one lifts the other.

use crate::command::{Draft, Drain, check_reason};
use crate::event::{Held, HoldMode, Paused, Released, Resumed, RunEvent};
use crate::{Hold, Rejection, Run};

pub(super) fn pause(run: &mut Run, draft: &mut Draft, asked: Paused, drain: Drain) -> Result<(), Rejection> {
    run.check_running()?;
    check_reason(asked.reason.as_ref())?;
    if let Some(waiting) = run.waiting() {
        return Err(Rejection::Waiting(waiting));
    }
    let at_once = drain == Drain::Immediate || run.state.in_flight == 0;
    let event = match (run.state.hold, at_once) {
        // Whoever can't wait any longer may still say so.
        (Hold::None | Hold::Pausing, true) => RunEvent::Paused(asked),
        (Hold::None, false) => RunEvent::Pausing(asked),
        (Hold::Pausing, false) | (Hold::Paused, _) => return Err(Rejection::AlreadyPaused),
        (Hold::Stopped, _) => return Err(Rejection::AlreadyStopped),
        (Hold::Escalated, _) => return Err(Rejection::Escalated),
    };
    draft.emit_run(run, event, None);
    Ok(())
}

pub(super) fn resume(run: &mut Run, draft: &mut Draft, asked: Resumed) -> Result<(), Rejection> {
    run.check_running()?;
    check_reason(asked.reason.as_ref())?;
    check_held(run, Rejection::NotPaused)?;
    draft.emit_run(run, RunEvent::Resumed(asked), None);
    run.set_free(draft);
    Ok(())
}

pub(super) fn hold(run: &mut Run, draft: &mut Draft, asked: Held) -> Result<(), Rejection> {
    run.check_running()?;
    check_reason(asked.reason.as_ref())?;
    match (run.state.hold, asked.mode) {
        (Hold::Escalated, _) => return Err(Rejection::Escalated),
        (Hold::Paused, HoldMode::Pause) => return Err(Rejection::AlreadyPaused),
        (Hold::Stopped, HoldMode::Stop) => return Err(Rejection::AlreadyStopped),
        (_, HoldMode::Stop) => {
            run.catch_up(draft);
            // A deadline may have ended it.
            if run.lifecycle() != crate::Lifecycle::Running {
                return Ok(());
            }
        }
        (_, HoldMode::Pause) => {}
    }
    draft.emit_run(run, RunEvent::Held(asked), None);
    Ok(())
}

pub(super) fn release(run: &mut Run, draft: &mut Draft, asked: Released) -> Result<(), Rejection> {
    run.check_running()?;
    check_reason(asked.reason.as_ref())?;
    check_held(run, Rejection::NotHeld)?;
    draft.emit_run(run, RunEvent::Released(asked), None);
    run.set_free(draft);
    Ok(())
}

/// Refuses to lift what people have not put there: `otherwise` if nobody holds the run.
fn check_held(run: &Run, otherwise: Rejection) -> Result<(), Rejection> {
    match run.state.hold {
        Hold::None => Err(otherwise),
        Hold::Escalated => Err(Rejection::Escalated),
        Hold::Pausing | Hold::Paused | Hold::Stopped => Ok(()),
    }
}

impl Run {
    /// Pauses a run that was waiting for the last outcome, if that is known now.
    ///
    /// A run that is going to end is not paused any more: it has ended by then.
    pub(crate) fn settle_pause(&mut self, draft: &mut Draft) {
        let is_drained = self.state.in_flight == 0 && self.state.ending.is_none();
        if self.state.hold == Hold::Pausing && is_drained {
            let asked = self.state.pausing.clone().unwrap_or_default();
            let cause = draft.last_sequence();
            draft.emit_run(self, RunEvent::Paused(asked), cause);
        }
    }
}
