//! Every command and flag, declared once; help and completions come from here.

mod access;
mod agent;
mod bench;
mod containers;
mod fork;
mod inbox;
mod ladder;
mod notify;
mod otlp;
mod resume;
mod secrets;
mod turn;
mod upkeep;
mod webhook;
mod worker;
mod workflow;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use serde_json::Value;

pub(crate) use access::{
    CreateKeyArgs, KeyringArgs, KeyringVerb, KeysArgs, KeysPlace, KeysVerb, LimitArgs, OidcArgs, PeopleArgs,
    PeopleVerb, RotateKeyArgs, SetPersonArgs, parse_span,
};
pub(crate) use agent::{AgentArgs, AgentVerb};
pub(crate) use bench::{BenchArgs, BenchVerb};
pub(crate) use containers::{
    CreateGroupArgs, GraphArgs, GraphVerb, GroupArgs, GroupVerb, HandArgs, HandAskArgs, HandVerb, RoleArg,
    RuleArg, RulesArgs, WhichArgs,
};
pub(crate) use fork::{DiffArgs, ForkArgs};
pub(crate) use inbox::{AnswerArgs, EventArgs, EventVerb, GivenArgs, InboxArgs, ManyArgs};
pub(crate) use ladder::{LadderArgs, LadderVerb};
pub(crate) use notify::{NotifyArgs, NotifyVerb};
pub(crate) use otlp::OtlpArgs;
pub(crate) use resume::{ResumeArgs, ResumeNowArgs, ResumeVerb};
pub(crate) use secrets::{SecretsArgs, SecretsVerb};
pub(crate) use turn::{BundleArgs, ProviderArgs, ProviderVerb, TurnArgs, TurnVerb};
pub(crate) use upkeep::{
    BackupArgs, ClusterArgs, ClusterVerb, MigrateArgs, PeerArgs, PurgeArgs, ReadyArgs, RestoreArgs,
    StoreArgs, TlsArgs,
};
pub(crate) use webhook::{WebhookArgs, WebhookVerb};
pub(crate) use worker::{KindArgs, KindVerb, WorkerArgs, WorkerVerb};
pub(crate) use workflow::{WorkflowArgs, WorkflowVerb};

/// A durable runtime for agent workflows that wait for people.
///
/// Try it:  abide dev --workflows examples/workflows --run hello
///
/// Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 server unreachable, 4 not found, 5 damaged data.
#[derive(Parser)]
#[command(name = "abide", version, max_term_width = 100, verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Run a server for development: makes a key, prints how to use it, keeps its data in ./.abide
    Dev(DevArgs),
    /// Run a server
    Serve(ServeArgs),
    /// Tell whether a server should get traffic: exit 0 if it should, 1 if it should not, 3 if there is none
    Ready(ReadyArgs),
    /// Write, check, push, compare and draw workflow definitions
    Workflow(WorkflowArgs),
    /// Start, list, show, explain, follow, annotate, cancel, erase and purge runs on a server
    Run(RunArgs),
    /// See whether an interrupted run goes on by itself, let it go on now, or have it wait
    Resume(ResumeArgs),
    /// Have runs wait for other runs, and see who waits for whom
    Graph(GraphArgs),
    /// Look at several runs together: their deadline, their budget, and which of them wait for people
    Group(GroupArgs),
    /// Claim nodes that are done by hand, ask about them, and say what came of them
    Hand(HandArgs),
    /// See how the turns of a run's models stand, try one now that waits for its provider, or give it up
    Turn(TurnArgs),
    /// See how the providers of models do
    Provider(ProviderArgs),
    /// List what waits for an answer, oldest first
    Inbox(InboxArgs),
    /// Answer what a run asks: shows it, asks, checks, and tells what was recorded
    Answer(AnswerArgs),
    /// See what was done to reach people about a question, and what comes next
    Ladder(LadderArgs),
    /// Tell runs that something happened elsewhere
    Event(EventArgs),
    /// Keep the secrets that workflows name, on a server
    Secrets(SecretsArgs),
    /// Have events sent to other systems, and see what became of them
    Webhook(WebhookArgs),
    /// See whether channels work, who was told what, and send again what was given up
    Notify(NotifyArgs),
    /// Make, list, rotate and revoke API keys, in a data directory, in a database or on a server
    Keys(KeysArgs),
    /// Rotate, list and retire the secrets that sign and encrypt
    Keyring(KeyringArgs),
    /// Keep the directory of people on a server: their roles, groups and addresses
    People(PeopleArgs),
    /// Say how the questions of an agent go on that nobody answers, on a server
    Agent(AgentArgs),
    /// See which workers are there, and send one home
    Worker(WorkerArgs),
    /// See which kinds of nodes workers provide, and forget one
    Kind(KindArgs),
    /// See which servers share a PostgreSQL database, and how they do
    Cluster(ClusterArgs),
    /// Check a data directory or a database: fold every journal, compare everything derived from it
    Verify(VerifyArgs),
    /// Copy a data directory into one file, while a server goes on with it
    Backup(BackupArgs),
    /// Make a data directory of a backup
    Restore(RestoreArgs),
    /// Copy a data directory into an empty PostgreSQL database, which several servers can share
    Migrate(MigrateArgs),
    /// Write a data directory anew, without traces of what was erased (while no server uses it)
    Compact(CompactArgs),
    /// Measure this machine: durable steps, runs, roundtrips with an answer, parked and interrupted runs
    Bench(BenchArgs),
    /// Print a completion script for your shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

