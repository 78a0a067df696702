//! Cutting a damaged journal: what is behind the last good decision is dropped, and the run goes on from there.
//!
//! Only an operator asks for that, and the log says who and why. What is beside the journal is made anew from what is
//! left, in the same transaction. What the run did behind the cut is unknown from then on: tasks under way at the cut
//! count as begun by a process that died.

use abide_core::{Head, Json, Key, Run, RunId};
use abide_store::{Message, MessageRef, MessageRow, NewAudit, TimerRow, Truncated, Truncation};
use serde_json::json;

use crate::folded::Folded;
use crate::shell::Shell;
use crate::soundness::Examined;
use crate::verify::PAGE_EVENTS;
use crate::workers::lose_all;
use crate::{Engine, Error};

/// A journal that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How many events it had, as its columns told.
    pub from: u64,
    /// How many it has now.
    pub to: u64,
    /// How many were dropped.
    pub dropped: u64,
}

impl Engine {
    /// Cuts a run's journal behind the last good decision. One that is good is left alone, and so is one whose end
    /// others have acted on.
    pub async fn truncate(&self, key: Key, by: String, reason: String) -> Result<Cut, Error> {
        self.check_open()?;
        let shell = self.shell.clone();
        // A caller that goes away does not leave half of it undone.
        let cutting = self.shell.runtime.spawn(async move { shell.truncate(key, &by, &reason).await });
        cutting.await.map_err(|_| Error::Draining)?
    }
}

impl Shell {
    async fn truncate(self: &std::sync::Arc<Self>, key: Key, by: &str, reason: &str) -> Result<Cut, Error> {
        let examined = self.examine(key).await?;
        let (folded, counted) = self.kept(key, examined).await?;
        let again = self.sent_to(&folded).await?;
        let kept = folded.run.head();
        if let Some(other) = self.believed_by(&folded).await? {
            return Err(acted_on(key, other));
        }
        let audit = NewAudit {
            key,
            at: self.clock.now(),
            kind: "truncation".to_owned(),
            body: Json::of(&json!({ "actor": by, "reason": reason })),
        };
        let truncation = Truncation {
            key,
            counted,
            kept,
            summary: folded.run.summary(),
            beside: folded.beside(),
            fences: folded.fences.clone().into_iter().collect(),
            offers: folded.run.offers().collect(),
            parent: folded.run.parent().map(|parent| parent.run),
            again,
            audit,
        };
        let refused = |reason: String| Error::Untruncatable { run: key.id, reason };
        self.hot.forget(key);
        let truncated = self.store.truncate(truncation).await?;
        // Whoever read it meanwhile read what is gone.
        self.forget_run(key);
        match truncated {
            Truncated::Stale => Err(Error::Contended),
            Truncated::Told(other) => Err(acted_on(key, other)),
            Truncated::Claimed(other) => Err(refused(format!(
                "{other} has taken its place for the workflow and scope; cancel that first"
            ))),
            Truncated::Done { dropped } => {
                let (from, to) = (counted.next, kept.next);
                tracing::warn!(run = %key.id, by, reason, from, to, dropped, "a damaged journal was cut");
                self.go_on(key, &folded);
                Ok(Cut { from, to, dropped })
            }
        }
    }

    /// What is left of a journal, and its end as its columns tell it.
    async fn kept(&self, key: Key, examined: Examined) -> Result<(Folded, Head), Error> {
        let Examined { soundness, outline, graph, rest, .. } = examined;
        let refused = |reason: &str| Error::Untruncatable { run: key.id, reason: reason.to_owned() };
        if soundness.sealed {
            return Err(refused(
                "something of it is sealed under a key that is not at hand; restore the keyring",
            ));
        }
        if soundness.history.is_ok() && soundness.state.is_ok() {
            return Err(refused("its journal is good, so there is nothing to be cut"));
        }
        let salt = match outline.salt {
            Ok(salt) => salt.ok_or(Error::Erased(key.id))?,
            Err(_) => return Err(refused("its first event can't be read; restore a backup, or purge it")),
        };
        let Some(graph) = graph else {
            return Err(refused("its definition can't be read, so nothing can be rebuilt; restore a backup"));
        };
        let Ok(counted) = outline.head else {
            return Err(refused("its columns can't be read; restore a backup"));
        };
        if rest == 0 {
            return Err(refused(
                "its first decision is damaged, so nothing would be left; restore a backup, or purge it",
            ));
        }
        let mut folded = Folded::empty(key, salt, graph);
        while folded.run.head().next < rest {
            let next = folded.run.head().next;
            let left = usize::try_from(rest - next).unwrap_or(usize::MAX).min(PAGE_EVENTS);
            let page = self.store.journal(key, next, left).await?;
            if page.is_empty() {
                return Err(Error::Contended);
            }
            for record in &page {
                folded.apply(record).map_err(|corrupt| Error::Damaged { run: key.id, corrupt })?;
            }
        }
        Ok((folded, counted))
    }

