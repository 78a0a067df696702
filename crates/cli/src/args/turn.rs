//! The commands and flags of `abide turn` and `abide provider`, and those of `abide run bundle`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::ClientArgs;

#[derive(ClapArgs)]
#[command(
    after_help = "A turn is what one node says to a model and hears from it. If the model's provider can't answer, the turn \
                  waits and tries again, for hours if need be; it costs nothing meanwhile."
)]
pub(crate) struct TurnArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: TurnVerb,
}

#[derive(Subcommand)]
pub(crate) enum TurnVerb {
    /// List the turns of a run: where they stand, what they wait for, and what they used
    List {
        /// The run's id
        run: String,
    },
    /// Try the provider of a turn that waits for it now: abide turn retry RUN
    Retry {
        /// The run's id
        run: String,
        /// The turn's node, if several wait
        node: Option<String>,
    },
    /// Let a turn that waits for its provider fail with what that said last
    GiveUp {
        /// The run's id
        run: String,
        /// The turn's node, if several wait
        node: Option<String>,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(ClapArgs)]
pub(crate) struct ProviderArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: ProviderVerb,
}

#[derive(Subcommand)]
pub(crate) enum ProviderVerb {
    /// List the providers of models, whether they answer, and how many turns wait for them
    List,
}

/// Which run's bundle, and where it goes.
#[derive(ClapArgs)]
pub(crate) struct BundleArgs {
    /// The run's id
    pub(crate) run: String,
    /// Where to write it, or - for standard output; nothing is overwritten [default: RUN.bundle.json]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// With what people answered
    #[arg(long)]
    pub(crate) answers: bool,
}
