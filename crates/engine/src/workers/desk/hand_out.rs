//! Tasks go to sessions that have room: with the commit that offers them, or from what waits on disk.

use std::collections::VecDeque;
use std::sync::Arc;

use abide_core::{Effect, Key, Millis, Offer, TenantId};
use abide_store::{SessionId, WorkClaim, WorkRow};

use super::{Chores, Desk, Due, Held, Letters, Seat, Spot, nobodys};
use crate::limits;
use crate::workers::session::{Letter, Place};

/// Who gets the tasks that a commit offers.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    tenant: Option<TenantId>,
    /// One for each offer, in order.
    given: Vec<Option<Given>>,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    session: SessionId,
    /// It has the room of a task that leaves with the same commit.
    in_place: bool,
}

impl Reservation {
    /// Of the tasks that were offered, those that nobody gets.
    pub(crate) fn unheard<'a>(&self, effects: &'a [Effect]) -> impl Iterator<Item = &'a Offer> {
        let offers = effects.iter().filter_map(|effect| match effect {
            Effect::Offer(offer) => Some(offer),
            _ => None,
        });
        let given = self.given.clone().into_iter().chain(std::iter::repeat(None));
        offers.zip(given).filter(|(_, given)| given.is_none()).map(|(offer, _)| offer)
    }

    /// As a commit has it.
    pub(crate) fn sessions(&self) -> Vec<Option<SessionId>> {
        self.given.iter().map(|given| given.map(|given| given.session)).collect()
    }
}

/// A claim that is under way.
pub(crate) struct Claiming {
    pub(crate) claim: WorkClaim,
    /// How many tasks of each kind had found nobody when it began.
    unheard: Vec<(Arc<str>, u64)>,
}

impl Desk {
    /// Finds a session for each task that a commit offers, if one has room.
    pub(crate) fn reserve(&mut self, key: Key, effects: &[Effect]) -> Reservation {
        let mut leaving: VecDeque<(Place, SessionId)> = VecDeque::new();
        let mut reservation = Reservation { tenant: Some(key.tenant), given: Vec::new() };
        for effect in effects {
            match effect {
                Effect::Withdraw(task) => {
                    let spot = Place::of(key, task);
                    leaving.extend(self.held.get(&spot).map(|held| (spot.1, held.session)));
                }
                Effect::Offer(offer) if offer.held => reservation.given.push(None),
                Effect::Offer(offer) => reservation.given.push(self.give(key, offer, &mut leaving)),
                _ => {}
            }
        }
        reservation
    }

    /// Finds a session for a task: one that a task leaves with the same commit, or the next that has room. Whoever had
    /// this very task is not the one to get it again.
    fn give(&mut self, key: Key, offer: &Offer, leaving: &mut VecDeque<(Place, SessionId)>) -> Option<Given> {
        let (tenant, place) = Place::of(key, &offer.task);
        let had = leaving.iter().find(|(left, _)| *left == place).map(|(_, session)| *session);
        let in_place = leaving
            .iter()
            .position(|(_, session)| had != Some(*session) && self.suits(tenant, *session, offer));
        match in_place.and_then(|at| leaving.remove(at)) {
            Some((_, session)) => Some(Given { session, in_place: true }),
            None => self.choose(tenant, offer, had),
        }
    }

    /// Whether a session may have such a task, and is not overfull already.
    fn suits(&self, tenant: TenantId, session: SessionId, offer: &Offer) -> bool {
        self.sessions.get(&(tenant, session)).is_some_and(|session| {
            session.kinds.contains_key(&offer.kind)
                && offer.agent.as_ref().is_none_or(|agent| *agent == session.agent)
                && !session.draining
                && !session.contact.is_gone()
                && session.held.len() + session.reserved <= session.capacity
        })
    }

    /// The next session in turn that has room.
    fn choose(&mut self, tenant: TenantId, offer: &Offer, but: Option<SessionId>) -> Option<Given> {
        let ready = self.ready.get_mut(&(tenant, offer.kind.clone()))?;
        for _ in 0..ready.len() {
            let id = ready.pop_front()?;
            let Some(session) = self.sessions.get_mut(&(tenant, id)) else { continue };
            let room = session.room();
            let Some(provides) = session.kinds.get_mut(&offer.kind) else { continue };
            if room == 0 {
                provides.ready = false;
                continue;
            }
            ready.push_back(id);
            if but != Some(id) && offer.agent.as_ref().is_none_or(|agent| *agent == session.agent) {
                session.reserved += 1;
                return Some(Given { session: id, in_place: false });
            }
        }
        None
    }

