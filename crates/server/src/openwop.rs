//! OpenWOP v1: workflows, runs and their events in its words.

pub(crate) mod annotations;
pub(crate) mod artifacts;
pub(crate) mod bundle;
pub(crate) mod control;
pub(crate) mod conversations;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod external_events;
pub(crate) mod forks;
pub(crate) mod holds;
pub(crate) mod interrupts;
pub(crate) mod mirror;
pub(crate) mod paging;
pub(crate) mod runs;
pub(crate) mod snapshot;
pub(crate) mod webhooks;
pub(crate) mod workflows;

use abide_core::mask;
