//! Cancel: the run ends, as soon as no outcome is unknown.

use crate::command::{Draft, check_reason};
use crate::event::{Cancellation, RunEvent};
use crate::run::Ending;
use crate::{Rejection, Run};

pub(super) fn decide(run: &mut Run, draft: &mut Draft, asked: Cancellation) -> Result<(), Rejection> {
    // Nobody but whoever cancels it ends a replay of a run that was being cancelled.
    match run.is_replay() {
        true => run.check_open()?,
        false => run.check_running()?,
    }
    check_reason(asked.reason.as_ref())?;
    if run.is_replay() {
        run.stop_replay(draft, &asked);
    } else if run.state.in_flight > 0 {
        draft.emit_run(run, RunEvent::Cancelling(asked), None);
        run.advance(draft);
    } else {
        // Nothing to wait for: the terminal event says all, and no `run.cancelling` is needed.
        run.conclude(draft, Some(Ending::cancelled(&asked)));
    }
    Ok(())
}
