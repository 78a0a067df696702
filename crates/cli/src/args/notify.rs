//! The commands and flags of `abide notify`.

use clap::{Args as ClapArgs, Subcommand};

use super::ClientArgs;

#[derive(ClapArgs)]
pub(crate) struct NotifyArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: NotifyVerb,
}

#[derive(Subcommand)]
pub(crate) enum NotifyVerb {
    /// Send a message that says nothing but that a channel works: abide notify test slack
    Test {
        /// The channel's name; without it, the channels are listed
        channel: Option<String>,
        /// Whom to tell: somebody of the directory, or an address that is allowed
        #[arg(long, value_name = "WHO", requires = "channel")]
        to: Option<String>,
    },
    /// List who was told what, and who was not and why
    List {
        /// Only those that stand so: waiting, sent, dead, superseded, refused, withdrawn, unreachable
        #[arg(long)]
        state: Option<String>,
        /// Only those of this run
        #[arg(long, value_name = "RUN")]
        run: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Send messages that were given up once more
    Resend {
        /// The messages' ids, as `abide notify list --state dead` shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}
