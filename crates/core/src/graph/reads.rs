//! What expressions and ports may read: names that exist where they stand, and nodes that come before.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::build::Builder;
use super::{GraphEdge, GraphNode, NodeIx, Port};
use crate::definition::NodeDefinition;
use crate::limits;

/// Names in scope, by the place of the expression.
pub(super) const FIXED_ROOTS: &[&str] = &["inputs", "configurable", "run"];
pub(super) const NODE_ROOTS: &[&str] = &["inputs", "variables", "nodes", "channels", "configurable", "run"];
pub(super) const PORT_ROOTS: &[&str] = &["variables", "nodes", "channels", "configurable", "run"];
pub(super) const EDGE_ROOTS: &[&str] =
    &["output", "status", "error", "variables", "nodes", "channels", "configurable", "run"];

impl Builder<'_> {
    /// Names in an expression must exist where it stands.
    pub(super) fn check_reads(
        &mut self,
        node: &NodeDefinition,
        place: &str,
        reads: &[(String, Option<String>)],
        roots: &[&str],
    ) {
        for (root, field) in reads {
            let message = match (root.as_str(), field) {
                (root, _) if !roots.contains(&root) => {
                    format!("there is no '{root}' here; the names are {}", roots.join(", "))
                }
                ("nodes", None) => "name the node: nodes.ID or nodes[\"ID\"]".to_owned(),
                ("nodes", Some(id)) if !self.index.contains_key(id.as_str()) => {
                    format!("there is no node '{id}'")
                }
                ("channels", None) => "name the channel: channels.NAME".to_owned(),
                ("channels", Some(name)) => {
                    match self.channels.get(name).map(|channel| channel.may_read(&node.id, &node.type_id)) {
                        Some(false) => {
                            format!("channel '{name}' does not let this node read; see its access")
                        }
                        _ => continue,
                    }
                }
                _ => continue,
            };
            self.findings.objection(place, message);
        }
    }

    /// A value may only be taken from a node that comes before: from any other it would depend on who is quicker.
    pub(super) fn check_ancestors(&mut self, nodes: &[GraphNode], edges: &[GraphEdge]) {
        let mut wanted: BTreeMap<NodeIx, Vec<(NodeIx, String)>> = BTreeMap::new();
        for (ix, node) in nodes.iter().enumerate() {
            let place = |name: &str| format!("nodes['{}'].inputs.{name}", node.id);
            for (name, port) in &node.inputs {
                match port {
                    Port::Connection { node: from, .. } => {
                        wanted.entry(*from).or_default().push((ix as NodeIx, place(name)));
                    }
                    Port::Expression(expression) => {
                        for from in self.nodes_read(expression.reads()) {
                            wanted.entry(from).or_default().push((ix as NodeIx, place(name)));
                        }
                    }
                    _ => {}
                }
            }
            for (below, reads) in node.work.expressions() {
                for from in self.nodes_read(&reads) {
                    let place = format!("nodes['{}'].config.{below}", node.id);
                    wanted.entry(from).or_default().push((ix as NodeIx, place));
                }
            }
        }
        let mut steps = limits::ANCESTOR_STEPS_MAX;
        for (from, readers) in wanted {
            let after = reachable(from, nodes, edges, &readers, &mut steps);
            if steps == 0 {
                let message = "the nodes take their inputs from too far away to check; split the workflow";
                return self.findings.objection("nodes", message);
            }
            for (reader, place) in readers.into_iter().filter(|(reader, _)| !after[*reader as usize]) {
                let (reader, from) = (&nodes[reader as usize].id, &nodes[from as usize].id);
                let message = format!("'{from}' does not come before '{reader}'; add an edge from it");
                self.findings.objection(place, message);
            }
        }
    }

    fn nodes_read(&self, reads: &[(String, Option<String>)]) -> Vec<NodeIx> {
        let ids = reads.iter().filter(|(root, _)| root == "nodes").filter_map(|(_, id)| id.as_deref());
        ids.filter_map(|id| self.index.get(id).copied()).collect()
    }
}

/// Which nodes come after `from`. Stops early once every reader was met, since most are next to it.
fn reachable(
    from: NodeIx,
    nodes: &[GraphNode],
    edges: &[GraphEdge],
    readers: &[(NodeIx, String)],
    steps: &mut usize,
) -> Vec<bool> {
    let mut wanted: HashSet<NodeIx> = readers.iter().map(|(reader, _)| *reader).collect();
    let mut after = vec![false; nodes.len()];
    let mut line = VecDeque::from([from]);
    while let Some(at) = line.pop_front() {
        for &edge in &nodes[at as usize].out {
            let next = edges[edge as usize].target;
            *steps = steps.saturating_sub(1);
            if *steps == 0 {
                return after;
            }
            if !std::mem::replace(&mut after[next as usize], true) {
                wanted.remove(&next);
                if wanted.is_empty() {
                    return after;
                }
                line.push_back(next);
            }
        }
    }
    after
}
