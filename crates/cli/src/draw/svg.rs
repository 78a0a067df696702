//! The drawing as SVG: one document without scripts, fonts or links, readable on light and dark ground.

use crate::draw::layers::Layers;
use crate::draw::layout::{LabelPlace, Layout, Reach};
use crate::draw::words::{legible, shorten, width};
use crate::draw::{Edge, Mark, Node, Picture};

const BOX_HEIGHT: usize = 48;
const LAYER_GAP: usize = 60;
const BOX_GAP: usize = 32;
const MARGIN: usize = 20;
const BOX_WIDTH_MIN: usize = 96;
/// Room for the mark of a node.
const MARK_WIDTH: usize = 26;
/// Columns after which a text loses its middle; its title holds all of it.
const COLUMNS_MAX: usize = 30;
const LABEL_HEIGHT: usize = 18;
/// How far an arrow reaches back from its point, and to its sides.
const ARROW: (f64, f64) = (8.0, 4.5);
/// How far from the boxes a line back runs, how far it is from the next, and after how many they repeat.
const LANE: f64 = 22.0;
const LANE_STEP: f64 = 14.0;
const LANES: usize = 6;
/// A line back over more layers than this runs outside of all.
const LANE_LAYERS_MAX: usize = 64;
const CORNER: f64 = 9.0;

