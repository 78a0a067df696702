//! A picture of a workflow's graph, for the terminal and as SVG.
//!
//! The picture is built from a definition as it is written, valid or not: an edge to a node that does not
//! exist is left out, and nothing here checks the definition. Both forms share one layout (`layout.rs`).

mod canvas;
mod channel;
mod label;
mod layers;
mod layout;
mod list;
mod phases;
mod svg;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod words;

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::draw::layers::Layers;
pub(crate) use phases::drawable;

/// A workflow's graph, ready to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    /// The nodes, in the order of the definition.
    pub(crate) nodes: Vec<Node>,
    /// The edges between them, in the order of the definition.
    pub(crate) edges: Vec<Edge>,
}

/// A node as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its id in the definition.
    pub(crate) id: String,
    /// Its name, or its id where it has none.
    pub(crate) label: String,
    /// What it does: the `typeId`.
    pub(crate) kind: String,
    /// How far a run has come with it; none when no run is shown.
    pub(crate) mark: Option<Mark>,
}

/// An edge as it is shown; nodes are named by their place in [`Picture::nodes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Where it leaves.
    pub(crate) from: usize,
    /// Where it arrives.
    pub(crate) to: usize,
    /// When it is taken, in few words.
    pub(crate) label: Option<String>,
    /// Whether it closes a loop.
    pub(crate) back: bool,
}

/// How far a run has come with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It has completed.
    Done,
    /// It is being worked on.
    Running,
    /// It waits for a timer, a retry or a person.
    Waiting,
    /// It has failed.
    Failed,
    /// The run passed it by.
    Skipped,
    /// It was cancelled.
    Cancelled,
    /// The run has not reached it.
    Pending,
}

impl Mark {
    /// The mark of a node that the server says is in this state.
    pub(crate) fn of_status(status: &str) -> Mark {
        match status {
            "completed" => Mark::Done,
            "running" => Mark::Running,
            "waiting" | "suspended" => Mark::Waiting,
            "failed" => Mark::Failed,
            "skipped" => Mark::Skipped,
            "cancelled" => Mark::Cancelled,
            _ => Mark::Pending,
        }
    }

    /// The sign that stands for the mark where there is no colour.
    pub(crate) fn glyph(self) -> char {
        match self {
            Mark::Done => '✓',
            Mark::Running => '●',
            Mark::Waiting => '◔',
            Mark::Failed => '✗',
            Mark::Skipped => '↷',
            Mark::Cancelled => '⊘',
            Mark::Pending => '·',
        }
    }

    /// The mark in one word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mark::Done => "done",
            Mark::Running => "running",
            Mark::Waiting => "waiting",
            Mark::Failed => "failed",
            Mark::Skipped => "skipped",
            Mark::Cancelled => "cancelled",
            Mark::Pending => "pending",
        }
    }
}

impl Picture {
    /// The picture of a definition, without marks.
    pub(crate) fn of(definition: &Value) -> Picture {
        let nodes: Vec<Node> = elements(definition, "nodes").iter().map(Node::of).collect();
        let mut places = HashMap::new();
        for (place, node) in nodes.iter().enumerate() {
            places.entry(node.id.as_str()).or_insert(place);
        }
        let edges = elements(definition, "edges").iter().filter_map(|edge| Edge::of(edge, &places)).collect();
        let mut picture = Picture { nodes, edges };
        picture.find_back_edges();
        picture
    }

    /// The same picture, each node marked as `mark_of` says of its id.
    pub(crate) fn marked(mut self, mark_of: impl Fn(&str) -> Option<Mark>) -> Picture {
        for node in &mut self.nodes {
            node.mark = mark_of(&node.id);
        }
        self
    }

    /// The nodes so that each stands behind all that lead to it; otherwise in the order of the definition.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut out = vec![Vec::new(); self.nodes.len()];
        let mut waits_for = vec![0_usize; self.nodes.len()];
        for edge in self.edges.iter().filter(|edge| !edge.back) {
            out[edge.from].push(edge.to);
            waits_for[edge.to] += 1;
        }
        let mut ready: BTreeSet<usize> = (0..waits_for.len()).filter(|&node| waits_for[node] == 0).collect();
        let mut order = Vec::new();
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for &next in &out[node] {
                waits_for[next] -= 1;
                if waits_for[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        order
    }

    /// The graph drawn in box characters, or listed where a drawing would be wider than `width` or too large
    /// to follow.
    pub(crate) fn to_text(&self, width: usize) -> String {
        let layers = Layers::of(self);
        text::draw(self, &layers, width).unwrap_or_else(|| list::write(self, &layers, width))
    }

    /// The graph as an SVG document that needs nothing else.
    pub(crate) fn to_svg(&self) -> String {
        svg::draw(self, &Layers::of(self))
    }

    /// Marks the edges that lead to a node on the way to their own source, walking from the entries.
    fn find_back_edges(&mut self) {
        let mut out = vec![Vec::new(); self.nodes.len()];
        let mut is_entry = vec![true; self.nodes.len()];
        for (at, edge) in self.edges.iter().enumerate() {
            out[edge.from].push(at);
            is_entry[edge.to] &= edge.from == edge.to;
        }
        let (entries, others): (Vec<usize>, Vec<usize>) =
            (0..self.nodes.len()).partition(|&node| is_entry[node]);
        let mut walk = Walk { out, seen: vec![Seen::Never; self.nodes.len()] };
        for node in entries.into_iter().chain(others) {
            walk.from(node, &mut self.edges);
        }
    }
}

impl Node {
    fn of(node: &Value) -> Node {
        let word = |key: &str| node[key].as_str().unwrap_or_default().to_owned();
        let id = word("id");
        let name = word("name");
        Node { label: if name.is_empty() { id.clone() } else { name }, id, kind: word("typeId"), mark: None }
    }
}

impl Edge {
    fn of(edge: &Value, places: &HashMap<&str, usize>) -> Option<Edge> {
        let place = |key: &str| edge[key].as_str().and_then(|id| places.get(id)).copied();
        let (from, to) = (place("sourceNodeId")?, place("targetNodeId")?);
        Some(Edge { from, to, label: label::of(edge), back: false })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    OnTheWay,
    Left,
}

/// A depth-first walk, with its own stack: a long chain must not exhaust the thread's.
struct Walk {
    /// The edges that leave each node.
    out: Vec<Vec<usize>>,
    seen: Vec<Seen>,
}

impl Walk {
    fn from(&mut self, start: usize, edges: &mut [Edge]) {
        if self.seen[start] != Seen::Never {
            return;
        }
        self.seen[start] = Seen::OnTheWay;
        let mut way = vec![(start, 0)];
        while let Some((node, next)) = way.last_mut() {
            let Some(&at) = self.out[*node].get(*next) else {
                self.seen[*node] = Seen::Left;
                way.pop();
                continue;
            };
            *next += 1;
            let to = edges[at].to;
            match self.seen[to] {
                Seen::OnTheWay => edges[at].back = true,
                Seen::Left => {}
                Seen::Never => {
                    self.seen[to] = Seen::OnTheWay;
                    way.push((to, 0));
                }
            }
        }
    }
}

fn elements<'a>(definition: &'a Value, key: &str) -> &'a [Value] {
    definition[key].as_array().map_or(&[], Vec::as_slice)
}
