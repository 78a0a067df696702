//! The flags of `abide agent`.

use clap::{Args as ClapArgs, Subcommand};

use super::ClientArgs;

#[derive(ClapArgs)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: AgentVerb,
}

#[derive(Subcommand)]
pub(crate) enum AgentVerb {
    /// List the agents that have a record
    List,
    /// Show an agent
    Show {
        /// What it is called: the agent of a node's settings
        name: String,
    },
    /// Set an agent's record; it replaces what was known
    #[command(
        after_help = "Example:\n  abide agent set refunds --policy '{\"max_attempts\": 3, \"interval_seconds\": 3600}'"
    )]
    Set {
        /// What it is called: the agent of a node's settings
        name: String,
        /// Its retry policy: a file (JSON or YAML), or JSON itself. Without one, the server's own applies
        #[arg(long, value_name = "FILE|JSON")]
        policy: Option<String>,
    },
    /// Forget an agent's record
    Rm {
        /// Which agent
        name: String,
    },
}
