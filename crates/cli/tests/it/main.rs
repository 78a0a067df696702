//! End to end: the real binary, real HTTP, a data directory and a port of its own for each test.

mod cli;
mod crash;
mod http;
mod support;
mod verify;
