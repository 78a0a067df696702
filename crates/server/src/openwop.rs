//! OpenWOP v1: runs and their events in its words.

pub(crate) mod events;
pub(crate) mod runs;
mod snapshot;
