//! What has to be written and decided because of workers, and the loops that see to it.

use std::collections::HashMap;
use std::sync::Arc;

use abide_core::{Command, Key, Loss, Offer, Work, WorkOp};
use abide_store::{Hint, HookId, Lane, SessionId, TaskHolder};
use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::desk::{Agent, Chores, Lost, Seat, Spot, Untold, nobodys};
use super::session::{Holding, Place};
use crate::shell::{Basis, Shell};
use crate::timers::rest;
use crate::{Error, limits};

impl Shell {
    /// Does what follows from a change among workers.
    pub(super) fn see_to(self: &Arc<Self>, chores: Chores) {
        if chores.is_empty() {
            return;
        }
        let mut taken = Vec::new();
        for lost in chores.lose {
            taken.push(self.runtime.spawn(lose(self.clone(), lost)));
        }
        let mut unclaim: HashMap<Seat, Vec<Untold>> = HashMap::new();
        chores.unclaim.into_iter().for_each(|untold| unclaim.entry(untold.seat).or_default().push(untold));
        for (seat, untold) in unclaim {
            taken.push(self.runtime.spawn(unclaim_of(self.clone(), seat, untold)));
        }
        for spot in chores.elsewhere {
            self.runtime.spawn(lose_if_nobodys(self.clone(), spot));
        }
        if !chores.ended.is_empty() {
            self.runtime.spawn(end_sessions(self.clone(), chores.ended, taken));
        }
        for (agent, hook, tries) in chores.failed_calls {
            let shell = self.clone();
            self.runtime.spawn(async move {
                let reason = "the worker that had it is gone";
                while let Err(error) = shell.settle_call(agent.clone(), hook, Some(reason.to_owned()), tries).await {
                    if shell.is_draining() {
                        return;
                    }
                    tracing::error!(run = %hook.run, %error, "the end of a hook can't be written; trying again");
                    rest().await;
                }
            });
        }
    }

    /// Writes down how a try at a call ended.
    pub(super) async fn settle_call(
        &self,
        agent: Agent,
        hook: HookId,
        error: Option<String>,
        tries: u32,
    ) -> Result<(), Error> {
        let tries = tries.saturating_add(1);
        let again = match error {
            None => None,
            Some(reason) if tries >= limits::HOOK_TRIES_MAX => {
                tracing::warn!(run = %hook.run, hook = hook.hook.name(), tries, reason, "a hook was given up");
                None
            }
            Some(_) => {
                let wait = limits::HOOK_WAIT_MS << (tries - 1).min(16);
                Some(self.clock.now().saturating_add(wait))
            }
        };
        self.store.work().settle_hook(agent.0, hook, again).await?;
        self.workers.with(|desk| {
            if let Some(due) = again {
                desk.call_at(due, agent.clone());
            }
            desk.end_call(agent, hook);
        });
        Ok(())
    }
}

/// Takes tasks from whoever may have them: nobody knows any more what became of them.
pub(crate) fn lose_all(shell: &Arc<Shell>, key: Key, offers: impl Iterator<Item = Offer>) {
    for offer in offers {
        let place = Place { run: key.id, task: offer.task };
        let lost = Lost {
            spot: (key.tenant, place),
            fence: Some(offer.fence),
            reason: Loss::Silent,
            worker: String::new(),
            session: None,
        };
        shell.runtime.spawn(lose(shell.clone(), lost));
    }
}

/// Takes a task that nobody has from its run.
pub(super) fn lose_spot(shell: &Arc<Shell>, lost: Lost) {
    shell.runtime.spawn(lose(shell.clone(), lost));
}

