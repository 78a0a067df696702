//! What the store promises: the contract that every engine keeps, and what SQLite makes of a cut power
//! line, a damaged file and many commits at once.
//!
//! | file | what it is |
//! |---|---|
//! | `suite/` | the contract of `Store`, run on every engine |
//! | `derived.rs` | every other table follows from the journals |
//! | `alike.rs` | the same commits have the same outcome on every engine |
//! | `several.rs` | several servers on one database: races, roles, hints, claims |
//! | `outages.rs` | a database that is lost, killed, slow to answer, or answers nothing |
//! | `power_loss.rs` | what was acknowledged survives, and nothing is half there |
//! | `damaged.rs`, `flipped.rs` | data that can't be trusted is refused, with a way out |
//! | `unreadable.rs` | a row that can't be read holds up no other |
//! | `group_commit.rs` | what commits cost, counted in syncs |
//! | `erased.rs` | what was erased is gone from the files |
//! | `sealed.rs` | what is never shown is in no file in clear |
//! | `migrated.rs` | data of an earlier version is brought up to date |
//! | `sql_prompt.rs` | what a person with a SQL prompt sees |
//! | `data_dir.rs`, `engine.rs`, `live.rs`, `workflow.rs`, `world.rs`, `society.rs` | the words the tests are written in |
#![expect(clippy::unwrap_used, reason = "the helpers are part of the tests, which clippy can't tell")]

mod alike;
mod damaged;
mod data_dir;
mod derived;
mod engine;
mod erased;
mod flipped;
mod group_commit;
mod live;
mod migrated;
mod outages;
mod power_loss;
mod sealed;
mod several;
mod society;
mod sql_prompt;
mod suite;
mod unreadable;
mod workflow;
mod world;
