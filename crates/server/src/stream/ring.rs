//! The frames that readers of one feed have not all taken yet, so many at most.
//!
//! Whoever reads steadily takes frames from here, and so does whoever comes a little later. A reader that falls behind the ring pins nothing: it reads the
//! journal by itself until it has caught up.

use std::collections::{BTreeMap, VecDeque};

use super::frame::Frame;
use crate::limits;

/// Frames of the events from `first` up to `next`, that one left out.
pub(crate) struct Ring {
    frames: VecDeque<Frame>,
    bytes: usize,
    first: u64,
    next: u64,
    /// Nothing comes after `next`.
    ended: bool,
    /// How many readers stand at each sequence. Those that fell behind the ring are not counted.
    readers: BTreeMap<u64, usize>,
}

/// What a reader finds at its place.
pub(crate) enum Found {
    /// Frames, perhaps none of its kind, and where it stands then.
    Frames(Vec<Frame>, u64),
    /// It is at the end, and events from this sequence on are not read yet.
    AtEnd(u64),
    /// Nothing comes any more.
    Ended,
    /// The ring has gone on without it.
    Behind,
}

impl Ring {
    pub(crate) fn new(next: u64, ended: bool) -> Self {
        let (frames, readers) = (VecDeque::new(), BTreeMap::new());
        Self { frames, bytes: 0, first: next, next, ended, readers }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// A reader takes its place.
    pub(crate) fn enter(&mut self, at: u64) {
        if at >= self.first {
            *self.readers.entry(at).or_default() += 1;
        }
    }

    /// A reader gives up its place.
    pub(crate) fn leave(&mut self, at: u64) {
        if let Some(count) = self.readers.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.readers.remove(&at);
            }
        }
        self.trim();
    }

    /// What comes at this place: as much as goes out at once.
    pub(crate) fn find(&self, at: u64) -> Found {
        if at < self.first {
            return Found::Behind;
        }
        if at >= self.next {
            return if self.ended { Found::Ended } else { Found::AtEnd(self.next) };
        }
        let from = self.frames.partition_point(|frame| frame.sequence() < at);
        let taken = portion(self.frames.range(from..));
        let all = from + taken.len() == self.frames.len();
        let next = taken.last().filter(|_| !all).map_or(self.next, |last| last.sequence() + 1);
        Found::Frames(taken, next)
    }

    /// Takes in what was read up to `next`.
    pub(crate) fn append(&mut self, frames: Vec<Frame>, next: u64, ended: bool) {
        self.bytes += frames.iter().map(Frame::len).sum::<usize>();
        self.frames.extend(frames);
        self.next = next;
        self.ended = ended;
        self.trim();
    }

    /// Forgets everything: whoever needs it reads the journal as it is now.
    pub(crate) fn clear(&mut self) {
        self.drop_before(self.next);
    }

    /// Drops what every reader has but for a little, and what is too much.
    fn trim(&mut self) {
        let needed = self.readers.keys().next().copied().unwrap_or(self.next);
        let taken = self.frames.partition_point(|frame| frame.sequence() < needed);
        let mut taken_bytes: usize = self.frames.range(..taken).map(Frame::len).sum();
        let (mut count, mut bytes) = (self.frames.len(), self.bytes);
        let mut until = self.first;
        for (at, frame) in self.frames.iter().enumerate() {
            let spare = at < taken
                && (taken - at > limits::SPARE_FRAMES_MAX || taken_bytes > limits::SPARE_BYTES_MAX);
            // The last one stays, however large: every reader is about to take it.
            let excess = count > 1 && (count > limits::RING_FRAMES_MAX || bytes > limits::RING_BYTES_MAX);
            if !spare && !excess {
                break;
            }
            until = frame.sequence() + 1;
            (count, bytes) = (count - 1, bytes - frame.len());
            taken_bytes = taken_bytes.saturating_sub(frame.len());
        }
        self.drop_before(until);
    }

    fn drop_before(&mut self, until: u64) {
        while self.frames.front().is_some_and(|frame| frame.sequence() < until) {
            self.bytes -= self.frames.pop_front().map_or(0, |frame| frame.len());
        }
        self.first = until;
        self.readers = self.readers.split_off(&until);
    }
}

