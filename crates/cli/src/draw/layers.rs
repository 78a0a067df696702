//! Which layer each node stands in, and which lines run between them.

use std::collections::HashMap;

use crate::draw::words::legible;
use crate::draw::{Edge, Picture};

/// The nodes of a picture in layers: every line leads from one layer to a later one.
#[derive(Debug)]
pub(super) struct Layers {
    /// The layer of each node, counted from 0.
    pub(super) of_node: Vec<usize>,
    /// How many layers there are.
    pub(super) count: usize,
    /// The lines to draw.
    pub(super) links: Vec<Link>,
    /// The edges that lead back, as places in the picture's edges.
    pub(super) back: Vec<usize>,
}

/// All edges from one node to another, drawn as one line.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The labels of its edges.
    pub(super) label: Option<String>,
}

impl Layers {
    /// Puts each node one layer behind the last of those it follows.
    pub(super) fn of(picture: &Picture) -> Layers {
        let forward: Vec<&Edge> = picture.edges.iter().filter(|edge| !edge.back).collect();
        let of_node = longest_paths(picture.nodes.len(), &forward);
        // A picture put together by hand may call an edge of a loop forward: it still must not be drawn so.
        let leads_on = |edge: &Edge| !edge.back && of_node[edge.from] < of_node[edge.to];
        let links = links(picture.edges.iter().filter(|edge| leads_on(edge)));
        let back = (0..picture.edges.len()).filter(|&at| !leads_on(&picture.edges[at])).collect();
        Layers { count: of_node.iter().max().map_or(0, |last| last + 1), of_node, links, back }
    }

    /// The nodes of each layer, in the order of the definition.
    pub(super) fn nodes(&self) -> Vec<Vec<usize>> {
        let mut layers = vec![Vec::new(); self.count];
        for (node, &layer) in self.of_node.iter().enumerate() {
            layers[layer].push(node);
        }
        layers
    }
}

fn longest_paths(nodes: usize, edges: &[&Edge]) -> Vec<usize> {
    let mut layers = vec![0_usize; nodes];
    let mut out = vec![Vec::new(); nodes];
    let mut waits_for = vec![0_usize; nodes];
    for edge in edges {
        out[edge.from].push(edge.to);
        waits_for[edge.to] += 1;
    }
    let entries: Vec<usize> = (0..nodes).filter(|&node| waits_for[node] == 0).collect();
    let mut ready = entries.clone();
    while let Some(node) = ready.pop() {
        for &to in &out[node] {
            layers[to] = layers[to].max(layers[node] + 1);
            waits_for[to] -= 1;
            if waits_for[to] == 0 {
                ready.push(to);
            }
        }
    }
    // An entry that is needed late stands next to what needs it, not at the far end of a long line.
    for entry in entries {
        let first = out[entry].iter().map(|&to| layers[to]).min();
        layers[entry] = first.map_or(0, |first| first.saturating_sub(1));
    }
    layers
}

fn links<'a>(edges: impl Iterator<Item = &'a Edge>) -> Vec<Link> {
    let mut places = HashMap::new();
    let mut links: Vec<Link> = Vec::new();
    for edge in edges {
        let place = *places.entry((edge.from, edge.to)).or_insert(links.len());
        if place == links.len() {
            links.push(Link { from: edge.from, to: edge.to, label: None });
        }
        if let Some(label) = &edge.label {
            let label = legible(label);
            match &mut links[place].label {
                Some(labels) => *labels += &format!(", {label}"),
                empty => *empty = Some(label),
            }
        }
    }
    links
}
