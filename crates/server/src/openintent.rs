//! OpenIntent over HTTP: the same runs, groups, tasks and questions in its words, as its public client speaks them.
//!
//! Nothing is decided here. An intent is a run, a portfolio a group, a task or a plan what was posted to a run, a suspension
//! a question. What says no is translated in one place (`envelope.rs`), for handlers and for all that stands before them.
//!
//! | what | where |
//! |---|---|
//! | how it says no | `envelope.rs` |
//! | who asks, which version they have seen, what they sent | `asking.rs` |
//! | ids and moments as its client reads them | `words.rs` |
//! | intents: made, seen, changed, sent elsewhere, answered | `intents.rs`, `view.rs`, `suspensions.rs` |
//! | who works on them: agents, leases, access, approvals | `agents.rs`, `leases.rs`, `access.rs`, `requests.rs` |
//! | what is kept beside them and decides nothing | `records.rs` |
//! | what happened, as a list and as a stream; what an agent is to work on | `events.rs`, `stream.rs` |
//! | what intents have to do with each other | `graph.rs`, `portfolios.rs` |
//! | what lies below one: tasks, plans, coordinators | `parts.rs`, `tasks.rs`, `plans.rs`, `coordinators.rs` |
//! | workflows, and how far they have come | `workflows.rs` |
//! | what is not built | `absent.rs` |
//! | what it can do here, told truthfully | `discovery.rs` |

mod absent;
mod access;
mod agents;
pub(crate) mod asking;
mod coordinators;
pub(crate) mod discovery;
pub(crate) mod envelope;
pub(crate) mod events;
mod graph;
pub(crate) mod intents;
mod leases;
mod parts;
mod plans;
mod portfolios;
mod records;
pub(crate) mod refused;
mod requests;
mod routes;
pub(crate) mod sent;
mod stream;
mod suspensions;
mod tasks;
pub(crate) mod view;
pub(crate) mod words;
mod workflows;

pub(crate) use absent::refusal;
pub(crate) use envelope::speak;
pub(crate) use routes::operations;
