//! Messages between runs, from the outbox of one to the journal of another.
//!
//! The receiver's commit takes the message out of the outbox, so it arrives once however often it is tried.

use std::sync::Arc;

use abide_core::{Command, Rejection};
use abide_store::{Lane, Message, MessageRef, MessageRow};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::shell::{Basis, Shell};
use crate::timers::rest;
use crate::{Error, limits};

#[derive(Default)]
pub(crate) struct Outbox {
    wake: Notify,
}

impl Outbox {
    /// A message became durable.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }
}

/// Delivers messages for as long as the engine lives. At a start there may be some left over.
pub(crate) async fn run(shell: Arc<Shell>) {
    loop {
        match pass(&shell).await {
            Ok(true) => shell.outbox.wake.notified().await,
            Ok(false) => rest().await,
            Err(error) => {
                tracing::error!(%error, "the outbox can't be read; trying again");
                rest().await;
            }
        }
    }
}

/// Goes through the outbox once. `false` if something could not be delivered and is worth another try.
async fn pass(shell: &Arc<Shell>) -> Result<bool, Error> {
    let (mut after, mut clean) = (None, true);
    loop {
        let page = shell.store.outbox(after, limits::DELIVER_MAX).await?;
        let Some(last) = page.last() else { return Ok(clean) };
        after = Some(last.at);
        let mut deliveries = JoinSet::new();
        for message in page {
            let shell = shell.clone();
            deliveries.spawn(async move { deliver(&shell, message).await });
        }
        let mut undeliverable: Vec<MessageRef> = Vec::new();
        for delivered in deliveries.join_all().await {
            match delivered {
                Delivered::Recorded => {}
                Delivered::Moot(message) => undeliverable.push(message),
                Delivered::Not => clean = false,
            }
        }
        if !undeliverable.is_empty() {
            shell.store.discard(undeliverable).await?;
        }
    }
}

enum Delivered {
    /// It stands in the receiver's journal.
    Recorded,
    /// The receiver has ended, never was, or knows it already.
    Moot(MessageRef),
    /// The store failed.
    Not,
}

async fn deliver(shell: &Arc<Shell>, message: MessageRow) -> Delivered {
    let MessageRow { at, message } = message;
    let Message::Notice(notice) = message else {
        tracing::error!(sender = %at.sender.id, "this version starts and cancels no children; the message is left");
        return Delivered::Recorded;
    };
    let receiver = at.receiver.of(at.sender.tenant);
    let heard = match shell.store.heard(receiver, at.sender.id).await {
        Ok(heard) => heard,
        Err(_) => return Delivered::Not,
    };
    let command = Command::Hear { notice, heard };
    let basis = Basis { consumed: Some(at), ..Basis::default() };
    match shell.decide(receiver, &command, Lane::Background, basis, |_| ()).await {
        Ok(()) => Delivered::Recorded,
        Err(
            Error::RunNotFound(_)
            | Error::Rejected(Rejection::Ended(_) | Rejection::HeardBefore)
            | Error::Store(abide_store::Error::Delivered),
        ) => Delivered::Moot(at),
        Err(error) => {
            tracing::warn!(run = %receiver.id, %error, "a message could not be delivered yet");
            Delivered::Not
        }
    }
}
