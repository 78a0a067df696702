//! Loops: the cycles of a graph, each with one entry, found once when the definition is read.
//!
//! An edge back to a loop's entry starts the loop over. An edge that leaves a loop is decided when the loop is over.

use crate::NodeIx;
use crate::graph::{EdgeIx, LoopIx};

/// A cycle, or several with the same entry.
#[derive(Debug)]
pub(crate) struct Loop {
    /// Where it is entered, and where it starts over.
    pub(crate) head: NodeIx,
    /// Every node on it, those of loops within included, in the order of the definition.
    pub(crate) members: Vec<NodeIx>,
    /// The loop around it.
    pub(crate) parent: Option<LoopIx>,
    /// The edges that lead back to the head.
    pub(crate) back: Vec<EdgeIx>,
}

/// Why a cycle is refused.
#[derive(Debug)]
pub(crate) enum BadCycle {
    /// Nothing on it may close a loop.
    Undeclared(Vec<NodeIx>),
    /// It is entered at two places.
    TwoEntries(NodeIx, NodeIx),
    /// Loops lie in each other too deeply, or there are too many of them.
    TooMany(NodeIx),
    /// What should be made again does not come before what would have it made again.
    Ahead(NodeIx),
}

/// Loops within loops. Each level goes over its nodes once more, so the depth bounds the cost.
pub(crate) const DEPTH_MAX: usize = 16;

/// Loops of one graph. Each has a state of its own in every run.
pub(crate) const LOOPS_MAX: usize = 1_000;

/// Finds every loop, outer ones before those within.
///
/// `edges` are (source, target); `may_loop` tells which nodes are allowed to close a loop, and `begins` where the whole
/// graph is entered, though an edge may lead back there.
pub(crate) fn find(
    edges: &[(NodeIx, NodeIx)],
    may_loop: &[bool],
    begins: &[bool],
) -> Result<Vec<Loop>, BadCycle> {
    let mut search = Search::new(edges, may_loop, begins);
    let everything: Vec<NodeIx> = (0..may_loop.len() as NodeIx).collect();
    let mut work = vec![(everything, None, 0)];
    while let Some((nodes, parent, depth)) = work.pop() {
        for component in search.components(&nodes) {
            let found = search.close(component, parent, depth)?;
            work.push((search.loops[found as usize].members.clone(), Some(found), depth + 1));
        }
    }
    Ok(search.loops)
}

struct Search<'a> {
    edges: &'a [(NodeIx, NodeIx)],
    /// The edges that lead to each node and away from it.
    into: Vec<Vec<EdgeIx>>,
    out: Vec<Vec<EdgeIx>>,
    /// Edges that lead back to the head of a loop are taken out while the loops within are looked for.
    active: Vec<bool>,
    may_loop: &'a [bool],
    begins: &'a [bool],
    loops: Vec<Loop>,
}

impl<'a> Search<'a> {
    fn new(edges: &'a [(NodeIx, NodeIx)], may_loop: &'a [bool], begins: &'a [bool]) -> Self {
        let mut into = vec![Vec::new(); may_loop.len()];
        let mut out = into.clone();
        for (ix, &(source, target)) in edges.iter().enumerate() {
            out[source as usize].push(ix as EdgeIx);
            into[target as usize].push(ix as EdgeIx);
        }
        Self { edges, into, out, active: vec![true; edges.len()], may_loop, begins, loops: Vec::new() }
    }