/// What every server needs.
#[derive(ClapArgs, Clone)]
pub(crate) struct ServerArgs {
    /// Configuration file (TOML) with the same names: listen, public-url, data, store, name,
    /// advertise, workflows, keyring, allow-net, event-retention, otlp-endpoint, otlp-protocol, otlp-service-name, log, openintent, tls-cert, tls-key; the tables limits, oidc, suspension, resume, notify, channels
    /// and retention hold the rest
    #[arg(long, env = "ABIDE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// An openintent.yaml, whose suspension.default_retry_policy says how questions go on that nobody answers
    #[arg(long, env = "ABIDE_OPENINTENT", value_name = "FILE")]
    pub(crate) openintent: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free one
    #[arg(long, env = "ABIDE_LISTEN", value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Address that people and other machines reach the server at, behind a proxy: a URL without a path
    #[arg(long, env = "ABIDE_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Data directory; made if it does not exist
    #[arg(long, env = "ABIDE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) peer: PeerArgs,
    /// Folder of workflow definitions (*.json, *.yaml), read at the start
    #[arg(long, env = "ABIDE_WORKFLOWS", value_name = "DIR", overrides_with = "workflows")]
    pub(crate) workflows: Option<PathBuf>,
    /// Keyring file; by default beside the data directory, as DIR.keyring. With PostgreSQL it has to be named
    #[arg(long, env = "ABIDE_KEYRING", value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// Private address that requests and webhooks may reach: 10.0.0.0/8, ::1 or localhost:8080. May be repeated
    #[arg(long, env = "ABIDE_ALLOW_NET", value_name = "NET", value_delimiter = ',')]
    pub(crate) allow_net: Vec<String>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) oidc: OidcArgs,
    /// How long an event that nobody waits for yet is kept for whoever does: 90s, 15m, 12h, 30d or 4w [default: 1d]
    #[arg(long, env = "ABIDE_EVENT_RETENTION", value_name = "TIME", value_parser = parse_span)]
    pub(crate) event_retention: Option<i64>,
    /// Hold no conversations: workflows that would are refused, and discovery says so
    #[arg(long, env = "ABIDE_NO_CONVERSATIONS")]
    pub(crate) no_conversations: bool,
    /// Offer the kinds and mocks that OpenWOP's public conformance fixtures need; not for production
    #[arg(long)]
    pub(crate) conformance: bool,
    #[command(flatten)]
    pub(crate) otlp: OtlpArgs,
    /// What to log: error, warn, info, debug, or a filter such as abide_engine=debug
    #[arg(long, env = "ABIDE_LOG", value_name = "FILTER", overrides_with = "log")]
    pub(crate) log: Option<String>,
    /// Log as JSON lines
    #[arg(long)]
    pub(crate) log_json: bool,
}

#[derive(ClapArgs)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(ClapArgs)]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Start this workflow once the server listens, and tell how it goes
    #[arg(long, value_name = "WORKFLOW", overrides_with = "run")]
    pub(crate) run: Option<String>,
    /// Use a clock that stands still until POST /v1/dev/clock {"advanceMs": …} moves it
    #[arg(long)]
    pub(crate) test_clock: bool,
    /// Die at a failpoint, for crash tests: decide-commit=N, commit-acknowledge=N or effect-report=N
    #[arg(long, hide = true, value_name = "WINDOW=N")]
    pub(crate) failpoint: Option<String>,
}

