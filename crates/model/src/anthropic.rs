//! Messages, as Anthropic has them: a body to send, and events to read.

mod body;
mod read;

pub(crate) use body::body;
pub(crate) use read::Reader;

/// The version of the protocol that is spoken here, as its header says it.
pub(crate) const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
