//! The payloads of what can happen to a node.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Offered;
use crate::{Failure, Json, JsonMap, Millis, RunId, hex, sha256};

/// A node's execution began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeStarted {
    /// The node's kind.
    pub type_id: Arc<str>,
    /// Which execution this is, from 1.
    pub execution: u32,
    /// The node waits for this time and does nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// The node was handed to an executor, so its outcome is unknown until reported.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dispatched: bool,
    /// How many attempts failed before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// What the executor gets, if the node has ports: it must be the same however often it is executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<JsonMap>,
    /// Something that is never shown went in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// The node waits for a child.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_child: bool,
    /// The node was handed to workers, under these terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offered>,
    /// The node waits for somebody outside who does it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
}

/// A node's execution ended well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeCompleted {
    /// What it produced, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Json>,
    /// The edges that are not followed, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untaken: Vec<String>,
    /// Which outputs are never shown.
    #[serde(default, skip_serializing_if = "Mask::is_empty")]
    pub masked: Mask,
    /// The condition of an edge could not be evaluated, so the run is going to fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Failure>,
    /// The agent that did it, and whose key its worker has, where a gate bars them from deciding about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_by: Vec<String>,
}

/// Which values of an object are never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mask {
    /// All are shown.
    #[default]
    Nothing,
    /// None is.
    All,
    /// These are not.
    Keys(BTreeSet<String>),
}

impl Mask {
    fn is_empty(&self) -> bool {
        *self == Self::Nothing
    }

    /// Whether this key's value is never shown.
    pub fn hides(&self, key: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Keys(keys) => keys.contains(key),
        }
    }
}

/// A node's execution failed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFailed {
    /// Why.
    pub error: Failure,
    /// The edges that are not followed, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untaken: Vec<String>,
}

/// Nothing led to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSkipped {
    /// `disabled`, or `trigger-rule`.
    pub reason: String,
}

/// An attempt failed, and another one follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeRetried {
    /// How many attempts have failed now.
    pub attempt: u32,
    /// Why the last one failed.
    pub error: Failure,
    /// When the next one is due.
    pub until: Millis,
    /// The agent that takes over, because the one before it has failed as often as it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The next attempt may start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDue {
    /// Who did not want to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl NodeDue {
    /// Its time has come.
    pub fn in_time() -> Self {
        Self { by: None }
    }
}

/// A node asked for a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSpawned {
    /// The child's id.
    pub child: RunId,
    /// The workflow it runs.
    pub workflow_id: String,
    /// What goes in.
    #[serde(default, skip_serializing_if = "JsonMap::is_empty")]
    pub inputs: JsonMap,
    /// Which of the inputs are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// Variables that were passed on although they had no value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// The variables to hear at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub harvest: Vec<String>,
    /// Whether it is cancelled when its parent ends before it.
    pub cascade: bool,
    /// What a worker that asked for it knows it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The node waits for it from here on, and not from its start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// It is a child of the run that this one was forked off, and is not started again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

/// A node wrote to a channel. The value is what was written, not what the channel holds then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelWritten {
    /// Which channel.
    pub channel: String,
    /// What was written.
    pub value: Json,
    /// How it is folded in.
    pub reducer: String,
    /// How long an entry is kept, in a channel that the definition does not declare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<Millis>,
    /// The value is never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
}

/// A supervisor decided what is done next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decided {
    /// The decision, an object with a `kind`.
    pub decision: JsonMap,
}

/// What a node produced has a name. The event before it, the node's completion, holds the content: there is no second
/// copy of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactCreated {
    /// Its name within the run.
    pub artifact_id: String,
    /// What the definition says that it is.
    pub artifact_type: Arc<str>,
    /// The node that produced it.
    pub node_id: Arc<str>,
}

impl ArtifactCreated {
    /// Bytes of the hash that an artifact is named by.
    pub(crate) const ID_BYTES: usize = 16;

    /// What one execution of a node produced. The name follows from where it was produced, so it is the same whenever
    /// it is asked for, and it is safe in a path.
    pub(crate) fn of(run: RunId, node: &Arc<str>, execution: u32, artifact_type: &Arc<str>) -> Self {
        let mut seed = b"artifact".to_vec();
        seed.extend(run.as_bytes());
        seed.extend(execution.to_be_bytes());
        seed.extend(node.as_bytes());
        let artifact_id = format!("art-{}", hex(&sha256(&seed)[..Self::ID_BYTES]));
        Self { artifact_id, artifact_type: artifact_type.clone(), node_id: node.clone() }
    }
}

/// A node ended with its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeCancelled {}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
