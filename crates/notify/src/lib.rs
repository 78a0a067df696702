//! Reaches people: the channels that an operator configured, what is told on them, and sending it.
//!
//! | noun | file | what it does |
//! |---|---|---|
//! | [`ChannelsConfig`] | `config.rs`, `secret.rs` | the settings as they stand in a file |
//! | [`Channels`] | `channels.rs`, `build.rs` | the settings, checked: which channels there are and what they are like |
//! | [`Message`] | `message.rs`, `wording.rs` | what somebody is told, and in which words |
//! | `Redacted` | `redact.rs`, `personal.rs` | a message without what must not leave; nothing else is composed |
//! | compose | `compose/` | a message in the form of a channel: pure functions |
//! | send | `send/` | one attempt to send, and how it ended |
//!
//! It keeps nothing and knows neither runs nor times: when to tell whom, how often to try, and what was sent before is
//! the engine's to know. An operator's channels may lead anywhere, so no policy for addresses holds here; whoever
//! writes a workflow chooses among channels by name and can't make one.

mod address;
mod allowance;
mod build;
mod channels;
mod compose;
mod config;
pub mod limits;
mod message;
mod personal;
mod redact;
mod secret;
mod send;
mod text;
mod wording;

pub use allowance::Allowance;
pub use build::ConfigError;
pub use channels::{ChannelKind, Channels, Resolved};
pub use config::{ChannelConfig, ChannelsConfig, NotifyConfig};
pub use message::{About, Choice, Message, Outcome, Purpose, Recipient};
pub use secret::Secret;
pub use send::{Failure, Receipt};