    /// Makes a loop of a strongly connected component.
    fn close(
        &mut self,
        mut members: Vec<NodeIx>,
        parent: Option<LoopIx>,
        depth: usize,
    ) -> Result<LoopIx, BadCycle> {
        members.sort_unstable();
        let within = |node: NodeIx| members.binary_search(&node).is_ok();
        let first = members[0];
        if depth >= DEPTH_MAX || self.loops.len() >= LOOPS_MAX {
            return Err(BadCycle::TooMany(first));
        }
        if !members.iter().any(|&node| self.may_loop[node as usize]) {
            return Err(BadCycle::Undeclared(self.cycle(&members)));
        }
        let mut head = None;
        for &member in &members {
            let mut entries = self.into[member as usize].iter().filter(|&&edge| self.active[edge as usize]);
            let is_entry =
                self.begins[member as usize] || entries.any(|&edge| !within(self.edges[edge as usize].0));
            if is_entry {
                match head {
                    Some(head) => return Err(BadCycle::TwoEntries(head, member)),
                    None => head = Some(member),
                }
            }
        }
        let head = head.unwrap_or(first);
        let closes = |edge: &EdgeIx| self.active[*edge as usize] && within(self.edges[*edge as usize].0);
        let back: Vec<EdgeIx> = self.into[head as usize].iter().copied().filter(closes).collect();
        back.iter().for_each(|&edge| self.active[edge as usize] = false);
        self.loops.push(Loop { head, members, parent, back });
        Ok((self.loops.len() - 1) as LoopIx)
    }

    /// The strongly connected components with a cycle among `nodes`, which are in order, by Tarjan's algorithm
    /// without recursion.
    fn components(&self, nodes: &[NodeIx]) -> Vec<Vec<NodeIx>> {
        // Nodes are numbered by their place in `nodes`, so that a small loop costs little in a large graph.
        let next = nodes.iter().map(|&node| {
            let ahead = self.out[node as usize].iter().filter(|&&edge| self.active[edge as usize]);
            let targets = ahead.map(|&edge| self.edges[edge as usize].1);
            targets.filter_map(|target| nodes.binary_search(&target).ok()).map(|at| at as NodeIx).collect()
        });
        let mut tarjan = Tarjan::over(next.collect());
        (0..nodes.len() as NodeIx).for_each(|at| tarjan.visit(at));
        let Tarjan { found, next, .. } = tarjan;
        let on_cycle = |part: &Vec<NodeIx>| part.len() > 1 || next[part[0] as usize].contains(&part[0]);
        let cycles = found.into_iter().filter(on_cycle);
        cycles.map(|part| part.into_iter().map(|at| nodes[at as usize]).collect()).collect()
    }

    /// One cycle among `members`, for the message.
    fn cycle(&self, members: &[NodeIx]) -> Vec<NodeIx> {
        let inside = |edge: &&EdgeIx| {
            self.active[**edge as usize] && members.binary_search(&self.edges[**edge as usize].1).is_ok()
        };
        let mut next = std::collections::HashMap::new();
        for &member in members {
            let edge = self.out[member as usize].iter().find(inside);
            next.extend(edge.map(|&edge| (member, self.edges[edge as usize].1)));
        }
        let mut at = members[0];
        for _ in 0..members.len() {
            at = next[&at];
        }
        let mut cycle = vec![at];
        while next[&cycle[cycle.len() - 1]] != at {
            cycle.push(next[&cycle[cycle.len() - 1]]);
        }
        cycle.push(at);
        cycle
    }
}

#[derive(Default)]
struct Tarjan {
    next: Vec<Vec<NodeIx>>,
    /// 0 before a node is met.
    order: Vec<u32>,
    low: Vec<u32>,
    on: Vec<bool>,
    met: u32,
    stack: Vec<NodeIx>,
    found: Vec<Vec<NodeIx>>,
}

impl Tarjan {
    fn over(next: Vec<Vec<NodeIx>>) -> Self {
        let size = next.len();
        Self { next, order: vec![0; size], low: vec![0; size], on: vec![false; size], ..Self::default() }
    }

