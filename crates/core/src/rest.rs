//! Whether a run rests: whether a decision may have ended where its journal ends.
//!
//! What is decided together is written together, so a run that is read back rests. A journal that lost its end may stop
//! in the middle of a decision, where nobody would ever go on.

use crate::{Hold, Lifecycle, Node, NodeIx, NodePhase, Run, TimerId};

impl Run {
    /// Whether nothing is left that the decision behind the last event would have done.
    pub fn is_at_rest(&self) -> bool {
        let state = &self.state;
        if state.lifecycle.is_terminal() {
            return true;
        }
        if state.lifecycle == Lifecycle::Pending {
            return false;
        }
        let in_line = !(state.ready.is_empty()
            && state.doomed.is_empty()
            && state.restarts.is_empty()
            && state.workers.is_empty()
            && state.answered.is_empty());
        let free = state.hold == Hold::None && !self.is_kept_back();
        let may_go_on = state.ending.is_none() && free && !self.has_yielded();
        let completes = self.is_done() && state.bonds.blocked.is_none() && !self.has_unfinished_children();
        let is_over = state.in_flight == 0 && (state.ending.is_some() || completes);
        let nodes = || state.nodes.iter().enumerate();
        !(is_over || in_line && may_go_on)
            && self.is_cared_for()
            && nodes().all(|(ix, node)| self.has_an_end(ix as NodeIx, node))
    }

    /// Whether no node of it is left to be done.
    pub(crate) fn is_done(&self) -> bool {
        self.state.unsettled == 0 && self.state.restarts.is_empty()
    }

    /// Whether a child that somebody had it start has not completed. So it does not either, whatever became of the node
    /// below which that was.
    pub(crate) fn has_unfinished_children(&self) -> bool {
        self.state.nodes.iter().any(|node| node.unfinished > 0)
    }

    /// Whether somebody decides how it goes on, if it may not go on by itself. Whoever answered has been heard, though it is
    /// not decided yet.
    pub(crate) fn is_cared_for(&self) -> bool {
        let state = &self.state;
        let decided = state.ending.is_some() || state.resume.wish.is_some();
        state.hold != Hold::Escalated || decided || self.open_question().is_some()
    }

    /// Whether something comes that the node goes on with.
    pub(crate) fn has_an_end(&self, ix: NodeIx, node: &Node) -> bool {
        match node.phase {
            NodePhase::Running => node.dispatched || self.is_by_hand(ix),
            NodePhase::Waiting => {
                // A node that was interrupted is looked at, unless the run is held: then it is looked at afterwards.
                let looked_at =
                    || self.state.hold != Hold::None || self.state.timers.contains_key(&TimerId::Resume);
                let interrupted =
                    self.state.resume.interrupted.contains_key(&ix) && (self.is_replay() || looked_at());
                let turn =
                    node.turn.as_deref().is_some_and(|turn| turn.awaits_provider() || self.awaits_tools(ix));
                let child = node.child.is_some() && node.turn.is_none();
                let outside = self.is_by_hand(ix) || node.work.is_some();
                node.until.is_some() || child || outside || turn || interrupted
            }
            NodePhase::Suspended => {
                let asked = || node.stopped_for.iter().any(|id| self.state.open.contains_key(id));
                // Whoever was answered while the run is held goes on when it is released.
                let kept = || self.state.answered.iter().any(|(answered, _)| *answered == ix);
                let waits = self.state.hold != Hold::None || self.is_kept_back();
                node.work.is_some() || asked() || waits && kept()
            }
            _ => true,
        }
    }
}