/// Takes a task from whoever has it. It is tried until it is decided: the task would be nobody's for ever.
async fn lose(shell: Arc<Shell>, lost: Lost) {
    let (tenant, place) = &lost.spot;
    let key = place.run.of(*tenant);
    loop {
        match try_to_lose(&shell, &lost).await {
            Ok(()) => return,
            // It was gone already, or its worker has found another server.
            Err(Error::Rejected(_) | Error::Store(abide_store::Error::Fenced)) => {
                return shell.workers.with(|desk| desk.drop_lost(&lost.spot, lost.fence));
            }
            Err(Error::Draining | Error::Store(abide_store::Error::Closed)) => return,
            Err(error) if error.is_lasting() => {
                tracing::error!(run = %key.id, node = %place.task.node, %error, "a worker's task can't be taken back");
                return shell.workers.with(|desk| desk.drop_lost(&lost.spot, lost.fence));
            }
            Err(error) => {
                tracing::error!(run = %key.id, node = %place.task.node, %error, "a worker's task could not be taken back; trying again");
                rest().await;
            }
        }
    }
}

async fn try_to_lose(shell: &Arc<Shell>, lost: &Lost) -> Result<(), Error> {
    let (tenant, place) = &lost.spot;
    let key = place.run.of(*tenant);
    let fence = match lost.fence {
        Some(fence) => Some(fence),
        None => {
            let of_task = |run: &abide_core::Run| {
                run.offers().find(|offer| offer.task == place.task).map(|offer| offer.fence)
            };
            shell.read(key, of_task).await?
        }
    };
    let Some(fence) = fence else { return Ok(()) };
    let op = WorkOp::Lose { reason: lost.reason, worker: lost.worker.clone() };
    let command = Command::Work(Box::new(Work { task: place.task.clone(), fence, op }));
    let home = shell.workers.home;
    let holder = lost.session.map(|session| TaskHolder { task: place.task.clone(), fence, session, home });
    let basis = Basis { holder, ..Basis::default() };
    shell.decide(key, &command, Lane::Background, basis, |_| ()).await
}

/// Takes back tasks on disk from a session that never heard of them.
async fn unclaim_of(shell: Arc<Shell>, (tenant, session): Seat, untold: Vec<Untold>) {
    let task = |untold: &Untold| {
        let Holding { place, fence } = &untold.holding;
        (place.run.of(tenant), place.task.clone(), *fence)
    };
    let tasks: Vec<_> = untold.iter().map(task).collect();
    loop {
        match shell.store.work().unclaim(session, shell.workers.home, tasks.clone()).await {
            Ok(_) => {
                shell.workers.with(|desk| {
                    for untold in &untold {
                        desk.gave_back(&(tenant, untold.holding.place.clone()), untold.holding.fence);
                        desk.leave_waiting(tenant, &untold.kind);
                    }
                });
                for untold in &untold {
                    shell.tell_peers(Hint::Work(tenant, untold.kind.to_string()));
                }
                return;
            }
            Err(abide_store::Error::Closed) => return,
            Err(error) => {
                tracing::error!(%session, %error, "tasks can't be taken back from a worker that is gone; trying again");
                rest().await;
            }
        }
    }
}

/// Takes a task away that is called off, if nobody has it. If somebody has, the server that it talks to sees to it.
async fn lose_if_nobodys(shell: Arc<Shell>, spot: Spot) {
    let run = spot.1.run.of(spot.0);
    match shell.store.work().of_runs(vec![run]).await {
        Ok(rows) => {
            let row = rows.into_iter().find(|row| row.task == spot.1.task && row.held.is_none());
            if let Some(row) = row {
                lose(shell, nobodys(spot, Some(row.fence))).await;
            }
        }
        Err(error) => {
            tracing::debug!(run = %run.id, %error, "it can't be read who has a task; the next look finds it");
        }
    }
}

/// Forgets sessions on disk once nothing is left to be taken from them: until then they keep their home, so that it can be
/// told from a new one.
async fn end_sessions(shell: Arc<Shell>, ended: Vec<Seat>, taken: Vec<JoinHandle<()>>) {
    join_all(taken).await;
    let home = shell.workers.home.unwrap_or_default();
    for seat in ended {
        let (tenant, id) = seat;
        while !shell.workers.with(|desk| desk.is_here(seat)) {
            match shell.store.sessions().end(tenant, id, home).await {
                Ok(_) | Err(abide_store::Error::Closed) => break,
                Err(error) => {
                    tracing::error!(session = %id, %error, "a worker that is gone can't be forgotten; trying again");
                    rest().await;
                }
            }
        }
        shell.workers.with(|desk| desk.ended(seat));
    }
}

