//! End to end: the real binary, real HTTP, a data directory and a port of its own for each test.

#![expect(clippy::unwrap_used, reason = "the helpers are part of the tests, which clippy can't tell")]

mod browser;
mod cli;
mod cluster;
mod crash;
mod examples;
mod golden;
mod http;
mod left_out;
mod outage;
mod pages;
mod receiver;
mod resume;
mod shared;
mod stream;
mod support;
mod turns;
mod verify;
mod workers;
