//! Choices drawn from a tape, so that a case is repeated and shrunk by its tape alone.
//!
//! A shorter tape and smaller numbers make a plainer case: what is drawn past the end is always the first choice.

/// Numbers to draw from.
#[derive(Clone)]
pub(crate) struct Tape(pub(crate) Vec<u16>);

impl std::fmt::Debug for Tape {
    /// On one line: nobody reads the numbers, but a shrunk tape is short.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.0.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
        self.0[..end].iter().try_for_each(|number| write!(f, "{number} "))
    }
}

/// A tape that is read from the front.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    tape: Vec<u16>,
    at: usize,
}

impl Dice {
    pub(crate) fn new(tape: &Tape) -> Self {
        Self { tape: tape.0.clone(), at: 0 }
    }

    /// A number below `most`; 0 is the plainest choice.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        let drawn = self.tape.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        (usize::from(drawn) * most) >> 16
    }

    /// A number of a range, the least one being the plainest.
    pub(crate) fn among(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// Whether something happens that does so in so many cases out of a hundred.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of some items, by their weights.
    pub(crate) fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut drawn = self.below(items.iter().map(|(weight, _)| weight).sum());
        for &(weight, item) in items {
            if drawn < weight {
                return item;
            }
            drawn -= weight;
        }
        items[0].1
    }

    /// Whether the tape has come to its end.
    pub(crate) fn is_spent(&self) -> bool {
        self.at >= self.tape.len()
    }
}
