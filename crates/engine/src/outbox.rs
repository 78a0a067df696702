//! Messages between runs, from the outbox of one to the journal of another.
//!
//! The receiver's commit takes the message out of the outbox, so it arrives once however often it is tried.

mod claimed;
mod together;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use abide_core::{
    Cancellation, Cascade, Command, Failure, Key, Notice, Rejection, RunId, Spawn, Start, Status,
};
use abide_store::{Lane, Message, MessageRef, MessageRow};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::claimed::Own;
use crate::shell::{Basis, Shell};
use crate::timers::rest;
use crate::{Error, containers, limits};

#[derive(Default)]
pub(crate) struct Outbox {
    wake: Notify,
    own: Own,
}

impl Outbox {
    /// Messages lie on disk that nobody may have seen.
    pub(crate) fn look(&self) {
        self.own.look();
        self.wake.notify_one();
    }

    /// How long the first message has waited that this server is to deliver, as far as it is in memory.
    pub(crate) fn overdue_ms(&self) -> i64 {
        self.own.overdue_ms()
    }
}

/// Delivers messages for as long as the engine lives. At a start there may be some left over.
pub(crate) async fn run(shell: Arc<Shell>) {
    if let Some(cluster) = shell.store.cluster() {
        return claimed::run(&shell, cluster).await;
    }
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
    let mut after = None;
    // What could not be delivered holds up what the same sender tells the same receiver later: a child has to be
    // started before it can be cancelled.
    let mut held: HashSet<Line> = HashSet::new();
    let (mut delivered, mut left, mut broken) = (0, 0, false);
    loop {
        let page = shell.store.outbox(after, limits::DELIVER_MAX).await?;
        let Some(last) = page.last() else {
            shell.counters.passed(delivered, left);
            return Ok(held.is_empty() && !broken);
        };
        after = Some(last.at);
        left += page.len();
        let mut lines = by_line(page);
        lines.retain(|line, _| !held.contains(line));
        let done = deliver(shell, lines).await?;
        broken |= done.broken;
        for (line, told) in done.told {
            delivered += told.recorded;
            left = left.saturating_sub(told.recorded + told.moot.len());
            if told.stuck {
                held.insert(line);
            }
        }
    }
}

fn by_line(messages: Vec<MessageRow>) -> BTreeMap<Line, Vec<MessageRow>> {
    let mut lines: BTreeMap<Line, Vec<MessageRow>> = BTreeMap::new();
    for message in messages {
        lines.entry((message.at.sender, message.at.receiver)).or_default().push(message);
    }
    lines
}

/// Delivers these messages before anything else.
pub(crate) async fn deliver_now(shell: &Arc<Shell>, messages: Vec<MessageRow>) -> Result<(), Error> {
    deliver(shell, by_line(messages)).await.map(drop)
}

/// What became of messages.
#[derive(Default)]
struct Delivery {
    told: Vec<(Line, Told)>,
    /// Of some of them nothing is known: they are to be delivered again.
    broken: bool,
}

/// Delivers messages, each line's in their order, and forgets those that nobody can receive.
async fn deliver(shell: &Arc<Shell>, lines: BTreeMap<Line, Vec<MessageRow>>) -> Result<Delivery, Error> {
    let mut deliveries = JoinSet::new();
    for (receiver, lines) in by_receiver(lines) {
        let shell = shell.clone();
        deliveries.spawn(async move { together::deliver(&shell, receiver, lines).await });
    }
    let Delivery { mut told, mut broken } = Delivery::default();
    while let Some(delivered) = deliveries.join_next().await {
        match delivered {
            Ok(delivered) => told.extend(delivered),
            // What one receiver makes of its messages is no reason for others not to get theirs.
            Err(error) => {
                tracing::error!(%error, "messages could not be delivered, which is a bug; they are kept");
                broken = true;
            }
        }
    }
    let moot: Vec<MessageRef> = told.iter().flat_map(|(_, told)| told.moot.iter().copied()).collect();
    if !moot.is_empty() {
        shell.store.discard(moot).await?;
    }
    Ok(Delivery { told, broken })
}

