//! What the events of an interruption change.

use crate::event::{NodeEvent, NodeInterrupted, ResumeDecided};
use crate::fold::Folding;
use crate::resume::status::is_cut_off;
use crate::resume::{BY_SYSTEM, Interruption, ReasonCode};
use crate::work::Memo;
use crate::{Hold, Millis, NodeIx, Run, TimerId};

impl Run {
    /// Its work is over for now, and what failed in it is done again if it is resumed.
    pub(crate) fn fold_interrupted(
        &mut self,
        ix: NodeIx,
        interrupted: &NodeInterrupted,
        folding: &mut Folding<'_>,
    ) {
        self.break_turn(ix);
        let node = &mut self.state.nodes[ix as usize];
        (node.attempt, node.counted_from) = (interrupted.attempt, interrupted.attempt);
        node.error = Some(interrupted.error.clone());
        node.cut_off += u32::from(is_cut_off(&interrupted.class));
        self.leave_executor(ix, folding);
        if let Some(work) = self.work_mut(ix) {
            work.memos.retain(|_, memo| !matches!(memo, Memo::Begun | Memo::Failed(_)));
            (work.losses, work.unfit) = (0, 0);
        }
        let found = Interruption {
            class: interrupted.class.clone(),
            error: interrupted.error.clone(),
            unknown: interrupted.unknown,
            steps: interrupted.steps.clone(),
            at: folding.at,
        };
        self.state.resume.interrupted.insert(ix, found);
        self.consider_resume(folding);
    }

    /// Has it looked at at once whether the run may be resumed. One that is held is looked at when it is not any more.
    pub(crate) fn consider_resume(&mut self, folding: &mut Folding<'_>) {
        let state = &self.state;
        let open = state.hold == Hold::None && state.ending.is_none();
        if open && !state.resume.interrupted.is_empty() {
            self.arm(TimerId::Resume, folding.at, folding);
        }
    }

    /// The node is interrupted no longer, whatever becomes of it.
    pub(crate) fn forget_interruption(&mut self, ix: NodeIx, folding: &mut Folding<'_>) {
        let resume = &mut self.state.resume;
        if resume.interrupted.remove(&ix).is_some() && resume.interrupted.is_empty() {
            resume.wish = None;
            self.disarm(&TimerId::Resume, folding);
        }
    }

    pub(crate) fn fold_decided(&mut self, decided: &ResumeDecided, folding: &mut Folding<'_>) {
        let resume = &mut self.state.resume;
        resume.decision = Some(decided.clone());
        if decided.eligible {
            resume.attempts += 1;
            resume.last_at = Some(folding.at);
            resume.asked_of.clear();
            resume.wish = None;
            self.state.paused_at = None;
            return self.disarm(&TimerId::Resume, folding);
        }
        // A refusal changes nothing, whoever asked: what follows on it has events of its own. Only the end of a window is
        // waited for by whoever was looking, which an operator is not.
        let looks = resume.wish.is_none() && self.state.timers.contains_key(&TimerId::Resume);
        let waits = looks && decided.actor == BY_SYSTEM && decided.reason_code == ReasonCode::Cooldown;
        if waits {
            let left: Millis = decided.cooldown_seconds_remaining.saturating_mul(1000);
            self.arm(TimerId::Resume, folding.at.saturating_add(left), folding);
        }
    }

    /// The run is held until a person decides.
    pub(crate) fn fold_escalated(&mut self, folding: &mut Folding<'_>) {
        self.state.paused_at = Some(folding.at);
        self.state.resume.wish = None;
        self.disarm(&TimerId::Resume, folding);
        self.disarm(&TimerId::Stretch, folding);
    }

    /// Something happened to the run's own question.
    pub(crate) fn fold_question(
        &mut self,
        event: &NodeEvent,
        folding: &mut Folding<'_>,
    ) -> Result<(), String> {
        // Nobody is asked about what the run coordinated that it was forked off.
        let elsewhere = |id| self.is_of_other(folding.sequence) && !self.state.open.contains_key(id);
        match event {
            NodeEvent::InterruptRequested(requested) if requested.checkpoint.is_some() => {
                self.fold_checkpoint_asked(requested)?;
                self.fold_requested(None, requested, folding)
            }
            NodeEvent::InterruptRequested(requested) if requested.topic.is_some() => {
                if self.is_of_other(folding.sequence) {
                    return Ok(());
                }
                self.fold_requested(None, requested, folding)
            }
            NodeEvent::InterruptResolved(resolved) if elsewhere(&resolved.interrupt_id) => Ok(()),
            NodeEvent::InterruptExpired(expired) if elsewhere(&expired.interrupt_id) => Ok(()),
            NodeEvent::InterruptRenotified(again) if elsewhere(&again.interrupt_id) => Ok(()),
            NodeEvent::NoticeRefused(refused) if elsewhere(&refused.interrupt_id) => Ok(()),
            NodeEvent::InterruptRequested(requested) => {
                let interrupted = self.state.resume.interrupted.keys();
                let names = interrupted.map(|&ix| self.graph.at(ix).id.to_string()).collect();
                // Whoever answers approves of what they were asked about, and of nothing that is interrupted later.
                self.state.resume.asked_of = names;
                self.state.resume.question = Some(requested.interrupt_id);
                self.fold_requested(None, requested, folding)
            }
            NodeEvent::InterruptResolved(resolved) => self.fold_resolved(resolved, folding),
            NodeEvent::InterruptRenotified(again) => self.fold_renotified(again, folding),
            NodeEvent::NoticeRefused(refused) => self.fold_refused(refused),
            // The deadline of a group ends what is asked, also if the run itself asks it.
            NodeEvent::ApprovalReceived(_)
            | NodeEvent::ClarificationResolved(_)
            | NodeEvent::InterruptExpired(_)
            | NodeEvent::InterruptEscalated(_) => Ok(()),
            other => Err(format!("{} is no event of the run's own question", other.event_type().name)),
        }
    }
}
