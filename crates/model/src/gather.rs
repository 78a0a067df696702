//! Gathers what a model says into chunks: the first at once, the others once they are large or old enough.
//!
//! Whoever takes the chunks makes each durable before anybody sees it, so a chunk for every word would be a commit for
//! every word.

use std::collections::VecDeque;
use std::time::Duration;

use abide_core::ChunkKind;
use tokio::time::Instant;

use crate::limits::{CHUNK_BYTES, CHUNK_BYTES_MAX, CHUNK_MS};

/// A part of what a model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// What it is a part of.
    pub kind: ChunkKind,
    /// Its words. Only the last one may have none.
    pub text: String,
    /// The model has said all.
    pub is_last: bool,
}

/// What was said and not handed out yet.
#[derive(Default)]
pub(crate) struct Gather {
    waiting: VecDeque<(Chunk, Instant)>,
    /// What was handed out last, if anything was.
    handed: Option<ChunkKind>,
}

impl Gather {
    /// Takes more of what is said.
    pub(crate) fn push(&mut self, kind: ChunkKind, mut text: &str, now: Instant) {
        while !text.is_empty() {
            let room = match self.waiting.back_mut() {
                Some((chunk, _)) if chunk.kind == kind => {
                    let room = text.floor_char_boundary(CHUNK_BYTES_MAX - chunk.text.len());
                    chunk.text.push_str(&text[..room]);
                    room
                }
                _ => 0,
            };
            text = &text[room..];
            if !text.is_empty() {
                let due = now + Duration::from_millis(CHUNK_MS);
                self.waiting.push_back((Chunk { kind, text: String::new(), is_last: false }, due));
            }
        }
    }

    /// A chunk that need not wait any longer.
    pub(crate) fn ready(&mut self, now: Instant) -> Option<Chunk> {
        let (chunk, due) = self.waiting.front()?;
        let is_first = self.handed.is_none();
        let is_full = self.waiting.len() > 1 || chunk.text.len() >= CHUNK_BYTES;
        (is_first || is_full || *due <= now).then(|| self.hand_out()).flatten()
    }

    /// When there will be one.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, due)| *due)
    }

    /// Whatever is left. With `complete`, the last is marked as such, even if it has to be made for that.
    pub(crate) fn rest(mut self, complete: bool) -> Vec<Chunk> {
        let mut rest: Vec<Chunk> = std::iter::from_fn(|| self.hand_out()).collect();
        if let Some(kind) = self.handed.filter(|_| complete && rest.is_empty()) {
            rest.push(Chunk { kind, text: String::new(), is_last: true });
        }
        rest.last_mut().into_iter().for_each(|last| last.is_last = complete);
        rest
    }

    fn hand_out(&mut self) -> Option<Chunk> {
        let (chunk, _) = self.waiting.pop_front()?;
        self.handed = Some(chunk.kind);
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkKind::{Reasoning, Text};
    use super::*;

    fn chunk(kind: ChunkKind, text: &str, is_last: bool) -> Chunk {
        Chunk { kind, text: text.to_owned(), is_last }
    }

    #[test]
    fn the_first_words_are_handed_out_at_once_and_later_ones_when_they_are_due() {
        let (mut gather, now) = (Gather::default(), Instant::now());
        gather.push(Text, "a", now);
        assert_eq!(gather.ready(now), Some(chunk(Text, "a", false)));
        gather.push(Text, "b", now);
        gather.push(Text, "c", now + Duration::from_millis(CHUNK_MS - 1));
        assert_eq!(gather.ready(now + Duration::from_millis(CHUNK_MS - 1)), None);
        assert_eq!(gather.due(), Some(now + Duration::from_millis(CHUNK_MS)));
        assert_eq!(gather.ready(now + Duration::from_millis(CHUNK_MS)), Some(chunk(Text, "bc", false)));
        assert_eq!((gather.due(), gather.ready(now)), (None, None));
    }

    #[test]
    fn a_chunk_that_is_full_or_over_does_not_wait() {
        let (mut gather, now) = (Gather::default(), Instant::now());
        gather.push(Reasoning, "hm", now);
        assert!(gather.ready(now).is_some());
        gather.push(Reasoning, "so", now);
        gather.push(Text, "yes", now);
        assert_eq!(gather.ready(now), Some(chunk(Reasoning, "so", false)), "something else is said by now");
        assert_eq!(gather.ready(now), None);
        gather.push(Text, &"x".repeat(CHUNK_BYTES), now);
        assert_eq!(gather.ready(now).unwrap().text.len(), CHUNK_BYTES + 3);
    }

    #[test]
    fn the_last_chunk_of_a_complete_answer_is_marked() {
        let now = Instant::now();
        assert_eq!(Gather::default().rest(true), [], "nothing was said");
        let mut gather = Gather::default();
        gather.push(Text, "a", now);
        gather.push(Reasoning, "b", now);
        assert_eq!(gather.rest(true), [chunk(Text, "a", false), chunk(Reasoning, "b", true)]);
        let mut gather = Gather::default();
        gather.push(Text, "a", now);
        assert!(gather.ready(now).is_some());
        assert_eq!(gather.rest(true), [chunk(Text, "", true)]);
        let mut gather = Gather::default();
        gather.push(Text, "a", now);
        assert_eq!(gather.rest(false), [chunk(Text, "a", false)], "it broke off");
    }

    #[test]
    fn what_comes_at_once_is_cut_between_characters_and_nothing_is_lost() {
        let (mut gather, now) = (Gather::default(), Instant::now());
        let text = format!("x{}", "é".repeat(CHUNK_BYTES_MAX));
        gather.push(Text, &text, now);
        let chunks = gather.rest(true);
        assert!(chunks.iter().all(|chunk| chunk.text.len() <= CHUNK_BYTES_MAX));
        assert_eq!(chunks.into_iter().map(|chunk| chunk.text).collect::<String>(), text);
    }
}
