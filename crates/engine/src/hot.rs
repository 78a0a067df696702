//! Runs in memory, decided on ahead of the disk.
//!
//! A cell holds the speculative head of a run: every decision so far, durable or not. What is shown to
//! anyone waits until the disk has caught up with it. A cell whose commit failed is dead; whoever holds it
//! fetches a new one, which is read from the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use abide_core::{Graph, Head, Key, Run};
use abide_store::Lane;
use tokio::sync::{OnceCell, watch};

use crate::{Error, limits};

/// One run in memory.
pub(crate) struct Cell {
    pub(crate) key: Key,
    /// When it began to be read: whatever was on disk then is in it.
    pub(crate) read_at: Instant,
    /// What the run follows.
    pub(crate) graph: Arc<Graph>,
    state: Mutex<Ahead>,
    durable: watch::Sender<Durable>,
}

/// A run as decided, which may be ahead of the disk.
pub(crate) struct Ahead {
    pub(crate) run: Run,
    /// A commit failed: what `run` says never happened.
    pub(crate) dead: bool,
    /// Commits that are not answered yet.
    pub(crate) in_flight: u32,
    /// The lane those commits are in. Others follow them there, or they would overtake and be stale.
    pub(crate) lane: Lane,
    /// How many events the last snapshot has folded.
    pub(crate) snapshot_at: u64,
}

#[derive(Clone, Copy)]
struct Durable {
    next: u64,
    dead: bool,
}

impl Cell {
    /// A cell whose journal is durable up to `durable`, as it was read at `read_at`.
    pub(crate) fn new(run: Run, durable: u64, snapshot_at: u64, read_at: Instant) -> Arc<Self> {
        let (key, graph) = (run.key(), run.graph().clone());
        let state = Ahead { run, dead: false, in_flight: 0, lane: Lane::Interactive, snapshot_at };
        let durable = watch::Sender::new(Durable { next: durable, dead: false });
        Arc::new(Self { key, read_at, graph, state: Mutex::new(state), durable })
    }

    /// The run, unless the cell is dead. A panic in a decision leaves the lock poisoned, which is as dead.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, Ahead>> {
        self.state.lock().ok().filter(|ahead| !ahead.dead)
    }

    /// Records that the journal is durable up to `next`.
    pub(crate) fn settle(&self, next: u64) {
        if let Ok(mut ahead) = self.state.lock() {
            ahead.in_flight -= 1;
        }
        self.durable.send_modify(|durable| durable.next = durable.next.max(next));
    }

    /// Gives up on what was decided here.
    pub(crate) fn kill(&self) {
        if let Ok(mut ahead) = self.state.lock() {
            ahead.dead = true;
            ahead.in_flight -= 1;
        }
        self.durable.send_modify(|durable| durable.dead = true);
    }

    /// Whether the end of the journal as the store has it came about here. A commit that is not answered yet may have
    /// brought it about.
    pub(crate) async fn accounts_for(&self, tip: Head) -> bool {
        let mut durable = self.durable.subscribe();
        loop {
            let known = *durable.borrow_and_update();
            let Some(waits) =
                self.lock().map(|ahead| ahead.in_flight > 0 && ahead.run.head().next >= tip.next)
            else {
                return false;
            };
            if known.dead || known.next >= tip.next || !waits {
                return !known.dead && known.next >= tip.next && self.agrees_with(tip);
            }
            // The sender lives as long as `self`.
            let _ = durable.changed().await;
        }
    }

    /// Whether the journal in memory ends as the store says, if it ends there: it may have been cut and have grown again.
    fn agrees_with(&self, tip: Head) -> bool {
        self.lock().is_some_and(|ahead| {
            let head = ahead.run.head();
            head.next != tip.next || head.chain == tip.chain
        })
    }

    /// Whether it is known to be behind a journal of `next` events, and nothing of it is on its way.
    fn is_behind(&self, next: u64) -> bool {
        self.lock().is_some_and(|ahead| ahead.in_flight == 0 && ahead.run.head().next < next)
    }

    /// Waits until the journal is durable up to `next`. `false` if that will never be.
    pub(crate) async fn wait_durable(&self, next: u64) -> bool {
        let mut durable = self.durable.subscribe();
        let reached = durable.wait_for(|durable| durable.dead || durable.next >= next).await;
        reached.is_ok_and(|durable| durable.next >= next)
    }
}

/// The runs in memory, at most so many.
#[derive(Default)]
pub(crate) struct Hot {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

#[derive(Default)]
struct Slot {
    cell: OnceCell<Arc<Cell>>,
}

impl Hot {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.lock().expect("no thread panics holding this").len()
    }