    /// The commit came to nothing.
    pub(crate) fn give_back(&mut self, reservation: &Reservation) {
        let Some(tenant) = reservation.tenant else { return };
        for given in reservation.given.iter().flatten().filter(|given| !given.in_place) {
            self.unreserve((tenant, given.session), 1);
        }
    }

    fn unreserve(&mut self, seat: Seat, tasks: usize) {
        if let Some(session) = self.sessions.get_mut(&seat) {
            session.reserved = session.reserved.saturating_sub(tasks);
            self.make_ready(seat);
        }
    }

    /// A commit is durable.
    pub(crate) fn carry_out(
        &mut self,
        key: Key,
        effects: &[Effect],
        reservation: &Reservation,
        now: Millis,
    ) -> Chores {
        let mut chores = Chores::default();
        let mut given = reservation.given.iter().copied();
        let mut freed = Vec::new();
        for effect in effects {
            match effect {
                Effect::Withdraw(task) => freed.extend(self.remove(&Place::of(key, task))),
                Effect::Offer(offer) => match given.next().flatten() {
                    Some(given) => self.grant(key, offer, given, &mut chores),
                    None => self.leave_waiting(key.tenant, &offer.kind),
                },
                Effect::OfferAgain(kind) => self.leave_waiting(key.tenant, kind),
                Effect::CallOff(task) => self.call_off(&Place::of(key, task), now, &mut chores),
                Effect::Wake(task) => {
                    self.tell(&Place::of(key, task), |letters| &mut letters.wake, Letter::Wake);
                }
                Effect::Hook(hook) => self.call((key.tenant, hook.agent.clone())),
                _ => {}
            }
        }
        freed.into_iter().for_each(|seat| self.make_ready(seat));
        chores
    }

    /// A session gets a task that is on disk as its own.
    fn grant(&mut self, key: Key, offer: &Offer, given: Given, chores: &mut Chores) {
        let seat = (key.tenant, given.session);
        let spot = Place::of(key, &offer.task);
        let Some(session) = self.sessions.get_mut(&seat) else {
            return self.take_back(seat, spot.1, offer.fence, &offer.kind, chores);
        };
        session.reserved = session.reserved.saturating_sub(usize::from(!given.in_place));
        self.hold(&spot, given.session, offer.fence, &offer.kind, offer.at, offer.timeout_ms);
    }

    pub(super) fn hold(
        &mut self,
        spot: &Spot,
        session: SessionId,
        fence: u64,
        kind: &Arc<str>,
        since: Millis,
        timeout_ms: Option<Millis>,
    ) {
        // It may have been handed out anew since this was read, or found on disk before this was told.
        let is_known = |held: &Held| held.fence > fence || (held.fence == fence && held.session == session);
        if self.held.get(spot).is_some_and(is_known) {
            return;
        }
        if let Some(session) = self.sessions.get_mut(&(spot.0, session)) {
            session.held.insert(spot.1.clone());
        }
        let held = Held {
            session,
            fence,
            kind: kind.clone(),
            since,
            timeout_at: timeout_ms.map(|ms| since.saturating_add(ms)),
            called_off: None,
            sent: false,
            losing: false,
            waits: false,
            look: self.looks.begun,
            due: None,
            letters: Letters::default(),
        };
        self.put_held(spot, held);
        self.tell(spot, |letters| &mut letters.task, Letter::Task);
    }

    /// Nobody has a task any more. Gives who had it.
    pub(super) fn remove(&mut self, spot: &Spot) -> Option<Seat> {
        let held = self.held.remove(spot)?;
        self.looks.left(spot, held.fence);
        if let Some(due) = held.due {
            self.due.remove(&due);
        }
        let seat = (spot.0, held.session);
        let session = self.sessions.get_mut(&seat)?;
        session.held.remove(&spot.1);
        for n in [held.letters.task, held.letters.wake, held.letters.cancel] {
            session.untell(n);
        }
        Some(seat)
    }

    /// A task found nobody. Whoever has room by now looks for it.
    pub(crate) fn leave_waiting(&mut self, tenant: TenantId, kind: &Arc<str>) {
        let line = (tenant, kind.clone());
        *self.unheard.entry(line.clone()).or_insert(1) += 1;
        let ready: Vec<SessionId> = self.ready.get(&line).into_iter().flatten().copied().collect();
        ready.into_iter().for_each(|session| self.line_up((tenant, session)));
    }

    /// A session may have room: it stands among those that tasks go to, and looks for what waits.
    pub(super) fn make_ready(&mut self, seat: Seat) {
        let Some(session) = self.sessions.get_mut(&seat).filter(|session| session.room() > 0) else { return };
        for (kind, provides) in session.kinds.iter_mut().filter(|(_, provides)| !provides.ready) {
            provides.ready = true;
            self.ready.entry((seat.0, kind.clone())).or_default().push_back(seat.1);
        }
        self.line_up(seat);
    }