/// Claims what waits on disk for those who have room, for as long as the engine lives. First it finds out who had what
/// before this start.
pub(crate) async fn run_claims(shell: Arc<Shell>) {
    settle(&shell).await;
    if shell.workers.home.is_some() {
        tokio::join!(claims(&shell), moves(&shell));
    } else {
        claims(&shell).await;
    }
}

/// Looks at runs that other servers have moved on and that somebody here has tasks of.
async fn moves(shell: &Arc<Shell>) {
    loop {
        shell.workers.moved.notified().await;
        if let Err(error) = shell.look_at_moved().await {
            tracing::debug!(%error, "runs that moved on can't be looked at; the next look finds them");
        }
    }
}

async fn claims(shell: &Arc<Shell>) {
    loop {
        let claiming = shell.workers.with(|desk| desk.next_claim(shell.clock.now()));
        let Some(claiming) = claiming.filter(|_| !shell.is_draining()) else {
            shell.workers.claims.notified().await;
            continue;
        };
        let session: SessionId = claiming.claim.session;
        let rows = match shell.store.work().claim(claiming.claim.clone()).await {
            Ok(rows) => Some(rows),
            Err(error) => {
                tracing::error!(%session, %error, "tasks can't be claimed for a worker; trying again");
                rest().await;
                None
            }
        };
        let chores = shell.workers.with(|desk| desk.claimed(&claiming, rows));
        shell.see_to(chores);
    }
}

/// Of a store that several servers share, nothing is known to be left behind: the others live on, and one of them looks
/// after what belonged to those that don't.
async fn settle(shell: &Arc<Shell>) {
    let rows = loop {
        if shell.workers.home.is_some() {
            break Vec::new();
        }
        match shell.store.work().left_behind().await {
            Ok(rows) => break rows,
            Err(error) => {
                tracing::error!(%error, "it can't be read which workers have what; trying again");
                rest().await;
            }
        }
    };
    let now = shell.clock.now();
    let chores = shell.workers.with(|desk| desk.settle(rows, now));
    shell.workers.settled.send_replace(true);
    shell.see_to(chores);
}

/// Gives up workers that fell silent and tasks that took too long, for as long as the engine lives.
pub(crate) async fn run_leases(shell: Arc<Shell>) {
    loop {
        shell.until_current().await;
        let now = shell.clock.now();
        let (chores, next) = shell.workers.with(|desk| desk.expire(now, Instant::now()));
        shell.see_to(chores);
        tokio::select! {
            () = shell.clock.wait_until(next.at.unwrap_or_default()), if next.at.is_some() => {}
            () = sleep_until(next.real.unwrap_or_else(Instant::now)), if next.real.is_some() => {}
            () = shell.workers.leases.notified() => {}
        }
    }
}

/// Calls agents about their questions, for as long as the engine lives.
pub(crate) async fn run_calls(shell: Arc<Shell>) {
    loop {
        let now = shell.clock.now();
        let agents = shell.workers.with(|desk| desk.agents_to_call(now));
        for (agent, on, under_way) in agents {
            let limit = under_way + limits::HOOKS_PAGE_MAX;
            match shell.hooks_to_call(&agent, on, limit, now).await {
                Ok(rows) => {
                    let nobodys = shell.workers.with(|desk| desk.place_calls(&agent, rows, now));
                    shell.give_back_hooks(nobodys).await;
                }
                Err(error) => {
                    tracing::error!(agent = agent.1, %error, "the hooks of an agent can't be read; trying again");
                    rest().await;
                    shell.workers.with(|desk| desk.call(agent));
                }
            }
        }
        let next = shell.workers.with(|desk| desk.next_call());
        tokio::select! {
            () = shell.clock.wait_until(next.unwrap_or_default()), if next.is_some() => {}
            () = shell.workers.calls.notified() => {}
        }
    }
}