    /// The cell of a run: the one in memory, or one made by `load`, however many ask at once.
    pub(crate) async fn get<F>(&self, key: Key, load: impl FnOnce() -> F) -> Result<Arc<Cell>, Error>
    where
        F: Future<Output = Result<Arc<Cell>, Error>>,
    {
        let slot = self.slot(key);
        match slot.cell.get_or_try_init(load).await {
            Ok(cell) => Ok(cell.clone()),
            Err(error) => {
                self.remove_slot(key, &slot);
                Err(error)
            }
        }
    }

    /// The cell of a run, if it is in memory.
    pub(crate) fn peek(&self, key: Key) -> Option<Arc<Cell>> {
        self.slots.lock().expect("no thread panics holding this").get(&key)?.cell.get().cloned()
    }

    /// Takes in a new run.
    pub(crate) fn insert(&self, cell: &Arc<Cell>) {
        let slot = Arc::new(Slot { cell: OnceCell::new_with(Some(cell.clone())) });
        let mut slots = self.slots.lock().expect("no thread panics holding this");
        make_room(&mut slots);
        slots.insert(cell.key, slot);
    }

    /// Forgets this very cell: a newer one under the same key stays.
    pub(crate) fn remove(&self, cell: &Arc<Cell>) {
        let mut slots = self.slots.lock().expect("no thread panics holding this");
        let same =
            slots.get(&cell.key).and_then(|slot| slot.cell.get()).is_some_and(|held| Arc::ptr_eq(held, cell));
        if same {
            slots.remove(&cell.key);
        }
    }

    /// Forgets a run, whatever is known of it.
    pub(crate) fn forget(&self, key: Key) {
        self.slots.lock().expect("no thread panics holding this").remove(&key);
    }

    /// Whether a run with a journal of `next` events is not known here as it is.
    pub(crate) fn is_behind(&self, key: Key, next: u64) -> bool {
        self.peek(key).is_none_or(|cell| cell.is_behind(next))
    }

    /// The journal of a run is `next` events long: forgets the run if it is behind that.
    pub(crate) fn forget_older(&self, key: Key, next: u64) {
        if let Some(cell) = self.peek(key).filter(|cell| cell.is_behind(next)) {
            self.remove(&cell);
        }
    }

    fn slot(&self, key: Key) -> Arc<Slot> {
        let mut slots = self.slots.lock().expect("no thread panics holding this");
        if let Some(slot) = slots.get(&key) {
            return slot.clone();
        }
        make_room(&mut slots);
        slots.entry(key).or_default().clone()
    }

    fn remove_slot(&self, key: Key, slot: &Arc<Slot>) {
        let mut slots = self.slots.lock().expect("no thread panics holding this");
        if slots.get(&key).is_some_and(|held| Arc::ptr_eq(held, slot)) {
            slots.remove(&key);
        }
    }
}

/// Drops cells that nobody holds and that wait for no commit, a quarter of the room at a time.
fn make_room(slots: &mut HashMap<Key, Arc<Slot>>) {
    if slots.len() < limits::HOT_RUNS_MAX {
        return;
    }
    let mut excess = slots.len() - limits::HOT_RUNS_MAX * 3 / 4;
    slots.retain(|_, slot| {
        let evict = excess > 0 && is_idle(slot);
        excess -= usize::from(evict);
        !evict
    });
}

/// A slot whose load was given up holds nothing, and whoever is loading holds the slot.
fn is_idle(slot: &Arc<Slot>) -> bool {
    Arc::strong_count(slot) == 1
        && slot.cell.get().is_none_or(|cell| {
            Arc::strong_count(cell) == 1 && cell.state.try_lock().is_ok_and(|ahead| ahead.in_flight == 0)
        })
}

#[cfg(test)]
mod tests {
    use abide_core::{RunId, TenantId};

    use super::*;

    #[test]
    fn slots_whose_load_was_given_up_make_room() {
        let hot = Hot::default();
        for number in 0..2 * limits::HOT_RUNS_MAX as u128 {
            // As when a client asks for a run and hangs up before it is read.
            drop(hot.slot(RunId::from_bytes(number.to_be_bytes()).of(TenantId(1))));
        }
        assert!(hot.slots.lock().unwrap().len() <= limits::HOT_RUNS_MAX);
    }

    #[test]
    fn a_slot_that_somebody_is_loading_stays() {
        let hot = Hot::default();
        let key = RunId::from_bytes([7; 16]).of(TenantId(1));
        let held = hot.slot(key);
        for number in 0..2 * limits::HOT_RUNS_MAX as u128 {
            drop(hot.slot(RunId::from_bytes(number.to_be_bytes()).of(TenantId(2))));
        }
        assert!(Arc::ptr_eq(&held, &hot.slot(key)));
    }
}
