//! Chat completions, as OpenAI and many others have them: a body to send, and events to read.

mod body;
mod read;

pub(crate) use body::body;
pub(crate) use read::Reader;
