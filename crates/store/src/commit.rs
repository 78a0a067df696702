//! The one write that matters: everything a decision brought about, in one transaction.

use std::sync::Arc;

use abide_core::{Effect, Hash, Head, Key, Record, Run, RunId, Salt, Step, Summary, TaskId};

use crate::{Error, Receipt, SessionId};

/// What a decision brought about. It becomes durable as a whole or not at all.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Which aggregate.
    pub key: Key,
    /// The end of the journal that the decision was made on. If it is not the end any more, the commit is refused
    /// as stale; its hash is compared too, so that a commit decided on top of one that failed can't land on
    /// another that happens to be as long. An empty one creates the aggregate.
    pub base: Head,
    /// The new events. Never empty.
    pub records: Vec<Record>,
    /// How many of them webhooks don't hear of: they were told of another aggregate, which this one was forked off.
    pub untold: u64,
    /// The aggregate's secret, with its first event.
    pub salt: Option<Salt>,
    /// Another aggregate started it.
    pub child: bool,
    /// It is a group, and not a run.
    pub group: bool,
    /// A run that was there already is made to wait for another: how often that had been done in the tenant when it was
    /// looked at whether this closes a circle. If it is more by now, the commit is refused.
    pub circle: Option<u64>,
    /// The aggregate as lists show it, after these events.
    pub summary: Summary,
    /// The folded state after these events, when one is worth keeping.
    pub snapshot: Option<Vec<u8>>,
    /// Something that is never shown is among the aggregate's events, here or earlier: the snapshot is sealed, and what
    /// of the rest holds it.
    pub hides: bool,
    /// Timers, tasks and messages.
    pub effects: Vec<Effect>,
    /// Which start of the server holds the lease on the tasks that begin here; 0 leaves them to be claimed.
    pub boot: u64,
    /// What it arms for the next minute and sends is left to this server for a few seconds, on a store that several share.
    pub held: bool,
    /// For each task that is offered to workers here, in order, who gets it right away. Those beyond the end wait.
    pub sessions: Vec<Option<SessionId>>,
    /// The fencing token of the lease under which a task was finished.
    pub fence: Option<u64>,
    /// The worker's task that this is about, if it is refused unless that is in the right hands.
    pub holder: Option<TaskHolder>,
    /// A task that goes on after this, and the fencing token of the lease under which it was decided. It is refused if
    /// somebody else has the task by now.
    pub holds: Option<(TaskId, u64)>,
    /// The messages that led to this, to be forgotten with it. If one of them is gone, the commit is refused.
    pub consumed: Vec<MessageRef>,
    /// Content-addressed bytes that the events refer to.
    pub blobs: Vec<(Hash, Arc<[u8]>)>,
    /// What is answered to the request that led to this, if it may be repeated. If there is a receipt under the same
    /// key already, the whole commit is refused.
    pub receipt: Option<Receipt>,
    /// The scope that the aggregate has to itself. Its first commit claims it, and is refused if another that is under
    /// way has it; its last one gives it back.
    pub claim: Option<String>,
}

impl Commit {
    /// Its effects, without what would tell others how the aggregate stood in the middle of it: nobody ever sees that.
    pub fn told(&self) -> impl Iterator<Item = &Effect> {
        let is_told = |(ix, effect): &(usize, &Effect)| {
            let later = |same: &dyn Fn(&Effect) -> bool| self.effects[ix + 1..].iter().any(same);
            match effect {
                Effect::Announce(_) => !later(&|other| matches!(other, Effect::Announce(_))),
                // What a parent is told is how the run stands.
                Effect::Send { to, .. } => {
                    !later(&|other| matches!(other, Effect::Send { to: same, .. } if same == to))
                }
                _ => true,
            }
        };
        self.effects.iter().enumerate().filter(is_told).map(|(_, effect)| effect)
    }

    /// What `step` brought about in `run`, which stands as it is afterwards.
    pub fn of(run: &Run, step: Step) -> Self {
        let untold = match run.forked() {
            Some(_) if run.is_replay() => step.records.len() as u64,
            Some(forked) if step.base.next == 0 => forked.history,
            _ => 0,
        };
        Self {
            key: run.key(),
            base: step.base,
            untold,
            records: step.records,
            salt: None,
            child: run.parent().is_some(),
            group: run.group().is_some(),
            circle: None,
            summary: run.summary(),
            snapshot: None,
            hides: run.hides_something(),
            effects: step.effects,
            boot: 0,
            held: false,
            sessions: Vec::new(),
            fence: None,
            holder: None,
            holds: None,
            consumed: Vec::new(),
            blobs: Vec::new(),
            receipt: None,
            claim: run.is_exclusive().then(|| run.scope().unwrap_or_default().to_owned()),
        }
    }
}

/// A worker's task in somebody's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskHolder {
    /// The task.
    pub task: TaskId,
    /// The fence that it is out under.
    pub fence: u64,
    /// Who has to have it.
    pub session: SessionId,
    /// The start of the server that the session has to have its home at, if that matters.
    pub home: Option<u64>,
}

/// A message in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageRef {
    /// Who sent it; the tenant is the sender's and the receiver's.
    pub sender: Key,
    /// The sender's sequence.
    pub sequence: u64,
    /// Who gets it.
    pub receiver: RunId,
}

/// How urgent a commit is. People first: timers yield to them, but never starve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Somebody waits for it.
    Interactive,
    /// A timer, a message, a recovered task.
    Background,
}

/// Called once, when the commit is durable or refused, from a thread of the store. Commits of one aggregate in
/// one lane are answered in the order they were submitted. It must not block.
pub type Done = Box<dyn FnOnce(Result<(), Error>) + Send>;
