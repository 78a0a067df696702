//! The commands and flags of `abide resume`.

use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;

use super::{ClientArgs, parse_input};

#[derive(ClapArgs)]
#[command(
    after_help = "A run is interrupted when a step of it failed or was cut off in a way that may pass. A run that somebody \
                  paused is let go on with `abide run resume`."
)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: ResumeVerb,
}

#[derive(Subcommand)]
pub(crate) enum ResumeVerb {
    /// Tell whether a run is interrupted, where, by what, and whether it goes on by itself
    Status {
        /// The run's id
        run: String,
    },
    /// Let an interrupted run go on now: abide resume now RUN --approve-step charge
    #[command(
        after_help = "Exits with 1 if that is refused, and says what would help. A refusal changes nothing but the record \
                      of decisions."
    )]
    Now(ResumeNowArgs),
    /// Let a run not go on by itself any more: what interrupts it from now on waits for somebody
    Disable {
        /// The run's id
        run: String,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let a run go on by itself again, as its policy says
    Enable {
        /// The run's id
        run: String,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
}

/// What is to go on, and what is known about it.
#[derive(ClapArgs)]
pub(crate) struct ResumeNowArgs {
    /// The run's id
    pub(crate) run: String,
    /// A step that must not be done twice, and that may be done (again): you have looked. May be repeated
    #[arg(long = "approve-step", value_name = "NODE")]
    pub(crate) approve: Vec<String>,
    /// A step that was done after all, and what came of it, as JSON: it is not done again. May be repeated
    #[arg(long, value_name = "NODE=JSON", value_parser = parse_input)]
    pub(crate) done: Vec<(String, Value)>,
    /// Though it was resumed as often as it may, or its cool-down is not over; needs --reason
    #[arg(long, requires = "reason")]
    pub(crate) force: bool,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// What interrupted it, if the record says nothing that this server knows; needs --force
    #[arg(long, value_name = "CLASS", requires = "force")]
    pub(crate) interruption_class: Option<String>,
    /// Cut off what can't be read or verified at the end of the run's journal; needs --force
    #[arg(long, requires = "force")]
    pub(crate) truncate: bool,
}
