//! What goes into an intent and what has to come out, where its state says so: OpenIntent's clients write the wiring of a
//! workflow's phases into the states of the intents that they make of it.

use crate::fields::Findings;
use crate::graph::Work;
use crate::hand::{HandWork, wiring_of};
use crate::{JsonMap, NodeIx, Run};

/// Where the wiring stands in a state.
const INPUTS: &str = "_io_inputs";
const OUTPUTS: &str = "_io_outputs";
const TYPES: &str = "_io_types";

/// The names that upstreams have, by their titles.
const UPSTREAM_NAMES: &str = "_io_dep_title_to_name";

impl Run {
    /// What a node that is done by hand takes in and gives out.
    pub(crate) fn hand_work(&self, ix: NodeIx) -> Option<HandWork> {
        let Work::ByHand(work) = &self.graph.at(ix).work else { return None };
        let own = !work.inputs.is_empty() || !work.outputs.is_empty();
        if own || Some(ix) != self.driven_node() {
            return Some(HandWork::clone(work));
        }
        let state = self.intent_state();
        let object = |key: &str| state.get(key).and_then(|value| value.parse::<JsonMap>().ok());
        let (inputs, outputs) = (object(INPUTS), object(OUTPUTS));
        if inputs.is_none() && outputs.is_none() {
            return Some(HandWork::clone(work));
        }
        // What makes no sense asks for nothing: nobody checked it when it was written.
        let mut findings = Findings::default();
        let types = object(TYPES).unwrap_or_default();
        let outputs = crate::openintent::typed_outputs(types, &outputs.unwrap_or_default(), &mut findings);
        Some(wiring_of(work.assign.clone(), inputs.unwrap_or_default(), outputs))
    }

    /// What those are called here that it waits for, by their titles.
    pub fn upstream_names(state: &JsonMap) -> std::collections::BTreeMap<String, String> {
        state.get(UPSTREAM_NAMES).and_then(|names| names.parse().ok()).unwrap_or_default()
    }
}
