//! Children that somebody has a run start: what is done by hand may be done in several runs.

use std::time::Duration;

use abide_core::{
    Actor, Command, DependsOn, Event, Failure, JsonMap, Key, NewChild, Run, RunEvent, RunId, Start, TenantId,
};
use abide_store::{Lane, Receipt};

use crate::clock::new_id;
use crate::shell::{Basis, Shell};
use crate::verify::PAGE_EVENTS;
use crate::{Engine, Error, Reply, limits};

/// A child that is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedChild {
    /// The workflow it runs.
    pub workflow_id: String,
    /// What goes in.
    pub inputs: JsonMap,
    /// The runs that it waits for.
    pub depends_on: Vec<RunId>,
    /// It begins only when somebody activates it.
    pub draft: bool,
    /// Who says so.
    pub by: Option<String>,
    /// The agent that asks for it, if one does: it has to be one that may work on the parent.
    pub actor: Option<Actor>,
}

/// How long whoever asks waits for the child itself. It is its parent's already, and comes whatever happens.
const BIRTH_PATIENCE: Duration = Duration::from_secs(5);

impl Engine {
    /// Has a run start another one below its node that is done by hand, and answers what `answer` says of the child. The
    /// parent can't complete before it from then on.
    pub async fn add_child(
        &self,
        parent: Key,
        asked: AskedChild,
        blank: Option<Receipt>,
        answer: impl FnOnce(&Run) -> Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        self.check_open()?;
        let AskedChild { workflow_id, inputs, depends_on, draft, by, actor } = asked;
        let graph = self.workflow(parent.tenant, &workflow_id).await?;
        let child = RunId(new_id(&*self.shell.store, &*self.shell.clock)).of(parent.tenant);
        let salt = *uuid::Uuid::new_v4().as_bytes();
        let upstreams = self.upstreams(parent.tenant, &depends_on).await?;
        let upstreams = self.named(parent.tenant, upstreams, &inputs).await?;
        // Whatever the child would refuse is refused before the parent waits for it.
        let start = Start {
            inputs: inputs.clone(),
            depends_on: upstreams.clone(),
            draft,
            ..Start::of(child, salt, graph)
        };
        let (probe, _) = Run::start(start, self.shell.clock.now())?;
        let sensitive = inputs.keys().filter(|name| probe.hides_variable(name)).cloned().collect();
        let told = answer(&probe);
        let reply = Reply::new(blank, move |_| told.clone());
        let mut news = (self.shell.watchers.subscribe(child), self.shell.watchers.subscribe(parent));
        let new =
            NewChild { child: child.id, workflow_id, inputs, sensitive, depends_on: upstreams, draft, by };
        let since = self.head(parent).await?.next;
        let body = self.adopt(parent, &new, actor, &reply).await?;
        // The child's first commit is one of its own, which follows at once.
        let born = async {
            while self.is_coming(parent, child).await? {
                tokio::select! { () = news.0.changed() => {}, () = news.1.changed() => {} }
            }
            self.shell.store.head(child).await
        };
        match tokio::time::timeout(BIRTH_PATIENCE, born).await {
            // Such as that somebody had one of those that it was to wait for wait for its parent, before it was there itself.
            Ok(Ok(None)) => match self.refused_child(parent, child.id, since).await? {
                Some(error) => Err(Error::ChildRefused(Box::new(error))),
                None => Ok(body),
            },
            Ok(Err(error)) => Err(error.into()),
            _ => Ok(body),
        }
    }

    /// Why a child was not started, as its parent recorded it behind some event.
    async fn refused_child(&self, parent: Key, child: RunId, since: u64) -> Result<Option<Failure>, Error> {
        let mut next = since;
        loop {
            let page = self.shell.store.journal(parent, next, PAGE_EVENTS).await?;
            let Some(last) = page.last() else { return Ok(None) };
            next = last.sequence + 1;
            let mut refusals = page.iter().filter_map(|record| match record.event() {
                Ok(Event::Run(RunEvent::ChildRefused(refused))) if refused.child == child => {
                    Some(refused.error)
                }
                _ => None,
            });
            if let Some(error) = refusals.next_back() {
                return Ok(Some(error));
            }
        }
    }

    /// Whether a run has asked for a child that has not begun.
    async fn is_coming(&self, parent: Key, child: Key) -> Result<bool, abide_store::Error> {
        let begun = self.shell.store.head(child).await?.is_some();
        Ok(!begun && self.containers().asked_for(parent, child.id).await?.is_some())
    }

    async fn adopt(
        &self,
        parent: Key,
        new: &NewChild,
        actor: Option<Actor>,
        reply: &Reply,
    ) -> Result<Vec<u8>, Error> {
        let command = Command::Adopt(Box::new(new.clone()));
        let command = match actor {
            Some(actor) => Command::By { actor, command: Box::new(command) },
            None => command,
        };
        let _alone = self.shell.alone_with(parent.tenant, &new.depends_on).await;
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            let circle = self.shell.sees_no_circle(parent, &new.depends_on).await?;
            let basis = Basis { reply: Some(reply.clone()), circle, ..Basis::default() };
            let decided =
                self.shell.decide(parent, &command, Lane::Interactive, basis, |run| reply.body(run));
            match decided.await {
                Err(Error::Store(abide_store::Error::Raced)) => {}
                other => return other,
            }
        }
        Err(Error::Contended)
    }
}

impl Shell {
    /// Waits for a turn among those who have runs wait for others, if this is one.
    pub(crate) async fn alone_with(
        &self,
        tenant: TenantId,
        on: &[DependsOn],
    ) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        if on.is_empty() { None } else { Some(self.circles.alone(tenant).await) }
    }

    /// Refuses a child that would wait for somebody who waits for its parent, whoever says so where. The commit that rests on
    /// that holds only if nobody was made to wait for another since.
    pub(crate) async fn sees_no_circle(&self, parent: Key, on: &[DependsOn]) -> Result<Option<u64>, Error> {
        if on.is_empty() {
            return Ok(None);
        }
        let containers = self.store.containers();
        let circle = containers.circle_version(parent.tenant).await?;
        for on in on {
            if containers.waits_for(on.run.of(parent.tenant), parent.id).await? {
                return Err(Error::Circle { run: parent.id, on: on.run });
            }
        }
        Ok(Some(circle))
    }
}
