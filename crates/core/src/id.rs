//! Names of things: tenants, runs and events.
//!
//! Ids are made in the shell and only carried here; an event's id is derived from its run and sequence.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A tenant, as the small integer that starts every key on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantId(pub u32);

/// Which aggregate: its tenant first, so that nothing is ever looked up without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The tenant that owns the aggregate.
    pub tenant: TenantId,
    /// The aggregate's id, unique within the tenant.
    pub id: RunId,
}

/// A run's id, shown as `run-<uuid>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunId(pub Uuid);

impl RunId {
    /// The id as 16 bytes, the form it has in the store.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The run named by 16 bytes from the store.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// This run as a key of `tenant`.
    pub fn of(self, tenant: TenantId) -> Key {
        Key { tenant, id: self }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run-{}", self.0.hyphenated())
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix("run-").unwrap_or(text);
        Uuid::try_parse(bare)
            .map(Self)
            .map_err(|_| format!("'{text}' is not a run id; one looks like run-<uuid>"))
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// An event's id, derived from where it stands: `<uuid of the run>-<sequence>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    /// The run whose journal holds the event.
    pub run: RunId,
    /// The event's place in that journal.
    pub sequence: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.run.0.simple(), self.sequence)
    }
}

impl FromStr for EventId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('-').and_then(|(run, sequence)| {
            Some(Self { run: RunId(Uuid::try_parse(run).ok()?), sequence: sequence.parse().ok()? })
        });
        parsed.ok_or_else(|| format!("'{text}' is not an event id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_a_round_trip_through_text() {
        let run = RunId::from_bytes([7; 16]);
        assert_eq!(run.to_string().parse::<RunId>(), Ok(run));
        assert_eq!(run.0.to_string().parse::<RunId>(), Ok(run), "the bare uuid names the same run");
        let event = EventId { run, sequence: 42 };
        assert_eq!(event.to_string().parse::<EventId>(), Ok(event));
        assert!("run-nonsense".parse::<RunId>().is_err());
        assert!("nonsense".parse::<EventId>().is_err());
    }
}
