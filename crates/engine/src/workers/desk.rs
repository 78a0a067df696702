//! Who is there, who has what, and what is due: all that is known of workers, in memory.
//!
//! Everything here follows from what workers say and what lies on disk. It is changed under one lock, never for long, and
//! what has to be written or decided because of a change is given back as chores.

mod calls;
mod hand_out;
mod leases;
mod looks;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use abide_core::event::{HookKind, Loss};
use abide_core::{Millis, TenantId};
use abide_store::{HookId, SessionId, WorkRow};
use tokio::sync::watch;

use super::session::{Holding, Letter, NewSession, Place, Session};
use crate::limits;

pub(super) use calls::Agent;
pub(crate) use hand_out::Reservation;
pub(crate) use looks::Scope;

/// How many letters the numbers of one start are for, as a power of two.
const LETTERS_OF_START: u32 = 32;

/// A tenant's session.
pub(super) type Seat = (TenantId, SessionId);
/// A tenant's task.
pub(super) type Spot = (TenantId, Place);
/// A tenant's kind.
type Line = (TenantId, Arc<str>);

/// All that is known of workers.
pub(super) struct Desk {
    sessions: HashMap<Seat, Session>,
    /// The sessions that have room for a task of a kind, in turn. Some may have none any more.
    ready: HashMap<Line, VecDeque<SessionId>>,
    /// How many tasks of a kind found nobody: whoever comes later, or has room later, looks for them on disk.
    unheard: HashMap<Line, u64>,
    held: HashMap<Spot, Held>,
    /// What sessions had that an earlier start of this server knew, until they come back.
    orphans: HashMap<Seat, Vec<Place>>,
    due: BTreeMap<(Millis, u64), Due>,
    /// Where the end of each lease stands there.
    leases: HashMap<Seat, (Millis, u64)>,
    /// Sessions that the clock alone would give up.
    doubtful: Vec<Seat>,
    /// Sessions that have room and may find something.
    in_line: VecDeque<Seat>,
    /// Agents that may have to be called.
    called: HashSet<(TenantId, String)>,
    /// When agents are to be called next, as far as that is known.
    calls_due: BTreeMap<Millis, HashSet<(TenantId, String)>>,
    /// The calls that are under way.
    under_way: HashMap<(TenantId, HookId), Call>,
    /// The calls that have ended since calls were last read.
    ended: HashSet<(TenantId, HookId)>,
    /// Several servers share the store: what is known here may have changed elsewhere.
    shared: bool,
    /// What looks at the store are under way, and what has changed here since they began.
    looks: looks::Looks,
    /// Tasks that were called off before it was known who has them.
    early: Vec<Spot>,
    /// Whether it is known who has what.
    settled: bool,
    /// The number of the first letter of this start. It is higher after each, so that a worker's place in its mail stays
    /// good.
    first: u64,
    /// The number of the next letter.
    next: u64,
    ticket: u64,
    pub(super) news: News,
}

/// Whom a change concerns.
#[derive(Default)]
pub(super) struct News {
    /// Somebody has room and may find something.
    pub(super) claims: bool,
    /// Something is due earlier than before.
    pub(super) leases: bool,
    /// Some agent may have to be called.
    pub(super) calls: bool,
    /// Another server has moved runs on that somebody here has tasks of.
    pub(super) moved: bool,
}

/// A task in somebody's hands.
struct Held {
    session: SessionId,
    fence: u64,
    kind: Arc<str>,
    since: Millis,
    timeout_at: Option<Millis>,
    /// When it is lost, because it was called off.
    called_off: Option<Millis>,
    /// The worker may have heard of it.
    sent: bool,
    /// It is being taken away.
    losing: bool,
    /// The worker may wait for something with it that comes about at another server.
    waits: bool,
    /// The last look that had begun when it was given out.
    look: u64,
    due: Option<(Millis, u64)>,
    letters: Letters,
}

/// The numbers of the letters about a task.
#[derive(Default)]
struct Letters {
    task: Option<u64>,
    wake: Option<u64>,
    cancel: Option<u64>,
}

