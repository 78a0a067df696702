//! The ids of the spans of runs.
//!
//! They follow from what the spans are of. So a child names its parent's span without asking, a request to another system
//! names the attempt that it is of, and whichever process sees the end of something knows its span.

use abide_core::{Run, RunId, TaskId, Trace, sha256};

/// The span of a run.
pub(super) fn of_run(run: RunId) -> [u8; 8] {
    derive(run, &[b"run"])
}

/// The span of one execution of a node.
pub(super) fn of_node(run: RunId, node: &str, execution: u32) -> [u8; 8] {
    derive(run, &[b"node", node.as_bytes(), &execution.to_be_bytes()])
}

/// The span of one attempt at an execution, by how many failed before it.
pub(super) fn of_try(run: RunId, node: &str, execution: u32, attempt: u32) -> [u8; 8] {
    derive(run, &[b"attempt", node.as_bytes(), &execution.to_be_bytes(), &attempt.to_be_bytes()])
}

/// The span of what began with this event.
pub(super) fn of_event(run: RunId, sequence: u64) -> [u8; 8] {
    derive(run, &[b"event", &sequence.to_be_bytes()])
}

/// The place of a task in the trace of its run, if that has one.
pub(crate) fn of_attempt(run: &Run, task: &TaskId) -> Option<Trace> {
    let attempt = run.graph().node(&task.node).map_or(0, |ix| run.node(ix).attempt);
    Some(run.trace()?.span(of_try(run.key().id, &task.node, task.execution, attempt)))
}

/// Each part has its length in front, so that no two lists look the same. An id of zeroes is none, so that one is left out.
fn derive(run: RunId, parts: &[&[u8]]) -> [u8; 8] {
    let mut seed = b"abide span".to_vec();
    seed.extend(run.as_bytes());
    for part in parts {
        seed.extend((part.len() as u64).to_be_bytes());
        seed.extend(*part);
    }
    let hash = sha256(&seed);
    let id = hash.first_chunk::<8>().copied().expect("a hash is longer than an id");
    if id == [0; 8] { [0xff; 8] } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_the_same_from_version_to_version() {
        let run = RunId::from_bytes([7; 16]);
        let written = [of_run(run), of_node(run, "ask", 1), of_try(run, "ask", 1, 0), of_event(run, 3)];
        let known = ["d240742c804ace6b", "6aa802e4849fb6e8", "a47a2dc1716a8831", "1e94fc3ee69f27d7"];
        assert_eq!(written.map(|id| abide_core::hex(&id)), known);
    }

    #[test]
    fn what_is_different_has_another_id() {
        let (one, other) = (RunId::from_bytes([7; 16]), RunId::from_bytes([8; 16]));
        let ids = [
            of_run(one),
            of_run(other),
            of_node(one, "a", 1),
            of_node(one, "a", 2),
            of_node(one, "b", 1),
            of_node(other, "a", 1),
            of_try(one, "a", 1, 0),
            of_try(one, "a", 1, 1),
            of_event(one, 1),
        ];
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(id), "{at}");
        }
    }
}
