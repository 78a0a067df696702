//! The commands and flags of `abide ladder`.

use clap::{Args as ClapArgs, Subcommand};

use super::ClientArgs;

#[derive(ClapArgs)]
pub(crate) struct LadderArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: LadderVerb,
}

#[derive(Subcommand)]
pub(crate) enum LadderVerb {
    /// Tell what was sent to whom about a question, what comes next, and when
    #[command(
        after_help = "Open:      abide ladder explain INTERRUPT\nOf a run:  abide ladder explain RUN [NODE]\nClosed:    abide ladder \
                      explain RUN INTERRUPT"
    )]
    Explain {
        /// The interrupt's id, or the run's
        #[arg(value_name = "INTERRUPT|RUN")]
        target: String,
        /// The node of the run or the interrupt's id; without it, the one that is open, or else the last
        #[arg(value_name = "NODE|INTERRUPT")]
        node: Option<String>,
    },
}
