//! Durable timers: all of them on disk, the near ones in memory.
//!
//! Whatever is due up to the horizon is in memory. The horizon is moved before the store is read, so a timer
//! committed meanwhile is either read or told of, or both; the set keeps one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use abide_core::{Artifacts, Command, Millis, Rejection, RunId, TenantId, TimerId};
use abide_store::{Lane, TimerRow};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::shell::{Basis, Shell};
use crate::{Error, Window, limits};

#[derive(Default)]
pub(crate) struct Timers {
    near: Mutex<Near>,
    wake: Notify,
}

struct Near {
    rows: BTreeSet<TimerRow>,
    /// Every timer due up to here is in `rows`.
    horizon: Millis,
    /// More timers lie within the look-ahead than memory has room for.
    full: bool,
}

impl Default for Near {
    fn default() -> Self {
        Self { rows: BTreeSet::new(), horizon: Millis::MIN, full: false }
    }
}

impl Timers {
    /// A timer became durable.
    pub(crate) fn arm(&self, row: TimerRow) {
        let mut near = self.near.lock().expect("no thread panics holding this");
        if row.due > near.horizon {
            return;
        }
        let first = near.rows.first().is_none_or(|first| row.due < first.due);
        near.rows.insert(row);
        if near.rows.len() > 2 * limits::NEAR_TIMERS_MAX {
            near.shorten();
        }
        drop(near);
        if first {
            self.wake.notify_one();
        }
    }

    /// A timer is gone from the store.
    pub(crate) fn disarm(&self, row: &TimerRow) {
        self.near.lock().expect("no thread panics holding this").rows.remove(row);
    }

    fn set_horizon(&self, horizon: Millis, full: bool) {
        let mut near = self.near.lock().expect("no thread panics holding this");
        (near.horizon, near.full) = (horizon, full);
    }

    /// There is more within the horizon than was read. It may have been lowered meanwhile, and stays so.
    fn lower_horizon(&self, horizon: Millis) {
        let mut near = self.near.lock().expect("no thread panics holding this");
        (near.horizon, near.full) = (near.horizon.min(horizon), true);
    }

    /// The horizon, if it is time to move it: half of the look-ahead, or most of a full memory, is used up. With it,
    /// where to read from: behind what is known if there was more, else from the start, for what was left behind.
    fn worn_horizon(&self, now: Millis) -> Option<(Millis, Option<TimerRow>)> {
        let near = self.near.lock().expect("no thread panics holding this");
        let worn = if near.full {
            near.rows.len() < limits::NEAR_TIMERS_MAX / 4
        } else {
            near.horizon < now.saturating_add(limits::NEAR_TIMERS_MS / 2)
        };
        worn.then(|| (near.horizon, near.full.then(|| end_of(near.horizon))))
    }

    fn add(&self, rows: Vec<TimerRow>) {
        self.near.lock().expect("no thread panics holding this").rows.extend(rows);
    }

    fn take_due(&self, now: Millis, limit: usize) -> Vec<TimerRow> {
        let mut near = self.near.lock().expect("no thread panics holding this");
        let mut due = Vec::new();
        while due.len() < limit && near.rows.first().is_some_and(|row| row.due <= now) {
            due.extend(near.rows.pop_first());
        }
        due
    }

    /// How long the first timer has been due.
    pub(crate) fn overdue_ms(&self, now: Millis) -> Millis {
        let near = self.near.lock().expect("no thread panics holding this");
        near.rows.first().map_or(0, |row| now.saturating_sub(row.due).max(0))
    }

    /// When to look again: at the first timer, or when the horizon comes near.
    fn next_look(&self) -> Millis {
        let near = self.near.lock().expect("no thread panics holding this");
        let refill =
            if near.full { Millis::MAX } else { near.horizon.saturating_sub(limits::NEAR_TIMERS_MS / 2) };
        near.rows.first().map_or(refill, |row| row.due.min(refill))
    }
}

