//! The flags and commands that keep a server going for years: backups, what is removed, and encrypted connections.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::{ClientArgs, parse_span};

/// Which database, if the data is in none of the machine's directories. A directory is a flag of its own, because every
/// command says something else about it.
#[derive(ClapArgs, Clone, Default)]
pub(crate) struct StoreArgs {
    /// A PostgreSQL database instead of a data directory: postgres://user:password@host/database. Passwords belong into
    /// the variable or a configuration file, not on a command line
    #[arg(long, env = "ABIDE_STORE", hide_env_values = true, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,
}

/// What a server is to the others on its database.
#[derive(ClapArgs, Clone, Default)]
pub(crate) struct PeerArgs {
    /// What this server is called in `abide cluster status` and in the log of the others [default: host:port]
    #[arg(long, env = "ABIDE_NAME", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where the other servers on the same database reach this one, which they do for workers that talk to it. Not for
    /// people: that is --public-url [default: the address it listens on]
    #[arg(long, env = "ABIDE_ADVERTISE", value_name = "URL")]
    pub(crate) advertise: Option<String>,
}

/// How a server encrypts its connections.
#[derive(ClapArgs, Clone, Default)]
pub(crate) struct TlsArgs {
    /// Serve HTTPS with this certificate, followed by those that lead to its root (PEM); SIGHUP has it read again
    #[arg(long, env = "ABIDE_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, env = "ABIDE_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// Which server.
#[derive(ClapArgs)]
pub(crate) struct ReadyArgs {
    /// The server
    #[arg(long, env = "ABIDE_URL", default_value = "http://127.0.0.1:7171", value_name = "URL")]
    pub(crate) url: String,
    /// Trust a server whose certificate one of these (PEM) vouches for, beside those that the system trusts
    #[arg(long, env = "ABIDE_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

#[derive(ClapArgs)]
#[command(
    after_help = "Every night:  abide backup --data /var/lib/abide --to /backups/abide-$(date +%F).db\n\nThe keyring is not \
                  in it: keep a copy of that elsewhere. Without it, API keys, secrets and sealed runs are of no use."
)]
pub(crate) struct BackupArgs {
    /// Data directory; a server may be running on it, and is not held up [default: abide-data]
    #[arg(long, env = "ABIDE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Keyring file, to check sealed runs with; by default beside the data directory, as DIR.keyring
    #[arg(long, env = "ABIDE_KEYRING", value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Check the pages of the copy, but do not fold its journals
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(ClapArgs)]
#[command(
    after_help = "Put the keyring that belongs to the data where the server looks for it, then start the server.\n\nWhat \
                  happened after the backup is forgotten: messages, webhooks and requests may go out a second time, and \
                  API keys that were revoked since are in force again."
)]
pub(crate) struct RestoreArgs {
    /// The backup
    pub(crate) file: PathBuf,
    /// Data directory to make; no server may be running on it [default: abide-data]
    #[arg(long, env = "ABIDE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Keyring file, to check sealed runs with; by default beside the data directory, as DIR.keyring
    #[arg(long, env = "ABIDE_KEYRING", value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// Restore into a directory that holds data; what was there is put aside in it
    #[arg(long)]
    pub(crate) force: bool,
    /// Check the pages of the backup, but do not fold its journals
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which runs to remove.
#[derive(ClapArgs)]
pub(crate) struct PurgeArgs {
    /// Those that ended longer ago than this: 90s, 15m, 12h, 30d or 4w
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) older_than: i64,
    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Option<String>,
    /// Only runs that ended so: completed, failed, cancelled [default: all three]
    #[arg(long, value_name = "STATUSES", value_delimiter = ',')]
    pub(crate) status: Vec<String>,
    /// Remove nothing, and tell what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask; needed where there is no terminal to ask on
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(ClapArgs)]
#[command(
    after_help = "Stop the server first. All of it is copied in one transaction: if something goes wrong, the database stays \
                  empty and the directory as it is. The keyring is not copied: give every server the same file."
)]
pub(crate) struct MigrateArgs {
    /// The data directory to copy, which stays as it is: sqlite:DIR
    #[arg(long, value_name = "STORE")]
    pub(crate) from: String,
    /// The empty PostgreSQL database to copy it into [env: ABIDE_STORE=]
    #[arg(long, env = "ABIDE_STORE", hide_env_values = true, hide_env = true, value_name = "STORE")]
    pub(crate) to: String,
    /// Keyring file of the data, to check sealed runs with; by default beside the data directory, as DIR.keyring
    #[arg(long, env = "ABIDE_KEYRING", value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(ClapArgs)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: ClusterVerb,
}

#[derive(Subcommand)]
pub(crate) enum ClusterVerb {
    /// Show the servers on the database, how they do, and which one does what for all
    Status,
}