/// A call that a session has.
struct Call {
    session: SessionId,
    /// How often it was tried before.
    tries: u32,
    /// The letter that tells of it.
    letter: u64,
}

/// What may be due.
#[derive(Clone)]
enum Due {
    Lease(Seat),
    Task(Spot),
}

/// What follows from a change.
#[derive(Default)]
pub(crate) struct Chores {
    /// Tasks to be taken back on disk from sessions that never heard of them.
    pub(super) unclaim: Vec<Untold>,
    /// Tasks to be taken away.
    pub(super) lose: Vec<Lost>,
    /// Calls that did not come to an end.
    pub(super) failed_calls: Vec<(Agent, HookId, u32)>,
    /// Tasks that are called off and that nobody here has.
    pub(super) elsewhere: Vec<Spot>,
    /// Sessions that are over.
    pub(super) ended: Vec<Seat>,
}

impl Chores {
    pub(super) fn extend(&mut self, more: Self) {
        self.unclaim.extend(more.unclaim);
        self.lose.extend(more.lose);
        self.failed_calls.extend(more.failed_calls);
        self.elsewhere.extend(more.elsewhere);
        self.ended.extend(more.ended);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unclaim.is_empty()
            && self.lose.is_empty()
            && self.failed_calls.is_empty()
            && self.elsewhere.is_empty()
            && self.ended.is_empty()
    }
}

/// A task that is a session's on disk, which never heard of it.
pub(super) struct Untold {
    pub(super) seat: Seat,
    pub(super) holding: Holding,
    pub(super) kind: Arc<str>,
}

/// A task that somebody will not end.
pub(super) struct Lost {
    pub(super) spot: Spot,
    /// The fence that it is out under, if that is known.
    pub(super) fence: Option<u64>,
    pub(super) reason: Loss,
    pub(super) worker: String,
    /// Who has it, if it is taken from nobody else.
    pub(super) session: Option<SessionId>,
}

/// Somebody who has a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The session.
    pub session: SessionId,
    /// The agent that it works as, if it is there.
    pub agent: Option<String>,
    /// What people know it by.
    pub labels: BTreeMap<String, String>,
    /// Since when.
    pub since: Millis,
}

/// A worker that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its session.
    pub id: SessionId,
    /// The agent that it works as.
    pub agent: String,
    /// The kinds that it provides, by name.
    pub kinds: Vec<Arc<str>>,
    /// How many tasks it takes at once.
    pub capacity: usize,
    /// How many it has.
    pub held: usize,
    /// What people know it by.
    pub labels: BTreeMap<String, String>,
    /// Which code it runs.
    pub code_version: Option<String>,
    /// What speaks for it.
    pub sdk: Option<String>,
    /// When it came.
    pub registered_at: Millis,
    /// When it last asked for something.
    pub seen_at: Millis,
    /// Whether it listens.
    pub listening: bool,
    /// Its line broke off, and nothing was heard since.
    pub gone: bool,
    /// Whether it gets no more.
    pub draining: bool,
}

impl Desk {
    pub(super) fn new(boot: u64, shared: bool) -> Self {
        let first = (boot & 0x1f_ffff) << LETTERS_OF_START | 1;
        Self {
            sessions: HashMap::new(),
            ready: HashMap::new(),
            unheard: HashMap::new(),
            held: HashMap::new(),
            orphans: HashMap::new(),
            due: BTreeMap::new(),
            leases: HashMap::new(),
            doubtful: Vec::new(),
            in_line: VecDeque::new(),
            called: HashSet::new(),
            calls_due: BTreeMap::new(),
            under_way: HashMap::new(),
            ended: HashSet::new(),
            shared,
            looks: looks::Looks::new(shared),
            early: Vec::new(),
            settled: false,
            first,
            next: first,
            ticket: 0,
            news: News::default(),
        }
    }

