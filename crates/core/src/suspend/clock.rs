//! When a run's own time stands still because people are waited for.

use crate::effect::{Effect, TimerId};
use crate::fold::Folding;
use crate::node::Node;
use crate::tidings::Mirrored;
use crate::{Hold, Millis, NodePhase, Run};

impl Run {
    /// It waits from the first question on until there is none, however many are asked and answered in between.
    pub(crate) fn settle_suspended(&mut self, at: Millis) {
        let since = self.state.suspended_since;
        if self.state.open.is_empty() {
            self.state.suspended_since = None;
        } else {
            let first = self.awaited_answers().map(|open| open.at).min();
            self.state.suspended_since = first.map(|first| self.state.suspended_since.unwrap_or(first));
        }
        if let (Some(since), None) = (since, self.state.suspended_since) {
            self.lengthen_leases(since, at);
        }
    }

    /// Human time is not machine time: while nothing but an answer is waited for, the run's own time stands still, and
    /// so does that of a parent which waits for nothing else.
    pub(crate) fn settle_clock(&mut self, mirrored: Option<Mirrored>, folding: &mut Folding<'_>) {
        if self.state.lifecycle.is_terminal() {
            return;
        }
        let stood = self.state.still;
        if self.is_clocked() {
            let held = matches!(self.state.hold, Hold::Paused | Hold::Stopped | Hold::Escalated);
            let idle = self.is_kept_back() && self.state.in_flight == 0;
            let stands = held || idle || self.waits_for_people_alone();
            if stands {
                self.stop_run_clock(folding);
            } else {
                self.start_clock(folding);
            }
            self.state.still = stands && self.state.parent.as_ref().is_some_and(|parent| parent.clocked);
        }
        let otherwise = mirrored.is_some_and(|before| before != self.mirrored());
        let told = otherwise || self.state.still != stood;
        if let Some(parent) = self.state.parent.clone().filter(|_| told) {
            let notice = self.notice(&parent, folding.sequence);
            folding.effects.push(Effect::Send { to: parent.run, notice });
        }
    }

    /// How its parent sees it before an event, if that wants to know.
    pub(crate) fn sight_if_mirrored(&self) -> Option<Mirrored> {
        self.state.parent.as_ref().is_some_and(|parent| parent.mirrors).then(|| self.mirrored())
    }

    /// Whether somebody counts the run's time: itself, or a run above it.
    pub(crate) fn is_clocked(&self) -> bool {
        let above = self.state.parent.as_ref().is_some_and(|parent| parent.clocked);
        self.state.caps.duration_ms.is_some() || above
    }

    fn waits_for_people_alone(&self) -> bool {
        let state = &self.state;
        let idle = state.in_flight == 0
            && state.ready.is_empty()
            && state.answered.is_empty()
            && state.workers.is_empty();
        let timed = || {
            let is_time = |timer: &TimerId| {
                use TimerId::{Delay, Resume, Retry, Sleep};
                matches!(timer, Delay { .. } | Retry { .. } | Sleep { .. } | Resume)
            };
            state.timers.keys().any(is_time)
        };
        let is_still = |node: &Node| node.child.is_some_and(|child| state.still_children.contains(&child));
        let works = |node: &Node| match node.phase {
            NodePhase::Running => true,
            NodePhase::Waiting | NodePhase::Suspended if node.work.is_some() => self.has_working_child(node),
            // Nor is it machine time while a provider is away.
            NodePhase::Waiting if node.turn.is_some() => self.has_working_tool(node),
            NodePhase::Waiting => !is_still(node),
            _ => false,
        };
        // Most runs have no children that wait for people, and need not look for them after each event.
        let asks = !state.open.is_empty()
            || state.timers.keys().any(|timer| matches!(timer, TimerId::Provider { .. }))
            || !state.still_children.is_empty()
                && state
                    .nodes
                    .iter()
                    .any(|node| node.phase == NodePhase::Waiting && (is_still(node) || node.turn.is_some()));
        asks && idle && !timed() && !state.nodes.iter().any(works)
    }
}
