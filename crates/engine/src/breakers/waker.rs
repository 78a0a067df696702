//! Wakes turns that wait for a breaker: one as the probe when the cool-down is over, the others when it has closed.
//!
//! Nothing is looked at while nobody waits. Who waits is in the store, so it does not matter who postponed them.

use std::future::Future;
use std::sync::Arc;

use abide_core::{Command, Key, Millis, Run, TaskId, TurnCommand};
use abide_store::Lane;
use tokio::task::JoinSet;

use super::line::TurnId;
use super::{Breakers, Watched};
use crate::peers::ticks;
use crate::shell::{Basis, Shell};
use crate::timers::rest;
use crate::{Error, limits};

/// Turns that are being woken.
type Waking = JoinSet<(Arc<Watched>, TurnId, Result<bool, Error>)>;

/// What calls are for those who wait.
enum Gate {
    /// All of them go out.
    Closed,
    /// The next one is the probe.
    Due,
    /// None goes out before then.
    Shut(Millis),
}

/// Wakes turns for as long as the engine lives.
pub(crate) async fn run(shell: Arc<Shell>) {
    run_with(shell.breakers.clone(), |run, task| shell.clone().wake_turn(run, task)).await;
}

/// `wake` has a turn try again, durably, and tells
/// whether it is on its way: the run may be held.
pub(super) async fn run_with<W, F>(breakers: Arc<Breakers>, wake: W)
where
    W: Fn(Key, TaskId) -> F,
    F: Future<Output = Result<bool, Error>> + Send + 'static,
{
    find_left_behind(&breakers).await;
    let mut waking = Waking::new();
    let has_peers = breakers.store.cluster().is_some();
    let mut ticks = ticks(limits::ROLE_LOOK_MS);
    loop {
        let mut look = Millis::MAX;
        for watched in breakers.waited_for() {
            match look_after(&breakers, &watched, &mut waking, &wake).await {
                Ok(next) => look = look.min(next),
                Err(Error::Store(abide_store::Error::Closed)) => return,
                Err(error) => {
                    tracing::error!(%error, "turns that wait for a provider can't be woken; trying again");
                    rest().await;
                    breakers.news.notify_one();
                }
            }
        }
        tokio::select! {
            woken = waking.join_next(), if !waking.is_empty() => {
                if let Some(Ok((watched, turn, result))) = woken {
                    settle(&breakers, &watched, turn, result).await;
                }
            }
            () = breakers.clock.wait_until(look), if look < Millis::MAX => {}
            () = breakers.news.notified() => {}
            // Whom another server has postponed may not have been told.
            _ = ticks.tick(), if has_peers => find_left_behind(&breakers).await,
        }
    }
}

/// Turns that a process which is gone has postponed.
async fn find_left_behind(breakers: &Breakers) {
    loop {
        match breakers.store.providers().postponed_for().await {
            Ok(lines) => {
                for (tenant, provider) in lines {
                    breakers.of(tenant, &provider).line().lengthen();
                }
                return;
            }
            Err(abide_store::Error::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "turns that wait for a provider can't be read; trying again");
            }
        }
        rest().await;
    }
}

impl Breakers {
    /// Those that turns wait for.
    pub(super) fn waited_for(&self) -> Vec<Arc<Watched>> {
        let watched = self.watched.lock().expect("no thread panics holding this");
        watched.values().filter(|watched| watched.line().is_waited_in()).cloned().collect()
    }

    async fn gate(&self, watched: &Watched) -> Result<Gate, Error> {
        self.change(watched, |breaker, now| match breaker.refuses_until(now) {
            Some(until) => Gate::Shut(until),
            None if breaker.is_closed() => Gate::Closed,
            None => Gate::Due,
        })
        .await
    }
}

/// Wakes whom it may. Gives when to look again, if nothing happens before.
async fn look_after<W, F>(
    breakers: &Breakers,
    watched: &Arc<Watched>,
    waking: &mut Waking,
    wake: &W,
) -> Result<Millis, Error>
where
    W: Fn(Key, TaskId) -> F,
    F: Future<Output = Result<bool, Error>> + Send + 'static,
{
    let gate = breakers.gate(watched).await?;
    let now = breakers.clock.now();
    let (room, limit) = {
        let mut line = watched.line();
        line.expire(now);
        let room = match gate {
            Gate::Shut(until) => return Ok(until),
            Gate::Due => usize::from(!line.awaits_arrival()),
            Gate::Closed => line.room(),
        };
        if room == 0 {
            return Ok(line.next_expiry());
        }
        line.begin_reading();
        (room, line.look_at(room))
    };
    let rows = breakers.store.providers().postponed(watched.tenant, watched.provider.clone(), limit).await;
    let rows = rows.inspect_err(|_| watched.line().lengthen())?;
    let waiting = rows.into_iter().map(|row| (row.key, row.wait.task)).collect();
    for turn in watched.line().choose(waiting, room, now) {
        let (watched, woken) = (watched.clone(), wake(turn.0, turn.1.clone()));
        waking.spawn(async move { (watched, turn, woken.await) });
    }
    Ok(watched.line().next_expiry())
}

/// What follows if a turn is not on its way.
async fn settle(breakers: &Breakers, watched: &Watched, turn: TurnId, result: Result<bool, Error>) {
    let run = turn.0.id;
    match result {
        Ok(true) | Err(Error::Draining | Error::Store(abide_store::Error::Closed)) => return,
        Ok(false) => watched.line().give_way(&turn),
        // Somebody else was faster, and its row is gone.
        Err(Error::Rejected(rejection)) => {
            tracing::debug!(%run, %rejection, "a turn that was to be woken does not wait any more");
            watched.line().put_aside(turn);
        }
        Err(error) if error.is_lasting() => {
            tracing::error!(%run, %error, "a turn that waits for its provider can't be woken");
            watched.line().put_aside(turn);
        }
        Err(error) => {
            tracing::error!(%run, %error, "a turn can't be woken; trying again");
            rest().await;
            watched.line().give_way(&turn);
        }
    }
    breakers.news.notify_one();
}

impl Shell {
    /// Has a turn that was postponed try its provider. Tells whether it is on its way.
    async fn wake_turn(self: Arc<Self>, run: Key, task: TaskId) -> Result<bool, Error> {
        let command = Command::Turn(Box::new(TurnCommand::Go { task: task.clone() }));
        let see = |run: &Run| run.tasks().any(|under_way| under_way == task);
        self.decide(run, &command, Lane::Background, Basis::default(), see).await
    }
}