    /// What lies on disk in somebody's hands since before this start, and what was called off.
    pub(super) fn settle(&mut self, rows: Vec<WorkRow>, now: Millis) -> Chores {
        let mut chores = Chores::default();
        for row in rows {
            let spot = Place::of(row.key, &row.task);
            match row.held {
                Some((session, since)) => {
                    self.adopt(&spot, session, since, &row, now);
                }
                None => chores.lose.push(nobodys(spot, Some(row.fence))),
            }
        }
        let seats: Vec<Seat> = self.orphans.keys().copied().collect();
        let end = now.saturating_add(limits::LEASE_MS);
        for seat in seats {
            self.schedule_lease(end, seat);
        }
        self.settled = true;
        for spot in std::mem::take(&mut self.early) {
            self.call_off(&spot, now, &mut chores);
        }
        chores
    }

    fn adopt(&mut self, spot: &Spot, session: SessionId, since: Millis, row: &WorkRow, now: Millis) {
        self.orphans.entry((spot.0, session)).or_default().push(spot.1.clone());
        let held = Held {
            session,
            fence: row.fence,
            kind: row.kind.clone(),
            since,
            // It may have gone on while nobody could hear of it, and gets a chance to say so.
            timeout_at: row
                .timeout_ms
                .map(|ms| since.saturating_add(ms).max(now.saturating_add(limits::LEASE_MS))),
            called_off: row.called_off.then(|| now.saturating_add(limits::CANCEL_GRACE_MS)),
            sent: true,
            losing: false,
            waits: true,
            look: self.looks.begun,
            due: None,
            letters: Letters::default(),
        };
        self.put_held(spot, held);
    }

    fn put_held(&mut self, spot: &Spot, held: Held) {
        if self.held.insert(spot.clone(), held).is_none() {
            self.looks.holds(spot);
        }
        self.reschedule(spot);
    }

    /// Takes in a worker, or one that was here before. Gives what it says it has and has not.
    pub(super) fn register(&mut self, new: &NewSession, now: Millis) -> Result<(Vec<Place>, Chores), Full> {
        let seat = (new.tenant, new.id);
        let mut session = match self.sessions.remove(&seat) {
            Some(known) => {
                let given_up =
                    known.kinds.keys().filter(|kind| new.kinds.iter().all(|it| it.kind != ***kind));
                given_up.for_each(|kind| self.unready(seat, kind));
                known.with(new, now)
            }
            None => {
                let of_tenant = self.sessions.keys().filter(|(tenant, _)| *tenant == new.tenant).count();
                if of_tenant >= limits::SESSIONS_OF_TENANT_MAX {
                    return Err(Full);
                }
                let end = now.saturating_add(limits::LEASE_MS);
                self.schedule_lease(end, seat);
                Session::new(new, now)
            }
        };
        session.look = self.looks.begun;
        self.sessions.insert(seat, session);
        // What was taken from it since the start is not its own any more, and may be another's.
        let mut before = self.orphans.remove(&seat).unwrap_or_default();
        before.retain(|place| {
            self.held.get(&(seat.0, place.clone())).is_some_and(|held| held.session == seat.1)
        });
        self.sessions.get_mut(&seat).expect("it was just put there").held.extend(before);
        let mut chores = Chores::default();
        let lost = self.reconcile(seat, &new.holding, &mut chores);
        self.make_ready(seat);
        if !new.hooks.is_empty() {
            self.call((new.tenant, new.agent.clone()));
        }
        Ok((lost, chores))
    }

    /// Tells a worker again what it has and never heard of; what it heard of and does not have any more is lost. Gives
    /// what it says it has and has not.
    fn reconcile(&mut self, seat: Seat, holding: &[Holding], chores: &mut Chores) -> Vec<Place> {
        let lost = holding.iter().filter(|claimed| !self.has(seat, claimed));
        let lost: Vec<Place> = lost.map(|claimed| claimed.place.clone()).collect();
        let places: Vec<Place> = self.sessions[&seat].held.iter().cloned().collect();
        for place in places {
            let spot = (seat.0, place);
            let Some(held) = self.held.get(&spot).filter(|held| !held.losing) else { continue };
            let knows = holding.iter().any(|known| known.place == spot.1 && known.fence == held.fence);
            let called_off = held.called_off.is_some();
            if knows && let Some(held) = self.held.get_mut(&spot) {
                held.sent = true;
            }
            let held = &self.held[&spot];
            // It took the letter from this very server, so it had the task. After a start nobody knows whether it did.
            let took = held.letters.task.is_some_and(|n| !self.sessions[&seat].has_letter(Some(n)));
            if !knows && took {
                let worker = self.words(seat);
                self.lose(&spot, Loss::Forgotten, worker, chores);
                continue;
            }
            if !knows && !self.sessions[&seat].has_letter(held.letters.task) {
                self.tell(&spot, |letters| &mut letters.task, Letter::Task);
            }
            if called_off {
                self.tell(&spot, |letters| &mut letters.cancel, Letter::Cancel);
            }
        }
        lost
    }

