//! The arguments of `abide run fork` and `abide run diff`.

use clap::Args as ClapArgs;
use serde_json::Value;

use super::parse_input;

/// Which run to fork, and what for.
#[derive(ClapArgs)]
pub(crate) struct ForkArgs {
    /// The run's id
    pub(crate) run: String,
    /// Work out again what was recorded, and tell how it differs; nothing outside hears of it. This is what a fork is for
    /// unless told
    #[arg(long, conflicts_with = "branch")]
    pub(crate) replay: bool,
    /// Go on otherwise from this event on; those before it are kept
    #[arg(long, value_name = "SEQUENCE")]
    pub(crate) branch: Option<u64>,
    /// Replay from this event on; those before it are copied
    #[arg(long, value_name = "SEQUENCE", conflicts_with = "branch")]
    pub(crate) from: Option<u64>,
    /// A label of the branch, in place of those of the run; may be repeated
    #[arg(long = "tag", value_name = "TAG", requires = "branch")]
    pub(crate) tags: Vec<String>,
    /// A setting of the branch, in place of the run's own; may be repeated
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = parse_input, requires = "branch")]
    pub(crate) config: Vec<(String, Value)>,
    /// Sent again with the same key, the request makes no second fork
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

/// Which runs to compare.
#[derive(ClapArgs)]
pub(crate) struct DiffArgs {
    /// A run's id
    pub(crate) run: String,
    /// The id of the run to compare it with
    pub(crate) against: String,
}
