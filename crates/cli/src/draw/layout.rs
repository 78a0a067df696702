//! Where everything stands: the order within each layer, and the places from left to right.
//!
//! Text and SVG share this layout; they differ in how wide things are. A line over several layers gets a bend
//! in each layer between, so that no line runs through a box. All steps are near linear, with fixed numbers of
//! sweeps: a definition of any shape is laid out in bounded time.

use crate::draw::layers::Layers;

/// Passes over all layers that look for an order with fewer crossings.
const ORDER_SWEEPS: usize = 12;
/// Passes over all layers that pull things over what they are connected with.
const PLACE_SWEEPS: usize = 12;
/// Lines beyond this number of bends run straight, through boxes if need be: with that many nobody follows
/// a single line any more, and the bends of long lines grow with the square of the graph.
const BENDS_MAX: usize = 20_000;
/// How much more than a box a bend insists on its place: a long line looks best without kinks.
const BEND_WEIGHT: f64 = 4.0;
/// How much something insists on its place that is connected with nothing on that side.
const LOOSE_WEIGHT: f64 = 0.02;
/// Parts of a unit that places are given in.
const SNAP: f64 = 64.0;

/// A node, or a bend of a line, in its layer. The first items are the nodes, in the picture's order.
#[derive(Clone, Debug, Default)]
pub(super) struct Item {
    pub(super) layer: usize,
    /// The items that lines come from.
    pub(super) up: Vec<usize>,
    /// The items that lines lead to.
    pub(super) down: Vec<usize>,
}

/// How far an item reaches from its middle to the left and to the right.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    pub(super) left: usize,
    pub(super) right: usize,
}

/// Where a line's label can stand without being taken for another line's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelPlace {
    /// Over an item that no other line comes to.
    Above(usize),
    /// Under an item that no other line leaves.
    Below(usize),
}

/// Items in layers, in order.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) items: Vec<Item>,
    /// The items of each layer, from left to right.
    pub(super) layers: Vec<Vec<usize>>,
    /// The items of each link, from its source over its bends to its target.
    pub(super) chains: Vec<Vec<usize>>,
    /// How many items are nodes.
    pub(super) nodes: usize,
}

impl Layout {
    /// Lays out the layers.
    pub(super) fn of(given: &Layers) -> Layout {
        let nodes = given.of_node.len();
        let items = given.of_node.iter().map(|&layer| Item { layer, ..Item::default() }).collect();
        let mut layout = Layout { items, layers: given.nodes(), chains: Vec::new(), nodes };
        for link in &given.links {
            layout.add_chain(link.from, link.to);
        }
        layout.order();
        layout
    }

    /// Whether the item is a bend of a line.
    pub(super) fn is_bend(&self, item: usize) -> bool {
        item >= self.nodes
    }

    /// Where the label of a link can stand, if anywhere.
    pub(super) fn label_place(&self, link: usize) -> Option<LabelPlace> {
        let (first, second) = (self.chains[link][0], self.chains[link][1]);
        if self.items[second].up.len() == 1 {
            Some(LabelPlace::Above(second))
        } else {
            (self.items[first].down.len() == 1).then_some(LabelPlace::Below(first))
        }
    }

    fn add_chain(&mut self, from: usize, to: usize) {
        let between = self.items[from].layer + 1..self.items[to].layer;
        let mut chain = vec![from];
        if self.items.len() - self.nodes + between.len() <= BENDS_MAX {
            for layer in between {
                chain.push(self.items.len());
                self.layers[layer].push(self.items.len());
                self.items.push(Item { layer, ..Item::default() });
            }
        }
        chain.push(to);
        for pair in chain.windows(2) {
            self.items[pair[0]].down.push(pair[1]);
            self.items[pair[1]].up.push(pair[0]);
        }
        self.chains.push(chain);
    }

