//! The lines between two layers of a text drawing: which of them share a row, and in which row each turns.

use std::collections::{BTreeMap, BTreeSet};

use crate::draw::canvas::{Canvas, DOWN, LEFT, RIGHT, UP};
use crate::draw::layout::Layout;

/// How far apart two lines arrive at one box where there is room.
const PORT_STEP: usize = 4;

/// The space between two layers.
pub(super) struct Channel {
    nets: Vec<Net>,
    /// The rows that lines turn in.
    pub(super) rows: usize,
    /// The columns in which lines arrive at boxes.
    pub(super) arrivals: Vec<usize>,
}

/// Lines that may run together, because each of their sources leads to each of their targets. Lines of
/// different nets never touch: a line that joins another would seem to come from both and lead to both.
struct Net {
    /// The columns they come down.
    sources: Vec<usize>,
    /// Whether all of them leave boxes: those are wide enough to be left beside the middle.
    leaves_boxes: bool,
    /// The columns they go on.
    targets: Vec<usize>,
    /// The row they turn in; a line that falls straight down needs none.
    row: Option<usize>,
}

/// How many nets arrive at an item, each of which needs a column of its own.
pub(super) fn arrivals(layout: &Layout, item: usize) -> usize {
    layout.items[item].up.iter().map(|&from| targets(layout, from)).collect::<BTreeSet<_>>().len()
}

fn targets(layout: &Layout, item: usize) -> Vec<usize> {
    let mut targets = layout.items[item].down.clone();
    targets.sort_unstable();
    targets
}

impl Channel {
    /// Finds a row for each net under `layer`, or nothing when some nets would each have to turn before the
    /// next, round in a circle, and none can step aside. `x` is the middle of each item and `halves` half the
    /// width of each box.
    pub(super) fn under(layout: &Layout, layer: usize, x: &[usize], halves: &[usize]) -> Option<Channel> {
        let mut by_targets: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for &item in layout.layers[layer].iter().filter(|&&item| !layout.items[item].down.is_empty()) {
            by_targets.entry(targets(layout, item)).or_default().push(item);
        }
        let mut channel = Channel { nets: Vec::new(), rows: 0, arrivals: Vec::new() };
        let mut arriving: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (targets, sources) in by_targets {
            let net = Net {
                leaves_boxes: !sources.iter().any(|&item| layout.is_bend(item)),
                sources: sources.into_iter().map(|item| x[item]).collect(),
                targets: Vec::new(),
                row: None,
            };
            targets.iter().for_each(|&to| arriving.entry(to).or_default().push(channel.nets.len()));
            channel.nets.push(net);
        }
        for (item, nets) in arriving {
            channel.arrive(nets, x[item], halves.get(item).copied());
        }
        channel.assign_rows().then_some(channel)
    }

    /// Gives each net that arrives at an item its column there, in the order in which they come from the left.
    fn arrive(&mut self, mut nets: Vec<usize>, middle: usize, half: Option<usize>) {
        nets.sort_by_key(|&net| self.nets[net].sources.iter().sum::<usize>() / self.nets[net].sources.len());
        let gaps = nets.len() - 1;
        let room = half.map_or(0, |half| 2 * (half - 1));
        let step = room.checked_div(gaps).map_or(0, |step| step.min(PORT_STEP) / 2 * 2);
        for (at, &net) in nets.iter().enumerate() {
            let column = middle + at * step - gaps * step / 2;
            self.nets[net].targets.push(column);
            self.arrivals.extend(half.map(|_| column));
        }
    }

    /// Takes the nets from the left, each once those that must turn above it have their rows.
    fn assign_rows(&mut self) -> bool {
        let mut open: Vec<usize> =
            (0..self.nets.len()).filter(|&net| !self.nets[net].is_straight()).collect();
        open.sort_by_key(|&net| self.nets[net].span());
        while !open.is_empty() {
            let free =
                |&net: &usize| !open.iter().any(|&other| self.nets[other].turns_above(&self.nets[net]));
            let Some(at) = open.iter().position(free) else {
                match open.iter().copied().find(|&net| self.can_step_aside(net)) {
                    Some(net) => self.step_aside(net),
                    None => return false,
                }
                continue;
            };
            let net = open.remove(at);
            let row = self.first_free_row(net);
            self.nets[net].row = Some(row);
            self.rows = self.rows.max(row + 1);
        }
        true
    }

    fn can_step_aside(&self, net: usize) -> bool {
        let taken = |x: usize| self.nets.iter().any(|other| other.targets.contains(&x));
        let net = &self.nets[net];
        net.leaves_boxes && !net.sources.iter().any(|x| taken(x + 1))
    }

    /// Leaves its boxes one column to the right, where no line goes on. It does so once only.
    fn step_aside(&mut self, net: usize) {
        let net = &mut self.nets[net];
        net.sources.iter_mut().for_each(|x| *x += 1);
        net.leaves_boxes = false;
    }

    /// The columns in which lines come down.
    pub(super) fn sources(&self) -> impl Iterator<Item = usize> {
        self.nets.iter().flat_map(|net| &net.sources).copied()
    }

    fn first_free_row(&self, net: usize) -> usize {
        let net = &self.nets[net];
        let above = self.nets.iter().filter(|other| other.turns_above(net)).filter_map(|other| other.row);
        let lowest = above.max().map_or(0, |row| row + 1);
        let taken =
            |row: &usize| self.nets.iter().any(|other| other.row == Some(*row) && other.comes_near(net));
        (lowest..).find(|row| !taken(row)).expect("a row below all others is free")
    }

    /// Draws the lines. `top` is the first row of the channel, `turns` the first row for turning and `end` the
    /// row behind the last.
    pub(super) fn draw(&self, canvas: &mut Canvas, top: usize, turns: usize, end: usize) {
        for net in &self.nets {
            let Some(row) = net.row.map(|row| turns + row) else {
                canvas.fall(net.sources[0], top..end);
                continue;
            };
            let (left, right) = net.span();
            for x in left..=right {
                let (source, target) = (net.sources.contains(&x), net.targets.contains(&x));
                let sides = if x > left { LEFT } else { 0 } | if x < right { RIGHT } else { 0 };
                let ends = if source { UP } else { 0 } | if target { DOWN } else { 0 };
                canvas.line(x, row, sides | ends, source || target);
            }
            net.sources.iter().for_each(|&x| canvas.fall(x, top..row));
            net.targets.iter().for_each(|&x| canvas.fall(x, row + 1..end));
        }
    }
}

impl Net {
    fn is_straight(&self) -> bool {
        self.sources == self.targets && self.sources.len() == 1
    }

    fn span(&self) -> (usize, usize) {
        let columns = || self.sources.iter().chain(&self.targets).copied();
        (columns().min().unwrap_or(0), columns().max().unwrap_or(0))
    }

    /// Whether one row would make the two look like one net.
    fn comes_near(&self, other: &Net) -> bool {
        let ((left, right), (other_left, other_right)) = (self.span(), other.span());
        left <= other_right + 1 && other_left <= right + 1
    }

    /// Whether it comes down a column that the other goes on in: it must have left the column before.
    fn turns_above(&self, other: &Net) -> bool {
        !std::ptr::eq(self, other) && self.sources.iter().any(|x| other.targets.contains(x))
    }
}
