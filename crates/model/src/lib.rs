//! Talks to model providers: what is sent, what comes back, and how it fails.
//!
//! | noun | file | what it is |
//! |---|---|---|
//! | [`Providers`], [`Provider`] | `providers.rs`, `config.rs` | what the operator says of them in `abide.toml` |
//! | [`Endpoint`] | `endpoint.rs` | where a provider is, and how long it is waited for |
//! | [`Client`], [`Sink`] | `client.rs` | makes one call, hands out what is said as it comes, and says how it ended |
//! | [`ProviderEvents`] | `events.rs` | one answer as it comes in |
//! | [`ProviderEvent`] | `event.rs` | one thing that a provider says |
//! | `anthropic`, `openai` | `anthropic/`, `openai/` | the two protocols: a body to send, and events to read |
//! | [`Sse`] | `sse.rs` | server-sent events, from bytes that are split anywhere |
//! | `Fold`, `Gather` | `fold.rs`, `gather.rs` | pieces put together into an answer, and into chunks |
//! | judge, network | `judge.rs`, `network.rs` | which errors could pass, and what is told of them |
//! | `Redact` | `redact.rs` | takes secrets out of errors, and cuts them |
//! | [`scripted`] | `scripted.rs` | a provider on loopback that plays a script, for tests and benches |
//!
//! It does not retry, wait or keep anything: whether another call is made, and when, is decided by the turn.

mod anthropic;
mod client;
mod config;
mod endpoint;
mod event;
mod events;
mod fold;
mod gather;
mod judge;
pub mod limits;
mod network;
mod openai;
mod providers;
mod redact;
mod retry_after;
pub mod scripted;
mod span;
mod sse;

pub use client::{Client, Clients, Sink, Stopped, Unavailable};
pub use config::{BreakerConfig, PriceConfig, ProviderConfig, ScheduleConfig, Usd};
pub use endpoint::{Endpoint, Protocol, Timeouts};
pub use event::{ProviderError, ProviderEvent, ReasoningPiece, Thrown, ToolPiece};
pub use events::ProviderEvents;
pub use gather::Chunk;
pub use providers::{ConfigError, Provider, Providers};
pub use span::Span;
pub use sse::{Sse, SseEvent, TooLong};
