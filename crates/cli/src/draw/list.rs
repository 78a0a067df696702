//! The list that stands in for a drawing too wide or too large: the nodes of each layer and where they lead.

use std::collections::HashMap;

use crate::draw::layers::Layers;
use crate::draw::text::back_edges;
use crate::draw::words::{legible, width};
use crate::draw::{Node, Picture};

/// How a line begins, and how one begins that goes on.
const INDENT: &str = "  ";
const CONTINUED: &str = "      ";

/// The nodes by layer, those of one kind that lead to the same nodes together.
pub(super) fn write(picture: &Picture, layers: &Layers, width_max: usize) -> String {
    if picture.nodes.is_empty() {
        return "no nodes\n".to_owned();
    }
    let mut targets = vec![Vec::new(); picture.nodes.len()];
    for link in &layers.links {
        targets[link.from].push((link.to, link.label.as_deref()));
    }
    let mut page = String::new();
    for (at, layer) in layers.nodes().iter().enumerate() {
        page += &format!("layer {}\n", at + 1);
        for group in groups(layer, |node| (picture.nodes[node].kind.as_str(), &targets[node])) {
            wrap(&mut page, &words(picture, &group, &targets[group[0]]), width_max);
        }
    }
    back_edges(picture, layers).iter().for_each(|line| page += &format!("{line}\n"));
    page
}

/// The nodes that are alike together, in the order of the first of each group.
fn groups<K: Eq + std::hash::Hash>(nodes: &[usize], key: impl Fn(usize) -> K) -> Vec<Vec<usize>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &node in nodes {
        let place = *places.entry(key(node)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(node);
    }
    groups
}

/// What is said about a group, in pieces that stay whole.
fn words(picture: &Picture, group: &[usize], targets: &[(usize, Option<&str>)]) -> Vec<String> {
    let mut words: Vec<String> = group.iter().map(|&node| named(&picture.nodes[node]) + ",").collect();
    without_comma(&mut words);
    let kind = legible(&picture.nodes[group[0]].kind);
    if !kind.is_empty() {
        words.push(format!("[{kind}]"));
    }
    if !targets.is_empty() {
        words.push("→".to_owned());
        words.extend(targets.iter().map(|&(to, label)| {
            let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
            format!("{}{label},", legible(&picture.nodes[to].id))
        }));
        without_comma(&mut words);
    }
    words
}

fn named(node: &Node) -> String {
    let mark = node.mark.map(|mark| format!("{} ", mark.glyph())).unwrap_or_default();
    mark + &legible(&node.id)
}

fn without_comma(words: &mut [String]) {
    if let Some(last) = words.last_mut() {
        last.pop();
    }
}

/// Writes the words, and goes on in the next line where one would cross the edge.
fn wrap(page: &mut String, words: &[String], width_max: usize) {
    let mut column = 0;
    for word in words {
        let size = width(word);
        if column == 0 {
            page.push_str(INDENT);
            column = INDENT.len() + size;
        } else if column + 1 + size <= width_max {
            page.push(' ');
            column += 1 + size;
        } else {
            page.push('\n');
            page.push_str(CONTINUED);
            column = CONTINUED.len() + size;
        }
        page.push_str(word);
    }
    page.push('\n');
}
