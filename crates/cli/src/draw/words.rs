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

/// JSON that says the same without characters that [`legible`] would replace. They can only stand in its strings,
/// and there each has another spelling.
pub(crate) fn escaped(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if cells(c) > 0 || matches!(c, '\n' | '\r' | '\t') {
            safe.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| safe += &format!("\\u{unit:04x}"));
        }
    }
    safe
}

/// How many columns of a terminal the text takes.
pub(crate) fn width(text: &str) -> usize {
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

/// The text in at most `max` columns. A longer one loses its end, as sentences can.
pub(crate) fn clip(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let Some(room) = max.checked_sub(1) else { return String::new() };
    within(text.chars(), room).collect::<String>() + "…"
}

fn within(chars: impl Iterator<Item = char>, mut room: usize) -> impl Iterator<Item = char> {
    chars.map_while(move |c| {
        room = room.checked_sub(cells(c))?;
        Some(c)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn long_texts_lose_their_middle_or_their_end() {
        assert_eq!((shorten("abcdefg", 5), clip("abcdefg", 5)), ("ab…fg".to_owned(), "abcd…".to_owned()));
        assert_eq!(
            (clip("✓漢字", 3), clip("ab", 2), clip("ab", 0)),
            ("✓…".into(), "ab".into(), String::new())
        );
    }

    #[test]
    fn escaped_json_says_the_same() {
        let value = json!({ "a\u{9b}": "\u{7f}\u{202e}\u{e0001}é\n", "b": ["✓", 1.5] });
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let safe = escaped(&pretty);
        assert_eq!(serde_json::from_str::<Value>(&safe).unwrap(), value);
        assert!(safe.chars().all(|c| c == '\n' || cells(c) > 0), "{safe:?}");
        assert!(safe.contains("\\udb40\\udc01"), "{safe}");
        assert_eq!(escaped("{\r\n\t\"é\": 1}"), "{\r\n\t\"é\": 1}");
    }
}