/// Those who tell the same receiver, as far as they can do so in one commit; the others each for themselves.
fn by_receiver(lines: BTreeMap<Line, Vec<MessageRow>>) -> Vec<(Key, Lines)> {
    let mut shared: BTreeMap<Key, Lines> = BTreeMap::new();
    let mut apart = Vec::new();
    for (line, messages) in lines {
        let receiver = line.1.of(line.0.tenant);
        if messages.iter().all(|row| together::may_share(&row.message)) {
            shared.entry(receiver).or_default().push((line, messages));
        } else {
            apart.push((receiver, vec![(line, messages)]));
        }
    }
    apart.extend(shared);
    apart
}

/// Who tells whom.
type Line = (Key, RunId);

/// What some senders tell one receiver, each in its order.
type Lines = Vec<(Line, Vec<MessageRow>)>;

/// What became of the messages on one line.
#[derive(Default)]
struct Told {
    /// How many stand in the receiver's journal now.
    recorded: usize,
    /// Those that nobody can receive.
    moot: Vec<MessageRef>,
    /// One could not be delivered, and the ones behind it were not tried.
    stuck: bool,
}

impl Told {
    fn note(&mut self, at: MessageRef, delivered: &Delivered) {
        match delivered {
            Delivered::Recorded => self.recorded += 1,
            Delivered::Moot => self.moot.push(at),
            Delivered::Not | Delivered::Raced => self.stuck = true,
        }
    }
}

/// Delivers the messages of one line in their order.
async fn deliver_all(shell: &Arc<Shell>, messages: Vec<MessageRow>) -> Told {
    let mut line = Told::default();
    for row in messages {
        let at = row.at;
        line.note(at, &deliver_one(shell, row).await);
        if line.stuck {
            break;
        }
    }
    line
}

async fn deliver_one(shell: &Arc<Shell>, MessageRow { at, message }: MessageRow) -> Delivered {
    match message {
        Message::Notice(notice) => hear(shell, at, notice).await,
        Message::Spawn(spawn) => start_child(shell, at, spawn).await,
        Message::Cascade(cascade) => cancel_child(shell, at, cascade).await,
        Message::Tidings(tidings) => {
            containers::hear(shell, at.receiver.of(at.sender.tenant), at, tidings).await
        }
        Message::Watch(watch) => containers::watch(shell, at, watch).await,
        Message::Order(order) => containers::obey(shell, at, order).await,
    }
}

pub(crate) enum Delivered {
    /// It stands in the receiver's journal.
    Recorded,
    /// The receiver has ended, never was, or knows it already.
    Moot,
    /// The store failed.
    Not,
    /// Something that it rests on was changed by another since it was looked at.
    Raced,
}

async fn hear(shell: &Arc<Shell>, at: MessageRef, notice: Notice) -> Delivered {
    let receiver = at.receiver.of(at.sender.tenant);
    match shell.store.heard(receiver, at.sender.id).await {
        Ok(heard) => tell(shell, receiver, Command::Hear { notice, heard }, at).await,
        Err(_) => Delivered::Not,
    }
}

/// The parent has ended, and takes the child along.
async fn cancel_child(shell: &Arc<Shell>, at: MessageRef, cascade: Cascade) -> Delivered {
    let asked = Cancellation {
        reason: Some(cascade.reason),
        parent_run_id: Some(cascade.from),
        ..Cancellation::default()
    };
    tell(shell, at.receiver.of(at.sender.tenant), Command::Cancel(asked), at).await
}

