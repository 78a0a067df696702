//! The commands and flags of `abide bench`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(ClapArgs)]
pub(crate) struct BenchArgs {
    /// Where to put the scratch data; it is removed afterwards
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) verb: BenchVerb,
}

#[derive(Subcommand)]
pub(crate) enum BenchVerb {
    /// Durable steps: each on disk before the next begins; then pure stretches, apart
    Steps {
        /// Runs at once
        #[arg(long, default_value_t = 256)]
        concurrency: usize,
        /// Steps in each run
        #[arg(long, default_value_t = 100)]
        steps: usize,
        /// Runs in all
        #[arg(long, default_value_t = 1024)]
        runs: usize,
    },
    /// Whole runs of one step: start to acknowledged end
    Runs {
        /// Runs at once; 256 unless told, and over HTTP 64 and 256, one after the other
        #[arg(long)]
        concurrency: Option<usize>,
        /// Runs in all
        #[arg(long, default_value_t = 50_000)]
        runs: usize,
        /// Over HTTP, asking a server in a process of its own, beside the engine alone
        #[arg(long)]
        http: bool,
    },
    /// Large graphs and deep families: what a node and a child cost as there are more of them
    Graphs {
        /// Nodes of the largest graph
        #[arg(long, default_value_t = 10_000)]
        nodes: usize,
        /// Runs in the deepest chain of children
        #[arg(long, default_value_t = 1_000)]
        depth: usize,
    },
    /// Crowds over HTTP: runs in one graph, members of one group, runs that wait for one; and half as many
    Groups {
        /// Runs in one graph
        #[arg(long, default_value_t = 100_000)]
        runs: usize,
        /// Members of one group
        #[arg(long, default_value_t = 10_000)]
        members: usize,
        /// Runs that wait for one
        #[arg(long, default_value_t = 10_000)]
        dependents: usize,
    },
    /// Intents over HTTP, as OpenIntent's client drives them: made, suspended, answered, completed; and many that depend on one
    Openintent {
        /// Intents that depend on one
        #[arg(long, default_value_t = 100_000)]
        intents: usize,
        /// Clients at once
        #[arg(long, default_value_t = 16)]
        concurrency: usize,
    },
    /// Roundtrips over HTTP: start, step, interrupt, answer, step, end; then the same among parked runs
    Roundtrip {
        /// Roundtrips at once
        #[arg(long, default_value_t = 64)]
        concurrency: usize,
        /// Roundtrips in all
        #[arg(long, default_value_t = 20_000)]
        roundtrips: usize,
        /// Runs to park at an interrupt; 0 leaves that part out
        #[arg(long, default_value_t = 100_000)]
        parked: usize,
        /// Bytes of data in each parked run
        #[arg(long, default_value_t = 1024)]
        payload: usize,
    },
    /// Ladders: many questions whose next attempt falls in the same minute, and those who work meanwhile
    Ladder {
        /// Questions that wait
        #[arg(long, default_value_t = 100_000)]
        parked: usize,
        /// Questions asked at once
        #[arg(long, default_value_t = 64)]
        concurrency: usize,
    },
    /// Workers: durable steps and roundtrips through one over HTTP, and how soon an idle one has a task
    Worker {
        /// Tasks at once
        #[arg(long, default_value_t = 64)]
        concurrency: usize,
        /// Tasks in all
        #[arg(long, default_value_t = 2_000)]
        tasks: usize,
        /// Steps in each task
        #[arg(long, default_value_t = 50)]
        steps: usize,
        /// An interpreter that has the package `abide`: the same with workers in Python
        #[arg(long, value_name = "PATH")]
        python: Option<PathBuf>,
        /// Workers in Python
        #[arg(long, default_value_t = 2)]
        processes: usize,
    },
    /// Runs under way when the server is killed: how soon it serves, how soon they go on, and how many at once
    Resume {
        /// Runs in a request
        #[arg(long, default_value_t = 2_000)]
        runs: usize,
    },
    /// Turns whose provider is away: what they cost while they wait, and how they come back
    Turns {
        /// Runs with one turn each
        #[arg(long, default_value_t = 2_000)]
        runs: usize,
        /// How many seconds the provider stays away once all wait for it
        #[arg(long, default_value_t = 30)]
        outage: u64,
    },
    /// Servers that share a PostgreSQL database: roundtrips through one and through several, beside pgbench
    Cluster {
        /// An empty database for the bench: postgres://user:password@host/database
        #[arg(long, env = "ABIDE_STORE", hide_env_values = true, value_name = "URL")]
        store: String,
        /// How many servers, one measurement for each number
        #[arg(long, value_delimiter = ',', default_value = "1,3")]
        servers: Vec<usize>,
        /// Roundtrips at once
        #[arg(long, default_value_t = 64)]
        concurrency: usize,
        /// Roundtrips in all, for each number of servers
        #[arg(long, default_value_t = 10_000)]
        roundtrips: usize,
        /// PostgreSQL's own pgbench; psql has to be beside it
        #[arg(long, default_value = "pgbench", value_name = "PATH")]
        pgbench: String,
        /// For how long pgbench measures
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Parked runs: memory, disk, waking one, and starting after a kill
    Parked {
        /// Runs to park
        #[arg(long, default_value_t = 100_000)]
        runs: usize,
        /// Bytes of input in each
        #[arg(long, default_value_t = 0)]
        payload: usize,
    },
}
