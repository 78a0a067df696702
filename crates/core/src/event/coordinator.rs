//! The payloads of what becomes of the leases of those who coordinate a run.

use serde::{Deserialize, Serialize};

use super::types::*;
use super::{EventType, read};
use crate::coordinator::SuspensionPolicy;
use crate::{InterruptId, Json, Millis, RunId};

/// Something happened to a lease, or because of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CoordinatorChanged {
    /// Which lease.
    pub coordinator: String,
    /// What.
    pub change: CoordinatorChange,
}

impl CoordinatorChanged {
    /// Every type that such an event may have.
    pub(super) const TYPES: [EventType; 12] = [
        COORDINATOR_REGISTERED,
        COORDINATOR_HEARTBEAT,
        COORDINATOR_POLICY_SET,
        COORDINATOR_PAUSED,
        COORDINATOR_RESUMED,
        COORDINATOR_UNRESPONSIVE,
        COORDINATOR_FAILED_OVER,
        COORDINATOR_REPLACED,
        COORDINATOR_COMPLETED,
        COORDINATOR_ESCALATION,
        COORDINATOR_BLOCKED,
        COORDINATOR_UNBLOCKED,
    ];

    pub(super) fn event_type(&self) -> EventType {
        match &self.change {
            CoordinatorChange::Registered(_) => COORDINATOR_REGISTERED,
            CoordinatorChange::Heartbeat {} => COORDINATOR_HEARTBEAT,
            CoordinatorChange::PolicySet(_) => COORDINATOR_POLICY_SET,
            CoordinatorChange::Paused(_) => COORDINATOR_PAUSED,
            CoordinatorChange::Resumed {} => COORDINATOR_RESUMED,
            CoordinatorChange::Unresponsive {} => COORDINATOR_UNRESPONSIVE,
            CoordinatorChange::FailedOver(_) => COORDINATOR_FAILED_OVER,
            CoordinatorChange::Replaced(_) => COORDINATOR_REPLACED,
            CoordinatorChange::Completed {} => COORDINATOR_COMPLETED,
            CoordinatorChange::EscalationRequired(_) => COORDINATOR_ESCALATION,
            CoordinatorChange::DependentsBlocked(_) => COORDINATOR_BLOCKED,
            CoordinatorChange::DependentsUnblocked(_) => COORDINATOR_UNBLOCKED,
        }
    }

    /// Reads an event back. What it says must be what its type says.
    pub(super) fn decode(kind: EventType, payload: &[u8]) -> Result<Box<Self>, String> {
        let changed: Box<Self> = read(kind, payload)?;
        match changed.event_type() {
            own if own == kind => Ok(changed),
            own => Err(format!("the payload of {} is one of {}", kind.name, own.name)),
        }
    }
}

/// What may happen to a lease, or because of it. The name is the end of the event's type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorChange {
    /// Somebody coordinates the run.
    Registered(CoordinatorRegistered),
    /// They are there.
    Heartbeat {},
    /// They want something else done about what is suspended.
    PolicySet(PolicySet),
    /// They do nothing for now, and need not be heard from.
    Paused(CoordinatorPaused),
    /// They are there again.
    Resumed {},
    /// They have not been heard from.
    Unresponsive {},
    /// They are given up.
    FailedOver(FailedOver),
    /// Somebody takes their place.
    Replaced(Replaced),
    /// They are done.
    Completed {},
    /// Something that they coordinate waits for people, and somebody is to look at that.
    EscalationRequired(EscalationRequired),
    /// The phases after one that waits for people are held back.
    DependentsBlocked(DependentsBlocked),
    /// They are not any more.
    DependentsUnblocked(DependentsUnblocked),
}

/// Somebody coordinates the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CoordinatorRegistered {
    /// Who.
    pub agent: String,
    /// Who is to look after it if they are not heard from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<String>,
    /// What is done about what is suspended.
    pub suspension_policy: SuspensionPolicy,
    /// How often they say that they are there.
    pub heartbeat_interval_ms: Millis,
    /// Until when at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// The caller's own data, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// Something else is done about what is suspended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicySet {
    /// What.
    pub suspension_policy: SuspensionPolicy,
}

/// A coordinator does nothing for now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CoordinatorPaused {
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A coordinator is given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailedOver {
    /// `heartbeat` if they were not heard from, `expired` if the lease has ended.
    pub reason: String,
    /// Who is to look after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<String>,
}

/// Somebody takes a coordinator's place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replaced {
    /// Who.
    pub agent: String,
    /// Whose.
    pub was: String,
    /// What the lease is called from now on: the old name is of no use any more.
    pub lease: String,
}

/// Something that is coordinated waits for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EscalationRequired {
    /// The run that waits.
    pub suspended_intent_id: RunId,
    /// The phase that it does, if it does one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_name: Option<String>,
    /// Since when.
    pub suspended_since: Millis,
    /// Until when, if there is an end.
    pub expires_at: Option<Millis>,
    /// What people are asked about it. It is missing if the run asks too much already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_id: Option<InterruptId>,
}

/// The phases after one that waits for people are held back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependentsBlocked {
    /// The phase that waits.
    pub phase_name: String,
    /// The run that does it.
    pub suspended_intent_id: RunId,
    /// The phases after it.
    pub phases: Vec<String>,
}

/// Phases are not held back any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependentsUnblocked {
    /// The phase that they were held back for.
    pub phase_name: String,
    /// Those that nothing else holds back.
    pub phases: Vec<String>,
}
