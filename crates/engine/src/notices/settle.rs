//! Writing down how tries ended, many at once.

use std::sync::Mutex;

use abide_store::{HowEnded, NoticeDelivery, NoticeEnd};
use tokio::sync::oneshot;

use crate::Error;
use crate::shell::Shell;
use crate::timers::rest;

/// Ends that are to be written down. Whoever has its turn writes all that wait, in one transaction.
#[derive(Default)]
pub(super) struct Ends {
    waiting: Mutex<Vec<(NoticeEnd, oneshot::Sender<()>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Shell {
    /// Writes down how a try ended, until that is on disk or the store is closed.
    pub(super) async fn settle_notice(&self, row: &NoticeDelivery, how: HowEnded) {
        let end = NoticeEnd { tenant: row.tenant, id: row.id, how };
        loop {
            match self.settle_with_others(end.clone()).await {
                Ok(()) | Err(Error::Store(abide_store::Error::Closed)) => return,
                // It was written together with others, and that failed.
                Err(Error::Contended) => rest().await,
                Err(error) => {
                    tracing::error!(run = %row.id.run, %error, "the end of a message can't be written; trying again");
                    rest().await;
                }
            }
        }
    }

    async fn settle_with_others(&self, end: NoticeEnd) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let ends = &self.notices.ends;
        ends.waiting.lock().expect("no thread panics holding this").push((end, answer));
        let turn = ends.turn.lock().await;
        let batch = std::mem::take(&mut *ends.waiting.lock().expect("no thread panics holding this"));
        // Whoever had its turn before may have taken this one along.
        if !batch.is_empty() {
            let (ends, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let counted = self.notices.channels.per_recipient().span_ms;
            self.store.notices().settle(ends, Some(counted)).await?;
            for answer in answers {
                // Whoever waited for it may be gone.
                let _ = answer.send(());
            }
        }
        drop(turn);
        answered.await.map_err(|_| Error::Contended)
    }
}
