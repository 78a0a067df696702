//! Channels that reach real receivers on loopback.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

mod http;
mod mail;
mod support;
