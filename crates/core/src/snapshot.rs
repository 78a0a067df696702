//! The folded state as bytes, so that waking a run need not fold its whole journal.
//!
//! A snapshot is a cache. One that was damaged or that another version wrote is ignored, and the journal folded
//! instead: its checksum tells the one, its version the other.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::journal::{Head, Salt, hex, sha256};
use crate::run::State;
use crate::{Graph, Key, Run};

/// Raised whenever the shape of the state changes.
const VERSION: u32 = 10;

/// What lies on disk: a checksum beside the text that it is of.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    sha256: String,
    #[serde(borrow)]
    run: &'a RawValue,
}

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
        let run = serde_json::value::to_raw_value(&written).expect("a state is plain data, which serialises");
        let sealed = Sealed { sha256: checksum(&run), run: &run };
        serde_json::to_vec(&sealed).expect("text and its checksum serialise")
    }

    /// Whether a snapshot is as it was written, by whichever version.
    pub fn is_intact(snapshot: &[u8]) -> bool {
        unseal(snapshot).is_some()
    }

    /// The run a snapshot was taken of, or `None` if it was damaged or this version can't read it.
    pub fn from_snapshot(key: Key, salt: Salt, graph: Arc<Graph>, bytes: &[u8]) -> Option<Self> {
        let read: Read = serde_json::from_str(unseal(bytes)?.get()).ok()?;
        let graph = graph.for_reading(read.state.reading);
        let fits = read.version == VERSION
            && read.state.nodes.len() == graph.len()
            && read.state.loops.len() == graph.loops.len();
        fits.then_some(Self { key, salt, graph, head: read.head, state: read.state })
    }
}

fn unseal(bytes: &[u8]) -> Option<&RawValue> {
    let sealed: Sealed<'_> = serde_json::from_slice(bytes).ok()?;
    (checksum(sealed.run) == sealed.sha256).then_some(sealed.run)
}

fn checksum(run: &RawValue) -> String {
    hex(&sha256(run.get().as_bytes()))
}