    /// Sorts each layer by the middle of its neighbours, up and down in turn, and keeps the best order seen.
    fn order(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for sweep in 0..ORDER_SWEEPS {
            if best.0 == 0 {
                break;
            }
            self.sort_layers(sweep % 2 == 0);
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    fn sort_layers(&mut self, downwards: bool) {
        let mut rank = self.ranks();
        for layer in turns(self.layers.len(), downwards) {
            let mut keyed: Vec<(f64, usize)> = self.layers[layer]
                .iter()
                .map(|&item| (self.pull(item, downwards, &rank).unwrap_or(rank[item]), item))
                .collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.layers[layer] = keyed.into_iter().map(|(_, item)| item).collect();
            for (at, &item) in self.layers[layer].iter().enumerate() {
                rank[item] = at as f64;
            }
        }
    }

    fn ranks(&self) -> Vec<f64> {
        let mut rank = vec![0.0; self.items.len()];
        for (at, &item) in self.layers.iter().flat_map(|layer| layer.iter().enumerate()) {
            rank[item] = at as f64;
        }
        rank
    }

    /// The middle of the item's neighbours on the side that the sweep comes from.
    fn pull(&self, item: usize, downwards: bool, x: &[f64]) -> Option<f64> {
        let item = &self.items[item];
        let near = if downwards { &item.up } else { &item.down };
        (!near.is_empty()).then(|| near.iter().map(|&other| x[other]).sum::<f64>() / near.len() as f64)
    }

    fn crossings(&self) -> usize {
        let rank = self.ranks();
        let rank_of = |item: &usize| rank[*item] as usize;
        let mut total = 0;
        for pair in self.layers.windows(2) {
            let mut ends = Vec::new();
            for &item in &pair[0] {
                let layer = self.items[item].layer + 1;
                let near = self.items[item].down.iter().filter(|&&to| self.items[to].layer == layer);
                let from = ends.len();
                ends.extend(near.map(rank_of));
                ends[from..].sort_unstable();
            }
            total += inversions(&ends, pair[1].len());
        }
        total
    }

    /// The middle of each item, from left to right within its layer and `gap` apart; the leftmost begins at 0.
    ///
    /// The middles of two items of a layer differ by a whole number or by more than they have to, so rounding
    /// them all the same way keeps them apart.
    pub(super) fn place(&self, reach: &[Reach], gap: usize) -> Vec<f64> {
        let mut x = vec![0.0; self.items.len()];
        let offsets: Vec<Vec<f64>> = self.layers.iter().map(|layer| offsets(layer, reach, gap)).collect();
        for (layer, offsets) in self.layers.iter().zip(&offsets) {
            layer.iter().zip(offsets).for_each(|(&item, offset)| x[item] = *offset);
        }
        for sweep in 0..PLACE_SWEEPS {
            let downwards = sweep % 2 == 0;
            for layer in turns(self.layers.len(), downwards) {
                self.settle(&self.layers[layer], &offsets[layer], downwards, &mut x);
            }
        }
        let left = x.iter().zip(reach).map(|(x, reach)| x - reach.left as f64).fold(f64::INFINITY, f64::min);
        // What stands at the same place must be rounded to the same place, whatever the sums lost.
        x.iter().map(|x| ((x - left) * SNAP).round() / SNAP).collect()
    }

    /// Moves each item of a layer as near to its pull as the others allow, by least squares: items that want
    /// to overlap form a block, which stands in the middle of what its items want.
    fn settle(&self, layer: &[usize], offsets: &[f64], downwards: bool, x: &mut [f64]) {
        let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
        for (&item, offset) in layer.iter().zip(offsets) {
            let (wish, weight) = match self.pull(item, downwards, x) {
                Some(pull) => (pull, if self.is_bend(item) { BEND_WEIGHT } else { 1.0 }),
                None => (x[item], LOOSE_WEIGHT),
            };
            let mut block = (wish - offset, weight, 1);
            while let Some(&(place, others, count)) = blocks.last().filter(|last| last.0 >= block.0) {
                let sum = others + block.1;
                block = ((place * others + block.0 * block.1) / sum, sum, block.2 + count);
                blocks.pop();
            }
            blocks.push(block);
        }
        let places = blocks.iter().flat_map(|&(place, _, count)| std::iter::repeat_n(place, count));
        for ((&item, offset), place) in layer.iter().zip(offsets).zip(places) {
            x[item] = place + offset;
        }
    }
}

/// The layers in the order of a sweep.
fn turns(layers: usize, downwards: bool) -> impl Iterator<Item = usize> {
    (0..layers).map(move |at| if downwards { at } else { layers - 1 - at })
}

/// The middles of a layer's items when they stand as close together as they may.
fn offsets(layer: &[usize], reach: &[Reach], gap: usize) -> Vec<f64> {
    let mut end = 0;
    let mut offsets = Vec::with_capacity(layer.len());
    for &item in layer {
        offsets.push((end + reach[item].left) as f64);
        end += reach[item].left + 1 + reach[item].right + gap;
    }
    offsets
}

/// How many pairs stand in the wrong order, counted with a Fenwick tree.
fn inversions(values: &[usize], bound: usize) -> usize {
    let mut tree = vec![0; bound + 1];
    let mut total = 0;
    for (seen, &value) in values.iter().enumerate() {
        let mut not_greater = 0;
        let mut at = value + 1;
        while at > 0 {
            not_greater += tree[at];
            at &= at - 1;
        }
        total += seen - not_greater;
        at = value + 1;
        while at <= bound {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    total
}
