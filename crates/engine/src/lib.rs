//! The shell around the core: it carries out what the core decides.
//!
//! | noun | file | what it does |
//! |---|---|---|
//! | [`Engine`] | `engine.rs` | what servers and tools call |
//! | `Cell`, `Hot` | `hot.rs` | runs in memory, decided on ahead of the disk |
//! | `Shell` | `shell.rs` | decide, submit, and what follows once a commit is durable |
//! | confirm | `confirm.rs` | whether a run in memory is how it stands, when other servers may have moved it on |
//! | `Timers` | `timers.rs` | the near timers in memory, the rest on disk |
//! | `Executor` | `executor.rs` | tasks under a lease, executed in this process |
//! | peers | `peers.rs` | what other servers on the same store tell, and what is looked at in case that they did not |
//! | roles | `roles.rs` | what one server at a time does for all |
//! | [`NewFork`] | `fork.rs` | a run that begins with the journal of another one |
//! | past | `past.rs` | a run as it stood before some event |
//! | outbox | `outbox.rs` | messages between runs |
//! | `Graphs`, `Cache`, `Apart` | `graphs.rs`, `cache.rs`, `apart.rs` | definitions in memory, bounded, and read off the busy threads |
//! | annotations, [`Artifact`] | `annotations.rs`, `artifacts.rs` | what people say about a run, and what it made |
//! | inbox, [`Received`] | `inbox.rs`, `external.rs` | answers to what waits for one, and events that do |
//! | [`ProviderHealth`] | `breakers.rs` and `breakers/` | providers that fail are left alone, and whoever waits for them is woken |
//! | [`Secrets`] | `secrets.rs` | values for names, at the moment of use |
//! | [`HttpExecutor`] | `http.rs` and `http/` | one attempt at a request to another system |
//! | [`Envelopes`] | `webhooks.rs` | events to webhooks, in order and until they arrive |
//! | [`Minter`] | `callbacks.rs` | whoever started a run is told what waits for an answer |
//! | notices | `notices.rs` and `notices/` | people are told what waits for them, and what became of it |
//! | workers, [`Message`], [`Did`] | `workers.rs` and `workers/` | processes outside that do nodes' work |
//! | [`Purged`] | `retention.rs` | runs that have ended are removed, when asked for or when it is time |
//! | surroundings | `surroundings.rs` | what a run finds around it whenever it decides |
//! | [`trace`], [`Stats`] | `trace.rs` and `trace/`, `stats.rs` | what is told of the work: spans and counts |
//! | [`Clock`] | `clock.rs` | the only source of time |
//! | [`verify`] | `verify.rs` | folds every journal again and compares |

mod adopt;
mod annotations;
mod apart;
mod artifacts;
mod breakers;
mod cache;
mod callbacks;
mod clock;
mod confirm;
mod containers;
mod engine;
mod error;
mod executor;
mod external;
mod failpoint;
mod folded;
mod fork;
mod graphs;
mod hot;
mod http;
mod inbox;
pub mod limits;
mod models;
mod notices;
mod outbox;
mod past;
mod peers;
mod reply;
mod resume;
mod retention;
mod roles;
mod secrets;
mod shell;
mod soundness;
mod stats;
mod surroundings;
mod timers;
pub mod trace;
mod truncate;
pub mod verify;
mod watch;
mod webhooks;
mod workers;

pub use adopt::AskedChild;
pub use annotations::Annotated;
pub use artifacts::{Artifact, Content};
pub use breakers::ProviderHealth;
pub use callbacks::{Asked, CHANNEL_SUBJECT, Minted, Minter};
pub use clock::{Clock, StoreClock, SystemClock, TestClock};
pub use containers::NewMember;
pub use engine::{Engine, EngineOptions, NewRun};
pub use error::Error;
pub use external::Received;
pub use failpoint::{Failpoints, Window};
pub use fork::{ForkCounts, NewFork};
pub use http::{Allowed, HttpExecutor, HttpUnavailable, Net, NetPolicy};
pub use reply::Reply;
pub use resume::Resumption;
pub use retention::{PurgeOrder, PurgePlace, Purged};
pub use secrets::{Lookup, NoSecrets, Secrets};
pub use soundness::Soundness;
pub use stats::{CallEnd, Stats};
pub use truncate::Cut;
pub use watch::Subscription;
pub use webhooks::{Earlier, Enclosed, Envelope, Envelopes};
pub use workers::{
    ChildEnd, Did, Hands, History, Holder, Holding, Home, HookMessage, Letter, Message, NewSession, Op,
    OpFailure, Place, Post, SessionView, TaskMessage,
};