/// Where the server is, and who asks.
#[derive(ClapArgs, Clone)]
pub(crate) struct ClientArgs {
    /// The server
    #[arg(
        long,
        env = "ABIDE_URL",
        default_value = "http://127.0.0.1:7171",
        value_name = "URL",
        global = true
    )]
    pub(crate) url: String,
    /// The API key
    #[arg(long, env = "ABIDE_API_KEY", hide_env_values = true, value_name = "KEY", global = true)]
    pub(crate) api_key: Option<String>,
    /// Trust a server whose certificate one of these (PEM) vouches for, beside those that the system trusts
    #[arg(long, env = "ABIDE_CA", value_name = "FILE", global = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(ClapArgs)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: RunVerb,
}

#[derive(Subcommand)]
pub(crate) enum RunVerb {
    /// Start a run: abide run start hello --input name=Ada --wait
    #[command(after_help = "From a file, which is pushed first:  abide run start -f hello.yaml --wait")]
    Start(StartArgs),
    /// List runs, newest first
    List {
        /// Only runs that stand so: pending, blocked, draft, running, paused, cancelling, completed, failed, cancelled
        #[arg(long)]
        status: Option<String>,
        /// Only runs of this workflow
        #[arg(long, value_name = "ID")]
        workflow: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Show how a run stands, node by node, with the runs that it started
    Show {
        /// The run's id
        run: String,
        /// Go on showing it until it has ended; not on a terminal, only the end is printed
        #[arg(long, short)]
        watch: bool,
    },
    /// Tell why a run stands where it stands: what it waits for, since when, and what comes next
    Why {
        /// The run's id
        run: String,
    },
    /// Print a run's events
    Events {
        /// The run's id
        run: String,
        /// Go on until the run has ended
        #[arg(long, short)]
        follow: bool,
        /// Only events after this sequence
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<u64>,
    },
    /// Say something about a run: abide run annotate RUN --rating 4 --note "quick and right"
    #[command(
        after_help = "It changes nothing in the run, which may have ended. What looks like a key or a password is taken \
                      out before it is kept."
    )]
    Annotate(AnnotateArgs),
    /// List what was said about a run
    Annotations {
        /// The run's id
        run: String,
    },
    /// List what a run made, or print one artifact: abide run artifacts RUN ID > report.json
    Artifacts {
        /// The run's id
        run: String,
        /// The artifact's id: print what it holds
        artifact: Option<String>,
    },
    /// Write all that helps to find out what happened to a run into one file, without anything secret: abide run bundle RUN
    #[command(
        after_help = "What is sensitive, what looks like a key or a password, and the values of your secrets are taken out; \
                      what people answered as well, unless you ask for it. Look through it before you hand it on."
    )]
    Bundle(BundleArgs),
    /// Cancel runs
    Cancel {
        /// The runs' ids, at most a hundred
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
    /// Make a run that begins with the events of another: to see whether they come out the same, or to go on otherwise
    #[command(
        after_help = "A replay takes answers, requests and times from what was recorded, works out the rest again and tells \
                      where that differs. A branch asks again what was not answered before the event, and is a run like any \
                      other. `abide run events RUN` shows the sequences."
    )]
    Fork(ForkArgs),
    /// Show how the events of two runs differ, whatever things are called and whenever they happened
    Diff(DiffArgs),
    /// Let nothing of a run start any more; nodes that are being executed end first
    Pause {
        /// The run's id
        run: String,
        /// Do not wait for nodes that are being executed; what they bring is recorded when it comes
        #[arg(long)]
        now: bool,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let a paused run go on; one that was interrupted goes on with `abide resume now`
    Resume {
        /// The run's id
        run: String,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
    /// Hold a run that works or waits for people: answers are kept, and nothing starts until it is released
    #[command(
        after_help = "People are reminded and questions run out as ever, unless you stop it: with --stop, the times of its \
                      questions stand still and go on from there. A run that is held may be held the other way."
    )]
    Hold {
        /// The run's id
        run: String,
        /// Let the times of its questions stand still as well: no reminders, no timeouts
        #[arg(long)]
        stop: bool,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let a run go on that somebody holds, stopped or paused
    Release {
        /// The run's id
        run: String,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
    },
    /// Erase what an ended run read and wrote, for good; that it ran stays on record
    #[command(
        after_help = "What is erased is overwritten. Copies of single rows may be left where they stood earlier in the \
                      file, until `abide compact`."
    )]
    Erase {
        /// The run's id
        run: String,
        /// Why, for the record
        #[arg(long)]
        reason: Option<String>,
        /// Do not ask; needed where there is no terminal to ask on
        #[arg(long, short)]
        yes: bool,
    },
    /// Remove runs that have ended, with all that belongs to them, for good: abide run purge --older-than 30d
    #[command(
        after_help = "A run goes with the runs that it started, and only when all of them have ended so long ago. Who \
                      removed what is on record: GET /v1/purges."
    )]
    Purge(PurgeArgs),
}

