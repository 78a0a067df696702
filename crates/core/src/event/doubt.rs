//! The payloads of what agents decide, and of decisions that they are not sure of.

use serde::{Deserialize, Serialize};

use crate::{Json, JsonMap};

/// An agent has decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDecided {
    /// The agent.
    pub agent_id: String,
    /// What it decided.
    pub decision: Json,
    /// How sure it is, from 0 to 1, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// It said how sure it is in a way that means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faulty: Option<String>,
    /// What the decision is known by within the run.
    pub key: String,
    /// Which call of the node's execution this is, from 1.
    pub call: u32,
    /// The node gave no key, so this one is of its execution alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keyless: bool,
    /// It is not sure enough, so that somebody is asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalated: bool,
    /// The decision is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// How unsure an agent is whose decision waits for somebody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Doubt {
    /// The agent.
    pub agent_id: String,
    /// How sure it would have to be.
    pub threshold: f64,
    /// How sure it is.
    pub observed: f64,
}

/// A dispatch was given a decision that is too unsure to be carried out without asking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfidenceEscalated {
    /// How sure the supervisor is.
    pub confidence: f64,
    /// How sure it would have to be.
    pub floor: f64,
    /// The worker that would have started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// What it decided.
    pub original_decision: JsonMap,
}
