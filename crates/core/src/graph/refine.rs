//! Gates that let people ask for something better: what is made again then, and which way leads there.
//!
//! A definition may say so itself, by an edge back whose condition asks for it. If it does not, an edge is implied that
//! leads from the gate to the node that made what is decided about; it is followed for a refinement and for nothing else.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::build::Builder;
use super::loops::{BadCycle, Loop};
use super::{Form, Gate, GraphEdge, GraphNode, NodeIx, Port, Work};
use crate::condition::Condition;
use crate::definition::NodeDefinition;
use crate::expression::{Fuel, Scope};
use crate::rule::Rule;
use crate::{Json, JsonMap};

/// The action that has something made again.
const REFINE: &str = "refine";

/// Whether a gate lets people ask for something better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offer {
    No,
    Yes,
    /// That is known only when it asks.
    Perhaps,
}

impl Builder<'_> {
    /// Adds the edges that are implied.
    pub(super) fn imply(
        &mut self,
        written: &[NodeDefinition],
        nodes: &mut [GraphNode],
        edges: &mut Vec<GraphEdge>,
    ) {
        for (ix, definition) in written.iter().enumerate() {
            let ix = ix as NodeIx;
            let Work::Gate(gate) = &nodes[ix as usize].work else { continue };
            let offer = gate.offer(&definition.config, &nodes[ix as usize].inputs);
            let producer = self.producer(ix, nodes, edges);
            nodes[ix as usize].producer = producer;
            if let Some(producer) = producer.filter(|_| nodes[ix as usize].approval.not_asker) {
                nodes[producer as usize].names_maker = true;
            }
            if offer == Offer::No {
                continue;
            }
            let told = is_told(ix, nodes, edges);
            nodes[ix as usize].refinable = told || producer.is_some();
            match producer {
                _ if told => {}
                Some(producer) => {
                    let id = implied_id(&nodes[ix as usize].id, edges);
                    nodes[ix as usize].out.push(edges.len() as u32);
                    edges.push(GraphEdge::implied(id, ix, producer));
                }
                None if offer == Offer::Yes => {
                    let message = "it offers 'refine', but nothing tells what is made again: connect its input \
                                   'artifact' to the node that makes it, add an edge back with a condition on \
                                   output.action, or remove 'refine'";
                    self.findings.objection(format!("{}.config", definition.place), message);
                }
                None => {}
            }
        }
    }

    /// The node that makes what a gate decides about: the one that its artifact comes from, or else the only one before
    /// it.
    fn producer(&self, ix: NodeIx, nodes: &[GraphNode], edges: &[GraphEdge]) -> Option<NodeIx> {
        let inputs = &nodes[ix as usize].inputs;
        let port = ["artifact", "artifactData"]
            .into_iter()
            .find_map(|name| inputs.iter().find(|(given, _)| given == name).map(|(_, port)| port));
        let from = match port {
            Some(Port::Connection { node, .. } | Port::Carried { node, .. }) => Some(*node),
            Some(Port::Expression(expression)) => only(self.nodes_read(expression.reads())),
            _ => None,
        };
        let before = || only(edges.iter().filter(|edge| edge.target == ix).map(|edge| edge.source));
        from.or_else(before).filter(|producer| *producer != ix)
    }

    /// Takes the implied edges out again, since the loops they close can't be.
    pub(super) fn take_back(&mut self, bad: &BadCycle, nodes: &mut [GraphNode], edges: &mut Vec<GraphEdge>) {
        let told = super::build::explain(bad, nodes);
        for edge in edges.iter().filter(|edge| edge.implied) {
            let node = &mut nodes[edge.source as usize];
            node.refinable = false;
            let message = format!(
                "it offers 'refine', which would run '{}' again, but then {told}; add an edge back yourself, with a \
                 condition on output.action, to a node that comes before both, or remove 'refine'",
                self.index.iter().find(|(_, ix)| **ix == edge.target).map_or("", |(id, _)| id)
            );
            let node = &nodes[edge.source as usize].id;
            self.findings.objection(format!("nodes['{node}'].config"), message);
        }
        let first = edges.iter().position(|edge| edge.implied).unwrap_or(edges.len());
        edges.truncate(first);
        for node in nodes {
            node.out.retain(|edge| (*edge as usize) < first);
        }
    }
}

impl GraphEdge {
    fn implied(id: Arc<str>, source: NodeIx, target: NodeIx) -> Self {
        Self {
            id,
            source,
            target,
            group: 0,
            rule: Rule::AllSuccess,
            condition: None,
            case: None,
            back: None,
            leaves: None,
            implied: true,
        }
    }
}

