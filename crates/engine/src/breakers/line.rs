//! Turns that wait for one breaker, as far as they are in memory: how many of them may call at once when it is back.
//!
//! The provider that was away gets a few calls at first, and one more at a time for each that succeeds. Those who wait are
//! in the store; here are only those that were woken.

use std::collections::{BTreeMap, BTreeSet};

use abide_core::{Key, Millis, TaskId};

use crate::limits::{ASIDE_TURNS_MAX, WOKEN_CALLS_MAX, WOKEN_CALLS_MIN, WOKEN_TURN_MS};

/// A turn of a run.
pub(super) type TurnId = (Key, TaskId);

/// The turns of one tenant that wait for one breaker.
pub(super) struct Line {
    /// There may be turns in the store that wait.
    is_waited_in: bool,
    /// How many woken turns may be on their way or call at once.
    allowed: usize,
    /// Turns that were woken and did not ask to call yet, and until when that is waited for.
    woken: BTreeMap<TurnId, Millis>,
    /// Woken turns that call.
    calling: usize,
    /// Turns that can't be woken, though they are in the store.
    aside: BTreeSet<TurnId>,
}

impl Default for Line {
    fn default() -> Self {
        let (woken, aside) = (BTreeMap::new(), BTreeSet::new());
        Self { is_waited_in: false, allowed: WOKEN_CALLS_MIN, woken, calling: 0, aside }
    }
}

impl Line {
    /// A turn waits, durably.
    pub(super) fn join(&mut self, turn: &TurnId) {
        self.aside.remove(turn);
        self.lengthen();
    }

    /// There are turns that wait. If they are the first for a while, it has to be found out anew how many calls are borne.
    pub(super) fn lengthen(&mut self) {
        if !self.is_waited_in && self.in_flight() == 0 {
            self.allowed = WOKEN_CALLS_MIN;
        }
        self.is_waited_in = true;
    }

    /// The breaker has closed: whoever waits is woken, few at first.
    pub(super) fn begin_anew(&mut self) {
        self.allowed = WOKEN_CALLS_MIN;
        self.aside.clear();
        self.is_waited_in = true;
    }

    pub(super) fn is_waited_in(&self) -> bool {
        self.is_waited_in
    }

    /// The store is about to be asked who waits. Whoever joins from now on says so.
    pub(super) fn begin_reading(&mut self) {
        self.is_waited_in = false;
    }

    /// Takes those that may be woken out of those that wait, oldest first.
    pub(super) fn choose(&mut self, waiting: Vec<TurnId>, room: usize, now: Millis) -> Vec<TurnId> {
        let is_free = |turn: &TurnId| !self.woken.contains_key(turn) && !self.aside.contains(turn);
        let mut free = waiting.into_iter().filter(is_free);
        let chosen: Vec<TurnId> = free.by_ref().take(room).collect();
        self.is_waited_in |= !chosen.is_empty() || free.next().is_some();
        for turn in &chosen {
            self.woken.insert(turn.clone(), now.saturating_add(WOKEN_TURN_MS));
        }
        chosen
    }

    /// How many rows have to be read to find so many that may be woken.
    pub(super) fn look_at(&self, room: usize) -> usize {
        room + self.woken.len() + self.aside.len() + 1
    }

    /// A turn asks to call. Tells whether it was woken to do so.
    pub(super) fn arrive(&mut self, turn: &TurnId, is_admitted: bool) -> bool {
        let was_woken = self.woken.remove(turn).is_some();
        self.calling += usize::from(was_woken && is_admitted);
        was_woken
    }

    /// The call of a woken turn has ended. If it went well, there is room for one more.
    pub(super) fn leave(&mut self, went_well: bool) {
        self.calling = self.calling.saturating_sub(1);
        self.allowed = (self.allowed + usize::from(went_well)).min(WOKEN_CALLS_MAX);
    }

    /// A turn was not woken, or does not call: another may go in its place.
    pub(super) fn give_way(&mut self, turn: &TurnId) {
        self.woken.remove(turn);
        self.is_waited_in = true;
    }

    /// A turn can't be woken. It is left alone until it says that it waits, or the breaker closes.
    pub(super) fn put_aside(&mut self, turn: TurnId) {
        self.give_way(&turn);
        // One that is tried again costs less than a list without end.
        if self.aside.len() >= ASIDE_TURNS_MAX {
            self.aside.clear();
        }
        self.aside.insert(turn);
    }

    /// Forgets those that were woken and did not come: their runs have ended or are held.
    pub(super) fn expire(&mut self, now: Millis) {
        self.woken.retain(|_, until| now < *until && until.saturating_sub(now) <= WOKEN_TURN_MS);
    }

    /// How many may be woken now that the breaker is closed.
    pub(super) fn room(&self) -> usize {
        self.allowed.saturating_sub(self.in_flight())
    }

    /// Whether a turn is on its way to be the probe.
    pub(super) fn awaits_arrival(&self) -> bool {
        !self.woken.is_empty()
    }

    /// When the first is forgotten that was woken and did not come.
    pub(super) fn next_expiry(&self) -> Millis {
        self.woken.values().min().copied().unwrap_or(Millis::MAX)
    }

    fn in_flight(&self) -> usize {
        self.woken.len() + self.calling
    }
}