    fn visit(&mut self, root: NodeIx) {
        if self.order[root as usize] != 0 {
            return;
        }
        let mut path = vec![(root, 0)];
        self.meet(root);
        while let Some(&mut (node, ref mut child)) = path.last_mut() {
            let at = node as usize;
            let Some(&next) = self.next[at].get(*child) else {
                path.pop();
                if let Some(&(before, _)) = path.last() {
                    self.low[before as usize] = self.low[before as usize].min(self.low[at]);
                }
                if self.low[at] == self.order[at] {
                    self.leave(node);
                }
                continue;
            };
            *child += 1;
            if self.order[next as usize] == 0 {
                self.meet(next);
                path.push((next, 0));
            } else if self.on[next as usize] {
                self.low[at] = self.low[at].min(self.order[next as usize]);
            }
        }
    }

    fn meet(&mut self, node: NodeIx) {
        self.met += 1;
        (self.order[node as usize], self.low[node as usize]) = (self.met, self.met);
        self.on[node as usize] = true;
        self.stack.push(node);
    }

    fn leave(&mut self, root: NodeIx) {
        let from = self.stack.iter().rposition(|&node| node == root).expect("a root lies on the stack");
        let component = self.stack.split_off(from);
        component.iter().for_each(|&node| self.on[node as usize] = false);
        self.found.push(component);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(edges: &[(NodeIx, NodeIx)], nodes: usize) -> Vec<(NodeIx, Vec<NodeIx>, Option<LoopIx>)> {
        let loops = find(edges, &vec![true; nodes], &vec![false; nodes]).unwrap();
        loops.into_iter().map(|found| (found.head, found.members, found.parent)).collect()
    }

    #[test]
    fn a_graph_without_cycles_has_no_loops() {
        assert_eq!(heads(&[(0, 1), (0, 2), (1, 3), (2, 3)], 4), []);
    }

    #[test]
    fn a_loop_is_entered_at_its_head() {
        assert_eq!(heads(&[(0, 1), (1, 2), (2, 1), (2, 3)], 4), [(1, vec![1, 2], None)]);
        assert_eq!(
            heads(&[(1, 0), (0, 1)], 2),
            [(0, vec![0, 1], None)],
            "without an entry, the first written"
        );
        assert_eq!(heads(&[(0, 0)], 1), [(0, vec![0], None)]);
    }

    #[test]
    fn loops_lie_in_loops() {
        let edges = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 0)];
        assert_eq!(heads(&edges, 4), [(0, vec![0, 1, 2, 3], None), (1, vec![1, 2], Some(0))]);
    }

    #[test]
    fn a_cycle_that_nothing_declares_is_named() {
        let Err(BadCycle::Undeclared(cycle)) =
            find(&[(0, 1), (1, 2), (2, 1)], &[true, false, false], &[false; 3])
        else {
            panic!("the cycle is refused");
        };
        assert_eq!(cycle.first(), cycle.last());
        assert_eq!(cycle.len(), 3);
    }

    #[test]
    fn two_entries_are_refused() {
        let edges = [(0, 1), (0, 2), (1, 2), (2, 1)];
        assert!(matches!(find(&edges, &[true; 3], &[false; 3]), Err(BadCycle::TwoEntries(..))));
    }

    #[test]
    fn where_the_graph_begins_is_an_entry_though_an_edge_leads_back_there() {
        let head = |edges: &[(NodeIx, NodeIx)], begins: &[bool]| {
            find(edges, &[true; 3], begins).map(|loops| loops[0].head)
        };
        assert_eq!(head(&[(2, 0), (0, 2)], &[false, false, true]).unwrap(), 2, "and not the first written");
        let two = head(&[(0, 2), (2, 0), (1, 2)], &[true, true, false]);
        assert!(matches!(two, Err(BadCycle::TwoEntries(0, 2))), "{two:?}");
    }

    #[test]
    fn a_chain_of_many_nodes_needs_no_stack() {
        let many: NodeIx = 20_000;
        let mut edges: Vec<_> = (1..many).map(|node| (node - 1, node)).collect();
        edges.push((many - 1, 0));
        assert_eq!(heads(&edges, many as usize).len(), 1);
    }
}