/// Where the graph is entered, though an implied edge leads back there.
pub(super) fn beginnings(nodes: usize, edges: &[GraphEdge]) -> Vec<bool> {
    let mut begins = vec![false; nodes];
    edges.iter().filter(|edge| edge.implied).for_each(|edge| begins[edge.target as usize] = true);
    edges.iter().filter(|edge| !edge.implied).for_each(|edge| begins[edge.target as usize] = false);
    begins
}

/// An edge is implied only to start something over.
pub(super) fn lead_back(found: Vec<Loop>, edges: &[GraphEdge]) -> Result<Vec<Loop>, BadCycle> {
    let is_back = |ix: usize| found.iter().any(|found| found.back.contains(&(ix as u32)));
    match edges.iter().enumerate().find(|(ix, edge)| edge.implied && !is_back(*ix)) {
        Some((_, ahead)) => Err(BadCycle::Ahead(ahead.target)),
        None => Ok(found),
    }
}

/// One of several, if all are the same.
fn only(nodes: impl IntoIterator<Item = NodeIx>) -> Option<NodeIx> {
    let nodes: BTreeSet<NodeIx> = nodes.into_iter().collect();
    nodes.first().copied().filter(|_| nodes.len() == 1)
}

/// Whether the definition says itself what follows on a refinement: a condition asks for it, and would hold then as far
/// as that can be told now.
fn is_told(ix: NodeIx, nodes: &[GraphNode], edges: &[GraphEdge]) -> bool {
    let node = &nodes[ix as usize];
    let refined = Refined { gate: &node.id };
    let asks = |condition: &Condition| {
        condition.names(REFINE)
            && condition.about_decision(&node.id, &refined)
            && condition.holds(&refined, &mut Fuel::for_node()).unwrap_or(true)
    };
    node.out.iter().filter_map(|&edge| edges[edge as usize].condition.as_ref()).any(asks)
}

/// What a condition finds of a gate where somebody asked for something better, and nothing else.
struct Refined<'a> {
    gate: &'a str,
}

impl Scope for Refined<'_> {
    fn get(&self, root: &str, field: Option<&str>) -> Option<Json> {
        let said = serde_json::json!({ "action": REFINE });
        match (root, field) {
            ("output", None) => Some(Json::of(&said)),
            ("output", Some(field)) => said.get(field).map(Json::of),
            ("nodes", Some(gate)) if gate == self.gate => {
                Some(Json::of(&serde_json::json!({ "outputs": said })))
            }
            _ => None,
        }
    }

    fn knows(&self, root: &str) -> bool {
        matches!(root, "output" | "nodes")
    }
}

fn implied_id(gate: &str, edges: &[GraphEdge]) -> Arc<str> {
    let taken: HashSet<&str> = edges.iter().map(|edge| &*edge.id).collect();
    let mut id = format!("abide:refine:{gate}");
    while taken.contains(id.as_str()) {
        id.push('\'');
    }
    id.into()
}

impl Gate {
    /// Whether it lets people ask for something better, as far as its config tells.
    fn offer(&self, config: &JsonMap, inputs: &[(String, Port)]) -> Offer {
        let given = |key: &str| inputs.iter().any(|(name, _)| name == key);
        match self.form {
            Form::Approval | Form::ApprovalRequest if given("actions") => Offer::Perhaps,
            Form::Approval | Form::ApprovalRequest => offered(config.get("actions")),
            Form::Interrupt if ["kind", "data", "interrupts"].into_iter().any(given) => Offer::Perhaps,
            Form::Interrupt => {
                let listed = config.get("interrupts").and_then(|list| list.parse::<Vec<JsonMap>>().ok());
                let asks = listed.unwrap_or_else(|| vec![config.clone()]);
                let offers = asks.iter().map(|ask| {
                    let data: JsonMap =
                        ask.get("data").and_then(|data| data.parse().ok()).unwrap_or_default();
                    offered(data.get("actions"))
                });
                let offers: Vec<Offer> = offers.collect();
                [Offer::Yes, Offer::Perhaps]
                    .into_iter()
                    .find(|offer| offers.contains(offer))
                    .unwrap_or(Offer::No)
            }
            Form::Clarification | Form::Fields | Form::AskUser | Form::Conversation => Offer::No,
        }
    }
}

fn offered(actions: Option<&Json>) -> Offer {
    let Some(actions) = actions else { return Offer::No };
    match actions.parse::<Vec<String>>() {
        Ok(actions) if actions.iter().any(|action| action == REFINE) => Offer::Yes,
        Ok(actions) if actions.iter().any(|action| action.contains("{{")) => Offer::Perhaps,
        Ok(_) => Offer::No,
        Err(_) if actions.text().contains("{{") => Offer::Perhaps,
        Err(_) => Offer::No,
    }
}
