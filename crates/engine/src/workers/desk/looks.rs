//! What lies on disk is looked at while several servers share it: sessions move, and tasks come and go without this server.
//!
//! A look takes time, and things change here meanwhile. So whatever was given out or taken away here since a look began is
//! left as it is: what it found may be older.

use std::collections::{BTreeSet, HashMap, HashSet};

use abide_core::{Key, Millis, TenantId};
use abide_store::{SessionState, WorkRow};

use super::{Chores, Desk, Line, Seat, Spot};
use crate::limits;
use crate::workers::session::{Letter, Place};

/// How often it is written down when a worker was last heard of.
const SEEN_EVERY_MS: Millis = 10_000;

/// Looks that are under way, and what has changed since they began. All of it is empty if the store is one server's own.
#[derive(Default)]
pub(super) struct Looks {
    /// How many have begun.
    pub(super) begun: u64,
    under_way: BTreeSet<u64>,
    /// Tasks that left somebody's hands here, and how many looks had begun then.
    left: HashMap<(Spot, u64), u64>,
    /// Tasks that are being taken back on disk.
    giving_back: HashSet<(Spot, u64)>,
    /// How many tasks of a run somebody here has.
    runs: HashMap<Key, usize>,
    /// Of those, the runs that another server has moved on.
    moved: HashSet<Key>,
    /// Sessions that are being ended on disk.
    ending: HashSet<Seat>,
    is_on: bool,
}

impl Looks {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Somebody here has a task.
    pub(super) fn holds(&mut self, spot: &Spot) {
        if self.is_on {
            *self.runs.entry(spot.1.run.of(spot.0)).or_default() += 1;
        }
    }

    /// Nobody here has a task any more.
    pub(super) fn left(&mut self, spot: &Spot, fence: u64) {
        if !self.is_on {
            return;
        }
        let run = spot.1.run.of(spot.0);
        if let Some(tasks) = self.runs.get_mut(&run) {
            *tasks -= 1;
            if *tasks == 0 {
                self.runs.remove(&run);
            }
        }
        self.note(spot, fence);
    }

    fn note(&mut self, spot: &Spot, fence: u64) {
        if !self.under_way.is_empty() {
            self.left.insert((spot.clone(), fence), self.begun);
        }
    }

    /// A task is being taken back on disk.
    pub(super) fn gives_back(&mut self, spot: &Spot, fence: u64) {
        if self.is_on {
            self.giving_back.insert((spot.clone(), fence));
        }
    }

    /// Whether a task on disk is none that has just come: it is on its way out.
    fn is_leaving(&self, spot: &Spot, fence: u64, look: u64) -> bool {
        let task = (spot.clone(), fence);
        self.giving_back.contains(&task) || self.left.get(&task).is_some_and(|at| *at >= look)
    }
}

/// What a look was for.
pub(crate) enum Scope {
    /// Everything that is here: these are the sessions that have their home here.
    Home(HashSet<Seat>),
    /// Some runs, which other servers have moved on.
    Runs(HashSet<Key>),
    /// One session, which has just come here.
    Session(Seat),
}

impl Desk {
    /// A look begins.
    pub(crate) fn begin_look(&mut self) -> u64 {
        self.looks.begun += 1;
        self.looks.under_way.insert(self.looks.begun);
        self.looks.begun
    }

    /// A look is over: nothing has to be remembered for it.
    pub(crate) fn end_look(&mut self, look: u64) {
        self.looks.under_way.remove(&look);
        let oldest = self.looks.under_way.first().copied();
        self.looks.left.retain(|_, at| oldest.is_some_and(|oldest| *at >= oldest));
    }

    /// What a look found.
    pub(crate) fn looked(&mut self, look: u64, scope: &Scope, rows: &[WorkRow], now: Millis) -> Chores {
        let mut chores = Chores::default();
        if let Scope::Home(at_home) = scope {
            self.compare_sessions(look, at_home, now);
        }
        let mut found: HashMap<Spot, u64> = HashMap::with_capacity(rows.len());
        for row in rows {
            let Some((session, since)) = row.held else { continue };
            let (spot, seat) = (Place::of(row.key, &row.task), (row.key.tenant, session));
            let is_here = self.sessions.contains_key(&seat) || self.orphans.contains_key(&seat);
            if is_here && !self.has_come_since(look, scope, seat) {
                found.insert(spot.clone(), row.fence);
                self.compare_task(look, &spot, seat, since, row, now, &mut chores);
            }
        }
        let is_meant = |spot: &Spot, session| match scope {
            Scope::Home(_) => true,
            Scope::Runs(runs) => runs.contains(&spot.1.run.of(spot.0)),
            Scope::Session(seat) => *seat == (spot.0, session),
        };
        let is_over = self.held.iter().filter(|(spot, held)| {
            held.look < look
                && is_meant(spot, held.session)
                && !self.has_come_since(look, scope, (spot.0, held.session))
                && found.get(*spot) != Some(&held.fence)
        });
        let over: Vec<Spot> = is_over.map(|(spot, _)| spot.clone()).collect();
        let freed: Vec<Seat> = over.iter().filter_map(|spot| self.remove(spot)).collect();
        freed.into_iter().for_each(|seat| self.make_ready(seat));
        if let Scope::Runs(runs) = scope {
            self.wake_in(runs);
        }
        chores
    }

