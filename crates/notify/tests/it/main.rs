//! Channels that reach real receivers on loopback.

mod http;
mod mail;
mod support;
