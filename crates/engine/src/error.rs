//! What can go wrong between a caller and a run.

use abide_core::{Corrupt, Failure, Problem, Rejection, RunId};

/// Why the engine did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The tenant has no such run.
    #[error("there is no run {0}")]
    RunNotFound(RunId),
    /// No workflow with this id is loaded.
    #[error("there is no workflow '{0}'")]
    WorkflowNotFound(String),
    /// The core refused it; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Another run that is under way has the workflow and scope to itself.
    #[error("{0} has the workflow and scope to itself")]
    Claimed(RunId),
    /// A run was to wait for one that the tenant does not have.
    #[error("there is no run {0} to wait for")]
    DependencyNotFound(RunId),
    /// A run was to wait for one that waits for it.
    #[error(
        "{on} waits for {run} already, directly or by way of others, so neither {run} nor its child can wait for {on}"
    )]
    Circle {
        /// The run that was to wait.
        run: RunId,
        /// What for.
        on: RunId,
    },
    /// A child was taken on and could not be started: its parent recorded why.
    #[error("{}", .0.message)]
    ChildRefused(Box<Failure>),
    /// The run's payloads were erased, so nothing but its outline is left.
    #[error("the payloads of {0} were erased")]
    Erased(RunId),
    /// Only a run that has ended can be erased.
    #[error("{0} has not ended; cancel it first")]
    NotEnded(RunId),
    /// The run has as many annotations as it may.
    #[error("{0} has as many annotations as a run may have")]
    AnnotationsFull(RunId),
    /// There is another event under the same id.
    #[error("event '{0}' was told before, and said something else")]
    EventConflict(String),
    /// The tenant has as many events that nobody asked for as it may.
    #[error("as many events are kept as may be kept until somebody asks for them")]
    EventsFull,
    /// No such worker is there.
    #[error("there is no worker with session {0}; register it again")]
    WorkerUnknown(abide_store::SessionId),
    /// The tenant has as many workers as it may.
    #[error("as many workers are there as a tenant may have")]
    WorkersFull,
    /// The tenant has as many kinds as it may.
    #[error("as many kinds are known as a tenant may have")]
    KindsFull,
    /// The run can't be forked so.
    #[error(transparent)]
    Unforked(abide_core::fork::Unforked),
    /// The journal of a run can't be folded.
    #[error("the journal of {run} is damaged: {corrupt}")]
    Damaged {
        /// Which run.
        run: RunId,
        /// The first bad event.
        corrupt: Corrupt,
    },
    /// A later version of abide has gone on with the run, as one does beside this one during an upgrade.
    #[error("{run} was gone on with by a newer abide: event {sequence} can't be read by this one")]
    Newer {
        /// Which run.
        run: RunId,
        /// The first event that is newer.
        sequence: u64,
    },
    /// The journal of a run can't be cut.
    #[error("the journal of {run} can't be cut: {reason}")]
    Untruncatable {
        /// Which run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// Nothing can be added to the run's journal.
    #[error("nothing can be recorded in {run}: {reason}")]
    Unrecordable {
        /// Which run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// The definition that a run is pinned to can't be read.
    #[error("the definition of {run} can't be read: {reason}")]
    DefinitionLost {
        /// Which run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// A definition is not valid.
    #[error("the definition is not valid: {}", list(.0))]
    Invalid(Vec<Problem>),
    /// Other commits kept coming first.
    #[error("the run changes too quickly; try again")]
    Contended,
    /// The server is shutting down and takes in nothing new.
    #[error("the server is shutting down")]
    Draining,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] abide_store::Error),
}

impl Error {
    /// Whether trying again can't help: the run is gone, or what is on disk of it can't be read.
    pub(crate) fn is_lasting(&self) -> bool {
        use abide_store::Error::{Damaged, Sealed};
        matches!(
            self,
            Self::Damaged { .. }
                | Self::DefinitionLost { .. }
                | Self::RunNotFound(_)
                | Self::Erased(_)
                | Self::Store(Damaged { .. } | Sealed(_))
        )
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