    /// A run that goes by something which this one said behind the cut: because it waits for it, or is held back by it.
    async fn believed_by(&self, folded: &Folded) -> Result<Option<RunId>, Error> {
        let (key, kept) = (folded.run.key(), folded.run.head().next);
        let goes_by = |run: &Run| {
            let heard = run.upstreams().get(&key.id).and_then(|upstream| upstream.sequence);
            heard.max(run.ordered_at(key.id)).is_some_and(|heard| heard >= kept)
        };
        let others = folded.watchers.iter().chain(folded.children.keys());
        for other in others {
            match self.read(other.of(key.tenant), goes_by).await {
                Ok(true) => return Ok(Some(*other)),
                Ok(false) | Err(Error::RunNotFound(_) | Error::Erased(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// How those stand whom it waits for or counts, if it had recorded that behind the cut.
    async fn told_again(&self, folded: &Folded) -> Result<Vec<MessageRow>, Error> {
        let (key, mut again) = (folded.run.key(), Vec::new());
        let upstreams = folded.run.upstreams().iter().filter(|(_, upstream)| !upstream.is_completed());
        let upstreams = upstreams.map(|(run, upstream)| (*run, upstream.sequence));
        let members = folded.members.values().filter(|row| !row.status.is_terminal());
        let members = members.map(|row| (row.run, Some(row.heard)));
        for (run, heard) in upstreams.chain(members) {
            let sender = run.of(key.tenant);
            let tidings = match self.read(sender, Run::tidings).await {
                Err(Error::RunNotFound(_) | Error::Erased(_)) => continue,
                other => other?,
            };
            if heard.is_none_or(|heard| heard < tidings.sequence) {
                let at = MessageRef { sender, sequence: tidings.sequence, receiver: key.id };
                again.push(MessageRow { at, message: Message::Tidings(tidings) });
            }
        }
        Ok(again)
    }

    /// The last word of each of its children, its parent's, and of those whom it looks at, if it had recorded that behind the
    /// cut.
    async fn sent_to(&self, folded: &Folded) -> Result<Vec<MessageRow>, Error> {
        let key = folded.run.key();
        if folded.run.status().is_terminal() {
            return Ok(Vec::new());
        }
        let mut again = Vec::new();
        for child in folded.children.keys() {
            let sender = child.of(key.tenant);
            let notice = self.whole(sender).await?.and_then(|child| child.last_notice);
            let unheard =
                notice.filter(|notice| folded.heard.get(child).is_none_or(|heard| *heard < notice.sequence));
            again.extend(unheard.map(|notice| MessageRow {
                at: MessageRef { sender, sequence: notice.sequence, receiver: key.id },
                message: Message::Notice(notice),
            }));
        }
        if let Some(parent) = folded.run.parent() {
            let sender = parent.run.of(key.tenant);
            let parent = self.whole(sender).await?;
            let goes_along = |parent: &Folded| parent.children.get(&key.id).is_some_and(|(_, along)| *along);
            let cascade = parent.filter(goes_along).and_then(|parent| parent.cascade);
            again.extend(cascade.map(|cascade| MessageRow {
                at: MessageRef { sender, sequence: cascade.sequence, receiver: key.id },
                message: Message::Cascade(cascade),
            }));
        }
        // A child says the same to its parent and to whoever waits for it, and only the first of both is kept.
        again.extend(self.told_again(folded).await?);
        Ok(again)
    }

    /// What another run's whole journal folds to. One that can't be read says nothing.
    async fn whole(&self, key: Key) -> Result<Option<Folded>, Error> {
        let examined = match self.examine(key).await {
            Err(Error::RunNotFound(_)) => return Ok(None),
            other => other?,
        };
        let (Some(graph), Ok(Some(salt)), true) =
            (examined.graph, examined.outline.salt, examined.soundness.history.is_ok())
        else {
            return Ok(None);
        };
        let mut folded = Folded::empty(key, salt, graph);
        loop {
            let page = self.store.journal(key, folded.run.head().next, PAGE_EVENTS).await?;
            if page.is_empty() {
                return Ok(Some(folded));
            }
            for record in &page {
                folded.apply(record).map_err(|corrupt| Error::Damaged { run: key.id, corrupt })?;
            }
        }
    }

    /// Everything here is also on disk: if the process dies now, the next start does it.
    fn go_on(self: &std::sync::Arc<Self>, key: Key, folded: &Folded) {
        let run = &folded.run;
        self.timers.take_up(key);
        for (timer, due) in run.timers() {
            self.arm(TimerRow { due: *due, key, timer: timer.clone() }, false);
        }
        for open in folded.interrupts.values() {
            if let Some(event_type) = &open.event_type {
                self.look_for_event(key.tenant, event_type);
            }
        }
        for wait in folded.waits.values().filter(|wait| wait.postponed) {
            self.breakers.note_postponed(key, wait);
        }
        self.executor.note_backlog();
        self.outbox.look();
        lose_all(self, key, run.offers());
    }
}

fn acted_on(key: Key, other: RunId) -> Error {
    let reason = format!("{other} has acted on what would be dropped; restore a backup, or purge both runs");
    Error::Untruncatable { run: key.id, reason }
}
