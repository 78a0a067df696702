//! The flags of `abide worker` and `abide kind`.

use clap::{Args as ClapArgs, Subcommand};

use super::ClientArgs;

#[derive(ClapArgs)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: WorkerVerb,
}

#[derive(Subcommand)]
pub(crate) enum WorkerVerb {
    /// List the workers that are there, and what they do
    List,
    /// Give a worker no more tasks, and tell it to end when it has done those it has
    Drain {
        /// Its session, as `abide worker list` shows it
        session: String,
    },
}

#[derive(ClapArgs)]
pub(crate) struct KindArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: KindVerb,
}

#[derive(Subcommand)]
pub(crate) enum KindVerb {
    /// List the kinds of nodes that workers have ever provided
    List,
    /// Forget a kind: nodes of it fail, instead of waiting, until a worker provides it again
    Forget {
        /// Its name: the typeId of nodes
        kind: String,
    },
}
