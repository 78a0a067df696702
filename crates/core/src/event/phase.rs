//! The payloads of what is told of a phase while the run that does it goes on.

use serde::{Deserialize, Serialize};

use crate::{Millis, RunId};

/// The run that does the phase waits for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PhaseBlocked {
    /// That run.
    pub suspended_intent_id: RunId,
    /// Why the phase is blocked: always `intent_suspended`.
    pub blocked_reason: String,
    /// Until when it waits, if there is an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

/// The run that does the phase goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseUnblocked {}
