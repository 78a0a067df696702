//! Removing runs that have ended: because somebody asks for it, or because they were kept for as long as they should.
//!
//! Nothing waits for a run to become old. Every so often there is one look for each workflow at the ordered index of
//! ended runs, which begins with those that are to go. What is removed is removed in pages behind the work of people.

use std::collections::HashMap;
use std::sync::Arc;

use abide_core::{Key, Millis, Retention, RunId, Status, TenantId};
use abide_store::{EndedQuery, Hint, Purge, PurgeRow};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::shell::Shell;
use crate::timers::rest;
use crate::{Engine, Error, limits};

/// How a run can have ended.
const ENDED: [Status; 3] = [Status::Completed, Status::Failed, Status::Cancelled];

/// Who sees to it that nothing is kept for too long.
pub(crate) struct Keeper {
    /// What the operator says.
    usual: Retention,
    /// One purge at a time: more would take the disk from others, and end no sooner.
    turn: Mutex<()>,
}

impl Keeper {
    pub(crate) fn new(usual: Retention) -> Self {
        Self { usual, turn: Mutex::new(()) }
    }
}

/// Which runs somebody wants to have removed.
#[derive(Clone, Debug)]
pub struct PurgeOrder {
    /// Whose.
    pub tenant: TenantId,
    /// Those of this workflow alone.
    pub workflow: Option<String>,
    /// Those that ended so.
    pub statuses: Vec<Status>,
    /// Those that ended before this.
    pub before: Millis,
    /// Only those behind this one: where the page before ended.
    pub after: Option<PurgePlace>,
    /// Nothing is removed, but counted.
    pub dry_run: bool,
    /// Who asks.
    pub by: Option<String>,
    /// What is written into the record: a JSON object.
    pub filter: String,
}

/// How far a purge has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgePlace {
    workflow: String,
    status: u8,
    at: Millis,
    run: RunId,
}

/// What became of a page of a purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Runs that are gone, or would be.
    pub runs: u64,
    /// Their events.
    pub events: u64,
    /// Runs that stay, each with its family, because not all of that has ended before the time that was asked for.
    pub kept: u64,
    /// Where the next page begins, if there may be one.
    pub next: Option<PurgePlace>,
}

/// The runs of one workflow that ended so, and before this.
struct Slice<'a> {
    tenant: TenantId,
    workflow: &'a str,
    status: Status,
    before: Millis,
}

impl Engine {
    /// Removes runs that have ended, with their families, a page of them.
    pub async fn purge(&self, order: PurgeOrder) -> Result<Purged, Error> {
        self.check_open()?;
        let shell = self.shell.clone();
        // A caller that goes away does not leave half of a page behind.
        let purging = self.shell.runtime.spawn(async move { purge(&shell, order).await });
        purging.await.map_err(|_| Error::Draining)?
    }

