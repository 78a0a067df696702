//! Interrupts that wait for an answer, and answers to them.

use abide_core::{Answerer, Command, InterruptId, Json, Key, Resolve, Run, Status};
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

    /// How a run would stand after an answer, or why it would be refused. Nothing happens.
    pub async fn foresee_answer(
        &self,
        key: Key,
        id: InterruptId,
        value: Json,
        by: Answerer,
    ) -> Result<Status, Error> {
        self.shell.cell_with_surroundings(key).await?;
        let defaults = self.shell.surroundings.of(key.tenant);
        let command = Command::Resolve(Resolve { id, value, by });
        let now = self.clock().now();
        let see = |run: &Run| run.foresee(command.clone(), now, &defaults).map(|run| run.status());
        Ok(self.read(key, see).await??)
    }

    /// Tells those who decide what they wanted to know, and answers as `reply` says.
    pub async fn reply(&self, key: Key, told: abide_core::Reply, reply: Reply) -> Result<Vec<u8>, Error> {
        self.ask_for(key, &Command::Reply(Box::new(told)), reply).await
    }
}
