//! Answers to requests that may be repeated, kept with what was done.

use std::sync::Arc;

use abide_core::{Millis, Run};
use abide_store::{Receipt, Store};

use crate::shell::Shell;
use crate::timers::rest;
use crate::{Error, limits};

/// What is answered to a request about one run, as soon as it is decided.
#[derive(Clone)]
pub struct Reply {
    answer: Answer,
    receipt: Option<Receipt>,
}

type Answer = Arc<dyn Fn(&Run) -> Vec<u8> + Send + Sync>;

impl Reply {
    /// The bytes that `answer` makes of the run. `receipt` is what they are kept under, if the request may be repeated:
    /// with the very commit that carries it out. No bytes are no answer, and are not kept: what was done is a refusal to
    /// whoever asked, and they may be luckier the next time.
    pub fn new(receipt: Option<Receipt>, answer: impl Fn(&Run) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), receipt }
    }

    pub(crate) fn body(&self, run: &Run) -> Vec<u8> {
        (self.answer)(run)
    }

    pub(crate) fn receipt(&self, run: &Run, at: Millis) -> Option<Receipt> {
        let receipt = self.receipt.clone()?;
        let body = self.body(run);
        if body.is_empty() { None } else { Some(Receipt { body, at, ..receipt }) }
    }
}

/// Forgets old receipts, now and every so often, for as long as the engine lives.
pub(crate) async fn run(shell: Arc<Shell>) {
    loop {
        let now = shell.clock.now();
        match purge(&*shell.store, now.saturating_sub(limits::RECEIPT_KEPT_MS)).await {
            Ok(()) => {
                let due = now.saturating_add(limits::RECEIPT_PURGE_MS);
                while shell.clock.now() < due {
                    shell.clock.wait_until(due).await;
                }
            }
            Err(error) => {
                tracing::error!(%error, "old receipts can't be forgotten; trying again");
                rest().await;
            }
        }
    }
}

async fn purge(store: &dyn Store, before: Millis) -> Result<(), Error> {
    while store.purge_receipts(before, limits::RECEIPTS_PURGED_MAX).await? == limits::RECEIPTS_PURGED_MAX {}
    Ok(())
}