impl Near {
    /// Forgets the farthest timers; they are read again when their time comes near.
    fn shorten(&mut self) {
        while self.rows.len() > limits::NEAR_TIMERS_MAX {
            let Some(last) = self.rows.pop_last() else { return };
            (self.horizon, self.full) = (last.due - 1, true);
        }
        let horizon = self.horizon;
        self.rows.retain(|row| row.due <= horizon);
    }
}

/// A place behind every timer that is due at `horizon`.
fn end_of(horizon: Millis) -> TimerRow {
    let key = RunId::from_bytes([0xff; 16]).of(TenantId(u32::MAX));
    TimerRow { due: horizon, key, timer: TimerId::Stretch }
}

/// Fires timers for as long as the engine lives.
pub(crate) async fn run(shell: Arc<Shell>) {
    let mut firing = JoinSet::new();
    loop {
        let now = shell.clock.now();
        if let Err(error) = refill(&shell, now).await {
            tracing::error!(%error, "timers can't be read; trying again");
            rest().await;
            continue;
        }
        let room = limits::FIRE_TIMERS_MAX - firing.len();
        for row in shell.timers.take_due(now, room) {
            firing.spawn(fire(shell.clone(), row));
        }
        let full = firing.len() == limits::FIRE_TIMERS_MAX;
        let look = shell.timers.next_look();
        tokio::select! {
            _ = firing.join_next(), if !firing.is_empty() => {}
            () = shell.clock.wait_until(look), if !full => {}
            () = shell.timers.wake.notified(), if !full => {}
        }
        while firing.try_join_next().is_some() {}
    }
}

/// Reads the timers of the next minute once the last reading is used up.
async fn refill(shell: &Arc<Shell>, now: Millis) -> Result<(), Error> {
    let Some((horizon, after)) = shell.timers.worn_horizon(now) else {
        return Ok(());
    };
    let until = now.saturating_add(limits::NEAR_TIMERS_MS);
    shell.timers.set_horizon(until, false);
    match shell.store.timers(after, until, limits::NEAR_TIMERS_MAX).await {
        Ok(rows) => {
            if let Some(last) = rows.get(limits::NEAR_TIMERS_MAX - 1) {
                // More are due than fit, and those at the last row's time may not all be here.
                shell.timers.lower_horizon(last.due - 1);
            }
            shell.timers.add(rows);
            Ok(())
        }
        Err(error) => {
            shell.timers.set_horizon(horizon, false);
            Err(error.into())
        }
    }
}

/// Fires one timer. Unless its run is beyond reading, it is gone from the store then, or in memory again.
async fn fire(shell: Arc<Shell>, row: TimerRow) {
    shell.pass(Window::EffectReport);
    let late_ms = shell.clock.now().saturating_sub(row.due);
    let command = match &row.timer {
        TimerId::Resume => Command::ResumeDue { artifacts: Artifacts::READABLE },
        timer => Command::Fire(timer.clone()),
    };
    match shell.decide(row.key, &command, Lane::Background, Basis::default(), |_| ()).await {
        Ok(()) => shell.counters.fired(late_ms),
        // Somebody ended the wait first; the row left the store with that commit.
        Err(Error::Rejected(Rejection::NoSuchTimer | Rejection::Ended(_))) => {}
        // The row says earlier than the journal, which is damage: left alone until the next look at the disk.
        Err(Error::Rejected(Rejection::NotDue { due })) if due != row.due => {
            tracing::error!(run = %row.key.id, timer = %row.timer, "a timer's row differs from its journal");
        }
        // The clock was set back between the look and the decision.
        Err(Error::Rejected(_)) => shell.timers.add(vec![row]),
        // Trying again would not help; the row stays, and the next look at the disk says so again.
        Err(error) if error.is_lasting() => {
            tracing::error!(run = %row.key.id, timer = %row.timer, %error, "a timer can't be fired");
        }
        Err(Error::Draining | Error::Store(abide_store::Error::Closed)) => {}
        Err(error) => {
            tracing::error!(run = %row.key.id, timer = %row.timer, %error, "a timer could not be fired; trying again");
            rest().await;
            shell.timers.add(vec![row]);
        }
    }
}

pub(crate) async fn rest() {
    tokio::time::sleep(std::time::Duration::from_millis(limits::STORE_REST_MS)).await;
}
