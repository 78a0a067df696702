//! Durable timers: all of them on disk, the near ones in memory.
//!
//! Whatever is due up to the horizon is in memory. The horizon is moved before the store is read, so a timer
//! committed meanwhile is either read or told of, or both; the set keeps one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use abide_core::{Command, Key, Millis, Rejection, RunId, TenantId, TimerId};
use abide_store::{Cluster, Hint, Lane, TimerRow};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::shell::{Basis, Shell};
use crate::{Error, Window, limits};

#[derive(Default)]
pub(crate) struct Timers {
    near: Mutex<Near>,
    wake: Notify,
    /// There may be timers on disk that nobody sees to.
    look: AtomicBool,
}

struct Near {
    rows: BTreeSet<TimerRow>,
    /// Every timer due up to here is in `rows`.
    horizon: Millis,
    /// More timers lie within the look-ahead than memory has room for.
    full: bool,
    /// Interrupted runs whose time has come. They wait apart from the others: each is read as a whole before it goes on,
    /// and after a kill there may be many.
    resumes: BTreeSet<TimerRow>,
    /// Interrupted runs that can't be read. Nothing more comes of their timers until somebody has mended them, or the
    /// next start.
    aside: BTreeMap<Key, Instant>,
}

impl Default for Near {
    fn default() -> Self {
        let (rows, resumes, aside) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Self { rows, horizon: Millis::MIN, full: false, resumes, aside }
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
        near.take_in(row);
        if near.rows.len() > 2 * limits::NEAR_TIMERS_MAX {
            near.shorten();
        }
        drop(near);
        if first {
            self.wake.notify_one();
        }
    }

    /// Whatever this server arms up to `horizon` is its own to fire.
    fn reach_to(&self, horizon: Millis) {
        let mut near = self.near.lock().expect("no thread panics holding this");
        near.horizon = near.horizon.max(horizon);
    }

    /// There may be timers on disk that nobody sees to.
    pub(crate) fn look(&self) {
        self.look.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// A timer is gone from the store.
    pub(crate) fn disarm(&self, row: &TimerRow) {
        let mut near = self.near.lock().expect("no thread panics holding this");
        near.rows.remove(row);
        near.resumes.remove(row);
    }

    /// The timers of a run that can't be read are left alone.
    fn put_aside(&self, key: Key) {
        let mut near = self.near.lock().expect("no thread panics holding this");
        if near.aside.len() < limits::NEAR_TIMERS_MAX {
            near.aside.insert(key, Instant::now());
        }
    }

    /// A run was mended.
    pub(crate) fn take_up(&self, key: Key) {
        self.near.lock().expect("no thread panics holding this").aside.remove(&key);
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
            near.rows.len() + near.resumes.len() < limits::NEAR_TIMERS_MAX / 4
        } else {
            near.horizon < now.saturating_add(limits::NEAR_TIMERS_MS / 2)
        };
        worn.then(|| (near.horizon, near.full.then(|| end_of(near.horizon))))
    }

    fn add(&self, rows: Vec<TimerRow>) {
        let mut near = self.near.lock().expect("no thread panics holding this");
        rows.into_iter().for_each(|row| near.take_in(row));
    }

    /// Takes what is due. Of interrupted runs, at most `resumes` are kept waiting; the others are found on disk again.
    fn take_due(&self, now: Millis, limit: usize, resumes: usize) -> Vec<TimerRow> {
        let mut near = self.near.lock().expect("no thread panics holding this");
        let mut due = Vec::new();
        while due.len() < limit && near.rows.first().is_some_and(|row| row.due <= now) {
            match near.rows.pop_first() {
                Some(row) if row.timer == TimerId::Resume => {
                    if near.resumes.len() < resumes {
                        near.resumes.insert(row);
                    }
                }
                row => due.extend(row),
            }
        }
        due
    }

    /// Interrupted runs whose time has come, those that wait longest first.
    fn take_resumes(&self, limit: usize) -> Vec<TimerRow> {
        let mut near = self.near.lock().expect("no thread panics holding this");
        std::iter::from_fn(|| near.resumes.pop_first()).take(limit).collect()
    }

    /// How long the first timer has been due.
    pub(crate) fn overdue_ms(&self, now: Millis) -> Millis {
        let near = self.near.lock().expect("no thread panics holding this");
        near.rows.first().map_or(0, |row| now.saturating_sub(row.due).max(0))
    }

    /// How many are due.
    fn count_due(&self, now: Millis) -> usize {
        let near = self.near.lock().expect("no thread panics holding this");
        near.rows.iter().take_while(|row| row.due <= now).take(limits::CLAIM_TIMERS_MAX).count()
    }

    /// When the first is due.
    fn first_due(&self) -> Millis {
        let near = self.near.lock().expect("no thread panics holding this");
        near.rows.first().map_or(Millis::MAX, |row| row.due)
    }