    /// What was removed, latest first.
    pub async fn purges(
        &self,
        tenant: TenantId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<PurgeRow>, Error> {
        Ok(self.shell.store.retention().purges(tenant, before, limit).await?)
    }
}

async fn purge(shell: &Arc<Shell>, order: PurgeOrder) -> Result<Purged, Error> {
    let mut purge =
        Purge { number: None, at: shell.clock.now(), by: order.by.clone(), filter: order.filter.clone() };
    let mut purged = Purged::default();
    let mut room = limits::PURGE_LOOK_MAX;
    let mut from = order.after.clone();
    while let Some(workflow) = next_workflow(shell, &order, from.as_ref()).await? {
        for status in ENDED.into_iter().filter(|status| order.statuses.contains(status)) {
            let slice = Slice { tenant: order.tenant, workflow: &workflow, status, before: order.before };
            let Some(mut after) = slice.start(from.as_ref()) else { continue };
            loop {
                let page =
                    shell.slice(&slice, after, room, (!order.dry_run).then_some(&mut purge), &mut purged);
                let (looked, last) = page.await?;
                room -= looked;
                let Some((at, run)) = last else { break };
                after = Some((at, run));
                if room == 0 {
                    purged.next = Some(PurgePlace { workflow, status: status.code(), at, run });
                    return Ok(purged);
                }
            }
        }
        let end = PurgePlace { workflow, status: u8::MAX, at: 0, run: RunId::from_bytes([0; 16]) };
        from = Some(end);
    }
    Ok(purged)
}

/// The workflow that a purge goes on with.
async fn next_workflow(
    shell: &Shell,
    order: &PurgeOrder,
    from: Option<&PurgePlace>,
) -> Result<Option<String>, Error> {
    match (from, &order.workflow) {
        (Some(place), _) if place.status != u8::MAX => return Ok(Some(place.workflow.clone())),
        (Some(_), Some(_)) => return Ok(None),
        (None, Some(only)) => return Ok(Some(only.clone())),
        (_, None) => {}
    }
    let after = (order.tenant, from.map_or(String::new(), |place| place.workflow.clone()));
    let next = shell.store.retention().ended_workflows(Some(after), 1).await?.pop();
    Ok(next.filter(|(tenant, _)| *tenant == order.tenant).map(|(_, workflow)| workflow))
}

impl Slice<'_> {
    /// Where to begin within it: `None` if a place lies behind all of it.
    fn start(&self, from: Option<&PurgePlace>) -> Option<Option<(Millis, RunId)>> {
        match from.filter(|place| place.workflow == self.workflow) {
            Some(place) if place.status > self.status.code() => None,
            Some(place) if place.status == self.status.code() => Some(Some((place.at, place.run))),
            _ => Some(None),
        }
    }
}

impl Shell {
    /// Looks at the next runs of a slice, at most `room` of them, and removes those that may go, if there is a `purge`.
    /// Tells how many it looked at, and the last one, if there may be more behind it.
    async fn slice(
        &self,
        slice: &Slice<'_>,
        after: Option<(Millis, RunId)>,
        room: usize,
        purge: Option<&mut Purge>,
        purged: &mut Purged,
    ) -> Result<(usize, Option<(Millis, RunId)>), Error> {
        let limit = room.min(limits::PURGE_PAGE_MAX);
        let _turn = self.keeper.turn.lock().await;
        let query = EndedQuery {
            tenant: slice.tenant,
            workflow: slice.workflow.to_owned(),
            status: slice.status,
            before: slice.before,
            after,
            limit,
        };
        let page = self.store.retention().ended(query).await?;
        let mut roots = Vec::new();
        for run in &page {
            match self.store.retention().family(run.key, slice.before).await? {
                None => purged.kept += 1,
                Some(size) => {
                    (purged.runs, purged.events) = (purged.runs + size.runs, purged.events + size.events);
                    roots.push(run.key.id);
                }
            }
        }
        if let Some(purge) = purge.filter(|_| !roots.is_empty()) {
            let number = self.store.retention().begin_purge(slice.tenant, roots, purge.clone()).await?;
            purge.number = purge.number.or(number);
            self.finish_purges().await?;
        }
        let last = page.last().map(|run| (run.at, run.key.id)).filter(|_| page.len() == limit);
        Ok((page.len(), last))
    }

    /// Removes what is left of runs whose removal was begun, by this process or by one that died.
    async fn finish_purges(&self) -> Result<(), Error> {
        loop {
            let page = self.store.retention().purge_page().await?;
            page.gone.iter().for_each(|key| self.forget_run(*key));
            if !page.more {
                return Ok(());
            }
        }
    }

    /// What a run said is gone, or not as it was: forgets what is known of it, here and elsewhere.
    pub(crate) fn forget_run(&self, key: Key) {
        self.hot.forget(key);
        self.tell_peers(Hint::Forget(key));
    }
}

