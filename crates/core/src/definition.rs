//! A workflow definition as it is written: OpenWOP's closed schema.
//!
//! This file only knows the shape. Whether the parts fit together, and what this build can run, is checked
//! in `graph.rs`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::object::{Object, present};
use crate::{Json, JsonMap};

/// One thing wrong with a definition: where, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A path into the definition.
    pub place: String,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A workflow definition. Unknown keys are refused at every level that is ours to read.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the schema is closed: a key that may stand there has to be named")]
pub struct Definition {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) nodes: Vec<Object<NodeDefinition>>,
    pub(crate) edges: Vec<Object<EdgeDefinition>>,
    triggers: Vec<Json>,
    pub(crate) variables: Vec<Object<VariableDefinition>>,
    metadata: JsonMap,
    settings: JsonMap,
    description: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    is_active: Option<bool>,
    status: Option<String>,
    tenant_id: Option<String>,
    scope_id: Option<String>,
    slug: Option<String>,
    groups: Option<Json>,
    pub(crate) channels: Option<JsonMap>,
    pub(crate) configurable_schema: Option<Json>,
    defaults: Option<Json>,
    created_at: Option<Json>,
    updated_at: Option<Json>,
}

/// A node as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the schema is closed: a key that may stand there has to be named")]
pub(crate) struct NodeDefinition {
    pub(crate) id: String,
    pub(crate) type_id: String,
    name: String,
    position: Json,
    pub(crate) config: JsonMap,
    pub(crate) inputs: BTreeMap<String, Object<PortDefinition>>,
    pub(crate) credentials_ref: Option<Json>,
    #[serde(default)]
    pub(crate) settings: Object<NodeSettings>,
    output_role: Option<Json>,
    pub(crate) disabled: Option<bool>,
    notes: Option<Json>,
    group_id: Option<Json>,
    agent: Option<Json>,
    envelope_contract: Option<Json>,
    artifact_type: Option<Json>,
    card_type: Option<Json>,
    pub(crate) output_sensitivity: Option<Json>,
}

/// A node's settings: OpenWOP leaves them open, ours are closed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct NodeSettings {
    #[serde(default)]
    pub(crate) abide: Object<AbideSettings>,
}

/// What Abide itself reads from a node's settings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AbideSettings {
    /// The node's start is on disk before it runs, and its end before anything after it starts.
    #[serde(default)]
    pub(crate) durable: bool,
}

/// Where a node's input comes from: `type` says which of the other keys belong to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PortDefinition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) value: Option<Json>,
    pub(crate) expression: Option<String>,
    pub(crate) node_id: Option<String>,
    pub(crate) output_key: Option<String>,
    pub(crate) variable_name: Option<String>,
    pub(crate) optional: Option<bool>,
}

/// An edge as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the schema is closed: a key that may stand there has to be named")]
pub(crate) struct EdgeDefinition {
    pub(crate) id: String,
    pub(crate) source_node_id: String,
    pub(crate) target_node_id: String,
    source_output: Option<String>,
    target_input: Option<String>,
    label: Option<String>,
    pub(crate) trigger_rule: Option<String>,
    pub(crate) condition: Option<Json>,
}

/// A variable as it is declared.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the schema is closed: a key that may stand there has to be named")]
pub(crate) struct VariableDefinition {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) required: bool,
    pub(crate) default_value: Option<Json>,
    #[serde(default)]
    pub(crate) sensitive: bool,
    description: Option<String>,
    format: Option<String>,
}
