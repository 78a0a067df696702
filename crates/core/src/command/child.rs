//! Hear and refuse: a child run tells how it stands, or could not be started.
//!
//! The notice carries state and sequence. A sequence that was heard before is refused, so that order and
//! repeats of delivery don't matter.

use crate::children::ChildEnd;
use crate::command::Draft;
use crate::event::{ChildRefused, ChildReported, RunEvent};
use crate::{Failure, JsonMap, Lifecycle, Notice, Rejection, Run, RunId};

pub(super) fn hear(
    run: &mut Run,
    draft: &mut Draft,
    notice: &Notice,
    heard: Option<u64>,
) -> Result<(), Rejection> {
    run.check_open()?;
    if heard.is_some_and(|heard| heard >= notice.sequence) {
        return Err(Rejection::HeardBefore);
    }
    // A worker that waits for it goes on, too.
    let waits = run.hear_of(draft, notice);
    let depends = run.hear_child_waited_for(draft, notice);
    let last = run.is_done() && !run.has_unfinished_children();
    if waits || depends || last || !run.state.answered.is_empty() {
        run.advance(draft);
    }
    Ok(())
}

impl Run {
    /// Records what a child tells. The answer is whether somebody waited for it.
    pub(crate) fn hear_of(&mut self, draft: &mut Draft, notice: &Notice) -> bool {
        let run = self;
        let report = ChildReported {
            child: notice.from,
            node: notice.node.clone(),
            sequence: notice.sequence,
            lifecycle: notice.lifecycle,
            execution: Some(notice.execution).filter(|&execution| execution > 0),
            outputs: notice.outputs.clone(),
            sensitive: notice.sensitive.clone(),
            error: notice.error.clone(),
            still: notice.still,
            status: notice.status,
            suspended: notice.suspended,
            claimed: notice.claimed,
        };
        let waits = run.waiting_for(&notice.node, notice.from).filter(|_| notice.lifecycle.is_terminal());
        let tool = run.tool_of(&notice.node, notice.from).filter(|_| notice.lifecycle.is_terminal());
        let phase = run.phase_of(&notice.node, notice.from).filter(|_| !notice.lifecycle.is_terminal());
        let stood = phase.and_then(|ix| run.phase_suspension(ix));
        draft.emit_run(run, RunEvent::ChildReported(report), None);
        if let Some(ix) = phase {
            run.mirror_phase(draft, ix, stood);
        }
        // Before the run goes on: it may complete with this, and its tasks would be cancelled.
        run.mirror_child(draft, notice.from);
        if let Some(ix) = waits {
            run.child_ended(draft, ix, &ChildEnd::of(notice));
        }
        if let Some(ix) = tool {
            run.tool_ended(draft, ix, &ChildEnd::of(notice));
        }
        waits.is_some() || tool.is_some()
    }

    /// Records that a child could not be started. The answer is whether somebody waited for it.
    pub(crate) fn hear_refusal(&mut self, draft: &mut Draft, refused: &ChildRefused) -> bool {
        let run = self;
        let ChildRefused { child, node, error } = refused;
        let (waits, tool) = (run.waiting_for(node, *child), run.tool_of(node, *child));
        draft.emit_run(run, RunEvent::ChildRefused(refused.clone()), None);
        if let Some(ix) = waits {
            run.child_refused(draft, ix, *child, error);
        }
        if let Some(ix) = tool {
            let (outputs, error) = (&JsonMap::new(), Some(error));
            let end =
                ChildEnd { child: *child, lifecycle: Lifecycle::Failed, outputs, sensitive: &[], error };
            run.tool_ended(draft, ix, &end);
        }
        waits.is_some() || tool.is_some()
    }
}

pub(super) fn refuse(
    run: &mut Run,
    draft: &mut Draft,
    child: RunId,
    node: &str,
    error: &Failure,
) -> Result<(), Rejection> {
    run.check_open()?;
    let refused = ChildRefused { child, node: node.to_owned(), error: error.clone() };
    let waits = run.hear_refusal(draft, &refused);
    let last = run.is_done() && !run.has_unfinished_children();
    if waits || last || !run.state.answered.is_empty() {
        run.advance(draft);
    }
    Ok(())
}
