//! The payloads of what happens to nodes that are done by hand.

use serde::{Deserialize, Serialize};

use crate::JsonMap;

/// Somebody has the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeClaimed {
    /// Who.
    pub agent: String,
    /// What goes in.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub inputs: JsonMap,
    /// What goes in is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// Nobody has the node any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeReleased {
    /// Who had it.
    pub agent: String,
    /// Why, if they did not give it back themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Somebody wanted the node who can't have it yet: they get it when whoever is before it is through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimDeferred {
    /// Who.
    pub agent: String,
}
