//! The folded state as bytes, so that waking a run need not fold its whole journal.
//!
//! A snapshot is a cache. One that another version wrote is ignored and the journal folded instead.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::journal::{Head, Salt};
use crate::run::State;
use crate::{Graph, Key, Run};

/// Raised whenever the shape of the state changes.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    head: Head,
    state: &'a State,
}

#[derive(Deserialize)]
struct Read {
    version: u32,
    head: Head,
    state: State,
}

impl Run {
    /// The snapshot of this run as it is now.
    pub fn snapshot(&self) -> Vec<u8> {
        let written = Written { version: VERSION, head: self.head, state: &self.state };
        serde_json::to_vec(&written).expect("a state is plain data, which serialises")
    }

    /// The run a snapshot was taken of, or `None` if this version can't read it.
    pub fn from_snapshot(key: Key, salt: Salt, graph: Arc<Graph>, bytes: &[u8]) -> Option<Self> {
        let read: Read = serde_json::from_slice(bytes).ok()?;
        let fits = read.version == VERSION && read.state.nodes.len() == graph.len();
        fits.then_some(Self { key, salt, graph, head: read.head, state: read.state })
    }
}
