//! Hear: a child run tells how it stands.
//!
//! The notice carries state and sequence. A sequence that was heard before is refused, so that order and
//! repeats of delivery don't matter.

use crate::command::Turn;
use crate::event::{ChildReported, RunEvent};
use crate::{Notice, Rejection, Run};

pub(super) fn decide(
    run: &mut Run,
    turn: &mut Turn,
    notice: &Notice,
    heard: Option<u64>,
) -> Result<(), Rejection> {
    run.check_open()?;
    if heard.is_some_and(|heard| heard >= notice.sequence) {
        return Err(Rejection::HeardBefore);
    }
    let Notice { from: child, sequence, lifecycle, ref node, .. } = *notice;
    let report = ChildReported { child, node: node.clone(), sequence, lifecycle };
    turn.emit_run(run, RunEvent::ChildReported(report), None);
    Ok(())
}