/// What to start, and with what.
#[derive(ClapArgs, Default)]
pub(crate) struct StartArgs {
    /// The workflow's id
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) workflow: Option<String>,
    /// Push this definition (JSON or YAML) first, then start it
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// An input; the value is JSON, or text if it is not JSON or the workflow wants text. May be repeated
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(crate) inputs: Vec<(String, String)>,
    /// A setting of this run, such as runTimeoutMs=60000; written as an input. May be repeated
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = parse_input)]
    pub(crate) config: Vec<(String, Value)>,
    /// A label for the run. May be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// What the run is about, for --dedup
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<String>,
    /// Refuse if another run that was started so is under way for the same workflow and scope
    #[arg(long)]
    pub(crate) dedup: bool,
    /// Start once under this key, however often it is asked: the same command gives the same run for a day
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Start nothing of it until this run has completed. May be repeated
    #[arg(long = "after", value_name = "RUN")]
    pub(crate) after: Vec<String>,
    /// Start nothing of it until somebody says so: abide graph activate RUN
    #[arg(long)]
    pub(crate) draft: bool,
    /// Start it as a child of this run, which is done by hand and can't be through before it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "tags", "scope", "dedup"])]
    pub(crate) under: Option<String>,
    /// Wait for the end; exit 0 only if the run completed
    #[arg(long)]
    pub(crate) wait: bool,
}

/// What to say, and about what.
#[derive(ClapArgs)]
pub(crate) struct AnnotateArgs {
    /// The run's id
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) signal: SignalArgs,
    /// Anything more, in words
    #[arg(long)]
    pub(crate) note: Option<String>,
    /// The node that it is about
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// The event that it is about
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
}

/// One thing to say.
#[derive(ClapArgs)]
#[group(required = true, multiple = false)]
pub(crate) struct SignalArgs {
    /// A mark from 1 (bad) to 5 (good)
    #[arg(long, value_name = "1-5", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) rating: Option<u8>,
    /// A word to find it by
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Somebody should look at it
    #[arg(long)]
    pub(crate) flag: bool,
    /// What should have come out instead: JSON, or text if it is not JSON
    #[arg(long, value_name = "VALUE")]
    pub(crate) correction: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct VerifyArgs {
    /// Data directory; a server may be running on it [default: abide-data]
    #[arg(long, env = "ABIDE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Keyring file; by default beside the data directory, as DIR.keyring. With PostgreSQL it has to be named
    #[arg(long, env = "ABIDE_KEYRING", value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(ClapArgs)]
#[command(
    after_help = "It takes time and room on the disk in proportion to the data. Erasing a run overwrites what that \
                  frees; this also removes copies that were left where rows stood earlier."
)]
pub(crate) struct CompactArgs {
    /// Data directory; no server may be running on it [default: abide-data]
    #[arg(long, env = "ABIDE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `name=value`, as it is written.
fn parse_pair(input: &str) -> Result<(String, String), String> {
    let (name, value) = input
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("it is not of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `name=value`, where the value is JSON if it can be read as such, and text otherwise.
fn parse_input(input: &str) -> Result<(String, Value), String> {
    parse_pair(input).map(|(name, value)| (name, json_or_text(&value)))
}

/// The value that a text writes in JSON, or the text itself.
pub(crate) fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn inputs_are_json_where_they_can_be() {
        let parsed = |input| parse_input(input).unwrap();
        assert_eq!(parsed("a=1"), ("a".to_owned(), json!(1)));
        assert_eq!(parsed("b=true"), ("b".to_owned(), json!(true)));
        assert_eq!(parsed("c=text"), ("c".to_owned(), json!("text")));
        assert_eq!(parsed("d={\"x\":[1]}"), ("d".to_owned(), json!({ "x": [1] })));
        assert_eq!(parsed("e="), ("e".to_owned(), json!("")));
        assert_eq!(parsed("f=a=b"), ("f".to_owned(), json!("a=b")));
        assert!(parse_input("novalue").is_err());
        assert!(parse_input("=x").is_err());
    }
}
