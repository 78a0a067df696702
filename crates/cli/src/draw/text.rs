//! The drawing in the terminal: boxes in layers from top to bottom, lines between them, notes below.

use std::collections::HashSet;

use crate::draw::canvas::Canvas;
use crate::draw::channel::{self, Channel};
use crate::draw::layers::Layers;
use crate::draw::layout::{LabelPlace, Layout, Reach};
use crate::draw::words::{legible, shorten, width};
use crate::draw::{Node, Picture};

/// Beyond these a drawing is a maze: the list says more.
const NODES_MAX: usize = 60;
const LINKS_MAX: usize = 150;
/// Blank columns between two boxes.
const GAP: usize = 2;
/// A longer label stands below the drawing.
const LABEL_MAX: usize = 28;

/// What a drawing shows; each style needs less room than the one before.
#[derive(Clone, Copy)]
struct Style {
    /// Whether the kind of a node stands under its id.
    kinds: bool,
    /// Whether labels stand at their lines.
    labels: bool,
    /// How wide an id may be.
    id_max: usize,
}

const STYLES: [Style; 4] = [
    Style { kinds: true, labels: true, id_max: 28 },
    Style { kinds: false, labels: true, id_max: 28 },
    Style { kinds: false, labels: false, id_max: 28 },
    Style { kinds: false, labels: false, id_max: 12 },
];

/// The drawing in the richest style that fits, if any does.
pub(super) fn draw(picture: &Picture, layers: &Layers, width: usize) -> Option<String> {
    if picture.nodes.len() > NODES_MAX || layers.links.len() > LINKS_MAX {
        return None;
    }
    let layout = Layout::of(layers);
    STYLES.iter().find_map(|&style| Drawing::new(picture, layers, &layout, style)?.draw(width))
}

/// The line of an edge in words.
pub(super) fn arrow(picture: &Picture, from: usize, to: usize, label: Option<&str>) -> String {
    let (from, to) = (legible(&picture.nodes[from].id), legible(&picture.nodes[to].id));
    let label = label.map(|label| format!(" ({})", legible(label))).unwrap_or_default();
    format!("{from} → {to}{label}")
}

/// The edges that lead back, one line each.
pub(super) fn back_edges(picture: &Picture, layers: &Layers) -> Vec<String> {
    let edges = layers.back.iter().map(|&at| &picture.edges[at]);
    edges.map(|edge| format!("↺ {}", arrow(picture, edge.from, edge.to, edge.label.as_deref()))).collect()
}

struct Drawing<'a> {
    picture: &'a Picture,
    layers: &'a Layers,
    layout: &'a Layout,
    /// The lines in the box of each node.
    boxes: Vec<Vec<String>>,
    /// Half the width of each box, its middle aside: every box has a middle column, where its lines end.
    halves: Vec<usize>,
    /// The labels over and under each item.
    above: Vec<Option<&'a str>>,
    below: Vec<Option<&'a str>>,
    /// Links whose labels stand nowhere in the drawing.
    unlabelled: Vec<usize>,
}

impl<'a> Drawing<'a> {
    fn new(picture: &'a Picture, layers: &'a Layers, layout: &'a Layout, style: Style) -> Option<Self> {
        let boxes: Vec<Vec<String>> = picture.nodes.iter().map(|node| lines(node, style)).collect();
        let shortened = picture.nodes.iter().any(|node| width(&legible(&node.id)) > style.id_max);
        let distinct: HashSet<&str> = boxes.iter().map(|lines| lines[0].as_str()).collect();
        if shortened && distinct.len() < boxes.len() {
            return None;
        }
        let words = |lines: &[String]| lines.iter().map(|line| width(line)).max().unwrap_or(0) / 2 + 2;
        let half = |(node, lines): (usize, &Vec<String>)| words(lines).max(channel::arrivals(layout, node));
        let mut drawing = Drawing {
            picture,
            layers,
            layout,
            halves: boxes.iter().enumerate().map(half).collect(),
            boxes,
            above: vec![None; layout.items.len()],
            below: vec![None; layout.items.len()],
            unlabelled: Vec::new(),
        };
        drawing.place_labels(style);
        Some(drawing)
    }

    fn place_labels(&mut self, style: Style) {
        for (at, link) in self.layers.links.iter().enumerate() {
            let Some(label) = link.label.as_deref() else { continue };
            let fits = style.labels && width(label) <= LABEL_MAX;
            match self.layout.label_place(at).filter(|_| fits) {
                Some(LabelPlace::Above(item)) => self.above[item] = Some(label),
                Some(LabelPlace::Below(item)) => self.below[item] = Some(label),
                None => self.unlabelled.push(at),
            }
        }
    }

