//! Whether what a run needs to go on can be read and is as it was written: its definition, its state, its history.
//!
//! A run that can't be loaded at all is looked at too, and the answer says which part is bad and up to where its journal
//! is good. A long journal is read in pages.

use std::collections::VecDeque;
use std::sync::Arc;

use abide_core::event::ResumeDecided;
use abide_core::{Event, EventType, Graph, Head, Key, Millis, Payload, Record, RunEvent, Salt, sha256};
use abide_store::{Outline, Store};

use crate::folded::Folded;
use crate::shell::Shell;
use crate::verify::PAGE_EVENTS;
use crate::{Engine, Error, limits};

/// How often a run is looked at that changes meanwhile.
const LOOKS_MAX: usize = 3;

/// What can be read of a run. Each part is fine, or what is wrong with it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soundness {
    /// The definition that it is pinned to.
    pub plan: Result<(), String>,
    /// The latest snapshot. There need not be one.
    pub state: Result<(), String>,
    /// Its journal: every event can be read, and the whole chain verifies up to the end that its columns tell of.
    pub history: Result<(), String>,
    /// The end of what verifies of its journal.
    pub good: Head,
    /// Something is sealed under a key that is not at hand. That is no damage.
    pub sealed: bool,
}

impl Soundness {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.plan.is_ok() && self.state.is_ok() && self.history.is_ok()
    }

    /// What is wrong, part by part, for a person.
    pub fn problems(&self) -> Vec<String> {
        let parts =
            [("the definition", &self.plan), ("the snapshot", &self.state), ("the journal", &self.history)];
        let wrong = |(part, found): &(&str, &Result<(), String>)| {
            found.as_ref().err().map(|reason| format!("{part}: {reason}"))
        };
        parts.iter().filter_map(wrong).collect()
    }
}

/// A run that was looked at.
pub(crate) struct Examined {
    pub(crate) soundness: Soundness,
    pub(crate) outline: Outline,
    pub(crate) graph: Option<Arc<Graph>>,
    /// How many events there are up to the last at which a decision may have ended. Only if the definition can be read.
    pub(crate) rest: u64,
    /// What was decided about resuming it, as its journal has it: the last of it, oldest first.
    pub(crate) decisions: VecDeque<(Millis, ResumeDecided)>,
}

impl Engine {
    /// Looks at what a run needs to go on, as it lies on disk.
    pub async fn soundness(&self, key: Key) -> Result<Soundness, Error> {
        self.shell.soundness(key).await
    }
}

impl Shell {
    /// Looks at what a run needs to go on, as it lies on disk.
    pub(crate) async fn soundness(&self, key: Key) -> Result<Soundness, Error> {
        Ok(self.examine(key).await?.soundness)
    }

    /// Looks at a run. One that is written to meanwhile is looked at again.
    pub(crate) async fn examine(&self, key: Key) -> Result<Examined, Error> {
        let mut looks = 0;
        loop {
            looks += 1;
            let outline = self.store.outline(key).await?.ok_or(Error::RunNotFound(key.id))?;
            let examined = self.look_at(key, outline).await?;
            if examined.soundness.is_sound() || looks == LOOKS_MAX {
                return Ok(examined);
            }
            let again = self.store.outline(key).await?.ok_or(Error::RunNotFound(key.id))?;
            if again.head == examined.outline.head {
                return Ok(examined);
            }
        }
    }

    async fn look_at(&self, key: Key, outline: Outline) -> Result<Examined, Error> {
        let graph = self.plan_of(key, &outline).await?;
        let mut walk = Walk::new(key, &outline, graph.as_ref().ok().cloned());
        let history = walk.go(&*self.store, &outline).await?;
        let plan = graph.as_ref().map(|_| ()).map_err(Clone::clone);
        let state = match (&outline.snapshot, walk.snapshot) {
            (None, _) | (Some(Ok(_)), Some(true)) => Ok(()),
            (Some(Err(reason)), _) => Err(reason.clone()),
            (Some(Ok(_)), Some(false)) => Err("it was damaged, or differs from the journal".to_owned()),
            // It lies behind what can be folded: whether it is as it was written can be told all the same.
            (Some(Ok((_, bytes))), None) if abide_core::Run::is_intact(bytes) => Ok(()),
            (Some(Ok(_)), None) => Err("it was damaged".to_owned()),
        };
        let soundness = Soundness { plan, state, history, good: walk.head, sealed: walk.sealed };
        let (rest, decisions) = (walk.rest, walk.decisions);
        Ok(Examined { soundness, outline, graph: graph.ok(), rest, decisions })
    }

