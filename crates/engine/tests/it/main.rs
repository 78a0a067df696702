//! The engine on real stores, with an injected clock and, here and there, an injected fault.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

mod answers;
mod asked;
mod callbacks;
mod children;
mod clocks;
mod crowds;
mod damaged;
mod decisions;
mod dice;
mod external;
mod forks;
mod held;
mod house;
mod http;
mod large;
mod messages;
mod models;
mod moves;
mod notices;
mod parked;
mod peer;
mod receipts;
mod requests;
mod servers;
mod societies;
mod support;
mod tapped;
mod versions;
mod webhooks;
mod workers;
