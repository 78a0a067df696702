//! Interrupts that wait for an answer, and answers to them.

use abide_core::{Answerer, Command, InterruptId, Json, Key, Resolve};
use abide_store::Inbox;

use crate::{Engine, Error, Reply};

impl Engine {
    /// The open interrupts.
    pub fn inbox(&self) -> &dyn Inbox {
        self.shell.store.inbox()
    }

    /// Resolves an open interrupt and answers as `reply` says. Of several who try, one is told that it did; what it said
    /// is on disk then, with everything that follows from it and with the receipt of the request.
    pub async fn resolve(
        &self,
        key: Key,
        id: InterruptId,
        value: Json,
        by: Answerer,
        reply: Reply,
    ) -> Result<Vec<u8>, Error> {
        self.ask_for(key, &Command::Resolve(Resolve { id, value, by }), reply).await
    }
}
