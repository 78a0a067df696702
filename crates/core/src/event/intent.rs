//! The payloads of what happens to an intent beside what happens to its run.

use serde::{Deserialize, Serialize};

use super::types::*;
use super::{EventType, read};
use crate::intent::{Access, Policy};
use crate::{Json, Millis};

/// What is done to the state of an intent, or to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchOp {
    /// The value takes the place of what stood there.
    Set,
    /// The value goes behind what stands in the list there.
    Append,
    /// Nothing stands there any more.
    Remove,
}

/// One change of the state of an intent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    /// What is done.
    pub op: PatchOp,
    /// Where: keys with slashes between.
    pub path: String,
    /// What with.
    #[serde(default, deserialize_with = "crate::json::given", skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
}

/// The state of an intent was changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IntentPatched {
    /// How, one after the other.
    pub patches: Vec<Patch>,
    /// Who did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Somebody has a part of an intent to themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaseTaken {
    /// What the lease is known by.
    pub id: String,
    /// Which part.
    pub scope: String,
    /// Who.
    pub agent: String,
    /// Until when, unless it is renewed.
    pub expires_at: Millis,
}

/// What happened to an intent beside its state.
#[derive(Clone, Debug, PartialEq)]
pub enum IntentChanged {
    /// An agent is to work on it.
    Assigned {
        /// Who.
        agent: String,
        /// As what.
        role: String,
    },
    /// An agent is not to work on it any more.
    Unassigned {
        /// Who.
        agent: String,
    },
    /// Somebody has a part of it to themselves.
    Leased(LeaseTaken),
    /// They have it for longer.
    LeaseRenewed {
        /// Which lease.
        id: String,
        /// Until when.
        expires_at: Millis,
    },
    /// They have it no more.
    LeaseReleased {
        /// Which lease.
        id: String,
    },
    /// What has to be kept to by those who work on it; nothing, if nothing has to be.
    PolicySet(Option<Box<Policy>>),
    /// Who may see it and work on it.
    AccessSet(Box<Access>),
    /// Somebody sends it somewhere else; what follows says that it is there.
    Sent {
        /// Where, in OpenIntent's words.
        to: String,
        /// Why.
        reason: Option<String>,
    },
}

/// What is common to all of them, as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseTaken>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<Box<Policy>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    access: Option<Box<Access>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// Something happened to an intent beside its state.
#[derive(Clone, Debug, PartialEq)]
pub struct IntentEvent {
    /// What.
    pub change: IntentChanged,
    /// Who did it.
    pub by: Option<String>,
}

impl IntentEvent {
    pub(crate) const TYPES: &'static [EventType] = &[
        INTENT_ASSIGNED,
        INTENT_UNASSIGNED,
        INTENT_LEASED,
        INTENT_LEASE_RENEWED,
        INTENT_LEASE_RELEASED,
        INTENT_POLICY_SET,
        INTENT_ACCESS_SET,
        INTENT_SENT,
    ];

    pub(crate) fn event_type(&self) -> EventType {
        match self.change {
            IntentChanged::Assigned { .. } => INTENT_ASSIGNED,
            IntentChanged::Unassigned { .. } => INTENT_UNASSIGNED,
            IntentChanged::Leased(_) => INTENT_LEASED,
            IntentChanged::LeaseRenewed { .. } => INTENT_LEASE_RENEWED,
            IntentChanged::LeaseReleased { .. } => INTENT_LEASE_RELEASED,
            IntentChanged::PolicySet(_) => INTENT_POLICY_SET,
            IntentChanged::AccessSet(_) => INTENT_ACCESS_SET,
            IntentChanged::Sent { .. } => INTENT_SENT,
        }
    }

    pub(crate) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let by = self.by.clone();
        let written = match self.change.clone() {
            IntentChanged::Assigned { agent, role } => {
                Written { agent: Some(agent), role: Some(role), by, ..Written::default() }
            }
            IntentChanged::Unassigned { agent } => Written { agent: Some(agent), by, ..Written::default() },
            IntentChanged::Leased(lease) => Written { lease: Some(lease), by, ..Written::default() },
            IntentChanged::LeaseRenewed { id, expires_at } => {
                Written { id: Some(id), expires_at: Some(expires_at), by, ..Written::default() }
            }
            IntentChanged::LeaseReleased { id } => Written { id: Some(id), by, ..Written::default() },
            IntentChanged::PolicySet(policy) => Written { policy, by, ..Written::default() },
            IntentChanged::AccessSet(access) => Written { access: Some(access), by, ..Written::default() },
            IntentChanged::Sent { to, reason } => Written { to: Some(to), reason, by, ..Written::default() },
        };
        serde_json::to_vec(&written)
    }

    pub(crate) fn decode(kind: EventType, payload: &[u8]) -> Result<Self, String> {
        let written: Written = read(kind, payload)?;
        let lacks = |what: &str| format!("the payload of {} lacks '{what}'", kind.name);
        let change = match kind {
            INTENT_ASSIGNED => IntentChanged::Assigned {
                agent: written.agent.ok_or_else(|| lacks("agent"))?,
                role: written.role.ok_or_else(|| lacks("role"))?,
            },
            INTENT_UNASSIGNED => {
                IntentChanged::Unassigned { agent: written.agent.ok_or_else(|| lacks("agent"))? }
            }
            INTENT_LEASED => IntentChanged::Leased(written.lease.ok_or_else(|| lacks("lease"))?),
            INTENT_LEASE_RENEWED => IntentChanged::LeaseRenewed {
                id: written.id.ok_or_else(|| lacks("id"))?,
                expires_at: written.expires_at.ok_or_else(|| lacks("expiresAt"))?,
            },
            INTENT_LEASE_RELEASED => {
                IntentChanged::LeaseReleased { id: written.id.ok_or_else(|| lacks("id"))? }
            }
            INTENT_POLICY_SET => IntentChanged::PolicySet(written.policy),
            INTENT_ACCESS_SET => IntentChanged::AccessSet(written.access.ok_or_else(|| lacks("access"))?),
            INTENT_SENT => {
                IntentChanged::Sent { to: written.to.ok_or_else(|| lacks("to"))?, reason: written.reason }
            }
            other => return Err(format!("{} is no event of an intent", other.name)),
        };
        Ok(Self { change, by: written.by })
    }
}
