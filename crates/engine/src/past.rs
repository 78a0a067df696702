//! A run as it stood before some event: for readers that begin in the middle of a journal.

use abide_core::{Key, Payload, Run, Salt};

use crate::shell::Shell;
use crate::{Error, limits};

impl Shell {
    /// Folds a run up to event `next`, that one left out; as far as the journal goes, if it ends before.
    pub(crate) async fn past(&self, key: Key, next: u64) -> Result<Run, Error> {
        let loaded = self.store.load(key).await?.ok_or(Error::RunNotFound(key.id))?;
        let graph = self.graphs.pinned(&*self.store, key, loaded.summary.definition).await?;
        let salt: Salt = loaded.salt.ok_or(Error::Erased(key.id))?;
        let end = next.min(loaded.head.next);
        let kept = loaded.snapshot.filter(|(folded, _)| *folded <= end);
        let kept = kept.and_then(|(_, bytes)| Run::from_snapshot(key, salt, graph.clone(), &bytes));
        let mut run = kept.unwrap_or_else(|| Run::empty(key, salt, graph));
        while run.head().next < end {
            let from = run.head().next;
            let page = self.store.journal(key, from, limits::PAST_EVENTS_MAX).await?;
            for record in page.iter().take_while(|record| record.sequence < end) {
                // An erasure may have come between the two reads.
                if let Payload::Erased(_) = record.payload {
                    return Err(Error::Erased(key.id));
                }
                run.apply(record).map_err(|corrupt| Error::Damaged { run: key.id, corrupt })?;
            }
            if run.head().next == from {
                let reason = format!("the journal ends before it, but {end} events are counted");
                let corrupt = abide_core::Corrupt { sequence: from, reason };
                return Err(Error::Damaged { run: key.id, corrupt });
            }
        }
        Ok(run)
    }
}
