//! What is due: leases that nobody renewed, tasks that took too long, tasks that were called off.

use std::sync::Arc;

use abide_core::Millis;
use abide_core::event::Loss;
use tokio::time::Instant;

use super::{Chores, Desk, Due, Held, Lost, Seat, Spot, Untold};
use crate::workers::session::{Holding, Place};

/// When to look again.
#[derive(Debug, Default)]
pub(crate) struct Next {
    /// On the engine's clock.
    pub(crate) at: Option<Millis>,
    /// On the machine's own, for those who are given the benefit of the doubt.
    pub(crate) real: Option<Instant>,
}

impl Desk {
    pub(super) fn schedule(&mut self, at: Millis, due: Due) -> (Millis, u64) {
        self.ticket += 1;
        let place = (at, self.ticket);
        self.news.leases |= self.due.first_key_value().is_none_or(|(first, _)| place < *first);
        self.due.insert(place, due);
        place
    }

    pub(super) fn schedule_lease(&mut self, at: Millis, seat: Seat) {
        let place = self.schedule(at, Due::Lease(seat));
        if let Some(before) = self.leases.insert(seat, place) {
            self.due.remove(&before);
        }
    }

    /// Sees to all that is due.
    pub(crate) fn expire(&mut self, now: Millis, real: Instant) -> (Chores, Next) {
        let mut chores = Chores::default();
        let mut next = Next::default();
        for seat in std::mem::take(&mut self.doubtful) {
            self.check_lease(seat, now, real, &mut chores, &mut next);
        }
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) {
            match first.remove() {
                Due::Lease(seat) => {
                    self.leases.remove(&seat);
                    self.check_lease(seat, now, real, &mut chores, &mut next);
                }
                Due::Task(spot) => self.check_task(&spot, now, &mut chores),
            }
        }
        next.at = self.due.first_key_value().map(|((at, _), _)| *at);
        self.news.leases = false;
        (chores, next)
    }

    fn check_lease(&mut self, seat: Seat, now: Millis, real: Instant, chores: &mut Chores, next: &mut Next) {
        let Some(session) = self.sessions.get(&seat) else {
            let Some(orphans) = self.orphans.remove(&seat) else { return };
            for place in orphans {
                let worker = format!("session {}", seat.1);
                self.lose(&(seat.0, place), Loss::Silent, worker, chores);
            }
            return self.end(seat, chores);
        };
        let end = session.contact.lease_end();
        if end > now {
            self.schedule_lease(end, seat);
            return;
        }
        match session.contact.there_until().filter(|until| *until > real) {
            Some(until) => {
                self.doubtful.push(seat);
                next.real = Some(next.real.map_or(until, |other| other.min(until)));
            }
            None => self.forget(seat, Loss::Silent, chores),
        }
    }

    fn check_task(&mut self, spot: &Spot, now: Millis, chores: &mut Chores) {
        let Some(held) = self.held.get_mut(spot) else { return };
        held.due = None;
        let reason = if held.called_off.is_some_and(|at| at <= now) {
            Loss::CalledOff
        } else if held.timeout_at.is_some_and(|at| at <= now) {
            Loss::Timeout
        } else {
            return self.reschedule(spot);
        };
        let seat = (spot.0, held.session);
        let worker = self.words(seat);
        self.lose(spot, reason, worker, chores);
    }

    pub(super) fn lose(&mut self, spot: &Spot, reason: Loss, worker: String, chores: &mut Chores) {
        let Some(held) = self.held.get_mut(spot) else { return };
        if !std::mem::replace(&mut held.losing, true) {
            let session = self.shared.then_some(held.session);
            chores.lose.push(Lost { spot: spot.clone(), fence: Some(held.fence), reason, worker, session });
        }
    }

    /// A worker goes. `None` if it was not here.
    pub(crate) fn leave(&mut self, seat: Seat) -> Option<Chores> {
        self.sessions.contains_key(&seat).then(|| {
            let mut chores = Chores::default();
            self.forget(seat, Loss::Left, &mut chores);
            chores
        })
    }

    /// Forgets a session. What it never heard of is taken back; what it may have begun is lost.
    fn forget(&mut self, seat: Seat, reason: Loss, chores: &mut Chores) {
        let Some(session) = self.sessions.remove(&seat) else { return };
        let worker = session.words();
        if let Some(lease) = self.leases.remove(&seat) {
            self.due.remove(&lease);
        }
        session.kinds.keys().for_each(|kind| self.unready(seat, kind));
        for place in &session.held {
            let spot = (seat.0, place.clone());
            if self.held.get(&spot).is_none_or(|held| held.session != seat.1) {
                continue;
            }
            if !self.take_back_untold(seat, place, chores) {
                self.lose(&spot, reason, worker.clone(), chores);
            }
        }
        for hook in session.calls {
            if let Some(call) = self.under_way.get(&(seat.0, hook)) {
                chores.failed_calls.push(((seat.0, session.agent.clone()), hook, call.tries));
            }
        }
        self.end(seat, chores);
    }

    /// Takes a task back that its session has not heard of. Nobody claims what was called off: that is lost, even if it
    /// was never heard of.
    pub(super) fn take_back_untold(&mut self, seat: Seat, place: &Place, chores: &mut Chores) -> bool {
        let spot = (seat.0, place.clone());
        let is_untold = |held: &&Held| !held.sent && !held.losing && held.called_off.is_none();
        let Some(held) = self.held.get(&spot).filter(is_untold) else { return false };
        let (fence, kind) = (held.fence, held.kind.clone());
        self.remove(&spot);
        self.take_back(seat, place.clone(), fence, &kind, chores);
        true
    }

    /// Takes a task back on disk from a session that has not heard of it.
    pub(super) fn take_back(
        &mut self,
        seat: Seat,
        place: Place,
        fence: u64,
        kind: &Arc<str>,
        chores: &mut Chores,
    ) {
        // It may have been found on disk and told meanwhile.
        let spot = (seat.0, place.clone());
        if self.held.get(&spot).is_some_and(|held| held.session == seat.1 && held.fence == fence) {
            return;
        }
        self.looks.gives_back(&spot, fence);
        chores.unclaim.push(Untold { seat, holding: Holding { place, fence }, kind: kind.clone() });
    }

    /// A task is not out under this fence any more, although it looked so.
    pub(crate) fn drop_stale(&mut self, spot: &Spot, fence: u64) {
        if self.held.get(spot).is_some_and(|held| held.fence == fence)
            && let Some(seat) = self.remove(spot)
        {
            self.make_ready(seat);
        }
    }

    /// A task could not be taken away, because it was gone already.
    pub(crate) fn drop_lost(&mut self, spot: &Spot, fence: Option<u64>) {
        if self.held.get(spot).is_some_and(|held| held.losing && Some(held.fence) == fence)
            && let Some(seat) = self.remove(spot)
        {
            self.make_ready(seat);
        }
    }
}
