//! The commands and flags of `abide webhook`.

use clap::{Args as ClapArgs, Subcommand};

use super::ClientArgs;

#[derive(ClapArgs)]
pub(crate) struct WebhookArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: WebhookVerb,
}

#[derive(Subcommand)]
pub(crate) enum WebhookVerb {
    /// Have events sent to a URL: abide webhook add URL --event run.completed
    #[command(
        after_help = "The secret that signs the deliveries is printed once. Keep it with the receiver."
    )]
    Add {
        /// Where to send them: https, and an address of the public internet
        target: String,
        /// An event type, or '*' for all. May be repeated
        #[arg(long = "event", value_name = "TYPE", required = true)]
        events: Vec<String>,
        /// Only of runs that carry this label. May be repeated: then only of those that carry all
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
    },
    /// List the webhooks and how they do
    List,
    /// Show a webhook and how it does
    Show {
        /// The webhook's id
        id: String,
    },
    /// List what is on its way to a webhook, or was given up
    Deliveries {
        /// The webhook's id
        id: String,
        /// Those that were given up
        #[arg(long)]
        dead: bool,
    },
    /// Send what was given up once more: abide webhook resend ID --all
    Resend {
        /// The webhook's id
        id: String,
        /// All of it
        #[arg(long, conflicts_with = "deliveries", required_unless_present = "deliveries")]
        all: bool,
        /// These deliveries
        #[arg(value_name = "DELIVERY")]
        deliveries: Vec<String>,
    },
    /// Try a webhook again that was left alone or has failed
    Enable {
        /// The webhook's id
        id: String,
    },
    /// End a webhook; what was on its way to it is forgotten
    Rm {
        /// The webhook's id
        id: String,
    },
}