    /// Writes to whoever has a task, in place of an earlier letter of the same kind.
    fn tell(
        &mut self,
        spot: &Spot,
        which: impl Fn(&mut Letters) -> &mut Option<u64>,
        letter: impl Fn(Holding) -> Letter,
    ) {
        let Some(held) = self.held.get_mut(spot) else { return };
        let Some(session) = self.sessions.get_mut(&(spot.0, held.session)) else { return };
        let n = self.next;
        self.next += 1;
        session.untell(which(&mut held.letters).replace(n));
        session.tell(n, letter(Holding { place: spot.1.clone(), fence: held.fence }));
    }

    /// Whether a worker is there; if it is, it was just heard of.
    pub(super) fn touch(&mut self, seat: Seat, now: Millis) -> bool {
        let Some(session) = self.sessions.get_mut(&seat) else { return false };
        let was_gone = session.contact.is_gone();
        session.contact.touch(now);
        if was_gone {
            self.welcome_back(seat);
        }
        true
    }

    /// A worker is there after all: it has room again.
    fn welcome_back(&mut self, seat: Seat) {
        self.make_ready(seat);
        if let Some(session) = self.sessions.get(&seat) {
            let agent = session.agent.clone();
            self.call((seat.0, agent));
        }
    }

    /// The fence that a worker has a task under.
    pub(super) fn fence(&self, seat: Seat, place: &Place) -> Option<u64> {
        let held = self.held.get(&(seat.0, place.clone()))?;
        (held.session == seat.1 && !held.losing).then_some(held.fence)
    }

    /// Whether a worker has a task under this fence.
    pub(super) fn has(&self, seat: Seat, holding: &Holding) -> bool {
        self.fence(seat, &holding.place) == Some(holding.fence)
    }

    /// What people know a worker by.
    pub(super) fn words(&self, seat: Seat) -> String {
        self.sessions.get(&seat).map_or_else(String::new, Session::words)
    }

    /// What a worker's agent is called, and what it wants to be called for.
    pub(super) fn agent(&self, seat: Seat) -> Option<(String, Vec<HookKind>)> {
        self.sessions.get(&seat).map(|session| (session.agent.clone(), session.hooks.clone()))
    }

    /// A worker opens a line: it hears when there is something for it.
    pub(super) fn open_line(&mut self, seat: Seat, now: Millis) -> Option<watch::Receiver<()>> {
        let session = self.sessions.get_mut(&seat)?;
        let (was_gone, news) = (session.contact.is_gone(), session.subscribe());
        session.contact.open_line(now);
        if was_gone {
            self.welcome_back(seat);
        }
        Some(news)
    }

    /// A line has ended. What a worker that may be dead has not heard of goes to others.
    pub(super) fn close_line(&mut self, seat: Seat, now: Millis, answered: bool) -> Chores {
        let mut chores = Chores::default();
        let Some(session) = self.sessions.get_mut(&seat) else { return chores };
        session.contact.close_line(now, answered);
        let held =
            if session.contact.is_gone() { session.held.iter().cloned().collect() } else { Vec::new() };
        // If it was given the benefit of the doubt, that is over.
        self.news.leases |= !answered && !self.doubtful.is_empty();
        for place in held {
            self.take_back_untold(seat, &place, &mut chores);
        }
        chores
    }

