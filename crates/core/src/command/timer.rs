//! Fire: a timer's time has come. Never early, never twice.

use crate::command::{Draft, turn};
use crate::event::{NodeDue, NodeEvent};
use crate::{NodeIx, Rejection, Run, TimerId};

pub(super) fn decide(run: &mut Run, draft: &mut Draft, timer: &TimerId) -> Result<(), Rejection> {
    run.check_open()?;
    let due = *run.state.timers.get(timer).ok_or(Rejection::NoSuchTimer)?;
    if draft.now < due {
        return Err(Rejection::NotDue { due });
    }
    // Nobody is waited for after the deadline of a group, whichever timer is heard first.
    let asks = matches!(
        timer,
        TimerId::Interrupt(_) | TimerId::Occasion(_) | TimerId::Attempt(_) | TimerId::Grace(_)
    );
    if asks && run.is_overdue(draft.now) && run.meet_deadline(draft) {
        return Ok(());
    }
    match timer {
        // What this is about ended before a deadline, which is as late.
        timer if !run.state.timers.contains_key(timer) => {}
        TimerId::Deadline => {
            if run.meet_deadline(draft) {
                return Ok(());
            }
        }
        TimerId::Delay { node, .. } => {
            let ix = node_of(run, node)?;
            run.complete(draft, ix, None, false);
        }
        TimerId::Retry { node, .. } => {
            let ix = node_of(run, node)?;
            run.emit_node(draft, ix, NodeEvent::Due(NodeDue::in_time()), None);
        }
        TimerId::Provider { node, .. } => {
            let ix = node_of(run, node)?;
            turn::due(run, draft, ix)?;
        }
        TimerId::Sleep { node, sequence, .. } => {
            let ix = node_of(run, node)?;
            run.wake(draft, ix, *sequence)?;
        }
        TimerId::Interrupt(id) | TimerId::Occasion(id) => run.end_interrupt(draft, *id),
        TimerId::Attempt(id) => run.climb(draft, *id),
        TimerId::Grace(id) => run.end_grace(draft, *id)?,
        TimerId::Coordinator(id) => run.coordinator_due(draft, id)?,
        TimerId::RunTimeout => time_out(run, draft),
        // Whoever fires it has to say what can be read.
        TimerId::Resume => return Err(Rejection::NoSuchTimer),
        // The stretch timer needs no event of its own: the first node that starts takes it away.
        TimerId::Stretch => {}
    }
    run.advance(draft);
    Ok(())
}

fn node_of(run: &Run, node: &str) -> Result<NodeIx, Rejection> {
    run.graph.node(node).ok_or(Rejection::NoSuchTimer)
}

fn time_out(run: &mut Run, draft: &mut Draft) {
    let limit = run.state.caps.duration_ms.unwrap_or(0);
    let observed = (draft.now - run.state.started_at).max(limit);
    let whole = |ms: i64| u64::try_from(ms).unwrap_or(0);
    run.breach(draft, "run-duration", whole(limit), whole(observed), None);
}
