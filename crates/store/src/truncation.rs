//! What can be told of a damaged aggregate, and the cutting of its journal behind the last event that is good.

use abide_core::{Head, Key, Offer, RunId, Salt, Summary, TaskId};

use crate::{Beside, MessageRow, NewAudit};

/// An aggregate without its journal, each part as far as it can be read.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The end of its journal, as its columns have it.
    pub head: Result<Head, String>,
    /// The rest of its columns.
    pub summary: Result<Summary, String>,
    /// Its secret, unless it was erased.
    pub salt: Result<Option<Salt>, String>,
    /// The latest snapshot and how many events it has folded, or why it can't be read.
    pub snapshot: Option<Result<(u64, Vec<u8>), String>>,
}

/// How a damaged journal is to be cut, and what is to lie beside what is left of it.
#[derive(Clone, Debug)]
pub struct Truncation {
    /// Which aggregate.
    pub key: Key,
    /// The end of its journal as its columns had it when it was looked at. If they say something else now, nothing is
    /// done.
    pub counted: Head,
    /// The end of what is kept.
    pub kept: Head,
    /// The aggregate as lists show it, after what is kept.
    pub summary: Summary,
    /// What lies beside what is kept. Messages are none of it.
    pub beside: Beside,
    /// The first fence of each of its tasks.
    pub fences: Vec<(TaskId, u64)>,
    /// Its tasks for workers. Whoever had one is taken to be gone.
    pub offers: Vec<Offer>,
    /// The run that it tells how it stands.
    pub parent: Option<RunId>,
    /// Messages to it that it had recorded behind the cut, to be delivered once more.
    pub again: Vec<MessageRow>,
    /// What the log is to say of it. The hashes of what is dropped are added.
    pub audit: NewAudit,
}

/// What became of the cutting of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truncated {
    /// It has moved on since it was looked at.
    Stale,
    /// Another run has acted on what would be dropped.
    Told(RunId),
    /// Another run has what it would have to itself again.
    Claimed(RunId),
    /// The journal ends where it should.
    Done {
        /// How many events were dropped.
        dropped: u64,
    },
}
