//! The outbox of a store that several servers share.
//!
//! Each server delivers what its own commits have sent, from memory: the store holds those messages for it for a few
//! seconds. What is held by nobody, because its server is gone or could not deliver it, is whose who takes it first. Of the
//! messages from one run to another only the first can be taken, and it stays until it is delivered or forgotten: so a
//! child is known to be there, or never to come, before it is cancelled.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use abide_core::{Effect, Key};
use abide_store::{Cluster, Hint, Message, MessageRef, MessageRow};

use super::{by_line, deliver};
use crate::shell::Shell;
use crate::timers::rest;
use crate::{Error, limits};

/// Messages that this server's own commits have sent.
#[derive(Default)]
pub(super) struct Own {
    messages: Mutex<VecDeque<(Instant, MessageRow)>>,
    /// There may be messages on disk that nobody delivers.
    look: AtomicBool,
}

impl Own {
    pub(super) fn look(&self) {
        self.look.store(true, Ordering::Release);
    }

    pub(super) fn overdue_ms(&self) -> i64 {
        let messages = self.messages.lock().expect("no thread panics holding this");
        let waited = messages.front().map_or(Duration::ZERO, |(since, _)| since.elapsed());
        i64::try_from(waited.as_millis()).unwrap_or(i64::MAX)
    }

    fn push(&self, row: MessageRow) {
        let mut messages = self.messages.lock().expect("no thread panics holding this");
        if messages.len() < limits::OWN_MESSAGES_MAX {
            messages.push_back((Instant::now(), row));
        }
    }

    fn take(&self, limit: usize) -> Vec<MessageRow> {
        let mut messages = self.messages.lock().expect("no thread panics holding this");
        let count = messages.len().min(limit);
        messages.drain(..count).map(|(_, row)| row).collect()
    }
}

impl Shell {
    /// A message became durable, in the commit that began at `first`. It is this server's to deliver if it is `held` for it.
    pub(crate) fn send(&self, key: Key, first: u64, effect: Effect, held: bool) {
        if self.store.cluster().is_none() {
            return self.outbox.wake.notify_one();
        }
        // What goes to all children, watchers or members is as many messages as there are of them, and held by nobody.
        let Some(row) = message(key, first, effect).filter(|_| held) else {
            if !held {
                self.tell_peers(Hint::Outbox);
            }
            return self.outbox.look();
        };
        self.outbox.own.push(row);
        self.outbox.wake.notify_one();
    }
}

/// The message that an effect sends, as it lies on disk.
fn message(sender: Key, first: u64, effect: Effect) -> Option<MessageRow> {
    let (sequence, receiver, message) = match effect {
        Effect::Send { to, notice } => (notice.sequence, to, Message::Notice(notice)),
        Effect::Spawn(spawn) => (first, spawn.child, Message::Spawn(spawn)),
        Effect::Bid { to, watch } => (watch.sequence, to, Message::Watch(watch)),
        Effect::Order { to, order, sequence } => (sequence, to, Message::Order(order)),
        Effect::Tell { to, tidings } => (tidings.sequence, to, Message::Tidings(tidings)),
        _ => return None,
    };
    Some(MessageRow { at: MessageRef { sender, sequence, receiver }, message })
}

/// Delivers messages for as long as the engine lives.
pub(super) async fn run(shell: &Arc<Shell>, cluster: &dyn Cluster) {
    let mut next = Instant::now();
    loop {
        match pass(shell, cluster, &mut next).await {
            Ok(true) => {}
            Ok(false) => tokio::select! {
                () = shell.outbox.wake.notified() => {}
                () = tokio::time::sleep_until(next.into()) => {}
            },
            Err(error) => {
                tracing::error!(%error, "messages can't be delivered; trying again");
                rest().await;
            }
        }
    }
}

/// Delivers what there is, at most a page of each kind. `false` if that was nothing.
async fn pass(shell: &Arc<Shell>, cluster: &dyn Cluster, next: &mut Instant) -> Result<bool, Error> {
    let mut messages = shell.outbox.own.take(limits::DELIVER_MAX);
    let own = messages.len();
    if shell.outbox.own.look.swap(false, Ordering::AcqRel) || Instant::now() >= *next {
        *next = Instant::now() + Duration::from_millis(limits::PEERS_LOOK_MS);
        messages.extend(cluster.claim_messages(limits::DELIVER_MAX).await?);
    }
    if messages.is_empty() {
        shell.counters.passed(0, 0);
        return Ok(false);
    }
    let (mut recorded, mut left) = (0, messages.len());
    // What is behind what was taken can be taken only now.
    if left > own {
        shell.outbox.own.look();
    }
    let done = deliver(shell, by_line(messages)).await?;
    if done.broken {
        // They are nobody's until the time is over for which they are held, and found then.
        shell.outbox.own.look();
    }
    for (_, told) in done.told {
        recorded += told.recorded;
        left = left.saturating_sub(told.recorded + told.moot.len());
    }
    shell.counters.passed(recorded, left);
    Ok(true)
}
