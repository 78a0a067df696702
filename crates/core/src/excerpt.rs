//! The beginning of a text, short enough for a message.
//!
//! Values come from users and may be megabytes long: a message names them by their first characters.

use std::fmt::{self, Display, Write};

/// Bytes of a value that a message repeats.
const EXCERPT_BYTES: usize = 80;

/// The first characters of what `value` displays, with an ellipsis where something was left out.
///
/// Writing stops at the limit, so the cost does not grow with the value.
pub(crate) fn excerpt(value: impl Display) -> String {
    excerpt_of(value, EXCERPT_BYTES)
}

/// Like [`excerpt`], with a limit of the caller's.
pub(crate) fn excerpt_of(value: impl Display, bytes_max: usize) -> String {
    let mut excerpt = Excerpt { text: String::new(), bytes_max };
    if write!(excerpt, "{value}").is_err() {
        excerpt.text.push('…');
    }
    excerpt.text
}

struct Excerpt {
    text: String,
    bytes_max: usize,
}

impl Write for Excerpt {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = self.bytes_max - self.text.len();
        let end = more.floor_char_boundary(room);
        self.text.push_str(&more[..end]);
        if end < more.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_kept_and_a_long_one_is_cut_between_characters() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt_of("äöü", 3), "ä…");
        assert_eq!(excerpt("x".repeat(81)).chars().count(), 81);
    }
}
