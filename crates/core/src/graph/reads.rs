//! What expressions and ports may read: names that exist where they stand, and nodes that come before.

use std::collections::{BTreeMap, VecDeque};

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
                    Port::Connection { node: from, .. } | Port::Carried { node: from, .. } => {
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
        let mut walk = Walk::over(nodes, edges);
        for (from, readers) in wanted {
            if !walk.after(from, &readers) {
                let message = "the nodes take their inputs from too far away to check; split the workflow";
                return self.findings.objection("nodes", message);
            }
            for (reader, place) in readers.into_iter().filter(|(reader, _)| !walk.has_met(*reader)) {
                let (reader, from) = (&nodes[reader as usize].id, &nodes[from as usize].id);
                let message = format!("'{from}' does not come before '{reader}'; add an edge from it");
                self.findings.objection(place, message);
            }
        }
    }

    pub(super) fn nodes_read(&self, reads: &[(String, Option<String>)]) -> Vec<NodeIx> {
        let ids = reads.iter().filter(|(root, _)| root == "nodes").filter_map(|(_, id)| id.as_deref());
        ids.filter_map(|id| self.index.get(id).copied()).collect()
    }
}

/// Walks from one node after the other, with one bound for all walks together.
struct Walk<'a> {
    nodes: &'a [GraphNode],
    edges: &'a [GraphEdge],
    /// By node, the number of the last walk that met it, and of the last one that looked for it.
    met: Vec<u32>,
    sought: Vec<u32>,
    number: u32,
    steps: usize,
}

impl<'a> Walk<'a> {
    fn over(nodes: &'a [GraphNode], edges: &'a [GraphEdge]) -> Self {
        let (met, sought) = (vec![0; nodes.len()], vec![0; nodes.len()]);
        Self { nodes, edges, met, sought, number: 0, steps: limits::ANCESTOR_STEPS_MAX }
    }

    /// Meets the nodes that come after `from`, until every reader was met, since most are next to it. `false` if
    /// that took too many steps.
    fn after(&mut self, from: NodeIx, readers: &[(NodeIx, String)]) -> bool {
        self.number += 1;
        let mut missing = 0;
        for (reader, _) in readers {
            let before = std::mem::replace(&mut self.sought[*reader as usize], self.number);
            missing += usize::from(before != self.number);
        }
        let mut line = VecDeque::from([from]);
        while let Some(at) = line.pop_front() {
            for &edge in &self.nodes[at as usize].out {
                let next = self.edges[edge as usize].target;
                self.steps = self.steps.saturating_sub(1);
                if self.steps == 0 {
                    return false;
                }
                if std::mem::replace(&mut self.met[next as usize], self.number) == self.number {
                    continue;
                }
                missing -= usize::from(self.sought[next as usize] == self.number);
                if missing == 0 {
                    return true;
                }
                line.push_back(next);
            }
        }
        true
    }

    /// Whether the last walk met a node.
    fn has_met(&self, node: NodeIx) -> bool {
        self.met[node as usize] == self.number
    }
}