/// As many frames as go out at once, one at least.
fn portion<'a>(frames: impl Iterator<Item = &'a Frame>) -> Vec<Frame> {
    let mut bytes = 0;
    let fits = |frame: &&Frame| {
        let first = bytes == 0;
        bytes += frame.len();
        first || bytes <= limits::PORTION_BYTES_MAX
    };
    frames.take(limits::PORTION_FRAMES_MAX).take_while(fits).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(sequences: std::ops::Range<u64>, bytes: usize) -> Vec<Frame> {
        let document = vec![b'1'; bytes];
        sequences.map(|sequence| Frame::new(sequence, "node.completed", &document)).collect()
    }

    /// Reads from a place until there is nothing more in the ring.
    fn read(ring: &mut Ring, at: &mut u64) -> Vec<u64> {
        let mut read = Vec::new();
        while let Found::Frames(frames, next) = ring.find(*at) {
            read.extend(frames.iter().map(Frame::sequence));
            ring.enter(next);
            ring.leave(*at);
            *at = next;
        }
        read
    }

    #[test]
    fn of_what_everybody_has_a_little_is_kept_for_those_who_come_later() {
        let half = limits::SPARE_BYTES_MAX / 2;
        let mut ring = Ring::new(0, false);
        let (mut quick, mut slow) = (0, 0);
        ring.enter(quick);
        ring.enter(slow);
        ring.append(frames(0..4, half), 7, false);
        assert_eq!(read(&mut ring, &mut quick), [0, 1, 2, 3]);
        assert_eq!((quick, ring.frames.len()), (7, 4), "events that are not shown are passed over");
        assert_eq!(read(&mut ring, &mut slow), [0, 1, 2, 3]);
        assert_eq!((ring.frames.len(), ring.first), (1, 3));
        assert_eq!(read(&mut ring, &mut 3), [3]);
        for sequence in 7..1000 {
            ring.append(frames(sequence..sequence + 1, 1), sequence + 1, false);
            assert_eq!(read(&mut ring, &mut quick), [sequence]);
            assert_eq!(read(&mut ring, &mut slow), [sequence]);
        }
        assert_eq!(ring.frames.len(), limits::SPARE_FRAMES_MAX);
    }

    #[test]
    fn a_stalled_reader_pins_no_more_than_the_ring_holds() {
        for bytes in [1, 4000, limits::RING_BYTES_MAX * 2] {
            let mut ring = Ring::new(0, false);
            let mut quick = 0;
            ring.enter(quick);
            ring.enter(0);
            for sequence in 0..1000 {
                ring.append(frames(sequence..sequence + 1, bytes), sequence + 1, false);
                assert!(ring.frames.len() <= limits::RING_FRAMES_MAX);
                assert!(ring.bytes <= limits::RING_BYTES_MAX || ring.frames.len() == 1);
                assert_eq!(read(&mut ring, &mut quick), [sequence]);
            }
            assert!(matches!(ring.find(0), Found::Behind));
        }
    }

    #[test]
    fn a_reader_beyond_the_end_waits_and_pins_nothing() {
        let mut ring = Ring::new(2, false);
        ring.enter(10);
        assert!(matches!(ring.find(10), Found::AtEnd(2)));
        ring.append(frames(2..5, limits::SPARE_BYTES_MAX), 5, false);
        assert_eq!(ring.frames.len(), 0);
        ring.append(frames(5..12, 1), 12, true);
        assert_eq!(read(&mut ring, &mut 10), [10, 11]);
        assert!(matches!(ring.find(12), Found::Ended));
    }

    #[test]
    fn large_frames_go_out_one_by_one() {
        let mut ring = Ring::new(0, false);
        ring.enter(0);
        ring.append(frames(0..3, limits::PORTION_BYTES_MAX / 2), 3, false);
        let Found::Frames(taken, next) = ring.find(0) else { panic!("there are frames") };
        assert_eq!((taken.len(), next), (1, 1));
    }
}
