//! Cancel: the run ends, as soon as no outcome is unknown.

use crate::command::{Turn, check_reason};
use crate::event::{Cancellation, RunEvent};
use crate::run::Ending;
use crate::{Rejection, Run};

pub(super) fn decide(run: &mut Run, turn: &mut Turn, asked: Cancellation) -> Result<(), Rejection> {
    run.check_running()?;
    check_reason(asked.reason.as_ref())?;
    if run.state.in_flight > 0 {
        turn.emit_run(run, RunEvent::Cancelling(asked), None);
        run.advance(turn);
    } else {
        // Nothing to wait for: the terminal event says all, and no `run.cancelling` is needed.
        run.conclude(turn, Some(Ending::cancelled(&asked)));
    }
    Ok(())
}
