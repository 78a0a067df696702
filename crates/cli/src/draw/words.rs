//! Words from a definition made safe to show: one line, known width, no control characters.

use unicode_width::UnicodeWidthChar;

/// Stands for a character that can't be shown.
const UNKNOWN: char = '\u{FFFD}';

/// The text on one line. Characters without a width of their own are replaced: among them are escape
/// sequences, which would command the terminal, and marks that turn the direction of writing around.
pub(crate) fn legible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_whitespace() => ' ',
            '\u{FFFE}' | '\u{FFFF}' => UNKNOWN,
            c if cells(c) == 0 => UNKNOWN,
            c => c,
        })
        .collect()
}

/// How many columns of a terminal the text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// How many columns of a terminal the character takes.
pub(super) fn cells(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// The text in at most `max` columns. A longer one loses its middle, since ids often differ at their ends.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let Some(room) = max.checked_sub(1) else { return String::new() };
    let head: String = within(text.chars(), room - room / 2).collect();
    let mut tail: Vec<char> = within(text.chars().rev(), room / 2).collect();
    tail.reverse();
    head + "…" + &String::from_iter(tail)
}

fn within(chars: impl Iterator<Item = char>, mut room: usize) -> impl Iterator<Item = char> {
    chars.map_while(move |c| {
        room = room.checked_sub(cells(c))?;
        Some(c)
    })
}
