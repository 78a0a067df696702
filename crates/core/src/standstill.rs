//! How the times of a run's questions stand still while it is stopped, and go on when it is released.
//!
//! Attempts, the end of a ladder and `timeoutMs` are counted from when a question was asked, later by as long as they
//! stood still. What waits for a time of day is not moved: that time comes whoever holds the run.

use crate::command::Draft;
use crate::effect::{Effect, TimerId};
use crate::event::{Held, HoldMode, Paused};
use crate::fold::Folding;
use crate::interrupt::Open;
use crate::{InterruptId, Run};

/// What a decision does.
impl Run {
    /// Whatever was due before the times stand still happens first, however late its timer is heard.
    pub(crate) fn catch_up(&mut self, draft: &mut Draft) {
        if self.meet_deadline(draft) {
            return;
        }
        for id in self.open_ids() {
            self.climb(draft, id);
            let end = self.state.open.get(&id).and_then(Open::ends_at);
            if end.is_some_and(|end| end <= draft.now) {
                self.end_interrupt(draft, id);
            }
        }
    }

    fn open_ids(&self) -> Vec<InterruptId> {
        self.state.open.keys().copied().collect()
    }
}

/// What an event changes.
impl Run {
    pub(crate) fn fold_held(&mut self, held: &Held, folding: &mut Folding<'_>) {
        let state = &mut self.state;
        (state.pausing, state.paused_at) = (None, Some(folding.at));
        state.holder = Some(Paused { reason: held.reason.clone(), by: held.by.clone() });
        self.stop_clock(folding);
        match held.mode {
            HoldMode::Pause => self.move_on(folding),
            HoldMode::Stop => self.stand_still(folding),
        }
    }

    /// The hold is over, whoever held the run.
    pub(crate) fn fold_released(&mut self, folding: &mut Folding<'_>) {
        (self.state.pausing, self.state.paused_at, self.state.holder) = (None, None, None);
        self.start_clock(folding);
        self.move_on(folding);
        self.consider_resume(folding);
    }

    /// Waits until a question is given up.
    pub(crate) fn await_end(&mut self, open: &Open, folding: &mut Folding<'_>) {
        if let Some(due) = open.given_up_at() {
            self.arm(TimerId::Interrupt(open.requested.interrupt_id), due, folding);
        }
    }

    fn stand_still(&mut self, folding: &mut Folding<'_>) {
        for id in self.open_ids() {
            let Some(open) = self.state.open.get_mut(&id) else { continue };
            let had_end = open.deadline().is_some();
            open.stands_since = Some(folding.at);
            self.disarm(&TimerId::Interrupt(id), folding);
            self.disarm(&TimerId::Attempt(id), folding);
            if had_end {
                folding.effects.push(Effect::MoveDeadline { id, deadline: None });
            }
        }
    }

    fn move_on(&mut self, folding: &mut Folding<'_>) {
        for id in self.open_ids() {
            let Some(open) = self.state.open.get_mut(&id) else { continue };
            let Some(since) = open.stands_since.take() else { continue };
            open.shifted_ms = open.shifted_ms.saturating_add(folding.at.saturating_sub(since));
            let open = open.clone();
            self.await_end(&open, folding);
            self.await_next(&open, folding);
            if let deadline @ Some(_) = open.deadline() {
                folding.effects.push(Effect::MoveDeadline { id, deadline });
            }
        }
    }
}
