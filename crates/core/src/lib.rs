//! The pure core of Abide: what a run is, and what may happen to it.
//!
//! Nothing in this crate reads a clock, draws a random number, opens a file or awaits anything. The shell
//! hands in the time and the randomness, [`Run::decide`] answers with events and effects or with a typed
//! rejection, and [`Run::apply`] folds one event. The same `apply` runs live, in recovery and in `abide
//! verify`, so a journal has one meaning.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Run`] | `run.rs` | the folded state of one run, and `apply` |
//! | [`Lifecycle`], [`Hold`] | `lifecycle.rs` | where a run stands, as one table |
//! | [`NodePhase`] | `node.rs` | where a node stands, as one table |
//! | [`Command`] | `command.rs` and `command/` | what may be asked of a run, one file each |
//! | [`Event`] | `event.rs` | what has happened, and how it is encoded |
//! | [`Record`], [`Head`] | `journal.rs` | an event with its envelope, chained to the one before |
//! | [`Effect`] | `effect.rs` | what the shell must do once the events are durable |
//! | [`Graph`] | `graph.rs`, `definition.rs` | a workflow definition, checked and indexed |
//! | [`Expression`] | `expression.rs` and `expression/` | CEL over the values of a run, at a bounded cost |
//! | [`Template`], [`JsonTemplate`] | `template.rs` | text and JSON with expressions and secrets in it |

mod advance;
mod command;
mod definition;
mod effect;
mod error_code;
mod event;
mod expression;
mod graph;
mod id;
mod journal;
mod json;
mod lifecycle;
pub mod limits;
mod node;
mod object;
mod ports;
mod rejection;
mod run;
mod snapshot;
mod summary;
mod template;

pub use command::{Command, Report, Start, Step};
pub use definition::{Definition, Problem};
pub use effect::{Effect, Notice, TaskId, TimerId};
pub use error_code::{ErrorCode, error_codes};
pub use event::{ChildReported, Event, EventType, Failure, NodeEvent, Parent, RunEvent, event_types};
pub use expression::{Expression, Fault, Fuel, Scope};
pub use graph::{Graph, Kind, NodeIx};
pub use id::{EventId, Key, RunId, TenantId};
pub use journal::{Hash, Head, Payload, Record, Salt, hex, sha256};
pub use json::{Json, JsonMap};
pub use lifecycle::{Hold, Lifecycle};
pub use node::{Node, NodePhase};
pub use rejection::Rejection;
pub use run::{Corrupt, Run};
pub use summary::{Status, Summary};
pub use template::{JsonTemplate, Piece, Template};

/// Milliseconds since the Unix epoch, UTC. All time inside Abide is of this type.
pub type Millis = i64;