/// Starts a child, or tells the parent why that can't be.
async fn start_child(shell: &Arc<Shell>, at: MessageRef, spawn: Spawn) -> Delivered {
    let (parent, node) = (at.sender, spawn.parent.node.clone());
    match shell.store.head(parent).await {
        // A parent that failed or was cancelled takes along the children that it had still to start.
        Ok(Some(listed)) if spawn.cascade && takes_along(listed.summary.status) => return Delivered::Moot,
        Ok(_) => {}
        Err(_) => return Delivered::Not,
    }
    match shell.store.head(spawn.child.of(parent.tenant)).await {
        Ok(None) => {}
        Ok(Some(_)) => return Delivered::Moot,
        Err(_) => return Delivered::Not,
    }
    let (child, workflow) = (spawn.child, spawn.workflow_id.clone());
    let error = match try_start(shell, at, spawn).await {
        Ok(()) => return Delivered::Recorded,
        Err(Error::Store(abide_store::Error::Stale | abide_store::Error::Delivered)) => {
            return Delivered::Moot;
        }
        Err(Error::WorkflowNotFound(_)) => {
            let message = format!("node '{node}' asked for workflow '{workflow}', which is not there");
            Failure::new("workflow_not_found", message)
        }
        Err(Error::Invalid(problems)) => {
            let first = problems.first().map_or_else(String::new, ToString::to_string);
            let message =
                format!("node '{node}' asked for workflow '{workflow}', which can't be read: {first}");
            Failure::new("child_refused", message)
        }
        Err(Error::Rejected(rejection)) => {
            let message =
                format!("node '{node}' asked for workflow '{workflow}', which refused: {rejection}");
            Failure::new("child_refused", message)
        }
        Err(circle @ Error::Circle { .. }) => Failure::new("dependency_circle", circle.to_string()),
        Err(Error::DependencyNotFound(run)) => {
            Failure::new("dependency_not_found", format!("there is no run {run} to wait for any more"))
        }
        Err(error) => {
            tracing::warn!(run = %child, %error, "a child could not be started yet");
            return Delivered::Not;
        }
    };
    tell(shell, parent, Command::RefuseChild { child, node, error }, at).await
}

/// Whether a run that ends so takes its children along: the same ends that let the core tell them.
pub(crate) fn takes_along(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Cancelled)
}

async fn try_start(shell: &Arc<Shell>, at: MessageRef, spawn: Spawn) -> Result<(), Error> {
    let tenant = at.sender.tenant;
    let graph = match &spawn.definition {
        Some(definition) => shell.graphs.inline(definition).await?,
        None => shell.graphs.named(&*shell.store, tenant, &spawn.workflow_id).await?,
    };
    let salt = *uuid::Uuid::new_v4().as_bytes();
    // What a definition says closes no circle. What somebody asked for may by now, until the child stands there itself.
    let asked = if spawn.definition.is_none() { &spawn.depends_on[..] } else { &[] };
    let _alone = shell.alone_with(tenant, asked).await;
    let circle = shell.sees_no_circle(at.sender, asked).await?;
    let start = Start {
        inputs: spawn.inputs,
        parent: Some(spawn.parent),
        sensitive: spawn.sensitive,
        unset: spawn.unset,
        trace: spawn.trace,
        by: spawn.by,
        depends_on: spawn.depends_on,
        draft: spawn.draft,
        ..Start::of(spawn.child.of(tenant), salt, graph)
    };
    let basis = Basis { consumed: vec![at], circle, ..Basis::default() };
    shell.start(start, basis, |_| ()).await
}

/// Has a run decide what a message says, and forgets the message with it.
pub(crate) async fn tell(shell: &Arc<Shell>, receiver: Key, command: Command, at: MessageRef) -> Delivered {
    let basis = Basis { consumed: vec![at], ..Basis::default() };
    match shell.decide(receiver, &command, Lane::Background, basis, |_| ()).await {
        Ok(()) => Delivered::Recorded,
        Err(
            Error::RunNotFound(_)
            | Error::Erased(_)
            | Error::Rejected(Rejection::Ended(_) | Rejection::Cancelling | Rejection::HeardBefore)
            | Error::Store(abide_store::Error::Delivered),
        ) => Delivered::Moot,
        Err(Error::Store(abide_store::Error::Raced)) => Delivered::Raced,
        Err(error) => {
            tracing::warn!(run = %receiver.id, %error, "a message could not be delivered yet");
            Delivered::Not
        }
    }
}