    /// The definition that a run is pinned to, as it lies on disk. One that is in memory is not read again, but its bytes
    /// are.
    async fn plan_of(&self, key: Key, outline: &Outline) -> Result<Result<Arc<Graph>, String>, Error> {
        let hash = match &outline.summary {
            Ok(summary) => summary.definition,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        match self.store.blob(key.tenant, hash).await {
            Ok(Some(bytes)) if sha256(&bytes) == hash => {}
            Ok(Some(_)) => {
                return Ok(Err("its bytes do not have the hash they are filed under".to_owned()));
            }
            Ok(None) => return Ok(Err("it is not in the store".to_owned())),
            Err(abide_store::Error::Damaged { reason, .. }) => return Ok(Err(reason)),
            Err(error) => return Err(error.into()),
        }
        match self.graphs.pinned(&*self.store, key, hash).await {
            Ok(graph) => Ok(Ok(graph)),
            Err(Error::DefinitionLost { reason, .. }) => Ok(Err(reason)),
            Err(error) => Err(error),
        }
    }
}

/// A journal that is gone through, event by event.
struct Walk {
    key: Key,
    head: Head,
    /// Its secret; `None` if it was erased.
    salt: Option<Salt>,
    /// What it folds to, if its definition can be read.
    folded: Option<Folded>,
    /// Whether the snapshot is what the journal folds to, once that is known.
    snapshot: Option<bool>,
    rest: u64,
    /// The type of a decision about resuming, and those that were met.
    decided: u16,
    decisions: VecDeque<(Millis, ResumeDecided)>,
    sealed: bool,
}

impl Walk {
    fn new(key: Key, outline: &Outline, graph: Option<Arc<Graph>>) -> Self {
        let salt = outline.salt.clone().ok().flatten();
        let folded = graph.zip(salt).map(|(graph, salt)| Folded::empty(key, salt, graph));
        let (head, decisions) = (Head::new(key), VecDeque::new());
        let decided = EventType::by_name(ResumeDecided::EVENT).map_or(0, |kind| kind.code);
        Self { key, head, salt, folded, snapshot: None, rest: 0, decided, decisions, sealed: false }
    }

    /// Goes as far as the journal is good. Gives what is wrong behind that.
    async fn go(&mut self, store: &dyn Store, outline: &Outline) -> Result<Result<(), String>, Error> {
        if let Err(reason) = &outline.salt {
            return Ok(Err(reason.clone()));
        }
        let counted = match &outline.head {
            Ok(counted) => *counted,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let mut page_max = PAGE_EVENTS;
        loop {
            let page = match store.journal(self.key, self.head.next, page_max).await {
                Ok(page) => page,
                // What can't be read is one of these; those before it can.
                Err(abide_store::Error::Damaged { .. } | abide_store::Error::Sealed(_)) if page_max > 1 => {
                    page_max = 1;
                    continue;
                }
                Err(abide_store::Error::Damaged { reason, .. }) => return Ok(Err(reason)),
                Err(abide_store::Error::Sealed(reason)) => {
                    self.sealed = true;
                    return Ok(Err(reason));
                }
                Err(error) => return Err(error.into()),
            };
            // More may have been written since the columns were read.
            let page: Vec<_> = page.into_iter().filter(|record| record.sequence < counted.next).collect();
            if page.is_empty() {
                break;
            }
            for record in &page {
                // Where servers of two versions run side by side, the newer one decides.
                if store.cluster().is_some() && record.is_newer() {
                    return Err(Error::Newer { run: self.key.id, sequence: record.sequence });
                }
                if let Err(reason) = self.step(record, outline) {
                    return Ok(Err(format!("event {}: {reason}", self.head.next)));
                }
            }
        }
        if self.head == counted {
            return Ok(Ok(()));
        }
        let (found, told) = (self.head.next, counted.next);
        Ok(Err(format!("it ends with event {found}, and not as its columns say ({told} events)")))
    }

    fn step(&mut self, record: &Record, outline: &Outline) -> Result<(), String> {
        match (&mut self.folded, &record.payload) {
            (Some(folded), _) => {
                folded.apply(record).map_err(|corrupt| corrupt.reason)?;
                self.head = folded.run.head();
                if folded.run.is_at_rest() {
                    self.rest = self.head.next;
                }
                if let Some(Ok((at, bytes))) = &outline.snapshot
                    && *at == self.head.next
                {
                    self.snapshot = Some(folded.has_snapshot(bytes));
                }
            }
            (None, Payload::Present(_)) => {
                record.event()?;
                self.head.accept(record, self.salt.as_ref())?;
            }
            (None, Payload::Erased(_)) => self.head.accept(record, self.salt.as_ref())?,
        }
        if record.type_code == self.decided
            && let Ok(Event::Run(RunEvent::ResumeDecided(decided))) = record.event()
        {
            if self.decisions.len() == limits::RESUME_DECISIONS_SHOWN_MAX {
                self.decisions.pop_front();
            }
            self.decisions.push_back((record.at, *decided));
        }
        Ok(())
    }
}