    /// Runs that could not be read are looked at again after a while: another server may have mended them.
    fn reconsider(&self) {
        let mut near = self.near.lock().expect("no thread panics holding this");
        near.aside.retain(|_, since| since.elapsed() < Duration::from_millis(limits::ASIDE_MS));
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
    fn take_in(&mut self, row: TimerRow) {
        if row.timer != TimerId::Resume || !self.aside.contains_key(&row.key) {
            self.rows.insert(row);
        }
    }

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
    let mut resuming = JoinSet::new();
    let mut claims = shell.store.cluster().map(Claims::new);
    loop {
        let now = shell.clock.now();
        let filled = match &mut claims {
            Some(claims) => claims.fill(&shell, now).await,
            None => refill(&shell, now).await,
        };
        if let Err(error) = filled {
            tracing::error!(%error, "timers can't be read; trying again");
            rest().await;
            continue;
        }
        let room = limits::FIRE_TIMERS_MAX - firing.len();
        // What a server keeps waiting for longer than it was taken for, others take as well.
        let resumes = if claims.is_some() { 4 * limits::RESUMES_AT_ONCE_MAX } else { usize::MAX };
        for row in shell.timers.take_due(now, room, resumes) {
            firing.spawn(fire(shell.clone(), row));
        }
        for row in shell.timers.take_resumes(limits::RESUMES_AT_ONCE_MAX - resuming.len()) {
            resuming.spawn(fire_resume(shell.clone(), row));
        }
        let full = firing.len() == limits::FIRE_TIMERS_MAX;
        let look = if claims.is_some() { shell.timers.first_due() } else { shell.timers.next_look() };
        let claim = claims.as_ref().map(|claims| claims.next);
        tokio::select! {
            _ = firing.join_next(), if !firing.is_empty() => {}
            _ = resuming.join_next(), if !resuming.is_empty() => {}
            () = shell.clock.wait_until(look), if !full => {}
            () = shell.timers.wake.notified(), if !full => {}
            () = tokio::time::sleep_until(claim.unwrap_or_else(Instant::now).into()), if claim.is_some() => {}
        }
        while firing.try_join_next().is_some() {}
        while resuming.try_join_next().is_some() {}
    }
}

/// Takes timers that nobody sees to. On a store that several servers share, each fires what it has armed itself for the
/// next minute, and what lies farther ahead, or was left behind, is whose who takes it first.
struct Claims<'a> {
    cluster: &'a dyn Cluster,
    /// When to look again.
    next: Instant,
    /// There was more than was taken.
    more: bool,
}

impl<'a> Claims<'a> {
    fn new(cluster: &'a dyn Cluster) -> Self {
        Self { cluster, next: Instant::now(), more: false }
    }

    async fn fill(&mut self, shell: &Shell, now: Millis) -> Result<(), Error> {
        let asked = shell.timers.look.swap(false, Ordering::AcqRel);
        let has_room = shell.timers.count_due(now) < limits::CLAIM_TIMERS_MAX / 2;
        if !asked && Instant::now() < self.next && !(self.more && has_room) {
            return Ok(());
        }
        self.next = Instant::now() + Duration::from_millis(limits::PEERS_LOOK_MS);
        shell.timers.reconsider();
        let until = now.saturating_add(limits::CLAIM_TIMERS_AHEAD_MS);
        let rows = self.cluster.claim_timers(until, limits::CLAIM_TIMERS_MAX).await?;
        self.more = rows.len() == limits::CLAIM_TIMERS_MAX;
        shell.timers.add(rows);
        Ok(())
    }
}

impl Shell {
    /// A timer became durable. On a store that several servers share, it is this one's to fire if it is `held` for it, and
    /// due soon.
    pub(crate) fn arm(&self, row: TimerRow, held: bool) {
        if self.store.cluster().is_none() {
            return self.timers.arm(row);
        }
        let horizon = self.clock.now().saturating_add(limits::NEAR_TIMERS_MS);
        if held {
            self.timers.reach_to(horizon);
            self.timers.arm(row);
        } else if row.due <= horizon {
            self.tell_peers(Hint::Timer(row.due));
            self.timers.look();
        }
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
    let command = Command::Fire(row.timer.clone());
    let fired = shell.decide(row.key, &command, Lane::Background, Basis::default(), |_| ()).await;
    see_to(&shell, row, late_ms, fired).await;
}

/// Looks whether an interrupted run may be resumed. One that can't be read is left alone from then on.
async fn fire_resume(shell: Arc<Shell>, row: TimerRow) {
    shell.pass(Window::EffectReport);
    let late_ms = shell.clock.now().saturating_sub(row.due);
    let fired = match shell.resume_due(row.key).await {
        Ok(true) => Ok(()),
        Ok(false) => return shell.timers.put_aside(row.key),
        Err(error) => Err(error),
    };
    see_to(&shell, row, late_ms, fired).await;
}

/// Sees to what became of a timer that fired.
async fn see_to(shell: &Arc<Shell>, row: TimerRow, late_ms: Millis, fired: Result<(), Error>) {
    match fired {
        Ok(()) => shell.counters.fired(late_ms),
        // Somebody ended the wait first; the row left the store with that commit.
        Err(Error::Rejected(Rejection::NoSuchTimer | Rejection::Ended(_))) => {}
        // Another server has armed it anew since it was taken.
        Err(Error::Rejected(Rejection::NotDue { due }))
            if due != row.due && shell.store.cluster().is_some() => {}
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
    tokio::time::sleep(Duration::from_millis(limits::STORE_REST_MS)).await;
}
