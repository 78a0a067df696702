//! What is read back from a store.

use std::sync::Arc;

use abide_core::{Hash, Head, Key, Millis, Notice, Record, RunId, Salt, Summary, TaskId, TenantId, TimerId};

/// An aggregate as it lies on disk.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its columns.
    pub summary: Summary,
    /// The end of its journal, as its columns have it.
    pub head: Head,
    /// Its secret, unless it was erased.
    pub salt: Option<Salt>,
    /// The latest snapshot, and how many events it has folded.
    pub snapshot: Option<(u64, Vec<u8>)>,
    /// The events behind the snapshot, or all.
    pub tail: Vec<Record>,
}

/// A run in a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Which run.
    pub id: RunId,
    /// Its columns.
    pub summary: Summary,
    /// The sequence its next event gets.
    pub next: u64,
    /// The time of its last event.
    pub at: Millis,
}

/// A timer on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerRow {
    /// When.
    pub due: Millis,
    /// Whose.
    pub key: Key,
    /// Which of its timers.
    pub timer: TimerId,
}

/// A task on disk, leased to the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Whose.
    pub key: Key,
    /// Which of its tasks.
    pub task: TaskId,
    /// The token that a report must carry.
    pub fence: u64,
}

/// A message on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Where it stands.
    pub at: crate::MessageRef,
    /// What it says.
    pub notice: Notice,
}

/// What lies beside a journal, all of which follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Those of the expected timers that are there.
    pub timers: Vec<TimerRow>,
    /// Its tasks.
    pub tasks: Vec<TaskId>,
    /// How far it has heard others.
    pub heard: Vec<(RunId, u64)>,
    /// Its messages that are not delivered yet, and to whom they go.
    pub sent: Vec<(RunId, Notice)>,
}

/// How many rows the derived tables have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Timers.
    pub timers: u64,
    /// Tasks.
    pub tasks: u64,
    /// Senders heard.
    pub heard: u64,
    /// Messages under way.
    pub outbox: u64,
    /// Events.
    pub events: u64,
}

/// An API key: everything but its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The public part of the key.
    pub id: String,
    /// Whose runs it reaches.
    pub tenant: TenantId,
    /// Who acts through it.
    pub principal: String,
    /// The secret's MAC under a key of the keyring.
    pub mac: Arc<[u8]>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was revoked.
    pub revoked_at: Option<Millis>,
}

/// A 32-byte column.
pub(crate) fn hash(bytes: &[u8]) -> Result<Hash, String> {
    bytes.try_into().map_err(|_| format!("a hash has 32 bytes, not {}", bytes.len()))
}