/// Removes what was kept for as long as it should, now and every so often, for as long as the engine lives.
pub(crate) async fn run(shell: Arc<Shell>) {
    loop {
        let now = shell.clock.now();
        match sweep(&shell, now).await {
            Ok(()) => {
                let due = now.saturating_add(limits::RETENTION_SWEEP_MS);
                while shell.clock.now() < due {
                    shell.clock.wait_until(due).await;
                }
            }
            Err(error) => {
                tracing::error!(%error, "runs that were kept long enough can't be removed; trying again");
                rest().await;
            }
        }
    }
}

async fn sweep(shell: &Arc<Shell>, now: Millis) -> Result<(), Error> {
    {
        let _turn = shell.keeper.turn.lock().await;
        shell.finish_purges().await?;
    }
    let rules = Rules::read(shell).await?;
    if rules.are_silent() {
        return Ok(());
    }
    let mut after = None;
    loop {
        let page = shell.store.retention().ended_workflows(after, limits::PURGE_PAGE_MAX).await?;
        for (tenant, workflow) in &page {
            let said = rules.of(shell, *tenant, workflow).await?;
            for status in ENDED {
                let kept = said.of(status).or_else(|| shell.keeper.usual.of(status));
                if let Some(before) = kept.and_then(|kept| kept.cutoff(now)) {
                    sweep_slice(shell, &Slice { tenant: *tenant, workflow, status, before }, now).await?;
                }
            }
        }
        match page.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

async fn sweep_slice(shell: &Shell, slice: &Slice<'_>, now: Millis) -> Result<(), Error> {
    let filter = serde_json::json!({
        "retention": true,
        "workflowId": slice.workflow,
        "statuses": [slice.status.name()],
        "endedBefore": abide_core::rfc3339(slice.before),
    });
    let mut purge = Purge { number: None, at: now, by: None, filter: filter.to_string() };
    let (mut purged, mut after) = (Purged::default(), None);
    loop {
        let page = shell.slice(slice, after, limits::PURGE_PAGE_MAX, Some(&mut purge), &mut purged).await?;
        match page.1 {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    if purged.runs > 0 {
        let (runs, events) = (purged.runs, purged.events);
        tracing::info!(workflow = slice.workflow, runs, events, "removed runs that were kept long enough");
    }
    Ok(())
}

/// What workflows say about how long their runs are kept.
struct Rules {
    /// Those that users pushed.
    pushed: HashMap<(TenantId, String), Retention>,
    /// Those that everybody has.
    shared: HashMap<String, Retention>,
    usual_is_silent: bool,
}

impl Rules {
    async fn read(shell: &Shell) -> Result<Self, Error> {
        let pushed = shell.store.retention().retentions().await?;
        let pushed = pushed.into_iter().map(|(tenant, id, said)| ((tenant, id), Retention::from_text(&said)));
        let shared = shell.graphs.shared();
        let shared = shared.iter().filter(|graph| !graph.retention().is_silent());
        let shared = shared.map(|graph| (graph.workflow_id.to_string(), graph.retention()));
        let usual_is_silent = shell.keeper.usual.is_silent();
        Ok(Self { pushed: pushed.collect(), shared: shared.collect(), usual_is_silent })
    }

    fn are_silent(&self) -> bool {
        self.usual_is_silent && self.pushed.is_empty() && self.shared.is_empty()
    }

    /// What the version says that a new run would follow, for old runs too: who changes it means what is there.
    async fn of(&self, shell: &Shell, tenant: TenantId, workflow: &str) -> Result<Retention, Error> {
        if let Some(said) = self.pushed.get(&(tenant, workflow.to_owned())) {
            return Ok(*said);
        }
        let Some(said) = self.shared.get(workflow) else { return Ok(Retention::default()) };
        // A tenant's own workflow of the same name takes the place of everybody's, and says nothing.
        let own = shell.store.workflow(tenant, workflow.to_owned(), None).await?;
        Ok(if own.is_some() { Retention::default() } else { *said })
    }
}
