//! Forks: a new run that begins with the journal of another one, written in one commit.

use std::sync::Arc;

use abide_core::fork::{Fork, NewFork as Forked, Overlay, Source, Unforked};
use abide_core::{Corrupt, ForkMode, Key, Record, Run, RunId, Salt, Trace, diff, limits as core_limits};
use abide_store::Receipt;

use crate::clock::new_id;
use crate::reply::Reply;
use crate::shell::Basis;
use crate::{Engine, Error, limits};

/// A fork to be made.
#[derive(Clone, Debug)]
pub struct NewFork {
    /// The run that is forked.
    pub source: Key,
    /// What for.
    pub mode: ForkMode,
    /// Its event before which the two are the same.
    pub from_seq: u64,
    /// What is other about a branch.
    pub overlay: Overlay,
    /// Who asks for it.
    pub by: Option<String>,
    /// The trace that a branch belongs to.
    pub trace: Option<Trace>,
}

/// How a fork came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkCounts {
    /// Events that were taken from the other run as they were.
    pub copied: u64,
    /// Executions of nodes that were worked out anew.
    pub executed: u64,
    /// Differences that were found.
    pub diverged: u64,
}

impl Engine {
    /// Forks a run. When this returns, the fork is on disk with all that it begins with. `answer` makes the bytes that are
    /// kept under `receipt`, if the request may be repeated.
    pub async fn fork_for(
        &self,
        asked: NewFork,
        receipt: Option<Receipt>,
        answer: impl Fn(&Run, ForkCounts) -> Vec<u8> + Send + Sync + 'static,
    ) -> Result<Vec<u8>, Error> {
        self.check_open()?;
        let shell = &self.shell;
        let (salt, journal) = self.whole(asked.source).await?;
        let graph =
            shell.graphs.pinned(&*shell.store, asked.source, self.definition(asked.source).await?).await?;
        shell.see_surroundings(asked.source.tenant, &graph).await?;
        let key = RunId(new_id(&*shell.store, &*shell.clock)).of(asked.source.tenant);
        let own: Salt = *uuid::Uuid::new_v4().as_bytes();
        let source = asked.source;
        let fork = Fork {
            key,
            salt: own,
            graph,
            mode: asked.mode,
            from_seq: asked.from_seq,
            overlay: asked.overlay,
            by: asked.by,
            trace: asked.trace,
            defaults: shell.surroundings.of(source.tenant),
        };
        let (answer, journal) = (Arc::new(answer), Arc::new(journal));
        let mut basis = Basis::default();
        for _ in 0..limits::DECIDE_ATTEMPTS_MAX {
            let fork = Fork { defaults: basis.around(&fork.defaults), ..fork.clone() };
            let made = self.make(source, salt, fork, journal.clone()).await?;
            let counts = ForkCounts { copied: made.copied, executed: made.executed, diverged: made.diverged };
            let told = answer.clone();
            let reply = Reply::new(receipt.clone(), move |run: &Run| told(run, counts));
            basis.reply = Some(reply.clone());
            let permit = shell.permit().await?;
            let founded = (made.run, made.step, own);
            match shell.found(founded, &basis, permit, |run| reply.body(run)).await? {
                (Err(abide_store::Error::Taken), names) => shell.learn_taken(key, names, &mut basis).await?,
                (kept, _) => return Ok(kept?),
            }
        }
        Err(Error::Contended)
    }

    /// Works out a fork, apart from the threads that answer requests.
    async fn make(
        &self,
        source: Key,
        salt: Salt,
        fork: Fork,
        journal: Arc<Vec<Record>>,
    ) -> Result<Forked, Error> {
        let now = self.shell.clock.now();
        let bytes = journal.iter().map(|record| record.payload.len()).sum();
        let made =
            self.apart(bytes, move || Run::fork(Source { key: source, salt, journal: &journal }, fork, now));
        made.await?.map_err(|unforked| refusal(source.id, unforked))
    }

    /// How the journals of two runs differ.
    pub async fn diff(&self, first: Key, second: Key) -> Result<abide_core::Diff, Error> {
        let ((_, ours), (_, theirs)) = (self.whole(first).await?, self.whole(second).await?);
        let bytes = ours.iter().chain(&theirs).map(|record| record.payload.len()).sum();
        let compared = self.apart(bytes, move || diff((first.id, &ours), (second.id, &theirs)));
        compared.await?.map_err(|corrupt| Error::Damaged { run: first.id, corrupt })
    }

    /// A run's secret, and its whole journal. A page of the store ends where it gets too large, so there may be many.
    async fn whole(&self, key: Key) -> Result<(Salt, Vec<Record>), Error> {
        let store = &self.shell.store;
        let loaded = store.load(key).await?.ok_or(Error::RunNotFound(key.id))?;
        let salt = loaded.salt.ok_or(Error::Erased(key.id))?;
        let (end, mut journal, mut bytes) = (loaded.head.next, Vec::new(), 0);
        check_size(end, bytes)?;
        while (journal.len() as u64) < end {
            let from = journal.len() as u64;
            let left = usize::try_from(end - from).unwrap_or(usize::MAX);
            let page = store.journal(key, from, left.min(limits::PAST_EVENTS_MAX)).await?;
            if page.is_empty() {
                let reason = format!("the journal ends before it, but {end} events are counted");
                let corrupt = Corrupt { sequence: from, reason };
                return Err(Error::Damaged { run: key.id, corrupt });
            }
            bytes += page.iter().map(|record| record.payload.len()).sum::<usize>();
            check_size(end, bytes)?;
            journal.extend(page);
        }
        Ok((salt, journal))
    }

    async fn definition(&self, key: Key) -> Result<abide_core::Hash, Error> {
        Ok(self.head(key).await?.summary.definition)
    }
}

/// What is too much for a fork is not read to its end.
fn check_size(events: u64, bytes: usize) -> Result<(), Error> {
    let full = events > core_limits::FORK_EVENTS_MAX as u64 || bytes > core_limits::FORK_BYTES_MAX;
    if full { Err(Error::Unforked(Unforked::TooLarge)) } else { Ok(()) }
}

fn refusal(run: RunId, unforked: Unforked) -> Error {
    match unforked {
        // It may have been erased since it was read.
        Unforked::Erased => Error::Erased(run),
        Unforked::Rejected(rejection) => Error::Rejected(rejection),
        Unforked::Corrupt(corrupt) => Error::Damaged { run, corrupt },
        other => Error::Unforked(other),
    }
}