    fn draw(&self, width_max: usize) -> Option<String> {
        let reach: Vec<Reach> = (0..self.layout.items.len()).map(|item| self.reach(item)).collect();
        let widest = self.layout.layers.iter().map(|layer| self.width_of(layer, &reach)).max()?;
        if widest > width_max {
            return None;
        }
        let x: Vec<usize> = self.layout.place(&reach, GAP).iter().map(|x| x.round() as usize).collect();
        let canvas_width = x.iter().zip(&reach).map(|(x, reach)| x + reach.right + 1).max()?;
        if canvas_width > width_max {
            return None;
        }
        let count = self.layout.layers.len();
        let channels: Vec<Channel> = (0..count)
            .map(|layer| Channel::under(self.layout, layer, &x, &self.halves))
            .collect::<Option<_>>()?;
        let height = (0..count).map(|at| self.box_height(at) + self.channel_height(at, &channels[at])).sum();
        let mut canvas = Canvas::new(canvas_width, height);
        let mut y = 0;
        for (layer, channel) in channels.iter().enumerate() {
            self.draw_layer(&mut canvas, layer, &x, y);
            y += self.box_height(layer);
            self.draw_channel(&mut canvas, layer, channel, &x, y);
            y += self.channel_height(layer, channel);
        }
        Some(canvas.print() + &self.notes(width_max))
    }

    fn reach(&self, item: usize) -> Reach {
        let half = self.halves.get(item).copied().unwrap_or(0);
        let labels = self.above[item].iter().chain(&self.below[item]);
        Reach { left: half, right: labels.map(|label| width(label) + 1).fold(half, usize::max) }
    }

    fn width_of(&self, layer: &[usize], reach: &[Reach]) -> usize {
        let items: usize = layer.iter().map(|&item| reach[item].left + 1 + reach[item].right).sum();
        items + GAP * layer.len().saturating_sub(1)
    }

    fn box_height(&self, layer: usize) -> usize {
        let nodes = self.layout.layers[layer].iter().filter_map(|&item| self.boxes.get(item));
        nodes.map(|lines| lines.len() + 2).max().unwrap_or(0)
    }

    /// Whether labels stand right under the layer, and right over the next.
    fn label_rows(&self, layer: usize) -> (bool, bool) {
        let next = self.layout.layers.get(layer + 1).map_or(&[][..], Vec::as_slice);
        let under = self.layout.layers[layer].iter().any(|&item| self.below[item].is_some());
        (under, next.iter().any(|&item| self.above[item].is_some()))
    }

    fn channel_height(&self, layer: usize, channel: &Channel) -> usize {
        if layer + 1 == self.layout.layers.len() {
            return 0;
        }
        let (under, over) = self.label_rows(layer);
        usize::from(under) + channel.rows + usize::from(over) + 1
    }

    fn draw_layer(&self, canvas: &mut Canvas, layer: usize, x: &[usize], y: usize) {
        let height = self.box_height(layer);
        for &item in &self.layout.layers[layer] {
            let Some(lines) = self.boxes.get(item) else {
                canvas.fall(x[item], y..y + height);
                continue;
            };
            let half = self.halves[item];
            canvas.frame(x[item] - half, y, 2 * half + 1, height);
            for (row, line) in lines.iter().enumerate() {
                let indent = (2 * half - 1 - width(line)) / 2;
                canvas.write(x[item] - half + 1 + indent, y + 1 + row, line);
            }
        }
    }

    fn draw_channel(&self, canvas: &mut Canvas, layer: usize, channel: &Channel, x: &[usize], top: usize) {
        let end = top + self.channel_height(layer, channel);
        channel.draw(canvas, top, top + usize::from(self.label_rows(layer).0), end);
        channel.sources().for_each(|x| canvas.leave(x, top - 1));
        for &item in &self.layout.layers[layer] {
            self.below[item].inspect(|label| canvas.write(x[item] + 2, top, label));
        }
        for &item in self.layout.layers.get(layer + 1).into_iter().flatten() {
            self.above[item].inspect(|label| canvas.write(x[item] + 2, end - 2, label));
        }
        channel.arrivals.iter().for_each(|&column| canvas.write(column, end - 1, "▼"));
    }

    fn notes(&self, width_max: usize) -> String {
        let labels = self.unlabelled.iter().map(|&at| {
            let link = &self.layers.links[at];
            arrow(self.picture, link.from, link.to, link.label.as_deref())
        });
        let notes: Vec<String> = labels.chain(back_edges(self.picture, self.layers)).collect();
        let lines = notes.iter().map(|note| shorten(note, width_max) + "\n");
        if notes.is_empty() { String::new() } else { "\n".to_owned() + &lines.collect::<String>() }
    }
}

fn lines(node: &Node, style: Style) -> Vec<String> {
    let mark = node.mark.map(|mark| format!("{} ", mark.glyph())).unwrap_or_default();
    let mut lines = vec![mark + &shorten(&legible(&node.id), style.id_max)];
    if style.kinds {
        lines.push(shorten(&legible(&node.kind), style.id_max));
    }
    lines
}