/// The looks. Lines and labels keep their contrast on either ground, in case the page around decides for
/// itself what is dark.
const STYLE: &str = r#"<style>
.abide-flow text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;text-anchor:middle}
.abide-flow .name{font-size:13px;font-weight:600;fill:#1f2733}
.abide-flow .kind{font-size:11px;fill:#5d6876}
.abide-flow .word{font-size:11px;fill:#33404f}
.abide-flow .box{fill:#fff;stroke-width:1.5}
.abide-flow .plain .box{stroke:#aeb7c3}
.abide-flow .tag{fill:#e9edf2}
.abide-flow .line{fill:none;stroke:#808b9a;stroke-width:1.5}
.abide-flow .tip{fill:#808b9a}
.abide-flow .back .line{stroke-dasharray:5 4}
.abide-flow .sign{fill:#fff;font-size:11px;font-weight:700}
.abide-flow .done .box{stroke:#24894d}.abide-flow .done .dot{fill:#24894d}
.abide-flow .running .box{stroke:#2377c9}.abide-flow .running .dot{fill:#2377c9}
.abide-flow .waiting .box{stroke:#b0750a}.abide-flow .waiting .dot{fill:#b0750a}
.abide-flow .failed .box{stroke:#cf3a3a}.abide-flow .failed .dot{fill:#cf3a3a}
.abide-flow .skipped .box{stroke:#77828f}.abide-flow .skipped .dot{fill:#77828f}
.abide-flow .cancelled .box{stroke:#8560ab}.abide-flow .cancelled .dot{fill:#8560ab}
.abide-flow .pending .box{stroke:#8b96a4}.abide-flow .pending .dot{fill:#8b96a4}
.abide-flow .skipped .box,.abide-flow .pending .box{stroke-dasharray:4 3}
@media (prefers-color-scheme:dark){
.abide-flow .name{fill:#e8ecf1}
.abide-flow .kind{fill:#a3aebb}
.abide-flow .word{fill:#d3dae3}
.abide-flow .box{fill:#1c222b}
.abide-flow .plain .box{stroke:#566273}
.abide-flow .tag{fill:#2d3642}
}
</style>
"#;

/// The whole document.
pub(super) fn draw(picture: &Picture, layers: &Layers) -> String {
    let layout = Layout::of(layers);
    let halves: Vec<usize> = picture.nodes.iter().map(half_width).collect();
    let mut sheet = Sheet::new(picture, layers, &layout, halves);
    let lines: String = (0..layers.links.len()).map(|link| sheet.link(link)).collect();
    let back: String = (0..layers.back.len()).map(|at| sheet.back_edge(at)).collect();
    let boxes: String = (0..picture.nodes.len()).map(|node| sheet.node(node)).collect();
    let (width, height) = (sheet.right.ceil() as usize + MARGIN, sheet.height());
    let title = format!("Workflow of {} nodes and {} edges", picture.nodes.len(), picture.edges.len());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"abide-flow\" role=\"img\" \
         viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <title>{title}</title>\n{STYLE}{lines}{back}{boxes}{tags}</svg>\n",
        tags = sheet.tags,
    )
}

/// Half the width of a node's box. Letters are guessed wide: there is no font to measure here.
fn half_width(node: &Node) -> usize {
    let name = width(&shown(&node.label)) * 8;
    let kind = width(&shown(&node.kind)) * 13 / 2;
    let mark = if node.mark.is_some() { MARK_WIDTH } else { 0 };
    (name.max(kind) + 26 + mark).max(BOX_WIDTH_MIN) / 2
}

fn shown(text: &str) -> String {
    shorten(&legible(text), COLUMNS_MAX)
}

fn label_half(label: &str) -> usize {
    width(&shown(label)) * 33 / 10 + 7
}

/// The text as it may stand between tags and in attributes.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

struct Sheet<'a> {
    picture: &'a Picture,
    layers: &'a Layers,
    layout: &'a Layout,
    halves: Vec<usize>,
    /// The middle of each item.
    x: Vec<f64>,
    /// How far right each layer reaches.
    rights: Vec<f64>,
    /// How far right any layer reaches, and how far anything does.
    widest: f64,
    right: f64,
    /// The labels, which stand over everything else.
    tags: String,
}

impl<'a> Sheet<'a> {
    fn new(picture: &'a Picture, layers: &'a Layers, layout: &'a Layout, halves: Vec<usize>) -> Self {
        let mut reach = vec![Reach { left: 4, right: 4 }; layout.items.len()];
        for (reach, &half) in reach.iter_mut().zip(&halves) {
            *reach = Reach { left: half, right: half };
        }
        for (at, link) in layers.links.iter().enumerate() {
            let place = layout.label_place(at);
            if let (Some(LabelPlace::Above(item) | LabelPlace::Below(item)), Some(label)) =
                (place, &link.label)
            {
                let half = label_half(label);
                reach[item] = Reach { left: reach[item].left.max(half), right: reach[item].right.max(half) };
            }
        }
        for edge in layers.back.iter().map(|&at| &picture.edges[at]).filter(|edge| edge.from == edge.to) {
            let label = edge.label.as_deref().map_or(0, |label| 2 * label_half(label));
            let right = halves[edge.to] + LANE as usize + label;
            reach[edge.to].right = reach[edge.to].right.max(right);
        }
        let places = layout.place(&reach, BOX_GAP);
        let x: Vec<f64> = places.iter().map(|x| x + MARGIN as f64).collect();
        let end = |&item: &usize| x[item] + reach[item].right as f64;
        let rights: Vec<f64> =
            layout.layers.iter().map(|layer| layer.iter().map(end).fold(0.0, f64::max)).collect();
        let widest = rights.iter().copied().fold(0.0, f64::max);
        Sheet { picture, layers, layout, halves, x, rights, widest, right: widest, tags: String::new() }
    }

    fn height(&self) -> usize {
        let layers = self.layout.layers.len();
        2 * MARGIN + layers * BOX_HEIGHT + layers.saturating_sub(1) * LAYER_GAP
    }

    /// The upper edge of the item's layer.
    fn top(&self, item: usize) -> f64 {
        (MARGIN + self.layout.items[item].layer * (BOX_HEIGHT + LAYER_GAP)) as f64
    }

    fn bottom(&self, item: usize) -> f64 {
        self.top(item) + BOX_HEIGHT as f64
    }

    fn node(&self, at: usize) -> String {
        let node = &self.picture.nodes[at];
        let half = self.halves[at] as f64;
        let (x, y) = (self.x[at], self.top(at));
        let class = node.mark.map_or("plain", Mark::word);
        let shift = if node.mark.is_some() { MARK_WIDTH as f64 / 2.0 } else { 0.0 };
        let dot = node.mark.map(|mark| sign(mark.glyph(), x - half + 18.0, y + 24.0)).unwrap_or_default();
        format!(
            "<g class=\"node {class}\"><title>{title}</title>\
             <rect class=\"box\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.0}\" height=\"{BOX_HEIGHT}\" rx=\"9\"/>{dot}\
             <text class=\"name\" x=\"{middle:.1}\" y=\"{first:.1}\">{name}</text>\
             <text class=\"kind\" x=\"{middle:.1}\" y=\"{second:.1}\">{kind}</text></g>\n",
            title = escape(&title(node)),
            left = x - half,
            width = 2.0 * half,
            middle = x + shift,
            first = y + 21.0,
            second = y + 37.0,
            name = escape(&shown(&node.label)),
            kind = escape(&shown(&node.kind)),
        )
    }

    /// A line from box to box, upright where it passes a layer.
    fn link(&mut self, at: usize) -> String {
        let layout = self.layout;
        let chain = &layout.chains[at];
        let last = chain[chain.len() - 1];
        let mut path = format!("M{:.1} {:.1}", self.x[chain[0]], self.bottom(chain[0]));
        for pair in chain.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let end = if to == last { self.top(to) - ARROW.0 } else { self.top(to) };
            let middle = (self.bottom(from) + end) / 2.0;
            let (x0, x1) = (self.x[from], self.x[to]);
            path += &format!("C{x0:.1} {middle:.1} {x1:.1} {middle:.1} {x1:.1} {end:.1}");
            if to != last {
                path += &format!("V{:.1}", self.bottom(to));
            }
        }
        let link = &self.layers.links[at];
        if let Some(label) = &link.label {
            let (x, y) = self.label_spot(at);
            self.tag(x, y, label);
        }
        let tip = arrow_down(self.x[last], self.top(last));
        let title = self.edge_title(link.from, link.to, link.label.as_deref());
        format!("<g class=\"edge\">{title}<path class=\"line\" d=\"{path}\"/>{tip}</g>\n")
    }

    fn label_spot(&self, link: usize) -> (f64, f64) {
        match self.layout.label_place(link) {
            Some(LabelPlace::Above(item)) => (self.x[item], self.top(item) - 23.0),
            Some(LabelPlace::Below(item)) => (self.x[item], self.bottom(item) + 19.0),
            None => self.spot_between(self.layout.chains[link][0], self.layout.chains[link][1]),
        }
    }

    /// A place on the curve between two boxes that both have other lines. Neighbouring lines of one box take
    /// turns in height, so that their labels don't cover each other.
    fn spot_between(&self, from: usize, to: usize) -> (f64, f64) {
        let turn = self.layout.items[from].down.iter().position(|&other| other == to).unwrap_or(0);
        let part = if turn % 2 == 0 { 0.3 } else { 0.66 };
        let along = part * part * (3.0 - 2.0 * part);
        let between = |start: f64, end: f64, part: f64| start + (end - start) * part;
        (between(self.x[from], self.x[to], along), between(self.bottom(from), self.top(to), part))
    }

    /// A dashed line to the right of the boxes, back to where the loop begins.
    fn back_edge(&mut self, at: usize) -> String {
        let picture = self.picture;
        let edge = &picture.edges[self.layers.back[at]];
        let step = LANE_STEP * (at % LANES) as f64;
        let lane = if edge.from == edge.to { self.box_right(edge.to) + LANE } else { self.lane(edge) + step };
        let (mut points, mut way_in) = (self.way_out(edge, lane), self.way_in(edge, lane));
        let middle = (points[points.len() - 1].1 + way_in[0].1) / 2.0;
        let (end, sideways) = (way_in[way_in.len() - 1], way_in.len() == 2);
        points.append(&mut way_in);
        let tip = if sideways { arrow_left(end.0, end.1) } else { arrow_down(end.0, end.1) };
        self.right = self.right.max(lane);
        if let Some(label) = &edge.label {
            let half = label_half(label) as f64;
            let x = if edge.from == edge.to { lane + half } else { lane };
            self.right = self.right.max(x + half);
            self.tag(x, middle, label);
        }
        let title = self.edge_title(edge.from, edge.to, edge.label.as_deref());
        format!("<g class=\"edge back\">{title}<path class=\"line\" d=\"{}\"/>{tip}</g>\n", rounded(&points))
    }

    /// Where a line back runs upwards: to the right of all layers that it passes.
    fn lane(&self, edge: &Edge) -> f64 {
        let (one, other) = (self.layout.items[edge.from].layer, self.layout.items[edge.to].layer);
        let passed = one.min(other)..=one.max(other);
        // The edge of the whole drawing will do for a long way: looking at each layer again and again would not.
        let is_long = passed.end() - passed.start() > LANE_LAYERS_MAX;
        let nearest = || self.rights[passed].iter().copied().fold(0.0, f64::max);
        let right = if is_long { self.widest } else { nearest() };
        right + LANE
    }

    fn box_right(&self, node: usize) -> f64 {
        self.x[node] + self.halves[node] as f64
    }

    /// Whether nothing stands between the box and the lane.
    fn is_last(&self, node: usize) -> bool {
        self.layout.layers[self.layout.items[node].layer].last() == Some(&node)
    }

    /// From the side of the box, or from under it when another stands in the way.
    fn way_out(&self, edge: &Edge, lane: f64) -> Vec<(f64, f64)> {
        let node = edge.from;
        if edge.from == edge.to || self.is_last(node) {
            let y = self.top(node) + 32.0;
            return vec![(self.box_right(node), y), (lane, y)];
        }
        let (x, y) = (self.box_right(node) - 16.0, self.bottom(node));
        vec![(x, y), (x, y + 14.0), (lane, y + 14.0)]
    }

    /// To the side of the box, or onto it when another stands in the way.
    fn way_in(&self, edge: &Edge, lane: f64) -> Vec<(f64, f64)> {
        let node = edge.to;
        if edge.from == edge.to || self.is_last(node) {
            let y = self.top(node) + 16.0;
            return vec![(lane, y), (self.box_right(node), y)];
        }
        let (x, y) = (self.box_right(node) - 16.0, self.top(node));
        vec![(lane, y - 16.0), (x, y - 16.0), (x, y)]
    }

    fn tag(&mut self, x: f64, y: f64, label: &str) {
        let half = label_half(label) as f64;
        self.tags += &format!(
            "<g class=\"label\"><title>{full}</title>\
             <rect class=\"tag\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.0}\" height=\"{LABEL_HEIGHT}\" rx=\"9\"/>\
             <text class=\"word\" x=\"{x:.1}\" y=\"{line:.1}\">{word}</text></g>\n",
            full = escape(&legible(label)),
            left = x - half,
            top = y - LABEL_HEIGHT as f64 / 2.0,
            width = 2.0 * half,
            line = y + 4.0,
            word = escape(&shown(label)),
        );
    }

    fn edge_title(&self, from: usize, to: usize, label: Option<&str>) -> String {
        format!("<title>{}</title>", escape(&crate::draw::text::arrow(self.picture, from, to, label)))
    }
}

fn title(node: &Node) -> String {
    let state = node.mark.map(|mark| format!(", {}", mark.word())).unwrap_or_default();
    format!("{} ({}, {}){state}", legible(&node.label), legible(&node.id), legible(&node.kind))
}

fn sign(glyph: char, x: f64, y: f64) -> String {
    format!(
        "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\"/>\
         <text class=\"sign\" x=\"{x:.1}\" y=\"{:.1}\">{glyph}</text>",
        y + 4.0
    )
}

fn arrow_down(x: f64, y: f64) -> String {
    let (left, right, back) = (x - ARROW.1, x + ARROW.1, y - ARROW.0);
    format!("<path class=\"tip\" d=\"M{x:.1} {y:.1}L{left:.1} {back:.1}H{right:.1}Z\"/>")
}

fn arrow_left(x: f64, y: f64) -> String {
    let (up, down, back) = (y - ARROW.1, y + ARROW.1, x + ARROW.0);
    format!("<path class=\"tip\" d=\"M{x:.1} {y:.1}L{back:.1} {up:.1}V{down:.1}Z\"/>")
}

/// A path along the points with its corners cut round.
fn rounded(points: &[(f64, f64)]) -> String {
    let mut path = format!("M{:.1} {:.1}", points[0].0, points[0].1);
    for three in points.windows(3) {
        let (x, y) = three[1];
        let (before, after) = (toward(three[1], three[0]), toward(three[1], three[2]));
        path += &format!("L{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}", before.0, before.1, after.0, after.1);
    }
    let (x, y) = points[points.len() - 1];
    path + &format!("L{x:.1} {y:.1}")
}

/// The point that lies a corner's radius from `from` on the way to `to`, or half way if that is nearer.
fn toward(from: (f64, f64), to: (f64, f64)) -> (f64, f64) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(f64::EPSILON);
    let part = (CORNER / length).min(0.5);
    (from.0 + dx * part, from.1 + dy * part)
}