    /// A session gets no more tasks of a kind.
    pub(super) fn unready(&mut self, seat: Seat, kind: &Arc<str>) {
        if let Some(ready) = self.ready.get_mut(&(seat.0, kind.clone())) {
            ready.retain(|id| *id != seat.1);
        }
    }

    /// Puts a session that has room in line, if there may be something for it.
    pub(super) fn line_up(&mut self, seat: Seat) {
        let Some(session) = self.sessions.get_mut(&seat).filter(|session| session.room() > 0) else { return };
        let unheard = |kind: &Arc<str>| self.unheard.get(&(seat.0, kind.clone())).copied().unwrap_or(1);
        let behind = session.kinds.iter().any(|(kind, provides)| provides.seen < unheard(kind));
        if behind && !std::mem::replace(&mut session.in_line, true) {
            self.in_line.push_back(seat);
            self.news.claims = true;
        }
    }

    /// What the next session in line looks for. Its room is kept for it until it is known what there is.
    pub(crate) fn next_claim(&mut self, now: Millis) -> Option<Claiming> {
        loop {
            let seat = self.in_line.pop_front()?;
            let Some(session) = self.sessions.get_mut(&seat) else { continue };
            session.in_line = false;
            let unheard = |kind: &Arc<str>| self.unheard.get(&(seat.0, kind.clone())).copied().unwrap_or(1);
            let behind = session.kinds.iter().filter(|(kind, provides)| provides.seen < unheard(kind));
            let unheard: Vec<(Arc<str>, u64)> =
                behind.map(|(kind, _)| (kind.clone(), unheard(kind))).collect();
            let limit = session.room().min(limits::CLAIM_WORK_MAX);
            if limit == 0 || unheard.is_empty() {
                continue;
            }
            session.reserved += limit;
            let (agent, kinds) =
                (session.agent.clone(), unheard.iter().map(|(kind, _)| kind.clone()).collect());
            let claim = WorkClaim { tenant: seat.0, session: seat.1, agent, kinds, limit, now };
            return Some(Claiming { claim, unheard });
        }
    }

    /// A claim has ended.
    pub(crate) fn claimed(&mut self, claiming: &Claiming, rows: Option<Vec<WorkRow>>) -> Chores {
        let mut chores = Chores::default();
        let claim = &claiming.claim;
        let seat = (claim.tenant, claim.session);
        let found_all = rows.as_ref().is_some_and(|rows| rows.len() < claim.limit);
        let rows = rows.unwrap_or_default();
        let there = self.sessions.get_mut(&seat).filter(|session| !session.contact.is_gone());
        let Some(session) = there else {
            self.unreserve(seat, claim.limit);
            for row in rows {
                let (_, place) = Place::of(row.key, &row.task);
                self.take_back(seat, place, row.fence, &row.kind, &mut chores);
            }
            return chores;
        };
        session.reserved = session.reserved.saturating_sub(claim.limit);
        for (kind, unheard) in claiming.unheard.iter().filter(|_| found_all) {
            if let Some(provides) = session.kinds.get_mut(kind) {
                provides.seen = *unheard;
            }
        }
        for row in rows {
            let spot = Place::of(row.key, &row.task);
            self.hold(&spot, claim.session, row.fence, &row.kind, claim.now, row.timeout_ms);
            // Where one waited, more may wait that nobody here was told of.
            if self.shared {
                self.probe(&(seat.0, row.kind));
            }
        }
        self.make_ready(seat);
        chores
    }

    /// The run of a task is ending: whoever has it is told, and loses it if it goes on; if nobody has it, nobody gets it.
    pub(super) fn call_off(&mut self, spot: &Spot, now: Millis, chores: &mut Chores) {
        if !self.settled {
            return self.early.push(spot.clone());
        }
        match self.held.get_mut(spot) {
            Some(held) => {
                held.called_off.get_or_insert(now.saturating_add(limits::CANCEL_GRACE_MS));
                self.reschedule(spot);
                self.tell(spot, |letters| &mut letters.cancel, Letter::Cancel);
            }
            None if self.shared => chores.elsewhere.push(spot.clone()),
            None => chores.lose.push(nobodys(spot.clone(), None)),
        }
    }

    /// Notes when a task is to be looked at.
    pub(super) fn reschedule(&mut self, spot: &Spot) {
        let Some(held) = self.held.get_mut(spot) else { return };
        if let Some(due) = held.due.take() {
            self.due.remove(&due);
        }
        let at = match (held.timeout_at, held.called_off) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if let Some(at) = at {
            let due = self.schedule(at, Due::Task(spot.clone()));
            self.held.get_mut(spot).expect("it was just looked at").due = Some(due);
        }
    }
}
