//! Finds many words in a text in one pass, however the words and the text are made.
//!
//! The words stand in a tree, and each place in it knows where to go on when the text goes another way
//! (Aho and Corasick). Each byte of the text takes one step forward, and a step back was paid for by a step
//! forward before: the work is in proportion to the text, not to the text times the words.

use std::collections::HashMap;

/// From where to where, in bytes.
pub(super) type Range = (usize, usize);

/// The words to find.
pub(super) struct Words {
    /// Where a byte leads from a place.
    edges: HashMap<(u32, u8), u32>,
    places: Vec<Place>,
}

/// What was read when the search is here.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The place of the longest shorter ending that some word begins with.
    fallback: u32,
    /// Bytes of the word's beginning that was read.
    depth: usize,
    /// Bytes of the longest word that ends here, or 0.
    word: usize,
}

/// What a text holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Where words stand: in order, and none touches another.
    pub(super) words: Vec<Range>,
    /// Where the text ends within a word: the first byte of the longest beginning; the text's end if there is none.
    pub(super) begun: usize,
}

impl Words {
    pub(super) fn new<'a>(words: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut all = Self { edges: HashMap::new(), places: vec![Place::default()] };
        words.for_each(|word| all.add(word));
        all.connect();
        all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    fn add(&mut self, word: &[u8]) {
        let mut at = 0;
        for (ix, byte) in word.iter().enumerate() {
            let new = self.places.len() as u32;
            at = *self.edges.entry((at, *byte)).or_insert(new);
            if at == new {
                self.places.push(Place { depth: ix + 1, ..Place::default() });
            }
        }
        self.places[at as usize].word = word.len();
    }

    /// Finds the fallbacks, from short beginnings to long ones: each needs those of shorter ones.
    fn connect(&mut self) {
        let mut edges: Vec<((u32, u8), u32)> = self.edges.iter().map(|(from, to)| (*from, *to)).collect();
        edges.sort_unstable_by_key(|(_, to)| self.places[*to as usize].depth);
        for ((from, byte), to) in edges {
            let fallback = match from {
                0 => 0,
                _ => self.next(self.places[from as usize].fallback, byte),
            };
            let shorter = self.places[fallback as usize].word;
            let place = &mut self.places[to as usize];
            place.fallback = fallback;
            place.word = place.word.max(shorter);
        }
    }

    fn next(&self, mut at: u32, byte: u8) -> u32 {
        loop {
            count_step();
            match self.edges.get(&(at, byte)) {
                Some(to) => return *to,
                None if at == 0 => return 0,
                None => at = self.places[at as usize].fallback,
            }
        }
    }

    pub(super) fn search(&self, text: &[u8]) -> Seen {
        let mut words: Vec<Range> = Vec::new();
        let mut at = 0;
        for (ix, byte) in text.iter().enumerate() {
            at = self.next(at, *byte);
            let word = self.places[at as usize].word;
            if word > 0 {
                join(&mut words, (ix + 1 - word, ix + 1));
            }
        }
        Seen { words, begun: text.len() - self.places[at as usize].depth }
    }
}

impl Seen {
    /// What one or the other saw.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.begun = self.begun.min(other.begun);
        if !other.words.is_empty() {
            let mut all = std::mem::take(&mut self.words);
            all.extend(other.words);
            all.sort_unstable();
            all.into_iter().for_each(|range| join(&mut self.words, range));
        }
        self
    }
}

/// Adds a range that ends no earlier than the others, or begins no earlier.
fn join(ranges: &mut Vec<Range>, (mut start, mut end): Range) {
    while let Some((before, until)) = ranges.pop_if(|(_, until)| *until >= start) {
        start = start.min(before);
        end = end.max(until);
    }
    ranges.push((start, end));
}

#[cfg(not(test))]
fn count_step() {}

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
fn count_step() {
    STEPS.set(STEPS.get() + 1);
}

/// How many steps were made in this thread.
#[cfg(test)]
pub(super) fn steps() -> usize {
    STEPS.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(words: &[&str], text: &str) -> Seen {
        Words::new(words.iter().map(|word| word.as_bytes())).search(text.as_bytes())
    }

    #[test]
    fn words_are_found_where_they_stand() {
        let cases: [(&[&str], &str, &[Range]); 6] = [
            (&["abcd"], "abcabcd", &[(3, 7)]),
            (&["aaab"], "aaaab", &[(1, 5)]),
            (&["abcd", "abcdef"], "abcdef abcd", &[(0, 6), (7, 11)]),
            (&["bc", "abcd"], "abce", &[(1, 3)]),
            (&["abab"], "ababab", &[(0, 6)]),
            (&["abcd", "cdef"], "abcdef", &[(0, 6)]),
        ];
        for (words, text, expected) in cases {
            assert_eq!(seen(words, text).words, expected, "{words:?} in {text}");
        }
    }

    #[test]
    fn the_end_of_a_text_may_begin_a_word() {
        assert_eq!(seen(&["abcd"], "xxabc").begun, 2);
        assert_eq!(seen(&["abcd", "bcx"], "xabc").begun, 1, "the longest beginning counts");
        assert_eq!(seen(&["abcd"], "xyz").begun, 3);
    }

    #[test]
    fn hostile_words_and_texts_take_steps_in_proportion() {
        let hostile = [format!("{}b", "a".repeat(8000)), "aaaa".to_owned(), format!("{}c", "a".repeat(4000))];
        let words = Words::new(hostile.iter().map(String::as_bytes));
        let text = "a".repeat(100_000);
        let before = steps();
        assert_eq!(words.search(text.as_bytes()).words, [(0, 100_000)]);
        assert!(steps() - before <= 2 * text.len(), "{} steps", steps() - before);
    }
}
