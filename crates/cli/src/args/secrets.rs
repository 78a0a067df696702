//! `abide secrets`.

use clap::{Args as ClapArgs, Subcommand};

use super::ClientArgs;

#[derive(ClapArgs)]
pub(crate) struct SecretsArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: SecretsVerb,
}

#[derive(Subcommand)]
pub(crate) enum SecretsVerb {
    /// Store a secret under a name: abide secrets set CRM_TOKEN < token.txt
    #[command(
        after_help = "The value comes from standard input, without its last newline. On a terminal it is asked for, \
                      and not shown.\n\nA workflow names it as {{ secrets.CRM_TOKEN }}."
    )]
    Set {
        /// Its name: letters, digits, '.', '_' and '-'
        name: String,
    },
    /// List the names of the secrets; values are never shown
    List,
    /// Remove a secret
    Rm {
        /// Its name
        name: String,
    },
}
