//! The payload of a child that somebody has a run start.

use serde::{Deserialize, Serialize};

use super::DependsOn;
use crate::{JsonMap, RunId};

/// Somebody has the run start another one below a node that is done by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildAdded {
    /// The child's id.
    pub child: RunId,
    /// The node, which is not through before the child has completed.
    pub node: String,
    /// The workflow it runs.
    pub workflow_id: String,
    /// What goes in.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub inputs: JsonMap,
    /// Which of the inputs are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// The runs that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// It begins only when somebody says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
    /// Who says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
