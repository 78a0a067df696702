//! Workers of every SDK against the real server: what must hold whoever is killed when, and that what we ship installs.

mod home;
mod installed;
mod judge;
mod play;
mod runner;
mod scenario;
mod scenarios;
mod timers;
mod wire;

pub(crate) use home::sdk_home;
pub(crate) use runner::{PYTHON, Start, Worker};
pub(crate) use scenario::Scenario;
