//! What can go wrong in a store, from the caller's point of view.

use std::path::PathBuf;

/// Why a store could not do what it was asked. None of these leaves anything half-written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Another commit came first; decide again on what is there now.
    #[error("the aggregate has moved on since it was read")]
    Stale,
    /// The lease on a task has passed to somebody else.
    #[error("the lease on the task was lost")]
    Fenced,
    /// The message was delivered before, by somebody else.
    #[error("the message has been delivered")]
    Delivered,
    /// The same request was carried out before; its receipt tells what was answered.
    #[error("the request has been carried out")]
    Receipted,
    /// Another run that is under way has the scope.
    #[error("another run of the workflow and scope is under way")]
    Claimed,
    /// Another run of the tenant has a name that this one wants to itself.
    #[error("another run has the name")]
    Taken,
    /// Something that the commit rests on was changed by another since it was looked at.
    #[error("what the commit rests on has changed since it was looked at")]
    Raced,
    /// The data can't be trusted as it is.
    #[error("{}: {reason}. {way_out}", file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What an operator can do.
        way_out: String,
    },
    /// What a run keeps secret is sealed under a key that is not at hand, or can't be sealed. No other run is affected.
    #[error("{0}")]
    Sealed(String),
    /// The data directory is in use, or was made for something else.
    #[error("{0}")]
    Refused(String),
    /// The store can't be reached for now. Nothing of what was asked for was written; it may be asked for again.
    #[error("the store can't be reached: {0}")]
    Unavailable(String),
    /// The disk or the database engine failed. A commit that met this may or may not have happened: look before
    /// you repeat it.
    #[error("the store failed: {0}")]
    Failed(String),
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
}
