//! Why a node or a run failed.

use serde::{Deserialize, Serialize};

use crate::Json;

/// Why a node or a run failed: a stable code and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Stable, for programs.
    pub code: String,
    /// For people: what happened and what to change.
    pub message: String,
    /// Anything more, as an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
}

impl Failure {
    /// A failure without details.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), details: None }
    }
}