    /// Whether a session has come since a look began: what it has was looked at when it did.
    fn has_come_since(&self, look: u64, scope: &Scope, seat: Seat) -> bool {
        let is_its_own = matches!(scope, Scope::Session(session) if *session == seat);
        !is_its_own && self.sessions.get(&seat).is_some_and(|session| session.look >= look)
    }

    /// Sessions that have moved are forgotten, and those that nobody looks after are looked after.
    fn compare_sessions(&mut self, look: u64, at_home: &HashSet<Seat>, now: Millis) {
        let here = self.sessions.iter().filter(|(_, session)| session.look < look).map(|(seat, _)| *seat);
        let moved: Vec<Seat> =
            here.chain(self.orphans.keys().copied()).filter(|seat| !at_home.contains(seat)).collect();
        moved.into_iter().for_each(|seat| self.move_away(seat));
        let strange = at_home.iter().filter(|seat| {
            let is_here = self.sessions.contains_key(seat) || self.orphans.contains_key(seat);
            !is_here && !self.looks.ending.contains(seat)
        });
        let strange: Vec<Seat> = strange.copied().collect();
        self.take_in(&strange, &[], now);
    }

    /// Looks after sessions whose server is gone, until they come back or their lease is over.
    pub(crate) fn take_in(&mut self, seats: &[Seat], rows: &[WorkRow], now: Millis) {
        for seat in seats {
            if self.sessions.contains_key(seat) {
                continue;
            }
            self.orphans.entry(*seat).or_default();
            self.schedule_lease(now.saturating_add(limits::LEASE_MS), *seat);
        }
        for row in rows {
            let Some((session, since)) = row.held else { continue };
            if self.orphans.contains_key(&(row.key.tenant, session)) {
                let spot = Place::of(row.key, &row.task);
                self.remove(&spot);
                self.adopt(&spot, session, since, row, now);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are one row, taken apart")]
    fn compare_task(
        &mut self,
        look: u64,
        spot: &Spot,
        seat: Seat,
        since: Millis,
        row: &WorkRow,
        now: Millis,
        chores: &mut Chores,
    ) {
        if let Some(held) = self.held.get(spot)
            && held.fence >= row.fence
        {
            if held.fence > row.fence || held.session != seat.1 {
                return;
            }
            if row.called_off && held.called_off.is_none() && !held.losing {
                self.call_off(spot, now, chores);
            }
            return;
        }
        if self.looks.is_leaving(spot, row.fence, look) {
            return;
        }
        if self.held.contains_key(spot) {
            self.remove(spot);
        }
        if self.sessions.contains_key(&seat) {
            self.hold(spot, seat.1, row.fence, &row.kind, since, row.timeout_ms);
            if row.called_off {
                self.call_off(spot, now, chores);
            }
        } else {
            self.adopt(spot, seat.1, since, row, now);
        }
    }

    /// A session has its home elsewhere, unless it has come back since a look began.
    pub(crate) fn moved_away(&mut self, seat: Seat, look: u64) {
        if self.sessions.get(&seat).is_none_or(|session| session.look < look) {
            self.move_away(seat);
        }
    }

    /// A session is about to come: what it has is looked after until then.
    pub(crate) fn expect(&mut self, seat: Seat) {
        if !self.sessions.contains_key(&seat) {
            self.orphans.entry(seat).or_default();
        }
    }

    /// Forgets a session that has its home elsewhere: what it has stays its own.
    fn move_away(&mut self, seat: Seat) {
        let orphans = self.orphans.remove(&seat).unwrap_or_default();
        let held: Option<Vec<Place>> =
            self.sessions.get(&seat).map(|session| session.held.iter().cloned().collect());
        for place in orphans.into_iter().chain(held.unwrap_or_default()) {
            let spot = (seat.0, place);
            if let Some(fence) =
                self.held.get(&spot).filter(|held| held.session == seat.1).map(|held| held.fence)
            {
                self.remove(&spot);
                // It is on disk still, and the session's: it comes back with that.
                self.looks.left.remove(&(spot, fence));
            }
        }
        if let Some(lease) = self.leases.remove(&seat) {
            self.due.remove(&lease);
        }
        let Some(session) = self.sessions.remove(&seat) else { return };
        session.kinds.keys().for_each(|kind| self.unready(seat, kind));
        for hook in session.calls {
            self.under_way.remove(&(seat.0, hook));
        }
    }

    /// A session is over, here and on disk.
    pub(super) fn end(&mut self, seat: Seat, chores: &mut Chores) {
        if self.shared {
            self.looks.ending.insert(seat);
            chores.ended.push(seat);
        }
    }

    /// It is written that a session is over.
    pub(crate) fn ended(&mut self, seat: Seat) {
        self.looks.ending.remove(&seat);
    }

    /// It is written that a task was taken back.
    pub(crate) fn gave_back(&mut self, spot: &Spot, fence: u64) {
        if self.looks.giving_back.remove(&(spot.clone(), fence)) {
            self.looks.note(spot, fence);
        }
    }

    /// Another server has moved a run on. It is looked at if somebody here has a task of it.
    pub(crate) fn run_moved(&mut self, key: Key) {
        if self.looks.runs.contains_key(&key) {
            self.news.moved |= self.looks.moved.insert(key);
        }
    }

    /// The runs that were moved on since this was last asked.
    pub(crate) fn moved_runs(&mut self) -> HashSet<Key> {
        std::mem::take(&mut self.looks.moved)
    }

    /// Whoever may wait for something with a task of these runs looks whether it has come.
    fn wake_in(&mut self, runs: &HashSet<Key>) {
        let waits =
            self.held.iter().filter(|(spot, held)| held.waits && runs.contains(&spot.1.run.of(spot.0)));
        let waits: Vec<Spot> = waits.map(|(spot, _)| spot.clone()).collect();
        for spot in waits {
            self.tell(&spot, |letters| &mut letters.wake, Letter::Wake);
        }
    }

    /// A worker may wait for something with a task.
    pub(crate) fn note_wait(&mut self, spot: &Spot) {
        if let Some(held) = self.held.get_mut(spot) {
            held.waits = true;
        }
    }

    /// A task waits at another server. Whoever has room later looks for it, and one of each agent does so now.
    pub(crate) fn heard_of_work(&mut self, line: &Line) {
        *self.unheard.entry(line.clone()).or_insert(1) += 1;
        self.probe(line);
    }

    /// One session of each agent that has room looks for what waits; if it finds something, the next one does.
    pub(crate) fn probe(&mut self, line: &Line) {
        let ready: Vec<_> = self.ready.get(line).into_iter().flatten().copied().collect();
        let mut agents = HashSet::new();
        let mut chosen = Vec::new();
        for id in ready {
            let Some(session) = self.sessions.get_mut(&(line.0, id)).filter(|it| it.room() > 0) else {
                continue;
            };
            let Some(provides) = session.kinds.get_mut(&line.1) else { continue };
            if agents.insert(session.agent.clone()) {
                provides.seen = 0;
                chosen.push(id);
            }
        }
        for id in chosen {
            if let Some(ready) = self.ready.get_mut(line) {
                ready.retain(|other| *other != id);
                ready.push_back(id);
            }
            self.line_up((line.0, id));
        }
    }

    /// Whether somebody has room for anything.
    pub(crate) fn has_room(&self) -> bool {
        self.sessions.values().any(|session| session.room() > 0)
    }

    /// Sessions that stand otherwise than was last written down.
    pub(crate) fn unsaid(&mut self) -> Vec<(TenantId, abide_store::SessionId, SessionState)> {
        let mut unsaid = Vec::new();
        for ((tenant, id), session) in &mut self.sessions {
            let state = session.state();
            let is_news = session.said.is_none_or(|said| {
                (said.gone, said.draining) != (state.gone, state.draining)
                    || state.seen_at.saturating_sub(said.seen_at) >= SEEN_EVERY_MS
            });
            if is_news {
                session.said = Some(state);
                unsaid.push((*tenant, *id, state));
            }
        }
        unsaid
    }

    /// This server was away: nobody could reach it, so nobody was silent.
    pub(crate) fn forgive(&mut self, now: Millis) {
        self.sessions.values_mut().for_each(|session| session.contact.forgive(now));
        let orphans: Vec<Seat> = self.orphans.keys().copied().collect();
        orphans.into_iter().for_each(|seat| self.schedule_lease(now.saturating_add(limits::LEASE_MS), seat));
        self.news.leases = true;
    }

    /// Whether a worker has its session here.
    pub(crate) fn is_here(&self, seat: Seat) -> bool {
        self.sessions.contains_key(&seat)
    }
}
