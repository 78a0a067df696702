//! A run's snapshot that is too large for a bundle: its largest values go, until it fits.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::gather::RunLine;
use super::redact::{Found, Reason};
use crate::error::{ApiError, Result};
use crate::limits;
use crate::openwop::bundle::answers::pointer;

/// A value of at most this size stays, whatever else is too large.
const SMALL_BYTES: usize = 1024;

type Fields = BTreeMap<String, Box<RawValue>>;

/// The text of a run's snapshot, or as much of it as there is room for.
pub(super) fn run(text: String, line: &RunLine, found: &mut Found) -> Result<String> {
    fit(text, line, limits::BUNDLE_RUN_BYTES_MAX, found).map_err(|error| ApiError::internal(&error))
}

fn fit(text: String, line: &RunLine, bytes_max: usize, found: &mut Found) -> serde_json::Result<String> {
    if text.len() <= bytes_max {
        return Ok(text);
    }
    let mut run: Fields = serde_json::from_str(&text)?;
    if let Some(states) = run.get_mut("nodeStates") {
        *states = without_outputs(states, found)?;
    }
    for name in ["inputs", "variables", "channels"] {
        if let Some(values) = run.get_mut(name) {
            *values = without_large(&format!("/run/{name}"), values, found)?;
        }
    }
    for name in ["metadata", "configurable", "interrupt", "interrupts", "error"] {
        if run.get(name).is_some_and(|value| value.get().len() > 16 * SMALL_BYTES) {
            run.remove(name);
            found.note(&format!("/run/{name}"), Reason::Size);
        }
    }
    let text = serde_json::to_string(&run)?;
    if text.len() <= bytes_max {
        return Ok(text);
    }
    found.note("/run", Reason::Size);
    serde_json::to_string(line)
}

/// The states of nodes without what they made, if that is large.
fn without_outputs(states: &RawValue, found: &mut Found) -> serde_json::Result<Box<RawValue>> {
    let mut states: BTreeMap<String, Fields> = serde_json::from_str(states.get())?;
    for (node, state) in &mut states {
        if state.get("outputs").is_some_and(|outputs| outputs.get().len() > SMALL_BYTES) {
            state.remove("outputs");
            found.note(&format!("/run/nodeStates/{}/outputs", pointer(node)), Reason::Size);
        }
    }
    serde_json::value::to_raw_value(&states)
}

/// Values under their names, with a word in the place of those that are large.
fn without_large(path: &str, values: &RawValue, found: &mut Found) -> serde_json::Result<Box<RawValue>> {
    let mut values: Fields = serde_json::from_str(values.get())?;
    for (name, value) in &mut values {
        let bytes = value.get().len();
        if bytes > SMALL_BYTES {
            *value = serde_json::value::to_raw_value(&format!("[{bytes} bytes left out]"))?;
            found.note(&format!("{path}/{}", pointer(name)), Reason::Size);
        }
    }
    serde_json::value::to_raw_value(&values)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fitted(run: &Value, bytes_max: usize) -> (Value, Vec<String>) {
        let line = RunLine::example();
        let mut found = Found::default();
        let text = fit(run.to_string(), &line, bytes_max, &mut found).unwrap();
        assert!(text.len() <= bytes_max, "{text}");
        (serde_json::from_str(&text).unwrap(), found.named.into_iter().map(|one| one.path).collect())
    }

    #[test]
    fn a_run_that_fits_stays_as_it_is() {
        let run = json!({ "runId": "r", "variables": { "a": "x".repeat(5000) } });
        assert_eq!(fitted(&run, 10_000), (run, vec![]));
    }

    #[test]
    fn the_largest_values_go_first_and_are_named() {
        let large = "x".repeat(5000);
        let run = json!({
            "runId": "r",
            "variables": { "a": large, "b": 1 },
            "nodeStates": { "one/two": { "status": "completed", "outputs": { "o": large } }, "two": { "outputs": [] } },
        });
        let (slim, gone) = fitted(&run, 2000);
        let left = json!({
            "runId": "r",
            "variables": { "a": "[5002 bytes left out]", "b": 1 },
            "nodeStates": { "one/two": { "status": "completed" }, "two": { "outputs": [] } },
        });
        assert_eq!(slim, left);
        assert_eq!(gone, ["/run/nodeStates/one~1two/outputs", "/run/variables/a"]);
    }

    #[test]
    fn a_run_of_too_many_nodes_is_a_line() {
        let states: BTreeMap<String, Value> =
            (0..1000).map(|n| (format!("node-{n}"), json!({ "status": "pending" }))).collect();
        let (slim, gone) = fitted(&json!({ "runId": "r", "nodeStates": states }), 2000);
        assert_eq!(slim["status"], "running");
        assert_eq!(gone, ["/run"]);
    }
}