    /// Where a worker is in the mail of this server. Another one that it has talked to has numbers of its own, which may be
    /// higher and say nothing here.
    fn place_in_mail(&self, after: u64) -> u64 {
        let is_ours = after >> LETTERS_OF_START == self.first >> LETTERS_OF_START;
        if self.shared && !is_ours { 0 } else { after }
    }

    /// A worker has the letters up to a number.
    pub(super) fn acknowledge(&mut self, seat: Seat, after: u64) {
        let after = self.place_in_mail(after);
        if let Some(session) = self.sessions.get_mut(&seat) {
            session.acknowledge(after);
        }
    }

    /// The letters for a worker behind a number. `None` if it is not known.
    pub(super) fn letters(&mut self, seat: Seat, after: u64, most: usize) -> Option<Vec<(u64, Letter)>> {
        let letters = self.sessions.get(&seat)?.letters(self.place_in_mail(after), most);
        for (_, letter) in &letters {
            if let Letter::Task(holding) = letter
                && let Some(held) = self.held.get_mut(&(seat.0, holding.place.clone()))
            {
                held.sent = true;
            }
        }
        Some(letters)
    }

    /// A worker gets nothing more, and is told so. `false` if it is not there.
    pub(super) fn drain(&mut self, seat: Seat) -> bool {
        let Some(session) = self.sessions.get_mut(&seat) else { return false };
        if !std::mem::replace(&mut session.draining, true) {
            session.tell(self.next, Letter::Drain);
            self.next += 1;
        }
        true
    }

    /// Who has a task.
    pub(super) fn holder(&self, spot: &Spot) -> Option<Holder> {
        let held = self.held.get(spot)?;
        let session = self.sessions.get(&(spot.0, held.session));
        Some(Holder {
            session: held.session,
            agent: session.map(|session| session.agent.clone()),
            labels: session.map(|session| session.labels.clone()).unwrap_or_default(),
            since: held.since,
        })
    }

    /// Whether somebody is there who does such tasks.
    pub(super) fn provides(&self, tenant: TenantId, kind: &str, agent: Option<&str>) -> bool {
        self.sessions.iter().any(|((of, _), session)| {
            *of == tenant
                && !session.contact.is_gone()
                && session.kinds.contains_key(kind)
                && agent.is_none_or(|agent| session.agent == agent)
        })
    }

    /// The workers of a tenant that are there, by session.
    pub(super) fn sessions(&self, tenant: TenantId) -> Vec<SessionView> {
        let of_tenant = self.sessions.iter().filter(|((of, _), _)| *of == tenant);
        let mut all: Vec<SessionView> = of_tenant.map(|((_, id), session)| view(*id, session)).collect();
        all.sort_by(|one, other| (&one.agent, one.id).cmp(&(&other.agent, other.id)));
        all
    }

    /// How many workers are there, and how many tasks of each kind they have, all tenants together.
    pub(super) fn counts(&self) -> (usize, BTreeMap<Arc<str>, u64>) {
        let mut held = BTreeMap::new();
        for one in self.held.values() {
            *held.entry(one.kind.clone()).or_default() += 1;
        }
        (self.sessions.len(), held)
    }
}

/// A tenant has as many workers as it may.
#[derive(Debug)]
pub(super) struct Full;

/// A task that is called off and that nobody has.
pub(super) fn nobodys(spot: Spot, fence: Option<u64>) -> Lost {
    Lost { spot, fence, reason: Loss::CalledOff, worker: String::new(), session: None }
}

fn view(id: SessionId, session: &Session) -> SessionView {
    let mut kinds: Vec<Arc<str>> = session.kinds.keys().cloned().collect();
    kinds.sort();
    SessionView {
        id,
        agent: session.agent.clone(),
        kinds,
        capacity: session.capacity,
        held: session.held.len(),
        labels: session.labels.clone(),
        code_version: session.code_version.clone(),
        sdk: session.sdk.clone(),
        registered_at: session.registered_at,
        seen_at: session.contact.at(),
        listening: session.contact.is_listening(),
        gone: session.contact.is_gone(),
        draining: session.draining,
    }
}
