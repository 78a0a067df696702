//! What workflows, nodes and kinds may be called.

use super::{GATES, KINDS};
use crate::fields::nearest;
use crate::limits;

/// The kind that an unknown one is probably meant to be. Kinds that nobody here provides are no mistake: they may be
/// a worker's.
pub(super) fn nearest_kind(type_id: &str) -> Option<&'static str> {
    let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).chain(GATES.iter().copied()).collect();
    if known.contains(&type_id) {
        return None;
    }
    nearest(type_id, &known, 2)
}

pub(super) fn is_workflow_id(id: &str) -> bool {
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let fits = id.len() <= limits::WORKFLOW_ID_CHARS_MAX;
    fits && id.starts_with(|c: char| c.is_ascii_lowercase()) && id.chars().all(rest)
}

pub(super) fn is_node_id(id: &str) -> bool {
    !id.is_empty() && id.chars().count() <= limits::NODE_ID_CHARS_MAX && !id.contains(char::is_control)
}

pub(super) fn is_type_id(id: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    id.len() <= 256 && id.starts_with(|c: char| c.is_ascii_lowercase()) && id.chars().all(rest)
}
